//! Subcommands, one file for each.

pub mod apply;
pub mod bench;
pub mod check;
pub mod completions;
pub mod doctor;
pub mod down;
pub mod explain;
pub mod list;
pub mod logs;
pub mod man;
pub mod metrics;
pub mod profile;
pub mod report;
pub mod serve;
pub mod show;
pub mod sim;
pub mod status;
pub mod tell;
pub mod top;
pub mod up;

/// Manager that a command is about.
#[derive(Debug, clap::Args)]
pub struct Name {
    /// The manager's name, as manager.name of its configuration says
    #[arg(long, default_value = "default")]
    pub name: String,
}
