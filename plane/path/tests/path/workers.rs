//! Several workers: packets and buffers cross the links between them.

use headgate_path::mesh::RING_SIZE;
use headgate_path::plan::Exit;
use headgate_shm::Verdict;
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved};
use crate::harness::layout::{At, Layout, from_port};

mod threads;

const fn on(worker: u8) -> At {
    At { worker, region: 0 }
}

/// Returns a way in by a port of the first worker, through an NF of the second, out by a port of the last.
fn relay(workers: u8, buffers: u32) -> World {
    let layout = Layout::new().workers(usize::from(workers)).region(buffers, 320);
    let layout = layout.port(on(0)).port(on(workers - 1)).nf("nf", &[on(1)]);
    World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1))
}

#[test]
fn a_packet_passes_three_workers() {
    let mut world = relay(3, 1024);
    let offered = interleaved(0..20, 0..50);
    world.offer(0, &offered);
    while world.pass() {
        world.check();
    }
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_eq!((world.entered(1), world.left(1)), (1000, 1000));
    assert_eq!(world.boards[0].chains[1].entered.get(), 1000, "counted where it entered");
    assert_eq!(world.boards[2].chains[1].left.get(), 1000, "and where it left");
    world.finish();
}

#[test]
fn a_chain_may_zigzag_between_workers_and_domains() {
    let at = |worker, region| At { worker, region };
    let layout = Layout::new().workers(2).region(2048, 320).region(2048, 320).port(at(0, 0)).port(at(1, 1));
    let layout = layout
        .nf("a", &[at(0, 0), at(1, 1)])
        .nf("b", &[at(1, 0)])
        .nf("c", &[at(0, 1), at(1, 0), at(0, 0)])
        .nf("d", &[at(1, 1)]);
    let layout =
        layout.chain(&[0, 1, 2, 3], Exit::Port(PortId(1))).chain(&[3, 2, 1, 0], Exit::Port(PortId(0)));
    let mut world = World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)));
    let (east, west) = (interleaved(0..40, 0..10), interleaved(40..80, 0..10));
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

#[test]
fn an_nf_may_name_a_port_of_another_worker() {
    let layout = Layout::new().workers(2).region(512, 320).port(on(0)).port(on(1)).nf("nf", &[on(0)]);
    let mut world = World::new(layout.chain(&[0], Exit::Nf).default_chain(1));
    world.on(0, Box::new(|_, packet| packet.with_verdict(Verdict::Port(1))));
    let offered = interleaved(0..20, 0..10);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

/// Buffers pile up where packets leave, and go home: the entry never runs dry, however long it runs.
#[test]
fn surplus_buffers_return() {
    for workers in 2..=8 {
        let mut world = relay(workers, 2048);
        let offered = interleaved(0..64, 0..400);
        world.offer(0, &offered);
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        let fair = 2048 / usize::from(workers);
        let home = world.workers[0].report().free[0].len();
        assert!(home >= fair / 2, "{workers} workers: {home} of {fair} buffers are back at the entry");
        world.finish();
    }
}

/// Small regions are shared fairly too.
#[test]
fn few_buffers_return_too() {
    for workers in 2..=4 {
        let mut world = relay(workers, 256);
        let offered = interleaved(0..16, 0..200);
        world.offer(0, &offered);
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        world.finish();
    }
}

#[test]
fn what_a_full_link_does_not_take_is_counted() {
    let mut world = relay(2, 3 * RING_SIZE);
    let offered = interleaved(0..1, 0..RING_SIZE + 904);
    world.offer(0, &offered);
    for _ in 0..offered.len().div_ceil(64) {
        world.pass_of(0);
    }
    world.check();
    assert_eq!(world.drops(1), [("worker-full", 904)].into());
    world.settle();
    assert_same_flows(&offered[..RING_SIZE as usize], &world.sent(1));
    world.finish();
}

/// A great surplus at once, while the worker it goes to is slow: packets still find room in the link.
#[test]
fn returning_buffers_leave_room_in_a_link_for_packets() {
    let layout = Layout::new().workers(2).region(8 * RING_SIZE, 128).ring(32_768);
    let layout = layout.port(on(0)).port(on(1)).nf("nf", &[on(1)]);
    let layout = layout.chain(&[0], Exit::Port(PortId(1))).chain(&[], Exit::Port(PortId(0)));
    let mut world = World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)));
    world.offer(0, &interleaved(0..1, 0..15_000));
    for _ in 0..400 {
        world.pass_of(0);
        world.pass_of(1);
    }
    assert_eq!(world.boards[1].instances[0].held.get(), 15_000);
    world.kill(0);
    let offered = interleaved(1..2, 0..10_000);
    world.offer(1, &offered);
    for pass in 0..1_000 {
        world.pass_of(1);
        if pass % 4 == 0 {
            world.pass_of(0);
        }
    }
    world.settle();
    assert_eq!(world.drops(2), [].into());
    assert_same_flows(&offered, &world.sent(0));
    world.finish();
}

#[test]
fn the_other_workers_nf_dies_and_its_buffers_stay_there() {
    let mut world = relay(3, 768);
    world.offer(0, &interleaved(0..1, 0..60));
    world.pass_of(0);
    world.pass_of(1);
    world.kill(0);
    world.pass_of(1);
    world.check();
    assert_eq!(world.drops(1), [("nf-died", 60)].into());
    assert_eq!(world.workers[1].report().free[0].len(), 256 + 60);
    world.finish();
}
