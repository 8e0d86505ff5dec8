//! An interface as a worker has it: it polls for packets in every pass, never waits, and copies each packet
//! between the rings that it shares with the kernel and packet memory that NFs may see.
//!
//! A frame that lacks its tag or checksum is completed in private memory: what lies in packet memory, a
//! untrusted program may change meanwhile.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use headgate_session::kernel_io::KernelIo;
use headgate_shm::descriptor::Descriptor;
use headgate_shm::region::{FRAME_BYTES_MIN, HEADROOM_BYTES};
use headgate_shm::{Region, Stack};

use crate::frame::{self, Aside, TAG_BYTES};
use crate::mapped::MappedRings;
use crate::{BATCH_MAX, open};

/// Counts of its work.
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
    /// Packets that were to be sent and are longer than the interface or the ring carries.
    pub failed: u64,
}

/// An interface in the hands of a worker.
pub struct PolledRings {
    rings: MappedRings,
    scratch: Vec<u8>,
    /// The longest frame, without VLAN tag, that the interface carried when it was opened: the kernel drops
    /// what is longer, and tells nobody.
    sent_bytes_max: u32,
    counts: Polled,
}

impl PolledRings {
    /// Takes over a socket that [`crate::open::open`] opened for the driver `mapped`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(socket: OwnedFd, io: &KernelIo) -> io::Result<Self> {
        let sent_bytes_max = open::frame_bytes_max(socket.as_fd())?;
        let rings = MappedRings::new(socket, BATCH_MAX, io.queue, io.frame_bytes)?;
        let scratch = Vec::with_capacity(TAG_BYTES + io.frame_bytes as usize);
        Ok(Self { rings, scratch, sent_bytes_max, counts: Polled::default() })
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

    /// Lays packets into the ring, as many as there is room for, and has the kernel send them. Returns how
    /// many are done with; their buffers are the caller's.
    pub fn transmit(&mut self, region: &Region, packets: &[Descriptor]) -> usize {
        let before = self.counts.sent;
        let mut done = 0;
        for &packet in packets {
            if !self.fits(packet, region) {
                self.counts.failed += 1;
            } else if self.rings.lay(packet, region) {
                self.counts.sent += 1;
                self.counts.sent_bytes += u64::from(packet.length());
            } else {
                break;
            }
            done += 1;
        }
        if self.counts.sent > before {
            // An interface that is down or gone takes nothing; whoever made it mends it.
            let _ = self.rings.push();
        }
        done
    }

    /// Whether the interface carries a frame: one VLAN tag is beyond its MTU.
    fn fits(&self, packet: Descriptor, region: &Region) -> bool {
        const TAG_AT: u32 = 12;
        let over = packet.length().saturating_sub(self.sent_bytes_max);
        if over == 0 {
            return packet.length() <= self.rings.sent_bytes_max();
        }
        let mut kind = [0; 2];
        region.read(packet.with_extent(packet.offset() + TAG_AT, 2), &mut kind);
        let has_room = packet.length() <= self.rings.sent_bytes_max();
        has_room && over <= TAG_BYTES as u32 && u16::from_be_bytes(kind) == frame::TYPE_VLAN
    }

    /// Has the kernel send what it could not send before.
    pub fn tend(&mut self) {
        // The next pass meets whatever is wrong.
        let _ = self.rings.push_again();
    }

    /// Returns the counts so far.
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
