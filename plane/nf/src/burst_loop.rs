//! The loop an NF lives in: a burst in, the NF's function, the burst out, a check of the orders.
//!
//! While there is work the loop makes no system call, takes no lock and allocates nothing.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use headgate_session::message::{Loop, MessageError, ToNf};
use headgate_shm::ring::{Consumer, Producer, RingIndexError};
use headgate_shm::state::{ForgedError, ReplaceError};
use headgate_shm::{Descriptor, doorbell};

use crate::burst::Burst;
use crate::clock::{CLOCK_EVERY, Clock, Machine, cycles};
use crate::context::Environment;
use crate::fuse::Fused;
use crate::mail;
use crate::maker::Made;
use crate::state::core::Core;
use headgate_session::attach::{AttachError, Attached};

mod disk;
pub(crate) mod sample;
mod visit;

use sample::Sampler;

/// Longest sleep. Our choice: orders and a dead manager are seen this soon even if no bell rings, and ten
/// wake-ups a second cost nothing.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// Passes of waiting for room in the transmit ring between two checks whether the manager lives.
const FULL_PASSES: u32 = 1000;

/// Set by SIGTERM and SIGINT.
pub static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Reason for the regular end of an NF's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The manager ordered it.
    Stopped,
    /// SIGTERM or SIGINT.
    Terminated,
}

/// Result of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// A burst was worked on; another may wait.
    Worked,
    /// There was nothing to work on, or it must not.
    Idle,
    /// It has ended: it was ordered to, or had to.
    Ended,
}

/// Error that ends the loop.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    #[error("the manager is gone")]
    ManagerGone,
    #[error("the manager's ring indices are impossible: it is broken, or not of this version")]
    Impossible,
    #[error("the connection to the manager: {0}")]
    Connection(MessageError),
    #[error("the kept state of the process before it is not one: {0}")]
    State(#[from] ForgedError),
    #[error("the state of another node did not come: {0}")]
    NotCome(#[from] AttachError),
    #[error("the state of another node cannot take the place of its own: {0}")]
    Replaced(#[from] ReplaceError),
}

impl From<RingIndexError> for LoopError {
    fn from(_: RingIndexError) -> Self {
        Self::Impossible
    }
}

impl From<MessageError> for LoopError {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Closed => Self::ManagerGone,
            other => Self::Connection(other),
        }
    }
}

pub(crate) struct BurstLoop {
    attached: Rc<Attached>,
    environment: Rc<Environment>,
    clock: Rc<Machine>,
    nfs: Fused,
    receive: Consumer,
    transmit: Producer,
    burst: Burst,
    prefetches: bool,
    mail_read: u32,
    sampler: Sampler,
    /// Bursts since a cooperative loop last yielded.
    since_yield: u32,
    /// Samples of the clock since the last burst.
    idle_samples: u32,
    /// Index of the receive ring at which the NF last woke, and the time, in ticks.
    slice_began: u32,
    woke_at: u64,
    /// Whether no packets are taken because the disk is behind.
    is_suspended: bool,
    /// What the NFs keep, if one of them keeps anything, and the packets that the instance had returned
    /// before this process.
    state: Option<(Rc<Core>, u32)>,
}

impl BurstLoop {
    /// # Panics
    /// When the environment's clock is not the machine's.
    pub(crate) fn new(attached: &Rc<Attached>, environment: &Rc<Environment>, nfs: Fused) -> Self {
        let Clock::Machine(clock) = &environment.clock else { panic!("a burst loop runs in real time") };
        let mut burst = Burst::new(attached.region.clone());
        if let Some(state) = environment.state.get() {
            burst.save_by(state);
        }
        if let Some(times) = attached.times.take() {
            burst.go_by(times);
        }
        Self {
            attached: attached.clone(),
            environment: environment.clone(),
            clock: clock.clone(),
            receive: attached.side.receive_consumer(),
            transmit: attached.side.transmit_producer(),
            burst,
            prefetches: nfs.touches_packets(),
            nfs,
            mail_read: 0,
            sampler: Sampler::of_this_thread(),
            since_yield: 0,
            idle_samples: 0,
            slice_began: 0,
            woke_at: 0,
            is_suspended: false,
            state: environment.state.get().map(|state| (state.clone(), state.base())),
        }
    }

    /// Works on its first packets one by one: one of them may have been what killed the process before.
    pub(crate) fn work_alone(&mut self, packets: u32) -> Result<(), LoopError> {
        for _ in 0..packets {
            if self.ended().is_some() || self.burst.fill_up_to(1, &mut self.receive)? == 0 {
                break;
            }
            self.process(false);
            self.give_back()?;
            self.note_burst(1);
        }
        Ok(())
    }

