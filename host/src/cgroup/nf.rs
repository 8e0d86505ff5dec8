//! The group of one NF: it keeps the NF on its core, limits and weighs it, and finds all its processes when
//! it ends.
//!
//! It is made before there is a process, in every hierarchy of the manager's tree. A process is born inside
//! it where the kernel can (version 2), or enters it before any code of an NF runs; whatever it starts is
//! inside too, because leaving takes rights that an NF has not.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::error::GroupError;
use super::kill;
use super::tree::{DomainGroup, GroupDirectory, checked_name, make_real_time, remove_empty, weight_of};
use super::weight::Weight;
use super::{Controller, Hierarchy, Version};
use crate::cores;
use crate::files;
use crate::undo::Action;

/// Time between two checks whether killed processes have died. Our choice: they die when they are next
/// scheduled.
const DYING_PAUSE: Duration = Duration::from_millis(1);
const PROCESSES: &str = "cgroup.procs";

/// Limits of an NF and of all processes that it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Number of processes and threads.
    pub processes: Option<u32>,
    /// Bytes of memory, swap included. More is refused by ending the NF.
    pub memory_bytes: Option<u64>,
    /// Share of its core among the NFs of its domain, in parts of 10,000.
    pub share: Option<u32>,
}

/// A group that is to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfGroupPlan {
    /// Its name; two groups of one domain and core have different ones.
    pub name: String,
    /// The core to stay on; none leaves all that the manager has.
    pub core: Option<u32>,
    /// Limits.
    pub limits: Limits,
    /// Whether its tasks will be real-time tasks, which share one budget of the `cpu` controller (version 1).
    pub real_time: bool,
    /// The process that it is for, if that is not ours to end: let go, it returns to the groups that it is in
    /// now.
    pub guest: Option<Pid>,
}

/// The group of one NF.
#[derive(Debug, Default)]
pub struct NfGroup {
    /// Directories that are its alone.
    directories: Vec<GroupDirectory>,
    /// Group of all real-time tasks, if the NF is in it instead of one of its own.
    shared: Option<GroupDirectory>,
    weight: Option<Weight>,
    birthplace: Option<File>,
}

impl NfGroup {
    /// Makes the group.
    ///
    /// # Errors
    /// [`GroupError`]; nothing is left behind then.
    pub fn make(domain: &DomainGroup, plan: &NfGroupPlan) -> Result<Self, GroupError> {
        let name = checked_name(&plan.name)?;
        let homes = plan.guest.map(Hierarchy::of).unwrap_or_default();
        let below = |above: &GroupDirectory| GroupDirectory {
            path: above.path.join(&name),
            outside: home_in(&homes, above).into_iter().chain(above.outside.clone()).collect(),
            ..above.clone()
        };
        let shared = domain.real_time.clone().filter(|_| plan.real_time);
        let is_shared = |above: &&GroupDirectory| {
            shared.is_some() && above.version == Version::V1 && above.has(Controller::Cpu)
        };
        let mut group = Self {
            directories: domain.directories.iter().filter(|above| !is_shared(above)).map(below).collect(),
            // Where others are mounted with the cpu controller, their limits cannot be its alone.
            shared,
            weight: None,
            birthplace: None,
        };
        match group.fill(plan) {
            Ok(()) => Ok(group),
            Err(error) => {
                // What could not be made has nobody in it.
                let _ = group.remove();
                Err(error)
            }
        }
    }

