//! The command line's conventions, without a manager.

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::{HEADGATE, complete, configuration, headgate, run, told, written};
use serde_json::Value as Json;

const COMMANDS: [&str; 31] = [
    "demo",
    "doctor",
    "check",
    "up",
    "lab",
    "down",
    "apply",
    "diff",
    "rule",
    "restart",
    "drain",
    "failover",
    "migrate",
    "warn",
    "cluster",
    "status",
    "top",
    "show",
    "trace",
    "capture",
    "observe",
    "metrics",
    "serve",
    "tell",
    "profile",
    "bench",
    "sim",
    "replay",
    "report",
    "bundle",
    "completions",
];
/// Commands of commands.
const PROFILES: [&str; 3] = ["chain", "nf", "machine"];
const SIMS: [&str; 2] = ["swarm", "shrink"];
const REPORTS: [&str; 1] = ["compare"];
const RULES: [&str; 3] = ["list", "add", "delete"];
/// Those of `cluster`.
const CLUSTERS: [&str; 4] = ["status", "prices", "path", "apply"];

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

/// Compares the help texts with a committed file, so that a change is a readable diff.
#[test]
fn help_is_as_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = run(folder.path(), &["--help"]).1;
    for command in COMMANDS.iter().filter(|command| **command != "bench") {
        text += &format!("\n$ headgate {command} --help\n{}", run(folder.path(), &[command, "--help"]).1);
    }
    let of_profile = PROFILES.map(|command| ["profile", command]);
    for [command, of_it] in of_profile.into_iter().chain(SIMS.map(|command| ["sim", command])) {
        let help = run(folder.path(), &[command, of_it, "--help"]).1;
        text += &format!("\n$ headgate {command} {of_it} --help\n{help}");
    }
    for of_it in CLUSTERS {
        let help = run(folder.path(), &["cluster", of_it, "--help"]).1;
        text += &format!("\n$ headgate cluster {of_it} --help\n{help}");
    }
    let of_report = REPORTS.map(|command| ["report", command]);
    for [command, of_it] in of_report.into_iter().chain(RULES.map(|command| ["rule", command])) {
        let help = run(folder.path(), &[command, of_it, "--help"]).1;
        text += &format!("\n$ headgate {command} {of_it} --help\n{help}");
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help.txt");
    if std::env::var_os("HEADGATE_COMMIT").is_some() {
        fs::write(&committed, &text).unwrap();
    }
    let expected = fs::read_to_string(&committed).unwrap();
    assert!(
        text == expected,
        "the help differs from {}; if it is better, run this test with HEADGATE_COMMIT=1:\n{text}",
        committed.display()
    );
}

#[test]
fn the_guide_has_every_command() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/commands.md");
    let guide = fs::read_to_string(guide).unwrap();
    for command in COMMANDS {
        assert!(guide.contains(&format!("## headgate {command}")), "{command}");
    }
}

#[test]
fn wrong_usage_is_2_and_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    for words in
        [&["upp"][..], &["show"], &["show", "nothing"], &["up"], &["check"], &["demo", "--seconds", "0"]]
    {
        let (code, data, messages) = run(folder.path(), words);
        assert_eq!((code, data.as_str()), (2, ""), "{words:?}");
        assert!(messages.contains("Usage") || messages.contains("For more information"), "{messages}");
    }
    for words in [["--json", "status", "--watch"].as_slice(), &["--json", "top"]] {
        let (code, data, _) = run(folder.path(), words);
        assert_eq!((code, &json(&data)["error"]["kind"]), (2, &Json::from("usage")), "{words:?}");
    }
    let (code, data, messages) = run(folder.path(), &["top"]);
    assert_eq!((code, data.as_str()), (2, ""));
    assert!(messages.contains("--once"), "{messages}");
}

