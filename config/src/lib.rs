//! The configuration of a manager: from TOML or JSON text to a checked value, every mistake reported at once.
//!
//! ```text
//! text --tree--> Node --document, read, values--> Document --resolve--> Config --plan--> Plan
//!        |                 |                                 |
//!        +-----------------+----- report --------------------+----> Diagnostics
//! ```
//!
//! - [`tree`](self): the text as values with positions; the only file that knows TOML. `json` makes the same
//!   of JSON.
//! - `document`: what a file may say, once: reader, known keys and published schema come from it.
//! - `renamed`: old names of keys, for the error that tells the new one.
//! - `values`: rates, durations, prefixes: what one value can be.
//! - `resolve`: what needs several values, the machine or the shipped NFs to be seen.
//! - [`model`]: the result. [`plan`]: what it will do to the machine.
//!
//! A check is a pure function of the text, the [`Catalog`] of shipped NFs and the [`Machine`]; only
//! [`load`] reads files.

mod catalog;
mod codes;
mod diagnostics;
mod document;
mod files;
mod json;
mod limits;
mod machine;
pub mod model;
pub mod plan;
mod read;
mod renamed;
mod report;
mod resolve;
mod rules;
pub mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::path::Path;

pub use catalog::{Argument, Catalog, CatalogError, DefinedNames, ShippedNf};
pub use codes::{Code, Severity};
pub use diagnostics::{Diagnostic, Diagnostics, Excerpt};
pub use machine::Machine;
pub use model::{Config, Restart};
pub use resolve::{RegionPlan, geometry};
pub use values::{
    BoxPorts, EtherType, FaultDirection, Hugepages, IdleWorker, Mode, OnChange, OnFailure, PortRange, Prefix,
    Protocol, Rate, ReplayMode, Timing, Transport, User, Vlan, Wiring,
};

use document::Document;
use read::Read as _;
use report::{Report, Source};
use resolve::{FileUse, Resolver, ToolUse};

/// A configuration that may be used, and warnings about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Findings that do not keep it from being used.
    pub warnings: Diagnostics,
}

/// Reads and checks the file at `path`, and that the files it names are there.
///
/// # Errors
/// All mistakes of the file, with the warnings among them.
pub fn load(path: &Path, known: &Catalog, machine: &Machine) -> Result<Loaded, Diagnostics> {
    let name = path.display().to_string();
    let text = files::read(path).map_err(|(at, text, message, help)| {
        let mut report = Report::default();
        match at {
            Some(at) => report.add(Code::Unreadable, &(at..at), message).help(help),
            None => report.add_about_file(Code::Unreadable, message).help(help),
        };
        report.finish(&Source::new(&name, &text))
    })?;
    // The manager may work from another folder than the command that hands it the configuration.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    check(&Source::new(&name, &text), folder_of(&absolute), known, machine, files::check)
}

/// Checks `text`. `name` is the file's name: findings carry it, and relative paths of the configuration
/// lead from its folder. The files it names are not opened.
///
/// # Errors
/// All mistakes of the text, with the warnings among them.
pub fn parse(name: &str, text: &str, known: &Catalog, machine: &Machine) -> Result<Loaded, Diagnostics> {
    check(&Source::new(name, text), folder_of(Path::new(name)), known, machine, |_, _, _| {})
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn check(
    source: &Source<'_>,
    folder: &Path,
    known: &Catalog,
    machine: &Machine,
    check_files: impl Fn(&[FileUse], &[ToolUse], &mut Report),
) -> Result<Loaded, Diagnostics> {
    let mut report = Report::default();
    let tree = match json::is_json(source.name(), source.text()) {
        true => json::from_json(source.text(), &mut report),
        false => tree::from_toml(source.text(), &mut report),
    };
    let is_whole = !report.has(Code::Syntax);
    let document = Document::read(&tree, &mut report);
    let mut config = None;
    // What refers to what cannot be told of a text of which parts are missing.
    if let Some(document) = document.filter(|_| is_whole) {
        let mut resolver = Resolver {
            known,
            machine,
            folder,
            report: &mut report,
            names: DefinedNames::default(),
            files: Vec::new(),
            tools: Vec::new(),
        };
        config = resolver.resolve(&document);
        let (files, tools) = (resolver.files, resolver.tools);
        check_files(&files, &tools, &mut report);
    }
    report.keep_certain(source);
    let refused = report.has_errors();
    let findings = report.finish(source);
    match config {
        Some(config) if !refused => Ok(Loaded { config, warnings: findings }),
        _ => Err(findings),
    }
}

/// The JSON schema of a configuration, published as `docs/guide/headgate.schema.json`.
///
/// Draft 7, which every TOML and JSON editor knows.
pub fn schema() -> serde_json::Value {
    let mut schema = Document::schema();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Headgate configuration".into();
    schema
}
