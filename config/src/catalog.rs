//! Catalog of the shipped NFs, which a configuration is checked against.
//!
//! An argument of the check, as the machine is; [`Catalog::of`] asks the program that hosts them.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use headgate_session::arguments::ArgumentError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// The NFs that `run` can name, as `headgate-nfs list --json` prints them.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Catalog {
    nfs: Vec<ShippedNf>,
    /// Asks an NF what is wrong with its arguments.
    #[serde(skip)]
    ask: Option<Arc<Ask>>,
}

/// Errors in the arguments for the NF of this name; the names say what the file defines.
type Ask = dyn Fn(&str, &Map<String, Json>, &DefinedNames) -> Vec<ArgumentError> + Send + Sync;

/// Names of the configuration that an NF's arguments may hold; `None` where not all of them are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefinedNames {
    /// Ports.
    pub ports: Option<Vec<String>>,
    /// Stages, which are NFs.
    pub stages: Option<Vec<String>>,
}

/// An NF that is shipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedNf {
    /// Name as `run` has it.
    pub name: String,
    /// Description in one sentence.
    pub summary: String,
    /// Arguments that its `args` may hold; `None` when only the NF itself can tell.
    #[serde(default)]
    pub arguments: Option<Vec<Argument>>,
    /// Argument that is the path of files that it writes, if it writes any.
    #[serde(default)]
    pub writes: Option<String>,
    /// Whether it has state that can be kept.
    #[serde(default)]
    pub keeps: bool,
    /// Whether it can read or write files, which takes a process of its own.
    #[serde(default)]
    pub uses_files: bool,
    /// Whether it takes frames that are not cut yet.
    #[serde(default)]
    pub takes_long_frames: bool,
}

/// One argument of a shipped NF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Key in `args`.
    pub name: String,
    /// Kind of value, in words.
    pub kind: String,
    /// Whether it must be there.
    pub required: bool,
    /// Meaning.
    pub text: String,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.nfs).finish()
    }
}

impl Catalog {
    /// Asks the program that hosts NFs which ones it ships.
    ///
    /// # Errors
    /// [`CatalogError`].
    pub fn of(program: &Path) -> Result<Self, CatalogError> {
        let strange = |why: String| CatalogError { program: program.display().to_string(), why };
        let output = Command::new(program)
            .args(["list", "--json"])
            .output()
            .map_err(|error| strange(error.to_string()))?;
        if !output.status.success() {
            return Err(strange(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        #[derive(Deserialize)]
        struct Listing {
            nfs: Catalog,
        }
        let listing: Listing =
            serde_json::from_slice(&output.stdout).map_err(|error| strange(error.to_string()))?;
        let program = program.to_owned();
        Ok(listing.nfs.asking(move |nf, arguments, names| mistakes(&program, nf, arguments, names)))
    }

    /// A catalog of these NFs.
    pub fn new(nfs: Vec<ShippedNf>) -> Self {
        Self { nfs, ask: None }
    }

    /// Adds a way to ask an NF, by its name, what is wrong with its arguments. Which keys there are the
    /// catalog knows; what their values may be only the NF does.
    pub fn asking(
        self,
        ask: impl Fn(&str, &Map<String, Json>, &DefinedNames) -> Vec<ArgumentError> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self }
    }

    /// Returns what the NF called `name` finds wrong with `args`; nothing if it cannot be asked.
    pub(crate) fn mistakes(
        &self,
        name: &str,
        args: &Map<String, Json>,
        names: &DefinedNames,
    ) -> Vec<ArgumentError> {
        self.ask.as_ref().map_or_else(Vec::new, |ask| ask(name, args, names))
    }

    /// The NF called `name`.
    pub fn get(&self, name: &str) -> Option<&ShippedNf> {
        self.nfs.iter().find(|nf| nf.name == name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nfs.iter().map(|nf| nf.name.as_str())
    }
}

/// The program that hosts NFs does not answer as it should.
#[derive(Debug, thiserror::Error)]
#[error("{program} is not the headgate-nfs of this version: {why}; build both with `cargo build --release`")]
pub struct CatalogError {
    program: String,
    why: String,
}

/// Asks the program what is wrong with an NF's arguments. What cannot be told now the NF says at its start.
fn mistakes(
    program: &Path,
    nf: &str,
    arguments: &Map<String, Json>,
    names: &DefinedNames,
) -> Vec<ArgumentError> {
    #[derive(Deserialize)]
    struct Answer {
        mistakes: Vec<ArgumentError>,
    }
    let mut command = Command::new(program);
    command.args(["check", nf, &Json::Object(arguments.clone()).to_string(), "--json"]);
    for (option, names) in [("--ports", &names.ports), ("--stages", &names.stages)] {
        if let Some(names) = names {
            command.args([option, &names.join(",")]);
        }
    }
    let answer = command.output().ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    answer.map_or_else(Vec::new, |Answer { mistakes }| mistakes)
}
