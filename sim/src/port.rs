//! A port: the packets of a flow that came and that its worker has not taken yet.

use std::collections::VecDeque;

use headgate_decide::units::{Instant, Span};

use crate::random::Random;
use crate::ring::{Ring, Run, cut};
use crate::scene::{self, Arrivals, Capture, Scene};
use crate::sender::Fate;
use crate::traffic::Traffic;

/// Packets that a port holds for a worker that is late: the ring of a card, which its flows share.
const RING: u64 = 4096;

/// A port with one flow.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    flow: u16,
    is_silent: bool,
    traffic: Traffic,
    /// When its traffic brings something next; `None`: never.
    comes: Option<Instant>,
    /// Time since which those came that wait.
    since: Instant,
    waiting: u64,
    places: u64,
    /// Packets that came, ever, and those for which there was no room.
    pub(crate) came: u64,
    pub(crate) missed: u64,
    /// What comes by a cable, in the place of traffic.
    inbox: Option<Inbox>,
}

/// Packets that come by a cable: those under way, and those that wait for the worker.
#[derive(Clone, Debug, Default)]
struct Inbox {
    coming: VecDeque<(Instant, Run)>,
    here: Ring,
}

impl Inbox {
    /// Takes in what came by `now`. Returns how many packets did, and how many found no room.
    fn look(&mut self, now: Instant) -> (u64, u64) {
        let (mut came, mut missed) = (0, 0);
        while let Some((_, run)) = self.coming.pop_front_if(|(at, _)| at.is_due(now)) {
            came += u64::from(run.packets);
            let (fits, late) = cut(run, RING as u32 - self.here.packets());
            fits.into_iter().for_each(|run| self.here.push(run));
            missed += late.map_or(0, |run| u64::from(run.packets));
        }
        (came, missed)
    }
}

impl Port {
    /// Returns the port of one of the flows that a scene's flow stands for.
    pub(crate) fn new(number: u16, scene: &Scene, flow: &scene::Flow, part: u16, random: Random) -> Self {
        let replay = replayed(scene, flow, part);
        let traffic = Traffic::new(flow.arrivals.part(part, flow.flows), random, replay);
        let places = (RING / u64::from(flow.flows)).max(1);
        let (since, inbox, comes) = (Instant(0), None, traffic.next());
        Self {
            flow: number,
            is_silent: flow.silent,
            traffic,
            comes,
            since,
            waiting: 0,
            places,
            came: 0,
            missed: 0,
            inbox,
        }
    }

    /// Changes its rate at these times, in nanoseconds.
    pub(crate) fn change(&mut self, changes: Vec<(u64, u64)>) {
        self.traffic.change(changes);
        self.comes = self.traffic.next();
    }

    /// Returns a port at the end of a cable.
    pub(crate) fn of_cable(random: Random) -> Self {
        let replay = Capture { at_ns: Vec::new(), length: Span(1) };
        Self {
            flow: 0,
            is_silent: false,
            traffic: Traffic::new(Arrivals::Constant { rate: 0 }, random, replay),
            comes: None,
            since: Instant(0),
            waiting: 0,
            places: RING,
            came: 0,
            missed: 0,
            inbox: Some(Inbox::default()),
        }
    }

    /// Packets are on their way by its cable: the last ones that arrive.
    pub(crate) fn send_in(&mut self, at: Instant, run: Run) {
        if let Some(inbox) = &mut self.inbox {
            inbox.coming.push_back((at, run));
        }
    }

    /// Returns the packets that are on their way by its cable, and those that wait for the worker.
    pub(crate) fn under_way(&self) -> [u64; 2] {
        let coming = |inbox: &Inbox| inbox.coming.iter().map(|(_, run)| u64::from(run.packets)).sum();
        let here = self.inbox.as_ref().map_or(self.waiting, |inbox| inbox.here.packets().into());
        [self.inbox.as_ref().map_or(0, coming), here]
    }

    /// Packets that it takes belong to another flow from now on.
    pub(crate) const fn set_flow(&mut self, flow: u16) {
        self.flow = flow;
    }

    /// Returns whether it rings nothing when packets come.
    pub(crate) const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns the number of its flow.
    pub(crate) fn flow(&self) -> usize {
        self.flow.into()
    }

    /// Takes in what came by `now`. Returns how many packets wait.
    pub(crate) fn look(&mut self, now: Instant) -> u64 {
        if let Some(inbox) = &mut self.inbox {
            let (came, missed) = inbox.look(now);
            (self.came, self.missed) = (self.came + came, self.missed + missed);
            return inbox.here.packets().into();
        }
        let Some(first) = self.comes.filter(|at| at.is_due(now)) else { return self.waiting };
        if self.waiting == 0 {
            self.since = first;
        }
        let came = self.traffic.take(now);
        let fits = came.min(self.places - self.waiting);
        self.came += came;
        self.missed += came - fits;
        if came > fits {
            self.traffic.hear(now, (came - fits) as u32, Fate::Lost);
        }
        self.waiting += fits;
        self.comes = self.traffic.next();
        self.waiting
    }

    /// Takes so many of those that wait. They count as having come half way between the first of them, or the
    /// last take that left some, and now.
    pub(crate) fn take(&mut self, now: Instant, packets: u64) -> Option<Run> {
        if packets == 0 {
            return None;
        }
        let arrived = Instant(u64::midpoint(self.since.0, now.0));
        self.since = now;
        if let Some(inbox) = &mut self.inbox {
            return inbox.here.pop(packets as u32);
        }
        let number = self.came - self.missed - self.waiting;
        self.waiting -= packets;
        Some(Run { flow: self.flow, position: 0, packets: packets as u32, arrived, number, is_marked: false })
    }

    /// Takes in what became of packets at a moment.
    pub(crate) fn hear(&mut self, now: Instant, packets: u32, fate: Fate) {
        self.traffic.hear(now, packets, fate);
        self.comes = self.traffic.next();
    }

    /// Returns when the next packet comes; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        if let Some(inbox) = &self.inbox {
            return inbox.coming.front().map(|(at, _)| *at);
        }
        self.comes
    }
}

/// Returns the packets of a flow's capture that one of the flows has which it stands for: they are dealt in
/// turn.
fn replayed(scene: &Scene, flow: &scene::Flow, part: u16) -> Capture {
    let of = match flow.arrivals {
        Arrivals::Replay { capture } => scene.captures.get(usize::from(capture)),
        _ => None,
    };
    let Some(Capture { at_ns, length }) = of else {
        return Capture { at_ns: Vec::new(), length: Span(1) };
    };
    let own = at_ns.iter().skip(part.into()).step_by(flow.flows.into());
    Capture { at_ns: own.copied().collect(), length: *length }
}
