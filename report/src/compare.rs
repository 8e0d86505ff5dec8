//! Two reports, value by value.
//!
//! Rounds of two runs are no pairs, so that a ratio is that of the medians, and its interval is drawn by
//! resampling the rounds of each (Efron, Tibshirani, 1993, chapter 13: the percentile interval).

use headgate_decide::statistics::Summary;
use serde::Serialize;

use crate::report::{Report, Value, facts};

/// Samples that are drawn, and the part of them that the interval holds.
const SAMPLES: usize = 2000;
const CONFIDENCE: f64 = 0.95;
/// Rounds below which an interval says little.
const FEW: usize = 5;
/// Facts that differ between any two runs and say nothing about the machine.
const OF_EVERY_RUN: [&str; 7] = [
    "started",
    "seconds",
    "command",
    "load_average",
    "memory_available_bytes",
    "hugepages_free",
    "stolen_percent",
];
/// Part of a core, in percent, that others had, from which on it is said. Our choice: it is as much as most
/// medians differ by.
const STOLEN_MOST: f64 = 1.0;

/// Two reports compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What they are of.
    pub names: [String; 2],
    /// Facts of their environments that differ.
    pub environment: Vec<Difference>,
    /// Settings that differ.
    pub settings: Vec<Difference>,
    /// Values that both have.
    pub values: Vec<Compared>,
    /// Names of what one has alone.
    pub only: [Vec<String>; 2],
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// What it is in each; nothing where it is not told.
    pub is: [Option<String>; 2],
}

/// A value that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The medians.
    pub medians: [Option<f64>; 2],
    /// The numbers of rounds.
    pub n: [usize; 2],
    /// The second median over the first.
    pub ratio: Option<f64>,
    /// Ends of the ratio's interval, where both have several rounds.
    pub interval: Option<[f64; 2]>,
    /// Why there is no ratio.
    pub missing: Option<String>,
}

impl Compared {
    /// Returns whether all of the interval lies on one side of 1.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
    }

    fn of(one: &Value, other: &Value) -> Self {
        let mut compared = Self {
            name: one.name.clone(),
            unit: one.unit.clone(),
            medians: [one.median, other.median],
            n: [one.n, other.n],
            ratio: None,
            interval: None,
            missing: None,
        };
        let missing = |which: &str| Some(format!("{which} has no figure"));
        compared.missing = match (one.median, other.median) {
            _ if one.unit != other.unit => Some(format!("units differ: {} and {}", one.unit, other.unit)),
            (None, None) => missing("neither"),
            (None, _) => missing("the first"),
            (_, None) => missing("the second"),
            (Some(first), Some(_)) if first <= 0.0 => Some("the first is not above 0".to_owned()),
            (Some(first), Some(second)) => {
                compared.ratio = Some(second / first);
                compared.interval = interval(&one.numbers(), &other.numbers());
                None
            }
        };
        compared
    }
}

impl Comparison {
    /// Compares two reports.
    #[must_use]
    pub fn of(one: &Report, other: &Report) -> Self {
        let find =
            |report: &Report, name: &str| report.values.iter().find(|value| value.name == name).cloned();
        let values: Vec<Compared> = one
            .values
            .iter()
            .filter_map(|value| Some(Compared::of(value, &find(other, &value.name)?)))
            .collect();
        let alone = |one: &Report, other: &Report| -> Vec<String> {
            let names = one.values.iter().map(|value| &value.name);
            names.filter(|name| find(other, name).is_none()).cloned().collect()
        };
        let mut notes = Vec::new();
        if one.name != other.name {
            notes.push(format!("these are different runs: {} and {}", one.name, other.name));
        }
        notes.extend(
            [("first", one), ("second", other)].into_iter().filter_map(|(which, of)| taken(which, of)),
        );
        if values.iter().any(|value| value.interval.is_some() && value.n.iter().any(|&n| n < FEW)) {
            notes.push(format!(
                "fewer than {FEW} rounds: intervals are narrower than what other runs would show"
            ));
        }
        if values.iter().any(|value| value.ratio.is_some() && value.interval.is_none()) {
            notes
                .push("a ratio has no interval where rounds were not kept, or there was one only".to_owned());
        }
        Self {
            names: [one.name.clone(), other.name.clone()],
            environment: differences(&one.environment, &other.environment),
            settings: differences(&one.settings, &other.settings),
            only: [alone(one, other), alone(other, one)],
            values,
            notes,
        }
    }
}

/// Says that a hypervisor gave much of a core to others during a run.
fn taken(which: &str, report: &Report) -> Option<String> {
    let cores = report.environment.pointer("/run/stolen_percent")?.as_object()?;
    let most = cores.values().filter_map(serde_json::Value::as_f64).fold(0.0, f64::max);
    (most > STOLEN_MOST).then(|| format!("others had up to {most:.1} % of a core during the {which} run"))
}

