//! Opening a device and what the control thread does with it afterwards.

use std::fmt;
use std::sync::Arc;

use headgate_shm::Stack;

use crate::devargs::Devargs;
use crate::device::Device;
use crate::driver::Treatment;
use crate::error::DpdkError;
use crate::ffi;
use crate::opening;
use crate::pool::RegionPool;
use crate::queue::Queue;
use crate::watch::{InterfaceState, Return, Watch};

pub use crate::device::Losses;

/// Specification of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// As EAL takes it: `net_af_packet0,iface=veth0`, `0000:00:05.0`.
    pub device: String,
    /// Receive queues, and as many to send.
    pub queues: u16,
    /// Whether it is to receive straight into the packet region, if its driver can.
    pub direct: bool,
    /// The longest packet in bytes, without link header; `None` leaves the device as it is.
    pub mtu: Option<u16>,
}

impl Spec {
    /// Free buffers the device takes when it is opened, as far as is known before.
    ///
    /// # Errors
    /// [`DpdkError::BadDevargs`].
    pub fn buffers_wanted(&self) -> Result<usize, DpdkError> {
        let treatment = Treatment::of(&Devargs::parse(&self.device)?);
        let rings = treatment.fills_ring && treatment.copied.is_none() && self.direct;
        Ok(if rings { usize::from(self.queues) * usize::from(treatment.descriptors) } else { 0 })
    }
}

/// Facts about a device that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its driver.
    pub driver: String,
    /// The device as it was opened, with the arguments we added.
    pub device: String,
    /// Reason for which packets are copied once each way; `None` when the driver works on the packet region.
    pub copied: Option<String>,
    /// Its Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// The longest frames it carries, in bytes; `None` when it sets no limit.
    pub frame_bytes_max: Option<u32>,
    /// The kernel interface it is laid over.
    pub interface: Option<String>,
    /// Other notes for the operator.
    pub notes: Vec<String>,
}

impl fmt::Display for Facts {
    /// For lists of ports: "net_af_packet over veth0, into packet memory".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.driver)?;
        if let Some(interface) = &self.interface {
            write!(f, " over {interface}")?;
        }
        match &self.copied {
            None => f.write_str(", into packet memory"),
            Some(why) => write!(f, ", copied: {why}"),
        }
    }
}

/// Whether packets can pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// It is up, and cable, interface or peer is there.
    pub up: bool,
    /// Mbit/s of a network card; drivers of virtual devices make a number up, so these have none.
    pub speed_mbps: Option<u32>,
}

/// An open device.
pub struct Opened {
    /// One queue for each worker; sending them there is the caller's part.
    pub queues: Vec<Queue>,
    /// Facts about it.
    pub facts: Facts,
    /// For the control thread.
    pub port: Port,
}

/// The control thread's hand on a device.
pub struct Port {
    device: Arc<Device>,
    pool: Option<Arc<RegionPool>>,
    watch: Option<Watch>,
    is_card: bool,
}

impl Port {
    /// Opens a device: finds it, sets its queues up and starts it. The buffers its receive rings take
    /// come from `stack`, whose region it will work on.
    ///
    /// Called in the network namespace of the interface, by a thread that is not pinned: DPDK's own
    /// threads, made the first time, run where the caller may run.
    ///
    /// # Errors
    /// [`DpdkError`]; nothing of the device is left behind then, and the stack is as it was.
    pub fn open(spec: &Spec, stack: &mut Stack) -> Result<Opened, DpdkError> {
        opening::open(spec, stack)
    }

    pub(crate) const fn new(
        device: Arc<Device>,
        pool: Option<Arc<RegionPool>>,
        watch: Option<Watch>,
        is_card: bool,
    ) -> Self {
        Self { device, pool, watch, is_card }
    }

    /// Whether packets can pass now.
    #[must_use]
    pub fn link(&self) -> Link {
        let mut link = ffi::rte_eth_link::default();
        // SAFETY: the port exists; fills the structure.
        let refused = unsafe { ffi::rte_eth_link_get_nowait(self.device.port, &raw mut link) };
        let known = refused == 0;
        // Drivers of kernel interfaces report "up" from start to stop.
        let up = self.watch.as_ref().map_or(known && link.link_status() != 0, Watch::is_running);
        let speed = (known && self.is_card).then_some(link.link_speed);
        // 0 and all ones say that it is not known (`RTE_ETH_SPEED_NUM_NONE`, `_UNKNOWN`).
        Link { up, speed_mbps: speed.filter(|&speed| speed != 0 && speed != u32::MAX) }
    }

    /// Polls the kernel interface below, and takes up the next of its name when it was gone, if the driver
    /// can. To be called by the thread that opened the device, some times a second. Returns its state when
    /// that has changed.
    pub fn poll(&mut self) -> Option<InterfaceState> {
        self.watch.as_mut()?.poll(&self.device)
    }

    /// Returns the state of the kernel interface below, as of the last [`Port::poll`]; `None` when there is
    /// none.
    #[must_use]
    pub fn interface_state(&self) -> Option<InterfaceState> {
        self.watch.as_ref().map(Watch::state)
    }

    /// Returns the name of the kernel interface below, and how the device comes back after it.
    #[must_use]
    pub fn interface(&self) -> Option<(String, Return)> {
        self.watch.as_ref().map(|watch| (watch.name(), watch.returns()))
    }

    /// Returns the losses in driver and kernel so far. The first queue's counters include it from here on.
    /// To be called about every second: af_packet devices send then what they could not send before.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.device.losses()
    }

    /// Closes the device after its queues were dropped; the buffers it held go to `stack`.
    ///
    /// # Errors
    /// The port itself while a queue is still in use.
    pub fn close(self, stack: &mut Stack) -> Result<(), Self> {
        if Arc::strong_count(&self.device) > 1 {
            return Err(self);
        }
        end(self.device, self.pool.as_deref(), stack);
        Ok(())
    }
}

/// Lets go of a device; if nobody else holds it that is its end, and its buffers go to `stack`.
pub(crate) fn end(device: Arc<Device>, pool: Option<&RegionPool>, stack: &mut Stack) {
    let Some(pool) = pool else { return drop(device) };
    pool.with(stack, &mut 0, || drop(device));
    pool.empty_depot(stack);
}
