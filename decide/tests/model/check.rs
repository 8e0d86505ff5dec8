//! Invariants I1 to I9 of what the world sees and of what nodes say, checked apart from the machines.

use headgate_decide::replicate::member::Part;
use headgate_decide::replicate::{Boot, Clock, Clocks, Lane, View};

use super::frame::Output;
use super::node::{self, LANES};
use super::world::World;

/// An invariant that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// I1: an output left twice.
    Twice,
    /// I2: an output left that the standby has no commit for.
    Uncommitted,
    /// I3: what left is what no single copy would have sent.
    NoSingleCopy,
    /// I4: an output is lost and was not counted as in doubt.
    LostUncounted,
    /// I5: something fell that only rises.
    Fell,
    /// I5: the log is trimmed beyond what is durable, or the gate believes in a standby that has nothing.
    TrimmedTooFar,
    /// I6: two nodes are active in one view.
    TwoActive,
    /// I8: an output overtook another one of its lane at its node.
    OutOfOrder,
    /// State is lost although one thing failed at a time.
    StateLost,
}

/// Marks that only rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    gate: (View, Clocks, bool),
    pub nodes: [(Boot, View, Clocks); 2],
    /// Whether what a node finished left without anybody's word.
    own: [bool; 2],
}

/// Facts about the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    outputs: Vec<Output>,
    in_doubt: Vec<(Lane, Clock)>,
    pub is_lost: bool,
    pub violation: Option<Violation>,
}

