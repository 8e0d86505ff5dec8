//! Offences with buffers that are lent for packets to be made.

use headgate_path::holders::Holder;
use headgate_path::worker::Event;
use headgate_shm::{Descriptor, Offence, Verdict};
use headgate_units::InstanceId;

use super::liar::offset;
use super::{LEND, LIAR, NEIGHBOUR, Scene};

/// Returns a liar with ten packets in its hands and all it is lent.
fn scene() -> Scene {
    let mut scene = Scene::lending(LEND);
    scene.offer(20, 5);
    scene.pass();
    scene.liar.take(10);
    scene.liar.borrow(LEND as usize);
    assert_eq!(scene.liar.empty.len(), LEND as usize);
    scene
}

/// Asserts that exactly this offence is named, and nothing is lost with the liar but what it holds.
#[track_caller]
fn assert_named(mut scene: Scene, offence: Offence) {
    scene.pass();
    assert_eq!(scene.world.events(), [Event::Offence { number: InstanceId(LIAR), offence }]);
    let held = scene.world.boards[0].instances[0].held.get();
    let left = scene.world.left(1);
    scene.liar.make(0);
    scene.pass();
    assert_eq!(scene.world.events(), [], "nothing is read from it any more");
    scene.replace_liar();
    scene.pass();
    let events = scene.world.events();
    let [Event::Reclaimed { number, lost, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!((number, u64::from(lost)), (InstanceId(LIAR), held));
    scene.liar.borrow(LEND as usize);
    assert!(scene.liar.make(0), "its successor is lent buffers anew");
    (0..3).for_each(|_| scene.pass());
    assert!(scene.world.left(1) > left);
    scene.finish();
}

#[test]
fn a_lent_buffer_returned_twice() {
    for tag in [0, Verdict::Drop.encode(), Verdict::Port(1).encode()] {
        let mut scene = scene();
        assert!(scene.liar.make(tag));
        scene.liar.put(scene.liar.returned.unwrap());
        assert_named(scene, Offence::NotHeld);
    }
}

#[test]
fn a_lent_buffer_returned_again_in_a_later_burst() {
    let mut scene = scene();
    // A device keeps it for two passes; otherwise it could be lent anew, and be the liar's again.
    assert!(scene.liar.make(Verdict::Port(5).encode()));
    let returned = scene.liar.returned.unwrap();
    scene.pass();
    assert_eq!(scene.world.events(), []);
    scene.liar.put(returned);
    assert_named(scene, Offence::NotHeld);
}

/// It is returned with the extent it came with: a packet was never made.
#[test]
fn an_empty_buffer_is_no_packet() {
    let mut scene = scene();
    let empty = scene.liar.empty[0];
    assert_eq!(empty.length(), 0);
    scene.liar.put(empty);
    assert_named(scene, Offence::BadLength);
}

#[test]
fn a_buffer_that_a_neighbour_is_lent() {
    let mut scene = scene();
    let theirs = scene.world.holders[0].held_by(Holder::instance(InstanceId(NEIGHBOUR)));
    let (index, _) = { theirs }.find(|(_, place)| place.is_lent()).unwrap();
    scene.liar.put(Descriptor::new(index, 128, 60, 0));
    assert_named(scene, Offence::NotHeld);
}

/// What its predecessor was lent is not this one's.
#[test]
fn a_buffer_returned_after_death() {
    let mut scene = scene();
    let before = scene.liar.empty.clone();
    scene.replace_liar();
    scene.pass();
    scene.world.events();
    let holder = Holder::instance(InstanceId(LIAR));
    let mine: Vec<u32> = scene.world.holders[0].held_by(holder).map(|(index, _)| index).collect();
    let gone = before.iter().find(|empty| !mine.contains(&empty.index()));
    // With all of them lent again to its successor there is none to forge: the stack gives the last one
    // first.
    if let Some(gone) = gone {
        scene.liar.put(gone.with_extent(128, 60));
        assert_named(scene, Offence::NotHeld);
    } else {
        scene.finish();
    }
}

#[test]
fn buffers_that_never_come_back_bound_what_it_is_lent() {
    let mut scene = scene();
    for _ in 0..200 {
        scene.offer(5, 5);
        scene.pass();
        scene.liar.take(100);
        while scene.liar.give_back(0) {}
        scene.liar.borrow(100);
    }
    assert_eq!(scene.liar.empty.len(), LEND as usize);
    assert_eq!(scene.world.events(), []);
    scene.finish();
}

#[test]
fn a_lend_index_that_lies() {
    // Ahead of what was lent, behind what was used, backwards.
    for by in [1, 1000, i32::MAX, -2, -3, i32::MIN] {
        let mut scene = scene();
        for _ in 0..3 {
            assert!(scene.liar.make(Verdict::Drop.encode()));
            scene.pass();
            scene.liar.borrow(1);
        }
        let index = scene.liar.nf.lent.consumed().wrapping_add_signed(by);
        assert!(scene.liar.make(Verdict::Drop.encode()));
        scene.liar.scribble(offset::LEND_CONSUMED, index);
        assert_named(scene, Offence::LendIndex);
    }
}

#[test]
fn a_buffer_used_before_it_was_taken() {
    let mut scene = Scene::lending(LEND);
    scene.offer(20, 5);
    scene.pass();
    let holder = Holder::instance(InstanceId(LIAR));
    let mut lent = scene.world.holders[0].held_by(holder);
    let (index, _) = lent.find(|(_, place)| place.is_lent()).unwrap();
    drop(lent);
    scene.liar.put(Descriptor::new(index, 128, 60, 0).with_verdict(Verdict::Drop));
    assert_named(scene, Offence::LendIndex);
}
