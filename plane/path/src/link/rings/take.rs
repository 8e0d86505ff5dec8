//! Takes what an NF returned out of its ring, and checks each descriptor.

use headgate_shm::{Descriptor, Geometry, Offence};

use crate::BURST;
use crate::burst::{Agreement, Burst};
use crate::delay::{self, Delayed};
use crate::holders::{Holder, Place, Records};
use crate::ledger::Ledger;
use crate::link::service::Taken;
use crate::view::View;

use super::Rings;

impl Rings {
    /// Takes the packets that the NF returned out of its transmit ring, after checking each.
    #[inline]
    pub fn take(&mut self, view: &View, ledger: &mut Ledger, burst: &mut Burst) -> Taken {
        burst.begin(self.region, 0);
        if self.is_condemned() {
            return Taken::Nothing;
        }
        let (mut taken, offence) = self.check(ledger, burst);
        if let Some(offence) = offence {
            self.condemn(offence);
        }
        if taken == Taken::Nothing {
            return Taken::Nothing;
        }
        self.goes_straight = taken == Taken::Onward && burst.is_one_way;
        let mut returned = burst.count;
        if let Some(lend) = &mut self.lend {
            (returned, taken) = lend.sort_out(view, ledger, burst, taken);
        }
        self.note_returned(view, ledger, returned);
        taken
    }

    /// Takes descriptors out of the ring, checks them one by one and takes their buffers out of the NF's
    /// hands; the burst ends before the first offence.
    #[inline(always)]
    fn check(&mut self, ledger: &Ledger, burst: &mut Burst) -> (Taken, Option<Offence>) {
        let store = ledger.store(self.region);
        let (geometry, records) = (store.stack.region().geometry(), store.holders.records());
        let holder = Holder::instance(self.number);
        let (mut offence, mut verdicts, mut places) = (None, 0, Agreement::default());
        let mut onward = burst.packets.iter_mut().zip(&mut burst.places);
        let popped = self.from_nf.take_while(BURST, |packet| {
            let place = match take_back(records, geometry, holder, packet) {
                Ok(place) => place,
                Err(found) => {
                    offence = Some(found);
                    return false;
                }
            };
            verdicts |= packet.tag();
            places.add(place.bits());
            onward.next().map(|slots| (*slots.0, *slots.1) = (packet, place)).is_some()
        });
        burst.count = popped.unwrap_or(0);
        burst.is_one_way = places.is_one();
        let taken = match (burst.count, verdicts) {
            (0, _) => Taken::Nothing,
            (_, 0) => Taken::Onward,
            _ => Taken::Verdicts,
        };
        (taken, popped.err().map(|_| Offence::TransmitIndex).or(offence))
    }

    /// Counts packets that came back.
    #[inline(always)]
    pub(super) fn note_returned(&mut self, view: &View, ledger: &Ledger, count: usize) {
        self.held -= count as u32;
        let counts = &ledger.board.instances[self.number.index()];
        counts.returned.add(count as u64);
        counts.held.set(u64::from(self.held));
        self.probe_returned(view, ledger);
    }

    /// Tells the probe of packets that came back.
    #[inline(always)]
    fn probe_returned(&mut self, view: &View, ledger: &Ledger) {
        let used = self.lend.as_ref().map_or(0, |lend| lend.used());
        let returned = self.from_nf.consumed().wrapping_sub(used);
        if let Some((waited, worked)) = self.probe.on_returned(view.now, returned) {
            if let Some(waited) = waited {
                delay::note(&ledger.board, Delayed::Queueing(self.number), waited);
            }
            delay::note(&ledger.board, Delayed::Processing(self.number), worked);
        }
    }
}

/// Checks a descriptor that an NF returned, and takes its buffer out of the NF's hands. Returns the packet's
/// place from there on.
#[inline(always)]
fn take_back(
    records: Records,
    geometry: Geometry,
    holder: Holder,
    packet: Descriptor,
) -> Result<Place, Offence> {
    let slot = records.find(packet.index()).ok_or(Offence::NoSuchBuffer)?;
    if !geometry.fits_plain(packet) {
        geometry.check(packet)?;
    }
    let held = slot.get();
    if held.holder() != holder {
        return Err(Offence::NotHeld);
    }
    let place = held.advanced();
    slot.set(place);
    Ok(place)
}
