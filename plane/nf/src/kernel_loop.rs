//! The loop of an NF on interfaces of the kernel: a batch in, the NF's function, the batch out, a check
//! of the orders.
//!
//! An NF has two interfaces. What comes by one leaves by the other, unless the NF ends it or names a port:
//! its ports are its interfaces, 0 towards the chain's entry and 1 towards its end. The loop never waits
//! for a full batch: it takes what is there, works on it, sends it, and sleeps in `poll` when there is
//! nothing (SCC, section 5.1.1).
//!
//! The manager sees no packet of such an NF, so what it knows is what this loop says.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headgate_kernel::{BATCH_MAX, InterfaceError, InterfaceIo, Pool, check_error, open};
use headgate_session::kernel_io::KernelIo;
use headgate_session::message::{Loop, MessageError, ToNf};
use headgate_shm::Verdict;
use headgate_shm::control::InterfaceCounts;
use headgate_shm::descriptor::Descriptor;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::burst::{BURST_MAX, Burst};
use crate::burst_loop::sample::Sampler;
use crate::burst_loop::{End, TERMINATED};
use crate::clock::{Clock, Machine, cycles};
use crate::context::Environment;
use crate::fuse::Fused;
use crate::mail;
use headgate_session::attach::Attached;

/// Longest sleep. Our choice: an order to stop is seen this soon, and ten wake-ups a second cost nothing.
const PATIENCE: Duration = Duration::from_millis(100);
/// Batches after which the other interface is polled, however many packets there are at this one. Our
/// choice: a poll costs one system call.
const POLL_ALL_EVERY: u32 = 16;

/// Error of work on interfaces.
#[derive(Debug, thiserror::Error)]
pub enum KernelLoopError {
    #[error("the manager is gone")]
    ManagerGone,
    #[error("the connection to the manager: {0}")]
    Connection(MessageError),
    #[error("its interface {0} is gone")]
    InterfaceGone(String),
}

impl From<MessageError> for KernelLoopError {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Closed => Self::ManagerGone,
            other => Self::Connection(other),
        }
    }
}

/// One of the two interfaces.
struct Side {
    name: String,
    interface: Box<dyn InterfaceIo>,
    /// Whether there may be packets.
    is_ready: bool,
    is_down: bool,
    /// Packets that leave by it.
    outgoing: Vec<Descriptor>,
}

pub(crate) struct KernelLoop<'a> {
    attached: &'a Attached,
    environment: &'a Environment,
    clock: &'a Machine,
    nfs: &'a mut Fused,
    sides: [Side; 2],
    pool: Pool,
    incoming: Vec<Descriptor>,
    burst: Burst,
    mail_read: u32,
    /// Most packets of one call.
    batch: u32,
    sampler: Sampler,
    /// Packets that the NF ended.
    dropped: u64,
    /// Batches since both interfaces were polled.
    since_poll: u32,
    /// Batches since a cooperative loop last yielded.
    since_yield: u32,
}

impl<'a> KernelLoop<'a> {
    /// # Errors
    /// A sentence: the kernel refused, or the NF needs what there is not on interfaces.
    ///
    /// # Panics
    /// When the environment's clock is not the machine's.
    pub(crate) fn new(
        attached: &'a Attached,
        environment: &'a Environment,
        nfs: &'a mut Fused,
        io: &KernelIo,
        sockets: [OwnedFd; 2],
    ) -> Result<Self, String> {
        let Clock::Machine(clock) = &environment.clock else { panic!("a loop runs in real time") };
        if environment.disk.requests.get().is_some() {
            return Err(
                "it reads or writes files, which NFs on interfaces of the kernel cannot; take it out \
                        of the chain with `io`"
                    .to_owned(),
            );
        }
        let mut pool = Pool::over(attached.region.clone());
        if let Some(made) = environment.made.get() {
            made.borrow_mut().move_to(pool.region());
        }
        let mut side = |socket, name: &String| {
            let interface = headgate_kernel::attach(socket, io, &mut pool)
                .map_err(|error| format!("its interface {name} cannot be used: {error}"))?;
            let outgoing = Vec::with_capacity(2 * BATCH_MAX);
            Ok::<_, String>(Side { name: name.clone(), interface, is_ready: true, is_down: false, outgoing })
        };
        let [towards_in, towards_out] = sockets;
        let sides = [side(towards_in, &io.interfaces[0])?, side(towards_out, &io.interfaces[1])?];
        let mut work = Self {
            attached,
            environment,
            clock,
            nfs,
            sides,
            burst: Burst::new(pool.region().clone()),
            pool,
            incoming: Vec::with_capacity(BATCH_MAX),
            mail_read: 0,
            batch: io.batch,
            sampler: Sampler::of_this_thread(),
            dropped: 0,
            since_poll: 0,
            since_yield: 0,
        };
        work.lend();
        Ok(work)
    }

