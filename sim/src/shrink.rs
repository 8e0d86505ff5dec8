//! Shrinking: a small scene in which the same rule does not hold, from a large one.
//!
//! The greatest steps come first: only some of the NFs, all in one chain or in what is left of theirs, which
//! makes three of eight at once and does not stop where each single NF seems needed. Then lists are
//! shortened by one, and what is left is made plain: defaults, one core, round numbers. A step is kept if
//! the rule still does not hold, and all steps are tried again until none is.

use headgate_decide::units::Span;

use crate::checker::{Rule, Violation};
use crate::costs::Costs;
use crate::scene::{Arrivals, Chain, Cost, Flow, Idle, Nf, Policy, Scene, Scheduler, Waits};

/// NFs that are kept in the first steps.
const KEPT: u32 = 3;
/// Time that is kept behind the moment at which something was seen.
const BEHIND: Span = Span::from_millis(1);

/// A scene that was made small.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunk {
    /// The scene.
    pub scene: Scene,
    /// What does not hold in it.
    pub violation: Violation,
    /// Scenes that were tried.
    pub tried: u32,
}

/// Makes a scene small in which `rule` does not hold. `judge` returns what does not hold in a scene. Returns
/// `None` if the rule holds.
pub fn shrink(scene: &Scene, rule: Rule, mut judge: impl FnMut(&Scene) -> Vec<Violation>) -> Option<Shrunk> {
    let mut fails = |scene: &Scene| judge(scene).into_iter().find(|violation| violation.rule == rule);
    let mut best = Shrunk { scene: scene.clone(), violation: fails(scene)?, tried: 1 };
    loop {
        let mut is_smaller = false;
        for candidate in candidates(&best) {
            if candidate == best.scene || !candidate.mistakes().is_empty() {
                continue;
            }
            best.tried += 1;
            if let Some(violation) = fails(&candidate) {
                (best.scene, best.violation) = (candidate, violation);
                is_smaller = true;
                break;
            }
        }
        if !is_smaller {
            return Some(best);
        }
    }
}

/// Returns scenes that are smaller, the smallest first.
fn candidates(best: &Shrunk) -> Vec<Scene> {
    let scene = &best.scene;
    let mut all = Vec::new();
    all.extend(shorter(scene, &best.violation));
    all.extend(with_some_nfs(scene));
    all.extend(with_one_less(scene));
    all.extend(plainer(scene));
    all.extend((0..scene.nfs.len()).flat_map(|nf| with_plainer_nf(scene, nf)));
    all.extend((0..scene.flows.len()).flat_map(|flow| with_plainer_flow(scene, flow)));
    all
}

/// Returns a scene that ends when the violation was seen.
fn shorter(scene: &Scene, violation: &Violation) -> Option<Scene> {
    let horizon = Span(violation.at_ns) + BEHIND;
    let is_shorter = violation.at_ns > 0 && horizon < scene.warm_up + scene.horizon;
    is_shorter.then(|| Scene { warm_up: Span::ZERO, horizon, ..scene.clone() })
}

/// Returns scenes with few of the NFs: those of chains that are left, and all in one chain.
fn with_some_nfs(scene: &Scene) -> Vec<Scene> {
    let count = scene.nfs.len() as u32;
    let subsets = |size: u32| (1u64..1 << count.min(16)).filter(move |set| set.count_ones() == size);
    let sizes = (1..=KEPT.min(count.saturating_sub(1))).chain((KEPT + 1..count).rev());
    let mut all = Vec::new();
    for set in sizes.flat_map(subsets) {
        let kept = keep_nfs(scene, set);
        if kept.chains.len() > 1 {
            all.push(in_one_chain(&kept));
        }
        all.push(kept);
    }
    all
}

/// Returns a scene with the NFs of a set, in chains that are left.
fn keep_nfs(scene: &Scene, set: u64) -> Scene {
    let is_kept = |nf: u16| set >> nf & 1 == 1;
    let number = |nf: u16| (set & ((1 << nf) - 1)).count_ones() as u16;
    let mut kept = scene.clone();
    kept.faults.retain(|fault| is_kept(fault.nf));
    kept.faults.iter_mut().for_each(|fault| fault.nf = number(fault.nf));
    kept.nfs = scene
        .nfs
        .iter()
        .enumerate()
        .filter(|(nf, _)| is_kept(*nf as u16))
        .map(|(_, nf)| nf.clone())
        .collect();
    for chain in &mut kept.chains {
        chain.stages = chain.stages.iter().filter(|nf| is_kept(**nf)).map(|nf| number(*nf)).collect();
    }
    while let Some(empty) = kept.chains.iter().position(|chain| chain.stages.is_empty()) {
        kept = without_chain(&kept, empty);
    }
    kept
}

