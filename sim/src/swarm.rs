//! The swarm: scenes that seeds choose, judged by the checkers.
//!
//! The problem: a scenario shows what its author thought of. The intuition: topologies, costs, traffic and
//! policies that nobody would write down meet each other in some of many small scenes. A scene is short: what
//! the checkers look for shows within some tens of milliseconds, and many short scenes find more than a long
//! one.
//!
//! Each property is drawn from a stream of its own, so that a new one changes no other of a seed. What is
//! drawn are mostly the extremes and the defaults: rings that are full at once, costs of nearly nothing,
//! watermarks side by side.

use std::panic::{AssertUnwindSafe, catch_unwind};

use headgate_decide::units::Span;

use crate::checker::{Rule, Violation};
use crate::costs::Costs;
use crate::random::Random;
use crate::scene::{
    Arrivals, Chain, Change, Cost, Fault, Flow, Idle, Misfortune, Nf, Pauses, Place, Policy, Scene,
    Scheduler, Waits,
};
use crate::world::{Resolution, World};

/// The first random stream of the swarm; those of a scene's own entities are below.
const SWARM: u64 = 1 << 40;
/// Most of each in a scene. Our choice: what goes wrong between two goes wrong among eight.
const CORES: u64 = 3;
const NFS: u64 = 8;
const CHAINS: u64 = 4;
const FLOWS: u64 = 3;

/// Returns the scene of a seed.
#[must_use]
pub fn scene(seed: u64) -> Scene {
    let stream = |property: u64| Random::stream(seed, SWARM + property);
    let slices = stream(0).below(6) == 0;
    let nfs = nfs(&mut stream(1), slices);
    let chains = chains(&mut stream(2), nfs.len() as u64);
    let flows = flows(&mut stream(3), chains.len() as u64);
    let mut scene = Scene {
        seed,
        warm_up: Span::ZERO,
        horizon: Span::from_millis(one_of(&mut stream(4), &[20, 40, 40, 80, 200])),
        costs: costs(&mut stream(5)),
        scheduler: scheduler(&mut stream(6), slices),
        workers: 1,
        idle: Idle::Spin,
        domains: Vec::new(),
        nfs,
        chains,
        flows,
        faults: Vec::new(),
        captures: Vec::new(),
        rates: Vec::new(),
    };
    share_among_workers(&mut stream(7), &mut scene);
    add_instances(&mut stream(8), &mut scene);
    if !slices {
        add_domains(&mut stream(9), &mut scene);
    }
    add_pauses(&mut stream(10), &mut scene);
    add_faults(&mut stream(11), &mut scene);
    add_bounds(&mut stream(12), &mut scene);
    add_priorities(&mut stream(13), &mut scene);
    add_rests(&mut stream(14), &mut scene);
    scene
}

/// In some scenes chains have delay bounds, kept or not to be kept.
fn add_bounds(random: &mut Random, scene: &mut Scene) {
    if random.below(5) > 0 {
        return;
    }
    for chain in &mut scene.chains {
        let us = one_of(random, &[20, 200, 2_000, 20_000]);
        chain.bound = (random.below(2) == 0).then_some(Span::from_micros(us));
    }
}

/// In some scenes workers rest.
fn add_rests(random: &mut Random, scene: &mut Scene) {
    scene.idle = one_of(random, &[Idle::Spin, Idle::Spin, Idle::Yield, Idle::Sleep]);
    let silent = random.below(2) == 0;
    scene.flows.iter_mut().for_each(|flow| flow.silent = silent);
}

/// In some scenes real-time NFs have priorities.
fn add_priorities(random: &mut Random, scene: &mut Scene) {
    if random.below(4) > 0 {
        return;
    }
    for nf in &mut scene.nfs {
        nf.rt_priority = one_of(random, &[1, 1, 2, 99]);
    }
}

/// Most scenes have one worker; with several an instance belongs to the one that its core's number says, as
/// the manager has it.
fn share_among_workers(random: &mut Random, scene: &mut Scene) {
    scene.workers = one_of(random, &[1, 1, 1, 2, 3]);
    for nf in &mut scene.nfs {
        nf.worker = nf.core % scene.workers;
    }
    for flow in &mut scene.flows {
        flow.worker = random.below(scene.workers.into()) as u16;
    }
    for chain in &mut scene.chains {
        chain.exit = (random.below(2) == 0).then(|| random.below(scene.workers.into()) as u16);
    }
    if scene.workers == 1 {
        scene.chains.iter_mut().for_each(|chain| chain.exit = None);
    }
}

