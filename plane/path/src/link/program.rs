//! External program: a stage that does not use the NF library. In place of rings it has two interfaces, which
//! are queues of the worker like those of its ports.
//!
//! Packets given to a program leave our buffers, and those that it sends come in fresh ones: nothing says
//! which packet is which. So the packets it sends go on behind it in the chain from which it was given
//! packets last, as if they had come by the same port, in the slot of their own headers' flow. The
//! outstanding ones are counted ([`headgate_decide::outstanding`]), so that the account of the chain holds:
//! packets that the program keeps end there, and packets that it makes itself enter there.
//!
//! Packets that a program sends before any came to it are not taken: its chain is not known.

use headgate_decide::outstanding::{Outstanding, SAMPLE_EVERY};
use headgate_decide::pressure::QueueMarks;
use headgate_port::Queue;
use headgate_units::{ChainId, InstanceId, RegionId, Ticks};

use crate::burst::{Burst, Run};
use crate::classify::spread_at;
use crate::drop::DropReason;
use crate::flows::Seeds;
use crate::holders::{Arrival, Place, UNKNOWN_ARRIVAL};
use crate::ledger::Ledger;
use crate::view::View;

use super::service::{Remains, Service, Taken};

/// Interfaces of an external program that is ready.
pub struct ProgramEnds {
    /// The marks of its queue; `None`: it is never throttled. Only an interface that shows its queue tells
    /// how full it is.
    pub marks: Option<QueueMarks>,
    /// Queue by which it is given packets.
    pub into: Box<dyn Queue>,
    /// Queue by which it sends packets.
    pub out: Box<dyn Queue>,
}

/// External program as its worker sees it.
pub(crate) struct Program {
    number: InstanceId,
    /// Region that its packets come to.
    region: RegionId,
    ends: ProgramEnds,
    seeds: Seeds,
    /// Place of the packet that it was given last.
    last: Option<Place>,
    outstanding: Outstanding,
    sample_every: Ticks,
    next_sample: Ticks,
}

impl Program {
    pub fn new(service: Service, ends: ProgramEnds) -> Self {
        Self {
            number: service.number,
            region: service.region,
            ends,
            seeds: service.seeds,
            last: None,
            outstanding: Outstanding::default(),
            sample_every: Ticks::from_span(SAMPLE_EVERY, service.ticks_per_micro),
            next_sample: Ticks(0),
        }
    }

    pub const fn queue_marks(&self) -> Option<QueueMarks> {
        self.ends.marks
    }

    pub fn depth(&self) -> Option<u32> {
        self.ends.into.waiting()
    }

    pub fn holds(&self, region: RegionId) -> usize {
        if self.region == region { self.ends.into.holds() + self.ends.out.holds() } else { 0 }
    }

    pub fn outstanding(&self) -> Option<(ChainId, u64)> {
        Some((self.last?.chain(), self.outstanding.inside()))
    }

    /// Sends packets to the program, as many as its interface takes.
    pub fn deliver(&mut self, view: &View, ledger: &mut Ledger, position: u8, run: Run) {
        let mut run = ledger.without_long(run);
        while !run.is_empty() {
            let chain = run.places[0].chain();
            let same = run.places.iter().take_while(|place| place.chain() == chain).count();
            let (now, later) = run.split_at(same);
            self.follow_chain(ledger, now.places[0].at(position));
            self.give(view, ledger, position, now);
            run = later;
        }
    }

    /// Sets the program's chain to that of the packets it gets. While a chain is replaced, packets that are
    /// still in the program count as kept: they will come back as the new one's.
    fn follow_chain(&mut self, ledger: &Ledger, place: Place) {
        let before = self.last.replace(place).filter(|before| before.chain() != place.chain());
        if let Some(before) = before {
            ledger.board.ended(before.chain(), DropReason::BoxKept, self.outstanding.give_up());
        }
    }

    fn give(&mut self, view: &View, ledger: &mut Ledger, position: u8, run: Run) {
        let store = ledger.store_mut(run.region);
        let given = self.ends.into.transmit(view.now.0, &mut store.stack, run.packets);
        let (given, late) = run.split_at(given);
        for packet in given.packets.iter() {
            store.holders.set_place(packet.index(), Place::FREE);
        }
        self.outstanding.give(given.len() as u64);
        let counts = &ledger.board.instances[self.number.index()];
        counts.delivered.add(given.len() as u64);
        counts.held.set(self.outstanding.inside());
        ledger.end_at_full(self.number, position > 0, &late);
    }

    /// Takes a burst of packets that the program sent.
    pub fn take(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) -> Taken {
        let stack = &mut ledger.store_mut(self.region).stack;
        let count = self.ends.out.receive(view.now.0, stack, &mut burst.packets);
        burst.begin(self.region, count);
        if count == 0 {
            return Taken::Nothing;
        }
        let Some(last) = self.last else {
            for packet in &burst.packets[..count] {
                ledger.turn_away(self.region, DropReason::Unasked, *packet);
            }
            burst.count = 0;
            return Taken::Nothing;
        };
        let made = self.outstanding.take_back(count as u64);
        let counts = &ledger.board.instances[self.number.index()];
        counts.returned.add(count as u64);
        counts.held.set(self.outstanding.inside());
        ledger.board.chains[last.chain().index()].entered.add(made);
        let store = ledger.store(self.region);
        for packet in &burst.packets[..count] {
            let flow = spread_at(store.stack.region(), *packet, last.port(), &self.seeds);
            store.holders.set_arrival(packet.index(), Arrival { flow, at: UNKNOWN_ARRIVAL });
        }
        store.holders.extras.clear(&burst.packets[..count]);
        burst.places[..count].fill(last.advanced());
        burst.is_one_way = true;
        Taken::Onward
    }

    /// Flushes its interfaces, and gives up packets that stay away too long.
    pub fn tend(&mut self, view: &View, ledger: &mut Ledger) {
        let stack = &mut ledger.store_mut(self.region).stack;
        self.ends.into.tend(view.now.0, stack);
        self.ends.out.tend(view.now.0, stack);
        if view.now >= self.next_sample {
            self.next_sample = view.now + self.sample_every;
            self.give_up_overdue(ledger);
        }
    }

    fn give_up_overdue(&mut self, ledger: &Ledger) {
        let Some(last) = self.last else { return };
        let overdue = self.outstanding.sample();
        let counts = &ledger.board.instances[self.number.index()];
        counts.drops[DropReason::BoxKept as usize].add(overdue);
        counts.held.set(self.outstanding.inside());
        ledger.board.ended(last.chain(), DropReason::BoxKept, overdue);
    }

    /// Takes it out of service, with the packets that it had.
    pub fn reclaim(mut self, ledger: &mut Ledger) -> Remains {
        let lost = self.outstanding.give_up();
        if let Some(last) = self.last {
            ledger.board.ended(last.chain(), DropReason::NfDied, lost);
        }
        Remains { lost: lost as u32, ..Remains::default() }
    }
}
