//! The C ABI of the network function library: what `headgate_nf.h`, `headgate_files.h` and `headgate_wire.h`
//! declare.
//!
//! `types` has the structs both sides share, `functions` what an NF calls, `disk` what it calls for
//! files, `maker` for packets of its own, `state` for what it keeps, `headers` for the parts of a frame,
//! `foreign` the NF in C seen as one in Rust, `run` the rest of its `main`. A panic never crosses into
//! C: it ends the process with its message, by unwinding to `run` where only our frames are between, by
//! aborting where C's are.

mod disk;
mod foreign;
mod functions;
mod headers;
mod maker;
mod run;
mod state;
mod types;
