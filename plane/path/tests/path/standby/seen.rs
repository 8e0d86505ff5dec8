//! Deaths that the worker sees itself, by the word of the kernel.

use headgate_path::worker::{Command, Event, Promotion};
use headgate_shm::{Descriptor, Offence};

use super::{NF, frames, give_back, given, one, promoted};

/// The worker sees the death itself. The control loop does later: then a process works that lives.
#[test]
fn a_death_that_the_worker_sees_is_taken_over_in_the_same_pass() {
    let mut world = given(one(), 0..30);
    world.stand_by(0);
    let taken = world.nf(0).take(20);
    give_back(&mut world, &taken[..12]);
    let dead = world.die_seen(0);
    world.pass_of(0);
    let promotion = promoted(&world);
    assert!(promotion.took.is_some());
    let expected = Promotion { returned: 12, again: 18, is_alone: false, poisoned: false, took: None };
    assert_eq!(Promotion { took: None, ..promotion }, expected);
    world.check();
    assert_eq!(world.promote(0), (12, 0));
    let again = world.nf(0).take(8);
    world.post(0, Command::TakeOver { number: NF, dead: dead.clone() });
    world.post(0, Command::Reclaim { number: NF, dead: Some(dead) });
    world.pass_of(0);
    assert_eq!(world.events(), [], "who died was not the one that works");
    give_back(&mut world, &again);
    world.settle();
    assert_eq!(world.sent(1), frames(0..30));
    world.finish();
}

/// Without a standby that is ready, and where the control loop wants none, a death is its affair.
#[test]
fn a_death_without_a_successor_is_left_to_the_control_loop() {
    let mut world = given(one(), 0..10);
    let dead = world.die_seen(0);
    world.pass_of(0);
    assert_eq!(world.events(), []);
    dead.have_no_successor();
    world.stand_by(0);
    world.pass_of(0);
    world.pass_of(0);
    assert_eq!(world.events(), []);
    world.post(0, Command::Reclaim { number: NF, dead: Some(dead) });
    world.pass_of(0);
    assert_eq!(world.events(), [Event::Reclaimed { number: NF, lost: 10, returned: 0 }]);
    world.standbys.clear();
    world.finish();
}

/// An offender that says it has died is an offender.
#[test]
fn an_offender_that_dies_is_not_taken_over() {
    let mut world = given(one(), 0..10);
    world.stand_by(0);
    world.nf(0).give_back(&[Descriptor::new(999, 0, 60, 0)]);
    world.die_seen(0);
    world.pass_of(0);
    assert_eq!(world.events(), [Event::Offence { number: NF, offence: Offence::NotHeld }]);
    world.pass_of(0);
    assert_eq!(world.events(), []);
    world.reclaim(0);
    world.standbys.clear();
    world.finish();
}
