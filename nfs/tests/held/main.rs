//! Confinement of an NF, against a program that wants out: rights, system calls, files, other processes.
//!
//! The hostile program is this one in another part, so it brings its own `main`.

mod attacker;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use headgate_host::cgroup::{Controller, GroupTree, Hierarchy, Limits, NfGroup, NfGroupPlan};
use headgate_host::container::{Making, Plan};
use headgate_nf::testing::{Loop, Manager, Welcome};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch, Permission, Program, User};
use libtest_mimic::{Arguments, Trial};

const HOST: &str = env!("CARGO_BIN_EXE_headgate-nfs");
const NOBODY: User = User { uid: 65534, gid: 65534 };
/// Long enough for a machine that does something else besides; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["play", ref part @ ..] => attacker::play(part),
        _ => tests(),
    }
}

type Test = (&'static str, fn());

/// Runs the tests that the arguments name, all without any.
fn tests() {
    let tests: [Test; 12] = [
        (
            "denied_calls_fail_and_a_permission_frees_its_own",
            denied_calls_fail_and_a_permission_frees_its_own,
        ),
        ("files_are_written_where_orders_say_so", files_are_written_where_orders_say_so),
        ("what_may_be_written_must_be_there", what_may_be_written_must_be_there),
        ("tcp_and_sockets_of_others_take_a_permission", tcp_and_sockets_of_others_take_a_permission),
        ("a_sibling_of_the_same_user_is_out_of_reach", a_sibling_of_the_same_user_is_out_of_reach),
        ("a_process_that_waits_is_out_of_reach", a_process_that_waits_is_out_of_reach),
        ("ordinary_programs_run_as_ever", ordinary_programs_run_as_ever),
        ("dpdk_runs_where_a_cpuset_holds_it", dpdk_runs_where_a_cpuset_holds_it),
        ("nothing_is_left_of_roots_rights", nothing_is_left_of_roots_rights),
        ("a_process_waits_in_its_place_until_it_is_needed", a_process_waits_in_its_place_until_it_is_needed),
        ("a_container_holds_its_nf_as_a_place_does", a_container_holds_its_nf_as_a_place_does),
        ("who_was_left_behind_ends_with_the_group", who_was_left_behind_ends_with_the_group),
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

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program under orders, which says on standard output what it does.
struct Held {
    manager: Manager,
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Held {
    fn launch(launch: &Launch) -> Self {
        let (manager, socket) = Manager::new(Welcome { waits: Loop::Notified, ..Welcome::default() });
        let mut child = Command::new(HOST)
            .args(["launched", &launch.name])
            .env(LAUNCH_VARIABLE, serde_json::to_string(launch).unwrap())
            .stdin(Stdio::from(socket))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { manager, child, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the result of each attempt, once the program has ended: 0 or the number of its error.
    fn outcomes(mut self) -> BTreeMap<String, i32> {
        let (mut text, mut errors) = (String::new(), String::new());
        self.said.read_to_string(&mut text).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}{errors}");
        let read = |line: &str| {
            let (name, outcome) = line.split_once(' ').unwrap();
            (name.to_owned(), if outcome == "ok" { 0 } else { outcome.parse().unwrap() })
        };
        text.lines().map(read).collect()
    }
}

fn exec(words: &[&str]) -> Program {
    Program::Exec(words.iter().map(|word| (*word).to_owned()).collect())
}

/// Orders for this program in another part.
fn orders(part: &[&str]) -> Launch {
    let own = std::env::current_exe().unwrap();
    let words = [&[own.to_str().unwrap(), "play"], part].concat();
    Launch::new("foe".into(), exec(&words), std::process::id())
}

/// As another user where that can be: a test that proves something of rights.
fn as_nobody(launch: Launch) -> Launch {
    Launch { user: is_root().then_some(NOBODY), ..launch }
}

/// A folder below which a test may be written to by anybody, and a file beside it.
fn open_folder() -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("open");
    std::fs::create_dir(&folder).unwrap();
    for path in [base.path(), &folder] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let beside = base.path().join("open-beside");
    std::fs::write(&beside, "kept").unwrap();
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o666)).unwrap();
    (base, folder)
}

fn denied_calls_fail_and_a_permission_frees_its_own() {
    let held = Held::launch(&as_nobody(orders(&["calls"]))).outcomes();
    for (name, outcome) in &held {
        let expected = match name.as_str() {
            "getpid" | "unshare-files" => 0,
            "clone3" | "x32-getpid" => libc::ENOSYS,
            "oom-score" => libc::EACCES,
            _ => libc::EPERM,
        };
        assert_eq!(*outcome, expected, "{name}");
    }
    for (permission, freed) in [
        (Permission::Namespaces, &["setns", "clone3"][..]),
        (Permission::Ptrace, &["process_vm_readv", "process_vm_writev", "pidfd_getfd", "ptrace"]),
        (Permission::Perf, &["perf_event_open"]),
        (Permission::Keys, &["add_key", "request_key", "keyctl"]),
        (Permission::Userfaultfd, &["userfaultfd"]),
        (Permission::Scheduling, &["sched_setscheduler", "sched_setattr", "setpriority", "ioprio_set"]),
        (Permission::Scheduling, &["sched_setaffinity"]),
        (Permission::IoUring, &["io_uring_setup", "io_uring_enter"]),
    ] {
        let launch = as_nobody(orders(&["calls"]));
        let now = Held::launch(&Launch { allow: vec![permission], ..launch }).outcomes();
        for name in freed {
            assert_ne!(now[*name], held[*name], "{permission:?} frees {name}");
        }
    }
    let held_by_cpuset = Launch { cpuset: true, ..as_nobody(orders(&["calls"])) };
    assert_ne!(Held::launch(&held_by_cpuset).outcomes()["sched_setaffinity"], libc::EPERM);
}

/// As the user that owns the files, so that it is not their modes that hold.
fn files_are_written_where_orders_say_so() {
    let (base, folder) = open_folder();
    let path = folder.to_str().unwrap();
    let launch = orders(&["files", path]);
    let now = Held::launch(&Launch { write: vec![folder.clone()], ..launch.clone() }).outcomes();
    for (name, outcome) in &now {
        let expected = match name.as_str() {
            "write-etc" | "new-etc" if !is_root() => libc::EACCES,
            "write-etc" | "new-etc" | "new-tmp" | "new-shm" | "truncate-beside" | "remove-beside" => {
                libc::EACCES
            }
            // Into another folder that may not be written to.
            "move-out" => libc::EXDEV,
            _ => 0,
        };
        let is_as_expected = *outcome == expected || (name == "move-out" && *outcome == libc::EACCES);
        assert!(is_as_expected, "{name}: {outcome}");
    }
    assert_eq!(std::fs::read_to_string(base.path().join("open-beside")).unwrap(), "kept");
    std::fs::remove_dir_all(folder.join("c")).unwrap();
    let nowhere = Held::launch(&launch).outcomes();
    for name in ["new-there", "folder-there", "new-tmp"] {
        assert_eq!(nowhere[name], libc::EACCES, "{name} without a folder to write to");
    }
    assert_eq!((nowhere["write-null"], nowhere["read-etc"]), (0, 0));
}

fn what_may_be_written_must_be_there() {
    let launch = Launch { write: vec!["/no/such/folder".into()], ..orders(&["victim"]) };
    let mut held = Held::launch(&launch);
    let why = held.manager.admit().unwrap_err();
    assert!(why.starts_with("foe: cannot let it write to /no/such/folder: No such file"), "{why}");
    assert!(why.ends_with("(make it first)"), "{why}");
    assert_eq!(held.child.wait().unwrap().code(), Some(3));
}

fn tcp_and_sockets_of_others_take_a_permission() {
    let name = format!("headgate-held-{}", std::process::id());
    let ours = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let launch = orders(&["network", &name]);
    let now = Held::launch(&launch).outcomes();
    assert_eq!(
        [now["tcp-bind"], now["tcp-connect"], now["abstract"]],
        [libc::EACCES, libc::EACCES, libc::EPERM]
    );
    assert_eq!(now["abstract-own"], 0);
    ours.set_nonblocking(true).unwrap();
    assert_eq!(ours.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let allow = vec![Permission::Network, Permission::AbstractSockets];
    let now = Held::launch(&Launch { allow, ..launch }).outcomes();
    // Nobody listens on port 9; that is no rule's doing.
    assert_eq!([now["tcp-bind"], now["tcp-connect"], now["abstract"]], [0, libc::ECONNREFUSED, 0]);
}

/// Both are programs that were run, so both are dumpable.
fn a_sibling_of_the_same_user_is_out_of_reach() {
    let mut victim = Held::launch(&as_nobody(orders(&["victim"])));
    assert_eq!(victim.line(), "here");
    let launch = as_nobody(orders(&["sibling", &victim.child.id().to_string()]));
    let now = Held::launch(&launch).outcomes();
    for name in ["sibling-memory", "sibling-files"] {
        assert_eq!(now[name], libc::EACCES, "{name}");
    }
    assert_eq!(now["sibling-signal"], libc::EPERM);
    assert_eq!((now["child-memory"], now["child-signal"]), (0, 0), "its own children are its affair");
    assert_eq!(victim.child.try_wait().unwrap(), None);
    victim.child.kill().unwrap();
    victim.child.wait().unwrap();
}

/// Its own successor, which waits as the same user, is no easier to reach for an NF.
fn a_process_that_waits_is_out_of_reach() {
    let mut spare = Held::launch(&as_nobody(Launch { waits: true, ..orders(&["victim"]) }));
    spare.manager.await_seated().unwrap();
    let launch = as_nobody(orders(&["sibling", &spare.child.id().to_string()]));
    let now = Held::launch(&launch).outcomes();
    for name in ["sibling-memory", "sibling-files"] {
        assert_eq!(now[name], libc::EACCES, "{name}");
    }
    assert_eq!(now["sibling-signal"], libc::EPERM);
    assert_eq!(spare.child.try_wait().unwrap(), None);
    spare.child.kill().unwrap();
    spare.child.wait().unwrap();
}

fn ordinary_programs_run_as_ever() {
    let now = Held::launch(&as_nobody(orders(&["runtime"]))).outcomes();
    assert!(now.values().all(|outcome| *outcome == 0), "{now:?}");
    let python = "import threading, subprocess, asyncio, socket\n\
        t = threading.Thread(target=print, args=('thread ok',)); t.start(); t.join()\n\
        subprocess.run(['/bin/echo', 'process ok'], check=True)\n\
        asyncio.run(asyncio.sleep(0)); a, b = socket.socketpair(); a.send(b'x'); b.recv(1)\n\
        print('python ok')";
    let shell = "echo one ok; (echo two ok) | cat; sleep 0; true && echo three ok";
    let socat = ["/usr/bin/socat", "-u", "EXEC:/bin/echo socat ok", "STDOUT"];
    let programs = [&["/usr/bin/python3", "-c", python][..], &["/bin/sh", "-c", shell], &socat];
    for (program, lines) in programs.into_iter().zip([3, 3, 1]) {
        if !Path::new(program[0]).exists() {
            println!("skipped: there is no {}", program[0]);
            continue;
        }
        let launch = Launch::new("box".into(), exec(program), std::process::id());
        let now = Held::launch(&as_nobody(launch)).outcomes();
        assert_eq!(now.len(), lines, "{program:?}: {now:?}");
    }
}

/// DPDK sets the affinity of its threads and does not start without.
fn dpdk_runs_where_a_cpuset_holds_it() {
    const TESTPMD: &str = "/usr/bin/dpdk-testpmd";
    if !Path::new(TESTPMD).exists() {
        return println!("skipped: there is no {TESTPMD}");
    }
    // What it says comes by lines.
    let words = [
        "/usr/bin/stdbuf",
        "-oL",
        TESTPMD,
        "--no-huge",
        "-m",
        "64",
        "--no-pci",
        "--no-shconf",
        "--no-telemetry",
    ];
    let lcores = ["--lcores", "0@0,1@0", "--vdev=net_null0", "--vdev=net_null1", "--"];
    let forward = ["--forward-mode=macswap", "--auto-start", "--total-num-mbufs=4096"];
    let program = exec(&[&words[..], &lcores, &forward].concat());
    let launch = as_nobody(Launch::new("pmd".into(), program, std::process::id()));
    let launch = Launch { core: Some(0), cpuset: true, ..launch };
    let mut held = Held::launch(&launch);
    let mut seen = String::new();
    while !seen.contains("Logical Core 1") {
        let line = held.line();
        let is_over = line.is_empty() && held.child.try_wait().unwrap().is_some();
        assert!(!is_over, "it forwards nothing: {seen}");
        seen += &format!("{line}\n");
    }
    held.child.kill().unwrap();
    held.child.wait().unwrap();
    let free = Launch { cpuset: false, ..launch };
    let mut held = Held::launch(&free);
    assert!(!held.child.wait().unwrap().success(), "what could leave its core may not ask to");
}

/// Also where nobody else was to be become: root without its rights.
fn nothing_is_left_of_roots_rights() {
    if !is_root() {
        return println!("skipped: only root has rights to give up");
    }
    for user in [None, Some(NOBODY), Some(User { uid: 0, gid: 0 })] {
        let script = "sed -n 's/^Cap[A-Z][a-z]*:\\t0*$/none ok/p' /proc/self/status; ulimit -c; ulimit -r";
        let program = exec(&["/bin/sh", "-c", script]);
        let launch = Launch { user, ..Launch::new("root".into(), program, std::process::id()) };
        let mut held = Held::launch(&launch);
        let lines: Vec<String> = (0..7).map(|_| held.line()).collect();
        assert_eq!(lines[..5], ["none ok"; 5], "as {user:?}: {lines:?}");
        // Blocks of 512 bytes: one byte is none.
        assert_eq!(lines[5..], ["0", "0"]);
        held.child.wait().unwrap();
    }
}

fn a_process_waits_in_its_place_until_it_is_needed() {
    let programs = [Program::Run("forward".into()), exec(&[HOST, "run", "forward"])];
    for program in programs {
        let launch = Launch { waits: true, ..Launch::new("spare".into(), program, std::process::id()) };
        let mut held = Held::launch(&as_nobody(launch));
        assert_eq!(held.manager.await_seated().unwrap(), Vec::<String>::new());
        let status = std::fs::read_to_string(format!("/proc/{}/status", held.child.id())).unwrap();
        for line in ["CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{status}");
        }
        held.manager.go();
        held.manager.admit().unwrap();
        assert_eq!(held.manager.stop(), "");
        assert!(held.child.wait().unwrap().success());
    }
    // One whose manager goes is of no use.
    let launch = Launch {
        waits: true,
        ..Launch::new("spare".into(), Program::Run("forward".into()), std::process::id())
    };
    let mut held = Held::launch(&launch);
    held.manager.await_seated().unwrap();
    held.manager.die();
    let mut errors = String::new();
    held.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(
        (held.child.wait().unwrap().code(), errors.as_str()),
        (Some(3), "headgate-nfs: spare: the manager is gone\n")
    );
}

fn who_was_left_behind_ends_with_the_group() {
    if !is_root() {
        return println!("skipped: control groups take root");
    }
    let name = format!("headgate-held-{}", std::process::id());
    let tree = GroupTree::make(&name, &Hierarchy::all(), &mut |_| {});
    if !(tree.has(Controller::Pids) && tree.has(Controller::Cpuset)) {
        tree.remove().unwrap();
        return println!("skipped: {:?}", tree.missing());
    }
    let limits = Limits { processes: Some(30), memory_bytes: Some(64 << 20), ..Limits::default() };
    let plan = NfGroupPlan { name: "foe".into(), core: Some(0), limits, ..NfGroupPlan::default() };
    let group = NfGroup::make(&tree.domain(0, "domain").unwrap(), &plan).unwrap();
    let launch = Launch {
        groups: group.entrances(false),
        cpuset: group.has(Controller::Cpuset),
        waits: true,
        ..as_nobody(orders(&["children"]))
    };
    let mut held = Held::launch(&launch);
    held.manager.await_seated().unwrap();
    assert_eq!(group.members().len(), 1, "it entered before it may run anything");
    held.manager.go();
    let start = Instant::now();
    while group.members().len() < 5 {
        assert!(start.elapsed() < PATIENCE, "{:?}", group.members());
        std::thread::sleep(Duration::from_millis(1));
    }
    // The NF dies; they do not.
    held.child.kill().unwrap();
    held.child.wait().unwrap();
    assert!(group.members().len() >= 3);
    assert_eq!(group.off_core(0), []);
    group.kill_until_empty(PATIENCE).unwrap();
    group.remove().unwrap();
    tree.remove().unwrap();
}

/// Its runtime has taken rights already; what is left to do is done all the same.
fn a_container_holds_its_nf_as_a_place_does() {
    let has_runtime =
        ["runc", "crun"].iter().any(|name| headgate_host::process::find_program(name).is_some());
    if !is_root() || !has_runtime {
        return println!("skipped: containers take root and an OCI runtime");
    }
    let own_network = std::path::PathBuf::from("/proc/self/ns/net");
    for network in [None, Some(own_network)] {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("headgate-held-{}", std::process::id());
        let program =
            exec(&["/bin/sh", "-c", "exec >&0; cat /proc/self/status; touch /tmp/new; echo touched $?"]);
        let network_rights = network.is_some();
        let launch = Launch { network_rights, waits: true, ..Launch::new("nf".into(), program, 0) };
        let variable = (LAUNCH_VARIABLE.to_owned(), serde_json::to_string(&launch).unwrap());
        let plan = Plan {
            name: name.clone(),
            command: [HOST, "launched", "nf"].map(str::to_owned).into(),
            environment: vec![variable, ("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            user: (NOBODY.uid, NOBODY.gid),
            rootfs: None,
            files: vec![(HOST.into(), HOST.into())],
            network,
        };
        let (mut manager, socket) = Manager::new(Welcome::default());
        let errors = rustix::io::dup(std::io::stderr()).unwrap();
        let mut making = Making::start(&plan, folder.path(), socket, errors).unwrap();
        let container = making.finish().unwrap();
        assert_eq!(manager.await_seated().unwrap(), Vec::<String>::new());
        manager.go();
        let said = said_until(&manager, "touched");
        let rights = if network_rights { "0000000000003000" } else { "0000000000000000" };
        for key in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(said.contains(&format!("{key}:\t{rights}")), "{said}");
        }
        assert!(said.contains("Seccomp:\t2") && said.contains("touched 1"), "{said}");
        while container.is_alive().unwrap() {
            std::thread::yield_now();
        }
        headgate_host::undo::Action::RemoveGroups { name }.perform_patiently().unwrap();
    }
}

/// Returns what a program writes to its socket, until it has written this.
fn said_until(manager: &Manager, end: &str) -> String {
    let mut said = String::new();
    let mut bytes = [0; 4096];
    while !said.contains(end) {
        let count = rustix::io::read(manager.socket(), &mut bytes).unwrap();
        assert!(count > 0, "it ended: {said}");
        said += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    said
}
