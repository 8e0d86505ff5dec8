//! One suite for both versions: version 1 against this kernel, version 2 against files that stand for one.

use std::process::{Child, Command};

use super::*;
use crate::credentials::is_root;
use crate::testing::skip;
use crate::undo::Action;

/// Where groups are made.
trait Place {
    fn groups(&self) -> Groups;
    /// What the kernel does when a directory is made: it fills it with files.
    fn fill(&self, directory: &Path);
    /// What the kernel does when a directory is removed: its files are no obstacle.
    fn clear(&self, directory: &Path);
}

struct ThisKernel {
    controller: CpuController,
    name: String,
}

struct Files {
    home: tempfile::TempDir,
}

impl Place for ThisKernel {
    fn groups(&self) -> Groups {
        Groups::find(&self.controller, &self.name).unwrap()
    }

    fn fill(&self, _: &Path) {}

    fn clear(&self, _: &Path) {}
}

impl Place for Files {
    fn groups(&self) -> Groups {
        let mount = self.home.path();
        let own = mount.join("system.slice/headgate.service");
        fs::create_dir_all(&own).unwrap();
        // The manager's own group has members, so its children may have no weights: it has no such file here.
        fs::write(mount.join("system.slice/cgroup.subtree_control"), "").unwrap();
        let home = Groups::home_of_v2(mount, &own).unwrap();
        assert_eq!(home, mount.join("system.slice"));
        Groups::below(Version::V2, &home, "headgate-test")
    }

    fn fill(&self, directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        for (file, text) in [("cpu.weight", "100\n"), ("cgroup.procs", ""), ("cgroup.subtree_control", "")] {
            fs::write(directory.join(file), text).unwrap();
        }
    }

    fn clear(&self, directory: &Path) {
        for file in fs::read_dir(directory).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

/// The first line: a file that is no kernel's keeps what is not overwritten.
fn held(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).unwrap().lines().next().unwrap_or_default().to_owned()
}

fn remove(place: &dyn Place, directory: &Path) {
    place.clear(directory);
    Action::RemoveDirectory { path: directory.into() }.perform().unwrap();
    assert!(!directory.exists());
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn conforms(place: &dyn Place) {
    let groups = place.groups();
    let own = groups.directory_of("fw.1");
    place.fill(groups.directory());
    place.fill(&own);
    groups.make().unwrap();
    groups.make().unwrap();
    let group = groups.group("fw.1").unwrap();
    assert_eq!(group.directory(), own);
    let file = groups.version.weight_file();

    for share in [10_000, 2500, 50] {
        groups.weigh(&group, share).unwrap();
        assert_eq!(held(&own, file), share.to_string());
    }
    groups.weigh(&group, 0).unwrap();
    assert_eq!(held(&own, file), groups.version.weight(0).to_string());
    let one = groups.version.weight_of_members(1);
    groups.set_members(3).unwrap();
    assert_eq!(held(groups.directory(), file), (3 * one).to_string());

    let child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    group.add(Pid::from_raw(child.id() as i32).unwrap()).unwrap();
    assert_eq!(held(&own, "cgroup.procs"), child.id().to_string());
    end(child);

    remove(place, &own);
    place.fill(&own);
    let again = groups.group("fw.1").unwrap();
    groups.weigh(&again, 77).unwrap();
    assert_eq!(held(&own, file), "77");
    remove(place, &own);
    remove(place, groups.directory());
}

#[test]
fn version_2_conforms() {
    conforms(&Files { home: tempfile::tempdir().unwrap() });
}

fn this_kernel(test: &str) -> Option<ThisKernel> {
    let controller = CpuController::find();
    if !matches!(controller, CpuController::V1(_)) || !is_root() {
        skip("no version 1 of the cpu controller here, or not root");
        return None;
    }
    Some(ThisKernel { controller, name: format!("headgate-{test}-{}", std::process::id()) })
}

#[test]
fn version_1_conforms() {
    if let Some(kernel) = this_kernel("conforms") {
        conforms(&kernel);
    }
}

/// A group that somebody removes is noticed at the next write, and can be made again.
#[test]
fn a_group_that_disappears_is_an_error() {
    let Some(kernel) = this_kernel("vanishes") else { return };
    let groups = kernel.groups();
    groups.make().unwrap();
    let group = groups.group("fw").unwrap();
    fs::remove_dir(group.directory()).unwrap();
    let error = groups.weigh(&group, 100).unwrap_err();
    assert!(error.to_string().contains("fw/cpu.shares"), "{error}");
    let group = groups.group("fw").unwrap();
    groups.weigh(&group, 100).unwrap();
    fs::remove_dir(group.directory()).unwrap();
    fs::remove_dir(groups.directory()).unwrap();
}

#[test]
fn real_time_tasks_get_time_in_a_group() {
    let Some(kernel) = this_kernel("real-time") else { return };
    let groups = kernel.groups();
    if !groups.directory().parent().unwrap().join("cpu.rt_runtime_us").exists() {
        return skip("this kernel has no bound of real time for groups");
    }
    groups.make().unwrap();
    let group = groups.real_time_group("real-time").unwrap();
    let child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let task = Pid::from_raw(child.id() as i32).unwrap();
    group.add(task).unwrap();
    let set = crate::sched::set(Some(task), crate::sched::Policy::RoundRobin { priority: 1 });
    end(child);
    fs::remove_dir(group.directory()).unwrap();
    fs::remove_dir(groups.directory()).unwrap();
    set.unwrap();
}

#[test]
fn without_a_controller_the_cure_is_said() {
    let error = Groups::find(&CpuController::None, "x").unwrap_err();
    assert!(error.to_string().contains("mount the cpu controller"), "{error}");
}
