//! Threads that give time slices: one on each core for its own NFs, or one on a core of its own for all.
//! [`headgate_decide::slice::pace`] decides how they wait between two samples.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headgate_decide::slice::pace::{Seat, Wait};
use headgate_decide::slice::{Rules, price};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::clock::Clock;
use headgate_host::sched::{self, Policy, SchedError};
use headgate_host::{Pid, cores};

use super::core::{CoreOrder, Linux, SCHEDULER, SlicedCore};
use super::switch;
use crate::record::Recorder;

/// Time that the control loop waits for a scheduler to take its orders. A thread that takes longer has hung
/// or ended.
const PATIENCE: Duration = Duration::from_millis(50);

/// The manager's clock, as a scheduler's thread reads it.
#[derive(Clone, Copy)]
pub struct ManagerClock {
    /// The clock.
    pub clock: Clock,
    /// Reading of the clock when the manager started, in nanoseconds.
    pub started_ns: u64,
}

impl ManagerClock {
    fn now(&self) -> Moment {
        Moment(self.clock.now_ns().saturating_sub(self.started_ns))
    }

    fn sleep_until(&self, moment: Moment) {
        self.clock.sleep_until(self.started_ns + moment.0);
    }
}

/// Place of a scheduler, and its rules.
#[derive(Clone)]
pub struct Place {
    /// Core it runs on.
    pub core: u32,
    /// Whether that core is its NFs' own.
    pub seat: Seat,
    /// Core of NFs on which a switch is measured.
    pub measured_on: u32,
    /// Rules by which slices are given, but for the price of a switch.
    pub rules: Rules,
    /// The clock.
    pub clock: ManagerClock,
    /// Recorder of decisions; does nothing unless they are recorded.
    pub recorder: Recorder,
}

#[derive(Default)]
struct Shared {
    orders: Mutex<Option<Vec<CoreOrder>>>,
    /// Number of orders given, and of those in force.
    given: AtomicU64,
    taken: AtomicU64,
    stops: AtomicBool,
    refused: Mutex<Option<String>>,
}

/// Scheduler of one or more cores. Dropping it gives its NFs their own policies back.
pub struct Scheduler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    switch: Result<Span, String>,
}

impl Scheduler {
    /// Starts one. `admit` gives its thread a right to real time that its control group lacks.
    ///
    /// # Errors
    /// A sentence.
    pub fn start(place: Place, admit: impl FnOnce(Pid) -> Result<(), String>) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = channel();
        let (answer, answered) = channel();
        let (theirs, name) = (shared.clone(), format!("hg-slices-{}", place.core));
        let body = move || {
            if let Some(rules) = begin(&place, &tell, &answered) {
                Running { place, rules, shared: theirs, cores: Vec::new() }.run();
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(body);
        let thread = thread.map_err(|error| format!("no thread for time slices: {error}"))?;
        // Dropped without it when it cannot begin.
        let mut scheduler = Self { shared, thread: Some(thread), switch: Ok(Span::ZERO) };
        let ended = || "the thread for time slices ended".to_owned();
        let mut first = told.recv().map_err(|_| ended())?;
        let mut refused = None;
        if let Begin::NeedsTime(thread) = first {
            // Admitted or not, it tries again and reports the result.
            refused = admit(thread).err();
            let _ = answer.send(());
            first = told.recv().map_err(|_| ended())?;
        }
        match first {
            Begin::Ready(switch) => {
                scheduler.switch = switch;
                Ok(scheduler)
            }
            Begin::Failed(why) => Err(refused.unwrap_or(why)),
            Begin::NeedsTime(_) => Err(ended()),
        }
    }

    /// Returns what a switch costs; if that could not be measured, the reason.
    ///
    /// # Errors
    /// A sentence.
    pub fn switch(&self) -> Result<Span, &str> {
        self.switch.as_ref().copied().map_err(String::as_str)
    }

    /// Gives slices to these NFs from now on, and to no others: one that is not among them is not touched any
    /// more once this returns. Cores come in one order always.
    pub fn order(&self, orders: Vec<CoreOrder>) {
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

    /// Returns whether its thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the reason why an NF's priority could not be set, if that happened since the last call.
    pub fn refused(&self) -> Option<String> {
        lock(&self.shared.refused).take()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed so, and given back what it had.
            let _ = thread.join();
        }
    }
}

/// Locks a mutex; a thread that panicked left a whole value.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

enum Begin {
    /// With the price of a switch, or the reason why there is none.
    Ready(Result<Span, String>),
    NeedsTime(Pid),
    Failed(String),
}

/// Moves the thread to its core and above its NFs, and measures a switch. Returns its rules when it may
/// begin.
fn begin(place: &Place, tell: &Sender<Begin>, answered: &Receiver<()>) -> Option<Rules> {
    let attempt = || -> Result<(), SchedError> {
        match place.seat {
            Seat::OwnCore => sched::raise(None, SCHEDULER),
            Seat::OtherCore { .. } => Ok(()),
        }
    };
    let result = match cores::pin_current_thread(place.core) {
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
    if let Err(why) = result {
        let _ = tell.send(Begin::Failed(why));
        return None;
    }
    let measured = measured(place);
    let rules = Rules { switch: *measured.as_ref().unwrap_or(&price::ASSUMED), ..place.rules };
    let _ = tell.send(Begin::Ready(measured));
    Some(rules)
}

/// Measures a switch. On its own core its stand-ins inherit the priority meanwhile: in the weights of control
/// groups, NFs that spin may keep a new thread without one from running for some 30 ms.
fn measured(place: &Place) -> Result<Span, String> {
    let inherit = matches!(place.seat, Seat::OwnCore);
    if inherit {
        sched::set(None, Policy::Fifo { priority: SCHEDULER }).map_err(|error| error.to_string())?;
    }
    let measured = switch::measure(place.clock.clock, place.seat, place.measured_on);
    if inherit {
        sched::raise(None, SCHEDULER).map_err(|error| error.to_string())?;
    }
    measured
}

/// State of the thread.
struct Running {
    place: Place,
    rules: Rules,
    shared: Arc<Shared>,
    cores: Vec<SlicedCore>,
}

impl Running {
    fn run(mut self) {
        while !self.shared.stops.load(Ordering::Relaxed) {
            self.hear();
            let now = self.place.clock.now();
            let mut due = None;
            for core in &mut self.cores {
                due = due.into_iter().chain(core.sample(now)).min();
                if let Some(error) = core.refused() {
                    *lock(&self.shared.refused) = Some(error.to_string());
                }
            }
            self.wait(now, due);
        }
    }

    fn wait(&self, sampled: Moment, due: Option<Moment>) {
        let clock = &self.place.clock;
        match self.place.seat.wait(self.rules.slice_min(), sampled, clock.now(), due) {
            Wait::Sleep(until) => clock.sleep_until(until),
            Wait::Yield => std::thread::yield_now(),
            Wait::Spin(until) => {
                while !until.is_due(clock.now()) {
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
        // Never waits for a thread that the kernel keeps waiting; the next pass is soon.
        let Some(orders) = self.shared.orders.try_lock().ok().and_then(|mut orders| orders.take()) else {
            return;
        };
        let Place { clock, recorder, .. } = &self.place;
        let now = clock.now();
        let mut before = std::mem::take(&mut self.cores).into_iter();
        for order in orders {
            self.cores.push(SlicedCore::new(Linux, now, self.rules, order, recorder, before.next()));
        }
        drop(before);
        self.shared.taken.store(given, Ordering::Release); // T-release, with T-acquire
    }
}
