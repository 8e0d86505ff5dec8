//! `headgate bench hostile`: what a hostile NF leaves of its neighbour's throughput.
//!
//! The neighbour is an NF of another trust domain, alone and beside a foe, which attacks in one way: on the
//! same core, of which each domain has an even part, and, where the machine has three cores, on another one.
//! What becomes of a foe, and that everything is accounted for, is tested in `tests/tests/hostile`; here only
//! the neighbour is measured.
//!
//! - [`experiments`], the cases and the comparisons;
//! - [`attack`], a case: the program, which is C and is compiled for the run, and the configuration.

pub mod attack;
pub mod experiments;

use std::process::ExitCode;

use crate::lab::{self, Suite};
use crate::leave::Output;
use experiments::named;

/// Options of `bench hostile`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    lab: lab::Options,
}

/// Measures and prints.
///
/// # Errors
/// Whatever kept it from measuring, printing or writing.
pub fn run(options: &Options, out: &mut Output) -> anyhow::Result<ExitCode> {
    lab::run(Suite { name: "hostile", named }, experiments::NAME, &options.lab, out)
}
