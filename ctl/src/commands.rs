//! Subcommands, one file for each.

pub mod apply;
pub mod bench;
pub mod bundle;
pub mod capture;
pub mod check;
pub mod cluster;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod down;
pub mod drain;
pub mod explain;
pub mod failover;
pub mod lab;
pub mod list;
pub mod logs;
pub mod man;
pub mod metrics;
pub mod migrate;
pub mod observe;
pub mod profile;
pub mod replay;
pub mod report;
pub mod restart;
pub mod rule;
pub mod serve;
pub mod show;
pub mod sim;
pub mod status;
pub mod tell;
pub mod top;
pub mod trace;
pub mod up;
pub mod upgrade;
pub mod warn;
mod watch;

use clap_complete::engine::ArgValueCandidates;

use crate::names;

/// Manager that a command is about.
#[derive(Debug, clap::Args)]
pub struct Name {
    /// The manager's name, as manager.name of its configuration says
    #[arg(long, default_value = "default", add = ArgValueCandidates::new(names::manager_candidates))]
    pub name: String,
}
