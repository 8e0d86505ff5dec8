//! Station 6, commit: before a packet leaves by a port, the output of its chain may have to wait until a
//! replica knows what it reveals, and could go on from there.
//!
//! Chains say whether they need it ([`crate::plan::Chain::committed`]); the packets of others pass, for one
//! branch a burst. Those that wait are held by the station itself ([`Holder::COMMIT`]), in the order in which
//! they came, chain by chain, until [`Releases::allow`](crate::signals::Releases::allow) says that they may
//! leave. Where too many wait, later ones end: the room is as long as the ring of an NF, and a packet that
//! waits longer comes too late to be of use.

use std::collections::VecDeque;

use headgate_shm::Descriptor;
use headgate_units::{ChainId, PortId, RegionId};

use crate::BURST;
use crate::board::Station;
use crate::burst::{Burst, Run};
use crate::drop::DropReason;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::trace::At;
use crate::view::View;

/// Most packets of a chain that wait. Our choice: as many as an NF's ring by default.
pub const LATCH_PLACES: usize = 4096;

/// Packet that waits.
#[derive(Clone, Copy)]
struct Waiting {
    packet: Descriptor,
    place: Place,
    region: RegionId,
    port: PortId,
}

/// Packets of one chain that wait.
struct Queue {
    chain: ChainId,
    waiting: VecDeque<Waiting>,
    /// Number of packets that left, ever.
    released: u64,
}

/// Packets of all chains that wait, in queues that are made with the plan.
#[derive(Default)]
pub(crate) struct Latch {
    queues: Vec<Queue>,
    /// Number of packets that wait.
    count: usize,
}

impl Latch {
    /// Makes room for the chains of a new plan. Packets of chains that need it no more may leave.
    pub fn take(&mut self, plan: &Plan) {
        for number in 0..plan.chains.len() {
            let chain = ChainId(number as u16);
            let is_new = self.queues.iter().all(|queue| queue.chain != chain);
            if plan.is_committed(chain) && is_new {
                let waiting = VecDeque::with_capacity(LATCH_PLACES);
                self.queues.push(Queue { chain, waiting, released: 0 });
            }
        }
    }

    /// Adds a packet that waits. Returns whether there was room for it.
    fn add(&mut self, waiting: Waiting) -> bool {
        let queue = self.queues.iter_mut().find(|queue| queue.chain == waiting.place.chain());
        let Some(queue) = queue.filter(|queue| queue.waiting.len() < LATCH_PLACES) else { return false };
        queue.waiting.push_back(waiting);
        self.count += 1;
        true
    }
}

impl Latch {
    /// Returns those packets on their way out of a port that may leave now, at the front of the run. The
    /// others wait here, or have ended.
    #[inline(always)]
    pub fn commit<'a>(&mut self, view: &View, ledger: &mut Ledger, port: PortId, run: Run<'a>) -> Run<'a> {
        if !view.plan.has_commits() {
            return run;
        }
        self.keep(view, ledger, port, run)
    }

    #[cold]
    fn keep<'a>(&mut self, view: &View, ledger: &mut Ledger, port: PortId, run: Run<'a>) -> Run<'a> {
        ledger.passed(Station::Commit, At::Nowhere, run.region, run.packets, run.places);
        let mut kept = 0;
        for at in 0..run.len() {
            let (packet, place) = (run.packets[at], run.places[at]);
            if !view.plan.is_committed(place.chain()) {
                (run.packets[kept], run.places[kept]) = (packet, place);
                kept += 1;
            } else if self.add(Waiting { packet, place, region: run.region, port }) {
                let place = place.held_by(Holder::COMMIT);
                ledger.store(run.region).holders.set_place(packet.index(), place);
            } else {
                ledger.end(place.chain(), run.region, DropReason::Uncommitted, &[packet]);
            }
        }
        run.split_at(kept).0
    }

    /// Makes a burst of packets that waited and may leave now. Returns the port that all of them leave by;
    /// `None` when there are none.
    #[inline(always)]
    pub fn release(&mut self, view: &View, burst: &mut Burst) -> Option<PortId> {
        if self.count > 0 { self.release_some(view, burst) } else { None }
    }

    #[cold]
    fn release_some(&mut self, view: &View, burst: &mut Burst) -> Option<PortId> {
        for queue in &mut self.queues {
            let is_free = !view.plan.is_committed(queue.chain);
            let allowed = if is_free { u64::MAX } else { view.signals.releases.allowed(queue.chain) };
            let port = queue.fill(burst, allowed.saturating_sub(queue.released));
            if port.is_some() {
                self.count -= burst.count;
                return port;
            }
        }
        None
    }
}

impl Queue {
    /// Moves packets to a burst, as many as may leave, lie in one region and go by one port. Returns the
    /// port.
    fn fill(&mut self, burst: &mut Burst, may_leave: u64) -> Option<PortId> {
        let &Waiting { region, port, .. } = self.waiting.front()?;
        let same = self.waiting.iter().take_while(|it| it.region == region && it.port == port).count();
        let count = same.min(BURST).min(usize::try_from(may_leave).unwrap_or(usize::MAX));
        for (at, it) in self.waiting.drain(..count).enumerate() {
            (burst.packets[at], burst.places[at]) = (it.packet, it.place);
        }
        burst.begin(region, count);
        self.released += count as u64;
        (count > 0).then_some(port)
    }
}
