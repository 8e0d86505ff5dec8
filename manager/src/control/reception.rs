//! Reception of NFs that attach: accepts connections, lets processes in, and tells others the reason why not.
//!
//! An untrusted process costs the control loop only a bounded time: connections are accepted without waiting,
//! those that have not identified themselves yet are few and have little time, and those of each user are
//! fewer still. A process that is let in is an instance's like any other from then on; only it was started by
//! somebody else.

use std::os::fd::{AsFd, BorrowedFd};

use headgate_decide::lifecycle::State;
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::peer::Peer;
use headgate_session::inbox::{Inbox, Received};
use headgate_session::message::FromNf;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::instance::Instance;
use crate::config::Config;
use crate::config::model::Nf;
use crate::place::{NfPlace, PlaceError};
use crate::users;

/// Time that a connection has to identify itself. Our choice: the library does so at once.
const HELLO_PATIENCE: Span = Span::from_secs(1);
/// Most connections that have not identified themselves yet. Our choice: more NFs than one starts at once.
const CALLERS_MAX: usize = 32;
/// Most such connections of one user, so that none can keep the others out.
const CALLERS_OF_USER_MAX: usize = 8;
/// Most connections accepted in one pass, so that a storm of them cannot delay the loop.
const ACCEPTS_MAX: usize = 16;
/// Time without accepting after the kernel could not give a descriptor.
const DEAF_FOR: Span = Span::from_secs(1);
/// Time between two reports of refusals, so that untrusted processes cannot push all other events out.
const REPORT_EVERY: Span = Span::from_secs(1);

/// Connection that has not identified itself yet.
struct Caller {
    inbox: Inbox,
    uid: u32,
    until: Moment,
}

/// Socket where NFs attach.
pub struct Reception {
    place: NfPlace,
    callers: Vec<Caller>,
    deaf_until: Moment,
    next_report: Moment,
    /// Number of refusals since the last report, and the reason of the last one.
    refused: u32,
    last_refusal: String,
}

/// Process that may be an instance's.
pub struct Arrival {
    /// Index of the instance.
    pub at: usize,
    /// The process.
    pub peer: Peer,
    /// Connection to it.
    pub inbox: Inbox,
}

/// Facts needed to choose the processes to let in.
pub struct Guests<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// All instances.
    pub instances: &'a [Instance],
    /// Whether the manager is not ending.
    pub serving: bool,
}

/// Returns whether an NF of this configuration may be of another user than the manager.
fn is_for_others(config: &Config) -> bool {
    let ours = Ok(rustix::process::geteuid().as_raw());
    config.nfs.iter().any(|nf| nf.attaches() && users::of_attached(nf) != ours)
}

