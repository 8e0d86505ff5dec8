//! A link between the two nodes that is cut, in one direction or both, while both reach the gate: one goes on
//! alone, and nobody's part changes again before the link is mended.

use headgate_decide::replicate::gate::Report;
use headgate_decide::replicate::mutant::Mutation;
use headgate_decide::replicate::{Lane, NodeId, Peer, View};

use super::frame::Frame;
use super::step::{Bounds, Step};
use super::world::World;

/// Rounds of time-outs while the link is cut, in each of which roles could change. Our choice: several of
/// what it takes a pair to be named, to wait in vain and to be dropped.
const ROUNDS: usize = 12;

/// Whether a frame is on its way from one node to the other, in one of these directions.
fn is_between(frame: &Frame, directions: &[[u8; 2]]) -> bool {
    let (from, to) = match frame {
        Frame::State { to, .. } => (1 - to.0, to.0),
        Frame::Message { from: Peer::Node(from), to: Peer::Node(to), .. } => (from.0, to.0),
        _ => return false,
    };
    directions.contains(&[from, to])
}

fn round(world: &mut World, cut: &[[u8; 2]]) {
    for lane in [Lane(0), Lane(1)] {
        if world.left.packets[usize::from(lane.0)] > 0 {
            world.step(Step::Stamp(lane));
        }
    }
    for at in 0..2 {
        world.step(Step::TimeOut(at));
    }
    world.step(Step::GateTimesOut);
    world.settle_but(|frame| is_between(frame, cut));
    assert_eq!(world.violation(), None);
}

fn cut_off(cut: &[[u8; 2]]) {
    let mut world = World::new(Bounds { packets: [9, 9], ..Bounds::default() }, Mutation::default());
    let begun = world.gate.told().unwrap().view;
    for _ in 0..ROUNDS {
        round(&mut world, cut);
    }
    let told = *world.gate.told().unwrap();
    assert_eq!((told.active.node, told.standby), (NodeId(0), None), "{cut:?}: the active node goes on alone");
    assert_eq!(told.view, begun.next(), "{cut:?}: parts changed once");
    assert!(world.reports.has(|report| matches!(report, Report::Unanswered { node: NodeId(1) })));
    for lane in [Lane(0), Lane(1)] {
        let stamped = world.gate.stamped().of(lane);
        assert!(stamped.0 == 9 && world.ghost.has_left(lane, stamped), "{cut:?}: {lane:?} stands still");
    }
    for _ in 0..ROUNDS {
        round(&mut world, &[]);
    }
    let told = *world.gate.told().unwrap();
    assert!(world.is_done() && told.active.node == NodeId(0), "{cut:?}: it is a pair again");
    assert_eq!(told.view, View(begun.0 + 2), "{cut:?}: parts changed once more");
}

#[test]
fn a_link_that_is_cut_between_both_nodes_changes_parts_once() {
    cut_off(&[[0, 1], [1, 0]]);
}

#[test]
fn a_link_that_is_cut_one_way_changes_parts_once() {
    cut_off(&[[0, 1]]);
    cut_off(&[[1, 0]]);
}
