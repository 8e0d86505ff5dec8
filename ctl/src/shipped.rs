//! The program of the NFs, which every command that reads a configuration has to ask.

use std::path::PathBuf;

use headgate_config::Catalog;
use headgate_host::programs::Program;

use crate::error::CommandError;

/// The program that hosts NFs and the NFs it ships.
#[derive(Clone, Debug)]
pub struct Shipped {
    /// Path of the program.
    pub program: PathBuf,
    /// Catalog of the NFs that it ships.
    pub catalog: Catalog,
}

impl Shipped {
    /// Finds the program and asks it.
    pub fn find() -> Result<Self, CommandError> {
        let program = Program::Nfs.find()?;
        let catalog = Catalog::of(&program)?;
        Ok(Self { program, catalog })
    }
}
