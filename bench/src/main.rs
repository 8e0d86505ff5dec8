//! `headgate-bench`: the program behind `headgate bench`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use headgate_api::exit::Exit;
use headgate_bench::leave::Output;
use headgate_bench::{Command, exit_of, grammar};
use serde_json::json;

/// Measure: the papers' experiments, each one command
#[derive(Debug, Parser)]
#[command(name = "headgate-bench", bin_name = "headgate bench", version, max_term_width = 100)]
struct Cli {
    /// Print one JSON document to standard output instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Leave the report (a page with plots, all values, the environment) in this new folder, or none
    /// [default: headgate-reports/NAME-TIME, or a folder in $HEADGATE_REPORTS]
    #[arg(long, global = true, value_name = "DIR|none")]
    report: Option<PathBuf>,
    #[command(subcommand)]
    command: Ours,
}

#[derive(Debug, Subcommand)]
enum Ours {
    #[command(flatten)]
    Experiment(Command),
    /// Print the command line itself, for completions
    #[command(hide = true)]
    Grammar,
    /// Write the manual pages into a folder, for packages
    #[command(hide = true)]
    Man {
        /// The folder
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Ours::Experiment(experiment) => measure(experiment, cli.json, cli.report.as_deref())
            .unwrap_or_else(|error| tell(&error, cli.json).into()),
        Ours::Grammar => {
            println!("{}", json!(grammar::of("bench", &Cli::command())));
            Exit::Ok.into()
        }
        Ours::Man { folder } => match clap_mangen::generate_to(Cli::command(), folder) {
            Ok(()) => Exit::Ok.into(),
            Err(error) => tell(&error.into(), cli.json).into(),
        },
    }
}

/// Measures, and leaves the report when everything was printed.
fn measure(experiment: Command, json: bool, report: Option<&Path>) -> anyhow::Result<ExitCode> {
    let mut out = Output::begin(json, report, experiment.name())?;
    let exit = experiment.run(&mut out);
    let left = out.end();
    let exit = exit?;
    left?;
    Ok(exit)
}

/// Prints the error and returns the exit code. A closed pipe is no error: nothing is printed.
fn tell(error: &anyhow::Error, as_json: bool) -> Exit {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    if io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe) {
        return Exit::Ok;
    }
    let exit = exit_of(error);
    if as_json {
        // If that fails too there is nobody left to tell.
        let _ = writeln!(io::stdout(), "{:#}", exit.document(json!({ "message": format!("{error:#}") })));
    }
    let _ = writeln!(io::stderr(), "headgate: {error:#}");
    exit
}
