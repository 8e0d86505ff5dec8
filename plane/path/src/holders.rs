//! Holder table: which NF or worker holds each buffer. The manager's private memory; no NF can reach it.
//!
//! One record for each buffer of a region: its holder, and where its packet is in its chain. A
//! descriptor that comes back from an NF is believed only if the record says that very NF holds the
//! buffer; when an NF dies, what it held is exactly the records that name it.
//!
//! Records are atomics read and written with relaxed ordering: plain loads and stores. That is sound
//! between workers because a record that names an NF instance is written only by the worker that owns
//! the instance, and a buffer changes workers only through a ring whose release and acquire order the
//! record too. A worker that reads a record on a hostile descriptor may see any value, but never
//! *its own* instance's number unless it wrote it.
//!
//! Facts of a packet that only some chains need lie in [`Extras`], arrays beside the records that are made
//! only where such a chain is.

mod extras;
mod holder;
mod place;
mod service;

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_shm::{Geometry, Pages, cpu};

pub use extras::{Extra, Extras, ExtrasWanted};
pub use holder::Holder;
pub use place::{Entrance, Place};
pub use service::{METADATA_MAX, ServiceHeader, ServiceHeaders};

/// Shift of the unit of time on a packet's way: 2^8 TSC cycles, some 100 ns.
pub const TICK_SHIFT: u32 = 8;

/// Arrival of a packet that an external program sent: when it came to us is not known.
pub const UNKNOWN_ARRIVAL: u32 = 0;

/// Facts of a packet that do not change on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The hash of its flow: chooses the instance where an NF has several.
    pub flow: u32,
    /// Time of its arrival, in units of 2^[`TICK_SHIFT`] TSC cycles; wraps after minutes.
    /// [`UNKNOWN_ARRIVAL`] is also one moment of these.
    pub at: u32,
}

#[repr(align(16))]
pub(crate) struct Record {
    place: AtomicU64,
    arrival: AtomicU64,
}

/// Records of all buffers of a region. A value by itself: a loop that writes records needs not read again
/// where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a>(&'a [Record]);

impl<'a> Records<'a> {
    /// Returns where a packet is.
    #[inline(always)]
    pub fn place(self, index: u32) -> Place {
        Place::from_bits(self.0[index as usize].place.load(Ordering::Relaxed))
    }

    /// Sets where a packet is now.
    #[inline(always)]
    pub fn set_place(self, index: u32, place: Place) {
        self.0[index as usize].place.store(place.bits(), Ordering::Relaxed);
    }

    /// Returns the hash of a packet's flow.
    #[inline(always)]
    pub fn flow(self, index: u32) -> u32 {
        self.0[index as usize].arrival.load(Ordering::Relaxed) as u32
    }

    /// Sets a packet's flow and arrival when it arrives.
    #[inline(always)]
    pub fn set_arrival(self, index: u32, arrival: Arrival) {
        let word = u64::from(arrival.flow) | u64::from(arrival.at) << 32;
        self.0[index as usize].arrival.store(word, Ordering::Relaxed);
    }

    /// Returns the record of a buffer that an untrusted process named, to read and to change; `None` when
    /// there is no such buffer.
    #[inline(always)]
    pub fn find(self, index: u32) -> Option<Slot<'a>> {
        self.0.get(index as usize).map(|record| Slot(&record.place))
    }
}

/// Record of one packet's place.
pub(crate) struct Slot<'a>(&'a AtomicU64);

impl Slot<'_> {
    #[inline(always)]
    pub fn get(&self) -> Place {
        Place::from_bits(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub fn set(&self, place: Place) {
        self.0.store(place.bits(), Ordering::Relaxed);
    }
}

/// Records of one region, one for each index.
pub struct Holders {
    records: Box<[Record]>,
    buffers: u32,
    /// Words that only some chains need.
    pub extras: Extras,
}

impl Holders {
    /// Makes records of free buffers, and the extras that are wanted, on pages of a kind as far as the kernel
    /// gives them.
    #[must_use]
    pub fn new(geometry: Geometry, wanted: ExtrasWanted, pages: Pages) -> Self {
        let record = || Record { place: AtomicU64::new(0), arrival: AtomicU64::new(0) };
        let indices = geometry.indices();
        let mut records = Vec::with_capacity(indices as usize);
        cpu::prefer_pages(records.spare_capacity_mut(), pages);
        records.resize_with(indices as usize, record);
        let (records, extras) = (records.into_boxed_slice(), Extras::new(indices, wanted));
        Self { records, buffers: geometry.buffers(), extras }
    }

    /// Returns the bytes that the records of a region take, and the service headers where they are wanted.
    #[must_use]
    pub const fn bytes_for(geometry: Geometry, wanted: ExtrasWanted) -> usize {
        let headers = if wanted.service { service::bytes_for(geometry.indices()) } else { 0 };
        geometry.indices() as usize * size_of::<Record>() + headers
    }

    /// Returns the number of buffers.
    #[must_use]
    pub const fn buffers(&self) -> u32 {
        self.buffers
    }

    /// Returns the number of indices, of which some may name no buffer.
    #[must_use]
    pub const fn indices(&self) -> u32 {
        self.records.len() as u32
    }

    /// Returns the records, to be found without the table.
    #[inline(always)]
    pub(crate) fn records(&self) -> Records<'_> {
        Records(&self.records)
    }

    /// Returns where a packet is.
    #[must_use]
    pub fn place(&self, index: u32) -> Place {
        self.records().place(index)
    }

    /// Sets where a packet is now.
    #[inline(always)]
    pub fn set_place(&self, index: u32, place: Place) {
        self.records().set_place(index, place);
    }

    /// Returns a packet's flow and arrival.
    #[inline(always)]
    #[must_use]
    pub fn arrival(&self, index: u32) -> Arrival {
        let word = self.records[index as usize].arrival.load(Ordering::Relaxed);
        Arrival { flow: word as u32, at: (word >> 32) as u32 }
    }

    /// Sets both when it arrives.
    #[inline(always)]
    pub fn set_arrival(&self, index: u32, arrival: Arrival) {
        self.records().set_arrival(index, arrival);
    }

    /// Returns the buffers that a holder has.
    pub fn held_by(&self, holder: Holder) -> impl Iterator<Item = (u32, Place)> + '_ {
        (0..self.indices())
            .map(|index| (index, self.place(index)))
            .filter(move |(_, place)| place.holder() == holder)
    }
}
