//! Context of an NF: its surroundings, and what it may ask of them.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use headgate_session::message::{self, FromNf, MESSAGE_BYTES_MAX, MessageError};
use headgate_shm::Verdict;
use headgate_shm::descriptor::ARGUMENT_COUNT;
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::arguments::UnknownNameError;
use crate::clock::Clock;
use crate::counter::{Board, Counter, NoCounterLeftError};
use crate::disk::requests::DiskAccess;
#[cfg(feature = "disk")]
use crate::disk::{Disk, DiskError};
use crate::maker::{Chain, Made, Maker, MakerError};
use crate::state::{State, StateAccess, StateError};
use crate::timer::{Timer, Timers};
use crate::{NfError, arguments};

/// A port, by which packets enter and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub(crate) u16);

impl Port {
    /// Its number: its place in the manager's list of ports.
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// A named stage of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage(pub(crate) u16);

impl Stage {
    /// Its number: its place in the manager's list of stages.
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// A message did not go to the manager.
#[derive(Debug, thiserror::Error)]
pub enum TellError {
    /// Too long.
    #[error(
        "a message of {bytes} bytes is longer than the {MESSAGE_BYTES_MAX} a message may have with its wrapping"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
    },
    /// The manager has not read the earlier ones; this one is lost, for an NF must not wait for it.
    #[error("the manager has not yet read the earlier messages")]
    NotRead,
    /// The connection is gone.
    #[error("the connection to the manager: {0}")]
    Connection(MessageError),
}

/// The names of ports or stages.
pub(crate) struct Names {
    what: &'static str,
    known: RefCell<Vec<String>>,
    /// Whether a name that is asked for is made: where arguments are checked before any port exists.
    open: bool,
}

impl Names {
    pub(crate) const fn known(what: &'static str, names: Vec<String>) -> Self {
        Self { what, known: RefCell::new(names), open: false }
    }

    pub(crate) const fn open(what: &'static str) -> Self {
        Self { what, known: RefCell::new(Vec::new()), open: true }
    }

    fn number(&self, name: &str) -> Result<u16, UnknownNameError> {
        let mut known = self.known.borrow_mut();
        let place = known.iter().position(|known| known == name);
        let number = place.unwrap_or(known.len());
        if place.is_none() && !self.open || number >= ARGUMENT_COUNT as usize {
            return Err(UnknownNameError { what: self.what, name: name.to_owned(), known: known.clone() });
        }
        if place.is_none() {
            known.push(name.to_owned());
        }
        Ok(number as u16)
    }

    pub(crate) fn name(&self, number: u16) -> Option<String> {
        self.known.borrow().get(usize::from(number)).cloned()
    }
}

/// Destination of messages.
pub(crate) enum Outbox {
    Manager(Rc<OwnedFd>),
    Kept(RefCell<Vec<String>>),
}

/// Environment that all NFs of a process share.
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) ports: Names,
    pub(crate) stages: Names,
    pub(crate) clock: Clock,
    pub(crate) board: Rc<Board>,
    pub(crate) outbox: Outbox,
    pub(crate) counters_told: Cell<usize>,
    /// What NFs told since they were handed a message that is answered; `None` between messages.
    pub(crate) answer: RefCell<Option<String>>,
    pub(crate) disk: DiskAccess,
    /// What NFs of the process keep.
    pub(crate) state: StateAccess,
    /// Chains that visit the NF, by number; all there could be where arguments are only checked.
    pub(crate) chains: Option<Vec<(u16, String)>>,
    /// Packets that NFs make, if one asked for buffers.
    pub(crate) made: OnceCell<Rc<RefCell<Made>>>,
    /// The same before one asked.
    pub(crate) making: RefCell<Option<Made>>,
    /// Packets that may be in the hands of the process at a time.
    pub(crate) window: usize,
    /// Bytes of the longest frame.
    pub(crate) frame_bytes_max: usize,
}

impl Environment {
    pub(crate) fn tell(&self, body: String) -> Result<(), TellError> {
        let bytes = body.len();
        if let Some(answer) = &mut *self.answer.borrow_mut() {
            return add_to_answer(answer, &body);
        }
        match &self.outbox {
            Outbox::Kept(kept) => {
                kept.borrow_mut().push(body);
                Ok(())
            }
            Outbox::Manager(socket) => {
                message::send(socket, &FromNf::Message { body }, &[]).map_err(|error| match error {
                    MessageError::Garbled(_) => TellError::TooLong { bytes },
                    MessageError::Socket(Errno::AGAIN) => TellError::NotRead,
                    other => TellError::Connection(other),
                })
            }
        }
    }

