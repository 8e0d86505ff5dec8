//! Profiles, taken by the command as people do it. Figures depend on the machine and are not judged here.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Running, configuration, eventually, headgate, name_of, run, told, written};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

/// Makes a folder with kept costs of a machine; measuring them takes ten seconds and a quiet machine.
fn with_costs(folder: &Path) -> PathBuf {
    let state = folder.join("state");
    fs::create_dir_all(&state).unwrap();
    let machine = serde_json::to_value(headgate_host::perf::machine::Identity::observe()).unwrap();
    let of_policy = serde_json::json!({ "switch_ns": 1000.0, "call_ns": 100.0 });
    let costs = serde_json::json!({
        "measured_at": 1, "caches": machine["caches"],
        "curve": [{ "bytes": 4096, "random_ns": 2.0, "stride_ns": [1.0, 1.0, 1.0, 1.0] }],
        "translation_l2_ns": 2.0, "walk_ns": 20.0,
        "kernel": { "normal": of_policy, "batch": of_policy, "rr": of_policy, "fifo": of_policy },
        "limitations": [],
    });
    let kept = serde_json::json!({ "machine": machine, "costs": costs });
    fs::write(state.join("machine-costs.json"), kept.to_string()).unwrap();
    state
}

/// The command, which keeps its state in the folder.
fn profile(folder: &Path, words: &[&str]) -> Command {
    let mut command = headgate(folder, words);
    command.env("HEADGATE_STATE", folder.join("state"));
    command
}

fn asked(folder: &Path, words: &[&str]) -> (i32, String, String) {
    told(profile(folder, words).output().unwrap())
}

fn started(folder: &Path, name: &str) -> (Running, String) {
    let file = written(folder, &configuration(name));
    let running = Running::start(headgate(folder, &["up", &file]));
    eventually("packets pass", || {
        let (code, data, _) = run(folder, &["--json", "status", "--name", name]);
        code == 0 && json(&data)["nfs"].as_array().unwrap().iter().all(|nf| nf["returned"].as_u64() > Some(0))
    });
    (running, file)
}

#[test]
fn a_running_chain_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("profile"));
    with_costs(folder);
    let (_manager, file) = started(folder, &name);
    let left = folder.join("left");
    let words =
        ["--json", "profile", "chain", "through", "--name", &name, "--seconds", "1", "--config", &file];
    let more = ["--tune", "--report", left.to_str().unwrap()];
    let (code, data, messages) = asked(folder, &[&words[..], &more].concat());
    assert_eq!(code, 0, "{messages}");
    let document = json(&data);
    let report = &document["profile"];
    let nfs: Vec<&str> =
        report["nfs"].as_array().unwrap().iter().map(|nf| nf["nf"].as_str().unwrap()).collect();
    assert_eq!(nfs, ["first", "second"]);
    let chain = &report["chains"][0];
    assert_eq!((&chain["chain"], &report["chains"][1]), (&Json::from("through"), &Json::Null));
    assert!(chain["packets_per_second"].as_f64().unwrap() > 0.0, "{chain}");
    // The sum of what was counted, of both NFs, is what the chain has.
    let of = |value: &Json, source: &str| value["latency_ns"]["by_source"][source].as_f64();
    for source in ["context_switches", "system_calls", "scheduler_wait", "data_dram"] {
        let sum =
            of(&report["nfs"][0], source).zip(of(&report["nfs"][1], source)).map(|(one, two)| one + two);
        let found = of(chain, source);
        assert_eq!(found.is_some(), sum.is_some(), "{source}");
        assert!(found.zip(sum).is_none_or(|(found, sum)| (found - sum).abs() < 1e-6), "{source}");
    }
    assert!(of(chain, "context_switches").is_some() && of(chain, "scheduler_wait").is_some());
    assert!(chain["ratios"]["contention_over_runtime"].as_f64().unwrap() >= 0.0);
    assert!(!chain["first"].as_str().unwrap().is_empty());
    // What this machine cannot count is said.
    let whole = chain["latency_ns"]["whole"] == true;
    assert!(whole || !report["notes"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(left.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Chain through") && !page.contains("<script"), "{page}");
    for proposal in document["tuning"]["proposals"].as_array().unwrap() {
        assert!(proposal["lines"].as_str().unwrap().contains("[[nf]]") && proposal["verdict"].is_null());
    }
}

/// Whether a change is kept depends on the machine; that the manager then runs what is said does not.
#[test]
fn what_is_tried_is_kept_or_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("tune"));
    with_costs(folder);
    let (_manager, file) = started(folder, &name);
    let words =
        ["--json", "profile", "chain", "through", "--name", &name, "--seconds", "1", "--no-functions"];
    let (code, data, messages) =
        asked(folder, &[&words[..], &["--config", &file, "--tune", "--apply"]].concat());
    assert_eq!(code, 0, "{messages}");
    let proposals = json(&data)["tuning"]["proposals"].as_array().unwrap().clone();
    let fused = proposals
        .iter()
        .any(|one| one["verdict"]["kept"] == true && one["lines"].as_str().unwrap().contains("fuse"));
    let (_, data, _) = run(folder, &["--json", "show", "chains", "--name", &name]);
    let chains = json(&data);
    let chain = chains.as_array().unwrap().iter().find(|chain| chain["name"] == "through").unwrap();
    let expected = if fused { vec!["first-second"] } else { vec!["first", "second"] };
    assert_eq!(chain["stages"], Json::from(expected), "{proposals:?}");
    let (code, text, _) = run(folder, &["status", "--name", &name]);
    assert!(code == 0 && text.contains("accounts hold"), "{text}");
}

