//! Chains over NFs of one core, in a model: weights and backpressure together, with what packets do between
//! them. A packet is a fraction here, a step 100 us; nothing is left to chance.
//!
//! The chains are symmetric: `one` passes a light NF and a heavy one, `three` passes another pair of the same
//! costs, and `two` passes both heavy ones. So two NFs are overloaded at once, and each sheds packets of
//! `two`.

use std::collections::VecDeque;
use std::vec::Vec;

use super::tests::NF;
use super::*;
use crate::decision::Decision;
use crate::pressure::{self, Feeder, HopPressure, QueueMarks, Shed, came_for};
use crate::units::{Instant, Ticks};

/// A step of the model, and microseconds of it, which are its ticks.
const STEP: Span = Span::from_micros(100);
const STEP_TICKS: u64 = 100;
/// Places of a ring, and time for which a queue must be long, as by default.
const RING: f64 = 4096.0;
const PATIENCE: Ticks = Ticks(200);
/// Costs of the NFs: light, heavy, light, heavy.
const COSTS: [u64; 4] = [100, 500, 100, 500];
/// Chains: their NFs.
const CHAINS: [&[usize]; 3] = [&[0, 1], &[1, 3], &[2, 3]];
/// Packets offered to each chain in a step: 2 million a second.
const OFFERED: f64 = 200.0;

/// Packets in a ring: chain and number, in their order.
type Ring = VecDeque<(usize, f64)>;

struct World {
    weights: Weights,
    now: Instant,
    costs: [u64; 4],
    rings: [Ring; 4],
    loads: [pressure::Load; 4],
    shares: [f64; 4],
    delivered: [f64; 4],
    full: [f64; 4],
    throttled: [f64; 4],
    /// Packets that left each chain, in each 10 ms.
    left: Vec<[f64; 3]>,
}

impl World {
    fn new(costs: [u64; 4]) -> Self {
        let rules = Rules { weighs: true, every: Span::from_millis(10), claim_cores: 4 };
        let mut world = Self {
            weights: Weights::new(rules),
            now: Instant(0),
            costs,
            rings: Default::default(),
            loads: Default::default(),
            shares: [1.0; 4],
            delivered: [0.0; 4],
            full: [0.0; 4],
            throttled: [0.0; 4],
            left: Vec::new(),
        };
        for at in 0..4 {
            let instance = InstanceId(at as u16);
            world.tell(Event::Begins { instance, nf: NF });
            let feeds = CHAINS.iter().any(|chain| chain[0] == at);
            world.tell(Event::Feeds { instance, feeds });
            world.tell(Event::Ready(instance));
        }
        world
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.weights.on(self.now, event, &mut actions);
        self.apply(actions);
    }

