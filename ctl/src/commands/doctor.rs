//! `headgate doctor`: what this machine can do, and the cure for what it cannot.
//!
//! - [`check`]: what a check is;
//! - [`machine`]: processor, cores, memory, kernel;
//! - [`rights`]: what needs root, and why;
//! - [`software`]: the programs and libraries we need;
//! - [`fix`]: reserving hugepages.

mod check;
mod fix;
mod machine;
mod rights;
mod software;

use headgate_host::environment::Environment;
use serde_json::{Value as Json, json};

use crate::error::{CommandError, Exit};
use crate::output::{Ink, Output, Paint};
use check::{Check, Verdict};
use rights::Right;

/// Check what this machine supports, and print the cure for each failed check
///
/// Exits with code 5 when a check failed. A warning marks something that works but could work better.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Reserve the hugepages of a default configuration, and print how to release them
    #[arg(long)]
    fix: bool,
}

/// Runs it.
pub fn run(args: &Args, out: &Output) -> Result<Exit, CommandError> {
    let fixed = if args.fix { Some(json!(fix::reserve_hugepages(out)?)) } else { None };
    let machine = Machine::observe();
    out.document(&machine.document(fixed))?;
    let Machine { checks, rights, worst, .. } = machine;
    out.text(render(&checks, out.data_paint))?;
    out.text(render_rights(&rights, out.data_paint))?;
    Ok(if worst == Verdict::Fail { Exit::CheckNotMet } else { Exit::Ok })
}

/// What was found on this machine.
struct Machine {
    environment: Environment,
    checks: Vec<Check>,
    rights: Vec<Right>,
    worst: Verdict,
}

impl Machine {
    fn observe() -> Self {
        let environment = Environment::observe();
        let checks: Vec<Check> =
            [machine::checks(&environment), rights::checks(), software::checks()].concat();
        let worst = checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Ok);
        Self { environment, checks, rights: rights::all(), worst }
    }

    fn document(&self, fixed: Option<Json>) -> Json {
        json!({
            "verdict": self.worst,
            "checks": self.checks,
            "rights": self.rights,
            "fixed": fixed,
            "environment": self.environment,
        })
    }
}

/// Returns what `headgate --json doctor` prints.
pub fn all() -> Json {
    Machine::observe().document(None)
}

fn render(checks: &[Check], paint: Paint) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, ink) = check.verdict.word();
        text += &format!("{}  {:<width$}  {}\n", paint.ink(ink, word), check.name, check.found);
        if let Some(cure) = &check.cure {
            text += &format!("{:4}  {:<width$}  {} {cure}\n", "", "", paint.ink(Ink::Dim, "->"));
        }
    }
    text
}

fn render_rights(rights: &[Right], paint: Paint) -> String {
    let width = rights.iter().map(|right| right.what.len()).max().unwrap_or(0);
    let mut text = format!("\n{}\n", paint.ink(Ink::Bold, "What needs root, and why"));
    for right in rights {
        let (word, ink) = if right.granted { ("yes ", Ink::Green) } else { ("no  ", Ink::Yellow) };
        let needs = right.needs.join(", ");
        text += &format!("{}  {:<width$}  {needs}: {}\n", paint.ink(ink, word), right.what, right.why);
    }
    text + "Generators, captures, null ports and NFs of your own user need none of it.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_reads_well() {
        let checks = [
            Check::ok("cores", "2 may be used: 0-1"),
            Check::warn("hugepages", "0 of 18", "`headgate doctor --fix`"),
            Check::fail("NFs", "nowhere", "`cargo build --release`"),
        ];
        let expected = "\
ok    cores      2 may be used: 0-1
warn  hugepages  0 of 18
                 -> `headgate doctor --fix`
FAIL  NFs        nowhere
                 -> `cargo build --release`
";
        assert_eq!(render(&checks, Paint::default()), expected);
        assert_eq!(checks.iter().map(|check| check.verdict).max(), Some(Verdict::Fail));
    }

    #[test]
    fn every_right_has_a_reason() {
        let rights = rights::all();
        let text = render_rights(&rights, Paint::default());
        for right in &rights {
            assert!(!right.why.is_empty() && !right.needs.is_empty());
            assert!(text.contains(right.what));
        }
    }
}
