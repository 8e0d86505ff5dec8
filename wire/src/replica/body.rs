//! Bodies of frames, one type for each.

use super::clocks::{Clocks, Cut, LANES_MAX, Reader, Writer};
use super::header::{Frame, FrameError, Kind};
use crate::NoRoomError;

/// Bytes of an entry of the journal.
const RUN_BYTES: usize = 8;
/// Bytes of the sum of one NF's state.
const SUM_BYTES: usize = 12;
/// Bytes in front of a part.
const PART_BYTES: usize = 8;

/// One life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The node.
    pub node: u8,
    /// Its life.
    pub boot: u64,
}

/// Parts of the nodes in a view, which is the header's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Works on packets.
    pub active: Incarnation,
    /// Stands by, if any does.
    pub standby: Option<Incarnation>,
    /// View in which the standby joined.
    pub joined: u32,
    /// Whether the standby was active before, and handed over.
    pub handed_over: bool,
    /// View in which the state of the NFs began empty.
    pub begun: u32,
    /// Clocks of the last packets that the gate does not have.
    pub log_begins_after: Clocks,
}

/// Fields of a body that fits one frame. What the header has is not here.
#[expect(
    clippy::large_enum_variant,
    reason = "one is read with each frame, by value; a box would be allocated for it"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// [`Kind::Data`] and [`Kind::Out`].
    Packet(&'a [u8]),
    /// [`Kind::Nack`], [`Kind::Checkpoint`], [`Kind::Unanswered`], [`Kind::HandOver`], [`Kind::FailOver`],
    /// [`Kind::Probe`], [`Kind::Echo`].
    Nothing,
    /// [`Kind::Commit`], [`Kind::State`], [`Kind::StateEnd`], [`Kind::Settings`].
    Part(Part<'a>),
    /// [`Kind::Ack`].
    Ack {
        /// The commit.
        seq: u64,
    },
    /// [`Kind::Durable`].
    Durable(Cut),
    /// [`Kind::Released`].
    Released {
        /// Clocks up to which the active node has every packet.
        arrived: Clocks,
        /// Clocks up to which every output has left.
        released: Clocks,
        /// Clocks up to which there is room.
        credit: Clocks,
    },
    /// [`Kind::Taken`]: the last outputs that the gate has.
    Taken {
        /// Their clocks.
        clocks: Clocks,
        /// Their numbers.
        numbers: [u32; LANES_MAX],
    },
    /// [`Kind::Assign`].
    Assign(Assignment),
    /// [`Kind::Hello`].
    Hello {
        /// The sender.
        me: Incarnation,
        /// Hash of its configuration of the group.
        configuration: u64,
        /// Clocks up to which an active node has every packet.
        arrived: Option<Clocks>,
        /// Highest view in which the active node answered it.
        echoed: u32,
    },
}

/// Part of a message that may be longer than a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Its first byte in the message.
    pub offset: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// [`FrameError::Body`].
    pub fn read(frame: &Frame<'a>) -> Result<Self, FrameError> {
        Self::of(frame.header().kind, frame.body()).ok_or(FrameError::Body)
    }

    fn of(kind: Kind, body: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(body);
        let message = match kind {
            Kind::Data | Kind::Out => return Some(Self::Packet(body)),
            Kind::Commit | Kind::State | Kind::StateEnd | Kind::Settings => {
                return Part::of(reader).map(Self::Part);
            }
            Kind::Nack | Kind::Checkpoint | Kind::Unanswered | Kind::HandOver | Kind::FailOver => {
                Self::Nothing
            }
            Kind::Probe | Kind::Echo => Self::Nothing,
            Kind::Ack => Self::Ack { seq: reader.u64()? },
            Kind::Durable => Self::Durable(reader.cut()?),
            Kind::Released => Self::Released {
                arrived: reader.clocks()?,
                released: reader.clocks()?,
                credit: reader.clocks()?,
            },
            Kind::Taken => {
                let clocks = reader.clocks()?;
                let mut numbers = [0; LANES_MAX];
                for number in &mut numbers[..clocks.as_slice().len()] {
                    *number = reader.u32()?;
                }
                Self::Taken { clocks, numbers }
            }
            Kind::Assign => Self::Assign(Assignment::of(&mut reader)?),
            Kind::Hello => {
                let (me, configuration) = (incarnation(&mut reader)?, reader.u64()?);
                let arrived = if reader.flag()? { Some(reader.clocks()?) } else { None };
                Self::Hello { me, configuration, arrived, echoed: reader.u32()? }
            }
        };
        reader.is_at_end().then_some(message)
    }

    /// Writes the body. Returns its length.
    ///
    /// # Errors
    /// [`NoRoomError`].
    pub fn write(&self, room: &mut [u8]) -> Result<usize, NoRoomError> {
        let mut writer = Writer::new(room);
        match self {
            Self::Packet(bytes) => writer.bytes(bytes),
            Self::Nothing => {}
            Self::Part(part) => {
                writer.u32(part.offset);
                writer.u32(part.total);
                writer.bytes(part.bytes);
            }
            Self::Ack { seq } => writer.u64(*seq),
            Self::Durable(cut) => writer.cut(cut),
            Self::Released { arrived, released, credit } => {
                [arrived, released, credit].into_iter().for_each(|clocks| writer.clocks(clocks));
            }
            Self::Taken { clocks, numbers } => {
                writer.clocks(clocks);
                numbers[..clocks.as_slice().len()].iter().for_each(|number| writer.u32(*number));
            }
            Self::Assign(assignment) => assignment.write(&mut writer),
            Self::Hello { me, configuration, arrived, echoed } => {
                put_incarnation(&mut writer, *me);
                writer.u64(*configuration);
                writer.u8(u8::from(arrived.is_some()));
                arrived.iter().for_each(|clocks| writer.clocks(clocks));
                writer.u32(*echoed);
            }
        }
        writer.finish()
    }
}

