//! Every run within bounds.

use headgate_decide::replicate::mutant::Mutation;
use stateright::{Checker, Model, Property};

use super::step::{Bounds, Step};
use super::world::World;

/// A world within bounds, for the checker.
pub struct Group {
    pub bounds: Bounds,
    pub mutation: Mutation,
    /// Sets up what happened before.
    pub prepare: fn(&mut World),
}

impl Model for Group {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.bounds, self.mutation);
        (self.prepare)(&mut world);
        vec![world]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        // Nothing behind a violation is searched.
        if world.violation().is_none() {
            world.steps(steps);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.step(step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("invariants", |_, world: &World| world.violation().is_none())]
    }
}

/// Searches every run, and says how many states there are.
fn explore(name: &str, bounds: Bounds) {
    let checker =
        Group { bounds, mutation: Mutation::default(), prepare: |_| {} }.checker().spawn_bfs().join();
    if let Some(path) = checker.discovery("invariants") {
        panic!("{name}: {}", told(path.into_vec()));
    }
    println!("{name}: {} states, {} deep", checker.unique_state_count(), checker.max_depth());
}

/// A run in words.
pub fn told(run: Vec<(World, Option<Step>)>) -> String {
    let mut text = String::new();
    for (world, step) in &run {
        let line = match step {
            Some(step) => world.frame(*step).map_or(format!("{step:?}"), |frame| format!("{frame:?}")),
            None => format!("{:?}", world.violation()),
        };
        text += &format!("\n    {line}");
    }
    text
}

/// The searches of the suite: each kind of failure with enough around it to go wrong.
#[test]
fn nothing_fails() {
    explore("2 + 2 packets", Bounds { packets: [2, 2], ..Bounds::default() });
    explore("a checkpoint", Bounds { packets: [1, 1], checkpoints: 1, ..Bounds::default() });
    explore("a time-out", Bounds { packets: [1, 1], time_outs: 1, ..Bounds::default() });
}

#[test]
fn the_active_node_is_suspected_wrongly() {
    explore("suspicion", Bounds { packets: [1, 1], suspicions: [1, 0], ..Bounds::default() });
}

#[test]
fn the_standby_is_suspected_wrongly() {
    explore("suspicion", Bounds { packets: [1, 1], suspicions: [0, 1], ..Bounds::default() });
}

#[test]
fn the_active_node_is_started_again() {
    explore("crash", Bounds { packets: [1, 1], crashes: [1, 0], ..Bounds::default() });
}

#[test]
fn the_standby_is_started_again() {
    explore("crash", Bounds { packets: [1, 0], crashes: [0, 1], ..Bounds::default() });
}

#[test]
fn the_gate_is_started_again() {
    explore("gate", Bounds { packets: [1, 1], gate_crashes: 1, ..Bounds::default() });
}

#[test]
fn the_group_is_handed_over() {
    explore("hand-over", Bounds { packets: [1, 1], hand_overs: 1, ..Bounds::default() });
}

/// The full bounds, one after the other: hours in a debug build.
/// `cargo test --release -p headgate-decide --test model -- --ignored --nocapture`
#[test]
#[ignore = "takes long"]
fn four_packets_two_checkpoints_and_a_failure() {
    let full = Bounds { packets: [2, 2], checkpoints: 2, ..Bounds::default() };
    explore("suspected active node", Bounds { suspicions: [1, 0], ..full });
    explore("suspected standby", Bounds { suspicions: [0, 1], ..full });
    explore("active node started again", Bounds { crashes: [1, 0], ..full });
    explore("standby started again", Bounds { crashes: [0, 1], ..full });
    explore("gate started again", Bounds { gate_crashes: 1, ..full });
    explore("hand-over", Bounds { hand_overs: 1, ..full });
}
