//! Shares: which part of a core each NF gets.
//!
//! The problem: the kernel gives every task of a core the same time. A chain of a cheap NF and an expensive
//! one then works its packets half and throws them away, and an NF with few packets gets as much as one with
//! many.
//!
//! The intuition: *rate-cost proportional* shares. What an NF has to do in the next window is what arrives
//! and what waits, times what each packet takes. Time in proportion to that lets all NFs of a core fall
//! behind at the same rate: equal costs share by arrivals, equal arrivals share by cost, so that output rates
//! are equal. A priority is a factor on it.
//!
//! `work = (arrivals in a window + backlog) * service time`, `share = priority * work / sum` (NFVnice,
//! equations 5.2.1 to 5.2.3). The paper adds packets per second and packets; here both are packets of one
//! window, [`cost::WINDOW`], over which service times are formed too.
//!
//! The threshold: every NF has [`least`], however little it has to do: enough to notice its first packets, to
//! obey an order, and to be measured again. A share is written only when it differs from the one in force by
//! more than a measurement's error (`is_worth_writing`).
//!
//! An NF that *feeds* another one of its core has at least an even part, whatever its work. By work alone all
//! NFs of a chain would fall behind at once, and the first of them, which other chains pass too, would be
//! throttled for the sake of the last. It cannot abuse that: while those it feeds cannot keep up it is
//! blocked (`pressure`), and what it does not use the kernel gives to the others.
//!
//! The bound: an NF's work counts as at most what `claim_cores` cores do in a window (`bounded`), one by
//! default. The time of each packet that an NF *returns*, times the packets that *come*, has no bound of its
//! own: an NF that spins and returns little is expensive by every account there is, its own and the kernel's.
//! Whether it works or spins nobody can tell from outside, so what it gains is bounded and not judged. With a
//! bound of one core, whatever an NF claims, does or leaves undone, the others of its domain that need parts
//! `w` of a core have at least `w / (1 + sum(w))` of what the domain has, and an NF that needs a whole core,
//! or more, has at least an even part (at equal priorities, and but for the least shares). Beyond its domain
//! it gains nothing at all: the parts of domains are configured.
//!
//! The price: NFs that need more than a core each share evenly, and no longer by what they need. Where these
//! are trusted, `claim_cores` says how many cores' worth of need is believed; the experiments of NFVnice set
//! it.
//!
//! Rejected: a head start in proportion for NFs that feed others (a third of TCP was still shed); an even
//! part for all, which is the kernel's own sharing (decision 12).
//!
//! What it refuses to do: give to an NF that spins without packets (its work is nothing), or weigh real-time
//! NFs, for which weights mean nothing.
//!
//! Source: NFVnice, section 5.2; decision 12.

use crate::cost;
use crate::units::{CoreId, Instant, NfId, Rate, Span};

/// A whole core, in the parts that shares are told in. Our choice: the range of `cpu.weight` (cgroup v2, 1 to
/// 10,000), which lies inside that of `cpu.shares` (v1, 2 to 262,144), so either is a share as it is.
pub const WHOLE: u32 = 10_000;
/// The least share, in parts of [`WHOLE`]. Our choice: half a percent is below what the smallest of six NFs
/// with costs 1:2:5:20:40:60 needs (0.8 %, NFVnice's fairness experiment), and still 3 ms within the second.
const LEAST: u32 = 50;
/// The part of a share by which it must change to be written, as a divisor: the error of a service time (a
/// histogram's, 1/16).
const CHANGE_MIN: u32 = 16;
/// Shortest and longest slice the kernel takes (`__setparam_fair`, Linux 6.12).
const SLICE_MIN: Span = Span::from_micros(100);
const SLICE_MAX: Span = Span::from_millis(100);
/// Longest slice on a core with NFs that wait for its end, being of another trust domain or batch tasks. Our
/// choice: below a tick of the kernel's (4 ms at most), at which it changes between them. Within its slice no
/// such NF takes the core from another, and what it is ahead the kernel remembers up to two slices of its
/// successor, which begins with a short one: an NF that ended after each slice of 100 ms had 90 % of a core
/// beside another domain, and one that was alone had the core for 100 ms more when another one got packets.
const SLICE_WAITED_FOR: Span = Span::from_millis(3);
/// Time constant of the mean of arrivals. Our choice: half the window, because the median of service times
/// follows half a window after a change too.
const FOLLOWS: Span = Span(cost::WINDOW.0 / 2);

