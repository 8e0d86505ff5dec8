//! Bidirectional Forwarding Detection: whether a neighbour and the link to it are alive.
//!
//! The problem: the kernel tells of a cable that is pulled, but not of a neighbour that hangs, a switch that
//! forwards one way only, or a link that loses most of what it is given. A node that takes over from one that
//! is alive does harm, and one that takes over late loses service.
//!
//! The intuition: both sides send at a pace that both agree to, and one that hears nothing for
//! [`Timers::multiplier`] of these says so. Every packet carries what its sender believes of the session, so
//! a link that is open one way only brings both sides down.
//!
//! The threshold: detection time is the neighbour's multiplier times the slower of its pace and the one that
//! we accept (RFC 5880, 6.8.4). While a session is not up it sends once a second at most (6.8.3): a link that
//! is gone is not to be flooded. A change of timers is announced by a Poll Sequence, and whatever would make
//! us miss packets that are still sent at the old pace waits for its Final (6.8.3).
//!
//! Deviations: no echo, no authentication, no demand mode of our own (a neighbour may ask for it of us).
//! A data plane that hangs takes the session down with diagnostic 4 and keeps it down, because a node whose
//! workers stand still forwards nothing, however well its BFD thread runs.
//!
//! What it refuses to do: read a clock, draw a random number (each poll is given one, for the jitter), or
//! believe a packet that may have come through a router where none is between (RFC 5881, 5: the TTL is 255).
//!
//! Source: RFC 5880, 5881, 5883.

mod packet;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use packet::{Diagnostic, Discriminator, Packet, Refusal, State, Timers};

use crate::decision::Decision;
use crate::units::{Instant, Span};

/// Shortest interval that a session may announce while it is not up. RFC 5880, 6.8.3.
pub const SLOW: Span = Span::from_secs(1);
/// The only TTL of a packet that no router has forwarded. RFC 5881, 5.
pub const TTL: u8 = 255;

/// Settings of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setup {
    /// Our number of the session, unique on this node.
    pub local: Discriminator,
    /// Its pace.
    pub timers: Timers,
    /// Whether routers are between the two, and packets come with any TTL (RFC 5883).
    pub is_routed: bool,
    /// Time at which it begins to exist.
    pub now: Instant,
}

/// Event in the life of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// A packet came that is well formed.
    Received {
        /// The packet.
        packet: Packet,
        /// Its time to live, as the kernel tells it.
        ttl: u8,
    },
    /// The operator takes the session out of use, or into use again.
    Administered {
        /// Whether it is in use.
        up: bool,
    },
    /// The workers and the control loop were seen to advance, or not to.
    DataPlane {
        /// Whether they advance.
        advances: bool,
    },
    /// The pace was configured anew.
    Configured(Timers),
}

/// Command of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Send this now, with a TTL of [`TTL`].
    Send(Packet),
    /// The session changed.
    Became {
        /// Its state.
        state: State,
        /// Reason for the last time that it went down.
        diagnostic: Diagnostic,
    },
    /// A packet was not believed.
    Refused(Refusal),
}

/// One session with a neighbour over one link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    local: Discriminator,
    is_routed: bool,
    timers: Timers,
    state: State,
    diagnostic: Diagnostic,
    data_plane_advances: bool,
    remote: Remote,
    /// The interval that is announced; slow until up.
    desired: Span,
    /// The interval that we still send at while a Poll Sequence announces a longer one.
    sends_at: Span,
    /// The interval that the neighbour may still send at while a Poll Sequence announces a shorter one.
    accepts: Span,
    polling: bool,
    /// A Poll Sequence is to follow the one under way, whose packets may have the old timers.
    poll_again: bool,
    /// Time of the last packet that was sent on time.
    sent: Instant,
    /// Random number that the interval after it is shortened by.
    jitter: u32,
    /// Time of the last packet that was believed; `None` if that is a detection time ago.
    heard: Option<Instant>,
    /// Time until which an administered end is announced.
    announced_until: Option<Instant>,
}

/// Facts about the neighbour, by its last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Remote {
    discriminator: Discriminator,
    state: State,
    demand: bool,
    required_receive: Span,
    desired_transmit: Span,
    multiplier: u8,
}

impl Remote {
    /// RFC 5880, 6.8.1: nothing is known, and the interval it accepts is one microsecond.
    const UNKNOWN: Self = Self {
        discriminator: Discriminator(0),
        state: State::Down,
        demand: false,
        required_receive: Span::from_micros(1),
        desired_transmit: Span::ZERO,
        multiplier: 0,
    };
}

