//! `headgate explain` and `headgate check --packet`: what would become of a packet.

mod common;

use common::{Running, configuration, eventually, headgate, name_of, run, written};
use serde_json::Value as Json;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

#[test]
fn a_file_alone_tells_rule_chain_and_stages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = "[[rule]]\nprotocol = \"tcp\"\ndestination_port = \"80-90\"\nchain = \"through\"\n";
    let text = configuration("file")
        .replace("[[rule]]\nin = \"generator\"\n", &format!("{first}[[rule]]\nprotocol = \"udp\"\n"));
    let file = written(folder, &text);
    let explain = |packet: &str| run(folder, &["check", &file, "--packet", packet]);

    let (code, page, messages) = explain("tcp 10.0.0.1:1234 > 10.0.1.1:80");
    assert_eq!(code, 0, "{messages}");
    for part in [
        "tcp 10.0.0.1:1234 > 10.0.1.1:80 in generator",
        "1: tcp, destination port 80-90, to chain through",
        "second",
        "monitor",
        "leaves by sink",
    ] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }
    let (code, data, _) = run(folder, &["check", &file, "--packet", "udp 10.0.0.1:1 > 10.0.0.2:2", "--json"]);
    let told = json(&data);
    assert_eq!((code, &told["rule"]["place"], &told["end"]), (0, &2.into(), &Json::Null));
    let (_, page, _) = explain("icmp 10.0.0.1 > 10.0.0.2");
    assert!(page.contains("none matches") && page.contains("no-rule"), "{page}");
}

#[test]
fn what_describes_no_packet_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = written(folder, &configuration("bad"));
    let refused = |packet: &str, words: &str| {
        for command in [vec!["check", &file, "--packet", packet], vec!["explain", packet]] {
            let (code, data, messages) = run(folder, &command);
            assert_eq!((code, data.as_str()), (2, ""), "{command:?}: {messages}");
            let messages = messages.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(messages.contains(words), "{command:?}: {messages}");
        }
    };
    refused("tpc 10.0.0.1:1 > 10.0.0.2:2", "column 1 of the packet");
    refused("tcp 10.0.0.1:1 > 10.0.0.256:2", "`10.0.0.256:2` is not an address (column 18 of the packet)");
    refused("arp vlan 5000", "possible: 1 to 4094");
    let (code, _, messages) = run(folder, &["check", &file, "--packet", "arp in generater"]);
    assert!(code == 2 && messages.contains("did you mean `generator`?"), "{messages}");
}

#[test]
fn a_manager_tells_what_it_would_do_now() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("explain"));
    let (code, _, messages) = run(folder, &["explain", "arp", "--name", &name]);
    assert!(code == 1 && messages.contains("no manager"), "{code}: {messages}");

    let file = written(folder, &configuration(&name));
    let manager = Running::start(headgate(folder, &["up", &file]));
    let ask = |words: &[&str]| {
        let (code, data, messages) = run(folder, &[words, &["--json", "--name", &name]].concat());
        assert_eq!(code, 0, "{words:?}: {messages}");
        json(&data)
    };
    eventually("flows are known", || {
        let (code, data, _) = run(folder, &["show", "flows", "--json", "--name", &name]);
        code == 0 && json(&data).as_array().is_some_and(|flows| flows.len() == 100)
    });
    // `10.0.0.1:1024 > 10.0.0.2:53 protocol 17`, which the worker wrote.
    let flows = ask(&["show", "flows"]);
    let (ends, protocol) = flows[0]["flow"].as_str().unwrap().split_once(" protocol ").unwrap();
    let told = ask(&["explain", &format!("{protocol} {ends} in generator")]);
    assert_eq!(told["known"]["chain"], "through");
    assert_eq!(told["end"], Json::Null, "{told}");
    let instances: Vec<&Json> =
        told["stages"].as_array().unwrap().iter().map(|stage| &stage["instance"]).collect();
    assert_eq!(instances, ["first", "second"]);
    assert_eq!(told["out"], "sink");
    // As several words, and by a flow that never came.
    let told = ask(&["explain", "arp", "in", "generator"]);
    assert_eq!((&told["known"], &told["rule"]["place"]), (&Json::Null, &1.into()));

    let (code, _, messages) = run(folder, &["explain", "arp in sink", "--name", &name]);
    assert!(code == 1 && messages.contains("no packet comes by a port named `sink`"), "{code}: {messages}");
    manager.signal(rustix::process::Signal::INT);
    let (code, data, messages) = manager.end();
    assert_eq!(code, 0, "{data}{messages}");
}
