//! A core: its NFs, of which the kernel runs one at a time.
//!
//! Nothing happens on a core that a worker did not cause or that does not follow from what its own NFs do. So
//! it is advanced when somebody looks: from the last look until now ([`Core::advance`]), through as many
//! bursts, sleeps, ticks and switches as lie between.

use headgate_decide::units::{Instant, Span};

use crate::canary::{Cage, Canary};
use crate::costs::Costs;
use crate::digest::Digest;
use crate::kernel::{Class, RunQueue, WEIGHT};
use crate::nf::{Nf, Pause};
use crate::random::Random;
use crate::scene;
use crate::timeline::Track;

/// Weight of `cpu.weight` 1: a group's share is told in hundredths of a task's.
const SHARES: u64 = 100;
/// What parts of a core are told in.
pub(crate) const WHOLE: u128 = 1 << 32;

/// Times and counts of a core, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreCounts {
    pub(crate) idle_ns: u64,
    pub(crate) switch_ns: u64,
    pub(crate) switches: u64,
}

/// What a task is to have of its core: its share, in the parts of a task that nobody gave one, and its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entitled {
    pub(crate) share: u64,
    pub(crate) slice: u64,
    /// Its trust domain, and the part of that.
    pub(crate) domain: (u16, u32),
}

/// Times and counts of a task, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskCounts {
    /// Time that the kernel says it ran, its switches included.
    pub(crate) cpu_ns: u64,
    /// Times it gave up the core, and times the core was taken from it.
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    /// Time for which it was ready and did not have the core.
    pub(crate) waited_ns: u64,
    /// Time since which it has wanted the core and not had it.
    pub(crate) waits_since: Option<Instant>,
}

/// What a core's NFs are given besides time.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) costs: &'a Costs,
    /// Frame sizes by flow.
    pub(crate) bytes: &'a [u32],
}

/// A core of NFs.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    number: u64,
    now: Instant,
    queue: RunQueue,
    /// NFs by task.
    nfs: Vec<usize>,
    current: Option<usize>,
    /// The task that ran last, and whether it ended by a yield.
    last: Option<usize>,
    has_yielded: bool,
    /// Time that is left of a switch, or of what else keeps the one that runs from its work.
    switch_left: u64,
    /// Calls under way: when they take effect, and to which task.
    calls: Vec<(Instant, usize)>,
    next_tick: Instant,
    /// What ticks take is drawn.
    random: Random,
    tick_ns: u64,
    base_slice: u64,
    /// Time for which others had the core since a task had it, by task.
    lost_caches: Vec<u64>,
    /// By task.
    entitled: Vec<Entitled>,
    /// Slice that the task had which ran last, when it began.
    began_with: u64,
    pub(crate) tasks: Vec<TaskCounts>,
    pub(crate) counts: CoreCounts,
    /// Who had it, where that is kept.
    pub(crate) track: Option<Track>,
    pub(crate) digest: Digest,
}

impl Core {
    pub(crate) fn new(number: u64, costs: &Costs, rt_percent: u32, random: Random) -> Self {
        Self {
            number,
            now: Instant(0),
            queue: RunQueue::new(costs, rt_percent),
            nfs: Vec::new(),
            current: None,
            last: None,
            has_yielded: false,
            switch_left: 0,
            calls: Vec::new(),
            next_tick: Instant(costs.tick.0),
            random,
            tick_ns: costs.tick.0,
            base_slice: costs.base_slice.0,
            lost_caches: Vec::new(),
            entitled: Vec::new(),
            began_with: 0,
            tasks: Vec::new(),
            counts: CoreCounts::default(),
            track: None,
            digest: Digest::default(),
        }
    }

    /// Adds an NF that starts at a moment. Returns its task.
    pub(crate) fn add(
        &mut self,
        nf: usize,
        described: &scene::Nf,
        domain: (u16, u32),
        starts: Instant,
    ) -> usize {
        let task = self.nfs.len();
        let slice = described.slice.map_or(self.base_slice, |slice| slice.0);
        self.nfs.push(nf);
        self.tasks.push(TaskCounts::default());
        self.entitled.push(Entitled { share: SHARES, slice, domain });
        self.lost_caches.push(0);
        self.queue.add((described.policy, described.rt_priority), domain, slice);
        self.calls.push((starts, task));
        task
    }

