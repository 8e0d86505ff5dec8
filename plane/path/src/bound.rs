//! Bound: how many packets of a chain with a delay bound may be inside. The rule is `decide::bound`; this
//! applies it.
//!
//! The first worker judges, all measure and all let in or shed. What is inside is what the boards of all
//! workers say together.

use headgate_decide::bound::{self, BoundMarks, ChainObservation, Limit};
use headgate_units::{ChainId, Span, Ticks};

use crate::board::Board;
use crate::drop::DropReason;
use crate::holders::Entrance;
use crate::plan::{Hop, Plan};
use crate::signals::{Bounds, Signals};
use crate::view::View;

/// Chain with a bound, as the worker that judges it remembers it.
#[derive(Clone, Copy)]
struct Bounded {
    chain: ChainId,
    marks: BoundMarks,
    limit: Limit,
}

/// Windows that one worker judges: those of all chains, by the first one.
#[derive(Default)]
pub(crate) struct Windows(Vec<Bounded>);

impl Windows {
    /// Takes the chains of a new plan. Those that were bounded before keep their windows.
    pub fn take(&mut self, plan: &Plan, bounds: &Bounds, ticks_per_micro: u64) {
        let before = std::mem::take(&mut self.0);
        for old in before.iter().filter(|old| !plan.is_bounded(old.chain)) {
            bounds.publish(old.chain, &Limit::default());
        }
        for (number, chain) in plan.chains.iter().enumerate() {
            let Some(micros) = chain.as_ref().and_then(|chain| chain.delay_bound_us) else { continue };
            let chain = ChainId(number as u16);
            let marks = BoundMarks::new(Span::from_micros(micros.into()), ticks_per_micro);
            let known = before.iter().find(|old| old.chain == chain);
            let limit = known.map_or_else(Limit::default, |known| known.limit);
            self.0.push(Bounded { chain, marks, limit });
        }
    }

    /// Judges the windows that are due.
    #[inline]
    pub fn judge(&mut self, now: Ticks, signals: &Signals) {
        for bounded in &mut self.0 {
            if bounded.limit.is_due(now, &bounded.marks) {
                bounded.judge(now, signals);
            }
        }
    }
}

impl Bounded {
    #[cold]
    fn judge(&mut self, now: Ticks, signals: &Signals) {
        let chain = self.chain;
        let sum = |count: &dyn Fn(&Board) -> u64| signals.boards.iter().map(|board| count(board)).sum();
        let observed = ChainObservation {
            longest: signals.bounds.longest(chain),
            left: sum(&|board| board.chains[chain.index()].left.get()),
            shed: sum(&|board| board.dropped(chain, DropReason::DelayBound)),
        };
        let next = self.limit.step(now, &observed, &self.marks);
        if next != self.limit {
            self.limit = next;
            signals.bounds.publish(chain, &next);
        }
    }
}

/// Part of a run that a window lets in.
pub(crate) enum Room {
    /// The first packets of the run, this many.
    Packets(usize),
    /// The packets whose flows go to instances that hold less than their even part of this window.
    Flows(u32),
}

/// Returns the part that a chain's window lets in of `count` packets that were counted into it just now.
pub(crate) fn room(view: &View, chain: ChainId, count: usize) -> Room {
    let Some(window) = view.signals.bounds.window(chain) else { return Room::Packets(count) };
    let inside = inside(view.signals, chain).saturating_sub(count as u64);
    let room = bound::room(window, inside, count);
    let spreads = || view.plan.hops(chain).any(|hop| matches!(hop, Hop::Spread { .. }));
    if room < count && spreads() { Room::Flows(window) } else { Room::Packets(room) }
}

/// Returns how many packets of a chain have neither left nor ended. Ends are read before entries, so that it
/// is never too few.
fn inside(signals: &Signals, chain: ChainId) -> u64 {
    let gone = |board: &Board| board.chains[chain.index()].left.get() + board.dropped_all(chain);
    let gone: u64 = signals.boards.iter().map(|board| gone(board)).sum();
    let came = |board: &Board| {
        let counts = &board.chains[chain.index()];
        counts.entered.get() + counts.made.get()
    };
    let came: u64 = signals.boards.iter().map(|board| came(board)).sum();
    came.saturating_sub(gone)
}

/// Returns whether each instance that a packet's flow is spread to holds less than its even part of the
/// window.
pub(crate) fn has_short_queues(view: &View, entrance: Entrance, window: u32, flow: u32) -> bool {
    let View { plan, signals, .. } = view;
    plan.hops(entrance.chain()).skip(entrance.position().into()).all(|hop| {
        let Hop::Spread { stage, .. } = hop else { return true };
        let number = plan.instance_of(stage, flow);
        let worker = plan.instances[number.index()].worker;
        let counts = &signals.boards[worker.index()].instances[number.index()];
        let held = counts.held.get() + counts.pending.get();
        bound::is_below_its_part(held, window, plan.running(stage).len())
    })
}
