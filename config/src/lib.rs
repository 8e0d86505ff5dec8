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
//! - `simulation`: the `[sim]` table, which the simulator alone obeys.
//! - [`edit`]: the text with one rule more or less, or without its secrets.
//! - [`model`]: the result. [`plan`]: what it will do to the machine. `packet`: what it will do to one
//!   packet.
//!
//! A check is a pure function of the text, the [`Catalog`] of shipped NFs and the [`Machine`]; only
//! [`load`] reads files.

mod catalog;
mod codes;
mod diagnostics;
mod digest;
mod document;
pub mod edit;
mod files;
mod json;
mod limits;
mod machine;
pub mod model;
mod packet;
pub mod plan;
mod read;
mod renamed;
mod report;
mod resolve;
mod rules;
mod simulation;
pub mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::path::Path;

pub use catalog::{Argument, Catalog, CatalogError, DefinedNames, ShippedNf};
pub use codes::{Code, Severity};
pub use diagnostics::{Diagnostic, Diagnostics, Excerpt};
pub use digest::{Difference, Digest};
pub use machine::Machine;
pub use model::{Config, Restart};
pub use packet::{GRAMMAR, PacketDescription, PacketError, Payload};
pub use resolve::{RegionPlan, geometry};
pub use simulation::{Arrivals, NfCost, Pauses, SimFault, Simulated, Simulation, Traffic};
pub use values::{
    Affinity, BoxPorts, Carrier, EtherType, FaultDirection, FaultKind, Hugepages, IdleWorker, Mode, OnChange,
    OnFailure, PortRange, Prefix, Protocol, Rate, ReplayMode, SizeMix, SteeringMode, Timing, Transport, User,
    Vlan, Wiring, nanoseconds, packets_per_second,
};

use document::Document;
use read::Read as _;
use report::{Report, Source};
use resolve::{FileUse, Resolver, ToolUse, items};

/// A configuration that may be used, and warnings about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Findings that do not keep it from being used.
    pub warnings: Diagnostics,
    /// The text that it was read from.
    pub text: String,
}

/// Reads and checks the file at `path`, and that the files it names are there: of a file for several nodes,
/// the part of `node`, or with none all of it for this machine.
///
/// # Errors
/// All mistakes of the file, with the warnings among them.
pub fn load(
    path: &Path,
    known: &Catalog,
    machine: &Machine,
    node: Option<&str>,
) -> Result<Loaded, Diagnostics> {
    let name = path.display().to_string();
    let text = read(path)?;
    // The manager may work from another folder than the command that hands it the configuration.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    check(&Source::new(&name, &text), folder_of(&absolute), (known, machine), node, files::check)
}

/// Checks `text`, of which a file for several nodes is to have the part of `node`. `name` is the file's name:
/// findings carry it, and relative paths of the configuration lead from its folder. The files it names are
/// not opened.
///
/// # Errors
/// All mistakes of the text, with the warnings among them.
pub fn parse_part(
    name: &str,
    text: &str,
    known: &Catalog,
    machine: &Machine,
    node: Option<&str>,
) -> Result<Loaded, Diagnostics> {
    check(&Source::new(name, text), folder_of(Path::new(name)), (known, machine), node, |_, _, _| {})
}

/// Checks `text` for one machine, as [`parse_part`] does.
///
/// # Errors
/// All mistakes of the text, with the warnings among them.
pub fn parse(name: &str, text: &str, known: &Catalog, machine: &Machine) -> Result<Loaded, Diagnostics> {
    parse_part(name, text, known, machine, None)
}

/// Checks the part of each node of the file at `path`, against machines that have what the file names. Empty
/// where the file is for one machine.
///
/// # Errors
/// All mistakes of the file, with the warnings among them.
pub fn load_parts(path: &Path, known: &Catalog) -> Result<Vec<Loaded>, Diagnostics> {
    parse_parts(&path.display().to_string(), &read(path)?, known)
}

/// Checks the part of each node of `text`, as [`load_parts`] does.
///
/// # Errors
/// All mistakes of the text, with the warnings among them.
pub fn parse_parts(name: &str, text: &str, known: &Catalog) -> Result<Vec<Loaded>, Diagnostics> {
    let source = Source::new(name, text);
    let mut report = Report::default();
    let Some((document, _)) = document(&source, &mut report) else {
        return Err(conclude::<()>(None, report, &source).map_or_else(|findings| findings, |(_, all)| all));
    };
    let machine = Machine::modelled(resolve::cores_of_model(&document));
    let names: Vec<String> = items(&document.node)
        .iter()
        .filter_map(|at| at.value.name.value())
        .map(|name| name.0.clone())
        .collect();
    let folder = folder_of(Path::new(name));
    let mut parts = Vec::new();
    let mut mistakes = Diagnostics::default();
    for node in &names {
        match check(&source, folder, (known, &machine), Some(node), |_, _, _| {}) {
            Ok(part) => parts.push(part),
            Err(findings) => mistakes.join(findings),
        }
    }
    if mistakes.0.is_empty() { Ok(parts) } else { Err(mistakes) }
}

