use std::fmt::Write as _;

use headgate_decide::market::kappa_of;
use headgate_decide::spread::SLOTS;
use headgate_decide::steer::cost::{Candidate, Lookahead, OFF_PATH, Terrain, cheapest, detour, path, rest};
use headgate_decide::steer::pins::{Former, PinKey, Pins};
use headgate_decide::steer::redirect::{EPOCHS, FlowLoad, HOLD_DOWN, PART_MAX, Redirection, State};
use headgate_decide::steer::slots::{
    MOVES_MAX, Pricing, SlotTable, TURNOVER, Toll, Traffic, Way, approach, turnover,
};
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::{Instant, Span};
use proptest::prelude::*;

use super::snapshot;

/// So many nodes in a row, each link at a price of 0.1.
pub struct Line(pub u32);

impl Terrain for Line {
    fn price(&self, from: NodeId, to: NodeId) -> f64 {
        self.hops(from, to) * 0.1
    }
    fn hops(&self, from: NodeId, to: NodeId) -> f64 {
        if from.0.max(to.0) >= self.0 { f64::INFINITY } else { f64::from(from.0.abs_diff(to.0)) }
    }
}

fn owner(node: u32, instance: u32) -> Owner {
    Owner { node: NodeId(node), instance }
}

fn candidate(node: u32, price: f64) -> Candidate {
    Candidate { owner: owner(node, 0), price }
}

/// A way over one resource, whose price is its cost.
fn way(number: u32, fixed: f64) -> Way {
    Way { owner: owner(number, 0), fixed, tolls: vec![Toll { resource: number, factor: 1.0, share: 1e-8 }] }
}

fn slots_of(table: &SlotTable, of: Owner) -> usize {
    table.iter().filter(|owner| **owner == Some(of)).count()
}

#[test]
fn looking_ahead_avoids_a_cheap_instance_at_a_dead_end() {
    // From node 2: an idle instance at 0, a busier one at 3; what comes next is at 4.
    let stages: [&[Candidate]; 2] = [&[candidate(0, 1.0), candidate(3, 1.3)], &[candidate(4, 1.0)]];
    let chosen = |lookahead| {
        let rest = rest(&Line(5), lookahead, &stages, NodeId(4));
        let costs = stages[0]
            .iter()
            .zip(&rest[0])
            .map(|(one, rest)| (one.owner, Line(5).price(NodeId(2), one.owner.node) + one.price + rest));
        cheapest(costs).map(|(owner, _)| owner.node.0)
    };
    assert_eq!(chosen(Lookahead::None), Some(0));
    assert_eq!(chosen(Lookahead::Egress), Some(3));
    assert_eq!(chosen(Lookahead::Chain), Some(3));
    assert_eq!(path(&Line(5), &stages, NodeId(2), NodeId(4)), Some(vec![owner(3, 0), owner(4, 0)]));
    assert_eq!(path(&Line(4), &stages, NodeId(2), NodeId(3)), None, "node 4 is out of reach");
    assert_eq!(path(&Line(5), &[], NodeId(2), NodeId(4)), Some(vec![]));
}

#[test]
fn detours_are_hops_off_a_shortest_path() {
    let of = |through| detour(&Line(5), NodeId(1), NodeId(through), NodeId(3));
    assert_eq!([0, 1, 2, 3, 4].map(of), [2.0, 0.0, 0.0, 0.0, 2.0]);
    assert_eq!(of(7), f64::INFINITY);
    assert_eq!(detour(&Line(5), NodeId(7), NodeId(7), NodeId(7)), f64::INFINITY);
    assert!((0.3..=0.5).contains(&OFF_PATH));
}

#[test]
fn ties_go_to_the_lower_node_then_instance() {
    let of = |owners: [Owner; 3]| cheapest(owners.map(|owner| (owner, 1.0))).map(|(owner, _)| owner);
    assert_eq!(of([owner(2, 0), owner(1, 7), owner(1, 3)]), Some(owner(1, 3)));
    assert_eq!(cheapest([(owner(0, 0), f64::INFINITY), (owner(0, 1), f64::NAN)]), None);
}

