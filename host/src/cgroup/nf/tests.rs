//! Against this machine's own groups, with shells in the part of hostile NFs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::cgroup::{GroupTree, Hierarchy};
use crate::cores::{self, CoreList};
use crate::credentials::is_root;
use crate::testing::skip;
use crate::undo::Action;

/// Long enough for anything the kernel does in the background; not a measurement.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tree of one test, which leaves nothing behind.
struct Grove {
    tree: GroupTree,
    roots: Vec<PathBuf>,
}

impl Grove {
    /// `None` where not every controller that limits processes is to be had.
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip("control groups take root");
            return None;
        }
        let mut roots = Vec::new();
        let name = format!("headgate-{test}-{}", std::process::id());
        let tree = GroupTree::make(&name, &Hierarchy::all(), &mut |action| match action {
            Action::RemoveGroupTree { path } => roots.push(path),
            other => panic!("not how a tree is undone: {other:?}"),
        });
        let wanted = [Controller::Cpu, Controller::Cpuset, Controller::Pids, Controller::Memory];
        let grove = Self { tree, roots };
        if let Some(lacking) = wanted.into_iter().find(|one| !grove.tree.has(*one)) {
            skip(&format!("no {} controller: {:?}", lacking.name(), grove.tree.missing()));
            return None;
        }
        Some(grove)
    }

    /// Groups outside the tree in the hierarchy of a directory.
    fn outside(&self, of: &GroupDirectory) -> Vec<PathBuf> {
        let domain = self.tree.domain(0, "domain0").unwrap();
        domain.directories.iter().find(|one| one.mount == of.mount).unwrap().outside.clone()
    }

    fn group(&self, plan: &NfGroupPlan) -> NfGroup {
        NfGroup::make(&self.tree.domain(plan.core.unwrap_or(0), "domain0").unwrap(), plan).unwrap()
    }
}

impl Drop for Grove {
    fn drop(&mut self) {
        let start = Instant::now();
        while self.tree.remove().is_err() && start.elapsed() < PATIENCE {
            thread::sleep(DYING_PAUSE);
        }
        let left: Vec<_> = self.roots.iter().filter(|root| root.exists()).collect();
        assert!(left.is_empty() || thread::panicking(), "left behind: {left:?}");
    }
}

fn plan(name: &str) -> NfGroupPlan {
    NfGroupPlan { name: name.to_owned(), ..NfGroupPlan::default() }
}

/// A shell that runs a script once it is told to, in this group by then.
fn shell_in(group: &NfGroup, script: &str) -> Child {
    let mut child = Command::new("/bin/sh")
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    group.enter(Pid::from_child(&child)).unwrap();
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    child
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(DYING_PAUSE);
    }
}

fn read(group: &NfGroup, file: &str) -> Option<String> {
    let found = group.all().map(|directory| directory.path.join(file)).find(|path| path.exists())?;
    Some(fs::read_to_string(found).unwrap().trim().to_owned())
}

fn last_core() -> u32 {
    *cores::online().unwrap().as_slice().last().unwrap()
}

#[test]
fn what_a_plan_says_is_in_force() {
    let Some(grove) = Grove::new("plan") else { return };
    let limits = Limits { processes: Some(7), memory_bytes: Some(64 << 20), share: Some(2500) };
    let group = grove.group(&NfGroupPlan { core: Some(last_core()), limits, ..plan("1.fw") });
    assert_eq!(read(&group, "pids.max").unwrap(), "7");
    let memory = read(&group, "memory.limit_in_bytes").or_else(|| read(&group, "memory.max"));
    assert_eq!(memory.unwrap(), (64 << 20).to_string());
    assert_eq!(read(&group, "cpuset.cpus").unwrap(), last_core().to_string());
    let weight = || read(&group, "cpu.shares").or_else(|| read(&group, "cpu.weight")).unwrap();
    assert_eq!(weight(), "2500");
    group.weigh(77).unwrap();
    assert_eq!(weight(), "77");
    group.remove().unwrap();
}

