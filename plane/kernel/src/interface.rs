//! An interface of the kernel as a queue of a worker.
//!
//! Between interfaces of one machine frames of up to 64 KiB travel whose checksums are only begun
//! ([`headgate_wire::offload`]). A packet socket with `PACKET_VNET_HDR` says so beside each frame. Where all
//! NFs of a port's chains take such frames they pass whole, in long buffers, and leave with such a header
//! again; and TCP segments that come one by one are merged to such. Elsewhere what the path gets are ordinary
//! frames: checksums complete, long frames cut. On the way
//! out TCP segments that follow each other leave as one long frame again, since a frame costs the kernel far
//! more than its bytes do.
//!
//! ```text
//! terms      what an interface is, and how it fares
//! attachment what it is reached by, one of two:
//! sockets    both sockets of an interface and the ring of the one that receives
//! tap        an interface whose cable ends here: no sockets, a read and a write for each frame
//! entrance   from either, into packet memory
//! merger     TCP segments that come one by one, to long frames
//! exit       from packet memory to either, many frames with one call where there are sockets
//! watch      the control thread's part: losses, and the interface that goes away and comes back
//! ```
//!
//! To receive by sockets takes no system call but for frames longer than the ring's: of these the kernel lays
//! the start into the ring, and the whole into the socket (`PACKET_COPY_THRESH`), in the same order.
//!
//! An interface that goes away takes its sockets along. The control thread opens others when one of that name
//! is there again, and hands them to the worker, which neither opens nor closes anything. The same way an
//! interface is given up to another process that follows this one, and taken up there.

mod attachment;
mod entrance;
mod exit;
mod merger;
mod sockets;
mod tap;
mod terms;
mod watch;

use std::os::fd::AsFd as _;
use std::sync::Arc;

use headgate_port::{Bell, Queue, QueueCounters};
use headgate_shm::{Descriptor, Stack};

use crate::open::OpenError;
use attachment::Attachment;
use entrance::Entrance;
use exit::Exit;
use watch::Mail;

pub use attachment::{Handed, HandedFacts};
pub use sockets::RingFacts;
pub use terms::{Frames, Kind, State, Terms};
pub use watch::Watch;

/// Opens an interface of the calling thread's namespace as a queue. The second is what the control thread
/// keeps of it.
///
/// # Errors
/// [`OpenError`].
pub fn open(terms: Terms) -> Result<(Box<dyn Queue>, Watch), OpenError> {
    Attachment::open(&terms).map(|attachment| queue_on(attachment, terms))
}

/// Makes a queue on an interface that another process still has: nothing comes and goes by it until
/// [`Watch::take_up`].
#[must_use]
pub fn await_handed(terms: Terms) -> (Box<dyn Queue>, Watch) {
    queue_on(Attachment::Away, terms)
}

fn queue_on(attachment: Attachment, terms: Terms) -> (Box<dyn Queue>, Watch) {
    let (entrance, exit) = (Entrance::new(terms.joins), Exit::new(terms.joins));
    let watch = Watch::of(&attachment, terms);
    let mail = watch.mail();
    (Box::new(InterfaceQueue { attachment: Box::new(attachment), entrance, exit, mail }), watch)
}

struct InterfaceQueue {
    attachment: Box<Attachment>,
    entrance: Entrance,
    exit: Exit,
    mail: Arc<Mail>,
}

impl Queue for InterfaceQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let keeps_long = self.mail.keeps_long();
        match &mut *self.attachment {
            Attachment::Sockets(sockets) => self.entrance.receive(sockets, stack, keeps_long, into),
            Attachment::Tap(tap) => self.entrance.receive(tap, stack, keeps_long, into),
            Attachment::Away => 0,
        }
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let done = self.exit.transmit(&self.attachment, stack.region(), packets);
        headgate_port::give_back(stack, &packets[..done]);
        done
    }

    fn takes_long(&self) -> bool {
        true
    }

    fn tend(&mut self, _now: u64, _stack: &mut Stack) {
        self.mail.collect(&mut self.attachment);
    }

    /// An interface that is away comes back without a sound, a little late.
    fn bell(&self) -> Bell<'_> {
        self.attachment.file().map_or(Bell::NotNeeded, |file| Bell::File(file.as_fd()))
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
