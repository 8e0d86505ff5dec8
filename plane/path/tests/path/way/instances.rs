//! Several instances of one NF: each flow stays with its own, whatever happens to the others. And what
//! happens to a chain when an NF has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::worker::Event;
use headgate_units::InstanceId;
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, by_flow, interleaved, label};
use crate::harness::layout::{At, HERE, Layout};

const FLOWS: u32 = 200;

/// Flow -> the instances that saw it.
type Seen = Arc<Mutex<BTreeMap<u32, BTreeSet<u16>>>>;

fn record(world: &mut World, number: u16, seen: &Seen) {
    let seen = seen.clone();
    world.on(
        number,
        Box::new(move |region, packet| {
            let mut frame = vec![0; packet.length() as usize];
            region.read(packet, &mut frame);
            seen.lock().unwrap().entry(label(&frame).flow).or_default().insert(number);
            packet.with_tag(0)
        }),
    );
}

/// Returns one NF with `count` instances that run.
fn shared_by(count: usize) -> (World, Seen) {
    let layout = Layout::plain().nf("nf", &vec![HERE; count]).chain(&[0], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    let seen = Seen::default();
    (0..count as u16).for_each(|number| record(&mut world, number, &seen));
    (world, seen)
}

/// Sends packets of all flows, and returns which instance had each.
#[track_caller]
fn owners(world: &mut World, seen: &Seen) -> BTreeMap<u32, u16> {
    let offered = interleaved(0..FLOWS, 0..3);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    std::mem::take(&mut *seen.lock().unwrap())
        .into_iter()
        .map(|(flow, instances)| {
            assert_eq!(instances.len(), 1, "flow {flow} went to {instances:?}");
            (flow, *instances.first().unwrap())
        })
        .collect()
}

#[test]
fn a_flow_stays_with_one_of_several_instances() {
    let (mut world, seen) = shared_by(4);
    let before = owners(&mut world, &seen);
    let used: BTreeSet<u16> = before.values().copied().collect();
    assert_eq!(used, (0..4).collect());
    assert_eq!(owners(&mut world, &seen), before);
    world.finish();
}

#[test]
fn instances_go_and_come_and_other_flows_stay() {
    let (mut world, seen) = shared_by(5);
    let before = owners(&mut world, &seen);

    world.set_running(0, &[0, 1, 3, 4]);
    let without = owners(&mut world, &seen);
    for (flow, owner) in &before {
        assert!(without[flow] != 2, "flow {flow} went to an instance that does not run");
        assert!(*owner == 2 || without[flow] == *owner, "flow {flow} moved without need");
    }

    world.set_running(0, &[0, 1, 2, 3, 4]);
    let again = owners(&mut world, &seen);
    for (flow, owner) in &without {
        assert!(again[flow] == 2 || again[flow] == *owner, "flow {flow} moved without need");
    }
    assert!(again.values().any(|&owner| owner == 2));

    world.set_running(0, &[3]);
    assert!(owners(&mut world, &seen).values().all(|&owner| owner == 3));
    world.finish();
}

/// Two NFs with an instance at each of two workers, and a port to which packets come at each: 0 and 1.
/// Instances 0 and 2 are worker 0's.
fn shared_by_workers() -> (World, Seen) {
    let other = At { worker: 1, region: 0 };
    let layout = Layout::new().workers(2).region(2048, 320);
    let layout = layout.port(HERE).everywhere().port(other).everywhere().port(HERE);
    let layout = layout.nf("first", &[HERE, other]).nf("second", &[HERE, other]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(2))).default_chain(1));
    let seen = Seen::default();
    (0..4).for_each(|number| record(&mut world, number, &seen));
    (world, seen)
}

/// Sends packets of flows by a port, and returns the instances that saw any of them.
#[track_caller]
fn visited(world: &mut World, seen: &Seen, port: usize, flows: std::ops::Range<u32>) -> BTreeSet<u16> {
    let offered = interleaved(flows, 0..3);
    world.offer(port, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(2));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen.values().all(|instances| instances.len() == 2), "one of each NF: {seen:?}");
    seen.into_values().flatten().collect()
}

#[test]
fn workers_prefer_their_own_instances() {
    let (mut world, seen) = shared_by_workers();
    assert_eq!(visited(&mut world, &seen, 0, 0..FLOWS), [0, 2].into());
    assert_eq!(visited(&mut world, &seen, 1, FLOWS..2 * FLOWS), [1, 3].into());
    // Nothing had to change the worker but what leaves by the other one's port.
    assert_eq!(visited(&mut world, &seen, 0, 0..FLOWS), [0, 2].into());
    world.finish();
}

/// Flows of an instance that dies go to the other worker's and come back for the NF behind it.
#[test]
fn a_death_at_one_worker_moves_no_flow_of_another_nf_or_worker() {
    let (mut world, seen) = shared_by_workers();
    assert_eq!(visited(&mut world, &seen, 0, 0..FLOWS), [0, 2].into());
    world.set_running(0, &[1]);
    assert_eq!(visited(&mut world, &seen, 0, 0..FLOWS), [1, 2].into());
    assert_eq!(visited(&mut world, &seen, 1, FLOWS..2 * FLOWS), [1, 3].into());
    world.set_running(0, &[0, 1]);
    assert_eq!(visited(&mut world, &seen, 0, 0..FLOWS), [0, 2].into());
    assert_eq!(visited(&mut world, &seen, 1, FLOWS..2 * FLOWS), [1, 3].into());
    world.finish();
}

