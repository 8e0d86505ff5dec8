//! Tests of the daemon as its attendant sees it, and by itself.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use headgate_api::attendance::{LEAVE, Text};
use headgate_api::daemon::{Configuration, Daemon, DaemonError, Options};
use headgate_api::status::NfState;
use headgate_api::{Exit, Request, place};
use headgate_decide::record::{Entry, Line, Replay};
use headgate_tests::patience::Patience;
use headgate_tests::programs::Running;
use headgate_tests::session::PATIENCE;
use headgate_tests::{machine, programs};
use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::{Value as Json, json};

/// A configuration with one NF between a generator and nowhere. No other test has its name.
fn configuration(name: &str) -> String {
    format!(
        "[manager]\nname = \"{}\"\ncores = [{}]\n[memory]\nbuffers = 2048\nhugepages = \"never\"\n\
         [[port]]\nname = \"in\"\nkind = \"generator\"\nrate = \"10k\"\n[[port]]\nname = \"out\"\nkind = \"null\"\n\
         [[nf]]\nname = \"fw\"\nrun = \"forward\"\ncore = {}\nring = 256\n\
         [[chain]]\nname = \"path\"\nstages = [\"fw\"]\nout = \"out\"\n[[rule]]\nin = \"in\"\nchain = \"path\"\n",
        own(name),
        machine::manager_core(),
        machine::nf_core()
    )
}

