use std::vec;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::NoRoomError;

fn clocks() -> impl Strategy<Value = Clocks> {
    vec(any::<u64>(), 0..=LANES_MAX).prop_map(Clocks::new)
}

fn cut() -> impl Strategy<Value = Cut> {
    (clocks(), any::<u64>()).prop_map(|(clocks, journal)| Cut { clocks, journal })
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (any::<u8>(), any::<u64>()).prop_map(|(node, boot)| Incarnation { node, boot })
}

fn assignment() -> impl Strategy<Value = Assignment> {
    (incarnation(), option::of(incarnation()), any::<(u32, bool, u32)>(), clocks()).prop_map(
        |(active, standby, (joined, handed_over, begun), log_begins_after)| Assignment {
            active,
            standby,
            joined,
            handed_over,
            begun,
            log_begins_after,
        },
    )
}

fn header(kind: Kind) -> impl Strategy<Value = Header> {
    (any::<[u16; 2]>(), any::<[u32; 3]>(), any::<u64>()).prop_map(
        move |([group, lane], [view, seq, time], clock)| Header { kind, group, lane, view, seq, clock, time },
    )
}

fn message() -> impl Strategy<Value = (Kind, Message<'static>)> {
    prop_oneof![
        Just((Kind::Data, Message::Packet(b"a packet"))),
        Just((Kind::Out, Message::Packet(b""))),
        Just((Kind::Nack, Message::Nothing)),
        Just((Kind::Checkpoint, Message::Nothing)),
        Just((Kind::Unanswered, Message::Nothing)),
        Just((Kind::HandOver, Message::Nothing)),
        Just((Kind::FailOver, Message::Nothing)),
        Just((Kind::Probe, Message::Nothing)),
        Just((Kind::Echo, Message::Nothing)),
        (0u32..1 << 20).prop_map(|offset| {
            let part = Part { offset, total: offset + 9, bytes: b"some" };
            (Kind::State, Message::Part(part))
        }),
        any::<u64>().prop_map(|seq| (Kind::Ack, Message::Ack { seq })),
        cut().prop_map(|cut| (Kind::Durable, Message::Durable(cut))),
        [clocks(), clocks(), clocks()].prop_map(|[arrived, released, credit]| {
            (Kind::Released, Message::Released { arrived, released, credit })
        }),
        (clocks(), any::<[u32; LANES_MAX]>()).prop_map(|(clocks, mut numbers)| {
            numbers[clocks.as_slice().len()..].fill(0);
            (Kind::Taken, Message::Taken { clocks, numbers })
        }),
        assignment().prop_map(|assignment| (Kind::Assign, Message::Assign(assignment))),
        (incarnation(), any::<u64>(), option::of(clocks()), any::<u32>()).prop_map(
            |(me, configuration, arrived, echoed)| {
                (Kind::Hello, Message::Hello { me, configuration, arrived, echoed })
            }
        ),
    ]
}

fn frame(header: &Header, message: &Message) -> Vec<u8> {
    let mut body = [0; 1024];
    let length = message.write(&mut body).unwrap();
    let body = &body[..length];
    let stated = if header.kind.has_packet() { Body::Packet(length) } else { Body::Bytes(body) };
    [header.bytes(stated).unwrap().as_slice(), body].concat()
}

fn framed() -> impl Strategy<Value = (Header, Message<'static>)> {
    message().prop_flat_map(|(kind, message)| (header(kind), Just(message)))
}

