//! Performance counters of the kernel and the processor, and the costs of single events on this machine.
//!
//! - [`tally`]: time on a core, time waited for one, switches, migrations, faults: from `/proc`, for
//!   everybody;
//! - [`counters`]: system calls by a tracepoint, and caches and TLBs by the hardware, through
//!   `perf_event_open(2)`; what a machine or a user may not count is said, with the cure;
//! - [`memory`], [`kernel`]: benchmarks: a load from each level of memory, a translation, a context switch
//!   and a system call by policy;
//! - [`costs`], [`machine`]: all of these, and whose they are; [`kept`]: those of machine and NFs in a file;
//! - [`functions`]: where the time goes by function, where the program `perf` is there.
//!
//! Counters only count (SCC, section 3.2.3: no sampling); [`functions`] samples, and says so.

pub mod costs;
pub mod counters;
pub mod functions;
pub mod kept;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod tally;