fn own(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// The daemon's program, with the NFs beside it. Its signals are as they should be: a shell that runs tests
/// in the background of a script ignores SIGINT, and nohup SIGHUP.
fn command() -> Command {
    let _ = programs::nfs();
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(programs::manager());
    command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// An attended daemon, by the words on the wire.
struct Attended {
    daemon: Running,
    stream: BufReader<UnixStream>,
    _alone: File,
}

impl Attended {
    fn start(flags: &[&str], first: Option<&Json>) -> Self {
        let alone = machine::alone();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = command();
        let daemon = Running::start(command.arg("--attended").args(flags).stdin(OwnedFd::from(theirs)));
        let mut attended = Self { daemon, stream: BufReader::new(ours), _alone: alone };
        if let Some(first) = first {
            attended.say(&first.to_string());
        }
        attended
    }

    fn with_text(flags: &[&str], name: &str) -> Self {
        let text = json!({ "name": "test.toml", "text": configuration(name) });
        Self::start(&[flags, &["-"]].concat(), Some(&text))
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stream.get_ref(), "{line}").unwrap();
    }

    /// The next line; `None` at the end.
    fn hear(&mut self) -> Option<Json> {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    fn ask(&mut self, request: &Json) -> Json {
        self.say(&request.to_string());
        self.hear().expect("an answer")
    }

    /// Waits for its end.
    fn end(self) -> (Option<i32>, String) {
        let output = self.daemon.output();
        (output.status.code(), said(&output))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let mut patience = Patience::of(PATIENCE);
    while !holds() {
        assert!(!patience.is_over(), "not so within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Returns whether a manager of this name has its sockets and lock.
fn is_placed(name: &str) -> bool {
    place::files(&own(name)).iter().any(|path| path.exists())
}

/// The processes below one.
fn descendants(root: u32) -> Vec<u32> {
    let children = |pid: u32| -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        texts
            .flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
            .collect()
    };
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        found.extend(children(found[at]));
        at += 1;
    }
    found.split_off(1)
}

/// The sockets that a process has open.
fn sockets(pid: u32) -> BTreeSet<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
}

#[test]
fn it_answers_its_attendant_and_stops_when_that_is_gone() {
    let mut attended = Attended::with_text(&["--unlisted", "--quiet", "--without-costs"], "attended");
    let ready = attended.hear().unwrap();
    assert_eq!(ready, json!({ "ready": { "name": own("attended"), "warnings": "" } }));
    assert!(!is_placed("attended"));
    let snapshot = attended.ask(&json!({ "ask": "snapshot", "audit": true }));
    assert_eq!(snapshot["Ok"]["manager"]["pid"], attended.daemon.id());
    assert_eq!(
        (&snapshot["Ok"]["nfs"][0]["state"], &snapshot["Ok"]["conserved"]),
        (&json!("running"), &json!(true))
    );
    let refused = attended.ask(&json!({ "ask": "tell", "nf": "nobody", "body": "" }));
    assert!(refused["Err"]["message"].as_str().unwrap().contains("fw"), "{refused}");
    let refused = attended.ask(&json!("what?"));
    assert_eq!(refused["Err"]["code"], 2);
    attended.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    let ended = attended.hear().unwrap();
    assert_eq!(ended["ended"]["conserved"], true);
    assert_eq!(attended.hear(), None, "nothing comes after the last line");
    assert_eq!(attended.end(), (Some(0), String::new()), "it was to be quiet");
}

/// Neither the NF nor the janitor could speak for the attendant, or keep its end from being seen.
#[test]
fn nothing_it_starts_has_the_socket_and_no_terminal_reaches_it() {
    let mut attended = Attended::with_text(&["--unlisted", "--quiet"], "socket");
    attended.hear().unwrap();
    let id = attended.daemon.id();
    assert_eq!(getsid(Some(pid(&attended.daemon))).unwrap(), pid(&attended.daemon), "a session of its own");
    assert_eq!(fs::read_link(format!("/proc/{id}/fd/0")).unwrap(), Path::new("/dev/null"));
    let children = descendants(id);
    assert!(children.len() >= 2, "an NF and the janitor: {children:?}");
    let before = sockets(id);
    let theirs: Vec<BTreeSet<PathBuf>> = children.into_iter().map(sockets).collect();
    attended.say(LEAVE);
    assert_eq!(attended.hear(), Some(json!({ "Ok": null })));
    assert_eq!(attended.hear(), None);
    let given_up: Vec<&PathBuf> = before.iter().filter(|socket| !sockets(id).contains(*socket)).collect();
    assert_eq!(given_up.len(), 1, "the attendant's");
    assert!(theirs.iter().all(|sockets| !sockets.contains(given_up[0])));
    // It goes on without us.
    std::thread::sleep(Duration::from_millis(100));
    assert!(attended.daemon.try_wait().unwrap().is_none());
    kill_process(pid(&attended.daemon), Signal::TERM).unwrap();
    assert_eq!(attended.end().0, Some(0));
}

#[test]
fn what_it_refuses_it_says_to_its_attendant_alone() {
    let bad = configuration("bad").replace("run = \"forward\"", "run = \"forwrad\"");
    let mut attended = Attended::start(&["-"], Some(&json!({ "name": "bad.toml", "text": bad })));
    let failed = attended.hear().unwrap();
    assert_eq!(failed["failed"]["code"], 4);
    assert!(failed["failed"]["message"].as_str().unwrap().contains("bad.toml:"), "{failed}");
    assert_eq!(failed["failed"]["diagnostics"][0]["code"], "unknown-nf");
    assert_eq!(attended.hear(), None);
    assert_eq!(attended.end(), (Some(4), String::new()));

    let mut attended = Attended::start(&["-"], Some(&json!("nonsense")));
    let failed = attended.hear().unwrap();
    assert!(failed["failed"]["message"].as_str().unwrap().contains("sent no configuration"), "{failed}");
    assert_eq!(attended.end().0, Some(1));
}

#[test]
fn one_that_is_killed_leaves_nothing_and_its_attendant_knows() {
    let _alone = machine::alone();
    let _ = programs::nfs();
    let text = Text { name: "test.toml".to_owned(), text: configuration("dies") };
    let options = Options::new(programs::manager(), Configuration::Text(text));
    let daemon = Daemon::start(Options { quiet: true, ..options }).unwrap();
    let now = daemon.handle().sample().unwrap();
    assert_eq!(now.nfs[0].state, NfState::Running);
    assert!(is_placed("dies"));
    // The process that waits to be its NF's next one is one of those that end.
    eventually("a spare waits", || daemon.handle().sample().unwrap().nfs[0].spare == "waiting");
    let children = descendants(daemon.pid());
    daemon.killer().kill().unwrap();
    eventually("its end is seen", || daemon.has_ended());
    let error = daemon.stop().unwrap_err();
    assert!(matches!(error, DaemonError::Died { .. }) && error.exit() == Exit::Failed, "{error}");
    eventually("its NF and its janitor have ended", || {
        !children.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists())
    });
    assert!(!is_placed("dies"));
}

#[test]
fn one_that_was_told_to_stop_by_others_tells_its_attendant() {
    let _alone = machine::alone();
    let _ = programs::nfs();
    let text = Text { name: "test.toml".to_owned(), text: configuration("down") };
    let options = Options::new(programs::manager(), Configuration::Text(text));
    let daemon = Daemon::start(Options { quiet: true, ..options }).unwrap();
    let last: headgate_api::status::Snapshot = headgate_api::call(&own("down"), &Request::Stop).unwrap();
    eventually("its end is seen", || daemon.has_ended());
    let ended = daemon.stop().unwrap();
    assert_eq!((ended.exit, ended.last.at_ns), (Exit::Ok, last.at_ns));
    assert!(!is_placed("down"));
}

/// Replays the decisions of a real manager's whole life; they come out the same.
#[test]
fn its_record_replays_and_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.record");
    let flags = ["--quiet", "--unlisted", "--record", record.to_str().unwrap()];
    let mut attended = Attended::with_text(&flags, "record");
    assert!(attended.hear().unwrap()["ready"].is_object());
    attended.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    assert!(attended.hear().unwrap()["ended"].is_object());
    assert_eq!(attended.end(), (Some(0), String::new()));
    let text = fs::read_to_string(&record).unwrap();
    let (mut replay, mut lines) = (Replay::default(), text.lines());
    let header: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header["headgate_record"], 1);
    assert_eq!(lines.next_back(), Some("{\"end\":\"closed\"}"));
    let steps: Vec<Line> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let lives = |line: &&Line| matches!(line.entry, Entry::Lifecycle { .. });
    assert!(steps.iter().filter(lives).count() > 5, "{} steps", steps.len());
    for step in steps {
        replay.on(step).unwrap();
    }
    let mut again = Attended::with_text(&flags, "record");
    let failed = again.hear().unwrap();
    assert!(failed["failed"]["message"].as_str().unwrap().contains("such a file already"), "{failed}");
    assert_eq!(again.end().0, Some(3));
    assert_eq!(fs::read_to_string(&record).unwrap(), text);
}

