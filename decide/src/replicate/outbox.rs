//! Outputs of a group on their way from the node that works to the gate, by which they leave: each arrives
//! once, in the order of its lane, whatever the link does and whichever node sends it.
//!
//! The problem: a link loses frames, and a gate that takes whatever is new cannot tell a lost output from a
//! packet that an NF dropped. And once a checkpoint holds what an output rests on, nobody can make it again.
//!
//! The intuition: *each output names the one before it in its lane*, so the gate sees a gap without counting
//! with the NFs. It takes an output only behind the one before; the node keeps each until the gate says that
//! it has it ([`Taken`]), and goes back to the first that is missing.
//!
//! - A checkpoint is sent only when the gate has all outputs before its cut (`replicate::active`): a node
//!   that goes on from it makes all others again. The outputs of a group are a function of its inputs and
//!   journal, so the gate need not know which node an output is from.
//! - *A gate that was started again* does not know what left. It says which life it is in; outputs that were
//!   under way to the life before may have left, and are given up as in doubt: the world gets them at most
//!   once. So nothing is sent in a view before the gate was heard in it.
//!
//! What it refuses to do: take an output before the one before it, to hold it until that one comes. Links
//! that reorder often pay by frames that are sent twice.
//!
//! Source: go-back-N (RFC 3366, 3.1), with a name of the predecessor in place of a sequence number.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::backoff::Backoff;
use super::types::{Boot, Clock, LANES_MAX, Lane};
use crate::units::{Instant, Span};

/// Outputs of a lane that may be under way. Our choice: less than the smallest ring of a kernel's interface
/// holds, so that they are not lost there, and enough for a round trip of 1 ms at a million packets a second.
const WINDOW: usize = 1024;
/// Outputs after which the gate says what it has, and the part of the time after which outputs are sent again
/// after which it does so for fewer. Our choice: a small part of the window, and of that time.
const TELL_AFTER: u32 = 64;
const TELL_PARTS: u64 = 20;

/// Place of an output in its lane: the clock of the packet that it came from, and its number among the
/// outputs of that, from 1 on. The default is before every output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// The clock.
    pub clock: Clock,
    /// The number.
    pub number: u32,
}

/// Gate to active node: the outputs that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    /// The gate's life.
    pub boot: Boot,
    /// The last output of each lane that came in it.
    pub places: [Place; LANES_MAX],
    /// Lanes, by their bits, of which one is missing behind that: all from it on are to be sent again.
    pub again: u16,
}

/// Reason why an output is not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gone {
    /// The gate has it.
    Taken,
    /// It was under way to a gate that was started again: it may have left.
    InDoubt,
}

/// Outputs of one lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept<T> {
    outputs: VecDeque<(Place, T)>,
    /// The last one that was pushed.
    last: Place,
    allowed: Clock,
    /// The last one that the gate has; the default where that is not known.
    taken: Place,
    /// Outputs at the front that are under way, and that ever were.
    under_way: usize,
    sent: usize,
}

/// Outputs of the node that works, in the latch and under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox<T> {
    lanes: Vec<Kept<T>>,
    /// The gate's life, once it was heard, and whether it was in this view.
    gate: Option<Boot>,
    is_heard: bool,
    patience: Backoff,
    resend_at: Option<Instant>,
}

impl<T> Outbox<T> {
    /// Returns an empty one for so many lanes, with room for so many outputs of each.
    #[must_use]
    pub fn new(lanes: usize, outputs: usize, resend_after: Span) -> Self {
        let lane = || Kept {
            outputs: VecDeque::with_capacity(outputs),
            last: Place::default(),
            allowed: Clock(0),
            taken: Place::default(),
            under_way: 0,
            sent: 0,
        };
        Self {
            lanes: (0..lanes).map(|_| lane()).collect(),
            gate: None,
            is_heard: false,
            patience: Backoff::new(resend_after),
            resend_at: None,
        }
    }

    /// Begins anew, empty: outputs of a lane up to this clock may leave at once.
    pub fn begin(&mut self, lane: Lane, allowed: Clock) {
        let Some(kept) = self.lanes.get_mut(usize::from(lane.0)) else { return };
        debug_assert!(kept.outputs.is_empty(), "outputs are ended before");
        (kept.last, kept.taken, kept.allowed) = (Place::default(), Place::default(), allowed);
    }

