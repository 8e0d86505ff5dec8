//! SIGHUP: a manager reads its file again, however it was started; and the end of its terminal ends it.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{
    Running, configuration, daemon, eventually, headgate, name_of, run, runs, signal, told, written,
};
use rustix::process::Signal;
use serde_json::Value as Json;

/// The status of a manager.
fn status(folder: &Path, name: &str) -> Json {
    let (_, data, _) = run(folder, &["--json", "status", "--name", name]);
    serde_json::from_str(&data).unwrap_or_default()
}

/// The names of its NFs.
fn nfs(folder: &Path, name: &str) -> Vec<String> {
    let status = status(folder, name);
    let nfs = status["nfs"].as_array().into_iter().flatten();
    nfs.map(|nf| nf["nf"].as_str().unwrap().to_owned()).collect()
}

/// What its events of a kind say.
fn events(folder: &Path, name: &str, code: &str) -> Vec<String> {
    let status = status(folder, name);
    let events = status["events"].as_array().into_iter().flatten().filter(|event| event["code"] == code);
    events.map(|event| event["what"].as_str().unwrap().to_owned()).collect()
}

/// Without the second of its NFs.
fn shorter(name: &str) -> String {
    let text = configuration(name);
    let nf = text.split("[[nf]]").nth(2).unwrap().split("[[chain]]").next().unwrap();
    text.replace(&format!("[[nf]]{nf}"), "").replace("\"first\", \"second\"", "\"first\"")
}

#[test]
fn in_the_foreground_it_reads_its_file_again_by_whichever_process_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("hup"));
    let file = written(folder, &configuration(&name));
    let up = Running::start(headgate(folder, &["up", &file]));
    eventually("it runs", || nfs(folder, &name) == ["first", "second"]);
    let manager = daemon(folder, &name);
    written(folder, &shorter(&name));
    up.signal(Signal::HUP);
    eventually("the NF is gone", || nfs(folder, &name) == ["first"]);
    written(folder, &configuration(&name));
    signal(manager, Signal::HUP);
    eventually("the NF is there again", || nfs(folder, &name) == ["first", "second"]);
    // What cannot be applied changes nothing, and is said where it is.
    written(folder, &configuration(&name).replace("\"monitor\"", "\"moniter\""));
    up.signal(Signal::HUP);
    eventually("it is refused", || !events(folder, &name, "configuration-refused").is_empty());
    let refused = events(folder, &name, "configuration-refused");
    let place = format!("{file}:24:7: no NF `moniter` is shipped");
    assert!(refused.len() == 1 && refused[0].contains(&place), "{refused:?}");
    assert_eq!((nfs(folder, &name), daemon(folder, &name)), (vec!["first".into(), "second".into()], manager));
    up.signal(Signal::INT);
    let (code, _, messages) = up.end();
    assert_eq!(code, 0, "{messages}");
    assert!(messages.contains("configuration applied: ") && messages.contains(&place), "{messages}");
}

/// The folder it was started in is not its own any more.
#[test]
fn detached_it_finds_its_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("hup-detached"));
    written(folder, &configuration(&name));
    let (code, _, messages) =
        told(headgate(folder, &["up", "--detach", "headgate.toml"]).current_dir(folder).output().unwrap());
    assert_eq!(code, 0, "{messages}");
    written(folder, &shorter(&name));
    signal(daemon(folder, &name), Signal::HUP);
    eventually("the NF is gone", || nfs(folder, &name) == ["first"]);
    assert_eq!(run(folder, &["down", "--name", &name]).0, 0);
}

/// Runs the command in a terminal of its own, as a shell's child or in place of it.
fn in_terminal(folder: &Path, words: &str) -> Child {
    // Where tests run under `nohup`, the signal that ends a terminal is ignored, and that is inherited.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", "script"]);
    let _ = headgate(folder, &[]);
    command.args(["--quiet", "--return", "--command"]).arg(words).arg("/dev/null");
    command.env("XDG_RUNTIME_DIR", folder).env("SHELL", "/bin/sh").env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn the_end_of_its_terminal_ends_it_and_a_signal_before_does_not() {
    for (at, through) in ["exec {}", "{}; true"].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path(), name_of(&format!("terminal{at}")));
        let file = written(folder, &configuration(&name));
        let up = format!("{} up {file}", common::HEADGATE);
        let mut terminal = in_terminal(folder, &through.replace("{}", &up));
        eventually("it runs", || nfs(folder, &name) == ["first", "second"]);
        let manager = daemon(folder, &name);
        let attendant = parent(manager);
        written(folder, &shorter(&name));
        signal(attendant, Signal::HUP);
        eventually("the NF is gone", || nfs(folder, &name) == ["first"]);
        terminal.kill().unwrap();
        terminal.wait().unwrap();
        eventually("it has ended in order", || !runs(attendant) && !runs(manager));
        assert!(!common::sockets(folder).join(format!("{name}.sock")).exists());
    }
}

/// The process that started another one.
fn parent(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}
