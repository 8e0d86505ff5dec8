//! A standby that makes packets.

use crate::harness::frames::udp4;
use crate::harness::nf::make;

use super::{frames, given, one, promoted};

/// Buffers that the dead were lent come home, and the standby is lent as many.
#[test]
fn a_standby_that_makes_packets_is_lent_buffers_of_its_own() {
    let mut world = given(one().lend(4), 0..10);
    world.pass_of(0);
    let region = world.regions[0].clone();
    let made = make(&region, &mut world.nf(0).lent, &udp4(2, 0), 0);
    assert!(made.is_some());
    world.stand_by(0);
    world.die(0);
    world.pass_of(0);
    assert_eq!(promoted(&world).again, 10);
    world.promote(0);
    world.pass_of(0);
    world.check();
    assert_eq!(world.boards[0].instances[0].lent.get(), 4);
    world.makes(
        0,
        Box::new(move |region, packet, lent| {
            let made = make(region, lent, &udp4(2, 0), 0);
            [Some(packet.with_tag(0)), made].into_iter().flatten().collect()
        }),
    );
    world.settle();
    let sent = world.sent(1);
    assert!(sent.len() > 10 && frames(0..10).iter().all(|frame| sent.contains(frame)));
    world.finish();
}

/// Buffers of packets that came back are lent, empty: they are not given again as those packets.
#[test]
fn an_empty_buffer_is_not_given_again_as_the_packet_that_was_in_it() {
    let mut world = given(one().lend(8), 0..10);
    world.makes(
        0,
        Box::new(|region, packet, lent| {
            let made = make(region, lent, &udp4(2, 0), 0);
            [Some(packet.with_tag(0)), made].into_iter().flatten().collect()
        }),
    );
    for round in 1..20 {
        world.settle();
        world.offer(0, &frames(round * 10..round * 10 + 10));
        world.pass_of(0);
    }
    world.settle();
    world.offer(0, &frames(500..503));
    world.pass_of(0);
    world.stand_by(0);
    world.die(0);
    world.pass_of(0);
    assert_eq!(promoted(&world).again, 3);
    world.promote(0);
    world.settle();
    world.finish();
}
