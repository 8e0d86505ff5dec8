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
use std::path::{Path, PathBuf};

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
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let controllers = |root: &Path| fs::read_to_string(root.join("cgroup.controllers"));
        let v2_has_cpu =
            |root: &Path| controllers(root).is_ok_and(|names| names.split_whitespace().any(|n| n == "cpu"));
        find_in(&mounts, v2_has_cpu)
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
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (directory, kind) = (words.next()?, words.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| Path::new(directory).join(name))
    };
    mounts.lines().filter_map(root).collect()
}

/// Reads `/proc/self/mounts`: device, directory, type, options, … (fstab(5)).
fn find_in(mounts: &str, v2_has_cpu: impl Fn(&Path) -> bool) -> CpuController {
    let mut v2 = None;
    for line in mounts.lines() {
        let mut words = line.split_whitespace();
        let (Some(directory), Some(kind), Some(options)) = (words.nth(1), words.next(), words.next()) else {
            continue;
        };
        let directory = PathBuf::from(directory);
        match kind {
            "cgroup" if options.split(',').any(|o| o == "cpu") => {
                return CpuController::V1(directory);
            }
            "cgroup2" if v2_has_cpu(&directory) => v2 = Some(directory),
            _ => {}
        }
    }
    v2.map_or(CpuController::None, CpuController::V2)
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

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n";

    #[test]
    fn version_1_is_found_beside_an_empty_version_2() {
        let found = find_in(HYBRID, |_| false);
        let mount = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(found, CpuController::V1(mount));
    }

    #[test]
    fn version_2_counts_only_with_the_controller() {
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let v2 = CpuController::V2("/sys/fs/cgroup".into());
        assert_eq!(find_in(mounts, |_| true), v2);
        assert_eq!(find_in(mounts, |_| false), CpuController::None);
    }

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
