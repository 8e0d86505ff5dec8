//! Chooses the sleeping NF that is worth a wake-up call now, and who yields to it.
//!
//! The problem: a call costs the caller a system call, and much more when the sleeper's core is idle,
//! because the interrupt leaves the virtual machine (14 us for the caller, 33-42 us until the sleeper
//! runs); a sleeper on a core that is awake costs 1-4 us. Calling for every burst wastes both cores;
//! waiting for a batch costs latency when there is little traffic.
//!
//! The intuition: *keep the core awake, and share it by batches*. An NF does not sleep the moment its ring is
//! empty: it polls it for [`POLL`], so that at a steady rate an NF with a core of its own is not called at
//! all, and a neighbour that is called meanwhile needs no interrupt. Where an NF has packets, the others of
//! its core *yield* (`Cores::must_yield`): they sleep after a batch, or at once when they have none, so
//! polling takes nothing from a neighbour with work.
//!
//! A call may have to wait, depending on what the core does meanwhile (`CoreState`). If it is idle, for
//! nothing. If another NF has a burst of packets or more there, waking a second one only makes the two switch
//! more often: it waits until its batch pays for the switch, a quarter of the ring, or until its oldest
//! packet is [`CallMarks::age_working`] old. If the others only sample their rings, or have less than that
//! ([`TRICKLE`]), the same batch is worth waiting for, but not as long, and not at all when packets only
//! trickle in.
//!
//! An NF can be awake, hold packets and not use its core: it sleeps in the kernel, for a file or a lock.
//! Others that slept for its sake were called again and again, and it gave nothing on: it is *absent* then
//! (`Presence`), and nobody waits or yields for it until it does.
//!
//! A hostile NF can claim to sleep all the time. A call is repeated only after the NF has taken packets
//! since the last one, or after [`CallMarks::again`]; and no NF is called more often than [`CallMarks::gap`].
//!
//! What it refuses to do: predict arrivals, or treat an NF's own claims as anything but a hint.
//!
//! Sources: NFVnice section 3.2 (wake-up role: backlog, priority, downstream); a quarter of the ring
//! against 32 packets, and polling against sleeping: measured, `headgate bench hop`.

mod sleep;

use crate::units::{CoreId, RegionId, Span, Ticks};

pub use sleep::{BellSample, Hold, Sleep};

/// The numbers of the rule for one NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMarks {
    /// A backlog that is always worth a call: a quarter of the ring.
    pub backlog: u32,
    /// The age of the oldest packet that is worth a call while another NF of the core has packets.
    pub age_working: Ticks,
    /// The same while the others of the core only sample their empty rings.
    pub age_sampling: Ticks,
    /// The same while they sample and less than a burst has come: at that rate waiting gathers nothing.
    pub age_trickle: Ticks,
    /// The least time between two calls to one NF.
    pub gap: Ticks,
    /// The time after which a call that had no effect is repeated.
    pub again: Ticks,
}

/// Oldest age on a core that works. Our choice: some ten switches of a core between NFs (2 us each plus a
/// burst), and well below the 4 ms tick by which the kernel would step in.
pub const AGE_WORKING: Span = Span::from_micros(100);
/// Oldest age on a core that only samples. Our choice: what a call to an idle core would have taken until the
/// NF ran (33-42 us median), so that keeping cores awake delays nobody.
pub const AGE_SAMPLING: Span = Span::from_micros(30);
/// Oldest age on a core that only samples, of packets that only trickle in. Our choice: some passes of a
/// loaded worker.
pub const AGE_TRICKLE: Span = Span::from_micros(5);
/// Fewer packets than this are a trickle: a burst of the NF library.
pub const TRICKLE: u32 = 64;
/// Longest slice of an NF on a core that others want too. Our choice: what a batch of a quarter of the ring
/// takes the heavy NF of the papers (1,024 times 550 cycles); a heavier one would keep light neighbours
/// waiting until their rings are full.
pub const SLICE: Span = Span::from_micros(250);
/// A round of the slices of a core whose NFs have shares, and the shortest slice in it. Our choice: the rings
/// of the papers' NFs hold several rounds at any rate a core can serve; a shorter slice would be mostly
/// switch.
pub const ROUND: Span = Span::from_micros(1000);
const SLICE_MIN: Span = Span::from_micros(20);
/// Least time between two calls to one NF. Our choice: bounds the manager's time spent on one hostile NF to 2
/// us in 20 on an awake core, while an honest one that slept has polled its ring for longer than this first.
pub const GAP: Span = Span::from_micros(20);
/// Time after which a call without effect is repeated. Our choice: longer than the p99 of a wake-up on an
/// idle core (106 us), shorter than anyone notices.
pub const AGAIN: Span = Span::from_micros(1000);
/// Time for which an NF polls an empty ring before it sleeps. Our choice: about what a call to an idle core
/// costs both sides (14 us for the caller, 33-42 us until the sleeper runs), so polling never costs more than
/// twice the better choice (ski rental).
pub const POLL: Span = Span::from_micros(50);
/// The same for an NF on a core where others may want to work and cannot say so: one switch.
pub const POLL_BRIEFLY: Span = Span::from_micros(2);

