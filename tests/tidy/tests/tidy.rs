//! The workspace against its rules.

use std::path::{Path, PathBuf};

use headgate_tidy::{Measured, RULES, Workspace, ratchet};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_number_is_what_its_ratchet_says() {
    let workspace = Workspace::read(&root()).unwrap_or_else(|error| panic!("{error}"));
    assert!(workspace.files.len() > 100, "only {} files were seen", workspace.files.len());
    let measured: Vec<Measured> = RULES.iter().map(|rule| Measured::of(rule, &workspace)).collect();

    let path = root().join(ratchet::FILE);
    let mut text =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if std::env::var_os("HEADGATE_UPDATE_RATCHETS").is_some() {
        text = ratchet::lowered(&text, &measured);
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let ratchets = ratchet::read(&text).unwrap_or_else(|error| panic!("{error}"));
    let wrong = ratchet::judge(&ratchets, &measured);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
