//! `synthetic`: work without meaning, to measure everything around it.
//!
//! Spends a number of TSC cycles on each packet: fixed, by packet size, or drawn from a seeded
//! distribution, and changed by a message while it runs. It stands for an NF of that cost
//! (NFVnice, §4: 120, 270 and 550 cycles), so it must spend the time on its core: it spins, and when the
//! kernel took the core away in between, that time is not counted as work.

use std::time::Duration;

use headgate_nf::{ArgumentErrors, Burst, Context, NetworkFunction, NfError, cycles};
use serde::Deserialize;

use crate::catalog::{Argument, Entry, Message, entry};

const COST_KIND: &str = "a number of TSC cycles; or {\"steps\": [{\"from\": bytes, \"cycles\": n}, …]}; \
     or {\"uniform\": {\"min\": n, \"max\": n}}; or {\"exponential\": {\"mean\": n}}; \
     or {\"choice\": [{\"cycles\": n, \"weight\": w}, …]}";

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[
        Argument { name: "cycles", kind: COST_KIND, required: true, text: "what each packet costs" },
        Argument {
            name: "seed",
            kind: "a whole number",
            required: false,
            text: "the start of the random draws; 1 without it",
        },
        Argument {
            name: "sleep",
            kind: "{\"every\": packets, \"us\": microseconds}",
            required: false,
            text: "sleeps in the kernel for so long after each so many packets, as for a file or a lock",
        },
    ],
    messages: &[Message {
        body: "{\"cycles\": …, \"seed\": …, \"sleep\": …}",
        text: "changes the cost from the next burst on; the same shapes as the arguments",
    }],
    ..entry("synthetic", "spends a given number of cycles on each packet", |context| {
        Ok(Box::new(Synthetic::new(context)?))
    })
};

/// The most a packet may cost, in cycles: about half a second, so that orders to the NF are still seen.
pub const CYCLES_MAX: u64 = 1_000_000_000;
/// A sleep is shorter than this, so that orders to the NF are still seen.
const US_BEYOND: u64 = 1_000_001;
/// Maximum delay of the clock after a packet, in cycles, that still counts as the overshoot of one read of
/// the TSC (20-40 cycles). More means the kernel or the hypervisor took the core away.
const OVERSHOOT_MAX: u64 = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    cycles: Cost,
    #[serde(default = "first_seed")]
    seed: u64,
    sleep: Option<Sleep>,
}

/// Sleep in the kernel, for what NFs wait for that is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    /// Number of packets between two.
    every: u64,
    /// Length of each, in microseconds.
    us: u64,
}

impl Sleep {
    fn check(self) -> Result<(), NfError> {
        match self {
            Self { every: 0, .. } => Err("`every` must be at least 1 packet".into()),
            Self { us: 0 | US_BEYOND.., .. } => {
                Err(format!("`us` must be from 1 to {}", US_BEYOND - 1).into())
            }
            _ => Ok(()),
        }
    }
}

const fn first_seed() -> u64 {
    1
}

/// Cost of a packet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "`cycles` is a number, or {\"steps\": [{\"from\", \"cycles\"}, …]}, {\"uniform\": {\"min\", \"max\"}}, \
                 {\"exponential\": {\"mean\"}} or {\"choice\": [{\"cycles\", \"weight\"}, …]}"
)]
enum Cost {
    Fixed(u64),
    Shaped(Shape),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Shape {
    /// By the packet's size: the cost of the last step that starts at or below it; 0 below the first.
    Steps(Vec<Step>),
    /// Every number of cycles from `min` to `max` equally often.
    Uniform { min: u64, max: u64 },
    /// Exponentially distributed: many cheap packets, a few expensive ones.
    Exponential { mean: u64 },
    /// One of several, in proportion to their weights.
    Choice(Vec<Choice>),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    from: usize,
    cycles: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    cycles: u64,
    weight: u32,
}

impl Cost {
    fn check(&self) -> Result<(), NfError> {
        let highest = match self {
            Self::Fixed(cycles) => *cycles,
            Self::Shaped(shape) => shape.check()?,
        };
        if highest > CYCLES_MAX {
            return Err(format!("{highest} cycles a packet are more than {CYCLES_MAX}").into());
        }
        Ok(())
    }

