//! Limits on the cores of this process, and where they come from.
//!
//! There are two. A *cpuset* is set by the operator of the machine, a container or a systemd unit: the
//! kernel lets nobody out of it. An *affinity mask* is what a process inherits from its parent, as `taskset`
//! and `CPUAffinity=` set it: the process may leave it, so it is a wish and not a limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{CoreList, CoresError, affinity, online};
use crate::cgroup::{Controller, Hierarchy};

/// File of a group with the cores of its cpuset, in both versions; in version 2 it is empty in a group that
/// has those of its parent (cgroup-v2.rst, "Cpuset Interface Files").
const CORES: &str = "cpuset.cpus";

/// A cpuset that holds fewer cores than the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpuset {
    /// Its name for people: "the cpuset of the unit x.service".
    pub name: String,
    /// How to make it hold all cores that are online.
    pub cure: String,
}

/// Returns the outermost cpuset that keeps this process off a core; `None` where nothing does, or where
/// control groups are not to be seen.
pub fn cpuset() -> Option<Cpuset> {
    let all = online().ok()?;
    let is_it = |one: &Hierarchy| one.controllers.contains(&Controller::Cpuset);
    let hierarchy = Hierarchy::all().into_iter().find(is_it)?;
    let read = |group: &Path| fs::read_to_string(group.join(CORES)).ok();
    let group = outermost(&hierarchy.own, &hierarchy.mount, &all, read)?;
    Some(describe(&group, group == hierarchy.mount, &all))
}

/// Returns the outermost group, from `own` up to `mount`, whose cpuset lacks one of these cores.
fn outermost(
    own: &Path,
    mount: &Path,
    all: &CoreList,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<PathBuf> {
    let lacks_one = |group: &&Path| {
        let cores: Option<CoreList> = read(group).and_then(|text| text.parse().ok());
        cores.is_some_and(|cores| !cores.is_empty() && all.0.iter().any(|core| !cores.contains(*core)))
    };
    let groups = own.ancestors().take_while(|group| group.starts_with(mount));
    groups.filter(lacks_one).last().map(Path::to_owned)
}

fn describe(group: &Path, is_top: bool, all: &CoreList) -> Cpuset {
    let last = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_unit = [".service", ".scope", ".slice"].iter().any(|kind| last.ends_with(kind));
    if is_top {
        // The machine's own group has every core: this one was given to a container as its top.
        return Cpuset {
            name: "the cpuset of the container".to_owned(),
            cure: format!("start the container with more cores (`docker run --cpuset-cpus={all}`)"),
        };
    }
    if is_unit {
        return Cpuset {
            name: format!("the cpuset of the unit {last}"),
            cure: format!("widen it (`systemctl set-property {last} AllowedCPUs={all}`)"),
        };
    }
    let path = group.display();
    Cpuset {
        name: format!("the cpuset {path}"),
        cure: format!("widen it and those inside it (`echo {all} > {path}/{CORES}`)"),
    }
}

/// Returns the affinity mask that this program was started with: the one of the thread that asks first, so
/// the first call is to be made before any thread is moved.
///
/// # Errors
/// [`CoresError`] when the kernel does not say.
pub fn given() -> Result<CoreList, CoresError> {
    static GIVEN: OnceLock<CoreList> = OnceLock::new();
    if let Some(given) = GIVEN.get() {
        return Ok(given.clone());
    }
    let now = affinity(None)?;
    Ok(GIVEN.get_or_init(|| now).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CoreList {
        text.parse().unwrap()
    }

    fn found(groups: &[(&str, &str)]) -> Option<PathBuf> {
        let read = |group: &Path| {
            let there = groups.iter().find(|(path, _)| Path::new(path) == group)?;
            Some(format!("{}\n", there.1))
        };
        outermost(Path::new("/sys/cpuset/a.slice/b.service"), Path::new("/sys/cpuset"), &list("0-3"), read)
    }

    #[test]
    fn the_outermost_group_that_lacks_a_core_is_the_one_to_widen() {
        let slice = Some(PathBuf::from("/sys/cpuset/a.slice"));
        let both = [("/sys/cpuset/a.slice/b.service", "1"), ("/sys/cpuset/a.slice", "0-1")];
        assert_eq!(found(&both), slice);
        // Version 2: a group that has those of its parent.
        assert_eq!(found(&[("/sys/cpuset/a.slice/b.service", ""), ("/sys/cpuset/a.slice", "2")]), slice);
        assert_eq!(found(&[("/sys/cpuset", "0-3"), ("/sys/cpuset/a.slice", "0-7")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_cpuset_is_named_by_who_made_it_with_the_command_that_widens_it() {
        let of = |path: &str, is_top| describe(Path::new(path), is_top, &list("0-3"));
        let unit = of("/sys/cpuset/a.slice/b.service", false);
        assert_eq!(unit.name, "the cpuset of the unit b.service");
        assert!(unit.cure.contains("set-property b.service AllowedCPUs=0-3"), "{unit:?}");
        assert!(of("/sys/cpuset", true).cure.contains("--cpuset-cpus=0-3"));
        let plain = of("/sys/cpuset/mine", false);
        assert_eq!(plain.name, "the cpuset /sys/cpuset/mine");
        assert!(plain.cure.contains("echo 0-3 > /sys/cpuset/mine/cpuset.cpus"), "{plain:?}");
    }

    #[test]
    fn what_was_given_stays_when_threads_are_moved() {
        let given_before = given().unwrap();
        let core = super::super::allowed().unwrap().as_slice()[0];
        std::thread::spawn(move || {
            super::super::pin_current_thread(core).unwrap();
            assert_eq!(given().unwrap(), given_before);
        })
        .join()
        .unwrap();
    }
}
