//! Packets that go straight from ring to ring, and what interrupts them.

use std::collections::BTreeMap;

use headgate_path::plan::Exit;
use headgate_path::worker::Event;
use headgate_shm::{Descriptor, Offence, Verdict};
use headgate_units::{InstanceId, PortId};
use proptest::prelude::*;

use crate::harness::World;
use crate::harness::frames::{Label, assert_same_flows, by_flow, interleaved, label, udp4};
use crate::harness::layout::{HERE, Layout, from_port};

/// Returns three NFs in one domain. Chain 1 leads from port 0 through all of them to port 1, chain 2 from
/// port 1 through the second and the third to port 0.
fn world() -> World {
    let layout = Layout::plain().ring(64).nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]);
    let layout = layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).chain(&[1, 2], Exit::Port(PortId(0)));
    World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)))
}

/// Lets enough packets through one chain that those after them go straight.
fn go_straight(world: &mut World) {
    for round in 0..3 {
        world.offer(0, &interleaved(0..1, round..round + 1));
        world.settle();
    }
    assert_eq!(world.sent(1).len(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Wherever chains or verdicts change between packets, each goes where it should, in its flow's order.
    #[test]
    fn what_interrupts_packets_changes_nothing_else(
        runs in prop::collection::vec((0u32..2, 1usize..90, any::<bool>()), 1..20)
    ) {
        let mut world = world();
        for number in 0..3 {
            world.on(number, Box::new(move |region, packet: Descriptor| {
                let mut frame = vec![0; packet.length() as usize];
                region.read(packet, &mut frame);
                let Label { flow, .. } = label(&frame);
                let ends = flow >= 2 && number == 1;
                packet.with_verdict(if ends { Verdict::Drop } else { Verdict::Next })
            }));
        }
        let (mut offered, mut sequence) = (BTreeMap::from([(0, Vec::new()), (1, Vec::new())]), 0);
        for (port, count, ends) in runs {
            for _ in 0..count {
                let flow = port + if ends && sequence % 3 == 0 { 2 } else { 0 };
                let frame = udp4(flow, sequence);
                world.offer(port as usize, std::slice::from_ref(&frame));
                if flow < 2 {
                    offered.get_mut(&(1 - port)).unwrap().push(frame);
                }
                sequence += 1;
            }
            world.pass();
            world.check();
        }
        world.settle();
        let lost = ["stage-full", "nf-verdict"].map(|reason| {
            [1, 2].map(|chain| world.drops(chain).get(reason).copied().unwrap_or(0)).iter().sum::<u64>()
        });
        let sent = [0, 1].map(|port| world.sent(port));
        prop_assert_eq!(sent.iter().map(Vec::len).sum::<usize>() as u64 + lost[0] + lost[1], u64::from(sequence));
        for (port, sent) in sent.iter().enumerate() {
            let expected = &offered[&(port as u32)];
            let mut rest = expected.iter();
            for frames in by_flow(sent).values() {
                prop_assert!(frames.iter().all(|frame| rest.any(|other| other == *frame)), "order");
            }
        }
        world.finish();
    }
}

#[test]
fn what_the_next_ring_has_no_room_for_waits_as_ever() {
    let mut world = world();
    go_straight(&mut world);
    let offered = interleaved(0..1, 10..74);
    world.offer(0, &offered[..60]);
    world.pass_of(0);
    world.nf(0).step();
    // The second has all of them, and no room for more than four.
    world.pass_of(0);
    assert_eq!(world.boards[0].instances[1].held.get(), 60);
    world.offer(0, &offered[60..]);
    world.pass_of(0);
    world.nf(0).step();
    world.pass_of(0);
    world.check();
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

#[test]
fn a_packet_returned_twice_behind_others_is_an_offence() {
    let mut world = world();
    go_straight(&mut world);
    world.offer(0, &interleaved(0..1, 10..20));
    world.pass_of(0);
    let packets = world.nf(0).take(64);
    world.nf(0).give_back(&packets[..5]);
    world.nf(0).give_back(&packets[2..4]);
    world.pass_of(0);
    let offence = Offence::NotHeld;
    assert_eq!(world.events(), [Event::Offence { number: InstanceId(0), offence }]);
    assert_eq!(world.boards[0].instances[0].returned.get(), 3 + 5, "those before it are believed");
    assert_eq!(world.boards[0].instances[1].held.get(), 5);
    world.check();
}

#[test]
fn an_extent_that_does_not_fit_is_an_offence_behind_others_too() {
    let mut world = world();
    go_straight(&mut world);
    world.offer(0, &interleaved(0..1, 10..20));
    world.pass_of(0);
    let mut packets = world.nf(0).take(64);
    packets[3] = packets[3].with_extent(4_000, 2_000);
    world.nf(0).give_back(&packets);
    world.pass_of(0);
    let offence = Offence::BadLength;
    assert_eq!(world.events(), [Event::Offence { number: InstanceId(0), offence }]);
    assert_eq!(world.boards[0].instances[1].held.get(), 3);
    world.check();
}
