//! `headgate sim` over files: what is modelled, and what is refused because it is not.

mod common;

use std::fs;
use std::path::Path;

use common::{run, written};
use serde_json::{Value as Json, json};

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/examples/what-if.toml");
    fs::read_to_string(path).unwrap()
}

fn simulated(folder: &Path, words: &[&str]) -> Json {
    let (code, data, messages) = run(folder, &[&["--json", "sim"], words].concat());
    assert_eq!(code, 0, "{messages}");
    serde_json::from_str(&data).unwrap()
}

#[test]
fn a_configuration_is_modelled_and_its_seed_gives_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), &example());
    let first = simulated(folder.path(), &[&file]);
    let report = &first["cases"][0]["report"];
    let (nf, chain) = (&report["nfs"][2], &report["chains"][0]);
    assert_eq!((&nf["name"], &chain["name"]), (&json!("work"), &json!("edge")));
    // Two of three milliseconds at 3 Mpps, on average.
    let offered = chain["offered"].as_f64().unwrap();
    assert!((1.5e6..2.5e6).contains(&offered), "{offered}");
    assert!(chain["left"].as_f64().unwrap() > 1e6 && nf["cpu_percent"].as_f64().unwrap() > 30.0, "{report}");
    assert_eq!(first, simulated(folder.path(), &[&file]));
    let other = simulated(folder.path(), &[&file, "--seed", "2"]);
    assert_ne!(report["digest"], other["cases"][0]["report"]["digest"]);
    let slower = simulated(folder.path(), &[&file, "--set", "nfs.2.cost.uniform.least=700"]);
    assert_ne!(report["digest"], slower["cases"][0]["report"]["digest"]);
}

#[test]
fn a_sweep_has_a_line_for_each_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), &example());
    let words =
        ["sim", &file, "--set", "horizon=20000000", "--sweep", "costs.switch_ns=0..9000", "--steps", "2"];
    let (code, data, messages) = run(folder.path(), &[&words[..], &["--csv"]].concat());
    assert_eq!(code, 0, "{messages}");
    let of = |value: u32| {
        let start = format!("run[costs.switch_ns={value}],all,Mpps,");
        data.lines().find_map(|line| line.strip_prefix(&start).map(|figure| figure.parse::<f64>().unwrap()))
    };
    assert!(of(0).unwrap() > 0.5 && of(9000).unwrap() > 0.5 && of(4500).is_none(), "{data}");
}

#[test]
fn what_is_not_modelled_is_refused_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = example()
        .replace("kind = \"null\"", "kind = \"null\"\nfaults = { loss = 0.1 }")
        .replace("{ name = \"filter\", cycles = 180 }, ", "");
    let file = written(folder.path(), &text);
    let (code, data, messages) = run(folder.path(), &["sim", &file]);
    assert_eq!((code, data.as_str()), (4, ""), "{messages}");
    for wanted in
        ["faults of ports", ":18:1", "what a packet costs the NF `filter`", "help: add `[[sim.nf]]`"]
    {
        assert!(messages.contains(wanted), "{messages}");
    }
    let (code, _, messages) = run(folder.path(), &["sim", "nowhere.toml"]);
    assert!(code == 2 && messages.contains("no file and no scenario `nowhere.toml`"), "{messages}");
    let (code, _, messages) = run(folder.path(), &["sim", &file, "--sweep", "seed=9..1"]);
    assert!(code == 4 || messages.contains("the lower first"), "{messages}");
}

#[test]
fn a_scene_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        ("{", "EOF"),
        ("{\"seed\": 1}", "missing field"),
        ("{\"seed\": -1}", "invalid value"),
        ("[1e999]", "number out of range"),
    ] {
        let path = folder.path().join("bad.scene.json");
        fs::write(&path, text).unwrap();
        let (code, data, messages) = run(folder.path(), &["sim", path.to_str().unwrap()]);
        assert_eq!((code, data.as_str()), (4, ""), "{text}: {messages}");
        assert!(messages.contains(wanted), "{text}: {messages}");
    }
}

#[test]
fn a_swarm_runs_the_seeds_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (code, data, messages) = run(folder.path(), &["--json", "sim", "swarm", "--seeds", "5..25"]);
    let document: Json = serde_json::from_str(&data).unwrap();
    assert_eq!(code, 0, "{messages}");
    assert_eq!(document, json!({ "first_seed": 5, "seeds": 20, "failing": [] }), "{messages}");
    for wrong in ["5", "5..5", "9..1", "x..1"] {
        let (code, _, messages) = run(folder.path(), &["sim", "swarm", "--seeds", wrong]);
        assert!(code == 2 && messages.contains("the lower first"), "{messages}");
    }
    let (code, _, messages) = run(folder.path(), &["sim", "shrink", "--seed", "5"]);
    assert!(code == 1 && messages.contains("everything holds in the scene of seed 5"), "{messages}");
}