    /// Takes in that the node is in another view: the gate has to be heard in it.
    pub fn begin_view(&mut self) {
        self.is_heard = false;
        self.go_back(u16::MAX);
    }

    /// Returns the number of outputs of a lane that are kept.
    #[must_use]
    pub fn len(&self, lane: Lane) -> usize {
        self.lanes.get(usize::from(lane.0)).map_or(0, |kept| kept.outputs.len())
    }

    /// Returns the clock up to which outputs of a lane may leave.
    #[must_use]
    pub fn allowed(&self, lane: Lane) -> Clock {
        self.lanes.get(usize::from(lane.0)).map_or(Clock(0), |kept| kept.allowed)
    }

    /// Lets outputs up to a clock leave. What was allowed stays so.
    pub fn allow(&mut self, lane: Lane, clock: Clock) {
        if let Some(kept) = self.lanes.get_mut(usize::from(lane.0)) {
            kept.allowed = kept.allowed.max(clock);
        }
    }

    /// Keeps the next output of a lane, which came from the packet of this clock.
    ///
    /// # Errors
    /// The output, which the gate has already, or which is of no lane.
    pub fn push(&mut self, lane: Lane, clock: Clock, output: T) -> Result<(), T> {
        let Some(kept) = self.lanes.get_mut(usize::from(lane.0)) else { return Err(output) };
        let number = if kept.last.clock == clock { kept.last.number + 1 } else { 1 };
        kept.last = Place { clock, number };
        if kept.last <= kept.taken {
            return Err(output);
        }
        kept.outputs.push_back((kept.last, output));
        Ok(())
    }

    /// Returns the next output of a lane that is to be sent: the place of the one before it, its own, and it.
    #[must_use]
    pub fn next(&self, lane: Lane) -> Option<(Place, Place, &T)> {
        let kept = self.lanes.get(usize::from(lane.0)).filter(|_| self.is_heard)?;
        let (place, output) = kept.outputs.get(kept.under_way)?;
        if place.clock > kept.allowed || kept.under_way >= WINDOW {
            return None;
        }
        let before = kept.under_way.checked_sub(1).and_then(|at| kept.outputs.get(at));
        Some((before.map_or(kept.taken, |(place, _)| *place), *place, output))
    }

    /// Takes in that the output which [`Outbox::next`] gave is under way.
    pub fn sent(&mut self, now: Instant, lane: Lane) {
        let Some(kept) = self.lanes.get_mut(usize::from(lane.0)) else { return };
        kept.under_way += 1;
        kept.sent = kept.sent.max(kept.under_way);
        self.resend_at.get_or_insert(now + self.patience.span());
    }

    /// Takes in what the gate has, of this view. Outputs that are not kept any more are given to `gone`.
    pub fn on_taken(&mut self, now: Instant, taken: &Taken, mut gone: impl FnMut(Lane, T, Gone)) {
        if self.gate.is_some_and(|known| known != taken.boot) {
            for (lane, kept) in (0..).map(Lane).zip(&mut self.lanes) {
                let doubt = kept.sent;
                kept.outputs.drain(..doubt).for_each(|(_, output)| gone(lane, output, Gone::InDoubt));
                (kept.sent, kept.under_way, kept.taken) = (0, 0, Place::default());
            }
        }
        let mut is_progress = false;
        for ((lane, kept), place) in (0..).map(Lane).zip(&mut self.lanes).zip(&taken.places) {
            if *place <= kept.taken {
                continue;
            }
            kept.taken = *place;
            let count = kept.outputs.iter().take_while(|(of, _)| of <= place).count();
            kept.outputs.drain(..count).for_each(|(_, output)| gone(lane, output, Gone::Taken));
            kept.under_way = kept.under_way.saturating_sub(count);
            kept.sent = kept.sent.saturating_sub(count);
            is_progress |= count > 0;
        }
        self.go_back(if self.is_heard { taken.again } else { u16::MAX });
        (self.gate, self.is_heard) = (Some(taken.boot), true);
        if is_progress {
            self.patience.reset();
            self.resend_at = self.has_under_way().then(|| now + self.patience.span());
        }
    }

    /// Sends again what was not answered for too long.
    pub fn poll(&mut self, now: Instant) {
        if self.resend_at.is_some_and(|at| at.is_due(now)) {
            self.resend_at = None;
            self.patience.lengthen();
            self.go_back(u16::MAX);
        }
    }

