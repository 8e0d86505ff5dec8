//! A machine that answers what is asked, a committed table of what is written when, and properties over
//! random lives.

use super::*;
use crate::decision::Decision;
use crate::record::{Entry, Line, Replay, Step};
use crate::share;
use crate::snapshot;
use crate::units::{Instant, RegionId};
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

const RULES: Rules = Rules { weighs: true, every: Span::from_millis(10), claim_cores: 1 };
/// An NF that is seen, sleeps and is alone in its domain.
pub(super) const NF: Nf = Nf {
    core: CoreId(1),
    domain: RegionId(0),
    priority: 1,
    slice: None,
    is_seen: true,
    sleeps: true,
    is_real_time: false,
    is_batch: false,
};

/// An NF of the machine.
#[derive(Clone, Copy, Debug)]
struct Working {
    nf: Nf,
    /// Packets that come in a millisecond, and what each costs.
    per_ms: u64,
    cost: Span,
    /// Cost of each by its own claim.
    claims: Span,
    in_service: bool,
    /// Packets that it returns in a millisecond and time that it takes for it, whatever comes.
    hostile: Option<(u64, Span)>,
    /// Packets that came, those that it returned and time that it used, ever.
    arrived: u64,
    returned: u64,
    cpu: Span,
}

impl Working {
    fn work_a_millisecond(&mut self) {
        let (returned, cpu) = self.hostile.unwrap_or((self.per_ms, self.cost.times(self.per_ms)));
        self.arrived += self.per_ms;
        self.returned += returned;
        self.cpu += cpu;
    }
}

const fn load(nf: Nf, per_ms: u64, cost_ns: u64) -> Working {
    Working {
        nf,
        per_ms,
        cost: Span(cost_ns),
        claims: Span(cost_ns),
        in_service: true,
        hostile: None,
        arrived: 0,
        returned: 0,
        cpu: Span(0),
    }
}

/// A machine with NFs, which are given weights.
struct World {
    weights: Weights,
    now: Instant,
    nfs: Vec<Working>,
    /// Reason for which the machine refuses groups, if it does.
    refuses: Option<&'static str>,
    grouped: Vec<bool>,
    /// Everything that was said, but for samples.
    log: Vec<(Instant, Action)>,
    record: Vec<Line>,
}

impl World {
    fn new(rules: Rules, nfs: &[Working]) -> Self {
        let mut world = Self {
            weights: Weights::new(rules),
            now: Instant(0),
            nfs: nfs.to_vec(),
            refuses: None,
            grouped: vec![false; nfs.len()],
            log: Vec::new(),
            record: Vec::new(),
        };
        world.keep(Step::Begins(rules));
        for (instance, load) in nfs.iter().enumerate() {
            let instance = InstanceId(instance as u16);
            world.tell(Event::Begins { instance, nf: load.nf });
            if load.in_service {
                world.tell(Event::Ready(instance));
            }
        }
        world
    }

    fn keep(&mut self, step: crate::record::StepOf<Weights>) {
        self.record.push(Line { at: self.now, entry: Entry::Weights(step) });
    }

    fn tell(&mut self, event: Event) {
        self.keep(Step::Saw(event.clone()));
        let mut actions = Vec::new();
        self.weights.on(self.now, event, &mut actions);
        self.apply(actions);
    }

    fn apply(&mut self, actions: Vec<Action>) {
        for action in &actions {
            self.keep(Step::Did(action.clone()));
        }
        for action in actions {
            match action {
                Action::SampleLoads => self.sample_loads(),
                Action::SampleCosts => self.sample_costs(),
                Action::Enter(instance) => {
                    self.log.push((self.now, Action::Enter(instance)));
                    self.grouped[instance.index()] = self.refuses.is_none();
                    self.tell(match self.refuses {
                        None => Event::Entered(instance),
                        Some(why) => Event::Refused { instance, why: why.to_string() },
                    });
                }
                other => self.log.push((self.now, other)),
            }
        }
    }

    fn sample_loads(&mut self) {
        for at in (0..self.nfs.len()).filter(|&at| self.nfs[at].in_service).collect::<Vec<_>>() {
            let load = Load { delivered: self.nfs[at].arrived, ..Load::default() };
            self.tell(Event::Load { instance: InstanceId(at as u16), load });
        }
    }