#[test]
fn a_timeline_is_a_trace_of_the_run_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), &example());
    let trace = folder.path().join("run.trace.json");
    let trace = trace.to_str().unwrap();
    let without = simulated(folder.path(), &[&file]);
    assert_eq!(without, simulated(folder.path(), &[&file, "--timeline", trace]));
    let written: Json = serde_json::from_str(&fs::read_to_string(trace).unwrap()).unwrap();
    let events = written["traceEvents"].as_array().unwrap();
    let named =
        |kind: &str, name: &str| events.iter().any(|event| event["ph"] == kind && event["name"] == name);
    assert!(named("M", "thread_name") && named("X", "work") && named("X", "filter"), "{}", events.len());
    let lasts = |event: &&Json| event["ph"] == "X" && event["pid"] == 1 && event["tid"] == 1;
    let busy: f64 = events.iter().filter(lasts).map(|event| event["dur"].as_f64().unwrap()).sum();
    assert!((1e5..=8e5).contains(&busy), "of 800 ms: {busy} us");
    let (code, _, messages) = run(folder.path(), &["sim", &file, "--timeline", "/dev/full"]);
    assert!(code == 3 && messages.contains("cannot write /dev/full"), "{code} {messages}");
    let (code, _, messages) = run(folder.path(), &["sim", "nfvnice-chain", "--timeline", trace]);
    assert!(code == 2 && messages.contains("choose a case with --case"), "{messages}");
}

/// Two packets of a classic capture in microseconds, one behind the other by 500 us.
fn capture() -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    for word in [0u32, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for us in [0u32, 500] {
        for word in [1, us, 60, 60] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend([0; 60]);
    }
    bytes
}

#[test]
fn costs_faults_pauses_and_captures_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let traffic = "rate = \"3M\"\narrivals = \"on-off\"\non = \"2ms\"\noff = \"1ms\"";
    let text = example()
        .replace("horizon = \"500ms\"", "horizon = \"500ms\"\ncost_file = \"mine.costs\"")
        .replace("cycles = 220 }", "cycles = 220, pause_every = 100, pause = \"50us\" }")
        .replace(traffic, "arrivals = \"capture\"\ncapture = \"two.pcap\"")
        + "\n[[sim.fault]]\nnf = \"work\"\nat = \"400ms\"\nwhat = \"kill\"\n";
    let file = written(folder.path(), &text);
    fs::write(folder.path().join("two.pcap"), capture()).unwrap();
    fs::write(folder.path().join("mine.costs"), "start_ns = 9_000_000 # slow\n").unwrap();
    let report = &simulated(folder.path(), &[&file])["cases"][0]["report"];
    let offered = report["chains"][0]["offered"].as_f64().unwrap();
    assert!((1_990.0..=2_010.0).contains(&offered), "two packets each millisecond: {report}");
    let lives = report["lives"].as_array().unwrap();
    assert_eq!(lives[1]["what"], "is in service again, 9000 us after its start", "{report}");
    fs::write(folder.path().join("mine.costs"), "start = 9\nswitch_ns = -1\n").unwrap();
    let (code, _, messages) = run(folder.path(), &["sim", &file]);
    let wanted =
        ["mine.costs: line 1: there is no cost `start`", "line 2: `-1` of switch_ns is no whole number"];
    assert!(code == 4 && wanted.iter().all(|words| messages.contains(words)), "{code} {messages}");
    fs::write(folder.path().join("mine.costs"), "").unwrap();
    fs::write(folder.path().join("two.pcap"), &capture()[..60]).unwrap();
    let (code, _, messages) = run(folder.path(), &["sim", &file]);
    assert!(code == 4 && messages.contains("two.pcap: "), "{code} {messages}");
}

#[test]
fn a_changed_value_is_compared_over_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--json", "sim", "compare", "--scenario", "hop", "--set", "costs.nf_packet_ps=80000"];
    let (code, data, messages) = run(folder.path(), &words);
    assert_eq!(code, 0, "{messages}");
    let document: Json = serde_json::from_str(&data).unwrap();
    let one = document["values"].as_array().unwrap().iter().find(|value| value["value"] == "one").unwrap();
    let [before, after] = ["before", "after"].map(|when| one[when].as_f64().unwrap());
    assert!(after < 0.7 * before, "{one}");
    let (code, _, messages) = run(folder.path(), &["sim", "compare", "--scenario", "no", "--set", "seed=2"]);
    assert!(code == 2 && messages.contains("no scenario begins with `no`"), "{code} {messages}");
}
