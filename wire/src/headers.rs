//! Headers of a frame as a person reads them: what is there is told, of a frame that is cut too.
//!
//! Lenient where [`crate::flow_key`] is strict: that one decides about packets, this one shows them. Headers
//! behind a service header (RFC 8300) are those of the frame inside.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{get16, get32};
use crate::ethernet::{HEADER_LENGTH, ethertype};
use crate::ip::protocol;
use crate::nsh::{Header as ServiceHeader, ServicePath, next_protocol};
use crate::vlan::{Tag, Tags};
use crate::{MacAddress, ipv4, ipv6, tcp};

/// Headers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Service path and TTL of the service header around the frame.
    pub service: Option<(ServicePath, u8)>,
    /// Receiver and sender on the link.
    pub link: Option<(MacAddress, MacAddress)>,
    /// VLAN tags, the outer one first.
    pub tags: [Option<Tag>; 2],
    /// EtherType behind the tags.
    pub ethertype: u16,
    /// IP header.
    pub network: Option<Network>,
    /// TCP or UDP header.
    pub transport: Option<Transport>,
    /// Where the bytes begin that none of these is.
    pub payload_at: usize,
}

/// IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Differentiated services and ECN, a byte.
    pub class: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Protocol behind it; of IPv6 the first header.
    pub protocol: u8,
    /// Length field.
    pub length: u16,
    /// Header checksum of IPv4; 0 of IPv6.
    pub checksum: u16,
    /// Whether it is a fragment behind the first.
    pub is_later_fragment: bool,
}

/// TCP or UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// Checksum.
    pub checksum: u16,
    /// Sequence number, acknowledgment, flags and window of TCP.
    pub tcp: Option<(u32, u32, u8, u16)>,
}

impl Network {
    /// Reads the header that begins here, and its length.
    fn of_ipv4(bytes: &[u8]) -> (Self, usize) {
        let address = |at| IpAddr::V4(Ipv4Addr::from_bits(get32(bytes, at)));
        let network = Self {
            source: address(12),
            destination: address(16),
            class: bytes[1],
            ttl: bytes[8],
            protocol: bytes[9],
            length: get16(bytes, 2),
            checksum: get16(bytes, 10),
            is_later_fragment: get16(bytes, 6) & 0x1fff != 0,
        };
        (network, usize::from(bytes[0] & 0xf) * 4)
    }

    fn of_ipv6(bytes: &[u8]) -> Self {
        let address = |at: usize| {
            let octets: [u8; 16] = core::array::from_fn(|byte| bytes[at + byte]);
            IpAddr::V6(Ipv6Addr::from_octets(octets))
        };
        Self {
            source: address(8),
            destination: address(24),
            class: (get16(bytes, 0) >> 4) as u8,
            ttl: bytes[7],
            protocol: bytes[6],
            length: get16(bytes, 4),
            checksum: 0,
            is_later_fragment: false,
        }
    }
}

impl Headers {
    /// Reads the first bytes of a frame.
    #[must_use]
    pub fn read(frame: &[u8]) -> Self {
        let Ok(tags) = Tags::parse(frame) else { return Self::default() };
        if tags.ethertype == ethertype::NSH
            && let Ok(header) = ServiceHeader::new(&frame[tags.payload_offset..])
        {
            return Self::behind(frame, tags.payload_offset, &header);
        }
        let mac = |at: usize| MacAddress([0, 1, 2, 3, 4, 5].map(|byte| frame[at + byte]));
        let mut headers = Self {
            link: Some((mac(0), mac(6))),
            tags: [tags.outer, tags.inner],
            ethertype: tags.ethertype,
            payload_at: tags.payload_offset,
            ..Self::default()
        };
        headers.read_network(frame);
        headers
    }

    fn behind<B: AsRef<[u8]>>(frame: &[u8], at: usize, header: &ServiceHeader<B>) -> Self {
        let base = header.base();
        let start = (at + base.length()).min(frame.len());
        let mut headers = match base.next_protocol() {
            next_protocol::ETHERNET => Self::read(&frame[start..]),
            _ => Self::default(),
        };
        headers.service = Some((header.service_path(), base.ttl()));
        headers.payload_at += start;
        headers
    }

    fn read_network(&mut self, frame: &[u8]) {
        let bytes = &frame[self.payload_at..];
        let (network, length) = match self.ethertype {
            ethertype::IPV4 if bytes.len() >= ipv4::HEADER_LENGTH => Network::of_ipv4(bytes),
            ethertype::IPV6 if bytes.len() >= ipv6::HEADER_LENGTH => {
                (Network::of_ipv6(bytes), ipv6::HEADER_LENGTH)
            }
            _ => return,
        };
        self.network = Some(network);
        self.payload_at = (self.payload_at + length.max(ipv4::HEADER_LENGTH)).min(frame.len());
        if !network.is_later_fragment {
            self.read_transport(frame, network.protocol);
        }
    }

