//! Counters of a group on one node: one writer, many readers.

use headgate_decide::replicate::LANES_MAX;

use crate::board::Count;

macro_rules! refusals {
    ($($name:ident, $word:literal, $sentence:literal;)*) => {
        /// Reason for which a frame of another node is not heeded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Refusal { $(#[doc = $sentence] $name),* }

        impl Refusal {
            /// All reasons, in the order of the counters.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// Returns the name in counters, tables and `--json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Returns the sentence for people.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }
        }
    };
}

refusals! {
    Malformed,     "malformed",      "it ends early, or its body is not one of its kind";
    Version,       "version",        "it is of another version of the protocol";
    Crc,           "crc",            "its sum is not that of its bytes";
    ForeignGroup,  "foreign-group",  "it is of another group, or has lanes that this one has not";
    ForeignView,   "foreign-view",   "it was sent in another view";
    StaleEpoch,    "stale-epoch",    "a newer checkpoint is stored";
    Configuration, "configuration",  "its sender has another configuration of the group";
    Duplicate,     "duplicate",      "it came before";
    Gap,           "gap",            "one before it is missing: it will be sent again";
}

/// Number of reasons.
pub const REFUSALS: usize = Refusal::ALL.len();

/// Counters of a lane.
#[derive(Default)]
pub struct LaneCounts {
    /// At the gate, the clock of the last packet that came; elsewhere the last one that was taken.
    pub arrived: Count,
    /// At the gate, the last clock that was sent; elsewhere the last one worked on.
    pub finished: Count,
    /// Clock of the last packet whose outputs left.
    pub released: Count,
    /// At the gate, the last clock that is not in the log any more.
    pub trimmed: Count,
}

/// Counters of a group.
#[derive(Default)]
pub struct GroupBoard {
    /// Part of the node: 0 neither, 1 gate, 2 active, 3 active on its own, 4 standby.
    pub role: Count,
    /// The view that it is in.
    pub view: Count,
    /// At the gate, whether the standby could be promoted now.
    pub protected: Count,
    /// Number of the last checkpoint that is known to be stored.
    pub epoch: Count,
    /// At the active node, time that the last copy of state took until it was stored, in nanoseconds.
    pub copy_ns: Count,
    /// Copies that were stored and that the control loop has taken in.
    pub prepared: Count,
    /// Packets in the log.
    pub in_log: Count,
    /// Packets in the latch.
    pub in_latch: Count,
    /// Outputs that came to the gate a second time and ended there.
    pub doubled: Count,
    /// By lane.
    pub lanes: [LaneCounts; LANES_MAX],
    /// Frames that were not heeded, by reason.
    pub refused: [Count; REFUSALS],
}

impl GroupBoard {
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.refused[refusal as usize].add(1);
    }
}
