//! Ledger of a worker: its buffers, who holds each, and its counters. Every station may end a packet, and
//! only here; so a packet that ends is counted and its buffer free, or neither.

use std::sync::Arc;

use headgate_shm::{Descriptor, Stack};
use headgate_units::{ChainId, InstanceId, RegionId, Ticks};

use crate::board::{Board, Station};
use crate::burst::Run;
use crate::drop::DropReason;
use crate::holders::{Entrance, Holder, Holders, Place};
use crate::plan::UNCLAIMED;
use crate::trace::{At, Attention, Seen, Step, Watch};

/// Buffers of one region in a worker's hands.
pub struct Store {
    /// Free buffers in this worker's hands.
    pub stack: Stack,
    /// Holder of each buffer.
    pub holders: Arc<Holders>,
    /// Number of free plain buffers this worker should have when all are free.
    pub fair_share: usize,
    /// Number of free long buffers.
    pub fair_share_long: usize,
}

impl Store {
    /// Takes a free buffer with room for a frame of `length` bytes that lay in a plain buffer, or in a long
    /// one: such a frame stays in one, whatever its length, because something is left to do on it.
    fn take_for(&mut self, length: u32, was_long: bool) -> Result<u32, DropReason> {
        let geometry = self.stack.region().geometry();
        if was_long {
            let none = if geometry.has_long() { DropReason::NoBuffer } else { DropReason::TooLong };
            return self.stack.take_long().ok_or(none);
        }
        if length > geometry.frame_bytes_max() {
            return Err(DropReason::TooLong);
        }
        self.stack.take().ok_or(DropReason::NoBuffer)
    }
}

/// Buffers, holder records and counters of a worker.
pub(crate) struct Ledger {
    stores: Vec<Store>,
    pub board: Arc<Board>,
    pub watch: Watch,
    /// Packets with a clock that ended, by chain and word, where a group wants to know; emptied in each pass.
    pub ends: Option<Vec<(ChainId, u64)>>,
}

impl Ledger {
    pub fn new(stores: Vec<Store>, board: Arc<Board>) -> Self {
        Self { stores, board, watch: Watch::default(), ends: None }
    }

    /// Returns the buffers of a region.
    #[inline(always)]
    pub fn store(&self, region: RegionId) -> &Store {
        &self.stores[region.index()]
    }

    /// Returns the buffers of a region, to take and to give.
    #[inline(always)]
    pub fn store_mut(&mut self, region: RegionId) -> &mut Store {
        &mut self.stores[region.index()]
    }

    /// Returns the buffers of all regions, by number.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// Returns the hash of a packet's flow.
    #[inline(always)]
    pub fn flow(&self, region: RegionId, packet: Descriptor) -> u32 {
        self.store(region).holders.arrival(packet.index()).flow
    }

    /// Notes that packets have passed a station. While nobody watches this is a branch that is never taken.
    #[inline(always)]
    pub fn passed(
        &mut self,
        station: Station,
        at: At,
        region: RegionId,
        packets: &[Descriptor],
        places: &[Place],
    ) {
        match self.watch.attention() {
            Attention::Off => {}
            Attention::Counts => self.watch.count(Step::Passed(station), packets.len()),
            Attention::Shows => self.show(Step::Passed(station), at, region, packets, places),
        }
    }

    /// Shows packets at a step to those who watch.
    #[cold]
    fn show(&mut self, step: Step, at: At, region: RegionId, packets: &[Descriptor], places: &[Place]) {
        let memory = self.stores[region.index()].stack.region();
        let seen = Seen { step, at, region, memory, time: Ticks(0) };
        self.watch.passed(&self.board, seen, packets, places);
    }