/// All NFs together weigh what is written, up to the kernel's most.
#[test]
fn the_tree_is_weighed_beside_other_programs() {
    let Some(grove) = Grove::new("beside") else { return };
    let group = grove.group(&plan("nf"));
    let own = group.directories.iter().find(|directory| directory.has(Controller::Cpu)).unwrap();
    let root = own.path.parent().and_then(Path::parent).unwrap();
    let weight = || crate::files::read(root.join(own.version.weight_file())).unwrap().trim().to_owned();
    let [three, many, most] = match own.version {
        Version::V1 => ["3072", "61440", "262144"],
        Version::V2 => ["300", "6000", "10000"],
    };
    for (members, each, written) in [(3, 1, three), (3, 20, many), (30, 100, most)] {
        grove.tree.set_members(members, each).unwrap();
        assert_eq!(weight(), written);
    }
    group.remove().unwrap();
}

/// Two domains have even parts of a core whatever the NFs in them weigh.
#[test]
fn domains_are_weighed_above_their_nfs() {
    let Some(grove) = Grove::new("domains") else { return };
    grove.tree.set_members(3, 1).unwrap();
    let domains = ["one", "two"].map(|name| grove.tree.domain(0, name).unwrap());
    let groups: Vec<_> = domains
        .iter()
        .map(|domain| {
            domain.weigh(5000).unwrap();
            let group = NfGroup::make(domain, &plan("nf")).unwrap();
            group.weigh(9000).unwrap();
            group
        })
        .collect();
    for (group, domain) in groups.iter().zip(&domains) {
        let own = group.directories.iter().find(|directory| directory.has(Controller::Cpu)).unwrap();
        let above = own.path.parent().unwrap();
        let weight = |path: &Path| fs::read_to_string(path.join(own.version.weight_file())).unwrap();
        assert_eq!((weight(&own.path).trim(), weight(above).trim()), ("9000", "5000"));
        assert!(domain.remove().is_err(), "there is a group in it");
        group.remove().unwrap();
        domain.remove().unwrap();
    }
}

#[test]
fn an_nf_stays_on_its_core_whatever_it_asks_for() {
    let Some(grove) = Grove::new("core") else { return };
    let core = last_core();
    if core == 0 {
        return skip("one core alone: there is no other to escape to");
    }
    let group = grove.group(&NfGroupPlan { core: Some(core), ..plan("nf") });
    let script = "taskset -p -c 0 $$ >/dev/null && echo escaped || echo held; \
                  (taskset -p -c 0-1 $$ >/dev/null; sleep 1000) & sleep 1000";
    let mut child = shell_in(&group, script);
    assert_eq!(line_of(&mut child), "held");
    wait_until("its children are in the group", || group.members().len() >= 3);
    // A `taskset` among them may end before it is looked at.
    let held: Vec<CoreList> =
        group.members().into_iter().filter_map(|member| cores::affinity(Some(member)).ok()).collect();
    assert!(held.len() >= 2 && held.iter().all(|cores| *cores == [core].into_iter().collect()), "{held:?}");
    assert_eq!((group.off_core(core), group.off_core(0).is_empty()), (Vec::new(), false));
    group.kill_until_empty(PATIENCE).unwrap();
    child.wait().unwrap();
    group.remove().unwrap();
}

