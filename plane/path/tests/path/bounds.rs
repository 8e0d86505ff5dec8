//! Chains with a delay bound: what would be late is shed at their head, and nothing else is touched.

use headgate_path::plan::Exit;
use headgate_units::{ChainId, PortId};

use crate::harness::frames::{by_flow, interleaved};
use crate::harness::layout::{HERE, Layout, from_port};
use crate::harness::{PASS_TICKS, TICKS_PER_MICRO, World};

const SLOW: u16 = 1;
const RING: u32 = 512;
/// Microseconds, and passes.
const BOUND: u32 = 100;
const BOUND_PASSES: u64 = BOUND as u64 * TICKS_PER_MICRO / PASS_TICKS;
/// Packets that the slow NF works on in a pass.
const RATE: usize = 2;

/// Returns chain 1 from port 0 through a fast and a slow NF, bounded, and chain 2 from port 1 through the
/// fast one only.
fn world() -> World {
    let layout = Layout::plain().region(2048, 320).ring(RING).nf("fast", &[HERE]).nf("slow", &[HERE]);
    let layout =
        layout.chain(&[0, 1], Exit::Port(PortId(1))).bounded(BOUND).chain(&[0], Exit::Port(PortId(0)));
    World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)))
}

/// Makes passes in which `load` packets come for the bounded chain and one for the other. Returns how long
/// those that left took at most, in passes.
fn run(world: &mut World, load: u32, passes: u32) -> u64 {
    let mut inside = std::collections::VecDeque::new();
    let mut longest = 0;
    let (mut entered, mut left) = (world.entered(1) - shed(world), world.left(1));
    inside.extend((left..entered).map(|_| None));
    for pass in 0..passes {
        world.offer(0, &interleaved(0..load, pass..pass + 1));
        world.offer(1, &interleaved(100..101, pass..pass + 1));
        world.pass_of(0);
        world.nf(0).step();
        let packets = world.nf(SLOW).take(RATE);
        world.nf(SLOW).give_back(&packets);
        let now_entered = world.entered(1) - shed(world);
        inside.extend((entered..now_entered).map(|_| Some(pass)));
        let now_left = world.left(1);
        for arrived in inside.drain(..(now_left - left) as usize).flatten() {
            longest = longest.max(u64::from(pass - arrived));
        }
        (entered, left) = (now_entered, now_left);
    }
    world.check();
    longest
}

fn shed(world: &World) -> u64 {
    world.drops(1).values().sum()
}

#[test]
fn packets_are_in_time_and_the_slow_nf_has_work() {
    let mut world = world();
    assert_eq!(world.signals.bounds.window(ChainId(1)), None);
    run(&mut world, 8, 3000);
    let window = world.signals.bounds.window(ChainId(1)).expect("the bound was exceeded");
    assert!(u64::from(window) <= RATE as u64 * BOUND_PASSES * 5 / 4, "{window}");
    let before = (world.left(1), world.drops(1));
    let longest = run(&mut world, 8, 2000);
    assert!((BOUND_PASSES / 2..=BOUND_PASSES * 5 / 4).contains(&longest), "{longest} passes");
    assert_eq!(world.left(1) - before.0, 2000 * RATE as u64, "it is never without work");
    let kept_out = world.drops(1)["delay-bound"] - before.1["delay-bound"];
    assert!(kept_out >= 2000 * 5, "{kept_out}");
    assert_eq!(world.drops(1).get("stage-full"), before.1.get("stage-full"));
    assert_eq!(world.drops(2), [].into());
    world.settle();
    world.finish();
}

#[test]
fn the_window_goes_when_delays_are_short_again() {
    let mut world = world();
    run(&mut world, 8, 2000);
    assert!(world.signals.bounds.window(ChainId(1)).is_some());
    run(&mut world, 1, 1000);
    world.settle();
    // 100 ms of calm.
    (0..110_000).for_each(|_| _ = world.pass_of(0));
    assert_eq!(world.signals.bounds.window(ChainId(1)), None);
    let shed_so_far = shed(&world);
    run(&mut world, 1, 1000);
    assert_eq!(shed(&world), shed_so_far);
    world.settle();
    world.finish();
}

#[test]
fn a_chain_that_loses_its_bound_is_open() {
    let mut world = world();
    run(&mut world, 8, 2000);
    world.replan(|parts| parts.chains[1].as_mut().unwrap().delay_bound_us = None);
    world.pass_of(0);
    assert_eq!(world.signals.bounds.window(ChainId(1)), None);
    world.replan(|parts| parts.chains[1].as_mut().unwrap().delay_bound_us = Some(BOUND));
    run(&mut world, 8, 2000);
    assert!(world.signals.bounds.window(ChainId(1)).is_some());
    world.settle();
    world.finish();
}

#[test]
fn flows_of_a_fast_instance_go_on() {
    let layout = Layout::plain().ring(RING).nf("nf", &[HERE, HERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).bounded(BOUND).default_chain(1));
    for pass in 0..4000 {
        world.offer(0, &interleaved(0..16, pass..pass + 1));
        world.pass_of(0);
        world.nf(0).step();
        let packets = world.nf(1).take(1);
        world.nf(1).give_back(&packets);
        if pass == 2000 {
            world.sent(1);
        }
    }
    world.check();
    let passed: Vec<usize> = by_flow(&world.sent(1)).into_values().map(|packets| packets.len()).collect();
    let whole = passed.iter().filter(|&&packets| packets > 1950).count();
    assert!((1..16).contains(&whole), "flows of the fast instance: {passed:?}");
    assert!(world.drops(1)["delay-bound"] > 2000, "{:?}", world.drops(1));
    world.settle();
    world.finish();
}