impl Reception {
    /// Listens, if an NF of this configuration attaches.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn open(config: &Config) -> Result<Option<Self>, PlaceError> {
        if !config.nfs.iter().any(Nf::attaches) {
            return Ok(None);
        }
        NfPlace::take(&config.manager.name, is_for_others(config)).map(|place| Some(Self::at(place)))
    }

    const fn at(place: NfPlace) -> Self {
        Self {
            place,
            callers: Vec::new(),
            deaf_until: Moment(0),
            next_report: Moment(0),
            refused: 0,
            last_refusal: String::new(),
        }
    }

    /// Lets every user connect if this configuration may have NFs of other users, else only the manager's
    /// own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn serve(&self, config: &Config) -> std::io::Result<()> {
        self.place.set_mode(is_for_others(config))
    }

    /// Returns its path.
    pub fn path(&self) -> String {
        self.place.path().display().to_string()
    }

    /// Returns the descriptors to wait for.
    pub fn ears(&self, now: Moment) -> impl Iterator<Item = BorrowedFd<'_>> {
        let door = self.deaf_until.is_due(now).then(|| self.place.listener().as_fd());
        door.into_iter().chain(self.callers.iter().filter_map(move |caller| caller.inbox.ears(now)))
    }

    /// Accepts connections. Those without room are refused.
    pub fn accept(&mut self, now: Moment) {
        for _ in 0..ACCEPTS_MAX {
            if !self.deaf_until.is_due(now) {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(self.place.listener(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => {
                    self.deaf_until = now + DEAF_FOR;
                    return;
                }
            };
            let uid = Peer::user_of(&socket).unwrap_or(u32::MAX);
            let Ok(inbox) = Inbox::new(socket) else {
                self.deaf_until = now + DEAF_FOR;
                return;
            };
            let of_user = self.callers.iter().filter(|other| other.uid == uid).count();
            if self.callers.len() < CALLERS_MAX && of_user < CALLERS_OF_USER_MAX {
                self.callers.push(Caller { inbox, uid, until: now + HELLO_PATIENCE });
            } else {
                let why = format!("too many connections of user {uid} have not said who they are; try again");
                self.refuse(inbox, uid, why);
            }
        }
    }

    /// Returns the next process that may be let in. Other connections are refused or go on waiting.
    pub fn next_arrival(&mut self, now: Moment, guests: &Guests<'_>) -> Option<Arrival> {
        let mut callers = std::mem::take(&mut self.callers).into_iter();
        while let Some(caller) = callers.next() {
            if let Some(arrival) = self.hear(caller, now, guests) {
                // The remaining ones are for the next call.
                self.callers.extend(callers);
                return Some(arrival);
            }
        }
        None
    }

    fn hear(&mut self, mut caller: Caller, now: Moment, guests: &Guests<'_>) -> Option<Arrival> {
        let why = match caller.inbox.receive(now) {
            None if !caller.until.is_due(now) => {
                self.callers.push(caller);
                return None;
            }
            None => "it did not say who it is".to_owned(),
            Some(Received::Word(FromNf::Hello { versions, name })) => {
                let agreed = caller.inbox.agree(versions);
                match agreed.and_then(|()| guests.choose(&caller, &name)) {
                    Ok((at, peer)) => return Some(Arrival { at, peer, inbox: caller.inbox }),
                    Err(why) => why,
                }
            }
            Some(Received::Word(_)) => "its first word was not a hello".to_owned(),
            Some(Received::Garbled(why)) => format!("what it sent is not of this protocol: {why}"),
            Some(Received::Offence(offence)) => format!("it {offence}"),
            Some(Received::Closed) => return None,
        };
        self.refuse(caller.inbox, caller.uid, why);
        None
    }

    /// Sends a process the reason why it is not let in, if it still reads.
    pub fn refuse(&mut self, inbox: Inbox, uid: u32, why: String) {
        inbox.refuse(why.clone());
        self.refused += 1;
        self.last_refusal = format!("refused a process of user {uid} that attached: {why}");
    }

    /// Returns the report on refusals: the last one, and how many there were before.
    pub fn report(&mut self, now: Moment) -> Option<String> {
        if self.refused == 0 || !self.next_report.is_due(now) {
            return None;
        }
        self.next_report = now + REPORT_EVERY;
        let others = std::mem::take(&mut self.refused) - 1;
        let more = if others > 0 { format!("; and {others} more before") } else { String::new() };
        Some(format!("{}{more}", std::mem::take(&mut self.last_refusal)))
    }
}

impl Guests<'_> {
    /// Returns the instance that a process will be.
    fn choose(&self, caller: &Caller, name: &str) -> Result<(usize, Peer), String> {
        if !self.serving {
            return Err("the manager is stopping".to_owned());
        }
        self.check_name(caller.uid, name)?;
        let of_nf = || self.instances.iter().filter(|one| one.seat.nf.name == name && one.seat.nf.attaches());
        let free = of_nf().find(|one| one.state() == State::Awaited && !one.life.is_removing());
        let Some(free) = free else { return Err(taken(name, of_nf())) };
        let peer = Peer::of(&caller.inbox).map_err(|error| error.to_string())?;
        if !peer.may_be_signalled() {
            return Err(format!(
                "this manager may not end processes of user {}, so it cannot take one in; run it as root, or \
                 the NF as the manager's user",
                peer.uid()
            ));
        }
        Ok((free.seat.number.index(), peer))
    }

    /// Checks whether this user may attach as an NF of this name.
    fn check_name(&self, uid: u32, name: &str) -> Result<(), String> {
        // The last of that name: while a configuration is being applied, the new one.
        let here = self.instances.iter().rev().filter(|one| !one.is_gone() && !one.life.is_removing());
        match here.map(|one| &one.seat.nf).find(|nf| nf.name == name) {
            Some(nf) if nf.attaches() => {
                let wanted = users::of_attached(nf)?;
                if wanted == uid {
                    return Ok(());
                }
                Err(format!(
                    "nf {name:?} is for a process of user {wanted}, and this one is of user {uid}; start it as \
                     that user, or name this one with `user = {uid}` in its [[nf]]"
                ))
            }
            Some(_) => Err(format!(
                "nf {name:?} is started by the manager; to start it yourself, put `attach = true` in its \
                 [[nf]] in place of what it runs"
            )),
            None => {
                let may = |nf: &&Nf| nf.attaches() && users::of_attached(nf) == Ok(uid);
                let names: Vec<&str> =
                    self.config.nfs.iter().filter(may).map(|nf| nf.name.as_str()).collect();
                let there = match names[..] {
                    [] => format!("user {uid} may not attach here at all"),
                    _ => format!("user {uid} may attach as: {}", names.join(", ")),
                };
                Err(format!("there is no nf {name:?}; {there}"))
            }
        }
    }
}

/// Returns the reason why there is no place for one more process of an NF.
fn taken<'a>(name: &str, instances: impl Iterator<Item = &'a Instance>) -> String {
    let mut pids = Vec::new();
    for instance in instances.filter(|instance| !instance.is_gone()) {
        match instance.pid().filter(|_| !instance.life.is_hurried()) {
            Some(pid) => pids.push(pid.as_raw_pid().to_string()),
            None => {
                return format!("what the last process of nf {name:?} held is being taken back; try again");
            }
        }
    }
    format!(
        "nf {name:?} is attached already, by process {}; end that first, or raise `instances`",
        pids.join(", ")
    )
}

#[cfg(test)]
mod tests;
