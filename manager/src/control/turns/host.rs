//! The threads that give turns: one on each core for its own NFs, or one on a core of its own for all.
//!
//! On the NFs' core it sleeps on a timer, and the switch is a change of priorities on the same core: the timer's
//! interrupt is all that leaves a virtual machine. From another core each switch is an interrupt between cores,
//! for which the NFs wait some 20 us in a virtual machine and a microsecond outside; but whoever polls sees an
//! empty ring at once, and no time of the NFs' core is spent on looking.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headgate_decide::turn::Rules;
use headgate_decide::turn::objective::Objective;
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::clock::Clock;
use headgate_host::sched::{self, SchedError};
use headgate_host::{Pid, cores};

use super::floor::{Floor, Runner, SCHEDULER, Tally};

/// The shortest turn where the core's own timer ends it: what that and the switch take in a virtual machine
/// (9-10 us on the machine this was written on; a wake-up without a switch takes 8).
const TURN_MIN_HERE: Span = Span::from_micros(10);
/// The same from another core: until the other NF runs (19-27 us, evidence.md).
const TURN_MIN_THERE: Span = Span::from_micros(20);
/// How often a scheduler with a core of its own looks (UNiS, section 3.3: every microsecond).
const LOOK_EVERY: Span = Span::from_micros(1);
/// How soon the control loop is heard at the latest.
const LISTEN_EVERY: Span = Span::from_millis(2);
/// How long the control loop waits to be heard. A thread that takes longer has hung or ended.
const PATIENCE: Duration = Duration::from_millis(50);

/// The NFs of one core.
pub struct Order {
    /// In the order in which packets pass them.
    pub runners: Vec<Runner>,
    /// What is asked of their chains.
    pub objectives: Vec<Objective>,
    /// What their core does.
    pub tally: Arc<Tally>,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Option<Vec<Order>>>,
    /// Orders given, and those that are in force.
    given: AtomicU64,
    taken: AtomicU64,
    stops: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// A scheduler. Dropping it gives its NFs their own policies back.
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Where a scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// On the core of its NFs.
    Here(u32),
    /// On a core of its own, or one that it shares with a worker.
    There {
        /// The core.
        core: u32,
        /// Whether a worker needs it too.
        shared: bool,
    },
}

impl Seat {
    const fn core(self) -> u32 {
        match self {
            Self::Here(core) | Self::There { core, .. } => core,
        }
    }
}

/// How turns are given.
#[derive(Clone, Copy)]
pub struct Manner {
    /// gamma, in percent.
    pub gamma_percent: u32,
    /// Whether rings end a turn.
    pub occupancy: bool,
}

