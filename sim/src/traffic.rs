//! Traffic: how many packets of a flow have come by a moment.
//!
//! Packets come whether they are asked for or not, like those of a sender that does not care for the
//! receiver. A flow is asked at the worker's passes; how often that is changes nothing of what comes.

use headgate_decide::units::Instant;
#[cfg(test)]
use headgate_decide::units::Span;

use crate::random::Random;
use crate::scene::{Arrivals, Capture};
use crate::sender::{Fate, Sender};

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
    /// Constant: changes of its rate to come, the next one last; since when it has its rate, and how many had
    /// come by then.
    changes: Vec<(u64, u64)>,
    since: u64,
    before: u64,
    /// Of a capture: the times of its packets, and after which it begins again.
    replay: Capture,
    /// Of TCP.
    sender: Option<Sender>,
}

impl Traffic {
    pub(crate) fn new(arrivals: Arrivals, mut random: Random, replay: Capture) -> Self {
        let (mut next, mut on, mut sender) = (0.0, None, None);
        match arrivals {
            Arrivals::Constant { .. } | Arrivals::Replay { .. } => {}
            Arrivals::Poisson { rate } => next = random.exponential(interval_ns(rate)),
            Arrivals::OnOff { .. } | Arrivals::HeavyTailed { .. } => {
                (next, on) = (phase(arrivals, true, &mut random), Some((0, 0)));
            }
            Arrivals::Tcp { rate, rtt, window, .. } => sender = Some(Sender::new(rate, rtt, window)),
        }
        let (changes, since, before) = (Vec::new(), 0, 0);
        Self { arrivals, random, taken: 0, next, on, changes, since, before, replay, sender }
    }

    /// Changes its rate at these times, in nanoseconds, if its packets come evenly.
    pub(crate) fn change(&mut self, mut changes: Vec<(u64, u64)>) {
        changes.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        self.changes = changes;
    }

    /// Takes in what became of packets at a moment.
    pub(crate) fn hear(&mut self, now: Instant, packets: u32, fate: Fate) {
        if let Some(sender) = &mut self.sender {
            sender.hear(now, packets, fate);
        }
    }

    /// Takes the packets that came by `now`. Returns how many.
    pub(crate) fn take(&mut self, now: Instant) -> u64 {
        let came = match self.arrivals {
            Arrivals::Constant { .. } => self.by_steps(now),
            Arrivals::Poisson { rate } => self.by_poisson(rate, now),
            Arrivals::OnOff { rate, .. } | Arrivals::HeavyTailed { rate, .. } => self.by_on_off(rate, now),
            Arrivals::Replay { .. } => self.replayed_by(now),
            Arrivals::Tcp { .. } => self.sender.as_mut().map_or(0, |sender| sender.sent_by(now)),
        };
        let more = came - self.taken;
        self.taken = came;
        more
    }

