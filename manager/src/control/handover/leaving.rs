//! A manager that is followed: it gives its interfaces away, and what NFs kept, and ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use headgate_decide::handover::{Failure, Inside, Parting, Predecessor};
use headgate_decide::units::Instant as Moment;
use headgate_host::peer::Peer;
use headgate_kernel::interface::Handed;
use headgate_path::worker::Command;
use headgate_session::message::{self, MessageError};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::message::{FromPredecessor, FromSuccessor, VERSION};
use crate::api::{Answer, RequestError, answer};
use crate::control::Control;
use crate::control::instance::Instance;
use crate::control::state::StateHome;
use crate::ports::PortHome;
use crate::status::EventCode;

/// Exit code of what a configuration does not allow.
const CONFIGURATION: u8 = 4;

/// A hand-over to a successor.
pub struct Leaving {
    decision: Predecessor,
    socket: OwnedFd,
    /// Process of the successor.
    pid: u32,
    /// Time since which no packet is taken in.
    since: Moment,
    /// Ports whose interface was given up and has not been collected from its worker.
    awaited: Vec<usize>,
    /// Interfaces by port, as they were collected: kept until the successor has them.
    collected: BTreeMap<usize, Handed>,
    has_sent: bool,
    is_taken: bool,
    is_lost: bool,
}

impl Leaving {
    /// Returns whether a step is under way that packets wait for.
    pub const fn is_hurried(&self) -> bool {
        self.decision.is_under_way() || !self.awaited.is_empty()
    }

    /// Connects to a successor.
    fn to(path: &Path, since: Moment) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        let peer = Peer::of(&socket).map_err(|error| io::Error::other(error.to_string()))?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it is of another user"));
        }
        Ok(Self {
            decision: Predecessor::new(),
            socket,
            pid: peer.pid().as_raw_pid() as u32,
            since,
            awaited: Vec::new(),
            collected: BTreeMap::new(),
            has_sent: false,
            is_taken: false,
            is_lost: false,
        })
    }

    fn send(&mut self, message: &FromPredecessor, files: &[BorrowedFd<'_>]) {
        // A successor that does not read is as good as gone: its few messages fit into any socket.
        self.is_lost |= message::send(&self.socket, message, files).is_err();
    }

    fn listen(&mut self) {
        match message::receive::<FromSuccessor>(&self.socket) {
            Ok(Some((FromSuccessor::Taken, _))) => self.is_taken = true,
            Ok(None) => {}
            Err(MessageError::Closed | _) => self.is_lost = true,
        }
    }

    /// Collects interfaces that workers have let go of.
    fn collect(&mut self, ports: &[PortHome]) {
        let collected = &mut self.collected;
        self.awaited.retain(|&at| match ports[at].given_up() {
            Some(handed) => collected.insert(at, handed).is_some(),
            None => true,
        });
    }

    /// Sends the interfaces, once all have been collected.
    fn give(&mut self, now: Moment, ports: &[PortHome]) {
        if self.has_sent || !self.awaited.is_empty() {
            return;
        }
        self.has_sent = true;
        for (at, handed) in std::mem::take(&mut self.collected) {
            if let Some((facts, files)) = handed.parts() {
                let name = ports[at].name().to_owned();
                let message = FromPredecessor::Port { name, facts: facts.into() };
                self.is_lost |= message::send(&self.socket, &message, &files).is_err();
            }
            self.collected.insert(at, handed);
        }
        self.send(&FromPredecessor::Ports { silent_ns: (now - self.since).0 }, &[]);
    }
}

impl Control {
    /// Answers whether this manager's work can be handed over at all, before anything is started.
    pub(in crate::control) fn may_hand_over(&self) -> Answer {
        let obstacles = super::obstacles(&self.config);
        let refuse = |why: String| Err(RequestError { code: CONFIGURATION, message: why });
        if !self.end.is_serving() {
            return refuse("the manager is ending".to_owned());
        }
        if self.change.is_some() || self.handover.is_hurried() || self.handover.is_preparing() {
            return refuse("another change is under way; try again when it is done".to_owned());
        }
        if !obstacles.is_empty() {
            return refuse(format!("its work cannot be handed over while it runs: {}", obstacles.join("; ")));
        }
        answer(&())
    }