/// The text of a file, or why it cannot be read.
fn read(path: &Path) -> Result<String, Diagnostics> {
    files::read(path).map_err(|(at, text, message, help)| {
        let mut report = Report::default();
        match at {
            Some(at) => report.add(Code::Unreadable, &(at..at), message).help(help),
            None => report.add_about_file(Code::Unreadable, message).help(help),
        };
        report.finish(&Source::new(&path.display().to_string(), &text))
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads and checks the file at `path` for the simulator: against the machine that it models, which has every
/// file and program. The files it names are not opened.
///
/// # Errors
/// All mistakes of the file, what the simulator does not model, and the warnings among them.
pub fn load_simulated(path: &Path, known: &Catalog) -> Result<Simulated, Diagnostics> {
    let name = path.display().to_string();
    let text = read(path)?;
    parse_simulated(&name, &text, known)
}

/// Checks `text` for the simulator, as [`load_simulated`] does.
///
/// # Errors
/// All mistakes of the text, what the simulator does not model, and the warnings among them.
pub fn parse_simulated(name: &str, text: &str, known: &Catalog) -> Result<Simulated, Diagnostics> {
    let source = Source::new(name, text);
    let folder = folder_of(Path::new(name));
    let mut report = Report::default();
    let mut found = None;
    if let Some((document, _)) = document(&source, &mut report) {
        let machine = Machine::modelled(resolve::cores_of_model(&document));
        let mut resolver = Resolver::new(known, &machine, folder, &mut report);
        resolver.refuse_nodes(&document);
        found = resolver.resolve(&document);
        if let Some((config, simulation)) = &found {
            resolver.refuse_unmodelled(&document, config, simulation);
        }
    }
    let (found, warnings) = conclude(found, report, &source)?;
    let (config, simulation) = found;
    Ok(Simulated { config, simulation, warnings })
}

fn check(
    source: &Source<'_>,
    folder: &Path,
    (known, machine): (&Catalog, &Machine),
    node: Option<&str>,
    check_files: impl Fn(&[FileUse], &[ToolUse], &mut Report),
) -> Result<Loaded, Diagnostics> {
    let mut report = Report::default();
    let mut found = None;
    if let Some((mut document, digest)) = document(source, &mut report) {
        let before = report.errors();
        let mut resolver = Resolver::new(known, machine, folder, &mut report);
        let topology = resolver.topology(&document);
        let node = resolver.select(&topology, node);
        if resolver.report.errors() > before {
            // Whatever else is wrong is found as if all were on one machine, which has what the file names.
            let machine = Machine::modelled(resolve::cores_of_model(&document));
            Resolver::new(known, &machine, folder, &mut report).resolve(&document);
        } else {
            match node {
                Some(node) => resolver.keep_part(&mut document, &topology, node),
                None => resolver.keep_whole(&mut document, &topology),
            }
            found = resolver.resolve(&document).map(|(config, _)| config);
            if let Some((config, node)) = found.as_mut().zip(node) {
                config.node = Some(resolver.node(&document, config, &topology, node, digest));
            }
            let (files, tools) = (resolver.files, resolver.tools);
            check_files(&files, &tools, &mut report);
        }
    }
    let (config, warnings) = conclude(found, report, source)?;
    Ok(Loaded { config, warnings, text: source.text().to_owned() })
}

/// The text as tables, and its digest; `None` where parts of it are missing, of which it cannot be told what
/// refers to what.
fn document(source: &Source<'_>, report: &mut Report) -> Option<(Document, Digest)> {
    let tree = match json::is_json(source.name(), source.text()) {
        true => json::from_json(source.text(), report),
        false => tree::from_toml(source.text(), report),
    };
    let is_whole = !report.has(Code::Syntax);
    let document = Document::read(&tree, report).filter(|_| is_whole)?;
    Some((document, Digest::of(&tree)))
}

/// What was found and the warnings about it, unless there are errors.
fn conclude<T>(
    found: Option<T>,
    mut report: Report,
    source: &Source<'_>,
) -> Result<(T, Diagnostics), Diagnostics> {
    report.keep_certain(source);
    let refused = report.has_errors();
    let findings = report.finish(source);
    match found {
        Some(found) if !refused => Ok((found, findings)),
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
