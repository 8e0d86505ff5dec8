//! An interface as a worker has it: it looks for packets at every turn, never waits, and copies each packet
//! between the rings that it shares with the kernel and packet memory that NFs may see.
//!
//! A frame that lacks its tag or checksum is completed in private memory: what lies in packet memory, a
//! stranger may change meanwhile.

use std::io;
use std::os::fd::OwnedFd;

use headgate_session::kernel_io::KernelIo;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::region::{FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::{Region, Stack};

use crate::BATCH_MAX;
use crate::frame::{self, Aside, TAG_BYTES};
use crate::mapped::MappedRings;

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Packets received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets laid into the ring to be sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that came and do not fit a buffer, or did not come whole.
    pub unfit: u64,
}

/// An interface in the hands of a worker.
pub struct PolledRings {
    rings: MappedRings,
    scratch: Vec<u8>,
    counts: Polled,
}

impl PolledRings {
    /// Takes over a socket that [`crate::open::open`] opened for the driver `mapped`.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn new(socket: OwnedFd, io: &KernelIo) -> io::Result<Self> {
        let rings = MappedRings::new(socket, BATCH_MAX, io.queue, io.frame_bytes)?;
        let scratch = Vec::with_capacity(TAG_BYTES + io.frame_bytes as usize);
        Ok(Self { rings, scratch, counts: Polled::default() })
    }

    /// Takes what is there into buffers of `stack`. Without a free buffer it stays with the kernel.
    pub fn receive(&mut self, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let mut count = 0;
        while count < into.len()
            && !stack.is_empty()
            && let Some(number) = self.rings.next_in()
        {
            let frame = self.rings.bytes_in(number);
            let packet = frame.and_then(|(bytes, aside)| copy(bytes, aside, &mut self.scratch, stack));
            self.rings.release(number);
            match packet {
                Some(packet) => {
                    self.counts.received += 1;
                    self.counts.received_bytes += u64::from(packet.length());
                    into[count] = packet;
                    count += 1;
                }
                None => self.counts.unfit += 1,
            }
        }
        count
    }

    /// Lays packets into the ring, as many as there is room for, and has the kernel send them. How many; their
    /// buffers are the caller's.
    pub fn transmit(&mut self, region: &Region, packets: &[Descriptor]) -> usize {
        let mut count = 0;
        while count < packets.len() && self.rings.lay(packets[count], region) {
            self.counts.sent_bytes += u64::from(packets[count].length());
            count += 1;
        }
        self.counts.sent += count as u64;
        if count > 0 {
            // An interface that is down or gone takes nothing; whoever made it looks after it.
            let _ = self.rings.push();
        }
        count
    }

    /// Has the kernel send what it could not send before.
    pub fn tend(&mut self) {
        // The next turn meets whatever is wrong.
        let _ = self.rings.push_again();
    }

    /// What was done so far.
    #[must_use]
    pub const fn counts(&self) -> Polled {
        self.counts
    }
}

/// Copies a frame into a buffer, complete; `None` when it does not fit one.
fn copy(bytes: &[u8], aside: Aside, scratch: &mut Vec<u8>, stack: &mut Stack) -> Option<Descriptor> {
    let tag = aside.tag_bytes();
    let whole = if tag.is_some() || aside.lacks_checksum() {
        scratch.clear();
        scratch.resize(TAG_BYTES, 0);
        scratch.extend_from_slice(bytes);
        let frame = match tag {
            Some(tag) => {
                frame::insert_tag(scratch, tag);
                &mut scratch[..]
            }
            None => &mut scratch[TAG_BYTES..],
        };
        if aside.lacks_checksum() {
            frame::complete_checksum(frame);
        }
        &*frame
    } else {
        bytes
    };
    let length = whole.len() as u32;
    if !(FRAME_BYTES_MIN..=stack.region().geometry().frame_bytes_max()).contains(&length) {
        return None;
    }
    let index = stack.take()?;
    stack.region().write(index, HEADROOM_BYTES, whole);
    Some(Descriptor::new(index, HEADROOM_BYTES, length, 0))
}
