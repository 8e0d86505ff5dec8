//! The memif protocol, version 2.0, as its server: packets between a worker and a program that we did not
//! write, through memory that the program brings.
//!
//! Programs on DPDK, VPP and libmemif speak it. The program is the *client*: it makes the memory and the
//! rings and hands them over a Unix socket; we are the *server* and copy packets in and out.
//!
//! ```text
//! message     the control messages, 128 bytes each
//! meeting     its own thread   listens, shakes hands, sees the client go; control asks for its outcome
//! ring        both             one ring in the client's memory
//! connection  worker           packets in and out
//! ```
//!
//! DPDK has a server too. It trusts its client: what stands in a descriptor is added to a base and copied, so
//! a client can have it read and write anywhere; and it shows nobody its rings. Here a client harms only
//! itself: memory that could shrink is refused, every index, region, offset and length is read once and
//! checked, and the first offence ends the connection ([`ClientOffence`]).
//!
//! A client must poll: we ring no bell (its eventfds are closed). To write to a descriptor that an untrusted
//! client made, which may be anything, could block a worker.

mod connection;
pub mod meeting;
pub mod message;
pub mod port;
mod ring;

pub use connection::{Connection, Counts};
pub use meeting::Meeting;
pub use ring::{ClientOffence, LOG2_RING_MAX, Watch};
