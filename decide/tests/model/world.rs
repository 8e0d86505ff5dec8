//! The world of the model: a gate, two nodes, links that lose, double and reorder, and whatever may fail.
//!
//! *The links keep every frame.* One that is never delivered is lost, one that is delivered twice is doubled,
//! and any order is possible; so nothing more is needed for bad links than not to take a frame away.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use headgate_decide::decision::Decision;
use headgate_decide::replicate::boundary::Event;
use headgate_decide::replicate::gate::{self, Gate, Stamp};
use headgate_decide::replicate::member::Part;
use headgate_decide::replicate::mutant::Mutation;
use headgate_decide::replicate::{Assignment, Boot, Clock, Envelope, Lane, NodeId, Peer};
use headgate_decide::units::{Instant, Span};

use super::check::{Ghost, Marks, Violation};
use super::frame::{Frame, heeds_old_frames, is_news};
use super::node::{Effect, LANES, Node};
use super::reports::Reports;
use super::step::{Bounds, Step};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    pub gate: Gate,
    pub disk: Option<Assignment>,
    pub nodes: [Node; 2],
    pub links: Vec<(u64, Arc<Frame>)>,
    pub left: Bounds,
    pub is_suspected: [bool; 2],
    pub ghost: Ghost,
    /// What the gate said to its operator, for tests that read it; no part of a state.
    pub reports: Reports,
    mutation: Mutation,
    /// Whether frames that the right machines never heed again are forgotten.
    is_exact: bool,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.gate, &self.disk, &self.nodes).hash(state);
        self.links.iter().for_each(|(key, _)| key.hash(state));
        (&self.left, &self.is_suspected, &self.ghost).hash(state);
    }
}

fn new_gate(mutation: Mutation, written: Option<Assignment>) -> Gate {
    Gate::new(gate::Setup {
        boot: Boot(1),
        lanes: LANES,
        nodes: [NodeId(0), NodeId(1)],
        log: 100,
        resend_after: Span(u64::MAX),
        written,
        mutation,
    })
}

impl World {
    /// Returns one in which both nodes have joined and the first checkpoint, an empty one, is durable.
    pub fn new(bounds: Bounds, mutation: Mutation) -> Self {
        let node = |id| Node::new(NodeId(id), Boot(1), mutation);
        let mut world = Self {
            gate: new_gate(mutation, None),
            disk: None,
            nodes: [node(0), node(1)],
            links: Vec::new(),
            left: bounds,
            is_suspected: [false; 2],
            ghost: Ghost::default(),
            reports: Reports::default(),
            mutation,
            is_exact: !heeds_old_frames(mutation),
        };
        for node in 0..2 {
            world.step(Step::TimeOut(node));
        }
        world.settle();
        assert!(world.gate.durable().is_some(), "the first checkpoint is durable: {world:#?}");
        world.links.clear();
        world.left = bounds;
        world
    }

    /// Has the gate started again with this view on its disk, whatever was there: what no protocol can heal
    /// silently, so the gate's view may be lower than it was. What was on its way to it went with its
    /// sockets.
    pub fn restart_gate(&mut self, disk: Option<Assignment>) {
        self.links.retain(|(_, frame)| !matches!(**frame, Frame::Message { to: Peer::Gate, .. }));
        self.disk = disk;
        self.gate = new_gate(self.mutation, disk);
    }

    /// Delivers everything, works on everything and lets no time pass, until nothing changes.
    pub fn settle(&mut self) {
        self.settle_but(|_| false);
    }

    /// The same without frames that a link does not carry.
    pub fn settle_but(&mut self, is_cut: impl Fn(&Frame) -> bool) {
        loop {
            let before = self.clone();
            let passes = self.links.iter().filter(|(_, frame)| !is_cut(frame));
            let keys: Vec<u64> = passes.map(|(key, _)| *key).collect();
            keys.into_iter().for_each(|key| self.step(Step::Deliver(key)));
            for node in 0..2 {
                if self.nodes[node].is_storing() {
                    self.step(Step::Stored(node));
                }
                while self.nodes[node].has_for_a().is_some() {
                    self.step(Step::WorkA(node, false));
                }
                for lane in [Lane(0), Lane(1), Lane(0)] {
                    while self.nodes[node].has_for_b(lane) {
                        self.step(Step::WorkB(node, lane));
                    }
                }
            }
            if *self == before {
                return;
            }
        }
    }

    /// Delivers everything but packets, until nothing changes.
    #[cfg(feature = "mutants")]
    pub fn deliver_messages(&mut self) {
        loop {
            let before = self.clone();
            let is_message = |frame: &Frame| !matches!(frame, Frame::Data { .. });
            let keys = self.links.iter().filter(|(_, frame)| is_message(frame)).map(|(key, _)| *key);
            keys.collect::<Vec<_>>().into_iter().for_each(|key| self.step(Step::Deliver(key)));
            for node in 0..2 {
                if self.nodes[node].is_storing() {
                    self.step(Step::Stored(node));
                }
            }
            if *self == before {
                return;
            }
        }
    }