/// Slots of three instances by their prices, without a scale.
#[test]
fn slots_are_filled_as_in_this_table() {
    let mut text = String::from("kappas of three instances: their slots\n");
    let ways = [way(0, 0.0), way(1, 0.0), way(2, 0.0)];
    let all =
        [[0.0; 3], [1.0; 3], [1.0, 1.1, 1.0], [1.0, 1.1, 1.2], [0.0, 0.5, 3.0], [9.0, 9.0, 0.0], [90.0; 3]];
    for kappas in all {
        let table = Pricing::new(&kappas).fill(&ways, TURNOVER);
        let counts = [0, 1, 2].map(|number| slots_of(&table, owner(number, 0)));
        writeln!(text, "{kappas:?}: {counts:?}").unwrap();
    }
    snapshot::assert("steer", &text);
}

#[test]
fn what_flows_last_long_begins_anew_slowly() {
    let epoch = Span::from_secs(1);
    assert_eq!(turnover(Span::ZERO, epoch), 1.0);
    assert_eq!(turnover(Span::from_millis(500), epoch), 0.5);
    assert!(turnover(Span::from_secs(3600), epoch) < 0.001);
    assert_eq!(turnover(epoch, Span::ZERO), TURNOVER);
}

#[test]
fn an_instance_without_a_known_price_gets_nothing() {
    let unknown = [Way { tolls: vec![Toll { resource: 9, factor: 1.0, share: 0.0 }], ..way(0, 0.0) }];
    assert_eq!(Pricing::new(&[0.0, 0.2]).fill(&unknown, TURNOVER), [None; SLOTS]);
}

/// Many nodes with little traffic each fill their tables from the same prices, epoch after epoch, and all of
/// it begins anew. Were each to take the cheapest instance, one would have it all.
#[test]
fn nodes_that_see_the_same_prices_do_not_all_go_to_the_cheapest() {
    let ways: Vec<Way> = (0..8).map(|number| way(number, 0.0)).collect();
    // Of eight instances that serve 1e8 each, half is offered.
    let (mut used, mut table) = ([0.0; 8], None);
    used[0] = 0.9;
    let mut worst = Vec::new();
    for _ in 0..40 {
        let fresh = Pricing::new(&used.map(kappa_of)).fill(&ways, TURNOVER);
        let slots = table.get_or_insert(fresh);
        approach(slots, &fresh, MOVES_MAX, |_| true);
        used = core::array::from_fn(|number| {
            4.0 * slots_of(slots, owner(number as u32, 0)) as f64 / SLOTS as f64
        });
        worst.push(used.iter().copied().fold(0.0, f64::max));
    }
    assert!(worst[20..].iter().all(|most| *most < 0.75), "{worst:?}");
}

#[test]
fn slots_of_a_dead_owner_go_to_the_next_cheapest_and_no_others_move() {
    let ways = [way(0, 0.0), way(1, 0.1), way(2, 0.2)];
    let kappas = [0.0; 3];
    let mut table = Pricing::new(&kappas).fill(&ways, TURNOVER);
    let before = table;
    let dead = owner(0, 0);
    Pricing::new(&kappas).replace(&mut table, &ways[1..], Traffic::Elastic(0.0), |owner| owner != dead);
    for (old, new) in before.iter().zip(&table) {
        assert_eq!(*new, if *old == Some(dead) { Some(owner(1, 0)) } else { *old });
    }
    Pricing::new(&kappas).replace(&mut table, &[], Traffic::Elastic(0.0), |_| false);
    assert_eq!(table, [None; SLOTS]);
}

