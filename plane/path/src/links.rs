//! Links: rings between workers. A packet that changes worker, or a buffer on its way home, crosses one.

use headgate_shm::Descriptor;
use headgate_shm::ring::{self, Consumer, Producer};

use crate::BURST;
use crate::drop::Reason;
use crate::holders::{FREE, Place, WORKER};
use crate::worker::{DRAIN_BURSTS, Worker};

/// Descriptors a link holds. Our choice: as many as an NF's ring by default.
pub const LINK_SIZE: u32 = 4096;
/// Places of a link that returning buffers leave to packets. Our choice: half.
const FOR_PACKETS: u32 = LINK_SIZE / 2;
/// Regions a parcel can name: 5 of the 14 bits of the tag.
pub const REGIONS_MAX: usize = 32;
/// Ports a parcel can name: 8 of the 14 bits of the tag.
pub const PORTS_MAX: usize = 256;

const PORT_SHIFT: u32 = 5;
const EMIT: u32 = 1 << 13;

/// A worker's ends of the links to and from each other worker.
#[derive(Default)]
pub struct Links {
    to: Vec<Option<Producer>>,
    from: Vec<Option<Consumer>>,
}

/// The ends of all links between `workers` workers, one set for each.
#[must_use]
pub fn mesh(workers: usize) -> Vec<Links> {
    let mut all: Vec<Links> = (0..workers)
        .map(|_| Links {
            to: (0..workers).map(|_| None).collect(),
            from: (0..workers).map(|_| None).collect(),
        })
        .collect();
    for source in 0..workers {
        for target in (0..workers).filter(|&target| target != source) {
            let (producer, consumer) = ring::private(LINK_SIZE);
            all[source].to[target] = Some(producer);
            all[target].from[source] = Some(consumer);
        }
    }
    all
}

impl Worker {
    /// Sends packets to another worker: on their way, or straight out of a port.
    pub(crate) fn ship(
        &mut self,
        worker: u8,
        port: Option<u8>,
        region: u8,
        packets: &mut [Descriptor],
        places: &[Place],
    ) {
        let tag = u32::from(region) | port.map_or(0, |port| EMIT | u32::from(port) << PORT_SHIFT);
        let holders = &self.stores[region as usize].holders;
        for (packet, place) in packets.iter_mut().zip(places) {
            holders.set_place(packet.index(), place.held_by(WORKER));
            *packet = packet.with_tag(tag);
        }
        let pushed = match self.links.to.get_mut(worker as usize) {
            Some(Some(link)) => link.push(packets).unwrap_or(0),
            _ => 0,
        };
        self.end_each(region, Reason::WorkerFull, &packets[pushed..], &places[pushed..]);
    }

    /// Takes in what another worker sent.
    pub(crate) fn take_in(&mut self, now: u64, worker: usize) -> usize {
        let mut parcels = [Descriptor::default(); BURST];
        let Some(Some(link)) = self.links.from.get_mut(worker) else { return 0 };
        let count = link.pop(&mut parcels).unwrap_or(0);
        let mut start = 0;
        while start < count {
            let tag = parcels[start].tag();
            let run = parcels[start..count].iter().take_while(|parcel| parcel.tag() == tag).count();
            self.unpack(now, tag, &mut parcels[start..start + run]);
            start += run;
        }
        count
    }

    fn unpack(&mut self, now: u64, tag: u32, parcels: &mut [Descriptor]) {
        let region = (tag & (REGIONS_MAX as u32 - 1)) as u8;
        let mut places = [Place::default(); BURST];
        let mut count = 0;
        for at in 0..parcels.len() {
            let place = self.stores[region as usize].holders.place(parcels[at].index());
            if place.holder() == FREE {
                self.stores[region as usize].stack.give(parcels[at].index());
                self.returns_taken += 1;
                continue;
            }
            parcels[count] = parcels[at];
            places[count] = place;
            count += 1;
        }
        let (parcels, places) = (&mut parcels[..count], &mut places[..count]);
        if tag & EMIT == 0 {
            self.steer(now, region, parcels, places);
        } else if count > 0 {
            self.emit(now, (tag >> PORT_SHIFT & 0xff) as u16, region, parcels, places);
        }
    }

    /// Sends surplus buffers to the other workers in turn, unless there are fewer than `least`: where
    /// packets enter by one worker and leave by another, buffers pile up at the second.
    pub(crate) fn send_surplus(&mut self, least: usize) {
        let workers = self.links.count();
        for region in 0..self.stores.len() {
            let store = &mut self.stores[region];
            // However many workers there are, what all others keep beyond their share is at most a
            // quarter of the share of the one that runs dry.
            let keep = store.fair_share + store.fair_share / (4 * workers);
            // As many bursts as each of the others takes in in one turn.
            for _ in 0..DRAIN_BURSTS * workers {
                let surplus = store.stack.len().saturating_sub(keep);
                if surplus < least {
                    break;
                }
                self.surplus_to = (self.surplus_to + 1) % workers;
                let Some(Some(link)) = self.links.to.get_mut(self.surplus_to) else { continue };
                let free = link.room(FOR_PACKETS + BURST as u32).unwrap_or(0).saturating_sub(FOR_PACKETS);
                let mut parcels = [Descriptor::default(); BURST];
                let count = surplus.min(BURST).min(free as usize);
                for (parcel, index) in parcels.iter_mut().zip(store.stack.take_many(count)) {
                    *parcel = Descriptor::new(index, 0, 0, region as u32);
                }
                let sent = link.push(&parcels[..count]);
                debug_assert_eq!(sent, Ok(count), "a private ring has the room it said");
                self.returns_sent += count as u64;
            }
        }
    }
}

impl Links {
    /// How many workers there are.
    pub(crate) const fn count(&self) -> usize {
        self.to.len()
    }
}
