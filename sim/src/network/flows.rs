//! Flows that are under way: each has a slot, which another one has after it. So what is kept grows with the
//! flows that live and not with those that ever did.

use std::collections::BTreeSet;

use headgate_decide::units::Instant;

use super::fluid::{FlowId, PathId};
use super::ground::Trip;

/// A path that there is not: of a flow that waits for one, and of a slot without a flow.
const NO_PATH: PathId = PathId::MAX;
/// Number of a slot without a flow.
const FREE: u64 = u64::MAX;

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) trip: Trip,
    pub(super) hash: u32,
    /// Number of flows that began before it.
    pub(super) number: u64,
    pub(super) begun: Instant,
    /// Its path, and its ticket there.
    path: PathId,
    ticket: u64,
    /// Bits that it had left when it had no path.
    pub(super) left: f64,
    /// When it moved last; the beginning: never.
    moved: Instant,
}

impl Flow {
    /// Returns its path and its ticket there; `None` while it waits for one.
    pub(super) fn place(&self) -> Option<(PathId, u64)> {
        (self.path != NO_PATH).then_some((self.path, self.ticket))
    }

    pub(super) const fn put(&mut self, path: PathId, ticket: u64) {
        (self.path, self.ticket) = (path, ticket);
    }

    /// Takes it off its path. Returns what [`Flow::place`] did.
    pub(super) fn take(&mut self) -> Option<(PathId, u64)> {
        let place = self.place();
        self.path = NO_PATH;
        place
    }

    pub(super) fn moved(&self) -> Option<Instant> {
        (self.moved != Instant(0)).then_some(self.moved)
    }

    pub(super) const fn note_moved(&mut self, now: Instant) {
        self.moved = now;
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    slots: Vec<Flow>,
    free: Vec<FlowId>,
    begun: u64,
    /// Those without a path, in the order in which they began.
    waiting: BTreeSet<(u64, FlowId)>,
}

impl Flows {
    /// A flow of so many bits begins, without a path.
    pub(super) fn begin(&mut self, now: Instant, trip: Trip, hash: u32, bits: f64) -> FlowId {
        let (number, path, ticket, moved) = (self.begun, NO_PATH, 0, Instant(0));
        let flow = Flow { trip, hash, number, begun: now, path, ticket, left: bits, moved };
        self.begun += 1;
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = flow;
            return id;
        }
        self.slots.push(flow);
        (self.slots.len() - 1) as FlowId
    }

    /// A flow is over. Returns its number, and when it began.
    pub(super) fn end(&mut self, id: FlowId) -> (u64, Instant) {
        let flow = &mut self.slots[id as usize];
        let over = (flow.number, flow.begun);
        (flow.number, flow.path) = (FREE, NO_PATH);
        self.waiting.remove(&(over.0, id));
        self.free.push(id);
        over
    }

    /// A flow waits for a path.
    pub(super) fn wait(&mut self, id: FlowId) {
        self.waiting.insert((self.slots[id as usize].number, id));
    }

    /// A flow no longer waits.
    pub(super) fn wait_no_more(&mut self, id: FlowId) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&(self.slots[id as usize].number, id));
        }
    }

    /// Returns those that waited, in the order in which they began: none waits now.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = FlowId> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, id)| id)
    }

    /// Number of flows that wait for a path.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of flows.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns all of them, in the order in which they began.
    pub(super) fn in_order(&self) -> Vec<FlowId> {
        let live = |(_, flow): &(FlowId, &Flow)| flow.number != FREE;
        let mut all: Vec<(u64, FlowId)> =
            (0..).zip(&self.slots).filter(live).map(|(id, flow)| (flow.number, id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn of(&self, id: FlowId) -> &Flow {
        &self.slots[id as usize]
    }

    pub(super) fn of_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.slots[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use headgate_decide::steer::NodeId;

    use super::*;

    #[test]
    fn slots_are_used_again_and_the_order_is_that_of_beginnings() {
        // A flow is a cache line; 200 bytes of each are promised, with its place among the ends of its path.
        assert_eq!(size_of::<Flow>(), 64);
        let trip = Trip { chain: 0, ingress: NodeId(1), egress: NodeId(2) };
        let mut flows = Flows::default();
        let begun: Vec<FlowId> = (0..3).map(|at| flows.begin(Instant(at), trip, 0, 1.0)).collect();
        assert_eq!(begun, [0, 1, 2]);
        flows.wait(2);
        flows.wait(0);
        assert_eq!(flows.end(0), (0, Instant(0)));
        assert_eq!(flows.begin(Instant(9), trip, 0, 1.0), 0);
        assert_eq!((flows.in_order(), flows.live(), flows.waiting()), (vec![1, 2, 0], 3, 1));
        flows.of_mut(1).put(7, 8);
        assert_eq!((flows.of(1).place(), flows.of(2).place()), (Some((7, 8)), None));
        assert_eq!((flows.of_mut(1).take(), flows.of(1).place()), (Some((7, 8)), None));
        assert_eq!(flows.take_waiting().collect::<Vec<_>>(), [2]);
    }
}