#[test]
fn tables_move_an_eighth_in_an_epoch_and_all_of_the_dead_at_once() {
    let (old, new) = ([Some(owner(0, 0)); SLOTS], [Some(owner(1, 0)); SLOTS]);
    let mut table = old;
    for epoch in 1..=8 {
        assert_eq!(approach(&mut table, &new, MOVES_MAX, |_| true), MOVES_MAX);
        assert_eq!(slots_of(&table, owner(1, 0)), epoch * MOVES_MAX);
    }
    let mut table = old;
    assert_eq!(approach(&mut table, &new, MOVES_MAX, |owner| owner.node.0 != 0), 0);
    assert_eq!(table, new);
    assert_eq!(
        approach(&mut table, &[None; SLOTS], MOVES_MAX, |_| true),
        0,
        "nobody else is in reach: it stays"
    );
    assert_eq!(table, new);
}

#[test]
fn known_flows_stay_and_lost_ones_find_their_state() {
    let key = |hash| PinKey { hash, chain: 1, position: 0 };
    let (old, new) = ([Some(owner(0, 0)); SLOTS], [Some(owner(1, 0)); SLOTS]);
    let (idle, secs) = (Span::from_secs(30), |secs| Instant(0) + Span::from_secs(secs));
    let mut pins = Pins::new(2);
    let mut former = Former::default();
    assert!(pins.is_empty());
    assert_eq!(pins.owner(secs(0), key(7), &old, Some(&former), true), Some(owner(0, 0)));
    former.on_change(secs(1), &old, &new, idle);
    let mut ask = |at, hash, begins| pins.owner(secs(at), key(hash), &new, Some(&former), begins);
    assert_eq!(ask(2, 7, false), Some(owner(0, 0)), "known");
    assert_eq!(ask(2, 8, true), Some(owner(1, 0)), "new");
    assert_eq!(ask(3, 9, false), Some(owner(0, 0)), "without a pin, and under way");
    assert_eq!(pins.len(), 2, "the one unseen for longest was forgotten");
    let lost = |at, former| Pins::new(0).owner(secs(at), key(7), &new, former, false);
    assert_eq!(lost(30, Some(&former)), Some(owner(0, 0)));
    assert_eq!(lost(31, Some(&former)), Some(owner(1, 0)), "no flow is silent for so long");
    assert_eq!(lost(3, None), Some(owner(1, 0)), "there is no state");
    assert_eq!(pins.on_dead(|one| one != owner(0, 0)), 1);
    assert_eq!(pins.owner(secs(4), key(9), &new, None, false), Some(owner(1, 0)));
    pins.forget(key(8));
    assert_eq!(pins.len(), 1);
}

fn flows(count: u64, moved: Option<Instant>) -> Vec<FlowLoad> {
    let flow = |flow| FlowLoad {
        flow,
        owner: owner(0, 0),
        rate: flow as f64,
        moved,
        traffic: Traffic::Elastic(1.0),
    };
    (0..count).map(flow).collect()
}

