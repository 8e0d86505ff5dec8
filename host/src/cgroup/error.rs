//! Errors of making and using groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::FileError;

/// Reason why a group could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// A name is no directory's.
    #[error("{name:?} cannot be the name of a control group: no slashes, no dot at its beginning")]
    BadName {
        /// The name.
        name: String,
    },
    /// No group can be made.
    #[error("cannot make the control group {}: {source}; run as root, where control groups can be written", path.display())]
    Make {
        /// The group.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file of a group could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Makes a group; one that is there already is as good.
pub(super) fn make(directory: &Path) -> Result<(), GroupError> {
    match fs::create_dir(directory) {
        // What is there may be a file of the kernel's.
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists || !directory.is_dir() => {
            Err(GroupError::Make { path: directory.into(), source })
        }
        _ => Ok(()),
    }
}
