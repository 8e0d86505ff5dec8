//! The errors a router sends about a packet it drops, and when it must stay silent.
//!
//! An error quotes the packet: in IPv4 as much as keeps the whole packet within 576 bytes (RFC 1812 §4.3.2.3,
//! which replaces the 8 bytes of RFC 792), in IPv6 within the minimum MTU of 1280 bytes (RFC 4443
//! §2.4 c). When to be silent: RFC 1812 §4.3.2.7 and RFC 4443 §2.4 e. Limiting the rate (RFC 1812
//! §4.3.2.8, RFC 4443 §2.4 f) is a choice, and so the caller's.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::{CHECKSUM_AT, HEADER_LENGTH, kind4, kind6};
use crate::bytes::{put16, put32};
use crate::checksum::Sum;
use crate::ethernet::{self, ethertype};
use crate::ip::{Ecn, protocol};
use crate::vlan::Tags;
use crate::{MacAddress, MalformedError, NoRoomError, ipv4, ipv6};

/// Longest ICMP error over IPv4, its IP header included, in bytes: RFC 1812 §4.3.2.3.
const PACKET4_MAX: usize = 576;
/// Longest ICMP error over IPv6, its IP header included, in bytes: RFC 4443 §2.4 c.
const PACKET6_MAX: usize = 1280;
/// Bytes of the payload quoted at least, behind the IP header: RFC 792.
const QUOTED_PAYLOAD_MIN: usize = 8;
/// RFC 1812 §4.3.2.5: errors should have precedence 6 or 7; as a code point, class selector 6.
const DSCP_INTERNETWORK_CONTROL: u8 = 0b11_0000;

/// Problem of the packet, in the words of both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// TTL or hop limit ran out in transit: 11/0 in RFC 792, 3/0 in RFC 4443 §3.3.
    TimeExceeded,
    /// No route: 3/0 (network unreachable), 1/0.
    NoRoute,
    /// The last hop does not answer: 3/1 (host unreachable), 1/3.
    AddressUnreachable,
    /// No one listens: 3/3, 1/4.
    PortUnreachable,
    /// A filter forbids it: 3/13 (RFC 1812 §5.2.7.1), 1/1.
    Prohibited,
    /// The next link takes only `mtu` bytes: 3/4 with the MTU of RFC 1191 §4, 2/0 (RFC 4443 §3.2).
    PacketTooBig {
        /// Longest IP packet of the next link, in bytes; in IPv4, more than 65535 reads as 65535.
        mtu: u32,
    },
}

/// Type, code and second half of the header.
type Head = (u8, u8, u32);

impl Problem {
    const fn head4(self) -> Head {
        match self {
            Self::TimeExceeded => (kind4::TIME_EXCEEDED, 0, 0),
            Self::NoRoute => (kind4::UNREACHABLE, 0, 0),
            Self::AddressUnreachable => (kind4::UNREACHABLE, 1, 0),
            Self::PortUnreachable => (kind4::UNREACHABLE, 3, 0),
            Self::Prohibited => (kind4::UNREACHABLE, 13, 0),
            Self::PacketTooBig { mtu } => (kind4::UNREACHABLE, 4, if mtu > 0xffff { 0xffff } else { mtu }),
        }
    }

    const fn head6(self) -> Head {
        match self {
            Self::TimeExceeded => (kind6::TIME_EXCEEDED, 0, 0),
            Self::NoRoute => (kind6::UNREACHABLE, 0, 0),
            Self::AddressUnreachable => (kind6::UNREACHABLE, 3, 0),
            Self::PortUnreachable => (kind6::UNREACHABLE, 4, 0),
            Self::Prohibited => (kind6::UNREACHABLE, 1, 0),
            Self::PacketTooBig { mtu } => (kind6::PACKET_TOO_BIG, 0, mtu),
        }
    }

    /// Path MTU discovery works for IPv6 multicast: RFC 4443 §2.4 e.3, exception 1.
    const fn answers_multicast6(self) -> bool {
        matches!(self, Self::PacketTooBig { .. })
    }
}

/// Addresses of the error's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Link-layer address of the port the error leaves by.
    pub mac: MacAddress,
    /// Source address over IPv4; without one, errors about IPv4 packets are not sent.
    pub ipv4: Option<Ipv4Addr>,
    /// Source address over IPv6; without one, errors about IPv6 packets are not sent.
    pub ipv6: Option<Ipv6Addr>,
}

/// Reason for which no error, and no reset, is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoIcmpError {
    /// The packet is not understood, so no error about it can be sent.
    Malformed(MalformedError),
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// The packet is itself an ICMP error, a redirect, or of an ICMP type that may be one.
    IcmpError,
    /// The segment is itself a reset: RFC 9293 §3.5.2 answers none.
    Reset,
    /// The packet carries no TCP.
    NotTcp,
    /// A fragment, but not the first. RFC 4443 does not ask for it; we do it in IPv6 too because
    /// such a fragment may hide an ICMP error.
    LaterFragment,
    /// It was not sent to one receiver: a multicast or broadcast address, of IP or of the link.
    ManyReceivers,
    /// Its source does not name one host: unspecified, loopback, multicast, broadcast, reserved.
    BadSource,
    /// The sender has no address of that IP version.
    NoAddress,
    /// The buffer does not hold the smallest error about the packet.
    NoRoom(NoRoomError),
}

