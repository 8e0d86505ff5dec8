//! Whether the shipped NFs of a configuration take their arguments, as they say themselves.
//!
//! The configuration's own check knows the keys of `args`; what their values may be only the NF
//! knows, and `headgate-nfs check` asks it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use headgate_manager::config::model::{Config, Nf, Program, Shipped};
use headgate_manager::config::{Code, Diagnostic, Diagnostics, Excerpt};
use serde::Deserialize;
use toml::Spanned;

use crate::output::harmless;

/// Longest underline, in characters. Our choice, as in the configuration's own findings.
const UNDERLINE_CHARS_MAX: usize = 60;

/// Where the file gives an NF its arguments.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    nf: Vec<NfTable>,
}

#[derive(Deserialize)]
struct NfTable {
    name: Spanned<String>,
    args: Option<Spanned<toml::Value>>,
    #[serde(default)]
    fuse: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    run: Spanned<String>,
    args: Option<Spanned<toml::Value>>,
}

/// Findings about arguments that an NF refuses. `name` and `text` are the file's.
pub fn check(name: &str, text: &str, config: &Config, program: &Path) -> Diagnostics {
    let places = places(text);
    let mut answers: HashMap<(String, String), Option<String>> = HashMap::new();
    let mut findings = Vec::new();
    for nf in &config.nfs {
        for (member, shipped) in shipped(nf).iter().enumerate() {
            let arguments = serde_json::Value::Object(shipped.args.clone()).to_string();
            let key = (shipped.run.clone(), arguments);
            let answer =
                answers.entry(key).or_insert_with_key(|(run, arguments)| refusal(program, run, arguments));
            if let Some(why) = answer {
                let place = places.get(&(nf.name.clone(), member)).cloned();
                let message = format!("nf `{}` refuses its arguments: {why}", nf.name);
                findings.push(finding(name, text, place, message));
            }
        }
    }
    Diagnostics(findings)
}

fn shipped(nf: &Nf) -> &[Shipped] {
    match &nf.program {
        Program::Run(shipped) => std::slice::from_ref(shipped),
        Program::Fuse(members) => members,
        Program::Exec { .. } => &[],
    }
}

/// Why the NF does not take them. `None` also when it cannot be asked: its start will tell.
fn refusal(program: &Path, run: &str, arguments: &str) -> Option<String> {
    let output = Command::new(program).args(["check", run, arguments]).output().ok()?;
    if output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix(run).unwrap_or(said.trim());
    Some(harmless(said.trim_start_matches(':').trim()))
}

/// The bytes of each NF's arguments, or of its name where it has none.
fn places(text: &str) -> HashMap<(String, usize), Range<usize>> {
    // A text the configuration accepted reads here too; should it not, findings lack their lines.
    let file: File = toml::from_str(text).unwrap_or(File { nf: Vec::new() });
    let mut places = HashMap::new();
    for nf in file.nf {
        let name = nf.name.get_ref().clone();
        let own = nf.args.map_or(nf.name.span(), |args| args.span());
        places.insert((name.clone(), 0), own);
        for (number, member) in nf.fuse.into_iter().enumerate() {
            let span = member.args.map_or(member.run.span(), |args| args.span());
            places.insert((name.clone(), number), span);
        }
    }
    places
}

fn finding(file: &str, text: &str, place: Option<Range<usize>>, message: String) -> Diagnostic {
    let code = Code::BadValue;
    let excerpt = place.and_then(|place| excerpt(text, place));
    Diagnostic {
        severity: code.severity(),
        code,
        file: file.to_owned(),
        line: excerpt.as_ref().map_or(0, |excerpt| excerpt.line),
        column: excerpt.as_ref().map_or(0, |excerpt| excerpt.column),
        message,
        help: Some("`headgate-nfs list` says what each NF takes".to_owned()),
        excerpts: excerpt.into_iter().collect(),
    }
}

/// The first line of a place, the place underlined.
fn excerpt(text: &str, place: Range<usize>) -> Option<Excerpt> {
    let before = text.get(..place.start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next()?;
    let column = before[line_start..].chars().count() + 1;
    let marked = text.get(place)?.lines().next()?.chars().count();
    Some(Excerpt {
        line: before.matches('\n').count() + 1,
        column,
        width: marked.clamp(1, UNDERLINE_CHARS_MAX),
        text: harmless(line),
        label: "refused".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
[[nf]]
name = \"one\"
run = \"forward\"
args = { to = 7 }

[[nf]]
name = \"two\"
fuse = [{ run = \"forward\" }, { run = \"synthetic\", args = { cycles = \"many\" } }]
";

    #[test]
    fn arguments_are_found_in_their_file() {
        let places = places(FILE);
        let text = |nf: &str, member| &FILE[places[&(nf.to_owned(), member)].clone()];
        assert_eq!(text("one", 0), "{ to = 7 }");
        assert_eq!(text("two", 0), "\"forward\"");
        assert_eq!(text("two", 1), "{ cycles = \"many\" }");
    }

    #[test]
    fn a_finding_shows_its_line() {
        let place = places(FILE)[&("one".to_owned(), 0)].clone();
        let finding = finding("a.toml", FILE, Some(place), "no".into());
        assert_eq!((finding.line, finding.column), (4, 8));
        let text = finding.to_string();
        assert!(text.contains("4 | args = { to = 7 }\n"), "{text}");
        assert!(text.contains("  |        ^^^^^^^^^^ refused\n"), "{text}");
    }

    #[test]
    fn a_finding_without_a_place_is_about_the_file() {
        assert_eq!(finding("a.toml", FILE, None, "no".into()).line, 0);
        assert_eq!(places("no toml ="), HashMap::new());
    }
}
