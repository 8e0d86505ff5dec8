//! An interface of the kernel as a queue of a worker.
//!
//! Between interfaces of one machine frames of up to 64 KiB travel whose checksums are only begun
//! ([`headgate_wire::offload`]). A packet socket with `PACKET_VNET_HDR` says so beside each frame. Where all
//! NFs of a port's chains take such frames they pass whole, in long buffers, and leave with such a header
//! again. Elsewhere what the path gets are ordinary frames: checksums complete, long frames cut. On the way
//! out TCP segments that follow each other leave as one long frame again, since a frame costs the kernel far
//! more than its bytes do.
//!
//! ```text
//! sockets    both sockets of an interface and the ring of the one that receives
//! entrance   from the ring, and for long frames from the socket, into packet memory
//! exit       from packet memory to the socket, many frames with one call
//! watch      the control thread's part: losses, and the interface that goes away and comes back
//! ```
//!
//! To receive takes no system call but for frames longer than the ring's: of these the kernel lays the start
//! into the ring, and the whole into the socket (`PACKET_COPY_THRESH`), in the same order.
//!
//! An interface that goes away takes its sockets along. The control thread opens others when one of that name
//! is there again, and hands them to the worker, which neither opens nor closes anything.

mod entrance;
mod exit;
mod sockets;
mod watch;

use std::sync::Arc;

use headgate_port::{Queue, QueueCounters};
use headgate_shm::{Descriptor, Stack};

use entrance::Entrance;
use exit::Exit;
use watch::Mail;

pub use sockets::{Sockets, Terms};
pub use watch::{State, Watch};

/// Makes a queue of an interface's sockets, and what the control thread keeps of it.
///
/// # Errors
/// The kernel's error.
pub fn queue(sockets: Sockets) -> std::io::Result<(Box<dyn Queue>, Watch)> {
    let watch = Watch::of(&sockets)?;
    let (entrance, exit) = (Entrance::new(), Exit::new(sockets.terms.joins));
    let mail = watch.mail();
    Ok((Box::new(InterfaceQueue { sockets: Box::new(sockets), entrance, exit, mail }), watch))
}

struct InterfaceQueue {
    sockets: Box<Sockets>,
    entrance: Entrance,
    exit: Exit,
    mail: Arc<Mail>,
}

impl Queue for InterfaceQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        self.entrance.receive(&mut self.sockets, stack, self.mail.keeps_long(), into)
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let done = self.exit.transmit(&self.sockets, stack.region(), packets);
        headgate_port::give_back(stack, &packets[..done]);
        done
    }

    fn takes_long(&self) -> bool {
        true
    }

    fn tend(&mut self, _now: u64, _stack: &mut Stack) {
        self.mail.collect(&mut self.sockets);
    }

    fn counters(&self) -> QueueCounters {
        let (came, left) = (&self.entrance.counts, &self.exit.counts);
        QueueCounters {
            received: came.received,
            received_bytes: came.received_bytes,
            too_long: came.too_long,
            bad_offload: came.bad_offload + left.bad_offload,
            missed: came.missed + self.mail.lost(),
            sent: left.sent,
            sent_bytes: left.sent_bytes,
            failed: left.failed,
            ..QueueCounters::default()
        }
    }
}
