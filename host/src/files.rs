//! Small files of the kernel (`/proc`, `/sys`), read and written whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that could not be read, written or understood.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file could not be read.
    #[error("cannot read {}: {source}{}", path.display(), mend(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The value could not be written.
    #[error("cannot write {value:?} to {}: {source}{}", path.display(), mend(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Value that should have been written.
        value: String,
        /// Cause.
        source: io::Error,
    },
    /// The file was read and holds something else than its format promises.
    #[error("{} holds {content:?}, which is not {expected}: this kernel is not one Headgate knows", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Content of the file.
        content: String,
        /// Content that was expected.
        expected: &'static str,
    },
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; it is mounted read-only here, as in most containers: run on the host itself"
        }
        io::ErrorKind::NotFound => "; this kernel was built without it, or it is not mounted here",
        _ => "",
    }
}

pub(crate) fn read(path: impl AsRef<Path>) -> Result<String, FileError> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|source| FileError::Read { path: path.into(), source })
}

pub(crate) fn write(path: impl AsRef<Path>, value: &str) -> Result<(), FileError> {
    let path = path.as_ref();
    // Not `fs::write`: it would create a file where the kernel offers none.
    let written = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(|source| FileError::Write { path: path.into(), value: value.into(), source })
}

pub(crate) fn read_number(path: impl AsRef<Path>) -> Result<u64, FileError> {
    let content = read(&path)?;
    content.trim().parse().map_err(|_| FileError::Content {
        path: path.as_ref().into(),
        content: content.trim().into(),
        expected: "a whole number",
    })
}
/// The value behind `key` in a text of `key: value` lines, such as `/proc/self/status`.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}
