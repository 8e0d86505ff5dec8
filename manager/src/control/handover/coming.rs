//! A manager that follows another one: it prepares, asks, takes up the interfaces and what NFs kept, and
//! serves.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use headgate_api::request::Request;
use headgate_api::status::Followed;
use headgate_decide::handover::{Arriving, FAILURES_MAX, Prepared, Successor};
use headgate_decide::lifecycle::State as Life;
use headgate_decide::spare;
use headgate_decide::units::Instant as Moment;
use headgate_host::peer::Peer;
use headgate_kernel::interface::Handed;
use headgate_session::message;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::message::{FromPredecessor, FromSuccessor, VERSION};
use crate::control::Control;
use crate::control::instance::Instance;
use crate::status::{EventCode, Snapshot};

/// Where a successor waits for its predecessor. Dropping it removes the socket.
pub struct Door {
    path: PathBuf,
    listener: OwnedFd,
}

impl Door {
    /// Listens in a folder that only this user can enter.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(folder: &Path, name: &str) -> std::io::Result<Self> {
        let path = folder.join(format!("{name}+next.{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path)?)?;
        let door = Self { path, listener };
        std::fs::set_permissions(&door.path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        rustix::net::listen(&door.listener, 1)?;
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // A missing file is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The manager that is followed.
#[derive(Clone, Debug)]
pub struct Before {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

impl Before {
    /// Asks the manager of this name who it is.
    ///
    /// # Errors
    /// A sentence when there is none.
    pub fn ask(name: &str) -> Result<Self, String> {
        let now: Snapshot = headgate_api::call(name, &Request::Snapshot { audit: false })
            .map_err(|error| format!("there is nobody to follow: {error}"))?;
        Ok(Self { pid: now.manager.pid, version: now.manager.version })
    }
}

/// State of an instance that its predecessor kept.
struct Kept {
    bytes: u64,
    has_standby: bool,
    returned: u32,
    file: OwnedFd,
}

/// Following another manager.
pub struct Coming {
    decision: Successor,
    before: Before,
    door: Door,
    socket: Option<OwnedFd>,
    ports: BTreeMap<String, Handed>,
    has_interfaces: bool,
    kept: BTreeMap<String, Kept>,
    has_kept: bool,
    is_lost: bool,
    /// Time for which no packet was taken in before the interfaces came, in nanoseconds.
    silent_ns: u64,
    /// When they came.
    taken: Moment,
    /// Instances that begin when the predecessor's have ended.
    late: Vec<usize>,
}

impl Coming {
    /// Returns that of a manager which has prepared nothing yet.
    pub fn new(before: Before, door: Door) -> Self {
        Self {
            decision: Successor::new(Moment::default()),
            before,
            door,
            socket: None,
            ports: BTreeMap::new(),
            has_interfaces: false,
            kept: BTreeMap::new(),
            has_kept: false,
            is_lost: false,
            silent_ns: 0,
            taken: Moment::default(),
            late: Vec::new(),
        }
    }

    /// Returns whether packets wait for the next step.
    pub const fn is_hurried(&self) -> bool {
        self.decision.is_waiting()
    }

    /// Returns whether it still prepares.
    pub const fn is_preparing(&self) -> bool {
        self.decision.is_preparing()
    }

    /// Returns whether packets may be taken in.
    pub const fn may_serve(&self) -> bool {
        self.decision.may_serve()
    }

    /// Notes an instance that begins when its predecessor has ended.
    pub fn note_late(&mut self, at: usize) {
        self.late.push(at);
    }

    fn is_late(&self, at: usize) -> bool {
        self.late.contains(&at)
    }

    /// Reads what the predecessor sends.
    fn listen(&mut self) {
        if self.socket.is_none() {
            self.socket =
                rustix::net::accept_with(&self.door.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
                    .ok()
                    .filter(|socket| {
                        Peer::of(socket).is_ok_and(|peer| peer.pid().as_raw_pid() as u32 == self.before.pid)
                    });
        }
        let Some(socket) = self.socket.take() else { return };
        loop {
            match message::receive::<FromPredecessor>(&socket) {
                Ok(Some((said, files))) => self.take_in(said, files),
                Ok(None) => break,
                Err(_) => {
                    self.is_lost = true;
                    break;
                }
            }
        }
        self.socket = Some(socket);
    }

    fn take_in(&mut self, said: FromPredecessor, mut files: Vec<OwnedFd>) {
        match said {
            FromPredecessor::Port { name, facts } => {
                // One that cannot be used is opened anew.
                if let Ok(handed) = Handed::from_files(facts.into(), files) {
                    self.ports.insert(name, handed);
                }
            }
            FromPredecessor::Ports { silent_ns } => {
                (self.has_interfaces, self.silent_ns) = (true, silent_ns);
            }
            FromPredecessor::State { name, bytes, has_standby, returned } => {
                if let Some(file) = files.pop() {
                    self.kept.insert(name, Kept { bytes, has_standby, returned, file });
                }
            }
            FromPredecessor::End => self.has_kept = true,
        }
    }
}

impl Control {
    /// Returns whether an instance is ready to serve as soon as the predecessor's has ended.
    fn is_in_place(&self, at: usize, instance: &Instance) -> bool {
        let is_late = self.handover.coming.as_ref().is_some_and(|coming| coming.is_late(at));
        if is_late {
            return instance.spare.state() == spare::State::Waiting || !instance.may_have_spare();
        }
        matches!(instance.state(), Life::Running | Life::Awaited)
    }

    /// Goes on with following another manager, if it does.
    pub(in crate::control) fn tend_coming(&mut self) {
        if self.handover.coming.as_ref().is_none_or(|coming| coming.may_serve()) {
            return;
        }
        let is_ready = self.instances.iter().enumerate().all(|(at, one)| self.is_in_place(at, one));
        let is_hopeless = self.instances.iter().any(|one| one.life.failures() >= FAILURES_MAX);
        let now = self.now();
        let Some(coming) = &mut self.handover.coming else { return };
        coming.listen();
        let seen = Prepared {
            is_ready,
            is_hopeless,
            has_interfaces: coming.has_interfaces,
            has_kept: coming.has_kept,
            is_lost: coming.is_lost,
        };
        match coming.decision.poll(now, seen) {
            Some(Arriving::Ask) => self.ask_predecessor(),
            Some(Arriving::TakeUp) => self.take_up_ports(now),
            Some(Arriving::Begin { whole }) => self.begin_late(whole, now),
            Some(Arriving::GiveUp) => {
                let why = self.what_is_not_ready();
                self.do_not_follow(why);
            }
            None => {}
        }
    }

    fn what_is_not_ready(&self) -> String {
        let unready = self.instances.iter().enumerate().filter(|(at, one)| !self.is_in_place(*at, one));
        let told: Vec<String> = unready
            .map(|(_, one)| {
                let why = one.last_failure.as_deref().unwrap_or("it has not become ready");
                format!("{}: {why}", one.seat.name)
            })
            .collect();
        if told.is_empty() {
            "the manager before ended or went on by itself".to_owned()
        } else {
            told.join("; ")
        }
    }

    fn ask_predecessor(&mut self) {
        let Some(coming) = &self.handover.coming else { return };
        let socket = coming.door.path.clone();
        let request = Request::HandOver { socket, version: VERSION };
        let asked = headgate_api::call::<serde_json::Value>(&self.config.manager.name, &request);
        if let Err(why) = asked
            && let Some(coming) = &mut self.handover.coming
            && coming.decision.on_refused().is_some()
        {
            self.do_not_follow(why.to_string());
        }
    }

    fn do_not_follow(&mut self, why: String) {
        let what = format!("does not follow the manager before, which goes on: {why}");
        // One that has ended has nobody to tell.
        let _ =
            headgate_api::call::<serde_json::Value>(&self.config.manager.name, &Request::NotFollowed { why });
        self.handover.fate.note_failure(what.clone());
        self.log(EventCode::HandOverFailed, "manager", what);
        self.begin_stop();
    }

    fn take_up_ports(&mut self, now: Moment) {
        let Some(coming) = &mut self.handover.coming else { return };
        coming.taken = now;
        // Where this is not heard the predecessor goes on, with the interfaces.
        let said = coming.socket.as_ref().map(|socket| message::send(socket, &FromSuccessor::Taken, &[]));
        if !matches!(said, Some(Ok(()))) {
            if coming.decision.on_refused().is_some() {
                self.do_not_follow("it had waited too long for this one to take the interfaces".to_owned());
            }
            return;
        }
        for port in &mut self.ports {
            let handed = coming.ports.remove(port.name());
            port.take_up(handed);
        }
    }

    /// Begins the NFs that waited for their predecessors' end.
    fn begin_late(&mut self, whole: bool, now: Moment) {
        let Some(coming) = &mut self.handover.coming else { return };
        let (late, kept) = (std::mem::take(&mut coming.late), std::mem::take(&mut coming.kept));
        let (before, silent_ns) = (coming.before.clone(), coming.silent_ns + (now - coming.taken).0);
        for instance in self.instances.iter_mut() {
            let name = instance.seat.name.clone();
            let (Some(state), Some(kept)) = (&mut instance.state, kept.get(&name)) else { continue };
            let adopted = kept
                .file
                .try_clone()
                .map_err(|error| error.to_string())
                .and_then(|file| state.adopt(&name, file, (kept.bytes, kept.has_standby, kept.returned)));
            if let Err(why) = adopted {
                let what = format!("the state that was kept before is not taken over: {why}");
                self.events.add(crate::status::Event::new(now.0, EventCode::StateDiscarded, &name, what));
            }
        }
        for at in late {
            self.with_instances(|instances, ground, effects| instances.begin(at, ground, effects));
        }
        let lacks = if whole { "" } else { "; it ended before it had sent all that NFs kept" };
        let what = format!(
            "follows version {} (process {}): no packet was taken in for {:.1} ms so far{lacks}",
            before.version,
            before.pid,
            silent_ns as f64 / 1e6
        );
        self.handover.followed = Some(Followed { pid: before.pid, version: before.version, silent_ns: 0 });
        self.handover.opening = Some((now, silent_ns));
        self.log(EventCode::HandedOver, "manager", what);
    }

    /// Notes that packets are taken in: the silence of a hand-over has ended.
    pub(in crate::control) fn note_opened(&mut self) {
        let now = self.now();
        if let (Some((since, silent_ns)), Some(followed)) =
            (self.handover.opening.take(), &mut self.handover.followed)
        {
            followed.silent_ns = silent_ns + (now - since).0;
            self.handover.coming = None;
        }
    }
}
