//! `headgate capture`, `trace` and `observe` over a manager that runs, read by Wireshark's own programs.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Running, configuration, eventually, headgate, name_of, run, sockets, written};
use rustix::process::Signal;
use serde_json::Value as Json;

/// Starts a manager and waits until packets leave.
fn running(folder: &Path, name: &str) -> Running {
    let file = written(folder, &configuration(name));
    let manager = Running::start(headgate(folder, &["up", &file]));
    eventually("packets leave", || {
        let (code, data, _) = run(folder, &["show", "chains", "--json", "--name", name]);
        let chains = || serde_json::from_str::<Json>(&data).unwrap();
        code == 0 && chains()[1]["left"].as_u64() > Some(100)
    });
    manager
}

/// Fields of a capture, as tshark reads them; `None` where the machine has none.
fn tshark(file: &str, words: &[&str]) -> Option<Vec<String>> {
    if !Path::new("/usr/bin/tshark").exists() {
        eprintln!("skipped: tshark is not installed");
        return None;
    }
    let output = Command::new("/usr/bin/tshark").args(["-n", "-r", file]).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("cut short") && !errors.contains("corrupt"), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn lines(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn a_capture_is_read_by_wireshark_with_an_interface_for_each_station() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("capture"));
    let _manager = running(folder, &name);
    let capture = |words: &[&str]| run(folder, &[&["capture"], words, &["--name", &name]].concat());
    let file = folder.join("web.pcapng").display().to_string();
    let (code, _, messages) = capture(&["through", "-w", &file, "-c", "300", "udp"]);
    assert!(code == 0 && messages.contains("300 packets captured"), "{code}: {messages}");
    // A busy worker looks at a part of the packets only, and a busy machine has the chain throttled now and
    // then.
    let stations = ["admit", "first/deliver", "first/hop", "second/deliver", "second/hop", "sink/emit"];
    let mut found = BTreeSet::new();
    eventually("packets were seen at every station", || {
        let fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "ip.src"];
        let Some(seen) = tshark(&file, &fields) else { return true };
        assert!(seen.iter().all(|line| line.contains("\t10.")), "{:?}", seen.first());
        found.extend(seen.iter().filter_map(|line| line.split('\t').next()).map(str::to_owned));
        let all = stations.iter().all(|station| found.contains(&format!("through/{station}")));
        if !all {
            assert_eq!(capture(&["through", "-w", &file, "--seconds", "1", "udp"]).0, 0);
        }
        all
    });
    // One stage, cut frames, several at once.
    let stage = folder.join("stage.pcapng").display().to_string();
    let words = ["capture", "through:second", "-w", &stage, "-c", "50", "-s", "20", "--name", &name];
    let beside = Running::start(headgate(folder, &words));
    eventually("a capture of everything holds what enters at the generator", || {
        let (code, _, messages) = capture(&["any", "-w", &file, "--seconds", "0.3"]);
        assert_eq!(code, 0, "{messages}");
        let Some(all) = tshark(&file, &["-T", "fields", "-e", "frame.interface_name"]) else { return true };
        all.iter().any(|name| name == "generator/arrive")
    });
    assert_eq!(beside.end().0, 0);
    if let Some(seen) = tshark(&stage, &["-T", "fields", "-e", "frame.interface_name", "-e", "frame.cap_len"])
    {
        assert!(seen.len() == 50 && seen.iter().all(|line| line.starts_with("through/second/")), "{seen:?}");
        assert!(seen.iter().all(|line| line.ends_with("\t20")), "{seen:?}");
    }
    // A filter that takes nothing still makes a file.
    let (code, _, _) = capture(&["through", "-w", &file, "--seconds", "0.1", "tcp port 1"]);
    assert_eq!((code, tshark(&file, &[]).map_or(0, |lines| lines.len())), (0, 0));
}

