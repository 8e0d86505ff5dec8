//! Service times: what one packet costs an NF, by its own samples, overridden by CPU accounting.
//!
//! The problem: shares of a core follow what each NF's packets cost, and that only the NF can measure well:
//! it sits around the work. But it may lie to get more, and the kernel, which does not lie, counts the time
//! in which it polled an empty ring as well.
//!
//! The intuition: the NF's samples of the last [`WINDOW`] give the service time, their median, because a few
//! samples that an interrupt of the hypervisor stretched do not move it. The kernel's account is the
//! *bound*: no NF can have worked longer than it ran. The median of anything that is not negative is at most
//! twice its mean (Markov's inequality), so an honest NF's median times its packets is at most twice its CPU
//! time, whatever its costs look like.
//!
//! The threshold: beyond [`FACTOR`] a claim is a lie, idle or not. The other way round the account proves
//! something only when the NF had packets at every sample of a window, so that it never polled an empty
//! ring: then the CPU time is the cost of the packets, `OVERHEAD` of machinery for each, `SLEEP` for each
//! sleep and `EMPTY_POLL` for each poll of an empty ring, and a mean claim of less than a third of it is
//! not an honest one. Samples of the ring alone do not show that it was never empty: the sampling thread may
//! have the NF's core just then, and finds what came since it took it. So the NF counts sleeps and empty
//! polls itself. It may count more of them than it had, and hides by that only that it claims too little,
//! which harms nobody but itself: a low claim is a small share. One that counts fewer is judged as if it had
//! none. One window proves little, because packets are counted as returned up to a ring later than they
//! were worked on. `WINDOWS_TO_OVERRIDE` in a row do; from then on the kernel's account is the service
//! time, until as many in a row agree.
//!
//! Rejected: the account alone, which makes an NF that waits for packets look expensive.
//!
//! What it refuses to do: punish. An NF that lies gets the share that the kernel says it uses.
//!
//! Source: NFVnice, section 5.2.3 (histogram, median of 100 ms, one sample a millisecond); decision 10.

#[cfg(test)]
mod tests;

use crate::units::{Instant, Span};
use crate::wake::POLL;

/// Age at which a sample no longer counts: NFVnice's moving window (section 5.2.3).
pub const WINDOW: Span = Span::from_millis(100);
/// Samples remembered. Our choice: one a millisecond (NFVnice, section 5.2.3), and room for what was read
/// late.
const SAMPLES_MAX: usize = 128;
/// Largest factor between an NF's claim and the kernel's account that is believed. Our choice: 2 would be
/// proof if nothing were sampled (see above), and half of that again is for the sample and for a histogram's
/// error of 1/16.
pub const FACTOR: u64 = 3;
/// Time for each packet that the account may hold beyond three times the claim. Our choice: ten times what
/// the library's own part of a pass takes (25 ns), for what is not in the sample.
const OVERHEAD: Span = Span(250);
/// Time for each sleep that the account may hold. Our choice: the time in which the NF polled the empty ring
/// before it, and two switches of 2 us and their cold caches.
const SLEEP: Span = Span(POLL.0 + 10_000);
/// Time for each poll of an empty ring that the account may hold. Our choice: ten times what one takes (25
/// ns), for a processor whose pause is longer and for what it is interrupted by.
const EMPTY_POLL: Span = Span(250);
/// Windows in a row that change what is believed. Our choice: a ring that empties moves packets by one
/// window.
const WINDOWS_TO_OVERRIDE: u32 = 3;
/// Packets below which a window proves nothing. Our choice: some bursts.
const PACKETS_MIN: u64 = 256;
/// CPU time below which a window proves nothing. Our choice: a hundredth of it.
const CPU_MIN: Span = Span(WINDOW.0 / 100);

/// Service times of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Half of the samples are not longer.
    pub median: Span,
    /// 99 of 100 samples are not longer.
    pub p99: Span,
    /// Their mean.
    pub mean: Span,
}

/// Counts of the manager and the kernel for an NF, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Account {
    /// CPU time of its process.
    pub cpu: Span,
    /// Packets it returned.
    pub returned: u64,
    /// Times it slept, as it says.
    pub sleeps: u64,
    /// Times it polled an empty ring, as it says.
    pub empty_polls: u64,
}

/// A change in what is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// From now on the NF's claim is overridden by CPU accounting.
    Overridden {
        /// The median it claims.
        claimed: Span,
        /// CPU time for each packet it returned.
        accounted: Span,
    },
    /// From now on its claim is believed again.
    Believed,
}

/// A window under way.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    account: Account,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Instant,
    time: Span,
}

