//! Links of the documents: what they lead to is there, the heading too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Markdown file of a folder and of those below it.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// A text without its examples, in which brackets mean something else.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // What stands between single ticks is code as well.
            let outside = line.split('`').enumerate().filter(|(at, _)| at % 2 == 0);
            prose.extend(outside.map(|(_, part)| part));
            prose.push('\n');
        }
    }
    prose
}

/// Where the links of a text lead, `[words](target)`.
fn targets(prose: &str) -> Vec<&str> {
    let parts = prose.split("](").skip(1);
    parts.filter_map(|part| part.split_once(')').map(|(target, _)| target.trim())).collect()
}

/// The names of a text's headings in links, as GitHub makes them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if !is_code && heading.len() < line.len() {
            let letters =
                heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let name: String = letters.map(|c| if c == ' ' { '-' } else { c }).collect();
            found.insert(name.to_lowercase());
        }
    }
    found
}

/// What is wrong with a link of a document.
fn mistake(document: &Path, target: &str) -> Option<String> {
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { document.to_owned() } else { document.parent()?.join(file) };
    if !path.exists() {
        return Some(format!("{}: {target} is not there", document.display()));
    }
    let heading = heading.filter(|_| path.extension().is_some_and(|ending| ending == "md"))?;
    let is_there = headings(&fs::read_to_string(&path).ok()?).contains(heading);
    (!is_there).then(|| format!("{}: {target} has no such heading", document.display()))
}

#[test]
fn what_links_lead_to_is_there() {
    let top = top();
    let mut all: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].iter().map(|name| top.join(name)).collect();
    documents(&top.join("docs"), &mut all);
    assert!(all.len() > 50, "{all:?}");
    let mut mistakes = Vec::new();
    for document in &all {
        let text = fs::read_to_string(document).unwrap();
        let prose = prose(&text);
        let ours = targets(&prose).into_iter().filter(|target| !target.contains("://"));
        mistakes.extend(ours.filter_map(|target| mistake(document, target)));
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn a_link_to_nothing_is_found() {
    let folder = std::env::temp_dir().join(format!("headgate-links-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let document = folder.join("a.md");
    fs::write(&document, "# One `two`, three\n").unwrap();
    let found =
        ["#one-two-three", "a.md#one-two-three", "b.md", "#four"].map(|target| mistake(&document, target));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(found.map(|mistake| mistake.is_some()), [false, false, true, true]);
    let text = "[a](b)\n```\n[c](d)\n```\n`[e](f)` ![g](h)";
    assert_eq!(targets(&prose(text)), ["b", "h"]);
}
