//! NFs that come by themselves: who connects, who is let in, and who is told why not.
//!
//! A stranger costs the control loop nothing but a bounded look: connections are accepted without waiting,
//! those that have not said who they are yet are few and have little time, and of each user's fewer still.
//! Who is let in is from then on an instance like any other; only its process was started by somebody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::cores;
use headgate_host::peer::Peer;
use headgate_session::message::{self, AttachError, FromNf, ToNf};
use headgate_shm::control::ABI_VERSION;
use headgate_shm::{ControlLayout, ManagerSide};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags};

use super::instance::{Body, Process};
use super::{Control, Phase};
use crate::config::Config;
use crate::config::model::Nf;
use crate::place::{NfPlace, PlaceError};
use crate::status::NfState;
use crate::users;

/// How long whoever connects may take to say who it is. Our choice: the library says so at once.
const HELLO_PATIENCE: Span = Span::from_secs(1);
/// Connections that have not said yet who they are. Our choice: more NFs than one starts at once.
const CALLERS_MAX: usize = 32;
/// The same of one user, so that none can keep the others out.
const CALLERS_OF_USER_MAX: usize = 8;
/// Connections accepted at one look, so that a storm of them cannot hold the loop.
const ACCEPTS_MAX: usize = 16;
/// How long nobody is accepted after the kernel could not give a descriptor.
const DEAF_FOR: Span = Span::from_secs(1);
/// Time between two reports of refusals, so that strangers cannot drive all other events out.
const REPORT_EVERY: Span = Span::from_secs(1);

/// Somebody who connected and has not said who it is.
struct Caller {
    socket: OwnedFd,
    uid: u32,
    until: Moment,
}

/// Where NFs attach.
pub struct Reception {
    place: NfPlace,
    callers: Vec<Caller>,
    deaf_until: Moment,
    next_report: Moment,
    /// Refusals since the last report.
    unreported: u32,
}

/// Whether an NF of this configuration may be of another user than the manager.
fn is_for_others(config: &Config) -> bool {
    let ours = Ok(rustix::process::geteuid().as_raw());
    config.nfs.iter().any(|nf| nf.attaches() && users::of_attached(nf, config) != ours)
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
        let place = NfPlace::take(&config.manager.name, is_for_others(config))?;
        Ok(Some(Self {
            place,
            callers: Vec::new(),
            deaf_until: Moment::default(),
            next_report: Moment::default(),
            unreported: 0,
        }))
    }

    /// Where it is.
    pub fn path(&self) -> String {
        self.place.path().display().to_string()
    }

    /// What to listen to.
    pub fn ears(&self, now: Moment) -> impl Iterator<Item = BorrowedFd<'_>> {
        let door = (now >= self.deaf_until).then(|| self.place.listener().as_fd());
        door.into_iter().chain(self.callers.iter().map(|caller| caller.socket.as_fd()))
    }

    /// Accepts whoever connected. Those there is no room for are returned with the reason.
    fn accept(&mut self, now: Moment) -> Vec<(Caller, String)> {
        let mut refused = Vec::new();
        for _ in 0..ACCEPTS_MAX {
            if now < self.deaf_until {
                break;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(self.place.listener(), flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => {
                    self.deaf_until = now + DEAF_FOR;
                    break;
                }
            };
            let uid = Peer::user_of(&socket).unwrap_or(u32::MAX);
            let caller = Caller { socket, uid, until: now + HELLO_PATIENCE };
            let of_user = self.callers.iter().filter(|other| other.uid == uid).count();
            if self.callers.len() < CALLERS_MAX && of_user < CALLERS_OF_USER_MAX {
                self.callers.push(caller);
            } else {
                let why = format!("too many connections of user {uid} have not said who they are; try again");
                refused.push((caller, why));
            }
        }
        refused
    }
}

/// Tells a caller why it is not let in, if it still listens.
fn refuse(socket: &OwnedFd, reason: String) {
    let _ = message::send(socket, &ToNf::Refused { reason }, &[]);
    // Closing with words unread would take the answer back: the kernel resets the connection.
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
    while matches!(message::receive::<FromNf>(socket), Ok(Some(_)) | Err(AttachError::Garbled(_))) {}
}

/// What is said to one that speaks another version of the interface.
pub fn other_version(abi: u32) -> String {
    format!(
        "it speaks version {abi} of the interface and this manager {ABI_VERSION}; build both from one release"
    )
}

impl Control {
    /// Makes a place for NFs that attach, if `config` has some; and lets in as many users as it names.
    pub(super) fn prepare_reception(&mut self, config: &Config) -> Result<(), String> {
        match &self.reception {
            Some(reception) => {
                reception.place.set_mode(is_for_others(config)).map_err(|error| error.to_string())
            }
            None => {
                self.reception = Reception::open(config).map_err(|error| error.to_string())?;
                Ok(())
            }
        }
    }

