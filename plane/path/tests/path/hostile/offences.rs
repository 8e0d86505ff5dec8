//! Each offence by itself, and its name.

use headgate_path::drop::DropReason;
use headgate_path::holders::Holder;
use headgate_path::worker::Event;
use headgate_shm::{Descriptor, Offence};
use headgate_units::InstanceId;

use super::liar::offset;
use super::{LIAR, NEIGHBOUR, RING, Scene};

/// Returns a liar with ten packets in its hands and ten in its ring.
fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.offer(20, 5);
    scene.pass();
    scene.liar.take(10);
    scene
}

/// Asserts that exactly this offence is named; nothing the liar holds is believed or lost, and nothing new
/// goes to it.
#[track_caller]
fn assert_named(mut scene: Scene, offence: Offence) {
    scene.pass();
    assert_eq!(scene.world.events(), [Event::Offence { number: InstanceId(LIAR), offence }]);
    let held = scene.world.boards[0].instances[0].held.get();
    scene.liar.give_back(0);
    scene.offer(7, 5);
    let down = scene.world.dropped(1, DropReason::StageDown);
    scene.pass();
    assert_eq!(scene.world.dropped(1, DropReason::StageDown), down + 7);
    assert_eq!(scene.world.boards[0].instances[0].held.get(), held, "nothing is read from it any more");
    assert_eq!(scene.world.events(), []);

    scene.replace_liar();
    scene.offer(20, 5);
    scene.pass();
    let events = scene.world.events();
    let [Event::Reclaimed { number, lost, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!((number, u64::from(lost)), (InstanceId(LIAR), held));
    let left = scene.world.left(1);
    scene.liar.take(20);
    while scene.liar.give_back(0) {}
    scene.pass();
    scene.pass();
    assert_eq!(scene.world.left(1), left + 20, "its successor is trusted anew");
    scene.finish();
}

#[test]
fn a_buffer_that_does_not_exist() {
    let mut scene = scene();
    scene.liar.put(Descriptor::new(192, 128, 64, 0));
    assert_named(scene, Offence::NoSuchBuffer);
}

#[test]
fn an_extent_that_does_not_fit_the_buffer() {
    let stride = Scene::new().world.regions[0].geometry().stride();
    for (offset, length) in [(0, 13), (0, 0), (stride, 14), (stride - 13, 14), (0, stride + 1), (4095, 16383)]
    {
        let mut scene = scene();
        let packet = scene.liar.taken[3].with_extent(offset, length);
        scene.liar.put(packet);
        assert_named(scene, Offence::BadLength);
    }
}

#[test]
fn a_buffer_of_nobody() {
    let mut scene = scene();
    let free = scene.world.workers[0].report().free[0][0];
    scene.liar.put(Descriptor::new(free, 128, 64, 0));
    assert_named(scene, Offence::NotHeld);
}

#[test]
fn a_buffer_of_a_neighbour() {
    let mut scene = scene();
    // World::pass steps the neighbour after its worker, so its packets are on their way back to us.
    let (theirs, _) = scene.world.holders[0].held_by(Holder::instance(InstanceId(NEIGHBOUR))).next().unwrap();
    scene.liar.put(Descriptor::new(theirs, 128, 64, 0));
    assert_named(scene, Offence::NotHeld);
}

#[test]
fn a_packet_returned_twice_in_one_burst() {
    let mut scene = scene();
    assert!(scene.liar.give_back(0));
    scene.liar.put(scene.liar.returned.unwrap());
    assert_named(scene, Offence::NotHeld);
}

#[test]
fn a_packet_returned_again_later() {
    let mut scene = scene();
    assert!(scene.liar.give_back(1 << 12));
    scene.pass();
    scene.liar.put(scene.liar.returned.unwrap());
    assert_named(scene, Offence::NotHeld);
}

#[test]
fn honest_returns_before_a_lie_are_believed() {
    let mut scene = scene();
    for _ in 0..4 {
        assert!(scene.liar.give_back(0));
    }
    scene.liar.put(Descriptor(u64::MAX));
    assert!(scene.liar.give_back(0));
    scene.pass();
    assert_eq!(scene.world.boards[0].instances[0].returned.get(), 4);
    assert_eq!(scene.world.boards[0].instances[0].held.get(), 16);
    assert_eq!(
        scene.world.events(),
        [Event::Offence { number: InstanceId(LIAR), offence: Offence::NoSuchBuffer }]
    );
    scene.finish();
}

#[test]
fn a_transmit_index_that_runs_ahead() {
    for ahead in [RING + 1, 1 << 31, u32::MAX] {
        let scene = scene();
        scene.liar.scribble(offset::TRANSMIT_PRODUCED, ahead);
        assert_named(scene, Offence::TransmitIndex);
    }
}

#[test]
fn a_transmit_index_that_runs_backwards() {
    let mut scene = scene();
    assert!(scene.liar.give_back(0) && scene.liar.give_back(0));
    scene.pass();
    scene.liar.scribble(offset::TRANSMIT_PRODUCED, 1);
    assert_named(scene, Offence::TransmitIndex);
}

#[test]
fn a_transmit_index_over_slots_nobody_wrote() {
    let scene = scene();
    scene.liar.scribble(offset::TRANSMIT_PRODUCED, RING);
    assert_named(scene, Offence::BadLength);
}

/// It claims to sleep, so the manager samples how much waits for it.
#[test]
fn a_receive_index_that_runs_ahead() {
    for index in [21, 1 << 31, u32::MAX] {
        let scene = scene();
        scene.liar.scribble(offset::DOORBELL, 1);
        scene.liar.scribble(offset::RECEIVE_CONSUMED, index);
        assert_named(scene, Offence::ReceiveIndex);
    }
}

#[test]
fn a_receive_index_that_runs_backwards() {
    let mut scene = scene();
    scene.liar.scribble(offset::DOORBELL, 1);
    scene.pass();
    assert_eq!(scene.world.events(), []);
    scene.liar.scribble(offset::RECEIVE_CONSUMED, 9);
    scene.liar.scribble(offset::DOORBELL, 1);
    assert_named(scene, Offence::ReceiveIndex);
}

/// It returned everything, so a ring's worth may go to it; but its index says that this does not fit, or
/// that it took more than there was.
#[test]
fn a_receive_index_that_does_not_agree_with_what_was_returned() {
    for index in [RING - 1, RING + 1, u32::MAX] {
        let mut scene = Scene::new();
        scene.offer(RING, 5);
        scene.pass();
        scene.liar.take(RING as usize);
        while scene.liar.give_back(0) {}
        scene.pass();
        scene.liar.scribble(offset::RECEIVE_CONSUMED, index);
        scene.offer(RING, 5);
        assert_named(scene, Offence::ReceiveIndex);
    }
}

/// It returns what still stands in its receive ring: the window has room then, and the ring has not.
#[test]
fn packets_returned_before_they_were_taken() {
    let mut scene = Scene::new();
    scene.offer(RING, 5);
    scene.pass();
    let holder = Holder::instance(InstanceId(LIAR));
    let untaken: Vec<u32> = scene.world.holders[0].held_by(holder).map(|(index, _)| index).collect();
    for index in &untaken[..10] {
        scene.liar.put(Descriptor::new(*index, 128, 60, 0));
    }
    scene.pass();
    scene.offer(20, 5);
    scene.pass();
    assert_eq!(
        scene.world.events(),
        [Event::Offence { number: InstanceId(LIAR), offence: Offence::ReceiveIndex }]
    );
    scene.finish();
}

#[test]
fn a_storm_of_sleep_costs_few_calls() {
    let mut scene = Scene::new();
    scene.world.now = 1 << 40;
    for _ in 0..1_000 {
        scene.offer(1, 1);
        scene.liar.scribble(offset::DOORBELL, 1);
        scene.pass();
        scene.liar.take(1);
        scene.liar.give_back(0);
    }
    // A pass is a microsecond here; between two calls there is at least GAP.
    let calls = scene.world.boards[0].instances[0].calls.get();
    assert!((1..=1_000 / headgate_decide::wake::GAP.as_micros()).contains(&calls), "{calls} calls");
    assert_eq!(scene.world.events(), []);
    scene.finish();
}

#[test]
fn a_condemned_nf_is_not_called_any_more() {
    let mut scene = scene();
    scene.liar.put(Descriptor(u64::MAX));
    scene.pass();
    let calls = scene.world.boards[0].instances[0].calls.get();
    for _ in 0..5_000 {
        scene.liar.scribble(offset::DOORBELL, 1);
        scene.pass();
    }
    assert_eq!(scene.world.boards[0].instances[0].calls.get(), calls);
    scene.finish();
}
