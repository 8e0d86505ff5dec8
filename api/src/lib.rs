//! Interface of a manager: its requests and answers, and functions that start a daemon and ask it.
//!
//! - [`request`]: what can be asked, and refusals;
//! - [`status`]: one snapshot, from which every view takes what it shows;
//! - [`event`]: what happened, each kind with its word;
//! - [`logs`]: what NFs wrote;
//! - [`configuration`]: the configuration in force, and its rules;
//! - [`explanation`]: what becomes of a packet;
//! - [`told`]: what NFs answered;
//! - [`warning`]: power that a node will lose, and how it is told;
//! - [`watch`]: streams of packets, traces, flows and decisions;
//! - [`progress`]: the same as lines, for people who watch;
//! - [`client`]: asking a manager that runs on this machine;
//! - [`place`]: where a manager leaves what others must find;
//! - [`attendance`]: what an attended daemon and its attendant say to each other;
//! - [`daemon`]: a daemon of one's own, by that;
//! - [`session`]: one of those that is measured;
//! - [`exit`]: the exit codes of our programs;
//! - [`grammar`]: the command line of one, for completions.
//!
//! No part of it needs root or DPDK.

pub mod attendance;
pub mod client;
pub mod configuration;
pub mod daemon;
pub mod event;
pub mod exit;
pub mod explanation;
pub mod grammar;
pub mod logs;
pub mod place;
pub mod progress;
pub mod request;
pub mod session;
pub mod status;
pub mod told;
pub mod warning;
pub mod watch;

pub use client::{CallError, call};
pub use exit::Exit;
pub use request::{Answer, Request, RequestError};