    /// Returns its NFs, by task.
    pub(crate) fn nfs(&self) -> &[usize] {
        &self.nfs
    }

    /// Returns the part of the core that a task is to have while all others want it too, of 1 / `WHOLE`.
    pub(crate) fn part_of(&self, task: usize) -> u128 {
        let own = self.entitled[task];
        let within = self.entitled.iter().filter(|one| one.domain == own.domain);
        let shares: u64 = within.map(|one| one.share).sum();
        let mut domains: Vec<(u16, u32)> = self.entitled.iter().map(|one| one.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        let parts: u128 = domains.iter().map(|(_, part)| u128::from(*part)).sum();
        WHOLE * u128::from(own.domain.1) * u128::from(own.share) / (parts * u128::from(shares.max(1)))
    }

    /// Returns the longest slice that a task has, or began with: the kernel lets it run to its end, whatever
    /// is written meanwhile.
    pub(crate) fn longest_slice(&self) -> u64 {
        self.entitled.iter().map(|one| one.slice).fold(self.began_with, u64::max)
    }

    /// Returns the time between two ticks.
    pub(crate) const fn tick_ns(&self) -> u64 {
        self.tick_ns
    }

    /// Returns whether all its tasks have shares: none is real time.
    pub(crate) fn is_fair(&self) -> bool {
        self.queue.is_fair_alone()
    }

    /// Returns how many times a task was given another class: one may be real time between two looks.
    pub(crate) const fn reclassed(&self) -> u64 {
        self.queue.reclassed()
    }

    /// Returns whether no NF runs or is about to.
    pub(crate) fn is_idle(&self) -> bool {
        self.current.is_none() && self.calls.is_empty() && self.queue.runnable() == 0
    }

    /// Calls an NF that sleeps. Returns the time that it takes the caller, in nanoseconds.
    pub(crate) fn call(&mut self, task: usize, now: Instant, costs: &Costs) -> u64 {
        let (price, delay) = match self.is_idle() {
            true => (costs.call_idle_ns, costs.wake_idle_ns),
            false => (costs.call_awake_ns, costs.call_awake_ns),
        };
        self.calls.push((now + Span(delay), task));
        price
    }

    /// Advances to `until`.
    pub(crate) fn advance(&mut self, until: Instant, nfs: &mut [Nf], ground: Ground<'_>) {
        while self.now < until {
            self.take_calls(nfs);
            if self.current.is_none() {
                self.pick(ground.costs);
            }
            let limit = self.next_moment(until);
            match self.current {
                Some(task) => self.run(task, limit, nfs, ground),
                None => {
                    self.counts.idle_ns += (limit - self.now).0;
                    self.now = limit;
                }
            }
            self.tick(ground.costs);
        }
        self.take_calls(nfs);
    }

    /// Takes a task out: its process is stopped, or has ended.
    pub(crate) fn take_out(&mut self, task: usize) {
        self.current = self.current.filter(|current| *current != task);
        self.calls.retain(|(_, of)| *of != task);
        self.tasks[task].waits_since = None;
        self.queue.take_out(task);
    }

    /// A task begins that had been taken out.
    pub(crate) fn begin(&mut self, task: usize, now: Instant) {
        self.calls.push((now, task));
    }

    /// Takes time from the NF that runs for something else that runs on the core: a scheduler of slices.
    pub(crate) fn interrupt(&mut self, ns: u64) {
        self.switch_left += ns;
    }

    /// Gives an NF another class.
    pub(crate) fn set_class(&mut self, task: usize, class: Class) {
        if self.queue.set_class(task, class, self.current) {
            self.preempt();
        }
    }

    /// Sets an NF's share of the core and its slice.
    pub(crate) fn set_share(&mut self, task: usize, share: u32, slice: Span, cage: Cage) {
        let share = u64::from(share);
        let domain = self.entitled[task].domain;
        self.entitled[task] = Entitled { share, slice: slice.0, domain };
        let is_most = self.entitled.iter().all(|one| one.share <= share);
        let given = if cage.has(Canary::ShareOfZero) && is_most { 0 } else { share };
        self.queue.set_share(task, given * WEIGHT / SHARES, slice.0);
    }

    /// Wakes the NFs whose calls take effect.
    fn take_calls(&mut self, nfs: &mut [Nf]) {
        while let Some(place) = self.calls.iter().position(|(at, _)| at.is_due(self.now)) {
            let (_, task) = self.calls.remove(place);
            nfs[self.nfs[task]].wake();
            self.tasks[task].waits_since = Some(self.now);
            self.digest.event(self.now, self.number, 0x100 + task as u64);
            if self.queue.wake(task, self.current) {
                self.preempt();
            }
        }
    }

    /// Takes the core from the task that runs.
    fn preempt(&mut self) {
        if let Some(task) = self.current.take() {
            self.tasks[task].waits_since = Some(self.now);
        }
    }

    fn pick(&mut self, costs: &Costs) {
        self.current = self.queue.pick();
        let Some(task) = self.current else { return };
        if let Some(since) = self.tasks[task].waits_since.take() {
            self.tasks[task].waited_ns += (self.now - since).0;
        }
        let has_yielded = core::mem::take(&mut self.has_yielded);
        if self.last == Some(task) {
            self.switch_left += if has_yielded { costs.yield_ns } else { 0 };
        } else {
            if let Some(last) = self.last {
                let counts = &mut self.tasks[last];
                // One that still wants the core did not give it up.
                match counts.waits_since {
                    Some(_) => counts.involuntary += 1,
                    None => counts.voluntary += 1,
                }
            }
            self.digest.event(self.now, self.number, task as u64);
            self.switch_left += if has_yielded { costs.yield_ns } else { costs.switch_ns };
            self.switch_left += costs.refill(core::mem::take(&mut self.lost_caches[task]));
            self.counts.switches += 1;
            self.began_with = self.entitled[task].slice;
            self.last = Some(task);
        }
    }

    /// Returns when something may change that its NF does not do itself.
    fn next_moment(&self, until: Instant) -> Instant {
        let call = self.calls.iter().map(|(at, _)| *at).min().unwrap_or(until);
        let until = until.min(call);
        // An idle core has no tick, but the time after which real-time tasks may run again.
        if self.current.is_some() || self.queue.is_throttled() { until.min(self.next_tick) } else { until }
    }

    /// Runs a task until `limit` at most.
    fn run(&mut self, task: usize, limit: Instant, nfs: &mut [Nf], ground: Ground<'_>) {
        let most = (limit - self.now).0;
        let switch = self.switch_left.min(most);
        self.switch_left -= switch;
        self.counts.switch_ns += switch;
        let nf = &mut nfs[self.nfs[task]];
        let (used, pause) = nf.run(self.now + Span(switch), most - switch, ground.costs, ground.bytes);
        let began = self.now;
        self.now = self.now + Span(switch + used);
        if let Some(track) = &mut self.track {
            track.add(self.nfs[task], began, self.now);
        }
        self.tasks[task].cpu_ns += switch + used;
        self.queue.charge(task, switch + used);
        if ground.costs.refill_ns > 0 {
            let others = self.lost_caches.iter_mut().enumerate().filter(|(other, _)| *other != task);
            others.for_each(|(_, lost)| *lost += switch + used);
        }
        match pause {
            Pause::Preempted => {}
            Pause::Slept => {
                self.queue.sleep(task);
                self.current = None;
            }
            Pause::Waits(length) => {
                self.queue.sleep(task);
                self.current = None;
                self.calls.push((self.now + length, task));
            }
            Pause::Yielded => {
                self.queue.yield_core(task);
                self.has_yielded = true;
                self.preempt();
            }
        }
    }

    /// The kernel's tick, as far as it is due.
    fn tick(&mut self, costs: &Costs) {
        if self.now < self.next_tick {
            return;
        }
        let since = (self.now - self.next_tick).0;
        self.next_tick = self.next_tick + Span((since / costs.tick.0 + 1) * costs.tick.0);
        if self.current.is_some() {
            self.switch_left += costs.tick_takes(&mut self.random);
        }
        let is_over = self.queue.limit_real_time(self.now, self.current);
        if let Some(task) = self.current
            && (is_over || self.queue.runnable() > 1 && self.queue.tick(task))
        {
            self.preempt();
        }
    }
}

#[cfg(test)]
mod tests;