#[test]
fn who_leaves_its_session_and_its_parent_ends_with_the_group() {
    let Some(grove) = Grove::new("session") else { return };
    let group = grove.group(&plan("nf"));
    let script = "setsid setsid sh -c 'sleep 1000 & sleep 1000' & echo gone; exit";
    let mut child = shell_in(&group, script);
    assert_eq!(line_of(&mut child), "gone");
    child.wait().unwrap();
    wait_until("it left three behind", || group.members().len() == 3);
    assert_eq!(group.remove().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    group.kill_until_empty(PATIENCE).unwrap();
    group.remove().unwrap();
}

#[test]
fn a_fork_bomb_meets_its_limit_and_its_end() {
    let Some(grove) = Grove::new("bomb") else { return };
    let limits = Limits { processes: Some(40), ..Limits::default() };
    let group = grove.group(&NfGroupPlan { limits, ..plan("nf") });
    let mut child = shell_in(&group, "bomb() { bomb | bomb & }; while :; do bomb; done");
    let refused = || {
        let events = read(&group, "pids.events").unwrap();
        events.lines().any(|line| line.strip_prefix("max ").is_some_and(|count| count != "0"))
    };
    wait_until("it met its limit", refused);
    assert!(group.members().len() <= 40);
    group.kill_until_empty(PATIENCE).unwrap();
    child.wait().unwrap();
    assert_eq!(group.members(), []);
    group.remove().unwrap();
}

#[test]
fn a_memory_hog_is_ended_and_nobody_else() {
    let Some(grove) = Grove::new("memory") else { return };
    let limits = Limits { memory_bytes: Some(32 << 20), ..Limits::default() };
    let hog = grove.group(&NfGroupPlan { limits, ..plan("hog") });
    let neighbour = grove.group(&NfGroupPlan { limits, ..plan("neighbour") });
    let mut kept = shell_in(&neighbour, "exec sleep 1000");
    // `tail` keeps all of a file without an end of line.
    let mut child = shell_in(&hog, "exec tail /dev/zero");
    let end = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&end), Some(libc::SIGKILL));
    assert_eq!(kept.try_wait().unwrap(), None);
    neighbour.kill_until_empty(PATIENCE).unwrap();
    kept.wait().unwrap();
    hog.remove().unwrap();
    neighbour.remove().unwrap();
}

/// A group of somebody else in each hierarchy, and a process that somebody started in it.
struct Home {
    groups: Vec<PathBuf>,
    guest: Child,
}

