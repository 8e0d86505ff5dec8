//! An NF: the loop of the NF library (`plane/nf/src/burst_loop.rs`) around work that costs time.
//!
//! It takes a burst, works on it, gives it back, and heeds its orders between two bursts: it sleeps when it
//! is blocked, when it must yield and its batch or slice is done, and when its ring was empty for as long as
//! it may poll. While it has its core nothing else changes what it does: the core runs it for as long as it
//! may ([`Nf::run`]), and a burst that was not done by then stays in its hands.

use headgate_decide::units::{Instant, Span};

use crate::costs::Costs;
use crate::random::Random;
use crate::ring::{Ring, Run};
use crate::scene::{self, Cost, Waits};

/// Most packets of a burst (`BURST_MAX` of the NF library).
pub(crate) const BURST: u32 = 64;
/// Time between two samples of the service time (the library's sampler, and NFVnice, section 5.2.3).
const SAMPLE_EVERY: Span = Span::from_millis(1);
/// Time of a poll of an empty ring, for their count. Our choice: what the library's pause takes.
const EMPTY_POLL_NS: u64 = 25;
/// Time of a burst that never ends: longer than any scene.
const FOR_EVER: u64 = u64::MAX / 4;

/// Orders of the manager and the worker to an NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) blocked: bool,
    pub(crate) must_yield: bool,
    /// Packets, and time since it woke, after which it yields.
    pub(crate) batch: u32,
    pub(crate) slice: Span,
    /// Time for which it polls an empty ring before it sleeps.
    pub(crate) poll: Span,
}

/// Why an NF no longer uses its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It would go on: its time was over.
    Preempted,
    /// It sleeps.
    Slept,
    /// It gave others a chance to run.
    Yielded,
    /// It waits in the kernel for so long.
    Waits(Span),
}

/// Counts of an NF, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NfCounts {
    pub(crate) taken: u64,
    pub(crate) returned: u64,
    pub(crate) sleeps: u64,
    /// Waits in the kernel.
    pub(crate) waits: u64,
    pub(crate) polled_ns: u64,
    pub(crate) worked_ns: u64,
}

/// An NF.
#[derive(Clone, Debug)]
pub(crate) struct Nf {
    cost: Cost,
    /// Changes of its cost to come, the next one last.
    changes: Vec<scene::Change>,
    waits: Waits,
    pauses: Option<scene::Pauses>,
    /// Packets since its last wait in the kernel, and whether it is in one.
    since_pause: u64,
    is_paused: bool,
    /// Whether it never returns from its next burst, and whether a signal has stopped it.
    hangs: bool,
    is_stopped: bool,
    random: Random,
    pub(crate) orders: Orders,
    /// Packets that wait for it, and those it has returned.
    pub(crate) receive: Ring,
    pub(crate) transmit: Ring,
    /// The burst at hand, and the time that it still takes.
    hand: Ring,
    hand_ns: u64,
    /// Whether it sleeps, whether it was called since, and whether it has woken and not run yet.
    is_asleep: bool,
    is_called: bool,
    has_woken: bool,
    has_started: bool,
    /// Time for which it has polled its empty ring.
    polled_ns: u64,
    /// Packets it had taken, and the time, when it woke.
    slice_began: u64,
    woke_at: Instant,
    bursts_since_yield: u32,
    /// Service times that were sampled and not read.
    samples: Vec<Span>,
    next_sample: Instant,
    pub(crate) counts: NfCounts,
}

impl Nf {
    pub(crate) fn new(described: &scene::Nf, random: Random) -> Self {
        let mut changes = described.changes.clone();
        changes.reverse();
        Self {
            cost: described.cost.clone(),
            changes,
            waits: described.waits,
            pauses: described.pauses,
            since_pause: 0,
            is_paused: false,
            hangs: false,
            is_stopped: false,
            random,
            orders: Orders::default(),
            receive: Ring::default(),
            transmit: Ring::default(),
            hand: Ring::default(),
            hand_ns: 0,
            is_asleep: true,
            is_called: true,
            has_woken: false,
            has_started: false,
            polled_ns: 0,
            slice_began: 0,
            woke_at: Instant(0),
            bursts_since_yield: 0,
            samples: Vec::new(),
            next_sample: Instant(0),
            counts: NfCounts::default(),
        }
    }

    /// Returns whether it ever sleeps.
    pub(crate) fn sleeps(&self) -> bool {
        self.waits == Waits::Notified
    }

