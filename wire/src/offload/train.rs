//! TCP segments that follow each other, as one long frame: the way back of [`super::Cut`].
//!
//! What a frame costs on its way through the kernel is by far more than what its bytes cost, so a burst that
//! leaves together leaves in as few frames as may be. Nothing is lost by it: segments join only where cutting
//! the long frame gives the very same segments again, and where their checksums were right, since those of
//! the long frame are computed anew. So: equal headers, sequence numbers and IPv4 identifications that count
//! on, equal lengths but for the last, PSH and FIN in the last only, CWR in the first only.

use super::header::{Header, KIND_ECN, KIND_TCP4, KIND_TCP6, NEEDS_CHECKSUM};
use super::partial::Layers;
use crate::bytes::{get16, get32, put16};
use crate::checksum::Sum;
use crate::ip::protocol;
use crate::tcp::{FLAGS_AT, flag};
use crate::{ipv4, ipv6, tcp};

/// First bytes of a frame that have to be known of a segment: Ethernet, two tags, IPv6, TCP with all options,
/// and rounded up to two cache lines.
pub const HEAD_BYTES: usize = 128;

/// The longest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// Flags that a segment in a train may have.
const PLAIN_FLAGS: u8 = flag::ACK | flag::PSH | flag::FIN | flag::ECE | flag::CWR;
/// Flags behind which a train ends.
const LAST_FLAGS: u8 = flag::PSH | flag::FIN;

/// A TCP segment that may be part of a train.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    head: [u8; HEAD_BYTES],
    layers: Layers,
    headers: usize,
    /// Pseudo header and TCP header.
    sum: Sum,
}

impl Segment {
    /// Reads the first bytes of a frame of that length; `None` where it cannot be part of a train.
    #[must_use]
    pub fn of(head: &[u8; HEAD_BYTES], length: usize) -> Option<Self> {
        let layers = Layers::of(&head[..length.min(HEAD_BYTES)], length)?;
        let network = if layers.is_ipv6 { ipv6::HEADER_LENGTH } else { ipv4::HEADER_LENGTH };
        let plain =
            layers.protocol == protocol::TCP && layers.l4 - layers.l3 == network && layers.end == length;
        let data_offset = usize::from(*head.get(layers.l4 + 12)? >> 4) * 4;
        let headers = layers.l4 + data_offset;
        if !plain || data_offset < tcp::HEADER_LENGTH || headers > HEAD_BYTES || headers >= length {
            return None;
        }
        let flags = head[layers.l4 + FLAGS_AT];
        if flags & flag::ACK == 0 || flags & !PLAIN_FLAGS != 0 {
            return None;
        }
        if !layers.is_ipv6 && Sum::new().bytes(&head[layers.l3..layers.l4]).finish() != 0 {
            return None;
        }
        let sum = layers.pseudo(head)?.bytes(&head[layers.l4..headers]);
        Some(Self { head: *head, layers, headers, sum })
    }

    /// Offset of the payload.
    #[must_use]
    pub const fn headers(&self) -> usize {
        self.headers
    }

    /// Whether the checksum is right with this payload.
    #[must_use]
    pub fn is_sound(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload() && self.sum.bytes(payload).finish() == 0
    }

    const fn payload(&self) -> usize {
        self.layers.end - self.headers
    }

    const fn flags(&self) -> u8 {
        self.head[self.layers.l4 + FLAGS_AT]
    }

    fn sequence(&self) -> u32 {
        get32(&self.head, self.layers.l4 + 4)
    }

    fn identification(&self) -> u16 {
        if self.layers.is_ipv6 { 0 } else { get16(&self.head, self.layers.l3 + 4) }
    }

    /// Whether the headers are equal, but for what differs between segments of a train.
    fn is_like(&self, other: &Self) -> bool {
        let Layers { l3, l4, is_ipv6, .. } = self.layers;
        if (l3, l4, is_ipv6, self.headers)
            != (other.layers.l3, other.layers.l4, other.layers.is_ipv6, other.headers)
        {
            return false;
        }
        let same = |from: usize, to: usize| self.head[from..to] == other.head[from..to];
        let network = if is_ipv6 {
            same(l3, l3 + 4) && same(l3 + 6, l4)
        } else {
            same(l3, l3 + 2) && same(l3 + 6, l3 + 10) && same(l3 + 12, l4)
        };
        let echo = (self.flags() ^ other.flags()) & flag::ECE == 0;
        let tcp = same(l4, l4 + 4) && same(l4 + 8, l4 + FLAGS_AT);
        let behind = same(l4 + 14, l4 + 16) && same(l4 + 18, self.headers);
        same(0, l3) && network && echo && tcp && behind
    }
}