#[test]
fn an_eighth_moves_after_two_epochs_largest_first() {
    let ways = [way(0, 0.0), way(1, 0.0)];
    let run = |state, flows: &[FlowLoad], theta| {
        let mut redirection = Redirection::default();
        let epochs = (0..EPOCHS).map(|epoch| {
            let now = Instant(0) + Span::from_secs(u64::from(epoch) + 20);
            redirection.on_epoch(now, theta, &mut Pricing::new(&[50.0, 0.0]), &ways, (state, flows))
        });
        epochs.map(|moves| moves.iter().map(|one| one.flow).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let many = flows(3 * PART_MAX as u64, None);
    assert_eq!(run(State::None, &many, 5.0), [vec![], vec![23, 22, 21]]);
    assert_eq!(run(State::None, &many, 48.5), [vec![], vec![23]], "each moves the gap");
    assert_eq!(run(State::None, &many, 50.0), [vec![], vec![]], "the gap is theta");
    assert_eq!(run(State::Kept, &many, 5.0), [vec![], vec![]]);
    assert_eq!(run(State::None, &flows(2, None), 5.0), [vec![], vec![1]], "few flows: one");
    let recent = Instant(0) + Span::from_secs(15);
    assert_eq!(run(State::None, &flows(9, Some(recent)), 5.0), [vec![], vec![]], "held down");
    assert!(HOLD_DOWN.0 > Span::from_secs(6).0);
}

#[test]
fn a_gap_that_was_gone_between_is_counted_anew_and_state_goes_along() {
    let ways = [way(0, 0.0), way(1, 0.0)];
    let mut redirection = Redirection::default();
    let mut epoch = |secs, kappas: &[f64]| {
        let now = Instant(0) + Span::from_secs(secs);
        redirection.on_epoch(now, 5.0, &mut Pricing::new(kappas), &ways, (State::Exported, &flows(8, None)))
    };
    assert_eq!(epoch(0, &[50.0, 0.0]), []);
    assert_eq!(epoch(1, &[1.0, 0.0]), []);
    assert_eq!(epoch(2, &[50.0, 0.0]), []);
    let moves = epoch(3, &[50.0, 0.0]);
    assert!(
        moves.len() == 1 && moves[0].with_state && moves[0].from == owner(0, 0) && moves[0].to == owner(1, 0)
    );
}

proptest! {
    /// Every slot has an owner in reach, and one that is cheaper by no less has no fewer slots.
    #[test]
    fn the_cheaper_one_has_no_fewer_slots(kappas in prop::collection::vec(0.0f64..6.0, 2..8)) {
        let ways: Vec<Way> = (0..kappas.len() as u32).map(|number| way(number, 0.0)).collect();
        let table = Pricing::new(&kappas).fill(&ways, TURNOVER);
        let slots: Vec<usize> = ways.iter().map(|way| slots_of(&table, way.owner)).collect();
        prop_assert_eq!(slots.iter().sum::<usize>(), SLOTS);
        for (one, slots_of_one) in kappas.iter().zip(&slots) {
            for (other, slots_of_other) in kappas.iter().zip(&slots) {
                prop_assert!(one > other || slots_of_one + 1 >= *slots_of_other, "{kappas:?}: {slots:?}");
            }
        }
    }

    /// Pins are bounded, and a pinned flow keeps its owner whatever its table says (invariant 3).
    #[test]
    fn flows_do_not_split(tables in prop::collection::vec(0u32..4, 1..20), hash in any::<u32>()) {
        let mut pins = Pins::new(4);
        let key = PinKey { hash, chain: 0, position: 2 };
        let mut first = None;
        for (second, node) in (0..).zip(tables) {
            let table = [Some(owner(node, 0)); SLOTS];
            let found = pins.owner(Instant(second), key, &table, None, second == 0);
            prop_assert_eq!(found, *first.get_or_insert(found));
            prop_assert!(pins.len() <= 4);
        }
    }

    /// No more than an eighth moves, none twice within the hold-down, and none to where it would cost more.
    #[test]
    fn redirection_is_bounded(count in 1u64..60, kappas in prop::collection::vec(0.0f64..90.0, 2..5), theta in 0.1f64..9.0) {
        let ways: Vec<Way> = (0..kappas.len() as u32).map(|number| way(number, 0.0)).collect();
        let mut flows = flows(count, None);
        let mut redirection = Redirection::default();
        for second in 0..30 {
            let now = Instant(0) + Span::from_secs(second);
            let own = flows.iter().filter(|flow| flow.owner == owner(0, 0)).count();
            let mut pricing = Pricing::new(&kappas);
            let moves = redirection.on_epoch(now, theta, &mut pricing, &ways, (State::None, &flows));
            let from_first = moves.iter().filter(|one| one.from == owner(0, 0)).count();
            prop_assert!(from_first <= (own / PART_MAX).max(1));
            for one in moves {
                let flow = &mut flows[one.flow as usize];
                prop_assert!(flow.moved.is_none_or(|at| (now - at).0 >= HOLD_DOWN.0));
                prop_assert!(kappas[one.from.node.0 as usize] - kappas[one.to.node.0 as usize] > theta);
                (flow.owner, flow.moved) = (one.to, Some(now));
            }
        }
    }
}
