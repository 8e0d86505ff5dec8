//! The groups of one manager: a tree of the same shape in each hierarchy that has a controller for us.
//!
//! ```text
//! home                        the manager's own group (v1), or the nearest that admits children (v2)
//! `- headgate-NAME-PID        all of a manager
//!    |- core1.domain0         what a trust domain has of a core: domains share it by these
//!    |  |- 3.firewall         an NF, and whatever it starts
//!    |  `- 4.monitor
//!    `- real-time             v1, cpu: real-time tasks, which share one budget
//! ```
//!
//! Version 1 lets a group be made below any other. Version 2 allows processes in leaves only, so a tree's
//! home is the nearest group, from the manager's own upwards, that lets its children have controllers; that
//! it does is left so in the end, for others can have come to rely on it. Where a service manager delegated
//! the manager's own group to it (systemd's `Delegate=`), the manager moves into a leaf of that group, and
//! the tree is beside it.
//!
//! Each root is registered with the janitor before it is made, as something in which nobody is to survive us.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::Pid;

use super::error::{self, GroupError};
use super::kill;
use super::weight::Weight;
use super::{Controller, Hierarchy, Missing, Version};
use crate::files::{self, FileError};
use crate::process;
use crate::undo::Action;

/// The group of all real-time tasks of version 1.
const REAL_TIME: &str = "real-time";
/// The leaf that a manager moves into where its own group was delegated to it.
const MANAGER: &str = "manager";
/// Attributes by which a service manager marks a delegated group; the second is for managers of users.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// One hierarchy's part of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupDirectory {
    pub(super) version: Version,
    pub(super) path: PathBuf,
    pub(super) controllers: Vec<Controller>,
    /// Mount point of the hierarchy.
    pub(super) mount: PathBuf,
    /// Groups outside the tree that processes can be put into, best first.
    pub(super) outside: Vec<PathBuf>,
}

impl GroupDirectory {
    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Makes it, and of what a cpuset of version 1 is empty without, what the group above has.
    pub(super) fn make(&self) -> Result<(), GroupError> {
        error::make(&self.path)?;
        if self.version == Version::V1 && self.has(Controller::Cpuset) {
            let above = self.path.parent().unwrap_or(&self.path);
            for file in ["cpuset.cpus", "cpuset.mems"] {
                files::write(self.path.join(file), files::read(above.join(file))?.trim())?;
            }
        }
        Ok(())
    }

    /// Lets groups in it have its controllers.
    fn admit_children(&self) -> Result<(), FileError> {
        if self.version == Version::V1 {
            return Ok(());
        }
        self.controllers.iter().try_for_each(|controller| enable(&self.path, *controller))
    }

    fn below(&self, name: &str) -> Self {
        Self { path: self.path.join(name), ..self.clone() }
    }
}

/// All groups of one manager. The janitor removes them, and kills the processes in them.
#[derive(Debug)]
pub struct GroupTree {
    roots: Vec<GroupDirectory>,
    missing: Vec<Missing>,
}