/// The cost of one NF's packets.
#[derive(Clone, Debug)]
pub struct Cost {
    samples: [Sample; SAMPLES_MAX],
    /// Place of the next sample; the oldest is overwritten.
    next: usize,
    claim: Option<ServiceTimes>,
    accounted: Option<Span>,
    window: Option<Window>,
    /// Whether the NF had packets at every sample of the window.
    busy: bool,
    overridden: bool,
    /// Windows in a row that contradict what is believed now.
    against: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            samples: [Sample::default(); SAMPLES_MAX],
            next: 0,
            claim: None,
            accounted: None,
            window: None,
            busy: true,
            overridden: false,
            against: 0,
        }
    }
}

impl Cost {
    /// Takes in `count` samples of a service time. More than are remembered count as that many.
    pub(crate) fn on_service_time(&mut self, now: Instant, time: Span, count: u32) {
        for _ in 0..count.min(SAMPLES_MAX as u32) {
            // A claim of nothing at all would make a load of nothing; a sample of nothing is one that never
            // was.
            self.samples[self.next] = Sample { at: now, time: time.max(Span(1)) };
            self.next = (self.next + 1) % SAMPLES_MAX;
        }
    }

    /// Takes in a sample of the receive ring: whether it held packets.
    pub(crate) const fn on_ring(&mut self, has_packets: bool) {
        self.busy &= has_packets;
    }

    /// Forms the claim of the samples that count now. Without any the last one stays.
    pub fn poll(&mut self, now: Instant) {
        let mut recent = [0; SAMPLES_MAX];
        let mut count = 0;
        for sample in self.samples.iter().filter(|one| one.time > Span::ZERO && now - one.at < WINDOW) {
            recent[count] = sample.time.0;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let recent = &mut recent[..count];
        let sum: u128 = recent.iter().map(|&ns| u128::from(ns)).sum();
        let p99 = Span(*recent.select_nth_unstable((count * 99).div_ceil(100) - 1).1);
        let median = Span(*recent.select_nth_unstable((count - 1) / 2).1);
        self.claim = Some(ServiceTimes { median, p99, mean: Span((sum / count as u128) as u64) });
    }

    /// Returns whether the window is over, so that `Cost::on_account` is worth its account.
    #[must_use]
    pub fn wants_account(&self, now: Instant) -> bool {
        self.window.is_none_or(|window| now - window.since >= WINDOW)
    }

    /// Compares claim and account of the window that ends now, and begins the next.
    pub(crate) fn on_account(&mut self, now: Instant, account: Account) -> Option<Judgement> {
        let busy = core::mem::replace(&mut self.busy, true);
        let before = self.window.replace(Window { since: now, account })?.account;
        let cpu = account.cpu - before.cpu;
        let packets = account.returned.saturating_sub(before.returned);
        if packets < PACKETS_MIN || cpu < CPU_MIN {
            return None;
        }
        let accounted = Span(cpu.0 / packets);
        self.accounted = Some(accounted);
        let claim = self.claim?;
        let too_much = u128::from(claim.median.0) * u128::from(packets) > u128::from(FACTOR * cpu.0);
        let sleeps = account.sleeps.wrapping_sub(before.sleeps);
        let empty_polls = account.empty_polls.wrapping_sub(before.empty_polls);
        let waiting = SLEEP.times(sleeps).0.saturating_add(EMPTY_POLL.times(empty_polls).0);
        let machinery = OVERHEAD.0.saturating_add(waiting / packets);
        let too_little = accounted.0 > claim.mean.times(FACTOR).0.saturating_add(machinery);
        let differs = too_much || busy && too_little;
        // A window that was not busy says nothing of a claim that is low.
        if !differs && self.overridden && !busy {
            return None;
        }
        self.against = if differs == self.overridden { 0 } else { self.against + 1 };
        if self.against < WINDOWS_TO_OVERRIDE {
            return None;
        }
        self.against = 0;
        self.overridden = differs;
        Some(match differs {
            true => Judgement::Overridden { claimed: claim.median, accounted },
            false => Judgement::Believed,
        })
    }

    /// Returns what the NF says of itself.
    #[must_use]
    pub const fn claim(&self) -> Option<ServiceTimes> {
        self.claim
    }

    /// Returns CPU time for each packet in the last window that had work: never less than the cost.
    #[must_use]
    pub const fn accounted(&self) -> Option<Span> {
        self.accounted
    }

    /// Returns whether the claim is overridden by CPU accounting.
    #[must_use]
    pub const fn is_overridden(&self) -> bool {
        self.overridden
    }

    /// Returns the service time in force: the claimed median, or the account where there is no claim or
    /// none to believe; `None` before anything is known.
    #[must_use]
    pub(crate) const fn service_time(&self) -> Option<Span> {
        match (self.claim, self.accounted) {
            (Some(claim), _) if !self.overridden => Some(claim.median),
            (_, accounted) => accounted,
        }
    }
}
