//! Tells the crate which commit it is built from. Only release builds ask git, each time a file changed: what
//! is built to be tested would be built anew after every commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(commit) = commit()
    {
        println!("cargo::rustc-env=HEADGATE_BUILT_FROM={commit}");
    }
}

/// Returns the commit, with a mark where a file differs from it; nothing where this is no clone.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let folder = git(&["rev-parse", "--absolute-git-dir"])?;
    for name in ["HEAD", "logs/HEAD", "index"] {
        let path = Path::new(&folder).join(name);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for file in git(&["ls-files", "--full-name", &top])?.lines() {
        println!("cargo::rerun-if-changed={}", Path::new(&top).join(file).display());
    }
    git(&["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=, with changes"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
