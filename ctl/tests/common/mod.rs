//! Helpers for the tests of the command: they run it, and check that nothing of it is left.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../tests/src/frr.rs"]
pub mod frr;
pub mod lab;
pub mod network;
pub mod numbers;
#[path = "../../../tests/src/patience.rs"]
pub mod patience;
pub mod store;

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use headgate_host::programs::Program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use self::patience::Patience;

/// Longest wait for what the machine does in the background; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command under test.
pub const HEADGATE: &str = env!("CARGO_BIN_EXE_headgate");

/// The command with these words, its standard input empty and its streams caught. The manager's
/// places are in `folder` for everybody but root, whose place is fixed. A shell that runs the tests in the
/// background of a script ignores SIGINT, and nohup SIGHUP; so would it.
pub fn headgate(folder: &Path, words: &[&str]) -> Command {
    build_programs();
    let mut command = Command::new("/usr/bin/env");
    command
        .args(["--default-signal=INT,HUP", HEADGATE])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .env("XDG_RUNTIME_DIR", folder)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("NO_COLOR")
        .env("HEADGATE_REPORTS", "none");
    command
}

/// Runs it to its end: exit code, standard output, standard error.
pub fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    told(headgate(folder, words).output().unwrap())
}

/// What the shell is told can come next, at the last of these words.
pub fn complete(folder: &Path, words: &[&str]) -> Vec<String> {
    let mut command = headgate(folder, &[&["--", "headgate"], words].concat());
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
    let (code, data, messages) = told(command.output().unwrap());
    assert_eq!(code, 0, "{messages}");
    data.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Exit code and both streams as text.
pub fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// `cargo test` builds the programs of the packages it tests; of this one alone, those that the command
/// starts would be missing.
fn build_programs() {
    static BUILT: OnceLock<()> = OnceLock::new();
    let folder = Path::new(HEADGATE).parent().unwrap();
    let programs = [Program::Manager, Program::Nfs, Program::Bench].map(Program::name);
    if programs.iter().all(|program| folder.join(program).is_file()) {
        return;
    }
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--target-dir"]).arg(folder.parent().unwrap());
        // A package has the name of its program.
        command.args(programs.iter().flat_map(|program| ["-p", program]));
        if folder.ends_with("release") {
            command.arg("--release");
        }
        assert!(command.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    });
}

/// A running command, killed when dropped.
pub struct Running(pub Child);

impl Running {
    /// Starts it.
    pub fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for its end.
    pub fn end(mut self) -> (i32, String, String) {
        let mut errors = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        let reader = thread::spawn(move || stderr.read_to_string(&mut errors).map(|_| errors).unwrap());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.0.wait().unwrap();
        (status.code().unwrap_or(-1), text, reader.join().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `headgate observe` that runs.
pub struct Observing {
    lines: Lines<BufReader<ChildStdout>>,
    _running: Running,
}

impl Observing {
    /// Begins, and waits until it has said something: from then on it misses nothing.
    pub fn start(folder: &Path, manager: &str) -> Self {
        let words = ["observe", "--seconds", "60", "--name", manager];
        let mut running = Running::start(headgate(folder, &words));
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        lines.next().expect("it says something").unwrap();
        Self { lines, _running: running }
    }

    /// Waits until somebody decides something, and returns what.
    pub fn decision(&mut self, by: &str, mut is_it: impl FnMut(&Json) -> bool) -> Json {
        let lines = self.lines.by_ref().map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
        let mut decisions = lines.filter(|line| line["is"] == "decision" && line["by"] == by);
        let one = decisions.find(|line| is_it(&line["action"]));
        one.unwrap_or_else(|| panic!("no such decision of {by} within a minute"))["action"].clone()
    }
}

/// A manager that is about to be started detached. It is killed when this is dropped, if it still runs.
pub struct Detached {
    lock: PathBuf,
}

impl Detached {
    /// The one of this name.
    pub fn of(folder: &Path, name: &str) -> Self {
        Self { lock: sockets(folder).join(format!("{name}.lock")) }
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        // One that ended as it should has no lock any more.
        let pid = fs::read_to_string(&self.lock).ok().and_then(|text| text.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { return };
        let program = fs::read_link(format!("/proc/{}/exe", pid.as_raw_pid())).unwrap_or_default();
        if program.ends_with(Program::Manager.name()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The process id of the daemon of this name.
pub fn daemon(folder: &Path, name: &str) -> u32 {
    let (code, data, messages) = run(folder, &["--json", "status", "--name", name]);
    assert_eq!(code, 0, "{messages}");
    let status: serde_json::Value = serde_json::from_str(&data).unwrap();
    status["manager"]["pid"].as_u64().unwrap() as u32
}

/// Sends any process a signal.
pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let mut patience = Patience::of(PATIENCE);
    while !holds() {
        assert!(!patience.is_over(), "not so within {} s: {what}", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A name for a manager that no other test has.
pub fn name_of(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// Returns the folder in which managers of this user leave their sockets.
pub fn sockets(folder: &Path) -> PathBuf {
    if is_root() { PathBuf::from("/run/headgate") } else { folder.join("headgate") }
}

/// Returns whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Processes that run and are children, or children of children, of this one.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[at])).into_iter().flatten();
        for task in tasks.filter_map(Result::ok) {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.split_off(1)
}

/// Returns whether a process runs; one that ended and was not waited for does not.
pub fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// A configuration with two NFs between a generator and nowhere.
pub fn configuration(name: &str) -> String {
    format!(
        "\
[manager]
name = \"{name}\"

[memory]
buffers = 2048

[[port]]
name = \"generator\"
kind = \"generator\"
rate = \"10k\"
flows = 100

[[port]]
name = \"sink\"
kind = \"null\"

[[nf]]
name = \"first\"
run = \"forward\"
ring = 512

[[nf]]
name = \"second\"
run = \"monitor\"
ring = 512
on_failure = \"bypass\"

[[chain]]
name = \"through\"
stages = [\"first\", \"second\"]
out = \"sink\"

[[rule]]
in = \"generator\"
chain = \"through\"
"
    )
}

/// Writes it into a folder.
pub fn written(folder: &Path, text: &str) -> String {
    let path = folder.join("headgate.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
