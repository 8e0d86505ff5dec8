use super::*;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

fn at_millis(millis: u64) -> Instant {
    Instant(0) + Span::from_millis(millis)
}

/// An NF over `windows` windows: what it claims, what a packet takes, how much of its time it polls
/// an empty ring. Returns how it was judged.
fn live(cost: &mut Cost, from: u64, windows: u64, claim: u64, real: u64, idle_ns: u64) -> Vec<Judgement> {
    let packets = 1000;
    let mut judged = Vec::new();
    for window in from..from + windows {
        cost.on_service_time(at_millis(window * 100 + 99), Span(claim), 100);
        cost.poll(at_millis(window * 100 + 99));
        cost.on_ring(idle_ns == 0);
        let returned = (window + 1) * packets;
        let cpu = Span(returned * real + (window + 1) * idle_ns);
        judged.extend(
            cost.on_account(at_millis((window + 1) * 100), Account { cpu, returned, ..Account::default() }),
        );
    }
    judged
}

fn begun() -> Cost {
    let mut cost = Cost::default();
    assert!(cost.wants_account(at_millis(0)));
    assert_eq!(cost.on_account(at_millis(0), Account::default()), None);
    cost
}

#[test]
fn median_and_tail_are_those_of_the_window() {
    let mut cost = Cost::default();
    assert_eq!(cost.service_time(), None);
    cost.on_service_time(at_millis(0), Span(1_000_000), 100);
    for ns in 1..=100 {
        cost.on_service_time(at_millis(100), Span(ns), 1);
    }
    cost.poll(at_millis(150));
    assert_eq!(cost.claim(), Some(ServiceTimes { median: Span(50), p99: Span(99), mean: Span(50) }));
    cost.poll(at_millis(500));
    assert_eq!(cost.service_time(), Some(Span(50)));
}

#[test]
fn a_claim_that_is_too_high_is_overridden_once_and_believed_again() {
    let mut cost = begun();
    let judged = live(&mut cost, 0, 10, 40_000, 10_000, 0);
    assert_eq!(judged, [Judgement::Overridden { claimed: Span(40_000), accounted: Span(10_000) }]);
    assert_eq!(cost.service_time(), Some(Span(10_000)));
    let judged = live(&mut cost, 10, 10, 10_000, 10_000, 0);
    assert_eq!(judged, [Judgement::Believed]);
    assert_eq!(cost.service_time(), Some(Span(10_000)));
}

#[test]
fn a_claim_that_is_too_low_is_overridden_only_when_busy() {
    assert_eq!(live(&mut begun(), 0, 10, 1_000, 10_000, 0).len(), 1);
    assert_eq!(live(&mut begun(), 0, 10, 1_000, 1_000, 90_000_000), []);
}

#[test]
fn machinery_is_not_the_nfs_lie() {
    assert_eq!(live(&mut begun(), 0, 10, 3, 240, 0), []);
}

/// A few packets a sleep, and a switch for each: expensive for the core, and no lie.
#[test]
fn sleeps_are_not_the_nfs_lie() {
    let mut cost = begun();
    for window in 1..=10 {
        cost.on_service_time(at_millis(window * 100 - 1), Span(110), 100);
        cost.poll(at_millis(window * 100 - 1));
        let account = Account {
            cpu: Span(window * 5_760_000),
            returned: window * 10_000,
            sleeps: window * 1000,
            empty_polls: 0,
        };
        assert_eq!(cost.on_account(at_millis(window * 100), account), None);
    }
}

/// Packets at a tenth of a million a second for an NF that polls: 9,677 ns of CPU time for each, of which
/// it claims 117. Its ring holds packets whenever it is sampled, because who samples it has its core.
fn polls(claim: u64, empty_polls_a_packet: u64) -> Cost {
    let mut cost = begun();
    for window in 1..=10 {
        cost.on_service_time(at_millis(window * 100 - 1), Span(claim), 100);
        cost.poll(at_millis(window * 100 - 1));
        cost.on_ring(true);
        let returned = window * 10_000;
        let account = Account {
            cpu: Span(returned * 9_677),
            returned,
            sleeps: 0,
            empty_polls: returned * empty_polls_a_packet,
        };
        cost.on_account(at_millis(window * 100), account);
    }
    cost
}

#[test]
fn an_nf_that_polls_between_packets_is_no_liar() {
    let honest = polls(117, 9_560 / 50);
    assert!(!honest.is_overridden());
    assert_eq!(honest.service_time(), Some(Span(117)));
}

#[test]
fn empty_polls_hide_nothing_but_a_claim_that_is_too_low() {
    // One that never polled in vain has no other use for its time than its packets.
    assert_eq!(polls(117, 0).service_time(), Some(Span(9_677)));
    // Polls that never were leave it with the little that it claims; no more than it used is believed.
    assert_eq!(polls(117, u64::MAX >> 20).service_time(), Some(Span(117)));
    assert_eq!(polls(40_000, u64::MAX >> 20).service_time(), Some(Span(9_677)));
}

#[test]
fn an_nf_without_samples_is_taken_at_the_kernels_account() {
    let mut cost = begun();
    cost.on_account(at_millis(100), Account { cpu: Span(50_000_000), returned: 1000, ..Account::default() });
    assert_eq!((cost.service_time(), cost.is_overridden()), (Some(Span(50_000)), false));
}

/// The figures believed of NFs that say and do different things, after how many windows, and why.
#[test]
fn what_is_believed_is_a_table() {
    let mut table = String::from("claim ns  CPU ns a packet  idle us in 100 ms  ->  judged\n");
    let cases = [
        (100, 500),
        (1_000, 1_000),
        (1_000, 3_250),
        (1_000, 3_251),
        (1_000, 10_000),
        (2_000, 1_000),
        (3_000, 1_000),
        (3_001, 1_000),
        (40_000, 10_000),
    ];
    for (claim, real) in cases {
        for idle_us in [0, 500] {
            let judged = live(&mut begun(), 0, 5, claim, real, idle_us * 1_000);
            table += &format!("{claim:8}  {real:15}  {idle_us:17}  ->  {judged:?}\n");
        }
    }
    crate::snapshot::assert("cost", &table);
}

proptest! {
    /// Honest samples of any costs, idle or not, are never called too much.
    #[test]
    fn no_honest_nf_is_overridden(
        costs in prop::collection::vec(1_000u64..1_000_000, 100),
        idle_ns in 0u64..100_000_000,
    ) {
        let mut cost = begun();
        let sum: u64 = costs.iter().sum();
        for window in 1..=10 {
            for ns in &costs {
                cost.on_service_time(at_millis(window * 100 - 1), Span(*ns), 1);
            }
            cost.poll(at_millis(window * 100 - 1));
            cost.on_ring(false);
            let account = Account { cpu: Span(window * (sum * 10 + idle_ns)), returned: window * 1000, ..Account::default() };
            prop_assert_eq!(cost.on_account(at_millis(window * 100), account), None);
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
            cost.on_service_time(at_millis(1), Span(*ns), *count);
        }
        cost.poll(at_millis(1));
        if let Some(claim) = cost.claim() {
            prop_assert!(claims.iter().any(|(ns, _)| (*ns).max(1) == claim.median.0));
            prop_assert!(claim.median <= claim.p99);
        }
        for (number, (cpu_ns, returned)) in accounts.into_iter().enumerate() {
            let account = Account { cpu: Span(cpu_ns >> 8), returned: returned >> 8, sleeps: cpu_ns, empty_polls: cpu_ns };
            cost.on_account(at_millis(100 * number as u64), account);
        }
    }
}