#[test]
fn what_cannot_be_captured_is_refused_and_leaves_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("refused"));
    let file = folder.join("kept").display().to_string();
    fs::write(&file, "precious").unwrap();
    let refused = |words: &[&str], code: i32, part: &str| {
        let (found, data, messages) = run(folder, &[words, &["--name", &name]].concat());
        let flat = messages.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((found, data.as_str()), (code, ""), "{words:?}: {messages}");
        assert!(flat.contains(part), "{words:?}: {messages}");
    };
    refused(&["capture", "through", "-w", &file], 1, "no manager");
    let _manager = running(folder, &name);
    refused(&["capture", "thruogh", "-w", &file], 1, "did you mean `through`?");
    refused(&["capture", "through:secnod", "-w", &file], 1, "did you mean `second`?");
    refused(&["trace", "--chain", "no"], 1, "there is no chain \"no\"");
    refused(&["capture", "through", "-w", &file, "-c", "0"], 2, "0 is not in");
    refused(&["trace", "-n", "1001"], 2, "1001 is not in");
    refused(&["observe", "--seconds", "0"], 2, "more than 0");
    let (code, _, messages) = run(folder, &["capture", "through", "-w", &file, "tcp prot 80"]);
    if !messages.contains("libpcap0.8") {
        assert!(code == 2 && messages.contains("  tcp prot 80\n      ^^^^"), "{code}: {messages}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    // A disk that is full from the first byte on: nothing is left behind it, and it is said why.
    let (code, _, messages) = run(folder, &["capture", "any", "-w", "/dev/full", "--name", &name]);
    assert!(code == 3 && messages.contains("make room"), "{code}: {messages}");
}

#[test]
fn a_disk_that_gets_full_ends_a_capture_with_a_file_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("full"));
    let _manager = running(folder, &name);
    let file = folder.join("full.pcapng").display().to_string();
    // The kernel's limit for the size of a file stands for the disk: it ends a write in the middle.
    let mut command = Command::new("/bin/sh");
    let line = "trap '' XFSZ; ulimit -f 64; exec \"$0\" capture through -w \"$1\" --seconds 60 --name \"$2\"";
    command.args(["-c", line, common::HEADGATE, &file, &name]).env("XDG_RUNTIME_DIR", folder);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    let flat = messages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.code() == Some(3) && flat.contains("the capture ends there"), "{messages}");
    if let Some(seen) = tshark(&file, &[]) {
        assert!(seen.len() > 10, "{}", seen.len());
    }
}

#[test]
fn a_reader_that_stalls_and_a_chain_that_goes_harm_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("stalls"));
    let manager = running(folder, &name);
    let words = |chain: &'static str| ["capture", chain, "-w", "-", "--name", &name].map(str::to_owned);
    let start = |chain| {
        let words = words(chain);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Running::start(headgate(folder, &words))
    };
    // Its pipe is read by nobody.
    let stalled: Vec<Running> = (0..3).map(|_| start("any")).collect();
    let left = || {
        let (_, data, _) = run(folder, &["show", "chains", "--json", "--name", &name]);
        serde_json::from_str::<Json>(&data).unwrap()[1]["left"].as_u64().unwrap()
    };
    let before = left();
    eventually("packets go on", || left() > before + 5000);
    drop(stalled);
    // Many: those beyond what there is room for are refused.
    eventually("those that are gone are forgotten", || {
        run(folder, &["capture", "any", "-w", "/dev/null", "-c", "1", "--name", &name]).0 == 0
    });
    // One more at each try: what is tried has one of the places itself while others ask for theirs.
    let mut many = Vec::new();
    eventually("some are refused", || {
        many.push(start("any"));
        let (code, _, messages) = run(folder, &["trace", "-n", "1", "--name", &name]);
        code == 1 && messages.contains("8 captures, traces and logs run already")
    });
    drop(many);
    let file = folder.join("gone.pcapng").display().to_string();
    eventually("there is room again", || {
        run(folder, &["capture", "any", "-w", "/dev/null", "-c", "1", "--name", &name]).0 == 0
    });
    let words = ["capture", "through", "-w", &file, "--name", &name];
    let capture = Running::start(headgate(folder, &words));
    eventually("it has begun", || fs::metadata(&file).is_ok_and(|file| file.len() > 1000));
    let other = configuration(&name).replace("\"through\"", "\"another\"");
    let (code, _, messages) = run(folder, &["apply", &written(folder, &other)]);
    assert_eq!(code, 0, "{messages}");
    let (code, _, messages) = capture.end();
    assert!(code == 0 && messages.contains("the chain or its stage was removed"), "{code}: {messages}");
    assert!(tshark(&file, &[]).is_none_or(|seen| !seen.is_empty()));
    // Ctrl-C ends one in order; the end of the manager too.
    let last = folder.join("last.pcapng").display().to_string();
    let capture = Running::start(headgate(folder, &["capture", "any", "-w", &last, "--name", &name]));
    eventually("it has begun", || fs::metadata(&last).is_ok_and(|file| file.len() > 1000));
    capture.signal(Signal::INT);
    let (code, _, messages) = capture.end();
    assert!(code == 0 && messages.contains("packets captured"), "{code}: {messages}");
    assert!(tshark(&last, &[]).is_none_or(|seen| !seen.is_empty()));
    let observer = Running::start(headgate(folder, &["observe", "-f", "--name", &name]));
    eventually("it is there", || run(folder, &["status", "--name", &name]).0 == 0);
    manager.signal(Signal::INT);
    let (code, data, messages) = manager.end();
    assert_eq!(code, 0, "{data}{messages}");
    let (code, data, messages) = observer.end();
    // Asked in the very moment of its end, the manager may be gone already.
    assert!(code == 1 || lines(&data).last().unwrap()["is"] == "end", "{code}: {data}{messages}");
}

