//! Long frames that pass whole: as Linux sent them, and right whatever was done to them on the way.

use std::time::Instant;

use headgate_host::network::{Links, Offload};
use headgate_port::Queue;
use headgate_port::testing::{frame as frame_of, stack_with_long};
use headgate_shm::{Descriptor, Stack};
use headgate_wire::checksum::Sum;

use crate::{
    PATIENCE, SHAPES, by_linux, cable, find_no_fault, inside, long, plain, port, send, sender, take,
    take_plain,
};

/// Bytes of a virtio header.
const VIRTIO: usize = 10;

/// Receives one packet and keeps its buffer.
pub fn take_one(queue: &mut dyn Queue, stack: &mut Stack) -> Descriptor {
    let end = Instant::now() + PATIENCE;
    let mut into = [Descriptor::default()];
    while queue.receive(0, stack, &mut into) == 0 {
        assert!(Instant::now() < end, "nothing came; {:?}", queue.counters());
    }
    into[0]
}

#[test]
fn long_frames_pass_whole_and_are_cut_as_linux_cuts_them() {
    inside("long_frames_pass_whole_and_are_cut_as_linux_cuts_them", |namespace| {
        cable(namespace, "near", "far", 1500);
        cable(namespace, "beyond", "end", 1500);
        cable(namespace, "plain-in", "plain-out", 1500);
        // What leaves `beyond` is cut there by Linux.
        let mut links = Links::here().unwrap();
        for name in ["beyond", "plain-out"] {
            links.set_offload(name, Offload::TransmitChecksum, false).unwrap();
        }
        let ((mut queue, watch), (mut exit, _)) = (port("near"), port("beyond"));
        watch.keep_long(true);
        let (mut stack, socket) = (stack_with_long(64, 2), sender("far"));
        let mut all = Vec::new();
        for shape in SHAPES {
            send(&socket, &long(shape));
            let packet = take_one(&mut *queue, &mut stack);
            assert!(stack.region().geometry().is_long(packet.index()), "{shape:?}");
            assert_eq!((stack.long_len(), stack.len()), (1, 64));
            assert_eq!(frame_of(&stack, packet), long(shape)[VIRTIO..], "{shape:?}");
            let (mut io, mut pool) = plain("end");
            assert_eq!(exit.transmit(0, &mut stack, &[packet]), 1);
            assert_eq!(stack.long_len(), 2);
            let cut = take_plain(&mut *io, &mut pool, shape.payload.div_ceil(shape.segment));
            assert_eq!(cut, by_linux(shape), "{shape:?}");
            all.extend(cut);
        }
        let (came, left) = (queue.counters(), exit.counters());
        assert_eq!((came.received, left.sent), (SHAPES.len() as u64, SHAPES.len() as u64));
        assert_eq!((came.bad_offload, left.bad_offload, left.failed, came.missed), (0, 0, 0, 0));
        find_no_fault(&all);
    });
}

#[test]
fn without_a_long_buffer_a_frame_is_cut() {
    inside("without_a_long_buffer_a_frame_is_cut", |namespace| {
        cable(namespace, "near", "far", 1500);
        let (mut queue, watch) = port("near");
        watch.keep_long(true);
        let mut stack = stack_with_long(64, 1);
        for _ in 0..2 {
            send(&sender("far"), &long(SHAPES[0]));
        }
        let whole = take_one(&mut *queue, &mut stack);
        assert!(stack.region().geometry().is_long(whole.index()));
        let cut = take(&mut *queue, &mut stack, 42);
        assert!(cut.iter().all(|segment| segment.len() <= 1514));
        // Nor is one that may not pass whole any more.
        stack.give(whole.index());
        watch.keep_long(false);
        send(&sender("far"), &long(SHAPES[0]));
        assert_eq!(take(&mut *queue, &mut stack, 42), cut);
    });
}

