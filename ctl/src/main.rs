//! The `headgate` command.

mod arguments;
mod cli;
mod commands;
mod demo;
mod failure;
mod output;
mod prepare;
mod progress;
mod stop;
mod table;
mod units;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
