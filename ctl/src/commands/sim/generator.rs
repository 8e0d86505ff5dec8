//! From a generator of a configuration to the simulator's flows: its classes, its mix of frame sizes, and the
//! changes of its rate.

use headgate_config::model::{Generator, Load};
use headgate_config::{Rate, SizeMix};
use headgate_sim as sim;
use headgate_units::Span;

/// The mix of twelve frames that the field calls IMIX: bytes, and how many (`Sizes::Imix` of the generator).
const IMIX: &[(u32, u32)] = &[(64, 7), (594, 4), (1518, 1)];

/// Returns the flows of a generator: one for each class and frame size. Those of several sizes come evenly
/// each, where the generator draws the size of each packet.
pub fn flows(generator: &Generator, chain: u16, told_apart: impl Fn(u32) -> u16) -> Vec<sim::Flow> {
    let sizes = match &generator.sizes {
        SizeMix::Weighted(sizes) => sizes.as_slice(),
        SizeMix::Imix => IMIX,
    };
    let all: u64 = sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let rates = match &generator.load {
        Load::Even { rate: Rate::PacketsPerSecond(rate), flows } => vec![(*rate, *flows)],
        Load::Even { rate: Rate::Max, .. } => Vec::new(),
        Load::Classes(classes) => {
            classes.iter().map(|class| (class.packets_per_second, class.flows)).collect()
        }
    };
    let of_class = |(rate, flows): (u64, u32)| {
        let flows = told_apart(flows);
        sizes.iter().map(move |(bytes, weight)| {
            let rate = rate * u64::from(*weight) / all.max(1);
            let arrivals = sim::Arrivals::Constant { rate };
            sim::Flow { chain, worker: 0, bytes: *bytes, arrivals, flows, silent: true }
        })
    };
    rates.into_iter().flat_map(of_class).collect()
}

/// Returns the changes of a generator's rate for one of its flows, whose number this is: it has its part of
/// each rate. One that stops after some packets has no rate from the time on at which all of them came.
pub fn changes(generator: &Generator, number: usize, flow: &sim::Flow) -> Vec<sim::RateChange> {
    let (Some(first), Some(own)) = (rate_of(generator), flow.arrivals.rate()) else { return Vec::new() };
    if own == 0 {
        return Vec::new();
    }
    let part = |rate: u64| (u128::from(rate) * u128::from(own) / u128::from(first.max(1))) as u64;
    let mut changes: Vec<(u64, u64)> = vec![(0, first)];
    changes.extend(generator.steps.iter().filter_map(|step| match step.rate {
        Rate::PacketsPerSecond(rate) => Some((step.at_ns, rate)),
        Rate::Max => None,
    }));
    if let Some(end) = generator.count.and_then(|count| time_of(count, &changes)) {
        changes.retain(|(at, _)| *at < end);
        changes.push((end, 0));
    }
    let change =
        |(at, rate): (u64, u64)| sim::RateChange { at: Span(at), flow: number as u16, rate: part(rate) };
    changes.into_iter().skip(1).map(change).collect()
}

/// Returns the packets per second of all flows of a generator at the start; `None`: as many as are taken.
fn rate_of(generator: &Generator) -> Option<u64> {
    match &generator.load {
        Load::Even { rate: Rate::PacketsPerSecond(rate), .. } => Some(*rate),
        Load::Even { rate: Rate::Max, .. } => None,
        Load::Classes(classes) => Some(classes.iter().map(|class| class.packets_per_second).sum()),
    }
}

/// Returns when so many packets have come, in nanoseconds, at rates that change at these times; `None`:
/// never.
fn time_of(count: u64, changes: &[(u64, u64)]) -> Option<u64> {
    let mut left = u128::from(count);
    for (at, (began, rate)) in changes.iter().enumerate() {
        let rate = u128::from(*rate);
        let ns = if rate == 0 { None } else { Some((left * 1_000_000_000).div_ceil(rate)) };
        let length = changes.get(at + 1).map(|(next, _)| u128::from(next - began));
        match (ns, length) {
            (Some(ns), None) => return Some(began + ns as u64),
            (Some(ns), Some(length)) if ns <= length => return Some(began + ns as u64),
            (_, Some(length)) => left -= rate * length / 1_000_000_000,
            (None, None) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_stops_does_so_when_all_its_packets_came() {
        const SECOND: u64 = 1_000_000_000;
        assert_eq!(time_of(500, &[(0, 1_000)]), Some(SECOND / 2));
        assert_eq!(time_of(1_500, &[(0, 1_000), (SECOND, 0), (2 * SECOND, 500)]), Some(3 * SECOND));
        assert_eq!(time_of(1_500, &[(0, 1_000), (SECOND, 0)]), None);
    }
}
