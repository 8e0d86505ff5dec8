//! From values to places, and the numbers at an axis.

use crate::plot::Axis;

/// Number of steps that an axis should have, about. Our choice: fewer are hard to read off, more are a grid
/// that is no longer quiet.
const STEPS: f64 = 5.0;
/// Decades from which on not every one has a number.
const DECADES_MOST: i32 = 8;
/// Decades below which steps of factors would be too coarse.
const FACTOR_DECADES: f64 = 0.35;
/// Rounding of what is computed, by which a tick may lie beyond an end.
const ROUNDING: f64 = 1e-9;

/// An axis between two places.
#[derive(Clone, Debug)]
pub struct Scale {
    logarithmic: bool,
    /// Values at the ends.
    from: f64,
    to: f64,
    /// Places of the ends.
    places: [i32; 2],
    ticks: Vec<f64>,
    decimals: usize,
}

impl Scale {
    /// Makes the scale on which all these values have a place, and its ticks. One that is linear has 0 on
    /// it, because what is drawn is compared by its length.
    pub fn over(axis: &Axis, values: impl IntoIterator<Item = f64>, places: [i32; 2]) -> Self {
        let usable = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(usable) {
            (from, to) = (from.min(value), to.max(value));
        }
        if axis.logarithmic { Self::logarithmic(from, to, places) } else { Self::linear(from, to, places) }
    }

    fn linear(from: f64, to: f64, places: [i32; 2]) -> Self {
        let (from, mut to) = (from.min(0.0), to.max(0.0));
        if from >= to {
            to = 1.0;
        }
        let step = step_of(from, to);
        let (from, to) = (down(from, step), up(to, step));
        let ticks = every(step, from, to);
        Self { logarithmic: false, from, to, places, ticks, decimals: decimals_of(step) }
    }

    /// Within a factor of two, ticks are even numbers; within a decade 1, 2, 3, 5 and 7; in a few decades 1,
    /// 2 and 5; else the decades.
    fn logarithmic(from: f64, to: f64, places: [i32; 2]) -> Self {
        let (from, to) = if from <= to { (from, to) } else { (1.0, 10.0) };
        let (from, to) = if to / from < 1.2 { (from / 1.2, to * 1.2) } else { (from, to) };
        let decades = (to / from).log10();
        if decades < FACTOR_DECADES {
            let step = step_of(from, to);
            let lower = if down(from, step) > 0.0 { down(from, step) } else { from };
            let to = up(to, step);
            let ticks = every(step, up(lower, step).max(step), to);
            return Self { logarithmic: true, from: lower, to, places, ticks, decimals: decimals_of(step) };
        }
        let factors: &[f64] = match decades {
            few if few <= 1.0 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            some if some < 3.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
        let every = ((last - first) / DECADES_MOST).max(0) + 1;
        let all = (first..=last).filter(|decade| (decade - first) % every == 0);
        let all: Vec<f64> =
            all.flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade))).collect();
        let lower = all.iter().rev().copied().find(|tick| *tick <= from * (1.0 + ROUNDING)).unwrap_or(from);
        let upper = all.iter().copied().find(|tick| *tick >= to * (1.0 - ROUNDING)).unwrap_or(to);
        let ticks = all.into_iter().filter(|tick| *tick >= lower && *tick <= upper).collect();
        Self { logarithmic: true, from: lower, to: upper, places, ticks, decimals: 0 }
    }

    /// Returns the place of a value; that of the nearer end where it lies beyond one.
    pub fn at(&self, value: f64) -> i32 {
        let value = value.clamp(self.from, self.to);
        let part = match self.logarithmic {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        let [low, high] = self.places.map(f64::from);
        (low + (high - low) * part).round() as i32
    }

    /// Returns the places of the ticks, and their numbers.
    pub fn ticks(&self) -> impl Iterator<Item = (i32, String)> {
        self.ticks.iter().map(|&tick| (self.at(tick), self.number(tick)))
    }

    /// Returns the place of zero, where it is on the axis.
    pub fn zero(&self) -> Option<i32> {
        (!self.logarithmic && self.from <= 0.0 && self.to >= 0.0).then(|| self.at(0.0))
    }

    fn number(&self, tick: f64) -> String {
        let size = tick.abs();
        match self.logarithmic {
            _ if size == 0.0 => "0".to_owned(),
            _ if !(1e-4..1e6).contains(&size) => with_power(tick),
            true if self.decimals == 0 && size < 1.0 => format!("{tick}"),
            _ => grouped(tick, self.decimals),
        }
    }
}

