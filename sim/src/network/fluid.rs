//! Flows as fluid: those of one path share a virtual-service clock.
//!
//! All flows of a path have the same rate, so the bits that each of them has had since some moment are
//! the same. The path's clock counts them; a flow ends when the clock has come as far as its size beyond
//! where it began. So an arrival or an end is a step in an ordered set of one path, and a change of rates
//! is one number for each path.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use headgate_decide::market::demand::Use;
use headgate_decide::units::Instant;

use super::rates::{Bundle, Sharing, rates};

/// Slot of a flow.
pub(crate) type FlowId = u32;

/// Number of a path.
pub(crate) type PathId = u32;

const NS: f64 = 1e9;

/// Flows of one way.
#[derive(Clone, Debug)]
struct Path {
    way: Vec<Use>,
    /// Bits that each flow has had.
    clock: f64,
    at: Instant,
    /// Bits per second of each flow.
    rate: f64,
    /// Where the clock is when a flow ends (bits of a positive number are in its order), and the flow.
    ends: BTreeSet<(u64, FlowId)>,
    /// Number of its newest entry among the next ends.
    entry: u32,
    /// Flow-seconds and bits since the last report.
    flow_seconds: f64,
    bits: f64,
}

/// What a path did in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathLoad {
    pub(crate) path: PathId,
    /// Seconds, summed over flows.
    pub(crate) flow_seconds: f64,
    pub(crate) bits: f64,
    /// Flows now.
    pub(crate) flows: u32,
    /// Rate of each now.
    pub(crate) rate: f64,
}

/// All flows of a network.
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    sharing: Sharing,
    capacities: Vec<f64>,
    paths: Vec<Path>,
    /// Paths with flows.
    active: BTreeSet<PathId>,
    /// Next end of each path with flows, and entries that are out of date: those of another number.
    next: BinaryHeap<Reverse<(Instant, PathId, u32)>>,
    is_stale: bool,
}

impl Path {
    fn advance(&mut self, now: Instant) {
        let seconds = (now - self.at).0 as f64 / NS;
        let flows = self.ends.len() as f64;
        self.clock += self.rate * seconds;
        self.bits += self.rate * seconds * flows;
        self.flow_seconds += seconds * flows;
        self.at = now;
    }

    /// When the first of its flows ends at this rate.
    fn next_end(&self) -> Option<Instant> {
        let (end, _) = self.ends.first()?;
        let left = (f64::from_bits(*end) - self.clock).max(0.0);
        let ns = left / self.rate * NS;
        // A cast saturates: a path without a rate never ends a flow.
        (self.rate > 0.0).then(|| Instant(self.at.0.saturating_add(ns.ceil() as u64)))
    }
}

impl Fluid {
    pub(crate) fn new(sharing: Sharing, capacities: Vec<f64>) -> Self {
        Self {
            sharing,
            capacities,
            paths: Vec::new(),
            active: BTreeSet::new(),
            next: BinaryHeap::new(),
            is_stale: false,
        }
    }

    /// Makes a path without flows.
    pub(crate) fn open(&mut self, now: Instant, way: Vec<Use>) -> PathId {
        let path = Path {
            way,
            clock: 0.0,
            at: now,
            rate: 0.0,
            ends: BTreeSet::new(),
            entry: 0,
            flow_seconds: 0.0,
            bits: 0.0,
        };
        self.paths.push(path);
        self.paths.len() as PathId - 1
    }

    /// Begins a flow of so many bits. Returns where its path's clock will be when it ends: its ticket.
    pub(crate) fn begin(&mut self, now: Instant, path: PathId, flow: FlowId, bits: f64) -> u64 {
        let one = &mut self.paths[path as usize];
        one.advance(now);
        let ticket = (one.clock + bits.max(1.0)).to_bits();
        one.ends.insert((ticket, flow));
        self.active.insert(path);
        self.is_stale = true;
        ticket
    }

    /// Ends a flow before it is done, and returns the bits that it still has.
    pub(crate) fn leave(&mut self, now: Instant, path: PathId, flow: FlowId, ticket: u64) -> f64 {
        let one = &mut self.paths[path as usize];
        one.advance(now);
        one.ends.remove(&(ticket, flow));
        self.is_stale = true;
        self.schedule(path);
        (f64::from_bits(ticket) - self.paths[path as usize].clock).max(0.0)
    }

    /// Notes when the next flow of a path ends.
    fn schedule(&mut self, path: PathId) {
        let one = &mut self.paths[path as usize];
        one.entry += 1;
        if one.ends.is_empty() {
            self.active.remove(&path);
        }
        if let Some(at) = one.next_end() {
            self.next.push(Reverse((at, path, one.entry)));
        }
    }

