//! What was merged, cut again, is what came: each connection's frames, byte by byte and in their order.

use headgate_port::testing::{frame, stack_with_long};
use headgate_wire::MacAddress;
use headgate_wire::checksum::Sum;
use headgate_wire::frame::{Frame, Network, Transport};
use headgate_wire::ip::protocol;
use headgate_wire::offload::Work;
use headgate_wire::tcp::flag;
use proptest::prelude::*;

use super::*;

const BURST: usize = 64;
const LONG_BUFFERS: u32 = 4;
const TCP_BYTES: usize = 20;
const CHECKSUM_AT: usize = 16;

/// One frame of a history.
#[derive(Clone, Copy, Debug)]
struct Sent {
    connection: u8,
    payload: usize,
    kind: Kind,
    /// Whether the entrance made its checksum.
    is_sound: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The next segment, with these flags besides.
    Next(u8),
    /// One that leaves a gap.
    Gap,
    /// Nothing but an acknowledgement.
    Acknowledgement,
    /// One whose payload was spoiled.
    Spoiled,
    /// A datagram.
    Datagram,
    /// No IP.
    Other,
}

fn sent() -> impl Strategy<Value = Sent> {
    let kind = prop_oneof![
        12 => Just(Kind::Next(0)),
        1 => Just(Kind::Next(flag::PSH)),
        1 => Just(Kind::Next(flag::FIN)),
        1 => Just(Kind::Next(flag::ECE)),
        1 => Just(Kind::Next(flag::CWR)),
        1 => Just(Kind::Next(flag::RST)),
        1 => Just(Kind::Gap),
        1 => Just(Kind::Acknowledgement),
        1 => Just(Kind::Spoiled),
        1 => Just(Kind::Datagram),
        1 => Just(Kind::Other),
    ];
    let payload = prop_oneof![6 => Just(1000usize), 1 => 1usize..1400];
    (0u8..12, payload, kind, any::<bool>()).prop_map(|(connection, payload, kind, is_sound)| Sent {
        connection,
        payload,
        kind,
        is_sound,
    })
}

/// Frames of connections, each with its sequence number and IPv4 identification.
#[derive(Default)]
struct Senders {
    next: [(u32, u16); 12],
}

impl Senders {
    fn frame(&mut self, sent: Sent) -> Vec<u8> {
        let number = usize::from(sent.connection);
        let (sequence, identification) = self.next[number];
        let network = network(number, identification);
        let is_tcp = sent.kind != Kind::Datagram;
        let payload = if sent.kind == Kind::Acknowledgement { 0 } else { sent.payload };
        let plan = Frame {
            destination: MacAddress([2; 6]),
            source: MacAddress([4; 6]),
            tags: [None, None],
            network,
            transport: Transport::Raw(if is_tcp { protocol::TCP } else { protocol::UDP }),
        };
        let l4 = plan.headers_length();
        let mut frame = vec![0; l4 + TCP_BYTES + payload];
        let step = if sent.kind == Kind::Gap { 7 } else { 0 };
        plan.write(&mut frame, TCP_BYTES + payload, |bytes| {
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = (sequence as usize + at * 13 + at / 250) as u8;
            }
            bytes[..4].copy_from_slice(&[0x10, sent.connection, 0x20, 0]);
            bytes[4..8].copy_from_slice(&sequence.wrapping_add(step).to_be_bytes());
            bytes[8..12].fill(1);
            let more = if let Kind::Next(flags) = sent.kind { flags } else { 0 };
            (bytes[12], bytes[13]) = (5 << 4, flag::ACK | more);
            bytes[14..TCP_BYTES].fill(0);
        })
        .unwrap();
        let sum = pseudo(&frame, l4, TCP_BYTES + payload).bytes(&frame[l4..]);
        frame[l4 + CHECKSUM_AT..][..2].copy_from_slice(&sum.finish().to_be_bytes());
        match sent.kind {
            Kind::Spoiled => *frame.last_mut().unwrap() ^= 0x10,
            Kind::Other => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
            _ => {}
        }
        self.next[number] = (sequence.wrapping_add(step + payload as u32), identification.wrapping_add(1));
        frame
    }
}

