//! The only place that knows DPDK.
//!
//! Its modules, from the ground up:
//! - [`eal`]: DPDK's environment layer, started once, when the first device is opened;
//! - [`devargs`] and [`driver`]: how a device is named, and what we learnt of each driver by trying it;
//! - `mempool`, `pool`, `handler`: mbufs that are a second face of the packet region's buffers, so that a
//!   driver receives straight into them; `private_pool`: ordinary mbufs for drivers that cannot;
//! - `plan`, `opening`, `device`, [`Port`]: a device from its description to its end;
//! - `interface`, `packet_socket`, `watch`: the kernel interface below it, what the af_packet driver's
//!   sockets need beyond what it gives them, and what happens when the interface goes away;
//! - [`Queue`], `direct`, `copied`: the packet path, a burst at a time.
//!
//! Memory and trust: mbufs lie in memory that only the manager maps. NFs see the bytes of packets and
//! nothing else, and no length is ever read from those. A peer of a memif device is no NF: the driver
//! believes the offsets the peer writes, so it has to be trusted like the manager itself.

#[allow(clippy::all, clippy::undocumented_unsafe_blocks, missing_docs, non_camel_case_types, unused)]
#[allow(non_snake_case, non_upper_case_globals)]
mod ffi {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

mod checksums;
mod copied;
pub mod devargs;
mod device;
mod direct;
mod dma;
pub mod driver;
pub mod eal;
mod error;
mod files;
mod handler;
mod interface;
pub mod log;
mod mempool;
mod opening;
mod packet_socket;
mod plan;
mod pool;
mod port;
mod private_pool;
mod queue;
mod watch;

pub use error::DpdkError;
pub use port::{Facts, Link, Losses, Opened, Port, Spec};
pub use queue::Queue;
pub use watch::{InterfaceState, Return};