    #[inline]
    fn of(&self, bytes: usize, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(cycles) => *cycles,
            Self::Shaped(shape) => shape.of(bytes, random),
        }
    }
}

impl Shape {
    /// The highest cost, or the most frequent one where there is no highest.
    fn check(&self) -> Result<u64, NfError> {
        match self {
            Self::Steps(steps) => {
                if !steps.is_sorted_by(|one, next| one.from < next.from) {
                    return Err("`steps` must rise in `from`".into());
                }
                steps.iter().map(|step| step.cycles).max().ok_or_else(|| "`steps` is empty".into())
            }
            Self::Uniform { min, max } if min > max => {
                Err(format!("`uniform` has min {min} above max {max}").into())
            }
            Self::Uniform { max, .. } => Ok(*max),
            Self::Exponential { mean } => Ok(*mean),
            Self::Choice(choices) if choices.iter().all(|choice| choice.weight == 0) => {
                Err("`choice` needs at least one entry with a weight above 0".into())
            }
            Self::Choice(choices) => Ok(choices.iter().map(|choice| choice.cycles).max().unwrap_or(0)),
        }
    }

    fn of(&self, bytes: usize, random: &mut Random) -> u64 {
        match self {
            Self::Steps(steps) => {
                let reached = steps.partition_point(|step| step.from <= bytes);
                reached.checked_sub(1).map_or(0, |last| steps[last].cycles)
            }
            Self::Uniform { min, max } => min + random.below(max - min + 1),
            Self::Exponential { mean } => {
                let drawn = -random.fraction().ln() * *mean as f64;
                (drawn as u64).min(CYCLES_MAX)
            }
            Self::Choice(choices) => {
                let total: u64 = choices.iter().map(|choice| u64::from(choice.weight)).sum();
                let mut left = random.below(total);
                let chosen = choices.iter().find(|choice| {
                    let here = left < u64::from(choice.weight);
                    left = left.wrapping_sub(u64::from(choice.weight));
                    here
                });
                chosen.map_or(0, |choice| choice.cycles)
            }
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): small, seeded,
/// good enough to draw costs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Below `end`, by multiplication; the bias is below `end` / 2^64.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Above 0, at most 1.
    fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// The NF.
pub struct Synthetic {
    cost: Cost,
    random: Random,
    sleep: Option<Sleep>,
    /// Packets since it slept last.
    awake_for: u64,
}

impl Synthetic {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Errors in the arguments.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        Self::of(context.arguments()?)
    }

    fn of(arguments: Arguments) -> Result<Self, NfError> {
        let Arguments { cycles: cost, seed, sleep } = arguments;
        let about = |name: &str, why| {
            let mut mistakes = ArgumentErrors::default();
            mistakes.add([name.into()], why);
            mistakes
        };
        cost.check().map_err(|why| about("cycles", why))?;
        sleep.map_or(Ok(()), Sleep::check).map_err(|why| about("sleep", why))?;
        Ok(Self { cost, random: Random(seed), sleep, awake_for: 0 })
    }

    /// Sleeps as often as so many packets more ask for it.
    fn sleep_after(&mut self, packets: u64) {
        let Some(Sleep { every, us }) = self.sleep else { return };
        self.awake_for += packets;
        let times = self.awake_for / every;
        self.awake_for %= every;
        (0..times).for_each(|_| std::thread::sleep(Duration::from_micros(us)));
    }
}

impl NetworkFunction for Synthetic {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        let mut now = cycles();
        let mut due = now;
        for packet in burst.packets() {
            if now > due + OVERSHOOT_MAX {
                due = now;
            }
            due += self.cost.of(packet.len(), &mut self.random);
            while now < due {
                now = cycles();
            }
        }
        self.sleep_after(burst.len() as u64);
    }

    fn message(&mut self, body: &str, _: &mut Context) -> Result<(), NfError> {
        *self = Self::of(serde_json::from_str(body)?)?;
        Ok(())
    }

    fn touches_packets(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
