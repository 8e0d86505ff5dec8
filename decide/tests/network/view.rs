use headgate_decide::market::local::{KAPPA_MAX, next_kappa};
use headgate_decide::market::view::{PERIODS_UNTIL_OLD, PriceView, Source};
use headgate_decide::units::{Instant, Span};
use proptest::prelude::*;

const PERIOD: Span = Span::from_secs(1);

fn at(secs: u64) -> Instant {
    Instant(0) + Span::from_secs(secs)
}

#[test]
fn old_prices_give_way_to_those_of_peers_and_come_back() {
    let mut view = PriceView::new(Source::Hybrid, PERIOD, 2);
    view.on_load(0, 0.5);
    view.on_peer(1, 3.0);
    assert_eq!(view.in_use(at(0)), ([0.5, 3.0].as_slice(), None));
    assert!(view.on_published(at(1), 4, 1, &[7.0, 8.0]));
    assert_eq!(view.in_use(at(1 + PERIODS_UNTIL_OLD)), ([7.0, 8.0].as_slice(), Some(4)));
    assert_eq!(view.in_use(at(2 + PERIODS_UNTIL_OLD)).1, None);
    assert!(view.on_published(at(30), 5, 1, &[1.0, 1.0]));
    assert_eq!(view.in_use(at(30)).1, Some(5));
    let mut alone = PriceView::new(Source::Local, PERIOD, 1);
    assert!(alone.on_published(at(0), 1, 1, &[9.0]));
    assert_eq!(alone.in_use(at(0)), ([0.0].as_slice(), None));
    assert!(PriceView::new(Source::Central, PERIOD, 1).is_central() && !alone.is_central());
}

#[test]
fn lying_peers_and_broken_vectors_are_ignored() {
    let mut view = PriceView::new(Source::Hybrid, PERIOD, 2);
    for bad in [&[1.0][..], &[1.0, -1.0], &[1.0, f64::NAN], &[1.0, 2.0, 3.0]] {
        assert!(!view.on_published(at(0), 1, 1, bad));
    }
    view.on_peer(0, -4.0);
    view.on_peer(0, f64::NAN);
    view.on_peer(9, 1.0);
    view.on_load(9, 1.0);
    view.on_load(1, f64::NAN);
    assert_eq!(view.in_use(at(0)), ([0.0, 0.0].as_slice(), None));
    view.on_peer(0, f64::INFINITY);
    assert!(view.in_use(at(0)).0[0].is_finite());
}

#[test]
fn a_local_price_rests_where_the_solvers_does_and_comes_down_soon() {
    let mut kappa: f64 = 0.0;
    (0..300).for_each(|_| kappa = next_kappa(kappa, 0.85));
    assert!((kappa - 0.85 / 0.15).abs() < 0.01, "{kappa}");
    (0..20).for_each(|_| kappa = next_kappa(kappa, 1e9));
    assert_eq!(kappa, KAPPA_MAX);
    let falls = (1..).find(|_| {
        kappa = next_kappa(kappa, 0.3);
        kappa < 1.0
    });
    assert!(falls.is_some_and(|periods| periods <= 5), "{falls:?}");
}

proptest! {
    /// Invariant 4: one term's prices are in use, and terms never fall.
    #[test]
    fn terms_never_fall(published in prop::collection::vec((0u64..5, 0u64..5, 0u64..30), 1..40)) {
        let mut view = PriceView::new(Source::Hybrid, PERIOD, 1);
        let (mut now, mut last) = (0, 0);
        for (term, epoch, wait) in published {
            now += wait;
            let taken = view.on_published(at(now), term, epoch, &[(term * 100 + epoch) as f64]);
            let (prices, in_use) = view.in_use(at(now));
            if let Some(in_use) = in_use {
                prop_assert!(in_use >= last);
                prop_assert_eq!(prices[0] as u64 / 100, in_use);
                last = in_use;
            }
            prop_assert!(!taken || in_use == Some(term));
        }
    }
}
