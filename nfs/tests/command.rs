//! The author's workbench: `headgate-nfs list`, `check` and `pcap`, run as people run them.

use std::path::Path;
use std::process::{Command, Output};

use headgate_nf::testing::pcap::Capture;
use serde_json::{Value, json};

fn headgate_nfs(words: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_headgate-nfs")).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_list_tells_everything_an_operator_may_write() {
    let (code, out, _) = headgate_nfs(&["list", "--json"]);
    assert_eq!(code, 0);
    let list: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<_> =
        list["nfs"].as_array().unwrap().iter().map(|nf| nf["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "cache",
            "firewall",
            "forward",
            "hello",
            "mac-swap",
            "monitor",
            "packet-logger",
            "router",
            "synthetic"
        ]
    );
    let forward = &list["nfs"][2];
    assert_eq!(forward["arguments"][0]["name"], "to");
    assert_eq!(forward["arguments"][0]["required"], false);
    let (code, out, _) = headgate_nfs(&["list"]);
    assert_eq!(code, 0);
    assert!(names.iter().all(|name| out.lines().any(|line| line == *name)));
}

#[test]
fn arguments_are_checked_before_anything_starts() {
    assert_eq!(
        headgate_nfs(&["check", "forward", r#"{"to":"anywhere"}"#]),
        (0, String::new(), String::new())
    );
    assert_eq!(headgate_nfs(&["check", "monitor"]).0, 0);
    let (code, _, err) = headgate_nfs(&["check", "forward", r#"{"two":1}"#]);
    assert_eq!((code, err.as_str()), (4, "forward: two: unknown field `two`, expected `to`\n"));
    let (code, _, err) = headgate_nfs(&["check", "forward,synthetic", r#"[{},{"cycles":-1}]"#]);
    assert_eq!(code, 4);
    assert!(err.starts_with("synthetic: cycles: `cycles` is a number"), "{err}");
    let (code, _, err) = headgate_nfs(&["check", "forward", "{"]);
    assert_eq!(code, 4);
    assert!(err.starts_with("forward: EOF"), "{err}");
}

/// What `headgate check` reads: every mistake with its path, also of names that the configuration defines.
#[test]
fn mistakes_are_printed_as_json() {
    let arguments = r#"{"rules":[{"action":"deny"},{"action":"deny","protcol":6},{"action":{"to":"dpi"}}]}"#;
    let words = ["check", "firewall", arguments, "--json", "--stages", "fw,mon"];
    let (code, out, _) = headgate_nfs(&words);
    let said: Value = serde_json::from_str(&out).unwrap();
    let mistakes = said["mistakes"].as_array().unwrap();
    assert_eq!((code, mistakes.len()), (4, 1), "names are asked for when the rest can be read: {said}");
    assert_eq!(mistakes[0]["path"], json!(["rules", 1, "protcol"]));
    assert_eq!((&mistakes[0]["kind"], &mistakes[0]["word"]), (&json!("unknown-key"), &json!("protcol")));
    assert!(mistakes[0]["known"].as_array().unwrap().contains(&json!("protocol")));

    let arguments =
        r#"{"rules":[{"action":"deny","name":"x"},{"action":{"to":"dpi"}}, {"action":"deny","name":"x"}]}"#;
    let words = ["check", "firewall", arguments, "--json", "--stages", "fw,mon"];
    let said: Value = serde_json::from_str(&headgate_nfs(&words).1).unwrap();
    let places: Vec<&Value> =
        said["mistakes"].as_array().unwrap().iter().map(|mistake| &mistake["path"]).collect();
    assert_eq!(places, [&json!(["rules", 1, "action", "to"]), &json!(["rules", 2, "name"])]);
    let (code, out, _) = headgate_nfs(&["check", "mac-swap", "{}", "--json"]);
    assert_eq!((code, out.as_str()), (0, "{\"mistakes\":[]}\n"));
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for (words, why) in [
        (&["frobnicate"][..], "there is no command `frobnicate`"),
        (&[], "a command is missing"),
        (&["check"], "NAME is missing"),
        (&["check", "farward"], "there is no network function `farward`; there are cache, firewall"),
        (&["pcap", "forward", "in"], "OUT is missing"),
        (&["pcap", "forward", "in", "out", "more"], "`more` is one word too many"),
        (&["pcap", "forward", "in", "out", "--args"], "--args needs a value"),
        (&["run", "forward", "--as", "x"], "--socket and --as belong together"),
        (&["launched"], "HEADGATE_LAUNCH is not set"),
    ] {
        let (code, out, err) = headgate_nfs(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
    assert_eq!(headgate_nfs(&["help"]).0, 0);
}

#[test]
fn a_capture_runs_through_a_chain_of_functions() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, output) = (path("in.pcap"), path("out.pcapng"));
    let mut frames: Vec<_> = (0..100u8).map(|number| vec![number; 40 + usize::from(number)]).collect();
    for frame in &mut frames {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    }
    Capture::of(&frames).write(Path::new(&input)).unwrap();
    let arguments = r#"[{"shortest":60},{},{"to":"out"}]"#;
    let words = ["pcap", "hello,mac-swap,forward", &input, &output, "--args", arguments];
    let options = ["--ports", "in,out", "--tell", "hello world", "--json"];
    let (code, out, err) = headgate_nfs(&[&words[..], &options].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        report["packets"],
        json!({ "in": 100, "next": 0, "dropped": 20, "ports": { "out": 80 }, "stages": {}, "made": 0,
            "unfit": 0 })
    );
    assert_eq!(report["counters"]["hello.ip"], 100);
    assert_eq!(report["messages"][0], "hello hello, world! 100 packets of IP so far");
    let written = Capture::read(Path::new(&output)).unwrap();
    assert_eq!(written.arrivals.len(), 80);
    for (arrival, sent) in written.arrivals.iter().zip(&frames[20..]) {
        assert_eq!((&arrival.frame[..6], &arrival.frame[12..]), (&sent[6..12], &sent[12..]));
    }
    let (code, _, err) = headgate_nfs(&["pcap", "forward", "/no/such.pcap", &output]);
    assert_eq!(code, 1);
    assert!(err.contains("/no/such.pcap: No such file"), "{err}");
}

/// The process may not write longer files: the kernel's signal for that kills nobody, every packet passes,
/// and what is not in the file is counted.
#[test]
fn a_limit_for_files_costs_the_log_and_no_packet() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    Capture::of(&vec![vec![7; 1500]; 5000]).write(&input).unwrap();
    for way in ["async", "sync"] {
        let path = folder.path().join(format!("{way}.pcapng"));
        let arguments = json!({ "path": path, "write": way }).to_string();
        // The unit is 512 bytes or 1024, by the shell; memory of packets is a file too.
        let run = r#"ulimit -f 6000; exec "$0" pcap packet-logger "$1" /dev/null --json --args "$2""#;
        let mut command = Command::new("sh");
        command.args(["-c", run, env!("CARGO_BIN_EXE_headgate-nfs")]).arg(&input).arg(&arguments);
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{way}: {status}: {}", String::from_utf8_lossy(&stderr));
        let said: Value = serde_json::from_slice(&stdout).unwrap();
        let count = |name: &str| said["counters"][name].as_u64().unwrap();
        assert_eq!(said["packets"]["next"], 5000);
        assert_eq!(count("logged") + count("lost"), 5000);
        assert!(count("lost") > 0 && count("errors") > 0, "{way}: {said}");
        let file = folder.path().join(format!("{way}-000001.pcapng"));
        assert_eq!(Capture::read(&file).unwrap().arrivals.len() as u64, count("logged"), "{way}");
    }
}