impl GroupTree {
    /// Makes a tree called `name` in each of these hierarchies. `undo` is told what undoes a change before it
    /// is made.
    ///
    /// A setting that a hierarchy refuses is no error: [`GroupTree::missing`] says what is missing, and why.
    pub fn make(name: &str, hierarchies: &[Hierarchy], undo: &mut dyn FnMut(Action)) -> Self {
        let mut tree = Self { roots: Vec::new(), missing: Vec::new() };
        for hierarchy in hierarchies {
            match root_in(hierarchy, name, undo) {
                Ok((root, missing)) => {
                    tree.roots.push(root);
                    tree.missing.extend(missing);
                }
                Err(error) => tree.missing.extend(all_missing(&hierarchy.controllers, &error.to_string())),
            }
        }
        let has_v2 = tree.roots.iter().any(|root| root.version == Version::V2);
        for controller in Controller::ALL {
            let is_there = hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller));
            let is_needless = controller == Controller::Freezer && has_v2;
            if !is_there && !is_needless {
                let why =
                    format!("the {} controller of control groups is not mounted here", controller.name());
                tree.missing.push(Missing { controller, why });
            }
        }
        tree
    }

    /// Returns which controllers cannot be used, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// Returns whether a controller can be used.
    pub fn has(&self, controller: Controller) -> bool {
        self.roots.iter().any(|root| root.has(controller))
    }

    /// Weighs the whole tree as so many processes would be of which each counts for so many outside it.
    ///
    /// # Errors
    /// [`GroupError::File`].
    pub fn set_members(&self, members: usize, each: u32) -> Result<(), GroupError> {
        for root in self.roots.iter().filter(|root| root.has(Controller::Cpu)) {
            let weight = root.version.weight_of_members(members, each).to_string();
            files::write(root.path.join(root.version.weight_file()), &weight)?;
        }
        Ok(())
    }

    /// Makes the group of a trust domain on a core; one that is there already is as good.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn domain(&self, core: u32, domain: &str) -> Result<DomainGroup, GroupError> {
        let name = checked_name(&format!("core{core}.{domain}"))?;
        let directories: Vec<_> = self.roots.iter().map(|root| root.below(&name)).collect();
        for directory in &directories {
            directory.make()?;
            directory.admit_children()?;
        }
        let weight = weight_of(&directories)?;
        Ok(DomainGroup { directories, weight, real_time: self.real_time_directory() })
    }

    fn real_time_directory(&self) -> Option<GroupDirectory> {
        let root = self.roots.iter().find(|root| root.version == Version::V1 && root.has(Controller::Cpu))?;
        Some(root.below(REAL_TIME))
    }

    /// Lets a thread of ours be a real-time task: puts it into the group of all of them, where there is a
    /// budget of real time for groups.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn admit_real_time(&self, thread: Pid) -> Result<(), GroupError> {
        let Some(group) = self.real_time_directory() else { return Ok(()) };
        make_real_time(&group)?;
        Ok(files::write(group.path.join("tasks"), &thread.as_raw_pid().to_string())?)
    }

    /// Removes all groups of it, and kills who is in them.
    ///
    /// # Errors
    /// The kernel's, also while a process has not died yet: it may be tried again.
    pub fn remove(&self) -> io::Result<()> {
        self.roots.iter().map(|root| kill::remove_tree(&root.path)).fold(Ok(()), Result::and)
    }
}

/// Share of a core that a trust domain has.
#[derive(Debug)]
pub struct DomainGroup {
    pub(super) directories: Vec<GroupDirectory>,
    weight: Option<Weight>,
    pub(super) real_time: Option<GroupDirectory>,
}

impl DomainGroup {
    /// Weighs it among the domains of its core: a share in parts of 10,000. Without a cpu controller nothing
    /// happens.
    ///
    /// # Errors
    /// [`GroupError::File`].
    pub fn weigh(&self, share: u32) -> Result<(), GroupError> {
        Ok(self.weight.as_ref().map_or(Ok(()), |weight| weight.set(share))?)
    }

    /// Removes it once there is no group in it.
    ///
    /// # Errors
    /// The kernel's, while there is.
    pub fn remove(&self) -> io::Result<()> {
        remove_empty(&self.directories)
    }
}

