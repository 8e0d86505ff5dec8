//! A long frame that travels whole, and what is left to do on it.
//!
//! What Linux said beside the frame when it came is kept where no NF can reach it. When the frame leaves, its
//! headers are read again, and what is said beside it is made of both: they have to be where they were, of
//! the protocol they were, and of lengths that fit; else nothing is sent. The begun checksum is written anew,
//! since it covers nothing but addresses and a length: so it is right whatever NFs did with the field.

use super::cut::{HEADERS_MAX, transport_header_length};
use super::header::{Header, KIND_ECN, KIND_TCP4, KIND_TCP6, KIND_UDP, NEEDS_CHECKSUM, OffloadError};
use super::partial::Layers;
use crate::bytes::{get16, put16};
use crate::checksum::Sum;
use crate::ip::protocol;
use crate::tcp::{FLAGS_AT, flag};
use crate::udp;

/// Bytes of a note, by which NFs are told of a long frame.
pub const NOTE_LENGTH: usize = 16;

/// First byte of a note that says something.
const TOLD: u8 = 1;

/// What is left to do on a frame of TCP or UDP: its checksum is begun, and it may have to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongFrame {
    protocol: u8,
    /// Bytes of payload in each segment; 0: it is one packet.
    segment_bytes: u16,
    /// Offset of the payload when it came.
    headers: u16,
    /// Offset of the transport header when it came.
    l4: u16,
}

/// A frame as it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What stands beside it.
    pub header: Header,
    /// Bytes of its headers.
    pub headers: usize,
    /// Where the frame ends: what is behind the IP packet does not leave.
    pub end: usize,
    /// Bytes of the longest frame that it becomes.
    pub frame_bytes_max: usize,
}

impl LongFrame {
    /// Reads what a virtio header says of a frame that begins with `head` and has `length` bytes. `None`
    /// where it cannot travel whole: another protocol, a checksum that is not begun, or headers of which an
    /// NF could not keep the checksum (a routing header).
    #[must_use]
    pub fn new(header: Header, head: &[u8], length: usize) -> Option<Self> {
        let layers = Layers::of(head, length)?;
        let headers = layers.l4 + transport_header_length(&layers, head).ok()?;
        let begun = header.flags & NEEDS_CHECKSUM != 0
            && usize::from(header.checksum_start) == layers.l4
            && Some(usize::from(header.checksum_offset)) == layers.checksum_offset();
        let segment_bytes = match header.kind & !KIND_ECN {
            0 => 0,
            kind if kind == kind_of(&layers) && header.segment_bytes > 0 => header.segment_bytes,
            _ => return None,
        };
        layers.pseudo(head)?;
        (begun && headers <= HEADERS_MAX && usize::from(segment_bytes) <= layers.end - headers).then_some(
            Self { protocol: layers.protocol, segment_bytes, headers: headers as u16, l4: layers.l4 as u16 },
        )
    }

