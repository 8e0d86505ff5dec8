//! Whether a file that is open is still the one that its name leads to.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns whether `path` leads to the very file that is open. A lock on a file that was removed or replaced
/// after it was opened keeps nobody out.
///
/// # Errors
/// The kernel's, when the open file cannot be looked at.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_is_not_there_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let old = File::create(&path).unwrap();
        assert!(is_at(&old, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path).unwrap());
        let new = File::create(&path).unwrap();
        assert!(!is_at(&old, &path).unwrap() && is_at(&new, &path).unwrap());
    }
}
