//! Any bytes as a frame between nodes: refused, or written again as they came.
//!
//! The input begins with our header, without the Ethernet header in front of it. Its sum is put right first,
//! in half of the inputs, for no fuzzer finds one.

#![no_main]

use headgate_wire::replica::{Body, Commit, Frame, FrameError, HEADER_BYTES, Header, Kind, Message, StateEnd, VERSION};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Some(summed) = with_right_sum(bytes) {
        check(&summed);
    }
    if let Some(commit) = Commit::read(bytes) {
        let mut again = vec![0; bytes.len()];
        let numbers = [commit.seq, commit.base, commit.from];
        let clocks = [&commit.finished, &commit.released];
        let length = Commit::write(&mut again, numbers, clocks, commit.entries()).unwrap();
        assert_eq!(length, bytes.len());
        assert_eq!(commit.entries().count() as u64, commit.to() - commit.from);
    }
    if let Some(end) = StateEnd::read(bytes) {
        let mut again = vec![0; bytes.len()];
        assert_eq!(StateEnd::write(&mut again, &end.cut, end.base, end.sums()), Ok(bytes.len()));
    }
});

fn check(bytes: &[u8]) {
    let frame = match Frame::new(bytes) {
        Ok(frame) => frame,
        Err(FrameError::Truncated) => return,
        Err(FrameError::Version(version)) => return assert_ne!(version, VERSION),
        Err(FrameError::Kind(kind)) => return assert!(Kind::of(kind).is_none()),
        Err(FrameError::Crc) => return,
        Err(FrameError::Body) => unreachable!("bodies are read later"),
    };
    let body = frame.body();
    let stated = if frame.header().kind.has_packet() { Body::Packet(body.len()) } else { Body::Bytes(body) };
    assert_eq!(frame.header().bytes(stated).unwrap(), bytes[..HEADER_BYTES]);
    let Ok(message) = Message::read(&frame) else { return };
    let mut again = vec![0; body.len()];
    assert_eq!(message.write(&mut again), Ok(body.len()));
    assert_eq!(again, body);
}

/// Returns the input with the sum that its header and body have, if it has a header.
fn with_right_sum(bytes: &[u8]) -> Option<Vec<u8>> {
    let kind = Kind::of(*bytes.get(1)?)?;
    let head: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let body = &bytes[HEADER_BYTES..];
    let body = &body[..body.len().min(usize::from(u16::MAX))];
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let header = Header {
        kind,
        group: (word(4) >> 16) as u16,
        lane: word(4) as u16,
        view: word(8),
        seq: word(12),
        clock: u64::from(word(16)) << 32 | u64::from(word(20)),
        time: word(28),
    };
    let stated = if kind.has_packet() { Body::Packet(body.len()) } else { Body::Bytes(body) };
    Some([&header.bytes(stated).ok()?, body].concat())
}
