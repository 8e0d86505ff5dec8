//! `headgate-tidy [RULE…]`: prints the offences of the rules named, or the number of every rule.

use std::path::Path;
use std::process::ExitCode;

use headgate_tidy::{Measured, RULES, Workspace};

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| RULES.iter().all(|rule| rule.name != name.as_str())) {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        eprintln!("headgate-tidy: there is no rule '{unknown}', only: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = match Workspace::read(&root) {
        Ok(workspace) => workspace,
        Err(error) => {
            eprintln!("headgate-tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    for rule in RULES {
        if wanted.is_empty() {
            println!("{} = {}", rule.name, Measured::of(rule, &workspace).number);
        } else if wanted.iter().any(|name| name == rule.name) {
            print!("{}", Measured::of(rule, &workspace).report());
        }
    }
    ExitCode::SUCCESS
}