    fn apply(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::SampleLoads => (0..4).for_each(|at| self.sample_load(at)),
                Action::SampleCosts => (0..4).for_each(|at| self.sample_cost(at)),
                Action::Enter(instance) => self.tell(Event::Entered(instance)),
                Action::Write { instance, share, .. } => self.shares[instance.index()] = f64::from(share),
                Action::Report(report) => panic!("{report:?}"),
            }
        }
    }

    fn sample_load(&mut self, at: usize) {
        let load = Load {
            delivered: self.delivered[at] as u64,
            full: self.full[at] as u64,
            throttled: self.throttled[at] as u64,
            late: 0,
            backlog: self.depth(at) as u32,
        };
        self.tell(Event::Load { instance: InstanceId(at as u16), load });
    }

    fn sample_cost(&mut self, at: usize) {
        let instance = InstanceId(at as u16);
        self.tell(Event::ServiceTime { instance, time: Span(self.costs[at]), count: 20 });
        self.tell(Event::Costs { instance, account: None });
    }

    fn depth(&self, at: usize) -> f64 {
        self.rings[at].iter().map(|(_, count)| count).sum()
    }

    fn pressure(&self, nf: usize) -> HopPressure {
        HopPressure { throttled: self.loads[nf].is_throttled(), diverts: false, spreads: false }
    }

    /// Puts packets into a ring, as far as there is room.
    fn deliver(&mut self, nf: usize, chain: usize, count: f64) {
        let fits = count.min((RING - self.depth(nf)).max(0.0));
        self.delivered[nf] += fits;
        self.full[nf] += count - fits;
        self.rings[nf].push_back((chain, fits));
    }

    fn admit(&mut self, chain: usize) {
        let stages = CHAINS[chain];
        let shed = pressure::shed(stages.iter().map(|&nf| self.pressure(nf)), false);
        for (number, &nf) in stages.iter().enumerate() {
            if came_for(shed, number, self.pressure(nf)) {
                self.throttled[nf] += OFFERED;
            }
        }
        if shed == Shed::Nothing {
            self.deliver(stages[0], chain, OFFERED);
        }
    }

    /// Whether an NF is blocked, because nothing it works on can pass.
    fn is_blocked(&self, nf: usize) -> bool {
        let ways = CHAINS.iter().filter_map(|chain| {
            let at = chain.iter().position(|stage| *stage == nf)?;
            Some(chain[at + 1..].iter().any(|&later| self.loads[later].is_throttled()))
        });
        pressure::is_blocked(
            Feeder { is_judged: true, sleeps: true, diverts: false, is_on_its_way: false },
            ways,
        )
    }

    /// Gives the core to the NFs that have work, by their shares, until the step is over or none has any.
    fn work(&mut self) {
        let mut time = STEP.0 as f64;
        let mut done = [0.0; 4];
        loop {
            let ready: Vec<usize> =
                (0..4).filter(|&at| !self.is_blocked(at) && self.depth(at) - done[at] > 1e-6).collect();
            let shares: f64 = ready.iter().map(|&at| self.shares[at]).sum();
            if ready.is_empty() || time < 1.0 {
                break;
            }
            let mut used = 0.0;
            for at in ready {
                let (part, cost) = (time * self.shares[at] / shares, self.costs[at] as f64);
                let count = (part / cost).min(self.depth(at) - done[at]);
                done[at] += count;
                used += count * cost;
            }
            time -= used;
        }
        for (at, count) in done.into_iter().enumerate() {
            self.pass_on(at, count);
        }
    }

    fn pass_on(&mut self, nf: usize, mut count: f64) {
        while count > 1e-9 {
            let Some((chain, there)) = self.rings[nf].pop_front() else { return };
            let taken = there.min(count);
            count -= taken;
            if there > taken {
                self.rings[nf].push_front((chain, there - taken));
            }
            let stages = CHAINS[chain];
            match stages.iter().skip_while(|stage| **stage != nf).nth(1) {
                Some(&next) => self.deliver(next, chain, taken),
                None => self.left.last_mut().unwrap()[chain] += taken,
            }
        }
    }

    fn step(&mut self) {
        if self.now.0.is_multiple_of(Span::from_millis(10).0) {
            self.left.push([0.0; 3]);
        }
        (0..3).for_each(|chain| self.admit(chain));
        self.work();
        let marks = QueueMarks::new(RING as u32, 80, 60, PATIENCE, Ticks::from_span(pressure::TICK, 1));
        let now = Ticks(self.now.0 / STEP.0 * STEP_TICKS);
        for at in 0..4 {
            self.loads[at] = pressure::step(self.loads[at], self.depth(at) as u32, now, &marks);
        }
        self.now = self.now + STEP;
        while self.weights.poll_at().is_some_and(|at| at.is_due(self.now)) {
            let mut actions = Vec::new();
            self.weights.poll(self.now, &(), &mut actions);
            self.apply(actions);
        }
    }

    /// Runs for so long. Returns packets that left each chain in each 10 ms of it.
    fn run(&mut self, span: Span) -> Vec<[f64; 3]> {
        let before = self.left.len();
        (0..span.0 / STEP.0).for_each(|_| self.step());
        self.left[before..].to_vec()
    }
}

fn mean(windows: &[[f64; 3]], chain: usize) -> f64 {
    windows.iter().map(|window| window[chain]).sum::<f64>() / windows.len() as f64
}

/// Standard deviation over mean, of means over 100 ms.
fn variation(windows: &[[f64; 3]], chain: usize) -> f64 {
    let means: Vec<f64> = windows.chunks(10).map(|some| mean(some, chain)).collect();
    let all = mean(windows, chain);
    let squares = means.iter().map(|one| (one - all).powi(2)).sum::<f64>();
    (squares / means.len() as f64).sqrt() / all
}

/// Part of the core that went into packets which left.
fn useful(world: &World, windows: &[[f64; 3]]) -> f64 {
    let cost = |chain: &[usize]| chain.iter().map(|&nf| world.costs[nf] as f64).sum::<f64>();
    let work = |at: usize| mean(windows, at) * cost(CHAINS[at]);
    (0..3).map(work).sum::<f64>() / Span::from_millis(10).0 as f64
}

fn assert_alike(world: &World, windows: &[[f64; 3]]) {
    let means = [0, 1, 2].map(|chain| mean(windows, chain));
    let [one, two, three] = means;
    assert!((one / three - 1.0).abs() <= 0.1, "symmetric chains differ: {means:?}");
    assert!(two > 0.0 && useful(world, windows) > 0.95, "{means:?}: {}", useful(world, windows));
    for chain in [0, 2] {
        assert!(variation(windows, chain) <= 0.1, "chain {chain} swings: {}", variation(windows, chain));
    }
}

/// While packets that were shed counted for the first NF of their chain alone, `one` had five times what
/// `three` had, and ever more: `two` begins at the heavy NF of `one`.
#[test]
fn symmetric_chains_over_two_bottlenecks_are_served_alike() {
    let mut world = World::new(COSTS);
    world.run(Span::from_secs(1));
    for _ in 0..3 {
        let windows = world.run(Span::from_secs(2));
        assert_alike(&world, &windows);
    }
}

#[test]
fn a_chain_whose_bottleneck_becomes_faster_has_its_part_within_50_ms() {
    let mut costs = COSTS;
    costs[1] *= 5;
    let mut world = World::new(costs);
    let slow = world.run(Span::from_secs(2));
    world.costs = COSTS;
    let after = world.run(Span::from_secs(3));
    let (settled, soon) = (&after[100..], &after[5..15]);
    assert_alike(&world, settled);
    assert!(mean(soon, 0) >= 0.9 * mean(settled, 0), "{} of {}", mean(soon, 0), mean(settled, 0));
    assert!(mean(&slow[100..], 0) < 0.5 * mean(settled, 0), "it was slow");
}
