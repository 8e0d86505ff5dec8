//! Long frames: they pass in long buffers where everybody takes them, and end by name where somebody does
//! not.

use headgate_path::plan::Exit;
use headgate_path::worker::Event;
use headgate_shm::{Descriptor, Offence};
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{interleaved, udp4_long};
use crate::harness::layout::{At, HERE, Layout};

const THERE: At = At { worker: 0, region: 1 };
/// Longest frame of a plain buffer, and long frames.
const PLAIN: u32 = 320;
const LONG_BYTES: usize = 40_000;

fn one_domain() -> Layout {
    Layout::new().region(512, PLAIN).long(4).port(HERE).port(HERE)
}

fn long(number: u32) -> Vec<u8> {
    udp4_long(number, number, LONG_BYTES + number as usize)
}

#[test]
fn long_frames_pass_nfs_and_domains_beside_short_ones() {
    let layout = Layout::new().region(512, PLAIN).region(512, 1000).long(32).port(HERE).port(THERE);
    let layout = layout.nf("a", &[HERE]).nf("b", &[THERE]).nf("c", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).default_chain(1));
    let mut offered = Vec::new();
    for number in 0..20 {
        offered.push(long(number));
        offered.extend(interleaved(30..31, number..number + 1));
    }
    world.offer(0, &offered);
    world.settle();
    let mut sent = world.sent(1);
    sent.sort_unstable();
    offered.sort_unstable();
    assert_eq!((world.left(1), world.drops(1)), (40, [].into()));
    assert!(sent == offered, "they came as they were");
    world.finish();
}

#[test]
fn an_nf_that_takes_none_and_a_port_that_sends_none_end_them() {
    for refusing_port in [false, true] {
        let layout = one_domain().nf("a", &[HERE]).nf("b", &[HERE]);
        let layout = if refusing_port { layout } else { layout.refusing(1) };
        let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
        world.ports[1].lock().unwrap().refuses_long = refusing_port;
        let short = interleaved(30..31, 0..5);
        world.offer(0, &short[..2]);
        world.offer(0, &[long(1), long(2)]);
        world.offer(0, &short[2..]);
        world.settle();
        assert!(world.sent(1) == short, "the others keep their order");
        assert_eq!(world.drops(1), [("long-frame", 2)].into());
        world.finish();
    }
}

#[test]
fn a_domain_without_long_buffers_left_loses_what_goes_there() {
    let layout = Layout::new().region(512, PLAIN).region(512, PLAIN).long(2).port(HERE).port(HERE);
    let layout = layout.nf("a", &[THERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    world.offer(0, &[long(1), long(2)]);
    world.pass_of(0);
    world.offer(0, &[long(3)]);
    world.pass_of(0);
    assert_eq!(world.drops(1), [("no-buffer", 1)].into());
    world.settle();
    assert!(world.sent(1) == [long(1), long(2)]);
    world.finish();
}

/// Long frames enter by one worker and leave by another, many more than there are buffers.
#[test]
fn long_buffers_come_home_to_their_worker() {
    let there = At { worker: 1, region: 0 };
    let layout = Layout::new().workers(2).region(512, PLAIN).long(4).port(HERE).port(there);
    let layout = layout.nf("a", &[HERE]).nf("b", &[there]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    let offered: Vec<_> = (0..40).map(long).collect();
    world.offer(0, &offered);
    world.settle();
    assert_eq!((world.left(1), world.drops(1)), (40, [].into()));
    assert!(world.sent(1) == offered);
    world.finish();
}

#[test]
fn an_nf_that_dies_leaves_its_long_buffers() {
    let mut world =
        World::new(one_domain().nf("a", &[HERE]).chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    world.offer(0, &(0..4).map(long).collect::<Vec<_>>());
    world.pass_of(0);
    assert_eq!(world.audit().regions[0].held, 4);
    world.kill(0);
    world.pass_of(0);
    world.check();
    assert_eq!(world.drops(1), [("nf-died", 4)].into());
    world.start(0);
    world.offer(0, &[long(9)]);
    world.settle();
    assert!(world.sent(1) == [long(9)]);
    world.finish();
}

/// What an NF may say of a long buffer, and what of others.
#[test]
fn lies_about_long_buffers_are_found() {
    type Lie = fn(Descriptor) -> Descriptor;
    let lies: [(Lie, Offence); 4] = [
        (|packet| Descriptor::new(packet.index() + 1, 128, 300, 0), Offence::NotHeld),
        (|packet| Descriptor::new(packet.index() + 1, 128, 40_000, 0), Offence::BadLength),
        (|_| Descriptor::new(0, 128, 40_000, 0), Offence::BadLength),
        (|packet| packet.with_extent(128, 130_000), Offence::BadLength),
    ];
    for (lie, expected) in lies {
        let layout = one_domain().nf("a", &[HERE]).chain(&[0], Exit::Port(PortId(1)));
        let mut world = World::new(layout.default_chain(1));
        world.on(0, Box::new(move |_, packet| lie(packet)));
        world.offer(0, &[long(1)]);
        for _ in 0..4 {
            world.pass();
        }
        let events = world.events();
        let found = events.iter().find_map(|event| match event {
            Event::Offence { offence, .. } => Some(*offence),
            _ => None,
        });
        assert_eq!(found, Some(expected));
        world.kill(0);
        world.pass_of(0);
        world.check();
        assert_eq!(world.drops(1), [("nf-died", 1)].into());
    }
}
