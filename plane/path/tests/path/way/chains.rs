//! Chains of NFs that let everything pass.

use headgate_path::plan::Exit;
use headgate_path::worker::Command;
use headgate_shm::{Descriptor, doorbell};
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, by_flow, interleaved, label, udp4};
use crate::harness::layout::{HERE, Layout, from_port};

#[test]
fn packets_pass_chains_of_one_to_five_stages() {
    for length in 1..=5u16 {
        let mut layout = Layout::plain();
        for stage in 0..length {
            layout = layout.nf(&format!("nf{stage}"), &[HERE]);
        }
        let stages: Vec<u16> = (0..length).collect();
        let mut world = World::new(layout.chain(&stages, Exit::Port(PortId(1))).default_chain(1));
        let offered = interleaved(0..30, 0..20);
        world.offer(0, &offered);
        while world.pass() {
            world.check();
        }
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        assert_eq!((world.entered(1), world.left(1)), (600, 600));
        for stage in 0..length {
            let counts = &world.boards[0].instances[stage as usize];
            assert_eq!((counts.delivered.get(), counts.returned.get()), (600, 600));
        }
        world.finish();
    }
}

#[test]
fn a_chain_without_stages_is_a_wire() {
    let mut world = World::new(Layout::plain().chain(&[], Exit::Port(PortId(1))).default_chain(1));
    let offered = interleaved(0..3, 0..100);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

#[test]
fn an_nf_is_told_the_port_a_packet_came_by() {
    let layout =
        Layout::plain().nf("first", &[HERE]).nf("second", &[HERE]).chain(&[0, 1], Exit::Port(PortId(0)));
    let mut world = World::new(layout.default_chain(1));
    for number in 0..2 {
        world.on(
            number,
            Box::new(|region, packet| {
                let mut frame = vec![0; packet.length() as usize];
                region.read(packet, &mut frame);
                assert_eq!(packet.tag(), label(&frame).flow);
                packet.with_tag(0)
            }),
        );
    }
    world.offer(0, &interleaved(0..1, 0..40));
    world.offer(1, &interleaved(1..2, 0..40));
    world.settle();
    assert_eq!(world.sent(0).len(), 80);
    world.finish();
}

#[test]
fn what_one_nf_writes_the_next_one_reads() {
    const SHIM: [u8; 8] = *b"headgate";
    let layout = Layout::plain().nf("push", &[HERE]).nf("pop", &[HERE]).chain(&[0, 1], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    let shim = SHIM.len() as u32;
    world.on(
        0,
        Box::new(move |region, packet| {
            region.write(packet.index(), packet.offset() - shim, &SHIM);
            packet.with_extent(packet.offset() - shim, packet.length() + shim).with_tag(0)
        }),
    );
    world.on(
        1,
        Box::new(move |region, packet| {
            let mut read = SHIM.map(|_| 0);
            region.read(packet, &mut read);
            assert_eq!(read, SHIM);
            packet.with_extent(packet.offset() + shim, packet.length() - shim).with_tag(0)
        }),
    );
    let offered = interleaved(0..5, 0..50);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

/// Three chains over two NFs, one of them twice in a chain.
#[test]
fn chains_share_nfs() {
    let layout = Layout::plain()
        .ring(1024)
        .port(HERE)
        .nf("a", &[HERE])
        .nf("b", &[HERE])
        .chain(&[0, 1], Exit::Port(PortId(0)))
        .chain(&[1, 0], Exit::Port(PortId(1)))
        .chain(&[1, 0, 1], Exit::Port(PortId(2)));
    let mut world = World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)).rule(from_port(2, 3)));
    let offered: Vec<_> = (0..3).map(|port| interleaved(port * 10..port * 10 + 10, 0..30)).collect();
    for (port, frames) in offered.iter().enumerate() {
        world.offer(port, frames);
    }
    world.settle();
    for (port, frames) in offered.iter().enumerate() {
        assert_same_flows(frames, &world.sent(port));
        assert_eq!(world.left(port as u16 + 1), 300);
    }
    let delivered = |number: usize| world.boards[0].instances[number].delivered.get();
    assert_eq!((delivered(0), delivered(1)), (900, 1200));
    world.finish();
}

