//! One BFD session: its sockets and its counts around the decision.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, UdpSocket};

use headgate_decide::bfd::{self, Action, Diagnostic, Discriminator, Packet, Setup, State, Timers};
use headgate_decide::decision::Decision as _;
use headgate_decide::units::{Instant, Span};
use headgate_host::neighbour::{self, NeighbourError, Received};
use headgate_wire::bfd::{Control, LENGTH, PORT, PORT_ROUTED, SOURCE_PORT_MIN};

use crate::config::model::NodeLink;
use crate::status::BfdStatus;

/// Packets read at once before others have their turn. Our choice: a neighbour sends one an interval.
const BURST: usize = 16;
/// Source ports that are tried before a session is given up. Our choice: other programs have a few.
const PORTS_TRIED: u16 = 64;

/// A session.
pub struct Session {
    link: NodeLink,
    decision: bfd::Session,
    /// Receives on the port of the protocol.
    receiver: UdpSocket,
    /// Sends from a port of the session's own (RFC 5881, 4).
    sender: UdpSocket,
    random: u64,
    /// State before what has not been told yet, and why it changed.
    change: Option<(State, String)>,
    diagnostic: Diagnostic,
    since: Instant,
    sent: u64,
    received: u64,
    refused: u64,
    unsent: u64,
    changes: u64,
    is_counted: bool,
}

impl Session {
    /// Opens the session of a link.
    pub fn open(link: &NodeLink, now: Instant) -> Result<Self, NeighbourError> {
        let open = |port| neighbour::of_link(&link.interface, (link.address, port).into(), link.is_routed());
        let receiver = open(port_of(link))?;
        let first = SOURCE_PORT_MIN + link.number % 1024;
        let mut sender = open(first);
        for port in first + 1..first + PORTS_TRIED {
            if sender.is_ok() {
                break;
            }
            sender = open(port);
        }
        // Seeded by the system anew in each process.
        let random = RandomState::new().build_hasher().finish() | 1;
        let interval = Span(link.bfd.interval_ns);
        let multiplier = link.bfd.multiplier;
        let timers = Timers { desired_transmit: interval, required_receive: interval, multiplier };
        let (local, is_routed) = (Discriminator((random >> 32) as u32 | 1), link.is_routed());
        let setup = Setup { local, timers, is_routed, now };
        Ok(Self {
            link: link.clone(),
            decision: bfd::Session::new(setup),
            receiver,
            sender: sender?,
            random,
            change: None,
            diagnostic: Diagnostic::None,
            since: now,
            sent: 0,
            received: 0,
            refused: 0,
            unsent: 0,
            changes: 0,
            is_counted: false,
        })
    }

    /// Returns the number of its link.
    pub const fn number(&self) -> u16 {
        self.link.number
    }

    /// Returns the node at the other end.
    pub fn peer(&self) -> &str {
        &self.link.peer
    }

    /// Returns its state.
    pub fn state(&self) -> State {
        self.decision.state()
    }

    /// Returns the socket that packets come by.
    pub const fn socket(&self) -> &UdpSocket {
        &self.receiver
    }

    /// Returns when it is due.
    pub fn poll_at(&self) -> Option<Instant> {
        self.decision.poll_at()
    }

