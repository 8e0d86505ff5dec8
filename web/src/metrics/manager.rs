//! The manager, its workers, its memory and its ports.

use std::fmt;

use headgate_api::status::{PortStatus, Snapshot};
use prometheus_client::registry::Unit;

use super::family::{Families, seconds};

/// Writes them.
pub fn encode(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    itself(snapshot, families)?;
    workers(snapshot, families)?;
    memory(snapshot, families)?;
    ports(snapshot, families)
}

fn itself(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let manager = &snapshot.manager;
    let labels = [
        ("manager", manager.name.as_str()),
        ("version", &manager.version),
        ("scheduler", &snapshot.scheduler.mode),
    ];
    let help = "Name and version of the manager, and the mode of its scheduler; always 1";
    families.gauges("headgate_build_info", help, None, |one| one.add(labels, 1.0))?;
    let help = "Time since the manager started";
    families
        .gauges("headgate_uptime", help, Some(Unit::Seconds), |one| one.add([], seconds(snapshot.at_ns)))?;
    let help = "CPU time of the manager's process";
    families.counters("headgate_manager_cpu", help, Some(Unit::Seconds), |one| {
        one.add_amount([], seconds(manager.cpu_ns))
    })?;
    let help = "Part of a core that others had lately while workers or NFs waited for it, 0 to 1";
    families.gauges("headgate_core_taken_ratio", help, None, |one| {
        let mut taken = snapshot.scheduler.taken.iter();
        taken.try_for_each(|core| one.add([("core", &core.core.to_string()), ("by", &core.by)], core.part))
    })
}

fn workers(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let workers: Vec<_> =
        snapshot.workers.iter().enumerate().map(|(at, one)| (at.to_string(), one)).collect();
    let help = "Passes of a worker's loop";
    families.counters("headgate_worker_passes", help, None, |one| {
        workers.iter().try_for_each(|(at, worker)| one.add([("worker", at)], worker.passes))
    })?;
    let help = "Passes of a worker's loop in which a packet moved";
    families.counters("headgate_worker_busy_passes", help, None, |one| {
        workers.iter().try_for_each(|(at, worker)| one.add([("worker", at)], worker.busy_passes))
    })?;
    let help = "Flows in a worker's table";
    families.gauges("headgate_worker_flows", help, None, |one| {
        workers.iter().try_for_each(|(at, worker)| one.add([("worker", at)], worker.flows as f64))
    })?;
    let help = "Live flow entries that were overwritten by new ones";
    families.counters("headgate_worker_flows_evicted", help, None, |one| {
        workers.iter().try_for_each(|(at, worker)| one.add([("worker", at)], worker.flows_evicted))
    })
}

fn memory(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let help = "Size of the packet memory of a trust domain";
    families.gauges("headgate_memory", help, Some(Unit::Bytes), |one| {
        let mut regions = snapshot.memory.iter();
        regions.try_for_each(|region| one.add([("domain", &region.domain)], region.bytes as f64))
    })
}

/// A counter of ports: name, help, unit, value.
type PortCounter = (&'static str, &'static str, Option<Unit>, fn(&PortStatus) -> u64);

fn ports(snapshot: &Snapshot, families: &mut Families<'_>) -> fmt::Result {
    let counters: [PortCounter; 4] = [
        ("headgate_port_received_packets", "Packets received by a port", None, |port| port.received),
        ("headgate_port_sent_packets", "Packets sent by a port", None, |port| port.sent),
        (
            "headgate_port_received",
            "Bytes received by a port, without check sequences",
            Some(Unit::Bytes),
            |port| port.received_bytes,
        ),
        ("headgate_port_sent", "Bytes sent by a port, without check sequences", Some(Unit::Bytes), |port| {
            port.sent_bytes
        }),
    ];
    for (name, help, unit, count) in counters {
        families.counters(name, help, unit, |one| {
            snapshot.ports.iter().try_for_each(|port| one.add([("port", &port.name)], count(port)))
        })?;
    }
    let help = "Packets lost at a port, before they entered a chain or after they left it";
    families.counters("headgate_port_lost_packets", help, None, |one| {
        snapshot.ports.iter().try_for_each(|port| {
            let mut losses = losses(port).into_iter();
            losses.try_for_each(|(reason, count)| {
                one.add([("port", port.name.as_str()), ("reason", reason)], count)
            })
        })
    })?;
    let help = "Whether the link of a port is up: 1, else 0; only of ports with a link";
    families.gauges("headgate_port_link_up", help, None, |one| {
        snapshot.ports.iter().try_for_each(|port| match port.link {
            Some(is_up) => one.add([("port", &port.name)], f64::from(u8::from(is_up))),
            None => Ok(()),
        })
    })
}

/// Packets lost at a port, by reason.
const fn losses(port: &PortStatus) -> [(&'static str, u64); 4] {
    [
        ("too-long", port.too_long),
        ("bad-offload", port.bad_offload),
        ("missed", port.missed),
        ("failed", port.failed),
    ]
}
