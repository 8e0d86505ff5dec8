//! Trust domains: a packet that crosses from one to another is copied, once, by the manager.

use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_shm::Verdict;
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, by_flow, interleaved, label, udp4_long};
use crate::harness::layout::{At, HERE, Layout, from_port};

const THERE: At = At { worker: 0, region: 1 };

/// Returns two domains with a port each.
fn two_domains(second: (u32, u32)) -> Layout {
    Layout::new().region(512, 320).region(second.0, second.1).port(HERE).port(THERE)
}

fn held(world: &World) -> [u64; 2] {
    std::array::from_fn(|region| world.audit().regions[region].held)
}

#[test]
fn a_packet_has_one_buffer_in_the_domain_where_it_is() {
    let layout = two_domains((512, 320)).nf("a", &[HERE]).nf("b", &[THERE]).nf("c", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).default_chain(1));
    let offered = interleaved(0..6, 0..10);
    world.offer(0, &offered);
    let mut seen = Vec::new();
    while world.pass() {
        world.check();
        seen.push(held(&world));
    }
    assert_eq!(seen[..4], [[60, 0], [0, 60], [60, 0], [0, 0]]);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_eq!((world.left(1), world.drops(1).len()), (60, 0));
    world.finish();
}

#[test]
fn a_port_that_sends_from_anywhere_needs_no_copy() {
    let layout = two_domains((16, 320)).free_port(HERE).nf("a", &[HERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(2))).default_chain(1));
    let offered = interleaved(0..6, 0..20);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(2));
    world.finish();
}

#[test]
fn traffic_crosses_both_ways_at_once() {
    let layout = two_domains((512, 320)).nf("a", &[HERE]).nf("b", &[THERE]);
    let layout = layout.chain(&[0, 1], Exit::Port(PortId(1))).chain(&[1, 0], Exit::Port(PortId(0)));
    let mut world = World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)));
    let (east, west) = (interleaved(0..10, 0..30), interleaved(10..20, 0..30));
    world.offer(0, &east);
    world.offer(1, &west);
    while world.pass() {
        world.check();
    }
    world.settle();
    assert_same_flows(&east, &world.sent(1));
    assert_same_flows(&west, &world.sent(0));
    world.finish();
}

/// Sends flows through an NF with an instance in each domain: the flow says which, on both sides of a
/// crossing.
#[test]
fn a_flow_keeps_its_instance_across_domains() {
    let instances = [HERE, THERE, HERE, THERE];
    let layout = two_domains((512, 320)).nf("a", &[THERE]).nf("b", &instances).nf("c", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(0))).default_chain(1));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
    for number in 1..5u16 {
        let seen = seen.clone();
        world.on(
            number,
            Box::new(move |region, packet| {
                let mut frame = vec![0; packet.length() as usize];
                region.read(packet, &mut frame);
                seen.lock().unwrap().insert((label(&frame).flow, number));
                packet.with_tag(0)
            }),
        );
    }
    let offered = interleaved(0..60, 0..5);
    world.offer(0, &offered[..150]);
    world.offer(1, &offered[150..]);
    world.settle();
    assert_eq!(world.sent(0).len(), 300);
    let owners = seen.lock().unwrap().clone();
    // The port of arrival is part of a flow's key: a flow that came by both has up to two owners.
    assert!((60..=120).contains(&owners.len()));
    assert!((1..5).all(|number| owners.iter().any(|&(_, owner)| owner == number)));
    world.finish();
}

#[test]
fn what_does_not_fit_the_other_domain_ends_there() {
    let layout = two_domains((512, 128)).nf("b", &[THERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(0))).default_chain(1));
    let room = world.regions[1].geometry().frame_bytes_max() as usize;
    let lengths = [room, room + 1, 60, 320, room];
    let offered: Vec<_> =
        lengths.iter().enumerate().map(|(at, &length)| udp4_long(0, at as u32, length)).collect();
    world.offer(0, &offered);
    world.settle();
    let sent = world.sent(0);
    assert_eq!(by_flow(&sent)[&0], [&offered[0], &offered[2], &offered[4]]);
    assert_eq!(world.drops(1), [("too-long", 2)].into());
    world.finish();
}

/// Does the same at a port that can only send from its own, smaller buffers.
#[test]
fn what_does_not_fit_the_ports_domain_ends_there() {
    let mut world = World::new(two_domains((512, 128)).chain(&[], Exit::Port(PortId(1))).default_chain(1));
    world.offer(0, &[udp4_long(0, 0, 320), udp4_long(0, 1, 100)]);
    world.settle();
    assert_eq!(world.sent(1), [udp4_long(0, 1, 100)]);
    assert_eq!(world.drops(1), [("too-long", 1)].into());
    world.finish();
}

#[test]
fn a_domain_without_free_buffers_loses_what_goes_there() {
    let layout = two_domains((24, 320)).nf("b", &[THERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(0))).default_chain(1));
    world.offer(0, &interleaved(0..1, 0..60));
    world.pass_of(0);
    world.check();
    assert_eq!(held(&world), [0, 24]);
    assert_eq!(world.drops(1), [("no-buffer", 36)].into());
    world.settle();
    let offered = interleaved(0..1, 60..80);
    world.offer(0, &offered);
    world.settle();
    assert_eq!((world.left(1), world.dropped(1, DropReason::NoBuffer)), (44, 36));
    world.finish();
}

#[test]
fn a_full_nf_in_another_domain_leaks_no_copies() {
    let layout = two_domains((512, 320)).ring(64).nf("b", &[THERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(0))).default_chain(1));
    world.offer(0, &interleaved(0..1, 0..200));
    for _ in 0..4 {
        world.pass_of(0);
        world.check();
    }
    assert_eq!(held(&world), [0, 64]);
    assert_eq!(world.drops(1), [("stage-full", 136)].into());
    world.finish();
}

#[test]
fn an_nf_that_dies_in_another_domain_leaves_its_buffers_there() {
    let layout = two_domains((512, 320)).nf("a", &[HERE]).nf("b", &[THERE]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(0))).default_chain(1));
    world.offer(0, &interleaved(0..5, 0..10));
    world.pass();
    world.pass_of(0);
    assert_eq!(held(&world), [0, 50]);
    world.kill(1);
    world.pass_of(0);
    world.check();
    assert_eq!(held(&world), [0, 0]);
    assert_eq!(world.drops(1), [("nf-died", 50)].into());
    world.finish();
}

#[test]
fn verdicts_reach_ports_of_the_other_domain() {
    let layout = two_domains((512, 320)).nf("a", &[HERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Nf).default_chain(1));
    world.on(0, Box::new(|_, packet| packet.with_verdict(Verdict::Port(1))));
    let offered = interleaved(0..5, 0..20);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}
