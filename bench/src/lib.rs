//! The papers' experiments, each one command.
//!
//! An experiment starts managers of its own in this process, one after another, and measures each from
//! outside: the difference of two snapshots. What is to be compared is measured in turn, round after
//! round, so that a machine that grows slower does so for all; ratios are formed within a round.
//!
//! - [`hop`]: what a hop through an NF costs (`headgate bench hop`);
//! - [`tcp`]: TCP through a chain beside kernels that route (`headgate bench tcp`);
//! - [`lab`]: what the experiments of all papers have in common;
//! - [`nfvnice`]: the experiments of that paper (`headgate bench nfvnice`);
//! - [`unis`]: the experiments of that thesis (`headgate bench unis`);
//! - [`scc`]: the experiments of that paper (`headgate bench scc`);
//! - [`placement`]: which core does what;
//! - [`session`]: one manager, from its configuration to its last audit;
//! - [`statistics`]: median and spread;
//! - [`report`]: what is printed.

pub mod hop;
pub mod lab;
pub mod nfvnice;
pub mod placement;
pub mod report;
pub mod scc;
pub mod session;
pub mod statistics;
pub mod tcp;
pub mod unis;

use std::process::ExitCode;

use headgate_host::cores::CoresError;
use headgate_host::namespace::NamespaceError;
use headgate_host::undo::UndoError;
use headgate_manager::StartError;
use headgate_manager::api::Refusal;
use headgate_manager::programs::ProgramError;

use session::SessionError;
use tcp::transfer::TransferError;

/// Experiments.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// What a hop through an NF costs: throughput, latency, cost by station
    Hop(hop::Options),
    /// TCP through three NFs between two namespaces, beside kernel routing, and what limits it
    Tcp(tcp::Options),
    /// The experiments of the NFVnice paper: shares by need, shedding at the entry, and the kernel alone
    Nfvnice(nfvnice::Options),
    /// The experiments of the UNiS thesis: turns of NFs that poll, beside NFs that yield, and the kernel alone
    Unis(unis::Options),
    /// The experiments of the SCC paper: chains on interfaces of the kernel, packets of one system call, policies
    Scc(scc::Options),
}

impl Command {
    /// Measures, and prints the result to standard output: tables, or one JSON object. Progress goes to
    /// standard error.
    ///
    /// The exit code is 0, or 5 when a manager's last audit found packets or buffers unaccounted for.
    ///
    /// # Errors
    /// Whatever kept it from measuring; [`exit_code`] knows the exit code of it.
    pub fn run(self, json: bool) -> anyhow::Result<ExitCode> {
        match self {
            Self::Hop(options) => hop::run(&options, json),
            Self::Tcp(options) => tcp::run(&options, json),
            Self::Nfvnice(options) => nfvnice::run(&options, json),
            Self::Unis(options) => unis::run(&options, json),
            Self::Scc(options) => scc::run(&options, json),
        }
    }
}

/// The exit code of an experiment that could not be done: 1 failed, 3 environment, 4 configuration.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        if let Some(error) = cause.downcast_ref::<StartError>() {
            return Some(error.exit_code());
        }
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(refusal.code);
        }
        if let Some(SessionError::Refused(_)) = cause.downcast_ref() {
            return Some(4);
        }
        let of_machine = cause.is::<ProgramError>()
            || cause.is::<CoresError>()
            || cause.is::<NamespaceError>()
            || cause.is::<UndoError>()
            || matches!(cause.downcast_ref(), Some(TransferError::NoProgram(_)));
        of_machine.then_some(3)
    };
    error.chain().find_map(of_cause).unwrap_or(1)
}
