//! The memory shared between the manager and the network functions (NFs), and the rules by which
//! untrusted processes may touch it.
//!
//! From the ground up:
//! - [`memory`]: a sealed memfd, mapped;
//! - [`guard`]: what stands in for pages that an untrusted process takes away;
//! - [`geometry`]: the shape of a packet region;
//! - [`region`]: a packet region, the buffers of one trust domain;
//! - [`descriptor`]: the word that names a packet, and the verdict an NF gives on it;
//! - [`ring`]: one producer, one consumer, bulk operations;
//! - [`doorbell`]: how a sleeping NF is woken without a lost wake-up;
//! - [`owner`]: whether the thread that fills a transmit ring has ended;
//! - [`histogram`]: counts of service times;
//! - [`control`]: what lies where in the memory of one NF instance;
//! - [`state`]: what an NF keeps, and its undo log;
//! - [`times`]: when packets came, for NFs to read;
//! - [`stack`]: the free buffers in the hands of one worker;
//! - [`offence`]: what an NF can do wrong, each with a name.
//!
//! The manager believes nothing it reads here. Ring indices and descriptors are checked before use,
//! private copies of indices start from constants and never from shared memory.

#[cfg(not(loom))]
pub mod control;
pub mod cpu;
pub mod descriptor;
pub mod doorbell;
pub mod geometry;
pub mod guard;
pub mod histogram;
pub mod memory;
pub mod offence;
#[cfg(not(loom))]
pub mod owner;
pub mod region;
pub mod ring;
pub mod stack;
#[cfg(not(loom))]
pub mod state;
mod sync;
#[cfg(not(loom))]
pub mod times;

#[cfg(not(loom))]
pub use control::{Bell, ControlLayout, ManagerSide, NfSide};
pub use descriptor::{Descriptor, Verdict};
pub use geometry::Geometry;
pub use memory::{Memory, MemoryError, Pages, PagesWanted};
pub use offence::Offence;
pub use region::Region;
pub use stack::Stack;
#[cfg(not(loom))]
pub use times::{Times, TimesView};
