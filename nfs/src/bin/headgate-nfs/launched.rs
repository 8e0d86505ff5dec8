//! Launched by a manager: take the place, then be the NF.

use std::process::ExitCode;

use headgate_nf::{Connection, RunError, conclude, heed_signals, serve_fused};
use headgate_nfs::catalog::{self, Entry};
use headgate_session::{
    launch::{Launch, Program},
    place::{self, LaunchError},
};

use crate::{members, serve_all};

/// Exit code where the surroundings are not what they should be.
const ENVIRONMENT: u8 = 3;

pub fn main() -> ExitCode {
    match place::orders() {
        Ok(launch) => be(&launch),
        Err(error @ LaunchError::NotLaunched) => {
            eprintln!("headgate-nfs: {error}");
            ExitCode::from(2)
        }
        Err(error) => give_up(&error.to_string()),
    }
}

fn be(launch: &Launch) -> ExitCode {
    let lacks = match place::take_place(launch) {
        Ok(lacks) => lacks,
        Err(error) => return give_up(&error.to_string()),
    };
    let names = match &launch.program {
        Program::Run(name) => std::slice::from_ref(name),
        Program::Fuse(names) => names,
        Program::Exec(_) => &[],
    };
    let found: Result<Vec<&Entry>, _> = names.iter().map(|name| catalog::find(name)).collect();
    let entries = match found {
        Ok(entries) => entries,
        Err(unknown) => return give_up(&format!("{}: {unknown}", launch.name)),
    };
    if launch.waits {
        if let Err(error) = place::wait_for_go(launch, &lacks) {
            return give_up(&error.to_string());
        }
    } else {
        // The manager gets no message before it starts, so standard error does.
        lacks.iter().for_each(|lack| eprintln!("headgate-nfs: {}: {lack}", launch.name));
    }
    if let Program::Exec(command) = &launch.program {
        return give_up(&place::become_program(launch, command).to_string());
    }
    heed_signals();
    let fused = matches!(launch.program, Program::Fuse(_));
    conclude(Connection::from_standard_input().map_err(RunError::from).and_then(|connection| {
        if fused { serve_fused(connection, members(&entries)) } else { serve_all(connection, &entries) }
    }))
}

/// Tells the manager, and standard error, why there will be no NF.
fn give_up(reason: &str) -> ExitCode {
    eprintln!("headgate-nfs: {reason}");
    if let Ok(connection) = Connection::from_standard_input() {
        connection.give_up(reason);
    }
    ExitCode::from(ENVIRONMENT)
}