/// Every third connection speaks IPv6, and those of IPv4 share addresses by halves.
fn network(number: usize, identification: u16) -> Network {
    if number.is_multiple_of(3) {
        return Network::between([0xfc; 16].into(), [0xfd; 16].into()).unwrap();
    }
    let mut network =
        Network::between([10, 0, 0, 1].into(), [10, 0, 0, 2 + (number / 6) as u8].into()).unwrap();
    if let Network::V4(header) = &mut network {
        header.identification = identification;
    }
    network
}

fn pseudo(frame: &[u8], l4: usize, length: usize) -> Sum {
    if l4 == 34 {
        let [from, to] = [26, 30].map(|at| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into());
        return Sum::pseudo_ipv4(from, to, protocol::TCP, length as u16);
    }
    let [from, to] = [22, 38].map(|at| <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into());
    Sum::pseudo_ipv6(from, to, protocol::TCP, length as u32)
}

/// Does with frames what the entrance does.
fn merge(merger: &mut Merger, stack: &mut Stack, frames: &[(Vec<u8>, bool)]) -> Vec<Descriptor> {
    let mut into = [Descriptor::default(); BURST];
    let mut burst = Filling::new(&mut into);
    for (bytes, is_sound) in frames {
        let offered = merger.offer(stack, &mut burst, bytes, *is_sound);
        if let Offered::Merged { .. } = offered {
            continue;
        }
        let index = stack.take().expect("there are enough");
        stack.region().write(index, HEADROOM_BYTES, bytes);
        burst.push(Descriptor::new(index, HEADROOM_BYTES, bytes.len() as u32, 0));
        if let Offered::First = offered {
            merger.begin(stack.region(), &burst);
        }
    }
    merger.close_all(stack.region(), &burst);
    let count = burst.count();
    into[..count].to_vec()
}

/// The packets that a frame will be on a wire.
fn on_the_wire(stack: &Stack, packet: Descriptor) -> Vec<Vec<u8>> {
    let mut bytes = frame(stack, packet);
    if !stack.region().geometry().is_long(packet.index()) {
        return vec![bytes];
    }
    let word = stack.region().word(packet.index()).unwrap();
    let length = bytes.len();
    let known = length.min(HEADERS_MAX);
    let kept = LongFrame::from_word(word, packet.offset()).expect("something was kept");
    let leaving = kept.leave(&mut bytes[..known], length).expect("nobody changed it");
    let Work::Cut(cut) = leaving.header.work(&bytes).unwrap() else { panic!("it is long") };
    assert_eq!(
        LongFrame::from_note(stack.region().note(packet.index()).unwrap()).unwrap().segments(length),
        cut.segments()
    );
    let segment = |number| {
        let mut headers = [0; HEADERS_MAX];
        let (head, payload) = cut.segment(&bytes, number, &mut headers);
        [head, payload].concat()
    };
    (0..cut.segments()).map(segment).collect()
}

proptest! {
    #[test]
    fn what_was_merged_and_cut_is_what_came(history in prop::collection::vec(sent(), 1..BURST)) {
        let (mut merger, mut stack) = (Merger::new(), stack_with_long(BURST as u32, LONG_BUFFERS));
        let mut senders = Senders::default();
        // Only of a frame that is right it is said so.
        let frames: Vec<_> = history
            .iter()
            .map(|&sent| (senders.frame(sent), sent.is_sound && sent.kind != Kind::Spoiled))
            .collect();
        let packets = merge(&mut merger, &mut stack, &frames);
        let came: Vec<Vec<u8>> = packets.iter().flat_map(|packet| on_the_wire(&stack, *packet)).collect();
        prop_assert_eq!(came.len(), frames.len());
        let of = |connection: usize, all: &mut dyn Iterator<Item = &Vec<u8>>| -> Vec<Vec<u8>> {
            let is_of = |frame: &&Vec<u8>| {
                let l4 = if frame[14] >> 4 == 6 { 54 } else { 34 };
                usize::from(frame[l4 + 1]) == connection
            };
            all.filter(is_of).cloned().collect()
        };
        for connection in 0..12 {
            let (ours, theirs) = (
                of(connection, &mut came.iter()),
                of(connection, &mut frames.iter().map(|(bytes, _)| bytes)),
            );
            prop_assert_eq!(ours, theirs, "connection {}", connection);
        }
        let used = packets.iter().filter(|packet| stack.region().geometry().is_long(packet.index())).count();
        prop_assert_eq!(stack.long_len() + used, LONG_BUFFERS as usize);
        prop_assert_eq!(stack.len() + packets.len() - used, BURST);
    }
}

