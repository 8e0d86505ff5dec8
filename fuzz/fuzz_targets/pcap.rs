//! Any bytes as a capture: what is found in them, beside what `pcap-file` finds.

#![no_main]

use headgate_wire::pcap::{ReadError, Record, Records};
use libfuzzer_sys::fuzz_target;
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, TsResolution};

fuzz_target!(|bytes: &[u8]| {
    let (records, error) = read(bytes);
    let mut end = 0;
    for record in &records {
        assert!(record.bytes.start >= end && record.bytes.end <= bytes.len(), "{record:?}");
        end = record.bytes.end;
    }
    if let Some(
        ReadError::Truncated { at, packets }
        | ReadError::BadField { at, packets, .. }
        | ReadError::NotEthernet { at, packets, .. },
    ) = error
    {
        assert_eq!(packets, records.len() as u64);
        assert!(at >= end || at == 0, "the error lies before what was read");
        // What is before the error is a capture by itself.
        if at > 0 {
            assert_eq!(read(&bytes[..at]), (records.clone(), None));
        }
    }
    compare_classic(bytes, &records);
    compare_newer(bytes, &records);
});

fn read(bytes: &[u8]) -> (Vec<Record>, Option<ReadError>) {
    let mut found = Vec::new();
    match Records::new(bytes) {
        Ok(records) => {
            for record in records {
                match record {
                    Ok(record) => found.push(record),
                    Err(error) => return (found, Some(error)),
                }
            }
            (found, None)
        }
        Err(error) => (found, Some(error)),
    }
}

/// pcap files: the other reader finds the same packets. Its checks of lengths and times, which
/// refuse what tcpdump writes with a snapshot length, are passed by.
fn compare_classic(bytes: &[u8], records: &[Record]) {
    let Ok((mut rest, parser)) = PcapParser::new(bytes) else { return };
    if parser.header().datalink != DataLink::ETHERNET {
        // Another link type, or one that says how long its check sequences are.
        return;
    }
    let ticks_per_second = match parser.header().ts_resolution {
        TsResolution::MicroSecond => 1_000_000,
        TsResolution::NanoSecond => 1_000_000_000,
    };
    let mut records = records.iter();
    while let Ok((behind, packet)) = parser.next_raw_packet(rest) {
        let record = records.next().expect("the other reader found a packet more");
        assert_eq!(bytes[record.bytes.clone()], *packet.data);
        // A fraction of a second may be more than a second.
        let seconds = u64::from(packet.ts_sec) + u64::from(packet.ts_frac) / ticks_per_second;
        assert_eq!(record.time_ns.map(|ns| ns / 1_000_000_000), Some(seconds));
        rest = behind;
    }
    assert!(records.next().is_none(), "the other reader found a packet less");
}

/// pcapng files: as long as both understand the blocks, packets lie where the other reader finds them. What
/// cuts a packet (check sequences, snapshot lengths) is ours alone, and so are times.
fn compare_newer(bytes: &[u8], records: &[Record]) {
    let Ok((mut rest, mut parser)) = PcapNgParser::new(bytes) else { return };
    let mut records = records.iter();
    while let Ok((behind, block)) = parser.next_block(rest) {
        let (interface, data) = match &block {
            Block::EnhancedPacket(packet) => (packet.interface_id, &packet.data),
            Block::Packet(packet) => (u32::from(packet.interface_id), &packet.data),
            Block::SimplePacket(packet) => (0, &packet.data),
            _ => {
                rest = behind;
                continue;
            }
        };
        // It stops at other errors than we do.
        let Some(record) = records.next() else { return };
        assert_eq!(record.interface, interface);
        assert!(data.starts_with(&bytes[record.bytes.clone()]), "{record:?}");
        rest = behind;
    }
}