#[test]
fn a_plan_and_a_finding_are_documents_too() {
    let folder = tempfile::tempdir().unwrap();
    let good = written(folder.path(), &configuration("documents"));
    let (code, data, _) = run(folder.path(), &["check", &good, "--json"]);
    let document = json(&data);
    assert_eq!((code, &document["valid"]), (0, &Json::Bool(true)));
    assert_eq!(document["plan"]["chains"][0]["stages"], serde_json::json!(["first", "second"]));

    let bad = written(folder.path(), &configuration("documents").replace("out = \"sink\"", "out = \"snik\""));
    let (code, data, messages) = run(folder.path(), &["check", &bad, "--json"]);
    let document = json(&data);
    assert_eq!((code, &document["valid"], messages.as_str()), (4, &Json::Bool(false), ""));
    assert_eq!(document["diagnostics"][0]["code"], "undefined-port");
    assert!(document["diagnostics"][0]["line"].as_u64() > Some(1));

    let (code, data, messages) = run(folder.path(), &["up", &bad, "--json"]);
    let refused = &json(&data)["error"];
    assert_eq!((code, &refused["kind"]), (4, &Json::from("configuration")), "{messages}");
    assert_eq!(refused["detail"]["diagnostics"], document["diagnostics"]);
}

#[test]
fn mistakes_are_shown_with_place_and_cure() {
    let folder = tempfile::tempdir().unwrap();
    let bad =
        written(folder.path(), &configuration("mistakes").replace("run = \"monitor\"", "run = \"monitro\""));
    for command in ["check", "up", "apply"] {
        let (code, data, messages) = run(folder.path(), &[command, &bad]);
        assert_eq!((code, data.as_str()), (4, ""), "{command}");
        assert!(messages.contains("error[unknown-nf]: no NF `monitro` is shipped"), "{messages}");
        assert!(messages.contains("headgate.toml:24:7") && messages.contains("help: "), "{messages}");
    }
}

#[test]
fn an_nf_says_itself_what_it_does_not_take() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        configuration("arguments").replace("run = \"forward\"", "run = \"forward\"\nargs = { to = 7 }");
    let bad = written(folder.path(), &text);
    for command in ["check", "up"] {
        let (code, _, messages) = run(folder.path(), &[command, &bad]);
        assert_eq!(code, 4, "{messages}");
        assert!(messages.contains("error[arguments-refused]: the NF `forward` refuses `to`"), "{messages}");
        assert!(messages.contains("args = { to = 7 }"), "{messages}");
    }
}

#[test]
fn files_that_are_none_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.toml");
    let binary = folder.path().join("binary.toml");
    fs::write(&binary, b"[manager]\n\xff\xfe").unwrap();
    for (path, why) in [(missing.as_path(), "No such file"), (folder.path(), "directory"), (&binary, "UTF-8")]
    {
        let (code, _, messages) = run(folder.path(), &["check", path.to_str().unwrap()]);
        assert_eq!(code, 4, "{}", path.display());
        assert!(messages.contains("error[unreadable]") && messages.contains(why), "{messages}");
    }
}

#[test]
fn the_schema_is_the_published_one() {
    let folder = tempfile::tempdir().unwrap();
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/headgate.schema.json");
    let published = json(&fs::read_to_string(published).unwrap());
    for words in [&["check", "--schema"][..], &["check", "--schema", "--json"]] {
        let (code, data, _) = run(folder.path(), words);
        assert_eq!((code, &json(&data)), (0, &published));
    }
}

#[test]
fn without_a_manager_there_is_nobody_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = ["--name", "nobody-has-this-name"];
    for words in [&["status"][..], &["down"], &["show", "nfs"], &["show", "flows"], &["tell", "fw", "{}"]] {
        let (code, data, messages) = run(folder.path(), &[words, &nobody].concat());
        assert_eq!((code, data.as_str()), (1, ""), "{words:?}");
        assert!(messages.contains("no manager named \"nobody-has-this-name\" is running"), "{messages}");
        assert!(messages.contains("headgate up"), "{messages}");
    }
    let (code, data, _) = run(folder.path(), &[&["--json", "status"], &nobody[..]].concat());
    assert_eq!((code, &json(&data)["error"]["exit_code"]), (1, &Json::from(1)));
}

#[test]
fn without_a_program_that_it_starts_it_says_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    let good = written(folder.path(), &configuration("alone"));
    for (words, variable) in [
        (&["check", &good][..], "HEADGATE_NFS"),
        (&["up", &good], "HEADGATE_NFS"),
        (&["up", &good], "HEADGATE_MANAGER"),
        (&["bench", "hop"], "HEADGATE_BENCH"),
    ] {
        let mut command = headgate(folder.path(), words);
        let (code, _, messages) = told(command.env(variable, "/nonexistent").output().unwrap());
        assert_eq!(code, 3, "{words:?}: {messages}");
        assert!(messages.contains("/nonexistent") && messages.contains("cargo build"), "{messages}");
    }
}

