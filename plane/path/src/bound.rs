//! Bound: how many packets of a chain with a delay bound may be inside. The rule is `decide::bound`; this applies it.
//!
//! The first worker judges, all measure and all let in or shed: relaxed, because a packet let in or shed a
//! moment late is all that can come of it. What is inside is what the boards of all workers say together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use headgate_decide::bound::{BoundMarks, ChainObservation, Limit};
use headgate_decide::spread;
use headgate_shm::Descriptor;
use headgate_units::{Span, Ticks};

use crate::drop::Reason;
use crate::holders::{Place, TICK_SHIFT};
use crate::plan::Hop;
use crate::worker::Worker;

/// A window of any number of packets.
const OPEN: u32 = u32::MAX;

/// What the workers tell each other of one chain; times in units of 2^[`TICK_SHIFT`] TSC cycles.
struct Shared {
    /// Packets that may be inside.
    window: AtomicU32,
    /// Since when it is to be judged.
    since: AtomicU32,
    /// The longest delay of a packet that came in since then.
    longest: AtomicU32,
}

/// The windows of all chains, as all workers see them.
pub struct Bounds(Box<[Shared]>);

impl Bounds {
    /// No windows, of `chains` chains.
    #[must_use]
    pub fn new(chains: usize) -> Arc<Self> {
        let open =
            || Shared { window: AtomicU32::new(OPEN), since: AtomicU32::new(0), longest: AtomicU32::new(0) };
        Arc::new(Self((0..chains).map(|_| open()).collect()))
    }

    /// Packets of a chain that may be inside now; `None`: any number.
    #[must_use]
    pub fn window(&self, chain: u16) -> Option<u32> {
        let window = self.0[chain as usize].window.load(Ordering::Relaxed);
        (window != OPEN).then_some(window)
    }

    /// A packet of a bounded chain left. Two workers that see one at once may forget the shorter of them.
    pub(crate) fn on_left(&self, chain: u16, arrived: u32, ticks: u32) {
        let shared = &self.0[chain as usize];
        let is_judged = shared.window.load(Ordering::Relaxed) == OPEN
            || arrived.wrapping_sub(shared.since.load(Ordering::Relaxed)) < 1 << 31;
        if is_judged && ticks > shared.longest.load(Ordering::Relaxed) {
            shared.longest.store(ticks, Ordering::Relaxed);
        }
    }

    fn publish(&self, chain: u16, limit: &Limit) {
        let shared = &self.0[chain as usize];
        shared.window.store(limit.window().unwrap_or(OPEN), Ordering::Relaxed);
        shared.since.store((limit.since().0 >> TICK_SHIFT) as u32, Ordering::Relaxed);
        shared.longest.store(0, Ordering::Relaxed);
    }
}

/// A chain with a bound, as the worker that judges it remembers it.
#[derive(Clone, Copy)]
pub(crate) struct Bounded {
    chain: u16,
    marks: BoundMarks,
    limit: Limit,
}

impl Worker {
    /// The chains to judge by a new plan. Those that were bounded before keep their windows.
    pub(crate) fn take_bounds(&mut self) {
        if self.number != 0 {
            return;
        }
        let before = std::mem::take(&mut self.bounded);
        for old in &before {
            if !self.plan.is_bounded(old.chain) {
                self.bounds.publish(old.chain, &Limit::default());
            }
        }
        for (number, chain) in self.plan.chains.iter().enumerate() {
            let Some(micros) = chain.as_ref().and_then(|chain| chain.delay_bound_us) else { continue };
            let (chain, marks) =
                (number as u16, BoundMarks::new(Span::from_micros(micros.into()), self.cycles_per_micro));
            let known = before.iter().find(|old| old.chain == chain);
            let limit = known.map_or_else(Limit::default, |known| known.limit);
            self.bounded.push(Bounded { chain, marks, limit });
        }
    }

