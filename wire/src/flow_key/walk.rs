//! The way to the flow through any headers: tags, options, extension headers, fragments.

use super::key::{FlowKey4, FlowKeyWide, Low, mac_bits, mapped};
use super::{Fragment, HeaderOffsets, Parsed};
use crate::MalformedError;
use crate::bytes::{array, get16, get32};
use crate::ethernet::{self, ethertype};
use crate::ip::ports_header_length;
use crate::vlan::{self, TAG_LENGTH, TAGS_MAX};
use crate::{ipv4, ipv6};

/// Every fragment but the last has at least so many bytes of payload (RFC 791 §3.2, RFC 8200 §4.5);
/// with them the ports, but not all of a TCP header. To refuse those is a firewall's choice (RFC 1858).
const FRAGMENT_PAYLOAD_MIN: usize = 8;
/// The longest that fragments may be put together to, in bytes: the length fields have 16 bits.
const REASSEMBLED_MAX: usize = 65_535;

/// Reason for which the walk ended early.
enum Stop {
    NeedMore { bytes: usize },
    Malformed(MalformedError),
}

impl From<MalformedError> for Stop {
    fn from(reason: MalformedError) -> Self {
        Self::Malformed(reason)
    }
}

/// The beginning of a frame, and how long all of it is.
#[derive(Clone, Copy)]
struct Reader<'a> {
    /// Not longer than `length`.
    copied: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// `LENGTH` bytes at an offset. Where the frame does not have them, it is malformed for `reason`.
    #[inline]
    fn take<const LENGTH: usize>(&self, at: usize, reason: MalformedError) -> Result<&'a [u8; LENGTH], Stop> {
        let end = at + LENGTH;
        if end > self.length {
            return Err(reason.into());
        }
        let taken = self.copied.get(at..).and_then(<[u8]>::first_chunk);
        taken.ok_or(Stop::NeedMore { bytes: end })
    }

    /// The same frame without what is behind `end`, the Ethernet padding.
    #[inline]
    fn until(&self, end: usize) -> Self {
        Self { copied: &self.copied[..self.copied.len().min(end)], length: end }
    }
}

/// The VLAN identifiers of a frame.
#[derive(Default)]
struct Vlans {
    count: usize,
    ids: [u16; TAGS_MAX],
}

/// [`super::parse`] for every frame.
#[inline(never)]
pub(super) fn parse_any(header: &[u8], length: usize) -> Parsed {
    let copied = &header[..header.len().min(length)];
    match link(Reader { copied, length }) {
        Ok(parsed) => parsed,
        Err(Stop::NeedMore { bytes }) => Parsed::NeedMore { bytes },
        Err(Stop::Malformed(reason)) => Parsed::Malformed(reason),
    }
}

fn link(frame: Reader<'_>) -> Result<Parsed, Stop> {
    let header: &[u8; ethernet::HEADER_LENGTH] = frame.take(0, MalformedError::TruncatedEthernet)?;
    let mut ethertype = get16(header, 12);
    let mut l3 = ethernet::HEADER_LENGTH;
    let mut vlans = Vlans::default();
    while vlan::is_tag(ethertype) && vlans.count < TAGS_MAX {
        let tag: &[u8; TAG_LENGTH] = frame.take(l3, MalformedError::TruncatedVlan)?;
        vlans.ids[vlans.count] = get16(tag, 0) & 0x0fff;
        vlans.count += 1;
        ethertype = get16(tag, 2);
        l3 += TAG_LENGTH;
    }
    match ethertype {
        ethertype::IPV4 => ipv4(frame, l3, &vlans),
        ethertype::IPV6 => ipv6(frame, l3, &vlans),
        _ => Ok(not_ip(header, ethertype, l3, &vlans)),
    }
}

fn not_ip(header: &[u8; ethernet::HEADER_LENGTH], ethertype: u16, l3: usize, vlans: &Vlans) -> Parsed {
    let ethertype = if ethertype < ethertype::MIN { 0 } else { ethertype };
    let source = mac_bits(array(header, 6));
    let destination = mac_bits(array(header, 0));
    let low = Low { vlan: vlans.ids[0], ..Low::default() };
    let key = FlowKeyWide::new(ethertype, source, destination, vlans.ids[1], low);
    Parsed::Wide { key, place: HeaderOffsets { l3: l3 as u16, l4: l3 as u16, fragment: Fragment::None } }
}

