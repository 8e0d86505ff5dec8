//! Black boxes: stages that are programs which know nothing of us. In place of rings they have two interfaces,
//! which are queues of the worker like those of its ports.
//!
//! What is given to a box leaves our buffers, and what it sends comes in fresh ones: nothing says which packet
//! is which. So what it sends goes on behind it in the chain from which it was given packets last, as if it had
//! come by the same port, in the slot of its own headers' flow. How many are outstanding is counted
//! ([`headgate_decide::outstanding`]), so that the account of the chain holds: what the box keeps ends there,
//! and what it makes itself enters there.
//!
//! A box that sends before any packet came to it is not heard: its chain is not known.

use headgate_decide::outstanding::{Outstanding, SAMPLE_EVERY};
use headgate_decide::pressure::{Load, QueueMarks, step};
use headgate_port::Queue;
use headgate_shm::Descriptor;
use headgate_units::Ticks;

use crate::BURST;
use crate::board::Station;
use crate::classify::spread_at;
use crate::drop::Reason;
use crate::holders::{Origin, Place, UNKNOWN_ARRIVAL};
use crate::worker::{Hands, Worker};

/// Most bursts that are taken from a box that has ended. Our choice: the largest ring, 65,536 packets.
const LAST_BURSTS: usize = 65_536 / BURST;

/// What the control loop hands to a worker when a black box is ready.
pub struct BoxEnds {
    /// The instance's number.
    pub number: u16,
    /// The region that its packets come to.
    pub region: u8,
    /// When it is throttled; `None`: never. Only an interface that shows its queue tells how full it is.
    pub marks: Option<QueueMarks>,
    /// What it is given packets by.
    pub into: Box<dyn Queue>,
    /// What it sends packets by.
    pub out: Box<dyn Queue>,
}

/// A black box as its worker sees it.
pub(crate) struct BlackBox {
    ends: BoxEnds,
    /// Where the packet was that it was given last.
    last: Option<Place>,
    outstanding: Outstanding,
    load: Load,
}

impl BlackBox {
    pub(crate) fn new(ends: BoxEnds) -> Self {
        Self { ends, last: None, outstanding: Outstanding::default(), load: Load::Clear }
    }

    pub(crate) const fn number(&self) -> u16 {
        self.ends.number
    }

    /// Buffers of a region in the hands of its queues.
    pub(crate) fn holds(&self, region: usize) -> usize {
        if self.ends.region as usize == region { self.ends.into.holds() + self.ends.out.holds() } else { 0 }
    }

    /// What is outstanding, and of which chain.
    pub(crate) fn in_chain(&self) -> Option<(u16, u64)> {
        Some((self.last?.chain(), self.outstanding.inside()))
    }
}

impl Worker {
    /// Packets go to a black box, as many as its interface takes.
    pub(crate) fn give(
        &mut self,
        now: u64,
        number: u16,
        position: u8,
        region: u8,
        packets: &[Descriptor],
        places: &[Place],
    ) {
        let Some(at) = self.boxes.iter().position(|it| it.number() == number) else {
            return self.end_each(region, Reason::StageDown, packets, places);
        };
        let mut start = 0;
        while start < packets.len() {
            let chain = places[start].chain();
            let run = places[start..].iter().take_while(|place| place.chain() == chain).count();
            self.follow_chain(at, places[start].at(position));
            self.give_run(now, at, region, &packets[start..start + run], &places[start..start + run]);
            start += run;
        }
    }

    /// The box's chain is that of the packets it gets. While a chain is replaced what is still in the box counts
    /// as kept: it will come back as the new one's.
    fn follow_chain(&mut self, at: usize, place: Place) {
        let it = &mut self.boxes[at];
        if let Some(before) = it.last.replace(place).filter(|before| before.chain() != place.chain()) {
            let left = it.outstanding.give_up();
            self.board.ended(before.chain(), Reason::BoxKept, left);
        }
    }