impl Decision for Session {
    type Setup = Setup;
    type Event = Event;
    /// A random number, for the jitter of the next interval.
    type Sample = u32;
    type Action = Action;

    fn new(setup: Setup) -> Self {
        let desired = setup.timers.desired_transmit.max(SLOW);
        Self {
            local: setup.local,
            is_routed: setup.is_routed,
            timers: setup.timers,
            state: State::Down,
            diagnostic: Diagnostic::None,
            data_plane_advances: true,
            remote: Remote::UNKNOWN,
            desired,
            sends_at: desired,
            accepts: setup.timers.required_receive,
            polling: false,
            poll_again: false,
            sent: setup.now,
            jitter: 0,
            heard: None,
            announced_until: None,
        }
    }

    fn on(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Received { packet, ttl } => match self.refusal(&packet, ttl) {
                Some(refusal) => actions.push(Action::Refused(refusal)),
                None => self.on_packet(now, &packet, actions),
            },
            Event::Administered { up } => self.on_administered(now, up, actions),
            Event::DataPlane { advances } => {
                self.data_plane_advances = advances;
                if !advances && matches!(self.state, State::Init | State::Up) {
                    self.go_to(State::Down, Diagnostic::ForwardingPlaneReset, actions);
                }
            }
            Event::Configured(timers) => {
                self.timers = timers;
                self.set_intervals();
            }
        }
    }

    fn poll(&mut self, now: Instant, random: &u32, actions: &mut Vec<Action>) {
        if self.detection_ends().is_some_and(|end| end.is_due(now)) {
            (self.heard, self.remote) = (None, Remote::UNKNOWN);
            // Nobody is there to end a Poll Sequence.
            (self.polling, self.poll_again) = (false, false);
            if matches!(self.state, State::Init | State::Up) {
                self.go_to(State::Down, Diagnostic::DetectionTimeExpired, actions);
            }
            self.set_intervals();
        }
        if self.next_send().is_some_and(|next| next.is_due(now)) {
            self.sent = now;
            self.jitter = *random;
            actions.push(Action::Send(self.packet(self.polling, false)));
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        [self.detection_ends(), self.next_send()].into_iter().flatten().min()
    }
}

impl Session {
    /// Returns its state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the interval at which it sends, before jitter: the slower of ours and what the neighbour
    /// accepts. RFC 5880, 6.8.7.
    #[must_use]
    pub fn transmit_interval(&self) -> Span {
        self.sends_at.max(self.remote.required_receive)
    }

    /// Returns the time without packets after which the neighbour is down; `None` before its first packet.
    /// RFC 5880, 6.8.4.
    #[must_use]
    pub fn detection_time(&self) -> Option<Span> {
        let interval = self.accepts.max(self.remote.desired_transmit);
        (self.remote.multiplier > 0).then(|| interval.times(u64::from(self.remote.multiplier)))
    }

    fn detection_ends(&self) -> Option<Instant> {
        // A neighbour that was asked to send nothing is not missed.
        let may_hear = self.accepts > Span::ZERO;
        Some(self.heard? + self.detection_time()?).filter(|_| may_hear)
    }

    /// RFC 5880, 6.8.7: the interval is shortened by up to a quarter at random, so that sessions do not meet;
    /// where one missed packet is the end, by a tenth at least.
    fn next_send(&self) -> Option<Instant> {
        let is_content = self.remote.demand && self.state == State::Up && self.remote.state == State::Up;
        let is_over = self.announced_until.is_some_and(|until| until.is_due(self.sent));
        if self.remote.required_receive == Span::ZERO || is_over || is_content && !self.polling {
            return None;
        }
        let interval = self.transmit_interval().0;
        let (least, most) = (if self.timers.multiplier == 1 { interval / 10 } else { 0 }, interval / 4);
        let spread = u128::from(most - least) * u128::from(self.jitter) / u128::from(u32::MAX);
        Some(self.sent + Span(interval - least - spread as u64))
    }

    fn packet(&self, poll: bool, is_final: bool) -> Packet {
        Packet {
            state: self.state,
            diagnostic: self.diagnostic,
            poll,
            is_final,
            demand: false,
            multiplier: self.timers.multiplier,
            mine: self.local,
            yours: self.remote.discriminator,
            desired_transmit: self.desired,
            required_receive: self.timers.required_receive,
        }
    }