fn ipv4(frame: Reader<'_>, l3: usize, vlans: &Vlans) -> Result<Parsed, Stop> {
    let head = frame.take(l3, MalformedError::TruncatedIpv4)?;
    let lengths = ipv4::Lengths::read(head, frame.length - l3)?;
    let word = get16(head, 6);
    let identification = u32::from(get16(head, 4));
    let offset = usize::from(word & ipv4::OFFSET_MASK) * 8;
    if offset + lengths.total > REASSEMBLED_MAX {
        return Err(MalformedError::FragmentOverflow.into());
    }
    let more = word & ipv4::MORE_FRAGMENTS != 0;
    let fragment = fragment(offset, more, identification);
    let protocol = head[9];
    let l4 = l3 + lengths.header;
    let ports = ports(frame.until(l3 + lengths.total), l4, protocol, fragment)?;
    let low = low(ports, protocol, fragment, vlans);
    let place = HeaderOffsets { l3: l3 as u16, l4: l4 as u16, fragment };
    let (source, destination) = (get32(head, 12), get32(head, 16));
    Ok(if vlans.count < 2 {
        Parsed::Ipv4 { key: FlowKey4::new(source, destination, low), place }
    } else {
        let (source, destination) = (mapped(source), mapped(destination));
        let key = FlowKeyWide::new(ethertype::IPV4, source, destination, vlans.ids[1], low);
        Parsed::Wide { key, place }
    })
}

fn ipv6(frame: Reader<'_>, l3: usize, vlans: &Vlans) -> Result<Parsed, Stop> {
    let head: &[u8; ipv6::HEADER_LENGTH] = frame.take(l3, MalformedError::TruncatedIpv6)?;
    let total = ipv6::total_length(head, frame.length - l3)?;
    let packet = frame.until(l3 + total);
    let mut walk = ipv6::Walk::new(head[6]);
    while walk.at_extension() {
        walk.step(packet.take(l3 + walk.offset, MalformedError::TruncatedExtension)?)?;
    }
    if walk.offset > total {
        return Err(MalformedError::TruncatedExtension.into());
    }
    let fragment = match walk.fragment {
        None => Fragment::None,
        Some(part) => {
            // RFC 8200 §4.5: the payload length of the reassembled packet, which has no fragment header.
            let payload = total - ipv6::HEADER_LENGTH - ipv6::EXTENSION_HEAD_LENGTH;
            if usize::from(part.offset) + payload > REASSEMBLED_MAX {
                return Err(MalformedError::FragmentOverflow.into());
            }
            fragment(usize::from(part.offset), part.more, part.identification)
        }
    };
    let l4 = l3 + walk.offset;
    let protocol = walk.next_header;
    let low = low(ports(packet, l4, protocol, fragment)?, protocol, fragment, vlans);
    let source = u128::from_be_bytes(array(head, 8));
    let destination = u128::from_be_bytes(array(head, 24));
    let key = FlowKeyWide::new(ethertype::IPV6, source, destination, vlans.ids[1], low);
    Ok(Parsed::Wide { key, place: HeaderOffsets { l3: l3 as u16, l4: l4 as u16, fragment } })
}

fn fragment(offset: usize, more: bool, identification: u32) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::None,
        (0, true) => Fragment::First { identification },
        _ => Fragment::Later { identification },
    }
}

fn low(ports: u32, protocol: u8, fragment: Fragment, vlans: &Vlans) -> Low {
    let later_fragment = matches!(fragment, Fragment::Later { .. });
    Low { ports, protocol, vlan: vlans.ids[0], later_fragment }
}

/// Both ports as on the wire; 0 where there are none.
fn ports(packet: Reader<'_>, l4: usize, protocol: u8, fragment: Fragment) -> Result<u32, Stop> {
    let header_length = ports_header_length(protocol);
    let needed = match fragment {
        Fragment::None => header_length,
        Fragment::First { .. } => header_length.min(FRAGMENT_PAYLOAD_MIN),
        Fragment::Later { .. } => 0,
    };
    if needed == 0 {
        return Ok(0);
    }
    if l4 + needed > packet.length {
        return Err(MalformedError::TruncatedTransport.into());
    }
    let ports = packet.take(l4, MalformedError::TruncatedTransport)?;
    Ok(u32::from_be_bytes(*ports))
}
