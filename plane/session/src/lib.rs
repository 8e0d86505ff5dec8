//! Connection between a network function (NF) and the manager.
//!
//! In the order in which it happens:
//! - [`launch`]: what a manager tells a process it starts;
//! - [`place`]: how that process takes its place and drops its rights, before any code of an NF runs;
//! - [`attach`]: how an NF's process finds the manager and maps what it is given;
//! - [`message`]: what both say, and how messages and files are sent and received;
//! - [`version`]: how the two agree on a version of the interface;
//! - [`arguments`]: what an NF says is wrong with its arguments;
//! - [`inbox`]: how the manager receives from untrusted processes;
//! - [`kernel_io`]: what an NF is told of interfaces of the kernel, where it works on those instead of rings.

pub mod arguments;
pub mod attach;
pub mod inbox;
pub mod kernel_io;
pub mod launch;
pub mod message;
#[cfg(feature = "place")]
pub mod place;
mod text;
pub mod version;