    /// Looks who connected, and who said who it is.
    pub(super) fn tend_reception(&mut self) {
        let Some(mut reception) = self.reception.take() else { return };
        let now = self.now();
        for (caller, why) in reception.accept(now) {
            self.turn_away(&mut reception, &caller, why);
        }
        for caller in std::mem::take(&mut reception.callers) {
            match message::receive::<FromNf>(&caller.socket) {
                Ok(None) if now < caller.until => reception.callers.push(caller),
                Ok(None) => self.turn_away(&mut reception, &caller, "it did not say who it is".to_owned()),
                Ok(Some((FromNf::Hello { abi, name }, _))) => {
                    match self.choose(&caller, abi, &name).and_then(|(at, peer)| self.make(at, peer)) {
                        Ok((at, peer, side)) => self.let_in(at, peer, caller.socket, side),
                        Err(why) => self.turn_away(&mut reception, &caller, why),
                    }
                }
                Ok(Some(_)) => {
                    let why = "its first word was not a hello".to_owned();
                    self.turn_away(&mut reception, &caller, why);
                }
                Err(AttachError::Garbled(why)) => {
                    let why = format!("what it sent is not of this protocol: {why}");
                    self.turn_away(&mut reception, &caller, why);
                }
                Err(_) => {}
            }
        }
        self.reception = Some(reception);
    }

    fn turn_away(&mut self, reception: &mut Reception, caller: &Caller, why: String) {
        refuse(&caller.socket, why.clone());
        reception.unreported += 1;
        let now = self.now();
        if now < reception.next_report {
            return;
        }
        reception.next_report = now + REPORT_EVERY;
        let others = std::mem::take(&mut reception.unreported) - 1;
        let more = if others > 0 { format!("; and {others} more before") } else { String::new() };
        self.log("manager", format!("refused a process of user {} that attached: {why}{more}", caller.uid));
    }

    /// The instance that a caller will be.
    fn choose(&self, caller: &Caller, abi: u32, name: &str) -> Result<(usize, Peer), String> {
        if abi != ABI_VERSION {
            return Err(other_version(abi));
        }
        if self.phase != Phase::Serving {
            return Err("the manager is stopping".to_owned());
        }
        self.check_name(caller.uid, name)?;
        let of_nf = || self.instances.iter().filter(|one| one.nf.name == name && one.nf.attaches());
        let free = of_nf().find(|one| one.state == NfState::Awaited && !one.removing);
        let Some(free) = free else { return Err(taken(name, of_nf())) };
        let peer = Peer::of(&caller.socket).map_err(|error| error.to_string())?;
        if !peer.may_be_signalled() {
            return Err(format!(
                "this manager may not end processes of user {}, so it cannot take one in; run it as root, or \
                 the NF as the manager's user",
                peer.uid()
            ));
        }
        Ok((free.number as usize, peer))
    }

    /// Whether this user may attach as an NF of this name.
    fn check_name(&self, uid: u32, name: &str) -> Result<(), String> {
        // The last of that name: while a configuration is being applied, the new one.
        let here = self.instances.iter().rev().filter(|one| !one.is_gone() && !one.removing);
        match here.map(|one| &one.nf).find(|nf| nf.name == name) {
            Some(nf) if nf.attaches() => {
                let wanted = users::of_attached(nf, &self.config)?;
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
                let may = |nf: &&Nf| nf.attaches() && users::of_attached(nf, &self.config) == Ok(uid);
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

    /// Fresh memory for an instance.
    fn make(&self, at: usize, peer: Peer) -> Result<(usize, Peer, ManagerSide), String> {
        let instance = &self.instances[at];
        let layout = ControlLayout::new(instance.nf.ring)?;
        let side = ManagerSide::create(&instance.name, layout).map_err(|error| error.to_string())?;
        Ok((at, peer, side))
    }

    /// From here on a caller is an instance, and is dealt with as if it had been launched.
    fn let_in(&mut self, at: usize, peer: Peer, socket: OwnedFd, side: ManagerSide) {
        let now = self.now();
        let (name, core) = (self.instances[at].name.clone(), self.instances[at].core);
        let who = format!("process {} of user {} attached", peer.pid().as_raw_pid(), peer.uid());
        let admitted = self.admit(peer.pid()).map_err(|error| error.to_string());
        let pinned = cores::pin_process(peer.pid(), &[core].into_iter().collect());
        let stays = match admitted.and(pinned.map_err(|error| error.to_string())) {
            Ok(()) => String::new(),
            Err(error) => format!("; it is not kept on core {core}: {error}"),
        };
        self.log(&name, format!("{who}{stays}"));
        self.begin(at, Process::new(Body::Attached(peer), socket, Some(side), now), now);
        self.welcome(at);
    }
}

/// Why there is no place for one more process of an NF.
fn taken<'a>(name: &str, instances: impl Iterator<Item = &'a super::Instance>) -> String {
    let mut pids = Vec::new();
    for instance in instances.filter(|instance| !instance.is_gone()) {
        match &instance.process {
            Some(process) if !instance.is_hurried() => pids.push(process.body.pid().as_raw_pid().to_string()),
            _ => {
                return format!("what the last process of nf {name:?} held is being taken back; try again");
            }
        }
    }
    format!(
        "nf {name:?} is attached already, by process {}; end that first, or raise `instances`",
        pids.join(", ")
    )
}
