//! `headgate check`: whether a configuration is right, and what it would do.

use std::io;
use std::path::{Path, PathBuf};

use headgate_config::{self as config, Diagnostics, Machine, plan};
use serde_json::json;

use super::explain;
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::shipped::Shipped;

/// Name of standard input as a file.
const STANDARD_INPUT: &str = "-";

/// Validate a configuration and print its plan, without starting anything
///
/// Reports all errors at once, each with line, column and cure, and exits with code 4.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file; `-` is standard input
    #[arg(required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Check the part of this node against this machine, of a configuration for several; without it the parts
    /// of all are checked, against machines that have the cores and interfaces that the file names
    #[arg(long, value_name = "NAME", conflicts_with = "schema")]
    node: Option<String>,
    /// Print the JSON schema of configurations instead, for editors
    #[arg(long, conflicts_with = "file")]
    schema: bool,
    /// Packet to explain by the file: what would become of it, and why
    ///
    /// `tcp 10.0.0.1:1234 > 10.0.1.1:80 in west`, see `headgate explain --help`.
    #[arg(long, conflicts_with = "schema")]
    packet: Option<String>,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let Some(file) = &args.file else {
        let schema = config::schema();
        out.document(&schema)?;
        out.text(format!("{schema:#}\n"))?;
        return Ok(Exit::Ok);
    };
    if args.node.is_none()
        && let Some(exit) = all_parts(args, file, out)?
    {
        return Ok(exit);
    }
    let packet = args.packet.as_deref().map(explain::read).transpose()?;
    let shipped = Shipped::find()?;
    let machine = Machine::observe();
    let loaded = if file == Path::new(STANDARD_INPUT) {
        let text = io::read_to_string(io::stdin()).map_err(CommandError::environment)?;
        config::parse_part("standard input", &text, &shipped.catalog, &machine, args.node.as_deref())
    } else {
        config::load(file, &shipped.catalog, &machine, args.node.as_deref())
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(diagnostics) => return refuse(&diagnostics, out),
    };
    if let Some(packet) = packet {
        let told = explain::by_file(file, &loaded.config, packet)?;
        out.report(&loaded.warnings);
        return explain::show(&told, out);
    }
    let plan = plan::describe(&loaded.config, &machine);
    out.document(&json!({ "valid": true, "diagnostics": loaded.warnings, "plan": plan }))?;
    out.report(&loaded.warnings);
    out.text(plan)?;
    Ok(Exit::Ok)
}

fn refuse(diagnostics: &Diagnostics, out: &Output) -> Result<Exit, CommandError> {
    out.document(&json!({ "valid": false, "diagnostics": diagnostics }))?;
    if !out.json {
        out.report(diagnostics);
    }
    Ok(Exit::Configuration)
}

/// Checks and shows the parts of all nodes; `None` where the file is for one machine, or for one to be read
/// from standard input.
fn all_parts(args: &Args, file: &Path, out: &Output) -> Result<Option<Exit>, CommandError> {
    if file == Path::new(STANDARD_INPUT) || args.packet.is_some() {
        return Ok(None);
    }
    let parts = match config::load_parts(file, &Shipped::find()?.catalog) {
        Ok(parts) => parts,
        Err(diagnostics) => return refuse(&diagnostics, out).map(Some),
    };
    if parts.is_empty() {
        return Ok(None);
    }
    let mut warnings = Diagnostics::default();
    let mut plans = Vec::new();
    for part in parts {
        plans.push(plan::describe(&part.config, &Machine::default()));
        warnings.join(part.warnings);
    }
    out.document(&json!({ "valid": true, "diagnostics": warnings, "plans": plans }))?;
    out.report(&warnings);
    let plans: Vec<String> = plans.iter().map(ToString::to_string).collect();
    out.text(plans.join("\n"))?;
    Ok(Some(Exit::Ok))
}
