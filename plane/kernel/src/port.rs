//! An interface of the kernel as a queue of a worker, by a packet socket with shared rings. What there is to
//! know of it is in [`crate::polled`].

use std::io;
use std::os::fd::OwnedFd;

use headgate_port::{Queue, QueueCounters, give_back};
use headgate_session::kernel_io::KernelIo;
use headgate_shm::{Descriptor, Stack};

use crate::polled::PolledRings;

/// Makes a queue of a socket that [`crate::open`] opened with the driver `mapped`.
///
/// # Errors
/// The kernel's error.
pub fn queue(socket: OwnedFd, io: &KernelIo) -> io::Result<Box<dyn Queue>> {
    Ok(Box::new(KernelQueue(PolledRings::new(socket, io)?)))
}

struct KernelQueue(PolledRings);

impl Queue for KernelQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        self.0.receive(stack, into)
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let done = self.0.transmit(stack.region(), packets);
        give_back(stack, &packets[..done]);
        done
    }

    fn tend(&mut self, _now: u64, _stack: &mut Stack) {
        self.0.tend();
    }

    fn counters(&self) -> QueueCounters {
        let counts = self.0.counts();
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
}
