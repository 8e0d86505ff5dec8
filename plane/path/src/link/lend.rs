//! Lend: buffers that an NF is lent for packets it makes: resets, answers, probes, copies.
//!
//! An NF never takes a buffer by itself. It says at its start how many it wants in its hands, and has so many
//! from then on: those that it used are replaced in the next pass. They come by a ring of their own, empty,
//! and go back by the transmit ring like any packet, with a verdict. The holder records say of each that it
//! is this NF's and was lent, so it is checked, and taken back when the NF dies, like any other.
//!
//! A made packet has no chain yet. It *follows* the packet that the NF returned last before it: the same
//! chain, one position behind the NF, as if it had come by the same port. So an answer is counted where the
//! question was, and a copy goes where the original goes. An NF that makes packets by itself, from a timer,
//! names a chain that visits it.

use headgate_shm::control::LENT_MAX;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::ring::Producer;
use headgate_shm::{Descriptor, Offence, Verdict};
use headgate_units::{ChainId, InstanceId, NfId, PortId, RegionId};

use crate::BURST;
use crate::burst::Burst;
use crate::classify::spread_at;
use crate::drop::DropReason;
use crate::flows::Seeds;
use crate::holders::{Arrival, Entrance, Holder, Place, TICK_SHIFT};
use crate::ledger::Ledger;
use crate::plan::{Plan, UNCLAIMED};
use crate::view::View;

use super::service::{Service, Taken};

/// Packet that made ones follow: where it went on, and the hash of its flow.
#[derive(Clone, Copy)]
struct Followed {
    place: Place,
    flow: u32,
}

/// Buffers lent to one NF.
pub(crate) struct Lend {
    number: InstanceId,
    region: RegionId,
    seeds: Seeds,
    to_nf: Producer,
    /// Number of buffers it is to have.
    granted: u32,
    /// Number of buffers in its lend ring and hands.
    lent: u32,
    /// Number of buffers that came back, ever (wraps).
    used: u32,
    /// Ordinary packet that it returned last.
    followed: Option<Followed>,
}

impl Lend {
    pub fn new(service: &Service, granted: u32, to_nf: Producer) -> Self {
        debug_assert!(granted <= LENT_MAX, "the lend ring has {LENT_MAX} places, not {granted}");
        Self {
            number: service.number,
            region: service.region,
            seeds: service.seeds,
            to_nf,
            granted: granted.min(LENT_MAX),
            lent: 0,
            used: 0,
            followed: None,
        }
    }

    /// Returns whether it has fewer buffers than it was granted.
    #[inline(always)]
    pub const fn is_short(&self) -> bool {
        self.lent < self.granted
    }

    /// Returns how many buffers came back, ever (wraps).
    #[inline(always)]
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Lends it as many buffers as it lacks, or as are free; the next pass tries again.
    ///
    /// # Errors
    /// Its offence, when its index of the lend ring is impossible.
    #[cold]
    pub fn lend_more(&mut self, ledger: &mut Ledger) -> Result<(), Offence> {
        // An honest NF takes a buffer before it uses it: never more buffers wait than are lent.
        if self.to_nf.refresh().map_or(true, |waiting| waiting > self.lent) {
            return Err(Offence::LendIndex);
        }
        let store = ledger.store_mut(self.region);
        let place = Place::lent(Holder::instance(self.number));
        let mut empty = [Descriptor::default(); LENT_MAX as usize];
        let mut count = 0;
        for index in store.stack.take_many((self.granted - self.lent) as usize) {
            store.holders.set_place(index, place);
            empty[count] = Descriptor::new(index, HEADROOM_BYTES, 0, 0);
            count += 1;
        }
        store.holders.extras.clear(&empty[..count]);
        self.lent += count as u32;
        ledger.board.instances[self.number.index()].lent.set(u64::from(self.lent));
        // The ring has as many places as buffers can be lent: it is full only for an NF that has lied since.
        if self.to_nf.push(&empty[..count]) == Ok(count) { Ok(()) } else { Err(Offence::LendIndex) }
    }

    /// Takes all buffers back that are lent, for whom they were lent to is gone.
    pub fn take_all_back(&mut self, ledger: &mut Ledger) {
        let holders = ledger.store(self.region).holders.clone();
        let lent = holders.held_by(Holder::instance(self.number)).filter(|(_, place)| place.is_lent());
        for (index, _) in lent.take(self.lent as usize) {
            ledger.release(self.region, Descriptor::new(index, 0, 0, 0));
        }
    }

    /// Lends to another process of the instance from here on, which has none of the buffers yet.
    pub fn begin_anew(&mut self, granted: u32, to_nf: Producer) {
        (self.granted, self.to_nf) = (granted.min(LENT_MAX), to_nf);
        (self.lent, self.used) = (0, 0);
    }

    /// Finds made packets in a burst that was checked, and gives them their places. Returns how many of the
    /// burst are ordinary ones, and their verdicts.
    #[inline(never)]
    pub fn sort_out(
        &mut self,
        view: &View,
        ledger: &mut Ledger,
        burst: &mut Burst,
        taken: Taken,
    ) -> (usize, Taken) {
        let Some(last) = burst.count.checked_sub(1) else { return (0, taken) };
        if burst.places[..burst.count].iter().any(|place| place.is_lent()) {
            return self.place_made(view, ledger, burst);
        }
        self.remember(ledger, burst.packets[last], burst.places[last]);
        (burst.count, taken)
    }

