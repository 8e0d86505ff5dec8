//! A manager records its decisions, and they are made again from the record.

mod common;

use std::fs;
use std::path::Path;

use common::{Running, configuration, daemon, eventually, headgate, name_of, run, signal, written};
use rustix::process::Signal;
use serde_json::{Value as Json, json};

/// Runs a manager that records, whose NF is killed once, to its regular end. Returns the record's name.
fn recorded(folder: &Path, name: &str) -> String {
    let file = written(folder, &configuration(name));
    let record = folder.join("run.record").to_str().unwrap().to_owned();
    let manager = Running::start(headgate(folder, &["up", &file, "--record", &record]));
    let first = |key: &'static str| {
        let (code, data, _) = run(folder, &["--json", "status", "--name", name]);
        let status: Json = serde_json::from_str(&data).unwrap_or_default();
        if code == 0 { status["nfs"][0][key].clone() } else { Json::Null }
    };
    eventually("the NF runs", || first("state") == "running");
    let pid = first("pid").as_u64().unwrap();
    assert_ne!(pid, u64::from(daemon(folder, name)));
    signal(pid as u32, Signal::KILL);
    eventually("it was started again", || first("state") == "running" && first("pid") != json!(pid));
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
    record
}

fn replayed(folder: &Path, record: &str) -> (i32, Json, String) {
    let (code, data, messages) = run(folder, &["--json", "sim", "replay", record]);
    (code, serde_json::from_str(&data).unwrap_or_default(), messages)
}

#[test]
fn what_a_manager_recorded_is_decided_again_and_a_change_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let record = recorded(folder, &name_of("record"));
    let (code, document, messages) = replayed(folder, &record);
    assert_eq!((code, &document["end"]), (0, &json!("closed")), "{document} {messages}");
    assert!(document["actions"].as_u64().unwrap() > 10, "{document}");

    let text = fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let did = |line: &&str| line.contains("lifecycle") && line.contains(r#"{"did":"spawn"}"#);
    // The last one is the restart.
    let at = lines.iter().rposition(did).expect("it was restarted");
    let mut other = lines.clone();
    let kill = other[at].replace("spawn", "kill");
    other[at] = &kill;
    fs::write(&record, other.join("\n") + "\n").unwrap();
    let (code, document, _) = replayed(folder, &record);
    let difference = &document["difference"];
    assert_eq!((code, &difference["line"]), (5, &json!(at + 1)), "{document}");
    assert_eq!((&difference["expected"], &difference["got"]), (&json!("Kill"), &json!("Spawn")));
    let (code, page, _) = run(folder, &["sim", "replay", &record]);
    assert!(code == 5 && page.contains("life cycle of instance"), "{page}");

    fs::write(&record, &text[..text.len() / 2]).unwrap();
    let (code, document, messages) = replayed(folder, &record);
    assert!(code == 1 && document["difference"].is_null(), "{document}");
    assert!(messages.contains("it was cut, or the manager that wrote it was killed"), "{messages}");
    fs::write(&record, text.replacen(r#""headgate_record":1"#, r#""headgate_record":2"#, 1)).unwrap();
    let (code, _, messages) = replayed(folder, &record);
    assert!(code == 1 && messages.contains("format 2 of records"), "{messages}");
    let (code, _, messages) = replayed(folder, "nowhere.record");
    assert!(code == 3 && messages.contains("cannot read nowhere.record"), "{code} {messages}");
}
