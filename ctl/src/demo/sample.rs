//! A capture made here: a little of what a network carries, and a little of what it should not.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::net::IpAddr;

use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::vlan::Tag;
use headgate_wire::{MacAddress, NoRoomError, tcp, udp};
use rustix::fs::MemfdFlags;

/// Packets. Our choice: enough for some hundred flows, few enough to be made in a millisecond.
const PACKETS: u32 = 512;
/// The longest of them, in bytes.
const FRAME_BYTES_MAX: usize = 1514;

// draft-ietf-opsawg-pcap: the header of a file, with times in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
const VERSION: (u16, u16) = (2, 4);
const ETHERNET: u32 = 1;

/// A file without a name that vanishes with its last descriptor.
pub fn in_memory() -> io::Result<File> {
    let file = rustix::fs::memfd_create("headgate-sample.pcap", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(&bytes().map_err(io::Error::other)?)?;
    file.rewind()?;
    Ok(file)
}

/// The file's bytes.
fn bytes() -> Result<Vec<u8>, NoRoomError> {
    let mut file = Vec::new();
    file.extend(MAGIC.to_le_bytes());
    file.extend(VERSION.0.to_le_bytes());
    file.extend(VERSION.1.to_le_bytes());
    // Time zone and accuracy: zero by convention.
    file.extend([0; 8]);
    file.extend((FRAME_BYTES_MAX as u32).to_le_bytes());
    file.extend(ETHERNET.to_le_bytes());
    let mut buffer = [0; FRAME_BYTES_MAX];
    for number in 0..PACKETS {
        let length = packet(number, &mut buffer)?;
        let microseconds = number * 100;
        for word in [0, microseconds, length as u32, length as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&buffer[..length]);
    }
    Ok(file)
}

/// Writes a packet. Of every eight packets: four of TCP (one of them telnet, which the firewall denies), two
/// of UDP over IPv4, one over IPv6, one in a VLAN; every 64th is cut short behind its Ethernet header.
fn packet(number: u32, buffer: &mut [u8]) -> Result<usize, NoRoomError> {
    let [.., high, low] = number.to_be_bytes();
    let (client, server) = match number % 8 {
        6 => (
            IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, u16::from(low)]),
            IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, u16::from(high) + 1]),
        ),
        _ => (IpAddr::from([192, 0, 2, low]), IpAddr::from([198, 51, 100, high + 1])),
    };
    let source_port = 1024 + (number / 8) as u16;
    let transport = match number % 8 {
        0..=2 => tcp_to(source_port, 443),
        3 => tcp_to(source_port, 23),
        _ => Transport::Udp(udp::Header { source_port, destination_port: 53 }),
    };
    let tag = (number % 8 == 7).then(|| Tag::customer(10));
    let frame = Frame {
        destination: MacAddress([2, 0, 0, 0, 1, 1]),
        source: MacAddress([2, 0, 0, 0, 1, 10]),
        tags: [tag, None],
        network: Network::between(client, server).unwrap_or_else(|| unreachable!("both of one version")),
        transport,
    };
    let payload = if number.is_multiple_of(4) { FRAME_BYTES_MAX - frame.headers_length() } else { 64 };
    let length = frame.write(buffer, payload, |payload| payload.fill(b'.'))?;
    Ok(if number % 64 == 63 { 20 } else { length })
}

fn tcp_to(source_port: u16, destination_port: u16) -> Transport {
    let header = tcp::Header {
        source_port,
        destination_port,
        sequence: 1,
        acknowledgment: 1,
        flags: tcp::flag::ACK,
        window: u16::MAX,
    };
    Transport::Tcp(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_what_its_headers_say() {
        let file = bytes().unwrap();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), MAGIC);
        let (mut at, mut packets, mut telnet) = (24, 0, 0);
        while at < file.len() {
            let length = word(at + 8) as usize;
            assert_eq!(length, word(at + 12) as usize);
            let frame = &file[at + 16..at + 16 + length];
            let ipv4_tcp = length > 54 && frame[12..14] == [8, 0] && frame[23] == 6;
            telnet += u32::from(ipv4_tcp && frame[36..38] == [0, 23]);
            at += 16 + length;
            packets += 1;
        }
        assert_eq!((packets, telnet), (PACKETS, PACKETS / 8));
    }
}
