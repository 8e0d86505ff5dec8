//! The names of the files, and how many of them there are.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use headgate_nf::NfError;

/// Digits of a file's number, so that names sort as the files follow each other.
const DIGITS: usize = 6;

pub struct Files {
    folder: PathBuf,
    /// Parts of the name before and behind the number.
    stem: String,
    extension: String,
    most: usize,
    /// Files that are there, the oldest first.
    present: VecDeque<PathBuf>,
    number: u64,
}

impl Files {
    /// # Errors
    /// When the path names no file.
    pub fn new(path: &Path, most: usize) -> Result<Self, NfError> {
        let text = |part: &std::ffi::OsStr| part.to_str().map(str::to_owned);
        let stem = path.file_stem().and_then(text);
        let stem = stem.ok_or_else(|| format!("`path` is {}, which names no file", path.display()))?;
        let extension = path.extension().and_then(text).map_or_else(String::new, |ext| format!(".{ext}"));
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Ok(Self { folder, stem, extension, most, present: VecDeque::new(), number: 0 })
    }

    /// Finds what earlier runs left, removes what is too much, and names the first file of this one.
    ///
    /// # Errors
    /// When the folder cannot be read, or a file not be removed.
    pub fn begin(&mut self) -> Result<PathBuf, NfError> {
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let said = |error: io::Error| format!("`path`: folder {}: {error}", folder.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(said)? {
            let name = entry.map_err(said)?.file_name();
            found.extend(name.to_str().and_then(|name| self.number_of(name)));
        }
        found.sort_unstable();
        self.number = found.last().copied().unwrap_or(0);
        self.present = found.iter().map(|number| self.path_of(*number)).collect();
        while self.present.len() >= self.most {
            if let Some(oldest) = self.present.pop_front() {
                std::fs::remove_file(&oldest)
                    .map_err(|error| format!("cannot remove {}: {error}", oldest.display()))?;
            }
        }
        Ok(self.next().0)
    }

    fn number_of(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.stem)?.strip_prefix('-')?.strip_suffix(&self.extension)?;
        let is_number = number.len() >= DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| number.parse().ok())?
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number:0DIGITS$}{}", self.stem, self.extension))
    }

    /// The next file, and the one that goes for it.
    pub fn next(&mut self) -> (PathBuf, Option<PathBuf>) {
        self.number += 1;
        let oldest = self.present.front().filter(|_| self.present.len() >= self.most);
        (self.path_of(self.number), oldest.cloned())
    }

    /// A file was made, and the one it replaces is gone.
    pub fn made(&mut self, path: PathBuf) {
        if self.present.len() >= self.most {
            self.present.pop_front();
        }
        self.present.push_back(path);
    }

    /// No file was made. The oldest may be gone all the same, and then no other is to go for it.
    pub fn failed(&mut self) {
        if self.present.front().is_some_and(|oldest| !oldest.exists()) {
            self.present.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_where_an_earlier_run_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a-000007.pcapng", "a-000008.pcapng", "a-1.pcapng", "a-000009.pcap", "b-000099.pcapng"] {
            std::fs::write(path(name), "").unwrap();
        }
        let mut files = Files::new(&path("a.pcapng"), 2).unwrap();
        let first = files.begin().unwrap();
        assert_eq!(first, path("a-000009.pcapng"));
        assert!(!path("a-000007.pcapng").exists() && path("b-000099.pcapng").exists());
        files.made(first);
        assert_eq!(files.next(), (path("a-000010.pcapng"), Some(path("a-000008.pcapng"))));
        // It could not be made, but the oldest was removed for it.
        std::fs::remove_file(path("a-000008.pcapng")).unwrap();
        files.failed();
        assert_eq!(files.next(), (path("a-000011.pcapng"), None));
        assert!(Files::new(Path::new("/"), 2).is_err());
    }
}
