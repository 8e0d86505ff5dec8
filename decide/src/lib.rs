//! Every choice Headgate makes, and nothing else.
//!
//! A decision takes the time and observations as arguments and returns plain values; it reads no clock,
//! opens no file, allocates nothing on the packet path and draws no random numbers. The manager applies
//! what is decided with `host` and `plane`; a simulator can apply the same to a model.
//!
//! - [`wake`]: which sleeping NF is worth a wake-up call now, and who yields to it;
//! - [`congestion`]: when senders are told that a queue grows;
//! - [`pressure`]: which NF is overloaded, what is shed for it, and who is blocked;
//! - [`bound`]: how many packets of a chain may be inside, so that none is late;
//! - [`delay`]: how long packets take, lately;
//! - [`cost`]: what one packet costs an NF, by its own words and by the kernel's;
//! - [`share`]: which part of a shared core each NF gets;
//! - [`turn`]: whose turn it is on a core of NFs that never sleep, and for how long;
//! - [`outstanding`]: which packets an external program has kept;
//! - [`spread`]: which instance of an NF a flow goes to;
//! - [`lifecycle`]: what happens next in the life of an NF instance;
//! - [`liveness`]: whether an NF that says nothing is busy, stopped or lost in a loop;
//! - [`reconfigure`]: how one configuration follows another;
//! - [`shutdown`]: how a manager ends;
//! - [`restart`]: when a failed NF may start again;
//! - [`profile`]: where the time of a packet goes, and what to change first;
//! - [`statistics`]: median and spread, by which measurements are judged.
#![no_std]
#![forbid(unsafe_code)]

pub use headgate_units as units;

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bound;
pub mod congestion;
pub mod cost;
pub mod delay;
pub mod lifecycle;
pub mod liveness;
pub mod outstanding;
pub mod pressure;
pub mod profile;
pub mod reconfigure;
pub mod restart;
pub mod share;
pub mod shutdown;
#[cfg(test)]
mod snapshot;
pub mod spread;
pub mod statistics;
pub mod turn;
pub mod wake;
