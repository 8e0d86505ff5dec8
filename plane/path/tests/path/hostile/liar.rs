//! Liar: an NF that does whatever a process can do with the memory it was given.

use headgate_shm::Descriptor;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::pwrite;

use crate::harness::nf::Nf;

/// Offsets in a control region: see `headgate_shm::control`.
pub mod offset {
    pub const DOORBELL: u64 = 0;
    pub const RECEIVE_CONSUMED: u64 = 256;
    pub const TRANSMIT_PRODUCED: u64 = 384;
    pub const LEND_CONSUMED: u64 = 1024;
    pub const SLOTS: u64 = 4096;
}

/// NF that keeps to no rule.
pub struct Liar {
    pub nf: Nf,
    /// Packets that it took from its ring and has not returned.
    pub taken: Vec<Descriptor>,
    /// Empty buffers that it took and has not used.
    pub empty: Vec<Descriptor>,
    /// Packet that it returned last.
    pub returned: Option<Descriptor>,
}

impl Liar {
    pub fn new(nf: Nf) -> Self {
        Self { nf, taken: Vec::new(), empty: Vec::new(), returned: None }
    }

    /// Takes up to `most` packets, as an honest NF does.
    pub fn take(&mut self, most: usize) {
        let mut packets = vec![Descriptor::default(); most];
        let count = self.nf.receive.pop(&mut packets).unwrap_or(0);
        self.taken.extend_from_slice(&packets[..count]);
    }

    /// Takes up to `most` empty buffers.
    pub fn borrow(&mut self, most: usize) {
        let mut empty = vec![Descriptor::default(); most];
        let count = self.nf.lent.pop(&mut empty).unwrap_or(0);
        self.empty.extend_from_slice(&empty[..count]);
    }

    /// Returns a packet made in the buffer it has had for longest.
    pub fn make(&mut self, tag: u32) -> bool {
        !self.empty.is_empty() && {
            let made = self.empty.remove(0);
            self.put(made.with_extent(made.offset(), 60).with_tag(tag))
        }
    }

    /// Puts any word into its transmit ring. Returns false when there is no room.
    pub fn put(&mut self, descriptor: Descriptor) -> bool {
        self.returned = Some(descriptor);
        self.nf.transmit.push(&[descriptor]) == Ok(1)
    }

    /// Returns the packet it has had for longest.
    pub fn give_back(&mut self, tag: u32) -> bool {
        !self.taken.is_empty() && {
            let packet = self.taken.remove(0).with_tag(tag);
            self.put(packet)
        }
    }

    /// Writes past all rings and types, through its descriptor of the file.
    pub fn scribble(&self, offset: u64, word: u32) {
        pwrite(&self.nf.control, &word.to_ne_bytes(), offset).unwrap();
    }

    /// Takes the pages of its control region away; the next reads find zeroes.
    pub fn punch(&self, bytes: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.nf.control, flags, 0, bytes).unwrap();
    }
}
