//! The weight of a group: written often, so its file is kept open.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Version;
use crate::files::FileError;

/// A group's weight.
#[derive(Debug)]
pub(super) struct Weight {
    version: Version,
    path: PathBuf,
    file: File,
}

impl Weight {
    pub(super) fn of(version: Version, group: &Path) -> Result<Self, FileError> {
        let path = group.join(version.weight_file());
        match OpenOptions::new().write(true).open(&path) {
            Ok(file) => Ok(Self { version, path, file }),
            Err(source) => Err(FileError::Read { path, source }),
        }
    }

    /// Sets it to a share in parts of 10,000, with one system call.
    pub(super) fn set(&self, share: u32) -> Result<(), FileError> {
        let value = self.version.weight(share);
        let mut text = [0; 20];
        let text = decimal(value, &mut text);
        self.file.write_all_at(text, 0).map_err(|source| FileError::Write {
            path: self.path.clone(),
            value: value.to_string(),
            source,
        })
    }
}

/// The number and the end of the line, without an allocation.
fn decimal(mut value: u64, text: &mut [u8; 20]) -> &[u8] {
    let mut at = text.len() - 1;
    text[at] = b'\n';
    loop {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 || at == 0 {
            return &text[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_do() {
        for value in [0, 9, 10, 262_144, 1_000_000_000_000_000_000] {
            assert_eq!(decimal(value, &mut [0; 20]), format!("{value}\n").as_bytes());
        }
    }
}
