//! Trials: whether a change was one for the better, judged by what was measured and not by what was hoped
//! for.
//!
//! A chain's figures drift: neighbours of a virtual machine come and go, and windows a minute apart differ
//! by more than most changes gain. So a change is put on and off alternately, and each window with it is held
//! against the two beside it, without it: what drifts slowly is the same in both. Of [`PAIRS`] such ratios
//! the median says how much a change gains, and how far they lie apart says whether that is more than chance:
//! one for the better is so every time.
//!
//! Rejected: means, which one disturbed window moves; and as many windows before as after, of which the
//! machine decides.

/// Windows with a change. Our choice: were it all chance, one of 32 would be for the better each time.
pub const PAIRS: usize = 5;
/// By how much more packets, or less time for each, is better: 3 %, what is worth an entry in a file.
const BETTER: f64 = 0.03;
/// By how much fewer packets in any window still are as many: a change that promises to be sooner or cheaper
/// is not to lose any, and where windows lie further apart, nobody knows.
const AS_MANY: f64 = 0.1;
/// By how much less latency is sooner: a queue's length is counted a hundred times a second.
const SOONER: f64 = 0.1;

/// Measurements of a chain over one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Packets that left, a second.
    pub rate: f64,
    /// CPU time of its NFs for each packet that left, in nanoseconds.
    pub cpu_ns: f64,
    /// Time that packets spent at its NFs, in nanoseconds, where that is known.
    pub latency_ns: Option<f64>,
}

/// A figure with a change over the same without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of all pairs.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Ratio {
    /// `None` where a figure is missing or 0.
    fn of(pairs: [Option<(f64, f64)>; PAIRS]) -> Option<Self> {
        let mut ratios = [0.0; PAIRS];
        for (ratio, pair) in ratios.iter_mut().zip(pairs) {
            let (without, with) = pair.filter(|(without, with)| *without > 0.0 && *with > 0.0)?;
            *ratio = with / without;
        }
        ratios.sort_unstable_by(f64::total_cmp);
        Some(Self { median: ratios[PAIRS / 2], least: ratios[0], most: ratios[PAIRS - 1] })
    }

    fn is_more(&self, part: f64) -> bool {
        self.median > 1.0 + part && self.least > 1.0
    }

    fn is_less(&self, part: f64) -> bool {
        self.median < 1.0 - part && self.most < 1.0
    }
}

/// Effect of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Effect on the rate of packets that leave.
    pub rate: Ratio,
    /// Effect on the CPU time for each.
    pub cpu: Ratio,
    /// Effect on the time that they stay, where that is known.
    pub latency: Option<Ratio>,
}

impl Effect {
    /// Returns the effect from windows in the order without, with, without, with, …, without. `None` when in
    /// one of them no packet left.
    #[must_use]
    pub fn of(without: &[Window; PAIRS + 1], with: &[Window; PAIRS]) -> Option<Self> {
        let ratio = |figure: fn(&Window) -> Option<f64>| {
            let pair = |at: usize| {
                let (one, other) = (figure(&without[at])?, figure(&without[at + 1])?);
                Some((f64::midpoint(one, other), figure(&with[at])?))
            };
            Ratio::of(core::array::from_fn(pair))
        };
        let rate = ratio(|window| Some(window.rate))?;
        Some(Self { rate, cpu: ratio(|window| Some(window.cpu_ns))?, latency: ratio(|w| w.latency_ns) })
    }
}

/// Fate of a change: kept or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// More packets leave.
    MorePackets,
    /// As many leave, sooner.
    Sooner,
    /// As many leave as soon, and cost less.
    Cheaper,
    /// It is put back.
    No,
}

