//! Any bytes as a capture to replay: what is found in them, beside what `pcap-file` finds.

#![no_main]

use headgate_pcap::read::{Fault, Record, Records};
use libfuzzer_sys::fuzz_target;
use pcap_file::pcap::PcapParser;
use pcap_file::{DataLink, TsResolution};

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
    compare(bytes, &records);
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
        assert_eq!(record.time_ns / 1_000_000_000, seconds);
        rest = behind;
    }
    assert!(records.next().is_none(), "the other reader found a packet less");
}
