//! The network functions Headgate ships. One file each; [`catalog`] is the list.
//!
//! Each is written against the public library alone, so each is an example of how to write one.
//! [`hello`] is the one to start from.

pub mod catalog;
pub mod forward;
pub mod mac_swap;
pub mod synthetic;