    /// Works until an order or a signal ends it.
    pub(crate) fn run(&mut self) -> Result<End, KernelLoopError> {
        let end = loop {
            if let Some(end) = self.ended() {
                break end;
            }
            let orders = self.attached.side.orders();
            if orders.mail.load(Ordering::Relaxed) != self.mail_read {
                self.read_mail()?;
            }
            // Relaxed: a number that stands for itself; the batch after the next will do as well.
            self.take_batch(orders.call_batch.load(Ordering::Relaxed));
            let mut moved = false;
            for from in 0..self.sides.len() {
                moved |= self.sides[from].is_ready && self.pass(from)?;
            }
            if moved {
                self.after_batch()?;
            } else {
                self.idle()?;
            }
        };
        self.nfs.stop();
        // Whatever is wrong with an interface now, this is the end.
        let _ = self.send_made().and_then(|()| self.publish());
        self.environment.tell_counters()?;
        Ok(end)
    }

    /// Heeds an order about the packets of one call.
    fn take_batch(&mut self, ordered: u32) {
        if ordered != self.batch && (1..=BATCH_MAX as u32).contains(&ordered) {
            self.batch = ordered;
            self.sides.iter_mut().for_each(|side| side.interface.set_batch(ordered as usize));
        }
    }

    fn ended(&self) -> Option<End> {
        if self.attached.side.orders().stop.load(Ordering::Relaxed) != 0 {
            return Some(End::Stopped);
        }
        TERMINATED.load(Ordering::Relaxed).then_some(End::Terminated)
    }

    /// Takes one batch from an interface, works on it and sends it on. False when there was none.
    fn pass(&mut self, from: usize) -> Result<bool, KernelLoopError> {
        let ticks = cycles();
        if self.clock.is_due(ticks) {
            self.tick()?;
        }
        let sampled = self.sampler.is_due(ticks);
        if sampled {
            self.sampler.begin();
        }
        let side = &mut self.sides[from];
        let more = side.interface.receive(&mut self.pool, &mut self.incoming);
        side.is_ready = matches!(more, Ok(true));
        let count = self.incoming.len();
        if count > 0 {
            self.work(from);
            for to in 0..self.sides.len() {
                self.send(to)?;
            }
            self.note_batch(count, sampled);
        }
        match more {
            Ok(_) => {
                if count > 0 {
                    self.note_up(from);
                }
            }
            Err(loss) => self.note_loss(from, loss)?,
        }
        Ok(count > 0)
    }

    /// The NF's function over a batch, burst by burst.
    fn work(&mut self, from: usize) {
        let mut handler = 0;
        let mut incoming = std::mem::take(&mut self.incoming);
        for packets in incoming.chunks_mut(BURST_MAX) {
            packets.iter_mut().for_each(|packet| *packet = packet.with_tag(from as u32));
            self.burst.load(packets);
            let began = cycles();
            self.nfs.process(&mut self.burst);
            handler += cycles() - began;
            match self.environment.made.get().filter(|made| !made.borrow().is_empty()) {
                Some(made) => {
                    let packets = made.borrow_mut().merged(self.burst.decided());
                    packets.iter().for_each(|packet| self.part_with(*packet, from));
                }
                None => {
                    for at in 0..self.burst.decided().len() {
                        self.part_with(self.burst.decided()[at], from);
                    }
                }
            }
            self.lend();
        }
        self.sampler.handled(handler);
        incoming.clear();
        self.incoming = incoming;
    }