    /// Returns everything that may happen now.
    pub fn steps(&self, steps: &mut Vec<Step>) {
        let bounds = &self.left;
        for lane in [Lane(0), Lane(1)] {
            if bounds.packets[usize::from(lane.0)] > 0 {
                steps.push(Step::Stamp(lane));
            }
        }
        for (key, frame) in &self.links {
            steps.push(Step::Deliver(*key));
            if bounds.overloads > 0 && matches!(**frame, Frame::Data { .. }) {
                steps.push(Step::Overload(*key));
            }
        }
        for at in 0..2 {
            self.steps_of(at, steps);
        }
        if bounds.time_outs > 0 {
            steps.push(Step::GateTimesOut);
        }
        if bounds.gate_crashes > 0 && self.is_whole() {
            steps.push(Step::CrashGate);
        }
        if bounds.hand_overs > 0 {
            steps.push(Step::HandOver);
        }
    }

    /// Whether nothing failed, or everything is as before: one thing fails at a time. That the nodes do not
    /// hear each other, and the gate is about to be told so, is a failure too.
    pub fn is_whole(&self) -> bool {
        let gate = &self.gate;
        let Some(told) = gate.told().filter(|told| told.standby.is_some()) else { return false };
        let is_well = |node: &Node| node.is_up && node.member.view() == told.view;
        gate.is_confirmed()
            && gate.durable().is_some()
            && self.nodes.iter().all(is_well)
            && self.is_suspected == [false; 2]
            && !self.links.iter().any(|(_, frame)| frame.is_complaint())
    }

    fn steps_of(&self, at: usize, steps: &mut Vec<Step>) {
        let (node, bounds) = (&self.nodes[at], &self.left);
        let is_active = matches!(node.member.part(), Part::Active(_));
        if let Some(clock) = node.has_for_a() {
            steps.push(Step::WorkA(at, false));
            if node.draws(clock) {
                steps.push(Step::WorkA(at, true));
            }
        }
        for lane in [Lane(0), Lane(1)] {
            if node.has_for_b(lane) {
                steps.push(Step::WorkB(at, lane));
            }
        }
        if node.is_storing() {
            steps.push(Step::Stored(at));
        }
        if node.is_up && bounds.time_outs > 0 {
            steps.push(Step::TimeOut(at));
        }
        if node.is_up && is_active && bounds.checkpoints > 0 {
            steps.push(Step::Checkpoint(at));
        }
        if bounds.crashes[at] > 0 && self.is_whole() {
            steps.push(Step::Crash(at));
        }
        if !node.is_up {
            steps.push(Step::Reboot(at));
        }
        let may_suspect = !node.is_up || bounds.suspicions[at] > 0 && self.is_whole();
        match (self.is_suspected[at], node.is_up) {
            (false, _) if may_suspect => steps.push(Step::Suspect(at)),
            (true, true) => steps.push(Step::Reach(at)),
            _ => {}
        }
    }

    pub fn step(&mut self, step: Step) {
        let before = Ghost::marks(self);
        let mut effects = Vec::new();
        match step {
            Step::Stamp(lane) => {
                if let Stamp::Logged(_) = self.gate.stamp(Instant(0), lane) {
                    self.left.packets[usize::from(lane.0)] =
                        self.left.packets[usize::from(lane.0)].saturating_sub(1);
                }
            }
            Step::Deliver(key) => self.deliver(key, true, &mut effects),
            Step::Overload(key) => {
                self.left.overloads = self.left.overloads.saturating_sub(1);
                self.deliver(key, false, &mut effects);
            }
            Step::WorkA(at, bit) => self.nodes[at].work_a(bit, &mut effects),
            Step::WorkB(at, lane) => self.nodes[at].work_b(lane, &mut effects),
            Step::Stored(at) => self.nodes[at].stored(&mut effects),
            Step::TimeOut(at) => {
                self.left.time_outs = self.left.time_outs.saturating_sub(1);
                self.nodes[at].time_out(&mut effects);
            }
            Step::GateTimesOut => {
                self.left.time_outs = self.left.time_outs.saturating_sub(1);
                let mut actions = Vec::new();
                self.gate.poll(Instant(u64::MAX), &(), &mut actions);
                self.carry_out(actions);
            }
            Step::Checkpoint(at) => {
                self.left.checkpoints = self.left.checkpoints.saturating_sub(1);
                self.nodes[at].event(Event::CheckpointWanted, &[], &mut effects);
            }
            Step::Crash(at) => {
                self.left.crashes[at] = self.left.crashes[at].saturating_sub(1);
                self.nodes[at].crash();
            }
            Step::Reboot(at) => self.nodes[at].reboot(&mut effects),
            Step::Suspect(at) => {
                self.left.suspicions[at] -= u8::from(self.nodes[at].is_up && self.left.suspicions[at] > 0);
                self.is_suspected[at] = true;
                self.tell_gate(gate::Event::Reachable { node: NodeId(at as u8), up: false });
            }
            Step::Reach(at) => {
                self.is_suspected[at] = false;
                self.tell_gate(gate::Event::Reachable { node: NodeId(at as u8), up: true });
            }
            Step::CrashGate => {
                self.left.gate_crashes = self.left.gate_crashes.saturating_sub(1);
                self.gate = new_gate(self.mutation, self.disk);
                // Links that are down are down for the new one too.
                for at in 0..2 {
                    if self.is_suspected[at] {
                        self.tell_gate(gate::Event::Reachable { node: NodeId(at as u8), up: false });
                    }
                }
            }
            Step::HandOver => {
                self.left.hand_overs = self.left.hand_overs.saturating_sub(1);
                self.tell_gate(gate::Event::HandOver { wanted: true });
            }
        }
        self.effect(effects, &before);
        self.poll_gate();
        self.send_all();
        let (gate, nodes, is_exact) = (&self.gate, &self.nodes, self.is_exact);
        self.links.retain(|(_, frame)| is_news(frame, gate, nodes, is_exact));
        Ghost::check(self, &before);
    }