    /// Makes what is told from here on an answer.
    pub(crate) fn begin_answer(&self) {
        *self.answer.borrow_mut() = Some(String::new());
    }

    /// Returns what was told since [`Environment::begin_answer`].
    pub(crate) fn end_answer(&self) -> String {
        self.answer.take().unwrap_or_default()
    }

    /// Tells the manager the names of counters made since it was last told.
    pub(crate) fn tell_counters(&self) -> Result<(), MessageError> {
        let made = self.board.made();
        if made == self.counters_told.get() {
            return Ok(());
        }
        if let Outbox::Manager(socket) = &self.outbox {
            match message::send(socket, &FromNf::Counters { names: self.board.names() }, &[]) {
                Err(MessageError::Socket(Errno::AGAIN)) => return Ok(()), // The next tick tries again.
                told => told?,
            }
        }
        self.counters_told.set(made);
        Ok(())
    }
}

/// Adds what an NF tells while it handles a message to its answer, on a line of its own.
fn add_to_answer(answer: &mut String, body: &str) -> Result<(), TellError> {
    let bytes = answer.len() + 1 + body.len();
    if bytes > MESSAGE_BYTES_MAX {
        return Err(TellError::TooLong { bytes });
    }
    if !answer.is_empty() {
        answer.push('\n');
    }
    answer.push_str(body);
    Ok(())
}

/// An NF's surroundings: its arguments, the ports and stages by name, counters, timers, messages.
pub struct Context {
    pub(crate) environment: Rc<Environment>,
    /// Label of this NF, where several share the process.
    pub(crate) label: Option<String>,
    pub(crate) arguments: String,
    pub(crate) timers: Timers,
    /// Its place among the NFs of the process.
    member: usize,
    #[cfg(feature = "disk")]
    disk: Option<Disk>,
}

impl Context {
    pub(crate) fn new(
        environment: Rc<Environment>,
        label: Option<String>,
        arguments: String,
        member: usize,
    ) -> Self {
        Self {
            environment,
            label,
            arguments,
            timers: Timers::default(),
            member,
            #[cfg(feature = "disk")]
            disk: None,
        }
    }

    /// The way to read and write files while packets go on. With the feature `disk`. Asked for at the start
    /// by an NF that will need it; costs those that do not ask nothing.
    ///
    /// # Errors
    /// [`DiskError::NoEngine`].
    #[cfg(feature = "disk")]
    pub fn disk(&mut self) -> Result<Disk, DiskError> {
        if let Some(disk) = &self.disk {
            return Ok(disk.clone());
        }
        if self.environment.state.is_kept() {
            return Err(DiskError::KeptState);
        }
        let requests = self.environment.disk.requests(self.environment.window)?;
        requests.borrow_mut().add_owner();
        let disk = Disk { requests, owner: self.member as u32 };
        Ok(self.disk.insert(disk).clone())
    }

    /// The NF's state, to take tables and values from at the start: see [`mod@crate::state`].
    ///
    /// # Errors
    /// [`StateError`].
    pub fn state(&mut self) -> Result<State, StateError> {
        let uses_disk = self.environment.disk.requests.get().is_some();
        self.environment.state.ask(uses_disk, self.label.clone())
    }

    /// The way to make packets in buffers that the manager lends: `most` of them at a time, 1 to 64, and no
    /// more than an eighth of the NF's ring. Asked for at the start by an NF that will need it; costs those
    /// that do not ask nothing. NFs of one process share what they ask for.
    ///
    /// # Errors
    /// [`MakerError`].
    ///
    /// # Panics
    /// When it is asked for the first time after the start: the manager knows by then that there is none.
    pub fn maker(&mut self, most: u32) -> Result<Maker, MakerError> {
        let environment = &self.environment;
        let made = environment.made.get_or_init(|| {
            let made = environment.making.take();
            Rc::new(RefCell::new(made.expect("buffers are asked for at the start of an NF, not later")))
        });
        made.borrow_mut().ask(most)?;
        Ok(Maker { made: made.clone(), owner: self.member })
    }

