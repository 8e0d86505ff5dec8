//! A model of a core: NFs that take what they cost, rings between them, packets that come.

use super::*;
use crate::units::Rate;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

pub(super) const RULES: Rules =
    Rules { gamma_percent: GAMMA_PERCENT, occupancy: true, slice_min: Span::from_micros(10) };
const RING: u32 = 4096;

/// NFs of one core behind each other, each chain of its own; `rates` are packets that come in a microsecond.
pub(super) struct Model {
    pub(super) core: RunQueue,
    pub(super) now: Instant,
    costs_ns: Vec<u64>,
    rates: Vec<f64>,
    /// The one behind each, in its chain.
    next: Vec<Option<usize>>,
    pub(super) waiting: Vec<u32>,
    taken: Vec<u32>,
    pub(super) done: Vec<u64>,
    pub(super) dropped: u64,
    owed: Vec<f64>,
    begun_ns: Vec<u64>,
    /// Arrivals of packets before each at this core, oldest first: the time, and the number.
    ages: Vec<VecDeque<(Instant, u32)>>,
    /// The longest that a packet took, by the NF that it left last.
    pub(super) longest: Vec<Span>,
    /// Time in which some NF had a real-time priority.
    pub(super) taken_up: Span,
    /// Every action.
    pub(super) log: Vec<Choice>,
}

impl Model {
    pub(super) fn new(chains: &[&[u64]], rates: &[f64]) -> Self {
        Self::with(RULES, chains, rates)
    }

    fn with(rules: Rules, chains: &[&[u64]], rates: &[f64]) -> Self {
        Self::promised(rules, chains, rates, &[])
    }

