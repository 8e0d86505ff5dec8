//! `hostile-nf MODE`: a network function that attaches as the protocol asks and then breaks the rules of
//! shared memory in one way. What each mode does is in [`modes`]; what becomes of it, in `tests/hostile.rs`.

mod foe;
mod modes;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    if mode == "exit-at-once" {
        return ExitCode::from(7);
    }
    if mode == "child" || mode == "escaped-child" {
        return modes::child(mode == "escaped-child", arguments);
    }
    let Some(attack) = modes::find(&mode) else {
        eprintln!("hostile-nf: there is no mode {mode:?}; there are: {}", modes::names());
        return ExitCode::from(2);
    };
    match foe::Foe::attach() {
        Ok(foe) => {
            attack(foe);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("hostile-nf: {why}");
            ExitCode::FAILURE
        }
    }
}
