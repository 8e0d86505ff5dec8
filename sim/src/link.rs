//! A link: an NF as its worker sees it (`plane/path/src/link/rings.rs`): what it holds, what waits for room
//! in its ring, whether it keeps up, and its sleep.

use headgate_decide::congestion::Average;
use headgate_decide::pressure::{Load, QueueMarks, step};
use headgate_decide::units::{CoreId, Instant, RegionId, Ticks};
use headgate_decide::wake::{self, CallMarks, Cores, Hold, Sleep};

use crate::canary::{Cage, Canary};
use crate::ring::{Ring, Run, cut};
use crate::scene;

/// Cycles of the worker's clock in a microsecond: the model's clock counts nanoseconds.
pub(crate) const TICKS_PER_MICRO: u64 = 1_000;

/// Counts of a link, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkCounts {
    pub(crate) delivered: u64,
    /// Packets that ended because there was no room.
    pub(crate) full: u64,
    /// Packets that were shed at a head for its sake.
    pub(crate) throttled: u64,
    /// Packets that it had worked on and that ended at the next NF.
    pub(crate) wasted: u64,
    /// Packets that were kept out for a delay bound while it is the first NF of their chain.
    pub(crate) late: u64,
    pub(crate) calls: u64,
    pub(crate) throttles: u64,
    /// Times it was blocked.
    pub(crate) blocks: u64,
}

/// Where an NF runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) core: usize,
    pub(crate) task: usize,
    pub(crate) worker: usize,
    pub(crate) domain: u8,
}

/// An NF as its worker sees it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) seat: Seat,
    capacity: u32,
    /// Packets in its rings and hands.
    pub(crate) held: u32,
    /// Packets that others have worked on, waiting for room in its ring.
    pub(crate) pending: Ring,
    pending_max: u32,
    /// Treatment of its queue; `None`: it is never throttled.
    pub(crate) marks: Option<QueueMarks>,
    pub(crate) load: Load,
    /// Its smoothed queue, and the packets of it from which on packets to it are marked.
    queue: Average,
    mark_at: u32,
    pub(crate) is_blocked: bool,
    yields: bool,
    pub(crate) sleep: Sleep,
    /// The sleep of a process that begins.
    fresh: Sleep,
    /// Whether it has no process, and since when.
    pub(crate) is_out: bool,
    pub(crate) out_since: Option<Instant>,
    pub(crate) counts: LinkCounts,
}

/// What became of a run that was delivered: packets that went into the ring, and packets that ended.
pub(crate) struct Delivered {
    pub(crate) now: Option<Run>,
    pub(crate) ended: Option<Run>,
}

impl Link {
    pub(crate) fn new(seat: Seat, described: &scene::Nf, scheduler: &scene::Scheduler, sleeps: bool) -> Self {
        let marks = CallMarks::new(described.ring, TICKS_PER_MICRO);
        let core = wake::Seat::new(CoreId(seat.core as u16), RegionId(seat.domain));
        let sleep = Sleep::new(core, sleeps, marks);
        Self {
            seat,
            capacity: described.ring,
            held: 0,
            pending: Ring::default(),
            pending_max: if scheduler.presses_back { scheduler.pending } else { 0 },
            marks: queue_marks(described.ring, scheduler, sleeps),
            load: Load::Clear,
            queue: Average::default(),
            mark_at: described.ring * scheduler.ecn_mark / 100,
            is_blocked: false,
            yields: scheduler.presses_back,
            fresh: sleep.clone(),
            sleep,
            is_out: false,
            out_since: None,
            counts: LinkCounts::default(),
        }
    }

    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns its packets, those that wait for room among them.
    pub(crate) const fn depth(&self) -> u32 {
        self.held + self.pending.packets()
    }

    pub(crate) const fn hold(&self) -> Hold {
        Hold { packets: self.held, given_on: (self.counts.delivered as u32).wrapping_sub(self.held) }
    }

    /// Takes in packets that go to it, of which those that no NF has worked on end where there is no room.
    pub(crate) fn deliver(&mut self, run: Run) -> Delivered {
        let run = Run { is_marked: run.is_marked || self.queue.is_congested(self.mark_at), ..run };
        let room = if self.pending.is_empty() { self.capacity - self.held } else { 0 };
        let (fits, late) = cut(run, room);
        if let Some(run) = fits {
            self.note_delivered(&run);
        }
        let Some(late) = late else { return Delivered { now: fits, ended: None } };
        let may_wait = if late.position > 0 { self.pending_max - self.pending.packets() } else { 0 };
        let (stays, ended) = cut(late, may_wait);
        if let Some(run) = stays {
            self.pending.push(run);
        }
        self.counts.full += ended.map_or(0, |run| u64::from(run.packets));
        Delivered { now: fits, ended }
    }

    /// Takes a run that waited and for which there is room now.
    pub(crate) fn deliver_pending(&mut self) -> Option<Run> {
        let run = self.pending.pop(self.capacity - self.held)?;
        self.note_delivered(&run);
        Some(run)
    }

    fn note_delivered(&mut self, run: &Run) {
        self.held += run.packets;
        self.counts.delivered += u64::from(run.packets);
    }

    /// Its process has ended at a moment, or begins. Returns whether it had been throttled.
    pub(crate) fn set_out(&mut self, out_since: Option<Instant>) -> bool {
        (self.is_out, self.out_since) = (out_since.is_some(), out_since);
        (self.sleep, self.is_blocked) = (self.fresh.clone(), false);
        core::mem::take(&mut self.load).is_throttled()
    }

    /// Judges its queue. Returns whether it is throttled, when that has changed.
    pub(crate) fn weigh(&mut self, now: Ticks, cage: Cage) -> Option<bool> {
        self.queue = self.queue.sample(self.depth());
        let marks = self.marks.as_ref()?;
        let before = self.load.is_throttled();
        let depth = match cage.has(Canary::WatermarkCrossed) {
            true => self.capacity.saturating_sub(self.depth()),
            false => self.depth(),
        };
        if !(before && cage.has(Canary::ThrottledWithoutCause)) {
            self.load = step(self.load, depth, now, marks);
        }
        let is_throttled = self.load.is_throttled();
        self.counts.throttles += u64::from(is_throttled && !before);
        (is_throttled != before).then_some(is_throttled)
    }

    /// Returns whether it must yield, when that has changed.
    pub(crate) fn must_yield(&mut self, now: Ticks, cores: &Cores) -> Option<bool> {
        if !self.yields {
            return None;
        }
        let hold = self.hold();
        self.sleep.must_yield(now, hold, cores)
    }
}

/// Returns the marks of an NF's queue, as the manager's control loop makes them.
fn queue_marks(ring: u32, scheduler: &scene::Scheduler, sleeps: bool) -> Option<QueueMarks> {
    let (high, low) = (scheduler.high_watermark, scheduler.low_watermark);
    scheduler
        .presses_back
        .then(|| QueueMarks::of(ring, [high, low], scheduler.queue_time, sleeps, TICKS_PER_MICRO))
}