impl From<MalformedError> for NoIcmpError {
    fn from(reason: MalformedError) -> Self {
        Self::Malformed(reason)
    }
}

impl From<NoRoomError> for NoIcmpError {
    fn from(reason: NoRoomError) -> Self {
        Self::NoRoom(reason)
    }
}

impl fmt::Display for NoIcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Self::Malformed(reason) => return reason.fmt(f),
            Self::NoRoom(reason) => return reason.fmt(f),
            Self::NotIp => "the frame is neither IPv4 nor IPv6",
            Self::IcmpError => "the packet may itself be an ICMP error",
            Self::Reset => "the segment is itself a reset",
            Self::NotTcp => "the packet carries no TCP",
            Self::LaterFragment => "the packet is a fragment but not the first",
            Self::ManyReceivers => "the packet was not sent to one receiver",
            Self::BadSource => "the packet's source does not name one host",
            Self::NoAddress => "the sender has no address of the packet's IP version",
        };
        f.write_str(sentence)
    }
}

impl core::error::Error for NoIcmpError {}

/// Writes the frame that tells the sender of `frame` about a problem with it: the same VLAN tags,
/// to the MAC address it came from. Returns the length in bytes.
///
/// `out` and `frame` are different memory: an NF copies the beginning of the packet aside, 1280
/// bytes at most are quoted. The MTU of the tagged link has to fit [`error_packet`]'s limits.
///
/// # Errors
/// [`NoIcmpError`] when no error may or can be sent.
pub fn error_frame(
    problem: Problem,
    sender: &Sender,
    frame: &[u8],
    out: &mut [u8],
) -> Result<usize, NoIcmpError> {
    let tags = Tags::parse(frame)?;
    let (error_packet, answers_multicast): (ErrorPacket, bool) = match tags.ethertype {
        ethertype::IPV4 => (error_packet4, false),
        ethertype::IPV6 => (error_packet6, problem.answers_multicast6()),
        _ => return Err(NoIcmpError::NotIp),
    };
    let offending = ethernet::Frame::new(frame)?;
    if offending.destination().is_multicast() && !answers_multicast {
        return Err(NoIcmpError::ManyReceivers);
    }
    let (link, packet) = frame.split_at(tags.payload_offset);
    let given = out.len();
    let (out_link, out_packet) =
        out.split_at_mut_checked(link.len()).ok_or(NoRoomError::Buffer { needed: link.len(), given })?;
    let length = error_packet(problem, sender, packet, out_packet)?;
    out_link.copy_from_slice(link);
    let mut answer = ethernet::Frame::new(out_link)?;
    answer.set_destination(offending.source());
    answer.set_source(sender.mac);
    Ok(link.len() + length)
}

/// [`error_packet`] for one version of IP.
type ErrorPacket = fn(Problem, &Sender, &[u8], &mut [u8]) -> Result<usize, NoIcmpError>;

/// Writes the IP packet that tells the sender of `packet` about a problem with it. Returns its
/// length in bytes: at most 576 over IPv4, 1280 over IPv6. A smaller `out` shortens the quotation.
///
/// # Errors
/// [`NoIcmpError`] when no error may or can be sent.
pub fn error_packet(
    problem: Problem,
    sender: &Sender,
    packet: &[u8],
    out: &mut [u8],
) -> Result<usize, NoIcmpError> {
    match packet.first().map(|octet| octet >> 4) {
        Some(4) => error_packet4(problem, sender, packet, out),
        Some(6) => error_packet6(problem, sender, packet, out),
        _ => Err(NoIcmpError::NotIp),
    }
}

fn error_packet4(
    problem: Problem,
    sender: &Sender,
    packet: &[u8],
    out: &mut [u8],
) -> Result<usize, NoIcmpError> {
    let offending = ipv4::Packet::new(packet)?;
    may_answer4(&offending)?;
    let source = sender.ipv4.ok_or(NoIcmpError::NoAddress)?;
    let quote_min = offending.header_length() + QUOTED_PAYLOAD_MIN;
    let quote = &packet[..offending.total_length()];
    let answer = answer_room(out, ipv4::HEADER_LENGTH, PACKET4_MAX, quote.len(), quote_min)?;
    let header = ipv4::Header {
        dscp: DSCP_INTERNETWORK_CONTROL,
        ..ipv4::Header::new(source, offending.source(), protocol::ICMPV4)
    };
    let message = header.write(answer)?;
    fill_message(message, problem.head4(), quote, Sum::new());
    Ok(answer.len())
}