    fn sample_costs(&mut self) {
        for at in (0..self.nfs.len()).filter(|&at| self.nfs[at].in_service).collect::<Vec<_>>() {
            let (instance, nf) = (InstanceId(at as u16), self.nfs[at]);
            if nf.per_ms > 0 {
                self.tell(Event::ServiceTime { instance, time: nf.claims, count: 20 });
            }
            let account = Account { cpu: nf.cpu, returned: nf.returned, sleeps: 0, empty_polls: 0 };
            let account = self.weights.wants_account(self.now, instance).then_some(account);
            self.tell(Event::Costs { instance, account });
        }
    }

    /// Lets so many milliseconds pass.
    fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Span::from_millis(1);
            for nf in &mut self.nfs {
                nf.work_a_millisecond();
            }
            while self.weights.is_due(self.now) {
                self.keep(Step::Polled(()));
                let mut actions = Vec::new();
                self.weights.poll(self.now, &(), &mut actions);
                self.apply(actions);
            }
        }
    }

    fn shares(&self) -> Vec<Option<u32>> {
        (0..self.nfs.len()).map(|at| self.weights.share(InstanceId(at as u16))).collect()
    }

    /// Returns the slice that was written last.
    fn slice(&self, instance: u16) -> Option<Span> {
        self.log.iter().rev().find_map(|(_, action)| match action {
            Action::Write { instance: of, slice, .. } if *of == InstanceId(instance) => Some(*slice),
            _ => None,
        })
    }

    fn reports(&self) -> Vec<&Report> {
        let report = |(_, action): &'_ (Instant, Action)| matches!(action, Action::Report(_));
        let reports = self.log.iter().filter(|one| report(one));
        reports
            .filter_map(|(_, action)| if let Action::Report(what) = action { Some(what) } else { None })
            .collect()
    }
}

fn is_write(action: &Action) -> bool {
    matches!(action, Action::Write { .. })
}

#[test]
fn shares_follow_rate_and_cost_within_a_window_or_two() {
    let mut world = World::new(RULES, &[load(NF, 100, 1_000), load(NF, 100, 3_000), load(NF, 200, 1_000)]);
    world.run(300);
    let shares: Vec<u32> = world.shares().into_iter().flatten().collect();
    let near = |share: u32, parts: u32| share.abs_diff(parts) < parts / 16 + 1;
    assert!(near(shares[0], 1666) && near(shares[1], 5000) && near(shares[2], 3333), "{shares:?}");
    world.nfs[2].per_ms = 0;
    world.run(500);
    let shares: Vec<u32> = world.shares().into_iter().flatten().collect();
    assert!(near(shares[0], 2500) && near(shares[1], 7500) && shares[2] <= 60, "{shares:?}");
}

#[test]
fn steady_shares_are_written_again_once_a_second_and_no_oftener() {
    let mut world = World::new(RULES, &[load(NF, 100, 1_000), load(NF, 100, 3_000)]);
    world.run(1_000);
    world.log.clear();
    world.run(5_000);
    let writes = world.log.iter().filter(|(_, action)| is_write(action)).count();
    assert_eq!(writes, 5 * 2, "two NFs, five seconds");
}

#[test]
fn cores_are_shared_apart_and_a_slice_of_the_configuration_is_kept() {
    let asks = Nf { core: CoreId(2), slice: Some(Span::from_millis(3)), ..NF };
    let mut world = World::new(RULES, &[load(NF, 10, 9_000), load(asks, 100, 50), load(NF, 10, 1_000)]);
    world.run(200);
    assert_eq!(world.shares()[1], Some(share::WHOLE));
    assert_eq!(world.slice(1), Some(Span::from_millis(3)));
    assert!(world.slice(0).unwrap() > world.slice(2).unwrap());
}

/// From the moment that a second domain comes to its core, also while the process of that one is gone.
#[test]
fn slices_are_short_beside_another_domain() {
    let mut world = World::new(RULES, &[load(NF, 10, 9_000)]);
    world.run(200);
    assert_eq!(world.slice(0), Some(Span::from_millis(100)));
    world.tell(Event::Begins {
        instance: InstanceId(1),
        nf: Nf { core: CoreId(2), domain: RegionId(1), ..NF },
    });
    world.run(50);
    assert_eq!(world.slice(0), Some(Span::from_millis(100)), "elsewhere");
    world.tell(Event::Begins { instance: InstanceId(2), nf: Nf { domain: RegionId(1), ..NF } });
    world.run(50);
    assert_eq!(world.slice(0), Some(Span::from_millis(3)));
    world.log.clear();
    world.tell(Event::Ended(InstanceId(2)));
    world.run(5_000);
    assert_eq!(world.slice(0), Some(Span::from_millis(3)));
    assert!(world.log.len() <= 5, "{:?}", world.log);
}

