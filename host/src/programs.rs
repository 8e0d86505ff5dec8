//! Paths of our programs that other programs of ours start.

use std::path::PathBuf;

/// A program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
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
            Self::Manager => "headgate-manager",
            Self::Nfs => "headgate-nfs",
            Self::Bench => "headgate-bench",
        }
    }

    /// Returns the environment variable that says where it is when it is not in its usual place.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
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
