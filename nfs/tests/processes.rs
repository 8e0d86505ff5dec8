//! The real `headgate-nfs` process against a manager played by the test: launched, worked, stopped, killed.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use headgate_nf::testing::{Loop, Manager, Welcome};
use headgate_nf::{ArgumentError, NAME_VARIABLE, PATH_VARIABLE, Verdict};
use headgate_session::launch::{LAUNCH_VARIABLE, Launch, Program, User};

const HOST: &str = env!("CARGO_BIN_EXE_headgate-nfs");
/// Debian's `nobody` and `nogroup`.
const NOBODY: User = User { uid: 65534, gid: 65534 };

fn run(name: &str) -> Program {
    Program::Run(name.to_owned())
}

fn orders(program: Program) -> Launch {
    Launch::new("test".into(), program, std::process::id())
}

fn welcome(waits: Loop, arguments: &str) -> Welcome {
    let ports = vec!["west".to_owned(), "east".to_owned()];
    Welcome { name: "test".into(), waits, ports, arguments: arguments.into(), ..Welcome::default() }
}

fn spawn(launch: &Launch, welcome: Welcome) -> (Manager, Child) {
    let (manager, socket) = Manager::new(welcome);
    let child = Command::new(HOST)
        .args(["launched", &launch.name])
        .env(LAUNCH_VARIABLE, serde_json::to_string(launch).unwrap())
        .stdin(Stdio::from(socket))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (manager, child)
}

fn start(launch: &Launch, welcome: Welcome) -> (Manager, Child) {
    let (mut manager, child) = spawn(launch, welcome);
    manager.admit().unwrap();
    (manager, child)
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| (0..60).map(|byte| (number + byte) as u8).collect()).collect()
}

fn end(child: Child) -> (ExitStatus, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status, String::from_utf8(stderr).unwrap())
}

fn status_of(child: &Child) -> String {
    std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap()
}

fn line<'a>(status: &'a str, key: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap()
}

