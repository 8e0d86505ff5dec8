//! Tests that a process leaves nothing behind after its end.
//!
//! Each test runs this program again in the role of the process that ends. The usual test runner
//! would do so with several threads, which the janitor refuses; so this file brings its own `main`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use headgate_host::cgroup::{Controller, GroupTree, Hierarchy, Limits, NfGroup, NfGroupPlan};
use headgate_host::credentials;
use headgate_host::namespace::{Namespace, NamespaceError, Namespaces};
use headgate_host::undo::{Action, Janitor};
use headgate_host::{Pid, Signal};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{kill_process, kill_process_group};

/// Longest wait for what the kernel does in the background; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["changer", directory, then] => changer(Path::new(directory), then),
        ["tenant"] => tenant(),
        ["threaded"] => threaded(),
        ["abandoned"] => abandoned(),
        ["keeper"] => keeper(),
        _ => tests(),
    }
}

type Test = (&'static str, fn());

/// Runs the tests that the arguments name, all without any.
fn tests() {
    let tests: [Test; 10] = [
        ("killed_programs_are_tidied_up_after", || tidied_up_after("pause", kill)),
        ("interrupted_programs_are_tidied_up_after", || tidied_up_after("pause", interrupt_group)),
        ("panicking_programs_are_tidied_up_after", || tidied_up_after("panic", |_| ())),
        ("exiting_programs_are_tidied_up_after", || tidied_up_after("exit", |_| ())),
        ("orderly_programs_wait_for_it", || tidied_up_after("finish", |_| ())),
        ("a_copy_of_the_pipe_does_not_keep_the_janitor", inherited_pipe),
        ("the_janitor_refuses_to_come_late", the_janitor_refuses_to_come_late),
        ("a_killed_janitor_is_noticed", a_killed_janitor_is_noticed),
        ("hosts_vanish_with_their_maker", hosts_vanish_with_their_maker),
        ("who_is_in_a_group_ends_with_its_maker", who_is_in_a_group_ends_with_its_maker),
    ];
    let trial = |(name, test): Test| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    // One is one after the other, and in this thread.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_if_failed();
}

fn run_as(role: &[&str]) -> Command {
    // In the background of a script SIGINT is ignored, and would be here.
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
    command.args(role).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    command
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn kill(child: &Child) {
    kill_process(pid_of(child), Signal::KILL).unwrap();
}

fn interrupt_group(child: &Child) {
    kill_process_group(pid_of(child), Signal::INT).unwrap();
}

/// The next line the process says.
fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    line.trim_end().into()
}

/// Standard error to its end, which comes with the end of the janitor, who holds it too.
fn errors_of(child: &mut Child) -> String {
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    errors
}

/// Things that [`changer`] changes.
struct Changes {
    setting: PathBuf,
    group: PathBuf,
    member: PathBuf,
    kept: PathBuf,
}

impl Changes {
    fn within(directory: &Path) -> Self {
        let path = |name: &str| directory.join(name);
        Self {
            setting: path("setting"),
            group: path("group"),
            member: path("group/member"),
            kept: path("kept"),
        }
    }

    fn make(&self, janitor: &Janitor) {
        let register = |action| janitor.register(action).unwrap();
        let setting = self.setting.clone();
        register(Action::WriteFile { path: setting, value: "old".into() });
        fs::write(&self.setting, "new").unwrap();
        // The directory can only go after what is in it, so this tells whether the order holds.
        register(Action::RemoveDirectory { path: self.group.clone() });
        fs::create_dir(&self.group).unwrap();
        register(Action::RemoveFile { path: self.member.clone() });
        fs::write(&self.member, "").unwrap();
        let ticket = register(Action::RemoveFile { path: self.kept.clone() });
        fs::write(&self.kept, "").unwrap();
        janitor.withdraw(ticket).unwrap();
        // Never made: undoing it does no harm.
        register(Action::RemoveFile { path: self.group.join("never-made") });
    }

    fn assert_undone(&self) {
        assert_eq!(fs::read_to_string(&self.setting).unwrap(), "old");
        assert!(!self.group.exists());
        assert!(self.kept.exists());
    }
}

/// A program that changes things and then ends as it is told to.
fn changer(directory: &Path, then: &str) {
    let janitor = Janitor::start().unwrap();
    Changes::within(directory).make(&janitor);
    match then {
        "pause" => {
            println!("ready");
            loop {
                thread::park();
            }
        }
        "panic" => panic!("as told"),
        "exit" => std::process::exit(0),
        "finish" => {
            janitor.finish().unwrap();
            Changes::within(directory).assert_undone();
        }
        "share-pipe" => share_pipe(),
        _ => unreachable!("not a way to end"),
    }
}

fn tidied_up_after(then: &str, end: fn(&Child)) {
    let directory = tempfile::tempdir().unwrap();
    let changes = Changes::within(directory.path());
    fs::write(&changes.setting, "old").unwrap();
    let mut child = run_as(&["changer", directory.path().to_str().unwrap(), then]).spawn().unwrap();
    if then == "pause" {
        assert_eq!(line_of(&mut child), "ready");
        assert_eq!(fs::read_to_string(&changes.setting).unwrap(), "new");
        assert!(changes.member.exists());
    }
    end(&child);
    let errors = errors_of(&mut child);
    let status = child.wait().unwrap();
    assert!(!errors.contains("headgate: could not undo"), "{errors}");
    assert_eq!(status.success(), matches!(then, "exit" | "finish"), "{status} {errors}");
    changes.assert_undone();
}

/// Starts another process that carelessly inherits the pipe to the janitor, and outlives us.
fn share_pipe() {
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let number: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        if number > 2 {
            // SAFETY: changes a flag of a descriptor and touches no memory.
            unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        }
    }
    let null = || Stdio::null();
    let mut heir = Command::new("sleep").arg("1000").stdout(null()).stderr(null()).spawn().unwrap();
    println!("{}", heir.id());
    heir.wait().unwrap();
}

