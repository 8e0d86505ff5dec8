//! Flow keys, and the bits in which each field is.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::MacAddress;
use crate::ethernet::ethertype;
use crate::ip::has_ports;

/// Bits of the ports, the lowest of both keys: source 16 | destination 16, the order of the wire.
const SOURCE_PORT_SHIFT: u32 = 16;
/// What both keys have besides, 32 bits at a place of its own in each:
/// ingress 8 | protocol 8 | mark 4 | VLAN 12.
const INGRESS_SHIFT: u32 = 24;
const PROTOCOL_SHIFT: u32 = 16;
const VLAN_MASK: u16 = 0x0fff;
/// In the mark: the packet is a fragment without ports, so its ports 0 are not from the wire.
const LATER_FRAGMENT: u16 = 0x8000;
/// In the mark: not a flow but one datagram of it, whose identification stands in place of the ports.
const DATAGRAM: u16 = 0x4000;

/// Places of those 32 bits: in [`FlowKey4`] where a frame has TTL, protocol and checksum in front of the
/// source address, so that the key of a plain frame is two words of it with a mask over one; in
/// [`FlowKeyWide`] above the ports.
const NARROW_SHIFT: u32 = 96;
const WIDE_SHIFT: u32 = 32;

/// The high 64 bits of the third word of [`FlowKeyWide`]: EtherType 16 | 0 | inner VLAN 16.
const ETHERTYPE_SHIFT: u32 = 112;
const INNER_VLAN_SHIFT: u32 = 64;

/// The part both keys share, still apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Low {
    /// Source and destination port, as on the wire.
    pub(super) ports: u32,
    pub(super) protocol: u8,
    /// The outer identifier; 0 without a tag.
    pub(super) vlan: u16,
    pub(super) later_fragment: bool,
}

impl Low {
    /// Returns its bits in a key that has what is not a port at this place.
    const fn bits(self, shift: u32) -> u128 {
        let mark = if self.later_fragment { LATER_FRAGMENT } else { 0 };
        let other = (self.protocol as u128) << PROTOCOL_SHIFT | (self.vlan & VLAN_MASK | mark) as u128;
        other << shift | self.ports as u128
    }
}

/// Accessors of the fields that both keys have, in `self.$low`.
macro_rules! low_fields {
    ($low:tt, $shift:expr) => {
        /// Ingress port, protocol, mark and VLAN.
        #[inline(always)]
        const fn other(self) -> u32 {
            (self.$low >> $shift) as u32
        }

        /// Sender's port; 0 for protocols without ports and for later fragments.
        #[inline]
        pub const fn source_port(self) -> u16 {
            (self.$low >> SOURCE_PORT_SHIFT) as u16
        }

        /// Receiver's port; 0 for protocols without ports and for later fragments.
        #[inline]
        pub const fn destination_port(self) -> u16 {
            self.$low as u16
        }

        /// IP protocol: see [`crate::ip::protocol`]; 0 where it is not IP.
        #[inline]
        pub const fn protocol(self) -> u8 {
            (self.other() >> PROTOCOL_SHIFT) as u8
        }

        /// The port the packet came in by: 0 as parsed.
        #[inline]
        pub const fn ingress(self) -> u8 {
            (self.other() >> INGRESS_SHIFT) as u8
        }

        /// Identifier of the outer VLAN tag, 1-4095; 0 without a tag or with a priority tag.
        #[inline]
        pub const fn vlan(self) -> u16 {
            self.other() as u16 & VLAN_MASK
        }

        /// Whether the ports are 0 because the packet is a fragment but not the first.
        #[inline]
        pub const fn is_later_fragment(self) -> bool {
            self.other() as u16 & LATER_FRAGMENT != 0
        }

        /// The key of the same flow, arrived by this port. To be called once on a parsed key.
        #[inline]
        #[must_use]
        pub const fn with_ingress(mut self, port: u8) -> Self {
            self.$low |= ((port as u128) << INGRESS_SHIFT) << $shift;
            self
        }

        /// Source and destination port; `None` for protocols without ports and for later fragments.
        #[inline]
        pub const fn ports(self) -> Option<(u16, u16)> {
            if has_ports(self.protocol()) && !self.is_later_fragment() {
                Some((self.source_port(), self.destination_port()))
            } else {
                None
            }
        }
    };
}

