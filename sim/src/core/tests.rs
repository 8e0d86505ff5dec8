use super::*;
use crate::random::Random;
use crate::ring::Run;
use crate::scene::{Cost, Policy, Waits};

const BYTES: [u32; 1] = [64];

fn nf(waits: Waits, cycles: u64) -> crate::scene::Nf {
    crate::scene::Nf {
        name: String::new(),
        core: 0,
        worker: 0,
        ring: 4096,
        priority: 1,
        policy: Policy::Batch,
        waits,
        cost: Cost::Fixed(cycles),
        changes: Vec::new(),
        instances: Vec::new(),
        domain: 0,
        pauses: None,
        rt_priority: 1,
        slice: None,
    }
}

/// A core with NFs of these costs, and packets before each.
fn core(nfs: &[(Policy, Waits, u64, u32)], costs: &Costs) -> (Core, Vec<Nf>) {
    limited(nfs, costs, 100)
}

/// The same where real-time tasks have so many percent of a second.
fn limited(nfs: &[(Policy, Waits, u64, u32)], costs: &Costs, rt_percent: u32) -> (Core, Vec<Nf>) {
    let mut core = Core::new(0, costs, rt_percent, Random::stream(1, 99));
    let mut all = Vec::new();
    for (number, &(policy, waits, cycles, packets)) in nfs.iter().enumerate() {
        let described = crate::scene::Nf { policy, ..nf(waits, cycles) };
        core.add(number, &described, (0, 1), Instant(0));
        let mut made = Nf::new(&described, Random::stream(1, number as u64));
        if packets > 0 {
            made.receive.push(Run {
                flow: 0,
                position: 0,
                packets,
                arrived: Instant(0),
                number: 0,
                is_marked: false,
            });
        }
        all.push(made);
    }
    (core, all)
}

#[test]
fn time_on_a_core_is_somebodys() {
    let costs = Costs::default();
    let ground = Ground { costs: &costs, bytes: &BYTES };
    let nfs = [(Policy::Normal, Waits::Notified, 500, 4000), (Policy::Normal, Waits::Polling, 200, 4000)];
    let (mut core, mut all) = core(&nfs, &costs);
    for step in 1..=100 {
        core.advance(Instant(step * 123_457), &mut all, ground);
        let cpu: u64 = core.tasks.iter().map(|task| task.cpu_ns).sum();
        assert_eq!(cpu + core.counts.idle_ns, step * 123_457);
    }
    assert_eq!(all[0].counts.returned, 4000);
    assert!(all[0].waits_for_a_call(), "it sleeps when there is nothing to do");
    assert_eq!(core.counts.idle_ns, 0, "the other one polls");
}

#[test]
fn how_often_one_looks_changes_nothing() {
    let costs = Costs::default();
    let ground = Ground { costs: &costs, bytes: &BYTES };
    let nfs = [
        (Policy::Normal, Waits::Polling, 500, 60_000),
        (Policy::Batch, Waits::Cooperative { yield_after: 8 }, 200, 60_000),
        (Policy::Normal, Waits::Notified, 100, 60_000),
    ];
    let (mut once, mut of_once) = core(&nfs, &costs);
    once.advance(Instant(30_000_000), &mut of_once, ground);
    let (mut often, mut of_often) = core(&nfs, &costs);
    (1..=30_000).for_each(|step| often.advance(Instant(step * 1_000), &mut of_often, ground));
    assert_eq!(once.digest, often.digest);
    for (one, other) in of_once.iter().zip(&of_often) {
        assert_eq!(one.counts.returned, other.counts.returned);
    }
}

#[test]
fn real_time_goes_first_and_sleepers_leave_the_core() {
    let costs = Costs::default();
    let ground = Ground { costs: &costs, bytes: &BYTES };
    let nfs = [(Policy::Normal, Waits::Polling, 100, 0), (Policy::Fifo, Waits::Notified, 100, 640)];
    let (mut core, mut all) = core(&nfs, &costs);
    core.advance(Instant(30_000), &mut all, ground);
    assert_eq!(core.tasks[0].cpu_ns, 0);
    core.advance(Instant(1_000_000), &mut all, ground);
    assert_eq!(all[1].counts.returned, 640);
    assert!(core.tasks[0].cpu_ns > 900_000);
    let price = core.call(1, Instant(1_000_000), &costs);
    assert_eq!(price, costs.call_awake_ns);
    core.advance(Instant(1_010_000), &mut all, ground);
    assert_eq!((all[1].counts.sleeps, core.tasks[1].voluntary), (2, 2), "it found nothing");
}

/// With nobody else on the core it idles for what real-time tasks may not have.
#[test]
fn real_time_tasks_have_their_part_of_a_second_and_no_more() {
    let costs = Costs { tick_least_ns: 0, tick_most_ns: 0, ..Costs::default() };
    let ground = Ground { costs: &costs, bytes: &BYTES };
    for beside in [&[][..], &[(Policy::Normal, Waits::Polling, 100, 0)]] {
        let polls = (Policy::Fifo, Waits::Polling, 100, 0);
        let nfs: Vec<_> = std::iter::once(polls).chain(beside.iter().copied()).collect();
        let (mut core, mut all) = limited(&nfs, &costs, 95);
        core.advance(Instant(10_000_000_000), &mut all, ground);
        let part = core.tasks[0].cpu_ns as f64 / 1e10;
        // It is found out at a tick, and what was too much is taken off the next second.
        assert!((0.945..=0.955).contains(&part), "{part}");
        let rest = core.tasks.get(1).map_or(core.counts.idle_ns, |task| task.cpu_ns);
        assert!(rest > 440_000_000, "{rest}");
    }
}

#[test]
fn caches_that_others_used_longer_cost_more() {
    let costs = Costs { refill_ns: 10_000, refill_after_ns: 1_000_000, ..Costs::default() };
    assert_eq!([0, 100_000, 1_000_000, 9_000_000].map(|ns| costs.refill(ns)), [0, 1_000, 10_000, 10_000]);
    let nfs = [(Policy::Normal, Waits::Polling, 500, 0), (Policy::Normal, Waits::Polling, 200, 0)];
    let switching = |costs: &Costs| {
        let (mut core, mut all) = core(&nfs, costs);
        core.advance(Instant(1_000_000_000), &mut all, Ground { costs, bytes: &BYTES });
        (core.counts.switch_ns, core.counts.switches)
    };
    let without = Costs { refill_ns: 0, ..costs.clone() };
    let ((with, switches), (without, same)) = (switching(&costs), switching(&without));
    assert_eq!(switches, same, "slices of 4 ms: each lost everything but the first");
    assert!((9_000..=10_000).contains(&((with - without) / switches)), "{with} {without} {switches}");
}