/// Runs the daemon as a service: nobody attends it, and a service manager is told.
#[test]
fn by_itself_it_tells_the_service_manager_and_stops_at_a_signal() {
    let _alone = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("notify");
    let ear = UnixDatagram::bind(&place).unwrap();
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 512];
        let length = ear.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let file = folder.path().join("edge.toml");
    fs::write(&file, configuration("service")).unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let daemon = Running::start(command().arg(&file).env("NOTIFY_SOCKET", &place));
        assert_eq!([hear(), hear()], ["STATUS=1 NF ready", "READY=1"]);
        assert!(is_placed("service"));
        kill_process(pid(&daemon), signal).unwrap();
        assert_eq!(hear(), "STOPPING=1");
        let output = daemon.output();
        let lines = said(&output);
        assert_eq!(output.status.code(), Some(0), "{lines}");
        for line in ["nf fw (forward) on core", "1 NF ready after", "stopping: no more packets are taken in"]
        {
            assert!(
                lines.lines().any(|said| said.starts_with("headgate: ") && said.contains(line)),
                "{line}: {lines}"
            );
        }
        assert!(!is_placed("service"));
    }
}

#[test]
fn asked_twice_it_ends_at_once() {
    let _alone = machine::alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.toml");
    fs::write(&file, configuration("twice")).unwrap();
    let daemon = Running::start(command().arg(&file));
    let status = || headgate_api::call(&own("twice"), &Request::Snapshot { audit: false });
    let mut nf = None;
    eventually("its NF runs", || {
        let now: Result<headgate_api::status::Snapshot, _> = status();
        nf = now.ok().and_then(|now| now.nfs[0].pid.filter(|_| now.nfs[0].state == NfState::Running));
        nf.is_some()
    });
    // One that does not answer makes the orderly end take seconds.
    let nf = Pid::from_raw(nf.unwrap() as i32).unwrap();
    kill_process(nf, Signal::STOP).unwrap();
    kill_process(pid(&daemon), Signal::TERM).unwrap();
    // Two signals within 200 ms are one wish.
    std::thread::sleep(Duration::from_millis(400));
    kill_process(pid(&daemon), Signal::TERM).unwrap();
    let output = daemon.output();
    assert!(said(&output).contains("asked twice: ending at once"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(1));
    eventually("its place is free", || !is_placed("twice"));
}

#[test]
fn a_configuration_comes_by_standard_input_too() {
    let _alone = machine::alone();
    let text_of = |name: &str| configuration(name).replace("rate = \"10k\"", "rate = \"10k\"\ncount = 100");
    let run = |text: String, flags: &[&str]| {
        let mut daemon = Running::start(command().args(flags).arg("-").stdin(Stdio::piped()));
        daemon.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = daemon.output();
        (output.status.code(), said(&output))
    };
    let (code, said) = run(text_of("stdin"), &["--once", "--unlisted"]);
    assert!(code == Some(0) && said.contains("1 NF ready"), "{said}");
    assert_eq!(run(text_of("stdin"), &["--once", "--unlisted", "--quiet"]), (Some(0), String::new()));
    let (code, said) = run("[manager]\nname = 7\n".to_owned(), &[]);
    assert!(code == Some(4) && said.contains("standard input:2:"), "{said}");
}

#[test]
fn wrong_usage_is_2() {
    for words in [&["--attended", "-"][..], &[], &["--nonsense", "-"]] {
        let output = command().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(!said(&output).is_empty());
    }
}

#[test]
fn it_says_what_it_is_made_of() {
    let mut about = command().arg("--about").stdout(Stdio::piped()).spawn().unwrap();
    let mut document = String::new();
    about.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    assert!(about.wait().unwrap().success());
    let about: Json = serde_json::from_str(&document).unwrap();
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert!(Path::new(about["dpdk"].as_str().unwrap()).is_file(), "{about}");
}