    fn deliver(&mut self, key: u64, has_room: bool, effects: &mut Vec<Effect>) {
        let Some((_, frame)) = self.links.iter().find(|(of, _)| *of == key) else { return };
        let frame = Arc::clone(frame);
        let to = match &*frame {
            Frame::Data { to, .. } | Frame::State { to, .. } => *to,
            Frame::Message { to: Peer::Node(to), .. } => *to,
            Frame::Message { from, view, message, .. } => {
                let envelope = Envelope { from: *from, view: *view, message: *message };
                return self.tell_gate(gate::Event::Received(envelope));
            }
        };
        let node = &mut self.nodes[usize::from(to.0)];
        if !node.is_up {
            return;
        }
        match &*frame {
            Frame::Data { view, lane, clock, .. } => node.data(*view, *lane, *clock, has_room, effects),
            Frame::State { view, copy, .. } => node.state(*view, *copy, effects),
            Frame::Message { from, view, message, entries, .. } => {
                let envelope = Envelope { from: *from, view: *view, message: *message };
                node.event(Event::Received(envelope), entries, effects);
            }
        }
    }

    fn effect(&mut self, effects: Vec<Effect>, before: &Marks) {
        for effect in effects {
            match effect {
                Effect::Send(frame) => self.send(frame),
                Effect::Left(output) => self.ghost.left(output),
                Effect::InDoubt(at, left, stored) => {
                    self.ghost.in_doubt((&left, &stored), &before.nodes[usize::from(at.0)].2);
                }
                Effect::Lost => self.ghost.lost(),
                Effect::OutOfOrder => self.ghost.out_of_order(),
            }
        }
    }

    fn send(&mut self, frame: Frame) {
        let mut hasher = DefaultHasher::new();
        frame.hash(&mut hasher);
        let key = hasher.finish();
        if let Err(place) = self.links.binary_search_by_key(&key, |(key, _)| *key) {
            self.links.insert(place, (key, Arc::new(frame)));
        }
    }

    fn tell_gate(&mut self, event: gate::Event) {
        let mut actions = Vec::new();
        self.gate.on(Instant(0), event, &mut actions);
        self.carry_out(actions);
    }

    fn poll_gate(&mut self) {
        let mut actions = Vec::new();
        self.gate.poll(Instant(0), &(), &mut actions);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<gate::Action>) {
        for action in actions {
            match action {
                gate::Action::Write(assignment) => {
                    self.disk = Some(assignment);
                    self.tell_gate(gate::Event::Written { view: assignment.view });
                }
                gate::Action::Send { to, view, message } => {
                    let (to, from) = (Peer::Node(to), Peer::Gate);
                    self.send(Frame::Message { to, from, view, message, entries: Vec::new() });
                }
                gate::Action::Report(gate::Report::StateLost { .. }) => self.ghost.lost(),
                gate::Action::Report(report) => self.reports.push(report),
                gate::Action::Trim { .. } => {}
            }
        }
    }

    /// The gate sends whatever it may: a frame that is never delivered is one that was not sent.
    fn send_all(&mut self) {
        let Some(told) = self.gate.told().copied() else { return };
        for lane in [Lane(0), Lane(1)] {
            while let Some(clock) = self.gate.send_next(lane) {
                self.send(Frame::Data { to: told.active.node, view: told.view, lane, clock });
            }
        }
    }

    /// Returns what a step would deliver.
    pub fn frame(&self, step: Step) -> Option<&Frame> {
        let (Step::Deliver(key) | Step::Overload(key)) = step else { return None };
        self.links.iter().find(|(of, _)| *of == key).map(|(_, frame)| &**frame)
    }

    /// Whether every packet that was taken in has left, or ended, or is counted, and somebody stands by.
    pub fn is_done(&self) -> bool {
        // What a gate had that died is gone with it.
        let clocks = |lane| (1..=self.gate.stamped().of(lane).0).map(Clock);
        let is_through = |lane| clocks(lane).all(|clock| self.ghost.has_left(lane, clock));
        [Lane(0), Lane(1)].into_iter().all(is_through) && self.is_whole()
    }

    /// Returns the invariant that does not hold, if there is one.
    pub fn violation(&self) -> Option<Violation> {
        self.ghost.violation
    }
}