fn error_packet6(
    problem: Problem,
    sender: &Sender,
    packet: &[u8],
    out: &mut [u8],
) -> Result<usize, NoIcmpError> {
    let offending = ipv6::Packet::new(packet)?;
    may_answer6(&offending, problem)?;
    let source = sender.ipv6.ok_or(NoIcmpError::NoAddress)?;
    let quote_min = ipv6::HEADER_LENGTH + QUOTED_PAYLOAD_MIN;
    let quote = &packet[..offending.total_length()];
    let answer = answer_room(out, ipv6::HEADER_LENGTH, PACKET6_MAX, quote.len(), quote_min)?;
    let header = ipv6::Header {
        dscp: DSCP_INTERNETWORK_CONTROL,
        ecn: Ecn::NotEct,
        ..ipv6::Header::new(source, offending.source(), protocol::ICMPV6)
    };
    let message = header.write(answer)?;
    let length = message.len() as u32;
    let pseudo = Sum::pseudo_ipv6(source, offending.source(), protocol::ICMPV6, length);
    fill_message(message, problem.head6(), quote, pseudo);
    Ok(answer.len())
}

/// The beginning of `out` that the error fills: IP header, ICMP header, and as much of the
/// `quote_length` bytes as `packet_max` and `out` allow.
fn answer_room(
    out: &mut [u8],
    header_length: usize,
    packet_max: usize,
    quote_length: usize,
    quote_min: usize,
) -> Result<&mut [u8], NoRoomError> {
    let head = header_length + HEADER_LENGTH;
    let given = out.len();
    let needed = head + quote_min.min(quote_length);
    if given < needed {
        return Err(NoRoomError::Buffer { needed, given });
    }
    Ok(&mut out[..given.min(packet_max).min(head + quote_length)])
}

/// Fills the ICMP message with as much of `quote` as it holds.
fn fill_message(message: &mut [u8], head: Head, quote: &[u8], pseudo: Sum) {
    let (kind, code, parameter) = head;
    message[0] = kind;
    message[1] = code;
    put16(message, CHECKSUM_AT, 0);
    put32(message, 4, parameter);
    let quoted = message.len() - HEADER_LENGTH;
    message[HEADER_LENGTH..].copy_from_slice(&quote[..quoted]);
    let checksum = pseudo.bytes(message).finish();
    put16(message, CHECKSUM_AT, checksum);
}

/// RFC 1812 §4.3.2.7.
pub(crate) fn may_answer4(offending: &ipv4::Packet<&[u8]>) -> Result<(), NoIcmpError> {
    let source = offending.source();
    if offending.fragment().offset != 0 {
        return Err(NoIcmpError::LaterFragment);
    }
    if offending.destination().is_multicast() || offending.destination().is_broadcast() {
        return Err(NoIcmpError::ManyReceivers);
    }
    // Class E (240/4) includes the limited broadcast; 0/8 is "this network".
    if source.is_multicast() || source.is_loopback() || source.octets()[0] == 0 || source.octets()[0] >= 240 {
        return Err(NoIcmpError::BadSource);
    }
    match (offending.protocol(), offending.payload().first()) {
        (protocol::ICMPV4, kind) if !kind.is_some_and(|kind| is_query4(*kind)) => Err(NoIcmpError::IcmpError),
        _ => Ok(()),
    }
}

/// Types that surely are not errors (RFC 1812 §4.3.2: "query messages"); unknown ones are taken for
/// errors.
const fn is_query4(kind: u8) -> bool {
    matches!(
        kind,
        kind4::ECHO_REPLY
            | kind4::ECHO_REQUEST
            | kind4::ROUTER_ADVERTISEMENT
            | kind4::ROUTER_SOLICITATION
            | kind4::TIMESTAMP_REQUEST
            ..=kind4::ADDRESS_MASK_REPLY | kind4::EXTENDED_ECHO_REQUEST | kind4::EXTENDED_ECHO_REPLY
    )
}

/// RFC 4443 §2.4 e.
pub(crate) fn may_answer6(offending: &ipv6::Packet<&[u8]>, problem: Problem) -> Result<(), NoIcmpError> {
    let source = offending.source();
    if offending.destination().is_multicast() && !problem.answers_multicast6() {
        return Err(NoIcmpError::ManyReceivers);
    }
    if source.is_multicast() || source.is_unspecified() || source.is_loopback() {
        return Err(NoIcmpError::BadSource);
    }
    let upper = offending.upper_layer()?;
    if upper.fragment.is_some_and(|fragment| fragment.offset != 0) {
        return Err(NoIcmpError::LaterFragment);
    }
    let informational = |kind: &u8| *kind >= 128 && *kind != kind6::REDIRECT;
    match (upper.protocol, upper.payload.first()) {
        (protocol::ICMPV6, kind) if !kind.is_some_and(informational) => Err(NoIcmpError::IcmpError),
        _ => Ok(()),
    }
}
