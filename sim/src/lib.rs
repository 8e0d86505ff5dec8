//! A deterministic simulator: models of cores, kernels, rings, NFs and workers, under the very decisions that
//! the manager and the packet path apply (`decide`).
//!
//! A [`Scene`] says what there is; a [`World`] runs it and returns a [`Report`]. The same scene gives the
//! same report to the bit, on any machine and in any build.
//!
//! - `scene`: what can be asked, as plain values; `costs`: what things cost on the machine;
//! - `traffic`, `sender`, `port`: packets that come; `ring`: packets that wait;
//! - `nf`: the loop of an NF; `core`: a core and its NFs; `kernel`: which of them has it;
//! - `link`, `worker`: an NF as its worker sees it, and the worker's passes;
//! - `bounds`, `windows`: chains with a delay bound, and instances that are too slow for one;
//! - `lives`: faults of NFs, and what becomes of them;
//! - `weights`, `slices`: what the manager's control loop and its schedulers do;
//! - `plant`: all of that together; `world`: who acts when; `agenda`: the next moments;
//! - `checker`, `fairness`: what must hold in every scene; `report`: what was counted;
//! - `timeline`: who had a core when;
//! - `linked`: machines joined by cables;
//! - `scenarios`: the papers' experiments; `swarm`: scenes that seeds choose; `shrink`: small ones;
//! - `canary`: bugs that tests put in; `conformance`: scripts for what is real and what is modelled;
//! - `random`, `digest`, `histogram`: tools.
#![forbid(unsafe_code)]

mod agenda;
mod bounds;
mod canary;
mod checker;
pub mod conformance;
mod core;
mod costs;
mod digest;
mod fairness;
mod histogram;
mod kernel;
mod link;
pub mod linked;
mod lives;
pub mod network;
mod nf;
mod plant;
mod port;
mod random;
mod report;
mod ring;
pub mod scenarios;
mod scene;
mod sender;
pub mod shrink;
mod slices;
pub mod swarm;
mod timeline;
mod traffic;
mod weights;
mod windows;
mod worker;
mod world;

pub use checker::{Rule, Violation};
pub use costs::{Costs, NAMES as COSTS};
pub use report::{ChainReport, NfReport, Report, Value};
pub use scene::{
    Arrivals, Capture, Chain, Change, Cost, Fault, Flow, Idle, Misfortune, Nf, Pauses, Place, Policy,
    RateChange, Scene, Scheduler, Waits,
};
pub use timeline::{Interval, Timeline, Track};
pub use world::{Resolution, World};
