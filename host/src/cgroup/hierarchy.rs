//! Hierarchies of control groups: the controllers that this machine has, and the group of each hierarchy this
//! process is.
//!
//! A controller is in one hierarchy at a time: in one of version 1, by itself or with others, or in the only
//! one of version 2. Machines of either version, and of both at once, are read alike, from `mountinfo` and
//! `cgroup` of proc(5).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::Version;

/// What this process sees mounted, a line each (proc_pid_mountinfo(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// A controller that has a use for network functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Parts of CPU time.
    Cpu,
    /// Cores that processes may run on.
    Cpuset,
    /// Number of processes and threads.
    Pids,
    /// Bytes of memory.
    Memory,
    /// Stopping all processes at once. Version 2 does so in any group, without a controller.
    Freezer,
}

impl Controller {
    /// Every controller.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Cpuset, Self::Pids, Self::Memory, Self::Freezer];

    /// Returns the kernel's name of it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuset => "cpuset",
            Self::Pids => "pids",
            Self::Memory => "memory",
            Self::Freezer => "freezer",
        }
    }

    /// Returns what does not hold without it, as a sentence's beginning.
    const fn without(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time is not weighed",
            Self::Cpuset => "an NF can leave its core",
            Self::Pids => "the number of an NF's processes has no limit",
            Self::Memory => "an NF's memory has no limit",
            Self::Freezer => "an NF's processes are killed one after the other",
        }
    }

    fn in_list(names: &str) -> Vec<Self> {
        let is_named = |one: &Self| names.split([',', ' ', '\n']).any(|name| name == one.name());
        Self::ALL.into_iter().filter(is_named).collect()
    }
}

/// A controller that cannot be used here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The controller.
    pub controller: Controller,
    /// Reason and cure.
    pub why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.controller.without(), self.why)
    }
}

/// Returns all that is missing as one sentence, each reason once; `None` when nothing is.
pub fn all_that_is(missing: &[Missing]) -> Option<String> {
    let mut by_reason: Vec<(&Missing, Vec<&str>)> = Vec::new();
    for one in missing {
        match by_reason.iter_mut().find(|(first, _)| reason(first) == reason(one)) {
            Some((_, consequences)) => consequences.push(one.controller.without()),
            None => by_reason.push((one, vec![one.controller.without()])),
        }
    }
    let told =
        |(first, consequences): (&Missing, Vec<&str>)| format!("{}: {}", consequences.join(", "), first.why);
    let told: Vec<String> = by_reason.into_iter().map(told).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The words of a reason without the paths, which differ where nothing else does.
fn reason(missing: &Missing) -> Vec<&str> {
    missing.why.split_whitespace().filter(|word| !word.starts_with('/')).collect()
}

/// A hierarchy of control groups that is mounted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Mount point.
    pub mount: PathBuf,
    /// The group of it that this process is in, or another one that was asked for.
    pub own: PathBuf,
    /// Our controllers that are in it.
    pub controllers: Vec<Controller>,
}

impl Hierarchy {
    /// Returns those that are mounted here and have one of our controllers, and that of version 2 in any
    /// case: its groups can be killed at once.
    pub fn all() -> Vec<Self> {
        Self::with_groups_of("self")
    }

    /// Returns the same with the groups that another process is in.
    pub fn of(process: Pid) -> Vec<Self> {
        Self::with_groups_of(&process.as_raw_pid().to_string())
    }

    fn with_groups_of(process: &str) -> Vec<Self> {
        let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
        all_in(&mounts, &groups, |mount| {
            fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default()
        })
    }
}

/// Returns where hierarchies are mounted here, also those without one of our controllers.
pub(super) fn mount_points() -> Vec<PathBuf> {
    let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
    mounts.lines().filter_map(Mount::of_groups).map(|mount| mount.directory.into()).collect()
}

fn all_in(mounts: &str, groups: &str, v2_controllers: impl Fn(&Path) -> String) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let Some(mount) = Mount::of_groups(line) else { continue };
        let (version, controllers) = match mount.kind {
            "cgroup" => (Version::V1, Controller::in_list(mount.options)),
            _ => (Version::V2, Controller::in_list(&v2_controllers(Path::new(mount.directory)))),
        };
        let is_useful = version == Version::V2 || !controllers.is_empty();
        let is_known = found.iter().any(|one| one.version == version && one.controllers == controllers);
        let Some(group) = group_in(groups, version, &controllers).filter(|_| is_useful && !is_known) else {
            continue;
        };
        let inside = group.strip_prefix(mount.root).unwrap_or(group).trim_start_matches('/');
        let directory = Path::new(mount.directory);
        let own = if inside.is_empty() { directory.to_owned() } else { directory.join(inside) };
        found.push(Hierarchy { version, mount: directory.to_owned(), own, controllers });
    }
    found
}