/// The flow of an IPv4 packet behind at most one VLAN tag.
///
/// From the high bits to the low: ingress port 8, protocol 8, mark 4, VLAN 12, source 32, destination 32,
/// source port 16, destination port 16. From the source address on that is the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey4(u128);

impl FlowKey4 {
    /// The key of a frame without options and VLAN tags, from the two words of it that begin with TTL,
    /// protocol, checksum and end with the ports.
    #[inline(always)]
    pub(super) const fn plain(words: [u64; 2]) -> Self {
        let kept = (u8::MAX as u64) << (PROTOCOL_SHIFT + NARROW_SHIFT - 64) | u32::MAX as u64;
        Self(((words[0] & kept) as u128) << 64 | words[1] as u128)
    }

    pub(super) const fn new(source: u32, destination: u32, low: Low) -> Self {
        Self((source as u128) << 64 | (destination as u128) << 32 | low.bits(NARROW_SHIFT))
    }

    /// The key as [`FlowKey4::bits`] gave it.
    #[inline]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns all fields in one integer, for hashing and storing.
    #[inline]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Sender's address.
    #[inline]
    pub const fn source(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.0 >> 64) as u32)
    }

    /// Receiver's address.
    #[inline]
    pub const fn destination(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.0 >> 32) as u32)
    }

    /// The key by which the fragments of one packet find each other (RFC 791 §3.2): this flow's, with
    /// the packet's identification in place of the ports.
    #[inline]
    #[must_use]
    pub const fn of_datagram(self, identification: u32) -> Self {
        Self(datagram_bits(self.0, identification, NARROW_SHIFT))
    }

    low_fields!(0, NARROW_SHIFT);
}

/// The flow of any other frame: IPv6, IPv4 behind two VLAN tags, or not IP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKeyWide {
    /// IPv6 address, IPv4-mapped address (RFC 4291 §2.5.5.2), or MAC address in the low 48 bits.
    source: u128,
    destination: u128,
    /// EtherType 16 | 0 | inner VLAN 16 | ingress port 8 | protocol 8 | mark 4 | VLAN 12 | ports 32.
    rest: u128,
}

impl FlowKeyWide {
    pub(super) const fn new(
        ethertype: u16,
        source: u128,
        destination: u128,
        inner_vlan: u16,
        low: Low,
    ) -> Self {
        let types = (ethertype as u128) << ETHERTYPE_SHIFT | (inner_vlan as u128) << INNER_VLAN_SHIFT;
        let rest = types | low.bits(WIDE_SHIFT);
        Self { source, destination, rest }
    }

    /// The key as [`FlowKeyWide::words`] gave it.
    #[inline]
    pub const fn from_words([source, destination, rest]: [u128; 3]) -> Self {
        Self { source, destination, rest }
    }

    /// Returns all fields in three integers, for hashing and storing.
    #[inline]
    pub const fn words(self) -> [u128; 3] {
        [self.source, self.destination, self.rest]
    }

    /// Returns the type behind the VLAN tags; 0 for IEEE 802.3 frames, which have a length in its place.
    #[inline]
    pub const fn ethertype(self) -> u16 {
        (self.rest >> ETHERTYPE_SHIFT) as u16
    }

    /// Sender's IP address; `None` where the frame is not IP.
    #[inline]
    pub const fn source(self) -> Option<IpAddr> {
        self.ip(self.source)
    }

    /// Receiver's IP address; `None` where the frame is not IP.
    #[inline]
    pub const fn destination(self) -> Option<IpAddr> {
        self.ip(self.destination)
    }

