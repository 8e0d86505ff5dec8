//! A long frame, cut as a network card would.
//!
//! Each segment has the headers of the whole with these differences (RFC 9293 for TCP, RFC 768 for UDP, and
//! what `tcp_gso_segment` and `__udp_gso_segment` of Linux do):
//! - lengths, checksums; IPv4 identifications count on from the first;
//! - TCP: the sequence number; FIN and PSH in the last only; CWR in the first only (RFC 3168, section 6.1.2:
//!   it is said once); the urgent pointer counts from the segment's own sequence number, and stands only in
//!   segments that do not lie behind it (Linux repeats it, and never makes such frames).
//!
//! Rejected: adjusting the whole's header in place from segment to segment, as Linux does; a segment would
//! depend on those before it, and a worker stops in between when buffers run out.

use super::header::{Header, KIND_ECN, KIND_TCP4, KIND_TCP6, KIND_UDP, NEEDS_CHECKSUM, OffloadError};
use super::partial::Layers;
use crate::bytes::{get16, get32, put16, put32};
use crate::checksum::Sum;
use crate::ip::protocol;
use crate::tcp::{FLAGS_AT, flag};
use crate::{ipv4, ipv6, tcp, udp};

/// Maximum bytes of headers. Our choice: Ethernet, two tags, IPv6, TCP with all options, and 300 bytes of
/// extension headers.
pub const HEADERS_MAX: usize = 432;

const URGENT_AT: usize = 18;

/// A plan to cut a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    layers: Layers,
    /// Offset of the payload.
    headers: usize,
    segment_bytes: usize,
    /// The pseudo header without length; `None`: the segments have no checksum, as UDP over IPv4 may.
    pseudo: Option<Sum>,
}

impl Cut {
    pub(super) fn new(header: Header, frame: &[u8]) -> Result<Self, OffloadError> {
        let (wanted, is_ipv6) = match header.kind & !KIND_ECN {
            KIND_TCP4 => (protocol::TCP, Some(false)),
            KIND_TCP6 => (protocol::TCP, Some(true)),
            KIND_UDP => (protocol::UDP, None),
            _ => return Err(OffloadError::Kind),
        };
        let layers = Layers::of(frame, frame.len()).ok_or(OffloadError::Headers)?;
        if layers.protocol != wanted || is_ipv6.is_some_and(|is_ipv6| is_ipv6 != layers.is_ipv6) {
            return Err(OffloadError::Headers);
        }
        let headers = layers.l4 + transport_header_length(&layers, frame)?;
        if headers > HEADERS_MAX {
            return Err(OffloadError::HeadersLong);
        }
        let segment_bytes = usize::from(header.segment_bytes);
        if segment_bytes == 0 {
            return Err(OffloadError::SegmentEmpty);
        }
        if segment_bytes > layers.end - headers {
            return Err(OffloadError::SegmentBeyond);
        }
        let pseudo = pseudo(header, &layers, frame)?;
        Ok(Self { layers, headers, segment_bytes, pseudo })
    }

    /// Number of segments, at least 1.
    #[must_use]
    pub const fn segments(&self) -> usize {
        (self.layers.end - self.headers).div_ceil(self.segment_bytes)
    }

