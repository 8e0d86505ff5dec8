//! `headgate man`: the manual pages of all programs, as packages install them. Every page is made of what the
//! program says of itself, so that it never differs from `--help`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap_mangen::roff::{Roff, roman};
use headgate_host::programs::Program;

use crate::error::{CommandError, Exit};

/// Write the manual pages of all programs into a folder, for packages
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Folder, which is made if it is missing
    folder: PathBuf,
}

/// Runs it, for a command of this grammar.
pub fn run(args: &Args, grammar: clap::Command) -> Result<Exit, CommandError> {
    let folder = &args.folder;
    let refused = |error| {
        CommandError::environment(format!("cannot write manual pages to {}: {error}", folder.display()))
    };
    fs::create_dir_all(folder).map_err(refused)?;
    clap_mangen::generate_to(grammar, folder).map_err(refused)?;
    // The pages of `bench` are those of the program behind it, in place of the stub of ours.
    told(Program::Bench, &["man".as_ref(), folder])?;
    told(Program::Manager, &["--man".as_ref(), folder])?;
    let help = told(Program::Nfs, &["help".as_ref()])?;
    fs::write(folder.join("headgate-nfs.1"), page_of_help("headgate-nfs", &help)).map_err(refused)?;
    Ok(Exit::Ok)
}

/// Returns what another program of ours prints.
fn told(program: Program, words: &[&Path]) -> Result<String, CommandError> {
    let path = program.find()?;
    let failed = |what: String| CommandError::environment(format!("{}: {what}", path.display()));
    let output = Command::new(&path).args(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it wrote no manual page ({})", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the page of a program whose command line is its own: its help text as it stands. The first line is
/// `NAME: what it is`.
fn page_of_help(name: &str, help: &str) -> String {
    let (first, rest) = help.split_once('\n').unwrap_or((help, ""));
    let about = first.trim_start_matches(name).trim_start_matches(':').trim();
    let mut page = Roff::new();
    page.control("TH", [name, "1"]).control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]).control("nf", []);
    rest.trim_matches('\n').lines().for_each(|line| {
        page.text([roman(line)]);
    });
    page.control("fi", []);
    page.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_becomes_a_page() {
        let page = page_of_help("x", "x: does things\n\n  x go   goes\n.not a request\n");
        assert!(page.contains("x \\- does things"), "{page}");
        assert!(page.contains("\n  x go   goes\n") && page.contains(".nf\n"), "{page}");
        assert!(!page.contains("\n.not"), "a line of the text is no request: {page}");
    }
}
