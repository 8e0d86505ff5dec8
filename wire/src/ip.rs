//! Fields that IPv4 and IPv6 share: protocol numbers and the ECN field.

use crate::bytes::{get16, put16};
use crate::checksum::Change;

/// Assigned Internet protocol numbers (IANA), also the IPv6 next-header values.
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4 (RFC 792).
    pub const ICMPV4: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// DCCP (RFC 4340).
    pub const DCCP: u8 = 33;
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: u8 = 44;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// IPsec encapsulating security payload (RFC 4303).
    pub const ESP: u8 = 50;
    /// IPsec authentication header (RFC 4302).
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// IPv6: nothing follows (RFC 8200 §4.7).
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// IPv6 mobility header (RFC 6275).
    pub const MOBILITY: u8 = 135;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;
    /// Host identity protocol (RFC 7401).
    pub const HIP: u8 = 139;
    /// Shim6 (RFC 5533).
    pub const SHIM6: u8 = 140;
}

/// Hop count of packets we originate: the value IANA recommends as the default TTL ("IP Parameters").
pub const DEFAULT_TTL: u8 = 64;

/// Explicit congestion notification, the low two bits of TOS and traffic class (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The endpoints do not understand ECN: congestion has to be told by a drop.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, ECT(1); the L4S identifier (RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable transport, ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The ECN field of a TOS or traffic class octet.
    #[inline]
    pub const fn from_octet(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Bytes at the start of an IP header that [`mark_congestion`] reads and may change.
pub const MARK_BYTES: usize = 12;

/// Turns ECN-capable into congestion experienced (RFC 3168 §5), in IPv4 with the checksum kept right (RFC
/// 1624), at the start of an IPv4 or IPv6 header. False when nothing changed: not IP, not capable, or marked
/// already. Needs no more of the packet than these bytes.
pub fn mark_congestion(header: &mut [u8; MARK_BYTES]) -> bool {
    let word = get16(header, 0);
    let (version, ecn_shift) = (word >> 12, if word >> 12 == 6 { 4 } else { 0 });
    let capable = matches!(Ecn::from_octet((word >> ecn_shift) as u8), Ecn::Ect0 | Ecn::Ect1);
    if !capable || !matches!(version, 4 | 6) {
        return false;
    }
    let marked = word | (Ecn::Ce as u16) << ecn_shift;
    put16(header, 0, marked);
    if version == 4 {
        let checksum = Change::new().word(word, marked).apply(get16(header, 10));
        put16(header, 10, checksum);
    }
    true
}

/// Whether a protocol's header begins with a source and a destination port of 16 bits each.
#[inline]
pub const fn has_ports(protocol: u8) -> bool {
    ports_header_length(protocol) != 0
}

/// Shortest header of a transport that starts with a source and a destination port, in bytes;
/// 0 for every other protocol.
#[inline]
pub(crate) const fn ports_header_length(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => 20,
        protocol::UDP | protocol::UDP_LITE => 8,
        protocol::DCCP | protocol::SCTP => 12,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ipv4, ipv6};
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn ecns() -> impl Strategy<Value = Ecn> {
        prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)]
    }

    fn check(mut packet: std::vec::Vec<u8>, ecn: Ecn) -> std::vec::Vec<u8> {
        let before = packet.clone();
        let marked = mark_congestion(packet.first_chunk_mut().unwrap());
        assert_eq!(marked, matches!(ecn, Ecn::Ect0 | Ecn::Ect1));
        assert_eq!(marked, packet != before, "nothing else is touched");
        packet
    }

    proptest! {
        #[test]
        fn only_capable_packets_are_marked_and_checksums_hold(ecn in ecns(), dscp in 0u8..64, ttl: u8) {
            let mut header = ipv4::Header { dscp, ecn, ..ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, 6) };
            header.ttl = ttl;
            let mut bytes = std::vec![0; 40];
            header.write(&mut bytes).unwrap();
            let marked = check(bytes, ecn);
            let view = ipv4::Packet::new(&marked).unwrap();
            prop_assert!(view.verify_checksum());
            prop_assert_eq!((view.dscp(), view.ttl()), (dscp, ttl));
            prop_assert_eq!(view.ecn(), if ecn == Ecn::NotEct { ecn } else { Ecn::Ce });

            let header = ipv6::Header { dscp, ecn, ..ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 6) };
            let mut bytes = std::vec![0; 60];
            header.write(&mut bytes).unwrap();
            let marked = check(bytes, ecn);
            let view = ipv6::Packet::new(&marked).unwrap();
            prop_assert_eq!((view.dscp(), view.flow_label()), (dscp, header.flow_label));
            prop_assert_eq!(view.ecn(), if ecn == Ecn::NotEct { ecn } else { Ecn::Ce });
        }
    }

    #[test]
    fn what_is_not_ip_is_left_alone() {
        for version in [0u8, 5, 7, 15] {
            let mut header = [version << 4 | 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(!mark_congestion(&mut header));
        }
    }
}
