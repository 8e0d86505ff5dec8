//! Which NF is overloaded, and who must rest for it.
//!
//! The problem: an NF that cannot keep up fills its ring, and what does not fit is dropped there, after
//! other NFs have worked on it. On a shared core that is worse than lost work: the work was taken from
//! the very NF that could not keep up.
//!
//! The intuition: *shed at the head*. While an NF is overloaded, packets of exactly those chains that
//! pass through it end where they enter, before any work is spent on them; and an NF upstream whose
//! every packet would only pile up further down rests.
//!
//! Whether an NF is overloaded is told by its queue, with hysteresis: above the high watermark it is
//! *watched*, and only when it stays there for [`Marks::patience`], or there is no more room, is it
//! *throttled*, until the queue is below the low watermark. The patience is what keeps an NF that merely
//! waits for its turn of the core from being taken for one that cannot keep up. A state lasts at least
//! [`Marks::tick`], so whatever the queue does, a chain is not opened and closed more often than that.
//!
//! No list of throttled chains is kept, only which instances are throttled; a chain is closed exactly as
//! long as one on its way is. So a chain cannot be left closed by a mistake in bookkeeping: there is none.
//!
//! What it refuses to do: guess how long an overload will last, or drop anything itself.
//!
//! Sources: NFVnice section 3.3 and the dissertation's appendix B (watch list, throttle, clear; marks of
//! 80 and 60 percent, justified by `headgate bench nfvnice watermarks`).

/// The numbers of the rule for one instance; times in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A queue of so many packets is suspect.
    pub high: u32,
    /// A queue of so many is fine again.
    pub low: u32,
    /// More do not fit.
    pub full: u32,
    /// How long a queue must be suspect.
    pub patience: u64,
    /// Least time between two changes.
    pub tick: u64,
}

/// Least time between opening and closing, microseconds. Our choice: some turns of the worker, and a tenth
/// of the time a batch of a light NF takes.
pub const TICK_MICROS: u64 = 10;

impl Marks {
    /// The marks of an instance whose ring has `ring` places, with watermarks in percent of it.
    #[must_use]
    pub const fn new(ring: u32, high_percent: u32, low_percent: u32, patience: u64, tick: u64) -> Self {
        Self {
            high: (ring as u64 * high_percent as u64 / 100) as u32,
            low: (ring as u64 * low_percent as u64 / 100) as u32,
            full: ring,
            patience: if patience < tick { tick } else { patience },
            tick,
        }
    }
}

/// How long the queue of an NF that never sleeps must be suspect, microseconds. Our choice: it takes turns by the
/// kernel's tick of 4 ms with as many others, and its ring is full whenever it waits for its own.
pub const SLEEPLESS_MICROS: u64 = 50_000;

impl Marks {
    /// The marks of an instance that never sleeps: only a queue that outlasts its neighbours' turns counts, full
    /// or not.
    #[must_use]
    pub const fn sleepless(ring: u32, high: u32, low: u32, cycles_per_micro: u64, tick: u64) -> Self {
        let marks = Self::new(ring, high, low, SLEEPLESS_MICROS * cycles_per_micro, tick);
        Self { full: u32::MAX, ..marks }
    }
}

/// What is thought of an instance; times in TSC cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// It keeps up.
    #[default]
    Clear,
    /// Its queue has been long since then.
    Watched(u64),
    /// It cannot keep up, since then.
    Throttled(u64),
}

impl Load {
    /// Whether chains through the instance are closed.
    #[inline(always)]
    #[must_use]
    pub const fn is_throttled(self) -> bool {
        matches!(self, Self::Throttled(_))
    }
}

/// What to think of an instance with `depth` packets queued.
#[inline(always)]
#[must_use]
pub const fn step(load: Load, depth: u32, now: u64, marks: &Marks) -> Load {
    match load {
        Load::Throttled(since) if depth < marks.low && now.wrapping_sub(since) >= marks.tick => Load::Clear,
        Load::Throttled(since) => Load::Throttled(since),
        _ if depth < marks.high => Load::Clear,
        Load::Clear => Load::Watched(now),
        Load::Watched(since) => {
            let watched = now.wrapping_sub(since);
            if watched >= marks.patience || (depth >= marks.full && watched >= marks.tick) {
                Load::Throttled(now)
            } else {
                Load::Watched(since)
            }
        }
    }
}

/// Whether an NF may rest because its work would only pile up: on every way on from it, if there is any,
/// some later NF is throttled. `ways` says so for each of them.
#[inline]
#[must_use]
pub fn may_rest(mut ways: impl Iterator<Item = bool>) -> bool {
    ways.next().is_some_and(|first| first && ways.all(|throttled| throttled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: Marks = Marks::new(1000, 80, 60, 500, 50);

    #[test]
    fn a_long_queue_is_watched_before_it_is_throttled() {
        let watched = step(Load::Clear, 800, 1000, &MARKS);
        assert_eq!(watched, Load::Watched(1000));
        assert_eq!(step(watched, 999, 1499, &MARKS), watched);
        assert_eq!(step(watched, 900, 1500, &MARKS), Load::Throttled(1500));
        assert_eq!(step(watched, 1000, 1050, &MARKS), Load::Throttled(1050));
        assert_eq!(step(watched, 799, 1400, &MARKS), Load::Clear);
    }

    #[test]
    fn throttled_until_below_the_low_mark() {
        let throttled = Load::Throttled(0);
        assert_eq!(step(throttled, 600, 9000, &MARKS), throttled);
        assert_eq!(step(throttled, 599, 49, &MARKS), throttled);
        assert_eq!(step(throttled, 599, 50, &MARKS), Load::Clear);
    }

    #[test]
    fn who_serves_one_open_way_works_on() {
        assert!(may_rest([true, true].into_iter()));
        assert!(!may_rest([true, false].into_iter()));
        assert!(!may_rest([].into_iter()));
    }

    proptest! {
        /// Whatever the queue does: changes are a tick apart, nothing is throttled while there is room
        /// below the high mark, and an emptied queue is never left throttled.
        #[test]
        fn no_oscillation_and_no_throttle_without_reason(
            steps in prop::collection::vec((1u64..200, 0u32..1500), 1..500)
        ) {
            let (mut load, mut now, mut changed) = (Load::Clear, 0u64, None::<u64>);
            for (pass, depth) in steps {
                now += pass;
                let next = step(load, depth, now, &MARKS);
                if next.is_throttled() != load.is_throttled() {
                    if let Some(before) = changed {
                        prop_assert!(now - before >= MARKS.tick);
                    }
                    let with_reason = if next.is_throttled() { depth >= MARKS.high } else { depth < MARKS.low };
                    prop_assert!(with_reason);
                    changed = Some(now);
                }
                load = next;
            }
            now += MARKS.tick;
            prop_assert!(!step(load, 0, now, &MARKS).is_throttled());
        }

        /// A queue that stays long is throttled after the patience.
        #[test]
        fn a_lasting_overload_is_throttled(depths in prop::collection::vec(800u32..1500, 12..40)) {
            let mut load = Load::Clear;
            for (number, depth) in depths.into_iter().enumerate() {
                load = step(load, depth, 100 * number as u64, &MARKS);
            }
            prop_assert!(load.is_throttled());
        }
    }
}
