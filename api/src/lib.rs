//! What is asked of a manager and what it tells.
//!
//! - [`request`]: what can be asked, and refusals;
//! - [`status`]: one snapshot, from which every view takes what it shows;
//! - [`client`]: asking a manager that runs on this machine;
//! - [`place`]: where a manager leaves what others must find.
//!
//! No part of it needs root or DPDK.

pub mod client;
pub mod place;
pub mod request;
pub mod status;

pub use client::{CallError, call};
pub use request::{Answer, Refusal, Request};
