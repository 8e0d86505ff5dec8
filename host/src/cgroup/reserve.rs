//! Cores kept free of other programs, with the `cpuset` controller of version 1.
//!
//! Other programs that share a group with us, or with a group above ours, are put into a group below it
//! that lacks the cores; groups in which we are not lose the cores themselves. What comes later is found by
//! sweeping again: a process that a program without the cores starts has none of them either, so later
//! sweeps find little. Kernel threads that belong to a core, and those the kernel does not let go, stay.
//!
//! ```text
//! /              ours, kernel threads   0-3
//! |- headgate-PID-rest   all others     0-1
//! `- docker      without us             0-3 -> 0-1
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::{Controller, Hierarchy, Version};
use crate::cores::{CoreList, CoresError};
use crate::files::{self, FileError};
use crate::process;
use crate::undo::Action;

const CORES: &str = "cpuset.cpus";
const NODES: &str = "cpuset.mems";
const PROCESSES: &str = "cgroup.procs";
/// Prefix of the name of the group of other tasks: this, our process id, and `-rest`.
const PREFIX: &str = "headgate-";
const SUFFIX: &str = "-rest";
/// Groups above one another that are looked through. Our choice: deeper than anybody nests containers.
const DEPTH_MAX: usize = 32;

/// Reason why cores cannot be kept free.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// No controller.
    #[error(
        "the cpuset controller of control groups version 1 is not mounted here; keep cores free at boot \
         (isolcpus=), or with AllowedCPUs= of systemd's slices"
    )]
    NoController,
    /// Nothing would be left for the rest.
    #[error("{0} would leave no core to other programs: NFs must leave one")]
    NothingLeft(CoreList),
    /// Another manager keeps cores free.
    #[error("{} shows that another manager (process {pid}) keeps cores free already; one can at a time", path.display())]
    Taken {
        /// Path of its group.
        path: PathBuf,
        /// Its process.
        pid: i32,
    },
    /// A group cannot be made.
    #[error("cannot make the control group {}: {source}; run as root", path.display())]
    Make {
        /// The group.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file of a group could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A list of cores of the kernel's is none.
    #[error(transparent)]
    Cores(#[from] CoresError),
}

/// Paths of the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpusets {
    /// The group at the top.
    top: PathBuf,
    /// Path of our own group.
    own: PathBuf,
}

impl Cpusets {
    /// Finds them for this process.
    ///
    /// # Errors
    /// [`ReserveError::NoController`].
    pub fn find() -> Result<Self, ReserveError> {
        let is_it =
            |one: &Hierarchy| one.version == Version::V1 && one.controllers.contains(&Controller::Cpuset);
        let found = Hierarchy::all().into_iter().find(is_it).ok_or(ReserveError::NoController)?;
        Ok(Self { top: found.mount, own: found.own })
    }

    /// The group at the top.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the groups of others that managers made, with the process of each manager, and whether that
    /// still lives.
    fn rests(&self) -> Vec<(PathBuf, Pid, bool)> {
        let rest = |path: PathBuf| {
            let keeper = keeper_of(&path)?;
            // One of which nothing can be said is taken for alive.
            Some((path, keeper, process::is_alive(keeper).unwrap_or(true)))
        };
        path_of(self).iter().flat_map(|group| below(group)).filter_map(rest).collect()
    }

    /// Returns the groups in which programs are kept off cores by managers that are no more.
    #[must_use]
    pub fn abandoned(&self) -> Vec<PathBuf> {
        self.rests().into_iter().filter(|(_, _, lives)| !lives).map(|(path, ..)| path).collect()
    }

    /// Dissolves those groups: their programs get the cores back. Returns how many there were.
    ///
    /// # Errors
    /// [`ReserveError`].
    pub fn dissolve_abandoned(&self) -> Result<usize, ReserveError> {
        let abandoned = self.abandoned();
        for path in &abandoned {
            dissolve(path).map_err(|source| ReserveError::Make { path: path.clone(), source })?;
        }
        Ok(abandoned.len())
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Processes that were moved.
    pub moved: usize,
    /// Processes that stay, of the kernel almost all.
    pub stuck: usize,
    /// Groups that keep the cores, with the reason.
    pub refused: Vec<String>,
}

/// Cores that are kept free.
#[derive(Debug)]
pub struct Reserve {
    cpusets: Cpusets,
    name: String,
    cores: CoreList,
    /// Cores that groups had before.
    before: BTreeMap<PathBuf, CoreList>,
    stuck: HashSet<Pid>,
}

impl Reserve {
    /// Keeps no core free yet. A group that a manager left who is no more is dissolved.
    ///
    /// # Errors
    /// [`ReserveError::Taken`].
    pub fn new(cpusets: Cpusets) -> Result<Self, ReserveError> {
        cpusets.dissolve_abandoned()?;
        if let Some((path, keeper, _)) = cpusets.rests().into_iter().next() {
            return Err(ReserveError::Taken { path, pid: keeper.as_raw_pid() });
        }
        let name = format!("{PREFIX}{}{SUFFIX}", std::process::id());
        Ok(Self { cpusets, name, cores: CoreList::default(), before: BTreeMap::new(), stuck: HashSet::new() })
    }

