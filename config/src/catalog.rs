//! Catalog of the shipped NFs, which a configuration is checked against.
//!
//! An argument of the check, as the machine is; [`Catalog::of`] asks the program that hosts them.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// The NFs that `run` can name, as `headgate-nfs list --json` prints them.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Catalog {
    nfs: Vec<ShippedNf>,
    /// Asks an NF whether it takes its arguments.
    #[serde(skip)]
    ask: Option<Arc<Ask>>,
}

/// Whether the NF of this name takes these arguments; else why not.
type Ask = dyn Fn(&str, &Map<String, Json>) -> Result<(), String> + Send + Sync;

/// An NF that is shipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        Ok(listing.nfs.asking(move |nf, arguments| check_arguments(&program, nf, arguments)))
    }

    /// A catalog of these NFs.
    pub fn new(nfs: Vec<ShippedNf>) -> Self {
        Self { nfs, ask: None }
    }

    /// Adds a way to ask an NF, by its name, whether it takes its arguments. Which keys there are the catalog
    /// knows; what their values may be only the NF does.
    pub fn asking(
        self,
        ask: impl Fn(&str, &Map<String, Json>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self }
    }

    /// Returns the reason why the NF called `name` refuses `args`, if it can be asked and does.
    pub fn refusal(&self, name: &str, args: &Map<String, Json>) -> Option<String> {
        self.ask.as_ref().and_then(|ask| ask(name, args).err())
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

/// Asks the program whether an NF takes its arguments. One that cannot be asked will tell at its start.
fn check_arguments(program: &Path, nf: &str, arguments: &Map<String, Json>) -> Result<(), String> {
    let arguments = Json::Object(arguments.clone()).to_string();
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