impl Host {
    /// Starts one. `admit` gives its thread a right to real time that its control group lacks.
    pub fn start(
        seat: Seat,
        manner: Manner,
        clock: Clock,
        admit: impl FnOnce(Pid) -> Result<(), String>,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = channel();
        let (answer, answered) = channel();
        let (theirs, name) = (shared.clone(), format!("hg-turns-{}", seat.core()));
        let body = move || {
            if begin(seat, &tell, &answered) {
                Schedule { seat, manner, clock, shared: theirs, floors: Vec::new() }.run();
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(body);
        let thread = thread.map_err(|error| format!("no thread for turns: {error}"))?;
        let host = Self { shared, thread: Some(thread) };
        match told.recv() {
            Ok(Begin::Ready) => Ok(host),
            Ok(Begin::NeedsTime(thread)) => {
                // Whether it is let in or not, it tries again and says so.
                let refused = admit(thread).err();
                let _ = answer.send(());
                match told.recv() {
                    Ok(Begin::Ready) => Ok(host),
                    Ok(Begin::Failed(why)) => Err(refused.unwrap_or(why)),
                    _ => Err("the thread for turns ended".to_owned()),
                }
            }
            Ok(Begin::Failed(why)) => Err(why),
            Err(_) => Err("the thread for turns ended".to_owned()),
        }
    }

    /// These NFs have turns from now on, and no others: whoever is not among them is not touched any more once
    /// this returns.
    pub fn order(&self, orders: Vec<Order>) {
        *lock(&self.shared.orders) = Some(orders);
        let given = self.shared.given.fetch_add(1, Ordering::Release) + 1; // O-release, with O-acquire
        let began = Instant::now();
        while self.shared.taken.load(Ordering::Acquire) < given // T-acquire, with T-release
            && !self.has_ended()
            && began.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Whether its thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What an NF's process was refused, if it was since the last call.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shared.trouble).take()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so, and given back what it had.
            let _ = thread.join();
        }
    }
}

/// A thread that panicked left a whole value.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

enum Begin {
    Ready,
    NeedsTime(Pid),
    Failed(String),
}

/// On its core, and before its NFs. True when that worked.
fn begin(seat: Seat, tell: &Sender<Begin>, answered: &Receiver<()>) -> bool {
    let attempt = || -> Result<(), SchedError> {
        match seat {
            Seat::Here(_) => sched::raise(None, SCHEDULER),
            Seat::There { .. } => Ok(()),
        }
    };
    let result = match cores::pin_current_thread(seat.core()) {
        Err(error) => Err(error.to_string()),
        Ok(()) => match attempt() {
            Err(SchedError::NotPermitted { .. }) => {
                let _ = tell.send(Begin::NeedsTime(rustix::thread::gettid()));
                let _ = answered.recv();
                attempt().map_err(|error| error.to_string())
            }
            result => result.map_err(|error| error.to_string()),
        },
    };
    let good = result.is_ok();
    let _ = tell.send(result.map_or_else(Begin::Failed, |()| Begin::Ready));
    good
}

/// What the thread has.
struct Schedule {
    seat: Seat,
    manner: Manner,
    clock: Clock,
    shared: Arc<Shared>,
    floors: Vec<Floor>,
}

impl Schedule {
    fn run(mut self) {
        while !self.shared.stops.load(Ordering::Relaxed) {
            self.hear();
            let now = Moment(self.clock.now_ns());
            let mut due = now + LISTEN_EVERY;
            for floor in &mut self.floors {
                due = due.min(floor.look(now));
                if let Some(error) = floor.refused() {
                    *lock(&self.shared.trouble) = Some(error.to_string());
                }
            }
            self.wait(now, due);
        }
    }

    fn wait(&self, now: Moment, due: Moment) {
        match self.seat {
            // The look itself took time, perhaps more than a turn: whoever was chosen has its part of it.
            Seat::Here(_) => {
                let least = Moment(self.clock.now_ns()) + TURN_MIN_HERE;
                self.clock.sleep_until(due.max(least).0);
            }
            Seat::There { shared: true, .. } => std::thread::yield_now(),
            Seat::There { .. } => {
                let until = (now + LOOK_EVERY).0;
                while self.clock.now_ns() < until {
                    std::hint::spin_loop();
                }
            }
        }
    }

    /// Takes new orders, if there are some.
    fn hear(&mut self) {
        let given = self.shared.given.load(Ordering::Acquire); // O-acquire, with O-release
        if given == self.shared.taken.load(Ordering::Relaxed) {
            return;
        }
        // Never waits for a thread that the kernel lets wait; the next look is soon.
        let Some(orders) = self.shared.orders.try_lock().ok().and_then(|mut orders| orders.take()) else {
            return;
        };
        let turn_min = if matches!(self.seat, Seat::Here(_)) { TURN_MIN_HERE } else { TURN_MIN_THERE };
        let Manner { gamma_percent, occupancy } = self.manner;
        let rules = Rules { gamma_percent, occupancy, turn_min };
        let mut before = std::mem::take(&mut self.floors).into_iter();
        for order in orders {
            // Cores come in one order always.
            let old = before.next();
            let mut floor = Floor::new(rules, order.runners, order.objectives, order.tally, old.as_ref());
            if let Some(old) = old {
                floor.follow(old);
            }
            self.floors.push(floor);
        }
        drop(before);
        self.shared.taken.store(given, Ordering::Release); // T-release, with T-acquire
    }
}
