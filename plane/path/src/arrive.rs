//! Station 1, arrive: a port's queue hands over a burst of packets, in buffers of its region.

use crate::board::Station;
use crate::worker::{Hands, Worker};

impl Worker {
    /// One burst from one of this worker's queues, through classification into the first stages.
    pub(crate) fn arrive(&mut self, now: u64, device: usize) -> usize {
        self.with_hands(|worker, hands| worker.receive(now, device, hands))
    }

    fn receive(&mut self, now: u64, device: usize, hands: &mut Hands) -> usize {
        let input = &mut self.devices[device];
        let (port, queue, region) = (input.port, input.queue, input.region);
        let stack = &mut self.stores[region as usize].stack;
        let count = input.device.receive(now, stack, &mut hands.packets);
        self.passed(Station::Arrive, count);
        if count > 0 {
            self.classify(now, port, queue, region, count, hands);
        }
        count
    }
}
