//! The guide: every link leads somewhere, every page is in the book, and every command line on a page is run,
//! here or by another test, or stands in the list below with the reason why not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_tests::programs::{self, must, top};
use headgate_tests::{machine, walk};

/// Pages with command lines.
const PAGES: &[(&str, Lines)] = &[
    ("api.md", Lines::RunBy("tests/tests/api.rs")),
    ("benchmarks.md", Lines::NotRun("each takes minutes; the experiments have tests of their own")),
    ("configuration.md", Lines::NotRun("its lines are of several machines; ctl and config test their parts")),
    ("first-chain.md", Lines::Run),
    ("install.md", Lines::RunBy("tests/tests/install.rs and tests/machine, which have the same steps")),
    ("operating.md", Lines::Run),
    ("reports.md", Lines::NotRun("the folders in it are examples; ctl/tests/reports.rs compares two runs")),
    ("simulator.md", Lines::NotRun("the lists are examples; ctl/tests/sim.rs runs scenarios and replays")),
    ("writing-nfs.md", Lines::RunBy("tests/tests/outside.rs")),
];

/// What becomes of the command lines of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// They are run here.
    Run,
    /// Another test runs them.
    RunBy(&'static str),
    /// They are not run, for this reason.
    NotRun(&'static str),
}

fn guide() -> PathBuf {
    top().join("docs/guide")
}

fn page(name: &str) -> String {
    fs::read_to_string(guide().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All pages, by name.
fn pages() -> BTreeMap<String, String> {
    let entries =
        fs::read_dir(guide()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.ends_with(".md")).map(|name| (name.clone(), page(&name))).collect()
}

/// Where the links of a page lead, without those to other machines. Code is left out.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Every second part lies between backquotes.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        for rest in prose.join("").split("](").skip(1) {
            links.extend(rest.split(')').next().map(str::to_owned));
        }
    }
    links.retain(|link| !link.contains("://"));
    links
}

/// The anchors of a page: its headings as GitHub and mdBook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let heading = |line: &str| {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        let is_heading = !is_code && heading.len() < line.len() && heading.starts_with(' ');
        is_heading.then(|| {
            let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
            let words: String = heading.trim().to_lowercase().chars().filter(kept).collect();
            words.replace(' ', "-")
        })
    };
    text.lines().filter_map(heading).collect()
}

#[test]
fn every_page_is_in_the_book_and_every_link_leads_somewhere() {
    let pages = pages();
    let listed: BTreeSet<String> = links(&pages["SUMMARY.md"]).into_iter().collect();
    let written: BTreeSet<String> = pages.keys().filter(|name| *name != "SUMMARY.md").cloned().collect();
    assert_eq!(listed, written, "SUMMARY.md lists other pages than there are");
    let mut broken = Vec::new();
    for (name, text) in &pages {
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = if file.is_empty() { guide().join(name) } else { guide().join(file) };
            let has_anchor = || {
                anchor.is_empty() || anchors(&fs::read_to_string(&path).unwrap_or_default()).contains(anchor)
            };
            if !path.exists() || !has_anchor() {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_with_command_lines_is_run_or_says_why_not() {
    let has_lines = |text: &str| walk::blocks(text).iter().any(|block| block.language == "sh");
    let found: Vec<String> =
        pages().into_iter().filter(|(_, text)| has_lines(text)).map(|(name, _)| name).collect();
    let listed: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, listed);
    for (name, lines) in PAGES {
        match lines {
            Lines::RunBy(test) => {
                let test = test.split(' ').next().unwrap();
                assert!(top().join(test).exists(), "{name}: {test}");
            }
            Lines::NotRun(why) => println!("{name} is not run: {why}"),
            Lines::Run => {}
        }
    }
}

/// Pictures are read on light and dark pages, and by those who cannot see them.
#[test]
fn pictures_are_for_light_and_dark_and_have_a_title() {
    let folder = guide().join("pictures");
    let all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!all.is_empty());
    let text: String = pages().into_values().collect();
    for picture in all {
        let (name, svg) =
            (picture.file_name().unwrap().to_str().unwrap(), fs::read_to_string(&picture).unwrap());
        assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("<title>"), "{name}");
        assert!(text.contains(&format!("pictures/{name}")), "no page has {name}");
    }
}

/// Built where mdBook is, and always where it must be: it comes from crates.io and takes minutes to build.
#[test]
fn mdbook_builds_the_guide() {
    const TEST: &str = "mdbook_builds_the_guide";
    if !machine::has_program(TEST, "mdbook") {
        assert!(std::env::var_os("HEADGATE_BOOK_MUST").is_none(), "mdBook: `cargo install mdbook`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    must(Command::new("mdbook").arg("build").arg("--dest-dir").arg(folder.path()).arg(guide()));
    assert!(folder.path().join("first-chain.html").is_file());
}

/// The C library as `make install` leaves it, in a folder of its own.
fn installed_library(folder: &Path) -> PathBuf {
    let libraries = programs::built("");
    let mut install = Command::new("make");
    install.args(["--silent", "-C"]).arg(top().join("abi")).arg("install");
    install.arg(format!("PREFIX={}", folder.display())).arg(format!("LIBRARIES={}", libraries.display()));
    must(&mut install);
    folder.join("lib/pkgconfig")
}

/// Whether a page can be run here.
fn can_walk(test: &str, tools: &[&str]) -> bool {
    if !machine::is_root() {
        machine::skip(test, "network namespaces take root");
        return false;
    }
    tools.iter().all(|program| machine::has_program(test, program))
}

#[test]
fn the_first_chain_works_as_it_is_printed() {
    const TEST: &str = "the_first_chain_works_as_it_is_printed";
    if !can_walk(TEST, &["unshare", "ip", "ping", "curl", "python3", "cc", "pkg-config", "cargo"]) {
        return;
    }
    let (_, _) = (programs::nfs(), programs::manager());
    let folder = tempfile::tempdir().unwrap();
    let library = installed_library(&folder.path().join("installed"));
    // With what is locked, and on this machine already: there is no network where the page runs.
    fs::create_dir(folder.path().join("short-only")).unwrap();
    fs::copy(top().join("Cargo.lock"), folder.path().join("short-only/Cargo.lock")).unwrap();
    let _alone = machine::alone();
    let environment = [
        ("PKG_CONFIG_PATH", library.display().to_string()),
        ("CARGO_NET_OFFLINE", "true".to_owned()),
        ("HEADGATE_REPORTS", "none".to_owned()),
    ];
    let blocks = walk::blocks(&page("first-chain.md"));
    let said = walk::walk("first-chain.md", &blocks, folder.path(), &environment);
    assert!(!said.contains("warning["), "{said}");
}

#[test]
fn operating_works_as_it_is_printed() {
    const TEST: &str = "operating_works_as_it_is_printed";
    if !can_walk(TEST, &["unshare", "ip", "tar"]) {
        return;
    }
    let (_, _) = (programs::nfs(), programs::manager());
    let _alone = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    walk::walk("operating.md", &walk::blocks(&page("operating.md")), folder.path(), &[]);
}
