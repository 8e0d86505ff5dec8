//! The keeper of a group: a thread for what its worker waits for and must not do itself, and which the
//! control loop would let wait behind other things.
//!
//! A view is on disk before anybody hears of it; where it cannot be written it is tried again, and the view
//! before stays in force. State of NFs is copied while they have no packet: the group stands still meanwhile
//! ([`copies`](super::copies)).
//! On a standby each copy that comes is written into regions that nobody has yet ([`standby`]), so that NFs
//! go on with the last one as soon as they are to.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use headgate_decide::replicate::{Assignment, Epoch};
use headgate_decide::units::Instant as Moment;
use headgate_host::clock::Clock;
use headgate_path::replica::{Command as Order, Event, GroupBoard};
use headgate_path::worker::{Command, Mailbox};

use super::copies::Copies;
use super::news::{Begin, Kept, News};
use super::record::Records;
use super::standby::{OfNf, Standby};
use crate::api::Handle;
use crate::config::Digest;

/// Time between two attempts at what failed. Our choice: as soon as an operator has made room it goes on, and
/// a disk that is full is left alone.
const AGAIN: Duration = Duration::from_millis(200);

/// What the thread has.
pub struct Keeper {
    /// The group's name and number.
    pub group: String,
    /// See there.
    pub number: u16,
    /// Files that outlive the manager.
    pub records: Option<Records>,
    /// State of each NF of the group; `None` of one that keeps none.
    pub states: Vec<Option<OfNf>>,
    /// Counters of the group.
    pub board: Arc<GroupBoard>,
    /// The worker's.
    pub mailbox: Arc<Mailbox>,
    /// Way to the control loop.
    pub handle: Handle,
    /// When the manager's time begins.
    pub started_ns: u64,
    /// Clock of all times.
    pub clock: Clock,
}

/// What is to be copied.
#[derive(Clone, Copy)]
enum Wanted {
    /// What there is, while NFs work.
    Prepare,
    /// What changed until the cut, since the copy before.
    Changes(Epoch),
    /// All of it at the cut.
    All(Epoch),
    /// The same, which is in the twins.
    Taken(Epoch),
}

impl Keeper {
    /// Starts the thread. It ends with the worker.
    ///
    /// # Errors
    /// The kernel's.
    pub fn start(self, events: Receiver<Event>) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("hg-group".to_owned());
        thread.spawn(move || self.run(&events)).map(drop)
    }

    fn run(&self, events: &Receiver<Event>) {
        // What was asked for and could not be done; a newer one takes its place.
        let (mut unwritten, mut uncopied) = (None, None);
        let mut fails = false;
        let (mut standby, mut copies) = (Standby::new(self.states.len()), Copies::default());
        loop {
            let patience = match fails {
                _ if standby.is_behind() => Duration::ZERO,
                true => AGAIN,
                false => Duration::MAX,
            };
            let event = match events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match event {
                Some(Event::Write(assignment)) => unwritten = Some(assignment),
                Some(Event::Prepare) => uncopied = Some(Wanted::Prepare),
                Some(Event::Copy { epoch, base: None }) => uncopied = Some(Wanted::All(epoch)),
                Some(Event::Copy { epoch, base: Some(_) }) => uncopied = Some(Wanted::Changes(epoch)),
                // Nothing else waits: what came last is prepared.
                None if standby.is_behind() => {
                    self.prepare(&mut standby);
                    self.check(&mut standby);
                    continue;
                }
                None => {}
                Some(event) => {
                    self.pass_on(event, &mut standby, &mut copies);
                    continue;
                }
            }
            let outcome = self.write(&mut unwritten).and_then(|()| self.copy(&mut uncopied, &mut copies));
            if let Some(news) = self.change(&outcome, fails) {
                self.tell(news);
            }
            fails = outcome.is_err();
        }
    }

    fn now(&self) -> Moment {
        Moment(self.clock.now_ns().saturating_sub(self.started_ns))
    }

    /// Prepares what came.
    fn prepare(&self, standby: &mut Standby) {
        let (count, failures) = standby.prepare(&self.states);
        self.board.prepared.add(count);
        self.tell_lost(failures);
    }

    fn tell_lost(&self, failures: Vec<String>) {
        for what in failures {
            self.tell(News::Kept(self.now(), Kept::Fails(what)));
        }
    }

    /// Checks on NFs that have no packet.
    fn check(&self, standby: &mut Standby) {
        for at in standby.wrote_apart(self.now(), &self.states) {
            self.tell(News::WroteApart(self.now(), at));
        }
    }

    fn pass_on(&self, event: Event, standby: &mut Standby, copies: &mut Copies) {
        let now = self.now();
        let news = match event {
            Event::Stored { rests, states } => return standby.take(rests, states),
            Event::Hold => {
                self.prepare(standby);
                self.board.prepared.add(1);
                return self.tell_lost(standby.hold(&self.states, copies.give()));
            }
            Event::Restore(has_state) => {
                self.prepare(standby);
                let stored = standby.restore();
                let begin = |stored| if has_state { stored } else { Begin::Empty };
                News::Restore(stored.into_iter().map(begin).collect())
            }
            Event::Gate(report) => News::Gate(now, report),
            Event::Node(report) => News::Node(now, report),
            Event::Foreign(peer, digest) => News::Foreign(now, peer, digest),
            Event::Settings(peer, text) => {
                News::Settings(now, peer, Digest::from_text(&String::from_utf8_lossy(&text)))
            }
            Event::Resumed(view) => News::Resumed(now, view),
            Event::Write(_) | Event::Prepare | Event::Copy { .. } => return,
        };
        self.tell(news);
    }

    fn tell(&self, news: News) {
        self.handle.tell_group(self.number, news);
    }

    fn change(&self, outcome: &Result<(), String>, failed: bool) -> Option<News> {
        let now = self.now();
        match outcome {
            Err(why) if !failed => Some(News::Kept(now, Kept::Fails(why.clone()))),
            Ok(()) if failed => {
                Some(News::Kept(now, Kept::Works("views are written and state is copied again".to_owned())))
            }
            _ => None,
        }
    }

    fn write(&self, wanted: &mut Option<Assignment>) -> Result<(), String> {
        let (Some(assignment), Some(records)) = (&*wanted, &self.records) else { return Ok(()) };
        records.write(assignment)?;
        self.order(Order::Written(assignment.view));
        *wanted = None;
        Ok(())
    }

    fn copy(&self, wanted: &mut Option<Wanted>, copies: &mut Copies) -> Result<(), String> {
        let Some(what) = *wanted else { return Ok(()) };
        let failed =
            |error| format!("state of NFs cannot be copied, and group `{}` waits: {error}", self.group);
        let mut take = || copies.take(&self.states).map_err(failed);
        let (epoch, states) = match what {
            Wanted::Prepare => {
                take()?;
                self.order(Order::Prepared);
                *wanted = None;
                return Ok(());
            }
            Wanted::Changes(epoch) => {
                let changes = take()?;
                self.order(Order::Flipped(epoch));
                (epoch, changes)
            }
            Wanted::All(epoch) => {
                take()?;
                self.order(Order::Flipped(epoch));
                // NFs work again: what they have now is not of this copy any more.
                *wanted = Some(Wanted::Taken(epoch));
                (epoch, copies.all().map_err(failed)?)
            }
            Wanted::Taken(epoch) => (epoch, copies.all().map_err(failed)?),
        };
        self.order(Order::Copied(epoch, states));
        *wanted = None;
        Ok(())
    }

    fn order(&self, order: Order) {
        self.mailbox.post(Command::Group(self.number, Box::new(order)));
    }
}
