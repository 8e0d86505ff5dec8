//! Queues of ports in the hands of a worker: `arrive` takes packets from them, `emit` gives packets to them.

use std::sync::{Arc, Mutex};

use headgate_port::{Bell, Queue, QueueCounters};
use headgate_units::{PortId, RegionId, Ticks};

use crate::ledger::Ledger;

/// A queue of a port in the hands of a worker.
pub struct Device {
    /// The port.
    pub port: PortId,
    /// The queue's number.
    pub queue: u8,
    /// The region it receives into.
    pub region: RegionId,
    /// The queue.
    pub device: Box<dyn Queue>,
}

/// Counters of a worker's queues, to be read from outside: port, queue, counters.
pub type SharedCounters = Arc<Mutex<Vec<(PortId, u8, QueueCounters)>>>;

/// All queues of a worker.
pub(crate) struct Ports {
    devices: Vec<Device>,
    /// Port number -> the first queue of it.
    device_of_port: Vec<Option<u8>>,
    counters: SharedCounters,
}

impl Ports {
    /// Takes queues of ports, of which there are so many.
    pub fn new(ports: usize, devices: Vec<Device>) -> Self {
        let mut device_of_port = vec![None; ports];
        for (number, device) in devices.iter().enumerate() {
            device_of_port[device.port.index()].get_or_insert(number as u8);
        }
        let counters = devices.iter().map(|it| (it.port, it.queue, QueueCounters::default())).collect();
        Self { devices, device_of_port, counters: Arc::new(Mutex::new(counters)) }
    }

    /// Returns how many queues there are.
    pub const fn count(&self) -> usize {
        self.devices.len()
    }

    /// Returns this worker's queue of a port.
    #[inline(always)]
    pub fn of(&self, port: PortId) -> Option<usize> {
        self.device_of_port.get(port.index()).copied().flatten().map(usize::from)
    }

    /// Returns a queue.
    #[inline(always)]
    pub fn queue(&mut self, at: usize) -> &mut Device {
        &mut self.devices[at]
    }

    /// Flushes what is sent and collects what came back.
    pub fn tend(&mut self, now: Ticks, ledger: &mut Ledger) {
        for device in &mut self.devices {
            device.device.tend(now.0, &mut ledger.store_mut(device.region).stack);
        }
    }

    /// Returns whether no queue will ever give another packet.
    pub fn are_finished(&self) -> bool {
        self.devices.iter().all(|device| device.device.is_finished())
    }

    /// Returns the queues' bells.
    pub fn bells(&self) -> impl Iterator<Item = Bell<'_>> {
        self.devices.iter().map(|device| device.device.bell())
    }

    /// Returns how many buffers of a region are in the hands of the queues.
    pub fn hold(&self, region: RegionId) -> usize {
        let here = self.devices.iter().filter(|device| device.region == region);
        here.map(|device| device.device.holds()).sum()
    }

    /// Returns where the counters of the queues can be read.
    pub fn counters(&self) -> SharedCounters {
        self.counters.clone()
    }

    /// Renews the counters. Skipped when somebody reads at this moment: the next time comes soon.
    pub fn publish_counters(&self) {
        if let Ok(mut counters) = self.counters.try_lock() {
            for (slot, device) in counters.iter_mut().zip(&self.devices) {
                slot.2 = device.device.counters();
            }
        }
    }
}
