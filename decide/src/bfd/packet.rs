//! Contents of a BFD control packet. Its bytes are read and written by `wire`.

use crate::units::Span;

/// State of a session. RFC 5880, 4.1; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum State {
    /// Taken out of use by the operator.
    AdminDown = 0,
    /// The neighbour is not heard.
    #[default]
    Down = 1,
    /// The neighbour is heard, and does not know it yet.
    Init = 2,
    /// Both hear each other.
    Up = 3,
}

/// Reason for the last time that a session went down. RFC 5880, 4.1; the numbers are those on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Diagnostic {
    /// It never did.
    #[default]
    None = 0,
    /// Nothing was heard for a detection time.
    DetectionTimeExpired = 1,
    /// The echo function failed. Never said by us.
    EchoFailed = 2,
    /// The neighbour said that it is down.
    NeighbourSignaledDown = 3,
    /// The data plane hangs.
    ForwardingPlaneReset = 4,
    /// The path is down, says somebody else. Never said by us.
    PathDown = 5,
    /// A concatenated path is down. Never said by us.
    ConcatenatedPathDown = 6,
    /// The operator took it out of use.
    AdministrativelyDown = 7,
    /// A concatenated path is down on the way back. Never said by us.
    ReverseConcatenatedPathDown = 8,
}

/// A node's number of one of its sessions. Zero is no session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Discriminator(pub u32);

/// A control packet. Intervals are whole microseconds below 2^32 on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Packet {
    /// State of the sender.
    pub state: State,
    /// Reason for the sender's last fall.
    pub diagnostic: Diagnostic,
    /// Whether an answer with `is_final` is asked for.
    pub poll: bool,
    /// Whether this answers one with `poll`.
    pub is_final: bool,
    /// Whether the sender asks for no periodic packets while the session is up.
    pub demand: bool,
    /// Number of the sender's packets that may be missed in a row.
    pub multiplier: u8,
    /// The sender's number of the session.
    pub mine: Discriminator,
    /// The receiver's number of the session, as far as the sender knows it.
    pub yours: Discriminator,
    /// Shortest interval at which the sender wants to send.
    pub desired_transmit: Span,
    /// Shortest interval at which the sender accepts packets.
    pub required_receive: Span,
}

/// Reason for not believing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Refusal {
    /// Its TTL says that it came through a router.
    Forwarded,
    /// Its multiplier is zero.
    NoMultiplier,
    /// Its sender has no number for the session.
    NoDiscriminator,
    /// It asks and answers at once.
    PollAndFinal,
    /// It claims a session that was never agreed.
    UpWithoutUs,
    /// It is meant for another session.
    OtherSession,
}

/// Pace of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timers {
    /// Shortest interval at which we want to send, once up.
    pub desired_transmit: Span,
    /// Shortest interval at which we accept packets. Zero: none are to be sent to us.
    pub required_receive: Span,
    /// Number of our packets that the neighbour may miss in a row. At least one.
    pub multiplier: u8,
}
