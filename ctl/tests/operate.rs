//! What is changed and asked of a manager that runs: configuration, rules, single NFs, bundles, completions.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Running, complete, configuration, eventually, headgate, name_of, run, told, written};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

/// A manager whose NF `first` has two instances and a secret in its arguments.
fn started(folder: &Path, name: &str) -> (Running, String) {
    let text = configuration(name).replacen("run = \"forward\"\n", "run = \"forward\"\ninstances = 2\n", 1);
    let file = written(folder, &text);
    let manager = Running::start(headgate(folder, &["up", &file]));
    eventually("the manager's NFs are in service", || {
        let (code, data, _) = run(folder, &["--json", "show", "nfs", "--name", name]);
        code == 0 && json(&data).as_array().unwrap().iter().all(|nf| nf["state"] == "running")
    });
    (manager, file)
}

#[test]
fn rules_and_nfs_change_without_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("operate"));
    let (_manager, file) = started(folder, &name);
    let ask = |words: &[&str]| run(folder, &[words, &["--name", &name]].concat());
    let ok = |words: &[&str]| {
        let (code, data, messages) = ask(words);
        assert_eq!(code, 0, "{words:?}: {data} {messages}");
        data
    };

    // What runs is what the file says, so nothing would change.
    assert_eq!(ok(&["show", "config"]), fs::read_to_string(&file).unwrap());
    let (code, data, _) = run(folder, &["diff", &file]);
    assert_eq!((code, data.as_str()), (0, "nothing to change\n"));

    // One rule more, and its count beside that of the first, which every flow asked once.
    let rule = "protocol = \"tcp\", chain = \"through\"";
    let added = ok(&["rule", "add", rule, "--place", "1"]);
    assert_eq!(added, "rule 1 added: tcp, to chain through\n");
    eventually("all flows have asked", || {
        let rules = json(&ok(&["--json", "rule", "list"]));
        rules["rules"][1]["flows"].as_u64().unwrap() >= 100
    });
    let rules = json(&ok(&["--json", "show", "rules"]));
    assert_eq!((&rules["rules"][0]["flows"], &rules["unmatched_packets"]), (&0.into(), &0.into()));
    let running = json(&ok(&["--json", "show", "config"]));
    assert!(running["edited"] == true && running["text"].as_str().unwrap().contains("protocol = \"tcp\""));
    let (code, data, _) = run(folder, &["diff", &file]);
    assert_eq!((code, data.as_str()), (5, "rule 1 removed: tcp, to chain through\n"));
    for (words, wanted, says) in [
        (["rule", "add", "chain = \"thruogh\""], 4, "did you mean"),
        (["rule", "add", "protocol = tcp"], 4, "not written as in a file"),
        (["rule", "delete", "9"], 4, "there is no rule 9; rules are 1 to 2"),
        (["restart", "frist", "--json"], 1, "did you mean `first`?"),
        (["drain", "third", "--json"], 1, "there is no NF named"),
    ] {
        let (code, data, messages) = ask(&words);
        let said = format!("{data}{messages}").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == wanted && said.contains(says), "{words:?}: {code}: {said}");
    }
    assert_eq!(ok(&["rule", "delete", "1"]), "rule 1 removed: tcp, to chain through\n");

    // New processes, one instance after the other.
    let pids = || -> Vec<Json> {
        let nfs = json(&ok(&["--json", "show", "nfs"]));
        nfs.as_array().unwrap().iter().map(|nf| nf["pid"].clone()).collect()
    };
    let before = pids();
    assert_eq!(ok(&["restart", "first"]), "nf first.1 restarted\nnf first.2 restarted\n");
    let after = pids();
    assert!(
        after.len() == 3 && before.iter().filter(|pid| after.contains(pid)).count() == 1,
        "{before:?} {after:?}"
    );
    assert_eq!(ok(&["drain", "first.2"]), "nf first.2 drained\n");
    assert_eq!(ok(&["drain", "first.2"]), "nothing to change\n");
    let (code, _, messages) = ask(&["drain", "first.1"]);
    let messages = messages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 1 && messages.contains("would lose every packet"), "{messages}");
    assert!(ok(&["show", "nfs"]).contains("gone"));
    assert_eq!(ok(&["restart", "first.2"]), "nf first.2 restarted\n");
    assert!(!ok(&["show", "nfs"]).contains("gone"));
    // Packets may pass the second one by.
    ok(&["drain", "second"]);
    ok(&["restart", "second"]);
    assert!(ok(&["status"]).contains("accounts hold"));
}

