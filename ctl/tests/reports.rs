//! What runs leave, and what becomes of two of them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{headgate, run, told};
use serde_json::{Value as Json, json};

/// A short run of the simulator that leaves a report.
fn left(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let place = folder.join(name);
    let words = ["sim", "nfvnice-chain", "--case", "normal", "--set", "horizon=20000000", "--report"];
    let (code, data, messages) = run(folder, &[&words[..], &[place.to_str().unwrap()], more].concat());
    assert_eq!(code, 0, "{messages}");
    assert!(data.contains("normal.nfvnice"), "{data}");
    let last = messages.lines().last().unwrap_or_default();
    assert_eq!(last, format!("headgate: report: {}", place.join("report.html").display()));
    place
}

fn json_of(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_simulation_leaves_page_values_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let place = left(folder.path(), "one", &[]);
    let page = fs::read_to_string(place.join("report.html")).unwrap();
    assert!(page.matches("<svg").count() >= 3 && page.contains("throughput, Mpps"), "{page}");
    for outside in ["<script", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let report = json_of(&place.join("report.json"));
    assert_eq!((&report["headgate_report"], &report["name"]), (&json!(1), &json!("sim nfvnice-chain")));
    let run = &report["environment"]["run"];
    assert!(run["machine"]["kernel"].is_string() && run["machine"]["cpu_model"].is_string());
    assert!(run["stolen_percent"].is_object() && run["seconds"].as_f64().unwrap() >= 0.0);
    assert!(run["command"].as_array().unwrap().contains(&json!("nfvnice-chain")));
    assert_eq!(report["environment"]["headgate"]["version"], env!("CARGO_PKG_VERSION"));
    let values = report["values"].as_array().unwrap();
    let value = values.iter().find(|value| value["name"] == "normal.nfvnice").unwrap();
    assert!(
        value["rounds"][0].as_f64().unwrap() > 0.5 && value["note"].as_str().unwrap().contains("measured")
    );
    for name in ["values.csv", "rounds.csv", "throughput.svg", "delay.svg", "shares.svg"] {
        assert!(fs::metadata(place.join(name)).unwrap().len() > 100, "{name}");
    }
}

#[test]
fn a_place_that_is_taken_is_refused_and_none_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("there");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("mine"), "").unwrap();
    let place = place.to_str().unwrap();
    let (code, data, messages) = run(folder.path(), &["sim", "nfvnice-chain", "--report", place]);
    assert!(code == 2 && data.is_empty() && messages.contains("there already"), "{messages}");
    let (code, _, messages) = run(folder.path(), &["sim", "nfvnice-chain", "--report", "/dev/null/x"]);
    assert!(code == 3 && messages.contains("cannot be made"), "{messages}");
    let words = ["sim", "nfvnice-chain", "--set", "horizon=5000000", "--case", "normal.os"];
    let (code, _, messages) = run(folder.path(), &[&words[..], &["--report", "none"]].concat());
    assert!(code == 0 && !messages.contains("report"), "{messages}");
    // A run that is refused leaves no empty folder.
    let place = folder.path().join("new");
    let (code, ..) =
        run(folder.path(), &["sim", "nfvnice-chain", "--set", "x=1", "--report", place.to_str().unwrap()]);
    assert!(code == 2 && !place.exists());
}

#[test]
fn without_a_wish_it_lies_below_the_current_folder_or_the_run_goes_on_without() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["sim", "nfvnice-chain", "--set", "horizon=5000000", "--case", "normal.os"];
    let of = |base: Option<&str>| {
        let mut command = headgate(folder.path(), &words);
        command.current_dir(folder.path()).env_remove("HEADGATE_REPORTS");
        command.envs(base.map(|base| ("HEADGATE_REPORTS", base)));
        told(command.output().unwrap())
    };
    let (code, _, messages) = of(None);
    let line = messages.lines().last().unwrap();
    let path = line.strip_prefix("headgate: report: headgate-reports/sim-nfvnice-chain-").unwrap_or_default();
    assert!(code == 0 && path.ends_with("/report.html"), "{messages}");
    assert!(folder.path().join(line.trim_start_matches("headgate: report: ")).is_file());
    let (code, data, messages) = of(Some("/dev/null"));
    assert!(code == 0 && !data.is_empty() && messages.contains("no report is left: /dev/null"), "{messages}");
}

#[test]
fn a_full_disk_loses_the_report_and_not_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("full");
    let mut command = std::process::Command::new("prlimit");
    let words = ["sim", "nfvnice-chain", "--set", "horizon=5000000", "--case", "normal.os", "--report"];
    // Files of more than 4 KiB cannot be written; the signal for it is ignored, so that the write fails.
    command.args(["--fsize=4096", "env", "--ignore-signal=XFSZ", common::HEADGATE]).args(words).arg(&place);
    let (code, data, messages) = told(command.output().unwrap());
    assert!(code == 1 && data.contains("normal.os"), "{code} {data} {messages}");
    assert!(
        messages.contains("the report cannot be written") && messages.contains("File too large"),
        "{messages}"
    );
    assert!(!place.exists(), "nothing half is left");
}

#[test]
fn two_reports_are_compared_and_what_is_none_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] =
        [left(folder.path(), "one", &[]), left(folder.path(), "other", &["--set", "costs.switch_ns=20000"])];
    let words = |one: &Path, other: &Path| {
        ["report", "compare", one.to_str().unwrap(), other.to_str().unwrap()].map(str::to_owned)
    };
    let compared = |one: &Path, other: &Path, json: bool| {
        let words = words(one, other);
        let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
        all.extend(json.then_some("--json"));
        run(folder.path(), &all)
    };
    let (code, data, messages) = compared(&one, &other, true);
    assert_eq!(code, 0, "{messages}");
    let found: Json = serde_json::from_str(&data).unwrap();
    let values = found["values"].as_array().unwrap();
    let value = values.iter().find(|value| value["name"] == "normal.os").unwrap();
    let ratio = value["ratio"].as_f64().unwrap();
    assert!(ratio > 0.0 && ratio < 1.0 && value["interval"].is_null(), "{value}");
    // A figure that one of them has not, a name that it alone has, another machine.
    let file = other.join("report.json");
    let mut changed = json_of(&file);
    changed["values"][0]["median"] = Json::Null;
    changed["values"][1]["name"] = json!("new\u{1b}[31m");
    changed["environment"]["run"]["machine"]["kernel"] = json!("another");
    fs::write(&file, changed.to_string()).unwrap();
    let (code, data, messages) = compared(&one, &other, false);
    assert_eq!(code, 0, "{messages}");
    for wanted in
        ["the environments differ", "another", "the second has no figure", "only in the second: new"]
    {
        assert!(data.contains(wanted), "{wanted}: {data}");
    }
    assert!(data.find("differ").unwrap() < data.find("second/first").unwrap() && !data.contains('\u{1b}'));
    fs::write(&file, "{").unwrap();
    let (code, _, messages) = compared(&one, &other, false);
    assert!(code == 1 && messages.contains("holds no report"), "{messages}");
    let (code, _, messages) = compared(&one, &folder.path().join("nowhere"), false);
    assert!(code == 2 && messages.contains("is no report: give a folder"), "{messages}");
}
