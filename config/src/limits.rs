//! Limits on the size of everything.

use headgate_shm::descriptor::BUFFERS_MAX;
use headgate_shm::geometry::FRAME_BYTES_MAX;

/// Longest frame of the largest buffer, in bytes. Our choice: a round number that plain buffers can be
/// made for, beyond the 9,000 of jumbo frames.
pub const BUFFER_BYTES_MAX: u64 = 16_000;
const _: () = assert!(BUFFER_BYTES_MAX <= FRAME_BYTES_MAX as u64);

/// Shortest frame that a buffer must hold, in bytes. Our choice: below, half the memory is headroom
/// and alignment.
pub const BUFFER_BYTES_MIN: u64 = 512;

/// Fewest buffers of a domain. Our choice: several bursts of 32 for each of a few rings.
pub const BUFFERS_MIN: u64 = 512;
/// Most long buffers of a domain. Our choice: 64 MiB, beyond what caches and windows of TCP have use for.
pub const LONG_BUFFERS_MAX: u32 = 1024;

/// Most buffers of a domain: what a descriptor's index can name, less what it needs for the most long
/// buffers.
pub const BUFFERS_MOST: u64 = 2_000_000;
// With the shortest buffers, 704 bytes apart, a long one takes 94 of them.
const _: () = assert!(BUFFERS_MOST as u32 + 94 * LONG_BUFFERS_MAX <= BUFFERS_MAX);

/// Trust domains. Our choice: each has a region of tens of MiB and a user of its own.
pub const DOMAINS_MAX: usize = 64;
/// Ports: the holder table's record has 8 bits for the port a packet came by, one value is "none".
pub const PORTS_MAX: usize = 255;
/// NF instances: half of the places that the manager keeps for them, so that each can be started again
/// while the buffers of its predecessor are still being taken back.
pub const INSTANCES_MAX: usize = 128;
/// Chains: the holder table's record has 16 bits for the chain; number 0 counts what no rule claims.
pub const CHAINS_MAX: usize = 65_535;
/// Stages of a chain. Our choice: the holder table's 8 bits for the position allow more.
pub const STAGES_MAX: usize = 64;
/// Rules. Our choice: as many as there can be chains.
pub const RULES_MAX: usize = 65_535;

/// Highest number of a core. Linux's own bound (`CONFIG_NR_CPUS` of x86-64 is at most 8192).
pub const CORE_MAX: u64 = 8191;
