//! Faults put around the queues of a port.

use headgate_host::clock::Clock;
use headgate_port::middleware::faulty::REORDER_US;
use headgate_port::middleware::{self, FaultSpec, Faulty};
use headgate_port::{FaultCounters, Queue, QueueCounters};

use crate::config::FaultDirection;
use crate::config::model::{Config, Faults, Port};
use crate::status::{FaultCounts, FaultStatus};

/// Divisor of a domain's buffers: one such part may wait in one direction of a port with a delay. Our choice:
/// two such ports with delays both ways leave half of the buffers to everybody else.
const PART_OF_BUFFERS: usize = 8;

/// Most queues of a port, as the configuration limits them.
const QUEUES_MAX: usize = 64;

/// Puts the faults of port `number`, if it has any, around its queues.
pub fn put_around(
    config: &Config,
    port: &Port,
    clock: &Clock,
    number: usize,
    queues: Vec<Box<dyn Queue>>,
) -> Vec<Box<dyn Queue>> {
    let Some(faults) = &port.faults else { return queues };
    // A queue takes buffers from what its worker has of them.
    let parts = queues.len().max(config.manager.cores.len());
    let buffers = config.domains[port.domain.index()].buffers as usize;
    let whole = FaultSpec {
        room: buffers / PART_OF_BUFFERS / parts,
        region: port.domain.index() as u8,
        ..spec(faults, clock)
    };
    let wrap = |(queue_number, queue): (usize, Box<dyn Queue>)| {
        // Ports with the same seed fail by themselves too.
        let spec = FaultSpec { link: (number * QUEUES_MAX + queue_number) as u16, ..whole };
        Box::new(Faulty::new(queue, &spec)) as Box<dyn Queue>
    };
    queues.into_iter().enumerate().map(wrap).collect()
}

fn spec(wanted: &Faults, clock: &Clock) -> FaultSpec {
    let all = middleware::Faults {
        loss: wanted.loss,
        duplicate: wanted.duplicate,
        reorder: wanted.reorder,
        corrupt: wanted.corrupt,
        delay_cycles: clock.ns_to_cycles(wanted.delay_ns),
        jitter_cycles: clock.ns_to_cycles(wanted.jitter_ns),
    };
    let none = middleware::Faults::default();
    let (receive, transmit) = match wanted.direction {
        FaultDirection::Both => (all, all),
        FaultDirection::Receive => (all, none),
        FaultDirection::Transmit => (none, all),
    };
    let reorder_cycles = clock.ns_to_cycles(REORDER_US * 1_000);
    FaultSpec { seed: wanted.seed, receive, transmit, reorder_cycles, ..FaultSpec::default() }
}

/// Adds the counters of a queue to the status of its port.
pub fn add(status: &mut FaultStatus, counters: &QueueCounters) {
    add_way(&mut status.received, &counters.received_faults);
    add_way(&mut status.sent, &counters.sent_faults);
}

fn add_way(counts: &mut FaultCounts, counters: &FaultCounters) {
    let FaultCounters { lost, duplicated, reordered, corrupted } = counters;
    counts.lost += lost;
    counts.duplicated += duplicated;
    counts.reordered += reordered;
    counts.corrupted += corrupted;
}