/// A sender that cuts its data itself: its segments are merged, and the same again when they are cut.
#[test]
fn segments_that_come_one_by_one_are_merged_and_are_the_same_when_cut() {
    inside("segments_that_come_one_by_one_are_merged_and_are_the_same_when_cut", |namespace| {
        cable(namespace, "plain-in", "plain-out", 1500);
        cable(namespace, "beyond", "end", 1500);
        let mut links = Links::here().unwrap();
        for name in ["beyond", "plain-out"] {
            links.set_offload(name, Offload::TransmitChecksum, false).unwrap();
        }
        let ((mut queue, watch), (mut exit, _)) = (port("plain-in"), port("beyond"));
        let mut stack = stack_with_long(64, 4);
        let mut all = Vec::new();
        for (keeps, shape) in SHAPES.into_iter().flat_map(|shape| [(true, shape), (false, shape)]) {
            watch.keep_long(keeps);
            let (mut io, mut pool) = plain("end");
            let wanted = by_linux(shape);
            // They are there, but for the last that may still be handed over.
            let (mut packets, mut bytes, end) = (0, 0, Instant::now() + PATIENCE);
            while bytes < shape.payload {
                assert!(Instant::now() < end, "{bytes} of {}; {:?}", shape.payload, queue.counters());
                let mut into = [Descriptor::default(); 64];
                let count = queue.receive(0, &mut stack, &mut into);
                let heads = if shape.is_ipv6 { 54 + 20 } else { 34 + 20 };
                let heads =
                    if shape.is_udp { heads - 12 } else { heads } + if shape.tag.is_some() { 4 } else { 0 };
                bytes += into[..count].iter().map(|packet| packet.length() as usize - heads).sum::<usize>();
                packets += count;
                assert_eq!(exit.transmit(0, &mut stack, &into[..count]), count);
            }
            assert_eq!(bytes, shape.payload);
            let is_merged = keeps && !shape.is_udp;
            assert!(if is_merged { packets <= 3 } else { packets == wanted.len() }, "{packets} of {shape:?}");
            let cut = take_plain(&mut *io, &mut pool, wanted.len());
            assert_eq!(cut, wanted, "{shape:?}");
            all.extend(cut);
        }
        assert_eq!((stack.long_len(), stack.len()), (4, 64));
        let (came, left) = (queue.counters(), exit.counters());
        assert_eq!((came.received, came.received_bytes), (left.sent, left.sent_bytes));
        assert_eq!((came.bad_offload, left.bad_offload, left.failed, came.missed), (0, 0, 0, 0));
        find_no_fault(&all);
    });
}

/// What an NF makes of a packet.
type Work<'a> = dyn Fn(&Stack, Descriptor) -> Descriptor + 'a;