/// Arrivals at one NF, as moving means.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    seen: Option<(Instant, u64)>,
    per_second: f64,
    backlog: f64,
}

impl Demand {
    /// Takes in how many packets have come for the NF ever, those that found no room among them, and how
    /// many wait in its ring.
    pub(crate) fn on_sample(&mut self, now: Instant, arrived: u64, backlog: u32) {
        let Some((at, before)) = self.seen.replace((now, arrived)) else { return };
        let passed = (now - at).0 as f64;
        if passed == 0.0 {
            self.seen = Some((at, before));
            return;
        }
        let rate = arrived.saturating_sub(before) as f64 * 1e9 / passed;
        let part = (passed / FOLLOWS.0 as f64).min(1.0);
        self.per_second += (rate - self.per_second) * part;
        self.backlog += (f64::from(backlog) - self.backlog) * part;
    }

    /// Returns packets a second.
    #[must_use]
    pub(crate) const fn rate(&self) -> Rate {
        Rate(self.per_second)
    }

    /// Returns nanoseconds of work in a window: what arrives and what waits, at this service time.
    #[must_use]
    pub(crate) const fn work_ns(&self, service_time: Span) -> f64 {
        let arrivals = self.per_second * (cost::WINDOW.0 as f64 / 1e9);
        (arrivals + self.backlog) * service_time.0 as f64
    }
}

/// Returns work as far as it counts: at most what so many cores do in a window.
#[must_use]
pub(crate) fn bounded(work_ns: f64, cores: u32) -> f64 {
    work_ns.min(f64::from(cores.max(1)) * cost::WINDOW.0 as f64)
}

/// One NF of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// Work that comes to it in a window, in nanoseconds; not negative.
    pub work_ns: f64,
    /// Factor of its share, 1 to 100.
    pub priority: u32,
    /// Whether it feeds another NF of the core, and is blocked while that one cannot keep up.
    pub feeds: bool,
}

impl Contender {
    /// Less than a nanosecond of work in a window is none, and so is nonsense.
    fn claim(&self) -> f64 {
        let claim = self.work_ns * f64::from(self.priority);
        if claim >= 1.0 { claim.min(1e24) } else { 0.0 }
    }
}

/// Returns the least share of each of so many NFs: `LEAST`, but all of these together at most a quarter of
/// the core.
#[must_use]
pub const fn least(contenders: usize) -> u32 {
    let part = WHOLE / (4 * if contenders == 0 { 1 } else { contenders as u32 });
    let bound = if part < LEAST { part } else { LEAST };
    if bound == 0 { 1 } else { bound }
}