proptest! {
    #[test]
    fn what_was_written_is_read_and_padding_is_not((header, message) in framed(), padding in 0usize..40) {
        let mut bytes = frame(&header, &message);
        bytes.resize(bytes.len() + padding, 0xee);
        let read = Frame::new(&bytes).unwrap();
        prop_assert_eq!(read.header(), &header);
        prop_assert_eq!(Message::read(&read), Ok(message));
    }

    #[test]
    fn a_flipped_bit_is_seen_but_in_a_packet((header, message) in framed(), at: prop::sample::Index) {
        let mut bytes = frame(&header, &message);
        let summed = if header.kind.has_packet() { HEADER_BYTES } else { bytes.len() };
        let bit = at.index(summed * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Frame::new(&bytes).is_err());
    }

    #[test]
    fn what_is_cut_is_refused((header, message) in framed(), at: prop::sample::Index) {
        let bytes = frame(&header, &message);
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert_eq!(Frame::new(cut), Err(FrameError::Truncated));
    }

    #[test]
    fn any_body_is_refused_or_written_again_as_it_came(kind in 1u8..=13, body in vec(any::<u8>(), 0..200)) {
        let kind = Kind::of(kind).unwrap();
        let header = Header::of(kind, 1, 1);
        let stated = if kind.has_packet() { Body::Packet(body.len()) } else { Body::Bytes(&body) };
        let bytes = [header.bytes(stated).unwrap().as_slice(), &body].concat();
        let read = Frame::new(&bytes).unwrap();
        if let Ok(message) = Message::read(&read) {
            let mut again = [0; 256];
            let length = message.write(&mut again).unwrap();
            prop_assert_eq!(&again[..length], &body[..]);
        }
    }

    #[test]
    fn a_commit_keeps_its_entries(
        numbers in any::<[u32; 3]>(),
        finished in clocks(),
        released in clocks(),
        runs in vec((any::<u16>(), any::<u8>(), any::<u32>()), 0..50),
    ) {
        let runs: Vec<Run> = runs.into_iter().map(|(nf, lane, packets)| Run { nf, lane, packets }).collect();
        let numbers = numbers.map(u64::from);
        let mut room = [0; 1024];
        let length = Commit::write(&mut room, numbers, [&finished, &released], runs.iter().copied()).unwrap();
        let commit = Commit::read(&room[..length]).unwrap();
        prop_assert_eq!([commit.seq, commit.base, commit.from], numbers);
        prop_assert_eq!((commit.finished, commit.released), (finished, released));
        prop_assert_eq!(commit.to(), commit.from + runs.len() as u64);
        prop_assert_eq!(commit.entries().collect::<Vec<_>>(), runs);
        prop_assert!(Commit::read(&room[..length - 1]).is_none());
    }

    #[test]
    fn an_end_of_state_keeps_its_sums(
        cut in cut(), base in any::<u32>(), sums in vec(any::<(u16, u32, u32)>(), 0..20)) {
        let sums: Vec<_> = sums.into_iter().map(|(nf, bytes, crc)| StateSum { nf, bytes, crc }).collect();
        let mut room = [0; 1024];
        let length = StateEnd::write(&mut room, &cut, base, sums.iter().copied()).unwrap();
        let end = StateEnd::read(&room[..length]).unwrap();
        prop_assert_eq!((end.cut, end.base), (cut, base));
        prop_assert_eq!(end.sums().collect::<Vec<_>>(), sums);
    }

    #[test]
    fn any_message_of_parts_is_refused_or_sound(bytes in vec(any::<u8>(), 0..300)) {
        if let Some(commit) = Commit::read(&bytes) {
            prop_assert_eq!(commit.entries().count() as u64, commit.to() - commit.from);
        }
        if let Some(end) = StateEnd::read(&bytes) {
            prop_assert!(end.sums().count() * 12 <= bytes.len());
        }
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    let good = frame(&Header::of(Kind::Ack, 3, 4), &Message::Ack { seq: 5 });
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Frame::new(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, 9), FrameError::Version(9));
    assert_eq!(with(1, 0), FrameError::Kind(0));
    assert_eq!(with(1, 99), FrameError::Kind(99));
    assert_eq!(with(3, 200), FrameError::Truncated);
    assert_eq!(with(HEADER_BYTES, 1), FrameError::Crc);
    let names: Vec<_> = [with(3, 200), with(0, 9), with(1, 0), with(24, 0), FrameError::Body]
        .map(|error| FrameError::NAMES[error.index()])
        .into();
    assert_eq!(names, FrameError::NAMES);
    assert!(Kind::ALL.iter().all(|kind| Kind::of(*kind as u8) == Some(*kind) && !kind.name().is_empty()));
}

#[test]
fn a_part_beyond_its_message_and_too_many_lanes_are_refused() {
    let read = |kind, body: &[u8]| {
        let bytes = [Header::of(kind, 0, 0).bytes(Body::Bytes(body)).unwrap().as_slice(), body].concat();
        Message::read(&Frame::new(&bytes).unwrap()).map(|_| ())
    };
    assert_eq!(read(Kind::State, &[0, 0, 0, 4, 0, 0, 0, 5, 1]), Ok(()));
    assert_eq!(read(Kind::State, &[0, 0, 0, 4, 0, 0, 0, 5, 1, 2]), Err(FrameError::Body));
    assert_eq!(
        read(Kind::State, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        Err(FrameError::Body)
    );
    let many = [&[17][..], &[0; 17 * 8 + 8]].concat();
    assert_eq!(read(Kind::Durable, &many), Err(FrameError::Body));
    assert_eq!(read(Kind::Nack, &[0]), Err(FrameError::Body), "nothing is expected");
}

#[test]
fn what_does_not_fit_says_how_much_is_needed() {
    let error = Message::Ack { seq: 1 }.write(&mut [0; 7]).unwrap_err();
    assert_eq!(error, NoRoomError::Buffer { needed: 8, given: 7 });
    assert!(Header::of(Kind::Data, 0, 0).bytes(Body::Packet(65_536)).is_err());
}

#[test]
fn an_output_names_the_one_before_it() {
    let out = Header { clock: 1 << 40, ..Header::of(Kind::Out, 1, 2) };
    let after = |before| out.behind(before).after();
    for before in [((1 << 40) - 1, 1), (1 << 40, 3), ((1 << 40) - (1 << 24) + 2, 255)] {
        assert_eq!(after(before), before);
    }
    assert_eq!(after((0, 0)), (0, 0), "there is none");
    // What cannot be told is left out, and never told wrongly.
    assert_eq!(after(((1 << 40) - (1 << 24) + 1, 1)), (0, 0));
    assert_eq!(after(((1 << 40) - 1, 256)), (0, 0));
}

/// The check value of the polynomial, as in RFC 3720's tables and everywhere else.
#[test]
fn the_sum_is_crc32c() {
    assert_eq!(sum_of_state(b"123456789"), 0xe306_9283);
}