    fn remember(&mut self, ledger: &Ledger, packet: Descriptor, place: Place) {
        self.followed = Some(Followed { place, flow: ledger.flow(self.region, packet) });
    }

    /// Goes through a burst in its order. Made packets that go no further have ended, or are free again; all
    /// others are at the front, and the places of made ones still say so.
    #[cold]
    fn place_made(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) -> (usize, Taken) {
        let (mut kept, mut ordinary) = (0, 0);
        for at in 0..burst.count.min(BURST) {
            let (mut packet, mut place) = (burst.packets[at], burst.places[at]);
            if place.is_lent() {
                let Some(goes) = self.take_back(view, ledger, packet) else { continue };
                (packet, place) = goes;
            } else {
                self.remember(ledger, packet, place);
                ordinary += 1;
            }
            (burst.packets[kept], burst.places[kept]) = (packet, place);
            kept += 1;
        }
        burst.count = kept;
        burst.is_one_way = false;
        ledger.board.instances[self.number.index()].lent.set(u64::from(self.lent));
        (ordinary, if kept == 0 { Taken::Nothing } else { Taken::Made })
    }

    /// Takes a lent buffer back. Returns the packet and its place if one was made in it that goes on.
    fn take_back(
        &mut self,
        view: &View,
        ledger: &mut Ledger,
        packet: Descriptor,
    ) -> Option<(Descriptor, Place)> {
        self.lent -= 1;
        self.used = self.used.wrapping_add(1);
        if packet.verdict() == Verdict::Drop {
            ledger.release(self.region, packet);
            return None;
        }
        let Some(place) = self.place_of(view.plan, packet.tag()) else {
            ledger.board.chains[UNCLAIMED.index()].made.add(1);
            ledger.board.instances[self.number.index()].made.add(1);
            ledger.end(UNCLAIMED, self.region, DropReason::NoSuchChain, &[packet]);
            return None;
        };
        let chain = Verdict::chain_of(packet.tag());
        let followed = self.followed.filter(|_| chain.is_none());
        let store = ledger.store(self.region);
        let region = store.stack.region();
        let flow =
            followed.map_or_else(|| spread_at(region, packet, place.port(), &self.seeds), |one| one.flow);
        let at = (view.now.0 >> TICK_SHIFT) as u32;
        store.holders.set_arrival(packet.index(), Arrival { flow, at });
        store.holders.set_place(packet.index(), place);
        ledger.board.chains[place.chain().index()].made.add(1);
        ledger.board.instances[self.number.index()].made.add(1);
        let packet = if chain.is_some() { packet.with_verdict(Verdict::Next) } else { packet };
        Some((packet, place.made()))
    }

    /// Returns where a made packet goes on; `None` when no chain that could be meant visits the NF.
    fn place_of(&self, plan: &Plan, tag: u32) -> Option<Place> {
        let followed = self.followed.map(|followed| followed.place);
        let from = followed.unwrap_or_else(|| Place::arrived(PortId(0), 0));
        let entering = |(chain, position)| from.beside(Entrance::new(chain, position));
        match Verdict::chain_of(tag) {
            Some(chain) => behind(plan, self.number, ChainId(chain)).map(entering),
            None => match followed.filter(|place| self.may_follow(plan, *place)) {
                Some(place) => Some(place),
                None => first_behind(plan, self.number).map(entering),
            },
        }
    }

    /// Returns whether the chain of the packet that was returned last is still the one it was. While the
    /// instance is in no stage, because it is to end, nothing else has its packets.
    fn may_follow(&self, plan: &Plan, place: Place) -> bool {
        let Some(Some(chain)) = plan.chains.get(place.chain().index()) else { return false };
        let before = chain.stages.get(usize::from(place.back().position()));
        match stage_of(plan, self.number) {
            Some(stage) => before == Some(&stage),
            None => true,
        }
    }
}

/// Returns the stage that an instance serves.
fn stage_of(plan: &Plan, number: InstanceId) -> Option<NfId> {
    let serves = |stage: &Option<crate::plan::Stage>| {
        stage.as_ref().is_some_and(|stage| stage.running.contains(&number))
    };
    plan.stages.iter().position(serves).map(|stage| NfId(stage as u16))
}

/// Returns the position behind an instance in a chain, if that visits it.
fn behind(plan: &Plan, number: InstanceId, chain: ChainId) -> Option<(ChainId, u8)> {
    plan.chains.get(chain.index())?.as_ref()?;
    let position = plan.position_of(chain, stage_of(plan, number)?)?;
    Some((chain, position.checked_add(1)?))
}

/// Returns the position behind an instance in the first chain that visits it.
fn first_behind(plan: &Plan, number: InstanceId) -> Option<(ChainId, u8)> {
    let chains = (0..plan.chains.len()).map(|chain| ChainId(chain as u16));
    chains.filter_map(|chain| behind(plan, number, chain)).next()
}