    /// `promised` is of each chain, from the first on: packets in a microsecond, and a bound.
    pub(super) fn promised(
        rules: Rules,
        chains: &[&[u64]],
        rates: &[f64],
        promised: &[(f64, Option<Span>)],
    ) -> Self {
        let mut first = 0;
        let mut objectives = Vec::new();
        for (chain, (floor, bound)) in chains.iter().zip(promised) {
            let step = |nf| ObjectiveStep { nf, floor: Rate(floor * 1e6) };
            objectives
                .push(Objective { path: (first..first + chain.len()).map(step).collect(), bound: *bound });
            first += chain.len();
        }
        let (mut costs_ns, mut next, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (chain, rate) in chains.iter().zip(rates) {
            for (position, cost) in chain.iter().enumerate() {
                costs_ns.push(*cost);
                next.push((position + 1 < chain.len()).then_some(costs_ns.len()));
                all.push(if position == 0 { *rate } else { 0.0 });
            }
        }
        let count = costs_ns.len();
        let members = vec![Member { ring: RING, capacity: RING, cost: PacketCost::default() }; count];
        Self {
            core: RunQueue::new(rules, members, objectives),
            now: Instant(0),
            costs_ns,
            rates: all,
            next,
            waiting: vec![0; count],
            taken: vec![0; count],
            done: vec![0; count],
            dropped: 0,
            owed: vec![0.0; count],
            begun_ns: vec![0; count],
            ages: vec![VecDeque::new(); count],
            longest: vec![Span(0); count],
            taken_up: Span(0),
            log: Vec::new(),
        }
    }

    fn rings(&self) -> Vec<RingSample> {
        let behind = |nf: usize| self.next[nf].map_or(0, |next| self.waiting[next]);
        let of = |nf| RingSample {
            waiting: self.waiting[nf],
            behind: behind(nf),
            taken: self.taken[nf],
            in_hand: 0,
            housekeeping: false,
        };
        (0..self.waiting.len()).map(of).collect()
    }

    /// One decision and what follows until the next.
    pub(super) fn step(&mut self) -> Choice {
        let action = self.core.poll(self.now, &self.rings());
        self.log.push(action);
        let (runs, until) = match action {
            Choice::Run { nf, until } | Choice::Idle { nf, until } => (Some(nf), until),
            Choice::Demote { until } => (None, until),
        };
        assert!(until > self.now && self.core.poll_at() == until);
        if runs.is_some() {
            self.taken_up = Span(self.taken_up.0 + (until - self.now).0);
        }
        while self.now < until {
            let piece = (until - self.now).0.min(1000);
            self.arrive(piece);
            self.now = self.now + Span(piece);
            if let Some(nf) = runs {
                self.work(nf, piece);
            }
        }
        action
    }

    fn arrive(&mut self, ns: u64) {
        for nf in 0..self.rates.len() {
            self.owed[nf] += self.rates[nf] * ns as f64 / 1000.0;
            let came = self.owed[nf] as u32;
            self.owed[nf] -= f64::from(came);
            let came = came.min(RING - self.waiting[nf]);
            self.waiting[nf] += came;
            if came > 0 {
                self.ages[nf].push_back((self.now, came));
            }
        }
    }

    fn work(&mut self, nf: usize, ns: u64) {
        let (cost, begun) = (self.costs_ns[nf], self.begun_ns[nf] + ns);
        let count = ((begun / cost) as u32).min(self.waiting[nf]);
        // Without packets it only polls.
        let waits = count == self.waiting[nf];
        self.begun_ns[nf] = if waits || cost == u64::MAX { 0 } else { begun - u64::from(count) * cost };
        self.waiting[nf] -= count;
        self.taken[nf] = self.taken[nf].wrapping_add(count);
        self.done[nf] += u64::from(count);
        let mut fits = self.next[nf].map_or(0, |next| count.min(RING - self.waiting[next]));
        if let Some(next) = self.next[nf] {
            self.waiting[next] += fits;
            self.dropped += u64::from(count - fits);
        }
        let mut left = count;
        while left > 0 {
            let (since, packets) = self.ages[nf].front_mut().expect("a packet has an age");
            let (since, some) = (*since, left.min(*packets));
            *packets -= some;
            if *packets == 0 {
                self.ages[nf].pop_front();
            }
            left -= some;
            self.longest[nf] = self.longest[nf].max(self.now - since);
            if let Some(next) = self.next[nf].filter(|_| fits > 0) {
                self.ages[next].push_back((since, some.min(fits)));
                fits -= some.min(fits);
            }
        }
    }

    /// Forgets what has happened so far.
    pub(super) fn begin(&mut self) {
        self.done.iter_mut().for_each(|done| *done = 0);
        self.longest.iter_mut().for_each(|longest| *longest = Span(0));
        (self.dropped, self.taken_up, self.log) = (0, Span(0), Vec::new());
    }

    /// Packets in a microsecond that an NF took in so many milliseconds.
    pub(super) fn rate(&self, nf: usize, millis: u64) -> f64 {
        self.done[nf] as f64 / (millis as f64 * 1000.0)
    }

    /// Times the core went to another.
    pub(super) fn switches(&self) -> usize {
        let mut runs: Vec<Option<usize>> = self.log.iter().map(ran).collect();
        runs.dedup();
        runs.len()
    }

    pub(super) fn run(&mut self, millis: u64) {
        let end = self.now + Span::from_millis(millis);
        while self.now < end {
            self.step();
        }
    }
}

#[test]
fn an_overloaded_chain_runs_in_its_order_and_drops_nothing_inside() {
    let mut model = Model::new(&[&[50, 50, 50]], &[20.0]);
    model.run(20);
    let slices: Vec<usize> = model.log.iter().filter_map(ran).collect();
    let mut changes = slices.clone();
    changes.dedup();
    assert!(changes.windows(2).skip(3).all(|pair| pair[1] == (pair[0] + 1) % 3), "{changes:?}");
    assert_eq!(model.dropped, 0);
    // 20 ms of 150 ns each are 133,333 packets.
    assert!(model.done[2] > 128_000, "{:?}", model.done);
}

pub(super) fn ran(action: &Choice) -> Option<usize> {
    match action {
        Choice::Run { nf, .. } => Some(*nf),
        _ => None,
    }
}

#[test]
fn costs_are_found_from_outside_and_followed() {
    let mut model = Model::new(&[&[60, 250, 110]], &[20.0]);
    model.run(50);
    let near = |model: &Model, nf: usize, ns: f64| {
        let found = model.core.cost(nf).unwrap();
        assert!(found.is_known() && (found.ns() / ns - 1.0).abs() < 0.05, "{nf}: {found:?}");
    };
    [60.0, 250.0, 110.0].into_iter().enumerate().for_each(|(nf, ns)| near(&model, nf, ns));
    model.costs_ns[1] = 750;
    model.run(50);
    near(&model, 1, 750.0);
    model.costs_ns[1] = 40;
    model.run(300);
    near(&model, 1, 40.0);
}

#[test]
fn without_the_rule_an_over_long_slice_overflows_and_with_it_it_does_not() {
    let run = |occupancy| {
        let rules = Rules { gamma_percent: 200, occupancy, ..RULES };
        let mut model = Model::with(rules, &[&[50, 50]], &[30.0]);
        model.run(50);
        model.dropped
    };
    assert_eq!(run(true), 0);
    assert!(run(false) > 1000);
}

#[test]
fn an_idle_core_is_sampled_less_often_and_at_last_given_back() {
    let mut model = Model::new(&[&[50, 50]], &[0.0]);
    assert!(matches!(model.step(), Choice::Idle { nf: 0, .. }));
    model.run(19);
    assert!(matches!(model.log.last(), Some(Choice::Idle { nf: 0, .. })));
    model.run(3);
    assert!(matches!(model.log.last(), Some(Choice::Demote { .. })));
    assert!(model.log.len() < 22_000 / 40, "{}", model.log.len());
    model.waiting[1] = 1;
    model.ages[1].push_back((model.now, 1));
    assert!(matches!(model.step(), Choice::Run { nf: 1, .. }), "a single packet is enough");
}

#[test]
fn one_that_takes_nothing_has_little_of_the_core() {
    let mut model = Model::new(&[&[u64::MAX], &[50]], &[1.0, 30.0]);
    model.run(100);
    // 100 ms of 50 ns are two million; 20 ms and a twentieth of the rest are lost to the one that hangs.
    assert!(model.done[1] > 1_450_000, "{:?}", model.done);
    assert!(model.log.iter().filter_map(ran).any(|nf| nf == 0), "it is tried again");
}

#[test]
fn an_nf_gets_to_its_housekeeping_beside_packets_and_without_one_now_and_then() {
    let mut model = Model::new(&[&[50], &[50]], &[30.0, 0.0]);
    let slices = |model: &Model| model.log.iter().filter_map(ran).filter(|nf| *nf == 1).count();
    model.run(95);
    assert_eq!(slices(&model), 0);
    model.run(10);
    assert_eq!(slices(&model), 1, "without a reason");
    for _ in 0..1000 {
        let mut rings = model.rings();
        rings[1].housekeeping = true;
        let action = model.core.poll(model.now, &rings);
        model.log.push(action);
        model.now = model.core.poll_at();
    }
    assert!(slices(&model) > 20, "{}", slices(&model));
}

/// A burst of 64 takes 3.2 ms, and is taken at its beginning.
#[test]
fn an_nf_whose_bursts_are_longer_than_slices_is_not_taken_for_a_hung_one() {
    let member = Member { ring: RING, capacity: RING, cost: PacketCost::default() };
    let mut core = RunQueue::new(RULES, [member; 2], []);
    let (mut now, mut worked, mut taken, mut others) = (Instant(0), Span(0), 0u32, 0u32);
    while now < Instant(0) + Span::from_millis(400) {
        let heavy = RingSample { waiting: 1000, taken, ..RingSample::default() };
        let action =
            core.poll(now, &[heavy, RingSample { waiting: 1000, taken: others, ..RingSample::default() }]);
        let slice = core.poll_at() - now;
        if ran(&action) == Some(0) {
            worked = Span(worked.0 + slice.0);
            taken = ((worked.0 / 3_200_000) as u32 + 1) * 64;
        } else {
            others += (slice.0 / 50) as u32;
        }
        now = core.poll_at();
    }
    assert!(worked >= Span::from_millis(250), "{worked:?}");
    let found = core.cost(0).unwrap().ns();
    assert!((20_000.0..80_000.0).contains(&found), "{found}");
}

#[test]
fn a_full_ring_behind_stops_the_one_before_it_alone() {
    let mut model = Model::new(&[&[50, u64::MAX], &[50, 50]], &[30.0, 30.0]);
    model.run(50);
    assert_eq!(model.dropped, 0);
    assert!(model.done[0] <= u64::from(RING));
    assert!(model.done[3] > 200_000, "{:?}", model.done);
}

#[test]
fn chains_of_one_core_get_as_much_of_it() {
    let mut model = Model::new(&[&[70, 70, 70], &[70]], &[30.0, 30.0]);
    model.run(200);
    let (one, other) = (model.done[2] as f64, model.done[3] as f64);
    assert!((one / other - 1.0).abs() < 0.02, "{:?}", model.done);
}

#[test]
fn a_floor_is_held_while_others_overload_the_core() {
    // Going round, each of five NFs of 50 ns has 4 packets in a microsecond at most; three times that is
    // promised.
    let chains: [&[u64]; 3] = [&[50], &[50, 50], &[50, 50]];
    let run = |floor| {
        let mut model = Model::promised(RULES, &chains, &[30.0; 3], &[(floor, None)]);
        model.run(100);
        model.begin();
        model.run(100);
        model
    };
    let (none, floor) = (run(0.0), run(12.0));
    assert!(none.rate(0, 100) < 4.5, "{}", none.rate(0, 100));
    assert!(floor.rate(0, 100) >= 0.98 * 12.0, "{}", floor.rate(0, 100));
    // What is left goes round: 400 ns of a microsecond, of which the first has a fifth.
    let rest = (floor.rate(2, 100), floor.rate(4, 100));
    assert!(rest.0 > 1.3 && (rest.0 / rest.1 - 1.0).abs() < 0.1, "{rest:?}");
    assert_eq!(floor.dropped, 0);
    // A batch of 3,072 packets is owed 390 times; each time the core goes there and back.
    assert!(floor.switches() < 390 * 5 / 2, "{}", floor.switches());
    let small = run(2.0);
    assert_eq!(small.switches(), none.switches(), "a floor below its fair part changes nothing");
}

#[test]
fn floors_that_no_core_can_keep_starve_nobody() {
    let mut model =
        Model::promised(RULES, &[&[50, 50], &[100], &[50]], &[30.0; 3], &[(10.0, None), (10.0, None)]);
    model.run(300);
    model.begin();
    model.run(300);
    assert!(objective::needs([(Rate(10e6), 100.0), (Rate(10e6), 100.0)]) > objective::FLOORS_MAX);
    let rates = [1, 2, 3].map(|nf| model.rate(nf, 300));
    // A tenth of the core goes round among all: 250 ns for a packet of each.
    assert!(rates[2] > 0.3, "{rates:?}");
    assert!(rates[0] > 2.5 && rates[1] > 2.5, "{rates:?}");
}

#[test]
fn a_delay_bound_is_kept_at_low_rates_without_the_core() {
    let bound = Span::from_micros(1000);
    let run = |bound| {
        let mut model = Model::promised(RULES, &[&[100, 100, 100]], &[0.1], &[(0.0, bound)]);
        model.run(50);
        model.begin();
        model.run(500);
        model
    };
    let (free, bounded) = (run(None), run(Some(bound)));
    assert!(bounded.longest[2] <= bound, "{:?}", bounded.longest);
    assert!(bounded.longest[2].0 * 2 > bound.0, "it waits as long as it may: {:?}", bounded.longest);
    // A twentieth of the core for packets, and some 30 us each millisecond for switches.
    assert!(bounded.taken_up < Span::from_millis(60), "{:?}", bounded.taken_up);
    assert!(free.taken_up > Span::from_millis(490), "{:?}", free.taken_up);
    assert!(bounded.log.len() * 4 < free.log.len(), "{} {}", bounded.log.len(), free.log.len());
}

#[test]
fn a_delay_bound_is_kept_beside_an_overload() {
    let bound = Span::from_micros(500);
    let run = |bound| {
        let mut model = Model::promised(RULES, &[&[50, 50], &[250, 250, 250]], &[1.0, 30.0], &[(0.0, bound)]);
        model.run(100);
        model.begin();
        model.run(200);
        model
    };
    let (free, bounded) = (run(None), run(Some(bound)));
    assert!(free.longest[1] > bound, "{:?}", free.longest);
    assert!(bounded.longest[1] <= bound, "{:?}", bounded.longest);
    let lost = 1.0 - bounded.rate(4, 200) / free.rate(4, 200);
    assert!(lost < 0.05, "its slices are longer than its packets take, and they are short: {lost}");
    assert_eq!(bounded.dropped, 0);
}

#[test]
fn a_burst_in_hand_is_finished_once_before_the_core_goes_on() {
    let member = Member { ring: RING, capacity: RING, cost: PacketCost::default() };
    let objective = Objective {
        path: vec![ObjectiveStep { nf: 0, floor: Rate(0.0) }],
        bound: Some(Span::from_micros(500)),
    };
    let mut core = RunQueue::new(RULES, [member; 2], [objective]);
    let other = RingSample { waiting: 3000, ..RingSample::default() };
    let mut poll = |now, first| (ran(&core.poll(now, &[first, other])), core.poll_at());
    let before = RingSample { waiting: 32, ..RingSample::default() };
    let mut now = Instant(0);
    while let (Some(1), next) = poll(now, before) {
        now = next;
    }
    assert!((200_000..500_000).contains(&now.0), "it comes for its bound: {now:?}");
    let in_hand = RingSample { taken: 32, in_hand: 32, ..RingSample::default() };
    now = now + Span::from_micros(10);
    assert_eq!(poll(now, in_hand).0, Some(0));
    now = now + Span::from_micros(10);
    assert_eq!(poll(now, in_hand).0, Some(1), "who keeps packets keeps no core");
}

#[test]
fn a_bound_makes_no_chain_more_than_its_neighbours() {
    let mut model =
        Model::promised(RULES, &[&[50], &[50]], &[30.0; 2], &[(0.0, Some(Span::from_micros(300)))]);
    model.run(100);
    model.begin();
    model.run(300);
    let (one, other) = (model.rate(0, 300), model.rate(1, 300));
    assert!((one / other - 1.0).abs() < 0.05, "{one} {other}");
}

fn worlds() -> impl Strategy<Value = (Vec<Vec<u64>>, Vec<f64>)> {
    let chain = prop::collection::vec(5u64..900, 1..5);
    prop::collection::vec((chain, 0.01f64..30.0), 1..5).prop_map(|all| all.into_iter().unzip())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// An NF that is given the core has packets before it and room behind it.
    #[test]
    fn an_nf_runs_only_with_work_and_room((chains, rates) in worlds()) {
        let chains: Vec<&[u64]> = chains.iter().map(Vec::as_slice).collect();
        let mut model = Model::new(&chains, &rates);
        let mut last = None;
        for _ in 0..200 {
            let rings = model.rings();
            let action = model.step();
            let housekeeping = model.core.slice.is_some_and(|slice| slice.housekeeping);
            if let Choice::Run { nf, .. } = action && last != Some(nf) && !housekeeping {
                prop_assert!(rings[nf].waiting > 0);
                prop_assert!(rings[nf].behind < RING * GAMMA_PERCENT / 100);
            }
            last = ran(&action);
        }
    }

    /// Every chain delivers, whatever the others cost and get, and whatever is promised.
    #[test]
    fn nobody_starves(
        (chains, rates) in worlds(),
        promised in prop::collection::vec((0.0f64..30.0, prop::option::of(10u64..20_000)), 0..5)
    ) {
        let chains: Vec<&[u64]> = chains.iter().map(Vec::as_slice).collect();
        let promised: Vec<_> =
            promised.into_iter().map(|(floor, bound)| (floor, bound.map(Span::from_micros))).collect();
        let mut model = Model::promised(RULES, &chains, &rates, &promised);
        model.run(300);
        for (nf, done) in model.done.iter().enumerate() {
            prop_assert!(*done > 0, "{nf}: {:?}", model.done);
        }
    }

    /// Between two slices of one NF every other that could run has had one.
    #[test]
    fn the_queue_goes_round((chains, rates) in worlds()) {
        let chains: Vec<&[u64]> = chains.iter().map(Vec::as_slice).collect();
        let mut model = Model::new(&chains, &rates);
        let count = model.waiting.len();
        let mut passed_over = vec![0u32; count];
        let mut last = None;
        for _ in 0..200 {
            let rings = model.rings();
            let action = model.step();
            let Some(runs) = ran(&action) else { continue };
            if last == Some(runs) { continue; }
            last = Some(runs);
            for nf in 0..count {
                let could = rings[nf].waiting >= THETA_MIN && rings[nf].behind < RING * GAMMA_PERCENT / 100;
                passed_over[nf] = if nf == runs || !could { 0 } else { passed_over[nf] + 1 };
                prop_assert!(passed_over[nf] as usize <= count, "{nf}");
            }
        }
    }

    /// The same observations are the same actions.
    #[test]
    fn it_is_deterministic((chains, rates) in worlds()) {
        let chains: Vec<&[u64]> = chains.iter().map(Vec::as_slice).collect();
        let run = || {
            let mut model = Model::new(&chains, &rates);
            model.run(5);
            model.log
        };
        prop_assert_eq!(run(), run());
    }

    /// Rings that say anything at all keep no neighbour from its slices and no slice from its end.
    #[test]
    fn lies_are_borne(lies in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 1..200)) {
        let member = Member { ring: RING, capacity: RING, cost: PacketCost::default() };
        let mut core = RunQueue::new(RULES, [member; 2], []);
        let (mut now, mut honest, mut since) = (Instant(0), 0, Instant(0));
        for (waiting, behind, taken) in lies {
            let liar = RingSample { waiting, behind, taken, in_hand: taken % 64, housekeeping: waiting % 2 == 0 };
            let action = core.poll(now, &[liar, RingSample { waiting: 1000, behind: 0, taken: honest, in_hand: 0, housekeeping: false }]);
            if ran(&action) == Some(1) {
                honest = honest.wrapping_add(500);
                since = core.poll_at();
            }
            prop_assert!(core.poll_at() - now <= SLICE_MAX);
            prop_assert!(now - since <= Span(2 * SLICE_MAX.0), "the honest one waits");
            now = core.poll_at();
        }
    }
}
