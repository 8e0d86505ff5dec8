//! NF instances.

use std::fmt;

use headgate_api::status::{HistogramStatus, NfState, NfStatus, Snapshot};
use prometheus_client::registry::Unit;

use super::family::{Families, HISTOGRAMS_MAX, Labels, seconds};

/// Writes them.
pub fn encode(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    counts(&snapshot.nfs, families)?;
    times(&snapshot.nfs, families)?;
    drops(&snapshot.nfs, families)?;
    states(&snapshot.nfs, families)?;
    queues(&snapshot.nfs, families)?;
    histograms(&snapshot.nfs, families)
}

fn labels(nf: &NfStatus) -> Labels<'_, 2> {
    [("nf", &nf.nf), ("nf_instance", &nf.instance)]
}

/// A counter of NFs: name, help, value.
type NfCounter = (&'static str, &'static str, fn(&NfStatus) -> u64);

fn counts(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let counters: [NfCounter; 5] = [
        ("headgate_nf_delivered_packets", "Packets put into the queue of an NF", |nf| nf.delivered),
        ("headgate_nf_returned_packets", "Packets that an NF returned", |nf| nf.returned),
        ("headgate_nf_wakeups", "Times an NF was woken by a system call", |nf| nf.wakeups),
        ("headgate_nf_failures", "Failures of an NF", |nf| nf.failures.into()),
        ("headgate_nf_throttles", "Times an NF became overloaded", |nf| nf.throttles),
    ];
    for (name, help, count) in counters {
        families
            .counters(name, help, None, |one| nfs.iter().try_for_each(|nf| one.add(labels(nf), count(nf))))?;
    }
    Ok(())
}

fn times(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let help = "CPU time of an NF's processes";
    families.counters("headgate_nf_cpu", help, Some(Unit::Seconds), |one| {
        nfs.iter().try_for_each(|nf| one.add_amount(labels(nf), seconds(nf.cpu_ns)))
    })?;
    let help = "Time that an NF's process was ready to run and waited for its core";
    families.counters("headgate_nf_core_wait", help, Some(Unit::Seconds), |one| {
        nfs.iter().try_for_each(|nf| match nf.core_wait_ns {
            Some(ns) => one.add_amount(labels(nf), seconds(ns)),
            None => Ok(()),
        })
    })?;
    let help = "Part of its core that an NF gets when all NFs of the core have work, 0 to 1";
    families.gauges("headgate_nf_share_ratio", help, None, |one| {
        nfs.iter().try_for_each(|nf| match nf.share {
            Some(share) => one.add(labels(nf), share),
            None => Ok(()),
        })
    })
}

fn drops(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let help = "Packets dropped on the way to an NF, in it and by it, by reason; only reasons that occurred. \
                A packet that was shed at the head of its chain counts for each NF that could not keep up";
    families.counters("headgate_nf_dropped_packets", help, None, |one| {
        nfs.iter().try_for_each(|nf| {
            nf.drops.iter().filter(|(_, count)| **count > 0).try_for_each(|(reason, count)| {
                one.add([("nf", nf.nf.as_str()), ("nf_instance", &nf.instance), ("reason", reason)], *count)
            })
        })
    })
}

/// A state of NFs: name, help, whether it is in it.
type State = (&'static str, &'static str, fn(&NfStatus) -> bool);

fn states(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let states: [State; 4] = [
        ("headgate_nf_running", "Whether an NF is in service: 1, else 0", |nf| nf.state == NfState::Running),
        (
            "headgate_nf_failed",
            "Whether an NF refused its arguments and is not started again: 1, else 0",
            |nf| nf.state == NfState::Failed,
        ),
        ("headgate_nf_throttled", "Whether an NF is overloaded: 1, else 0", |nf| nf.throttled),
        ("headgate_nf_blocked", "Whether an NF is stopped by backpressure: 1, else 0", |nf| nf.blocked),
    ];
    for (name, help, is_in) in states {
        families.gauges(name, help, None, |one| {
            nfs.iter().try_for_each(|nf| one.add(labels(nf), f64::from(u8::from(is_in(nf)))))
        })?;
    }
    Ok(())
}

/// A length of queues: name, help, packets.
type Length = (&'static str, &'static str, fn(&NfStatus) -> Option<f64>);

fn queues(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let lengths: [Length; 4] = [
        ("headgate_nf_queue_packets", "Packets in the queue and in the hands of an NF", |nf| {
            Some(nf.held as f64)
        }),
        ("headgate_nf_queue_room_packets", "Packets that the queue of an NF has room for", |nf| {
            Some(f64::from(nf.ring))
        }),
        (
            "headgate_nf_queue_high_watermark_packets",
            "Packets in its queue from which on an NF is suspected to be overloaded",
            |nf| nf.high_watermark.map(f64::from),
        ),
        (
            "headgate_nf_queue_low_watermark_packets",
            "Packets in its queue below which an NF no longer is overloaded",
            |nf| nf.low_watermark.map(f64::from),
        ),
    ];
    // The manager sees no packet of an NF that serves interfaces itself.
    let queues = || nfs.iter().filter(|nf| nf.io.is_none() && nf.ring > 0);
    for (name, help, packets) in lengths {
        families.gauges(name, help, None, |one| {
            queues().try_for_each(|nf| match packets(nf) {
                Some(packets) => one.add(labels(nf), packets),
                None => Ok(()),
            })
        })?;
    }
    Ok(())
}

/// A distribution of NFs: name, help, value.
type Distribution = (&'static str, &'static str, fn(&NfStatus) -> Option<&HistogramStatus>);

fn histograms(nfs: &[NfStatus], families: &mut Families<'_>) -> fmt::Result {
    let distributions: [Distribution; 3] = [
        (
            "headgate_nf_service_time",
            "Time in the handler of an NF for one packet; sampled, and by the NF's own account",
            |nf| nf.service_time_histogram.as_ref(),
        ),
        ("headgate_nf_queueing", "Time that packets waited for an NF; sampled", |nf| {
            nf.queueing_histogram.as_ref()
        }),
        (
            "headgate_nf_processing",
            "Time that an NF kept packets, with the rest of their burst; sampled",
            |nf| nf.processing_histogram.as_ref(),
        ),
    ];
    for (name, help, times) in distributions {
        families.histograms(name, help, |one| {
            nfs.iter().take(HISTOGRAMS_MAX).try_for_each(|nf| match times(nf) {
                Some(times) => one.add(labels(nf), times),
                None => Ok(()),
            })
        })?;
    }
    Ok(())
}
