//! What one packet costs an NF, by what the NF says and by what the kernel says.
//!
//! The problem: shares of a core follow what each NF's packets cost, and that only the NF can measure well: it
//! sits around the work. But it may lie to get more, and the kernel, which does not lie, counts the time in
//! which it looked at an empty ring as well.
//!
//! The intuition: the NF's samples of the last [`WINDOW`] give the estimate, their median, because a few
//! samples that an interrupt of the hypervisor stretched do not move it. The kernel's account is the
//! *bound*: nobody can have worked longer than it ran. The median of anything that is not negative is at most
//! twice its mean (Markov's inequality), so an honest NF's median times its packets is at most twice its CPU
//! time, whatever its costs look like. Beyond [`FACTOR`] it is a lie, idle or not. The other way round the
//! account proves something only when the NF had packets at every look of a window, so that it never looked
//! at an empty ring: then the CPU time is the cost of the packets, [`OVERHEAD_NS`] of machinery for each and
//! [`SLEEP_NS`] for each sleep, and a mean claim of less than a third of it is no honest one. An NF may count
//! more sleeps than it had; a claim that is too low harms only itself.
//!
//! One window proves little, because packets are counted as returned up to a ring later than they were
//! worked on. [`WINDOWS_TO_DOUBT`] in a row do; from then on the kernel's account is the estimate, until as
//! many in a row agree.
//!
//! What it refuses to do: punish. An NF that lies gets the share that the kernel says it uses.
//!
//! Sources: NFVnice, section 5.2.3 (histogram, median of 100 ms, one sample a millisecond).

use crate::units::{Instant, Span};
use crate::wake::POLL;

/// How long a sample counts: NFVnice's moving window.
pub const WINDOW: Span = Span::from_millis(100);
/// Samples remembered: one a millisecond, and room for what was read late.
pub const SAMPLES_MAX: usize = 128;
/// How far claim and account may be apart. Our choice: 2 would be proof if nothing were sampled (see above),
/// and half of that again is for the sample and for a histogram's error of 1/16.
pub const FACTOR: u64 = 3;
/// What the account may hold for each packet beyond three times the claim, in nanoseconds. Our choice: ten
/// times what the library's own part of a turn takes (25 ns), for what is not in the sample.
pub const OVERHEAD_NS: u64 = 250;
/// What it may hold for each sleep: the look at the empty ring before it, and two switches of 2 us and their
/// cold caches.
pub const SLEEP_NS: u64 = POLL.0 + 10_000;
/// Windows in a row that change what is believed.
pub const WINDOWS_TO_DOUBT: u32 = 3;
/// Packets below which a window proves nothing: some bursts.
const PACKETS_MIN: u64 = 256;
/// CPU time below which a window proves nothing: a hundredth of it.
const CPU_MIN_NS: u64 = WINDOW.0 / 100;

/// Service times of one packet, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Half of the samples are not longer.
    pub median_ns: u64,
    /// 99 of 100 samples are not longer.
    pub p99_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
}

/// What the manager and the kernel know of an NF, counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time of its process, in nanoseconds.
    pub cpu_ns: u64,
    /// Packets it returned.
    pub returned: u64,
    /// Times it slept, as it says.
    pub sleeps: u64,
}

/// What became of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing that was not known before.
    Nothing,
    /// From now on the NF's claim is not believed: it said so many nanoseconds, the kernel so many.
    Doubted {
        /// The median it claims.
        claimed_ns: u64,
        /// CPU time for each packet it returned.
        accounted_ns: u64,
    },
    /// From now on it is believed again.
    Believed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Instant,
    ns: u64,
}

/// The cost of one NF's packets.
#[derive(Clone, Debug)]
pub struct Cost {
    samples: [Sample; SAMPLES_MAX],
    /// Where the next sample goes; the oldest is overwritten.
    next: usize,
    claim: Option<Estimate>,
    accounted_ns: Option<u64>,
    /// Where the current window began, and whether the NF had packets at every look since.
    began: Option<(Instant, Account)>,
    busy: bool,
    doubted: bool,
    /// Windows in a row that contradict what is believed now.
    against: u32,
}

impl Default for Cost {
    fn default() -> Self {
        Self {
            samples: [Sample::default(); SAMPLES_MAX],
            next: 0,
            claim: None,
            accounted_ns: None,
            began: None,
            busy: true,
            doubted: false,
            against: 0,
        }
    }
}

impl Cost {
    /// Takes in `count` samples of `ns` each. More than are remembered count as that many.
    pub fn on_samples(&mut self, now: Instant, ns: u64, count: u32) {
        for _ in 0..count.min(SAMPLES_MAX as u32) {
            // A claim of nothing at all would make a load of nothing; the moment is for telling old from none.
            self.samples[self.next] = Sample { at: now, ns: ns.max(1) };
            self.next = (self.next + 1) % SAMPLES_MAX;
        }
    }

