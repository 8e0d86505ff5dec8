//! Units and identifiers, the same in every room.
//!
//! - [`time`]: [`Instant`] and [`Span`], in nanoseconds since the manager started, and [`Ticks`], the
//!   processor's cycles, which never leave the packet path;
//! - [`rate`]: how often something happens;
//! - [`bucket`]: how often it may: [`TokenBucket`];
//! - [`id`]: numbers of chains, NFs, instances, ports, regions, cores and workers, and how to make others
//!   ([`number!`]);
//! - [`text`]: quantities as people read them.
//!
//! Values are plain, and serialise with the feature `serde`: what a policy saw and did can be recorded.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bucket;
pub mod id;
pub mod rate;
pub mod text;
pub mod time;

pub use bucket::TokenBucket;
pub use id::{ChainId, CoreId, InstanceId, NfId, PortId, RegionId, WorkerId};
pub use rate::Rate;
pub use time::{Instant, Span, Ticks};
