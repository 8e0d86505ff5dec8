//! Network functions that the manager does not start: they attach by themselves, die and come back, and
//! one that may not is told why, all while traffic runs.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headgate_api::place;
use headgate_api::status::{NfState, Snapshot};
use headgate_host::cores;
use headgate_session::message::{self, FromNf, ToNf};
use headgate_session::version::Versions;
use headgate_shm::control::{ABI_VERSION, ABI_VERSION_MIN};
use headgate_tests::patience::Patience;
use headgate_tests::programs::Running;
use headgate_tests::session::{PATIENCE, Session, chain, drops, nf};
use headgate_tests::{machine, programs};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};

/// nobody, in every distribution.
const NOBODY: u32 = 65534;

/// A manager's name that no other test of this machine has.
fn name() -> String {
    format!("attach-{}", std::process::id())
}

fn socket() -> PathBuf {
    place::nf_socket(&name())
}

/// Traffic through an NF of the manager's and then one that attaches. `keys` are the latter's.
fn configuration(keys: &str) -> String {
    let name = name();
    format!(
        r#"
[manager]
name = "{name}"
cores = [{{manager}}]
[memory]
buffers = 1024
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "40K"
flows = 16
[[port]]
name = "out"
kind = "null"
[[nf]]
name = "first"
run = "forward"
core = {{nf}}
ring = 256
[[nf]]
name = "guest"
attach = true
core = {{nf}}
ring = 256
{keys}
[[chain]]
name = "path"
stages = ["first", "guest"]
out = "out"
[[rule]]
in = "in"
chain = "path"
"#
    )
}

fn start(keys: &str) -> Session {
    let session = Session::launch("attach.toml".as_ref(), &configuration(keys), false);
    session.wait_for("the other NF runs", |now| nf(now, "first").state == NfState::Running);
    session
}

/// An NF that is started as the guide says.
fn guest(program: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "monitor"]).env("HEADGATE_SOCKET", socket()).env("HEADGATE_NF", name);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Waits for the end of a guest. Returns its exit code and standard error.
fn end(guest: Running) -> (Option<i32>, String) {
    let output = guest.output();
    (output.status.code(), String::from_utf8(output.stderr).expect("it writes text"))
}

fn refused(command: Command) -> String {
    let (code, said) = end(Running::start(command));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.starts_with("the manager refused: "), "{said}");
    said
}

fn runs(now: &Snapshot) -> bool {
    nf(now, "guest").state == NfState::Running
}

fn works(session: &Session) {
    let before = nf(&session.snapshot(), "guest").returned;
    session.wait_for("packets pass through it", |now| nf(now, "guest").returned > before + 1_000);
}

/// Lives twice, dies of a kill the first time and of an orderly stop the second.
fn lives_twice(on_failure: &str, awaited: impl Fn(&Session)) {
    let session = start(&format!("on_failure = \"{on_failure}\""));
    let now = session.snapshot();
    assert_eq!(now.manager.nf_socket.as_deref(), socket().to_str());
    assert_eq!((nf(&now, "guest").state, nf(&now, "guest").pid), (NfState::Awaited, None));
    awaited(&session);
    for life in 1..=2 {
        let mut process = Running::start(guest(&programs::nfs(), "guest"));
        let now = session.wait_for("it is attached", runs);
        assert_eq!(nf(&now, "guest").pid, Some(process.id()));
        let pid = Pid::from_child(&process);
        assert_eq!(cores::affinity(Some(pid)).unwrap().as_slice(), [machine::nf_core()]);
        works(&session);
        let said = refused(guest(&programs::nfs(), "guest"));
        assert!(said.contains(&format!("attached already, by process {}", process.id())), "{said}");
        process.kill().unwrap();
        let now = session.wait_for("its end is noticed", |now| nf(now, "guest").failures == life);
        assert_eq!(nf(&now, "guest").state, NfState::Awaited);
        let why = nf(&now, "guest").last_failure.clone().unwrap_or_default();
        assert!(why.contains("its process ended"), "{why}");
        let _ = session.audited();
        awaited(&session);
    }
    let process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    works(&session);
    session.stop();
    assert_eq!(end(process), (Some(0), String::new()));
    assert!(!socket().exists());
}

#[test]
fn bypassed_until_it_comes() {
    lives_twice("bypass", |session| drop(session.wait_for_packets("path", 1_000)));
}

#[test]
fn dropped_until_it_comes() {
    lives_twice("drop", |session| {
        let enough = drops(&session.snapshot(), "path", "stage-down") + 1_000;
        session.wait_for("packets end", |now| drops(now, "path", "stage-down") >= enough);
    });
}

