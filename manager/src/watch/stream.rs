//! A stream to a client: what the control loop hands over and shares with its thread, and what sinks are
//! given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headgate_api::request::write_line;
use headgate_api::watch::{DecisionTaken, EndReason, Missed, Said};
use headgate_decide::record::Line;
use headgate_host::clock::{self, Clock};
use headgate_path::trace::{At, Picks, Record, RecordReader};

use super::queue::Listener;
use crate::status::Event;

/// Names of what records name by numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Chains by number; `-` is none.
    pub chains: Vec<String>,
    /// Instances by number.
    pub instances: Vec<String>,
    /// Stages by number.
    pub stages: Vec<String>,
    /// Ports by number.
    pub ports: Vec<String>,
}

impl Names {
    pub fn of(names: &[String], number: usize) -> String {
        names.get(number).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| format!("({number})"))
    }

    /// Returns the name of a record's chain.
    pub fn chain(&self, record: &Record) -> String {
        Self::of(&self.chains, record.place.chain().index())
    }

    /// Returns the name of whom a step was at.
    pub fn at(&self, at: At) -> Option<String> {
        match at {
            At::Nowhere => None,
            At::Instance(number) => Some(Self::of(&self.instances, number.index())),
            At::Port(number) => Some(Self::of(&self.ports, number.index())),
        }
    }

    /// Returns the name of the port that a record's packet came by.
    pub fn port_of(&self, record: &Record) -> String {
        Self::of(&self.ports, record.place.port().index())
    }
}

/// State that the control loop and the thread of a client share.
#[derive(Debug, Default)]
pub struct Shared {
    names: Mutex<Arc<Names>>,
    over: Mutex<Option<EndReason>>,
    /// Whether the client's thread has ended.
    closed: AtomicBool,
}

impl Shared {
    /// Replaces the names.
    pub fn rename(&self, names: Arc<Names>) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Ends the stream.
    pub fn end(&self, reason: EndReason) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Returns whether nobody watches any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns the names.
    pub fn names(&self) -> Arc<Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the reason why the control loop ended the stream, if it did.
    pub fn over(&self) -> Option<EndReason> {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes beside packets.
pub struct Heard {
    /// Events.
    pub events: Listener<Event>,
    /// Decisions that are recorded.
    pub decisions: Listener<Line>,
    /// Decisions that are not: who is throttled, how flows are steered, what becomes of a group.
    pub taken: Listener<DecisionTaken>,
}

impl Heard {
    /// Returns how much found no room since the last call.
    pub fn take_lost(&self) -> u64 {
        self.events.take_lost() + self.decisions.take_lost() + self.taken.take_lost()
    }
}

/// Stream that was begun, as the control loop hands it to the thread of its client. Dropping it ends it.
pub struct Session {
    /// A ring of each worker.
    pub readers: Vec<RecordReader>,
    /// Packets that are followed, where some are.
    pub picks: Option<Arc<Picks>>,
    /// Events and decisions, where they are wanted.
    pub heard: Option<Heard>,
    /// State that the control loop sees.
    pub shared: Arc<Shared>,
    /// Clock of all times.
    pub clock: Clock,
    /// Stations of a named chain, as a capture names them.
    pub stations: Vec<String>,
}

impl Session {
    /// Returns what the rings could not take, and what workers did not look at, since the beginning.
    pub fn missed(&self) -> Missed {
        Missed {
            unseen_packets: self.readers.iter().map(RecordReader::unseen).sum(),
            lost_packets: self.readers.iter().map(RecordReader::lost).sum(),
            lines: 0,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(picks) = &self.picks {
            picks.stop();
        }
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

/// Times of records.
#[derive(Clone, Copy)]
pub struct Times {
    clock: Clock,
    /// Difference between the time since 1970 and the clock's.
    wall_ns: u64,
    /// Time of the clock from which on the difference is measured again.
    next_ns: u64,
}

/// Time between two measurements of the difference between two clocks.
const RENEW_NS: u64 = 1_000_000_000;

impl Times {
    /// Returns the times of a clock.
    pub fn new(clock: Clock) -> Self {
        let wall = clock::wall().as_nanos() as u64;
        let now = clock.now_ns();
        Self { clock, wall_ns: wall.saturating_sub(now), next_ns: now + RENEW_NS }
    }

    /// Returns the same, measured again where that is due.
    pub fn renewed(self) -> Self {
        if self.clock.now_ns() >= self.next_ns { Self::new(self.clock) } else { self }
    }

    /// Returns the time of a record in nanoseconds since 1970.
    pub fn wall(&self, record: &Record) -> u64 {
        self.wall_ns + self.clock.at(record.time.0)
    }

    /// Returns the time now in nanoseconds since 1970.
    pub fn now(&self) -> u64 {
        self.wall_ns + self.clock.now_ns()
    }
}

/// A record with its frame, and what is needed to tell of it.
pub struct Told<'a> {
    pub record: &'a Record,
    pub frame: &'a [u8],
    pub worker: u8,
    pub times: &'a Times,
    pub names: &'a Names,
}

/// What becomes of records.
pub trait Sink {
    /// Takes a record. Returns false when it wants no more.
    fn take(&mut self, told: &Told<'_>, out: &mut Vec<u8>) -> bool;

    /// Does what is due without one, after all that there were. Returns false when it wants no more.
    fn tend(&mut self, times: &Times, names: &Names, session: &Session, out: &mut Vec<u8>) -> bool;

    /// Writes what is left at the end. Returns how many packets it had.
    fn finish(&mut self, times: &Times, names: &Names, missed: Missed, out: &mut Vec<u8>) -> u64;
}

/// Appends a line of a stream.
pub fn say(out: &mut Vec<u8>, said: &Said) {
    // Writing to memory does not fail, and nothing in it is no JSON.
    let _ = write_line(out, said);
}
