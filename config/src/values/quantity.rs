//! Numbers with units: counts, rates, durations. All are exact integers once read.

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{ValueError, Word, quoted};

/// A kind of number with a unit.
struct Quantity {
    what: &'static str,
    units: &'static [(&'static str, u64)],
    help: &'static str,
}

const COUNT: Quantity = Quantity {
    what: "a number",
    units: &[
        ("", 1),
        ("k", 1_000),
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
    ],
    help: "write a whole number like 65536, \"64Ki\" or \"10M\"",
};

const RATE: Quantity = Quantity {
    what: "a rate in packets per second",
    units: &[("", 1), ("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)],
    help: "write packets per second like 50000, \"10M\" or \"max\"",
};

const TIME: Quantity = Quantity {
    what: "a duration",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    help: "write a number and its unit like \"500us\", \"5ms\", \"30s\" or \"2h\"; \"1ns\" is the smallest part",
};

/// Most digits before and after the decimal point: 18 is what 64 bits hold of any digits, 9 is
/// a second in nanoseconds.
const WHOLE_DIGITS_MAX: usize = 18;
const FRACTION_DIGITS_MAX: usize = 9;

/// `digits` or `digits.digits`, times `unit`; `None` unless the product is whole and fits.
fn exact(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(whole, WHOLE_DIGITS_MAX) || !digits(fraction, FRACTION_DIGITS_MAX) {
        return None;
    }
    let parts = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let in_parts = whole.parse::<u128>().ok()? * parts + fraction.parse::<u128>().ok()?;
    let product = in_parts * u128::from(unit);
    if product % parts != 0 {
        return None;
    }
    u64::try_from(product / parts).ok()
}

/// Splits `10 M` into `10` and `M`.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl Quantity {
    fn read(&self, text: &str) -> Result<u64, ValueError> {
        let (number, unit) = split_unit(text);
        let factor = self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        factor
            .and_then(|factor| exact(number, factor))
            .ok_or_else(|| ValueError::bad(format!("{} is not {}", quoted(text), self.what), self.help))
    }
}

/// A whole number from `MIN` to `MAX`, written as an integer or like `"64Ki"` and `"10M"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    fn checked(number: i128) -> Result<Self, ValueError> {
        match u64::try_from(number) {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(ValueError::out_of_range(
                format!("{number} is out of range"),
                format!("possible: {MIN} to {MAX}"),
            )),
        }
    }
}

impl<const MIN: u64, const MAX: u64> Word for Whole<MIN, MAX> {
    const WHAT: &'static str = "an integer";

    fn from_text(text: &str) -> Result<Self, ValueError> {
        Self::checked(COUNT.read(text)?.into())
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(Self::checked(number))
    }

    fn shape() -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": MIN, "maximum": MAX },
            { "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMG]|Ki|Mi|Gi)?$" },
        ]})
    }
}

/// Packets per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// As fast as possible.
    Max,
    /// This number of packets per second; 0 is silence.
    PacketsPerSecond(u64),
}

/// Most packets per second.
const RATE_MAX: u64 = headgate_generator::RATE_MAX as u64;

impl Rate {
    fn checked(number: u64) -> Result<Self, ValueError> {
        if number > RATE_MAX {
            let help = "possible: 0 to 1G, or \"max\"";
            return Err(ValueError::out_of_range(format!("{number} packets/s is out of range"), help));
        }
        Ok(Self::PacketsPerSecond(number))
    }
}

impl Word for Rate {
    const WHAT: &'static str = RATE.what;

    fn from_text(text: &str) -> Result<Self, ValueError> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let lower = text.to_ascii_lowercase();
        if lower.ends_with("bps") || lower.ends_with("bit/s") || lower.ends_with("b/s") {
            return Err(ValueError::bad(
                format!("{} is not a rate in packets per second", quoted(text)),
                "rates count packets: divide by the bits of a packet",
            ));
        }
        let count = text.strip_suffix("pps").unwrap_or(text);
        Self::checked(RATE.read(count)?)
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        Some(Self::checked(u64::try_from(number).unwrap_or(u64::MAX)))
    }

    fn shape() -> Json {
        json!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": RATE_MAX },
            { "type": "string", "pattern": r"^(max|[0-9]+(\.[0-9]+)? ?[kKMG]?(pps)?)$" },
        ]})
    }
}

/// Reads packets per second as files have them: `200k`.
///
/// # Errors
/// What is wrong, and the cure.
pub fn packets_per_second(text: &str) -> Result<u64, String> {
    match Rate::from_text(text) {
        Ok(Rate::PacketsPerSecond(rate)) => Ok(rate),
        Ok(Rate::Max) => Err("write a number, like 200k".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a time as files have it, in nanoseconds: `2us`.
///
/// # Errors
/// What is wrong, and the cure.
pub fn nanoseconds(text: &str) -> Result<u64, String> {
    TIME.read(text).map_err(|error| error.to_string())
}

/// A duration of `MIN` to `MAX` nanoseconds, written like `"5ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Period<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Word for Period<MIN, MAX> {
    const WHAT: &'static str = TIME.what;

    fn from_text(text: &str) -> Result<Self, ValueError> {
        let nanoseconds = TIME.read(text)?;
        if !(MIN..=MAX).contains(&nanoseconds) {
            let help = format!("possible: {} to {}", duration_text(MIN), duration_text(MAX));
            return Err(ValueError::out_of_range(format!("{} is out of range", quoted(text)), help));
        }
        Ok(Self(nanoseconds))
    }

    fn from_integer(number: i128) -> Option<Result<Self, ValueError>> {
        let message = format!("{number} is a duration without its unit");
        let help = format!("write it with its unit, like \"{number}s\" or \"{number}ms\"");
        Some(Err(ValueError::bad(message, help)))
    }

    fn shape() -> Json {
        json!({ "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ns|us|µs|ms|s|m|h)$" })
    }
}

/// A duration in the largest unit that leaves it whole, as the file would write it.
pub fn duration_text(nanoseconds: u64) -> String {
    let whole = |&&(_, factor): &&(&str, u64)| nanoseconds >= factor && nanoseconds.is_multiple_of(factor);
    let (unit, factor) = TIME.units.iter().rev().find(whole).copied().unwrap_or(("s", 1));
    format!("{}{unit}", nanoseconds / factor)
}