    const fn ip(self, address: u128) -> Option<IpAddr> {
        match self.ethertype() {
            ethertype::IPV4 => Some(IpAddr::V4(Ipv4Addr::from_bits(address as u32))),
            ethertype::IPV6 => Some(IpAddr::V6(Ipv6Addr::from_bits(address))),
            _ => None,
        }
    }

    /// Sender's MAC address; `None` where the frame is IP: there it is not part of the flow.
    #[inline]
    pub const fn source_mac(self) -> Option<MacAddress> {
        self.mac(self.source)
    }

    /// Receiver's MAC address; `None` where the frame is IP: there it is not part of the flow.
    #[inline]
    pub const fn destination_mac(self) -> Option<MacAddress> {
        self.mac(self.destination)
    }

    const fn mac(self, address: u128) -> Option<MacAddress> {
        match self.ethertype() {
            ethertype::IPV4 | ethertype::IPV6 => None,
            _ => {
                let [.., a, b, c, d, e, f] = address.to_be_bytes();
                Some(MacAddress([a, b, c, d, e, f]))
            }
        }
    }

    /// Identifier of the inner VLAN tag; 0 without a second tag.
    #[inline]
    pub const fn inner_vlan(self) -> u16 {
        (self.rest >> INNER_VLAN_SHIFT) as u16
    }

    /// The key by which the fragments of one packet find each other: this flow's, with the packet's
    /// identification in place of the ports. In IPv6 the protocol does not count (RFC 8200 §4.5):
    /// behind the fragment header, later fragments name an extension header that the first one has.
    #[inline]
    #[must_use]
    pub const fn of_datagram(mut self, identification: u32) -> Self {
        self.rest = datagram_bits(self.rest, identification, WIDE_SHIFT);
        if self.ethertype() == ethertype::IPV6 {
            self.rest &= !((u8::MAX as u128) << PROTOCOL_SHIFT << WIDE_SHIFT);
        }
        self
    }

    low_fields!(rest, WIDE_SHIFT);
}

const fn datagram_bits(bits: u128, identification: u32, shift: u32) -> u128 {
    let mark = (LATER_FRAGMENT | DATAGRAM) as u128;
    bits & !(u32::MAX as u128) | identification as u128 | mark << shift
}

/// An IPv4 address in the wide key.
pub(super) const fn mapped(address: u32) -> u128 {
    0xffff << 32 | address as u128
}

/// A MAC address in the wide key.
pub(super) fn mac_bits(address: [u8; 6]) -> u128 {
    address.iter().fold(0, |bits, octet| bits << 8 | u128::from(*octet))
}

impl fmt::Display for FlowKey4 {
    /// `10.0.0.1:1024 > 10.0.0.2:53 protocol 17 vlan 10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.source_port(), self.destination_port());
        write!(f, "{}:{from} > {}:{to} protocol {}", self.source(), self.destination(), self.protocol())?;
        write_vlan(f, self.vlan())
    }
}

impl fmt::Display for FlowKeyWide {
    /// `[fd00::1]:1024 > [fd00::2]:53 protocol 17`, or
    /// `02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff ethertype 0x0806 vlan 20 vlan 10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use core::net::SocketAddr;
        if let (Some(source), Some(destination)) = (self.source(), self.destination()) {
            let source = SocketAddr::new(source, self.source_port());
            let destination = SocketAddr::new(destination, self.destination_port());
            write!(f, "{source} > {destination} protocol {}", self.protocol())?;
        } else if let (Some(source), Some(destination)) = (self.source_mac(), self.destination_mac()) {
            write!(f, "{source} > {destination} ethertype {:#06x}", self.ethertype())?;
        }
        write_vlan(f, self.vlan())?;
        write_vlan(f, self.inner_vlan())
    }
}

fn write_vlan(f: &mut fmt::Formatter<'_>, id: u16) -> fmt::Result {
    if id == 0 { Ok(()) } else { write!(f, " vlan {id}") }
}

impl fmt::Debug for FlowKey4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for FlowKeyWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