/// A batch task takes the core from nobody when it wakes: an NF that began a slice while it was alone would
/// have it for as long as that is.
#[test]
fn slices_are_short_beside_one_that_preempts_nobody() {
    let batch = Nf { is_batch: true, ..NF };
    for (nfs, millis) in [([NF, NF], 98), ([NF, batch], 3), ([batch, batch], 3)] {
        let mut world = World::new(RULES, &nfs.map(|nf| load(nf, 10, 9_000)));
        world.nfs[1].per_ms = 0;
        world.run(300);
        let slice = world.slice(0).expect("it was written").as_millis();
        assert!(slice.abs_diff(millis) <= 1, "{slice} ms, and not {millis}");
    }
}

/// A domain cannot take a neighbour's part of a core, whatever its NFs claim or get to do.
#[test]
fn domains_of_a_core_do_not_compete_by_claims() {
    let neighbour = Nf { domain: RegionId(1), ..NF };
    let mut world =
        World::new(RULES, &[load(NF, 100, 1_000), load(NF, 100, 3_000), load(neighbour, 100_000, 1_000_000)]);
    world.run(300);
    let shares: Vec<u32> = world.shares().into_iter().flatten().collect();
    let near = |share: u32, parts: u32| share.abs_diff(parts) < parts / 16 + 1;
    assert!(near(shares[0], 2500) && near(shares[1], 7500), "{shares:?}");
    assert_eq!(shares[2], share::WHOLE, "of what its domain has");
}

/// One that needs more than a core, or seems to, counts as one that needs one, unless more is believed.
#[test]
fn a_claim_counts_for_a_core_at_most() {
    let nfs = [load(NF, 100, 3_000), load(NF, 1_000, 2_000)];
    for (claim_cores, parts) in [(1, [2_307, 7_692]), (2, [1_304, 8_695]), (64, [1_304, 8_695])] {
        let mut world = World::new(Rules { claim_cores, ..RULES }, &nfs);
        world.run(500);
        let shares: Vec<u32> = world.shares().into_iter().flatten().collect();
        let near = |(share, part): (&u32, u32)| share.abs_diff(part) <= part / 16;
        assert!(shares.iter().zip(parts).all(near), "{claim_cores}: {shares:?}");
    }
}

#[test]
fn an_nf_competes_only_if_it_sleeps_is_seen_is_not_real_time_and_is_in_service() {
    let others = [Nf { sleeps: false, ..NF }, Nf { is_seen: false, ..NF }, Nf { is_real_time: true, ..NF }];
    let mut all = vec![load(NF, 10, 1_000)];
    all.extend(others.map(|nf| load(nf, 10, 1_000)));
    all.push(Working { in_service: false, ..load(NF, 10, 1_000) });
    let mut world = World::new(RULES, &all);
    world.run(100);
    assert_eq!(world.shares(), [Some(share::WHOLE), None, None, None, None]);
    assert_eq!(world.grouped, [true, false, false, true, false], "real-time NFs have a group for their time");
}

#[test]
fn without_weights_loads_and_costs_are_sampled_and_nothing_is_written() {
    let mut world = World::new(Rules { weighs: false, ..RULES }, &[load(NF, 100, 2_000)]);
    world.run(500);
    assert!(world.log.is_empty(), "{:?}", world.log);
    assert!((world.weights.arrivals(InstanceId(0)).per_second() - 1e5).abs() < 1e3);
    assert_eq!(world.weights.claim(InstanceId(0)).unwrap().median, Span(2_000));
    assert_eq!(world.weights.accounted(InstanceId(0)), Some(Span(2_000)));
}