    /// Follows the verdict on a packet that came by `from`, or that was made behind one.
    #[inline(always)]
    fn part_with(&mut self, packet: Descriptor, from: usize) {
        let way = match packet.verdict() {
            Verdict::Next => Some(1 - from),
            Verdict::Port(port) => Some(usize::from(port)).filter(|port| *port < self.sides.len()),
            Verdict::Drop | Verdict::Stage(_) => None,
        };
        match way {
            Some(to) => self.sides[to].outgoing.push(packet),
            None => {
                self.pool.put(packet);
                self.dropped += 1;
            }
        }
    }

    /// Puts buffers of its own in place of those that made packets took.
    fn lend(&mut self) {
        if let Some(made) = self.environment.made.get() {
            made.borrow_mut().refill(|| self.pool.lend().map(|empty| empty.index()));
        }
    }

    /// Sends what was made between two batches. With "next" it leaves towards the chain's end.
    fn send_made(&mut self) -> Result<(), KernelLoopError> {
        let Some(made) = self.environment.made.get().filter(|made| !made.borrow().is_empty()) else {
            return Ok(());
        };
        let packets = made.borrow_mut().merged(&[]);
        packets.iter().for_each(|packet| self.part_with(*packet, 0));
        self.lend();
        (0..self.sides.len()).try_for_each(|to| self.send(to))
    }

    fn send(&mut self, to: usize) -> Result<(), KernelLoopError> {
        let side = &mut self.sides[to];
        if side.outgoing.is_empty() {
            return Ok(());
        }
        let sent = side.interface.send(&mut self.pool, &side.outgoing);
        side.outgoing.clear();
        match sent {
            Ok(()) => Ok(()),
            Err(loss) => self.note_loss(to, loss),
        }
    }

    fn note_batch(&mut self, count: usize, sampled: bool) {
        let progress = self.attached.side.progress();
        add(&progress.packets, count as u64);
        add(&progress.bursts, 1);
        if sampled {
            self.sampler.end(&self.attached.side, self.clock, count as u64);
        }
    }

    /// An interface that is switched off is told of once, and works again when it is on. One that is gone
    /// ends this process: the manager starts another, which finds the next interface of that name.
    fn note_loss(&mut self, at: usize, loss: InterfaceError) -> Result<(), KernelLoopError> {
        let side = &mut self.sides[at];
        if loss == InterfaceError::Gone {
            return Err(KernelLoopError::InterfaceGone(side.name.clone()));
        }
        if !std::mem::replace(&mut side.is_down, true) {
            self.tell_state(at, "down");
        }
        Ok(())
    }

    /// One that is down may be gone by now; nothing tells of that.
    fn check_those_down(&mut self) -> Result<(), KernelLoopError> {
        let gone = |side: &&Side| side.is_down && !open::is_bound(side.interface.ear());
        match self.sides.iter().find(gone) {
            Some(side) => Err(KernelLoopError::InterfaceGone(side.name.clone())),
            None => Ok(()),
        }
    }

    fn note_up(&mut self, at: usize) {
        if std::mem::replace(&mut self.sides[at].is_down, false) {
            self.tell_state(at, "up");
        }
    }

    fn tell_state(&self, at: usize, state: &str) {
        let word = serde_json::json!({ "interface": self.sides[at].name, "state": state });
        // A manager that does not read its mail misses this one too.
        let _ = self.environment.tell(word.to_string());
    }

    fn after_batch(&mut self) -> Result<(), KernelLoopError> {
        self.since_poll += 1;
        if self.since_poll >= POLL_ALL_EVERY {
            self.wait(Duration::ZERO)?;
        }
        if let Loop::Cooperative { yield_after } = self.attached.welcome.waits {
            self.since_yield += 1;
            if self.since_yield >= yield_after {
                self.since_yield = 0;
                rustix::thread::sched_yield();
            }
        }
        Ok(())
    }

    /// Once a millisecond, or when a timer is due, or before a sleep.
    fn tick(&mut self) -> Result<(), KernelLoopError> {
        let now = self.clock.sample();
        if let Some(due) = self.nfs.timers(now) {
            self.environment.clock.sample_by(due);
        }
        self.send_made()?;
        self.publish()?;
        Ok(self.environment.tell_counters()?)
    }