fn inherited_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let changes = Changes::within(directory.path());
    fs::write(&changes.setting, "old").unwrap();
    let mut child = run_as(&["changer", directory.path().to_str().unwrap(), "share-pipe"]).spawn().unwrap();
    let heir = line_of(&mut child).parse().ok().and_then(Pid::from_raw).unwrap();
    kill(&child);
    child.wait().unwrap();
    let errors = errors_of(&mut child);
    kill_process(heir, Signal::KILL).unwrap();
    assert_eq!(errors, "");
    changes.assert_undone();
}

fn threaded() {
    let _other = thread::spawn(thread::park);
    println!("{}", Janitor::start().unwrap_err());
}

fn the_janitor_refuses_to_come_late() {
    let output = run_as(&["threaded"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("the process has 2 threads"), "{said}");
}

/// A program whose janitor is killed.
fn abandoned() {
    let janitor = Janitor::start().unwrap();
    let own = std::process::id();
    let children = fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap();
    let child = children.trim().parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    let nothing = || Action::RemoveFile { path: "/nonexistent".into() };
    let error = loop {
        if let Err(error) = janitor.register(nothing()) {
            break error;
        }
    };
    println!("{error}");
    println!("{}", janitor.finish().unwrap_err());
}

fn a_killed_janitor_is_noticed() {
    let output = run_as(&["abandoned"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("the janitor process has ended"), "{said}");
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
}

/// A program that makes two hosts with cables into the namespace it is in, and starts something
/// in one of them.
fn tenant() {
    let hosts = Namespaces::new(&Namespace::current().unwrap()).unwrap();
    let mut sleeper = hosts.left.namespace.command("sleep").unwrap();
    let mut sleeper = sleeper.arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    println!("{}", sleeper.id());
    sleeper.wait().unwrap();
}

fn names(namespace: &Namespace) -> Vec<String> {
    let interfaces = namespace.links().unwrap().interfaces().unwrap();
    interfaces.into_iter().map(|interface| interface.name).collect()
}

fn hosts_vanish_with_their_maker() {
    let middle = match Namespace::new() {
        Ok(middle) => middle,
        Err(error @ NamespaceError::NotPermitted { .. }) => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let mut command = middle.command(std::env::current_exe().unwrap()).unwrap();
    let mut child = command.arg("tenant").stdout(Stdio::piped()).spawn().unwrap();
    let sleeper = line_of(&mut child).parse().ok().and_then(Pid::from_raw).unwrap();
    assert_eq!(names(&middle), ["lo", "hg-left", "hg-right"]);
    kill(&child);
    child.wait().unwrap();
    let start = Instant::now();
    while names(&middle) != ["lo"] || headgate_host::process::is_alive(sleeper).unwrap() {
        assert!(start.elapsed() < PATIENCE, "left behind: {:?}", names(&middle));
        thread::sleep(Duration::from_millis(1));
    }
}

/// A program that has groups, and in one of them a process that starts others without end, in sessions of
/// their own.
fn keeper() {
    let janitor = Janitor::start().unwrap();
    let mut roots = Vec::new();
    let tree = GroupTree::make(
        &format!("headgate-keeper-{}", std::process::id()),
        &Hierarchy::all(),
        &mut |action| {
            janitor.register(action.clone()).unwrap();
            if let Action::RemoveGroupTree { path } = action {
                roots.push(path);
            }
        },
    );
    if ![Controller::Pids, Controller::Cpuset].iter().all(|one| tree.has(*one)) {
        println!("skipped: {:?}", tree.missing());
        return;
    }
    let limits = Limits { processes: Some(50), ..Limits::default() };
    let plan = NfGroupPlan { name: "nf".into(), core: Some(0), limits, ..NfGroupPlan::default() };
    let group = NfGroup::make(&tree.domain(0, "domain").unwrap(), &plan).unwrap();
    let bomb = "read go; bomb() { setsid sleep 1000 & bomb | bomb & }; while :; do bomb; done";
    let mut nf = Command::new("/bin/sh");
    let mut nf = nf
        .args(["-c", bomb])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    group.enter(pid_of(&nf)).unwrap();
    nf.stdin.take().unwrap().write_all(b"go\n").unwrap();
    // A shell that meets the limit ends; who left it stays.
    while group.members().len() < 10 {
        thread::sleep(Duration::from_millis(1));
    }
    let paths: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
    println!("{}", paths.join(" "));
    nf.wait().unwrap();
    loop {
        thread::park();
    }
}

fn who_is_in_a_group_ends_with_its_maker() {
    let mut child = run_as(&["keeper"]).spawn().unwrap();
    let line = line_of(&mut child);
    if line.is_empty() || line.starts_with("skipped") {
        let error = errors_of(&mut child);
        assert!(!credentials::is_root() || line.starts_with("skipped"), "{error}");
        return println!("skipped: no control groups here: {line}{error}");
    }
    let roots: Vec<PathBuf> = line.split(' ').map(PathBuf::from).collect();
    assert!(roots.iter().all(|root| root.exists()));
    kill(&child);
    child.wait().unwrap();
    // Its end comes when the janitor has ended, too.
    assert_eq!(errors_of(&mut child), "");
    let left: Vec<_> = roots.iter().filter(|root| root.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}