/// Returns a scene in which one chain passes all NFs, in the order in which chains do, and has all flows.
fn in_one_chain(scene: &Scene) -> Scene {
    let mut stages: Vec<u16> = Vec::new();
    for nf in scene.chains.iter().flat_map(|chain| &chain.stages) {
        if !stages.contains(nf) {
            stages.push(*nf);
        }
    }
    let chains = vec![Chain { stages, ..scene.chains[0].clone() }];
    let flows = scene.flows.iter().map(|flow| Flow { chain: 0, ..flow.clone() }).collect();
    Scene { chains, flows, ..scene.clone() }
}

fn without_chain(scene: &Scene, number: usize) -> Scene {
    let mut left = scene.clone();
    left.chains.remove(number);
    // Numbers of flows change.
    left.rates.clear();
    left.flows.retain(|flow| usize::from(flow.chain) != number);
    for flow in &mut left.flows {
        flow.chain -= u16::from(usize::from(flow.chain) > number);
    }
    left
}

/// Returns scenes without one of the chains, flows, stages or changes.
fn with_one_less(scene: &Scene) -> Vec<Scene> {
    let mut all: Vec<Scene> = (0..scene.chains.len()).map(|number| without_chain(scene, number)).collect();
    let mut with = |change: &dyn Fn(&mut Scene)| {
        let mut changed = scene.clone();
        change(&mut changed);
        all.push(changed);
    };
    for flow in 0..scene.flows.len() {
        with(&|scene| {
            scene.flows.remove(flow);
            scene.rates.clear();
        });
    }
    for fault in 0..scene.faults.len() {
        with(&|scene| {
            scene.faults.remove(fault);
        });
    }
    for (number, chain) in scene.chains.iter().enumerate().filter(|(_, chain)| chain.stages.len() > 1) {
        for stage in 0..chain.stages.len() {
            with(&|scene| {
                scene.chains[number].stages.remove(stage);
            });
        }
    }
    all
}

/// Returns scenes with defaults for what concerns all NFs.
fn plainer(scene: &Scene) -> Vec<Scene> {
    let default = Scheduler::default();
    let of = &scene.scheduler;
    let schedulers = [
        Scheduler { weighs: of.weighs, presses_back: of.presses_back, slices: of.slices, ..default.clone() },
        Scheduler { weighs: false, ..of.clone() },
        Scheduler { presses_back: false, ..of.clone() },
        Scheduler {
            high_watermark: default.high_watermark,
            low_watermark: default.low_watermark,
            ..of.clone()
        },
        Scheduler { queue_time: default.queue_time, ..of.clone() },
        Scheduler { pending: default.pending, ..of.clone() },
        Scheduler { weights_every: default.weights_every, claim_cores: default.claim_cores, ..of.clone() },
        Scheduler { gamma_percent: default.gamma_percent, occupancy: default.occupancy, ..of.clone() },
    ];
    let mut all: Vec<Scene> =
        schedulers.into_iter().map(|scheduler| Scene { scheduler, ..scene.clone() }).collect();
    all.push(Scene { costs: Costs::default(), ..scene.clone() });
    let mut on_one_core = scene.clone();
    on_one_core.nfs.iter_mut().for_each(|nf| nf.core = 0);
    all.push(on_one_core);
    all.push(with_one_worker(scene));
    all.push(Scene { idle: Idle::Spin, ..scene.clone() });
    let mut in_one_domain = Scene { domains: Vec::new(), ..scene.clone() };
    in_one_domain.nfs.iter_mut().for_each(|nf| nf.domain = 0);
    all.push(in_one_domain);
    let mut without_bounds = scene.clone();
    without_bounds.chains.iter_mut().for_each(|chain| chain.bound = None);
    all.push(without_bounds);
    let mut of_one_priority = scene.clone();
    of_one_priority.nfs.iter_mut().for_each(|nf| nf.rt_priority = 1);
    all.push(of_one_priority);
    // Whatever is chosen, the scene does not grow again: it is as it was, or plainer.
    all.retain(|one| plainness(one) > plainness(scene));
    all
}

fn with_one_worker(scene: &Scene) -> Scene {
    let mut with_one = Scene { workers: 1, ..scene.clone() };
    for nf in &mut with_one.nfs {
        nf.worker = 0;
        nf.instances.iter_mut().for_each(|place| place.worker = 0);
    }
    with_one.flows.iter_mut().for_each(|flow| flow.worker = 0);
    with_one.chains.iter_mut().for_each(|chain| chain.exit = None);
    with_one
}

