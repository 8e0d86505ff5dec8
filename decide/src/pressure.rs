//! Backpressure: decides which NF is overloaded, which chains are shed for it, and which NFs are blocked
//! meanwhile.
//!
//! The problem: an NF that cannot keep up fills its ring, and what does not fit is dropped there, after
//! other NFs have worked on it. On a shared core that is worse than lost work: the work was taken from
//! the very NF that could not keep up.
//!
//! The intuition: *shed at the head*. While an NF is overloaded, packets of exactly those chains that pass
//! through it end where they enter, before any work is spent on them ([`shed`]); and an NF upstream whose
//! every packet would only pile up further down is blocked ([`is_blocked`]).
//!
//! Whether an NF is overloaded is told by its queue, with hysteresis ([`step`]): above the high watermark it
//! is *watched*, and only when it stays there for [`QueueMarks::patience`], or there is no more room, is it
//! *throttled*, until the queue is below the low watermark. The patience is what keeps an NF that merely
//! waits for its core from being taken for one that cannot keep up. A state lasts at least
//! [`QueueMarks::tick`], so whatever the queue does, a chain is not opened and closed more often than that.
//!
//! No list of throttled chains is kept, only which instances are throttled; a chain is closed exactly as
//! long as one on its way is. So a chain cannot be left closed by a mistake in bookkeeping: there is none.
//!
//! What it refuses to do: guess how long an overload will last, or drop anything itself.
//!
//! Sources: NFVnice section 3.3 and the dissertation's appendix B (watch list, throttle, clear; marks of
//! 80 and 60 percent). Where packets that were worked on wait for room (`pending`), the marks make no
//! difference that was seen; where they are dropped (`pending = 0`), the closer the low one is to the high
//! one the more are (`headgate bench nfvnice watermarks`).

use crate::units::{Span, Ticks};

/// The numbers of the rule for the queue of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueMarks {
    /// A queue of so many packets is suspect.
    pub high: u32,
    /// A queue of so many is fine again.
    pub low: u32,
    /// More do not fit.
    pub full: u32,
    /// The time for which a queue must be suspect.
    pub patience: Ticks,
    /// Least time between two changes.
    pub tick: Ticks,
}

/// Least time between opening and closing. Our choice: some passes of the worker, and a tenth of the time a
/// batch of a light NF takes.
pub(crate) const TICK: Span = Span::from_micros(10);
/// Time for which the queue of an NF that never sleeps must be suspect. Our choice: it shares its core by the
/// kernel's tick of 4 ms with as many others, and its ring is full whenever it waits for the core.
const SLEEPLESS: Span = Span::from_millis(50);

impl QueueMarks {
    /// Returns the marks of an instance whose ring has `ring` places, with the high and the low watermark in
    /// percent of it and the time for which packets of one that sleeps must have waited.
    #[must_use]
    pub const fn of(
        ring: u32,
        [high, low]: [u32; 2],
        queue_time: Span,
        sleeps: bool,
        ticks_per_micro: u64,
    ) -> Self {
        let tick = Ticks::from_span(TICK, ticks_per_micro);
        if sleeps {
            Self::new(ring, high, low, Ticks::from_span(queue_time, ticks_per_micro), tick)
        } else {
            Self::sleepless(ring, high, low, ticks_per_micro, tick)
        }
    }

    /// Returns the marks of an instance whose ring has `ring` places, with watermarks in percent of it.
    #[must_use]
    pub const fn new(ring: u32, high_percent: u32, low_percent: u32, patience: Ticks, tick: Ticks) -> Self {
        Self {
            high: (ring as u64 * high_percent as u64 / 100) as u32,
            low: (ring as u64 * low_percent as u64 / 100) as u32,
            full: ring,
            patience: if patience.0 < tick.0 { tick } else { patience },
            tick,
        }
    }

    /// Returns the marks of an instance that never sleeps: only a queue that outlasts its neighbours' slices
    /// counts, full or not.
    const fn sleepless(ring: u32, high: u32, low: u32, ticks_per_micro: u64, tick: Ticks) -> Self {
        let marks = Self::new(ring, high, low, Ticks::from_span(SLEEPLESS, ticks_per_micro), tick);
        Self { full: u32::MAX, ..marks }
    }
}

/// Load of an instance: whether it keeps up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// It does.
    #[default]
    Clear,
    /// Its queue has been long since then.
    Watched(Ticks),
    /// It does not, since then.
    Throttled(Ticks),
}

impl Load {
    /// Returns whether chains through the instance are closed.
    #[inline(always)]
    #[must_use]
    pub const fn is_throttled(self) -> bool {
        matches!(self, Self::Throttled(_))
    }
}