    /// Keeps these cores free of all processes but ours, those that are started meanwhile among them if it is
    /// done again. `undo` is told what undoes a change before it is made.
    ///
    /// # Errors
    /// [`ReserveError`]; what was done by then stays until it is undone.
    pub fn sweep(
        &mut self,
        cores: &CoreList,
        is_ours: impl Fn(Pid) -> bool,
        undo: &mut dyn FnMut(Action),
    ) -> Result<Swept, ReserveError> {
        let all: CoreList = files::read(self.cpusets.top.join(CORES))?.parse()?;
        if without(&all, cores).is_empty() {
            return Err(ReserveError::NothingLeft(cores.clone()));
        }
        self.cores = cores.clone();
        let mut swept = Swept::default();
        for group in path_of(&self.cpusets) {
            let rest = group.join(&self.name);
            self.put_aside(&group, &rest, &is_ours, undo, &mut swept)?;
            for other in below(&group) {
                if !self.cpusets.own.starts_with(&other) && !is_of_ours(&other) {
                    self.shrink(&other, undo, &mut swept, 0);
                }
            }
        }
        swept.stuck = self.stuck.len();
        Ok(swept)
    }

    /// Moves other processes of a group that has ours below or in it into one without the cores.
    fn put_aside(
        &mut self,
        group: &Path,
        rest: &Path,
        is_ours: &impl Fn(Pid) -> bool,
        undo: &mut dyn FnMut(Action),
        swept: &mut Swept,
    ) -> Result<(), ReserveError> {
        let others = without(&files::read(group.join(CORES))?.parse()?, &self.cores);
        if others.is_empty() {
            return Err(ReserveError::NothingLeft(self.cores.clone()));
        }
        undo(Action::DissolveGroup { path: rest.to_owned() });
        match fs::create_dir(rest) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ReserveError::Make { path: rest.to_owned(), source });
            }
            _ => {}
        }
        write_if_other(&rest.join(CORES), &others.to_string())?;
        write_if_other(&rest.join(NODES), files::read(group.join(NODES))?.trim())?;
        for process in members(group) {
            if self.stuck.contains(&process) || is_ours(process) {
                continue;
            }
            match files::write(rest.join(PROCESSES), &process.as_raw_pid().to_string()) {
                Ok(()) => swept.moved += 1,
                // It has ended, or it is a thread of the kernel's that belongs to a core.
                Err(_) if process::started_ticks(process).is_none() => {}
                Err(_) => {
                    self.stuck.insert(process);
                }
            }
        }
        Ok(())
    }

    /// Takes the cores from a group without ours and all below it, the lowest first: each has at most what
    /// the one above has.
    fn shrink(&mut self, group: &Path, undo: &mut dyn FnMut(Action), swept: &mut Swept, depth: usize) {
        if is_rest(group) || depth == DEPTH_MAX {
            return;
        }
        for lower in below(group) {
            self.shrink(&lower, undo, swept, depth + 1);
        }
        let file = group.join(CORES);
        let read = |path: &Path| files::read(path).ok()?.parse::<CoreList>().ok();
        // One that has gone meanwhile has no cores.
        let Some(now) = read(&file) else { return };
        let had = self.before.get(group).unwrap_or(&now);
        let left = without(had, &self.cores);
        if left == now {
            return;
        }
        if left.is_empty() {
            swept.refused.push(format!("{} has no other core", group.display()));
            return;
        }
        if !self.before.contains_key(group) {
            undo(Action::WriteFile { path: file.clone(), value: now.to_string() });
            self.before.insert(group.to_owned(), now);
        }
        if let Err(error) = files::write(&file, &left.to_string()) {
            swept.refused.push(error.to_string());
        }
    }

    /// Takes a process of ours that was started elsewhere among ours.
    ///
    /// # Errors
    /// [`ReserveError`].
    pub fn admit(&self, process: Pid) -> Result<(), ReserveError> {
        Ok(files::write(self.cpusets.own.join(PROCESSES), &process.as_raw_pid().to_string())?)
    }
}

/// Puts the members of a group of ours back into the one above it, and removes it.
pub(crate) fn dissolve(group: &Path) -> io::Result<()> {
    if !group.exists() {
        return Ok(());
    }
    let above = group.parent().unwrap_or(group).join(PROCESSES);
    for process in members(group) {
        // One that has ended needs no place; one that may not be moved keeps the group, and that is told.
        let _ = files::write(&above, &process.as_raw_pid().to_string());
    }
    fs::remove_dir(group)
}

/// The groups from the top down to our own.
fn path_of(cpusets: &Cpusets) -> Vec<PathBuf> {
    let inside = cpusets.own.ancestors().take_while(|group| group.starts_with(&cpusets.top));
    let mut path: Vec<PathBuf> = inside.map(Path::to_owned).collect();
    path.reverse();
    path
}

fn below(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir())
}

fn is_rest(group: &Path) -> bool {
    keeper_of(group).is_some()
}

/// Returns whether a group holds NFs of ours: containers are called `headgate-PID-…`, and the tree of the
/// others `headgate-NAME-PID`.
fn is_of_ours(group: &Path) -> bool {
    let name = group.file_name().unwrap_or_default().to_string_lossy();
    let pid = std::process::id();
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.starts_with(&format!("{pid}-")) || rest.ends_with(&format!("-{pid}")))
}

/// The manager whose group of others it is.
fn keeper_of(group: &Path) -> Option<Pid> {
    let name = group.file_name()?.to_str()?;
    Pid::from_raw(name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()?)
}

fn members(group: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

fn without(all: &CoreList, cores: &CoreList) -> CoreList {
    all.as_slice().iter().copied().filter(|core| !cores.contains(*core)).collect()
}

fn write_if_other(file: &Path, value: &str) -> Result<(), FileError> {
    if files::read(file)?.trim() == value { Ok(()) } else { files::write(file, value) }
}

#[cfg(test)]
mod tests;