    /// Works until an order or a signal ends it; then works off what is in the receive ring.
    pub(crate) fn run(&mut self) -> Result<End, LoopError> {
        let end = loop {
            if let Some(end) = self.ended() {
                break end;
            }
            self.heed_orders()?;
            if self.pass()? {
                self.after_burst();
            } else {
                self.idle()?;
            }
        };
        if self.uses_disk() {
            self.drain_with_disk()?;
        } else {
            self.drain()?;
            self.nfs.stop();
        }
        self.give_made()?;
        self.environment.tell_counters()?;
        Ok(end)
    }

    #[inline(always)]
    fn ended(&self) -> Option<End> {
        ended(&self.attached)
    }

    /// Takes one burst, works on it, returns it. False when the ring was empty.
    #[inline(always)]
    fn pass(&mut self) -> Result<bool, LoopError> {
        let ticks = cycles();
        if self.clock.is_due(ticks) {
            self.tick()?;
        }
        let sampled = self.sampler.is_due(ticks);
        if sampled {
            self.sampler.begin();
        }
        let count = if self.uses_disk() { self.pass_with_disk(sampled)? } else { self.pass_plain(sampled)? };
        if sampled && count > 0 {
            self.sampler.end(&self.attached.side, &self.clock, count as u64);
        }
        Ok(count > 0)
    }

    #[inline(always)]
    fn pass_plain(&mut self, sampled: bool) -> Result<usize, LoopError> {
        let count = self.burst.fill(&mut self.receive)?;
        if count > 0 {
            // Other state was given before these packets were, and is theirs: so it is looked for once they
            // are seen.
            if self.has_mail() {
                self.read_mail()?;
            }
            self.process(sampled);
            self.give_back()?;
            self.note_burst(count);
        }
        Ok(count)
    }

    /// Whether an NF of the process reads or writes files. All that a burst of others pays for it.
    #[inline(always)]
    fn uses_disk(&self) -> bool {
        self.environment.disk.requests.get().is_some()
    }

    #[inline(always)]
    fn process(&mut self, sampled: bool) {
        if self.prefetches {
            self.burst.prefetch();
        }
        if sampled {
            self.process_timed();
        } else {
            self.nfs.process(&mut self.burst);
        }
    }

    #[cold]
    fn process_timed(&mut self) {
        let from = cycles();
        self.nfs.process(&mut self.burst);
        self.sampler.handled(cycles() - from);
    }

    #[inline(always)]
    fn note_burst(&self, count: usize) {
        let progress = self.attached.side.progress();
        add(&progress.packets, count as u64);
        add(&progress.bursts, 1);
    }

    /// Puts the whole burst into the transmit ring. The manager never lends more packets than the ring
    /// holds, so there is room; if a broken manager leaves none, wait for it to recover or die.
    #[inline(always)]
    fn give_back(&mut self) -> Result<(), LoopError> {
        give_back(&self.attached, &self.environment, &mut self.transmit, &self.burst)?;
        self.note_returned();
        Ok(())
    }

    /// Notes how many packets were returned: what was changed for them is no longer undone.
    #[inline(always)]
    fn note_returned(&self) {
        if let Some((state, base)) = &self.state {
            state.note_returned(base.wrapping_add(self.transmit.produced()));
        }
    }

    /// Gives the manager what NFs made between two bursts.
    fn give_made(&mut self) -> Result<(), LoopError> {
        match self.environment.made.get().filter(|made| !made.borrow().is_empty()) {
            Some(made) => give_with_made(&self.attached, made, &mut self.transmit, &[])?,
            None => return Ok(()),
        }
        self.note_returned();
        Ok(())
    }

    #[inline(always)]
    fn after_burst(&mut self) {
        self.idle_samples = 0;
        if let Loop::Cooperative { yield_after } = self.attached.welcome.waits {
            self.since_yield += 1;
            if self.since_yield >= yield_after {
                self.since_yield = 0;
                rustix::thread::sched_yield();
            }
        }
    }

    /// Once a millisecond, or when a timer is due.
    #[cold]
    fn tick(&mut self) -> Result<(), LoopError> {
        let now = self.clock.sample();
        if let Some(due) = self.nfs.timers(now) {
            self.environment.clock.sample_by(due);
        }
        self.give_made()?;
        self.environment.tell_counters()?;
        self.beat();
        self.idle_samples += 1;
        if self.idle_samples >= (PATIENCE.as_millis() / CLOCK_EVERY.as_millis()) as u32 {
            self.idle_samples = 0;
            self.check_link()?;
        }
        Ok(())
    }