/// The command does not link DPDK; the daemon that it starts does.
#[test]
fn the_command_loads_no_library_of_dpdk() {
    let loads = |program: &str| {
        let output = std::process::Command::new("ldd").arg(program).output().expect("there is ldd");
        String::from_utf8(output.stdout).unwrap().contains("librte_")
    };
    let beside = |name| Path::new(HEADGATE).with_file_name(name).to_str().unwrap().to_owned();
    assert!(!loads(HEADGATE) && !loads(&beside("headgate-bench")) && !loads(&beside("headgate-nfs")));
    assert!(loads(&beside("headgate-manager")));
}

#[test]
fn experiments_are_those_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let (code, help, _) = run(folder.path(), &["bench", "--help"]);
    assert!(code == 0 && help.contains("Usage: headgate bench"), "{help}");
    let (code, help, _) = run(folder.path(), &["bench", "hop", "--help"]);
    assert!(code == 0 && help.contains("Usage: headgate bench hop") && help.contains("--rounds"), "{help}");
    for words in [&["bench"][..], &["bench", "nothing"], &["bench", "scc", "nothing"]] {
        assert_eq!(run(folder.path(), words).0, 2, "{words:?}");
    }
    // Its completions are those of the whole.
    let has = |words: &[&str], word: &str| complete(folder.path(), words).iter().any(|one| one == word);
    assert!(has(&["bench", "hop", "--rou"], "--rounds") && has(&["bench", "unis", "occ"], "occupancy-rule"));
}

#[test]
fn a_reader_that_leaves_is_no_failure_and_a_full_disk_is() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let mut command = headgate(folder.path(), &["completions", "bash"]);
    let (code, _, messages) = told(command.stdout(writer).output().unwrap());
    assert_eq!((code, messages.as_str()), (0, ""));

    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let words = ["bench", "hop", "--quick", "--rounds", "1", "--only", "stations_one"];
    let (code, _, messages) = told(headgate(folder.path(), &words).stdout(writer).output().unwrap());
    assert!(code == 0 && !messages.contains("roken pipe"), "{messages}");

    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = headgate(folder.path(), &["completions", "bash"]);
    let (code, _, messages) = told(command.stdout(full).output().unwrap());
    assert_eq!(code, 1);
    assert!(messages.contains("cannot write to standard output: No space left"), "{messages}");
}

#[test]
fn nothing_is_coloured_where_no_person_looks() {
    let folder = tempfile::tempdir().unwrap();
    let (_, data, messages) = run(folder.path(), &["doctor"]);
    assert!(!data.contains('\x1b') && !messages.contains('\x1b'));
    assert!(data.contains("What needs root, and why"));
}

#[test]
fn the_doctor_has_a_verdict_for_each_check() {
    let folder = tempfile::tempdir().unwrap();
    let (code, data, _) = run(folder.path(), &["doctor", "--json"]);
    let document = json(&data);
    let checks = document["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["cores", "hugepages", "shared memory", "clock", "manager", "DPDK", "NFs", "namespaces, veth"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    for check in checks {
        let verdict = check["verdict"].as_str().unwrap();
        assert!(["ok", "warn", "fail"].contains(&verdict));
        assert!(verdict == "ok" || check["cure"].is_string() || check["found"].is_string(), "{check}");
    }
    assert_eq!(code == 5, document["verdict"] == "fail", "{data}");
}

#[test]
fn completions_know_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = run(folder.path(), &["completions", shell]);
        assert_eq!(code, 0);
        assert!(script.contains("COMPLETE"), "{shell}: the shell asks the command: {script}");
    }
    let words = complete(folder.path(), &[""]);
    for command in COMMANDS {
        assert!(words.iter().any(|word| word == command), "{command}: {words:?}");
    }
}

#[test]
fn the_demo_shows_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, _) = run(folder.path(), &["demo", "--config"]);
    assert_eq!(code, 0);
    let path = written(folder.path(), &text);
    let (code, plan, messages) = run(folder.path(), &["check", &path]);
    assert_eq!(code, 0, "{messages}");
    assert!(plan.contains("Chain main: firewall -> monitor -> router"), "{plan}");
}
