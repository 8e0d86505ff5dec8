//! Beats: what this node says of its NFs to the others, and hears of theirs, on a thread of its own.
//!
//! Each node sends a datagram to each neighbour, once in a beat, with what it has itself and the newest that
//! it knows of every other living node ([`headgate_decide::peers`]). A datagram is heeded if it comes by a
//! link from the neighbour's address with a TTL of 255, as BFD's, and can be read ([`headgate_wire::beat`]).

#[cfg(test)]
mod tests;

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_decide::peers::{BeatNumber, Heard, Peers};
use headgate_decide::routes::Network;
use headgate_decide::units::{Instant, Span};
use headgate_host::clock::{self, Clock};
use headgate_host::neighbour::{self, NeighbourError};
use headgate_host::sched::{self, Policy};
use headgate_wire::beat::{BYTES_MAX, Datagram, Offer, PORT, Record, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::model::{Node, NodeLink};
use crate::status::BeatStatus;

/// Real-time priority of the thread: that of BFD's, for the same reason.
const PRIORITY: u8 = 2;
/// TTL of a datagram that no router has forwarded (RFC 5082).
const TTL: u8 = 255;
/// Datagrams read at once by a link. Our choice: a neighbour of a large network sends some in a beat.
const BURST: usize = 64;
/// Longest sleep, after which the thread sees whether it is to end.
const SLEEP_MAX: Span = Span::from_millis(50);

/// Reason why there are no beats.
#[derive(Debug, thiserror::Error)]
pub enum BeatsError {
    /// The address of a link cannot be used.
    #[error(transparent)]
    Socket(#[from] NeighbourError),
    /// No thread could be started.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
}

/// What a node says of one of its NFs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// The NF.
    pub nf: String,
    /// Instances that run.
    pub instances: u16,
    /// Price of their core without a scale.
    pub kappa: f64,
    /// Time that a packet takes, in nanoseconds; 0: not known.
    pub service_ns: u32,
    /// Whether it keeps the flows that it has and gets no others.
    pub leaving: bool,
}

/// A node that came or was lost, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is heard.
    Heard(usize),
    /// It is not any more.
    Lost(usize),
}

/// What is known of another node.
#[derive(Clone, Debug, Default)]
struct Said {
    /// Its last record as it came, and the link that it came by.
    record: Vec<u8>,
    by: usize,
    offers: Vec<Offered>,
}

struct Known {
    peers: Peers,
    said: Vec<Said>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    unsent: AtomicU64,
    received: AtomicU64,
    foreign: AtomicU64,
    malformed: AtomicU64,
    unknown: AtomicU64,
    old: AtomicU64,
}

