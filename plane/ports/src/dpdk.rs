//! Devices that DPDK's drivers run: network cards, kernel interfaces, memif, tap and what else has a
//! driver. What there is to know of DPDK is in [`headgate_dpdk`]; this only makes its queues ports.

use headgate_dpdk as device;
use headgate_shm::{Descriptor, Stack};

pub use headgate_dpdk::{DpdkError, Facts, Link, Losses, Port, devargs, driver, eal, log};

use crate::{PortError, Queue, QueueCounters, Setting};

/// What a DPDK port is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The device as EAL takes it: `net_af_packet0,iface=veth0`, `0000:00:05.0`.
    pub device: String,
    /// Whether it is to receive straight into the packet region, if its driver can.
    pub direct: bool,
    /// The longest packet in bytes, without link header; `None` leaves the device as it is.
    pub mtu: Option<u16>,
}

/// An open device.
pub struct Opened {
    /// Its queues, one for each worker.
    pub queues: Vec<Box<dyn Queue>>,
    /// What became of it, for people.
    pub facts: Facts,
    /// For the control thread: link, losses, and closing it once the workers dropped the queues.
    pub port: Port,
}

impl Spec {
    fn of_queues(&self, queues: u16) -> device::Spec {
        device::Spec { device: self.device.clone(), queues, direct: self.direct, mtu: self.mtu }
    }

    /// How many free buffers to offer when opening it with so many queues.
    ///
    /// # Errors
    /// [`DpdkError::BadDevargs`].
    pub fn buffers_wanted(&self, queues: u16) -> Result<usize, DpdkError> {
        self.of_queues(queues).buffers_wanted()
    }
}

/// Opens a device that works on the region of `stack`, and takes what its receive rings need from it.
/// Called in the network namespace of its interface, by a thread that is not pinned.
///
/// # Errors
/// [`PortError::Device`]; the stack is then as it was.
pub fn open(spec: &Spec, setting: &Setting<'_>, stack: &mut Stack) -> Result<Opened, PortError> {
    let open = Port::open(&spec.of_queues(setting.queues), stack)
        .map_err(|cause| PortError::Device { port: setting.name.to_owned(), cause })?;
    let device::Opened { queues, facts, port } = open;
    let queues = queues.into_iter().map(|queue| Box::new(DeviceQueue(queue)) as Box<dyn Queue>).collect();
    Ok(Opened { queues, facts, port })
}

/// A queue of a device.
struct DeviceQueue(device::Queue);

impl Queue for DeviceQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        self.0.receive(stack, into)
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        self.0.transmit(stack, packets)
    }

    fn tend(&mut self, _now: u64, stack: &mut Stack) {
        self.0.tend(stack);
    }

    fn counters(&self) -> QueueCounters {
        let device::QueueCounters { received, received_bytes, sent, sent_bytes, too_long, missed, failed } =
            self.0.counters();
        QueueCounters { received, received_bytes, sent, sent_bytes, too_long, missed, failed }
    }

    fn region(&self) -> Option<u8> {
        self.0.region()
    }

    fn holds(&self) -> usize {
        self.0.holds()
    }
}