/// Returns how long an NF polls an empty ring before it sleeps.
#[must_use]
pub const fn poll_before_sleep(briefly: bool) -> Span {
    if briefly { POLL_BRIEFLY } else { POLL }
}

/// Returns the longest slice of an NF with this share of its core, in parts of `whole`. Slices must be as
/// unequal as shares: the kernel goes round among NFs that sleep after each slice. One that feeds another NF
/// of its core empties its ring, so that the queue of a chain stands where the chain is slow and not where
/// others have to pass; what it must not do is bounded by backpressure.
#[must_use]
pub const fn slice(share: u32, whole: u32, feeds: bool) -> Span {
    let slice = Span(ROUND.0 * share as u64 / whole as u64);
    let least = if feeds { SLICE } else { SLICE_MIN };
    if slice.0 < least.0 { least } else { slice }
}

impl CallMarks {
    /// Returns the marks for a ring of `ring` descriptors on a machine whose counter makes `ticks_per_micro`.
    #[must_use]
    pub const fn new(ring: u32, ticks_per_micro: u64) -> Self {
        Self {
            backlog: if ring < 4 { 1 } else { ring / 4 },
            age_working: Ticks::from_span(AGE_WORKING, ticks_per_micro),
            age_sampling: Ticks::from_span(AGE_SAMPLING, ticks_per_micro),
            age_trickle: Ticks::from_span(AGE_TRICKLE, ticks_per_micro),
            gap: Ticks::from_span(GAP, ticks_per_micro),
            again: Ticks::from_span(AGAIN, ticks_per_micro),
        }
    }
}

/// State of a core, by what its NFs do that are awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CoreState {
    /// All of them sleep.
    Idle,
    /// At least one is awake, and none has more than a trickle of packets.
    Sampling,
    /// At least one has more than that.
    Working,
}

/// Where an NF runs and whom it yields to: a bit for its core, and one for its trust domain there.
///
/// Cores whose numbers are equal modulo 64 share a bit: then an NF of one counts as a neighbour on the other,
/// which only delays a call. Domains share one where the bits of their numbers and of their cores' do not fit
/// into six: their NFs yield to each other then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    core: u64,
    domain: u64,
}

impl Seat {
    /// Returns the seat of an NF of this domain on this core.
    #[must_use]
    pub const fn new(core: CoreId, domain: RegionId) -> Self {
        // Cores fill six bits from below, domains from above.
        let domain = domain.0.reverse_bits() >> 2;
        Self { core: 1 << (core.0 % 64), domain: 1 << ((core.0 as u8 ^ domain) % 64) }
    }
}

/// States of all cores in one pass of a worker, gathered NF by NF: sets of seats, by core or by domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// An NF is awake.
    awake: u64,
    /// One that is awake has packets.
    working: u64,
    /// One of the domain is awake and has packets.
    domain_working: u64,
    /// More than one of the domain is.
    shared: u64,
    /// One that is awake has so many that it is worth letting it work them off.
    busy: u64,
    /// One that slept while the core was said to work was called.
    slept_for: u64,
}

impl Cores {
    /// Notes an NF that is awake, or was called just now, and holds so many packets.
    #[inline(always)]
    pub(crate) const fn note_awake(&mut self, seat: Seat, packets: u32) {
        self.awake |= seat.core;
        if packets > 0 {
            self.working |= seat.core;
            self.shared |= self.domain_working & seat.domain;
            self.domain_working |= seat.domain;
        }
        if packets >= TRICKLE {
            self.busy |= seat.core;
        }
    }

    /// Notes that an NF of a core, which slept in this state of it, is called.
    #[inline(always)]
    pub(crate) const fn note_call(&mut self, seat: Seat, state: CoreState) {
        if matches!(state, CoreState::Working) {
            self.slept_for |= seat.core;
        }
    }