    /// RFC 5880, 6.8.6, first half. What is wrong with the bytes is refused by the parser.
    fn refusal(&self, packet: &Packet, ttl: u8) -> Option<Refusal> {
        let knows_no_number = packet.yours == Discriminator(0);
        match () {
            () if ttl != TTL && !self.is_routed => Some(Refusal::Forwarded),
            () if packet.multiplier == 0 => Some(Refusal::NoMultiplier),
            () if packet.mine == Discriminator(0) => Some(Refusal::NoDiscriminator),
            () if packet.poll && packet.is_final => Some(Refusal::PollAndFinal),
            () if knows_no_number && matches!(packet.state, State::Init | State::Up) => {
                Some(Refusal::UpWithoutUs)
            }
            () if !knows_no_number && packet.yours != self.local => Some(Refusal::OtherSession),
            () => None,
        }
    }

    /// RFC 5880, 6.8.6, second half.
    fn on_packet(&mut self, now: Instant, packet: &Packet, actions: &mut Vec<Action>) {
        self.remote = Remote {
            discriminator: packet.mine,
            state: packet.state,
            demand: packet.demand,
            required_receive: packet.required_receive,
            desired_transmit: packet.desired_transmit,
            multiplier: packet.multiplier,
        };
        if packet.is_final && self.polling {
            self.on_final();
        }
        if self.state == State::AdminDown {
            return;
        }
        self.heard = Some(now);
        self.step(packet.state, actions);
        if packet.poll {
            actions.push(Action::Send(self.packet(false, true)));
        }
    }

    /// The three-way handshake of RFC 5880, 6.2.
    fn step(&mut self, remote: State, actions: &mut Vec<Action>) {
        let signaled = Diagnostic::NeighbourSignaledDown;
        match (self.state, remote) {
            (State::Init | State::Up, State::AdminDown) | (State::Up, State::Down) => {
                self.go_to(State::Down, signaled, actions);
            }
            // One that cannot forward does not offer to.
            (State::Down, State::Down) if self.data_plane_advances => {
                self.go_to(State::Init, self.diagnostic, actions);
            }
            (State::Down, State::Init) if self.data_plane_advances => {
                self.go_to(State::Up, Diagnostic::None, actions);
            }
            (State::Init, State::Init | State::Up) => self.go_to(State::Up, Diagnostic::None, actions),
            _ => {}
        }
    }

    fn on_administered(&mut self, now: Instant, up: bool, actions: &mut Vec<Action>) {
        match (up, self.state) {
            (false, state) if state != State::AdminDown => {
                // RFC 5880, 6.8.16: the neighbour is told for a detection time at least, as it counts it.
                let interval = self.timers.desired_transmit.max(SLOW).max(self.remote.required_receive);
                self.announced_until = Some(now + interval.times(u64::from(self.timers.multiplier)));
                self.heard = None;
                self.go_to(State::AdminDown, Diagnostic::AdministrativelyDown, actions);
            }
            (true, State::AdminDown) => {
                self.announced_until = None;
                self.remote = Remote::UNKNOWN;
                self.sent = now;
                self.go_to(State::Down, Diagnostic::None, actions);
            }
            _ => {}
        }
    }

    /// Changes the state and tells the neighbour at once. RFC 5880, 6.8.7: a packet whose contents are new
    /// should not wait for its time.
    fn go_to(&mut self, state: State, diagnostic: Diagnostic, actions: &mut Vec<Action>) {
        (self.state, self.diagnostic) = (state, diagnostic);
        self.set_intervals();
        actions.push(Action::Became { state, diagnostic });
        if self.remote.required_receive > Span::ZERO {
            actions.push(Action::Send(self.packet(self.polling, false)));
        }
    }

    /// Applies the configured pace. RFC 5880, 6.8.3: announced by a Poll Sequence; to send less often, or to
    /// expect packets more often, waits until it has ended.
    fn set_intervals(&mut self) {
        let is_up = self.state == State::Up;
        let own = self.timers.desired_transmit;
        let desired = if is_up { own } else { own.max(SLOW) };
        let required = self.timers.required_receive;
        let changes = desired != self.desired || required != self.accepts;
        self.desired = desired;
        if !is_up || desired < self.sends_at {
            self.sends_at = desired;
        }
        if !is_up || required > self.accepts {
            self.accepts = required;
        }
        if changes && self.remote.discriminator != Discriminator(0) {
            self.poll_again = self.polling;
            self.polling = true;
        }
    }

    fn on_final(&mut self) {
        self.polling = core::mem::take(&mut self.poll_again);
        if !self.polling {
            (self.sends_at, self.accepts) = (self.desired, self.timers.required_receive);
        }
    }
}