fn differences(one: &serde_json::Value, other: &serde_json::Value) -> Vec<Difference> {
    let [one, other] = [one, other].map(facts);
    let of = |facts: &[(String, String)], name: &str| {
        facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = one.iter().chain(&other).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !OF_EVERY_RUN.iter().any(|part| name.split('.').any(|word| word == *part)))
        .map(|name| Difference { name: name.clone(), is: [of(&one, name), of(&other, name)] })
        .filter(|difference| difference.is[0] != difference.is[1])
        .collect()
}

/// Returns the interval of the ratio of medians; nothing where one of the two is a single number.
fn interval(one: &[f64], other: &[f64]) -> Option<[f64; 2]> {
    if one.len() < 2 || other.len() < 2 {
        return None;
    }
    let mut draw = Draw(0x9E37_79B9_7F4A_7C15);
    let mut ratios = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let (under, over) = (draw.median(one)?, draw.median(other)?);
        if under > 0.0 {
            ratios.push(over / under);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios.get((part * (ratios.len().checked_sub(1)?) as f64).round() as usize).copied();
    let outside = (1.0 - CONFIDENCE) / 2.0;
    Some([at(outside)?, at(1.0 - outside)?])
}

/// Numbers that look like chance and are the same each time: a comparison said twice is the same (Steele,
/// Lea, Flood, 2014: SplitMix).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns the median of as many values, each drawn from all.
    fn median(&mut self, values: &[f64]) -> Option<f64> {
        let drawn = (0..values.len()).map(|_| values[(self.next() % values.len() as u64) as usize]);
        Summary::of(drawn.collect::<Vec<f64>>()).map(|all| all.median)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn report(values: &[(&str, &str, &[f64])]) -> Report {
        let value = |&(name, unit, rounds): &(&str, &str, &[f64])| {
            Value::of("", name, unit, rounds.iter().map(|value| Some(*value)))
        };
        Report {
            name: "hop".to_owned(),
            environment: json!({ "machine": { "kernel": "6.18" }, "started": "now", "run": { "stolen_percent": { "0": 4.2 } } }),
            values: values.iter().map(value).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn ratios_have_intervals_and_what_one_has_alone_is_said() {
        let one = report(&[
            ("fast", "packets/s", &[10.0, 10.1, 9.9, 10.0, 10.2]),
            ("same", "ns", &[5.0, 6.0, 5.5, 5.2, 5.9]),
            ("old", "", &[1.0]),
            ("unit", "ms", &[1.0]),
            ("zero", "ns", &[0.0]),
            ("nan", "ns", &[f64::NAN]),
            ("single", "ns", &[2.0]),
        ]);
        let mut other = report(&[
            ("fast", "packets/s", &[20.0, 20.4, 19.8, 20.0, 20.1]),
            ("same", "ns", &[5.1, 5.9, 5.6, 5.4, 5.8]),
            ("new", "", &[1.0]),
            ("unit", "us", &[1.0]),
            ("zero", "ns", &[1.0]),
            ("nan", "ns", &[1.0]),
            ("single", "ns", &[3.0]),
        ]);
        other.environment = json!({ "machine": { "kernel": "6.19", "steal": null }, "started": "then" });
        let found = Comparison::of(&one, &other);
        let value = |name: &str| found.values.iter().find(|value| value.name == name).unwrap();
        let [low, high] = value("fast").interval.unwrap();
        assert!(value("fast").ratio == Some(2.0) && low > 1.9 && high < 2.1 && value("fast").differs());
        assert!(!value("same").differs());
        assert_eq!(found.only, [vec!["old".to_owned()], vec!["new".to_owned()]]);
        assert_eq!(value("unit").missing.as_deref(), Some("units differ: ms and us"));
        assert_eq!(value("zero").missing.as_deref(), Some("the first is not above 0"));
        assert_eq!(value("nan").missing.as_deref(), Some("the first has no figure"));
        assert_eq!((value("single").ratio, value("single").interval), (Some(1.5), None));
        let differs: Vec<&str> = found.environment.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(differs, ["machine.kernel", "machine.steal"], "not when they ran");
        assert_eq!(found.environment[1].is, [None, Some("unknown".to_owned())]);
        assert!(found.notes.iter().any(|note| note.contains("there was one only")));
        assert!(found.notes.iter().any(|note| note.contains("up to 4.2 % of a core during the first")));
    }

    proptest! {
        #[test]
        fn the_interval_lies_within_what_the_rounds_can_give(
            one in proptest::collection::vec(0.1f64..1e9, 2..8),
            other in proptest::collection::vec(0.0f64..1e9, 2..8),
        ) {
            let [low, high] = interval(&one, &other).unwrap();
            let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
            prop_assert!(low <= high);
            prop_assert!(low >= least(&other) / most(&one) * 0.999);
            prop_assert!(high <= most(&other) / least(&one) * 1.001);
        }
    }
}
