//! Open vSwitch of a chain: a thread that starts it, watches it and starts it again.
//!
//! Its processes die with the thread that started them, and starting takes a tenth of a second; so neither is
//! the control loop's. When a switch dies, NFs notice only that packets do not come: their ends of the cables
//! stay.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headgate_decide::restart::{Policy, Restart};
use headgate_decide::units::Instant as Moment;
use headgate_host::namespace::Namespace;
use headgate_host::openvswitch::{Datapath, OpenVSwitch, Port, SwitchError};
use headgate_host::undo::Janitor;
use headgate_host::{Pid, cores, process};

use crate::scratch::Scratch;
use crate::status::SwitchStatus;

/// Time between two checks whether it has ended. Our choice: no person sees the delay, and checks cost
/// nothing.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Order to join two interfaces, and the channel for its result.
type Order = ([Port; 2], Sender<Result<(), String>>);

/// Switch of one chain. Dropping it ends it.
pub struct Switch {
    /// Channel of orders; `None` once it is to end.
    orders: Option<Sender<Order>>,
    events: Receiver<String>,
    status: Arc<Mutex<SwitchStatus>>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Makes a switch for this namespace and this core. It starts when it has something to join.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(namespace: Arc<Namespace>, core: u32, janitor: Option<Arc<Janitor>>) -> Result<Self, String> {
        let (orders, inbox) = channel();
        let (tell, events) = channel();
        let datapath = Datapath::of_this_machine();
        let status = SwitchStatus { datapath: datapath.word().to_owned(), core, ..SwitchStatus::default() };
        let status = Arc::new(Mutex::new(status));
        let keeper = Keeper {
            namespace,
            core,
            janitor,
            datapath,
            tell,
            status: status.clone(),
            running: None,
            seen_ns: 0,
            hops: Vec::new(),
            restart: Restart::default(),
            began: Instant::now(),
            due: None,
        };
        let thread = thread::Builder::new().name("hg-switch".to_owned()).spawn(move || keeper.run(&inbox));
        let thread = thread.map_err(|error| format!("no thread for Open vSwitch: {error}"))?;
        Ok(Self { orders: Some(orders), events, status, thread: Some(thread) })
    }

    /// Joins two interfaces of its namespace, and waits until they are joined.
    ///
    /// # Errors
    /// A sentence.
    pub fn join(&mut self, ends: [Port; 2]) -> Result<(), String> {
        let (answer, answered) = channel();
        let gone = || "the thread of Open vSwitch has ended; this is a bug".to_owned();
        self.orders.as_ref().ok_or_else(gone)?.send((ends, answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// Returns its events since the last call.
    pub fn events(&mut self) -> Vec<String> {
        self.events.try_iter().collect()
    }

    /// Returns its status.
    pub fn status(&self) -> SwitchStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.cpu_ns += cpu_ns(status.pid);
        status
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked took its processes along.
            let _ = thread.join();
        }
    }
}

/// Running switch, and its folder, which outlives it.
struct Running {
    switch: OpenVSwitch,
    _folder: Scratch,
}

/// State of the thread.
struct Keeper {
    namespace: Arc<Namespace>,
    core: u32,
    janitor: Option<Arc<Janitor>>,
    datapath: Datapath,
    tell: Sender<String>,
    status: Arc<Mutex<SwitchStatus>>,
    running: Option<Running>,
    /// Last sample of the running one's CPU time: it cannot be read after its end.
    seen_ns: u64,
    /// Pairs of interfaces to join.
    hops: Vec<[Port; 2]>,
    restart: Restart,
    began: Instant,
    /// Time to start it again.
    due: Option<Moment>,
}

impl Keeper {
    fn run(mut self, inbox: &Receiver<Order>) {
        // Its processes have our cores. A missing core was refused with the configuration.
        let _ = cores::pin_current_thread(self.core);
        loop {
            match inbox.recv_timeout(POLL_EVERY) {
                Ok((ends, answer)) => {
                    let joined = self.join(ends).map_err(|error| error.to_string());
                    // The control loop waits for it.
                    let _ = answer.send(joined);
                }
                Err(RecvTimeoutError::Timeout) => self.poll(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn join(&mut self, ends: [Port; 2]) -> Result<(), SwitchError> {
        if !self.hops.contains(&ends) {
            self.hops.push(ends.clone());
        }
        match &self.running {
            Some(running) => running.switch.join(&self.namespace, &ends),
            None => self.start(),
        }
    }

    /// Starts it and joins all that is to be joined.
    fn start(&mut self) -> Result<(), SwitchError> {
        self.due = None;
        self.restart.on_start(self.now());
        let folder = Scratch::make(self.janitor.as_ref()).map_err(SwitchError::NoFolder)?;
        let switch = OpenVSwitch::start(&self.namespace, folder.path(), self.datapath)?;
        for ends in &self.hops {
            switch.join(&self.namespace, ends)?;
        }
        let pid = switch.process().pid().as_raw_pid() as u32;
        self.change_status(|status| status.pid = Some(pid));
        self.running = Some(Running { switch, _folder: folder });
        Ok(())
    }

    /// Notices its end, and starts it again when it is time.
    fn poll(&mut self) {
        if let Some(running) = &mut self.running {
            match running.switch.ended() {
                Ok(None) => {
                    let pid = running.switch.process().pid();
                    self.seen_ns = process::cpu_time_ns(pid).unwrap_or(self.seen_ns);
                }
                Ok(Some(why)) => self.fail(&why.to_string()),
                Err(error) => self.fail(&error.to_string()),
            }
        } else if self.due.is_some_and(|due| due <= self.now()) {
            match self.start() {
                Ok(()) => self.say("its Open vSwitch passes packets on again".to_owned()),
                Err(why) => self.fail(&why.to_string()),
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.running = None;
        let used_ns = std::mem::take(&mut self.seen_ns);
        self.change_status(|status| {
            status.cpu_ns += used_ns;
            status.pid = None;
            status.failures += 1;
        });
        let now = self.now();
        let again = self.restart.on_failure(now, &Policy::default());
        self.due = Some(again);
        let wait = (again - now).0 / 1_000_000;
        self.say(format!("nothing passes between its NFs: Open vSwitch failed: {why}; restart in {wait} ms"));
    }

    fn say(&self, what: String) {
        // The listener ends us before it stops listening.
        let _ = self.tell.send(what);
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().as_nanos() as u64)
    }

    fn change_status(&self, change: impl FnOnce(&mut SwitchStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the CPU time of a process so far.
fn cpu_ns(pid: Option<u32>) -> u64 {
    let pid = pid.and_then(|pid| Pid::from_raw(pid as i32));
    pid.and_then(|pid| process::cpu_time_ns(pid).ok()).unwrap_or(0)
}