    /// Forms the estimate of the samples that count now. Without any the last one stays.
    pub fn estimate(&mut self, now: Instant) {
        let mut recent = [0; SAMPLES_MAX];
        let mut count = 0;
        for sample in self.samples.iter().filter(|one| one.ns > 0 && now - one.at < WINDOW) {
            recent[count] = sample.ns;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let recent = &mut recent[..count];
        let sum: u128 = recent.iter().map(|&ns| u128::from(ns)).sum();
        let p99_ns = *recent.select_nth_unstable((count * 99).div_ceil(100) - 1).1;
        let median_ns = *recent.select_nth_unstable((count - 1) / 2).1;
        self.claim = Some(Estimate { median_ns, p99_ns, mean_ns: (sum / count as u128) as u64 });
    }

    /// A look at the receive ring: whether it held packets.
    pub fn on_look(&mut self, has_packets: bool) {
        self.busy &= has_packets;
    }

    /// Whether the window is over, so that [`Cost::judge`] wants an account.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        self.began.is_none_or(|(at, _)| now - at >= WINDOW)
    }

    /// Compares claim and account of the window that ends now, and begins the next.
    pub fn judge(&mut self, now: Instant, account: Account) -> Judgement {
        let busy = core::mem::replace(&mut self.busy, true);
        let Some((_, before)) = self.began.replace((now, account)) else { return Judgement::Nothing };
        let cpu_ns = account.cpu_ns.saturating_sub(before.cpu_ns);
        let packets = account.returned.saturating_sub(before.returned);
        if packets < PACKETS_MIN || cpu_ns < CPU_MIN_NS {
            return Judgement::Nothing;
        }
        let accounted_ns = cpu_ns / packets;
        self.accounted_ns = Some(accounted_ns);
        let Some(claim) = self.claim else { return Judgement::Nothing };
        let too_much = u128::from(claim.median_ns) * u128::from(packets) > u128::from(FACTOR * cpu_ns);
        let sleeps = account.sleeps.wrapping_sub(before.sleeps);
        let machinery = OVERHEAD_NS.saturating_add(sleeps.saturating_mul(SLEEP_NS) / packets);
        let too_little = accounted_ns > claim.mean_ns.saturating_mul(FACTOR).saturating_add(machinery);
        let differs = too_much || busy && too_little;
        // A window that was not busy says nothing of a claim that is low.
        if !differs && self.doubted && !busy {
            return Judgement::Nothing;
        }
        self.against = if differs == self.doubted { 0 } else { self.against + 1 };
        if self.against < WINDOWS_TO_DOUBT {
            return Judgement::Nothing;
        }
        self.against = 0;
        self.doubted = differs;
        match differs {
            true => Judgement::Doubted { claimed_ns: claim.median_ns, accounted_ns },
            false => Judgement::Believed,
        }
    }

    /// What the NF says of itself.
    #[must_use]
    pub const fn claim(&self) -> Option<Estimate> {
        self.claim
    }

    /// CPU time for each packet in the last window that had work, in nanoseconds: never less than the cost.
    #[must_use]
    pub const fn accounted_ns(&self) -> Option<u64> {
        self.accounted_ns
    }

