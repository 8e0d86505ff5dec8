//! The headers of [`TYPE_1`] and [`TYPE_2`] were read by tshark 4 as the comments say.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{TCP4_QINQ, UDP4, UDP6, hex};

/// TTL 62, length 6, MD type 1, next protocol 3; SPI 0x123456, SI 254; context 0 to 15.
const TYPE_1: &str = "0f860103123456fe000102030405060708090a0b0c0d0e0f";
/// O, TTL 5, length 6, MD type 2, next protocol 1; SPI 7, SI 1; class 0x0101 type 3 length 5, class 0xfff6
/// type 0x81 length 0.
const TYPE_2: &str = "2146020100000701010103056162636465000000fff68100";

fn bytes_of(digits: &str) -> Vec<u8> {
    hex(digits)
}

#[test]
fn a_header_of_type_1_is_read_and_written() {
    let bytes = [bytes_of(TYPE_1), b"payload".to_vec()].concat();
    let header = Header::new(&bytes).unwrap();
    let base = header.base();
    assert_eq!((base.version(), base.is_oam(), base.ttl(), base.length()), (0, false, 62, 24));
    assert_eq!((base.md_type(), base.next_protocol()), (md_type::FIXED, next_protocol::ETHERNET));
    assert_eq!(header.service_path(), ServicePath { path: 0x12_3456, index: 254 });
    let context = header.context().unwrap();
    let expected = Context {
        flow_hash: 0x0001_0203,
        ingress: 0x0405,
        egress: 0x0607,
        time_us: 0x0809_0a0b,
        target: 0x0c0d,
        digest: 0x0e0f,
    };
    assert_eq!((context, header.options().count(), header.payload()), (expected, 0, &b"payload"[..]));
    let mut again = [0; LENGTH_OF_TYPE_1];
    let first = Base::of_type_1();
    assert_eq!(first.forwarded(), Some(base));
    write(base, header.service_path(), &context.to_bytes(), &mut again).unwrap();
    assert_eq!(again, bytes[..LENGTH_OF_TYPE_1]);
}

#[test]
fn options_of_type_2_are_found_and_padding_is_not_theirs() {
    let bytes = bytes_of(TYPE_2);
    let header = Header::new(&bytes).unwrap();
    assert!(header.base().is_oam());
    assert_eq!((header.base().ttl(), header.context()), (5, None));
    let options: Vec<_> = header.options().map(Result::unwrap).collect();
    let known = Metadata { class: 0x0101, kind: 3, data: b"abcde" };
    assert_eq!(options, [known, Metadata { class: 0xfff6, kind: 0x81, data: b"" }]);
    let mut again = [0; 24];
    write(header.base(), header.service_path(), header.metadata(), &mut again).unwrap();
    assert_eq!(again.as_slice(), bytes);
}

/// RFC 8300 §2.2: "Decrementing by 1 from an incoming value of 0 shall result in a TTL value of 63. The
/// packet MUST NOT be forwarded if TTL is, after decrement, 0."
#[test]
fn ttl_is_counted_down_and_0_becomes_63() {
    let base = Base::of_type_1();
    let behind = |ttl| base.with_ttl(ttl).forwarded().map(Base::ttl);
    assert_eq!([behind(63), behind(2), behind(1), behind(0)], [Some(62), Some(1), None, Some(63)]);
}

#[test]
fn what_is_no_header_of_ours_is_refused() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = bytes_of(TYPE_1);
        change(&mut bytes);
        Header::new(&bytes).unwrap_err()
    };
    assert_eq!(refused(|bytes| bytes.truncate(7)), HeaderError::Truncated);
    assert_eq!(refused(|bytes| bytes.truncate(23)), HeaderError::Truncated);
    assert_eq!(refused(|bytes| bytes[0] |= 0x40), HeaderError::Version(1));
    assert_eq!(refused(|bytes| bytes[1] += 1), HeaderError::Length(7));
    assert_eq!(refused(|bytes| bytes[2] = 0), HeaderError::MdType(0));
    assert_eq!(refused(|bytes| bytes[2] = 0xf), HeaderError::MdType(15));
    assert_eq!(refused(|bytes| (bytes[1], bytes[2]) = (0x81, 2)), HeaderError::Length(1));
    // Read as options, the context has one of 3 bytes, and one of 11 where 4 are left.
    assert_eq!(refused(|bytes| bytes[2] = 2), HeaderError::Option);
}

#[test]
fn a_header_that_does_not_fit_is_refused() {
    let written = |metadata: &[u8], room: usize| {
        write(Base::of_type_1(), ServicePath::default(), metadata, &mut [0; 300][..room])
            .map(|rest| rest.len())
    };
    assert_eq!(written(&[0; 16], 30), Ok(6));
    assert_eq!(written(&[0; 16], 20), Err(NoRoomError::Buffer { needed: 24, given: 20 }));
    assert_eq!(written(&[], 7), Err(NoRoomError::Buffer { needed: 8, given: 7 }));
    assert_eq!(written(&[0; 3], 20), Err(NoRoomError::LengthField { length: 11, max: LENGTH_MAX }));
    assert_eq!(written(&[0; 248], 300), Err(NoRoomError::LengthField { length: 256, max: LENGTH_MAX }));
}

