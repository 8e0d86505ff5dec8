//! Steps towards the prices of an epoch, from those of the last.
//!
//! All prices are scaled: `q = p c / w0`, 1 where nothing is used. In them a step is `q <- 1 + q u`, `u`
//! being the part of the capacity that rates at these prices would use.

use alloc::vec::Vec;

use super::demand::Demand;
use super::{DUMMY_WEIGHT, GAP, OFF_MAX, PRICE_MAX};

/// The most that rates may use of a resource in the primal point: its dummy flow needs some.
const FULL: f64 = 0.999;

/// Prices of all resources.
#[derive(Clone, Debug, Default)]
pub struct Solver {
    scaled: Vec<f64>,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps, each once over all classes.
    pub steps: u32,
    /// Duality gap over the sum of all weights.
    pub gap: f64,
    /// Load of the resource that is used most at these prices, over its capacity.
    pub load_max: f64,
    /// Whether the gap and what is off are small enough; else the budget ended first, and the prices are
    /// the best so far.
    pub is_settled: bool,
}

/// What one pass over all classes finds at some prices.
#[derive(Clone, Debug, Default)]
struct Pass {
    /// By resource, the part of its capacity that real flows use.
    loads: Vec<f64>,
    dual: f64,
    gap: f64,
    load_max: f64,
    /// Largest difference of a load, its dummy flow's included, from the capacity.
    off_max: f64,
}

impl Solver {
    /// Steps until prices are settled ([`GAP`], [`OFF_MAX`]), `steps_max` are done, or `goes_on`, which
    /// is asked before each step, says no. Starts from the last prices; resources that it has not seen
    /// start at the lowest.
    pub fn solve(&mut self, demand: &Demand, steps_max: u32, mut goes_on: impl FnMut() -> bool) -> Progress {
        self.scaled.resize(demand.resources(), 1.0);
        let mut at = Pass::default();
        at.run(demand, &self.scaled);
        let (mut next, mut after, mut leapt) = (Pass::default(), Pass::default(), Vec::new());
        let mut steps = 0;
        let mut may = |steps: u32| steps < steps_max && goes_on();
        while !at.is_settled() && may(steps) {
            let first = stepped(&self.scaled, &at.loads);
            next.run(demand, &first);
            steps += 1;
            if next.is_settled() || !may(steps) {
                self.scaled = first;
                core::mem::swap(&mut at, &mut next);
                continue;
            }
            let second = stepped(&first, &next.loads);
            leap(&self.scaled, &first, &second, &mut leapt);
            after.run(demand, &leapt);
            steps += 1;
            if after.dual <= next.dual {
                self.scaled.clone_from(&leapt);
            } else {
                after.run(demand, &second);
                steps += 1;
                self.scaled = second;
            }
            core::mem::swap(&mut at, &mut after);
        }
        Progress { steps, gap: at.gap, load_max: at.load_max, is_settled: at.is_settled() }
    }

    /// Takes one step without a leap, and returns the dual before it.
    pub fn step(&mut self, demand: &Demand) -> f64 {
        self.scaled.resize(demand.resources(), 1.0);
        let mut at = Pass::default();
        at.run(demand, &self.scaled);
        self.scaled = stepped(&self.scaled, &at.loads);
        at.dual
    }

    /// Returns the price without a scale of each resource, `u / (1 - u)`.
    pub fn kappas(&self) -> impl Iterator<Item = f64> {
        self.scaled.iter().map(|scaled| scaled - 1.0)
    }

    /// Returns the rate of each class at these prices.
    pub fn rates(&self, demand: &Demand) -> impl Iterator<Item = f64> {
        demand.iter().map(|(weight, rate_max, way)| rate(weight, rate_max, price(&self.scaled, way)))
    }
}

impl Pass {
    fn is_settled(&self) -> bool {
        self.gap <= GAP && self.off_max <= OFF_MAX
    }

    /// Sums loads, the dual, and the gap to the rates scaled so that they fit. Terms that depend on
    /// capacities alone are left out of both sides.
    fn run(&mut self, demand: &Demand, scaled: &[f64]) {
        self.loads.clear();
        self.loads.resize(scaled.len(), 0.0);
        let (mut weights, mut utility, mut paid) = (0.0, 0.0, 0.0);
        for (weight, rate_max, way) in demand.iter() {
            let price = price(scaled, way);
            let rate = rate(weight, rate_max, price);
            weights += weight;
            utility += weight * libm::log(rate);
            paid += price * rate;
            way.iter().for_each(|&(resource, share)| self.loads[resource as usize] += share * rate);
        }
        self.load_max = self.loads.iter().copied().fold(0.0, f64::max);
        let fits = if self.load_max > FULL { FULL / self.load_max } else { 1.0 };
        let (mut dummies, mut free, mut off_max) = (0.0, 0.0, 0.0);
        for (&price, &load) in scaled.iter().zip(&self.loads) {
            dummies += price - 1.0 - libm::log(price);
            free += libm::log(1.0 - fits * load);
            off_max = f64::max(off_max, (load + 1.0 / price - 1.0).abs());
        }
        self.off_max = off_max;
        self.dual = utility - paid + DUMMY_WEIGHT * dummies;
        let primal = utility + weights * libm::log(fits) + DUMMY_WEIGHT * free;
        self.gap = (self.dual - primal) / demand.weight().max(1.0);
    }
}

/// Returns the price of a bit on its way.
#[inline]
fn price(scaled: &[f64], way: &[(u32, f64)]) -> f64 {
    DUMMY_WEIGHT * way.iter().map(|&(resource, share)| scaled[resource as usize] * share).sum::<f64>()
}

#[inline]
const fn rate(weight: f64, rate_max: f64, price: f64) -> f64 {
    let elastic = weight / price;
    if elastic < rate_max { elastic } else { rate_max }
}

fn bounded(scaled: f64) -> f64 {
    scaled.clamp(1.0, PRICE_MAX)
}

fn stepped(scaled: &[f64], loads: &[f64]) -> Vec<f64> {
    scaled.iter().zip(loads).map(|(price, load)| bounded(1.0 + price * load / DUMMY_WEIGHT)).collect()
}

/// Extrapolates from three prices in a row, in logarithms (SQUAREM, third scheme).
fn leap(before: &[f64], first: &[f64], second: &[f64], into: &mut Vec<f64>) {
    let log = |of: &[f64]| -> Vec<f64> { of.iter().map(|&price| libm::log(price)).collect() };
    let (before, first, second) = (log(before), log(first), log(second));
    let triples =
        || before.iter().zip(&first).zip(&second).map(|((&a, &b), &c)| (a, b - a, (c - b) - (b - a)));
    let (mut speed, mut turn) = (0.0, 0.0);
    triples().for_each(|(_, by, bend)| {
        speed += by * by;
        turn += bend * bend;
    });
    let length = if turn > 0.0 { libm::sqrt(speed / turn).max(1.0) } else { 1.0 };
    let point = |(at, by, bend): (f64, f64, f64)| at + 2.0 * length * by + length * length * bend;
    into.clear();
    into.extend(triples().map(|triple| bounded(libm::exp(point(triple)))));
}
