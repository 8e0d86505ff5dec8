//! Ordinary mbufs, for drivers that cannot receive into the packet region.
//!
//! One pool for each queue: af_xdp registers a pool's memory with its socket, and a pool that only one
//! worker uses has no contention.

use std::sync::Arc;

use headgate_shm::geometry::HEADROOM_BYTES;

use crate::error::DpdkError;
use crate::ffi::{self, rte_mbuf, rte_mempool};
use crate::mempool::{Blueprint, Mempool};

/// Mbufs of a pool. af_xdp holds 2,048 in each of its fill, receive, send and completion rings
/// (`XSK_RING_PROD__DEFAULT_NUM_DESCS`), and packets are copied out at once.
const MBUFS: u32 = 8192 + 2048;
/// Room for a frame. The kernel takes af_xdp chunks up to a page, and a chunk is the mempool's header
/// (64), the mbuf (128), the headroom (128) and the frame; what is left over is for the pool's padding.
const FRAME_BYTES: u16 = 3584;

/// Mbufs with their memory behind them.
pub(crate) struct PrivatePool(Mempool);

impl PrivatePool {
    pub(crate) fn create(what: &str) -> Result<Arc<Self>, DpdkError> {
        let pool = Mempool::create(&Blueprint {
            what,
            mbufs: MBUFS,
            room_bytes: HEADROOM_BYTES as u16 + FRAME_BYTES,
            room_within: true,
            handler: c"ring_mp_mc",
        })?;
        // SAFETY: DPDK's own initialiser on the pool's mbufs, which nobody has seen yet.
        pool.each(|mbuf, number| unsafe {
            ffi::rte_pktmbuf_init(pool.raw(), std::ptr::null_mut(), mbuf.cast(), number);
        });
        Ok(Arc::new(Self(pool)))
    }

    pub(crate) const fn raw(&self) -> *mut rte_mempool {
        self.0.raw()
    }

    /// The longest frame an mbuf holds, in bytes.
    pub(crate) const fn frame_bytes_max(&self) -> u32 {
        FRAME_BYTES as u32
    }

    /// Fills `mbufs` with fresh ones, or none of them.
    pub(crate) fn take(&self, mbufs: &mut [*mut rte_mbuf]) -> bool {
        // SAFETY: room for as many pointers as are asked for.
        unsafe { ffi::hg_mbuf_alloc_bulk(self.raw(), mbufs.as_mut_ptr(), mbufs.len() as u32) == 0 }
    }

    /// Frees mbufs that the caller owns.
    pub(crate) fn give(mbufs: &mut [*mut rte_mbuf]) {
        // SAFETY: the caller took them here or got them from the driver, and forgets them.
        unsafe { ffi::rte_pktmbuf_free_bulk(mbufs.as_mut_ptr(), mbufs.len() as u32) }
    }
}
