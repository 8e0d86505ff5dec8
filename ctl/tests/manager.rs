//! A manager, started and asked by the command as people do it.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{
    Detached, HEADGATE, Running, configuration, daemon, descendants, eventually, headgate, name_of, run,
    runs, signal, sockets, told, written,
};
use headgate_host::cgroup::CpuController;
use rustix::process::{Signal, geteuid};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

/// The control groups of the manager of this name; none where it may make none.
fn control_groups(name: &str) -> Vec<PathBuf> {
    let Some(home) = CpuController::find().group_of(None) else { return Vec::new() };
    let inside = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let ours = |path: &PathBuf| path.to_string_lossy().contains(&format!("headgate-{name}-"));
    let mut all: Vec<PathBuf> = inside(&home).into_iter().filter(ours).collect();
    let mut next = 0;
    while next < all.len() {
        all.extend(inside(&all[next]));
        next += 1;
    }
    all
}

/// A manager that is ready.
fn started(folder: &Path, name: &str, more: &[&str]) -> Running {
    let file = written(folder, &configuration(name));
    let running = Running::start(headgate(folder, &[&["up", &file], more].concat()));
    eventually("all NFs run", || {
        let (code, data, _) = run(folder, &["--json", "status", "--name", name]);
        code == 0 && json(&data)["nfs"].as_array().unwrap().iter().all(|nf| nf["state"] == "running")
    });
    running
}

#[test]
fn a_manager_is_asked_told_changed_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("life"));
    let manager = started(folder, &name, &[]);
    let ask = |words: &[&str]| run(folder, &[words, &["--name", &name]].concat());

    let (code, page, _) = ask(&["status"]);
    assert_eq!(code, 0);
    let pid = daemon(folder, &name);
    assert!(page.starts_with(&format!("manager {name} pid {pid}")), "{page}");
    assert!(descendants(manager.0.id()).contains(&pid));
    assert!(page.contains("accounts hold"), "{page}");

    for (what, says) in [
        ("ports", "generator"),
        ("nfs", "wake-ups"),
        ("chains", "first -> second -> sink"),
        ("drops", ""),
        ("flows", "through"),
        ("events", "ready"),
    ] {
        let (code, text, messages) = ask(&["show", what]);
        assert_eq!(code, 0, "{messages}");
        assert!(text.contains(says), "{what}: {text}");
        assert!(json(&ask(&["--json", "show", what]).1).is_array(), "{what}");
    }

    let (code, answer, messages) = ask(&["tell", "second", "report"]);
    assert!(code == 0 && json(&answer)["flows_now"].is_u64() && messages.is_empty(), "{answer} {messages}");
    let (code, answer, messages) = ask(&["tell", "second", "reprot"]);
    assert_eq!((code, &*answer), (1, ""));
    assert!(messages.contains("second refused: no message `reprot`; there is `report`"), "{messages}");
    let (code, data, _) = ask(&["--json", "tell", "first", "anything"]);
    let refused = json(&data)["answers"][0]["refused"].clone();
    assert_eq!((code, refused), (1, "this network function takes no messages".into()));
    eventually("the monitor has reported", || ask(&["show", "nfs"]).1.contains("last message"));
    let (code, _, messages) = ask(&["tell", "third", "report"]);
    assert!(code == 1 && messages.contains("NFs: first, second"), "{messages}");

    let shorter = configuration(&name).replace("[\"first\", \"second\"]", "[\"second\"]");
    let (code, changes, messages) = run(folder, &["apply", &written(folder, &shorter)]);
    assert!(code == 0 && changes.contains("chain through changed"), "{changes} {messages}");
    let other_ports = configuration(&name).replace("flows = 100", "flows = 7");
    let (code, _, messages) = run(folder, &["apply", &written(folder, &other_ports)]);
    assert!(code == 4 && messages.contains("[[port]] cannot change"), "{messages}");

    let (code, totals, messages) = ask(&["down"]);
    assert!(code == 0 && totals.contains("accounts hold"), "{totals} {messages}");
    let (code, totals, _) = manager.end();
    assert!(code == 0 && totals.contains("accounts hold"), "{totals}");
    assert!(!sockets(folder).join(format!("{name}.sock")).exists());
    assert_eq!(ask(&["status"]).0, 1);
}

#[test]
fn a_second_manager_of_one_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("second"));
    let manager = started(folder, &name, &[]);
    let file = folder.join("headgate.toml");
    let (code, _, messages) = run(folder, &["up", file.to_str().unwrap()]);
    assert_eq!(code, 3);
    let says = format!("a manager named {name:?} is already running (pid {})", daemon(folder, &name));
    assert!(messages.contains(&says) && messages.contains("headgate down"), "{messages}");
    // The first is none the worse for it.
    assert_eq!(run(folder, &["status", "--name", &name]).0, 0);
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
}

