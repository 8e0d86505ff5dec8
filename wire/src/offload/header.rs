//! The virtio header, and what is wrong with one.

/// Bytes of the virtio header, as packet sockets and TAPs have it without further flags.
pub const HEADER_LENGTH: usize = 10;

/// In `flags`: the checksum is begun.
pub(super) const NEEDS_CHECKSUM: u8 = 1;
/// In `kind`: the first segment of a train that reports a reduced congestion window.
pub(super) const KIND_ECN: u8 = 0x80;
/// Kinds of long frames; 0 is one that is not long.
pub(super) const KIND_TCP4: u8 = 1;
pub(super) const KIND_TCP6: u8 = 4;
pub(super) const KIND_UDP: u8 = 5;

/// A virtio header. Its words are in the order of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub(super) flags: u8,
    pub(super) kind: u8,
    /// Bytes of all headers; a hint that nobody has to keep.
    pub(super) headers_bytes: u16,
    /// Bytes of payload in each segment.
    pub(super) segment_bytes: u16,
    /// Where the bytes begin that the checksum covers.
    pub(super) checksum_start: u16,
    /// Where it stands behind that.
    pub(super) checksum_offset: u16,
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
}
