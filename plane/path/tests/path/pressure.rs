//! NFs that cannot keep up: exactly their chains are shed at the head, and nothing else is touched.

use std::sync::atomic::Ordering;

use headgate_path::plan::Exit;
use headgate_path::worker::Pass;
use headgate_shm::{Descriptor, Region, Verdict};
use headgate_units::{InstanceId, PortId};
use headgate_wire::ip::Ecn;
use headgate_wire::ipv4;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, by_flow, interleaved, label, udp4};
use crate::harness::layout::{HERE, Layout, from_port};

const FAST: u16 = 0;
const SLOW: u16 = 1;
const RING: u32 = 256;

/// Returns chain 1 from port 0 through a fast and a slow NF, and chain 2 from port 1 through the fast one
/// only.
fn world(hold: u32) -> World {
    let layout = Layout::plain().ring(RING).pressure(hold).nf("fast", &[HERE]).nf("slow", &[HERE]);
    let layout = layout.chain(&[0, 1], Exit::Port(PortId(1))).chain(&[0], Exit::Port(PortId(0)));
    World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)))
}

/// Sends traffic on both chains; only the fast NF works.
fn overload(world: &mut World, passes: u32) {
    for pass in 0..passes {
        world.offer(0, &interleaved(0..4, pass * 8..pass * 8 + 8));
        world.offer(1, &interleaved(10..14, pass * 8..pass * 8 + 8));
        world.pass_of(0);
        world.nf(FAST).step();
    }
    world.check();
}

fn is_blocked(world: &mut World, number: u16) -> bool {
    world.nf(number).side.orders().blocked.load(Ordering::Relaxed) != 0
}

#[test]
fn exactly_the_chains_of_the_overloaded_nf_are_shed_at_the_head() {
    let mut world = world(128);
    overload(&mut world, 40);
    assert!(
        world.signals.pressure.is_throttled(InstanceId(SLOW))
            && !world.signals.pressure.is_throttled(InstanceId(FAST))
    );
    let drops = world.drops(1);
    assert_eq!(drops.keys().collect::<Vec<_>>(), [&"throttled"], "{drops:?}");
    assert_eq!(world.drops(2), [].into());
    assert!(!is_blocked(&mut world, FAST), "it has another chain to serve");

    world.settle();
    assert!(!world.signals.pressure.any());
    let shed = world.drops(1)["throttled"];
    assert_eq!(world.left(1) + shed, 40 * 32);
    assert_eq!(world.left(2), 40 * 32);
    overload(&mut world, 1);
    world.settle();
    assert_eq!(world.drops(1)["throttled"], shed, "open again");
    world.finish();
}

#[test]
fn one_that_only_feeds_the_overloaded_is_blocked_until_it_is_not() {
    let layout = Layout::plain().ring(RING).pressure(128).nf("fast", &[HERE]).nf("slow", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    overload(&mut world, 40);
    assert!(is_blocked(&mut world, FAST) && !is_blocked(&mut world, SLOW));
    world.settle();
    assert!(!is_blocked(&mut world, FAST));
    world.finish();
}

#[test]
fn packets_worked_on_wait_in_order_for_a_full_ring() {
    let mut world = world(128);
    // Past the ring in one go, before anything can be throttled.
    let offered = interleaved(0..4, 0..80);
    world.offer(0, &offered);
    for _ in 0..6 {
        world.pass_of(0);
        world.nf(FAST).step();
    }
    world.check();
    assert_eq!(world.boards[0].instances[SLOW as usize].pending.get(), 320 - u64::from(RING));
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_eq!(world.drops(1), [].into());
    world.finish();
}

#[test]
fn what_may_not_wait_is_dropped_at_the_full_ring() {
    let mut world = world(16);
    world.offer(0, &interleaved(0..4, 0..80));
    for _ in 0..6 {
        world.pass_of(0);
        world.nf(FAST).step();
    }
    assert_eq!(world.drops(1), [("stage-full", 320 - u64::from(RING) - 16)].into());
    world.finish();
}

/// Returns frames of flow 0 with this ECN field.
fn with_ecn(ecn: Ecn, count: u32) -> Vec<Vec<u8>> {
    let frame = |sequence| {
        let mut frame = udp4(0, sequence);
        ipv4::Packet::new(&mut frame[14..]).unwrap().set_ecn(ecn);
        frame
    };
    (0..count).map(frame).collect()
}

#[test]
fn packets_that_can_are_marked_while_a_queue_stays_long() {
    for (ecn, can) in [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true)] {
        let layout = Layout::plain().ring(RING).pressure(0).nf("slow", &[HERE]);
        let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
        world.offer(0, &with_ecn(ecn, 180));
        (0..200).for_each(|_| assert_ne!(world.pass_of(0), Pass::Stopped));
        world.offer(0, &with_ecn(ecn, 10));
        world.pass_of(0);
        world.settle();
        for _ in 0..500 {
            world.pass();
        }
        world.offer(0, &with_ecn(ecn, 10));
        world.settle();
        let sent = world.sent(1);
        let views = sent.iter().map(|frame| ipv4::Packet::new(&frame[14..]).unwrap());
        assert!(views.clone().all(|packet| packet.verify_checksum()));
        let marked: Vec<bool> = views.map(|packet| packet.ecn() == Ecn::Ce).collect();
        assert_eq!(marked.len(), 200);
        assert!(!marked[..180].contains(&true), "the queue was short before");
        assert_eq!(marked[180..190], [can; 10]);
        assert_eq!(marked[190..], [false; 10], "the queue was short for long");
        assert_eq!(world.boards[0].instances[0].marked.get(), if can { 10 } else { 0 });
        world.finish();
    }
}

