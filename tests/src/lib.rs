//! Conformance, end-to-end and differential tests: what they share.
//!
//! - [`machine`]: which cores to use, one test at a time, and what to say when something is lacking;
//! - [`patience`]: how long a test waits;
//! - [`programs`]: the programs under test, built when they are missing;
//! - [`session`]: a manager in this process, from its configuration to its last audit;
//! - [`walk`]: pages of documentation, run as they are printed;
//! - [`random`]: seeded choices;
//! - [`frr`]: daemons of FRR in a namespace;
//! - [`capture`]: pcap and pcapng files, read and written.
//!
//! The tests are in `tests/`, one file for each promise. `hostile/` is a C program that breaks every
//! rule there is on purpose, written against the memory layout alone.

pub mod capture;
pub mod frr;
pub mod machine;
pub mod patience;
pub mod programs;
pub mod random;
pub mod session;
pub mod walk;