    fn read_transport(&mut self, frame: &[u8], protocol: u8) {
        let bytes = &frame[self.payload_at..];
        let (checksum, tcp, length) = match protocol {
            protocol::TCP if bytes.len() >= tcp::HEADER_LENGTH => {
                let tcp = (get32(bytes, 4), get32(bytes, 8), bytes[tcp::FLAGS_AT], get16(bytes, 14));
                (get16(bytes, tcp::CHECKSUM_AT), Some(tcp), usize::from(bytes[12] >> 4) * 4)
            }
            protocol::UDP if bytes.len() >= crate::udp::HEADER_LENGTH => {
                (get16(bytes, 6), None, crate::udp::HEADER_LENGTH)
            }
            _ => return,
        };
        let (source, destination) = (get16(bytes, 0), get16(bytes, 2));
        self.transport = Some(Transport { source, destination, checksum, tcp });
        self.payload_at = (self.payload_at + length).min(frame.len());
    }
}

const _: () = assert!(HEADER_LENGTH == 14);

impl core::fmt::Display for Headers {
    /// Names the flow: `tcp 10.0.0.1:1234 > 10.0.1.1:80`, or what there is of it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Some(network) = self.network else {
            return match self.link {
                Some((to, from)) => write!(f, "ether 0x{:04x} {from} > {to}", self.ethertype),
                None => f.write_str("unreadable"),
            };
        };
        match network.protocol {
            protocol::TCP => f.write_str("tcp")?,
            protocol::UDP => f.write_str("udp")?,
            protocol::ICMPV4 => f.write_str("icmp")?,
            protocol::ICMPV6 => f.write_str("icmp6")?,
            other => write!(f, "ip-proto {other}")?,
        }
        let (from, to) = (network.source, network.destination);
        match (self.transport, from) {
            (Some(ports), IpAddr::V4(_)) => {
                write!(f, " {from}:{} > {to}:{}", ports.source, ports.destination)
            }
            (Some(ports), IpAddr::V6(_)) => {
                write!(f, " [{from}]:{} > [{to}]:{}", ports.source, ports.destination)
            }
            (None, _) => write!(f, " {from} > {to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Network as Net, Transport as Layer4};
    use crate::nsh::{self, Base, Context};
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn frame(from: &str, to: &str) -> Vec<u8> {
        let header = crate::udp::Header { source_port: 7, destination_port: 53 };
        let frame = Frame {
            destination: MacAddress([2, 0, 0, 0, 0, 2]),
            source: MacAddress([2, 0, 0, 0, 0, 1]),
            tags: [Some(Tag::customer(5)), None],
            network: Net::between(from.parse().unwrap(), to.parse().unwrap()).unwrap(),
            transport: Layer4::Udp(header),
        };
        let mut bytes = std::vec![0; 256];
        let length = frame.write(&mut bytes, 9, |payload| payload.fill(1)).unwrap();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn headers_are_told_as_they_are() {
        let bytes = frame("10.0.0.1", "10.0.0.2");
        let headers = Headers::read(&bytes);
        assert_eq!(headers.to_string(), "udp 10.0.0.1:7 > 10.0.0.2:53");
        assert_eq!((headers.tags[0].unwrap().id, bytes[headers.payload_at]), (5, 1));
        assert_eq!(Headers::read(&frame("fd00::1", "fd00::2")).to_string(), "udp [fd00::1]:7 > [fd00::2]:53");
        assert_eq!(Headers::read(&[0; 14]).to_string(), "ether 0x0000 00:00:00:00:00:00 > 00:00:00:00:00:00");
        assert_eq!(Headers::read(&[0; 13]).to_string(), "unreadable");
    }

    #[test]
    fn the_frame_behind_a_service_header_is_told_with_its_path() {
        let inside = frame("10.0.0.1", "10.0.0.2");
        let mut bytes = std::vec![0; 14 + nsh::LENGTH_OF_TYPE_1];
        bytes[12..14].copy_from_slice(&ethertype::NSH.to_be_bytes());
        let path = ServicePath { path: 9, index: 254 };
        let context = Context { flow_hash: 0, ingress: 0, egress: 0, time_us: 0, target: 0, digest: 0 };
        nsh::write(Base::of_type_1(), path, &context.to_bytes(), &mut bytes[14..]).unwrap();
        bytes.extend_from_slice(&inside);
        let headers = Headers::read(&bytes);
        assert_eq!(headers.service.unwrap().0, path);
        assert_eq!(
            (headers.to_string().as_str(), bytes[headers.payload_at]),
            ("udp 10.0.0.1:7 > 10.0.0.2:53", 1)
        );
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_are_they_are_read(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in prop::sample::select(std::vec![0x800u16, 0x86dd, 0x894f, 0x8100]),
        ) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&kind.to_be_bytes());
            }
            let headers = Headers::read(&bytes);
            prop_assert!(headers.payload_at <= bytes.len());
        }
    }
}
