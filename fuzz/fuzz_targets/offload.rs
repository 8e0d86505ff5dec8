//! Any bytes as a virtio header and a frame: completing, cutting, joining.
//!
//! The input is the virtio header and the frame behind it, as a packet socket gives them.

#![no_main]

use headgate_wire::flow_key::{Parsed, parse};
use headgate_wire::offload::{Cut, HEAD_BYTES, HEADER_LENGTH, HEADERS_MAX, Header, Partial, Segment, Train, Work};
use headgate_wire::{ipv4, tcp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, frame)) = bytes.split_first_chunk::<HEADER_LENGTH>() else { return };
    let header = Header::from_bytes(*header);
    assert_eq!(Header::from_bytes(header.to_bytes()), header);
    if let Some(partial) = Partial::find(&frame[..frame.len().min(HEAD_BYTES)], frame.len()) {
        let mut whole = frame.to_vec();
        partial.fill(&mut whole);
        assert!(Partial::find(&whole, whole.len()).is_none_or(|again| again.complete(&whole).1 == partial.complete(frame).1));
    }
    match header.work(frame) {
        Ok(Work::Cut(cut)) => check_segments(frame, &cut),
        Ok(Work::Checksum(partial)) => partial.fill(&mut frame.to_vec()),
        Ok(Work::Nothing) | Err(_) => {}
    }
});

/// Payloads follow each other, each in a frame that is of the same flow; and what joins is what was cut.
fn check_segments(frame: &[u8], cut: &Cut) {
    let mut headers = [0; HEADERS_MAX];
    let mut end: Option<*const u8> = None;
    let mut train: Option<Train> = None;
    for number in 0..cut.segments().min(100) {
        let (head, payload) = cut.segment(frame, number, &mut headers);
        assert!(!payload.is_empty() && head.len() + payload.len() <= cut.frame_bytes_max());
        assert!(end.is_none_or(|end| end == payload.as_ptr()));
        end = Some(payload.as_ptr_range().end);
        let segment = [head, payload].concat();
        assert_eq!(flow(&segment), flow(frame));
        check_headers(&segment);
        let mut start = [0; HEAD_BYTES];
        let bytes = segment.len().min(HEAD_BYTES);
        start[..bytes].copy_from_slice(&segment[..bytes]);
        let Some(next) = Segment::of(&start, segment.len()) else { continue };
        match &mut train {
            Some(train) if train.continues(&next) => train.add(&next),
            _ => train = Some(Train::of(next)),
        }
    }
    if let Some(train) = train {
        let _ = train.finish(&mut frame.to_vec());
    }
}

fn flow(frame: &[u8]) -> Option<u128> {
    match parse(frame, frame.len()) {
        Parsed::Ipv4 { key, .. } => Some(u128::from(key.source_port()) << 32 | u128::from(key.protocol())),
        Parsed::Wide { key, .. } => Some(u128::from(key.source_port()) << 32 | u128::from(key.protocol())),
        Parsed::NeedMore { .. } | Parsed::Malformed(_) => None,
    }
}

fn check_headers(segment: &[u8]) {
    let Parsed::Ipv4 { place, .. } = parse(segment, segment.len()) else { return };
    let ip = ipv4::Packet::new(&segment[usize::from(place.l3)..]).expect("it was parsed");
    assert!(ip.verify_checksum());
    assert_eq!(ip.total_length(), segment.len() - usize::from(place.l3));
    if ip.protocol() == 6 {
        tcp::Segment::new(ip.payload()).expect("its header was checked before it was cut");
    }
}
