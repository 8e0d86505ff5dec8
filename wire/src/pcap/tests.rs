//! Reading: what other programs write, what they read of ours, and what nobody should write.

use core::time::Duration;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;

use super::*;
use crate::pcapng;

/// The local experimental EtherType 1 (IEEE 802), which no protocol claims.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; length];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame
}

/// A pcap file as we write it.
fn classic(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = classic::header(262_144).to_vec();
    for (time_ns, frame) in packets {
        let length = frame.len() as u32;
        bytes.extend(classic::record_header(*time_ns, length, length));
        bytes.extend(frame);
    }
    bytes
}

/// A pcapng file as we write it; each packet with the number of its interface and its direction.
fn newer(interfaces: u32, packets: &[(u32, u64, Vec<u8>, Option<pcapng::Direction>)]) -> Vec<u8> {
    let mut bytes = vec![0xee; pcapng::section_bytes("test")];
    pcapng::section(&mut bytes, "test");
    for number in 0..interfaces {
        let name = std::format!("test.{number}");
        let mut interface = vec![0xee; pcapng::interface_bytes(&name)];
        pcapng::interface(&mut interface, &name, 0);
        bytes.extend(interface);
    }
    for (interface, time_ns, frame, direction) in packets {
        let length = frame.len();
        let about = pcapng::Packet { interface: *interface, time_ns: *time_ns, length, kept: length };
        let fill = |bytes: &mut [u8]| bytes.copy_from_slice(frame);
        let mut block = vec![0xee; pcapng::packet_bytes(length)];
        if let Some(direction) = direction {
            block.resize(pcapng::directed_packet_bytes(length), 0xee);
            pcapng::directed_packet(&mut block, about, *direction, fill);
        } else {
            pcapng::packet(&mut block, about, fill);
        }
        bytes.extend(block);
    }
    bytes
}

fn records(bytes: &[u8]) -> Result<Vec<Record>, ReadError> {
    Records::new(bytes)?.collect()
}

/// Interface, time and bytes of each packet.
fn all(bytes: &[u8]) -> Vec<(u32, Option<u64>, Vec<u8>)> {
    let records = records(bytes).unwrap().into_iter();
    records.map(|record| (record.interface, record.time_ns, bytes[record.bytes].to_vec())).collect()
}

/// Times and bytes.
fn contents(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    all(bytes).into_iter().map(|(_, time_ns, bytes)| (time_ns.unwrap_or(0), bytes)).collect()
}

fn blocks(list: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, body) in list {
        let length = (body.len() as u32 + 12).to_le_bytes();
        bytes.extend([&kind.to_le_bytes(), &length, &body[..], &length].concat());
    }
    bytes
}

