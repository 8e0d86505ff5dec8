//! Tables of what decisions say, committed beside them: a changed constant shows as a readable difference.
//!
//! `HEADGATE_UPDATE_SNAPSHOTS=1 cargo test -p headgate-decide` writes them anew; read the difference before
//! committing it.

use std::path::Path;
use std::string::String;
use std::{env, fs};

/// Compares `actual` with the committed table of this name, or writes it when asked to.
#[track_caller]
pub fn assert_table(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tables").join(name).with_extension("txt");
    if env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, actual).expect("the tables' directory can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|_| String::new());
    assert!(
        expected == actual,
        "{} is not what the code says (HEADGATE_UPDATE_SNAPSHOTS=1 writes it anew):\n{actual}",
        path.display()
    );
}