/// Segments that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Train {
    first: Segment,
    segments: u16,
    payload: usize,
    /// PSH and FIN of the last.
    last_flags: u8,
    is_closed: bool,
}

impl Train {
    /// A train of one segment, whose checksum was right.
    #[must_use]
    pub const fn of(first: Segment) -> Self {
        let last_flags = first.flags() & LAST_FLAGS;
        Self { first, segments: 1, payload: first.payload(), last_flags, is_closed: last_flags != 0 }
    }

    /// Returns the first segment.
    #[must_use]
    pub const fn first(&self) -> &Segment {
        &self.first
    }

    /// Whether a frame that begins with `head` and has `length` bytes may be of the same connection, so that
    /// nothing behind it may come before it. One that is not understood may be.
    #[must_use]
    pub fn is_touched_by(&self, head: &[u8], length: usize) -> bool {
        let Some(layers) = Layers::of(head, length) else { return true };
        if layers.protocol != protocol::TCP || layers.is_ipv6 != self.first.layers.is_ipv6 {
            return false;
        }
        let of = |bytes: &[u8], layers: &Layers| {
            let (from, addresses) = if layers.is_ipv6 { (8, 32) } else { (12, 8) };
            let mut connection = [0; 36];
            connection[..addresses].copy_from_slice(bytes.get(layers.l3 + from..)?.get(..addresses)?);
            connection[32..].copy_from_slice(bytes.get(layers.l4..layers.l4 + 4)?);
            Some(connection)
        };
        of(head, &layers).is_none_or(|theirs| Some(theirs) == of(&self.first.head, &self.first.layers))
    }

    /// Number of segments.
    #[must_use]
    pub const fn segments(&self) -> u16 {
        self.segments
    }

    /// Whether a segment is the next one. Its checksum is still to be looked at.
    #[must_use]
    pub fn continues(&self, next: &Segment) -> bool {
        let first = &self.first;
        let bytes = first.headers - first.layers.l3 + self.payload + next.payload();
        !self.is_closed
            && next.payload() <= first.payload()
            && bytes <= PACKET_BYTES_MAX
            && next.sequence() == first.sequence().wrapping_add(self.payload as u32)
            && (first.layers.is_ipv6
                || next.identification() == first.identification().wrapping_add(self.segments))
            && next.flags() & flag::CWR == 0
            && first.is_like(next)
    }

    /// Adds the next segment, whose checksum was right.
    pub const fn add(&mut self, next: &Segment) {
        self.segments += 1;
        self.payload += next.payload();
        self.last_flags = next.flags() & LAST_FLAGS;
        self.is_closed = self.last_flags != 0 || next.payload() < self.first.payload();
    }

    /// Writes the headers of the long frame at the start of `frame`, and returns what stands beside it. The
    /// header of one segment alone is as it came.
    ///
    /// # Panics
    /// When `frame` is shorter than the headers.
    #[must_use]
    pub fn finish(&self, frame: &mut [u8]) -> Header {
        let Segment { head, layers, headers, .. } = &self.first;
        let Layers { l3, l4, is_ipv6, .. } = *layers;
        let frame = &mut frame[..*headers];
        frame.copy_from_slice(&head[..*headers]);
        if self.segments == 1 {
            return Header::default();
        }
        let bytes = headers - l3 + self.payload;
        let ip = &mut frame[l3..l4];
        if is_ipv6 {
            put16(ip, 4, (bytes - ipv6::HEADER_LENGTH) as u16);
        } else {
            put16(ip, 2, bytes as u16);
            put16(ip, ipv4::CHECKSUM_AT, 0);
            let checksum = Sum::new().bytes(ip).finish();
            put16(ip, ipv4::CHECKSUM_AT, checksum);
        }
        frame[l4 + FLAGS_AT] |= self.last_flags;
        let whole = Layers { end: l3 + bytes, ..*layers };
        let begun = whole.pseudo(frame).map_or(0, |sum| !sum.finish());
        put16(frame, l4 + tcp::CHECKSUM_AT, begun);
        self.header()
    }

    fn header(&self) -> Header {
        let Segment { layers, headers, .. } = &self.first;
        let kind = if layers.is_ipv6 { KIND_TCP6 } else { KIND_TCP4 };
        let reduced = self.first.flags() & flag::CWR != 0;
        Header {
            flags: NEEDS_CHECKSUM,
            kind: kind | if reduced { KIND_ECN } else { 0 },
            headers_bytes: *headers as u16,
            segment_bytes: self.first.payload() as u16,
            checksum_start: layers.l4 as u16,
            checksum_offset: tcp::CHECKSUM_AT as u16,
        }
    }
}