/// Removes one group from all hierarchies.
pub(super) fn remove_empty(directories: &[GroupDirectory]) -> io::Result<()> {
    let remove = |directory: &GroupDirectory| match fs::remove_dir(&directory.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    directories.iter().map(remove).fold(Ok(()), Result::and)
}

/// Makes the group of real-time tasks and gives it time to run, if that was not done yet.
pub(super) fn make_real_time(group: &GroupDirectory) -> Result<(), GroupError> {
    group.make()?;
    let root = group.path.parent().unwrap_or(&group.path);
    let home = root.parent().unwrap_or(root);
    Ok(group.version.grant_real_time(home, &[root, &group.path])?)
}

/// Opens the weight of a group, where it has one.
pub(super) fn weight_of(directories: &[GroupDirectory]) -> Result<Option<Weight>, FileError> {
    let weighed = directories.iter().find(|directory| directory.has(Controller::Cpu));
    weighed.map(|directory| Weight::of(directory.version, &directory.path)).transpose()
}

/// Returns a name if it can be a directory's.
pub(super) fn checked_name(name: &str) -> Result<String, GroupError> {
    let is_one = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\n', '\0']);
    is_one.then(|| name.to_owned()).ok_or_else(|| GroupError::BadName { name: name.to_owned() })
}

fn all_missing(controllers: &[Controller], why: &str) -> Vec<Missing> {
    controllers.iter().map(|controller| Missing { controller: *controller, why: why.to_owned() }).collect()
}

/// Makes the root of a tree, and tells which controllers of the hierarchy it could not be given.
fn root_in(
    hierarchy: &Hierarchy,
    name: &str,
    undo: &mut dyn FnMut(Action),
) -> Result<(GroupDirectory, Vec<Missing>), GroupError> {
    let name = checked_name(name)?;
    let version = hierarchy.version;
    let own = &hierarchy.own;
    let (home, controllers, missing) = match version {
        Version::V1 => (own.clone(), hierarchy.controllers.clone(), Vec::new()),
        Version::V2 => home_of_v2(hierarchy),
    };
    remove_abandoned(&home, &name);
    let (mount, outside) = (hierarchy.mount.clone(), outside_of(hierarchy));
    let root = GroupDirectory { version, path: home.join(name), controllers, mount, outside };
    undo(Action::RemoveGroupTree { path: root.path.clone() });
    root.make()?;
    root.admit_children()?;
    Ok((root, missing))
}

/// Removes trees of managers of our name that are no more, killed together with their janitors. One that is
/// called as ours will be is of such a manager too: in a PID namespace numbers begin anew. A process in one
/// keeps it: that is not ours to end.
fn remove_abandoned(home: &Path, name: &str) {
    let Some((stem, _)) = name.rsplit_once('-') else { return };
    let keeper = |path: &Path| {
        let pid = path.file_name()?.to_str()?.strip_prefix(stem)?.strip_prefix('-')?.parse().ok()?;
        Pid::from_raw(pid)
    };
    for path in fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_ours = path.file_name().is_some_and(|there| there == name);
        let is_gone = |pid| process::is_alive(pid).is_ok_and(|lives| !lives);
        if is_ours || keeper(&path).is_some_and(is_gone) {
            let _ = kill::remove_empty(&path);
        }
    }
}

/// Returns groups for processes that outlive us and cannot return to where they were. The top of a hierarchy
/// takes any process; the leaf of a delegated group is the last resort, because with a process in it the
/// service manager can start nobody in that group.
fn outside_of(hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let leaf = hierarchy.own.join(MANAGER);
    match hierarchy.version == Version::V2 && leaf.is_dir() {
        true => vec![hierarchy.mount.clone(), leaf],
        false => vec![hierarchy.own.clone()],
    }
}

/// Finds the nearest group, from our own upwards, whose children may have most of the controllers.
fn home_of_v2(hierarchy: &Hierarchy) -> (PathBuf, Vec<Controller>, Vec<Missing>) {
    if is_delegated(&hierarchy.own) {
        // One that does not let us leaves everything as it is; the groups above are tried then.
        let _ = move_into_leaf(&hierarchy.own);
    }
    let wanted = &hierarchy.controllers;
    let mut best = (hierarchy.own.clone(), Vec::new(), all_missing(wanted, "its group admits no child"));
    for group in hierarchy.own.ancestors().take_while(|group| group.starts_with(&hierarchy.mount)) {
        let (mut had, mut missing) = (Vec::new(), Vec::new());
        for controller in wanted {
            match enable(group, *controller) {
                Ok(()) => had.push(*controller),
                Err(error) => missing.push(Missing { controller: *controller, why: error.to_string() }),
            }
        }
        let is_first = best.1.is_empty() && group == hierarchy.own;
        if is_first || had.len() > best.1.len() {
            best = (group.to_owned(), had, missing);
        }
        if best.1.len() == wanted.len() {
            break;
        }
    }
    best
}

/// Lets the children of a group of version 2 have a controller.
fn enable(group: &Path, controller: Controller) -> Result<(), FileError> {
    let enabled = files::read(group.join("cgroup.subtree_control")).unwrap_or_default();
    if enabled.split_whitespace().any(|name| name == controller.name()) {
        return Ok(());
    }
    files::write(group.join("cgroup.subtree_control"), &format!("+{}", controller.name()))
}

fn is_delegated(group: &Path) -> bool {
    DELEGATED.iter().any(|name| {
        let mut value = [0u8; 8];
        getxattr(group, *name, &mut value[..]).is_ok_and(|bytes| value[..bytes] == *b"1")
    })
}

/// Moves the processes of a delegated group, which are the manager and its janitor, into a leaf of it.
fn move_into_leaf(group: &Path) -> Result<(), GroupError> {
    let leaf = group.join(MANAGER);
    error::make(&leaf)?;
    for process in kill::members(group) {
        files::write(leaf.join("cgroup.procs"), &process.as_raw_pid().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