    /// Returns the packets in its hands.
    pub(crate) const fn in_hand(&self) -> u32 {
        self.hand.packets()
    }

    /// Returns the packets in its hands, the oldest first.
    pub(crate) fn hand(&self) -> impl Iterator<Item = &Run> {
        self.hand.runs()
    }

    /// It never returns from its next burst.
    pub(crate) const fn hang(&mut self) {
        self.hangs = true;
    }

    /// A signal stops it.
    pub(crate) const fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns whether a signal has stopped it.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Its process has ended. Returns the packets that end with it: what it had returned stays.
    pub(crate) fn end(&mut self) -> Vec<Run> {
        let mut lost = Vec::new();
        for ring in [&mut self.hand, &mut self.receive] {
            while let Some(run) = ring.pop(u32::MAX) {
                lost.push(run);
            }
        }
        (self.hand_ns, self.polled_ns, self.since_pause) = (0, 0, 0);
        (self.hangs, self.is_stopped, self.is_paused) = (false, false, false);
        // The next one begins as one that was called.
        (self.is_asleep, self.is_called, self.has_started) = (true, true, false);
        (self.orders.blocked, self.orders.must_yield) = (false, false);
        self.counts.taken = self.counts.returned;
        lost
    }

    /// Returns whether it has started and sleeps.
    pub(crate) const fn is_asleep(&self) -> bool {
        self.is_asleep && self.has_started
    }

    /// Returns whether it leaves its core to others by what it is, or now.
    pub(crate) const fn is_idle_by_choice(&self) -> bool {
        self.is_asleep || self.is_paused || self.is_stopped || matches!(self.waits, Waits::Cooperative { .. })
    }

    /// Returns whether it sleeps and can be called.
    pub(crate) const fn waits_for_a_call(&self) -> bool {
        self.is_asleep && !self.is_called
    }

    /// Notes that it is called: it wakes soon.
    pub(crate) const fn note_call(&mut self) {
        self.is_called = true;
    }

    /// Wakes it.
    pub(crate) const fn wake(&mut self) {
        if core::mem::replace(&mut self.is_paused, false) {
            return;
        }
        (self.is_asleep, self.is_called) = (false, false);
        (self.has_woken, self.has_started) = (true, true);
    }