#[test]
fn what_is_refused_is_told_once_tried_again_each_second_and_passes() {
    let mut world = World::new(RULES, &[]);
    world.nfs = vec![load(NF, 10, 1_000); 2];
    world.grouped = vec![false; 2];
    world.refuses = Some("read-only file system");
    for instance in [InstanceId(0), InstanceId(1)] {
        world.tell(Event::Begins { instance, nf: NF });
        world.tell(Event::Ready(instance));
    }
    world.run(3_500);
    let why = "read-only file system".to_string();
    assert_eq!(world.reports(), [&Report::Refused { why: why.clone() }]);
    assert_eq!(world.weights.refused(), Some(why.as_str()));
    let tries = world.log.iter().filter(|(_, action)| matches!(action, Action::Enter(_))).count();
    assert_eq!(tries, 2 * 4, "at once and in each second");
    world.refuses = None;
    world.run(1_100);
    assert_eq!(world.reports(), [&Report::Refused { why }, &Report::SetAgain]);
    assert_eq!((world.weights.refused(), world.shares().len()), (None, 2));
    assert!(world.shares().iter().all(Option::is_some), "{:?}", world.shares());
}

#[test]
fn a_group_that_is_gone_is_made_again() {
    let mut world = World::new(RULES, &[load(NF, 10, 1_000)]);
    world.run(100);
    world.tell(Event::Refused { instance: InstanceId(0), why: "no such directory".to_string() });
    assert_eq!(world.shares(), [None]);
    world.run(1_100);
    assert_eq!(world.shares(), [Some(share::WHOLE)]);
}

#[test]
fn a_real_time_nf_without_its_group_says_so_and_stops_no_weights() {
    let mut world = World::new(RULES, &[load(NF, 10, 1_000)]);
    let why = "not permitted".to_string();
    let instance = InstanceId(7);
    world.grouped = vec![false; 8];
    world.refuses = Some("not permitted");
    world.tell(Event::Begins { instance, nf: Nf { is_real_time: true, ..NF } });
    world.tell(Event::Ready(instance));
    assert_eq!(world.reports(), [&Report::NoRealTimeGroup { instance, why }]);
    assert_eq!(world.weights.refused(), None);
}

#[test]
fn an_override_is_told_once_for_each_process() {
    let mut world = World::new(RULES, &[Working { claims: Span(40_000), ..load(NF, 10, 10_000) }]);
    world.run(1_000);
    let told = Report::Overridden { instance: InstanceId(0), claimed: Span(40_000), accounted: Span(10_000) };
    assert_eq!(world.reports(), [&told]);
    assert!(world.weights.is_overridden(InstanceId(0)));
    world.tell(Event::Ended(InstanceId(0)));
    world.tell(Event::Begins { instance: InstanceId(0), nf: NF });
    assert!(!world.weights.is_overridden(InstanceId(0)));
    world.tell(Event::Ready(InstanceId(0)));
    world.run(1_000);
    assert_eq!(world.reports(), [&told, &told]);
}

#[test]
fn an_nf_that_feeds_another_has_an_even_part_also_when_that_was_known_before_its_process() {
    let mut world = World::new(RULES, &[]);
    world.nfs = vec![load(NF, 100, 100), load(NF, 100, 9_900)];
    world.grouped = vec![false; 2];
    world.tell(Event::Feeds { instance: InstanceId(0), feeds: true });
    for instance in [InstanceId(0), InstanceId(1)] {
        world.tell(Event::Begins { instance, nf: NF });
        world.tell(Event::Ready(instance));
    }
    world.run(300);
    let share = world.shares()[0].unwrap();
    assert!((3_300..3_400).contains(&share), "half of the work, of three halves: {share}");
}

/// Samples and writes over time, for two NFs whose rates change, on a machine that refuses for a while.
#[test]
fn what_is_written_when_is_a_table() {
    let mut world = World::new(RULES, &[load(NF, 100, 1_000), load(NF, 100, 3_000)]);
    world.run(250);
    world.nfs[1].cost = Span(1_000);
    world.nfs[1].claims = Span(1_000);
    world.run(250);
    world.refuses = Some("busy");
    world.tell(Event::Refused { instance: InstanceId(1), why: "gone".to_string() });
    world.run(1_500);
    world.refuses = None;
    world.run(1_500);
    let mut table = std::string::String::from("milliseconds: actions but for samples\n");
    for (at, action) in &world.log {
        let what = match action {
            Action::Write { instance, share, slice, yields_after } => format!(
                "NF {instance}: share {share}, slice {:.1} ms, yields after {} us",
                slice.as_secs_f64() * 1e3,
                yields_after.0 / 1000
            ),
            other => format!("{other:?}"),
        };
        table += &format!("{:6}: {what}\n", at.0 / 1_000_000);
    }
    snapshot::assert("weights", &table);
}

