//! Names of what is measured: variants, and the ratios between them.

use super::scenario::{Pages, Scenario, Shape, Work};

/// Measurement of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bare wake-up latency.
    Wakeup,
    /// Packets per second at overload.
    Throughput,
    /// Latency at a part of the throughput of `one`.
    Latency,
    /// Highest rate at which no packet is lost.
    LossFree,
    /// Cost of each station at overload.
    Stations,
}

/// Something that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// Kind of measurement.
    pub kind: Kind,
    /// Variants that must be measured in the same round, before.
    pub needs: &'static [&'static str],
}

/// Three NFs of NFVnice, section 4: light, medium and heavy, in TSC cycles a packet.
const THREE_COSTS: &[Work] = &[Work::Cycles(120), Work::Cycles(270), Work::Cycles(550)];
const ONE: &[Work] = &[Work::Forward];
const TOUCHING: &[Work] = &[Work::MacSwap];
const THREE: &[Work] = &[Work::Forward; 3];
/// The many of `chains_10000`.
pub const MANY_CHAINS: u32 = 10_000;
/// The many of `flows_1m`.
pub const MANY_FLOWS: u32 = 1_000_000;
/// The part of `one`'s throughput at which latency is measured.
pub const LATENCY_LOAD: f64 = 0.1;

const fn variant(name: &'static str, kind: Kind) -> Variant {
    Variant { name, kind, needs: &[] }
}

/// Every variant, in the order of a round.
pub const VARIANTS: [Variant; 22] = [
    variant("bare_wakeup", Kind::Wakeup),
    variant("one", Kind::Throughput),
    variant("one_touching", Kind::Throughput),
    variant("three", Kind::Throughput),
    variant("three_polling", Kind::Throughput),
    variant("fused", Kind::Throughput),
    variant("fused_worker", Kind::Throughput),
    variant("isolated_cost", Kind::Throughput),
    variant("fused_cost", Kind::Throughput),
    variant("chains_1", Kind::Throughput),
    variant("chains_10000", Kind::Throughput),
    variant("flows_1", Kind::Throughput),
    variant("flows_1m", Kind::Throughput),
    variant("one_huge", Kind::Throughput),
    variant("one_ordinary", Kind::Throughput),
    variant("flows_1m_huge", Kind::Throughput),
    variant("flows_1m_ordinary", Kind::Throughput),
    Variant { name: "latency_10", kind: Kind::Latency, needs: &["bare_wakeup", "one"] },
    Variant { name: "loss_free_one", kind: Kind::LossFree, needs: &["one"] },
    Variant { name: "loss_free_three", kind: Kind::LossFree, needs: &["three"] },
    variant("stations_one", Kind::Stations),
    Variant { name: "stations_three", kind: Kind::Stations, needs: &["stations_one"] },
];

/// The configuration of a variant that runs a manager. `rate` is the throughput that it is formed from, in
/// packets per second: that of `one` for a latency, that to be tried where none is to be lost.
#[must_use]
pub fn scenario(variant: &Variant, rate: f64) -> Scenario {
    let plain = Scenario::plain;
    match variant.name {
        "one_touching" => plain(TOUCHING, Shape::Isolated),
        "loss_free_one" => Scenario { rate: Some(rate.max(1.0)), ..plain(ONE, Shape::Isolated) },
        "loss_free_three" => Scenario { rate: Some(rate.max(1.0)), ..plain(THREE, Shape::Isolated) },
        "three" | "stations_three" => plain(THREE, Shape::Isolated),
        "three_polling" => plain(THREE, Shape::Polling),
        "fused" => plain(THREE, Shape::Fused),
        "fused_worker" => plain(THREE, Shape::Worker),
        "isolated_cost" => plain(THREE_COSTS, Shape::Isolated),
        "fused_cost" => plain(THREE_COSTS, Shape::Fused),
        "chains_1" => Scenario { flows: MANY_CHAINS, ..plain(ONE, Shape::Isolated) },
        "chains_10000" => Scenario { flows: MANY_CHAINS, chains: MANY_CHAINS, ..plain(ONE, Shape::Isolated) },
        "flows_1" => Scenario { flow_capacity: Some(MANY_FLOWS), ..plain(ONE, Shape::Isolated) },
        "flows_1m" => many_flows(),
        "one_huge" => Scenario { pages: Some(Pages::Huge), ..plain(ONE, Shape::Isolated) },
        "one_ordinary" => Scenario { pages: Some(Pages::Ordinary), ..plain(ONE, Shape::Isolated) },
        "flows_1m_huge" => Scenario { pages: Some(Pages::Huge), ..many_flows() },
        "flows_1m_ordinary" => Scenario { pages: Some(Pages::Ordinary), ..many_flows() },
        "latency_10" => Scenario {
            rate: Some((rate * LATENCY_LOAD).max(1.0)),
            timestamps: true,
            ..plain(ONE, Shape::Isolated)
        },
        _ => plain(ONE, Shape::Isolated),
    }
}

const fn many_flows() -> Scenario {
    let plain = Scenario::plain(ONE, Shape::Isolated);
    Scenario { flows: MANY_FLOWS, flow_capacity: Some(MANY_FLOWS), ..plain }
}