    /// The chain of this name, if it visits the NF: for packets that it makes. Chains that were made after
    /// the NF started are not known.
    ///
    /// # Errors
    /// [`UnknownNameError`] with the names that are.
    pub fn chain(&self, name: &str) -> Result<Chain, UnknownNameError> {
        let Some(chains) = &self.environment.chains else { return Ok(Chain(0)) };
        let found =
            chains.iter().find(|(number, known)| known == name && Verdict::onto_chain(*number).is_some());
        found.map(|(number, _)| Chain(*number)).ok_or_else(|| UnknownNameError {
            what: "chain through this NF",
            name: name.to_owned(),
            known: chains.iter().map(|(_, name)| name.clone()).collect(),
        })
    }

    /// Whether the NF is only made to check its arguments. Logs then lead nowhere and reads are refused; an
    /// NF that touches files by itself must not.
    #[must_use]
    pub fn is_rehearsal(&self) -> bool {
        self.environment.disk.bell.is_none()
    }

    /// The longest frame that may come, in bytes.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        self.environment.frame_bytes_max
    }

    /// The instance's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.environment.name
    }

    /// The arguments from the configuration, read as `T`. Write `#[serde(deny_unknown_fields)]` on it, so
    /// that a misspelt argument is an error and not silence.
    ///
    /// # Errors
    /// [`ArgumentErrors`](crate::ArgumentErrors), all that there are.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, NfError> {
        Ok(arguments::read(&self.arguments)?)
    }

    /// The arguments as they came, a JSON object.
    #[must_use]
    pub fn arguments_text(&self) -> &str {
        &self.arguments
    }

    /// The port of this name.
    ///
    /// # Errors
    /// [`UnknownNameError`] with the names that are.
    pub fn port(&self, name: &str) -> Result<Port, UnknownNameError> {
        self.environment.ports.number(name).map(Port)
    }

    /// The name of a port; none for a number the manager gave no name.
    #[must_use]
    pub fn port_name(&self, port: Port) -> Option<String> {
        self.environment.ports.name(port.0)
    }

    /// The port of this number, if it has a name.
    #[must_use]
    pub fn port_numbered(&self, number: u16) -> Option<Port> {
        self.environment.ports.name(number).map(|_| Port(number))
    }

    /// The stage of this name.
    ///
    /// # Errors
    /// [`UnknownNameError`] with the names that are.
    pub fn stage(&self, name: &str) -> Result<Stage, UnknownNameError> {
        self.environment.stages.number(name).map(Stage)
    }

    /// The counter of this name, made on first use. In a process of several NFs its public name is
    /// `nf.name`.
    ///
    /// # Errors
    /// [`NoCounterLeftError`]: a process has 64.
    pub fn counter(&self, name: &str) -> Result<Counter, NoCounterLeftError> {
        let name = self.label.as_ref().map_or_else(|| name.to_owned(), |label| format!("{label}.{name}"));
        self.environment.board.counter(name)
    }

    /// Sends a message to the clients that listen to this NF; by convention JSON. Never waits. In a process
    /// of several NFs it arrives as `nf message`. While the NF handles a message, it is its answer.
    ///
    /// # Errors
    /// [`TellError`]: the message is lost.
    pub fn tell(&self, body: impl Into<String>) -> Result<(), TellError> {
        let body = body.into();
        self.environment.tell(self.label.as_ref().map_or(body.clone(), |label| format!("{label} {body}")))
    }

    /// Time since this process of NFs started. Reads the kernel's clock (25-50 ns, no system call).
    #[must_use]
    pub fn now(&self) -> Duration {
        self.environment.clock.now()
    }

    /// A timer that comes due every `period`. Periods missed in a long burst are skipped.
    pub fn every(&mut self, period: Duration) -> Timer {
        self.add_timer(period, true)
    }

    /// A timer that comes due once.
    pub fn after(&mut self, wait: Duration) -> Timer {
        self.add_timer(wait, false)
    }

    /// Forgets a timer.
    pub fn cancel(&mut self, timer: Timer) {
        self.timers.cancel(timer);
    }

    fn add_timer(&mut self, wait: Duration, repeats: bool) -> Timer {
        let (timer, due) = self.timers.add(self.now(), wait, repeats);
        self.environment.clock.sample_by(due);
        timer
    }
}
