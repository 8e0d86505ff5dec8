//! Trains: packets of a group that travel in one frame.

use headgate_decide::replicate::Peer;
use headgate_path::replica::Refusal;
use headgate_wire::replica::{Header, Kind, Message};

use super::trio::{GROUP, LEFT, Trio};
use super::{assert_as_unfailed, frame, offer, one_lane, out};
use crate::harness::frames::interleaved;

#[test]
fn packets_that_come_together_travel_together() {
    let mut trio = Trio::new(one_lane(), 12);
    trio.protected();
    let (mut left, before) = (Vec::new(), trio.frames);
    let offered = interleaved(0..8, 0..8);
    trio.gate.world.offer(0, &offered);
    trio.until("all leave", |trio| {
        left.extend(out(trio, 1));
        left.len() >= offered.len()
    });
    assert_as_unfailed(&offered, &left);
    // Each goes there and back, and there are commits, answers and reports besides.
    let frames = trio.frames - before;
    assert!(frames < 2 * offered.len() as u64, "{frames} frames");
    // The gate has had each packet twice, and counts it once.
    trio.until("the log is empty", |trio| trio.gate.board.in_log.get() == 0);
    let (gate, count) = (&trio.gate.world, offered.len() as u64);
    assert_eq!((gate.entered(1), gate.left(1)), (count, count));
    trio.check();
}

#[test]
fn a_train_ends_where_it_is_no_train() {
    let mut trio = Trio::new(one_lane(), 13);
    trio.protected();
    offer(&mut trio, 0, 0..1, 0..8);
    trio.until("all arrived", |trio| trio.node(LEFT).board.lanes[0].arrived.get() == 8);
    let doubled = |trio: &Trio| trio.node(LEFT).board.refused[Refusal::Duplicate as usize].get();
    // Clocks that the node knows, so that each packet which is found is refused.
    let one = frame(Header { clock: 1, ..Header::of(Kind::Data, GROUP, 1) }, &Message::Packet(&[7; 60]));
    let more = &one[14..];
    let ack = frame(Header::of(Kind::Ack, GROUP, 1), &Message::Ack { seq: 1 });
    let mut broken = more.to_vec();
    broken[20] ^= 1;
    let many = more.repeat(99);
    let trains: [(&[&[u8]], u64); 7] = [
        (&[&one], 1),
        (&[&one, more, more], 3),
        (&[&one, &[0; 40]], 1),
        (&[&one, more, &more[..70]], 2),
        (&[&one, &broken, more], 1),
        (&[&one, &ack[14..], more], 1),
        (&[&one, &many[..15 * more.len()]], 16),
    ];
    for (parts, found) in trains {
        let before = doubled(&trio);
        trio.node(LEFT).inject(Peer::Gate, parts.concat());
        trio.pass();
        assert_eq!(doubled(&trio) - before, found, "{} parts", parts.len());
    }
    trio.check();
}
