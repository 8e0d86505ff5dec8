//! Groups that weigh the CPU time of processes: one for each, in one of ours.
//!
//! A share is told in parts of 10,000 of a core. Weights are relative to those of the other groups beside it,
//! so both versions take a share as it is: `cpu.shares` of version 1 has the range 2 to 262,144, `cpu.weight`
//! of version 2 the range 1 to 10,000 (cgroup-v1/scheduler, cgroup-v2.rst). What a process outside would have
//! is 1024 and 100; the group of all is given that for each member, so that they fare beside strangers as
//! if they were in no group.
//!
//! Version 1 lets a group be made below any other. Version 2 allows members in leaves only, so the group of
//! all goes below the nearest group, from the manager's own upwards, whose children may have weights. That
//! they may is left so in the end: others can have come to rely on it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::weight::Weight;
use super::{CpuController, Version};
use crate::files::{self, FileError};

/// Why a group could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The kernel weighs nothing.
    #[error("no control group weighs CPU time here; mount the cpu controller of the control groups")]
    NoController,
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
        /// Why.
        source: io::Error,
    },
    /// A file of a group could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The group of all, and the groups in it.
#[derive(Debug)]
pub struct Groups {
    version: Version,
    directory: PathBuf,
}

impl Groups {
    /// Finds where a group of all called `name` can be made; [`Groups::make`] makes it.
    pub fn find(controller: &CpuController, name: &str) -> Result<Self, GroupError> {
        let own = controller.group_of(None).ok_or(GroupError::NoController)?;
        match controller {
            CpuController::V1(_) => Ok(Self::below(Version::V1, &own, name)),
            CpuController::V2(mount) => {
                let home = Self::home_of_v2(mount, &own)?;
                Ok(Self::below(Version::V2, &home, name))
            }
            CpuController::None => Err(GroupError::NoController),
        }
    }

    /// A group of all in a given group.
    pub fn below(version: Version, home: &Path, name: &str) -> Self {
        Self { version, directory: home.join(name) }
    }

    /// The nearest group from `own` up to `mount` whose children may have weights.
    fn home_of_v2(mount: &Path, own: &Path) -> Result<PathBuf, GroupError> {
        let mut refused = None;
        for group in own.ancestors().take_while(|group| group.starts_with(mount)) {
            match Version::V2.admit_children(group) {
                Ok(()) => return Ok(group.to_owned()),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.map_or(GroupError::NoController, GroupError::File))
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of a group in it.
    pub fn directory_of(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes it; one that is there already is as good.
    pub fn make(&self) -> Result<(), GroupError> {
        make(&self.directory)?;
        Ok(self.version.admit_children(&self.directory)?)
    }

    /// Gives it the weight of so many processes.
    pub fn set_members(&self, members: usize) -> Result<(), GroupError> {
        let weight = self.version.weight_of_members(members).to_string();
        Ok(files::write(self.directory.join(self.version.weight_file()), &weight)?)
    }

    /// Makes a group in it; one that is there already is as good.
    pub fn group(&self, name: &str) -> Result<Group, GroupError> {
        let directory = self.directory_of(name);
        make(&directory)?;
        let weight = Weight::of(self.version, &directory)?;
        Ok(Group { directory, weight })
    }

    /// Weighs a group: a share in parts of 10,000.
    pub fn weigh(&self, group: &Group, share: u32) -> Result<(), FileError> {
        group.weight.set(share)
    }

    /// A group in it for real-time tasks, with as much of their time as the kernel grants; they share it. The
    /// first process is put into it at once.
    pub fn real_time_group(&self, name: &str) -> Result<Group, GroupError> {
        let group = self.group(name)?;
        let home = self.directory.parent().unwrap_or(Path::new("/"));
        self.version.grant_real_time(home, &[&self.directory, &group.directory])?;
        Ok(group)
    }
}

/// A group of one process and what comes of it.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
    weight: Weight,
}

impl Group {
    /// Puts a process into it, with all its threads.
    pub fn add(&self, process: Pid) -> Result<(), GroupError> {
        Ok(files::write(self.directory.join("cgroup.procs"), &process.as_raw_pid().to_string())?)
    }

    /// Puts one thread of a process into it, and leaves the others where they are.
    pub fn add_thread(&self, thread: Pid) -> Result<(), GroupError> {
        // Version 2 has the second file; its groups have no bound of real time to be put here for.
        let files = ["tasks", "cgroup.threads"].map(|name| self.directory.join(name));
        let file = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
        Ok(files::write(file, &thread.as_raw_pid().to_string())?)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

pub(super) fn make(directory: &Path) -> Result<(), GroupError> {
    match fs::create_dir(directory) {
        // What is there may be a file of the kernel's.
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists || !directory.is_dir() => {
            Err(GroupError::Make { path: directory.into(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
