//! The packet region made known to a device that reads and writes memory itself.
//!
//! Written to DPDK's documentation and never tried with hardware.

use std::io;
use std::sync::Arc;

use headgate_shm::memory::{HUGE_PAGE_BYTES, PAGE_BYTES};
use headgate_shm::{Pages, Region};

use crate::ffi;
use crate::mempool::last_error;
use crate::pool::RegionPool;

/// A region as external memory in DPDK's list, once for all devices.
pub(crate) struct Registration {
    region: Region,
}

impl Registration {
    pub(crate) fn new(region: &Region) -> io::Result<Self> {
        let memory = region.memory();
        let base = memory.base().as_ptr();
        let page = if region.pages() == Pages::Huge { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let mut addresses: Vec<u64> =
            (0..memory.bytes() / page).map(|number| (base.addr() + number * page) as u64).collect();
        let (first, count) = (addresses.as_mut_ptr(), addresses.len() as u32);
        // SAFETY: one address for each page of a mapping that `region` keeps; DPDK copies them.
        let refused = unsafe { ffi::rte_extmem_register(base.cast(), memory.bytes(), first, count, page) };
        if refused < 0 { Err(last_error()) } else { Ok(Self { region: region.clone() }) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let memory = self.region.memory();
        // SAFETY: registered above; windows keep the pool that keeps this, so none is open.
        unsafe { ffi::rte_extmem_unregister(memory.base().as_ptr().cast(), memory.bytes()) };
    }
}

/// A region that a device may reach, until this is dropped.
pub(crate) struct Window {
    device: *mut ffi::rte_device,
    pool: Arc<RegionPool>,
}

// SAFETY: the device is only passed back to DPDK, which locks its list of devices.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    pub(crate) fn open(device: *mut ffi::rte_device, pool: &Arc<RegionPool>) -> io::Result<Self> {
        pool.register()?;
        let memory = pool.region().memory();
        let base = memory.base().as_ptr();
        // SAFETY: the device exists and the range is registered.
        let refused =
            unsafe { ffi::rte_dev_dma_map(device, base.cast(), base.addr() as u64, memory.bytes()) };
        if refused < 0 { Err(last_error()) } else { Ok(Self { device, pool: Arc::clone(pool) }) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let memory = self.pool.region().memory();
        let base = memory.base().as_ptr();
        // SAFETY: the range mapped above, of a device that is stopped and not yet removed.
        unsafe { ffi::rte_dev_dma_unmap(self.device, base.cast(), base.addr() as u64, memory.bytes()) };
    }
}
