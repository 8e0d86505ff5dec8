//! Conformance, end-to-end and differential tests: what they share.
//!
//! - [`machine`]: which cores to use, one test at a time, and what to say when something is lacking;
//! - [`programs`]: the programs under test, built when they are missing;
//! - [`session`]: a manager in this process, from its configuration to its last audit;
//! - [`random`]: seeded choices;
//! - [`capture`]: pcap and pcapng files, read and written.
//!
//! The tests are in `tests/`, one file for each promise. `hostile-nf` is the program that breaks the rules
//! of shared memory on purpose.

pub mod capture;
pub mod machine;
pub mod programs;
pub mod random;
pub mod session;