    /// Takes the service times that were sampled since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<Span> {
        core::mem::take(&mut self.samples)
    }

    /// Has its core from `from` on, for at most `most_ns`. Returns the time that it used, and why it stopped.
    ///
    /// `costs` are those of the machine, `flow_bytes` the frame sizes by flow.
    pub(crate) fn run(
        &mut self,
        from: Instant,
        most_ns: u64,
        costs: &Costs,
        flow_bytes: &[u32],
    ) -> (u64, Pause) {
        if core::mem::take(&mut self.has_woken) {
            (self.slice_began, self.woke_at) = (self.counts.taken, from);
        }
        let mut used = 0;
        while used < most_ns {
            let now = from + Span(used);
            if !self.hand.is_empty() {
                used += self.work(most_ns - used);
                if let Some(pause) = self.pause() {
                    return (used, pause);
                }
                if self.hand.is_empty() && self.yields_after_burst() {
                    return (used, Pause::Yielded);
                }
            } else if self.must_sleep(now) {
                return (used, self.sleep());
            } else if !self.receive.is_empty() {
                self.take_burst(now, costs, flow_bytes);
            } else {
                match self.idle(most_ns - used, costs) {
                    (ns, Pause::Preempted) => used += ns,
                    (ns, pause) => return (used + ns, pause),
                }
            }
        }
        (used, Pause::Preempted)
    }

    /// Works on the burst at hand. Returns the time that it took.
    fn work(&mut self, most_ns: u64) -> u64 {
        let ns = self.hand_ns.min(most_ns);
        self.hand_ns -= ns;
        self.counts.worked_ns += ns;
        if self.hand_ns == 0 {
            self.counts.returned += u64::from(self.hand.packets());
            while let Some(run) = self.hand.pop(u32::MAX) {
                self.transmit.push(run);
            }
            self.bursts_since_yield += 1;
        }
        ns
    }

    /// Waits in the kernel behind a burst as often as its packets ask for it.
    fn pause(&mut self) -> Option<Pause> {
        let pauses = self.pauses.filter(|_| self.hand.is_empty())?;
        let times = self.since_pause / u64::from(pauses.every);
        self.since_pause %= u64::from(pauses.every);
        self.is_paused = times > 0;
        self.counts.waits += times;
        self.is_paused.then_some(Pause::Waits(Span(times * pauses.length.0)))
    }

    fn take_burst(&mut self, now: Instant, costs: &Costs, flow_bytes: &[u32]) {
        self.polled_ns = 0;
        while self.changes.last().is_some_and(|change| change.at.0 <= now.0) {
            self.cost = self.changes.pop().expect("there is a last one").cost;
        }
        let (mut cycles, mut room) = (0, BURST);
        while let Some(run) = self.receive.pop(room) {
            room -= run.packets;
            cycles += cycles_of(&self.cost, run.packets, flow_bytes[usize::from(run.flow)], &mut self.random);
            self.hand.push(run);
        }
        let packets = u64::from(BURST - room);
        self.counts.taken += packets;
        self.since_pause += packets;
        let library = costs.nf_burst_ns + packets * costs.nf_packet_ps / 1_000;
        // A burst takes some time, or it would never end.
        self.hand_ns = (costs.cycles(cycles) + library).max(1);
        if self.hangs {
            self.hand_ns = FOR_EVER;
        } else if self.next_sample.is_due(now) {
            self.next_sample = now + SAMPLE_EVERY;
            self.samples.push(Span(self.hand_ns / packets));
        }
    }

    /// Returns whether its orders are to sleep.
    fn must_sleep(&self, now: Instant) -> bool {
        let batch_is_done = self.counts.taken - self.slice_began >= u64::from(self.orders.batch);
        let is_done = || batch_is_done || now - self.woke_at >= self.orders.slice;
        self.orders.blocked || self.sleeps() && self.orders.must_yield && is_done()
    }

    fn sleep(&mut self) -> Pause {
        self.is_asleep = true;
        self.polled_ns = 0;
        self.counts.sleeps += 1;
        Pause::Slept
    }

    fn yields_after_burst(&mut self) -> bool {
        let Waits::Cooperative { yield_after } = self.waits else { return false };
        let yields = self.bursts_since_yield >= yield_after;
        if yields {
            self.bursts_since_yield = 0;
        }
        yields
    }

    /// There are no packets. Returns the time that it polled, and why it stopped.
    fn idle(&mut self, most_ns: u64, costs: &Costs) -> (u64, Pause) {
        match self.waits {
            Waits::Polling => (self.poll(most_ns), Pause::Preempted),
            Waits::Cooperative { .. } => {
                self.bursts_since_yield = 0;
                (self.poll(most_ns.min(costs.yield_ns)), Pause::Yielded)
            }
            Waits::Notified if self.orders.must_yield || self.polled_ns >= self.orders.poll.0 => {
                (0, self.sleep())
            }
            Waits::Notified => {
                let ns = self.poll(most_ns.min(self.orders.poll.0 - self.polled_ns));
                self.polled_ns += ns;
                (ns, Pause::Preempted)
            }
        }
    }

    const fn poll(&mut self, ns: u64) -> u64 {
        self.counts.polled_ns += ns;
        ns
    }
}

impl NfCounts {
    /// Returns the number of times it polled an empty ring.
    pub(crate) const fn empty_polls(&self) -> u64 {
        self.polled_ns / EMPTY_POLL_NS
    }
}

/// Returns what so many packets of a size cost, in cycles.
fn cycles_of(cost: &Cost, packets: u32, bytes: u32, random: &mut Random) -> u64 {
    let fixed = |cycles: u64| cycles * u64::from(packets);
    match cost {
        Cost::Fixed(cycles) => fixed(*cycles),
        Cost::BySize(steps) => {
            let step = steps.iter().rev().find(|(from, _)| *from <= bytes);
            step.map_or(0, |(_, cycles)| fixed(*cycles))
        }
        Cost::Uniform { least, most } => (0..packets).map(|_| random.between(*least, *most)).sum(),
        Cost::Exponential { mean } => (0..packets).map(|_| random.exponential(*mean as f64) as u64).sum(),
        Cost::OneOf(choices) => {
            let weights: u64 = choices.iter().map(|(_, weight)| u64::from(*weight)).sum();
            (0..packets).map(|_| chosen(choices, random.below(weights.max(1)))).sum()
        }
    }
}

/// Returns the choice in whose part of all weights a number lies.
fn chosen(choices: &[(u64, u32)], mut number: u64) -> u64 {
    for (cycles, weight) in choices {
        match number.checked_sub(u64::from(*weight)) {
            Some(rest) => number = rest,
            None => return *cycles,
        }
    }
    0
}