fn nfs() -> impl Strategy<Value = Vec<Working>> {
    let nf =
        (0u16..3, 1u32..4, prop::bool::weighted(0.8), prop::bool::weighted(0.9), 0u64..500, 50u64..50_000);
    let nf = nf.prop_map(|(core, priority, sleeps, is_seen, per_ms, cost)| {
        load(Nf { core: CoreId(core), priority, sleeps, is_seen, ..NF }, per_ms, cost)
    });
    prop::collection::vec(nf, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever NFs come, go and are refused: only NFs in service that are in a group are written, cores are
    /// given once, reports of refusals alternate, attempts are a second apart, and a replay of the record
    /// does the same.
    #[test]
    fn lives_are_weighed_in_order(
        nfs in nfs(),
        steps in prop::collection::vec((1u64..400, 0usize..8, 0usize..5), 1..20)
    ) {
        let mut world = World::new(RULES, &nfs);
        for (millis, at, what) in steps {
            let at = at % world.nfs.len();
            let instance = InstanceId(at as u16);
            match what {
                0 => {
                    world.nfs[at].in_service = false;
                    world.tell(Event::Ended(instance));
                }
                1 => {
                    (world.nfs[at].in_service, world.grouped[at]) = (true, false);
                    world.tell(Event::Begins { instance, nf: world.nfs[at].nf });
                    world.tell(Event::Ready(instance));
                }
                2 => world.refuses = Some("no"),
                3 => world.refuses = None,
                _ => {
                    world.grouped[at] = false;
                    world.tell(Event::Refused { instance, why: "gone".to_string() });
                }
            }
            let from = world.log.len();
            world.run(millis);
            for (_, action) in &world.log[from..] {
                if let Action::Write { instance, share, .. } = action {
                    let at = instance.index();
                    prop_assert!(world.nfs[at].in_service && *share > 0 && *share <= share::WHOLE);
                }
            }
        }
        let mut given = std::collections::BTreeMap::<(Instant, CoreId), u32>::new();
        for (at, action) in &world.log {
            if let Action::Write { instance, share, .. } = action {
                *given.entry((*at, world.nfs[instance.index()].nf.core)).or_default() += share;
            }
        }
        prop_assert!(given.values().all(|sum| *sum <= share::WHOLE), "{given:?}");
        let refusals: Vec<bool> = world.reports().into_iter().map(|report| matches!(report, Report::Refused { .. })).collect();
        prop_assert!(refusals.windows(2).all(|pair| pair[0] != pair[1]), "{refusals:?}");
        prop_assert!(refusals.first().is_none_or(|first| *first));
        let mut replay = Replay::default();
        for line in world.record {
            prop_assert_eq!(replay.on(line), Ok(()));
        }
    }

    /// Whatever an NF claims, however it spins and however little of what comes it returns, the others of its
    /// domain have what they would have beside one that needs a whole core.
    #[test]
    fn a_hostile_nf_gains_what_one_that_needs_a_core_has(
        (comes, returns, spins) in (0u64..10_000, 0u64..50, 0u64..=1_000_000),
        claims in any::<u64>(),
        honest in prop::collection::vec((1u64..300, 50u64..20_000), 1..6),
    ) {
        let hostile = Some((returns, Span(spins)));
        let mut nfs = vec![Working { claims: Span(claims), hostile, ..load(NF, comes, 1) }];
        nfs.extend(honest.iter().map(|&(per_ms, cost)| load(NF, per_ms, cost)));
        let mut world = World::new(RULES, &nfs);
        world.run(700);
        let need = |&(per_ms, cost): &(u64, u64)| (per_ms as f64 * cost as f64 / 1e6).min(1.0);
        let needs: f64 = honest.iter().map(need).sum();
        let least = f64::from(share::least(nfs.len())) * nfs.len() as f64;
        for (share, nf) in world.shares().into_iter().skip(1).zip(&honest) {
            let due = (f64::from(share::WHOLE) - least) * need(nf) / (1.0 + needs);
            // Shares are written when they differ by a sixteenth.
            prop_assert!(f64::from(share.unwrap()) >= due * 15.0 / 16.0 - 1.0, "{share:?} of {due}");
        }
    }
}
