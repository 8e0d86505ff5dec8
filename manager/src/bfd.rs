//! BFD sessions of a node, one for each link, on a thread of their own (RFC 5880, 5881, and 5883 over
//! routed networks).
//!
//! What a session does is [`headgate_decide::bfd`]'s; this is its clock and its sockets. The thread has a
//! real-time priority where the kernel grants one, because packets that are late by a few intervals take a
//! neighbour down that is alive. It watches the workers and the control loop too: a node whose data plane
//! stands still says so (diagnostic 4), however well this thread runs.

#[cfg(test)]
mod frr;
mod session;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_decide::bfd::State;
use headgate_decide::unheard::unheard_max;
use headgate_decide::units::{Instant, Span};
use headgate_host::clock::Clock;
use headgate_host::neighbour::NeighbourError;
use headgate_host::sched::{self, Policy};
use headgate_path::board::Board;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::model::Node;
use crate::status::{BfdStatus, Event, EventCode};
use session::Session;

/// Real-time priority of the thread. Our choice: above nothing but ordinary tasks and NFs with the lowest
/// real-time priority; it runs for microseconds.
const PRIORITY: u8 = 2;
/// Longest sleep of the thread, after which it sees whether it is to end.
const SLEEP_MAX: Span = Span::from_millis(50);
/// Time without progress after which a worker or the control loop stands still. Our choice: far above the
/// time that the control loop may be blocked by the kernel, or a worker waits for its core on a busy machine.
const STANDSTILL: Span = Span::from_secs(1);

