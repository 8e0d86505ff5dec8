//! Whether an NF that takes no packets is waiting for its turn, stopped, or lost in a loop.
//!
//! The problem: a dead process is told by the kernel. One that was stopped (SIGSTOP, a debugger), or that
//! never returns from its handler, is alive and looks like one that has not been scheduled yet. Killing
//! an NF that only waits for its core would turn a busy moment into an outage.
//!
//! The intuition: judge by what the kernel accounts to the process, not by the clock alone. While there
//! is work and no progress: a stopped process is given [`Limits::stopped`] of time; a running one is given
//! [`Limits::looping`] of its *own CPU time*, so a starved NF is never blamed for its neighbours. One that
//! neither runs nor is stopped (blocked in a system call) is given [`Limits::blocked`].
//!
//! An NF whose packets wait for its disk looks blocked as well: it sleeps, and holds packets. It says that it
//! waits, which anyone can say; but its library also says so *anew*, several times a second, from the loop
//! that also takes packets. One that never returns from its handler, or sits in a system call, cannot beat. So
//! an NF that waits and beats is left alone, for [`Limits::disk`] at most: a liar that beats for ever is given
//! up then, and so is one whose disk will never answer. A stopped NF does not beat and gets no such grace.
//!
//! What it refuses to do: judge an NF with an empty ring.

use crate::units::{Instant, Span};

/// How long is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time in the stopped state with work waiting.
    pub stopped: Span,
    /// CPU time used without taking a packet while work waits.
    pub looping: Span,
    /// Time blocked in the kernel with work waiting.
    pub blocked: Span,
    /// Time without a beat after which an NF is no longer believed to wait for its disk.
    pub beat: Span,
    /// Time for which an NF may wait for its disk, beats or not, without returning a packet.
    pub disk: Span,
}

impl Default for Limits {
    /// Our choice: a burst of 64 packets at 100 us each, far beyond any NF here, is 6.4 ms; 500 ms of CPU
    /// is eighty times that. A blocked NF may wait for a slow disk by itself, so it gets longer. The library
    /// beats at least every 100 ms: ten missed beats are no accident. A disk gets twice the 30 s after which
    /// the kernel itself gives a command to a disk up (`SD_TIMEOUT`).
    fn default() -> Self {
        Self {
            stopped: Span::from_millis(500),
            looping: Span::from_millis(500),
            blocked: Span::from_secs(5),
            beat: Span::from_secs(1),
            disk: Span::from_secs(60),
        }
    }
}

/// What the process was seen doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Running or wanting to.
    Runnable,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Asleep in the kernel.
    Asleep,
}

/// One look at an NF.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Packets in its ring or its hands.
    pub held: u32,
    /// Anything that changes when it takes or returns packets.
    pub progress: u64,
    /// CPU time accounted to it, ever.
    pub cpu: Span,
    /// What it was doing.
    pub seen: Seen,
    /// Its beat, while it says that packets wait for its disk.
    pub disk_beat: Option<u64>,
}

/// Why an NF is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Hang {
    /// Stopped for too long with work waiting.
    Stopped,
    /// Used its CPU time without taking a packet.
    Looping,
    /// Blocked in the kernel for too long with work waiting.
    Blocked,
}

impl Hang {
    /// A sentence for `status`.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Stopped => "stopped by a signal while packets waited",
            Self::Looping => "used the CPU without returning packets",
            Self::Blocked => "blocked in the kernel while packets waited",
        }
    }
}

/// The watch over one NF instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Liveness {
    since: Option<(Instant, Span, u64)>,
    disk: Option<DiskWait>,
}

/// A wait for a disk, since the last progress.
#[derive(Clone, Copy, Debug)]
struct DiskWait {
    since: Instant,
    beat: u64,
    beat_since: Instant,
}

impl Liveness {
    /// Takes a look into account; says if the NF is to be given up.
    pub fn on_look(&mut self, now: Instant, look: &Look, limits: &Limits) -> Option<Hang> {
        let fresh = (now, look.cpu, look.progress);
        let (since, cpu_then, _) = match self.since {
            Some(then) if look.held > 0 && then.2 == look.progress => then,
            _ => {
                self.since = (look.held > 0).then_some(fresh);
                self.disk = None;
                return None;
            }
        };
        if self.waits_for_disk(now, look, limits) {
            // Judged anew from here on, should the wait end and nothing follow.
            self.since = Some(fresh);
            return None;
        }
        let used = Span(look.cpu.0.saturating_sub(cpu_then.0));
        match look.seen {
            Seen::Stopped if now - since >= limits.stopped => Some(Hang::Stopped),
            Seen::Runnable if used >= limits.looping => Some(Hang::Looping),
            Seen::Asleep if now - since >= limits.blocked => Some(Hang::Blocked),
            _ => None,
        }
    }

