//! Header of a frame, and the frame as it came.

use core::fmt;

use crc::{CRC_32_ISCSI, Crc, Table};

use crate::bytes::{array, get16, get32, put16, put32};
use crate::{NoRoomError, ethernet, length_field};

/// Type of the frames in an Ethernet header: the first of those for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// The version that is written and read.
pub const VERSION: u8 = 6;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;
/// Bytes in front of a packet or body: the Ethernet header and ours.
pub const FRONT_BYTES: usize = ethernet::HEADER_LENGTH + HEADER_BYTES;

/// Offset of the group's number.
pub const GROUP_AT: u8 = 4;

const LENGTH_AT: usize = 2;
const CRC_AT: usize = 24;

/// Sum of Castagnoli, which RFC 3385 found to miss the fewest errors in frames of this size.
static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

macro_rules! kinds {
    ($($variant:ident $number:literal $name:literal $sentence:literal;)*) => {
        /// Kind of a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $sentence] $variant = $number,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name in counters and `--json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the kind of this number.
            #[must_use]
            pub const fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

kinds! {
    Data       1  "data"       "Gate to node: one packet.";
    Nack       2  "nack"       "Active node to gate: the packet of this lane and clock is missing, and all behind it.";
    Commit     3  "commit"     "Active node to standby: how far the group is worked on, and a part of the journal.";
    Ack        4  "ack"        "Standby to active node: everything up to and with this commit is stored.";
    State      5  "state"      "Active node to standby: state of one NF at a cut.";
    StateEnd   6  "state-end"  "Active node to standby: the cut, and the sums of all NFs' state.";
    Durable    7  "durable"    "Standby to active node and gate: a checkpoint is stored.";
    Released   8  "released"   "Active node to gate: how far it came, and up to where there is room.";
    Out        9  "out"        "Active node to gate: one packet that leaves its chain.";
    Assign     10 "assign"     "Gate to nodes: their parts in a view. Node to gate: those that it goes by.";
    Hello      11 "hello"      "Node to gate: which one this is, of which configuration.";
    Checkpoint 12 "checkpoint" "Gate to active node: copy the group soon.";
    Unanswered 13 "unanswered" "Active node to gate: the standby does not answer, and outputs wait.";
    HandOver   14 "hand-over"  "Node to gate: make the standby active with a last copy of all state, or do not.";
    FailOver   15 "fail-over"  "Active node to gate: make the standby active, by a replay.";
    Probe      16 "probe"      "Node without a part to the other one: answer, if you work.";
    Echo       17 "echo"       "Active node to the other one: the answer.";
    Taken      19 "taken"      "Gate to active node: the outputs that it has, and which are to be sent again.";
    Settings   18 "settings"   "What a node's file says, to one that has another: the clock is its hash.";
}

impl Kind {
    /// Returns whether the body is a packet, which the sum does not cover.
    #[must_use]
    pub const fn has_packet(self) -> bool {
        matches!(self, Self::Data | Self::Out)
    }
}

/// Reason why bytes are no frame that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame ends inside the header or the body.
    Truncated,
    /// The version is another one.
    Version(u8),
    /// There is no such kind.
    Kind(u8),
    /// The sum is not that of the bytes.
    Crc,
    /// The body is not one of its kind.
    Body,
}

impl FrameError {
    /// All reasons, as in [`FrameError::index`].
    pub const NAMES: [&'static str; 5] = ["truncated", "version", "kind", "crc", "body"];

    /// Returns the number of the reason, an index of [`FrameError::NAMES`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Truncated => 0,
            Self::Version(_) => 1,
            Self::Kind(_) => 2,
            Self::Crc => 3,
            Self::Body => 4,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the frame between nodes ends inside its header or body"),
            Self::Version(version) => {
                write!(f, "the frame between nodes has version {version}, which is not {VERSION}")
            }
            Self::Kind(kind) => write!(f, "there is no frame between nodes of kind {kind}"),
            Self::Crc => f.write_str("the sum of the frame between nodes is not that of its bytes"),
            Self::Body => f.write_str("the body of the frame between nodes is not one of its kind"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: Kind,
    /// Number of the group.
    pub group: u16,
    /// The lane; of [`Kind::State`] the NF.
    pub lane: u16,
    /// View that it is sent in.
    pub view: u32,
    /// The last 32 bits of a commit's number, the number of a checkpoint, or of a packet's output; of
    /// [`Kind::HandOver`] 1 where it is wanted; of [`Kind::Taken`] the lanes of which outputs are missing, by
    /// their bits; of [`Kind::Data`] the low half of its time ([`Header::time_us`]).
    pub seq: u32,
    /// Clock of a packet; of a missing one; of [`Kind::Taken`] the gate's life.
    pub clock: u64,
    /// Of [`Kind::Data`] the high half of its time ([`Header::time_us`]); of [`Kind::Out`] the output before
    /// it in its lane ([`Header::after`]); 0 of any other.
    pub time: u32,
}

/// The output before one, where that cannot be said: none, or one too far away.
const AFTER_UNKNOWN: u32 = u32::MAX;
/// Bits of the number of the output before one; those above are how many clocks it is away.
const AFTER_NUMBER_BITS: u32 = 8;

impl Header {
    /// Returns a header of a kind that concerns no packet.
    #[must_use]
    pub const fn of(kind: Kind, group: u16, view: u32) -> Self {
        Self { kind, group, lane: 0, view, seq: 0, clock: 0, time: 0 }
    }

    /// Sets when a packet came to the gate, in microseconds.
    #[must_use]
    pub const fn at(self, time_us: u64) -> Self {
        Self { time: (time_us >> 32) as u32, seq: time_us as u32, ..self }
    }

    /// Returns when a packet came to the gate, in microseconds of the gate's time.
    #[must_use]
    pub const fn time_us(&self) -> u64 {
        (self.time as u64) << 32 | self.seq as u64
    }

    /// Sets the output before this one: its clock and number, which are 0 where there is none.
    ///
    /// One that is 2^24 - 1 clocks away, or has a number above 255, cannot be told and is left out: the
    /// receiver does not miss it then. No NF drops or makes as many packets in a row.
    #[must_use]
    pub const fn behind(self, (clock, number): (u64, u32)) -> Self {
        let away = self.clock.saturating_sub(clock);
        let is_near = away < (1 << (32 - AFTER_NUMBER_BITS)) - 1;
        let can_be_told = clock > 0 && is_near && number < 1 << AFTER_NUMBER_BITS;
        let word = (away as u32) << AFTER_NUMBER_BITS | number;
        Self { time: if can_be_told { word } else { AFTER_UNKNOWN }, ..self }
    }

    /// Returns clock and number of the output before this one; 0 where there is none.
    #[must_use]
    pub const fn after(&self) -> (u64, u32) {
        if self.time == AFTER_UNKNOWN {
            return (0, 0);
        }
        let away = self.time >> AFTER_NUMBER_BITS;
        (self.clock.saturating_sub(away as u64), self.time & ((1 << AFTER_NUMBER_BITS) - 1))
    }

    /// Returns the bytes of the header in front of this body. Those of a packet need not be at hand: only its
    /// length counts.
    ///
    /// # Errors
    /// [`NoRoomError`] with a body that is longer than 65,535 bytes.
    pub fn bytes(&self, body: Body<'_>) -> Result<[u8; HEADER_BYTES], NoRoomError> {
        let length = match body {
            Body::Packet(length) => length,
            Body::Bytes(bytes) => bytes.len(),
        };
        let mut out = [0; HEADER_BYTES];
        (out[0], out[1]) = (VERSION, self.kind as u8);
        put16(&mut out, LENGTH_AT, length_field(length)?);
        put16(&mut out, GROUP_AT.into(), self.group);
        put16(&mut out, 6, self.lane);
        put32(&mut out, 8, self.view);
        put32(&mut out, 12, self.seq);
        out[16..CRC_AT].copy_from_slice(&self.clock.to_be_bytes());
        put32(&mut out, 28, self.time);
        let summed = match body {
            Body::Bytes(bytes) => bytes,
            Body::Packet(_) => &[],
        };
        let sum = sum_of(&out, summed);
        put32(&mut out, CRC_AT, sum);
        Ok(out)
    }

    /// Reads a header. Returns it with the length of the body, which the caller has to have. In front of a
    /// packet it is checked by its sum; in front of anything else that is [`Frame::new`]'s to do.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn read(head: &[u8; HEADER_BYTES]) -> Result<(Self, usize), FrameError> {
        if head[0] != VERSION {
            return Err(FrameError::Version(head[0]));
        }
        let kind = Kind::of(head[1]).ok_or(FrameError::Kind(head[1]))?;
        if kind.has_packet() && sum_of(head, &[]) != get32(head, CRC_AT) {
            return Err(FrameError::Crc);
        }
        let header = Self {
            kind,
            group: get16(head, GROUP_AT.into()),
            lane: get16(head, 6),
            view: get32(head, 8),
            seq: get32(head, 12),
            clock: u64::from_be_bytes(array(head, 16)),
            time: get32(head, 28),
        };
        Ok((header, usize::from(get16(head, LENGTH_AT))))
    }
}

/// Body that a header is written for.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// A packet of so many bytes.
    Packet(usize),
    /// Bytes that the sum covers.
    Bytes(&'a [u8]),
}

/// Returns the sum of a header, its own field taken as zero, and of a body.
fn sum_of(header: &[u8; HEADER_BYTES], body: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(&header[..CRC_AT]);
    digest.update(&header[CRC_AT + 4..]);
    digest.update(body);
    digest.finalize()
}

/// Returns the sum of a whole state, as an end of state has it.
#[must_use]
pub fn sum_of_state(bytes: &[u8]) -> u32 {
    CRC.checksum(bytes)
}

/// Frame that came: a header, and a body of the length that it states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    header: Header,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads what is behind the Ethernet header. Bytes behind the body are padding.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Truncated)?;
        let (header, length) = Header::read(head)?;
        let body = rest.get(..length).ok_or(FrameError::Truncated)?;
        if !header.kind.has_packet() && sum_of(head, body) != get32(head, CRC_AT) {
            return Err(FrameError::Crc);
        }
        Ok(Self { header, body })
    }

    /// Returns its header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns its body.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}
