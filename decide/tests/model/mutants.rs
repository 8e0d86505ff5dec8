//! Each known error is found.

use std::collections::BTreeSet;

use headgate_decide::replicate::mutant::{Mutant, Mutation};
use headgate_decide::replicate::{Lane, NodeId};
use stateright::{Checker, Model};

use super::explore::{Search, told};
use super::frame::Frame;
use super::step::{Bounds, Step};
use super::world::World;

/// The smallest bounds that we know in which an error shows.
fn bounds(mutant: Mutant) -> Bounds {
    let packets = |here, there| Bounds { packets: [here, there], ..Bounds::default() };
    match mutant {
        Mutant::StagedUntilTheNext => packets(1, 0),
        Mutant::DurableBeforeStored | Mutant::TrimmedWhenSent => Bounds { checkpoints: 1, ..packets(1, 0) },
        Mutant::AnyEpoch => Bounds { checkpoints: 2, ..packets(1, 0) },
        Mutant::SameSeqForMore => Bounds { time_outs: 1, ..packets(2, 0) },
        Mutant::LatchGivenUp => Bounds { time_outs: 1, ..packets(1, 0) },
        Mutant::NotDrained | Mutant::AheadOfCommits => {
            Bounds { checkpoints: 1, suspicions: [1, 0], ..packets(1, 0) }
        }
        Mutant::AcksAfterPromotion | Mutant::InDoubtAgain => Bounds { suspicions: [1, 0], ..packets(1, 0) },
        Mutant::AloneAtTimeout => Bounds { time_outs: 1, suspicions: [1, 0], ..packets(1, 0) },
        Mutant::RecordsLag => Bounds { suspicions: [1, 0], ..packets(2, 0) },
        Mutant::OneClockForAll => Bounds { suspicions: [1, 0], ..packets(1, 1) },
        Mutant::AnyOrder => Bounds { suspicions: [1, 0], ..packets(2, 1) },
        Mutant::ShedBehindTheClock => Bounds { suspicions: [1, 0], overloads: 1, ..packets(2, 0) },
        Mutant::AnyBoot => Bounds { crashes: [0, 1], ..packets(1, 0) },
        Mutant::DurableForEver => Bounds { suspicions: [0, 1], ..packets(1, 0) },
        Mutant::AheadOfReplay => Bounds { suspicions: [1, 0], time_outs: 1, ..packets(1, 1) },
        Mutant::NothingHeld => Bounds { hand_overs: 1, suspicions: [0, 1], ..packets(2, 0) },
        Mutant::BeforeTheLogIsKnown => Bounds { gate_crashes: 1, checkpoints: 1, ..packets(1, 0) },
        Mutant::OnAnyBase => Bounds { checkpoints: 1, crashes: [0, 1], suspicions: [1, 0], ..packets(1, 0) },
        Mutant::CutInReplay => Bounds { suspicions: [1, 1], ..packets(1, 1) },
    }
}

/// A packet was worked on, and then the group was handed over; no copy of the other node's has come.
fn handed_over(world: &mut World) {
    world.step(Step::Stamp(Lane(0)));
    world.settle();
    world.step(Step::HandOver);
    world.settle_but(|frame| matches!(frame, Frame::State { to: NodeId(0), .. }));
}

/// Two packets were released, and the node that did is gone.
fn before_replay(world: &mut World) {
    for lane in [Lane(1), Lane(0)] {
        world.step(Step::Stamp(lane));
        world.settle();
    }
    world.step(Step::Suspect(0));
    world.deliver_messages();
}

/// As before, and it has come back as standby of the one that replays.
fn in_replay(world: &mut World) {
    before_replay(world);
    world.step(Step::Reach(0));
    world.deliver_messages();
}

#[test]
fn every_known_error_is_found() {
    let mut missed = BTreeSet::new();
    for mutant in Mutant::ALL {
        let prepare = match mutant {
            Mutant::CutInReplay => in_replay,
            Mutant::AheadOfReplay => before_replay,
            Mutant::NothingHeld => handed_over,
            _ => |_: &mut World| {},
        };
        let mut world = World::new(bounds(mutant), Mutation::new(mutant));
        prepare(&mut world);
        let checker = Search(world).checker().spawn_bfs().join();
        let states = checker.unique_state_count();
        let Some(path) = checker.discovery("invariants") else {
            println!("{mutant:?} is missed in {states} states");
            missed.insert(format!("{mutant:?}"));
            continue;
        };
        let violation = path.last_state().violation();
        let run = path.into_vec();
        println!("{mutant:?} is found: {violation:?} after {} steps, {states} states", run.len() - 1);
        if std::env::var_os("HEADGATE_RUNS").is_some() {
            println!("{}", told(run));
        }
    }
    assert!(missed.is_empty(), "errors that no run shows: {missed:?}");
}
