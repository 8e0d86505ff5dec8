//! Mesh of rings between workers. A packet that changes worker, or a buffer on its way home, crosses one.

use headgate_shm::Descriptor;
use headgate_shm::ring::{self, Consumer, Producer};
use headgate_units::{PortId, RegionId, WorkerId};

use crate::burst::{Burst, Next, Run};
use crate::drop::DropReason;
use crate::holders::Holder;
use crate::ledger::Ledger;
use crate::plan::{Hop, PackedHop};
use crate::{BURST, DRAIN_BURSTS};

/// Number of descriptors a ring of the mesh holds. Our choice: as many as an NF's ring by default.
pub const RING_SIZE: u32 = 4096;
/// Places of a ring that returning buffers leave to packets. Our choice: half.
const FOR_PACKETS: u32 = RING_SIZE / 2;
/// Number of regions a parcel can name: 5 of the 14 bits of the tag.
pub const REGIONS_MAX: usize = 32;
/// Number of ports a parcel can name: 8 of the 14 bits of the tag.
pub const PORTS_MAX: usize = 256;

const PORT_SHIFT: u32 = 5;
const EMIT: u32 = 1 << 13;
const _: () = assert!(REGIONS_MAX <= 1 << PORT_SHIFT && PORTS_MAX << PORT_SHIFT <= EMIT as usize);

/// A worker's ends of the rings to and from each other worker.
#[derive(Default)]
pub struct MeshEnds {
    pub(crate) to: Vec<Option<Producer>>,
    pub(crate) from: Vec<Option<Consumer>>,
}

/// Returns the ends of all rings between `workers` workers, one set for each.
#[must_use]
pub fn mesh(workers: usize) -> Vec<MeshEnds> {
    let mut all: Vec<MeshEnds> = (0..workers)
        .map(|_| MeshEnds {
            to: (0..workers).map(|_| None).collect(),
            from: (0..workers).map(|_| None).collect(),
        })
        .collect();
    for source in 0..workers {
        for target in (0..workers).filter(|&target| target != source) {
            let (producer, consumer) = ring::private(RING_SIZE);
            all[source].to[target] = Some(producer);
            all[target].from[source] = Some(consumer);
        }
    }
    all
}

/// The rings to other workers.
pub(crate) struct Outbound {
    to: Vec<Option<Producer>>,
    /// Worker that was sent surplus buffers last.
    surplus_to: usize,
    /// Number of buffers sent home, ever.
    returns_sent: u64,
}

impl Outbound {
    pub fn new(number: WorkerId, to: Vec<Option<Producer>>) -> Self {
        Self { to, surplus_to: number.index(), returns_sent: 0 }
    }

    /// Returns how many buffers were sent home, ever.
    pub const fn returns_sent(&self) -> u64 {
        self.returns_sent
    }
}

impl Outbound {
    /// Sends packets to another worker: to go on along their way, or straight out of a port.
    pub fn ship(&mut self, ledger: &mut Ledger, worker: WorkerId, port: Option<PortId>, run: Run) {
        let tag = u32::from(run.region.0) | port.map_or(0, |port| EMIT | u32::from(port.0) << PORT_SHIFT);
        let holders = &ledger.store(run.region).holders;
        for (packet, place) in run.packets.iter_mut().zip(run.places.iter()) {
            holders.set_place(packet.index(), place.held_by(Holder::WORKER));
            *packet = packet.with_tag(tag);
        }
        let pushed = match self.to.get_mut(worker.index()) {
            Some(Some(link)) => link.push(run.packets).unwrap_or(0),
            _ => 0,
        };
        let (_, left) = run.split_at(pushed);
        ledger.end_run(DropReason::WorkerFull, &left);
    }

    /// Sends surplus buffers to the other workers, one after the other, unless there are fewer than `least`:
    /// where packets enter by one worker and leave by another, buffers pile up at the second.
    pub fn send_surplus(&mut self, ledger: &mut Ledger, least: usize) {
        let workers = self.to.len();
        if workers < 2 {
            return;
        }
        for region in 0..ledger.stores().len() {
            let region = RegionId(region as u8);
            // As many bursts as each of the others takes in in one pass.
            for _ in 0..DRAIN_BURSTS * workers {
                if !self.send_surplus_burst(ledger, region, least) {
                    break;
                }
            }
        }
    }

