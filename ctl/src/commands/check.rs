//! `headgate check`: whether a configuration is right, and what it would do.

use std::io;
use std::path::{Path, PathBuf};

use headgate_config::{self as config, Machine, plan};
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
    let packet = args.packet.as_deref().map(explain::read).transpose()?;
    let shipped = Shipped::find()?;
    let machine = Machine::observe();
    let loaded = if file == Path::new(STANDARD_INPUT) {
        let text = io::read_to_string(io::stdin()).map_err(CommandError::environment)?;
        config::parse("standard input", &text, &shipped.catalog, &machine)
    } else {
        config::load(file, &shipped.catalog, &machine)
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(diagnostics) => {
            out.document(&json!({ "valid": false, "diagnostics": diagnostics }))?;
            if !out.json {
                out.report(&diagnostics);
            }
            return Ok(Exit::Configuration);
        }
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
