//! Takeover: a standby in the place of a process that died. See [`super::succession`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_decide::takeover::Pace;
use headgate_decide::wake::Seat;
use headgate_shm::{ManagerSide, Offence, doorbell};

use crate::drop::DropReason;
use crate::event::Promotion;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;
use crate::link::service::Death;
use crate::link::sleep::Sleep;
use crate::probe::Probe;
use crate::trace::At;

use super::Rings;
use super::ends::RingEnds;
use super::succession::RETIRED_MAX;

impl Rings {
    /// Takes a standby that is ready; it goes at once where the process has died. Returns what it was given.
    pub fn stand_by(&mut self, ends: Box<RingEnds>, ledger: &mut Ledger) -> Option<Promotion> {
        let succession = self.succession.as_mut()?;
        succession.standby = Some(ends);
        if succession.is_dead && !self.is_condemned() { self.promote(ledger) } else { None }
    }

    /// Forgets the standby.
    pub fn dismiss(&mut self) {
        if let Some(succession) = &mut self.succession {
            succession.standby = None;
        }
    }

    /// Returns whether the process has died, by the word of the kernel, and the standby can take over at
    /// once.
    #[inline(always)]
    pub fn is_to_be_succeeded(&self) -> bool {
        let has_standby = self.succession.as_ref().is_some_and(|succession| succession.standby.is_some());
        has_standby && self.side.can_be_succeeded() && !self.is_condemned()
    }

    /// Ends the process, if it has not ended.
    pub fn end_process(&self) {
        self.side.kill();
    }

    /// Returns whether another process than the one with this memory works for the instance. Of one that is
    /// condemned that is all the same: nothing is taken from it.
    pub fn has_another(&self, dead: &Arc<ManagerSide>) -> bool {
        !self.is_condemned() && !Arc::ptr_eq(&self.side, dead)
    }

    /// Takes in that the process has died; what it returned in good order was taken before.
    pub fn on_death(&mut self, ledger: &mut Ledger) -> Death {
        let condemned = self.is_condemned();
        let Some(succession) = self.succession.as_mut().filter(|_| !condemned) else { return Death::Final };
        succession.is_dead = true;
        if succession.standby.is_none() {
            return Death::Waits;
        }
        self.promote(ledger).map_or(Death::Final, Death::Succeeded)
    }

    /// Makes the standby the process: gives it what the one before did not return, and orders it to go.
    /// `None` when it spoilt its ring before.
    fn promote(&mut self, ledger: &mut Ledger) -> Option<Promotion> {
        let records = ledger.store(self.region).holders.records();
        let succession = self.succession.as_mut()?;
        succession.given.sort_out(records);
        let returned = self.from_nf.consumed();
        let first = succession.given.entries.front().map(|(_, number)| *number);
        let orders = succession.takeover.on_death(returned.into(), first);
        let ends = succession.standby.take()?;
        succession.is_dead = false;
        let poisoned = orders.pace == Pace::WithoutTheFirst && self.end_first(ledger);
        self.take_ends(*ends, ledger);
        let Some(again) = self.give_again() else {
            self.condemn(Offence::ReceiveIndex);
            return None;
        };
        let alone = if orders.pace == Pace::Bursts { 0 } else { again };
        self.side.orders().promote(orders.base as u32, alone);
        doorbell::published();
        if doorbell::take(self.side.doorbell()) {
            doorbell::wake(self.side.doorbell());
        }
        ledger.board.instances[self.number.index()].held.set(u64::from(self.held));
        Some(Promotion { returned, again, is_alone: alone > 0, poisoned, took: None })
    }

    /// Ends the first packet that was not returned, as poison. Returns whether there was room to keep its
    /// buffer.
    fn end_first(&mut self, ledger: &mut Ledger) -> bool {
        let Some(succession) = self.succession.as_mut() else { return false };
        if succession.retired.len() == RETIRED_MAX {
            return false;
        }
        let Some((packet, _)) = succession.given.entries.pop_front() else { return false };
        let holders = &ledger.store(self.region).holders;
        let place = holders.place(packet.index());
        holders.set_place(packet.index(), Place::lent(Holder::WORKER));
        succession.retired.push(packet);
        let at = At::Instance(self.number);
        ledger.count_ended(at, place.chain(), self.region, DropReason::Poison, &[packet]);
        ledger.board.instances[self.number.index()].drops[DropReason::Poison as usize].add(1);
        true
    }

    /// Works with the rings of another process from here on.
    fn take_ends(&mut self, ends: RingEnds, ledger: &mut Ledger) {
        if let Some(lend) = &mut self.lend {
            lend.take_all_back(ledger);
            let granted = ends.lend.min(ends.side.layout().ring() - self.capacity);
            lend.begin_anew(granted, ends.side.lend_producer());
        }
        self.to_nf = ends.side.receive_producer();
        self.from_nf = ends.side.transmit_consumer();
        self.takes_long = ends.takes_long;
        self.sleep = Sleep::new(Seat::new(ends.core, self.region), ends.sleeps, ends.marks);
        self.probe = Probe::default();
        self.goes_straight = false;
        self.side = ends.side;
        self.side.orders().blocked.store(u32::from(self.is_blocked), Ordering::Relaxed);
    }

    /// Puts what was not returned into the receive ring, in its order. Returns how many packets that is;
    /// `None` when the ring is no fresh one.
    fn give_again(&mut self) -> Option<u32> {
        let entries = &self.succession.as_ref()?.given.entries;
        self.to_nf.refresh().ok()?;
        let mut batch = self.to_nf.batch(entries.len()).ok()?;
        entries.iter().for_each(|(packet, _)| batch.put(*packet));
        batch.publish();
        debug_assert!(self.held as usize >= entries.len(), "what is given again was given before");
        self.held = entries.len() as u32;
        Some(self.held)
    }

    /// Frees the buffers of poison once the process has undone what was written there: before it returned
    /// anything. With `all`, whatever it did: it is gone.
    #[inline(always)]
    pub(super) fn free_retired(&mut self, ledger: &mut Ledger, all: bool) {
        if let Some(succession) = &mut self.succession
            && !succession.retired.is_empty()
            && (all || self.from_nf.consumed() > 0)
        {
            succession.retired.drain(..).for_each(|packet| ledger.release(self.region, packet));
        }
    }
}
