//! The C ABI of the network function library: what `headgate_nf.h` declares.
//!
//! `types` has the structs both sides share, `functions` what an NF calls, `disk` what it calls for files,
//! `maker` for packets of its own, `foreign` the NF in C seen as one in Rust, `run` the rest of its `main`. A
//! panic never crosses into C: it ends the process with its message, by unwinding to `run` where only our
//! frames are between, by aborting where C's are.

mod disk;
mod foreign;
mod functions;
mod maker;
mod run;
mod types;