fn section() -> (u32, Vec<u8>) {
    (0x0a0d_0d0a, [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat())
}

/// An interface with options given as code and value.
fn interface(link_type: u16, options: &[(u16, &[u8])]) -> (u32, Vec<u8>) {
    let mut body = [&link_type.to_le_bytes()[..], &[0, 0, 0, 0, 0, 0]].concat();
    for (code, value) in options {
        body.extend(code.to_le_bytes());
        body.extend((value.len() as u16).to_le_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    (1, body)
}

fn enhanced(interface: u32, units: u64, captured: &[u8], original: u32) -> (u32, Vec<u8>) {
    let mut body = Vec::new();
    for word in [interface, (units >> 32) as u32, units as u32, captured.len() as u32, original] {
        body.extend(word.to_le_bytes());
    }
    body.extend(captured);
    body.resize(body.len().next_multiple_of(4), 0);
    (6, body)
}

fn packets_strategy() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let time = 0u64..4_000_000_000_000_000_000;
    prop::collection::vec((time, prop::collection::vec(any::<u8>(), 0..200)), 0..20)
}

proptest! {
    #[test]
    fn classic_captures_of_another_writer_are_read(
        packets in packets_strategy(), big: bool, microseconds: bool
    ) {
        let header = PcapHeader {
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ts_resolution: if microseconds { TsResolution::MicroSecond } else { TsResolution::NanoSecond },
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (time_ns, frame) in &packets {
            let time = Duration::from_nanos(*time_ns);
            writer.write_packet(&PcapPacket::new(time, frame.len() as u32, frame)).unwrap();
        }
        let unit = if microseconds { 1000 } else { 1 };
        let wanted: Vec<_> = packets.into_iter().map(|(time, frame)| (time / unit * unit, frame)).collect();
        prop_assert_eq!(contents(&writer.into_writer()), wanted);
    }

    #[test]
    fn newer_captures_of_another_writer_are_read(packets in packets_strategy(), big: bool) {
        let endianness = if big { Endianness::Big } else { Endianness::Little };
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        writer
            .write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![InterfaceDescriptionOption::IfTsResol(9)],
            })
            .unwrap();
        for (time_ns, frame) in &packets {
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(*time_ns),
                original_len: frame.len() as u32,
                data: frame.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        prop_assert_eq!(contents(&writer.into_inner()), packets);
    }

    /// Both readers find the same in a file of several interfaces with resolutions of their own, also in one
    /// that breaks off.
    #[test]
    fn both_readers_find_the_same_packets_on_the_same_interfaces(
        resolutions in prop::collection::vec(prop::option::of(0u8..10), 1..4),
        packets in prop::collection::vec((0u32..4, 0u64..1 << 50, prop::collection::vec(any::<u8>(), 0..99)), 0..20),
        big: bool, cut in prop::option::of(any::<u16>()),
    ) {
        let endianness = if big { Endianness::Big } else { Endianness::Little };
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        for resolution in &resolutions {
            let options = resolution.iter().map(|digits| InterfaceDescriptionOption::IfTsResol(*digits));
            let linktype = DataLink::ETHERNET;
            let interface = InterfaceDescriptionBlock { linktype, snaplen: 0, options: options.collect() };
            writer.write_pcapng_block(interface).unwrap();
        }
        for (interface, units, data) in &packets {
            let interface_id = interface % resolutions.len() as u32;
            let (timestamp, original_len) = (Duration::from_nanos(*units), data.len() as u32);
            let options = vec![EnhancedPacketOption::Comment("passed over".into())];
            let block = EnhancedPacketBlock { interface_id, timestamp, original_len, data: data.into(), options };
            writer.write_pcapng_block(block).unwrap();
        }
        // The other reader wants a whole section header.
        const SECTION_BYTES: usize = 28;
        let mut bytes = writer.into_inner();
        bytes.truncate(bytes.len() - usize::from(cut.unwrap_or(0)) % (bytes.len() - SECTION_BYTES));
        let mut theirs = Vec::new();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        while let Some(Ok(block)) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.into_owned() {
                // It takes every time for nanoseconds.
                let digits = resolutions[packet.interface_id as usize].unwrap_or(6);
                let ns = packet.timestamp.as_nanos() * 10u128.pow(9 - u32::from(digits));
                let time_ns = u64::try_from(ns).unwrap_or(u64::MAX);
                theirs.push((packet.interface_id, Some(time_ns), packet.data.to_vec()));
            }
        }
        let whole = Records::new(&bytes).unwrap().map_while(Result::ok);
        let ours = whole.map(|record| (record.interface, record.time_ns, bytes[record.bytes].to_vec()));
        prop_assert_eq!(ours.collect::<Vec<_>>(), theirs);
    }

    #[test]
    fn what_is_written_is_read_by_both_readers(
        packets in packets_strategy(), spread in prop::collection::vec((0u32..3, 0u8..3), 20)
    ) {
        // The other reader refuses times beyond 32 bits of seconds.
        let packets: Vec<_> = packets.into_iter().map(|(time, frame)| (time % (1 << 62), frame)).collect();
        let bytes = classic(&packets);
        prop_assert_eq!(contents(&bytes), packets.clone());
        let mut reader = PcapReader::new(&bytes[..]).unwrap();
        let mut theirs = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            theirs.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec()));
        }
        prop_assert_eq!(&theirs, &packets);

        use pcapng::Direction::{Inbound, Outbound};
        let on = |((time, frame), (interface, way)): ((u64, Vec<u8>), (u32, u8))| {
            (interface, time, frame, [None, Some(Inbound), Some(Outbound)][usize::from(way)])
        };
        let packets: Vec<_> = packets.into_iter().zip(spread).map(on).collect();
        let bytes = newer(3, &packets);
        let ours = packets.iter().map(|(interface, time, frame, _)| (*interface, Some(*time), frame.clone()));
        prop_assert_eq!(all(&bytes), ours.collect::<Vec<_>>());
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut theirs = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap().into_owned() {
                let way = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Flags(1) => Some(Inbound),
                    EnhancedPacketOption::Flags(2) => Some(Outbound),
                    _ => None,
                });
                theirs.push((packet.interface_id, packet.timestamp.as_nanos() as u64, packet.data.to_vec(), way));
            }
        }
        prop_assert_eq!(theirs, packets);
    }

    /// Noise, and captures with some bytes changed or cut off, are read or refused, never a panic;
    /// what is given lies in the file.
    #[test]
    fn garbled_captures_never_panic(
        packets in packets_strategy(), is_classic: bool, noise in prop::collection::vec(any::<(u16, u8)>(), 0..8),
        cut: u16, raw in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        let mut bytes = if is_classic {
            classic(&packets)
        } else {
            let mut list = vec![section(), interface(1, &[(9, &[6]), (14, &[1; 8]), (13, &[4])])];
            list.extend(packets.iter().map(|(time, frame)| enhanced(0, *time, frame, frame.len() as u32 + 4)));
            list.push((3, [&100u32.to_le_bytes()[..], &[7; 100]].concat()));
            blocks(&list)
        };
        for (at, byte) in noise {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= byte;
        }
        bytes.truncate(bytes.len() - usize::from(cut) % (bytes.len() / 4 + 1));
        for bytes in [&bytes, &raw] {
            let Ok(records) = Records::new(bytes) else { continue };
            for record in records.map_while(Result::ok) {
                prop_assert!(record.bytes.start <= record.bytes.end && record.bytes.end <= bytes.len());
            }
        }
    }
}