fn one_nf() -> World {
    World::new(Layout::plain().ring(64).nf("nf", &[HERE]).chain(&[0], Exit::Port(PortId(1))).default_chain(1))
}

#[test]
fn an_nf_never_holds_more_than_its_ring() {
    let mut world = one_nf();
    let offered = interleaved(0..1, 0..200);
    world.offer(0, &offered);
    for _ in 0..5 {
        world.pass_of(0);
    }
    world.check();
    assert_eq!(world.boards[0].instances[0].held.get(), 64);
    assert_eq!(world.drops(1), [("stage-full", 136)].into());

    let mut taken = world.nf(0).take(64);
    world.offer(0, &interleaved(1..2, 0..10));
    world.pass_of(0);
    assert_eq!(world.drops(1), [("stage-full", 146)].into(), "a taken packet still counts");

    taken.iter_mut().for_each(|packet| *packet = packet.with_tag(0));
    world.nf(0).give_back(&taken[..6]);
    world.pass_of(0);
    world.offer(0, &interleaved(2..3, 0..10));
    world.pass_of(0);
    assert_eq!(world.drops(1), [("stage-full", 150)].into(), "six came back, six more may go");
    assert_eq!(world.boards[0].instances[0].held.get(), 64);

    world.nf(0).give_back(&taken[6..]);
    world.settle();
    let sent = world.sent(1);
    assert_eq!(by_flow(&sent)[&0], offered[..64].iter().collect::<Vec<_>>());
    assert_eq!(by_flow(&sent)[&2].len(), 6);
    world.finish();
}

#[test]
fn what_a_port_does_not_take_is_counted() {
    let mut world = one_nf();
    world.ports[1].lock().unwrap().room = Some(5);
    let offered = interleaved(0..1, 0..64);
    world.offer(0, &offered);
    world.settle();
    assert_eq!(world.sent(1), offered[..5]);
    assert_eq!((world.left(1), world.drops(1)), (5, [("port-full", 59)].into()));
    world.finish();
}

#[test]
fn packets_wait_at_the_port_while_no_buffer_is_free() {
    let layout = Layout::new().region(32, 320).port(HERE).port(HERE);
    let mut world = World::new(layout.nf("nf", &[HERE]).chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    let offered = interleaved(0..4, 0..100);
    world.offer(0, &offered);
    world.pass_of(0);
    assert_eq!(world.audit().regions[0].free, 0);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

#[test]
fn a_worker_that_does_not_receive_lets_what_it_has_go_on() {
    let mut world = one_nf();
    let offered = interleaved(0..1, 0..60);
    world.offer(0, &offered[..20]);
    world.pass_of(0);
    world.mailboxes[0].post(Command::Receive(false));
    world.offer(0, &offered[20..]);
    world.settle();
    assert_eq!(world.sent(1), offered[..20]);
    world.mailboxes[0].post(Command::Receive(true));
    world.settle();
    assert_eq!(world.sent(1), offered[20..]);
    world.finish();
}

#[test]
fn a_sleeping_nf_is_called() {
    let mut world = one_nf();
    world.now = 1_000_000_000;
    world.nf(0).naps = true;
    world.settle();
    assert!(doorbell::is_sleeping(world.nf(0).side.doorbell()));
    world.offer(0, &[udp4(0, 0)]);
    world.settle();
    assert_eq!(world.sent(1).len(), 1);
    assert_eq!(world.boards[0].instances[0].calls.get(), 1);
    world.finish();
}

#[test]
fn an_nf_that_returns_late_keeps_the_order_of_each_flow() {
    let mut world = one_nf();
    let offered = interleaved(0..7, 0..200);
    let mut kept: Vec<Descriptor> = Vec::new();
    for (pass, chunk) in offered.chunks(16).enumerate() {
        world.offer(0, chunk);
        world.pass_of(0);
        kept.extend(world.nf(0).take(16).iter().map(|packet| packet.with_tag(0)));
        if pass % 3 == 2 {
            world.nf(0).give_back(&std::mem::take(&mut kept));
        }
        world.check();
    }
    world.nf(0).give_back(&kept);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}
