//! Any bytes as a capture to replay: what is found in them, beside what `pcap-file` finds.

#![no_main]

use headgate_ports::pcap::read::{Fault, Record, Records};
use libfuzzer_sys::fuzz_target;
use pcap_file::pcap::PcapParser;

/// Where classic captures state link type and check sequence: Ethernet, and nothing said.
const PLAIN_LINK: [[u8; 4]; 2] = [[1, 0, 0, 0], [0, 0, 0, 1]];

fuzz_target!(|bytes: &[u8]| {
    let (records, fault) = read(bytes);
    let mut end = 0;
    for record in &records {
        assert!(record.bytes.start >= end && record.bytes.end <= bytes.len(), "{record:?}");
        end = record.bytes.end;
    }
    if let Some(Fault::Truncated { at, packets } | Fault::BadField { at, packets, .. }) = fault {
        assert_eq!(packets, records.len() as u64);
        assert!(at >= end || at == 0, "the fault lies before what was read");
        // What is before the fault is a capture by itself.
        if at > 0 {
            assert_eq!(read(&bytes[..at]), (records.clone(), None));
        }
    }
    if bytes.get(20..24).is_some_and(|link| PLAIN_LINK.iter().any(|plain| link == plain)) {
        compare(bytes, &records);
    }
});

fn read(bytes: &[u8]) -> (Vec<Record>, Option<Fault>) {
    let mut found = Vec::new();
    match Records::new(bytes) {
        Ok(records) => {
            for record in records {
                match record {
                    Ok(record) => found.push(record),
                    Err(fault) => return (found, Some(fault)),
                }
            }
            (found, None)
        }
        Err(fault) => (found, Some(fault)),
    }
}

/// Classic captures: the other reader finds the same packets. Its checks of lengths and times, which
/// refuse what tcpdump writes with a snapshot length, are passed by.
fn compare(bytes: &[u8], records: &[Record]) {
    let Ok((mut rest, parser)) = PcapParser::new(bytes) else { return };
    let mut records = records.iter();
    while let Ok((behind, packet)) = parser.next_raw_packet(rest) {
        let record = records.next().expect("the other reader found a packet more");
        assert_eq!(bytes[record.bytes.clone()], *packet.data);
        assert_eq!(record.time_ns / 1_000_000_000, u64::from(packet.ts_sec) + seconds_of(packet.ts_frac, bytes));
        rest = behind;
    }
    assert!(records.next().is_none(), "the other reader found a packet less");
}

/// Fractions of a second may be more than a second.
fn seconds_of(fraction: u32, bytes: &[u8]) -> u64 {
    let nanoseconds = [[0x4d, 0x3c, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d]].iter().any(|magic| bytes.starts_with(magic));
    u64::from(fraction) / if nanoseconds { 1_000_000_000 } else { 1_000_000 }
}