#[test]
fn interleaved_connections_are_merged_each_to_one_frame_and_no_longer_than_a_packet_may_be() {
    let (mut merger, mut stack) = (Merger::new(), stack_with_long(128, LONG_BUFFERS));
    let mut senders = Senders::default();
    let mut next = |connection| {
        let sent = Sent { connection, payload: 1000, kind: Kind::Next(0), is_sound: false };
        (senders.frame(sent), false)
    };
    let frames: Vec<_> = (0..60).map(|number| next(number % 3)).collect();
    let packets = merge(&mut merger, &mut stack, &frames);
    assert_eq!(packets.iter().map(|packet| packet.length()).collect::<Vec<_>>(), [20_074, 20_054, 20_054]);
    packets.iter().for_each(|packet| stack.give(packet.index()));
    // 65 segments of 1,000 bytes fit 65,535 with the headers of IPv4, and not 66.
    let frames: Vec<_> = (0..70).map(|_| next(1)).collect();
    let packets = merge(&mut merger, &mut stack, &frames);
    assert_eq!(packets.iter().map(|packet| packet.length()).collect::<Vec<_>>(), [65_054, 5054]);
}

#[test]
fn without_a_long_buffer_and_for_segments_that_are_wrong_nothing_is_merged() {
    let mut senders = Senders::default();
    let mut next = |kind| (senders.frame(Sent { connection: 1, payload: 100, kind, is_sound: false }), false);
    let sound: Vec<_> = (0..3).map(|_| next(Kind::Next(0))).collect();
    let spoiled: Vec<_> = (0..3).map(|_| next(Kind::Spoiled)).collect();
    for (frames, long) in [(&sound, 0), (&spoiled, 2)] {
        let (mut merger, mut stack) = (Merger::new(), stack_with_long(8, long));
        let packets = merge(&mut merger, &mut stack, frames);
        assert_eq!(packets.len(), 3);
        assert_eq!(
            packets.iter().map(|packet| frame(&stack, *packet)).collect::<Vec<_>>(),
            frames.iter().map(|one| one.0.clone()).collect::<Vec<_>>()
        );
        assert_eq!(stack.long_len(), long as usize);
    }
}

/// An NF that writes to buffers that are free, or not its own yet, harms the payload of its own domain.
#[test]
fn what_an_nf_spoils_before_it_is_merged_is_not_made_right() {
    let (mut merger, mut stack) = (Merger::new(), stack_with_long(8, 2));
    let mut senders = Senders::default();
    let mut next =
        || senders.frame(Sent { connection: 1, payload: 100, kind: Kind::Next(0), is_sound: false });
    let (first, second) = (next(), next());
    let mut into = [Descriptor::default(); 4];
    let mut burst = Filling::new(&mut into);
    assert!(matches!(merger.offer(&mut stack, &mut burst, &first, false), Offered::First));
    let index = stack.take().unwrap();
    stack.region().write(index, HEADROOM_BYTES, &first);
    burst.push(Descriptor::new(index, HEADROOM_BYTES, first.len() as u32, 0));
    merger.begin(stack.region(), &burst);
    stack.region().write(index, HEADROOM_BYTES + 60, &[0xff; 8]);
    assert!(matches!(merger.offer(&mut stack, &mut burst, &second, false), Offered::First));
    assert_eq!((stack.long_len(), burst.count()), (2, 1));
}
