//! The `headgate` command.

mod cli;
mod commands;
mod demo;
mod failure;
mod output;
mod progress;
mod shipped;
mod stop;
mod table;
mod units;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