    /// There are no packets.
    fn idle(&mut self) -> Result<(), KernelLoopError> {
        if self.clock.is_due(cycles()) {
            self.tick()?;
        }
        self.check_those_down()?;
        match self.attached.welcome.waits {
            Loop::Notified => {
                let due = self.nfs.next_due().map(|due| due.saturating_sub(self.environment.clock.now()));
                self.publish_counts();
                self.wait(due.map_or(PATIENCE, |due| due.min(PATIENCE)))
            }
            Loop::Polling => self.poll_all(),
            Loop::Cooperative { .. } => {
                self.since_yield = 0;
                rustix::thread::sched_yield();
                self.poll_all()
            }
        }
    }

    /// One that never sleeps tries its interfaces instead of asking for them.
    fn poll_all(&mut self) -> Result<(), KernelLoopError> {
        self.sides.iter_mut().for_each(|side| side.is_ready = true);
        self.since_poll += 1;
        if self.since_poll >= POLL_ALL_EVERY * POLL_ALL_EVERY {
            self.wait(Duration::ZERO)?;
            self.sides.iter_mut().for_each(|side| side.is_ready = true);
        }
        Ok(())
    }

    /// Asks which interfaces have packets, and sleeps until one does.
    fn wait(&mut self, patience: Duration) -> Result<(), KernelLoopError> {
        self.since_poll = 0;
        add(&self.attached.side.kernel_counts().waits, 1);
        let [one, other] = &self.sides;
        let mut polled = [
            PollFd::from_borrowed_fd(one.interface.ear(), PollFlags::IN),
            PollFd::from_borrowed_fd(other.interface.ear(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.attached.socket.as_fd(), PollFlags::IN),
        ];
        if !patience.is_zero() {
            add(&self.attached.side.progress().sleeps, 1);
        }
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        // Interrupted, the orders are checked as well.
        let _ = rustix::event::poll(&mut polled, Some(&patience));
        let [one, other, manager] = polled.map(|polled| polled.revents());
        for (at, seen) in [one, other].into_iter().enumerate() {
            self.sides[at].is_ready |= seen.contains(PollFlags::IN);
            if seen.contains(PollFlags::ERR)
                && let Err(loss) = check_error(self.sides[at].interface.ear())
            {
                self.note_loss(at, loss)?;
            }
        }
        if manager.contains(PollFlags::HUP) {
            return Err(KernelLoopError::ManagerGone);
        }
        if manager.contains(PollFlags::IN) { self.read_mail() } else { Ok(()) }
    }

    #[cold]
    fn read_mail(&mut self) -> Result<(), KernelLoopError> {
        self.mail_read = self.attached.side.orders().mail.load(Ordering::Acquire);
        loop {
            match self.attached.hear() {
                Ok(Some(ToNf::Message { body, number })) => {
                    mail::deliver(self.nfs, self.environment, number, &body);
                }
                Ok(Some(_)) | Err(MessageError::Garbled(_)) => {} // Not for us; a newer manager's, perhaps.
                Ok(None) => {
                    self.send_made()?;
                    return Ok(self.environment.tell_counters()?);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn publish(&mut self) -> Result<(), KernelLoopError> {
        for at in 0..self.sides.len() {
            if let Err(loss) = self.sides[at].interface.check_losses() {
                self.note_loss(at, loss)?;
            }
        }
        self.publish_counts();
        Ok(())
    }

    fn publish_counts(&self) {
        for (side, place) in self.sides.iter().zip(&self.attached.side.kernel_counts().interfaces) {
            publish(side, place);
        }
        // Last, so that what has ended is known to have come.
        self.attached.side.kernel_counts().dropped.store(self.dropped, Ordering::Relaxed);
    }
}

fn publish(side: &Side, place: &InterfaceCounts) {
    let counts = side.interface.counts();
    place.received.store(counts.received, Ordering::Relaxed);
    place.sent.store(counts.sent, Ordering::Relaxed);
    place.calls.store(counts.calls, Ordering::Relaxed);
    place.lost.store(counts.lost, Ordering::Relaxed);
    place.unsent.store(counts.unsent, Ordering::Relaxed);
    place.too_long.store(counts.too_long, Ordering::Relaxed);
}

/// Adds to a value only this thread writes.
fn add(value: &AtomicU64, more: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}
