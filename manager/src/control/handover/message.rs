//! Messages between a manager and the one that follows it: JSON over a socket of packets, with open files.
//!
//! Both are of the same user, and of versions that may differ: [`VERSION`] says whether they understand each
//! other, before anything stops.

use headgate_kernel::interface::{HandedFacts, RingFacts};
use serde::{Deserialize, Serialize};

/// Version of these messages. Another one is refused: then the old manager is stopped and the new one
/// started.
pub const VERSION: u32 = 1;

/// Message of a manager that is followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum FromPredecessor {
    /// A port's interface, with its files.
    Port {
        /// The port.
        name: String,
        /// Facts beside the files.
        facts: PortFacts,
    },
    /// No further port comes.
    Ports {
        /// Time for which no packet was taken in so far, in nanoseconds.
        silent_ns: u64,
    },
    /// Kept state of an NF instance, with its file.
    State {
        /// The instance.
        name: String,
        /// Size that was configured, in bytes.
        bytes: u64,
        /// Whether packets are saved in its undo log too.
        has_standby: bool,
        /// Packets that its processes returned, ever (wraps).
        returned: u32,
    },
    /// All NFs have ended, and nothing further comes.
    End,
}

/// Message of a manager that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum FromSuccessor {
    /// It has the interfaces and goes on.
    Taken,
}

/// [`HandedFacts`], to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortFacts {
    /// Packet sockets.
    Sockets {
        /// Frames of the ring.
        frames: u32,
        /// Bytes of each.
        frame_bytes: u32,
        /// Number of the next one.
        next: u32,
        /// The longest frame of the interface, in bytes.
        sent_bytes_max: u32,
    },
    /// A TAP.
    Tap {
        /// The longest frame of the interface, in bytes.
        sent_bytes_max: u32,
    },
}

impl From<HandedFacts> for PortFacts {
    fn from(facts: HandedFacts) -> Self {
        match facts {
            HandedFacts::Sockets(RingFacts { frames, frame_bytes, next, sent_bytes_max }) => {
                Self::Sockets { frames, frame_bytes, next, sent_bytes_max }
            }
            HandedFacts::Tap { sent_bytes_max } => Self::Tap { sent_bytes_max },
        }
    }
}

impl From<PortFacts> for HandedFacts {
    fn from(facts: PortFacts) -> Self {
        match facts {
            PortFacts::Sockets { frames, frame_bytes, next, sent_bytes_max } => {
                Self::Sockets(RingFacts { frames, frame_bytes, next, sent_bytes_max })
            }
            PortFacts::Tap { sent_bytes_max } => Self::Tap { sent_bytes_max },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_a_manager_of_another_version_reads() {
        let ring = RingFacts { frames: 1024, frame_bytes: 2048, next: 7, sent_bytes_max: 1514 };
        let facts = PortFacts::from(HandedFacts::Sockets(ring));
        assert_eq!(HandedFacts::from(facts), HandedFacts::Sockets(ring));
        let tap = HandedFacts::Tap { sent_bytes_max: 9014 };
        assert_eq!(HandedFacts::from(PortFacts::from(tap)), tap);
        // Words of version 1: a change of them is a new version.
        for (message, text) in [
            (
                FromPredecessor::Port { name: "west".to_owned(), facts },
                r#"{"say":"port","name":"west","facts":{"sockets":{"frames":1024,"frame_bytes":2048,"next":7,"sent_bytes_max":1514}}}"#,
            ),
            (FromPredecessor::Ports { silent_ns: 5 }, r#"{"say":"ports","silent_ns":5}"#),
            (
                FromPredecessor::State { name: "mon".to_owned(), bytes: 1, has_standby: true, returned: 2 },
                r#"{"say":"state","name":"mon","bytes":1,"has_standby":true,"returned":2}"#,
            ),
            (FromPredecessor::End, r#"{"say":"end"}"#),
        ] {
            assert_eq!(serde_json::to_string(&message).unwrap(), text);
            assert_eq!(serde_json::from_str::<FromPredecessor>(text).unwrap(), message);
        }
        assert_eq!(serde_json::to_string(&FromSuccessor::Taken).unwrap(), r#"{"say":"taken"}"#);
        assert_eq!(VERSION, 1);
    }
}