    fn give_run(&mut self, now: u64, at: usize, region: u8, packets: &[Descriptor], places: &[Place]) {
        let (it, store) = (&mut self.boxes[at], &mut self.stores[region as usize]);
        for packet in packets {
            store.holders.set_place(packet.index(), Place::FREE);
        }
        let given = it.ends.into.transmit(now, &mut store.stack, packets);
        it.outstanding.give(given as u64);
        let counts = &self.board.instances[it.number() as usize];
        counts.delivered.add(given as u64);
        counts.held.set(it.outstanding.inside());
        if given < packets.len() {
            counts.drops[Reason::StageFull as usize].add((packets.len() - given) as u64);
            for place in places[given..].iter().filter(|place| place.position() > 0) {
                self.board.chains[place.chain() as usize].wasted.add(1);
            }
            self.end_each(region, Reason::StageFull, &packets[given..], &places[given..]);
        }
    }

    /// One burst from one of this worker's black boxes. Returns how many packets it sent.
    pub(crate) fn take_from_box(&mut self, now: u64, at: usize) -> usize {
        self.station = Station::Hop;
        self.with_hands(|worker, hands| worker.box_burst(now, at, hands))
    }

    fn box_burst(&mut self, now: u64, at: usize, hands: &mut Hands) -> usize {
        let it = &mut self.boxes[at];
        let region = it.ends.region;
        let count = it.ends.out.receive(now, &mut self.stores[region as usize].stack, &mut hands.packets);
        if count == 0 {
            return 0;
        }
        let packets = &mut hands.packets[..count];
        let Some(last) = it.last else {
            packets.iter().for_each(|packet| self.turn_away(region, Reason::Unasked, *packet));
            return count;
        };
        let made = it.outstanding.take_back(count as u64);
        let counts = &self.board.instances[it.ends.number as usize];
        counts.returned.add(count as u64);
        counts.held.set(it.outstanding.inside());
        self.board.chains[last.chain() as usize].entered.add(made);
        let store = &self.stores[region as usize];
        for packet in packets.iter() {
            let flow = spread_at(store.stack.region(), *packet, last.port(), &self.seeds);
            store.holders.set_origin(packet.index(), Origin { flow, arrived: UNKNOWN_ARRIVAL });
        }
        let places = &mut hands.places[..count];
        places.fill(last.advanced());
        self.steer(now, region, packets, places);
        self.passed(Station::Hop, count);
        count
    }

    /// Interfaces flush, what stays away is given up, and full interfaces close their chains.
    pub(crate) fn tend_boxes(&mut self, now: u64) {
        if self.boxes.is_empty() {
            return;
        }
        let looks = now >= self.next_box_look;
        if looks {
            self.next_box_look = now + Ticks::from_span(SAMPLE_EVERY, self.cycles_per_micro).0;
        }
        for it in &mut self.boxes {
            let (number, stack) = (it.number(), &mut self.stores[it.ends.region as usize].stack);
            it.ends.into.tend(now, stack);
            it.ends.out.tend(now, stack);
            let counts = &self.board.instances[number as usize];
            if let (Some(marks), Some(depth)) = (&it.ends.marks, it.ends.into.waiting()) {
                let next = step(it.load, depth, Ticks(now), marks);
                if next.is_throttled() != it.load.is_throttled() {
                    self.pressure.set(number, next.is_throttled());
                    counts.throttles.add(u64::from(next.is_throttled()));
                }
                it.load = next;
            }
            if let (true, Some(last)) = (looks, it.last) {
                let overdue = it.outstanding.sample();
                counts.drops[Reason::BoxKept as usize].add(overdue);
                counts.held.set(it.outstanding.inside());
                self.board.ended(last.chain(), Reason::BoxKept, overdue);
            }
        }
    }

    /// Takes a black box out of service. What it had sent goes on; returns how many packets died with it.
    pub(crate) fn reclaim_box(&mut self, now: u64, at: usize) -> u32 {
        // Whoever else has its interface may go on sending.
        for _ in 0..LAST_BURSTS {
            if self.take_from_box(now, at) == 0 {
                break;
            }
        }
        let mut it = self.boxes.swap_remove(at);
        self.pressure.set(it.number(), false);
        let lost = it.outstanding.give_up();
        if let Some(last) = it.last {
            self.board.ended(last.chain(), Reason::NfDied, lost);
        }
        let counts = &self.board.instances[it.number() as usize];
        counts.drops[Reason::NfDied as usize].add(lost);
        counts.held.set(0);
        lost as u32
    }
}