/// Where workers have different numbers of instances, each instance gets as much as another.
#[test]
fn uneven_workers_share_evenly() {
    let other = At { worker: 1, region: 0 };
    let layout = Layout::new().workers(2).region(2048, 320);
    let layout = layout.port(HERE).everywhere().port(HERE).nf("nf", &[HERE, HERE, other]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    let seen = Seen::default();
    (0..3).for_each(|number| record(&mut world, number, &seen));
    let owners = owners(&mut world, &seen);
    let count = |who: u16| owners.values().filter(|owner| **owner == who).count();
    assert!((0..3).all(|who| count(who) > FLOWS as usize / 6), "{owners:?}");
    world.finish();
}

#[test]
fn what_a_retired_instance_holds_still_goes_its_way() {
    let (mut world, seen) = shared_by(2);
    let offered = interleaved(0..FLOWS, 0..1);
    world.offer(0, &offered);
    for _ in 0..4 {
        world.pass_of(0);
    }
    assert!(world.boards[0].instances[1].held.get() > 0);
    world.set_running(0, &[0]);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert!(seen.lock().unwrap().values().any(|owners| owners.contains(&1)));
    world.finish();
}

#[test]
fn a_death_takes_what_the_dead_one_held_and_nothing_else() {
    let (mut world, seen) = shared_by(3);
    let before = owners(&mut world, &seen);
    let offered = interleaved(0..FLOWS, 0..1);
    world.offer(0, &offered);
    for _ in 0..4 {
        world.pass_of(0);
    }
    let (held, before_it) =
        (world.boards[0].instances[1].held.get(), world.boards[0].instances[1].returned.get() as u32);
    let taken = world.nf(1).take(10);
    world.nf(1).give_back(&taken[..4]);

    world.set_running(0, &[0, 2]);
    world.kill(1);
    world.settle();
    let lost = held - 4;
    let (lost_now, returned) = (lost as u32, before_it + 4);
    let number = InstanceId(1);
    assert_eq!(world.events(), [Event::Reclaimed { number, lost: lost_now, returned }]);
    assert_eq!(world.drops(1), [("nf-died", lost)].into());
    assert_eq!(world.boards[0].instances[1].drops[DropReason::NfDied as usize].get(), lost);
    let sent = world.sent(1);
    let arrived = by_flow(&sent);
    assert_eq!(arrived.len() as u64, u64::from(FLOWS) - lost);
    assert!((0..FLOWS).all(|flow| arrived.contains_key(&flow) || before[&flow] == 1));

    seen.lock().unwrap().clear();
    world.start(1);
    record(&mut world, 1, &seen);
    world.set_running(0, &[0, 1, 2]);
    let after = owners(&mut world, &seen);
    assert!(after.iter().all(|(flow, &owner)| owner == 1 || before[flow] == 1 || owner == before[flow]));
    world.finish();
}

/// An instance is in the plan before its process is ready, or after it is gone.
#[test]
fn an_instance_without_a_process_is_down() {
    let (mut world, _) = shared_by(1);
    world.pass();
    world.kill(0);
    world.offer(0, &interleaved(0..5, 0..5));
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 25)].into());
    world.start(0);
    let offered = interleaved(0..5, 5..10);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

fn two_stages(bypass_first: bool, bypass_second: bool) -> World {
    let mut layout = Layout::plain().nf("a", &[HERE]);
    layout = if bypass_first { layout.bypassed() } else { layout };
    layout = layout.nf("b", &[HERE]);
    layout = if bypass_second { layout.bypassed() } else { layout };
    World::new(
        layout.chain(&[0, 1], Exit::Port(PortId(1))).chain(&[0], Exit::Port(PortId(1))).default_chain(1),
    )
}

#[test]
fn a_doomed_packet_ends_at_the_head_of_its_chain() {
    let mut world = two_stages(false, false);
    world.set_running(1, &[]);
    world.offer(0, &interleaved(0..5, 0..10));
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 50)].into());
    assert_eq!(world.boards[0].instances[0].delivered.get(), 0, "no work is spent on it");
    assert_eq!(world.entered(1), 50);

    world.set_running(1, &[1]);
    let offered = interleaved(0..5, 10..20);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

#[test]
fn packets_on_their_way_to_a_stage_that_goes_down_end_there() {
    let mut world = two_stages(false, false);
    world.offer(0, &interleaved(0..5, 0..10));
    world.pass_of(0);
    world.set_running(1, &[]);
    world.settle();
    assert_eq!(world.boards[0].instances[0].returned.get(), 50);
    assert_eq!(world.drops(1), [("stage-down", 50)].into());
    world.finish();
}

#[test]
fn a_stage_that_may_be_bypassed_is() {
    for (down, passed) in [(vec![0], [0, 1]), (vec![1], [1, 0]), (vec![0, 1], [0, 0]), (vec![], [1, 1])] {
        let mut world = two_stages(true, true);
        for &stage in &down {
            world.set_running(stage, &[]);
            world.kill(stage);
        }
        let offered = interleaved(0..5, 0..10);
        world.offer(0, &offered);
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        let delivered: [u64; 2] =
            std::array::from_fn(|number| world.boards[0].instances[number].delivered.get());
        assert_eq!(delivered, passed.map(|times| times * 50), "stages {down:?} down");
        world.finish();
    }
}

#[test]
fn a_chain_with_one_stage_down_for_good_is_closed_though_others_may_be_bypassed() {
    let mut world = two_stages(true, false);
    world.set_running(0, &[]);
    world.set_running(1, &[]);
    world.offer(0, &interleaved(0..5, 0..10));
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 50)].into());
    world.finish();
}

/// What the first incarnation holds would be the second one's to return, and nobody's to reclaim.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "instance 0 is attached before it was reclaimed")]
fn an_instance_is_reclaimed_before_it_is_attached_again() {
    let (mut world, _seen) = shared_by(1);
    world.pass();
    world.start(0);
    world.pass();
}
