//! Complete frames with right checksums, for generators and tests.

use core::net::IpAddr;

use crate::checksum::Sum;
use crate::ethernet::{self, ethertype};
use crate::ip::protocol;
use crate::vlan::{TAG_LENGTH, Tag};
use crate::{MacAddress, NoRoomError, ipv4, ipv6, split_room, tcp, udp};

/// The IP header of a frame. The protocol field comes from [`Transport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4.
    V4(ipv4::Header),
    /// IPv6 without extension headers.
    V6(ipv6::Header),
}

impl Network {
    /// Best-effort traffic between two addresses; `None` when they are of different versions.
    pub const fn between(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Some(Self::V4(ipv4::Header::new(source, destination, protocol::NO_NEXT_HEADER)))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Some(Self::V6(ipv6::Header::new(source, destination, protocol::NO_NEXT_HEADER)))
            }
            _ => None,
        }
    }

    const fn header_length(&self) -> usize {
        match self {
            Self::V4(_) => ipv4::HEADER_LENGTH,
            Self::V6(_) => ipv6::HEADER_LENGTH,
        }
    }

    const fn ethertype(&self) -> u16 {
        match self {
            Self::V4(_) => ethertype::IPV4,
            Self::V6(_) => ethertype::IPV6,
        }
    }

    /// Writes the header and returns the IP payload with its pseudo header.
    fn write<'a>(&self, packet: &'a mut [u8], protocol: u8) -> Result<(&'a mut [u8], Sum), NoRoomError> {
        // Below 65536 in both versions: `write` refuses longer packets.
        match self {
            Self::V4(header) => {
                let payload = ipv4::Header { protocol, ..*header }.write(packet)?;
                let length = payload.len() as u16;
                let pseudo = Sum::pseudo_ipv4(header.source, header.destination, protocol, length);
                Ok((payload, pseudo))
            }
            Self::V6(header) => {
                let payload = ipv6::Header { next_header: protocol, ..*header }.write(packet)?;
                let length = payload.len() as u32;
                let pseudo = Sum::pseudo_ipv6(header.source, header.destination, protocol, length);
                Ok((payload, pseudo))
            }
        }
    }
}

/// The header behind IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp(udp::Header),
    /// TCP without options.
    Tcp(tcp::Header),
    /// No header of ours: the IP payload is the caller's, of this protocol.
    Raw(u8),
}

impl Transport {
    const fn header_length(&self) -> usize {
        match self {
            Self::Udp(_) => udp::HEADER_LENGTH,
            Self::Tcp(_) => tcp::HEADER_LENGTH,
            Self::Raw(_) => 0,
        }
    }

    const fn protocol(&self) -> u8 {
        match self {
            Self::Udp(_) => protocol::UDP,
            Self::Tcp(_) => protocol::TCP,
            Self::Raw(protocol) => *protocol,
        }
    }
}

/// All headers of a frame.
///
/// ```
/// use core::net::{IpAddr, Ipv4Addr};
/// use headgate_wire::frame::{Frame, Network, Transport};
/// use headgate_wire::{MacAddress, udp};
///
/// let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
/// let frame = Frame {
///     destination: MacAddress([2, 0, 0, 0, 0, 2]),
///     source: MacAddress([2, 0, 0, 0, 0, 1]),
///     tags: [None, None],
///     network: Network::between(address(1), address(2)).unwrap(),
///     transport: Transport::Udp(udp::Header { source_port: 1024, destination_port: 53 }),
/// };
/// let mut buffer = [0; 2048];
/// let length = frame.write(&mut buffer, 22, |payload| payload.fill(0x5a))?;
/// assert_eq!(length, 64);
/// # Ok::<(), headgate_wire::NoRoomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The receiver on the link.
    pub destination: MacAddress,
    /// The sender on the link.
    pub source: MacAddress,
    /// VLAN tags, the outer first. A second without a first counts as the only one.
    pub tags: [Option<Tag>; 2],
    /// IP.
    pub network: Network,
    /// Header behind IP.
    pub transport: Transport,
}

impl Frame {
    /// Bytes of all headers: the length of a frame without payload.
    pub fn headers_length(&self) -> usize {
        ethernet::HEADER_LENGTH
            + self.tags.iter().flatten().count() * TAG_LENGTH
            + self.network.header_length()
            + self.transport.header_length()
    }

    /// Writes the frame at the start of `out` and returns its length in bytes, without padding to
    /// the 60 bytes of Ethernet. `fill` writes all `payload_length` bytes of the payload: what `out`
    /// held before is what it sees.
    ///
    /// # Errors
    /// [`NoRoomError`] when `out` is too short or the payload longer than its length fields can state;
    /// then what `out` holds is not a frame.
    pub fn write(
        &self,
        out: &mut [u8],
        payload_length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, NoRoomError> {
        let needed = self.headers_length().saturating_add(payload_length);
        let given = out.len();
        let frame = out.get_mut(..needed).ok_or(NoRoomError::Buffer { needed, given })?;
        let packet = self.write_link(frame)?;
        let (datagram, pseudo) = self.network.write(packet, self.transport.protocol())?;
        fill(&mut datagram[self.transport.header_length()..]);
        match self.transport {
            Transport::Udp(header) => header.write(datagram, pseudo)?,
            Transport::Tcp(header) => header.write(datagram, pseudo)?,
            Transport::Raw(_) => {}
        }
        Ok(needed)
    }

    /// Writes addresses, tags and EtherType, and returns what is behind them.
    fn write_link<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], NoRoomError> {
        let (addresses, mut rest) = split_room::<{ 2 * 6 }>(frame)?;
        addresses[..6].copy_from_slice(&self.destination.0);
        addresses[6..].copy_from_slice(&self.source.0);
        for tag in self.tags.iter().flatten() {
            let (front, behind) = split_room::<TAG_LENGTH>(rest)?;
            *front = tag.to_bytes();
            rest = behind;
        }
        let (ethertype, packet) = split_room::<2>(rest)?;
        *ethertype = self.network.ethertype().to_be_bytes();
        Ok(packet)
    }
}

#[cfg(test)]
mod tests;