#[test]
fn a_trace_tells_every_station_and_the_log_tells_flows_and_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("trace"));
    let _manager = running(folder, &name);
    // On a busy machine the chain is throttled now and then: these say so, and others leave.
    let mut told = Vec::new();
    eventually("packets are traced that leave", || {
        let (code, data, messages) = run(folder, &["trace", "-n", "3", "--json", "--name", &name, "udp"]);
        assert_eq!(code, 0, "{messages}");
        told = lines(&data);
        assert_eq!(told.len(), 4, "{data}");
        assert_eq!((&told[3]["is"], &told[3]["reason"]), (&"end".into(), &"count".into()));
        told.iter().any(|trace| trace["end"] == "left")
    });
    for trace in told.iter().filter(|trace| trace["end"] == "left") {
        let stations: Vec<&str> =
            trace["steps"].as_array().unwrap().iter().map(|step| step["station"].as_str().unwrap()).collect();
        let expected = ["arrive", "classify", "admit", "deliver", "hop", "deliver", "hop", "emit"];
        assert_eq!(stations, expected, "{trace}");
        assert_eq!(
            (&trace["chain"], &trace["end"], &trace["port"]),
            (&"through".into(), &"left".into(), &"generator".into())
        );
        assert_eq!(
            (&trace["steps"][4]["at"], &trace["steps"][4]["verdict"]),
            (&"first".into(), &"next".into())
        );
        assert!(trace["packet"].as_str().unwrap().starts_with("udp 10."), "{trace}");
    }
    eventually("one is told in words", || {
        let (code, page, _) = run(folder, &["trace", "-n", "1", "--name", &name]);
        code == 0 && page.contains("left by port sink") && page.contains("verdict next")
    });
    // Nothing matches: it ends by time, and says so.
    let words = ["trace", "--seconds", "0.2", "--json", "--name", &name, "tcp port 7"];
    assert_eq!(lines(&run(folder, &words).1)[0]["reason"], "time");

    let (code, data, messages) = run(folder, &["observe", "--seconds", "2", "--name", &name]);
    assert_eq!(code, 0, "{messages}");
    let told = lines(&data);
    let of = |kind: &str| told.iter().filter(|line| line["is"] == kind).collect::<Vec<_>>();
    let leaves = |flow: &&Json| flow["chain"] == "through" && flow["verdict"] == "forward";
    let flow = of("flow").into_iter().find(leaves).expect("a flow leaves");
    assert_eq!(flow["at"], "sink");
    assert!(of("event").iter().any(|event| event["code"] == "nf-ready"), "{data}");
    assert!(!of("end").is_empty());
    let (_, data, _) = run(folder, &["observe", "--verdict", "drop", "--name", &name]);
    let is_drop = |line: &Json| line["is"] != "event" && (line["is"] != "flow" || line["verdict"] == "drop");
    assert!(lines(&data).iter().all(is_drop), "{data}");
}

/// A manager that is older than the command says so by not knowing the request.
#[test]
fn a_manager_of_another_version_is_told_plainly() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("older"));
    let place = sockets(folder);
    fs::create_dir_all(&place).unwrap();
    let socket = place.join(format!("{name}.sock"));
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answers = std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        let refusal = r#"{"Err":{"code":2,"message":"not a request of this API: unknown variant `trace`"}}"#;
        std::io::Write::write_all(&mut &client, format!("{refusal}\n").as_bytes()).unwrap();
    });
    let (code, _, messages) = run(folder, &["trace", "--name", &name]);
    answers.join().unwrap();
    fs::remove_file(&socket).unwrap();
    let flat = messages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        code == 3 && flat.contains("of an earlier version, which knows no \"trace\""),
        "{code}: {messages}"
    );
}

/// Bytes that stand in a file are no more than its size says: the helper of the tests above.
#[test]
fn the_reader_of_captures_sees_a_cut_file() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("cut"));
    let _manager = running(folder, &name);
    let file = folder.join("cut.pcapng").display().to_string();
    assert_eq!(run(folder, &["capture", "any", "-w", &file, "-c", "10", "--name", &name]).0, 0);
    let length = File::open(&file).unwrap().metadata().unwrap().len();
    OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 3).unwrap();
    if Path::new("/usr/bin/tshark").exists() {
        let output = Command::new("/usr/bin/tshark").args(["-n", "-r", &file]).output().unwrap();
        assert!(!output.status.success(), "a canary: a block that is cut is seen");
    }
}