struct Shared {
    is_over: AtomicBool,
    /// What this node says.
    own: Mutex<Vec<Offered>>,
    known: Mutex<Known>,
    counts: Counts,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Beats of a node, and their thread.
pub struct Beats {
    shared: Arc<Shared>,
    changes: Receiver<Change>,
    thread: Option<JoinHandle<()>>,
}

impl Beats {
    /// Opens the sockets of a node's links, and begins to send. `started_ns` is when the manager's time
    /// begins.
    ///
    /// # Errors
    /// [`BeatsError`].
    pub fn start(node: &Node, clock: Clock, started_ns: u64) -> Result<Self, BeatsError> {
        let open = |link: &NodeLink| -> Result<Neighbour, BeatsError> {
            let (address, is_routed) = ((link.peer_address, PORT).into(), link.is_routed());
            let socket = neighbour::of_link(&link.interface, (link.address, PORT).into(), is_routed)?;
            Ok(Neighbour { socket, address, is_routed })
        };
        let neighbours = node.links.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let network = Network { nodes: node.network.nodes.len() as u16, links: &node.network.links };
        let place = node.network.place(&node.name).unwrap_or_default();
        let every = Span(node.steering.unwrap_or_default().beat_ns);
        let peers = Peers::new(every, network.hops_to(place));
        let said = vec![Said::default(); node.network.nodes.len()];
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            own: Mutex::default(),
            known: Mutex::new(Known { peers, said }),
            counts: Counts::default(),
        });
        let (tell, changes) = channel();
        let since = clock::wall();
        let runner = Runner {
            neighbours,
            names: node.network.nodes.clone(),
            own: place.into(),
            number: BeatNumber { incarnation: since.as_nanos() as u64, sequence: 0 },
            every,
            due: Instant::default(),
            clock,
            started_ns,
            shared: shared.clone(),
            tell,
        };
        let thread = std::thread::Builder::new().name("hg-beats".to_owned());
        let thread = thread.spawn(move || runner.run()).map_err(BeatsError::Thread)?;
        Ok(Self { shared, changes, thread: Some(thread) })
    }

    /// Sets what this node says from the next beat on.
    pub fn say(&self, offers: Vec<Offered>) {
        *lock(&self.shared.own) = offers;
    }

    /// Returns the nodes that came or were lost since the last time.
    pub fn changes(&self) -> Vec<Change> {
        self.changes.try_iter().collect()
    }

    /// Returns what a living node says of all its NFs, and when it was heard; `None` where it is not alive.
    pub fn heard(&self, node: usize) -> Option<(Instant, Vec<Offered>)> {
        let known = lock(&self.shared.known);
        Some((known.peers.heard_at(node)?, known.said.get(node)?.offers.clone()))
    }

    /// Returns what was sent and came.
    pub fn status(&self) -> BeatStatus {
        let Counts { sent, unsent, received, foreign, malformed, unknown, old } = &self.shared.counts;
        let count = |one: &AtomicU64| one.load(Ordering::Relaxed);
        BeatStatus {
            sent: count(sent),
            unsent: count(unsent),
            received: count(received),
            foreign: count(foreign),
            malformed: count(malformed),
            unknown: count(unknown),
            old: count(old),
        }
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

struct Neighbour {
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether routers may be between.
    is_routed: bool,
}

struct Runner {
    neighbours: Vec<Neighbour>,
    names: Vec<String>,
    /// Place of this node.
    own: usize,
    number: BeatNumber,
    every: Span,
    due: Instant,
    clock: Clock,
    started_ns: u64,
    shared: Arc<Shared>,
    tell: Sender<Change>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Runner {
    fn run(mut self) {
        // Without it beats are late on a busy machine, as BFD says of its own.
        let _ = sched::set(None, Policy::Fifo { priority: PRIORITY });
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let now = self.now();
            self.receive(now);
            for lost in lock(&self.shared.known).peers.poll(now) {
                self.say(Change::Lost(lost));
            }
            if self.due.is_due(now) {
                // What a stopped process missed is not caught up with.
                self.due = if (self.due + self.every).is_due(now) { now } else { self.due } + self.every;
                self.send();
            }
            self.sleep();
        }
        // Others hear that there is nothing here any more.
        lock(&self.shared.own).clear();
        self.send();
    }

    fn now(&self) -> Instant {
        Instant(self.clock.now_ns().saturating_sub(self.started_ns))
    }

    fn say(&self, change: Change) {
        // A control loop that has ended hears nothing any more.
        let _ = self.tell.send(change);
    }

    /// Takes what came.
    fn receive(&self, now: Instant) {
        let counts = &self.shared.counts;
        // One byte more than any has, to see that one is too long.
        let mut bytes = [0; BYTES_MAX + 1];
        for (by, link) in self.neighbours.iter().enumerate() {
            for _ in 0..BURST {
                let Ok(came) = neighbour::receive(&link.socket, &mut bytes) else { break };
                add(&counts.received);
                let is_near = came.ttl == TTL || link.is_routed;
                if came.from != link.address.ip() || !is_near {
                    add(&counts.foreign);
                    continue;
                }
                match Datagram::new(&bytes[..came.length]) {
                    Ok(datagram) => datagram.records().for_each(|record| self.hear(now, by, &record)),
                    Err(_) => add(&counts.malformed),
                }
            }
        }
    }

    fn hear(&self, now: Instant, by: usize, record: &Record<'_>) {
        let counts = &self.shared.counts;
        let Some(node) = self.names.iter().position(|name| name == record.node) else {
            return add(&counts.unknown);
        };
        if node == self.own {
            // A neighbour tells what it heard of us.
            return;
        }
        let mut known = lock(&self.shared.known);
        let number = BeatNumber { incarnation: record.incarnation, sequence: record.sequence };
        let heard = known.peers.on_beat(now, node, number);
        match heard {
            Some(Heard::News | Heard::Back) => {
                let said = &mut known.said[node];
                said.by = by;
                said.record.clear();
                said.record.extend_from_slice(record.bytes);
                said.offers.clear();
                said.offers.extend(record.offers().map(offered));
            }
            Some(Heard::Old) => add(&counts.old),
            Some(Heard::Again) | None => {}
        }
        if heard == Some(Heard::Back) {
            self.say(Change::Heard(node));
        }
    }

    /// Sends what is known to each neighbour, but for what it said itself.
    fn send(&mut self) {
        self.number.sequence = self.number.sequence.wrapping_add(1);
        let own = lock(&self.shared.own).clone();
        for by in 0..self.neighbours.len() {
            let datagrams = self.datagrams(by, &own);
            let (link, counts) = (&self.neighbours[by], &self.shared.counts);
            for datagram in datagrams.iter().filter(|datagram| !datagram.is_empty()) {
                match link.socket.send_to(datagram.bytes(), link.address) {
                    Ok(_) => add(&counts.sent),
                    // An interface that is down, say: the neighbour misses it, as it should.
                    Err(_) => add(&counts.unsent),
                }
            }
        }
    }

    /// Returns what is said by a link.
    fn datagrams(&self, by: usize, own: &[Offered]) -> Vec<Writer> {
        let mut datagrams = vec![Writer::default()];
        let offers = own.iter().map(|one| Offer {
            nf: &one.nf,
            instances: one.instances,
            kappa: one.kappa as f32,
            service_ns: one.service_ns,
            leaving: one.leaving,
        });
        let number = (self.number.incarnation, self.number.sequence);
        // One of more NFs than fit says nothing: the configuration has fewer.
        let _ = datagrams[0].record(&self.names[self.own], number, offers);
        let known = lock(&self.shared.known);
        let alive = known.said.iter().enumerate().filter(|(node, _)| known.peers.is_alive(*node));
        for (_, said) in alive.filter(|(_, said)| said.by != by) {
            let last = datagrams.len() - 1;
            if datagrams[last].pass_on(&said.record).is_err() {
                let mut next = Writer::default();
                if next.pass_on(&said.record).is_ok() {
                    datagrams.push(next);
                }
            }
        }
        datagrams
    }

    /// Sleeps until a datagram comes or a beat is due.
    fn sleep(&self) {
        let now = self.now();
        let rest = if self.due > now { (self.due - now).min(SLEEP_MAX) } else { Span::ZERO };
        let mut sockets: Vec<PollFd<'_>> =
            self.neighbours.iter().map(|link| PollFd::new(&link.socket, PollFlags::IN)).collect();
        let rest = Duration::from_nanos(rest.0);
        let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) };
        // Interrupted or not, what is due is seen next.
        let _ = poll(&mut sockets, Some(&rest));
    }
}

fn offered(offer: Offer<'_>) -> Offered {
    let Offer { nf, instances, kappa, service_ns, leaving } = offer;
    Offered { nf: nf.to_owned(), instances, kappa: kappa.into(), service_ns, leaving }
}
