//! Station 1, arrive: a port's queue hands over a burst of packets, in buffers of its region.

use headgate_units::Ticks;

use crate::board::Station;
use crate::burst::Burst;
use crate::holders::Place;
use crate::ledger::Ledger;
use crate::ports::Ports;
use crate::trace::At;

impl Ports {
    /// Takes a burst from one of the queues. Returns how many packets it has.
    #[inline]
    pub fn arrive(&mut self, now: Ticks, queue: usize, ledger: &mut Ledger, burst: &mut Burst) -> usize {
        let input = self.queue(queue);
        let stack = &mut ledger.store_mut(input.region).stack;
        let count = input.device.receive(now.0, stack, &mut burst.packets);
        burst.begin(input.region, count);
        burst.from = Place::arrived(input.port, input.queue);
        if ledger.watch.is_on() {
            burst.places[..count].fill(burst.from);
        }
        ledger.passed(
            Station::Arrive,
            At::Nowhere,
            burst.region,
            &burst.packets[..count],
            &burst.places[..count],
        );
        count
    }
}