impl<'a> Part<'a> {
    /// Bytes of a message that fit a frame with a body of so many bytes.
    #[must_use]
    pub const fn bytes_in(body: usize) -> usize {
        body.saturating_sub(PART_BYTES)
    }

    fn of(mut reader: Reader<'a>) -> Option<Self> {
        let (offset, total) = (reader.u32()?, reader.u32()?);
        let bytes = reader.0;
        let end = u64::from(offset) + bytes.len() as u64;
        (end <= u64::from(total)).then_some(Self { offset, total, bytes })
    }
}

impl Assignment {
    fn of(reader: &mut Reader<'_>) -> Option<Self> {
        let active = incarnation(reader)?;
        let standby = if reader.flag()? { Some(incarnation(reader)?) } else { None };
        let (joined, handed_over, begun) = (reader.u32()?, reader.flag()?, reader.u32()?);
        Some(Self { active, standby, joined, handed_over, begun, log_begins_after: reader.clocks()? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        put_incarnation(writer, self.active);
        writer.u8(u8::from(self.standby.is_some()));
        self.standby.into_iter().for_each(|standby| put_incarnation(writer, standby));
        writer.u32(self.joined);
        writer.u8(u8::from(self.handed_over));
        writer.u32(self.begun);
        writer.clocks(&self.log_begins_after);
    }
}

fn incarnation(reader: &mut Reader<'_>) -> Option<Incarnation> {
    Some(Incarnation { node: reader.u8()?, boot: reader.u64()? })
}

fn put_incarnation(writer: &mut Writer<'_>, one: Incarnation) {
    writer.u8(one.node);
    writer.u64(one.boot);
}

/// Entry of the journal: packets of one lane that were delivered to an NF in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The NF.
    pub nf: u16,
    /// The lane.
    pub lane: u8,
    /// Number of packets.
    pub packets: u32,
}

impl Run {
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (nf, lane, _, packets) = (reader.u16()?, reader.u8()?, reader.u8()?, reader.u32()?);
        Some(Self { nf, lane, packets })
    }
}