#[test]
fn an_nf_has_a_cost_that_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    if headgate_host::cores::allowed().unwrap().len() < 2 {
        let (code, _, messages) = asked(folder, &["profile", "nf", "forward"]);
        assert!(code == 3 && messages.contains("one core is not enough"), "{messages}");
        return;
    }
    let words = ["--json", "profile", "nf", "synthetic", "--args", r#"{"cycles": 20000}"#, "--windows", "3"];
    let (code, data, messages) = asked(folder, &words);
    assert_eq!(code, 0, "{messages}");
    let cost = &json(&data)["cost"];
    // It spins so long by the clock; what a hypervisor takes of that is no CPU time.
    assert!(cost["cost_cycles"].as_f64().unwrap() > 10_000.0, "{cost}");
    assert_eq!(cost["sizes"].as_array().unwrap().len(), 6);
    let kept = fs::read_to_string(folder.join("state/nf-costs.json")).unwrap();
    assert_eq!(json(&kept)["nfs"][r#"synthetic {"cycles":20000}"#]["runs"], "synthetic");
}

/// A capture of so many short frames that no NF knows anything about.
fn capture_of(packets: u32) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    for number in 0..packets {
        file.extend([0, number, 60, 60].map(u32::to_le_bytes).concat());
        file.extend([0x5a; 60]);
    }
    file
}

#[test]
fn a_cache_simulator_tells_accesses_apart_or_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("simulate"));
    with_costs(folder);
    let (_manager, file) = started(folder, &name);
    let words = ["--json", "profile", "chain", "--name", &name, "--seconds", "1", "--no-functions"];
    let capture = folder.join("in.pcap");
    fs::write(&capture, capture_of(500)).unwrap();
    let words = [&words[..], &["--config", &file, "--simulate-cache", capture.to_str().unwrap()]].concat();
    let mut without = profile(folder, &words);
    let (code, _, messages) = told(without.env("PATH", folder).output().unwrap());
    assert!(code == 3 && messages.contains("apt-get install valgrind"), "{messages}");
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let (code, data, messages) = asked(folder, &words);
    assert_eq!(code, 0, "{messages}");
    let report = &json(&data)["profile"];
    let of = |nf: usize| {
        let simulated = &report["nfs"][nf]["simulated"];
        assert_eq!(simulated["packets"], 500, "{simulated}");
        let accesses: f64 = (0..4).map(|level| simulated["per_packet"][level].as_f64().unwrap()).sum();
        assert!(simulated["instructions"].as_f64().unwrap() > accesses, "{simulated}");
        accesses
    };
    // The first lets packets pass without reading them, the second reads each.
    let (forward, monitor) = (of(0), of(1));
    assert!(forward < 1.0 && monitor > 1.0, "{forward} {monitor}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("simulated, not measured"), "{notes}");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("refused"));
    with_costs(folder);
    let (code, _, messages) = asked(folder, &["profile", "chain", "--name", &name]);
    assert!(code == 1 && messages.contains("headgate up FILE"), "{messages}");
    let (_manager, file) = started(folder, &name);
    let chain = |more: &[&str]| asked(folder, &[&["profile", "chain", "--name", &name], more].concat());
    let (code, _, messages) = chain(&["nowhere"]);
    assert!(code == 1 && messages.contains("there are: through"), "{messages}");
    let (code, _, messages) = chain(&["--tune"]);
    assert!(code == 2 && messages.contains("--config"), "{messages}");
    let (code, _, messages) = chain(&["--simulate-cache", "7"]);
    assert!(code == 2 && messages.contains("64 to 1518"), "{messages}");
    let (code, _, messages) = chain(&["--seconds", "1", "--no-functions", "--simulate-cache", "no.pcap"]);
    assert!(code == 2 && messages.contains("no such capture"), "{messages}");
    let other = fs::read_to_string(&file).unwrap().replace("[\"first\", \"second\"]", "[\"second\"]");
    fs::write(&file, other).unwrap();
    let (code, _, messages) = chain(&["--config", &file]);
    assert!(code == 4 && messages.contains("headgate apply"), "{messages}");

    let (code, _, messages) = asked(folder, &["profile", "nf", "nosuch"]);
    assert!(code == 3 || code == 4 && messages.contains("not shipped"), "{messages}");
    let (code, _, messages) = asked(folder, &["profile", "nf", "forward", "--args", "[]"]);
    assert!(code == 2 && messages.contains("JSON object"), "{messages}");
    let costs = folder.join("state/machine-costs.json");
    let text = fs::read_to_string(&costs).unwrap();
    let here = headgate_host::perf::machine::Identity::observe().kernel;
    fs::write(&costs, text.replace(&here, "2.0.1")).unwrap();
    let (code, _, messages) = asked(folder, &["profile", "machine", "--kept"]);
    assert!(code == 3 && messages.contains("2.0.1") && messages.contains("measure again"), "{messages}");
    fs::remove_file(&costs).unwrap();
    let (code, _, messages) = asked(folder, &["profile", "machine", "--kept"]);
    assert!(code == 1 && messages.contains("headgate profile machine"), "{messages}");
}
