//! The program that hosts NFs: where it is, and which NFs it ships.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use crate::config::Catalog;

/// Names the program when it is not in its usual place.
pub const VARIABLE: &str = "HEADGATE_NFS";
const NAME: &str = "headgate-nfs";

/// Why the program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is nowhere.
    #[error(
        "cannot find {NAME}, the program that hosts NFs; looked for {looked}; build it with \
         `cargo build --release`, or say where it is with {VARIABLE}=PATH"
    )]
    NotFound {
        /// Where it was looked for.
        looked: String,
    },
    /// It does not answer as it should.
    #[error("{program} is not the {NAME} of this version: {why}; build both with `cargo build --release`")]
    Strange {
        /// The program.
        program: String,
        /// What was wrong.
        why: String,
    },
}

/// Finds the program: where [`VARIABLE`] says, beside this one, or in `../libexec/headgate`.
///
/// # Errors
/// [`ProgramError::NotFound`].
pub fn nf_program() -> Result<PathBuf, ProgramError> {
    let mut places = Vec::new();
    if let Some(named) = std::env::var_os(VARIABLE) {
        places.push(PathBuf::from(named));
    } else if let Ok(this) = std::env::current_exe()
        && let Some(folder) = this.parent()
    {
        // Test programs of cargo lie in `deps/`, below the program they test.
        places.extend([folder.join(NAME), folder.join("../libexec/headgate").join(NAME)]);
        if folder.ends_with("deps") {
            places.push(folder.join("..").join(NAME));
        }
    }
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| ProgramError::NotFound {
        looked: places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

/// Asks the program which NFs it ships.
///
/// # Errors
/// [`ProgramError::Strange`].
pub fn catalog(program: &Path) -> Result<Catalog, ProgramError> {
    let strange = |why: String| ProgramError::Strange { program: program.display().to_string(), why };
    let output = Command::new(program)
        .args(["list", "--json"])
        .output()
        .map_err(|error| strange(error.to_string()))?;
    if !output.status.success() {
        return Err(strange(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    #[derive(serde::Deserialize)]
    struct Listing {
        nfs: Catalog,
    }
    let listing: Listing =
        serde_json::from_slice(&output.stdout).map_err(|error| strange(error.to_string()))?;
    let program = program.to_owned();
    Ok(listing.nfs.asking(move |nf, arguments| check_arguments(&program, nf, arguments)))
}

/// Asks the program whether an NF takes its arguments. One that cannot be asked will tell at its start.
fn check_arguments(program: &Path, nf: &str, arguments: &Map<String, Value>) -> Result<(), String> {
    let arguments = Value::Object(arguments.clone()).to_string();
    match Command::new(program).args(["check", nf, &arguments]).output() {
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            let why = said.strip_prefix(nf).map_or(said, |rest| rest.trim_start_matches([':', ' ']));
            Err(why.to_owned())
        }
        _ => Ok(()),
    }
}