/// Reason why a link's session cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BfdError {
    /// Its interface or its address cannot be used.
    #[error(transparent)]
    Socket(#[from] NeighbourError),
    /// No thread could be started.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

/// Change of what can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach<'a> {
    /// A link, by its number, is up or down.
    Link(u16, bool),
    /// A node has a link that is up, or none.
    Node(&'a str, bool),
}

/// Receiver of changes of reach, in the thread of the sessions: at once, for a control loop has its pace.
pub type ReachTold = Box<dyn FnMut(Reach<'_>) + Send>;

/// Sessions of a node, and their thread.
pub struct Sessions {
    shared: Arc<Shared>,
    events: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Passes of the control loop.
    passes: AtomicU64,
    /// Whether each link is up.
    up: Vec<AtomicBool>,
    status: Mutex<Vec<BfdStatus>>,
}

impl Sessions {
    /// Opens the sessions of a node's links and starts their thread. `started_ns` is when the manager's time
    /// begins; `reach` hears of each change at once.
    ///
    /// # Errors
    /// [`BfdError`] of the first link that cannot be used.
    pub fn start(
        node: &Node,
        clock: Clock,
        started_ns: u64,
        boards: Vec<Arc<Board>>,
        reach: ReachTold,
    ) -> Result<Self, BfdError> {
        let now = Instant(clock.now_ns().saturating_sub(started_ns));
        let open = |link| Session::open(link, now);
        let sessions = node.links.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let up = sessions.iter().map(|_| AtomicBool::new(false)).collect();
        let shared = Arc::new(Shared { up, ..Shared::default() });
        let (tell, events) = channel();
        let watch = Watch::new(boards, shared.clone(), now);
        let reached = BTreeSet::new();
        let unheard = patience(node, now);
        let shared_too = shared.clone();
        let mut runner =
            Runner { sessions, shared: shared_too, clock, started_ns, tell, reach, watch, reached, unheard };
        runner.publish();
        let thread = std::thread::Builder::new().name("hg-bfd".to_owned());
        let thread = thread.spawn(move || runner.run()).map_err(BfdError::Thread)?;
        Ok(Self { shared, events, thread: Some(thread) })
    }

    /// Says that the control loop makes a pass. Returns what happened since the last.
    pub fn tend(&self) -> Vec<Event> {
        self.shared.passes.fetch_add(1, Ordering::Relaxed);
        self.events.try_iter().collect()
    }

    /// Returns whether each link is up, in the order of the node's links.
    pub fn are_up(&self) -> impl Iterator<Item = bool> + '_ {
        self.shared.up.iter().map(|up| up.load(Ordering::Relaxed))
    }

    /// Returns the state of each session.
    pub fn status(&self) -> Vec<BfdStatus> {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

/// Returns until when each peer of a node may stay unheard: by its slowest link.
fn patience(node: &Node, now: Instant) -> BTreeMap<String, Instant> {
    let mut until = BTreeMap::new();
    for link in &node.links {
        let of_link = now + unheard_max(Span(link.bfd.interval_ns));
        let of_peer = until.entry(link.peer.clone()).or_insert(of_link);
        *of_peer = of_link.max(*of_peer);
    }
    until
}

/// Whether the workers and the control loop advance.
struct Watch {
    boards: Vec<Arc<Board>>,
    shared: Arc<Shared>,
    /// Passes of each when it was last seen to advance, and when that was.
    seen: Vec<(u64, Instant)>,
}

impl Watch {
    fn new(boards: Vec<Arc<Board>>, shared: Arc<Shared>, now: Instant) -> Self {
        let seen = vec![(0, now); boards.len() + 1];
        Self { boards, shared, seen }
    }

    fn advances(&mut self, now: Instant) -> bool {
        let workers = self.boards.iter().map(|board| board.passes.get());
        let passes = workers.chain([self.shared.passes.load(Ordering::Relaxed)]);
        let mut all = true;
        for (passes, seen) in passes.zip(&mut self.seen) {
            if passes != seen.0 {
                *seen = (passes, now);
            }
            all &= now < seen.1 + STANDSTILL;
        }
        all
    }
}

struct Runner {
    sessions: Vec<Session>,
    shared: Arc<Shared>,
    clock: Clock,
    started_ns: u64,
    tell: Sender<Event>,
    reach: ReachTold,
    watch: Watch,
    /// Nodes to which a link is up.
    reached: BTreeSet<String>,
    /// Nodes to which no link was up yet, and when each counts as out of reach.
    unheard: BTreeMap<String, Instant>,
}

impl Runner {
    fn run(&mut self) {
        if let Err(error) = sched::set(None, Policy::Fifo { priority: PRIORITY }) {
            let what =
                format!("BFD runs without real-time priority, and may lose sessions under load: {error}");
            self.say(EventCode::SchedulingLimited, "bfd", what);
        }
        let mut advances = true;
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let now = self.now();
            let was = std::mem::replace(&mut advances, self.watch.advances(now));
            if was != advances {
                self.sessions.iter_mut().for_each(|session| session.data_plane(now, advances));
            }
            for session in &mut self.sessions {
                session.receive(now);
                session.poll(now);
            }
            self.tell_changes();
            self.tell_unheard(now);
            self.sleep();
        }
        let now = self.now();
        self.sessions.iter_mut().for_each(|session| session.take_out_of_use(now));
    }

    fn now(&self) -> Instant {
        Instant(self.clock.now_ns().saturating_sub(self.started_ns))
    }

    /// Tells each change of a session, and of the reach of a node: it is out of reach when all links to it
    /// are down, and one of several is passed by.
    fn tell_changes(&mut self) {
        let mut is_changed = false;
        for place in 0..self.sessions.len() {
            let Some((before, what)) = self.sessions[place].take_change() else { continue };
            is_changed = true;
            let is_up = self.sessions[place].state() == State::Up;
            self.shared.up[place].store(is_up, Ordering::Relaxed);
            let code = match (before == State::Up, is_up) {
                (false, true) => EventCode::LinkUp,
                (true, false) => EventCode::LinkDown,
                _ => continue,
            };
            (self.reach)(Reach::Link(self.sessions[place].number(), code == EventCode::LinkUp));
            self.say(code, self.sessions[place].peer(), what);
        }
        if is_changed {
            self.tell_reach();
        }
        if self.sessions.iter_mut().any(Session::take_counted) || is_changed {
            self.publish();
        }
    }

    /// Tells which nodes came within reach or are out of it, once each however many links changed at once.
    fn tell_reach(&mut self) {
        let up = self.sessions.iter().filter(|session| session.state() == State::Up);
        let now: BTreeSet<String> = up.map(|session| session.peer().to_owned()).collect();
        for peer in now.difference(&self.reached) {
            self.unheard.remove(peer);
            (self.reach)(Reach::Node(peer, true));
            self.say(EventCode::NodeReached, peer, "the node is within reach".to_owned());
        }
        for peer in self.reached.difference(&now) {
            (self.reach)(Reach::Node(peer, false));
            let what = "the node is out of reach: all links to it are down".to_owned();
            self.say(EventCode::NodeLost, peer, what);
        }
        self.reached = now;
    }

    /// Tells which nodes were never heard for too long.
    fn tell_unheard(&mut self, now: Instant) {
        let lost = self.unheard.extract_if(.., |_, until| *until <= now).collect::<Vec<_>>();
        for (peer, _) in lost {
            (self.reach)(Reach::Node(&peer, false));
            let what = "the node is out of reach: it was not heard since this one started".to_owned();
            self.say(EventCode::NodeLost, &peer, what);
        }
    }

    fn say(&self, code: EventCode, who: &str, what: String) {
        // A control loop that has ended hears nothing any more.
        let _ = self.tell.send(Event::new(self.now().0, code, who, what));
    }

    fn publish(&mut self) {
        let status = self.sessions.iter().map(Session::status).collect();
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Sleeps until a packet comes or a session is due.
    fn sleep(&self) {
        let now = self.now();
        let of_sessions = self.sessions.iter().filter_map(Session::poll_at);
        let due = of_sessions.chain(self.unheard.values().copied()).min();
        let rest =
            due.map_or(SLEEP_MAX, |due| if due > now { (due - now).min(SLEEP_MAX) } else { Span::ZERO });
        let mut sockets: Vec<PollFd<'_>> =
            self.sessions.iter().map(|session| PollFd::new(session.socket(), PollFlags::IN)).collect();
        let rest = Duration::from_nanos(rest.0);
        let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) };
        // Interrupted or not, what is due is seen next.
        let _ = poll(&mut sockets, Some(&rest));
    }
}
