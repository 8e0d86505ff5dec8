//! Programs that are started: paths of our own, and whether a program's file is still the same.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The command.
    Command,
    /// The daemon.
    Manager,
    /// The host of the NFs we ship.
    Nfs,
    /// The benchmarks.
    Bench,
}

impl Program {
    /// Returns the name of its file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "headgate",
            Self::Manager => "headgate-manager",
            Self::Nfs => "headgate-nfs",
            Self::Bench => "headgate-bench",
        }
    }

    /// Returns the environment variable that says where it is when it is not in its usual place.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Command => "HEADGATE",
            Self::Manager => "HEADGATE_MANAGER",
            Self::Nfs => "HEADGATE_NFS",
            Self::Bench => "HEADGATE_BENCH",
        }
    }

    /// Finds it: where its variable says, beside this program, or in `../libexec/headgate`.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn find(self) -> Result<PathBuf, ProgramError> {
        let mut places = Vec::new();
        if let Some(named) = std::env::var_os(self.variable()) {
            places.push(PathBuf::from(named));
        } else if let Ok(this) = std::env::current_exe()
            && let Some(folder) = this.parent()
        {
            // Test programs of cargo lie in `deps/`, below the program they test.
            places.extend([folder.join(self.name()), folder.join("../libexec/headgate").join(self.name())]);
            if folder.ends_with("deps") {
                places.push(folder.join("..").join(self.name()));
            }
        }
        places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| ProgramError {
            name: self.name(),
            variable: self.variable(),
            looked: places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Version of a program: what changes when its file is replaced, written, or made executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramVersion {
    file: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

impl ProgramVersion {
    /// Returns the version that is there now; `None` when there is no such file.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            file: (found.dev(), found.ino()),
            bytes: found.size(),
            // Time of the last change of anything of it: no program can set it back.
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// A program of ours is nowhere.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "cannot find {name}; looked for {looked}; build it with `cargo build --release`, or say where it is with \
     {variable}=PATH"
)]
pub struct ProgramError {
    name: &'static str,
    variable: &'static str,
    looked: String,
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_changes_in_any_way_is_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nf");
        assert_eq!(ProgramVersion::of(&path), None);
        fs::write(&path, "one").unwrap();
        let first = ProgramVersion::of(&path);
        assert!(first.is_some() && first == ProgramVersion::of(&path));
        // The clock of files ticks with the kernel's.
        let after_a_tick = || std::thread::sleep(std::time::Duration::from_millis(20));
        after_a_tick();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let executable = ProgramVersion::of(&path);
        assert_ne!(executable, first);
        after_a_tick();
        fs::write(&path, "two").unwrap();
        let written = ProgramVersion::of(&path);
        assert_ne!(written, executable);
        let other = folder.path().join("other");
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(ProgramVersion::of(&path), written);
    }
}