#[test]
fn one_that_leaves_may_come_again() {
    let session = start("");
    let process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    assert_eq!(end(process).0, Some(0));
    session.wait_for("it is awaited", |now| nf(now, "guest").state == NfState::Awaited);
    let _process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    session.stop();
}

/// A stopped process may go on at any time: its buffers are not taken back before it is dead.
#[test]
fn one_that_hangs_is_killed() {
    let session = start("");
    let process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    works(&session);
    kill_process(Pid::from_child(&process), Signal::STOP).unwrap();
    let now = session.wait_for("it is given up", |now| nf(now, "guest").failures == 1);
    let why = nf(&now, "guest").last_failure.clone().unwrap_or_default();
    assert!(why.contains("stopped by a signal"), "{why}");
    assert_eq!(end(process).0, None, "it was not killed");
    let _ = session.audited();
    session.stop();
}

fn connection() -> OwnedFd {
    let address = SocketAddrUnix::new(socket()).unwrap();
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    socket
}

/// Returns the manager's answer to a process that it does not let in.
fn answer(socket: impl AsFd) -> String {
    match message::receive::<ToNf>(socket) {
        Ok(Some((ToNf::Refused { reason }, _))) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn others_are_told_why_they_may_not() {
    let session = start("on_failure = \"bypass\"");
    let said = refused(guest(&programs::nfs(), "gest"));
    assert!(said.contains("there is no nf \"gest\"") && said.contains("may attach as: guest"), "{said}");
    let said = refused(guest(&programs::nfs(), "first"));
    assert!(said.contains("is started by the manager"), "{said}");

    let hello = |min, max| FromNf::Hello { versions: Versions { min, max }, name: "guest".to_owned() };
    let garbage = connection();
    rustix::net::send(&garbage, b"GET / HTTP/1.1\r\n\r\n", SendFlags::empty()).unwrap();
    assert!(answer(garbage).contains("not of this protocol"));
    let other = connection();
    message::send(&other, &hello(ABI_VERSION + 1, ABI_VERSION + 2), &[]).unwrap();
    assert!(answer(other).contains("the manager is the older of the two: update it"));
    let old = connection();
    message::send(&old, &hello(1, ABI_VERSION_MIN - 1), &[]).unwrap();
    assert!(answer(old).contains("the network function is the older of the two: build it again"));
    let hasty = connection();
    message::send(&hasty, &FromNf::Ready { lend: 0, answers: false, state: None, takes_long: false }, &[])
        .unwrap();
    assert!(answer(hasty).contains("not a hello"));
    let silent = connection();
    assert!(answer(silent).contains("did not say who it is"));
    // Gone before it said a word.
    drop(connection());

    session.wait_for_packets("path", 1_000);
    let now = session.audited();
    let told = |event: &headgate_api::status::Event| event.what.contains("refused a process of user");
    assert!(now.events.iter().any(told), "{:#?}", now.events);
    assert_eq!(nf(&now, "guest").failures, 0);
    session.stop();
}

/// Many connections that say nothing neither hold the manager up nor keep others out for long.
#[test]
fn a_crowd_at_the_door_is_turned_away() {
    let session = start("on_failure = \"bypass\"");
    let crowd: Vec<OwnedFd> = (0..64).map(|_| connection()).collect();
    session.wait_for_packets("path", 1_000);
    let reasons: Vec<String> = crowd.iter().map(answer).collect();
    assert!(reasons.iter().any(|why| why.contains("too many connections")), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.contains("did not say who it is")), "{reasons:?}");
    let _process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    works(&session);
    session.stop();
}

/// Welcomed, and then neither ready nor gone: the memory it was given takes it with it.
#[test]
fn one_that_never_gets_ready_is_killed() {
    let session = start("on_failure = \"bypass\"");
    // Python's standard library does all that such a process does.
    if !machine::has_program("one_that_never_gets_ready_is_killed", "python3") {
        return;
    }
    let script = format!(
        "import socket, time\n\
         s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
         s.connect({:?})\n\
         s.send(b'{{\"is\":\"hello\",\"abi\":{ABI_VERSION},\"name\":\"guest\"}}')\n\
         time.sleep(1000)",
        socket().display().to_string()
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script]).stderr(Stdio::piped());
    let process = Running::start(command);
    let now = session.wait_for("it is given up", |now| nf(now, "guest").failures == 1);
    let why = nf(&now, "guest").last_failure.clone().unwrap_or_default();
    assert!(why.contains("was not ready in time"), "{why}");
    assert_eq!(end(process).0, None);
    session.stop();
}

