//! Every choice Headgate makes, and nothing else.
//!
//! A decision takes the time and observations as arguments and returns plain values; it reads no clock,
//! opens no file, allocates nothing on the packet path and draws no random numbers. The manager applies
//! what is decided with `host` and `plane`; a simulator can apply the same to a model.
//!
//! - [`decision`]: the one shape of those that run by time; what runs by burst is inline functions;
//! - [`record`]: what they were told and did, to be written down and replayed;
//! - [`wake`]: which sleeping NF is worth a wake-up call now, and who yields to it;
//! - [`congestion`]: when senders are told that a queue grows;
//! - [`pressure`]: which NF is overloaded, what is shed for it, and who is blocked;
//! - [`bound`]: how many packets of a chain may be inside, so that none is late;
//! - [`delay`]: how long packets take, lately;
//! - [`relief`]: which instance gives up flows when packets wait too long for it;
//! - [`cost`]: what one packet costs an NF, by its own words and by the kernel's;
//! - [`share`]: which part of a shared core each NF gets;
//! - [`weights`]: when loads and costs are sampled, who competes for a core, and when shares are written;
//! - [`mod@slice`]: which NF of a core has it next where NFs never sleep, and for how long;
//! - [`objectives`]: whether what chains were promised is kept, and whether it can be;
//! - [`outstanding`]: which packets an external program has kept;
//! - [`spread`]: which instance of an NF a flow goes to;
//! - [`lifecycle`]: what happens next in the life of an NF instance;
//! - [`reconfigure`]: how one configuration follows another;
//! - [`shutdown`]: how a manager ends; [`handover`]: how another follows it;
//! - [`liveness`]: whether an NF that takes no packets is busy, stopped or lost in a loop;
//! - [`rest`]: how long a worker that finds nothing to do leaves its core;
//! - [`restart`]: when a failed NF may start again;
//! - [`replicate`]: what the nodes of a group say to each other so that one may be lost and no state is;
//! - [`taken`]: whether others have a core of workers or NFs;
//! - [`evacuate`]: which groups leave a node that will lose its power, in which order, and by which path;
//! - [`takeover`]: what the spare of an NF does first when the process that worked has died;
//! - [`bfd`]: whether a neighbour and the link to it are alive;
//! - [`spare`]: when a process is made that waits to be an instance's next one;
//! - [`market`]: prices of links and cores, from demand;
//! - [`steer`]: which instance a flow goes to in a network of nodes, and which flows move;
//! - [`elastic`]: where instances start and end;
//! - [`chain_ids`]: which number a chain has on the wire, and when that may be used again;
//! - [`routes`]: by which link packets go towards another node;
//! - [`peers`]: which nodes are alive, by what they say of themselves;
//! - [`profile`]: where the time of a packet goes, and what to change first;
//! - [`statistics`]: median and spread, by which measurements are judged.
#![no_std]
#![forbid(unsafe_code)]

pub use headgate_units as units;

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bfd;
pub mod bound;
pub mod chain_ids;
pub mod congestion;
pub mod cost;
pub mod decision;
pub mod delay;
pub mod elastic;
pub mod evacuate;
pub mod handover;
pub mod lifecycle;
pub mod liveness;
pub mod market;
pub mod objectives;
pub mod outstanding;
pub mod peers;
pub mod pressure;
pub mod profile;
pub mod reconfigure;
pub mod record;
pub mod relief;
pub mod replicate;
pub mod rest;
pub mod restart;
pub mod routes;
pub mod share;
pub mod shutdown;
pub mod slice;
#[cfg(test)]
mod snapshot;
pub mod spare;
pub mod spread;
pub mod statistics;
pub mod steer;
pub mod taken;
pub mod takeover;
pub mod unheard;
pub mod wake;
pub mod weights;
