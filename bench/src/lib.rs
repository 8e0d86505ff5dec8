//! The papers' experiments, each one command.
//!
//! An experiment starts daemons of its own ([`headgate_api::session`]), one after another, and measures each
//! from outside: the difference of two snapshots. What is to be compared is measured in turn, round after
//! round, so that a machine that grows slower does so for all; ratios are formed within a round.
//!
//! - [`hop`]: what a hop through an NF costs (`headgate bench hop`);
//! - [`workers`]: what a second worker adds (`headgate bench workers`);
//! - [`start`]: how long traffic misses an NF that dies (`headgate bench start`);
//! - [`resilience`]: deaths of NFs and nodes with standbys (`headgate bench resilience`);
//! - [`tcp`]: TCP through a chain beside kernels that route (`headgate bench tcp`);
//! - [`lab`]: what the experiments of all papers have in common;
//! - [`nfvnice`]: the experiments of that paper (`headgate bench nfvnice`);
//! - [`unis`]: the experiments of that thesis (`headgate bench unis`);
//! - [`scc`]: the experiments of that paper (`headgate bench scc`);
//! - [`drench`]: prices and steering in simulated networks (`headgate bench drench`);
//! - [`neo_nsh`]: identifiers of chains, counted (`headgate bench neo-nsh`);
//! - [`hostile`]: a hostile NF beside a neighbour (`headgate bench hostile`);
//! - [`observe`]: what it costs a chain to be watched (`headgate bench observe`);
//! - [`cluster`]: nodes that agree in a store (`headgate bench cluster`);
//! - [`statistics`]: rounds, and ratios within them;
//! - [`grammar`]: the command line, for the completions of `headgate`;
//! - [`report`]: what is printed;
//! - [`leave`]: the report that a run leaves.

pub mod cluster;
pub mod drench;
pub mod grammar;
pub mod hop;
pub mod hostile;
pub mod lab;
pub mod leave;
pub mod neo_nsh;
pub mod nfvnice;
pub mod observe;
pub mod report;
pub mod resilience;
pub mod scc;
pub mod start;
pub mod statistics;
pub mod tcp;
pub mod unis;
pub mod workers;

use std::process::ExitCode;

use headgate_api::daemon::DaemonError;
use headgate_api::session::SessionError;
use headgate_api::{Exit, RequestError};
use headgate_host::cores::CoresError;
use headgate_host::hugepages::HugepagesError;
use headgate_host::namespace::NamespaceError;
use headgate_host::programs::ProgramError;
use headgate_host::undo::UndoError;
use headgate_report::place::PlaceError;

use hostile::attack::CompilerError;
use leave::Output;
use tcp::transfer::TransferError;

/// Experiments.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Measure a hop through an NF: throughput, latency, cost by station
    Hop(hop::Options),
    /// Measure a second worker: one against two, and two managers side by side
    Workers(workers::Options),
    /// Measure restarts: from an NF's death to the first packet of its successor, and 24 NFs at once
    Start(start::Options),
    /// Measure deaths of NFs and nodes with standbys: time to the first packet, what is lost, and what
    /// protection costs beside none
    Resilience(resilience::Options),
    /// Measure TCP through three NFs between two namespaces, beside kernel routing, and what limits it
    Tcp(tcp::Options),
    /// Run the experiments of the NFVnice paper: shares by need, shedding at the entry, and the kernel alone
    Nfvnice(nfvnice::Options),
    /// Run the experiments of the UNiS thesis: time slices of NFs that poll, beside NFs that yield, and the
    /// kernel alone
    Unis(unis::Options),
    /// Run the experiments of the SCC paper: chains on interfaces of the kernel, packets of one system call,
    /// policies
    Scc(scc::Options),
    /// Simulate networks of nodes: prices, steering by them and instances beside other schemes, and the
    /// price solver
    Drench(drench::Options),
    /// Count identifiers and rules of service chains: one for each list of NFs, or one for each path
    NeoNsh(neo_nsh::Options),
    /// Measure nodes that agree in a store on who serves an NF: another one under load, and what fails
    Cluster(cluster::Options),
    /// Measure an NF of one trust domain beside a hostile NF of another, by the attack
    Hostile(hostile::Options),
    /// Measure a chain while it is watched and while it is not, in turn, and the views of 10,000 chains and
    /// of a million flows
    Observe(observe::Options),
}