/// What NFs do to a long frame: it leaves right, or not at all and counted.
#[test]
fn what_nfs_make_of_a_long_frame_leaves_right_or_is_refused() {
    inside("what_nfs_make_of_a_long_frame_leaves_right_or_is_refused", |namespace| {
        cable(namespace, "near", "far", 1500);
        cable(namespace, "beyond", "end", 1500);
        let ((mut queue, watch), (mut exit, _)) = (port("near"), port("beyond"));
        watch.keep_long(true);
        let (mut stack, socket) = (stack_with_long(64, 2), sender("far"));
        let mut next = |exit: &mut dyn Queue, work: &Work<'_>| {
            send(&socket, &long(SHAPES[0]));
            let packet = take_one(&mut *queue, &mut stack);
            let worked = work(&stack, packet);
            assert_eq!(exit.transmit(0, &mut stack, &[worked]), 1);
            assert_eq!((stack.long_len(), stack.len()), (2, 64));
        };
        let write = |stack: &Stack, packet: Descriptor, at: u32, bytes: &[u8]| {
            stack.region().write(packet.index(), packet.offset() + at, bytes);
        };
        // Cut short, drawn out, another protocol, a header that begins elsewhere, and nothing left of it.
        let forged: [&Work<'_>; 6] = [
            &|_, packet| packet.with_extent(packet.offset(), 9000),
            &|_, packet| packet.with_extent(packet.offset(), 30),
            &|stack, packet| {
                write(stack, packet, 14 + 9, &[17]);
                packet
            },
            &|_, packet| packet.with_extent(packet.offset() + 20, packet.length() - 20),
            &|stack, packet| {
                write(stack, packet, 14, &[0; 400]);
                packet
            },
            // The note is for NFs: what they write there is believed by nobody. The IP header is.
            &|stack, packet| {
                let note = stack.region().geometry().room(packet.index());
                // SAFETY: 16 bytes at the end of the buffer.
                unsafe { stack.region().buffer(packet.index()).add(note).write_bytes(0xff, 16) };
                write(stack, packet, 14 + 2, &[0xff, 0xff]);
                packet
            },
        ];
        for (number, work) in forged.into_iter().enumerate() {
            next(&mut *exit, work);
            assert_eq!(exit.counters().bad_offload, number as u64 + 1);
        }
        assert_eq!((exit.counters().sent, exit.counters().failed), (0, 0));
        // Another address, whose checksum nobody minded but that of the header: it leaves right.
        let (mut other, _) = port("end");
        let addressed = |stack: &Stack, packet: Descriptor| {
            let mut head = [0; 34];
            stack.region().read(packet, &mut head);
            head[30..34].copy_from_slice(&[10, 9, 9, 9]);
            head[24..26].fill(0);
            let checksum = Sum::new().bytes(&head[14..]).finish();
            head[24..26].copy_from_slice(&checksum.to_be_bytes());
            write(stack, packet, 0, &head);
            write(stack, packet, 14 + 20 + 16, &[0xde, 0xad]);
            packet
        };
        next(&mut *exit, &addressed);
        assert_eq!(exit.counters().sent, 1);
        let mut far = stack_with_long(64, 0);
        let segments = take(&mut *other, &mut far, 42);
        assert!(segments.iter().all(|segment| segment[30..34] == [10, 9, 9, 9]));
        find_no_fault(&segments);
    });
}

/// CRC-32C bit by bit (RFC 9260, appendix A), for comparison.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// An SCTP packet whose checksum a host left to its card: complete behind the entrance, and what leaves is
/// the same. It is never kept whole as begun, for its checksum is no sum.
#[test]
fn a_checksum_of_sctp_is_completed_on_its_way() {
    inside("a_checksum_of_sctp_is_completed_on_its_way", |namespace| {
        cable(namespace, "near", "far", 1500);
        cable(namespace, "beyond", "end", 1500);
        let ((mut queue, watch), (mut exit, _)) = (port("near"), port("beyond"));
        let (mut io, mut pool) = plain("end");
        let mut stack = stack_with_long(64, 2);
        // Ethernet, IPv4, and SCTP with a chunk of data whose checksum is zeroes.
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 52, 0, 1, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x13, 0x88, 0x13, 0x89, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0]);
        frame.extend([0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        let sum = Sum::new().bytes(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let mut wanted = frame.clone();
        wanted[42..46].copy_from_slice(&crc32c(&frame[34..]).to_le_bytes());
        let mut asked = vec![1, 0, 0, 0, 0, 0];
        for word in [34u16, 8] {
            asked.extend(word.to_ne_bytes());
        }
        asked.extend(&frame);
        for keeps in [false, true] {
            watch.keep_long(keeps);
            send(&sender("far"), &asked);
            let packet = take_one(&mut *queue, &mut stack);
            assert_eq!(frame_of(&stack, packet), wanted);
            assert_eq!(exit.transmit(0, &mut stack, &[packet]), 1);
            assert_eq!(take_plain(&mut *io, &mut pool, 1), [wanted.clone()]);
        }
        assert_eq!(queue.counters().bad_offload, 0);
        find_no_fault(&[wanted]);
    });
}