impl Home {
    fn new(name: &str) -> Self {
        let groups: Vec<PathBuf> = Hierarchy::all().iter().map(|one| one.mount.join(name)).collect();
        let guest = Command::new("sleep").arg("1000").spawn().unwrap();
        for group in &groups {
            fs::create_dir(group).unwrap();
            // An empty cpuset of version 1 takes nobody.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let above = group.parent().unwrap().join(file);
                if let (Ok(all), true) = (fs::read_to_string(above), group.join(file).exists()) {
                    fs::write(group.join(file), all).unwrap();
                }
            }
            fs::write(group.join(PROCESSES), guest.id().to_string()).unwrap();
        }
        Self { groups, guest }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.guest)
    }

    fn is_in(&self, groups: &[PathBuf]) -> bool {
        groups.iter().all(|group| kill::members(group).contains(&self.pid()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.guest.kill().unwrap();
        self.guest.wait().unwrap();
        // It may have been removed by the test.
        self.groups.iter().for_each(|group| drop(fs::remove_dir(group)));
    }
}

#[test]
fn a_guest_that_is_let_go_returns_to_where_it_was() {
    let Some(grove) = Grove::new("guest") else { return };
    let home = Home::new(&format!("headgate-home-{}", std::process::id()));
    let of = |name: &str| NfGroupPlan { guest: Some(home.pid()), ..plan(name) };
    let group = grove.group(&of("1.guest"));
    group.enter(home.pid()).unwrap();
    // One that is made for somebody in it already returns nobody into the tree.
    let again = grove.group(&of("2.guest"));
    assert!(again.directories.iter().all(|one| one.outside == grove.outside(one)), "{again:?}");
    again.remove().unwrap();
    for undo in group.letting_go() {
        undo.perform_patiently().unwrap();
    }
    assert!(home.is_in(&home.groups), "{:?}", Hierarchy::of(home.pid()));
}

#[test]
fn a_guest_whose_group_is_gone_is_put_outside() {
    let Some(grove) = Grove::new("homeless") else { return };
    let home = Home::new(&format!("headgate-gone-{}", std::process::id()));
    let group = grove.group(&NfGroupPlan { guest: Some(home.pid()), ..plan("1.guest") });
    group.enter(home.pid()).unwrap();
    home.groups.iter().for_each(|group| fs::remove_dir(group).unwrap());
    for undo in group.letting_go() {
        undo.perform_patiently().unwrap();
    }
    let outside: Vec<PathBuf> = group.directories.iter().map(|one| one.outside[1].clone()).collect();
    assert!(home.is_in(&outside), "{outside:?}: {:?}", Hierarchy::of(home.pid()));
}

#[test]
fn who_is_let_go_lives_on_outside() {
    let Some(grove) = Grove::new("let-go") else { return };
    let group = grove.group(&plan("1.guest"));
    let mut child = shell_in(&group, "sleep 1000 & echo $!; exec sleep 1000");
    let other = Pid::from_raw(line_of(&mut child).parse().unwrap()).unwrap();
    for undo in group.letting_go() {
        undo.perform_patiently().unwrap();
    }
    assert_eq!(group.members(), []);
    assert!(group.directories.iter().all(|directory| !directory.path.exists()));
    grove.tree.remove().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    rustix::process::test_kill_process(other).unwrap();
    for pid in [other, Pid::from_child(&child)] {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    child.wait().unwrap();
}

/// Starts many processes and goes on starting others, without ever coming to the limit, where a shell gives
/// up.
const RESTLESS: &str =
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; while :; do : | : | :; done";

/// Tests the ways in which version 1 does what version 2 does at once; each ends a restless group by itself.
#[test]
fn each_way_to_end_a_group_ends_all_of_it() {
    let Some(grove) = Grove::new("ways") else { return };
    let limits = Limits { processes: Some(40), ..Limits::default() };
    let files = ["cgroup.kill", "pids.max", "freezer.state"];
    for file in files {
        let group = grove.group(&NfGroupPlan { limits, ..plan(&format!("1.{file}")) });
        let Some(only) = group.directories.iter().find(|directory| directory.path.join(file).exists()) else {
            skip(&format!("no {file} here"));
            group.remove().unwrap();
            continue;
        };
        let mut child = shell_in(&group, RESTLESS);
        wait_until("it has grown", || group.members().len() > 10);
        let start = Instant::now();
        while kill::end_for_good(&[&only.path]).unwrap() > 0 {
            assert!(start.elapsed() < PATIENCE, "{file} does not end it");
            thread::sleep(DYING_PAUSE);
        }
        child.wait().unwrap();
        assert_eq!(group.members(), [], "{file}");
        group.remove().unwrap();
    }
}

#[test]
fn real_time_tasks_share_a_group_with_time_and_have_one_each_beside_it() {
    let Some(grove) = Grove::new("rt") else { return };
    let [first, second] =
        ["first", "second"].map(|name| grove.group(&NfGroupPlan { real_time: true, ..plan(name) }));
    let mut children = [&first, &second].map(|group| shell_in(group, "exec sleep 1000"));
    for child in &children {
        let policy = crate::sched::Policy::RoundRobin { priority: 1 };
        crate::sched::set(Some(Pid::from_child(child)), policy).unwrap();
    }
    assert_eq!(first.members(), [Pid::from_child(&children[0])]);
    first.kill_until_empty(PATIENCE).unwrap();
    children[0].wait().unwrap();
    assert_eq!(children[1].try_wait().unwrap(), None);
    second.kill_until_empty(PATIENCE).unwrap();
    children[1].wait().unwrap();
    first.remove().unwrap();
    second.remove().unwrap();
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let Some(grove) = Grove::new("name") else { return };
    let domain = grove.tree.domain(0, "domain0").unwrap();
    for name in ["", "..", "a/b", "/etc"] {
        assert!(matches!(NfGroup::make(&domain, &plan(name)), Err(GroupError::BadName { .. })), "{name}");
    }
    let file = NfGroup::make(&domain, &plan("cgroup.procs"));
    assert!(matches!(file, Err(GroupError::Make { .. })), "a file of the kernel's is no group: {file:?}");
}