impl Command {
    /// Returns what is run, for the name of its report.
    #[must_use]
    pub fn name(&self) -> String {
        let of = |suite: &str, experiment: &str| format!("{suite} {experiment}");
        match self {
            Self::Hop(_) => "hop".to_owned(),
            Self::Workers(_) => "workers".to_owned(),
            Self::Start(_) => "start".to_owned(),
            Self::Resilience(options) => of("resilience", options.experiment()),
            Self::Tcp(_) => "tcp".to_owned(),
            Self::Nfvnice(options) => of("nfvnice", options.experiment()),
            Self::Unis(options) => of("unis", options.experiment()),
            Self::Scc(options) => of("scc", options.experiment()),
            Self::Drench(options) => of("drench", options.experiment()),
            Self::NeoNsh(options) => of("neo-nsh", options.experiment()),
            Self::Cluster(options) => of("cluster", options.experiment()),
            Self::Hostile(_) => "hostile".to_owned(),
            Self::Observe(_) => "observe".to_owned(),
        }
    }

    /// Measures, prints the result to standard output: tables, or one JSON object, and leaves a report.
    /// Progress goes to standard error.
    ///
    /// The exit code is 0, or 5 when a manager's last audit found packets or buffers unaccounted for.
    ///
    /// # Errors
    /// Whatever kept it from measuring; [`exit_of`] knows the exit code of it.
    pub fn run(self, out: &mut Output) -> anyhow::Result<ExitCode> {
        match self {
            Self::Hop(options) => match &options.against {
                Some(other) => hop::against::run(&options, other, out),
                None => hop::run(&options, out),
            },
            Self::Workers(options) => workers::run(&options, out),
            Self::Start(options) => start::run(&options, out),
            Self::Resilience(options) => resilience::run(&options, out),
            Self::Tcp(options) => tcp::run(&options, out),
            Self::Nfvnice(options) => nfvnice::run(&options, out),
            Self::Unis(options) => unis::run(&options, out),
            Self::Scc(options) => scc::run(&options, out),
            Self::Drench(options) => drench::run(&options, out),
            Self::NeoNsh(options) => neo_nsh::run(&options, out),
            Self::Cluster(options) => cluster::run(&options, out),
            Self::Hostile(options) => hostile::run(&options, out),
            Self::Observe(options) => observe::run(&options, out),
        }
    }
}

/// Returns how an experiment ends that could not be done: failed, environment or configuration.
#[must_use]
pub fn exit_of(error: &anyhow::Error) -> Exit {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| {
        if let Some(error) = cause.downcast_ref::<SessionError>() {
            return Some(error.exit());
        }
        if let Some(error) = cause.downcast_ref::<DaemonError>() {
            return Some(error.exit());
        }
        if let Some(refusal) = cause.downcast_ref::<RequestError>() {
            return Some(Exit::from_code(refusal.code));
        }
        match cause.downcast_ref::<PlaceError>() {
            Some(PlaceError::Exists(_)) => return Some(Exit::Usage),
            Some(PlaceError::NotMade(..)) => return Some(Exit::Environment),
            _ => {}
        }
        let of_machine = cause.is::<ProgramError>()
            || cause.is::<CoresError>()
            || cause.is::<NamespaceError>()
            || cause.is::<CompilerError>()
            || cause.is::<HugepagesError>()
            || cause.is::<UndoError>()
            || cause.is::<workers::OneCoreError>()
            || matches!(cause.downcast_ref(), Some(TransferError::NoProgram(_)));
        of_machine.then_some(Exit::Environment)
    };
    error.chain().find_map(of_cause).unwrap_or(Exit::Failed)
}

#[cfg(test)]
mod tests {
    use headgate_api::attendance::Failed;

    use super::*;

    #[test]
    fn the_exit_code_is_that_of_what_went_wrong() {
        let of = |error: anyhow::Error| exit_of(&error.context("hop one"));
        let failed = Failed::new(Exit::Configuration, "too little memory".to_owned());
        assert_eq!(of(SessionError::from(DaemonError::Failed(failed)).into()), Exit::Configuration);
        let refusal = RequestError { code: 3, message: "no".to_owned() };
        assert_eq!(of(SessionError::from(refusal.clone()).into()), Exit::Environment);
        assert_eq!(of(refusal.into()), Exit::Environment);
        assert_eq!(of(CoresError::NoCores.into()), Exit::Environment);
        assert_eq!(of(workers::OneCoreError.into()), Exit::Environment);
        assert_eq!(of(anyhow::anyhow!("something else")), Exit::Failed);
    }
}
