//! The buffers that packets lie in from receive to send.
//!
//! The manager makes their memory, since it is what it registers with the kernel where a driver works on
//! packets in place; nobody but the NF uses it. The one given back last is taken first, as it is in the
//! cache.

use headgate_session::kernel_io::{Driver, KernelIo};
use headgate_shm::descriptor::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Geometry, MemoryError, PagesWanted, Region};

use crate::{BATCH_MAX, xdp};

/// Buffers, free ones and those in hand.
pub struct Pool {
    region: Region,
    free: Vec<u32>,
}

impl Pool {
    /// Memory for all packets of an NF: what two interfaces keep ready to receive into, what is in hand, and
    /// `spare` more.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub fn memory(io: &KernelIo, spare: u32) -> Result<Region, MemoryError> {
        let geometry = match io.driver {
            // Whatever the batch is, and becomes: each interface keeps one ready, and one is in hand.
            Driver::Packet | Driver::Mapped | Driver::Uring => {
                Geometry::new(4 * BATCH_MAX as u32 + spare, io.frame_bytes)
                    .unwrap_or_else(|why| unreachable!("the configuration was checked: {why}"))
            }
            Driver::Xdp => xdp::geometry(io.queue, spare),
        };
        Region::create("kernel packets", geometry, PagesWanted::Ordinary)
    }

    /// A pool of all buffers of such memory.
    #[must_use]
    pub fn over(region: Region) -> Self {
        let free = (0..region.geometry().buffers()).rev().collect();
        Self { region, free }
    }

    /// Returns the region of the packets.
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Buffers that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Lends a buffer for a packet that does not come from an interface;
    /// [`InterfaceIo::send`](crate::InterfaceIo::send) and [`Pool::put`] give it back.
    pub fn lend(&mut self) -> Option<Descriptor> {
        self.take().map(|index| Descriptor::new(index, HEADROOM_BYTES, 0, 0))
    }

    /// Takes a buffer.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Gives a packet's buffer back: the packet ends here.
    pub fn put(&mut self, packet: Descriptor) {
        self.put_index(packet.index());
    }

    /// Gives a buffer back.
    pub(crate) fn put_index(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The bytes of a packet that is in hand.
    pub(crate) fn bytes_of(&mut self, packet: Descriptor) -> &mut [u8] {
        let start = self.region.buffer(packet.index()).wrapping_add(packet.offset() as usize);
        assert!(packet.offset() + packet.length() <= self.region.geometry().stride());
        // SAFETY: inside the buffer, as was just asserted; the buffer was taken from the pool, so nothing
        // else refers to it.
        unsafe { std::slice::from_raw_parts_mut(start, packet.length() as usize) }
    }
}