    /// Returns the clock up to which the gate has every output of a lane that is finished up to a clock.
    #[must_use]
    pub fn taken(&self, lane: Lane, finished: Clock) -> Clock {
        let kept = self.lanes.get(usize::from(lane.0));
        let first = kept.and_then(|kept| kept.outputs.front());
        first.map_or(finished, |(place, _)| finished.min(Clock(place.clock.0.saturating_sub(1))))
    }

    /// Forgets the outputs of a lane, and gives them back.
    pub fn drain(&mut self, lane: Lane) -> impl Iterator<Item = T> {
        let kept = self.lanes.get_mut(usize::from(lane.0));
        let outputs = kept.map(|kept| {
            (kept.under_way, kept.sent) = (0, 0);
            kept.outputs.drain(..)
        });
        outputs.into_iter().flatten().map(|(_, output)| output)
    }

    fn has_under_way(&self) -> bool {
        self.lanes.iter().any(|kept| kept.under_way > 0)
    }

    fn go_back(&mut self, lanes: u16) {
        for (lane, kept) in self.lanes.iter_mut().enumerate() {
            if lanes >> lane & 1 == 1 {
                kept.under_way = 0;
            }
        }
    }
}

/// What the gate does with an output that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coming {
    /// It is the next of its lane: it leaves.
    Next,
    /// It came before.
    Doubled,
    /// One before it is missing; it will come again behind that.
    Gap,
}

/// The outputs that came to the gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbox {
    boot: Boot,
    /// The last output of each lane that came in this life, and whether one behind it was asked for.
    lanes: Vec<(Place, bool)>,
    again: u16,
    /// Outputs that the node has not heard of, and when it is told at the latest.
    untold: u32,
    tell_at: Option<Instant>,
    /// Whether the node has heard the gate in this view; until then it is told again and again.
    is_heard: bool,
    resend_after: Span,
}

impl Inbox {
    /// Returns one to which nothing has come in this life of the gate. Nodes send again after `resend_after`.
    #[must_use]
    pub fn new(lanes: usize, boot: Boot, resend_after: Span) -> Self {
        Self {
            boot,
            lanes: (0..lanes).map(|_| (Place::default(), false)).collect(),
            again: 0,
            untold: 0,
            tell_at: None,
            is_heard: true,
            resend_after,
        }
    }

    /// Takes in that the gate is in another view: its active node sends nothing before it hears of this.
    pub const fn begin_view(&mut self) {
        (self.is_heard, self.untold) = (false, TELL_AFTER);
    }

    /// Returns the last output of a lane that came.
    #[must_use]
    pub fn last(&self, lane: Lane) -> Place {
        self.lanes.get(usize::from(lane.0)).map_or_else(Place::default, |(last, _)| *last)
    }

    /// Takes in an output of this view, behind another one.
    pub fn take(&mut self, now: Instant, lane: Lane, after: Place, place: Place) -> Coming {
        let Some((last, is_asked)) = self.lanes.get_mut(usize::from(lane.0)) else { return Coming::Doubled };
        let coming = if place <= *last {
            Coming::Doubled
        } else if after > *last {
            Coming::Gap
        } else {
            Coming::Next
        };
        self.is_heard = true;
        match coming {
            Coming::Next => (*last, *is_asked) = (place, false),
            // The node has not heard that it came.
            Coming::Doubled => {}
            Coming::Gap if *is_asked => return coming,
            Coming::Gap => {
                *is_asked = true;
                self.again |= 1 << lane.0;
                self.untold = TELL_AFTER;
            }
        }
        self.untold += 1;
        self.tell_at.get_or_insert(now + Span(self.resend_after.0 / TELL_PARTS));
        coming
    }

    /// Takes in that the active node was heard, which may have to hear the gate.
    pub const fn on_hello(&mut self) {
        if !self.is_heard {
            self.untold = TELL_AFTER;
        }
    }

    /// Returns what the node is to be told now.
    pub fn poll(&mut self, now: Instant) -> Option<Taken> {
        let is_time = self.tell_at.is_some_and(|at| at.is_due(now));
        if self.untold < TELL_AFTER && !is_time {
            return None;
        }
        self.untold = 0;
        self.tell_at = (!self.is_heard).then(|| now + self.resend_after);
        let places = core::array::from_fn(|lane| self.last(Lane(lane as u8)));
        Some(Taken { boot: self.boot, places, again: core::mem::take(&mut self.again) })
    }
}
