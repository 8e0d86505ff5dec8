//! From the path of a configuration to something a manager can be started with.

use std::path::{Path, PathBuf};

use headgate_manager::config::{self, Catalog, Config, Diagnostics, Machine};
use headgate_manager::programs;

use crate::arguments;
use crate::failure::Failure;

/// The program that hosts NFs and the NFs it ships.
#[derive(Clone, Debug)]
pub struct Shipped {
    /// Where it is.
    pub program: PathBuf,
    /// What it ships.
    pub catalog: Catalog,
}

impl Shipped {
    /// Finds the program and asks it.
    pub fn find() -> Result<Self, Failure> {
        let program = programs::nf_program()?;
        let catalog = programs::catalog(&program)?;
        Ok(Self { program, catalog })
    }
}

/// A configuration that passed every check.
#[derive(Debug)]
pub struct Prepared {
    /// What it says.
    pub config: Config,
    /// What its writer should look at again.
    pub warnings: Diagnostics,
}

/// Reads a file and checks all that can be checked before anything starts.
pub fn file(path: &Path, shipped: &Shipped, machine: &Machine) -> Result<Prepared, Diagnostics> {
    let loaded = config::load(path, &shipped.catalog, machine)?;
    // `load` has just read it; if it is gone by now, only the lines of findings are missing.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let refused = arguments::check(&path.display().to_string(), &text, &loaded.config, &shipped.program);
    finish(loaded, refused)
}

fn finish(loaded: config::Loaded, refused: Diagnostics) -> Result<Prepared, Diagnostics> {
    if !refused.has_errors() {
        return Ok(Prepared { config: loaded.config, warnings: loaded.warnings });
    }
    let mut all = loaded.warnings.0;
    all.extend(refused.0);
    all.sort_by_key(|finding| (finding.line, finding.column));
    Err(Diagnostics(all))
}