/// Two measurements compared within each round.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Its name.
    pub name: &'static str,
    /// Variant that is divided.
    pub over: &'static str,
    /// Variant that divides.
    pub under: &'static str,
    /// Aim of issue 2 of the project.
    pub aim: Option<Aim>,
}

/// Aim of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// Every ratio.
pub const RATIOS: [Ratio; 9] = [
    Ratio { name: "fused_worker_over_fused", over: "fused_worker", under: "fused", aim: None },
    Ratio {
        name: "isolated_over_fused",
        over: "isolated_cost",
        under: "fused_cost",
        aim: Some(Aim::AtLeast(0.9)),
    },
    Ratio { name: "touching_over_one", over: "one_touching", under: "one", aim: None },
    Ratio { name: "three_over_one", over: "three", under: "one", aim: None },
    Ratio {
        name: "chains_10000_over_1",
        over: "chains_10000",
        under: "chains_1",
        aim: Some(Aim::AtLeast(0.85)),
    },
    Ratio { name: "flows_1m_over_1", over: "flows_1m", under: "flows_1", aim: Some(Aim::AtLeast(0.6)) },
    Ratio { name: "one_huge_over_ordinary", over: "one_huge", under: "one_ordinary", aim: None },
    Ratio {
        name: "flows_1m_huge_over_ordinary",
        over: "flows_1m_huge",
        under: "flows_1m_ordinary",
        aim: None,
    },
    Ratio {
        name: "latency_over_wakeup",
        over: "latency_10",
        under: "bare_wakeup",
        aim: Some(Aim::AtMost(3.0)),
    },
];

/// The ratios of huge pages to ordinary ones.
pub const PAGES: [&str; 2] = ["one_huge_over_ordinary", "flows_1m_huge_over_ordinary"];

impl Variant {
    /// Returns the kind of pages that it asks for, if any.
    #[must_use]
    pub fn pages(&self) -> Option<Pages> {
        scenario(self, 0.0).pages
    }
}

/// The variants that `names`, of variants and of ratios, ask for and need; all of them for no name. In
/// the order of a round.
#[must_use]
pub fn chosen(names: &[String]) -> Vec<Variant> {
    let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut at = 0;
    while let Some(&name) = wanted.get(at) {
        if let Some(ratio) = RATIOS.iter().find(|ratio| ratio.name == name) {
            wanted.extend([ratio.over, ratio.under]);
        }
        if let Some(variant) = VARIANTS.iter().find(|variant| variant.name == name) {
            wanted.extend(variant.needs);
        }
        at += 1;
    }
    VARIANTS.into_iter().filter(|variant| names.is_empty() || wanted.contains(&variant.name)).collect()
}

/// Every name that can be asked for.
pub fn names() -> impl Iterator<Item = &'static str> {
    VARIANTS.iter().map(|variant| variant.name).chain(RATIOS.iter().map(|ratio| ratio.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        chosen(&names).iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn a_choice_brings_what_it_needs_in_the_order_of_a_round() {
        assert_eq!(names_of(&["latency_10"]), ["bare_wakeup", "one", "latency_10"]);
        assert_eq!(names_of(&["latency_over_wakeup"]), ["bare_wakeup", "one", "latency_10"]);
        assert_eq!(names_of(&["three_over_one"]), ["one", "three"]);
        assert_eq!(names_of(&["fused", "one"]), ["one", "fused"]);
        assert_eq!(names_of(&[]).len(), VARIANTS.len());
    }

    #[test]
    fn ratios_and_needs_name_variants_that_come_before() {
        let place = |name: &str| VARIANTS.iter().position(|variant| variant.name == name);
        for ratio in &RATIOS {
            assert!(place(ratio.over).is_some() && place(ratio.under).is_some(), "{}", ratio.name);
        }
        for (at, variant) in VARIANTS.iter().enumerate() {
            assert!(variant.needs.iter().all(|need| place(need) < Some(at)), "{}", variant.name);
        }
        let all: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(all.len(), VARIANTS.len() + RATIOS.len(), "no name is used twice");
    }

    #[test]
    fn latency_is_measured_at_a_tenth_of_the_throughput() {
        let latency = VARIANTS.iter().find(|variant| variant.kind == Kind::Latency).unwrap();
        let scenario = scenario(latency, 20e6);
        assert_eq!(scenario.rate, Some(2e6));
        assert!(scenario.timestamps);
    }

    #[test]
    fn what_is_compared_differs_in_one_thing() {
        let of = |name: &str| scenario(VARIANTS.iter().find(|v| v.name == name).unwrap(), 0.0);
        assert_eq!(Scenario { chains: 1, ..of("chains_10000") }, of("chains_1"));
        assert_eq!(Scenario { flows: 1, ..of("flows_1m") }, of("flows_1"));
        assert_eq!(Scenario { rate: None, ..of("loss_free_three") }, of("three"));
        assert_eq!(Scenario { shape: Shape::Fused, ..of("isolated_cost") }, of("fused_cost"));
        assert_eq!(Scenario { shape: Shape::Worker, ..of("fused") }, of("fused_worker"));
        for name in ["one", "flows_1m"] {
            let [huge, ordinary] = ["huge", "ordinary"].map(|pages| of(&format!("{name}_{pages}")));
            assert_eq!(Scenario { pages: Some(Pages::Ordinary), ..huge.clone() }, ordinary);
            assert_eq!(Scenario { pages: None, ..huge }, of(name));
        }
    }
}