    /// Sends a burst of surplus buffers. Returns whether there was a surplus.
    fn send_surplus_burst(&mut self, ledger: &mut Ledger, region: RegionId, least: usize) -> bool {
        let workers = self.to.len();
        let store = ledger.store_mut(region);
        // However many workers there are, the buffers that all others keep beyond their share are at most a
        // quarter of the share of the one that runs dry.
        let keep = |share: usize| share + share / (4 * workers);
        let surplus = store.stack.len().saturating_sub(keep(store.fair_share));
        let long = store.stack.long_len().saturating_sub(keep(store.fair_share_long));
        if surplus < least && long == 0 {
            return false;
        }
        self.surplus_to = (self.surplus_to + 1) % workers;
        let Some(Some(link)) = self.to.get_mut(self.surplus_to) else { return true };
        let free = link.room(FOR_PACKETS + BURST as u32).unwrap_or(0).saturating_sub(FOR_PACKETS);
        let mut parcels = [Descriptor::default(); BURST];
        let count = (surplus + long).min(BURST).min(free as usize);
        let long = long.min(count);
        let parcel = |index| Descriptor::new(index, 0, 0, region.0.into());
        for (place, index) in parcels.iter_mut().zip(store.stack.take_many_long(long)) {
            *place = parcel(index);
        }
        for (place, index) in parcels[long..].iter_mut().zip(store.stack.take_many(count - long)) {
            *place = parcel(index);
        }
        let sent = link.push(&parcels[..count]);
        debug_assert_eq!(sent, Ok(count), "a private ring has the room it said");
        self.returns_sent += count as u64;
        true
    }
}

/// Rings from other workers, and the parcels taken out of one of them last.
pub(crate) struct Parcels {
    from: Vec<Option<Consumer>>,
    taken: [Descriptor; BURST],
    /// Number of parcels taken, and of those unpacked.
    count: usize,
    unpacked: usize,
    /// Number of buffers that came home, ever.
    returns_taken: u64,
}

impl Parcels {
    pub fn new(from: Vec<Option<Consumer>>) -> Self {
        Self { from, taken: [Descriptor::default(); BURST], count: 0, unpacked: 0, returns_taken: 0 }
    }

    /// Returns how many buffers came home, ever.
    pub const fn returns_taken(&self) -> u64 {
        self.returns_taken
    }

    /// Returns how many workers there are, this one included.
    pub const fn workers(&self) -> usize {
        self.from.len()
    }
}

impl Parcels {
    /// Takes parcels out of the ring from another worker. Returns how many.
    pub fn take_in(&mut self, worker: usize) -> usize {
        let Self { from, taken, count, unpacked, .. } = self;
        let Some(Some(link)) = from.get_mut(worker) else { return 0 };
        (*count, *unpacked) = (link.pop(taken).unwrap_or(0), 0);
        *count
    }

    /// Makes a burst of the next parcels that go the same way; buffers among them are free again. Returns
    /// whether there were any.
    pub fn unpack(&mut self, ledger: &mut Ledger, burst: &mut Burst) -> bool {
        let rest = &self.taken[self.unpacked..self.count];
        let Some(tag) = rest.first().map(|parcel| parcel.tag()) else { return false };
        let region = RegionId((tag & (REGIONS_MAX as u32 - 1)) as u8);
        let mut count = 0;
        for parcel in rest.iter().take_while(|parcel| parcel.tag() == tag) {
            self.unpacked += 1;
            let store = ledger.store_mut(region);
            let place = store.holders.place(parcel.index());
            if place.holder() == Holder::FREE {
                store.stack.give(parcel.index());
                self.returns_taken += 1;
                continue;
            }
            (burst.packets[count], burst.places[count]) = (*parcel, place);
            count += 1;
        }
        burst.begin(region, count);
        if tag & EMIT != 0 {
            let port = PortId((tag >> PORT_SHIFT & (PORTS_MAX as u32 - 1)) as u16);
            burst.next = Next::Same(PackedHop::from(Hop::Port(port)));
        }
        true
    }
}
