//! The `headgate` command.

mod cli;
mod commands;
mod demo;
mod error;
mod names;
mod output;
mod reports;
mod shipped;
mod stop;
mod table;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
