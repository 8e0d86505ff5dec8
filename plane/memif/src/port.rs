//! A memif connection as a queue of a worker. What there is to know of it is in [the crate](crate).

use headgate_port::{Queue, QueueCounters, give_back};
use headgate_shm::{Descriptor, Stack};

use crate::{Connection, Watch};

/// Makes a queue of a connection.
#[must_use]
pub fn queue(connection: Connection) -> Box<dyn Queue> {
    let watch = connection.watch();
    Box::new(MemifQueue { connection, watch })
}

struct MemifQueue {
    connection: Connection,
    watch: Watch,
}

impl Queue for MemifQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        self.connection.receive(stack, into)
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let done = self.connection.transmit(stack.region(), packets);
        give_back(stack, &packets[..done]);
        done
    }

    fn counters(&self) -> QueueCounters {
        let counts = self.connection.counts();
        QueueCounters {
            received: counts.received,
            received_bytes: counts.received_bytes,
            sent: counts.sent,
            sent_bytes: counts.sent_bytes,
            too_long: counts.unfit,
            failed: counts.failed,
            ..QueueCounters::default()
        }
    }

    fn waiting(&self) -> Option<u32> {
        Some(self.watch.waiting())
    }
}
