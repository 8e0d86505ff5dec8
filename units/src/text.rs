//! Text for people: quantities with three figures and a unit, and words of others that do a terminal no harm.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Returns the exact number in groups of three digits: `12,345,678`.
#[must_use]
pub fn whole(number: u64) -> String {
    let digits = number.to_string();
    let groups =
        digits.as_bytes().rchunks(3).rev().map(|group| core::str::from_utf8(group).unwrap_or_default());
    groups.collect::<Vec<_>>().join(",")
}

/// Returns a rate of packets: `950 pps`, `12.3 kpps`, `1.21 Mpps`.
#[must_use]
pub fn packet_rate(per_second: f64) -> String {
    scaled(per_second, "pps")
}

/// Returns a rate of bits: `1.21 Gbit/s`.
#[must_use]
pub fn bit_rate(per_second: f64) -> String {
    scaled(per_second, "bit/s")
}

/// Returns a part, 0 to 1, in percent: `31 %`.
#[must_use]
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        hundredths if (0.05..0.95).contains(&hundredths) => format!("{hundredths:.1} %"),
        hundredths => format!("{hundredths:.0} %"),
    }
}

/// Returns a time: `850 ns`, `1.90 ms`, `12.3 s`, `2 min 5 s`, `3 h 20 min`.
#[must_use]
pub fn time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", figures(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", figures(ns as f64 / 1e6)),
        _ if seconds < 60 => format!("{} s", figures(ns as f64 / 1e9)),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns an amount of memory: `35.0 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Returns text from an untrusted source (an NF's message, a name on the wire) without what commands a
/// terminal, or makes lines and text read in another order than they are written.
#[must_use]
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || reorders(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns whether a character breaks lines or changes the direction of those beside it (Unicode Standard
/// Annex 9, table 4; annex 14, class BK).
const fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn scaled(value: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefix = "";
    for next in ["k", "M", "G", "T"] {
        // 999.5 would be written as 1000.
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, next);
    }
    match prefix {
        "" => format!("{value:.0} {unit}"),
        _ => format!("{} {prefix}{unit}", figures(value)),
    }
}

/// Three figures: `1.23`, `12.3`, `123`.
fn figures(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let written = [0, 7, 999, 1000, 12_345_678, u64::MAX].map(whole);
        assert_eq!(written, ["0", "7", "999", "1,000", "12,345,678", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn rates_have_three_figures() {
        let written = [0.0, 950.4, 999.6, 12_345.0, 1_214_000.0, 999_600.0, 27e9].map(packet_rate);
        assert_eq!(
            written,
            ["0 pps", "950 pps", "1.00 kpps", "12.3 kpps", "1.21 Mpps", "1.00 Mpps", "27.0 Gpps"]
        );
        assert_eq!(bit_rate(1.31e9), "1.31 Gbit/s");
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        let written = [850, 1_900, 1_900_000, 12_345_678_901, 125_000_000_000, 12_000_000_000_000].map(time);
        assert_eq!(written, ["850 ns", "1.90 us", "1.90 ms", "12.3 s", "2 min 5 s", "3 h 20 min"]);
    }

    #[test]
    fn bytes_and_parts() {
        assert_eq!([500, 2048, 36_700_160].map(bytes), ["500 B", "2.0 KiB", "35.0 MiB"]);
        assert_eq!([0.0, 0.0002, 0.004, 0.312, 1.0].map(percent), ["0 %", "0 %", "0.4 %", "31 %", "100 %"]);
    }

    #[test]
    fn foreign_text_cannot_command_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\nc\u{9b}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
    }
}