    /// Copies a run to another region: its packets have other descriptors then, and those that did not fit
    /// have ended.
    pub fn cross<'a>(&mut self, run: Run<'a>, to: RegionId) -> Run<'a> {
        let (from, mut kept) = (run.region, 0);
        for at in 0..run.len() {
            let packet = run.packets[at];
            match self.copy(from, to, packet) {
                Ok(copy) => {
                    self.store(to).holders.set_place(copy.index(), run.places[at].held_by(Holder::WORKER));
                    if self.watch.is_on() {
                        let memory = self.stores[to.index()].stack.region();
                        let step = Step::Copied;
                        let seen = Seen { step, at: At::Nowhere, region: to, memory, time: Ticks(0) };
                        self.watch.copied(seen, copy, run.places[at], (from, packet.index()));
                    }
                    self.release(from, packet);
                    (run.packets[kept], run.places[kept]) = (copy, run.places[at]);
                    kept += 1;
                }
                Err(reason) => self.end(run.places[at].chain(), from, reason, &[packet]),
            }
        }
        let (kept, _) = run.split_at(kept);
        Run { region: to, ..kept }
    }

    /// Ends the long frames of a run that comes to an instance or port which takes none: one that came while
    /// the chain took them, or that an NF sent elsewhere.
    #[inline(always)]
    pub fn without_long<'a>(&mut self, run: Run<'a>) -> Run<'a> {
        if self.store(run.region).stack.region().geometry().has_long() { self.end_long(run) } else { run }
    }

    #[cold]
    fn end_long<'a>(&mut self, run: Run<'a>) -> Run<'a> {
        let geometry = self.store(run.region).stack.region().geometry();
        let mut kept = 0;
        for at in 0..run.len() {
            let (packet, place) = (run.packets[at], run.places[at]);
            if geometry.is_long(packet.index()) {
                self.end(place.chain(), run.region, DropReason::LongFrame, &[packet]);
                continue;
            }
            (run.packets[kept], run.places[kept]) = (packet, place);
            kept += 1;
        }
        run.split_at(kept).0
    }

    fn copy(&mut self, from: RegionId, to: RegionId, packet: Descriptor) -> Result<Descriptor, DropReason> {
        let [source, target] = self
            .stores
            .get_disjoint_mut([from.index(), to.index()])
            .expect("packets cross between different regions");
        let was_long = source.stack.region().geometry().is_long(packet.index());
        let index = target.take_for(packet.length(), was_long)?;
        let Ok(copy) = source.stack.region().copy_across(packet, target.stack.region(), index) else {
            // An NF made it longer than any that come.
            target.stack.give(index);
            return Err(DropReason::TooLong);
        };
        target.holders.set_arrival(index, source.holders.arrival(packet.index()));
        target.holders.extras.copy_from(index, &source.holders.extras, packet.index());
        Ok(copy)
    }
}

impl Ledger {
    /// Ends packets of one chain.
    #[cold]
    pub(crate) fn end(
        &mut self,
        chain: ChainId,
        region: RegionId,
        reason: DropReason,
        packets: &[Descriptor],
    ) {
        self.end_at(At::Nowhere, chain, region, reason, packets);
    }

    /// Ends packets of one chain at an instance.
    #[cold]
    pub(crate) fn end_at(
        &mut self,
        at: At,
        chain: ChainId,
        region: RegionId,
        reason: DropReason,
        packets: &[Descriptor],
    ) {
        self.count_ended(at, chain, region, reason, packets);
        packets.iter().for_each(|packet| self.release(region, *packet));
    }

    /// Notes for the group that packets of it end.
    fn note_ends(&mut self, chain: ChainId, region: RegionId, packets: &[Descriptor]) {
        let Some(ends) = &mut self.ends else { return };
        let clocks = &self.stores[region.index()].holders.extras.clock;
        let words = packets.iter().filter_map(|packet| clocks.get(packet.index()));
        ends.extend(words.filter(|word| *word != 0).map(|word| (chain, word)));
    }

    /// Counts packets of one chain that end, whose buffers are kept for now.
    pub(crate) fn count_ended(
        &mut self,
        at: At,
        chain: ChainId,
        region: RegionId,
        reason: DropReason,
        packets: &[Descriptor],
    ) {
        self.note_ends(chain, region, packets);
        self.board.ended(chain, reason, packets.len() as u64);
        match self.watch.attention() {
            Attention::Off => {}
            Attention::Counts => self.watch.count(Step::Ended(reason), packets.len()),
            Attention::Shows => {
                let place = Place::FREE.entering(Entrance::head(chain));
                for packet in packets {
                    self.show(Step::Ended(reason), at, region, &[*packet], &[place]);
                }
            }
        }
    }

    /// Ends packets, each in its own chain.
    pub(crate) fn end_run(&mut self, reason: DropReason, run: &Run) {
        for (packet, place) in run.iter() {
            self.end(place.chain(), run.region, reason, &[packet]);
        }
    }

    /// Ends packets that find an instance full. If an NF has worked on them already, that work is wasted.
    pub(crate) fn end_at_full(&mut self, instance: InstanceId, worked_on: bool, run: &Run) {
        if run.is_empty() {
            return;
        }
        let drops = &self.board.instances[instance.index()].drops;
        drops[DropReason::StageFull as usize].add(run.len() as u64);
        for place in run.places.iter().filter(|_| worked_on) {
            self.board.chains[place.chain().index()].wasted.add(1);
        }
        for (packet, place) in run.iter() {
            let at = At::Instance(instance);
            self.end_at(at, place.chain(), run.region, DropReason::StageFull, &[packet]);
        }
    }

    /// Ends a packet that never came to a chain.
    #[cold]
    pub(crate) fn turn_away(&mut self, region: RegionId, reason: DropReason, packet: Descriptor) {
        self.board.chains[UNCLAIMED.index()].entered.add(1);
        self.end(UNCLAIMED, region, reason, &[packet]);
    }

    /// Gives a buffer back.
    #[inline(always)]
    pub(crate) fn release(&mut self, region: RegionId, packet: Descriptor) {
        let store = self.store_mut(region);
        store.holders.set_place(packet.index(), Place::FREE);
        store.stack.give(packet.index());
    }
}
