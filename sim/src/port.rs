//! A port: the packets of a flow that came and that its worker has not taken yet.

use headgate_decide::units::{Instant, Span};

use crate::random::Random;
use crate::ring::Run;
use crate::scene::{self, Arrivals, Capture, Scene};
use crate::sender::Fate;
use crate::traffic::Traffic;

/// Packets that a port holds for a worker that is late: the ring of a card, which its flows share.
const RING: u64 = 4096;

/// A port with one flow.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    flow: u16,
    traffic: Traffic,
    /// Time of the last look.
    looked: Instant,
    waiting: u64,
    places: u64,
    /// Packets that came, ever, and those for which there was no room.
    pub(crate) came: u64,
    pub(crate) missed: u64,
}

impl Port {
    /// Returns the port of one of the flows that a scene's flow stands for.
    pub(crate) fn new(number: u16, scene: &Scene, flow: &scene::Flow, part: u16, random: Random) -> Self {
        let replay = replayed(scene, flow, part);
        let traffic = Traffic::new(flow.arrivals.part(part, flow.flows), random, replay);
        let places = (RING / u64::from(flow.flows)).max(1);
        Self { flow: number, traffic, looked: Instant(0), waiting: 0, places, came: 0, missed: 0 }
    }

    /// Returns the number of its flow.
    pub(crate) fn flow(&self) -> usize {
        self.flow.into()
    }

    /// Takes in what came by `now`. Returns how many packets wait.
    pub(crate) fn look(&mut self, now: Instant) -> u64 {
        let came = self.traffic.take(now);
        let fits = came.min(self.places - self.waiting);
        self.came += came;
        self.missed += came - fits;
        if came > fits {
            self.traffic.hear(now, (came - fits) as u32, Fate::Lost);
        }
        self.waiting += fits;
        self.waiting
    }

    /// Takes so many of those that wait. They count as having come half way between the last take and now.
    pub(crate) fn take(&mut self, now: Instant, packets: u64) -> Option<Run> {
        let arrived = Instant(u64::midpoint(self.looked.0, now.0));
        self.looked = now;
        if packets == 0 {
            return None;
        }
        let number = self.came - self.missed - self.waiting;
        self.waiting -= packets;
        Some(Run { flow: self.flow, position: 0, packets: packets as u32, arrived, number, is_marked: false })
    }

    /// Takes in what became of packets at a moment.
    pub(crate) fn hear(&mut self, now: Instant, packets: u32, fate: Fate) {
        self.traffic.hear(now, packets, fate);
    }

    /// Returns when the next packet comes; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.traffic.next()
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
