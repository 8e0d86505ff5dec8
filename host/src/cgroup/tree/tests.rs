use super::super::all_that_is;
use super::*;
use crate::credentials::is_root;
use crate::testing::skip;

/// A group of version 2 as a directory: what the kernel fills it with.
fn fill(group: &Path, controllers: &str) {
    fs::create_dir_all(group).unwrap();
    for (file, text) in [
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", ""),
        ("cgroup.procs", ""),
        ("cpu.weight", "100\n"),
    ] {
        fs::write(group.join(file), text).unwrap();
    }
}

fn v2(mount: &Path, own: &str) -> Hierarchy {
    let controllers = vec![Controller::Cpu, Controller::Pids];
    Hierarchy { version: Version::V2, mount: mount.to_owned(), own: mount.join(own), controllers }
}

#[test]
fn a_tree_of_version_2_is_made_where_children_may_have_controllers() {
    let mount = tempfile::tempdir().unwrap();
    fill(&mount.path().join("system.slice"), "cpu pids");
    let own = mount.path().join("system.slice/headgate.service");
    // A group that has processes admits no child; here it has no such file.
    fs::create_dir(&own).unwrap();
    let root = mount.path().join("system.slice/headgate-test");
    fill(&root, "cpu pids");
    fill(&root.join("core1.inner"), "cpu pids");
    let mut undone = Vec::new();
    let hierarchies = [v2(mount.path(), "system.slice/headgate.service")];
    let tree = GroupTree::make("headgate-test", &hierarchies, &mut |action| undone.push(action));
    assert_eq!(undone, [Action::RemoveGroupTree { path: root.clone() }]);
    let missing: Vec<_> = tree.missing().iter().map(|one| one.controller).collect();
    assert_eq!(missing, [Controller::Cpuset, Controller::Memory]);
    let domain = tree.domain(1, "inner").unwrap();
    domain.weigh(5000).unwrap();
    let weight = fs::read_to_string(root.join("core1.inner/cpu.weight")).unwrap();
    assert!(weight.starts_with("5000\n"), "{weight}");
    for group in [&root, &root.join("core1.inner")] {
        // A file keeps the last of what the kernel would add up.
        assert_eq!(fs::read_to_string(group.join("cgroup.subtree_control")).unwrap(), "+pids");
    }
}

#[test]
fn a_group_above_that_has_more_controllers_is_a_better_home() {
    let mount = tempfile::tempdir().unwrap();
    let own = mount.path().join("a/b");
    for group in ["", "a", "a/b"] {
        fs::create_dir_all(mount.path().join(group)).unwrap();
    }
    fs::write(mount.path().join("a/cgroup.subtree_control"), "").unwrap();
    let (home, had, missing) = home_of_v2(&v2(mount.path(), "a/b"));
    assert_eq!((home, had), (mount.path().join("a"), vec![Controller::Cpu, Controller::Pids]));
    assert_eq!(missing, []);
    fs::remove_file(mount.path().join("a/cgroup.subtree_control")).unwrap();
    let (home, had, missing) = home_of_v2(&v2(mount.path(), "a/b"));
    assert_eq!((home, had), (own, Vec::new()));
    assert!(
        missing[0].to_string().starts_with("CPU time is not weighed: cannot write \"+cpu\" to"),
        "{missing:?}"
    );
}

/// Five groups that may not be made are one reason, not five.
#[test]
fn a_reason_is_told_once() {
    let missing = |controller: Controller, why: &str| Missing { controller, why: why.to_owned() };
    let refused = |controller: Controller| {
        missing(controller, &format!("cannot make /sys/fs/cgroup/{}/x: Permission denied", controller.name()))
    };
    let all =
        [refused(Controller::Cpu), missing(Controller::Pids, "not mounted"), refused(Controller::Memory)];
    assert_eq!(
        all_that_is(&all).unwrap(),
        "CPU time is not weighed, an NF's memory has no limit: cannot make /sys/fs/cgroup/cpu/x: Permission \
         denied; the number of an NF's processes has no limit: not mounted"
    );
    assert_eq!(all_that_is(&[]), None);
}

