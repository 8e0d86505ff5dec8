//! `reserve_cores`: other programs leave the cores of NFs and get them back, also from a manager that is
//! killed.
//!
//! The manager is in a control group and a namespace of control groups of its own, for which that group is
//! the top: the rest of the machine keeps its cores. It takes root, two cores, and cpusets of version 1.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{HEADGATE, Running, configuration, eventually, is_root, name_of, run, sockets, written};
use headgate_host::cgroup::reserve::Cpusets;
use headgate_host::undo::Action;
use headgate_host::{Pid, cores};
use rustix::process::{Signal, kill_process};
use serde_json::Value as Json;

/// Stand-in for the machine: a group with one program in it.
struct Machine {
    group: PathBuf,
    program: Child,
}

impl Machine {
    fn new(name: &str) -> Option<Self> {
        let top = Cpusets::find().ok()?.top().to_owned();
        let group = top.join(name);
        fs::create_dir(&group).ok()?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            fs::write(group.join(file), fs::read(top.join(file)).unwrap()).unwrap();
        }
        let program = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(group.join("cgroup.procs"), program.id().to_string()).unwrap();
        Some(Self { group, program })
    }

    fn cores(&self) -> String {
        cores::affinity(Some(Pid::from_child(&self.program))).unwrap().to_string()
    }

    /// A command on it, in whose eyes its group is the top.
    fn command(&self, words: &[&str]) -> Command {
        let enter = "echo $$ > \"$0/cgroup.procs\" && exec unshare --mount --cgroup sh -c \"$@\"";
        let mount = "umount \"$0\" && mount -t cgroup -o cpuset none \"$0\" && exec \"$@\"";
        let top = self.group.parent().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", enter]).arg(&self.group).arg(mount).arg(top).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
        Action::RemoveGroup { path: self.group.clone() }.perform_patiently().unwrap();
    }
}

#[test]
fn other_programs_leave_the_cores_and_get_them_back() {
    let allowed = cores::allowed().unwrap();
    let name = name_of("reserve");
    let machine = if is_root() && allowed.len() > 1 { Machine::new(&name) } else { None };
    let Some(machine) = machine else {
        return eprintln!("skipped: this takes root, two cores, and cpusets of version 1");
    };
    let folder = tempfile::tempdir().unwrap();
    let folder: &Path = folder.path();
    let reserved = *allowed.as_slice().last().unwrap();
    let text = configuration(&name).replace("[[nf]]", &format!("[[nf]]\ncore = {reserved}"));
    let file = written(folder, &format!("{text}\n[scheduler]\nreserve_cores = true\n"));
    for signal in [Signal::TERM, Signal::KILL] {
        let before = machine.cores();
        let _running = Running::start(machine.command(&[HEADGATE, "up", &file]));
        let status = || serde_json::from_str(&run(folder, &["--json", "status", "--name", &name]).1);
        let mut pid = 0;
        eventually("the core is kept free", || {
            let status: Json = status().unwrap_or_default();
            pid = status["manager"]["pid"].as_i64().unwrap_or(0) as i32;
            // The program, and the command that attends the daemon.
            status["scheduler"]["reserved"]["moved"].as_u64() == Some(2)
        });
        assert!(!machine.cores().split(['-', ',']).any(|core| core == reserved.to_string()));
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        eventually("the program has its cores again", || machine.cores() == before);
        let left = || fs::read_dir(&machine.group).unwrap().flatten().any(|entry| entry.path().is_dir());
        eventually("no group is left", || !left());
        let lock = sockets(folder).join(format!("{name}.lock"));
        eventually("its place is free", || !lock.exists());
    }

    // Killed together with its janitor, it leaves nobody to undo it: the next manager does.
    let before = machine.cores();
    let running = Running::start(machine.command(&[HEADGATE, "up", &file]));
    eventually("the core is kept free", || machine.cores() != before);
    let members = fs::read_to_string(machine.group.join("cgroup.procs")).unwrap();
    let members: Vec<Pid> = members.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    for signal in [Signal::STOP, Signal::KILL] {
        members.iter().for_each(|pid| kill_process(*pid, signal).unwrap());
    }
    drop(running);
    assert_ne!(machine.cores(), before);
    let plain = written(folder, &text);
    let _running = Running::start(machine.command(&[HEADGATE, "up", &plain]));
    eventually("the next manager gives the cores back", || machine.cores() == before);
    assert_eq!(run(folder, &["down", "--name", &name]).0, 0);
    let left = || fs::read_dir(&machine.group).unwrap().flatten().any(|entry| entry.path().is_dir());
    eventually("no group is left", || !left());
}
