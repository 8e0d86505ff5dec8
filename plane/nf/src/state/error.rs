//! Bounds of tables, and reasons why there is no state.

use std::time::Duration;

use headgate_shm::MemoryError;
use headgate_shm::state::NoRoomError;

/// Most entries of a table. Our choice: with slots of 64 bytes 1.5 GiB.
pub const ENTRIES_MAX: u32 = 1 << 24;

/// Most bytes of a key or a value of [`BytesTable`](super::BytesTable). Our choice: a page of the machine's.
pub const PLAIN_BYTES_MAX: usize = 4096;

/// Limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Most entries, 1 to [`ENTRIES_MAX`]. Its memory, half as many slots more, is taken at the start.
    pub entries: u32,
    /// Time after its last [`edit`](super::Table::edit) or [`insert`](super::Table::insert) from which on an
    /// entry is gone; none: it stays until it is removed.
    pub idle: Option<Duration>,
}

/// Error: a table has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {entries} entries are in use")]
pub struct Full {
    /// Its bound.
    pub entries: u32,
}

/// Reason why an NF does not get its state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Kept state beside files.
    #[error(
        "an NF that reads or writes files holds packets, so its state cannot be kept; leave `state` of its [[nf]] out"
    )]
    Disk,
    /// Not made by the process that the standby stands by.
    #[error(
        "`{name}`: the process that works has no such table or value, so its standby cannot take it over; it is of \
         another program, or makes tables in another way each time; restart the NF"
    )]
    Standby {
        /// Its name.
        name: String,
    },
    /// After the start.
    #[error("`{name}`: tables and values are made at the start of an NF, not later")]
    Late {
        /// Its name.
        name: String,
    },
    /// Made before.
    #[error("`{name}`: two tables or values have this name")]
    Twice {
        /// Its name.
        name: String,
    },
    /// A bound that is none.
    #[error("`{name}`: a table has 1 to {ENTRIES_MAX} entries, not {entries}")]
    Bound {
        /// Its name.
        name: String,
        /// The number that was asked for.
        entries: u32,
    },
    /// A key or a value of an impossible size.
    #[error("`{name}`: keys and values have 1 to {PLAIN_BYTES_MAX} bytes, not {bytes}")]
    Bytes {
        /// Its name.
        name: String,
        /// The number that was asked for.
        bytes: usize,
    },
    /// No room in the region.
    #[error("`{name}` does not fit the kept state: {why}; raise `bytes` of `state` of its [[nf]]")]
    Room {
        /// Its name.
        name: String,
        /// What is there.
        why: NoRoomError,
    },
    /// Another schema, and the configuration refuses that.
    #[error(
        "`{name}` was kept by a program with another schema, and `state.on_change` is \"refuse\"; run the program \
         that kept it, or set \"discard\""
    )]
    Changed {
        /// Its name.
        name: String,
    },
    /// The region cannot be used.
    #[error("the kept state: {0}")]
    Memory(#[from] MemoryError),
}