#[test]
fn once_ends_by_itself_and_prints_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let name = name_of("once");
    let text = configuration(&name).replace("flows = 100", "count = 400");
    let file = written(folder.path(), &text);
    let (code, data, messages) = run(folder.path(), &["--json", "up", "--once", &file]);
    assert_eq!(code, 0, "{messages}");
    let last = json(&data);
    let chain = last["chains"].as_array().unwrap().iter().find(|chain| chain["name"] == "through").unwrap();
    assert_eq!((&chain["entered"], &chain["left"]), (&Json::from(400), &Json::from(400)));
    assert_eq!(last["conserved"], true);
    assert_eq!(last["nfs"][0]["returned"], 400);
}

/// Ends its life in a mount namespace of its own in which no control group is mounted.
const WITHOUT_GROUPS: &str = r#"
grep cgroup /proc/self/mountinfo | cut -d" " -f5 | sort -r | while read -r mount; do umount -l "$mount"; done
exec "$0" "$@""#;

#[test]
fn without_control_groups_the_kernel_shares_cores_and_that_is_told() {
    if !geteuid().is_root() {
        eprintln!("skipped: a mount namespace takes root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = configuration(&name_of("groups")).replace("flows = 100", "count = 400");
    let file = written(folder.path(), &text);
    // So that the programs of NFs are there.
    drop(headgate(folder.path(), &[]));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", WITHOUT_GROUPS, HEADGATE, "--json", "up", "--once", &file]);
    let (code, data, messages) = told(command.output().unwrap());
    assert_eq!(code, 0, "{messages}");
    let last = json(&data);
    assert_eq!(last["nfs"][0]["returned"], 400);
    let limitations = last["scheduler"]["limitations"].to_string();
    assert!(
        limitations.contains("the cpu controller of control groups is not mounted here"),
        "{limitations}"
    );
    assert!(limitations.contains("an NF can leave its core"), "{limitations}");
    let told = last["events"].as_array().unwrap().iter().map(|event| event["what"].as_str().unwrap());
    assert_eq!(told.filter(|what| what.contains("weights cannot be set")).count(), 1, "{messages}");
}

/// Nothing is left when the command is killed, whose daemon then stops in order, nor when the daemon is,
/// whose janitor tidies up.
#[test]
fn a_killed_manager_leaves_nothing_and_can_be_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("killed"));
    let socket = sockets(folder).join(format!("{name}.sock"));
    for kill_daemon in [true, false, true] {
        let manager = started(folder, &name, &[]);
        let children = descendants(manager.0.id());
        let groups = control_groups(&name);
        assert!(
            groups.is_empty() || (4..=6).contains(&groups.len()),
            "of all, of a domain on a core, of each NF and of its spare: {groups:?}"
        );
        assert!(children.len() >= 4, "the daemon, its janitor and two NFs: {children:?}");
        assert!(socket.exists());
        if kill_daemon {
            signal(daemon(folder, &name), Signal::KILL);
            let (code, _, messages) = manager.end();
            assert!(code == 1 && messages.contains("without a last word (signal: 9"), "{messages}");
        } else {
            manager.signal(Signal::KILL);
            let (_, _, messages) = manager.end();
            assert!(messages.contains("stopping: no more packets are taken in"), "{messages}");
        }
        eventually("the daemon, its NFs and its janitor have ended", || {
            !children.iter().any(|&pid| runs(pid))
        });
        assert!(!socket.exists() && !socket.with_extension("lock").exists());
        assert_eq!(control_groups(&name), Vec::<PathBuf>::new());
    }
    // A socket nobody removed is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(run(folder, &["status", "--name", &name]).2.contains("is running (nobody listens"));
    let manager = started(folder, &name, &[]);
    manager.signal(Signal::INT);
    assert_eq!(manager.end().0, 0);
}

#[test]
fn asked_twice_it_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("twice"));
    let manager = started(folder, &name, &[]);
    // An NF that does not answer makes the orderly end take seconds.
    let status = json(&run(folder, &["--json", "status", "--name", &name]).1);
    let pid = status["nfs"][0]["pid"].as_u64().unwrap() as u32;
    signal(pid, Signal::STOP);
    manager.signal(Signal::INT);
    // Two signals within 200 ms are one wish.
    thread::sleep(Duration::from_millis(400));
    manager.signal(Signal::INT);
    let (code, _, messages) = manager.end();
    assert!(messages.contains("stopping; asked once more it ends at once"), "{messages}");
    assert!(code == 1 && messages.contains("asked twice: ending at once"), "{code} {messages}");
    eventually("the stopped NF has ended too", || !runs(pid));
    for ending in [".sock", "+nf.sock", ".lock"] {
        let left = sockets(folder).join(format!("{name}{ending}"));
        eventually(&format!("{} is removed", left.display()), || !left.exists());
    }
}