/// In some scenes NFs have further instances, and flows stand for several.
fn add_instances(random: &mut Random, scene: &mut Scene) {
    if random.below(4) > 0 {
        return;
    }
    let cores = scene.nfs.iter().map(|nf| nf.core).max().unwrap_or(0) + 1;
    for nf in &mut scene.nfs {
        let further = one_of(random, &[0, 1, 1, 3]);
        let place = |_| {
            let core = random.below(cores.into()) as u16;
            Place { core, worker: core % scene.workers }
        };
        nf.instances = (0..further).map(place).collect();
    }
    for flow in &mut scene.flows {
        flow.flows = one_of(random, &[1, 4, 16]);
    }
}

/// In some scenes NFs are of several trust domains.
fn add_domains(random: &mut Random, scene: &mut Scene) {
    if random.below(5) > 0 {
        return;
    }
    scene.domains = (0..random.between(2, 3)).map(|_| one_of(random, &[1, 1, 3])).collect();
    for nf in &mut scene.nfs {
        nf.domain = random.below(scene.domains.len() as u64) as u16;
    }
}

/// In some scenes something happens to NFs.
fn add_faults(random: &mut Random, scene: &mut Scene) {
    if random.below(6) > 0 {
        return;
    }
    for _ in 0..random.between(1, 3) {
        let nf = random.below(scene.nfs.len() as u64) as usize;
        scene.faults.push(Fault {
            at: Span::from_micros(random.between(1_000, scene.horizon.0 / 1_000)),
            nf: nf as u16,
            instance: random.below(scene.nfs[nf].instances.len() as u64 + 1) as u16,
            what: one_of(
                random,
                &[Misfortune::Kill, Misfortune::Kill, Misfortune::Hang, Misfortune::Stop, Misfortune::Lie],
            ),
        });
    }
}

/// Few NFs wait in the kernel.
fn add_pauses(random: &mut Random, scene: &mut Scene) {
    for nf in &mut scene.nfs {
        let every = one_of(random, &[1, 64, 1_000]);
        let length = Span::from_micros(one_of(random, &[5, 50, 2_000]));
        nf.pauses = (random.below(12) == 0).then_some(Pauses { every, length });
    }
}

/// Returns what does not hold in a scene.
#[must_use]
pub fn judge(scene: &Scene) -> Vec<Violation> {
    judged(World::new(scene.clone(), Resolution::default()))
}

/// A run that panics is one that does not hold, and the next seed is wanted all the same.
pub(crate) fn judged(world: World) -> Vec<Violation> {
    catch_unwind(AssertUnwindSafe(|| world.judge())).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let what = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        vec![Violation { rule: Rule::Panic, at_ns: 0, what: what.unwrap_or_default() }]
    })
}

/// Returns one of several values.
fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

fn nfs(random: &mut Random, slices: bool) -> Vec<Nf> {
    let cores = random.between(1, CORES);
    // Mostly all NFs have one policy and one loop, as in a file that says nothing of them.
    let (policy, waits) = (policy(random), waits(random, slices));
    let varied = random.below(3) == 0;
    let count = one_of(random, &[1, 2, 3, 3, 4, 5, 6, NFS]);
    let nf = |number: u64| {
        let policy = if varied { self::policy(random) } else { policy };
        let waits = if varied { self::waits(random, slices) } else { waits };
        Nf {
            name: format!("nf{number}"),
            core: random.below(cores) as u16,
            worker: 0,
            ring: one_of(random, &[64, 128, 256, 512, 1024, 4096, 4096, 16_384]),
            priority: one_of(random, &[1, 1, 1, 2, 10, 100]),
            policy,
            waits,
            cost: cost(random),
            changes: changes(random),
            instances: Vec::new(),
            domain: 0,
            pauses: None,
            rt_priority: 1,
            slice: None,
        }
    };
    (0..count).map(nf).collect()
}

/// Real-time NFs are rarer than others: a core with some shows little else.
fn policy(random: &mut Random) -> Policy {
    let all =
        [Policy::Normal, Policy::Normal, Policy::Batch, Policy::Batch, Policy::RoundRobin, Policy::Fifo];
    one_of(random, &all)
}

fn waits(random: &mut Random, slices: bool) -> Waits {
    let cooperative = Waits::Cooperative { yield_after: random.between(1, 16) as u32 };
    match slices {
        true => one_of(random, &[Waits::Polling, Waits::Polling, Waits::Polling, Waits::Notified]),
        false => one_of(
            random,
            &[
                Waits::Notified,
                Waits::Notified,
                Waits::Notified,
                Waits::Notified,
                Waits::Polling,
                cooperative,
            ],
        ),
    }
}