#[test]
fn only_the_user_it_is_for() {
    let test = "only_the_user_it_is_for";
    if !machine::is_root() {
        return machine::skip(test, "it takes root to be somebody else");
    }
    let (_folder, program) = programs::for_everybody(&programs::nfs());
    let as_nobody = |name| {
        let mut command = guest(&program, name);
        command.uid(NOBODY).gid(NOBODY);
        command
    };
    {
        let session = start("on_failure = \"bypass\"");
        let (code, said) = end(Running::start(as_nobody("guest")));
        assert_eq!(code, Some(3), "the socket of a manager whose NFs are all its own is open: {said}");
        assert!(said.contains("cannot connect to a manager at"), "{said}");
        session.wait_for_packets("path", 1_000);
        session.stop();
    }
    let session = start("user = \"nobody\"");
    let said = refused(guest(&program, "guest"));
    assert!(
        said.contains(&format!("is for a process of user {NOBODY}, and this one is of user 0")),
        "{said}"
    );
    let mut other = guest(&program, "guest");
    other.uid(NOBODY - 1).gid(NOBODY);
    assert!(refused(other).contains(&format!("this one is of user {}", NOBODY - 1)));
    let _process = Running::start(as_nobody("guest"));
    session.wait_for("it is attached", runs);
    works(&session);
    session.stop();
}

/// Namespaces of its own for processes, mounts, network and all else, a file system in which the manager's
/// folder is one socket, another user, no right whatsoever: what a container is.
#[test]
fn from_namespaces_of_its_own() {
    let test = "from_namespaces_of_its_own";
    if !machine::is_root() {
        return machine::skip(test, "it takes root to make namespaces");
    }
    if !machine::has_program(test, "unshare") || !machine::has_program(test, "setpriv") {
        return;
    }
    let session = start("user = \"nobody\"");
    let (_folder, program) = programs::for_everybody(&programs::nfs());
    let script = "set -e\n\
        mount -t tmpfs none /mnt\n\
        touch /mnt/socket\n\
        mount --bind \"$HEADGATE_SOCKET\" /mnt/socket\n\
        mount -t tmpfs -o mode=700 none /run\n\
        export HEADGATE_SOCKET=/mnt/socket\n\
        exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-c", script, "sh"]).arg(&program).args(["run", "monitor"]);
    command.env("HEADGATE_SOCKET", socket()).env("HEADGATE_NF", "guest").stderr(Stdio::piped());
    let mut container = Running::start(command);
    let mut patience = Patience::of(PATIENCE);
    while !runs(&session.snapshot()) {
        if container.try_wait().unwrap().is_some() {
            let (_, said) = end(container);
            if said.contains("unshare failed") {
                return machine::skip(test, "this machine allows no namespaces");
            }
            panic!("it ended: {said}");
        }
        assert!(!patience.is_over(), "{:#?}", session.snapshot());
    }
    let pid = nf(&session.snapshot(), "guest").pid.unwrap();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap();
    assert_ne!(namespace(&pid.to_string()), namespace("self"));
    works(&session);
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    session.wait_for("its end is noticed", |now| nf(now, "guest").failures == 1);
    let _ = session.audited();
    session.stop();
}

/// NFs that attach can be added to a manager that had none, and one that goes is stopped.
#[test]
fn added_and_removed_while_traffic_runs() {
    let with = configuration("on_failure = \"bypass\"");
    let start_of_guest = with.find("[[nf]]\nname = \"guest\"").unwrap();
    let end_of_guest = with.find("[[chain]]").unwrap();
    let without = format!("{}{}", &with[..start_of_guest], &with[end_of_guest..])
        .replace("[\"first\", \"guest\"]", "[\"first\"]");
    let session = Session::start(&without);
    assert_eq!(session.snapshot().manager.nf_socket, None);
    session.apply(&with).unwrap();
    let process = Running::start(guest(&programs::nfs(), "guest"));
    session.wait_for("it is attached", runs);
    works(&session);
    session.apply(&without).unwrap();
    assert_eq!(end(process), (Some(0), String::new()));
    session.wait_for_packets("path", 1_000);
    let last = session.stop();
    assert_eq!(chain(&last, "path").stages, ["first"]);
    for drop in last.drops.iter().filter(|drop| drop.chain == "path") {
        // Overload is the generator's doing; the change itself may cost nothing.
        assert!(["stage-full", "throttled"].contains(&drop.reason.as_str()), "{drop:?}");
    }
}