    /// Judges the windows that are due.
    #[inline]
    pub(crate) fn judge_bounds(&mut self, now: u64) {
        for at in 0..self.bounded.len() {
            let Bounded { chain, marks, limit } = self.bounded[at];
            if !limit.is_due(Ticks(now), &marks) {
                continue;
            }
            let shared = &self.bounds.0[chain as usize];
            let sum = |count: &dyn Fn(&crate::board::Board) -> u64| {
                self.boards.iter().map(|board| count(board)).sum()
            };
            let seen = ChainObservation {
                longest: Ticks(u64::from(shared.longest.load(Ordering::Relaxed)) << TICK_SHIFT),
                left: sum(&|board| board.chains[chain as usize].left.get()),
                shed: sum(&|board| board.dropped(chain, Reason::DelayBound)),
            };
            let next = limit.step(Ticks(now), &seen, &marks);
            if next != limit {
                self.bounded[at].limit = next;
                self.bounds.publish(chain, &next);
            }
        }
    }

    /// Of packets that were counted into one bounded chain, as many as its window has room for stay, at the
    /// front; the others have ended. Returns how many stay. Where flows are spread, the window is cut into even
    /// parts: flows of an instance that holds less than its part go on.
    #[cold]
    pub(crate) fn limit(
        &mut self,
        chain: u16,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) -> usize {
        let Some(window) = self.bounds.window(chain) else { return packets.len() };
        let inside = self.inside(chain).saturating_sub(packets.len() as u64);
        let room = u64::from(window).saturating_sub(inside).min(packets.len() as u64) as usize;
        if room == packets.len() {
            return room;
        }
        let kept = if self.plan.hops(chain).iter().any(|hop| matches!(hop, Hop::Spread { .. })) {
            self.limit_flows(chain, window, region, packets, places)
        } else {
            self.end(chain, region, Reason::DelayBound, &packets[room..]);
            room
        };
        self.count_for_first(chain, (packets.len() - kept) as u64);
        kept
    }

    fn limit_flows(
        &mut self,
        chain: u16,
        window: u32,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) -> usize {
        let mut kept = 0;
        for at in 0..packets.len() {
            if self.has_short_queues(chain, window, region, packets[at]) {
                (packets[kept], places[kept]) = (packets[at], places[at]);
                kept += 1;
            } else {
                self.end(chain, region, Reason::DelayBound, &packets[at..=at]);
            }
        }
        kept
    }

    /// What would have come to the first NF has come for it, when its share is decided.
    fn count_for_first(&self, chain: u16, shed: u64) {
        if let Some(Hop::Instance { number, .. }) = self.plan.hops(chain).first() {
            self.board.instances[*number as usize].drops[Reason::DelayBound as usize].add(shed);
        }
    }

    /// Packets of a chain that have neither left nor ended. Ends before entries, so that it is never too few.
    fn inside(&self, chain: u16) -> u64 {
        let gone =
            |board: &crate::board::Board| board.chains[chain as usize].left.get() + board.dropped_all(chain);
        let gone: u64 = self.boards.iter().map(|board| gone(board)).sum();
        let entered: u64 = self.boards.iter().map(|board| board.chains[chain as usize].entered.get()).sum();
        entered.saturating_sub(gone)
    }

    /// Whether each instance that a flow is spread to holds less than its even part of the window.
    fn has_short_queues(&self, chain: u16, window: u32, region: u8, packet: Descriptor) -> bool {
        let slot = spread::slot(self.stores[region as usize].holders.origin(packet.index()).flow);
        self.plan.hops(chain).iter().all(|&hop| {
            let Hop::Spread { stage, .. } = hop else { return true };
            let number = self.plan.table(stage)[slot].0;
            let worker = self.plan.instances[number as usize].worker;
            let counts = &self.boards[worker as usize].instances[number as usize];
            let part = u64::from(window) / self.plan.running(stage).len().max(1) as u64;
            counts.held.get() + counts.waiting.get() < part.max(1)
        })
    }
}
