//! Chains.

use std::fmt;

use headgate_api::status::{ChainStatus, ObjectiveStatus, Snapshot};

use super::family::{Families, HISTOGRAMS_MAX};

/// A counter of chains: name, help, value.
type ChainCounter = (&'static str, &'static str, fn(&ChainStatus) -> u64);

/// Writes them.
pub fn encode(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let counters: [ChainCounter; 2] = [
        ("headgate_chain_entered_packets", "Packets that entered a chain", |chain| chain.entered),
        ("headgate_chain_left_packets", "Packets that left a chain by a port", |chain| chain.left),
    ];
    for (name, help, count) in counters {
        families.counters(name, help, None, |one| {
            snapshot.chains.iter().try_for_each(|chain| one.add([("chain", &chain.name)], count(chain)))
        })?;
    }
    let help = "Packets that NFs of a chain made; only of chains whose NFs made some";
    families.counters("headgate_chain_made_packets", help, None, |one| {
        let mut makers = snapshot.chains.iter().filter(|chain| chain.made > 0);
        makers.try_for_each(|chain| one.add([("chain", &chain.name)], chain.made))
    })?;
    let help = "Packets of a chain that were dropped, by reason; only reasons that occurred";
    families.counters("headgate_chain_dropped_packets", help, None, |one| {
        snapshot.drops.iter().try_for_each(|drop| {
            one.add([("chain", drop.chain.as_str()), ("reason", &drop.reason)], drop.count)
        })
    })?;
    let help = "Time from arrival to emission of packets of a chain; sampled";
    families.histograms("headgate_chain_delay", help, |one| {
        let mut chains = snapshot.chains.iter().take(HISTOGRAMS_MAX);
        chains.try_for_each(|chain| match &chain.delay_histogram {
            Some(delay) => one.add([("chain", &chain.name)], delay),
            None => Ok(()),
        })
    })?;
    objectives(snapshot, families)?;
    let help = "Chains and NF instances without histograms, because there are too many of them";
    families.gauges("headgate_histograms_left_out", help, None, |one| {
        let left_out =
            [snapshot.chains.len(), snapshot.nfs.len()].map(|all| all.saturating_sub(HISTOGRAMS_MAX));
        one.add([], left_out.iter().sum::<usize>() as f64)
    })
}

/// An objective of chains: name, help, whether it is kept.
type Objective = (&'static str, &'static str, fn(&ObjectiveStatus) -> Option<bool>);

fn objectives(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let objectives: [Objective; 2] = [
        (
            "headgate_chain_rate_floor_kept",
            "Whether a chain reached its rate floor, or lost nothing: 1, else 0",
            |objective| objective.floor_kept,
        ),
        (
            "headgate_chain_delay_bound_kept",
            "Whether the 99th percentile of a chain's delay is within its bound: 1, else 0",
            |objective| objective.bound_kept,
        ),
    ];
    for (name, help, kept) in objectives {
        families.gauges(name, help, None, |one| {
            snapshot.chains.iter().try_for_each(|chain| match chain.objective.as_ref().and_then(kept) {
                Some(is_kept) => one.add([("chain", &chain.name)], f64::from(u8::from(is_kept))),
                None => Ok(()),
            })
        })?;
    }
    Ok(())
}