impl Ghost {
    fn fail(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub fn out_of_order(&mut self) {
        self.fail(Violation::OutOfOrder);
    }

    pub fn lost(&mut self) {
        self.is_lost = true;
        self.fail(Violation::StateLost);
    }

    /// In doubt is nothing but what the standby had acknowledged.
    pub fn in_doubt(&mut self, (left, stored): (&Clocks, &Clocks), acknowledged: &Clocks) {
        if !acknowledged.covers(stored) {
            self.fail(Violation::LostUncounted);
        }
        for lane in left.lanes() {
            let clocks = left.of(lane).0 + 1..=stored.of(lane).0;
            self.in_doubt.extend(clocks.map(|clock| (lane, Clock(clock))));
        }
        self.in_doubt.sort_unstable_by_key(|(lane, clock)| (*lane, *clock));
        self.in_doubt.dedup();
    }

    pub fn left(&mut self, output: Output) {
        let is_same = |other: &&Output| (other.lane, other.clock) == (output.lane, output.clock);
        if self.outputs.iter().any(|other| is_same(&other)) {
            self.fail(Violation::Twice);
        }
        if !self.is_lost && !self.fits(&output) {
            self.fail(Violation::NoSingleCopy);
        }
        self.outputs.push(output);
        self.outputs.sort_unstable_by_key(|output| (output.lane, output.clock));
    }

    /// Whether some single copy sends this after what left, or before: histories that begin alike, and in
    /// which each lane counts.
    fn fits(&self, output: &Output) -> bool {
        let begins_alike = |other: &Output| {
            is_beginning(output.a, other.a, output.lane, other.lane)
                && is_beginning(output.b, other.b, Lane(0), Lane(0))
        };
        let last = output.b & 31 & 15;
        last == u128::from(output.clock.0)
            && counts(output.b)
            && counts(output.a)
            && self.outputs.iter().all(begins_alike)
    }

    pub fn marks(world: &World) -> Marks {
        let gate = &world.gate;
        let view = gate.told().map_or(View(0), |told| told.view);
        let mark = |at: usize| {
            let node = &world.nodes[at];
            let clocks = match node.member.part() {
                Part::Active(active) => active.released(),
                Part::Standby(standby) => standby.finished(),
                Part::Neither => Clocks::new(LANES),
            };
            (node.boot, node.member.view(), clocks)
        };
        let own = |at: usize| match world.nodes[at].member.part() {
            Part::Active(active) => active.is_on_its_own(),
            _ => false,
        };
        Marks {
            gate: (view, gate.trimmed(), gate.durable().is_some()),
            nodes: [mark(0), mark(1)],
            own: [own(0), own(1)],
        }
    }

    /// Everything that can be seen of one state, and of what the step before it changed.
    pub fn check(world: &mut World, before: &Marks) {
        let after = Self::marks(world);
        let found = [
            Self::falls(before, &after),
            Self::trimmed(world),
            Self::two_active(world),
            Self::uncommitted(world, before),
            Self::lost_uncounted(world),
        ];
        if let Some(violation) = found.into_iter().flatten().next() {
            world.ghost.fail(violation);
        }
    }

    fn falls(before: &Marks, after: &Marks) -> Option<Violation> {
        let gate_fell = after.gate.0 != View(0) && after.gate.0 < before.gate.0
            || after.gate.0 == before.gate.0 && !after.gate.1.covers(&before.gate.1);
        let fell = |at: usize| {
            let ((old_boot, old_view, old), (boot, view, clocks)) = (before.nodes[at], after.nodes[at]);
            boot == old_boot
                && view != View(0)
                && (view < old_view || view == old_view && !clocks.covers(&old))
        };
        (gate_fell || fell(0) || fell(1)).then_some(Violation::Fell)
    }

    /// The active node has what the log does not, and so has a standby that the gate would promote.
    fn trimmed(world: &World) -> Option<Violation> {
        let told = world.gate.told()?;
        let active = &world.nodes[usize::from(told.active.node.0)];
        if let Part::Active(machine) = active.member.part()
            && active.member.view() == told.view
            && world.gate.is_confirmed()
            && !machine.arrived().covers(&world.gate.trimmed())
        {
            return Some(Violation::TrimmedTooFar);
        }
        let (standby, durable) = (told.standby?, world.gate.durable()?);
        let node = &world.nodes[usize::from(standby.node.0)];
        if !node.is_up || node.boot != standby.boot || node.member.view() != told.view {
            return None;
        }
        let Part::Standby(standby) = node.member.part() else { return None };
        let has = standby.durable().is_some_and(|(_, cut)| cut.clocks.covers(&durable.clocks));
        let reaches = durable.clocks.covers(&world.gate.trimmed());
        (!has || !reaches).then_some(Violation::TrimmedTooFar)
    }

    fn two_active(world: &World) -> Option<Violation> {
        let [left, right] = &world.nodes;
        let is_active = |at: &node::Node| at.is_up && matches!(at.member.part(), Part::Active(_));
        let is_same = left.member.view() == right.member.view();
        (is_same && is_active(left) && is_active(right)).then_some(Violation::TwoActive)
    }

    /// Checks that a guarded node's standby has stored what it releases, unless that one is gone.
    fn uncommitted(world: &World, before: &Marks) -> Option<Violation> {
        for (at, node) in world.nodes.iter().enumerate() {
            let other = &world.nodes[1 - at];
            let Part::Active(active) = node.member.part() else { continue };
            let has_released = active.released() != before.nodes[at].2;
            let is_pair = other.is_up && other.member.view() == node.member.view();
            if !has_released
                || before.own[at]
                || active.is_on_its_own()
                || !is_pair
                || node.boot != before.nodes[at].0
            {
                continue;
            }
            if let Part::Standby(standby) = other.member.part()
                && !standby.finished().covers(&active.released())
            {
                return Some(Violation::Uncommitted);
            }
        }
        None
    }

    /// Checks that what the active node has behind it has left, or ended, or is counted.
    fn lost_uncounted(world: &World) -> Option<Violation> {
        let told = world.gate.told()?;
        let node = &world.nodes[usize::from(told.active.node.0)];
        let Part::Active(active) = node.member.part() else { return None };
        if node.member.view() != told.view || world.ghost.is_lost {
            return None;
        }
        let released = active.released();
        let is_missing = |lane: Lane, clock: Clock| {
            let is = |output: &Output| (output.lane, output.clock) == (lane, clock);
            !world.ghost.outputs.iter().any(is)
                && !world.ghost.in_doubt.contains(&(lane, clock))
                && !node::ends(lane, clock)
        };
        let is_lost = released
            .lanes()
            .any(|lane| (1..=released.of(lane).0).any(|clock| is_missing(lane, Clock(clock))));
        is_lost.then_some(Violation::LostUncounted)
    }

    pub fn has_left(&self, lane: Lane, clock: Clock) -> bool {
        self.outputs.iter().any(|output| (output.lane, output.clock) == (lane, clock))
            || self.in_doubt.contains(&(lane, clock))
            || node::ends(lane, clock)
    }
}

fn packets(history: u128) -> u32 {
    (128 - history.leading_zeros()).div_ceil(6)
}

/// Whether one history begins with the other. Outputs of lane 1 have none of `a`.
fn is_beginning(one: u128, other: u128, lane: Lane, of: Lane) -> bool {
    if lane != of {
        return true;
    }
    let (short, long) = if packets(one) < packets(other) { (one, other) } else { (other, one) };
    long >> (6 * (packets(long) - packets(short))) == short
}

/// Whether each lane's clocks come one after the other.
fn counts(history: u128) -> bool {
    let mut next = [1, 1];
    (0..packets(history)).rev().all(|place| {
        let step = history >> (6 * place) & 63;
        let expected = &mut next[(step >> 5) as usize];
        *expected += 1;
        step & 15 == *expected - 1
    })
}