    /// Whether flows came or went since the rates were computed.
    pub(crate) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Computes all rates anew.
    pub(crate) fn share(&mut self, now: Instant) {
        self.is_stale = false;
        let paths = &self.paths;
        let bundle = |path: &PathId| {
            let path = &paths[*path as usize];
            Bundle { flows: path.ends.len() as f64, way: &path.way }
        };
        let bundles: Vec<Bundle<'_>> = self.active.iter().map(bundle).collect();
        let found = rates(self.sharing, &self.capacities, &bundles);
        let mut next = std::mem::take(&mut self.next).into_vec();
        next.clear();
        for (path, rate) in self.active.iter().zip(found) {
            let one = &mut self.paths[*path as usize];
            if one.rate != rate {
                one.advance(now);
                one.rate = rate;
            }
            one.entry += 1;
            next.extend(one.next_end().map(|at| Reverse((at, *path, one.entry))));
        }
        self.next = next.into();
    }

    /// When the next flow ends.
    pub(crate) fn next_end(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, path, entry))) = self.next.peek().copied() {
            if self.paths[path as usize].entry == entry {
                return Some(at);
            }
            self.next.pop();
        }
        None
    }

    /// Ends the flow that is due, and returns it.
    pub(crate) fn end(&mut self, now: Instant) -> Option<FlowId> {
        self.next_end().filter(|at| at.is_due(now))?;
        let Reverse((_, path, _)) = self.next.pop()?;
        let one = &mut self.paths[path as usize];
        one.advance(now);
        let (_, flow) = one.ends.pop_first()?;
        self.is_stale = true;
        self.schedule(path);
        Some(flow)
    }

    /// Returns what each path with flows now or since the last report did, and begins a new period.
    pub(crate) fn report(&mut self, now: Instant) -> Vec<PathLoad> {
        let mut loads = Vec::new();
        for (path, one) in (0..).zip(&mut self.paths) {
            if one.ends.is_empty() && one.flow_seconds == 0.0 {
                continue;
            }
            one.advance(now);
            loads.push(PathLoad {
                path,
                flow_seconds: std::mem::take(&mut one.flow_seconds),
                bits: std::mem::take(&mut one.bits),
                flows: one.ends.len() as u32,
                rate: one.rate,
            });
        }
        loads
    }

    pub(crate) fn way(&self, path: PathId) -> &[Use] {
        &self.paths[path as usize].way
    }

    /// Returns the rate of each flow of a path.
    pub(crate) fn rate(&self, path: PathId) -> f64 {
        self.paths[path as usize].rate
    }

    pub(crate) fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Returns the load of each resource now.
    pub(crate) fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.capacities.len()];
        for path in self.active.iter().map(|path| &self.paths[*path as usize]) {
            for one in &path.way {
                loads[one.resource as usize] += path.rate * path.ends.len() as f64 * one.coefficient;
            }
        }
        loads
    }

    /// Number of flows.
    pub(crate) fn live(&self) -> usize {
        self.active.iter().map(|path| self.paths[*path as usize].ends.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use headgate_decide::units::Span;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(0) + Span::from_millis(millis)
    }

    #[test]
    fn flows_end_when_a_pencil_says() {
        let mut fluid = Fluid::new(Sharing::MaxMin, vec![1000.0]);
        let path = fluid.open(at(0), vec![Use { resource: 0, coefficient: 1.0 }]);
        fluid.begin(at(0), path, 1, 1000.0);
        fluid.share(at(0));
        assert_eq!(fluid.next_end(), Some(at(1000)));
        // After half a second another of the same size: 500 bits are left, at half the rate.
        let ticket = fluid.begin(at(500), path, 2, 1000.0);
        fluid.share(at(500));
        assert_eq!(fluid.next_end(), Some(at(1500)));
        assert_eq!((fluid.end(at(1499)), fluid.end(at(1500))), (None, Some(1)));
        fluid.share(at(1500));
        assert_eq!(fluid.next_end(), Some(at(2000)));
        assert_eq!(fluid.leave(at(1750), path, 2, ticket), 250.0);
        assert_eq!((fluid.next_end(), fluid.live()), (None, 0));
        let load = fluid.report(at(2000))[0];
        assert_eq!((load.bits, load.flow_seconds, load.flows), (1750.0, 2.75, 0));
        assert_eq!(fluid.report(at(3000)), []);
    }
}