#[test]
fn packets_pass_a_process_in_every_loop_and_it_stops_clean() {
    for waits in [Loop::Notified, Loop::Polling, Loop::Cooperative { yield_after: 4 }] {
        let (mut manager, child) = start(&orders(run("forward")), welcome(waits, r#"{"to":"east"}"#));
        let frames = frames(5000);
        let outcomes = manager.exchange(&frames);
        assert!(outcomes.iter().map(|(_, frame)| frame).eq(&frames));
        assert!(outcomes.iter().all(|(verdict, _)| *verdict == Verdict::Port(1)));
        assert_eq!(manager.stop(), "");
        assert_eq!(manager.lent(), 0);
        assert_eq!(end(child), (ExitStatus::from_raw(0), String::new()));
    }
}

#[test]
fn fused_functions_share_a_process() {
    let program = Program::Fuse(vec!["mac-swap".into(), "forward".into(), "mac-swap".into()]);
    let arguments = r#"[{},{"to":{"west":"east"}},{}]"#;
    let (mut manager, child) = start(&orders(program), welcome(Loop::Notified, arguments));
    let frames = frames(300);
    for ((verdict, frame), sent) in manager.exchange(&frames).iter().zip(&frames) {
        assert_eq!((frame[..6].to_vec(), *verdict), (sent[6..12].to_vec(), Verdict::Port(1)), "swapped once");
    }
    assert_eq!(manager.stop(), "");
    assert!(end(child).0.success());
}

#[test]
fn a_message_changes_the_cost_of_a_running_process() {
    let (mut manager, child) = start(&orders(run("synthetic")), welcome(Loop::Notified, r#"{"cycles":120}"#));
    manager.exchange(&frames(100));
    manager.tell(r#"{"cycles":{"uniform":{"min":9,"max":3}}}"#);
    assert_eq!(manager.listen(), r#"{"error":"cycles: `uniform` has min 9 above max 3"}"#);
    manager.tell(r#"{"cycles":0}"#);
    manager.exchange(&frames(100));
    assert_eq!(manager.stop(), "");
    assert!(end(child).0.success());
}

/// After a `kill -9` at any moment, what did not come back is what the manager's books say was lent.
#[test]
fn a_killed_process_returns_each_packet_once_or_not_at_all() {
    for round in 0..20 {
        let (mut manager, mut child) =
            start(&orders(run("synthetic")), welcome(Loop::Notified, r#"{"cycles":20000}"#));
        manager.send(&frames(200), 0);
        while round > 0 && manager.collect().is_empty() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        manager.collect();
        assert!(manager.lent() <= 200);
    }
}

#[test]
fn a_process_that_is_told_to_terminate_says_goodbye() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (mut manager, child) = start(&orders(run("forward")), welcome(Loop::Notified, "{}"));
        manager.exchange(&frames(10));
        // SAFETY: a signal to our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        assert_eq!(manager.wait_for_goodbye(), "");
        assert_eq!(manager.lent(), 0);
        assert!(end(child).0.success());
    }
}

#[test]
fn a_process_ends_when_told_to_though_its_manager_never_answers() {
    let (_manager, child) = spawn(&orders(run("forward")), welcome(Loop::Notified, "{}"));
    let caught = || line(&status_of(&child), "SigCgt:").to_owned();
    let heeds_sigterm = || u64::from_str_radix(&caught(), 16).unwrap() >> (libc::SIGTERM - 1) & 1 == 1;
    while !heeds_sigterm() {
        std::thread::yield_now();
    }
    // SAFETY: a signal to our own child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    let (status, stderr) = end(child);
    assert_eq!((status.code(), stderr.as_str()), (Some(1), "told to end before the manager answered\n"));
}

#[test]
fn a_launched_process_is_in_its_place() {
    let launch = Launch { core: Some(0), ..orders(run("forward")) };
    let (mut manager, child) = start(&launch, welcome(Loop::Notified, "{}"));
    let status = status_of(&child);
    assert_eq!(line(&status, "Cpus_allowed_list:"), "0");
    assert_eq!(line(&status, "NoNewPrivs:"), "1");
    assert_eq!(line(&status, "Umask:"), "0077");
    let mut files: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .map(|file| std::fs::read_link(file.unwrap().path()).unwrap().display().to_string())
        .filter(|file| !file.contains("memfd") && !file.starts_with("pipe:"))
        .collect();
    files.sort();
    assert_eq!(files[0], "/dev/null", "{files:?}");
    assert_eq!(files.iter().filter(|file| file.starts_with("socket:")).count(), 1, "{files:?}");
    assert_eq!(manager.stop(), "");
    assert!(end(child).0.success());
}

#[test]
fn a_launched_process_becomes_another_user() {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can launch a process as another user");
        return;
    }
    let launch = Launch { user: Some(NOBODY), ..orders(run("forward")) };
    let (mut manager, child) = start(&launch, welcome(Loop::Notified, "{}"));
    let status = status_of(&child);
    assert_eq!(line(&status, "Uid:"), "65534\t65534\t65534\t65534");
    assert_eq!(line(&status, "Gid:"), "65534\t65534\t65534\t65534");
    assert_eq!(line(&status, "Groups:"), "");
    assert_eq!(line(&status, "CapEff:"), "0000000000000000");
    manager.exchange(&frames(10));
    assert_eq!(manager.stop(), "");
    assert!(end(child).0.success());
}

#[test]
fn a_process_that_cannot_start_tells_the_manager_why() {
    let both = Program::Fuse(vec!["forward".into(), "forward".into()]);
    for (program, arguments, code, why, refused) in [
        (
            run("forward"),
            r#"{"to":"south"}"#,
            4,
            "test cannot start: to: there is no port `south`; there are west, east",
            Some("to"),
        ),
        (both, r#"[{},{"tu":"east"}]"#, 4, "test cannot start: forward.2: tu: unknown field", Some("[1].tu")),
        // What may pass is no refusal.
        (run("packet-logger"), r#"{"path":"/no/such/folder/log"}"#, 4, "/no/such/folder", None),
        (run("farward"), "{}", 3, "there is no network function `farward`", None),
        (Program::Exec(vec!["/no/such/program".into()]), "{}", 3, "test: cannot run /no/such/program", None),
        (Program::Exec(vec![]), "{}", 3, "test: cannot run", None),
    ] {
        let (mut manager, child) = spawn(&orders(program), welcome(Loop::Notified, arguments));
        let reason = manager.admit().unwrap_err();
        assert!(reason.contains(why), "{reason}");
        let places: Vec<String> = manager.refused().iter().map(ArgumentError::place).collect();
        assert_eq!(places, refused.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{reason}");
        let (status, stderr) = end(child);
        assert_eq!(status.code(), Some(code));
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn a_core_that_is_not_there_is_named() {
    let launch = Launch { core: Some(1000), ..orders(run("forward")) };
    let (mut manager, child) = spawn(&launch, welcome(Loop::Notified, "{}"));
    assert!(manager.admit().unwrap_err().starts_with("test: cannot stay on core 1000"));
    assert_eq!(end(child).0.code(), Some(3));
}

#[test]
fn a_process_does_not_outlive_its_manager() {
    let (manager, child) = start(&orders(run("forward")), welcome(Loop::Notified, "{}"));
    manager.die();
    let (status, stderr) = end(child);
    assert_eq!(status.code(), Some(1));
    assert_eq!(stderr, "test ends: the manager is gone\n");
    let launch = Launch { manager: 1, ..orders(run("forward")) };
    let (mut manager, child) = spawn(&launch, welcome(Loop::Notified, "{}"));
    assert_eq!(manager.admit().unwrap_err(), "test: the manager is gone");
    assert_eq!(end(child).0.code(), Some(3));
}

/// A foreign program finds its socket as file descriptor 0; here it is the host process itself, run by hand.
#[test]
fn a_foreign_program_is_placed_and_then_run() {
    let script = format!("unset {LAUNCH_VARIABLE}; exec \"$0\" run forward");
    let command = vec!["/bin/sh".to_owned(), "-c".to_owned(), script, HOST.to_owned()];
    let (mut manager, child) =
        start(&orders(Program::Exec(command)), welcome(Loop::Notified, r#"{"to":"west"}"#));
    assert_eq!(line(&status_of(&child), "NoNewPrivs:"), "1");
    assert_eq!(manager.exchange(&frames(10))[0].0, Verdict::Port(0));
    assert_eq!(manager.stop(), "");
    assert!(end(child).0.success());
}

#[test]
fn a_process_started_by_hand_connects_by_path_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manager.sock");
    let by_option =
        || Command::new(HOST).args(["run", "forward", "--socket"]).arg(&path).args(["--as", "fw"]).spawn();
    let by_environment = || {
        Command::new(HOST).args(["run", "forward"]).env(PATH_VARIABLE, &path).env(NAME_VARIABLE, "fw").spawn()
    };
    let starts: [&dyn Fn() -> std::io::Result<Child>; 2] = [&by_option, &by_environment];
    for start in starts {
        let (mut manager, child) = Manager::at(&path, welcome(Loop::Notified, "{}"), start);
        assert_eq!(manager.admit().unwrap(), "fw");
        manager.exchange(&frames(10));
        assert_eq!(manager.stop(), "");
        assert!(end(child.unwrap()).0.success());
        std::fs::remove_file(&path).unwrap();
    }
    let alone =
        Command::new(HOST).args(["run", "forward", "--as", "fw", "--socket"]).arg(&path).output().unwrap();
    assert_eq!(alone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("manager.sock: No such file"));
}