#[test]
fn flows_of_another_instance_go_on() {
    let layout = Layout::plain().ring(RING).pressure(128).nf("nf", &[HERE, HERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    for pass in 0..60 {
        world.offer(0, &interleaved(0..32, pass..pass + 1));
        world.pass_of(0);
        world.nf(1).step();
    }
    world.check();
    assert!(
        world.signals.pressure.is_throttled(InstanceId(0))
            && !world.signals.pressure.is_throttled(InstanceId(1))
    );
    let throttled = world.drops(1)["throttled"];
    let whole = by_flow(&world.sent(1)).into_values().filter(|packets| packets.len() > 55).count();
    assert!(whole > 4, "flows of the instance that keeps up: {whole}");
    assert!(throttled > 0 && throttled < 60 * 32 - 55 * whole as u64);
    world.settle();
    world.finish();
}

#[test]
fn a_dead_instance_closes_nothing_and_what_waited_for_it_goes_on() {
    let layout = Layout::plain().ring(RING).pressure(128).nf("fast", &[HERE]).nf("slow", &[HERE]).bypassed();
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    world.offer(0, &interleaved(0..4, 0..80));
    for _ in 0..6 {
        world.pass_of(0);
        world.nf(FAST).step();
    }
    assert!(world.signals.pressure.is_throttled(InstanceId(SLOW)));
    world.set_running(1, &[]);
    world.kill(SLOW);
    world.settle();
    assert!(!world.signals.pressure.any());
    assert_eq!(world.drops(1), [("nf-died", u64::from(RING))].into());
    assert_eq!(world.left(1), 320 - u64::from(RING));
    world.finish();
}

/// Returns a chain of three, whose first NF leads the flows with odd numbers past the second.
fn forked(by_flow: bool) -> World {
    let mut layout = Layout::plain().ring(RING).pressure(128);
    layout.shed_by_flow = by_flow;
    let layout = layout.nf("fork", &[HERE]).nf("slow", &[HERE]).nf("last", &[HERE]);
    let mut world = World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).default_chain(1));
    world.on(0, Box::new(lead_odd));
    world
}

fn lead_odd(region: &Region, packet: Descriptor) -> Descriptor {
    let mut frame = [0; 320];
    let length = region.read(packet, &mut frame);
    let is_odd = label(&frame[..length]).flow % 2 == 1;
    packet.with_tag(if is_odd { Verdict::Stage(2).encode() } else { Verdict::NEXT })
}

/// Sends traffic of eight flows; the slow NF does nothing.
fn overload_fork(world: &mut World, passes: std::ops::Range<u32>) {
    for pass in passes {
        world.offer(0, &interleaved(0..8, pass..pass + 1));
        world.pass_of(0);
        world.nf(0).step();
        world.nf(2).step();
    }
    world.check();
}

/// Returns how many packets of even and of odd flows left since the last call.
fn left_of_both(world: &World) -> [usize; 2] {
    let mut left = [0; 2];
    for frame in world.sent(1) {
        left[label(&frame).flow as usize % 2] += 1;
    }
    left
}

#[test]
fn flows_led_past_the_overloaded_nf_go_on() {
    let mut world = forked(true);
    overload_fork(&mut world, 0..200);
    assert!(world.signals.pressure.is_throttled(InstanceId(SLOW)));
    assert!(!is_blocked(&mut world, 0), "it has flows to lead past");
    left_of_both(&world);
    overload_fork(&mut world, 200..300);
    let [even, odd] = left_of_both(&world);
    assert_eq!((even, odd), (0, 400));
    assert_eq!(world.drops(1).keys().collect::<Vec<_>>(), [&"throttled"]);
    // From now on all flows go straight, and are known to after their next packet.
    world.on(0, Box::new(|_, packet| packet.with_tag(Verdict::NEXT)));
    let shed = world.drops(1)["throttled"];
    overload_fork(&mut world, 300..400);
    let shed = world.drops(1)["throttled"] - shed;
    assert!((780..800).contains(&shed), "{shed}");
    world.settle();
    assert!(!world.signals.pressure.any());
    overload_fork(&mut world, 400..402);
    world.settle();
    world.finish();
}

#[test]
fn whole_bursts_that_are_led_past_leave_once() {
    let mut world = forked(true);
    let pass = |world: &mut World| {
        while world.pass_of(0) == Pass::Busy {}
        world.nf(0).step();
        world.pass_of(0);
        world.nf(2).step();
        world.pass_of(0);
        world.check();
    };
    overload_fork(&mut world, 0..200);
    pass(&mut world);
    left_of_both(&world);
    // The fork returns more than one burst at once.
    world.offer(0, &interleaved(0..8, 200..250));
    pass(&mut world);
    assert_eq!(left_of_both(&world), [0, 200]);
    world.settle();
    world.finish();
}

#[test]
fn a_whole_chain_is_shed_where_flows_are_not_told_apart() {
    let mut world = forked(false);
    overload_fork(&mut world, 0..200);
    assert!(world.signals.pressure.is_throttled(InstanceId(SLOW)));
    left_of_both(&world);
    overload_fork(&mut world, 200..300);
    assert_eq!(left_of_both(&world), [0, 0]);
    world.settle();
    world.finish();
}

#[test]
fn flows_that_leave_before_the_overloaded_nf_go_on() {
    let mut world = forked(true);
    let out = |region: &Region, packet: Descriptor| {
        let led = lead_odd(region, packet);
        if led.tag() == Verdict::NEXT { led } else { packet.with_tag(Verdict::Port(1).encode()) }
    };
    world.on(0, Box::new(out));
    overload_fork(&mut world, 0..200);
    left_of_both(&world);
    overload_fork(&mut world, 200..300);
    assert_eq!(left_of_both(&world), [0, 400]);
    world.settle();
    world.finish();
}