    fn check_link(&mut self) -> Result<(), LoopError> {
        if self.attached.is_closed() { Err(LoopError::ManagerGone) } else { Ok(()) }
    }

    #[inline(always)]
    fn heed_orders(&mut self) -> Result<(), LoopError> {
        if self.has_mail() {
            self.read_mail()?;
        }
        if self.attached.side.orders().blocked.load(Ordering::Relaxed) != 0 {
            self.block()?;
        }
        if self.attached.side.orders().must_yield.load(Ordering::Relaxed) != 0 {
            self.yield_core()?;
        }
        Ok(())
    }

    /// Gives the NFs the messages that came before their loop began: to a standby that was to go.
    pub fn hear_early(&mut self, messages: &[(Option<u64>, String)]) -> Result<(), LoopError> {
        for (number, body) in messages {
            mail::deliver(&mut self.nfs, &self.environment, *number, body);
        }
        if messages.is_empty() { Ok(()) } else { self.end_mail() }
    }

    #[cold]
    fn read_mail(&mut self) -> Result<(), LoopError> {
        self.mail_read = self.attached.side.orders().mail.load(Ordering::Acquire);
        loop {
            match self.attached.hear_with_files() {
                Ok(Some((ToNf::State, files))) => {
                    replace_state(&self.attached, self.environment.state.get(), files)?;
                }
                Ok(Some((ToNf::Message { body, number }, _))) => {
                    mail::deliver(&mut self.nfs, &self.environment, number, &body);
                }
                Ok(Some(_)) | Err(MessageError::Garbled(_)) => {} // Not for us; a newer manager's, perhaps.
                Ok(None) => return self.end_mail(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends what NFs made of messages, and their counters.
    fn end_mail(&mut self) -> Result<(), LoopError> {
        self.give_made()?;
        self.environment.tell_counters().map_err(LoopError::from)
    }

    /// Blocked by backpressure: sleeps until the order is withdrawn, or another comes.
    #[cold]
    fn block(&mut self) -> Result<(), LoopError> {
        while self.attached.side.orders().blocked.load(Ordering::Relaxed) != 0 && !self.is_summoned() {
            let blocked = |this: &mut Self| {
                Ok(this.attached.side.orders().blocked.load(Ordering::Relaxed) != 0 && !this.is_summoned())
            };
            self.sleep_while(doorbell::announce, blocked, PATIENCE)?;
            self.check_link()?;
        }
        Ok(())
    }

    /// Others of this core have packets too: lets them work when this time slice's batch is done, or its time
    /// over.
    #[cold]
    fn yield_core(&mut self) -> Result<(), LoopError> {
        let orders = self.attached.side.orders();
        let batch = orders.batch.load(Ordering::Relaxed);
        let time = Duration::from_micros(u64::from(orders.slice_micros.load(Ordering::Relaxed)));
        let done = self.receive.consumed().wrapping_sub(self.slice_began) >= batch
            || cycles().wrapping_sub(self.woke_at) >= self.clock.ticks(time);
        if done && self.attached.welcome.waits == Loop::Notified {
            let idle = |this: &mut Self| Ok(!this.is_summoned() && !this.has_disk_news());
            self.sleep_while(doorbell::announce, idle, PATIENCE)?;
        }
        Ok(())
    }

    /// Whether something other than packets wants the NF awake.
    #[inline(always)]
    fn is_summoned(&self) -> bool {
        self.has_mail() || self.ended().is_some()
    }

    #[inline(always)]
    fn has_mail(&self) -> bool {
        self.attached.side.orders().mail.load(Ordering::Relaxed) != self.mail_read
    }

    /// There are no packets.
    fn idle(&mut self) -> Result<(), LoopError> {
        // What the kernel counts for it is no packet's cost.
        add(&self.attached.side.progress().empty_polls, 1);
        if self.is_suspended {
            return self.wait_for_disk();
        }
        match self.attached.welcome.waits {
            Loop::Notified => self.wait_for_bell(),
            Loop::Polling => {
                std::hint::spin_loop();
                Ok(())
            }
            Loop::Cooperative { .. } => {
                self.since_yield = 0;
                rustix::thread::sched_yield();
                Ok(())
            }
        }
    }

    fn wait_for_bell(&mut self) -> Result<(), LoopError> {
        // Never by `sched_yield`: since Linux 6.6 a task that yields forfeits its slice.
        let micros = self.attached.side.orders().poll_micros.load(Ordering::Relaxed);
        let until = cycles() + self.clock.ticks(Duration::from_micros(u64::from(micros)));
        let (orders, empty_polls) = (self.attached.side.orders(), &self.attached.side.progress().empty_polls);
        while orders.must_yield.load(Ordering::Relaxed) == 0 && cycles() < until {
            if self.receive.refresh()? > 0 {
                return Ok(());
            }
            add(empty_polls, 1);
            std::hint::spin_loop();
        }
        let patience = self.patience();
        if patience.is_zero() {
            return Ok(());
        }
        let idle = |this: &mut Self| {
            Ok(this.receive.refresh()? == 0 && !this.is_summoned() && !this.has_disk_news())
        };
        let slept = self.sleep_while(doorbell::announce, idle, patience)?;
        if slept && self.receive.refresh()? == 0 {
            self.check_link()?;
        }
        Ok(())
    }

    /// Returns the time that it may sleep: until something is due.
    fn patience(&self) -> Duration {
        let due = self.nfs.next_due().into_iter().chain(self.next_disk_due()).min();
        let wait = due.map(|due| due.saturating_sub(self.environment.clock.now()));
        wait.map_or(PATIENCE, |wait| wait.min(PATIENCE))
    }

    /// Sleeps on the doorbell unless, after announcing it, there is a reason not to. True when it slept.
    fn sleep_while(
        &mut self,
        announce: fn(&AtomicU32),
        mut still: impl FnMut(&mut Self) -> Result<bool, LoopError>,
        patience: Duration,
    ) -> Result<bool, LoopError> {
        let attached = self.attached.clone();
        let word = attached.side.doorbell();
        self.beat();
        announce(word);
        let sleeps = still(self)?;
        if sleeps {
            add(&attached.side.progress().sleeps, 1);
            doorbell::sleep(word, patience);
            (self.slice_began, self.woke_at) = (self.receive.consumed(), cycles());
        }
        doorbell::withdraw(word);
        Ok(sleeps)
    }

    /// Works off what is in the receive ring, at most as much as it can hold: a manager that goes on
    /// delivering does not keep the NF alive.
    fn drain(&mut self) -> Result<(), LoopError> {
        let end = self.receive.consumed().wrapping_add(self.receive.size());
        while end.wrapping_sub(self.receive.consumed()) as i32 > 0 && self.pass()? {}
        Ok(())
    }
}

/// Goes on with the state of another node.
#[cold]
pub(crate) fn replace_state(
    attached: &Attached,
    state: Option<&Rc<Core>>,
    files: Vec<OwnedFd>,
) -> Result<(), LoopError> {
    let memory = attached.map_other_state(files)?;
    match state {
        Some(state) => Ok(state.replace(memory)?),
        None => Ok(()),
    }
}

/// Returns why the process is to end, if it is.
#[inline(always)]
pub(crate) fn ended(attached: &Attached) -> Option<End> {
    if attached.side.orders().stop.load(Ordering::Relaxed) != 0 {
        return Some(End::Stopped);
    }
    TERMINATED.load(Ordering::Relaxed).then_some(End::Terminated)
}

/// Puts a burst into the transmit ring, and behind each packet those that were made to follow it.
#[inline(always)]
fn give_back(
    attached: &Attached,
    environment: &Environment,
    transmit: &mut Producer,
    burst: &Burst,
) -> Result<(), LoopError> {
    match environment.made.get() {
        Some(made) if !made.borrow().is_empty() => give_with_made(attached, made, transmit, burst.decided()),
        _ => give(attached, transmit, burst.decided()),
    }
}

#[cold]
fn give_with_made(
    attached: &Attached,
    made: &RefCell<Made>,
    transmit: &mut Producer,
    burst: &[Descriptor],
) -> Result<(), LoopError> {
    give(attached, transmit, &made.borrow_mut().merged(burst))
}

/// Puts packets into the transmit ring.
#[inline(always)]
fn give(attached: &Attached, transmit: &mut Producer, burst: &[Descriptor]) -> Result<(), LoopError> {
    let mut given = transmit.push(burst)?;
    let mut passes = 0;
    while given < burst.len() {
        rustix::thread::sched_yield();
        passes += 1;
        if passes % FULL_PASSES == 0 && (attached.is_closed() || TERMINATED.load(Ordering::Relaxed)) {
            return Err(LoopError::ManagerGone);
        }
        given += transmit.push(&burst[given..])?;
    }
    Ok(())
}

/// Adds to a value only this thread writes.
#[inline(always)]
fn add(value: &AtomicU64, more: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
