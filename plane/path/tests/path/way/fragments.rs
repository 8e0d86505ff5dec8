//! Fragments: only the first one has L4 ports, and all go where it goes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use headgate_path::plan::Exit;
use headgate_path::rules::Rule;
use headgate_units::{ChainId, PortId};

use crate::harness::World;
use crate::harness::frames::{
    first_fragment, first_fragment6, label, later_fragment, later_fragment6, udp4, udp6,
};
use crate::harness::layout::{HERE, Layout};

/// Sends UDP port 80 by chain 1 through four instances to port 1, the rest by chain 2 to port 2.
fn world() -> World {
    let layout = Layout::plain()
        .port(HERE)
        .nf("nf", &[HERE; 4])
        .chain(&[0], Exit::Port(PortId(1)))
        .chain(&[0], Exit::Port(PortId(2)))
        .rule(Rule { destination_port: Some((80, 80)), chain: ChainId(1), ..Rule::default() });
    World::new(layout.default_chain(2))
}

/// Returns (instance, flow) pairs as the NFs saw them.
fn record(world: &mut World) -> Arc<Mutex<BTreeSet<(u16, u32)>>> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    for number in 0..4 {
        let seen = seen.clone();
        world.on(
            number,
            Box::new(move |region, packet| {
                let mut frame = vec![0; packet.length() as usize];
                region.read(packet, &mut frame);
                seen.lock().unwrap().insert((number, label(&frame).flow));
                packet.with_tag(0)
            }),
        );
    }
    seen
}

#[test]
fn later_fragments_follow_the_first() {
    let mut world = world();
    let seen = record(&mut world);
    let mut frames = Vec::new();
    for flow in 0..50 {
        frames.push(udp4(flow, 0));
        frames.push(first_fragment(flow, 1, 7));
        frames.push(later_fragment(flow, 2, 7));
        frames.push(later_fragment(flow, 3, 7));
    }
    world.offer(0, &frames);
    world.settle();
    assert_eq!((world.sent(1).len(), world.sent(2).len()), (200, 0));
    assert_eq!(seen.lock().unwrap().len(), 50, "all parts of a flow meet one instance");
    world.finish();
}

#[test]
fn later_fragments_follow_the_first_over_ipv6() {
    let mut world = world();
    let seen = record(&mut world);
    for flow in 0..50 {
        world.offer(0, &[udp6(flow, 0), first_fragment6(flow, 1, 0x0001_0007)]);
        world.offer(0, &[later_fragment6(flow, 2, 0x0001_0007)]);
    }
    world.settle();
    assert_eq!((world.sent(1).len(), world.sent(2).len()), (150, 0));
    assert_eq!(seen.lock().unwrap().len(), 50, "all parts of a flow meet one instance");
    world.offer(0, &[later_fragment6(0, 3, 0x0002_0007)]);
    world.settle();
    assert_eq!(world.sent(2).len(), 1, "all 32 bits of the identification count");
    world.finish();
}

#[test]
fn parts_of_one_datagram_may_come_in_different_bursts() {
    let mut world = world();
    let seen = record(&mut world);
    for frame in [first_fragment(1, 0, 9), later_fragment(1, 1, 9), udp4(1, 2), later_fragment(1, 3, 9)] {
        world.offer(0, &[frame]);
        world.settle();
    }
    assert_eq!((world.sent(1).len(), seen.lock().unwrap().len()), (4, 1));
    world.finish();
}

/// A later fragment that comes first has no ports and nobody to follow: rules on ports do not match.
#[test]
fn a_later_fragment_before_the_first_is_classified_without_ports() {
    let mut world = world();
    world.offer(0, &[later_fragment(3, 0, 11), first_fragment(3, 1, 11), later_fragment(3, 2, 11)]);
    world.settle();
    let sequences =
        |frames: Vec<Vec<u8>>| frames.iter().map(|frame| label(frame).sequence).collect::<Vec<_>>();
    assert_eq!(sequences(world.sent(2)), [0]);
    assert_eq!(sequences(world.sent(1)), [1, 2]);
    world.finish();
}

#[test]
fn fragments_of_another_datagram_do_not_follow() {
    let mut world = world();
    world.offer(0, &[first_fragment(3, 0, 11), later_fragment(3, 1, 12), later_fragment(4, 2, 11)]);
    world.settle();
    assert_eq!((world.sent(1).len(), world.sent(2).len()), (1, 2));
    world.finish();
}
