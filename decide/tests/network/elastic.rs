use std::fmt::Write as _;

use headgate_decide::elastic::Band;
use headgate_decide::elastic::end::{AGE, EPOCHS, Ends, FLOWS, Serving};
use headgate_decide::elastic::place::{Place, Waiting, best};
use headgate_decide::elastic::start::{CoreLoad, Rival, allowance, expected, starts, wait};
use headgate_decide::market::kappa_of;
use headgate_decide::steer::cost::Candidate;
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::{Instant, Span};
use proptest::prelude::*;

use super::snapshot;
use super::steer::Line;

fn rival(kappa: f64, hops: f64, passing: f64) -> Rival {
    Rival { service: 0, price: kappa + 1.0, kappa, way: 0.1 * hops, hops, passing }
}

fn serving(instance: u32, used: f64, flows: u32, since: u64) -> Serving {
    let owner = Owner { node: NodeId(0), instance };
    Serving { owner, service: 0, kappa: kappa_of(used), flows, since: Instant(0) + Span::from_secs(since) }
}

#[test]
fn bands_are_utilisations() {
    let band = Band::default();
    assert_eq!(Band::of_utilisations(0.30, 0.85), Some(band));
    assert!((band.theta() - (17.0 / 3.0 - 3.0 / 7.0)).abs() < 1e-9);
    for (low, high) in [(0.5, 0.5), (0.9, 0.3), (-0.1, 0.5), (0.2, 1.0), (f64::NAN, 0.5)] {
        assert_eq!(Band::of_utilisations(low, high), None, "{low} {high}");
    }
}

/// What an instance would earn, by the distance to the over-used one and by what passes here.
#[test]
fn expected_prices_are_this_table() {
    let mut text =
        String::from("utilisation there, hops, part that passes here: price; on the path; kappa; waits\n");
    for (used, hops) in [(0.86, 1.0), (0.95, 1.0), (0.95, 5.0), (0.99, 20.0)] {
        for passing in [0.0, 0.5, 1.0, 3.0] {
            let found = expected(&rival(kappa_of(used), hops, passing), 0.3);
            let waits = wait(&found, Span::from_secs(1)).as_millis();
            let (price, on, kappa) = (found.price, found.on_path, found.kappa);
            writeln!(text, "{used}, {hops}, {passing}: {price:.2}; {on:.2}; {kappa:.2}; {waits} ms").unwrap();
        }
    }
    snapshot::assert("elastic", &text);
}

#[test]
fn as_many_may_start_as_prices_say() {
    let band = Band::default();
    let high = band.high;
    assert_eq!(allowance(&band, [high, 0.0], 0, (2, 9)), 0, "at the end of the band nothing is over-used");
    assert_eq!(allowance(&band, [high * 1.5, high * 3.2], 0, (2, 9)), 4);
    assert_eq!(allowance(&band, [high * 1.5, high * 3.2], 3, (2, 9)), 1, "three are claimed");
    assert_eq!(allowance(&band, [high * 3.2], 0, (8, 9)), 1, "of nine eight serve");
    assert_eq!(allowance(&band, [f64::INFINITY, f64::INFINITY], 0, (8, 9)), 1);
}

#[test]
fn the_best_paid_service_starts_first_where_a_core_has_room() {
    let band = Band::default();
    let rivals = [rival(8.0, 1.0, 0.0), Rival { service: 1, ..rival(40.0, 1.0, 0.0) }, rival(6.0, 1.0, 0.0)];
    let core = |core, used| CoreLoad { core, kappa: kappa_of(used), instances: 0 };
    let found = starts(&band, 0.3, &rivals, &[core(0, 0.2), core(1, 0.0)], |_| 1);
    assert_eq!(found.iter().map(|one| (one.service, one.core)).collect::<Vec<_>>(), [(1, 1), (0, 0)]);
    assert!(starts(&band, 0.3, &rivals, &[core(0, 0.2)], |_| 0).is_empty(), "none is allowed");
    assert!(starts(&band, 0.3, &rivals, &[core(0, 0.8)], |_| 1).is_empty(), "the core is full");
    let far = [rival(8.0, 60.0, 0.0)];
    assert!(starts(&band, 0.3, &far, &[core(0, 0.0)], |_| 1).is_empty(), "nobody would come");
    let within = [rival(band.high, 1.0, 1.0)];
    assert!(starts(&band, 0.3, &within, &[core(0, 0.0)], |_| 1).is_empty(), "nothing is over-used");
}

#[test]
fn an_idle_core_helps_whatever_the_band() {
    for high in [0.1, 0.3, 0.5, 0.85] {
        let band = Band::of_utilisations(0.05, high).unwrap();
        // As much as a price can tell.
        let rivals = [rival(99.0, 1.0, 0.0)];
        let core = |used| [CoreLoad { core: 0, kappa: kappa_of(used), instances: 0 }];
        assert_eq!(starts(&band, 0.3, &rivals, &core(0.0), |_| 1).len(), 1, "{high}");
        assert!(starts(&band, 0.3, &rivals, &core(high), |_| 1).is_empty(), "{high}");
    }
}