    /// Takes what came.
    pub fn receive(&mut self, now: Instant) {
        // Longer ones are cut, and what follows the packet is none of it.
        let mut bytes = [0; LENGTH];
        for _ in 0..BURST {
            let Ok(Received { length, from, ttl }) = neighbour::receive(&self.receiver, &mut bytes) else {
                return;
            };
            self.is_counted = true;
            let packet = Control::parse(&bytes[..length]).ok().as_ref().and_then(packet_of);
            match packet.filter(|_| from == self.link.peer_address) {
                Some(packet) => {
                    self.received += 1;
                    self.decide(now, |decision, actions| {
                        decision.on(now, bfd::Event::Received { packet, ttl }, actions);
                    });
                }
                None => self.refused += 1,
            }
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Instant) {
        // xorshift: the jitter needs to differ between sessions, and no more.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let random = (self.random >> 32) as u32;
        self.decide(now, |decision, actions| decision.poll(now, &random, actions));
    }

    /// Says whether the data plane advances.
    pub fn data_plane(&mut self, now: Instant, advances: bool) {
        self.decide(now, |decision, actions| {
            decision.on(now, bfd::Event::DataPlane { advances }, actions);
        });
    }

    /// Tells the neighbour that it ends on purpose, so that it does not wait for more.
    pub fn take_out_of_use(&mut self, now: Instant) {
        self.decide(now, |decision, actions| {
            decision.on(now, bfd::Event::Administered { up: false }, actions);
        });
    }

    fn decide(&mut self, now: Instant, work: impl FnOnce(&mut bfd::Session, &mut Vec<Action>)) {
        let before = self.decision.state();
        let mut actions = Vec::new();
        work(&mut self.decision, &mut actions);
        for action in actions {
            match action {
                Action::Send(packet) => self.send(&packet),
                Action::Refused(_) => self.refused += 1,
                Action::Became { state, diagnostic } => {
                    self.diagnostic = diagnostic;
                    (self.since, self.changes) = (now, self.changes + 1);
                    let interface = &self.link.interface;
                    let what = match state {
                        State::Up => format!("the link by {interface} is up"),
                        _ => format!("the link by {interface} is {}: {}", word(state), reason(diagnostic)),
                    };
                    let first = self.change.take().map_or(before, |(before, _)| before);
                    self.change = Some((first, what));
                }
            }
        }
    }

    fn send(&mut self, packet: &Packet) {
        let to = SocketAddr::from((self.link.peer_address, port_of(&self.link)));
        self.is_counted = true;
        match self.sender.send_to(&control_of(packet).to_bytes(), to) {
            Ok(_) => self.sent += 1,
            // An interface that is down, say: the neighbour misses it, as it should.
            Err(_) => self.unsent += 1,
        }
    }

    /// Returns the state before a change that was not told yet, and the change in words.
    pub fn take_change(&mut self) -> Option<(State, String)> {
        self.change.take()
    }

    /// Returns whether its counts changed since the last time.
    pub fn take_counted(&mut self) -> bool {
        std::mem::take(&mut self.is_counted)
    }

    /// Returns its status.
    pub fn status(&self) -> BfdStatus {
        BfdStatus {
            peer: self.link.peer.clone(),
            interface: self.link.interface.clone(),
            address: self.link.address.to_string(),
            peer_address: self.link.peer_address.to_string(),
            state: word(self.decision.state()).to_owned(),
            diagnostic: reason(self.diagnostic).to_owned(),
            since_ns: self.since.0,
            transmit_interval_ns: self.decision.transmit_interval().0,
            detection_time_ns: self.decision.detection_time().map(|time| time.0),
            sent: self.sent,
            received: self.received,
            refused: self.refused,
            unsent: self.unsent,
            changes: self.changes,
        }
    }
}

/// Returns the port of the protocol on a link.
fn port_of(link: &NodeLink) -> u16 {
    if link.is_routed() { PORT_ROUTED } else { PORT }
}

const fn word(state: State) -> &'static str {
    match state {
        State::AdminDown => "admin-down",
        State::Down => "down",
        State::Init => "init",
        State::Up => "up",
    }
}

const fn reason(diagnostic: Diagnostic) -> &'static str {
    match diagnostic {
        Diagnostic::None => "none",
        Diagnostic::DetectionTimeExpired => "the neighbour is not heard",
        Diagnostic::EchoFailed => "the echo failed",
        Diagnostic::NeighbourSignaledDown => "the neighbour says that it is down",
        Diagnostic::ForwardingPlaneReset => "our data plane stands still",
        Diagnostic::PathDown | Diagnostic::ConcatenatedPathDown | Diagnostic::ReverseConcatenatedPathDown => {
            "a path behind it is down"
        }
        Diagnostic::AdministrativelyDown => "it was taken out of use",
    }
}

const DIAGNOSTICS: [Diagnostic; 9] = [
    Diagnostic::None,
    Diagnostic::DetectionTimeExpired,
    Diagnostic::EchoFailed,
    Diagnostic::NeighbourSignaledDown,
    Diagnostic::ForwardingPlaneReset,
    Diagnostic::PathDown,
    Diagnostic::ConcatenatedPathDown,
    Diagnostic::AdministrativelyDown,
    Diagnostic::ReverseConcatenatedPathDown,
];

/// Returns what a packet says; `None` for a state that there is not. A diagnostic that there is not is none
/// of our business (RFC 5880, 4.1: reserved).
fn packet_of(control: &Control) -> Option<Packet> {
    let state = [State::AdminDown, State::Down, State::Init, State::Up];
    let span = |us: u32| Span::from_micros(u64::from(us));
    Some(Packet {
        state: *state.get(usize::from(control.state))?,
        diagnostic: DIAGNOSTICS.get(usize::from(control.diagnostic)).copied().unwrap_or_default(),
        poll: control.poll,
        is_final: control.is_final,
        demand: control.demand,
        multiplier: control.multiplier,
        mine: Discriminator(control.mine),
        yours: Discriminator(control.yours),
        desired_transmit: span(control.desired_transmit_us),
        required_receive: span(control.required_receive_us),
    })
}

fn control_of(packet: &Packet) -> Control {
    let us = |span: Span| u32::try_from(span.0 / 1000).unwrap_or(u32::MAX);
    Control {
        state: packet.state as u8,
        diagnostic: packet.diagnostic as u8,
        poll: packet.poll,
        is_final: packet.is_final,
        is_independent: false,
        demand: packet.demand,
        multiplier: packet.multiplier,
        mine: packet.mine.0,
        yours: packet.yours.0,
        desired_transmit_us: us(packet.desired_transmit),
        required_receive_us: us(packet.required_receive),
        required_echo_us: 0,
    }
}