    /// Bytes of the longest segment, headers included.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        self.headers + self.segment_bytes
    }

    /// Writes the headers of a segment, counted from 0; returns their bytes, and the payload behind them.
    ///
    /// # Panics
    /// When there is no such segment, or `frame` is not the one that the plan was made for.
    #[must_use]
    pub fn segment<'f, 'h>(
        &self,
        frame: &'f [u8],
        number: usize,
        headers: &'h mut [u8; HEADERS_MAX],
    ) -> (&'h [u8], &'f [u8]) {
        let headers = &mut headers[..self.headers];
        headers.copy_from_slice(&frame[..self.headers]);
        let at = number * self.segment_bytes;
        let whole = &frame[self.headers..self.layers.end];
        let payload = &whole[at..whole.len().min(at + self.segment_bytes)];
        self.write_network(headers, number, payload.len());
        if self.layers.protocol == protocol::TCP {
            write_tcp(&mut headers[self.layers.l4..], at, at + payload.len() == whole.len());
        }
        self.write_checksum(headers, payload);
        (headers, payload)
    }

    fn write_network(&self, headers: &mut [u8], number: usize, payload: usize) {
        let Layers { l3, l4, is_ipv6, .. } = self.layers;
        let bytes = headers.len() - l3 + payload;
        if self.layers.protocol == protocol::UDP {
            put16(&mut headers[l4..], udp::LENGTH_AT, (udp::HEADER_LENGTH + payload) as u16);
        }
        let ip = &mut headers[l3..l4];
        if is_ipv6 {
            put16(ip, 4, (bytes - ipv6::HEADER_LENGTH) as u16);
            return;
        }
        put16(ip, 2, bytes as u16);
        put16(ip, 4, get16(ip, 4).wrapping_add(number as u16));
        put16(ip, ipv4::CHECKSUM_AT, 0);
        let checksum = Sum::new().bytes(ip).finish();
        put16(ip, ipv4::CHECKSUM_AT, checksum);
    }

    fn write_checksum(&self, headers: &mut [u8], payload: &[u8]) {
        let Some(pseudo) = self.pseudo else { return };
        let place = self.layers.l4 + self.layers.checksum_offset().unwrap_or_default();
        let length = headers.len() - self.layers.l4 + payload.len();
        put16(headers, place, 0);
        // Headers have an even number of bytes, so the payload is the only piece that may be odd.
        let sum = pseudo.word(length as u16).bytes(&headers[self.layers.l4..]).bytes(payload);
        let is_udp = self.layers.protocol == protocol::UDP;
        put16(headers, place, if is_udp { sum.finish_udp() } else { sum.finish() });
    }
}

/// Length of the transport header, checked, in a frame or its first bytes.
pub(super) fn transport_header_length(layers: &Layers, frame: &[u8]) -> Result<usize, OffloadError> {
    let segment = frame.get(layers.l4..layers.end.min(frame.len())).ok_or(OffloadError::Headers)?;
    if layers.protocol == protocol::UDP {
        let is_whole = segment.len() >= udp::HEADER_LENGTH;
        return if is_whole { Ok(udp::HEADER_LENGTH) } else { Err(OffloadError::Headers) };
    }
    tcp::Segment::new(segment).map(|tcp| tcp.header_length()).map_err(|_| OffloadError::Headers)
}

/// The pseudo header of all segments, without length.
///
/// Where the checksum is begun the sum is already there, and right also behind a routing header; only the
/// length is taken out of it. Else it is computed, unless it is a UDP checksum that the sender left away.
fn pseudo(header: Header, layers: &Layers, frame: &[u8]) -> Result<Option<Sum>, OffloadError> {
    let offset = layers.checksum_offset().ok_or(OffloadError::Headers)?;
    let stands = get16(frame, layers.l4 + offset);
    let length = layers.end - layers.l4;
    if header.flags & NEEDS_CHECKSUM != 0 {
        let (start, there) = (usize::from(header.checksum_start), usize::from(header.checksum_offset));
        if (start, there) != (layers.l4, offset) {
            return Err(OffloadError::ChecksumPlace);
        }
        return Ok(Some(Sum::new().word(stands).word(!(length as u16))));
    }
    if layers.protocol == protocol::UDP && stands == 0 && !layers.is_ipv6 {
        return Ok(None);
    }
    let whole = layers.pseudo(frame).ok_or(OffloadError::Headers)?;
    Ok(Some(whole.word(!(length as u16))))
}

/// What a TCP header says in the segment whose payload begins `at` bytes into the whole's.
fn write_tcp(tcp: &mut [u8], at: usize, is_last: bool) {
    put32(tcp, 4, get32(tcp, 4).wrapping_add(at as u32));
    if at > 0 {
        tcp[FLAGS_AT] &= !flag::CWR;
    }
    if !is_last {
        tcp[FLAGS_AT] &= !(flag::FIN | flag::PSH);
    }
    if tcp[FLAGS_AT] & flag::URG != 0 {
        let urgent = usize::from(get16(tcp, URGENT_AT));
        match urgent.checked_sub(at).filter(|&left| left > 0 || at == 0) {
            Some(left) => put16(tcp, URGENT_AT, left as u16),
            None => {
                tcp[FLAGS_AT] &= !flag::URG;
                put16(tcp, URGENT_AT, 0);
            }
        }
    }
}
