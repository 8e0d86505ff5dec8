//! What a script that starts a manager relies on.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Detached, HEADGATE, Running, configuration, daemon, eventually, headgate, name_of, run, runs, sockets,
    told, written,
};
use rustix::process::Signal;

#[test]
fn with_an_nf_that_is_not_ready_it_says_why_fails_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("unready"));
    let _manager = Detached::of(folder, &name);
    let broken = "exec = [\"/bin/sh\", \"-c\", \"echo no such luck >&2; exit 7\"]";
    let file = written(folder, &configuration(&name).replace("run = \"monitor\"", broken));
    let log = folder.join("log");
    let (code, data, messages) =
        run(folder, &["--json", "up", "--detach", "--log", log.to_str().unwrap(), &file]);
    assert_eq!(code, 1, "{messages}");
    let why = "nf second is not ready: exited with code 7";
    assert!(messages.contains(why) && messages.contains("was stopped again"), "{messages}");
    let document: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(document["error"]["exit_code"], 1);
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("second | no such luck") && log.contains(why), "{log}");
    assert!(!sockets(folder).join(format!("{name}.sock")).exists());
    assert_eq!(run(folder, &["status", "--name", &name]).0, 1);
}

/// NFs of root's managers are of other users, who may not look into our folders.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn an_nf_that_refuses_its_arguments_is_a_mistake_of_the_configuration() {
    let folder = open_folder();
    let (folder, name) = (folder.path(), name_of("refused"));
    // Builds the programs, where they are missing.
    let _ = headgate(folder, &[]);
    let nfs = folder.join("nfs");
    fs::copy(Path::new(HEADGATE).with_file_name("headgate-nfs"), &nfs).unwrap();
    let refusing =
        format!("exec = [\"{}\", \"run\", \"monitor\"]\nargs = {{ top = \"many\" }}", nfs.display());
    let file = written(folder, &configuration(&name).replace("run = \"monitor\"", &refusing));
    let (code, _, messages) = run(folder, &["up", "--detach", &file]);
    assert_eq!(code, 4, "{messages}");
    let why = "nf second is not ready: second cannot start: top: ";
    assert!(messages.contains(why) && messages.contains("was stopped again"), "{messages}");
    // In the foreground the others go on, and its status says what to change.
    let up = Running::start(headgate(folder, &["up", &file]));
    let status = || run(folder, &["status", "--name", &name]);
    eventually("it is said what is refused", || status().1.contains("nf second refuses `top`: "));
    let (code, page, _) = status();
    assert!(code == 0 && page.contains("change them and `headgate apply` the file"), "{page}");
    let (_, data, _) = run(folder, &["--json", "status", "--name", &name]);
    let status: serde_json::Value = serde_json::from_str(&data).unwrap();
    let second = &status["nfs"][1];
    assert_eq!((&second["state"], &second["refused"][0]["path"]), (&"failed".into(), &"top".into()));
    up.signal(Signal::INT);
    assert_eq!(up.end().0, 0);
}

#[test]
fn a_lock_of_the_caller_is_free_when_the_caller_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("lock"));
    let _manager = Detached::of(folder, &name);
    let file = written(folder, &configuration(&name));
    let lock = folder.join("lock");
    // flock(1) passes the locked file on to the command.
    let mut command = headgate(folder, &[]);
    let environment: Vec<_> =
        command.get_envs().map(|(key, value)| (key.to_owned(), value.map(Into::into))).collect();
    command = Command::new("flock");
    command.arg(&lock).arg(HEADGATE).args(["up", "--detach", &file]);
    for (key, value) in environment {
        let value: Option<std::ffi::OsString> = value;
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let (code, _, messages) = told(command.output().unwrap());
    assert_eq!(code, 0, "{messages}");
    let free = Command::new("flock").arg("--nonblock").arg(&lock).arg("true").status().unwrap();
    let (code, _, messages) = run(folder, &["down", "--name", &name]);
    assert!(free.success(), "the manager holds the lock of its caller");
    assert_eq!(code, 0, "{messages}");
}

#[test]
fn managers_are_listed_and_so_is_what_one_left() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name, gone) = (folder.path(), name_of("listed"), name_of("gone"));
    let _manager = Detached::of(folder, &name);
    let (code, _, messages) = run(folder, &["up", "--detach", &written(folder, &configuration(&name))]);
    assert_eq!(code, 0, "{messages}");
    let left = sockets(folder).join(format!("{gone}.lock"));
    fs::write(&left, "4194304").unwrap();
    let of = |name: &str| {
        let (code, data, messages) = run(folder, &["--json", "list"]);
        assert_eq!(code, 0, "{messages}");
        let all: serde_json::Value = serde_json::from_str(&data).unwrap();
        all.as_array().unwrap().iter().find(|one| one["name"] == name).cloned()
    };
    let (here, lost) = (of(&name).unwrap(), of(&gone).unwrap());
    let (_, page, _) = run(folder, &["list"]);
    fs::remove_file(&left).unwrap();
    assert_eq!(run(folder, &["down", "--name", &name]).0, 0);
    assert_eq!((&here["state"], &here["nfs"], &here["nfs_ready"]), (&"running".into(), &2.into(), &2.into()));
    assert_eq!((&lost["state"], &lost["pid"]), (&"left".into(), &4_194_304.into()));
    assert!(page.contains("2 of 2") && page.contains("the next manager of this name takes over"), "{page}");
    assert_eq!(of(&name), None);
}

#[test]
fn a_test_that_fails_leaves_no_manager() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("left"));
    let manager = Detached::of(folder, &name);
    let (code, _, messages) = run(folder, &["up", "--detach", &written(folder, &configuration(&name))]);
    assert_eq!(code, 0, "{messages}");
    let pid = daemon(folder, &name);
    drop(manager);
    eventually("it has ended", || !runs(pid));
}

#[test]
fn a_configuration_is_checked_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        let mut command = headgate(folder.path(), &["check", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        told(child.wait_with_output().unwrap())
    };
    let good = configuration("stdin");
    let (code, plan, messages) = check(&good);
    assert!(code == 0 && plan.contains("through"), "{plan} {messages}");
    let (code, _, messages) = check(&good.replace("kind = \"null\"", "kind = \"nil\""));
    assert!(code == 4 && messages.contains("standard input:"), "{messages}");
}