    /// Whether the claim is not believed.
    #[must_use]
    pub const fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// What to reckon with, in nanoseconds: the claimed median, or the account where there is no claim or
    /// none to believe; `None` before anything is known.
    #[must_use]
    pub const fn service_ns(&self) -> Option<u64> {
        match (self.claim, self.accounted_ns) {
            (Some(claim), _) if !self.doubted => Some(claim.median_ns),
            (_, accounted) => accounted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn at_millis(millis: u64) -> Instant {
        Instant(0) + Span::from_millis(millis)
    }

    /// An NF over `windows` windows: what it claims, what a packet takes, how much of its time it looks at
    /// an empty ring. Returns what it was judged.
    fn live(cost: &mut Cost, from: u64, windows: u64, claim: u64, real: u64, idle_ns: u64) -> Vec<Judgement> {
        let packets = 1000;
        let mut judged = Vec::new();
        for window in from..from + windows {
            cost.on_samples(at_millis(window * 100 + 99), claim, 100);
            cost.estimate(at_millis(window * 100 + 99));
            cost.on_look(idle_ns == 0);
            let returned = (window + 1) * packets;
            let cpu_ns = returned * real + (window + 1) * idle_ns;
            judged.push(cost.judge(at_millis((window + 1) * 100), Account { cpu_ns, returned, sleeps: 0 }));
        }
        judged.retain(|judgement| *judgement != Judgement::Nothing);
        judged
    }

    fn begun() -> Cost {
        let mut cost = Cost::default();
        assert!(cost.is_over(at_millis(0)));
        assert_eq!(cost.judge(at_millis(0), Account::default()), Judgement::Nothing);
        cost
    }

    #[test]
    fn median_and_tail_are_those_of_the_window() {
        let mut cost = Cost::default();
        assert_eq!(cost.service_ns(), None);
        cost.on_samples(at_millis(0), 1_000_000, 100);
        for ns in 1..=100 {
            cost.on_samples(at_millis(100), ns, 1);
        }
        cost.estimate(at_millis(150));
        assert_eq!(cost.claim(), Some(Estimate { median_ns: 50, p99_ns: 99, mean_ns: 50 }));
        cost.estimate(at_millis(500));
        assert_eq!(cost.service_ns(), Some(50));
    }

    #[test]
    fn who_claims_too_much_is_doubted_once_and_believed_again() {
        let mut cost = begun();
        let judged = live(&mut cost, 0, 10, 40_000, 10_000, 0);
        assert_eq!(judged, [Judgement::Doubted { claimed_ns: 40_000, accounted_ns: 10_000 }]);
        assert_eq!(cost.service_ns(), Some(10_000));
        let judged = live(&mut cost, 10, 10, 10_000, 10_000, 0);
        assert_eq!(judged, [Judgement::Believed]);
        assert_eq!(cost.service_ns(), Some(10_000));
    }

    #[test]
    fn who_claims_too_little_is_doubted_only_when_busy() {
        assert_eq!(live(&mut begun(), 0, 10, 1_000, 10_000, 0).len(), 1);
        assert_eq!(live(&mut begun(), 0, 10, 1_000, 1_000, 90_000_000), []);
    }

    #[test]
    fn machinery_is_not_the_nfs_lie() {
        assert_eq!(live(&mut begun(), 0, 10, 3, 240, 0), []);
    }

    /// A few packets a turn, and a switch for each: dear for the core, and no lie.
    #[test]
    fn turns_are_not_the_nfs_lie() {
        let mut cost = begun();
        for window in 1..=10 {
            cost.on_samples(at_millis(window * 100 - 1), 110, 100);
            cost.estimate(at_millis(window * 100 - 1));
            let account =
                Account { cpu_ns: window * 5_760_000, returned: window * 10_000, sleeps: window * 1000 };
            assert_eq!(cost.judge(at_millis(window * 100), account), Judgement::Nothing);
        }
    }

    #[test]
    fn an_nf_without_samples_is_reckoned_by_the_kernel() {
        let mut cost = begun();
        cost.judge(at_millis(100), Account { cpu_ns: 50_000_000, returned: 1000, sleeps: 0 });
        assert_eq!((cost.service_ns(), cost.is_doubted()), (Some(50_000), false));
    }

    proptest! {
        /// Honest samples of any costs, idle or not, are never called too much.
        #[test]
        fn no_honest_nf_is_doubted(
            costs in prop::collection::vec(1_000u64..1_000_000, 100),
            idle_ns in 0u64..100_000_000,
        ) {
            let mut cost = begun();
            let sum: u64 = costs.iter().sum();
            for window in 1..=10 {
                for ns in &costs {
                    cost.on_samples(at_millis(window * 100 - 1), *ns, 1);
                }
                cost.estimate(at_millis(window * 100 - 1));
                cost.on_look(false);
                let account = Account { cpu_ns: window * (sum * 10 + idle_ns), returned: window * 1000, sleeps: 0 };
                prop_assert_eq!(cost.judge(at_millis(window * 100), account), Judgement::Nothing);
            }
        }

        /// Whatever an NF writes into its histogram, nothing overflows and the estimate is one of its claims.
        #[test]
        fn any_claim_is_borne(
            claims in prop::collection::vec((any::<u64>(), any::<u32>()), 1..50),
            accounts in prop::collection::vec((any::<u64>(), any::<u64>()), 1..20),
        ) {
            let mut cost = begun();
            for (ns, count) in &claims {
                cost.on_samples(at_millis(1), *ns, *count);
            }
            cost.estimate(at_millis(1));
            if let Some(claim) = cost.claim() {
                prop_assert!(claims.iter().any(|(ns, _)| (*ns).max(1) == claim.median_ns));
                prop_assert!(claim.median_ns <= claim.p99_ns);
            }
            for (number, (cpu_ns, returned)) in accounts.into_iter().enumerate() {
                let account = Account { cpu_ns: cpu_ns >> 8, returned: returned >> 8, sleeps: cpu_ns };
                cost.judge(at_millis(100 * number as u64), account);
            }
        }
    }
}