/// Returns a frame with its ends swapped: addresses at these offsets of this length, ports behind them.
fn swapped(frame: &str, source: usize, length: usize, ports: usize) -> (Vec<u8>, Vec<u8>) {
    let bytes = hex(frame);
    let mut back = bytes.clone();
    let destination = source + length;
    back[source..destination].copy_from_slice(&bytes[destination..destination + length]);
    back[destination..destination + length].copy_from_slice(&bytes[source..destination]);
    back[ports..ports + 2].copy_from_slice(&bytes[ports + 2..ports + 4]);
    back[ports + 2..ports + 4].copy_from_slice(&bytes[ports..ports + 2]);
    (bytes, back)
}

#[test]
fn both_directions_of_a_flow_have_one_hash() {
    let hash = |frame: &[u8]| flow_hash(frame, frame.len());
    let mut seen = Vec::new();
    for (there, back) in [swapped(UDP4, 26, 4, 34), swapped(UDP6, 22, 16, 54), swapped(TCP4_QINQ, 34, 4, 42)]
    {
        assert_ne!(there, back);
        assert_eq!(hash(&there), hash(&back));
        let mut other = there.clone();
        *other.last_mut().unwrap() ^= 1;
        assert_eq!(hash(&there), hash(&other), "the payload does not count");
        seen.push(hash(&there));
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
    // Every machine computes the same.
    assert_eq!(seen, [2_403_596_859, 1_544_870_739, 786_429_124]);
    assert_eq!(hash(&[0; 13]), 0);
}

#[test]
fn parts_of_a_packet_have_one_hash() {
    let part = |fragment: u16| {
        let mut frame = hex(UDP4);
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        flow_hash(&frame, frame.len())
    };
    let (first, later, whole) = (part(0x2000), part(0x00b9), part(0));
    assert_eq!(first, later);
    assert_ne!(first, whole);
}

proptest! {
    #[test]
    fn what_is_written_is_read(bits: u32, spi in 0..=PATH_MAX, index: u8, words in vec(any::<[u8; 4]>(), 0..62)) {
        let (base, path) = (Base::from_bits(bits & 0x3fff_ffff), ServicePath { path: spi, index });
        let mut bytes = [0; LENGTH_MAX + 3];
        let rest = write(base, path, words.as_flattened(), &mut bytes).unwrap().len();
        prop_assert_eq!(bytes.len() - rest, FIXED_LENGTH + words.len() * 4);
        if let Ok(header) = Header::new(&bytes) {
            prop_assert_eq!(header.base().bits() & !0x003f_0000, base.bits() & !0x003f_0000);
            prop_assert_eq!((header.service_path(), header.metadata()), (path, words.as_flattened()));
            prop_assert_eq!(header.payload().len(), rest);
        }
    }

    #[test]
    fn any_bytes_are_a_header_or_refused(mut bytes in vec(any::<u8>(), 0..300), kind in 0..4u8) {
        // One in two is of a length and type that may be.
        if kind >= 2 && bytes.len() > 2 {
            bytes[0] &= 0x3f;
            bytes[2] = kind - 1;
        }
        if let Ok(header) = Header::new(&bytes) {
            prop_assert!(header.base().length() <= bytes.len() && header.base().length() >= FIXED_LENGTH);
            let options: usize =
                header.options().map(|option| 4 + option.unwrap().data.len().next_multiple_of(4)).sum();
            let context = header.context().map_or(0, |_| CONTEXT_LENGTH);
            prop_assert_eq!(options + context, header.metadata().len());
            if let Some(context) = header.context() {
                let again = context.to_bytes();
                prop_assert_eq!(again.as_slice(), header.metadata());
            }
        }
    }

    #[test]
    fn a_plain_header_is_what_a_view_of_it_says(
        mut bytes in vec(any::<u8>(), LENGTH_OF_TYPE_1),
        kind in 0..3u8,
        noise in (any::<u8>(), 0..16u8, any::<u8>()),
    ) {
        // Most have the fields of a plain one, but for one at most.
        let mut base = Base::of_type_1().with_ttl(noise.0).bits() | u32::from(noise.1) << 12;
        if kind == 0 {
            base ^= 1 << (noise.2 % 32);
        }
        bytes[..4].copy_from_slice(&base.to_be_bytes());
        let word = u64::from_be_bytes(*bytes.first_chunk().unwrap());
        let is_plain = |header: &Header<&Vec<u8>>| {
            let base = header.base();
            base.md_type() == md_type::FIXED
                && !base.is_oam()
                && base.next_protocol() == next_protocol::ETHERNET
        };
        let seen = Header::new(&bytes).ok().filter(is_plain);
        prop_assert_eq!(plain(word), seen.map(|header| (header.base(), header.service_path())));
    }

    #[test]
    fn a_hash_does_not_depend_on_the_direction(mut frame in vec(any::<u8>(), 60..80)) {
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        frame[16..18].copy_from_slice(&40u16.to_be_bytes());
        frame[20..22].fill(0);
        frame[23] = 17;
        frame[38..40].copy_from_slice(&20u16.to_be_bytes());
        let mut back = frame.clone();
        back[26..30].copy_from_slice(&frame[30..34]);
        back[30..34].copy_from_slice(&frame[26..30]);
        back[34..36].copy_from_slice(&frame[36..38]);
        back[36..38].copy_from_slice(&frame[34..36]);
        prop_assert_ne!(flow_hash(&frame, frame.len()), 0);
        let word = |at: usize| frame[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        prop_assert_eq!(plain_flow_hash(word, frame.len()), Some(flow_hash(&frame, frame.len())));
        prop_assert_eq!(flow_hash(&frame, frame.len()), flow_hash(&back, back.len()));
    }
}
