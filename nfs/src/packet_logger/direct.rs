//! Blocking writes, a burst at a time: what asynchronous ones are compared with.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use headgate_nf::Counter;
use headgate_nf::disk::{DiskError, Rotation, make_file};

pub struct Direct {
    file: File,
    /// End of the last whole packet.
    offset: u64,
    /// The packets of the burst at hand.
    blocks: Vec<u8>,
    packets: u64,
}

impl Direct {
    pub fn new(path: &Path, head: &[u8]) -> Result<Self, DiskError> {
        let file = make_file(path, head)?;
        Ok(Self { file, offset: head.len() as u64, blocks: Vec::new(), packets: 0 })
    }

    pub fn append(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let from = self.blocks.len();
        self.blocks.resize(from + bytes, 0);
        fill(&mut self.blocks[from..]);
        self.packets += 1;
    }

    /// Writes the burst at hand, all of it or none.
    pub fn write(&mut self, logged: &Counter, lost: &Counter, errors: &Counter) {
        match self.file.write_all_at(&self.blocks, self.offset) {
            Ok(()) => {
                self.offset += self.blocks.len() as u64;
                logged.add(self.packets);
            }
            Err(_) => {
                // Half a packet at the end; a device cannot be cut, and needs not.
                let _ = self.file.set_len(self.offset);
                lost.add(self.packets);
                errors.add(1);
            }
        }
        self.blocks.clear();
        self.packets = 0;
    }

    pub fn rotate(&mut self, rotation: &Rotation) -> io::Result<()> {
        self.file = rotation.perform()?;
        self.offset = rotation.head.len() as u64;
        Ok(())
    }
}