#[test]
fn times_have_the_resolution_the_interface_says() {
    let time = |options: &[(u16, &[u8])], units| {
        let bytes = blocks(&[section(), interface(1, options), enhanced(0, units, &[0; 14], 14)]);
        contents(&bytes)[0].0
    };
    assert_eq!(time(&[], 3_000_001), 3_000_001_000, "microseconds unless told otherwise");
    assert_eq!(time(&[(9, &[9])], 3_000_001), 3_000_001);
    assert_eq!(time(&[(9, &[0])], 3), 3_000_000_000);
    assert_eq!(time(&[(9, &[12])], 3_000_001), 3_000);
    assert_eq!(time(&[(9, &[0x80 | 10])], 1024 + 512), 1_500_000_000);
    assert_eq!(time(&[(9, &[0x7f])], u64::MAX), 0);
    assert_eq!(time(&[(9, &[0x80])], u64::MAX), u64::MAX, "beyond 2554 is 2554");
    assert_eq!(time(&[(14, &5i64.to_le_bytes())], 1), 5_000_001_000);
    assert_eq!(time(&[(14, &(-5i64).to_le_bytes())], 6_000_000), 1_000_000_000);
    assert_eq!(time(&[(14, &(-5i64).to_le_bytes())], 1), 0, "before 1970 is 1970");
    assert_eq!(time(&[(2, b"eth0"), (9, &[9]), (0, &[]), (9, &[6])], 7), 7, "options end");
    assert_eq!(time(&[(9, &[9, 9])], 7), 7_000, "an option of the wrong length is none");
}

#[test]
fn blocks_of_all_kinds_are_read_or_passed_over() {
    let simple = (3, [&20u32.to_le_bytes()[..], &[3; 20]].concat());
    let mut obsolete = vec![0, 0, 9, 9];
    for word in [0u32, 5, 14, 60] {
        obsolete.extend(word.to_le_bytes());
    }
    obsolete.extend([2; 16]);
    let bytes = blocks(&[
        section(),
        interface(1, &[]),
        (4, vec![0; 8]),
        simple,
        (2, obsolete),
        (0x0bad, vec![1; 24]),
        section(),
        interface(1, &[(9, &[9])]),
        enhanced(0, 9, &[1; 15], 15),
    ]);
    assert_eq!(contents(&bytes), [(0, vec![3; 20]), (5_000, vec![2; 14]), (9, vec![1; 15])]);
    assert_eq!(records(&bytes).unwrap()[0].time_ns, None, "a simple packet block has no time");
    let cut: Vec<u32> = records(&bytes).unwrap().iter().map(|record| record.cut).collect();
    assert_eq!(cut, [0, 46, 0]);
}