#[test]
fn a_bundle_has_everything_but_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("bundle"));
    let text = configuration(&name).replacen(
        "run = \"forward\"\n",
        "exec = [\"/bin/false\", \"--token=s3cret\"]\nargs = { psk = \"s3cret\" }\n",
        1,
    );
    let file = written(folder, &text);
    let _manager = Running::start(headgate(folder, &["up", &file]));
    eventually("the manager answers", || run(folder, &["status", "--name", &name]).0 == 0);
    let archive = folder.join("report.tar");
    let archive = archive.to_str().unwrap();
    let (code, data, messages) = run(folder, &["bundle", archive, "--name", &name]);
    assert_eq!((code, data.trim_end()), (0, archive), "{messages}");
    let unpacked = folder.join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    assert!(Command::new("tar").args(["xf", archive, "-C"]).arg(&unpacked).status().unwrap().success());
    let read = |name: &str| fs::read_to_string(unpacked.join("headgate-bundle").join(name)).unwrap();
    for (name, says) in [
        ("versions.json", env!("CARGO_PKG_VERSION")),
        ("machine.json", "\"checks\""),
        ("status.json", "\"conserved\": true"),
        ("rules.json", "from port generator"),
        ("configuration.toml", "(left out)"),
        ("metrics.txt", "headgate_up 1.0"),
        ("events.json", "["),
        ("README.txt", "Left out"),
    ] {
        let text = read(name);
        assert!(text.contains(says), "{name}: {text}");
        assert!(!text.contains("s3cret"), "{name}: {text}");
    }
    // Nothing is overwritten.
    let (code, _, messages) = run(folder, &["bundle", archive, "--name", &name]);
    assert!(code == 3 && messages.contains("already"), "{messages}");
}

/// A bundle of a manager that is gone says so, and one that finds no room leaves nothing.
#[test]
fn a_bundle_without_a_manager_or_without_room_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("none"));
    let archive = folder.join("report.tar");
    let words = ["--json", "bundle", archive.to_str().unwrap(), "--name", &name];
    let (code, data, messages) = run(folder, &words);
    assert_eq!(code, 0, "{messages}");
    let told_parts = json(&data);
    assert!(told_parts["missing"][0].as_str().unwrap().contains("no manager named"), "{data}");
    assert!(told_parts["parts"].as_array().unwrap().contains(&"missing.txt".into()), "{data}");
    fs::remove_file(&archive).unwrap();
    // A limit of the size of files is met as a full disk is: in the middle of a write.
    let mut limited = headgate(folder, &words);
    let program = limited.get_program().to_owned();
    let arguments: Vec<_> = limited.get_args().map(ToOwned::to_owned).collect();
    limited = {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"]).arg(program).args(arguments);
        shell.env("XDG_RUNTIME_DIR", folder);
        shell
    };
    let (code, data, messages) = told(limited.output().unwrap());
    assert_eq!(code, 3, "{data} {messages}");
    assert!(data.contains("nothing is left of it") && !archive.exists(), "{data}");
}

#[test]
fn completions_know_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("complete"));
    let (_manager, _) = started(folder, &name);
    let complete = |words: &[&str]| complete(folder, words);
    let has = |found: &[String], word: &str| found.iter().any(|one| one == word);
    assert!(has(&complete(&["sta"]), "status"));
    assert!(has(&complete(&["status", "--name", ""]), &name));
    let nfs = complete(&["tell", "--name", &name, ""]);
    assert!(has(&nfs, "first") && has(&nfs, "first.2") && has(&nfs, "second"), "{nfs:?}");
    assert!(has(&complete(&["top", "--name", &name, "--chain", ""]), "through"));
    // The programs of benchmarks are known too.
    assert!(has(&complete(&["bench", "hop", "--rou"]), "--rounds"));
    // A name that nobody has gets the nearest.
    let (code, _, messages) = run(folder, &["status", "--name", &name[..name.len() - 1]]);
    let messages = messages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 1 && messages.contains(&format!("`--name {name}`")), "{messages}");
}
