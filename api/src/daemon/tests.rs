use super::*;

/// A daemon that does what `text`, a line of shell, says; `fake.sh` has its words.
fn spawned(text: &str) -> Daemon {
    let program = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/daemon/fake.sh"));
    let text = Text { name: "test".to_owned(), text: text.to_owned() };
    Daemon::spawn(Options::new(program, Configuration::Text(text))).unwrap()
}

fn ready(text: &str) -> Daemon {
    let mut daemon = spawned(text);
    let ready = daemon.ready(|| false).unwrap();
    assert_eq!((&*ready.name, &*ready.warnings), ("fake", "beware"));
    daemon
}

const ENDS: &str = r#"say '{"ended":SNAPSHOT}'"#;

fn ended_line() -> String {
    let snapshot = Snapshot { at_ns: 7, conserved: Some(true), ..Snapshot::default() };
    ENDS.replace("SNAPSHOT", &serde_json::to_string(&snapshot).unwrap())
}

#[test]
fn it_is_asked_and_stops_at_the_end_of_its_file() {
    let daemon = ready(&format!(
        r#"say_ready; hear; say '{{"Ok":[1,2]}}'; hear; say '{{"Err":{{"code":4,"message":"no"}}}}'; while hear; do :; done; {}"#,
        ended_line()
    ));
    let handle = daemon.handle();
    assert_eq!(handle.get::<Vec<u8>>(&Request::Measure { on: true }).unwrap(), [1, 2]);
    assert_eq!(handle.ask(&Request::Stop).unwrap_err().code, 4);
    assert!(!daemon.has_ended());
    let ended = daemon.stop().unwrap();
    assert_eq!((ended.last.at_ns, ended.exit), (7, Exit::Ok));
    assert!(handle.sample().unwrap_err().message.contains("has ended"));
}

#[test]
fn one_that_ends_by_itself_is_seen_to() {
    let daemon = ready(&format!("say_ready; {}; exit 5", ended_line()));
    while !daemon.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(daemon.handle().sample().is_err());
    assert_eq!(daemon.stop().unwrap().exit, Exit::CheckNotMet);
}

#[test]
fn what_it_says_of_its_failure_is_passed_on() {
    let mut daemon = spawned(r#"say '{"failed":{"code":3,"message":"no memory"}}'; exit 3"#);
    let error = daemon.ready(|| false).unwrap_err();
    assert_eq!((error.to_string(), error.exit()), ("no memory".to_owned(), Exit::Environment));
}

#[test]
fn one_that_dies_silently_is_told_by_how_it_died() {
    for (text, how) in
        [("exit 7", "exit status: 7"), ("kill -9 $$", "signal: 9"), ("say nonsense", "exit status: 0")]
    {
        let error = spawned(text).ready(|| false).unwrap_err();
        assert!(matches!(error, DaemonError::Died { .. }) && error.to_string().contains(how), "{error}");
        assert_eq!(error.exit(), Exit::Failed);
    }
    let daemon = ready("say_ready; hear; exit 0");
    assert!(daemon.handle().sample().is_err());
    assert!(matches!(daemon.stop(), Err(DaemonError::Died { .. })));
}

#[test]
fn being_asked_while_it_starts_stops_it() {
    let mut daemon = spawned(&format!("while hear; do :; done; say_ready; {}", ended_line()));
    daemon.ready(|| true).unwrap();
    assert_eq!(daemon.stop().unwrap().exit, Exit::Ok);
}

#[test]
fn one_that_is_killed_has_no_last_word() {
    let daemon = ready("say_ready; hear");
    let killer = daemon.killer();
    killer.kill().unwrap();
    assert!(matches!(daemon.stop(), Err(DaemonError::Died { .. })));
}

#[test]
fn one_that_is_left_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("went-on");
    let daemon = ready(&format!(
        r#"say_ready; hear; say '{{"Ok":null}}'; while hear; do :; done; echo $heard > {0}.new; mv {0}.new {0}"#,
        file.display()
    ));
    let pid = daemon.pid();
    assert_eq!(daemon.leave().unwrap(), pid);
    while !file.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let text = Text { name: String::new(), text: String::new() };
    let options = Options::new("/nonexistent/headgate-manager".into(), Configuration::Text(text));
    let error = Daemon::start(options).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/headgate-manager"), "{error}");
    assert_eq!(error.exit(), Exit::Environment);
}