/// How far a group is worked on, and a part of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    /// Number of this contents.
    pub seq: u64,
    /// Beginning of the journal for this standby.
    pub base: u64,
    /// Beginning of the entries in this message.
    pub from: u64,
    /// Clocks up to which every packet has its outputs in the latch.
    pub finished: Clocks,
    /// Clocks up to which outputs had left.
    pub released: Clocks,
    entries: &'a [u8],
}

impl<'a> Commit<'a> {
    /// Reads a whole message. Returns `None` when it is none.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (seq, base, from) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (finished, released) = (reader.clocks()?, reader.clocks()?);
        let entries = reader.items(RUN_BYTES)?;
        // The end of a range that wraps is before its beginning.
        from.checked_add((entries.len() / RUN_BYTES) as u64)?;
        Some(Self { seq, base, from, finished, released, entries })
    }

    /// Returns where its entries end.
    #[must_use]
    pub const fn to(&self) -> u64 {
        self.from + (self.entries.len() / RUN_BYTES) as u64
    }

    /// Returns its entries.
    pub fn entries(&self) -> impl Iterator<Item = Run> + 'a {
        self.entries.chunks_exact(RUN_BYTES).filter_map(Run::of)
    }

    /// Writes a whole message. Returns its length.
    ///
    /// # Errors
    /// [`NoRoomError`].
    pub fn write(
        room: &mut [u8],
        [seq, base, from]: [u64; 3],
        [finished, released]: [&Clocks; 2],
        entries: impl IntoIterator<Item = Run>,
    ) -> Result<usize, NoRoomError> {
        let mut writer = Writer::new(room);
        [seq, base, from].into_iter().for_each(|value| writer.u64(value));
        [finished, released].into_iter().for_each(|clocks| writer.clocks(clocks));
        for Run { nf, lane, packets } in entries {
            writer.u16(nf);
            writer.u16(u16::from(lane) << 8);
            writer.u32(packets);
        }
        writer.finish()
    }
}

/// State of one NF in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSum {
    /// The NF.
    pub nf: u16,
    /// Bytes of its state.
    pub bytes: u32,
    /// Sum of these ([`sum_of_state`](super::sum_of_state)).
    pub crc: u32,
}

/// End of a checkpoint, whose number is in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateEnd<'a> {
    /// Where it was made.
    pub cut: Cut,
    /// Number of the checkpoint since which state is what changed; 0: it is all of it.
    pub base: u32,
    sums: &'a [u8],
}

impl<'a> StateEnd<'a> {
    /// Reads a whole message. Returns `None` when it is none.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (cut, base) = (reader.cut()?, reader.u32()?);
        Some(Self { cut, base, sums: reader.items(SUM_BYTES)? })
    }

    /// Returns the sums of all NFs' state.
    pub fn sums(&self) -> impl Iterator<Item = StateSum> + 'a {
        let of = |bytes: &[u8]| {
            let mut reader = Reader(bytes);
            let (nf, _, bytes, crc) = (reader.u16()?, reader.u16()?, reader.u32()?, reader.u32()?);
            Some(StateSum { nf, bytes, crc })
        };
        self.sums.chunks_exact(SUM_BYTES).filter_map(of)
    }

    /// Writes a whole message. Returns its length.
    ///
    /// # Errors
    /// [`NoRoomError`].
    pub fn write(
        room: &mut [u8],
        cut: &Cut,
        base: u32,
        sums: impl IntoIterator<Item = StateSum>,
    ) -> Result<usize, NoRoomError> {
        let mut writer = Writer::new(room);
        writer.cut(cut);
        writer.u32(base);
        for StateSum { nf, bytes, crc } in sums {
            writer.u16(nf);
            writer.u16(0);
            writer.u32(bytes);
            writer.u32(crc);
        }
        writer.finish()
    }
}