    /// Returns whether an NF was called in this pass that had slept for the sake of others of this core.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn were_slept_for(self, seat: Seat) -> bool {
        self.slept_for & seat.core != 0
    }

    /// Returns what a core does.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn state(self, seat: Seat) -> CoreState {
        match (self.busy & seat.core, self.awake & seat.core) {
            (0, 0) => CoreState::Idle,
            (0, _) => CoreState::Sampling,
            _ => CoreState::Working,
        }
    }

    /// Returns whether an NF that holds so many packets must yield: it sleeps after a batch, because another
    /// NF of its domain on its core is awake and has packets; or it does not poll its empty ring, because any
    /// other of its core does.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn must_yield(self, seat: Seat, packets: u32) -> bool {
        if packets > 0 { self.shared & seat.domain != 0 } else { self.working & seat.core != 0 }
    }
}

/// Observation of one sleeping NF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleeper {
    /// Packets in its receive ring.
    pub(crate) backlog: u32,
    /// Age of the oldest of them.
    pub(crate) age: Ticks,
    /// Time since it was last called.
    pub(crate) since_call: Ticks,
    /// Whether it has taken packets since then.
    pub(crate) moved: bool,
    /// The state of its core.
    pub(crate) core: CoreState,
}

/// Returns whether to call it now.
#[inline]
#[must_use]
pub(crate) const fn worth_a_call(marks: &CallMarks, sleeper: &Sleeper) -> bool {
    if sleeper.backlog == 0 {
        return false;
    }
    let allowed = if sleeper.moved { marks.gap } else { marks.again };
    if sleeper.since_call.0 < allowed.0 {
        return false;
    }
    let age_enough = match sleeper.core {
        CoreState::Idle => return true,
        CoreState::Sampling if sleeper.backlog < TRICKLE => marks.age_trickle,
        CoreState::Sampling => marks.age_sampling,
        CoreState::Working => marks.age_working,
    };
    sleeper.backlog >= marks.backlog || sleeper.age.0 >= age_enough.0
}

/// Calls to others that slept for an NF's sake, and between which it gave nothing on, after which it is
/// absent. Our choice: that is [`AGE_WORKING`] each, with the core to itself. Of one neighbour with bursts as
/// long as its own there is one call for each burst; with more, one whose bursts take longer is left to the
/// kernel's sharing until its burst is done.
const ABSENT_AFTER: u8 = 3;

/// Whether an NF that is awake and holds packets uses its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Packets that it had given on at the last such call, ever; wraps.
    given_on: u32,
    calls: u8,
}

impl Presence {
    /// Another NF of the core, which slept while it was said to work, is called; this one has given on so
    /// many packets ever.
    #[inline]
    pub(crate) const fn on_others_call(&mut self, given_on: u32) {
        let calls = if given_on == self.given_on { self.calls.saturating_add(1) } else { 0 };
        *self = Self { given_on, calls };
    }

    /// Returns whether it is absent, when it has given on so many packets ever.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn is_absent(&self, given_on: u32) -> bool {
        self.calls >= ABSENT_AFTER && given_on == self.given_on
    }
}

/// Memory of the calls to one NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Time of the last call; `None`: there was none.
    called: Option<Ticks>,
    /// Packets it had taken by then, ever; wraps.
    taken: u32,
    /// Time since which it sleeps with packets in its ring.
    asleep_since: Option<Ticks>,
}

impl Calls {
    /// The NF sleeps while `backlog` packets wait for it, and has taken `taken` ever. Returns what that
    /// means.
    #[inline]
    #[must_use]
    pub(crate) fn on_asleep(&mut self, now: Ticks, backlog: u32, taken: u32, core: CoreState) -> Sleeper {
        let asleep_since = *self.asleep_since.get_or_insert(now);
        Sleeper {
            backlog,
            age: now.since(asleep_since),
            since_call: self.called.map_or(Ticks(u64::MAX), |called| now.since(called)),
            moved: self.called.is_none() || taken != self.taken,
            core,
        }
    }

    /// The NF is awake, or no packets wait for it.
    #[inline(always)]
    pub(crate) const fn on_awake(&mut self) {
        self.asleep_since = None;
    }

    /// The NF is called.
    pub(crate) const fn on_call(&mut self, now: Ticks, taken: u32) {
        *self = Self { called: Some(now), taken, asleep_since: None };
    }

    /// Returns whether it has taken no packet since it was called, when it has taken so many ever.
    #[must_use]
    pub(crate) fn is_without_effect(&self, taken: u32) -> bool {
        self.called.is_some() && taken == self.taken
    }

    /// Returns whether it was called in this pass. Such an NF need not yield before the next one: by then the
    /// others of its core may have gone to sleep, and the core was its own.
    #[inline(always)]
    #[must_use]
    pub(crate) fn is_just_called(&self, now: Ticks) -> bool {
        self.called == Some(now)
    }
}

#[cfg(test)]
mod tests;