    /// Begins to hand over to the successor that listens there.
    pub(in crate::control) fn begin_hand_over(&mut self, path: &Path, version: u32) -> Answer {
        self.may_hand_over()?;
        if version != VERSION {
            return Err(RequestError::failed(format!(
                "the manager that is to follow hands over by version {version}, and this one by {VERSION}: stop this \
                 one and start the other"
            )));
        }
        let now = self.now();
        let mut leaving = Leaving::to(path, now).map_err(|error| {
            RequestError::failed(format!(
                "cannot reach the manager that is to follow at {}: {error}",
                path.display()
            ))
        })?;
        if leaving.decision.on_asked(now).is_some() {
            self.fabric.post_all(|| Command::Receive(false));
            // A worker that says it has this plan has heard that, and what it took in before is counted.
            self.fabric.publish();
        }
        let what =
            format!("process {} is to follow: packets inside leave, and no more are taken in", leaving.pid);
        self.handover.leaving = Some(leaving);
        self.log(EventCode::HandOverBegun, "manager", what);
        answer(&())
    }

    /// Goes on with a hand-over, if there is one.
    pub(in crate::control) fn tend_leaving(&mut self) {
        let Some(mut leaving) = self.handover.leaving.take() else { return };
        let now = self.now();
        leaving.listen();
        leaving.collect(&self.ports);
        if leaving.decision.is_under_way() && !leaving.collected.is_empty() {
            leaving.give(now, &self.ports);
        }
        let seen = self.inside(&leaving);
        let mut next = leaving.decision.poll(now, seen);
        if next == Some(Parting::Close) {
            // What it sends from now on fails there (unix(7): the reading half is shut).
            let _ = rustix::net::shutdown(&leaving.socket, rustix::net::Shutdown::Read);
            leaving.listen();
            next = leaving.decision.poll(now, Inside { is_taken: leaving.is_taken, ..seen });
        }
        match next {
            Some(Parting::Give) => self.give_up_ports(&mut leaving, now),
            Some(Parting::GoOn(why)) => self.go_on_serving(why),
            Some(Parting::End) => self.hand_over(&mut leaving),
            Some(Parting::StopReceiving | Parting::Close) | None => {}
        }
        // A hand-over that failed is forgotten when every interface is back.
        let goes_on = !leaving.decision.is_under_way() && !leaving.decision.has_given();
        if goes_on {
            for (at, handed) in std::mem::take(&mut leaving.collected) {
                self.ports[at].take_up(Some(handed));
            }
        }
        if !goes_on || !leaving.awaited.is_empty() {
            self.handover.leaving = Some(leaving);
        } else {
            self.fabric.post_all(|| Command::Receive(true));
        }
    }

    fn inside(&self, leaving: &Leaving) -> Inside {
        // Asked before packets are counted: what was taken in until then is among them.
        let may_receive = !self.fabric.is_current();
        let Leaving { is_lost, is_taken, .. } = *leaving;
        Inside { in_flight: self.in_flight(), may_receive, is_lost, is_taken }
    }

    fn give_up_ports(&mut self, leaving: &mut Leaving, now: Moment) {
        for (at, port) in self.ports.iter_mut().enumerate() {
            if port.give_up() {
                leaving.awaited.push(at);
            }
        }
        leaving.give(now, &self.ports);
    }

    fn go_on_serving(&mut self, why: Failure) {
        let why = match why {
            Failure::NotDrained => {
                let holders = self.instances.iter().filter(|one| self.held_by(one) > 0);
                let names: Vec<&str> = holders.map(|one| one.seat.name.as_str()).collect();
                format!("packets did not leave within a second; NFs that hold some: {}", names.join(", "))
            }
            Failure::Lost => "the manager that was to follow has ended; its log says why".to_owned(),
            Failure::NotTaken => "the manager that was to follow did not take the interfaces".to_owned(),
        };
        self.log(
            EventCode::HandOverFailed,
            "manager",
            format!("not handed over, and everything is as before: {why}"),
        );
    }

    /// Packets in the rings and hands of an instance.
    fn held_by(&self, instance: &Instance) -> u64 {
        self.fabric.workers[instance.seat.worker.index()].board.instances[instance.seat.number.index()]
            .held
            .get()
    }

    /// Ends this manager: the successor has the interfaces.
    fn hand_over(&mut self, leaving: &mut Leaving) {
        // It has files of its own for them.
        leaving.collected.clear();
        self.handover.fate.note_successor(leaving.pid);
        self.log(EventCode::HandedOver, "manager", format!("process {} serves from now on", leaving.pid));
        self.begin_stop();
    }

    /// Sends the successor what NFs kept, which have ended all.
    pub(in crate::control) fn send_kept(&mut self) {
        let Some(mut leaving) = self.handover.leaving.take().filter(|one| one.decision.has_given()) else {
            return;
        };
        for instance in self.instances.iter() {
            let name = instance.seat.name.clone();
            if let Some((facts, file)) = instance.state.as_ref().and_then(StateHome::given) {
                let (bytes, has_standby, returned) = facts;
                leaving.send(&FromPredecessor::State { name, bytes, has_standby, returned }, &[file.as_fd()]);
            }
        }
        leaving.send(&FromPredecessor::End, &[]);
    }
}
