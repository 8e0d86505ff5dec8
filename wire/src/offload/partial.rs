//! A checksum that is begun.

use crc::{CRC_32_ISCSI, Crc};

use super::header::OffloadError;
use crate::bytes::{array, get16};
use crate::checksum::Sum;
use crate::flow_key::{Fragment, Parsed, parse};
use crate::ip::protocol;
use crate::{ipv4, ipv6, tcp, udp};

/// Offset of SCTP's checksum in its common header (RFC 9260, section 3.1).
const SCTP_CHECKSUM_AT: usize = 8;
/// CRC-32C, the checksum of SCTP (RFC 9260, appendix A).
const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Where a checksum is that is only begun, and what it is to cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    kind: Kind,
    start: usize,
    place: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The sum of the Internet protocols, whose place holds that of the pseudo header.
    Sum,
    /// SCTP's, whose place holds zeroes.
    Crc32c,
}

/// The bytes of a checksum as they stand in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    bytes: [u8; 4],
    length: usize,
}

impl AsRef<[u8]> for Checksum {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Kind {
    const fn bytes(self) -> usize {
        match self {
            Self::Sum => 2,
            Self::Crc32c => 4,
        }
    }
}

impl Partial {
    /// The checksum that a virtio header asks for, over the bytes of a frame from `start`, at `place` among
    /// them. The header does not tell SCTP's from others; the frame does.
    pub(super) fn asked(frame: &[u8], start: usize, place: usize) -> Result<Self, OffloadError> {
        let is_sctp = place == start + SCTP_CHECKSUM_AT
            && Layers::of(frame, frame.len())
                .is_some_and(|layers| layers.l4 == start && layers.protocol == protocol::SCTP);
        Self::new(if is_sctp { Kind::Crc32c } else { Kind::Sum }, start, place, frame.len())
    }

    fn new(kind: Kind, start: usize, place: usize, end: usize) -> Result<Self, OffloadError> {
        if start <= place && place + kind.bytes() <= end {
            Ok(Self { kind, start, place, end })
        } else {
            Err(OffloadError::ChecksumPlace)
        }
    }

    /// Finds a checksum that is begun where nobody says so: in its place stands the sum of the pseudo header,
    /// or for SCTP zeroes. One in 65536 that are complete looks so too, and completing it gives the same.
    /// `head` is the frame's beginning, as for [`parse`], `length` that of the whole frame.
    ///
    /// Only TCP, UDP and SCTP, and over IPv6 not TCP and UDP behind a routing header.
    #[must_use]
    pub fn find(head: &[u8], length: usize) -> Option<Self> {
        let layers = Layers::of(head, length)?;
        if layers.protocol == protocol::SCTP {
            let place = layers.l4 + SCTP_CHECKSUM_AT;
            (head.get(place..place + 4)? == [0; 4]).then_some(())?;
            return Self::new(Kind::Crc32c, layers.l4, place, layers.end).ok();
        }
        let place = layers.l4 + layers.checksum_offset()?;
        let stands = get16(head.get(place..place + 2)?, 0);
        let begun = !layers.pseudo(head)?.finish();
        (stands == begun).then_some(())?;
        Self::new(Kind::Sum, layers.l4, place, layers.end).ok()
    }

    /// Returns where the checksum stands in its frame, and what it is when it is complete.
    ///
    /// # Panics
    /// When the frame is shorter than the one it was found in.
    #[must_use]
    pub fn complete(self, frame: &[u8]) -> (usize, Checksum) {
        let covered = &frame[self.start..self.end];
        let bytes = match self.kind {
            // Where the place is at an odd offset the bytes count as they stand; no protocol has that.
            Kind::Sum => {
                let [high, low] = Sum::new().bytes(covered).finish_udp().to_be_bytes();
                [high, low, 0, 0]
            }
            // Whatever stands in its place counts as zeroes; least significant byte first.
            Kind::Crc32c => {
                let (before, behind) = covered.split_at(self.place - self.start);
                let mut digest = CRC32C.digest();
                [before, &[0; 4], &behind[4..]].into_iter().for_each(|part| digest.update(part));
                digest.finalize().to_le_bytes()
            }
        };
        (self.place, Checksum { bytes, length: self.kind.bytes() })
    }

    /// Completes the checksum in its frame.
    ///
    /// # Panics
    /// As [`Partial::complete`].
    pub fn fill(self, frame: &mut [u8]) {
        let (place, checksum) = self.complete(frame);
        let checksum = checksum.as_ref();
        frame[place..place + checksum.len()].copy_from_slice(checksum);
    }
}

/// Offsets of the layers of a frame with TCP or UDP, whole, over IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    pub(super) l3: usize,
    pub(super) l4: usize,
    /// Behind the IP payload.
    pub(super) end: usize,
    pub(super) protocol: u8,
    pub(super) is_ipv6: bool,
}

impl Layers {
    /// Finds them; `head` is the frame's beginning.
    pub(super) fn of(head: &[u8], length: usize) -> Option<Self> {
        let (protocol, place) = match parse(head, length) {
            Parsed::Ipv4 { key, place } => (key.protocol(), place),
            Parsed::Wide { key, place } => (key.protocol(), place),
            Parsed::NeedMore { .. } | Parsed::Malformed(_) => return None,
        };
        if place.fragment != Fragment::None {
            return None;
        }
        let (l3, l4) = (usize::from(place.l3), usize::from(place.l4));
        // Not IP has its payload where its network header would be.
        let ip = head.get(l3..l4).filter(|ip| ip.len() >= ipv4::HEADER_LENGTH)?;
        let is_ipv6 = ip[0] >> 4 == 6;
        let bytes =
            if is_ipv6 { ipv6::HEADER_LENGTH + usize::from(get16(ip, 4)) } else { usize::from(get16(ip, 2)) };
        let layers = Self { l3, l4, end: l3 + bytes, protocol, is_ipv6 };
        (layers.end <= length && l4 <= layers.end).then_some(layers)
    }

    /// Where the checksum stands in the transport header.
    pub(super) const fn checksum_offset(&self) -> Option<usize> {
        match self.protocol {
            protocol::TCP => Some(tcp::CHECKSUM_AT),
            protocol::UDP => Some(udp::CHECKSUM_AT),
            _ => None,
        }
    }

    /// The pseudo header. `None` where another address than that of the header belongs into it.
    pub(super) fn pseudo(&self, head: &[u8]) -> Option<Sum> {
        let ip = head.get(self.l3..self.l4)?;
        let length = self.end - self.l4;
        if !self.is_ipv6 {
            let [source, destination] = [12, 16].map(|at| array::<4>(ip, at).into());
            return Some(Sum::pseudo_ipv4(source, destination, self.protocol, length as u16));
        }
        // RFC 8200, section 8.1: with a routing header, the last address of the route.
        if ip[6] == protocol::ROUTING || ip.len() > ipv6::HEADER_LENGTH && self.has_routing(ip) {
            return None;
        }
        let [source, destination] = [8, 24].map(|at| array::<16>(ip, at).into());
        Some(Sum::pseudo_ipv6(source, destination, self.protocol, length as u32))
    }

    /// Whether a routing header is among the extension headers; the walk was checked by [`parse`].
    fn has_routing(&self, ip: &[u8]) -> bool {
        let mut walk = ipv6::Walk::new(ip[6]);
        while walk.at_extension() {
            if walk.next_header == protocol::ROUTING {
                return true;
            }
            let head = ip.get(walk.offset..).and_then(|rest| rest.first_chunk());
            if head.is_none_or(|head| walk.step(head).is_err()) {
                return false;
            }
        }
        false
    }
}
