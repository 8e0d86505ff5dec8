//! A gate whose disk has an older view than the nodes: somebody put a copy back, or removed the file.

use headgate_decide::replicate::gate::Report;
use headgate_decide::replicate::member::Part;
use headgate_decide::replicate::mutant::Mutation;
use headgate_decide::replicate::{Assignment, Lane, NodeId};

use super::step::{Bounds, Step};
use super::world::World;

/// The first node was failed over from and stands by again; some packets have left. Also returns the views on
/// the disk before all that, and just before the end: the gate that has the latter takes a view that the
/// nodes have too.
fn moved_on() -> (World, [Assignment; 2]) {
    let mut world = World::new(Bounds { packets: [9, 9], ..Bounds::default() }, Mutation::default());
    let first = world.disk.unwrap();
    let packets = |world: &mut World| {
        [Lane(0), Lane(1), Lane(0)].into_iter().for_each(|lane| world.step(Step::Stamp(lane)));
        world.settle();
    };
    packets(&mut world);
    world.step(Step::Suspect(0));
    world.settle();
    let second = world.disk.unwrap();
    world.step(Step::Reach(0));
    world.settle();
    packets(&mut world);
    assert!(world.is_done() && world.gate.told().unwrap().active.node == NodeId(1), "{world:#?}");
    assert_eq!(world.disk.unwrap().view, second.view.next());
    (world, [first, second])
}

fn time_passes(world: &mut World, nodes: &[usize]) {
    for _ in 0..8 {
        nodes.iter().for_each(|node| world.step(Step::TimeOut(*node)));
        world.step(Step::GateTimesOut);
        world.settle();
        assert_eq!(world.violation(), None);
    }
}

#[test]
fn the_nodes_views_decide() {
    for which in [Some(0), Some(1), None] {
        let (mut world, old) = moved_on();
        let before = *world.gate.told().unwrap();
        world.restart_gate(which.map(|which: usize| old[which]));
        time_passes(&mut world, &[0, 1]);
        let told = *world.gate.told().unwrap();
        assert!(told.view > before.view, "{told:?}");
        assert_eq!((told.active, told.begun), (before.active, before.begun), "its state is not lost");
        assert!(world.reports.has(|report| matches!(report, Report::Behind { serves: false, .. })));
        for lane in [Lane(0), Lane(1)] {
            world.step(Step::Stamp(lane));
        }
        time_passes(&mut world, &[0, 1]);
        assert!(world.is_done(), "it goes on: {world:#?}");
    }
}

/// One of them may have been told a newer view than the other.
#[test]
fn nothing_is_taken_in_before_both_were_heard() {
    let (mut world, [first, _]) = moved_on();
    world.nodes[0].crash();
    world.restart_gate(Some(first));
    time_passes(&mut world, &[1]);
    assert!(!world.gate.is_confirmed(), "{world:#?}");
    assert!(matches!(world.nodes[1].member.part(), Part::Active(_)), "what it has stays");
    world.step(Step::Reboot(0));
    time_passes(&mut world, &[0, 1]);
    assert!(world.gate.is_confirmed() && world.gate.told().unwrap().active.node == NodeId(1));
    world.step(Step::Stamp(Lane(1)));
    time_passes(&mut world, &[0, 1]);
    assert!(world.is_done(), "{world:#?}");
}
