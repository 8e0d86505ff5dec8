//! Warnings that a node will lose its power: how long is left, and the ways by which a manager is told.
//!
//! `headgate warn` and the API over HTTP ask the manager ([`crate::Request::Warn`]). What watches a power
//! supply may send it SIGPWR instead, or write a file in the `state` folder of its node.

use std::time::Duration;

/// Name of the file in a node's `state` folder. What it holds is the time that is left, as `headgate warn`
/// takes it; an empty one means [`WITHIN`]. Removing it withdraws the warning.
pub const FILE: &str = "warning";
/// Time that is left after SIGPWR, or by an empty file. REARM's, from traces of power supplies (dissertation,
/// 15.4.2).
pub const WITHIN: Duration = Duration::from_secs(10);
/// Longest time that is left. Our choice: a day; what is further away is no warning.
const WITHIN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Units of a time, and their length in nanoseconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Reads the time that is left, like `10s` or `500ms`.
///
/// # Errors
/// A sentence with the cure.
pub fn read_within(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let (number, (_, nanoseconds)) = number
        .parse::<f64>()
        .ok()
        .zip(unit)
        .ok_or_else(|| format!("{text:?} is no time; write it with its unit, like 10s or 500ms"))?;
    let within = Duration::try_from_secs_f64(number * nanoseconds / 1e9).unwrap_or(Duration::MAX);
    if within < Duration::from_millis(1) || within > WITHIN_MAX || number < 0.0 {
        return Err(format!("{text} is out of range; possible: 1ms to 24h"));
    }
    Ok(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(read_within("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(read_within(" 1.5 m\n"), Ok(Duration::from_secs(90)));
        assert_eq!(read_within("500ms"), Ok(Duration::from_millis(500)));
        for (text, why) in [
            ("10", "like 10s"),
            ("s", "like 10s"),
            ("", "like 10s"),
            ("ten s", "like 10s"),
            ("10 days", "like 10s"),
            ("0s", "out of range"),
            ("-1s", "out of range"),
            ("25h", "out of range"),
            ("1e300h", "like 10s"),
            ("infs", "like 10s"),
        ] {
            let error = read_within(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
