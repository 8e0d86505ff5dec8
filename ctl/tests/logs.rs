//! What NFs write, and a log that cannot be written, as people meet them.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Detached, HEADGATE, Running, configuration, eventually, headgate, name_of, run, told, written};
use rustix::process::{Signal, geteuid};
use serde_json::Value as Json;

/// A configuration in which the second NF is a script that becomes the shipped one: a copy of it where every
/// user may run it, for the script is another user's, and what was built may lie in root's home.
fn with_script(folder: &Path, name: &str, script: &str) -> String {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("headgate-nfs");
    fs::copy(Path::new(HEADGATE).with_file_name("headgate-nfs"), &program).unwrap();
    let script = format!("{script}\nexec {} run monitor", program.display());
    configuration(name).replace("run = \"monitor\"", &format!("exec = [\"/bin/sh\", \"-c\", {script:?}]"))
}

fn lines(data: &str) -> Vec<String> {
    let document: Json = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
    let text = |line: &Json| line["text"].as_str().unwrap().to_owned();
    document["lines"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn lines_of_an_nf_are_in_the_messages_the_log_and_logs() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("logs"));
    let _manager = Detached::of(folder, &name);
    let script = "echo out; echo err >&2; echo again > /dev/stderr; printf 'red \\033[31m \\377\\n'; \
                  echo 'headgate: all is well'";
    let file = written(folder, &with_script(folder, &name, script));
    let log = folder.join("log");
    let (code, _, messages) = run(folder, &["up", "--detach", "--log", log.to_str().unwrap(), &file]);
    assert_eq!(code, 0, "{messages}");
    let ask = |words: &[&str]| run(folder, &[words, &["--name", &name]].concat());

    let expected = ["out", "err", "again", "red \u{fffd}[31m \u{fffd}", "headgate: all is well"];
    eventually("all lines are there", || {
        lines(&ask(&["--json", "logs", "second"]).1).len() == expected.len()
    });
    assert_eq!(lines(&ask(&["--json", "logs", "second"]).1), expected);
    assert_eq!(lines(&ask(&["--json", "logs", "second", "-n", "2"]).1), expected[3..]);
    let (_, text, _) = ask(&["logs", "second", "-n", "1"]);
    assert!(text.ends_with(" s: second | headgate: all is well\n"), "{text}");
    // One that says nothing is no error, one that is not there is.
    assert_eq!(ask(&["logs", "first"]), (0, String::new(), String::new()));
    let (code, _, messages) = ask(&["logs", "third"]);
    assert!(code == 1 && messages.contains("NFs: first, second"), "{messages}");

    let follower = Running::start(headgate(folder, &["--json", "logs", "second", "-f", "--name", &name]));
    assert_eq!(ask(&["down"]).0, 0);
    let (code, data, messages) = follower.end();
    assert!(code == 0 && messages.contains("has ended"), "{messages}");
    assert!(data.lines().count() <= expected.len(), "{data}");
    let log = fs::read_to_string(log).unwrap();
    for line in expected {
        assert!(log.lines().any(|one| one == format!("second | {line}")), "{line}: {log}");
    }
}

#[test]
fn who_follows_sees_lines_as_they_come_and_a_flood_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("flood"));
    let script = "(while :; do echo flood; done) &";
    let manager =
        Running::start(headgate(folder, &["up", &written(folder, &with_script(folder, &name, script))]));
    eventually("the manager answers", || run(folder, &["logs", "second", "--name", &name]).0 == 0);
    let mut follower = Running::start(headgate(folder, &["logs", "second", "-f", "--name", &name]));
    let text = BufReader::new(follower.0.stdout.take().unwrap());
    let found =
        text.lines().map_while(Result::ok).find(|line| line.contains("lines left out: more than 100"));
    assert!(found.is_some());
    let (code, page, messages) = run(folder, &["status", "--name", &name]);
    assert!(code == 0 && page.contains("accounts hold"), "{page} {messages}");
    manager.signal(Signal::TERM);
    let (code, _, messages) = manager.end();
    assert!(code == 0 && messages.contains("second | flood"), "{code}");
}

#[test]
fn a_log_on_a_full_disk_stops_nobody_and_goes_on() {
    if !geteuid().is_root() {
        return eprintln!("skipped: a small disk takes root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("full"));
    let _manager = Detached::of(folder, &name);
    let script = "(while :; do echo a line; sleep 0.05; done) &";
    let file = written(folder, &with_script(folder, &name, script));
    let disk = folder.join("disk");
    fs::create_dir(&disk).unwrap();
    let up =
        "mount -t tmpfs -o size=64k tmpfs \"$1\" && exec \"$0\" --json up --detach --log \"$1/log\" \"$2\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", up, HEADGATE]).arg(&disk).arg(&file);
    let (code, data, messages) = told(command.output().unwrap());
    assert_eq!(code, 0, "{messages}");
    let document: Json = serde_json::from_str(&data).unwrap();
    // The disk is seen by the manager alone.
    let seen = |path: &Path| -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", document["pid"]));
        root.join(path.strip_prefix("/").unwrap())
    };
    let (fill, log) = (seen(&disk.join("fill")), seen(&disk.join("log")));
    assert!(fs::write(&fill, vec![0; 1 << 20]).is_err(), "it is full");
    let has = |word: &str| run(folder, &["show", "events", "--name", &name]).1.contains(word);
    eventually("it is told", || has("the log cannot be written: No space left on device"));
    let (code, page, _) = run(folder, &["status", "--name", &name]);
    assert!(code == 0 && page.contains("accounts hold"), "{page}");
    fs::remove_file(&fill).unwrap();
    eventually("it goes on", || has("the log is written again"));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("lines of the log are missing here: No space left on device"), "{text}");
    let told = run(folder, &["show", "events", "--name", &name]).1.matches("cannot be written").count();
    assert_eq!((told, run(folder, &["down", "--name", &name]).0), (1, 0));
}
