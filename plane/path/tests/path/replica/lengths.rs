//! Packets that no link between the nodes carries: they end, and those behind them go on.

use headgate_path::drop::DropReason;
use headgate_shm::{Descriptor, Region};

use super::trio::{FRAME_BYTES_MAX, Trio};
use super::{LEFT, one_lane, out};
use crate::harness::frames::{label, udp4, udp4_long};

/// Has packets leave, of which the one with sequence number 1 does not.
fn all_but_one_leave(trio: &mut Trio) {
    let mut left = Vec::new();
    trio.until("the others leave", |trio| {
        left.extend(out(trio, 1));
        left.len() >= 3
    });
    let sequences: Vec<_> = left.iter().map(|frame| label(frame).sequence).collect();
    assert_eq!(sequences, [0, 2, 3]);
    trio.until("the log is empty", |trio| trio.gate.board.in_log.get() == 0);
    trio.check();
}

#[test]
fn a_packet_that_no_link_carries_ends_at_the_gate() {
    let mut trio = Trio::new(one_lane(), 20);
    trio.protected();
    let long = udp4_long(0, 1, FRAME_BYTES_MAX as usize);
    trio.gate.world.offer(0, &[udp4(0, 0), long, udp4(0, 2), udp4(0, 3)]);
    all_but_one_leave(&mut trio);
    assert_eq!(trio.gate.world.dropped(1, DropReason::TooLong), 1);
}

#[test]
fn an_nf_that_makes_a_packet_too_long_for_the_link_loses_that_one_alone() {
    let mut trio = Trio::new(one_lane(), 21);
    trio.protected();
    let mut honest = super::witness::witness(trio.node(LEFT).states[0].clone(), None, None);
    let lengthens = move |region: &Region, packet: Descriptor| {
        let done = honest(region, packet);
        let mut frame = vec![0; packet.length() as usize];
        region.read(packet, &mut frame);
        let length = if label(&frame).sequence == 1 { FRAME_BYTES_MAX } else { done.length() };
        done.with_extent(done.offset(), length)
    };
    trio.nodes[LEFT].as_mut().unwrap().world.on(0, Box::new(lengthens));
    trio.gate.world.offer(0, &[udp4(0, 0), udp4(0, 1), udp4(0, 2), udp4(0, 3)]);
    all_but_one_leave(&mut trio);
    assert_eq!(trio.node(LEFT).world.dropped(1, DropReason::TooLong), 1);
}