#[test]
fn check_sequences_are_cut_off_as_far_as_captured() {
    let frame = [7; 64];
    let bytes = blocks(&[
        section(),
        interface(1, &[(13, &[4])]),
        enhanced(0, 0, &frame, 64),
        enhanced(0, 0, &frame[..62], 64),
        enhanced(0, 0, &frame[..32], 64),
    ]);
    let found: Vec<_> = records(&bytes).unwrap().iter().map(|at| (at.bytes.len(), at.cut)).collect();
    assert_eq!(found, [(60, 0), (60, 0), (32, 28)]);

    let mut bytes = classic(&[(0, frame.to_vec())]);
    bytes[20..24].copy_from_slice(&0x2400_0001u32.to_le_bytes());
    assert_eq!(records(&bytes).unwrap()[0].bytes.len(), 60, "two 16-bit words");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let frame = frame(60);
    let classic = classic(&[(0, frame.clone()), (1, frame.clone())]);
    let link = |link_type: u8| {
        let mut bytes = classic.clone();
        bytes[20] = link_type;
        bytes
    };
    let good = blocks(&[section(), interface(1, &[])]);
    let with = |rest: Vec<u8>| [good.clone(), rest].concat();
    let at = good.len();
    for (bytes, wanted) in [
        (Vec::new(), "empty"),
        (b"GET / HTTP/1.1\r\n".to_vec(), "neither pcap nor pcapng"),
        (vec![1, 2], "neither pcap nor pcapng"),
        (vec![0x1f, 0x8b, 8, 0], "gzip"),
        (vec![0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (classic[..20].to_vec(), "breaks off in the block at byte 0, after 0 packets"),
        (classic[..24 + 76 + 10].to_vec(), "breaks off in the block at byte 100, after 1 packet"),
        (classic[..classic.len() - 1].to_vec(), "breaks off in the block at byte 100, after 1 packet"),
        (link(113), "link type 113 and not Ethernet (1) at byte 0, after 0 packets"),
        (blocks(&[section(), interface(105, &[]), enhanced(0, 0, &frame, 60)]), "link type 105"),
        (with(blocks(&[enhanced(1, 0, &frame, 60)])), "an interface never described"),
        (with(vec![6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0]), "block length"),
        (with(vec![6, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]), "block length"),
        (with(vec![6, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0]), "two block lengths that differ"),
        (with(vec![6, 0, 0, 0, 200, 0, 0, 0]), "breaks off"),
        (with(blocks(&[(6, vec![0; 16])])), "too short"),
        (with(blocks(&[(6, [vec![0; 12], vec![9, 0, 0, 0, 9, 0, 0, 0]].concat())])), "longer than its block"),
        (with(blocks(&[(3, vec![9, 0, 0, 0])])), "longer than its block"),
        (blocks(&[(0x0a0d_0d0a, vec![0; 16])]), "byte-order magic"),
        (blocks(&[(0x0a0d_0d0a, [0x4d, 0x3c, 0x2b, 0x1a, 2, 0, 0, 0].to_vec())]), "major version"),
        (with(blocks(&[(1, vec![1, 0])]).into_iter().chain([0; 2]).collect()), "block length"),
        (with(blocks(&[(1, vec![1, 0, 0, 0])])), "too short"),
    ] {
        let error = records(&bytes).expect_err(wanted);
        assert!(error.to_string().contains(wanted), "{error} / {wanted}");
        if let ReadError::BadField { at: place, .. } = error {
            assert!(place == at || place == 0, "{error}");
        }
        assert!(!error.mend().is_empty());
    }
    assert_eq!(records(&link(1)).unwrap().len(), 2);
}

#[test]
fn an_interface_without_packets_may_be_of_any_link_type() {
    let bytes = blocks(&[section(), interface(113, &[]), interface(1, &[]), enhanced(1, 0, &[0; 14], 14)]);
    assert_eq!(records(&bytes).unwrap().len(), 1);
}