/// Returns the step of a linear axis: 1, 2 or 5 of a power of ten.
fn step_of(from: f64, to: f64) -> f64 {
    let rough = (to - from) / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let factor = rough / power;
    let factor = [1.0, 2.0, 5.0].into_iter().find(|step| factor <= step * 1.2).unwrap_or(10.0);
    factor * power
}

fn down(value: f64, step: f64) -> f64 {
    (value / step + ROUNDING).floor() * step
}

fn up(value: f64, step: f64) -> f64 {
    (value / step - ROUNDING).ceil() * step
}

fn every(step: f64, from: f64, to: f64) -> Vec<f64> {
    let (first, last) = ((from / step).round() as i64, (to / step).round() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

fn decimals_of(step: f64) -> usize {
    (-(step.log10() + ROUNDING).floor()).clamp(0.0, 6.0) as usize
}

/// Writes a number with a power of ten: `1.2e7`.
fn with_power(number: f64) -> String {
    let text = format!("{number:.2e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Writes a number with a comma between thousands where there are more than four digits.
pub fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 && digits.len() > 4 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
    // What is rounded to nothing has no sign.
    let sign =
        if digits.chars().all(|digit| digit == '0') && !rest.contains(|c: char| ('1'..='9').contains(&c)) {
            ""
        } else {
            sign
        };
    format!("{sign}{grouped}{rest}")
}

/// Writes a number with three figures.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{number:.0e}"),
        size if size < 1.0 => grouped(number, 3),
        size if size < 10.0 => grouped(number, 2),
        size if size < 100.0 => grouped(number, 1),
        size if size < 1e7 => grouped(number, 0),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = Scale::over(axis, values.iter().copied(), [0, 1000]);
        scale.ticks().map(|(_, number)| number).collect()
    }

    #[test]
    fn a_linear_axis_has_zero_and_even_numbers() {
        let of = |values: &[f64]| ticks(&Axis::linear("x"), values);
        assert_eq!(of(&[1.3, 2.1]), ["0", "0.5", "1.0", "1.5", "2.0", "2.5"].map(str::to_owned));
        assert_eq!(of(&[23_000.0]), ["0", "5000", "10,000", "15,000", "20,000", "25,000"].map(str::to_owned));
        assert_eq!(of(&[-0.4, 1.0]), ["-0.5", "0", "0.5", "1.0"].map(str::to_owned));
        assert_eq!(of(&[0.0, f64::NAN]).first().map(String::as_str), Some("0"));
        assert_eq!(of(&[]).last().map(String::as_str), Some("1.0"));
    }

    #[test]
    fn a_logarithmic_axis_has_readable_ticks_within_a_decade_too() {
        let of = |values: &[f64]| ticks(&Axis::logarithmic("x"), values);
        assert_eq!(of(&[2.1, 8.7]), ["2", "3", "5", "7", "10"].map(str::to_owned));
        assert_eq!(
            of(&[1200.0, 9000.0]),
            ["1000", "2000", "3000", "5000", "7000", "10,000"].map(str::to_owned)
        );
        assert!(of(&[300.0, 310.0]).len() >= 3);
        assert_eq!(with_power(12e6), "1.2e7");
        assert_eq!(of(&[3.0, 400.0]), ["2", "5", "10", "20", "50", "100", "200", "500"].map(str::to_owned));
        assert_eq!(of(&[0.01, 900.0]), ["0.01", "0.1", "1", "10", "100", "1000"].map(str::to_owned));
        let many = of(&[1e-9, 1e9]);
        assert!((4..=12).contains(&many.len()), "{many:?}");
        assert!(!of(&[-1.0, 0.0]).is_empty(), "nothing positive is no panic");
    }

    #[test]
    fn places_are_in_order_and_within_the_ends() {
        for axis in [Axis::linear("x"), Axis::logarithmic("x")] {
            let scale = Scale::over(&axis, [1.0, 3.0, 70.0], [500, 0]);
            let places = [0.5, 1.0, 3.0, 70.0, 1e9].map(|value| scale.at(value));
            assert!(places.is_sorted_by(|one, next| one >= next), "{places:?}");
            assert!(places.iter().all(|place| (0..=500).contains(place)), "{places:?}");
        }
    }

    #[test]
    fn numbers_have_three_figures() {
        let of = [0.0, 0.000_02, 0.1234, 2.345, 23.45, 2345.6, 23_456.7, 3e9, -1.5].map(short);
        assert_eq!(of, ["0", "2e-5", "0.123", "2.35", "23.4", "2346", "23,457", "3.0e9", "-1.50"]);
        assert_eq!(grouped(-0.001, 1), "0.0");
    }
}
