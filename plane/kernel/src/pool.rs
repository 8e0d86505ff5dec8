//! The buffers that packets lie in from receive to send.
//!
//! They are the process's own: packets come from the kernel by copy and go there by copy, so nothing is
//! shared with anybody. The one given back last is taken first, as it is in the cache.

use headgate_shm::descriptor::Descriptor;
use headgate_shm::region::HEADROOM_BYTES;
use headgate_shm::{Geometry, MemoryError, PagesWanted, Region};

/// Buffers, free ones and those in hand.
pub struct Pool {
    region: Region,
    free: Vec<u32>,
}

impl Pool {
    /// A pool of `buffers`, each with room for frames of `frame_bytes`.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn new(buffers: usize, frame_bytes: u32) -> Result<Self, MemoryError> {
        let geometry = Geometry::new(buffers as u32, frame_bytes)
            .unwrap_or_else(|why| unreachable!("the configuration was checked: {why}"));
        let region = Region::create("kernel packets", geometry, PagesWanted::Ordinary)?;
        Ok(Self { region, free: (0..buffers as u32).rev().collect() })
    }

    /// Buffers that two interfaces need which take and give `batch` packets at a time: what each keeps ready
    /// to receive into, and what is in hand.
    #[must_use]
    pub const fn buffers_for(batch: usize) -> usize {
        4 * batch
    }

    /// Where the packets lie.
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Buffers that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Lends a buffer for a packet that does not come from an interface; [`Cable::send`](crate::Cable::send)
    /// and [`Pool::put`] give it back.
    pub fn lend(&mut self) -> Option<Descriptor> {
        self.take().map(|index| Descriptor::new(index, HEADROOM_BYTES, 0, 0))
    }

    /// Takes a buffer.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives a packet's buffer back: the packet ends here.
    pub fn put(&mut self, packet: Descriptor) {
        self.free.push(packet.index());
    }
}
