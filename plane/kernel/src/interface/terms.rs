//! What an interface is to the queue on it, and how it fares.

/// How an interface is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By packet sockets on it.
    Sockets,
    /// By packet sockets on it, for some frames alone: all others stay the kernel's.
    SocketsFor(Frames),
    /// It is a TAP, whose cable ends here.
    Tap,
}

impl Kind {
    /// Returns whether packet sockets are on it.
    pub(super) const fn has_sockets(self) -> bool {
        matches!(self, Self::Sockets | Self::SocketsFor(_))
    }

    /// Returns the protocol of frames that its sockets receive.
    pub(super) const fn protocol(self) -> u16 {
        match self {
            Self::SocketsFor(frames) => frames.ethertype,
            Self::Sockets | Self::Tap => libc::ETH_P_ALL as u16,
        }
    }
}

/// Frames of an interface that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Their EtherType.
    pub ethertype: u16,
    /// Two bytes that they have: where behind the Ethernet header, and which, big endian. So several queues
    /// share an interface, and none sees what is for another.
    pub word: Option<(u8, u16)>,
}

/// Terms of a queue on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Name of the interface.
    pub name: String,
    /// How it is reached.
    pub kind: Kind,
    /// Frames that may wait in the ring of a socket; of a TAP its interface says how many.
    pub waiting: u32,
    /// The longest frame that buffers have room for, in bytes.
    pub frame_bytes: u32,
    /// Whether TCP segments that follow each other may leave as one long frame, and enter as one where long
    /// frames stay whole.
    pub joins: bool,
}

/// State of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It carries packets.
    Up,
    /// It is switched off, or what it is joined to is.
    Down,
    /// There is none of this name.
    Gone,
    /// Another process has it: one that is to hand it to this one, or that this one handed it to.
    Away,
}

impl State {
    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Gone => "gone",
            Self::Away => "away",
        }
    }
}
