//! A device that was found, and its end.
//!
//! Queues and the control thread's [`crate::Port`] share it; whoever lets go last stops, closes and
//! removes it. The buffers it held go to the stack of that caller if it calls through one (see
//! [`crate::Port::close`]), else to the region's depot.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dma::Window;
use crate::ffi;
use crate::packet_socket::PacketSockets;
use crate::pool::RegionPool;
use crate::private_pool::PrivatePool;

/// Names of the devices that are open. Its lock is held by whoever opens or closes one: DPDK's control
/// functions are not made for several threads.
static CONTROL: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

pub(crate) fn control() -> MutexGuard<'static, BTreeSet<String>> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packets lost in the driver or the kernel since the device was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Came and were not handed over: no place in a ring, no free buffer.
    pub missed: u64,
    /// Came and were longer than a buffer.
    pub too_long: u64,
    /// Taken to be sent and not sent.
    pub failed: u64,
}

#[derive(Default)]
struct Published {
    missed: AtomicU64,
    too_long: AtomicU64,
    failed: AtomicU64,
}

/// A device that was found, whether or not it could be started.
pub(crate) struct Device {
    name: String,
    pub(crate) port: u16,
    handle: *mut ffi::rte_device,
    /// Whether errors of reception are frames above the buffer's length (tap).
    errors_are_long: bool,
    keeps_sent: bool,
    queues: u16,
    resources: Mutex<Resources>,
    published: Published,
}

/// Resources that a device needs while it lives, and frees after its end.
#[derive(Default)]
pub(crate) struct Resources {
    pub(crate) region: Option<Arc<RegionPool>>,
    pub(crate) private: Vec<Arc<PrivatePool>>,
    pub(crate) sockets: Option<PacketSockets>,
    pub(crate) promiscuous: Option<OwnedFd>,
    pub(crate) window: Option<Window>,
    pub(crate) started: bool,
}

// SAFETY: the handle is only passed back to DPDK, under `CONTROL`.
unsafe impl Send for Device {}
// SAFETY: as above; everything else is.
unsafe impl Sync for Device {}

impl Device {
    /// The device that DPDK knows by `name`, if it has found it.
    pub(crate) fn named(name: &str, driver: &str, keeps_sent: bool, queues: u16) -> Option<Self> {
        let terminated = CString::new(name).ok()?;
        let mut port = 0;
        // SAFETY: a terminated string and room for the number.
        if unsafe { ffi::rte_eth_dev_get_port_by_name(terminated.as_ptr(), &raw mut port) } != 0 {
            return None;
        }
        let mut device = Self {
            name: name.to_owned(),
            port,
            handle: ptr::null_mut(),
            errors_are_long: matches!(driver, "net_tap" | "net_tun"),
            keeps_sent,
            queues,
            resources: Mutex::default(),
            published: Published::default(),
        };
        device.handle = device.info()?.device;
        Some(device)
    }

    /// Returns the driver's information on the device.
    pub(crate) fn info(&self) -> Option<ffi::rte_eth_dev_info> {
        let mut info = ffi::rte_eth_dev_info::default();
        // SAFETY: the port exists; fills the structure.
        let refused = unsafe { ffi::rte_eth_dev_info_get(self.port, &raw mut info) };
        (refused == 0).then_some(info)
    }

    pub(crate) const fn handle(&self) -> *mut ffi::rte_device {
        self.handle
    }

    pub(crate) fn resources(&self) -> MutexGuard<'_, Resources> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks driver and kernel what was lost, and publishes it for the queue that counts it.
    pub(crate) fn losses(&self) -> Losses {
        let mut stats = ffi::rte_eth_stats::default();
        // SAFETY: the port exists; fills the structure. Drivers read their queues' counts while
        // workers write them, which at worst gives an older number.
        unsafe { ffi::rte_eth_stats_get(self.port, &raw mut stats) };
        let in_kernel = self.resources().sockets.as_ref().map_or(0, PacketSockets::flush_and_count);
        let errors = if self.errors_are_long { (0, stats.ierrors) } else { (stats.ierrors, 0) };
        let losses = Losses {
            missed: stats.imissed + stats.rx_nombuf + in_kernel + errors.0,
            too_long: errors.1,
            failed: stats.oerrors,
        };
        self.published.missed.store(losses.missed, Ordering::Relaxed);
        self.published.too_long.store(losses.too_long, Ordering::Relaxed);
        self.published.failed.store(losses.failed, Ordering::Relaxed);
        losses
    }

    /// The losses as of the last [`Device::losses`].
    pub(crate) fn published(&self) -> Losses {
        Losses {
            missed: self.published.missed.load(Ordering::Relaxed),
            too_long: self.published.too_long.load(Ordering::Relaxed),
            failed: self.published.failed.load(Ordering::Relaxed),
        }
    }

    /// Fetches and frees what was sent and lies in the device (net_ring's rings).
    fn fetch_sent(&self) {
        for queue in 0..self.queues {
            loop {
                let mut mbuf = ptr::null_mut();
                // SAFETY: the device is started and no queue of it is in use any more.
                if unsafe { ffi::hg_rx_burst(self.port, queue, &raw mut mbuf, 1) } == 0 {
                    break;
                }
                // SAFETY: just handed over.
                unsafe { ffi::hg_mbuf_free(mbuf) };
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut open = control();
        let started = self.resources().started;
        if started && self.keeps_sent {
            self.fetch_sent();
        }
        // SAFETY: nobody else holds the device. A device that was never configured takes these calls
        // too; errors leave nothing we could still do.
        unsafe {
            if started {
                ffi::rte_eth_dev_stop(self.port);
            }
            ffi::rte_eth_dev_close(self.port);
        }
        self.resources().window = None;
        // SAFETY: the handle is valid until this call.
        unsafe { ffi::rte_dev_remove(self.handle) };
        open.remove(&self.name);
    }
}
