//! Frames between the nodes of a group whose state is replicated: packets on their way to the active node and
//! back, and what the nodes tell each other.
//!
//! ```text
//! 0 version 1 | kind 1 | length 2      8 view 4      16 clock 8      28 time 4
//! 4 group 2   | lane 2                 12 seq 4      24 crc32c 4
//! ```
//!
//! Big endian, behind an Ethernet header of type 0x88B5 (IEEE 802, local experimental). The length is that of
//! the body; a short frame is padded by its sender's device. The sum covers the header, and the body too but
//! for packets ([`Kind::has_packet`]), which have sums of their own and are not to be read twice.
//!
//! A frame may have several packets, each behind a header of its own, one behind the other: the first that is
//! no packet ends them.
//!
//! [`Frame`] is the view, [`Header`] the value. [`Message`] has the fields of each body that fits one frame.
//! What may be longer is sent in parts ([`Part`]): [`Commit`], [`StateEnd`], and state itself, whose bytes
//! only the NF knows.
//!
//! Nothing here keeps state: whether a view, a group or an epoch is one to heed, its receiver knows.

mod body;
mod clocks;
mod header;
#[cfg(test)]
mod tests;

pub use body::{Assignment, Commit, Incarnation, Message, Part, Run, StateEnd, StateSum};
pub use clocks::{Clocks, Cut, LANES_MAX};
pub use header::{
    Body, ETHERTYPE, FRONT_BYTES, Frame, FrameError, GROUP_AT, HEADER_BYTES, Header, Kind, VERSION,
    sum_of_state,
};
