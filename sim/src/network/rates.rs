//! Rates of flows that share links and cores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headgate_decide::market::demand::{Demand, Use};
use headgate_decide::market::solver::Solver;

/// How resources are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody's rate can rise without that of one who has less: what TCP of equal round trips comes to.
    #[default]
    MaxMin,
    /// The sum of the logarithms of all rates is as large as it can be.
    Proportional,
}

/// Weight of a flow over that of a resource's dummy flow: what the dummy takes is then a thousandth of a
/// flow's.
const FLOW_WEIGHT: f64 = 1000.0;
/// Steps of the solver for one set of flows.
const STEPS_MAX: u32 = 500;

/// Flows of one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bundle<'a> {
    /// Number of flows.
    pub(crate) flows: f64,
    /// What a bit of each takes of which resource.
    pub(crate) way: &'a [Use],
}

/// Returns the rate of each flow of each bundle. One through a resource without capacity has none.
pub(crate) fn rates(sharing: Sharing, capacities: &[f64], bundles: &[Bundle<'_>]) -> Vec<f64> {
    match sharing {
        Sharing::MaxMin => max_min(capacities, bundles),
        Sharing::Proportional => proportional(capacities, bundles),
    }
}

/// A positive number in the order of numbers.
#[derive(Clone, Copy, PartialEq)]
struct Level(f64);

impl Eq for Level {}
impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Level {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Which bundles use which resource.
struct Crossings {
    /// What of each resource one bit per second of each flow takes.
    taken: Vec<f64>,
    /// Bundles by resource, one after another in one list; and where those of each resource end.
    on: Vec<usize>,
    ends: Vec<u32>,
    /// Number of bundles on each resource.
    open: Vec<u32>,
}

impl Crossings {
    fn of(resources: usize, bundles: &[Bundle<'_>]) -> Self {
        let mut taken = vec![0.0; resources];
        let mut open = vec![0u32; resources];
        for one in bundles.iter().flat_map(|bundle| bundle.way) {
            open[one.resource as usize] += 1;
        }
        let mut ends: Vec<u32> = open.clone();
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut starts: Vec<u32> = ends.iter().zip(&open).map(|(end, count)| end - count).collect();
        let mut on = vec![0; ends.last().copied().unwrap_or(0) as usize];
        for (number, bundle) in bundles.iter().enumerate() {
            for one in bundle.way {
                let at = one.resource as usize;
                taken[at] += bundle.flows * one.coefficient;
                on[starts[at] as usize] = number;
                starts[at] += 1;
            }
        }
        Self { taken, on, ends, open }
    }
}

/// Raises all rates together; where a resource is full, the flows on it stay at that level. A resource's
/// level only rises while others freeze their flows, so a heap with levels that may be too low is enough.
fn max_min(capacities: &[f64], bundles: &[Bundle<'_>]) -> Vec<f64> {
    let Crossings { mut taken, on, ends, mut open } = Crossings::of(capacities.len(), bundles);
    let mut left = capacities.to_vec();
    let level = |left: &[f64], taken: &[f64], at: usize| Level((left[at] / taken[at]).max(0.0));
    let used = (0..capacities.len()).filter(|&at| open[at] > 0);
    let mut heap: BinaryHeap<Reverse<(Level, u32)>> =
        used.map(|at| Reverse((level(&left, &taken, at), at as u32))).collect();
    let mut rates = vec![-1.0; bundles.len()];
    while let Some(Reverse((known, resource))) = heap.pop() {
        let at = resource as usize;
        if open[at] == 0 {
            continue;
        }
        let now = level(&left, &taken, at);
        if now > known {
            heap.push(Reverse((now, resource)));
            continue;
        }
        let begin = if at == 0 { 0 } else { ends[at - 1] };
        for &number in &on[begin as usize..ends[at] as usize] {
            let (rate, bundle) = (&mut rates[number], &bundles[number]);
            if *rate >= 0.0 {
                continue;
            }
            *rate = now.0;
            for one in bundle.way {
                let place = one.resource as usize;
                left[place] -= bundle.flows * one.coefficient * now.0;
                taken[place] -= bundle.flows * one.coefficient;
                open[place] -= 1;
            }
        }
    }
    rates
}

fn proportional(capacities: &[f64], bundles: &[Bundle<'_>]) -> Vec<f64> {
    let mut demand = Demand::new(capacities.iter().copied());
    let add = |bundle: &Bundle<'_>| {
        demand.add(bundle.flows * FLOW_WEIGHT, f64::INFINITY, bundle.way).unwrap_or(false)
    };
    let is_served: Vec<bool> = bundles.iter().map(add).collect();
    let mut solver = Solver::default();
    let progress = solver.solve(&demand, STEPS_MAX, || true);
    let fits = progress.load_max.max(1.0);
    let mut found = solver.rates(&demand);
    let rate = |(is_served, bundle): (bool, &Bundle<'_>)| match is_served {
        true => found.next().map_or(0.0, |rate| rate / bundle.flows / fits),
        false => 0.0,
    };
    is_served.into_iter().zip(bundles).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(resources: &[u32]) -> Vec<Use> {
        resources.iter().map(|&resource| Use { resource, coefficient: 1.0 }).collect()
    }

    #[test]
    fn a_line_shares_as_the_textbook_says() {
        // One flow over both links, one over each: max-min halves, proportional fairness gives a third.
        let ways = [over(&[0, 1]), over(&[0]), over(&[1])];
        let bundles: Vec<Bundle<'_>> = ways.iter().map(|way| Bundle { flows: 1.0, way }).collect();
        assert_eq!(rates(Sharing::MaxMin, &[10.0, 10.0], &bundles), [5.0; 3]);
        let found = rates(Sharing::Proportional, &[10.0, 10.0], &bundles);
        assert!((found[0] - 10.0 / 3.0).abs() < 0.05 && (found[1] - 20.0 / 3.0).abs() < 0.1, "{found:?}");
        let unequal = rates(Sharing::MaxMin, &[10.0, 40.0], &bundles);
        assert_eq!(unequal, [5.0, 5.0, 35.0]);
        assert_eq!(rates(Sharing::MaxMin, &[0.0, 10.0], &bundles), [0.0, 0.0, 10.0]);
        assert_eq!(rates(Sharing::Proportional, &[0.0, 10.0], &bundles)[..2], [0.0, 0.0]);
        assert_eq!(rates(Sharing::MaxMin, &[], &[]), [0.0; 0]);
    }

    #[test]
    fn max_min_is_max_min() {
        use crate::random::Random;
        for seed in 0..200 {
            let mut random = Random::stream(seed, 1);
            let capacities: Vec<f64> = (0..6).map(|_| random.between(1, 100) as f64).collect();
            let ways: Vec<Vec<Use>> = (0..random.between(1, 12))
                .map(|_| {
                    let mut way = over(&[]);
                    for resource in 0..6 {
                        if random.below(3) == 0 {
                            way.push(Use { resource, coefficient: random.between(1, 3) as f64 });
                        }
                    }
                    if way.is_empty() { over(&[0]) } else { way }
                })
                .collect();
            let bundles: Vec<Bundle<'_>> =
                ways.iter().map(|way| Bundle { flows: random.between(1, 5) as f64, way }).collect();
            let found = rates(Sharing::MaxMin, &capacities, &bundles);
            let load = |resource: u32| -> f64 {
                let of = |(bundle, rate): (&Bundle<'_>, &f64)| -> f64 {
                    let here = bundle.way.iter().filter(|one| one.resource == resource);
                    here.map(|one| one.coefficient * bundle.flows * rate).sum()
                };
                bundles.iter().zip(&found).map(of).sum()
            };
            for (resource, capacity) in (0..).zip(&capacities) {
                assert!(load(resource) <= capacity * (1.0 + 1e-9), "{seed}");
            }
            // Each flow passes a full resource on which nobody has more.
            for (bundle, rate) in bundles.iter().zip(&found) {
                let is_bottleneck = |one: &Use| {
                    let full = load(one.resource) >= capacities[one.resource as usize] * (1.0 - 1e-9);
                    let passes =
                        |other: &&Bundle<'_>| other.way.iter().any(|use_| use_.resource == one.resource);
                    let rates = bundles.iter().zip(&found).filter(|(other, _)| passes(other));
                    full && rates.map(|(_, other)| *other).fold(0.0, f64::max) <= rate * (1.0 + 1e-9)
                };
                assert!(bundle.way.iter().any(is_bottleneck), "{seed}");
            }
        }
    }
}