    /// Whether it will be cut.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.segment_bytes > 0
    }

    /// Bytes of payload in each packet that it will be; `None`: it is one.
    #[must_use]
    pub const fn segment_bytes(&self) -> Option<usize> {
        if self.segment_bytes > 0 { Some(self.segment_bytes as usize) } else { None }
    }

    /// Number of packets that a frame of that length will be.
    #[must_use]
    pub fn segments(&self, length: usize) -> usize {
        let payload = length.saturating_sub(usize::from(self.headers));
        self.segment_bytes().map_or(1, |bytes| payload.div_ceil(bytes).max(1))
    }

    /// What NFs are told of it.
    #[must_use]
    pub fn to_note(self) -> [u8; NOTE_LENGTH] {
        let mut note = [0; NOTE_LENGTH];
        (note[0], note[1]) = (TOLD, self.protocol);
        for (at, value) in [(2, self.segment_bytes), (4, self.headers), (6, self.l4)] {
            note[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        note
    }

    /// Reads a note.
    #[must_use]
    pub fn from_note(note: [u8; NOTE_LENGTH]) -> Option<Self> {
        let [told, protocol, a, b, c, d, e, f, ..] = note;
        (told == TOLD).then_some(Self {
            protocol,
            segment_bytes: u16::from_le_bytes([a, b]),
            headers: u16::from_le_bytes([c, d]),
            l4: u16::from_le_bytes([e, f]),
        })
    }

    /// One word of what has to be kept of a frame that begins at `offset` of its buffer. Offsets count from
    /// the start of the buffer there, so that an NF may put a tag in front or take one away.
    #[must_use]
    pub const fn to_word(self, offset: u32) -> u64 {
        1 | (self.protocol as u64) << 8
            | (self.segment_bytes as u64) << 16
            | ((self.l4 as u64) + offset as u64) << 32
    }

    /// Reads a word, of a frame that begins at `offset` of its buffer now. `None` when nothing was kept, or
    /// the frame begins behind its transport header.
    #[must_use]
    pub fn from_word(word: u64, offset: u32) -> Option<Self> {
        let l4 = ((word >> 32) as u32).checked_sub(offset)?;
        (word & 1 != 0).then_some(Self {
            protocol: (word >> 8) as u8,
            segment_bytes: (word >> 16) as u16,
            headers: 0,
            l4: u16::try_from(l4).ok()?,
        })
    }

    /// Makes what stands beside the frame when it leaves. `head` is a private copy of its first bytes, at
    /// most [`HEADERS_MAX`]; the begun checksum is written there.
    ///
    /// # Errors
    /// [`OffloadError`]: what NFs made of the frame is not what was kept.
    pub fn leave(self, head: &mut [u8], length: usize) -> Result<Leaving, OffloadError> {
        let layers = Layers::of(head, length).ok_or(OffloadError::Headers)?;
        if layers.protocol != self.protocol {
            return Err(OffloadError::Headers);
        }
        if layers.l4 != usize::from(self.l4) {
            return Err(OffloadError::ChecksumPlace);
        }
        let headers = layers.l4 + transport_header_length(&layers, head)?;
        let (l4, is_tcp) = (layers.l4, layers.protocol == protocol::TCP);
        let udp_length = || usize::from(get16(head, l4 + udp::LENGTH_AT));
        if headers > head.len()
            || !layers.is_ipv6 && Sum::new().bytes(&head[layers.l3..l4]).finish() != 0
            || !is_tcp && udp_length() != layers.end - l4
        {
            return Err(OffloadError::Headers);
        }
        let begun = !layers.pseudo(head).ok_or(OffloadError::Headers)?.finish();
        let offset = layers.checksum_offset().ok_or(OffloadError::Headers)?;
        put16(head, l4 + offset, begun);
        let is_cut = self.is_cut() && layers.end - headers > usize::from(self.segment_bytes);
        let reduced = is_tcp && head[l4 + FLAGS_AT] & flag::CWR != 0;
        let header = Header {
            flags: NEEDS_CHECKSUM,
            kind: if is_cut { kind_of(&layers) | if reduced { KIND_ECN } else { 0 } } else { 0 },
            headers_bytes: headers as u16,
            segment_bytes: if is_cut { self.segment_bytes } else { 0 },
            checksum_start: l4 as u16,
            checksum_offset: offset as u16,
        };
        let frame_bytes_max = if is_cut { headers + usize::from(self.segment_bytes) } else { layers.end };
        Ok(Leaving { header, headers, end: layers.end, frame_bytes_max })
    }
}

/// The kind of segmentation of a frame with these layers; of UDP where it is not TCP.
const fn kind_of(layers: &Layers) -> u8 {
    match (layers.protocol, layers.is_ipv6) {
        (protocol::TCP, false) => KIND_TCP4,
        (protocol::TCP, true) => KIND_TCP6,
        _ => KIND_UDP,
    }
}