    /// Returns when the next packet comes that was not taken, or by when one has to ask again; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.arrivals {
            Arrivals::Constant { rate: 0 } => self.changes.last().map(|(at, _)| Instant(*at)),
            Arrivals::Poisson { rate: 0 }
            | Arrivals::OnOff { rate: 0, .. }
            | Arrivals::HeavyTailed { rate: 0, .. }
            | Arrivals::Tcp { rate: 0, .. } => None,
            Arrivals::Constant { rate } => {
                let at = (u128::from(self.taken - self.before + 1) * SECOND).div_ceil(u128::from(rate));
                let change = self.changes.last().map_or(u64::MAX, |(at, _)| *at);
                Some(Instant((self.since + at as u64).min(change)))
            }
            Arrivals::Poisson { .. } => Some(Instant(self.next.ceil() as u64)),
            Arrivals::Replay { .. } => {
                let packets = self.replay.at_ns.len() as u64;
                let rounds = self.taken.checked_div(packets)?;
                Some(Instant(
                    rounds * self.replay.length.0 + self.replay.at_ns[(self.taken % packets) as usize],
                ))
            }
            Arrivals::Tcp { .. } => self.sender.as_ref()?.next(),
            Arrivals::OnOff { rate, .. } | Arrivals::HeavyTailed { rate, .. } => {
                let phase = Instant(self.next as u64);
                let Some((since, before)) = self.on else { return Some(phase) };
                let packet = (u128::from(self.taken - before + 1) * SECOND).div_ceil(u128::from(rate));
                Some(Instant(since + packet as u64).min(phase))
            }
        }
    }

    fn by_steps(&mut self, now: Instant) -> u64 {
        let Arrivals::Constant { rate } = &mut self.arrivals else { return self.taken };
        while let Some((at, next)) = self.changes.pop_if(|(at, _)| *at <= now.0) {
            self.before += by_constant(*rate, at - self.since);
            (self.since, *rate) = (at, next);
        }
        self.before + by_constant(*rate, now.0 - self.since)
    }

    fn by_poisson(&mut self, rate: u64, now: Instant) -> u64 {
        let mut came = self.taken;
        while rate > 0 && self.next <= now.0 as f64 {
            came += 1;
            self.next += self.random.exponential(interval_ns(rate));
        }
        came
    }

    fn replayed_by(&self, now: Instant) -> u64 {
        let Capture { at_ns, length } = &self.replay;
        let (rounds, into) = (now.0 / length.0.max(1), now.0 % length.0.max(1));
        rounds * at_ns.len() as u64 + at_ns.partition_point(|at| *at <= into) as u64
    }

    fn by_on_off(&mut self, rate: u64, now: Instant) -> u64 {
        let came = |(since, before): (u64, u64), until: u64| before + by_constant(rate, until - since);
        let mut total = self.taken;
        while self.next <= now.0 as f64 {
            let ends = self.next as u64;
            let [on, off] = [true, false].map(|is_on| phase(self.arrivals, is_on, &mut self.random));
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

/// Draws a time in which packets come, or one in which none do: whole nanoseconds, and at least one, so
/// that phases end.
fn phase(arrivals: Arrivals, is_on: bool, random: &mut Random) -> f64 {
    let time = match arrivals {
        Arrivals::OnOff { on, off, .. } => random.exponential(if is_on { on } else { off }.0 as f64),
        Arrivals::HeavyTailed { on, off, shape_percent, .. } => {
            random.pareto(if is_on { on } else { off }.0 as f64, f64::from(shape_percent) / 100.0)
        }
        _ => 0.0,
    };
    time.ceil().max(1.0)
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

    const KINDS: [Arrivals; 5] = [
        Arrivals::Constant { rate: 1_234_567 },
        Arrivals::Poisson { rate: 1_000_000 },
        Arrivals::OnOff { rate: 2_000_000, on: Span::from_micros(300), off: Span::from_micros(300) },
        Arrivals::HeavyTailed {
            rate: 2_000_000,
            on: Span::from_micros(100),
            off: Span::from_micros(100),
            shape_percent: 150,
        },
        Arrivals::Replay { capture: 0 },
    ];

    fn traffic(arrivals: Arrivals) -> Traffic {
        let capture = Capture { at_ns: vec![0, 0, 100, 1_700], length: Span::from_micros(3) };
        Traffic::new(arrivals, Random::stream(3, 1), capture)
    }

    #[test]
    fn what_comes_does_not_depend_on_when_it_is_asked_for() {
        for kind in KINDS {
            let (mut often, mut once) = (traffic(kind), traffic(kind));
            let asked: u64 = (1..=10_000).map(|step| often.take(Instant(step * 1_000))).sum();
            assert_eq!(asked, once.take(Instant(10_000_000)), "{kind:?}");
            let about = 8_000..15_000;
            // Of heavy tails a single burst may be a tenth of all.
            let varies = matches!(kind, Arrivals::Poisson { .. } | Arrivals::HeavyTailed { .. });
            assert!(asked > 0 && (about.contains(&asked) || varies), "{kind:?}: {asked}");
        }
    }

    #[test]
    fn nothing_comes_before_it_is_announced() {
        for kind in KINDS {
            let (mut traffic, mut now) = (traffic(kind), Instant(0));
            traffic.take(now);
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

    #[test]
    fn rates_change_at_their_time() {
        let mut traffic = traffic(Arrivals::Constant { rate: 1_000 });
        // Ten packets, none for ten milliseconds, then twenty.
        let ms = |ms: u64| Span::from_millis(ms).0;
        traffic.change(vec![(ms(20), 2_000), (ms(10), 0), (ms(30), 0)]);
        assert_eq!(traffic.clone().take(Instant(ms(90))), 30);
        let came: Vec<u64> = [5, 10, 15, 20, 25, 40].map(|at| traffic.take(Instant(ms(at)))).to_vec();
        assert_eq!(came, [5, 5, 0, 0, 10, 10]);
        assert_eq!(traffic.next(), None);
    }
}
