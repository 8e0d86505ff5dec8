//! The network functions Headgate ships. One file each; [`catalog`] is the list.
//!
//! Each is written against the public library alone, so each is an example of how to write one.
//! [`hello`] is the one to start from.

pub mod arguments;
pub mod cache;
pub mod catalog;
pub mod firewall;
pub mod forward;
#[path = "../examples/hello.rs"]
pub mod hello;
pub mod lpm;
pub mod mac_swap;
pub mod monitor;
pub mod packet_logger;
pub mod router;
pub mod synthetic;