#[test]
fn what_a_hierarchy_refuses_is_told_and_stops_nothing() {
    let nowhere = Hierarchy {
        version: Version::V1,
        mount: "/nowhere".into(),
        own: "/nowhere/group".into(),
        controllers: vec![Controller::Pids],
    };
    let tree = GroupTree::make("headgate-test", &[nowhere], &mut |_| {});
    let told = tree.missing().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        told[0].starts_with("the number of an NF's processes has no limit: cannot make the control group")
    );
    assert!(told.contains(
        &"an NF can leave its core: the cpuset controller of control groups is not mounted here".to_owned()
    ));
    assert_eq!(told.len(), Controller::ALL.len());
    assert!(!tree.has(Controller::Pids));
}

/// Against this kernel's hierarchy of version 2: a delegated group is one whose owner moves into a leaf.
#[test]
fn whoever_was_delegated_its_group_moves_into_a_leaf() {
    let Some(hierarchy) = Hierarchy::all().into_iter().find(|one| one.version == Version::V2) else {
        return skip("no hierarchy of version 2 here");
    };
    if !is_root() {
        return skip("control groups take root");
    }
    let own = hierarchy.own.join(format!("headgate-delegated-{}", std::process::id()));
    fs::create_dir(&own).unwrap();
    assert!(!is_delegated(&own));
    let marked = rustix::fs::setxattr(&own, DELEGATED[0], b"1", rustix::fs::XattrFlags::empty());
    let mut member = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    files::write(own.join("cgroup.procs"), &member.id().to_string()).unwrap();
    let delegated = Hierarchy { own: own.clone(), ..hierarchy };
    let (home, ..) = home_of_v2(&delegated);
    let moved = fs::read_to_string(own.join(MANAGER).join("cgroup.procs"));
    // Who outlives us does not stay where it keeps the service manager from starting the next one.
    kill::move_members(&own.join(MANAGER), &outside_of(&delegated));
    let in_leaf = kill::members(&own.join(MANAGER));
    member.kill().unwrap();
    member.wait().unwrap();
    kill::remove_tree(&own).unwrap();
    assert!(marked.is_ok(), "this kernel marks no group");
    assert_eq!((home, moved.unwrap().trim()), (own, member.id().to_string().as_str()));
    assert_eq!(in_leaf, []);
}

#[test]
fn what_a_manager_of_this_name_left_goes_unless_somebody_lives_there() {
    let home = tempfile::tempdir().unwrap();
    let nobody = crate::testing::pid_of_nobody().as_raw_pid();
    let left = home.path().join(format!("headgate-edge-{nobody}"));
    let (ours, other) = (std::process::id(), home.path().join(format!("headgate-core-{nobody}")));
    let of_a_living_one = home.path().join(format!("headgate-edge-{ours}"));
    for path in [&left.join("core1.default/1.fw"), &other, &of_a_living_one] {
        fs::create_dir_all(path).unwrap();
    }
    // A file stands for what keeps the kernel from removing a group: a process in it.
    let busy = left.join("core1.default/cgroup.procs");
    fs::write(&busy, "1").unwrap();
    remove_abandoned(home.path(), "headgate-edge-9");
    assert!(left.join("core1.default").exists() && !left.join("core1.default/1.fw").exists());
    fs::remove_file(busy).unwrap();
    let of_our_number = home.path().join("headgate-edge-9/core1.default");
    fs::create_dir_all(&of_our_number).unwrap();
    remove_abandoned(home.path(), "headgate-edge-9");
    assert!(!of_our_number.exists(), "one before us in another PID namespace");
    assert!(!left.exists() && other.exists() && of_a_living_one.exists());
}
