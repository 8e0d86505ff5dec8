//! Control groups: which controllers this machine has and where, groups of our own that weigh, limit, hold
//! and end processes, and cores that are kept free.

mod error;
mod hierarchy;
mod kill;
mod nf;
pub mod reserve;
mod tree;
mod version;
mod weight;

pub use error::GroupError;
pub use hierarchy::{Controller, Hierarchy, Missing, all_that_is};
pub use kill::end_members;
pub(crate) use kill::{move_members, remove_tree};
pub use nf::{Limits, NfGroup, NfGroupPlan};
pub use tree::{DomainGroup, GroupTree};
pub use version::Version;

use std::fs;
use std::path::PathBuf;

use rustix::process::Pid;
use serde::Serialize;

/// Hierarchy that holds the `cpu` controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "version", content = "mount")]
pub enum CpuController {
    /// Version 1 (`cpu.shares`), mounted here.
    V1(PathBuf),
    /// Version 2 (`cpu.weight`), mounted here.
    V2(PathBuf),
    /// Neither: no weights can be set.
    None,
}

impl CpuController {
    /// Finds it among the mounts that this process sees.
    pub fn find() -> Self {
        let has_it = |one: &Hierarchy| one.controllers.contains(&Controller::Cpu);
        match Hierarchy::all().into_iter().find(has_it) {
            Some(Hierarchy { version: Version::V1, mount, .. }) => Self::V1(mount),
            Some(Hierarchy { version: Version::V2, mount, .. }) => Self::V2(mount),
            None => Self::None,
        }
    }

    /// The directory of the group that `task` is in; `None` without controller or task.
    pub fn group_of(&self, task: Option<Pid>) -> Option<PathBuf> {
        let task = task.map_or("thread-self".into(), |task| task.as_raw_pid().to_string());
        let groups = fs::read_to_string(format!("/proc/{task}/cgroup")).ok()?;
        let group = group_in(self, &groups)?;
        let mount = match self {
            CpuController::V1(mount) | CpuController::V2(mount) => mount,
            CpuController::None => return None,
        };
        Some(mount.join(group.trim_start_matches('/')))
    }
}

/// Returns the paths that a group of this name would have at the top of every hierarchy that is mounted: an
/// OCI runtime makes one in each.
pub fn everywhere(name: &str) -> Vec<PathBuf> {
    hierarchy::mount_points().into_iter().map(|top| top.join(name)).collect()
}

/// Reads `/proc/PID/cgroup`: `number:controllers:path`, and `0::path` for version 2 (cgroups(7)).
fn group_in<'a>(controller: &CpuController, groups: &'a str) -> Option<&'a str> {
    let ours = |names: &str| match controller {
        CpuController::V1(_) => names.split(',').any(|name| name == "cpu"),
        CpuController::V2(_) => names.is_empty(),
        CpuController::None => false,
    };
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        ours(names).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_by_its_controller() {
        let groups = "3:cpuset:/a\n2:cpu,cpuacct:/b:c\n0::/d\n";
        let v1 = CpuController::V1(PathBuf::new());
        let v2 = CpuController::V2(PathBuf::new());
        assert_eq!(group_in(&v1, groups), Some("/b:c"));
        assert_eq!(group_in(&v2, groups), Some("/d"));
        assert_eq!(group_in(&CpuController::None, groups), None);
    }
}