#[test]
fn an_instance_ends_when_all_conditions_have_held() {
    let band = Band::default();
    let soon = AGE.as_secs_f64() as u64 + u64::from(EPOCHS) + 1;
    let ended = |all: &[Serving], min: u32, epochs: u8| {
        let mut ends = Ends::default();
        let run = (0..epochs).map(|epoch| {
            ends.on_epoch(Instant(0) + Span::from_secs(soon + u64::from(epoch)), &band, all, |_| min)
        });
        run.last().unwrap_or_default().iter().map(|owner| owner.instance).collect::<Vec<_>>()
    };
    let (idle, busy) = (serving(0, 0.1, 1, 0), serving(2, 0.5, 9, 0));
    assert_eq!(ended(&[idle, busy], 1, EPOCHS), [0]);
    assert_eq!(ended(&[idle, busy], 1, EPOCHS - 1), [0; 0], "not for long enough");
    assert_eq!(ended(&[idle, busy], 2, EPOCHS), [0; 0], "two must stay");
    assert_eq!(ended(&[idle], 0, EPOCHS), [0; 0], "the last one stays");
    assert_eq!(ended(&[serving(0, 0.1, FLOWS, 0), busy], 1, EPOCHS), [0; 0], "too many flows");
    assert_eq!(ended(&[serving(0, 0.1, 1, soon - 3), busy], 1, EPOCHS), [0; 0], "too young");
    assert_eq!(
        ended(&[serving(0, 0.25, 1, 0), serving(1, 0.7, 9, 0)], 1, EPOCHS),
        [0; 0],
        "the other is full then"
    );
    assert_eq!(
        ended(&[serving(0, 0.2, 1, 0), serving(1, 0.1, 1, 0), busy], 1, EPOCHS),
        [1],
        "one in an epoch"
    );
}

#[test]
fn an_instance_that_was_busy_between_starts_counting_anew() {
    let band = Band::default();
    let mut ends = Ends::default();
    for epoch in 0..40 {
        let used = if epoch % u64::from(EPOCHS) == 0 { 0.6 } else { 0.1 };
        let now = Instant(0) + Span::from_secs(100 + epoch);
        let all = [serving(0, used, 1, 0), serving(1, 0.4, 9, 0)];
        assert_eq!(ends.on_epoch(now, &band, &all, |_| 1), [], "{epoch}");
    }
}

#[test]
fn the_first_instance_is_placed_where_it_shortens_ways_most() {
    let place = |node| Place { core: Owner { node: NodeId(node), instance: 0 }, price: 1.0 };
    let class = |ingress, egress, weight| Waiting {
        ingress: NodeId(ingress),
        egress: NodeId(egress),
        stages: vec![0, 1],
        weight,
    };
    let known = |service| match service {
        1 => vec![Candidate { owner: Owner { node: NodeId(4), instance: 0 }, price: 1.0 }],
        _ => Vec::new(),
    };
    let line = Line(5);
    let node = |places: &[Place], classes: &[Waiting]| {
        best(&line, 0, places, classes, known).map(|place| place.core.node.0)
    };
    assert_eq!(node(&[place(0), place(2)], &[class(0, 4, 1.0)]), Some(0), "both lie on the way: the lower");
    assert_eq!(node(&[place(0), place(3)], &[class(0, 4, 1.0), class(3, 4, 5.0)]), Some(3));
    assert_eq!(node(&[place(9)], &[class(0, 4, 1.0)]), None, "out of reach");
    assert_eq!(node(&[], &[class(0, 4, 1.0)]), None);
}

proptest! {
    /// Invariant 5: there are never fewer than the least, and never fewer than one, whatever prices say.
    #[test]
    fn the_least_stay(used in prop::collection::vec(0.0f64..0.4, 1..9), min in 0u32..5) {
        let band = Band::default();
        let mut all: Vec<Serving> = (0..).zip(&used).map(|(number, &used)| serving(number, used, 0, 0)).collect();
        let least = (min.max(1) as usize).min(all.len());
        let mut ends = Ends::default();
        for epoch in 0..60 {
            let now = Instant(0) + Span::from_secs(60 + epoch);
            let ended = ends.on_epoch(now, &band, &all, |_| min);
            prop_assert!(ended.len() <= 1);
            all.retain(|one| !ended.contains(&one.owner));
            prop_assert!(all.len() >= least);
        }
    }

    /// A price is between the two it is weighed of, and never below 0; starts never exceed the most.
    #[test]
    fn prices_and_allowances_are_bounded(
        kappa in 0.0f64..1e5, hops in 0.0f64..40.0, passing in -1.0f64..3.0, claimed in 0u32..9, serving in 0u32..20
    ) {
        let found = expected(&rival(kappa, hops, passing), 0.3);
        prop_assert!((0.0..=found.on_path).contains(&found.price));
        prop_assert!(wait(&found, Span::from_secs(1)).0 <= Span::from_millis(500).0);
        let max = 16;
        let allowed = allowance(&Band::default(), [kappa; 3], claimed, (serving, max));
        prop_assert!(allowed == 0 || allowed + claimed + serving <= max);
    }
}
