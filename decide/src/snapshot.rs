//! Behaviour as committed tables: a changed constant or rule shows as a readable difference.
//!
//! `HEADGATE_UPDATE_SNAPSHOTS=1 cargo test -p headgate-decide` writes the tables anew.

use std::path::PathBuf;
use std::{env, fs};

/// Compares `table` with the committed one of this name.
///
/// # Panics
/// With the first line that differs.
#[track_caller]
pub fn assert(name: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(std::format!("{name}.txt"));
    if env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder of snapshots");
        fs::write(&path, table).expect("a snapshot is written");
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; write it with HEADGATE_UPDATE_SNAPSHOTS=1", path.display())
    });
    let (mut old, mut new) = (committed.lines(), table.lines());
    for number in 1.. {
        match (old.next(), new.next()) {
            (None, None) => return,
            (old, new) if old == new => {}
            (old, new) => panic!(
                "{}:{number}: behaviour differs from the committed table\n  committed: {}\n  now:       {}\n\
                 if that is meant, write the table anew with HEADGATE_UPDATE_SNAPSHOTS=1 and commit it",
                path.display(),
                old.unwrap_or("(nothing)"),
                new.unwrap_or("(nothing)")
            ),
        }
    }
}