/// Returns how many of the values that [`plainer`] changes are as plain as they can be.
fn plainness(scene: &Scene) -> u32 {
    let (of, default) = (&scene.scheduler, Scheduler::default());
    let plain = [
        !of.weighs,
        !of.presses_back,
        of.high_watermark == default.high_watermark && of.low_watermark == default.low_watermark,
        of.queue_time == default.queue_time,
        of.pending == default.pending,
        of.weights_every == default.weights_every && of.claim_cores == default.claim_cores,
        of.gamma_percent == default.gamma_percent && of.occupancy == default.occupancy,
        scene.costs == Costs::default(),
        scene.nfs.iter().all(|nf| nf.core == 0),
        scene.workers == 1,
        scene.idle == Idle::Spin,
        scene.domains.is_empty(),
        scene.chains.iter().all(|chain| chain.bound.is_none()),
        scene.nfs.iter().all(|nf| nf.rt_priority == 1),
    ];
    plain.into_iter().map(u32::from).sum()
}

fn with_plainer_nf(scene: &Scene, number: usize) -> Vec<Scene> {
    let nf = &scene.nfs[number];
    let mut plain = vec![
        Nf { changes: Vec::new(), ..nf.clone() },
        Nf { instances: Vec::new(), ..nf.clone() },
        Nf { pauses: None, ..nf.clone() },
        Nf { slice: None, ..nf.clone() },
        Nf { priority: 1, ..nf.clone() },
        Nf { ring: nf.ring.min(4096), ..nf.clone() },
        Nf { cost: Cost::Fixed(rounded(mean(&nf.cost))), ..nf.clone() },
    ];
    if nf.policy != Policy::Normal {
        plain.push(Nf { policy: Policy::Normal, ..nf.clone() });
    }
    if nf.waits != Waits::Notified {
        plain.push(Nf { waits: Waits::Notified, ..nf.clone() });
    }
    let with = |nf| {
        let mut changed = scene.clone();
        changed.nfs[number] = nf;
        changed
    };
    plain.into_iter().map(with).collect()
}

fn with_plainer_flow(scene: &Scene, number: usize) -> Vec<Scene> {
    let flow = &scene.flows[number];
    let rate = flow.arrivals.rate().unwrap_or(1_000_000);
    let plain = [
        Flow { flows: 1, ..flow.clone() },
        Flow { bytes: 64, ..flow.clone() },
        Flow { arrivals: Arrivals::Constant { rate }, ..flow.clone() },
        Flow { arrivals: Arrivals::Constant { rate: rounded(rate) }, ..flow.clone() },
    ];
    let with = |flow| {
        let mut changed = scene.clone();
        changed.flows[number] = flow;
        changed
    };
    plain.into_iter().map(with).collect()
}

/// Returns a number with one digit that is not 0.
fn rounded(number: u64) -> u64 {
    let size = 10u64.pow(number.max(1).ilog10());
    number / size * size
}

fn mean(cost: &Cost) -> u64 {
    match cost {
        Cost::Fixed(cycles) | Cost::Exponential { mean: cycles } => *cycles,
        Cost::Uniform { least, most } => u64::midpoint(*least, *most),
        Cost::BySize(steps) => steps.first().map_or(0, |(_, cycles)| *cycles),
        Cost::OneOf(choices) => {
            let weights: u64 = choices.iter().map(|(_, weight)| u64::from(*weight)).sum();
            choices.iter().map(|(cycles, weight)| cycles * u64::from(*weight)).sum::<u64>() / weights.max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_made_round_and_never_larger() {
        assert_eq!([0, 7, 10, 14_880_952].map(rounded), [0, 7, 10, 10_000_000]);
        assert_eq!(mean(&Cost::OneOf(vec![(10, 3), (50, 1)])), 20);
    }

    /// Each step is one that is not taken back, or shrinking would never end.
    #[test]
    fn what_is_small_is_left_alone() {
        let scene = crate::swarm::scene(3);
        let always = |_: &Scene| vec![Violation { rule: Rule::Order, at_ns: 5_000_000, what: String::new() }];
        let small = shrink(&scene, Rule::Order, always).expect("it fails");
        assert_eq!((small.scene.nfs.len(), small.scene.flows.len()), (1, 0), "{:?}", small.scene);
        assert_eq!(small.scene.horizon, Span::from_millis(6));
        assert_eq!(shrink(&scene, Rule::Order, |_| Vec::new()), None);
    }
}
