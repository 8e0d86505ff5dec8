//! Straight on: the hop that most packets make, in one pass over the ring.
//!
//! Packets of one flow or chain come out of a ring as they went in: with the verdict "next", and with one and
//! the same word in their holder records. So the plan is asked once, for the first of them, and as long as
//! the word of the next packet is the same, one comparison says that this NF holds it and where it goes. The
//! first packet that differs in anything, be it another chain, a verdict or an offence, stays in the ring,
//! and takes the way of [`Rings::take`] with those behind it. What goes into the ring of another NF is put
//! there in the same pass.

use headgate_shm::{Descriptor, Geometry, Verdict};

use crate::BURST;
use crate::burst::Burst;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;
use crate::view::View;

use super::Rings;

impl Rings {
    /// Returns the place, in its hands, of the packet that comes next, where the last ones went on one way.
    #[inline(always)]
    pub fn next_straight(&mut self, ledger: &Ledger) -> Option<Place> {
        if !self.goes_straight || self.is_condemned() || self.lend.is_some() {
            return None;
        }
        let packet = self.from_nf.peek().ok()??;
        let place = ledger.store(self.region).holders.records().find(packet.index())?.get();
        (place.holder() == Holder::instance(self.number)).then_some(place)
    }

    /// Returns whether everything was taken that it was seen to have returned.
    #[inline(always)]
    pub const fn is_drained(&self) -> bool {
        self.from_nf.is_drained()
    }

    /// Takes packets out of the ring as long as they are at the place `from`; they are at `there` afterwards,
    /// and `put` gets each. Returns how many.
    #[inline(always)]
    fn take_along(
        &mut self,
        ledger: &Ledger,
        [from, there]: [Place; 2],
        most: usize,
        mut put: impl FnMut(Descriptor),
    ) -> usize {
        let store = ledger.store(self.region);
        let (geometry, records) = (store.stack.region().geometry(), store.holders.records());
        let goes = |packet: Descriptor| {
            let Some(slot) = records.find(packet.index()) else { return false };
            let goes = slot.get() == from && packet.tag() == Verdict::NEXT && geometry.fits_plain(packet);
            if goes {
                slot.set(there);
                put(packet);
            }
            goes
        };
        let count = self.from_nf.take_while(most, goes).unwrap_or(0);
        self.goes_straight = count == most || self.is_drained();
        count
    }

    /// Takes a burst of packets that all are at this place in its hands. Returns how many.
    #[inline]
    pub fn take_straight(&mut self, view: &View, ledger: &Ledger, from: Place, burst: &mut Burst) -> usize {
        burst.begin(self.region, 0);
        let (there, mut slots) = (from.advanced(), burst.packets.iter_mut());
        let put = |packet| {
            if let Some(slot) = slots.next() {
                *slot = packet;
            }
        };
        let count = self.take_along(ledger, [from, there], BURST, put);
        burst.places[..count].fill(there);
        (burst.count, burst.is_one_way) = (count, true);
        if count > 0 {
            self.note_returned(view, ledger, count);
        }
        count
    }

    /// Returns how many packets it takes straight from another NF's ring: as many as it may hold, and none
    /// when any of them would have to be looked at, marked, copied, or wait behind others.
    #[inline(always)]
    fn room_straight(&self, from: &Self, geometry: Geometry) -> usize {
        let takes = self.region == from.region
            && (self.takes_long || !geometry.has_long())
            && !self.is_condemned()
            && self.pending.is_empty()
            && !self.queue.is_congested(self.handling.mark_at);
        if takes { self.window().min(BURST) } else { 0 }
    }

    /// Hands packets that it returned and that all are at the place `from` in its hands straight to another
    /// NF, to this position of their chain. Returns how many.
    #[inline]
    pub fn hand_straight(
        &mut self,
        to: &mut Self,
        view: &View,
        ledger: &Ledger,
        from: Place,
        position: u8,
    ) -> usize {
        let most = to.room_straight(self, ledger.store(self.region).stack.region().geometry());
        let Ok(mut batch) = to.to_nf.batch(most) else { return 0 };
        let there = from.at(position).held_by(Holder::instance(to.number));
        let tag = u32::from(from.port().0);
        let mut put = |packet: Descriptor| batch.put(packet.with_tag(tag));
        let count = match &mut to.succession {
            None => self.take_along(ledger, [from, there], most, put),
            Some(succession) => {
                let records = ledger.store(self.region).holders.records();
                self.take_along(ledger, [from, there], most, |packet| {
                    put(packet);
                    succession.given.note(records, packet.with_tag(tag));
                })
            }
        };
        batch.publish();
        if count > 0 {
            self.note_returned(view, ledger, count);
            to.note_delivered(ledger, count);
            to.probe.on_delivered(view.now, to.sent_to());
        }
        count
    }
}
