use std::fmt::Write as _;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::demand::{Demand, DemandError, Use};
use super::solver::Solver;
use super::{DUMMY_WEIGHT, OFF_MAX, PRICE_MAX, kappa_of};
use crate::snapshot;

/// Weight, highest rate, and way of a class.
type Class = (f64, f64, Vec<Use>);

fn over(resources: &[u32]) -> Vec<Use> {
    resources.iter().map(|&resource| Use { resource, coefficient: 1.0 }).collect()
}

fn demand(capacities: &[f64], classes: &[Class]) -> Demand {
    let mut demand = Demand::new(capacities.iter().copied());
    for (weight, rate_max, way) in classes {
        demand.add(*weight, *rate_max, way).expect("a sound class");
    }
    demand
}

fn solved(demand: &Demand) -> (Vec<f64>, f64) {
    let mut solver = Solver::default();
    let progress = solver.solve(demand, 10_000, || true);
    assert!(progress.is_settled, "{progress:?}");
    (solver.kappas().collect(), progress.load_max)
}

/// The optimum by another way: one price after another is moved to where the dual's slope in it is 0, by
/// bisection, until none moves. Slow, and sure: the dual is convex and smooth.
fn oracle(capacities: &[f64], classes: &[Class]) -> Vec<f64> {
    let mut prices: Vec<f64> = capacities.iter().map(|capacity| DUMMY_WEIGHT / capacity).collect();
    let excess = |prices: &[f64], at: usize| {
        let used: f64 = classes
            .iter()
            .map(|(weight, rate_max, way)| {
                let price: f64 = way.iter().map(|one| one.coefficient * prices[one.resource as usize]).sum();
                let here: f64 =
                    way.iter().filter(|one| one.resource as usize == at).map(|one| one.coefficient).sum();
                here * (weight / price).min(*rate_max)
            })
            .sum();
        used + DUMMY_WEIGHT / prices[at] - capacities[at]
    };
    for _ in 0..400 {
        for at in 0..prices.len() {
            let (mut low, mut high) = (DUMMY_WEIGHT / capacities[at], PRICE_MAX / capacities[at]);
            for _ in 0..80 {
                let middle = (low * high).sqrt();
                prices[at] = middle;
                if excess(&prices, at) > 0.0 { low = middle } else { high = middle }
            }
        }
    }
    prices.iter().zip(capacities).map(|(price, capacity)| price * capacity / DUMMY_WEIGHT - 1.0).collect()
}

fn network() -> impl Strategy<Value = (Vec<f64>, Vec<Class>)> {
    let capacities = prop::collection::vec(1.0f64..1000.0, 2..7);
    capacities.prop_flat_map(|capacities| {
        let count = capacities.len();
        let way = prop::sample::subsequence((0..count as u32).collect::<Vec<_>>(), 1..=count.min(3));
        let class = (0.2f64..8.0, prop::option::of(1.0f64..300.0), way, 0.5f64..3.0).prop_map(
            |(weight, cap, way, coefficient)| {
                let way = way.into_iter().map(|resource| Use { resource, coefficient });
                (weight, cap.unwrap_or(f64::INFINITY), way.collect())
            },
        );
        (Just(capacities), prop::collection::vec(class, 1..8))
    })
}

#[test]
fn elastic_flows_alone_make_a_price_that_counts_them() {
    for flows in [1.0, 2.0, 10.0, 300.0] {
        let (kappas, _) = solved(&demand(&[1e8], &[(flows, f64::INFINITY, over(&[0]))]));
        assert!((kappas[0] / (flows / DUMMY_WEIGHT) - 1.0).abs() < 0.05, "{flows}: {kappas:?}");
    }
}

#[test]
fn capped_flows_make_the_price_of_their_utilisation() {
    for used in [0.1, 0.3, 0.5, 0.85] {
        let (kappas, load) = solved(&demand(&[1e9], &[(500.0, used * 1e9, over(&[0]))]));
        let meant = kappas[0] / (1.0 + kappas[0]);
        assert!((load - used).abs() < 1e-9 && (meant - used).abs() <= OFF_MAX, "{used}: {kappas:?}");
    }
    let figures = [0.30, 0.50, 0.85, 0.95, 1.0, 7.0].map(|used| (kappa_of(used) * 100.0).round() / 100.0);
    assert_eq!(figures[..4], [0.43, 1.0, 5.67, 19.0]);
    assert!(figures[4] > 9e5 && figures[5] == figures[4]);
}

#[test]
fn a_dead_resource_leaves_and_its_classes_wait() {
    let mut demand = Demand::new([0.0, 100.0, f64::NAN, -5.0]);
    assert_eq!(demand.add(1.0, f64::INFINITY, &over(&[0, 1])), Ok(false));
    assert_eq!(demand.add(1.0, f64::INFINITY, &over(&[2])), Ok(false));
    assert_eq!(demand.add(1.0, f64::INFINITY, &over(&[3])), Ok(false));
    assert_eq!(demand.add(1.0, f64::INFINITY, &over(&[1])), Ok(true));
    assert_eq!((demand.classes(), demand.weight()), (1, 1.0 + DUMMY_WEIGHT));
    let (kappas, _) = solved(&demand);
    assert_eq!((kappas[0], kappas[2], kappas[3]), (0.0, 0.0, 0.0));
    assert!(kappas[1] > 0.9);
}