fn cost(random: &mut Random) -> Cost {
    let cycles = cycles(random);
    match random.below(8) {
        0 => Cost::BySize(vec![(64, cycles), (512, 3 * cycles), (1500, 9 * cycles)]),
        1 => Cost::Uniform { least: cycles / 2, most: 2 * cycles },
        2 => Cost::Exponential { mean: cycles },
        3 => Cost::OneOf(vec![(cycles, 99), (100 * cycles, 1)]),
        _ => Cost::Fixed(cycles),
    }
}

/// From next to nothing to 20 us, each size as often.
fn cycles(random: &mut Random) -> u64 {
    let size = one_of(random, &[1, 10, 100, 100, 1_000, 10_000]);
    size * random.between(1, 4)
}

fn changes(random: &mut Random) -> Vec<Change> {
    match random.below(5) {
        0 => vec![Change { at: Span::from_millis(random.between(5, 30)), cost: cost(random) }],
        _ => Vec::new(),
    }
}

/// Chains over NFs in any order, so that some share NFs and some pass them the other way round.
fn chains(random: &mut Random, nfs: u64) -> Vec<Chain> {
    let count = random.between(1, CHAINS);
    let chain = |number: u64| {
        let mut left: Vec<u16> = (0..nfs as u16).collect();
        let length = random.between(1, nfs.min(5));
        let mut draw = || left.swap_remove(random.below(left.len() as u64) as usize);
        Chain {
            name: format!("chain{number}"),
            stages: (0..length).map(|_| draw()).collect(),
            exit: None,
            floor: None,
            bound: None,
            from: 0,
        }
    };
    (0..count).map(chain).collect()
}

fn flows(random: &mut Random, chains: u64) -> Vec<Flow> {
    let mut flows = Vec::new();
    for chain in 0..chains as u16 {
        for _ in 0..random.between(1, FLOWS) {
            let bytes = one_of(random, &[64, 64, 64, 594, 1518]);
            flows.push(Flow { chain, worker: 0, bytes, arrivals: arrivals(random), flows: 1, silent: false });
        }
    }
    flows
}

fn arrivals(random: &mut Random) -> Arrivals {
    let rate = one_of(random, &[1_000, 20_000, 100_000, 500_000, 1_000_000, 3_000_000, 14_880_952]);
    match random.below(4) {
        // Single packets are drawn, so the fastest are left to the others.
        0 => Arrivals::Poisson { rate: rate.min(500_000) },
        1 => {
            let times = [10, 100, 1_000, 10_000];
            let [on, off] = [one_of(random, &times), one_of(random, &times)].map(Span::from_micros);
            Arrivals::OnOff { rate, on, off }
        }
        _ => Arrivals::Constant { rate },
    }
}

/// The machine's costs, each halved, as it is, or three times as high.
fn costs(random: &mut Random) -> Costs {
    let machine = Costs::default();
    let mut scaled = |cost: u64| (cost * one_of(random, &[1, 2, 2, 2, 6]) / 2).max(1);
    Costs {
        worker_enter_ps: scaled(machine.worker_enter_ps),
        worker_shed_ps: scaled(machine.worker_shed_ps),
        worker_hop_ps: scaled(machine.worker_hop_ps),
        worker_leave_ps: scaled(machine.worker_leave_ps),
        worker_pass_ns: scaled(machine.worker_pass_ns),
        nf_packet_ps: scaled(machine.nf_packet_ps),
        nf_burst_ns: scaled(machine.nf_burst_ns),
        switch_ns: scaled(machine.switch_ns),
        yield_ns: scaled(machine.yield_ns),
        call_awake_ns: scaled(machine.call_awake_ns),
        call_idle_ns: scaled(machine.call_idle_ns),
        wake_idle_ns: scaled(machine.wake_idle_ns),
        slice_switch_ns: scaled(machine.slice_switch_ns),
        ..machine
    }
}

fn scheduler(random: &mut Random, slices: bool) -> Scheduler {
    let high = one_of(random, &[80, 80, 80, 2, 50, 99]);
    let [weighs, presses_back] =
        one_of(random, &[[true, true], [true, true], [true, false], [false, true], [false; 2]]);
    Scheduler {
        weighs: weighs && !slices,
        presses_back: presses_back && !slices,
        slices,
        high_watermark: high,
        low_watermark: one_of(random, &[60.min(high - 1), 1, high - 1]),
        queue_time: Span::from_micros(one_of(random, &[0, 100, 100, 1_000])),
        pending: one_of(random, &[0, 1, 64, 4096, 4096]),
        weights_every: Span::from_millis(one_of(random, &[1, 10, 10, 100])),
        claim_cores: one_of(random, &[1, 1, 64]),
        gamma_percent: one_of(random, &[1, 75, 75, 200]),
        occupancy: random.below(3) > 0,
        rt_percent: 100,
        ecn_mark: 0,
    }
}

#[cfg(test)]
mod tests;
