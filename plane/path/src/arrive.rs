//! Station 1, arrive: a port's queue hands over a burst of packets, in buffers of its region.

use headgate_shm::Descriptor;

use crate::BURST;
use crate::board::Station;
use crate::worker::Worker;

impl Worker {
    /// One burst from one of this worker's queues, through classification into the first stages.
    pub(crate) fn arrive(&mut self, now: u64, device: usize) -> usize {
        let mut packets = [Descriptor::default(); BURST];
        let input = &mut self.devices[device];
        let (port, queue, region) = (input.port, input.queue, input.region);
        let stack = &mut self.stores[region as usize].stack;
        let count = input.device.receive(now, stack, &mut packets);
        self.passed(Station::Arrive, count);
        if count > 0 {
            self.classify(now, port, queue, region, &mut packets[..count]);
        }
        count
    }
}