/// Shares a core among NFs: `shares[i]` is that of `contenders[i]`, in parts of [`WHOLE`]. They add up to the
/// whole, up to one part for each by rounding. False when none of them has anything to do: then `shares` is
/// left as it was, because what was right before may be right again.
///
/// # Panics
/// If there are fewer shares than contenders.
pub fn share(contenders: &[Contender], shares: &mut [u32]) -> bool {
    let shares = &mut shares[..contenders.len()];
    if contenders.iter().all(|one| one.claim() == 0.0) {
        return false;
    }
    let even = contenders.iter().map(Contender::claim).sum::<f64>() / contenders.len() as f64;
    let claim = |one: &Contender| if one.feeds { one.claim().max(even) } else { one.claim() };
    let least = least(contenders.len());
    // Those below the least get it, what is left is shared among the others, which may put more below it.
    shares.fill(0);
    loop {
        let open = || contenders.iter().zip(&*shares).filter(|(_, share)| **share == 0);
        let total: f64 = open().map(|(one, _)| claim(one)).sum();
        let given = shares.iter().sum::<u32>();
        let part = f64::from(WHOLE - given) / total;
        let mut again = false;
        for (one, share) in contenders.iter().zip(shares.iter_mut()) {
            if *share == 0 && claim(one) * part < f64::from(least) {
                *share = least;
                again = true;
            }
        }
        if !again {
            for (one, share) in contenders.iter().zip(shares.iter_mut()).filter(|(_, share)| **share == 0) {
                *share = (claim(one) * part) as u32;
            }
            return true;
        }
    }
}

/// Returns the slice to ask the kernel for. A task's deadline is its slice over its weight, so with slices as
/// the squares of shares an NF that needs little comes soon after it wakes, and none gets more than its share
/// (decision 12). Where others of its core wait for its end, slices are short.
#[must_use]
pub fn slice(share: u32, is_waited_for: bool) -> Span {
    let longest = if is_waited_for { SLICE_WAITED_FOR } else { SLICE_MAX };
    let part = u64::from(share) * SLICE_MAX.0 / u64::from(WHOLE) * u64::from(share) / u64::from(WHOLE);
    Span(part).clamp(SLICE_MIN, longest)
}

/// Returns whether an NF feeds another one of its core: a later stage of one of its chains has an instance
/// there.
#[must_use]
pub fn feeds<'a>(
    nf: NfId,
    core: CoreId,
    chains: impl IntoIterator<Item = &'a [NfId]>,
    runs_on: impl Fn(NfId, CoreId) -> bool,
) -> bool {
    chains.into_iter().any(|stages| {
        let from = stages.iter().position(|stage| *stage == nf);
        from.is_some_and(|from| stages[from + 1..].iter().any(|later| runs_on(*later, core)))
    })
}

/// Returns the weight of each NF beside other programs of its core, as a multiple of theirs: what is
/// configured, unless what the manager runs itself is on one of these cores. A worker or the control loop
/// would then wait for NFs that wait for it.
#[must_use]
pub fn weight_over_programs(configured: u32, of_nfs: &[u32], ours: &[u32]) -> u32 {
    if of_nfs.iter().any(|core| ours.contains(core)) { 1 } else { configured }
}