    /// Whether it is believed to wait for its disk.
    fn waits_for_disk(&mut self, now: Instant, look: &Look, limits: &Limits) -> bool {
        let Some(beat) = look.disk_beat.filter(|_| look.seen != Seen::Stopped) else { return false };
        let wait = self.disk.get_or_insert(DiskWait { since: now, beat, beat_since: now });
        if wait.beat != beat {
            (wait.beat, wait.beat_since) = (beat, now);
        }
        now - wait.beat_since < limits.beat && now - wait.since < limits.disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look(held: u32, progress: u64, cpu_millis: u64, seen: Seen) -> Look {
        Look { held, progress, cpu: Span::from_millis(cpu_millis), seen, disk_beat: None }
    }

    /// What a look every 100 ms finds first, and after how many seconds.
    fn watch_disk(limit_s: u64, look: impl Fn(u64) -> Look) -> Option<(Hang, u64)> {
        let mut liveness = Liveness::default();
        (0..limit_s * 10).find_map(|turn| {
            let now = Instant(turn * 100_000_000);
            liveness.on_look(now, &look(turn), &Limits::default()).map(|hang| (hang, turn / 10))
        })
    }

    fn watch(looks: &[(u64, Look)]) -> Option<Hang> {
        let mut liveness = Liveness::default();
        looks.iter().find_map(|(millis, look)| {
            liveness.on_look(Instant(millis * 1_000_000), look, &Limits::default())
        })
    }

    #[test]
    fn each_way_to_hang_has_its_name() {
        let twice = |then, now| watch(&[(0, then), (600, now)]);
        assert_eq!(twice(look(5, 1, 0, Seen::Stopped), look(5, 1, 0, Seen::Stopped)), Some(Hang::Stopped));
        assert_eq!(
            twice(look(5, 1, 0, Seen::Runnable), look(5, 1, 600, Seen::Runnable)),
            Some(Hang::Looping)
        );
        let asleep = look(5, 1, 0, Seen::Asleep);
        assert_eq!(watch(&[(0, asleep), (5000, asleep)]), Some(Hang::Blocked));
    }

    #[test]
    fn a_starved_nf_is_not_blamed() {
        let starved = look(5, 1, 10, Seen::Runnable);
        assert_eq!(watch(&[(0, starved), (60_000, starved)]), None);
    }

    #[test]
    fn an_nf_that_waits_for_its_disk_is_left_alone_but_not_for_ever() {
        let waits = |turn| Look { disk_beat: Some(turn), ..look(5, 1, turn, Seen::Asleep) };
        assert_eq!(watch_disk(60, waits), None);
        assert_eq!(watch_disk(120, waits), Some((Hang::Blocked, 65)));
        // A polling loop uses its core while it waits.
        let polls = |turn| Look { disk_beat: Some(turn), ..look(5, 1, turn * 100, Seen::Runnable) };
        assert_eq!(watch_disk(60, polls), None);
    }

    #[test]
    fn who_only_says_that_it_waits_is_not_believed() {
        let says = |seen, cpu: u64| move |turn| Look { disk_beat: Some(7), ..look(5, 1, turn * cpu, seen) };
        assert_eq!(watch_disk(60, says(Seen::Runnable, 100)), Some((Hang::Looping, 1)));
        assert_eq!(watch_disk(60, says(Seen::Asleep, 0)), Some((Hang::Blocked, 6)));
        let stopped = |turn| Look { disk_beat: Some(turn), ..look(5, 1, 0, Seen::Stopped) };
        assert_eq!(watch_disk(60, stopped), Some((Hang::Stopped, 0)));
    }

    proptest! {
        /// Whatever an NF claims, and however it changes its claim: without progress it is given up.
        #[test]
        fn no_claim_buys_more_than_the_limits(claims in prop::collection::vec(prop::option::of(any::<u64>()), 1..20)) {
            let claimed = |turn: u64| claims[turn as usize % claims.len()];
            let lies = |turn| Look { disk_beat: claimed(turn).map(|beat| beat ^ turn), ..look(5, 1, 0, Seen::Asleep) };
            prop_assert!(watch_disk(70, lies).is_some());
        }

        #[test]
        fn progress_or_an_empty_ring_is_always_enough(steps in prop::collection::vec((any::<bool>(), 0u64..10_000), 1..50)) {
            let (mut liveness, mut now, mut progress) = (Liveness::default(), 0, 0);
            for (empty, pass) in steps {
                now += pass;
                progress += u64::from(!empty);
                let seen = look(u32::from(!empty), progress, now, Seen::Runnable);
                prop_assert_eq!(liveness.on_look(Instant(now * 1_000_000), &seen, &Limits::default()), None);
            }
        }
    }
}
