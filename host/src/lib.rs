//! Interface to the operating system.
//!
//! One file per thing the rest of Headgate needs from the kernel: a clock, cores, scheduling
//! classes, hugepages, processes, counters, signals, credentials, the network's interfaces, namespaces, and
//! a janitor that undoes what was changed. Nothing here decides anything; nothing here moves a packet.
//!
//! Every error says what failed, why, and what mends it. Process and thread ids are
//! [`Pid`]; where an `Option<Pid>` is taken, `None` is the calling thread.

mod files;

pub mod accounting;
pub mod cable;
pub mod cgroup;
pub mod clock;
pub mod container;
pub mod cores;
pub mod credentials;
pub mod environment;
pub mod filter;
pub mod hugepages;
pub mod identity;
pub mod journal;
pub mod lock;
pub mod namespace;
pub mod neighbour;
pub mod network;
pub mod notify;
pub mod openvswitch;
pub mod peer;
pub mod perf;
pub mod process;
pub mod programs;
pub mod run;
pub mod sched;
pub mod signals;
pub mod stop;
pub mod undo;
pub mod users;

#[cfg(test)]
mod testing;

pub use files::FileError;
pub use rustix::process::{Pid, Signal};
