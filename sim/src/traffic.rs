//! Traffic: how many packets of a flow have come by a moment.
//!
//! Packets come whether they are asked for or not, like those of a sender that does not care for the
//! receiver. A flow is asked at the worker's passes; how often that is changes nothing of what comes.

use headgate_decide::units::{Instant, Span};

use crate::random::Random;
use crate::scene::Arrivals;

const SECOND: u128 = 1_000_000_000;

/// The packets of a flow, as time goes on.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    arrivals: Arrivals,
    random: Random,
    /// Packets that were asked for.
    taken: u64,
    /// Poisson: the next arrival, in nanoseconds. On-off: the end of the phase under way.
    next: f64,
    /// On-off: while packets come, since when, and how many had come by then.
    on: Option<(u64, u64)>,
}

impl Traffic {
    pub(crate) fn new(arrivals: Arrivals, mut random: Random) -> Self {
        let (next, on) = match arrivals {
            Arrivals::Constant { .. } => (0.0, None),
            Arrivals::Poisson { rate } => (random.exponential(interval_ns(rate)), None),
            Arrivals::OnOff { on, .. } => (random.exponential(on.0 as f64).ceil(), Some((0, 0))),
        };
        Self { arrivals, random, taken: 0, next, on }
    }

    /// Takes the packets that came by `now`. Returns how many.
    pub(crate) fn take(&mut self, now: Instant) -> u64 {
        let came = match self.arrivals {
            Arrivals::Constant { rate } => by_constant(rate, now.0),
            Arrivals::Poisson { rate } => self.by_poisson(rate, now),
            Arrivals::OnOff { rate, on, off } => self.by_on_off(rate, [on, off], now),
        };
        let more = came - self.taken;
        self.taken = came;
        more
    }

    /// Returns when the next packet comes that was not taken, or by when one has to ask again; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.arrivals {
            Arrivals::Constant { rate: 0 }
            | Arrivals::Poisson { rate: 0 }
            | Arrivals::OnOff { rate: 0, .. } => None,
            Arrivals::Constant { rate } => {
                let at = (u128::from(self.taken + 1) * SECOND).div_ceil(u128::from(rate));
                Some(Instant(at as u64))
            }
            Arrivals::Poisson { .. } => Some(Instant(self.next.ceil() as u64)),
            Arrivals::OnOff { rate, .. } => {
                let phase = Instant(self.next as u64);
                let Some((since, before)) = self.on else { return Some(phase) };
                let packet = (u128::from(self.taken - before + 1) * SECOND).div_ceil(u128::from(rate));
                Some(Instant(since + packet as u64).min(phase))
            }
        }
    }

    fn by_poisson(&mut self, rate: u64, now: Instant) -> u64 {
        let mut came = self.taken;
        while rate > 0 && self.next <= now.0 as f64 {
            came += 1;
            self.next += self.random.exponential(interval_ns(rate));
        }
        came
    }

    fn by_on_off(&mut self, rate: u64, phases: [Span; 2], now: Instant) -> u64 {
        let came = |(since, before): (u64, u64), until: u64| before + by_constant(rate, until - since);
        let mut total = self.taken;
        while self.next <= now.0 as f64 {
            let ends = self.next as u64;
            // Whole nanoseconds, and at least one, so that phases end.
            let [on, off] = phases.map(|mean| self.random.exponential(mean.0 as f64).ceil().max(1.0));
            if let Some(phase) = self.on.take() {
                total = came(phase, ends);
                self.next += off;
            } else {
                self.on = Some((ends, total));
                self.next += on;
            }
        }
        self.on.map_or(total, |phase| came(phase, now.0))
    }
}

impl Arrivals {
    /// Returns the arrivals of one of so many flows that share these.
    pub(crate) fn part(self, part: u16, flows: u16) -> Self {
        let (part, flows) = (u64::from(part), u64::from(flows));
        let of = |rate: u64| rate / flows + u64::from(part < rate % flows);
        match self {
            Self::Constant { rate } => Self::Constant { rate: of(rate) },
            Self::Poisson { rate } => Self::Poisson { rate: of(rate) },
            Self::OnOff { rate, on, off } => Self::OnOff { rate: of(rate), on, off },
        }
    }
}

fn by_constant(rate: u64, ns: u64) -> u64 {
    (u128::from(rate) * u128::from(ns) / SECOND) as u64
}

/// Returns the mean time between two packets; for ever where none come.
fn interval_ns(rate: u64) -> f64 {
    if rate == 0 { f64::MAX } else { 1e9 / rate as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Arrivals; 3] = [
        Arrivals::Constant { rate: 1_234_567 },
        Arrivals::Poisson { rate: 1_000_000 },
        Arrivals::OnOff { rate: 2_000_000, on: Span::from_micros(300), off: Span::from_micros(300) },
    ];

    fn traffic(arrivals: Arrivals) -> Traffic {
        Traffic::new(arrivals, Random::stream(3, 1))
    }

    #[test]
    fn what_comes_does_not_depend_on_when_it_is_asked_for() {
        for kind in KINDS {
            let (mut often, mut once) = (traffic(kind), traffic(kind));
            let asked: u64 = (1..=10_000).map(|step| often.take(Instant(step * 1_000))).sum();
            assert_eq!(asked, once.take(Instant(10_000_000)), "{kind:?}");
            let about = 10_000..15_000;
            assert!(about.contains(&asked) || matches!(kind, Arrivals::Poisson { .. }), "{kind:?}: {asked}");
        }
    }

    #[test]
    fn nothing_comes_before_it_is_announced() {
        for kind in KINDS {
            let (mut traffic, mut now) = (traffic(kind), Instant(0));
            for _ in 0..1_000 {
                let next = traffic.next().expect("packets come");
                assert!(next > now, "{kind:?}");
                assert_eq!(traffic.clone().take(Instant(next.0 - 1)), 0, "{kind:?}");
                now = next;
                traffic.take(now);
            }
        }
        assert_eq!(traffic(Arrivals::Constant { rate: 0 }).next(), None);
    }
}
