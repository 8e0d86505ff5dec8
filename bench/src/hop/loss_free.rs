//! The loss-free rate: the most packets per second of which none is lost (RFC 2544, section 26.1).
//!
//! Throughput at overload says what is left when all there is goes into some of the packets; this says what
//! can be asked for. On a machine whose cores are taken away for milliseconds it is the rate at which all
//! rings together hold what comes meanwhile.

use headgate_api::session::Interval;
use headgate_api::status::Snapshot;

/// Trials of a search. Our choice: the rate is then known to a sixty-fourth of the throughput at overload.
const TRIALS: u32 = 6;
/// Part of the asked rate that a generator may fall behind by rounding. Our choice: a burst in a window.
const ROUNDING: f64 = 0.999;

/// Searches for the highest rate below `most` for which a trial is clean, by halves.
///
/// # Errors
/// That of a trial.
pub fn search<E>(most: f64, mut is_clean: impl FnMut(f64) -> Result<bool, E>) -> Result<f64, E> {
    let (mut clean, mut lossy) = (0.0, most);
    for _ in 0..TRIALS {
        let rate = f64::midpoint(clean, lossy);
        if is_clean(rate)? {
            clean = rate;
        } else {
            lossy = rate;
        }
    }
    Ok(clean)
}

/// Returns whether as many packets came as were to come, and none of them was lost.
#[must_use]
pub fn is_clean(interval: &Interval, rate: f64) -> bool {
    let lost = |snapshot: &Snapshot| {
        let missed: u64 = snapshot.ports.iter().map(|port| port.missed).sum();
        let dropped: u64 = snapshot.drops.iter().map(|drop| drop.count).sum();
        missed + dropped
    };
    lost(&interval.after) == lost(&interval.before) && interval.rate() >= rate * ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_api::status::{ChainStatus, DropStatus, PortStatus};

    #[test]
    fn the_search_ends_below_the_rate_at_which_packets_are_lost() {
        for limit in [0.0, 1.0, 31.0, 63.9, 100.0] {
            let found = search(64.0, |rate| Ok::<_, ()>(rate <= limit)).unwrap();
            assert!(found <= limit && found >= limit.min(63.0) - 1.0, "{found} of {limit}");
        }
        assert_eq!(search(64.0, |_| Err("the trial")), Err("the trial"));
    }

    #[test]
    fn a_single_lost_packet_or_a_late_generator_is_not_clean() {
        let at = |at_ns, left, dropped, missed| Snapshot {
            at_ns,
            chains: vec![ChainStatus { left, ..ChainStatus::default() }],
            drops: vec![DropStatus { count: dropped, ..DropStatus::default() }],
            ports: vec![PortStatus { missed, ..PortStatus::default() }],
            ..Snapshot::default()
        };
        let is_clean = |after| is_clean(&Interval { before: at(0, 0, 7, 3), after }, 1000.0);
        assert!(is_clean(at(1_000_000_000, 1000, 7, 3)));
        assert!(!is_clean(at(1_000_000_000, 1000, 8, 3)));
        assert!(!is_clean(at(1_000_000_000, 1000, 7, 4)));
        assert!(!is_clean(at(1_000_000_000, 900, 7, 3)));
    }
}
