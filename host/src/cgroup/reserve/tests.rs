//! Tests in a group of their own, as if it were the top: the rest of the machine keeps its cores.

use std::process::{Child, Command};

use super::*;
use crate::cores;
use crate::credentials::is_root;
use crate::testing::skip;

struct Bed {
    cpusets: Cpusets,
    all: CoreList,
    children: Vec<Child>,
}

impl Bed {
    /// `top` with a program and us (a child that stands for us) in it, and a group `other` with a program.
    fn new(name: &str) -> Option<Self> {
        let found = Cpusets::find().ok().filter(|_| is_root());
        let all = cores::allowed().unwrap();
        let Some(found) = found.filter(|_| all.len() > 1) else {
            skip("cpusets take root, their controller of version 1 and two cores");
            return None;
        };
        let top = found.own.join(format!("test-{name}-{}", std::process::id()));
        let nodes = fs::read_to_string(found.own.join(NODES)).unwrap();
        for group in [&top, &top.join("other")] {
            fs::create_dir(group).unwrap();
            fs::write(group.join(CORES), all.to_string()).unwrap();
            fs::write(group.join(NODES), &nodes).unwrap();
        }
        let mut bed =
            Self { cpusets: Cpusets { own: top.clone(), top: top.clone() }, all, children: Vec::new() };
        for group in [&top, &top, &top.join("other")] {
            let child = Command::new("sleep").arg("1000").spawn().unwrap();
            fs::write(group.join(PROCESSES), child.id().to_string()).unwrap();
            bed.children.push(child);
        }
        Some(bed)
    }

    fn pid(&self, which: usize) -> Pid {
        Pid::from_child(&self.children[which])
    }

    fn cores_of(&self, which: usize) -> String {
        cores::affinity(Some(self.pid(which))).unwrap().to_string()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for child in &mut self.children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for group in [self.cpusets.top.join("other"), self.cpusets.top.clone()] {
            Action::RemoveGroup { path: group }.perform_patiently().unwrap();
        }
    }
}

#[test]
fn others_leave_the_cores_and_get_them_back() {
    let Some(bed) = Bed::new("others") else { return };
    let (all, ours) = (bed.all.to_string(), bed.pid(0));
    let last: CoreList = [*bed.all.as_slice().last().unwrap()].into_iter().collect();
    let rest = without(&bed.all, &last).to_string();
    let mut reserve = Reserve::new(bed.cpusets.clone()).unwrap();
    let mut undo = Vec::new();
    let swept = reserve.sweep(&last, |pid| pid == ours, &mut |action| undo.push(action)).unwrap();
    assert_eq!((swept.moved, swept.stuck, swept.refused.len()), (1, 0, 0));
    assert_eq!([0, 1, 2].map(|which| bed.cores_of(which)), [&all, &rest, &rest].map(String::clone));
    // Once more: nothing to do. Then a process of ours that was started elsewhere.
    let again = reserve.sweep(&last, |pid| pid == ours, &mut |_| {}).unwrap();
    assert_eq!(again.moved, 0);
    reserve.admit(bed.pid(2)).unwrap();
    assert_eq!(bed.cores_of(2), all);
    fs::write(bed.cpusets.top.join("other").join(PROCESSES), bed.pid(2).as_raw_pid().to_string()).unwrap();

    let second = Reserve::new(bed.cpusets.clone());
    assert!(matches!(second, Err(ReserveError::Taken { .. })), "{second:?}");
    for action in undo.iter().rev() {
        action.perform_patiently().unwrap();
    }
    assert_eq!([0, 1, 2].map(|which| bed.cores_of(which)), [&all, &all, &all].map(String::clone));
    assert!(!bed.cpusets.top.join(&reserve.name).exists());
}

#[test]
fn one_core_is_left_to_the_rest() {
    let Some(bed) = Bed::new("one") else { return };
    let mut reserve = Reserve::new(bed.cpusets.clone()).unwrap();
    let refused = reserve.sweep(&bed.all, |_| false, &mut |_| {});
    assert!(matches!(refused, Err(ReserveError::NothingLeft(_))), "{refused:?}");
}

#[test]
fn what_a_manager_left_that_is_no_more_is_dissolved() {
    let Some(bed) = Bed::new("left") else { return };
    let nobody = crate::testing::pid_of_nobody().as_raw_pid();
    let left = bed.cpusets.top.join(format!("{PREFIX}{nobody}{SUFFIX}"));
    for end in [
        |cpusets: &Cpusets| cpusets.dissolve_abandoned().unwrap(),
        |cpusets: &Cpusets| Reserve::new(cpusets.clone()).map(|_| 1).unwrap(),
    ] {
        fs::create_dir(&left).unwrap();
        for file in [CORES, NODES] {
            fs::write(left.join(file), fs::read(bed.cpusets.top.join(file)).unwrap()).unwrap();
        }
        fs::write(left.join(PROCESSES), bed.pid(1).as_raw_pid().to_string()).unwrap();
        assert_eq!(bed.cpusets.abandoned(), std::slice::from_ref(&left));
        assert_eq!(end(&bed.cpusets), 1);
        assert!(!left.exists());
    }
    assert_eq!(bed.cpusets.dissolve_abandoned().unwrap(), 0);
}
