use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const OFFERS: [Offer<'static>; 2] = [
    Offer { nf: "fw", instances: 2, kappa: 0.5, service_ns: 700, leaving: false },
    Offer { nf: "mon-1", instances: 0, kappa: 0.0, service_ns: 0, leaving: true },
];

fn datagram() -> Writer {
    let mut writer = Writer::default();
    assert!(writer.is_empty());
    writer.record("a", (7, 9), OFFERS).unwrap();
    writer.record("node.b", (u64::MAX, 0), []).unwrap();
    writer
}

#[test]
fn records_come_out_as_they_went_in() {
    let writer = datagram();
    let read = Datagram::new(writer.bytes()).unwrap();
    let records: Vec<Record<'_>> = read.records().collect();
    let numbers = records.iter().map(|one| (one.node, one.incarnation, one.sequence));
    assert_eq!(numbers.collect::<Vec<_>>(), [("a", 7, 9), ("node.b", u64::MAX, 0)]);
    assert_eq!(records[0].offers().collect::<Vec<_>>(), OFFERS);
    assert_eq!(records[1].offers().count(), 0);
    let mut passed_on = Writer::default();
    records.iter().for_each(|record| passed_on.pass_on(record.bytes).unwrap());
    assert_eq!(passed_on.bytes(), writer.bytes());
}

#[test]
fn what_is_none_is_refused() {
    let writer = datagram();
    let good = writer.bytes();
    for length in 0..good.len() {
        assert!(Datagram::new(&good[..length]).is_err(), "{length} bytes");
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        Datagram::new(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, b'X'), BeatError::Magic);
    assert_eq!(changed(HEADER_BYTES, 0), BeatError::Name);
    assert_eq!(changed(HEADER_BYTES + 1, b' '), BeatError::Name);
    assert_eq!(changed(MAGIC.len(), 1), BeatError::Trailing);
    assert_eq!(Datagram::new(&[good, &[0]].concat()).unwrap_err(), BeatError::Trailing);
    assert_eq!(Datagram::new(&[0; BYTES_MAX + 1]).unwrap_err(), BeatError::Oversized);
    for kappa in [-0.5, f32::NAN, f32::INFINITY, 2.0 * KAPPA_MAX] {
        let mut writer = Writer::default();
        writer.record("a", (1, 1), [Offer { kappa, ..OFFERS[0] }]).unwrap();
        assert_eq!(Datagram::new(writer.bytes()).unwrap_err(), BeatError::Price, "{kappa}");
    }
}

#[test]
fn what_does_not_fit_is_not_added() {
    let mut writer = Writer::default();
    let name = "n".repeat(NAME_BYTES_MAX);
    let mut added = 0;
    while writer.record(&name, (1, added), OFFERS).is_ok() {
        added += 1;
    }
    assert!(added > 5 && writer.bytes().len() <= BYTES_MAX);
    assert_eq!(Datagram::new(writer.bytes()).unwrap().records().count(), added as usize);
    assert!(writer.record(&"n".repeat(64), (1, 1), []).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), like_ours: bool) {
        let mut bytes = bytes;
        if like_ours && bytes.len() >= MAGIC.len() {
            bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        }
        if let Ok(read) = Datagram::new(&bytes) {
            for record in read.records() {
                prop_assert!(record.offers().all(|offer| offer.kappa >= 0.0));
            }
        }
    }

    /// A byte that was changed on the way gives other records or none, and nothing is read beyond.
    #[test]
    fn a_changed_byte_harms_nothing(at in 0..datagram().bytes().len(), byte: u8) {
        let mut bytes = datagram().bytes().to_vec();
        bytes[at] = byte;
        if let Ok(read) = Datagram::new(&bytes) {
            let sum: usize = read.records().map(|record| record.bytes.len()).sum();
            prop_assert_eq!(sum + HEADER_BYTES, bytes.len());
        }
    }
}
