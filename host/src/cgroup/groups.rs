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

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::CpuController;
use crate::files::{self, FileError};

/// Least real-time budget worth having, in microseconds of a second. Our choice: a hundredth.
const REAL_TIME_US_MIN: u64 = 10_000;

/// Why a group could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The kernel weighs nothing.
    #[error("no control group weighs CPU time here; mount the cpu controller of the control groups")]
    NoController,
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

/// What differs between the versions of control groups.
pub trait Version: Debug + Send {
    /// The file of a group's weight.
    fn weight_file(&self) -> &'static str;
    /// What is written for a share, in parts of 10,000.
    fn weight(&self, share: u32) -> u64;
    /// What so many processes in no group have together.
    fn weight_of_members(&self, members: usize) -> u64;
    /// Lets the children of a group have weights.
    fn admit_children(&self, group: &Path) -> Result<(), FileError>;
    /// Lets real-time tasks of a group run so many microseconds of each second; it must not be more than its
    /// parent has to give.
    fn allow_real_time(&self, group: &Path, us: u64) -> Result<(), FileError>;
}

/// Version 1: `cpu.shares`.
#[derive(Debug)]
pub struct V1;

/// Version 2: `cpu.weight`.
#[derive(Debug)]
pub struct V2;

impl Version for V1 {
    fn weight_file(&self) -> &'static str {
        "cpu.shares"
    }

    fn weight(&self, share: u32) -> u64 {
        u64::from(share).clamp(2, 262_144)
    }

    fn weight_of_members(&self, members: usize) -> u64 {
        (1024 * members as u64).clamp(2, 262_144)
    }

    fn admit_children(&self, _: &Path) -> Result<(), FileError> {
        Ok(())
    }

    fn allow_real_time(&self, group: &Path, us: u64) -> Result<(), FileError> {
        files::write(group.join("cpu.rt_runtime_us"), &us.to_string())
    }
}

impl Version for V2 {
    fn weight_file(&self) -> &'static str {
        "cpu.weight"
    }

    fn weight(&self, share: u32) -> u64 {
        u64::from(share).clamp(1, 10_000)
    }

    fn weight_of_members(&self, members: usize) -> u64 {
        (100 * members as u64).clamp(1, 10_000)
    }

    fn admit_children(&self, group: &Path) -> Result<(), FileError> {
        files::write(group.join("cgroup.subtree_control"), "+cpu")
    }

    fn allow_real_time(&self, _: &Path, _: u64) -> Result<(), FileError> {
        // Version 2 has no budget of real time for groups (cgroup-v2.rst, "Controllers", "CPU").
        Ok(())
    }
}

/// The group of all, and the groups in it.
#[derive(Debug)]
pub struct Groups {
    version: Box<dyn Version>,
    directory: PathBuf,
}

impl Groups {
    /// Finds where a group of all called `name` can be made; [`Groups::make`] makes it.
    pub fn find(controller: &CpuController, name: &str) -> Result<Self, GroupError> {
        let own = controller.group_of(None).ok_or(GroupError::NoController)?;
        match controller {
            CpuController::V1(_) => Ok(Self::below(Box::new(V1), &own, name)),
            CpuController::V2(mount) => {
                let home = Self::home_of_v2(mount, &own)?;
                Ok(Self::below(Box::new(V2), &home, name))
            }
            CpuController::None => Err(GroupError::NoController),
        }
    }

    /// A group of all in a given group.
    pub fn below(version: Box<dyn Version>, home: &Path, name: &str) -> Self {
        Self { version, directory: home.join(name) }
    }

    /// The nearest group from `own` up to `mount` whose children may have weights.
    fn home_of_v2(mount: &Path, own: &Path) -> Result<PathBuf, GroupError> {
        let mut refused = None;
        for group in own.ancestors().take_while(|group| group.starts_with(mount)) {
            match V2.admit_children(group) {
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
        let path = directory.join(self.version.weight_file());
        let file = OpenOptions::new().write(true).open(&path);
        let weight = file.map_err(|source| FileError::Read { path, source })?;
        Ok(Group { directory, weight })
    }

    /// Weighs a group: a share in parts of 10,000.
    pub fn weigh(&self, group: &Group, share: u32) -> Result<(), FileError> {
        let value = self.version.weight(share);
        let mut text = [0; 20];
        let text = decimal(value, &mut text);
        group.weight.write_all_at(text, 0).map_err(|source| FileError::Write {
            path: group.directory.join(self.version.weight_file()),
            value: value.to_string(),
            source,
        })
    }

    /// A group in it for real-time tasks, with as much of their time as the kernel grants; they share it. The
    /// first process is put into it at once.
    pub fn real_time_group(&self, name: &str) -> Result<Group, GroupError> {
        let group = self.group(name)?;
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        // Without the file the version has no such bound.
        let mut us = files::read_number(parent.join("cpu.rt_runtime_us")).unwrap_or(REAL_TIME_US_MIN);
        loop {
            let allow = |directory: &Path| self.version.allow_real_time(directory, us);
            match allow(&self.directory).and_then(|()| allow(&group.directory)) {
                Ok(()) => return Ok(group),
                // Others beside us have a part of it.
                Err(_) if us / 2 >= REAL_TIME_US_MIN => us /= 2,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A group of one process and what comes of it.
#[derive(Debug)]
pub struct Group {
    directory: PathBuf,
    /// Kept open: a weight is written with one system call.
    weight: File,
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

/// Kills the processes of a group, those that are started meanwhile not among them.
pub fn end_members(directory: &Path) -> io::Result<()> {
    let members = || fs::read_to_string(directory.join("cgroup.procs"));
    for pid in members()?.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        // Held before it is looked for again, so that its number is its own when it is killed.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let number = pid.as_raw_pid().to_string();
        if members()?.lines().any(|line| line == number) {
            pidfd_send_signal(process, Signal::KILL)?;
        }
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), GroupError> {
    match fs::create_dir(directory) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(GroupError::Make { path: directory.into(), source })
        }
        _ => Ok(()),
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
mod tests;
