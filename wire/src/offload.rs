//! What Linux leaves to a network card that may not exist: checksums, and cutting long frames.
//!
//! Two hosts on one machine exchange frames of up to 64 KiB whose transport checksum is only begun: the field
//! holds the sum of the pseudo header. A *virtio header* beside the frame says what is left to do (`struct
//! virtio_net_hdr`, Virtual I/O Device 1.2, section 5.1.6; sockets get it with `PACKET_VNET_HDR`). Whoever
//! passes such a frame on as it is sends a wrong checksum, and whoever has small buffers a part of it.
//!
//! - [`Header`]: the virtio header; [`Header::work`] says what it asks for;
//! - [`Partial`]: a checksum that is begun, and its completion;
//! - [`Cut`]: a long frame as the segments that a card would have made of it;
//! - [`Train`]: the way back, segments that follow each other in one long frame.
//!
//! The header is as little believed as the frame: every length and offset is checked against the bytes that
//! are there, and what does not fit is an [`OffloadError`].

mod cut;
mod partial;
mod train;

pub use cut::{Cut, HEADERS_MAX};
pub use partial::Partial;
pub use train::{HEAD_BYTES, Segment, Train};

/// Bytes of the virtio header, as packet sockets and TAPs have it without further flags.
pub const HEADER_LENGTH: usize = 10;

/// In `flags`: the checksum is begun.
const NEEDS_CHECKSUM: u8 = 1;
/// In `kind`: the first segment of a train that reports a reduced congestion window.
const KIND_ECN: u8 = 0x80;
/// Kinds of long frames; 0 is one that is not long.
const KIND_TCP4: u8 = 1;
const KIND_TCP6: u8 = 4;
const KIND_UDP: u8 = 5;

/// A virtio header. Its words are in the order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    flags: u8,
    kind: u8,
    /// Bytes of all headers; a hint that nobody has to keep.
    headers_bytes: u16,
    /// Bytes of payload in each segment.
    segment_bytes: u16,
    /// Where the bytes begin that the checksum covers.
    checksum_start: u16,
    /// Where it stands behind that.
    checksum_offset: u16,
}

/// Work that is left to do on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// None: it is as it would be on a wire.
    Nothing,
    /// Its checksum.
    Checksum(Partial),
    /// Cutting.
    Cut(Cut),
}

/// Reason for which a virtio header does not belong to its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadError {
    /// The checksum's place is not in the frame.
    ChecksumPlace,
    /// Segments without payload.
    SegmentEmpty,
    /// The first segment would already be longer than the frame.
    SegmentBeyond,
    /// A kind that nobody knows, or that Linux no longer has.
    Kind,
    /// Headers that are not those of the kind, or malformed.
    Headers,
    /// More headers than anybody needs.
    HeadersLong,
}

impl core::fmt::Display for OffloadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::ChecksumPlace => "the place of the checksum lies outside the frame",
            Self::SegmentEmpty => "segments of 0 bytes are asked for",
            Self::SegmentBeyond => "segments longer than the whole frame are asked for",
            Self::Kind => "the kind of segmentation is unknown",
            Self::Headers => "the frame's headers are not those that the kind of segmentation says",
            Self::HeadersLong => "the frame's headers are too long to repeat in each segment",
        })
    }
}

impl core::error::Error for OffloadError {}

impl Header {
    /// Reads one.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; HEADER_LENGTH]) -> Self {
        let [flags, kind, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            kind,
            headers_bytes: u16::from_ne_bytes([a, b]),
            segment_bytes: u16::from_ne_bytes([c, d]),
            checksum_start: u16::from_ne_bytes([e, f]),
            checksum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let [a, b] = self.headers_bytes.to_ne_bytes();
        let [c, d] = self.segment_bytes.to_ne_bytes();
        let [e, f] = self.checksum_start.to_ne_bytes();
        let [g, h] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.kind, a, b, c, d, e, f, g, h]
    }

    /// Whether it asks for nothing.
    #[inline]
    #[must_use]
    pub const fn is_plain(self) -> bool {
        self.flags & NEEDS_CHECKSUM == 0 && self.kind & !KIND_ECN == 0
    }

    /// The same for a frame that has so many bytes put in front of what the checksum covers.
    #[must_use]
    pub const fn behind(self, bytes: u16) -> Self {
        Self { checksum_start: self.checksum_start.saturating_add(bytes), ..self }
    }

    /// Returns what it asks for.
    ///
    /// # Errors
    /// [`OffloadError`] when it cannot belong to this frame.
    pub fn work(self, frame: &[u8]) -> Result<Work, OffloadError> {
        if self.kind & !KIND_ECN != 0 {
            return Cut::new(self, frame).map(Work::Cut);
        }
        if self.flags & NEEDS_CHECKSUM == 0 {
            return Ok(Work::Nothing);
        }
        let (start, offset) = (usize::from(self.checksum_start), usize::from(self.checksum_offset));
        Partial::new(start, start + offset, frame.len()).map(Work::Checksum)
    }
}

#[cfg(test)]
mod tests;