/// Returns the load of an instance with `depth` packets queued.
#[inline(always)]
#[must_use]
pub const fn step(load: Load, depth: u32, now: Ticks, marks: &QueueMarks) -> Load {
    match load {
        Load::Throttled(since) if depth < marks.low && now.since(since).0 >= marks.tick.0 => Load::Clear,
        Load::Throttled(since) => Load::Throttled(since),
        _ if depth < marks.high => Load::Clear,
        Load::Clear => Load::Watched(now),
        Load::Watched(since) => {
            let watched = now.since(since).0;
            if watched >= marks.patience.0 || (depth >= marks.full && watched >= marks.tick.0) {
                Load::Throttled(now)
            } else {
                Load::Watched(since)
            }
        }
    }
}

/// One hop of a chain as far as overload goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopPressure {
    /// Nothing can pass in time: all instances that packets may go to are throttled.
    pub throttled: bool,
    /// One of its instances has sent packets elsewhere, so that what comes to it need not go on along the
    /// chain.
    pub diverts: bool,
    /// Flows are spread over its instances, of which some may be throttled and others not.
    pub spreads: bool,
}

/// Returns whether nothing can pass these hops in time, whatever NFs say: one is throttled, and none before
/// it ever sent packets elsewhere.
#[inline]
#[must_use]
pub fn is_closed(mut hops: impl Iterator<Item = HopPressure>) -> bool {
    hops.find(|hop| hop.throttled || hop.diverts).is_some_and(|hop| hop.throttled)
}

/// An NF that feeds others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feeder {
    /// Its own queue is judged: backpressure is on for it.
    pub is_judged: bool,
    /// It sleeps when it has nothing to do. One that never does would not hear the bell that ends the block.
    pub sleeps: bool,
    /// It has sent packets elsewhere, so that its work need not pile up where its chains are closed.
    pub diverts: bool,
    /// It was called and has not taken what it was called for yet ([`Sleep::is_on_its_way`]). Where a wake-up
    /// takes longer than a queue needs from its low mark to its high one, it would never take anything else.
    ///
    /// [`Sleep::is_on_its_way`]: crate::wake::Sleep::is_on_its_way
    pub is_on_its_way: bool,
}

/// Returns whether an NF is blocked because its work would only pile up: on every way on from it, if there is
/// any, nothing can pass. `ways` says so of each. One that was called has a burst first: a packet of it waits
/// for room then, which is bounded (`pending`), and each block lets it have no more than that.
#[inline]
#[must_use]
pub fn is_blocked(feeder: Feeder, mut ways: impl Iterator<Item = bool>) -> bool {
    let may_be = feeder.is_judged && feeder.sleeps && !feeder.diverts && !feeder.is_on_its_way;
    may_be && ways.next().is_some_and(|first| first && ways.all(|closed| closed))
}

/// Packets that end at the head of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// Nothing.
    Nothing,
    /// The packets of those flows that come to a throttled instance ([`flow_is_shed`]).
    Flows,
    /// Every packet, for the hop with this number.
    Chain(usize),
}

/// Returns what to shed of a chain whose packets still have these hops before them. Asked from the exit: the
/// last hop that cannot keep up is the one that limits the chain. Where NFs have sent packets elsewhere
/// (`diverts`), a flow may come to any hop or not, but to the first one each does.
#[inline]
#[must_use]
pub fn shed(hops: impl DoubleEndedIterator<Item = HopPressure> + ExactSizeIterator, diverts: bool) -> Shed {
    let mut by_flow = false;
    for (number, hop) in hops.enumerate().rev() {
        if hop.throttled && (number == 0 || !diverts) {
            return Shed::Chain(number);
        }
        by_flow |= hop.throttled || hop.spreads;
    }
    if by_flow { Shed::Flows } else { Shed::Nothing }
}

/// Returns whether packets that were shed count as packets that came for the NF of a hop, when its share is
/// decided: on the way they would have gone, for each NF that cannot keep up. If only the first NF of a chain
/// counted them, of two overloaded NFs that one would have all of a core by which more chains begin; and one
/// further back, which sees nothing but what it is let have, would need the less the less it got.
#[inline]
#[must_use]
pub const fn came_for(shed: Shed, number: usize, hop: HopPressure) -> bool {
    matches!(shed, Shed::Chain(last) if number <= last) && hop.throttled
}

/// Returns whether a flow comes to a throttled instance. `hops` gives the position of each hop and whether
/// the flow's instance there is throttled; `passed_over` has a bit for each position that the flow leaves
/// out.
#[inline]
#[must_use]
pub fn flow_is_shed(mut hops: impl Iterator<Item = (u8, bool)>, passed_over: u64) -> bool {
    hops.any(|(position, throttled)| {
        throttled && passed_over.checked_shr(position.into()).unwrap_or(0) & 1 == 0
    })
}

#[cfg(test)]
mod tests;
