//! Every run within bounds.

use std::fmt::Debug;
use std::hash::Hash;

use headgate_decide::replicate::mutant::Mutation;
use stateright::{Checker, Model, Property};

use super::step::{Bounds, Step};
use super::world::World;

/// A world whose every run can be searched.
pub trait Walk: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {
    type Step: Clone + Copy + Debug + PartialEq + Send + Sync + 'static;

    /// Adds every step that may be next.
    fn steps(&self, steps: &mut Vec<Self::Step>);

    fn step(&mut self, step: Self::Step);

    fn is_wrong(&self) -> bool;

    /// Whether all comes to an end once nothing fails any more.
    fn heals(&self) -> bool {
        true
    }
}

/// Every run from here on, for the checker.
pub struct Search<W>(pub W);

impl<W: Walk> Model for Search<W> {
    type State = W;
    type Action = W::Step;

    fn init_states(&self) -> Vec<W> {
        vec![self.0.clone()]
    }

    fn actions(&self, world: &W, steps: &mut Vec<W::Step>) {
        // Nothing behind a violation is searched.
        if !world.is_wrong() {
            world.steps(steps);
        }
    }

    fn next_state(&self, world: &W, step: W::Step) -> Option<W> {
        let mut next = world.clone();
        next.step(step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // One, so that a search ends with the first run that is wrong.
        vec![Property::always("invariants", |_, world: &W| !world.is_wrong() && world.heals())]
    }
}

impl Walk for World {
    type Step = Step;

    fn steps(&self, steps: &mut Vec<Step>) {
        self.steps(steps);
    }

    fn step(&mut self, step: Step) {
        self.step(step);
    }

    fn is_wrong(&self) -> bool {
        self.violation().is_some()
    }
}

/// Searches every run, and says how many states there are.
fn explore(name: &str, bounds: Bounds) {
    let checker = Search(World::new(bounds, Mutation::default())).checker().spawn_bfs().join();
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

/// Either may be out of reach before, while and after the group is handed over: three minutes in a debug
/// build.
#[test]
#[ignore = "takes long"]
fn a_node_fails_while_the_group_is_handed_over() {
    for suspicions in [[0, 1], [1, 0]] {
        explore("hand-over", Bounds { packets: [1, 0], hand_overs: 1, suspicions, ..Bounds::default() });
    }
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