#[test]
fn demand_that_cannot_be_is_refused_and_leaves_nothing_behind() {
    let mut demand = Demand::new([1.0]);
    assert_eq!(demand.add(1.0, 1.0, &[]), Err(DemandError::NoWay));
    assert_eq!(demand.add(1.0, 1.0, &over(&[1])), Err(DemandError::NoResource(1)));
    assert_eq!(demand.add(0.0, 1.0, &over(&[0])), Err(DemandError::NotPositive(0.0)));
    assert_eq!(demand.add(1.0, -1.0, &over(&[0])), Err(DemandError::NotPositive(-1.0)));
    for bad in [f64::NAN, f64::INFINITY] {
        assert!(demand.add(bad, 1.0, &over(&[0])).is_err());
        assert!(demand.add(1.0, 1.0, &[Use { resource: 0, coefficient: bad }]).is_err());
    }
    assert!(demand.add(1.0, f64::NAN, &over(&[0])).is_err());
    assert_eq!((demand.classes(), demand.weight()), (0, DUMMY_WEIGHT));
    assert_eq!(solved(&demand).0, [0.0]);
}

#[test]
fn a_run_ends_with_its_budget_and_says_so() {
    let demand = demand(&[1e8, 1e9], &[(40.0, f64::INFINITY, over(&[0, 1])), (3.0, 1e7, over(&[1]))]);
    let mut solver = Solver::default();
    assert!(!solver.solve(&demand, 2, || true).is_settled);
    let mut asked = 0;
    let progress = solver.solve(&demand, 1000, || {
        asked += 1;
        asked <= 3
    });
    assert!(progress.steps <= 4, "{progress:?}");
    // What was reached is where the next run starts.
    let rest = solver.solve(&demand, 1000, || true);
    assert!(rest.is_settled);
    assert_eq!(solver.solve(&demand, 1000, || true).steps, 0);
}

/// Prices of a line of three links and a core by the step, without leaps and with.
#[test]
fn prices_settle_as_in_this_table() {
    let ways = [over(&[0, 1, 2]), over(&[0, 3]), over(&[1]), over(&[2, 3])];
    let flows = [(6.0, f64::INFINITY), (2.0, 2e7), (1.0, 5e7), (3.0, f64::INFINITY)];
    let classes: Vec<Class> =
        flows.iter().zip(ways).map(|(&(weight, cap), way)| (weight, cap, way)).collect();
    let demand = demand(&[1e8, 1e8, 1e9, 1e8], &classes);
    let mut text = String::from("steps: kappa of three links and a core; gap\n");
    let mut line = |steps: u32, solver: &Solver, gap: f64| {
        let kappas: Vec<String> = solver.kappas().map(|kappa| std::format!("{kappa:.3}")).collect();
        writeln!(text, "{steps}: {}; {gap:.1e}", kappas.join(" ")).unwrap();
    };
    for steps in [1, 2, 3, 4, 6, 8, 1000] {
        let mut solver = Solver::default();
        let progress = solver.solve(&demand, steps, || true);
        line(progress.steps, &solver, progress.gap);
    }
    snapshot::assert("market", &text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The optimum is that of another solver: the duality gap is small, and the rates are near.
    #[test]
    fn the_optimum_is_an_independent_solvers((capacities, classes) in network()) {
        let demand = demand(&capacities, &classes);
        let mut solver = Solver::default();
        // Steps without end would come as near as one likes: these are 40 times what the gap asks for.
        solver.solve(&demand, 10_000, || true);
        for _ in 0..4000 {
            solver.step(&demand);
        }
        let exact = oracle(&capacities, &classes);
        for (found, exact) in solver.kappas().zip(&exact) {
            prop_assert!((found - exact).abs() <= 0.02 * (1.0 + exact), "{found} {exact}");
        }
    }

    #[test]
    fn the_dual_falls_in_each_step((capacities, classes) in network()) {
        let demand = demand(&capacities, &classes);
        let mut solver = Solver::default();
        let mut last = f64::INFINITY;
        for _ in 0..200 {
            let dual = solver.step(&demand);
            prop_assert!(dual <= last + 1e-9 * last.abs().max(1.0), "{dual} after {last}");
            last = dual;
        }
    }

    /// Prices stay in their bounds, and a settled run overloads nothing by more than the gap explains.
    #[test]
    fn prices_are_bounded_and_loads_fit((capacities, classes) in network()) {
        let demand = demand(&capacities, &classes);
        let mut solver = Solver::default();
        let progress = solver.solve(&demand, 10_000, || true);
        prop_assert!(progress.is_settled && progress.gap >= -1e-9, "{progress:?}");
        prop_assert!(solver.kappas().all(|kappa| (0.0..PRICE_MAX).contains(&kappa)));
                prop_assert!(progress.load_max <= 1.0 + OFF_MAX, "{progress:?}");
        prop_assert!(solver.rates(&demand).zip(&classes).all(|(rate, class)| rate <= class.1));
    }

    /// At the optimum a price is that of its resource's utilisation by real flows.
    #[test]
    fn kappa_is_used_over_free((capacities, classes) in network()) {
        let demand = demand(&capacities, &classes);
        let mut solver = Solver::default();
        solver.solve(&demand, 10_000, || true);
        for _ in 0..4000 {
            solver.step(&demand);
        }
        let mut loads = std::vec![0.0; capacities.len()];
        for (rate, class) in solver.rates(&demand).zip(&classes) {
            for one in &class.2 {
                loads[one.resource as usize] += rate * one.coefficient / capacities[one.resource as usize];
            }
        }
        for (kappa, load) in solver.kappas().zip(loads) {
            prop_assert!((kappa - kappa_of(load)).abs() <= 0.02 * (1.0 + kappa), "{kappa} of {load}");
        }
    }
}