/// Returns whether shares differ enough from those in force: one of them by more than a sixteenth, which is
/// how well a service time is known.
#[must_use]
pub(crate) fn is_worth_writing(in_force: &[u32], shares: &[u32]) -> bool {
    in_force.len() != shares.len()
        || in_force.iter().zip(shares).any(|(old, new)| old.abs_diff(*new) > old / CHANGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    /// Work of a whole core in a window.
    const CORE: f64 = cost::WINDOW.0 as f64;

    fn shared(contenders: &[(f64, u32)]) -> Vec<u32> {
        let all: Vec<Contender> = contenders
            .iter()
            .map(|&(work_ns, priority)| Contender { work_ns, priority, feeds: false })
            .collect();
        let mut shares = vec![0; all.len()];
        assert!(share(&all, &mut shares));
        shares
    }

    #[test]
    fn an_nf_that_feeds_another_has_an_even_part() {
        let light = Contender { work_ns: 1e6, priority: 1, feeds: true };
        let heavy = Contender { work_ns: 9e6, priority: 1, feeds: false };
        let mut shares = [0; 2];
        assert!(share(&[light, heavy], &mut shares));
        assert_eq!(shares, [3571, 6428]);
        assert!(share(&[Contender { feeds: false, ..light }, heavy], &mut shares));
        assert_eq!(shares, [1000, 9000]);
    }

    #[test]
    fn shares_follow_work_and_priority() {
        assert_eq!(shared(&[(120.0, 1), (270.0, 1), (550.0, 1)]), [1276, 2872, 5851]);
        assert_eq!(shared(&[(1.0, 3), (1.0, 1)]), [7500, 2500]);
        assert_eq!(shared(&[(1.0, 1)]), [WHOLE]);
        assert_eq!(shared(&[(0.0, 1), (1.0, 1)]), [LEAST, WHOLE - LEAST]);
    }

    #[test]
    fn an_idle_core_keeps_its_shares() {
        let idle = [Contender { work_ns: 0.0, priority: 1, feeds: false }; 2];
        let mut shares = [1, 2];
        assert!(!share(&idle, &mut shares));
        assert_eq!(shares, [1, 2]);
    }

    #[test]
    fn demand_follows_within_a_few_windows() {
        let mut demand = Demand::default();
        let sample = |demand: &mut Demand, millis: u64, arrived: u64| {
            demand.on_sample(Instant(0) + Span::from_millis(millis), arrived, 10);
        };
        (0..300).for_each(|millis| sample(&mut demand, millis, millis * 1000));
        assert!((demand.rate().per_second() - 1e6).abs() < 1e4, "{demand:?}");
        assert!((demand.work_ns(Span(100)) - (1e5 + 10.0) * 100.0).abs() < 2e5, "{demand:?}");
        (300..600).for_each(|millis| sample(&mut demand, millis, 299_000));
        assert!(demand.rate().per_second() < 1e4, "{demand:?}");
    }

    #[test]
    fn an_nf_feeds_what_comes_behind_it_on_its_core() {
        let chains: [&[NfId]; 2] = [&[NfId(0), NfId(1), NfId(2)], &[NfId(3), NfId(0)]];
        // All run on core 1 but the second.
        let runs_on = |nf: NfId, core: CoreId| (nf == NfId(1)) == (core == CoreId(2));
        let feeds = |nf, core| feeds(NfId(nf), CoreId(core), chains, runs_on);
        assert_eq!([feeds(0, 1), feeds(1, 2), feeds(2, 1), feeds(3, 1)], [true, false, false, true]);
    }

    /// Shares and slices of representative cores.
    #[test]
    fn shares_are_a_table() {
        let case = |name: &str, all: &[(f64, u32, bool)]| {
            let contender = |&(work_ns, priority, feeds)| Contender { work_ns, priority, feeds };
            let all: Vec<Contender> = all.iter().map(contender).collect();
            let mut shares = vec![0; all.len()];
            let slices_us = |shares: &[u32]| -> Vec<u64> {
                shares.iter().map(|&share| slice(share, false).0 / 1000).collect()
            };
            match share(&all, &mut shares) {
                true => format!("{name}: shares {shares:?}, slices us {:?}\n", slices_us(&shares)),
                false => format!("{name}: as they were\n"),
            }
        };
        let table: String = [
            case("costs 120, 270, 550", &[(120.0, 1, false), (270.0, 1, false), (550.0, 1, false)]),
            case("the same, a chain", &[(120.0, 1, true), (270.0, 1, true), (550.0, 1, false)]),
            case("the same, reversed", &[(550.0, 1, true), (270.0, 1, true), (120.0, 1, false)]),
            case(
                "six, costs 1:2:5:20:40:60",
                &[1.0, 2.0, 5.0, 20.0, 40.0, 60.0].map(|work| (work, 1, false)),
            ),
            case("priority 3 and 1", &[(100.0, 3, false), (100.0, 1, false)]),
            case("one without work", &[(0.0, 1, false), (100.0, 1, false)]),
            case("one without work, which feeds", &[(0.0, 1, true), (100.0, 1, false)]),
            case("less than a nanosecond of work", &[(0.9, 1, false), (100.0, 1, false)]),
            case(
                "a third of a core, beside a thousand cores",
                &[(0.33 * CORE, 1, false), (bounded(1e3 * CORE, 1), 1, false)],
            ),
            case("the same, four believed", &[(0.33 * CORE, 1, false), (bounded(1e3 * CORE, 4), 1, false)]),
            case("two cores and three", &[2.0, 3.0].map(|cores| (bounded(cores * CORE, 1), 1, false))),
            case("the same, four believed", &[2.0, 3.0].map(|cores| (bounded(cores * CORE, 4), 1, false))),
            case("none has work", &[(0.0, 1, false), (0.0, 1, true)]),
            case(
                "eight of which one works",
                &[[(1e6, 1, false); 1].as_slice(), &[(0.0, 1, false); 7]].concat(),
            ),
        ]
        .concat();
        crate::snapshot::assert("share", &table);
    }

    #[test]
    fn small_changes_are_not_written() {
        assert!(!is_worth_writing(&[5000, 5000], &[5300, 4700]));
        assert!(is_worth_writing(&[5000, 5000], &[5320, 4680]));
        assert!(is_worth_writing(&[], &[WHOLE]));
    }

    fn contenders() -> impl Strategy<Value = Vec<(f64, u32)>> {
        prop::collection::vec((prop_oneof![Just(0.0), 1.0..1e12], 1u32..=100), 1..130)
            .prop_filter("somebody works", |all| all.iter().any(|(work, _)| *work > 0.0))
    }

    proptest! {
        #[test]
        fn the_core_is_given_once_and_nobody_starves(all in contenders()) {
            let shares = shared(&all);
            let sum: u32 = shares.iter().sum();
            prop_assert!(sum <= WHOLE && sum + all.len() as u32 >= WHOLE, "{sum}");
            prop_assert!(shares.iter().all(|share| *share >= least(all.len()) - 1));
        }

        #[test]
        fn above_the_least_shares_are_in_proportion(all in contenders()) {
            let shares = shared(&all);
            let free = |at: &usize| shares[*at] > least(all.len()) + 1;
            let free: Vec<usize> = (0..all.len()).filter(free).collect();
            for pair in free.windows(2) {
                let claim = |at: usize| all[at].0 * f64::from(all[at].1);
                let wanted = claim(pair[0]) / (claim(pair[0]) + claim(pair[1]));
                let (one, other) = (f64::from(shares[pair[0]]), f64::from(shares[pair[1]]));
                // Each is rounded down by less than a part.
                prop_assert!((one / (one + other) - wanted).abs() <= 1.0 / (one + other), "{pair:?}");
            }
        }

        #[test]
        fn more_priority_is_never_less(all in contenders(), who in 0usize..130, more in 1u32..100) {
            let who = who % all.len();
            let mut raised = all.clone();
            raised[who].1 = (raised[who].1 + more).min(100);
            let (before, after) = (shared(&all), shared(&raised));
            prop_assert!(after[who] + 1 >= before[who], "{} {}", before[who], after[who]);
        }

        /// However much work there is, it counts as that of some cores, and less of it never as more.
        #[test]
        fn work_is_bounded(work in any::<f64>(), less in any::<f64>(), cores in any::<u32>()) {
            let bound = f64::from(cores.max(1)) * CORE;
            prop_assert!(bounded(work, cores) <= bound);
            prop_assert!(less > work || bounded(less, cores) <= bounded(work, cores) || work.is_nan() || less.is_nan());
        }

        #[test]
        fn nonsense_is_borne(work in prop::collection::vec(any::<f64>(), 1..20)) {
            let all: Vec<Contender> =
                work.into_iter().map(|work_ns| Contender { work_ns, priority: 1, feeds: false }).collect();
            let mut shares = vec![0; all.len()];
            if share(&all, &mut shares) {
                prop_assert!(shares.iter().sum::<u32>() <= WHOLE);
            }
        }
    }
}