#[test]
fn a_detached_manager_lives_on_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("detached"));
    let _manager = Detached::of(folder, &name);
    let file = written(folder, &configuration(&name));
    let log = folder.join("log");
    let words = ["--json", "up", "--detach", "--log", log.to_str().unwrap(), &file];
    // Returns although the manager lives on, and holds none of our streams: `output` reads to their end.
    let (code, data, messages) = run(folder, &words);
    assert_eq!(code, 0, "{messages}");
    let document = json(&data);
    assert_eq!(document["name"], name.as_str());
    assert!(messages.contains("2 NFs ready"), "{messages}");
    let pid = document["pid"].as_u64().unwrap() as u32;
    assert!(runs(pid));
    let (code, _, messages) = run(folder, &["down", "--name", &name]);
    assert_eq!(code, 0, "{messages}");
    assert!(!runs(pid));
    assert!(fs::read_to_string(log).unwrap().contains("stopping"));
}

#[test]
fn a_detached_manager_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("undetached"));
    let _manager = Detached::of(folder, &name);
    let bad = written(folder, &configuration(&name).replace("kind = \"null\"", "kind = \"nil\""));
    let log = folder.join("log");
    for words in [&["up", "--detach", &bad][..], &["up", "--detach", "--log", log.to_str().unwrap(), &bad]] {
        let (code, _, messages) = run(folder, words);
        assert_eq!(code, 4);
        assert!(messages.contains("error[") && messages.contains("headgate.toml:"), "{messages}");
    }
    assert!(fs::read_to_string(log).unwrap().contains("error["));
}

#[test]
fn the_service_manager_is_kept_informed() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("notify"));
    let place = folder.join("notify");
    let ear = UnixDatagram::bind(&place).unwrap();
    let file = written(folder, &configuration(&name));
    let mut command = headgate(folder, &["up", &file]);
    command.env("NOTIFY_SOCKET", &place);
    let manager = Running::start(command);
    let hear = || {
        let mut buffer = [0; 512];
        let length = ear.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(hear(), "STATUS=2 NFs ready");
    assert_eq!(hear(), "READY=1");
    manager.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(manager.end().0, 0);
}

/// A limit on the size of files stands in for a full disk. At full speed the NFs would shed so many packets
/// that the rest may fit.
#[test]
fn a_capture_that_finds_no_room_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let name = name_of("full");
    let text = configuration(&name)
        .replace("rate = \"10k\"", "rate = \"50k\"\ncount = 20000\nsize = 1500")
        .replace("kind = \"null\"", "kind = \"pcap\"\nwrite = \"out.pcapng\"");
    let file = written(folder.path(), &text);
    // The packet memory of 2048 buffers is a file of 4.5 MiB for this limit, the capture would be 30 MB.
    let script = format!("trap '' XFSZ; exec prlimit --fsize=8388608 {HEADGATE} up --once {file}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("XDG_RUNTIME_DIR", folder.path());
    let (code, _, messages) = told(shell.output().unwrap());
    if messages.contains("prlimit: not found") {
        return eprintln!("skipped: there is no prlimit");
    }
    assert_eq!(code, 1, "{messages}");
    assert!(messages.contains("port sink: ") && messages.contains("could not be written"), "{messages}");
    assert!(messages.contains("(writing failed: File too large (os error 27); "), "{messages}");
}

/// The manager works in another folder than the client that asks it to change.
#[test]
fn a_configuration_is_applied_from_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("apply"));
    let nfs = Path::new(HEADGATE).with_file_name("headgate-nfs");
    let manager = started(folder, &name, &[]);
    // The NF may run as another user, who cannot enter the folder otherwise.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(nfs, folder.join("own")).unwrap();
    let text = configuration(&name).replace("run = \"forward\"", "exec = [\"./own\", \"run\", \"forward\"]");
    written(folder, &text);
    let mut apply = headgate(folder, &["apply", "headgate.toml"]);
    let (code, changes, messages) = told(apply.current_dir(folder).output().unwrap());
    assert!(code == 0 && changes.contains("nf first replaced"), "{changes} {messages}");
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
}

/// A process that attaches from outside is awaited, shown, and found at the path that is shown.
#[test]
fn an_nf_that_attaches_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("guest"));
    let text = configuration(&name).replace("run = \"monitor\"", "attach = true");
    let manager = Running::start(headgate(folder, &["up", &written(folder, &text)]));
    let status = || run(folder, &["status", "--name", &name]).1;
    eventually("it is awaited", || status().contains("awaited"));
    let socket = sockets(folder).join(format!("{name}+nf.sock"));
    assert!(status().contains(&format!("NFs attach at {}", socket.display())), "{}", status());
    let mut nf = Command::new(Path::new(HEADGATE).with_file_name("headgate-nfs"));
    let nf = nf.args(["run", "monitor"]).env("HEADGATE_SOCKET", &socket).env("HEADGATE_NF", "second");
    let mut nf = nf.spawn().unwrap();
    eventually("it runs", || !status().contains("awaited"));
    signal(daemon(folder, &name), Signal::KILL);
    assert!(!nf.wait().unwrap().success(), "it ends without its manager");
    manager.end();
    let lock = sockets(folder).join(format!("{name}.lock"));
    eventually("its socket and its lock are gone", || !socket.exists() && !lock.exists());
}
