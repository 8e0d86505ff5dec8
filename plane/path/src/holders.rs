//! Who holds each buffer. The manager's private memory; no NF can reach it.
//!
//! One record for each buffer of a region: its holder, and where its packet is in its chain. A
//! descriptor that comes back from an NF is believed only if the record says that very NF holds the
//! buffer; when an NF dies, what it held is exactly the records that name it.
//!
//! Records are atomics read and written with relaxed ordering: plain loads and stores. That is sound
//! between workers because a record that names an NF instance is written only by the worker that owns
//! the instance, and a buffer changes workers only through a ring whose release and acquire order the
//! record too. A worker that looks at a record on a hostile descriptor may see any value, but never
//! *its own* instance's number unless it wrote it.
//!
//! The replication clock of a lane (chain and rx queue) will be a third word of the record.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::cpu;

/// Nobody: the buffer is free, or in the hands of a device.
pub const FREE: u16 = 0;
/// A worker: between stations, or on its way to another worker.
pub const WORKER: u16 = 1;
/// NF instance `i` is holder `FIRST_INSTANCE + i`.
pub const FIRST_INSTANCE: u16 = 16;

/// Where a packet is: holder, chain, position in the chain, and the port and queue it came by.
///
/// ```text
///  63      48 47      32 31    24 23    16 15     8 7      0
/// |  holder  |  chain   |position|  port  | queue  | jumps  |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// A free buffer.
    pub const FREE: Self = Self(0);

    /// A packet at the head of a chain, in a worker's hands.
    #[inline(always)]
    #[must_use]
    pub const fn arrived(chain: u16, port: u8, queue: u8) -> Self {
        Self((WORKER as u64) << 48 | (chain as u64) << 32 | (port as u64) << 16 | (queue as u64) << 8)
    }

    /// Who holds it.
    #[inline(always)]
    #[must_use]
    pub const fn holder(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Its chain.
    #[inline(always)]
    #[must_use]
    pub const fn chain(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Its position in the chain: the stage it is at, or goes to next.
    #[inline(always)]
    #[must_use]
    pub const fn position(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The port it came by.
    #[inline(always)]
    #[must_use]
    pub const fn port(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// How often an NF sent it to a named stage.
    #[inline(always)]
    #[must_use]
    pub const fn jumps(self) -> u8 {
        self.0 as u8
    }

    /// The same packet sent to another position by an NF.
    #[inline(always)]
    #[must_use]
    pub const fn jumped_to(self, position: u8) -> Self {
        Self(self.at(position).0 & !0xff | self.jumps().saturating_add(1) as u64)
    }

    /// Everything but the holder: equal for two packets that go the same way.
    #[inline(always)]
    #[must_use]
    pub const fn way(self) -> u64 {
        self.0 << 16
    }

    /// The same packet in other hands.
    #[inline(always)]
    #[must_use]
    pub const fn held_by(self, holder: u16) -> Self {
        Self(self.0 & (u64::MAX >> 16) | (holder as u64) << 48)
    }

    /// The same packet at another position.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, position: u8) -> Self {
        Self(self.0 & !(0xff << 24) | (position as u64) << 24)
    }

    /// The same packet one stage further, in a worker's hands.
    #[inline(always)]
    #[must_use]
    pub const fn advanced(self) -> Self {
        self.at(self.position().wrapping_add(1)).held_by(WORKER)
    }
}

/// Moments on a packet's way are kept in units of 2^8 TSC cycles, some 100 ns.
pub const TICK_SHIFT: u32 = 8;

/// In place of the arrival of a packet that a black box sent: when it came to us is not known.
pub const UNKNOWN_ARRIVAL: u32 = 0;

/// What does not change on a packet's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The hash of its flow: chooses the instance where an NF has several.
    pub flow: u32,
    /// When it arrived, in units of 2^[`TICK_SHIFT`] TSC cycles; wraps after minutes.
    /// [`UNKNOWN_ARRIVAL`] is also one moment of these.
    pub arrived: u32,
}

#[repr(align(16))]
struct Record {
    place: AtomicU64,
    origin: AtomicU64,
}

/// The records of one region.
pub struct Holders {
    records: Box<[Record]>,
}

impl Holders {
    /// All buffers free.
    #[must_use]
    pub fn new(buffers: u32) -> Self {
        let record = || Record { place: AtomicU64::new(0), origin: AtomicU64::new(0) };
        let mut records = Vec::with_capacity(buffers as usize);
        cpu::prefer_huge_pages(records.spare_capacity_mut());
        records.resize_with(buffers as usize, record);
        Self { records: records.into_boxed_slice() }
    }

    /// Bytes that the records of `buffers` buffers take.
    #[must_use]
    pub const fn bytes_for(buffers: u32) -> usize {
        buffers as usize * size_of::<Record>()
    }

    /// How many buffers.
    #[must_use]
    pub const fn buffers(&self) -> u32 {
        self.records.len() as u32
    }

    /// Where a packet is.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, index: u32) -> Place {
        Place(self.records[index as usize].place.load(Ordering::Relaxed))
    }

    /// Says where it is now.
    #[inline(always)]
    pub fn set_place(&self, index: u32, place: Place) {
        self.records[index as usize].place.store(place.0, Ordering::Relaxed);
    }

    /// Says who holds it now.
    #[inline(always)]
    pub fn hand_to(&self, index: u32, holder: u16) {
        let record = &self.records[index as usize].place;
        let place = Place(record.load(Ordering::Relaxed)).held_by(holder);
        record.store(place.0, Ordering::Relaxed);
    }

    /// Its flow and arrival.
    #[inline(always)]
    #[must_use]
    pub fn origin(&self, index: u32) -> Origin {
        let word = self.records[index as usize].origin.load(Ordering::Relaxed);
        Origin { flow: word as u32, arrived: (word >> 32) as u32 }
    }

    /// Sets both at arrival.
    #[inline(always)]
    pub fn set_origin(&self, index: u32, origin: Origin) {
        let word = u64::from(origin.flow) | u64::from(origin.arrived) << 32;
        self.records[index as usize].origin.store(word, Ordering::Relaxed);
    }

    /// The buffers that a holder has.
    pub fn held_by(&self, holder: u16) -> impl Iterator<Item = (u32, Place)> + '_ {
        (0..self.buffers())
            .map(|index| (index, self.place(index)))
            .filter(move |(_, place)| place.holder() == holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_keeps_its_parts(chain: u16, position in 0u8..255, port: u8, queue: u8, holder: u16) {
            let place = Place::arrived(chain, port, queue).at(position).held_by(holder);
            prop_assert_eq!(
                (place.holder(), place.chain(), place.position(), place.port()),
                (holder, chain, position, port)
            );
            let next = place.advanced();
            prop_assert_eq!((next.holder(), next.chain(), next.position()), (WORKER, chain, position + 1));
            prop_assert_eq!(place.way(), place.held_by(7).way());
            prop_assert_ne!(place.way(), next.way());
        }
    }
}