/// A line of `mountinfo`: `36 35 98:0 /root /directory rw - kind source options`.
struct Mount<'a> {
    /// The directory of the file system that is mounted: its top, or what a container was given.
    root: &'a str,
    directory: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut system = system.split(' ');
        Some(Self {
            root: place.next()?,
            directory: place.next()?,
            kind: system.next()?,
            options: system.nth(1)?,
        })
    }

    /// Reads a line; `None` when it is none of a hierarchy of control groups that is ours.
    fn of_groups(line: &'a str) -> Option<Self> {
        Self::read(line).filter(|mount| matches!(mount.kind, "cgroup" | "cgroup2") && mount.is_ours())
    }

    /// Returns whether its groups are those that this process may know: to one with a namespace of control
    /// groups the kernel shows the directory of a mount of more than that as `/..` and so on. It was mounted
    /// elsewhere, for a chroot perhaps.
    fn is_ours(&self) -> bool {
        !self.root.starts_with("/..")
    }
}

/// Reads `/proc/PID/cgroup`: `number:controllers:path`, and `0::path` for version 2 (cgroups(7)).
fn group_in<'a>(groups: &'a str, version: Version, controllers: &[Controller]) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        let is_it = match version {
            Version::V1 => !controllers.is_empty() && Controller::in_list(names) == controllers,
            Version::V2 => names.is_empty(),
        };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: &str = "\
        25 20 0:20 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        26 25 0:21 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n\
        27 25 0:22 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        28 25 0:23 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
        29 25 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        30 25 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const GROUPS: &str = "5:memory:/a/b\n4:cpuset:/\n2:cpu,cpuacct:/c:d\n1:name=systemd:/x\n0::/e\n";

    #[test]
    fn hierarchies_of_both_versions_are_found_with_our_group_in_each() {
        let found = all_in(APART, GROUPS, |_| "hugetlb\n".to_owned());
        let seen: Vec<_> = found
            .iter()
            .map(|one| (one.version, one.own.to_str().unwrap(), one.controllers.as_slice()))
            .collect();
        let expected: [(Version, &str, &[Controller]); 4] = [
            (Version::V1, "/sys/fs/cgroup/cpu,cpuacct/c:d", &[Controller::Cpu]),
            (Version::V1, "/sys/fs/cgroup/cpuset", &[Controller::Cpuset]),
            (Version::V1, "/sys/fs/cgroup/memory/a/b", &[Controller::Memory]),
            (Version::V2, "/sys/fs/cgroup/unified/e", &[]),
        ];
        assert_eq!(seen, expected);
    }

    /// The hierarchies of a default Debian 12.
    #[test]
    fn one_hierarchy_of_version_2_has_all_of_them() {
        let mounts = "25 20 0:20 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "0::/system.slice/headgate.service\n";
        let all = || "cpuset cpu io memory hugetlb pids rdma misc\n".to_owned();
        let found = all_in(mounts, groups, |_| all());
        let own = PathBuf::from("/sys/fs/cgroup/system.slice/headgate.service");
        let mut controllers = Controller::ALL.to_vec();
        controllers.retain(|one| *one != Controller::Freezer);
        let mount = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(found, [Hierarchy { version: Version::V2, mount, own, controllers }]);
    }

    /// A chroot's view of all groups is listed first, because ours was mounted after it.
    #[test]
    fn a_mount_from_outside_of_our_namespace_is_none_of_ours() {
        let mounts = "47 44 0:31 /.. /chroot/sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      90 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup none rw,cpuset\n";
        let found = all_in(mounts, "3:cpuset:/\n", |_| String::new());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].own, Path::new("/sys/fs/cgroup/cpuset"));
    }

    /// A container sees its own group as the top of the mount, and the machine's path in its `cgroup`.
    #[test]
    fn a_mount_of_one_group_is_its_top() {
        let mounts = "27 25 0:22 /docker/7 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        for (path, own) in [("/docker/7", "/sys/fs/cgroup/cpu"), ("/docker/7/sub", "/sys/fs/cgroup/cpu/sub")]
        {
            let found = all_in(mounts, &format!("2:cpu:{path}\n"), |_| String::new());
            assert_eq!(found[0].own, Path::new(own));
        }
    }
}