    fn fill(&mut self, plan: &NfGroupPlan) -> Result<(), GroupError> {
        for directory in &self.directories {
            directory.make()?;
            limit(directory, plan)?;
        }
        if let Some(shared) = &self.shared {
            make_real_time(shared)?;
        }
        self.weight = weight_of(&self.directories)?;
        if let Some(share) = plan.limits.share {
            self.weigh(share)?;
        }
        let v2 = self.directories.iter().find(|directory| directory.version == Version::V2);
        if let Some(directory) = v2 {
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&directory.path);
            self.birthplace = opened.ok();
        }
        Ok(())
    }

    /// Returns where a process can be born inside it, with `CLONE_INTO_CGROUP`. In the other hierarchies it
    /// is not yet.
    pub fn birthplace(&self) -> Option<BorrowedFd<'_>> {
        self.birthplace.as_ref().map(AsFd::as_fd)
    }

    /// Returns the files that a process enters by, all of them: it writes its id, or 0 for itself. One that
    /// was born inside has fewer left. A write can take 250 ms with version 1, so what is to start fast
    /// enters before it is needed, and what must not wait has others enter by themselves.
    pub fn entrances(&self, born_inside: bool) -> Vec<PathBuf> {
        let is_left = |directory: &&GroupDirectory| !born_inside || directory.version == Version::V1;
        self.all().filter(is_left).map(|directory| directory.path.join(PROCESSES)).collect()
    }

    /// Puts a process into it, with all its threads.
    ///
    /// # Errors
    /// [`GroupError::File`]; it may be in some of the hierarchies then.
    pub fn enter(&self, process: Pid) -> Result<(), GroupError> {
        let number = process.as_raw_pid().to_string();
        Ok(self.entrances(false).into_iter().try_for_each(|entrance| files::write(entrance, &number))?)
    }

    /// Weighs it: a share in parts of 10,000. Without a weight of its own nothing happens.
    ///
    /// # Errors
    /// [`GroupError::File`].
    pub fn weigh(&self, share: u32) -> Result<(), GroupError> {
        Ok(self.weight.as_ref().map_or(Ok(()), |weight| weight.set(share))?)
    }

    /// Returns whether a controller holds it alone.
    pub fn has(&self, controller: Controller) -> bool {
        self.directories.iter().any(|directory| directory.has(controller))
    }

    /// Returns whether nobody has removed a part of it.
    pub fn is_whole(&self) -> bool {
        self.directories.iter().all(|directory| directory.path.is_dir())
    }

    /// Returns who is in it.
    pub fn members(&self) -> Vec<Pid> {
        let mut members: Vec<Pid> =
            self.directories.iter().flat_map(|directory| kill::members(&directory.path)).collect();
        members.sort_unstable_by_key(|pid| pid.as_raw_pid());
        members.dedup();
        members
    }

    /// Returns threads in it that may run on another core than this one. Where a cpuset holds it there are
    /// none.
    pub fn off_core(&self, core: u32) -> Vec<Pid> {
        let is_off = |thread: &Pid| {
            let cores = cores::affinity(Some(*thread));
            cores.is_ok_and(|cores| cores.as_slice() != [core])
        };
        self.members().into_iter().flat_map(crate::process::threads).filter(is_off).collect()
    }

    /// Kills who is in it and whomever they start meanwhile, and returns how many have not died yet. It is to
    /// be called again until there are none; nobody can be started in the group any more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&self) -> io::Result<usize> {
        let own: Vec<&Path> = self.directories.iter().map(|directory| directory.path.as_path()).collect();
        kill::end_for_good(&own)
    }

    /// Kills until it is empty, for at most this long.
    ///
    /// # Errors
    /// The kernel's, or `ResourceBusy` when a process was left.
    pub fn kill_until_empty(&self, patience: Duration) -> io::Result<()> {
        let start = Instant::now();
        while self.kill()? > 0 {
            if start.elapsed() > patience {
                return Err(io::ErrorKind::ResourceBusy.into());
            }
            thread::sleep(DYING_PAUSE);
        }
        Ok(())
    }

    /// Returns what lets its processes go, in place of ending them: to where the plan's guest was, else out
    /// of the tree. Registered after the tree, it is done before the tree ends the processes in it.
    pub fn letting_go(&self) -> Vec<Action> {
        let let_go = |directory: &GroupDirectory| {
            let (path, into) = (directory.path.clone(), directory.outside.clone());
            Action::EmptyGroup { path, into }
        };
        self.directories.iter().map(let_go).collect()
    }

    /// Removes it once nobody is in it.
    ///
    /// # Errors
    /// The kernel's, while a process is left.
    pub fn remove(&self) -> io::Result<()> {
        remove_empty(&self.directories)
    }

    fn all(&self) -> impl Iterator<Item = &GroupDirectory> {
        self.directories.iter().chain(&self.shared)
    }
}

/// Returns the group of one hierarchy that a guest was in, unless it was one of ours.
fn home_in(homes: &[Hierarchy], domain: &GroupDirectory) -> Option<PathBuf> {
    let tree = domain.path.parent().unwrap_or(&domain.path);
    let home = &homes.iter().find(|one| one.version == domain.version && one.mount == domain.mount)?.own;
    (!home.starts_with(tree)).then(|| home.clone())
}

/// Writes what one hierarchy has to say about a group.
fn limit(directory: &GroupDirectory, plan: &NfGroupPlan) -> Result<(), GroupError> {
    let write = |file: &str, value: &str| files::write(directory.path.join(file), value);
    if let (true, Some(core)) = (directory.has(Controller::Cpuset), plan.core) {
        write("cpuset.cpus", &core.to_string())?;
    }
    if let (true, Some(processes)) = (directory.has(Controller::Pids), plan.limits.processes) {
        write("pids.max", &processes.to_string())?;
    }
    if let (true, Some(bytes)) = (directory.has(Controller::Memory), plan.limits.memory_bytes) {
        let bytes = bytes.to_string();
        match directory.version {
            Version::V1 => {
                write("memory.limit_in_bytes", &bytes)?;
                // Memory and swap together; only where the kernel counts swap.
                write_if_there(directory, "memory.memsw.limit_in_bytes", &bytes)?;
            }
            Version::V2 => {
                write("memory.max", &bytes)?;
                write_if_there(directory, "memory.swap.max", "0")?;
                // An NF without some of its processes is none.
                write_if_there(directory, "memory.oom.group", "1")?;
            }
        }
    }
    Ok(())
}

fn write_if_there(directory: &GroupDirectory, file: &str, value: &str) -> Result<(), GroupError> {
    let path = directory.path.join(file);
    if path.exists() { Ok(files::write(path, value)?) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
