//! Checks of specifications: what cannot be generated, and what to ask for instead.

use std::net::IpAddr;

use crate::spec::{
    CHECK_SEQUENCE_BYTES, CLASSES_MAX, Class, FLOWS_MAX, FRAME_BYTES_MIN, GeneratorSpec, Load, RATE_MAX,
    Rate, SIZES_MAX, Sizes, WEIGHTS_SUM_MAX,
};
use crate::template::headers_length;
use headgate_port::SpecError;

/// VLAN identifiers that name a VLAN (IEEE 802.1Q §9.6: 0 and 4095 do not).
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

fn mistake(field: &'static str, why: impl Into<String>, mend: impl Into<String>) -> SpecError {
    SpecError { field, why: why.into(), mend: mend.into() }
}

impl GeneratorSpec {
    /// Returns all that keeps this traffic from being made in buffers with room for frames of
    /// `frame_bytes_max` (without check sequence); nothing when all is well.
    #[must_use]
    pub fn errors(&self, frame_bytes_max: u32) -> Vec<SpecError> {
        let mut found = Vec::new();
        self.check_load(&mut found);
        self.check_steps(&mut found);
        self.check_sizes(frame_bytes_max, &mut found);
        self.check_addresses(&mut found);
        if let Some(vlan) = self.vlan.filter(|vlan| !VLANS.contains(vlan)) {
            found.push(mistake("vlan", format!("{vlan} names no VLAN"), "give 1 to 4094"));
        }
        found
    }

    /// Returns the number of flows of all classes; saturates.
    pub(super) fn flows(&self) -> u32 {
        match &self.load {
            Load::Even { flows, .. } => *flows,
            Load::Classes(classes) => classes.iter().fold(0, |sum, class| sum.saturating_add(class.flows)),
        }
    }

    fn check_load(&self, found: &mut Vec<SpecError>) {
        match &self.load {
            Load::Even { rate, .. } => check_rate("rate", *rate, found),
            Load::Classes(classes) => check_classes(classes, found),
        }
        let flows = self.flows();
        if flows == 0 || flows > FLOWS_MAX {
            let mend = format!("give 1 to {FLOWS_MAX}");
            found.push(mistake("flows", format!("{flows} flows cannot be made"), mend));
        }
    }

    fn check_steps(&self, found: &mut Vec<SpecError>) {
        let several = matches!(&self.load, Load::Classes(classes) if classes.len() > 1);
        for step in &self.steps {
            check_rate("steps", step.rate, found);
            if several && step.rate == Rate::Unlimited {
                let why = "classes of flows cannot keep their proportions without a rate";
                found.push(mistake("steps", why, "give each step a rate in packets per second"));
            }
        }
        if !self.steps.is_sorted_by_key(|step| step.at) {
            found.push(mistake(
                "steps",
                "the times go backwards",
                "put the steps in the order of their times",
            ));
        }
    }

    fn check_sizes(&self, frame_bytes_max: u32, found: &mut Vec<SpecError>) {
        let shortest = self.shortest_size();
        let longest = frame_bytes_max + CHECK_SEQUENCE_BYTES;
        let sizes = self.sizes_and_weights();
        for &(size, _) in sizes.iter().filter(|(size, _)| *size < shortest) {
            let why = format!("a frame of {size} bytes has no room for the headers asked for");
            found.push(mistake("size", why, format!("give at least {shortest}")));
        }
        for &(size, _) in sizes.iter().filter(|(size, _)| *size > longest) {
            let why = format!("a frame of {size} bytes (4 of check sequence) does not fit a buffer");
            found.push(mistake("size", why, format!("give at most {longest}, or raise memory.buffer_bytes")));
        }
        if let Sizes::Weighted(list) = &self.sizes {
            check_weights(list, found);
        }
    }

    fn check_addresses(&self, found: &mut Vec<SpecError>) {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            let why = format!("{} and {} are of different IP versions", self.source, self.destination);
            found.push(mistake("source", why, "give two IPv4 or two IPv6 addresses"));
        }
        if self.source.is_multicast() {
            let why = format!("{} is a group of receivers and no sender", self.source);
            found.push(mistake("source", why, "give a unicast address"));
        }
        let flows = self.flows();
        if u64::from(source_low(self.source)) + u64::from(flows) > 1 << u32::BITS {
            let why = format!("{flows} addresses from {} on run out of 32 bits", self.source);
            found.push(mistake("source", why, "start lower"));
        }
    }

    /// The shortest frame, with check sequence, that has room for the headers.
    pub(super) fn shortest_size(&self) -> u32 {
        (headers_length(self) as u32 + CHECK_SEQUENCE_BYTES).max(FRAME_BYTES_MIN)
    }

    /// Sizes with check sequence and their weights.
    pub(super) fn sizes_and_weights(&self) -> Vec<(u32, u32)> {
        match &self.sizes {
            Sizes::Fixed(size) => vec![(*size, 1)],
            Sizes::Imix => vec![(self.shortest_size(), 7), (594, 4), (1518, 1)],
            Sizes::Weighted(list) => list.clone(),
        }
    }
}

/// The part of a source address that differs from flow to flow.
pub(super) fn source_low(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    }
}

fn check_rate(field: &'static str, rate: Rate, found: &mut Vec<SpecError>) {
    if let Rate::PerSecond(rate) = rate
        && !(0.0..=RATE_MAX).contains(&rate)
    {
        let mend = format!("give 0 to {RATE_MAX} packets per second, or no rate for as many as possible");
        found.push(mistake(field, format!("{rate} packets per second cannot be sent"), mend));
    }
}

fn check_classes(classes: &[Class], found: &mut Vec<SpecError>) {
    if classes.is_empty() || classes.len() > CLASSES_MAX {
        let why = format!("{} classes of flows cannot be made", classes.len());
        found.push(mistake("rates", why, format!("give 1 to {CLASSES_MAX}")));
    }
    for class in classes {
        if class.flows == 0 {
            found.push(mistake("rates", "a class has no flow", "give it at least one, or leave it out"));
        }
        if !(class.rate > 0.0 && class.rate <= RATE_MAX) {
            let why = format!("{} packets per second is no rate of a class", class.rate);
            found.push(mistake("rates", why, format!("give more than 0, up to {RATE_MAX}")));
        }
    }
}

fn check_weights(list: &[(u32, u32)], found: &mut Vec<SpecError>) {
    if list.is_empty() || list.len() > SIZES_MAX {
        let why = format!("{} sizes cannot be mixed", list.len());
        found.push(mistake("sizes", why, format!("give 1 to {SIZES_MAX}")));
    }
    if list.iter().any(|&(_, weight)| weight == 0) {
        found.push(mistake("sizes", "a size has the weight 0", "give it at least 1, or leave it out"));
    }
    let divisor = u64::from(list.iter().fold(0, |divisor, &(_, weight)| gcd(divisor, weight)));
    let sum: u64 = list.iter().map(|&(_, weight)| u64::from(weight)).sum();
    if sum.checked_div(divisor).is_some_and(|sum| sum > u64::from(WEIGHTS_SUM_MAX)) {
        let why = format!("the weights add up to {sum}");
        let mend = format!("give weights that add up to at most {WEIGHTS_SUM_MAX}; rounding them helps");
        found.push(mistake("sizes", why, mend));
    }
}

/// The greatest common divisor (Euclid).
pub(super) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