/// Whether a change was one for the better. More packets count most; then latency, which must not pay for CPU
/// time; then CPU time. What is for the worse counts as soon as its median is.
#[must_use]
pub fn is_better(effect: &Effect) -> Kept {
    if effect.rate.is_more(BETTER) {
        return Kept::MorePackets;
    }
    if effect.rate.median < 1.0 - BETTER || effect.rate.least < 1.0 - AS_MANY {
        return Kept::No;
    }
    let sooner = effect.latency.is_some_and(|latency| latency.is_less(SOONER));
    let later = effect.latency.is_some_and(|latency| latency.median > 1.0 + SOONER);
    let more_expensive = effect.cpu.median > 1.0 + BETTER;
    match () {
        () if sooner && !more_expensive => Kept::Sooner,
        () if effect.cpu.is_less(BETTER) && !later => Kept::Cheaper,
        () => Kept::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: Window = Window { rate: 1e6, cpu_ns: 500.0, latency_ns: Some(20_000.0) };

    fn kept(rate: f64, cpu_ns: f64, latency_ns: f64) -> Kept {
        let with = Window { rate, cpu_ns, latency_ns: Some(latency_ns) };
        is_better(&Effect::of(&[BEFORE; PAIRS + 1], &[with; PAIRS]).unwrap())
    }

    #[test]
    fn what_is_kept() {
        assert_eq!(kept(1.2e6, 900.0, 90_000.0), Kept::MorePackets);
        assert_eq!(kept(1.02e6, 500.0, 20_000.0), Kept::No);
        assert_eq!(kept(1e6, 500.0, 10_000.0), Kept::Sooner);
        assert_eq!(kept(1e6, 700.0, 10_000.0), Kept::No);
        assert_eq!(kept(1e6, 400.0, 20_000.0), Kept::Cheaper);
        assert_eq!(kept(1e6, 400.0, 40_000.0), Kept::No);
        assert_eq!(kept(0.9e6, 100.0, 1_000.0), Kept::No);
    }

    fn faster(factor: f64, window: Window) -> Window {
        Window { rate: window.rate * factor, cpu_ns: window.cpu_ns / factor, ..window }
    }

    #[test]
    fn a_gain_shows_through_a_drift_that_is_larger() {
        // The machine loses a fifth while a change that gains a tenth is tried.
        let at = |number: usize| faster(1.0 - 0.02 * number as f64, BEFORE);
        let without = core::array::from_fn(|pair| at(2 * pair));
        let with = |gain: f64| core::array::from_fn(|pair| faster(gain, at(2 * pair + 1)));
        let effect = Effect::of(&without, &with(1.1)).unwrap();
        assert!((effect.rate.median - 1.1).abs() < 1e-9, "{effect:?}");
        assert_eq!(is_better(&effect), Kept::MorePackets);
        assert_eq!(is_better(&Effect::of(&without, &with(1.0)).unwrap()), Kept::No);
    }

    #[test]
    fn what_is_better_but_for_once_is_chance() {
        let mut with = [faster(1.2, BEFORE); PAIRS];
        with[3] = faster(0.9, BEFORE);
        assert_eq!(is_better(&Effect::of(&[BEFORE; PAIRS + 1], &with).unwrap()), Kept::No);
    }

    #[test]
    fn what_is_cheaper_while_nobody_knows_how_many_pass_is_put_back() {
        let cheap = Window { cpu_ns: 400.0, ..BEFORE };
        let mut with = [cheap; PAIRS];
        assert_eq!(is_better(&Effect::of(&[BEFORE; PAIRS + 1], &with).unwrap()), Kept::Cheaper);
        with[0].rate /= 4.0;
        assert_eq!(is_better(&Effect::of(&[BEFORE; PAIRS + 1], &with).unwrap()), Kept::No);
    }

    #[test]
    fn without_packets_nothing_is_said_and_without_queues_nothing_of_them() {
        let none = Window { rate: 0.0, ..BEFORE };
        assert_eq!(Effect::of(&[none; PAIRS + 1], &[BEFORE; PAIRS]), None);
        let empty = Window { latency_ns: Some(0.0), ..BEFORE };
        assert_eq!(Effect::of(&[empty; PAIRS + 1], &[empty; PAIRS]).unwrap().latency, None);
    }

    proptest! {
        #[test]
        fn nothing_is_better_than_itself(windows: [(f64, f64, f64); PAIRS + 1]) {
            let window = |(rate, cpu, latency): (f64, f64, f64)| Window {
                rate: rate.abs(),
                cpu_ns: cpu.abs(),
                latency_ns: Some(latency.abs()),
            };
            let same = windows.map(window)[0];
            if let Some(effect) = Effect::of(&[same; PAIRS + 1], &[same; PAIRS]) {
                prop_assert_eq!(is_better(&effect), Kept::No);
            }
        }

        /// Whatever the windows, not both of two ways are better than the other.
        #[test]
        fn no_change_and_its_contrary_let_more_packets_through(rates in proptest::array::uniform11(1.0..1e7f64)) {
            let window = |at: usize| Window { rate: rates[at], ..BEFORE };
            let effect = Effect::of(
                &core::array::from_fn(|pair| window(2 * pair)),
                &core::array::from_fn(|pair| window(2 * pair + 1)),
            ).unwrap();
            prop_assert!(!(effect.rate.is_more(BETTER) && effect.rate.is_less(BETTER)));
            prop_assert!(effect.rate.least <= effect.rate.median && effect.rate.median <= effect.rate.most);
        }
    }
}
