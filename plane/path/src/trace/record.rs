//! Record: what is known of a packet at one moment of its way.

use headgate_shm::Descriptor;
use headgate_units::{InstanceId, PortId, RegionId, Ticks};

use crate::board::Station;
use crate::drop::DropReason;
use crate::holders::Place;

/// Step of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It passed this station.
    Passed(Station),
    /// It ended.
    Ended(DropReason),
    /// It was copied to a buffer of another region, and goes on as that one: the record's bytes name the
    /// region and the buffer that it was in ([`Record::origin`]).
    Copied,
    /// A packet that was picked has left our sight, and another one lies in its buffer.
    Gone,
    /// A packet that was picked is of another chain than the one that is watched.
    Other,
}

impl Step {
    /// Number of kinds: one for each station, one for ends.
    pub(crate) const KINDS: usize = Self::ENDS + 1;
    pub(super) const ENDS: usize = 15;

    /// Kind: the station that was passed, or that it was no station.
    pub(crate) const fn kind(self) -> usize {
        match self {
            Self::Passed(station) => station as usize,
            _ => Self::ENDS,
        }
    }
}

const _: () = assert!(Station::ALL.len() <= Step::ENDS);

/// Whom a step was at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum At {
    /// Nobody in particular.
    #[default]
    Nowhere,
    /// An instance: it was delivered to, or returned the packet, or found no room for it.
    Instance(InstanceId),
    /// A port: the packet left by it.
    Port(PortId),
}

/// Record of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Step.
    pub step: Step,
    /// Whom it was at.
    pub at: At,
    /// Region that the packet lies in.
    pub region: RegionId,
    /// The packet.
    pub packet: Descriptor,
    /// Its place in its chain; of one that ended only the chain is known.
    pub place: Place,
    /// Time.
    pub time: Ticks,
    /// Number of bytes that follow.
    pub kept: u32,
}

/// Number of words of a record, its bytes not counted.
pub(super) const HEAD_WORDS: usize = 4;

const ENDED: u8 = 0x80;
const COPIED: u8 = 0x40;
const GONE: u8 = 0x41;
const OTHER: u8 = 0x42;
const INSTANCE: u64 = 1;
const PORT: u64 = 2;

impl Record {
    /// Returns the words of a record: step, region, whom it was at, bytes; packet; place; time.
    pub(super) fn pack(self) -> [u64; HEAD_WORDS] {
        let (step, reason) = match self.step {
            Step::Passed(station) => (station as u8, 0),
            Step::Ended(reason) => (ENDED, reason as u8),
            Step::Copied => (COPIED, 0),
            Step::Gone => (GONE, 0),
            Step::Other => (OTHER, 0),
        };
        // An instance's or a port's number is below 2^12, `kept` below 2^18.
        let (kind, number) = match self.at {
            At::Nowhere => (0, 0),
            At::Instance(number) => (INSTANCE, number.0),
            At::Port(number) => (PORT, number.0),
        };
        let what = u64::from(step) | u64::from(reason) << 8 | u64::from(self.region.0) << 16 | kind << 24;
        [
            what | u64::from(number) << 26 | u64::from(self.kept) << 42,
            self.packet.0,
            self.place.bits(),
            self.time.0,
        ]
    }

    pub(super) fn unpack([what, packet, place, time]: [u64; HEAD_WORDS]) -> Self {
        let step = match what as u8 {
            ENDED => Step::Ended(DropReason::ALL[usize::from((what >> 8) as u8)]),
            COPIED => Step::Copied,
            GONE => Step::Gone,
            OTHER => Step::Other,
            station => Step::Passed(Station::ALL[usize::from(station)]),
        };
        let number = (what >> 26) as u16;
        let at = match what >> 24 & 3 {
            INSTANCE => At::Instance(InstanceId(number)),
            PORT => At::Port(PortId(number)),
            _ => At::Nowhere,
        };
        Self {
            step,
            at,
            region: RegionId((what >> 16) as u8),
            packet: Descriptor(packet),
            place: Place::from_bits(place),
            time: Ticks(time),
            kept: (what >> 42) as u32,
        }
    }

    /// Returns region and buffer that a copied packet was in; `None` of any other record.
    #[must_use]
    pub fn origin(&self, bytes: &[u8]) -> Option<(RegionId, u32)> {
        let bytes = bytes.first_chunk().filter(|_| self.step == Step::Copied)?;
        let word = u64::from_le_bytes(*bytes);
        Some((RegionId((word >> 32) as u8), word as u32))
    }
}

/// Returns what [`Record::origin`] reads.
pub(super) fn origin_bytes(region: RegionId, index: u32) -> [u8; 8] {
    (u64::from(region.0) << 32 | u64::from(index)).to_le_bytes()
}
