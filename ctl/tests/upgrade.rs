//! A manager that another one follows, as an operator has it done: no packet is lost and none comes twice,
//! what NFs keep goes on, and one that cannot follow changes nothing.

mod common;

use std::fs;
use std::path::Path;

use common::numbers::Numbers;
use common::{
    Detached, configuration, daemon, eventually, headgate, is_root, name_of, run, runs, told, written,
};
use headgate_api::request::Request;
use headgate_api::status::{EventCode, Snapshot};
use headgate_host::namespace::{Namespace, Namespaces};
use serde_json::Value as Json;

fn between_hosts(name: &str) -> String {
    format!(
        "\
[manager]
name = \"{name}\"
[memory]
buffers = 4096
[[port]]
name = \"west\"
interface = \"hg-left\"
[[port]]
name = \"east\"
interface = \"hg-right\"
[[nf]]
name = \"pass\"
run = \"forward\"
ring = 512
[[nf]]
name = \"seen\"
run = \"monitor\"
ring = 512
state = {{ keep = true, bytes = \"16Mi\" }}
[[chain]]
name = \"out\"
stages = [\"pass\", \"seen\"]
out = \"east\"
[[chain]]
name = \"back\"
stages = [\"pass\"]
out = \"west\"
[[rule]]
in = \"west\"
chain = \"out\"
[[rule]]
in = \"east\"
chain = \"back\"
"
    )
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

#[test]
fn another_manager_follows_without_a_packet_lost() {
    if !is_root() {
        println!("another_manager_follows_without_a_packet_lost: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("follow"));
    let _manager = Detached::of(folder, &name);
    let file = written(folder, &between_hosts(&name));
    let middle = Namespace::new().unwrap();
    let hosts = Namespaces::new(&middle).unwrap();
    let inside = |words: &[&str]| middle.run(|| told(headgate(folder, words).output().unwrap())).unwrap();
    let (code, _, messages) = inside(&["up", "--detach", &file]);
    assert_eq!(code, 0, "{messages}");
    let first = daemon(folder, &name);

    let numbers = Numbers::between(&hosts, &|what, holds| eventually(what, holds));
    let (sent, received) = numbers.while_doing(|| {
        // Not asked for in a namespace: the manager that runs starts the other, where it is itself.
        for round in 1..=2 {
            numbers.flow("before the next manager");
            let before = daemon(folder, &name);
            let (code, data, messages) = run(folder, &["--json", "upgrade", &file]);
            assert_eq!(code, 0, "round {round}: {messages}");
            let told = json(&data);
            assert_eq!(told["before"]["pid"], before);
            assert_ne!(told["now"]["pid"], before);
            assert!(told["silent_ns"].as_u64().unwrap() > 0, "{told}");
            eventually("the manager before has ended", || !runs(before));
        }
        numbers.flow("at the end");
    });
    let (_, drops, _) = run(folder, &["show", "drops", "--name", &name]);
    let gaps: Vec<_> = received.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
    assert!(
        received.iter().copied().eq(0..sent),
        "sent {sent}, received {}, between {gaps:?} not\n{drops}",
        received.len()
    );
    assert!(!runs(first));

    // What was kept counts all of them, whichever process saw them.
    let (code, answer, messages) = run(folder, &["tell", "seen", "report", "--name", &name]);
    assert_eq!(code, 0, "{messages}");
    assert!(json(&answer)["packets"].as_u64().unwrap() >= sent, "sent {sent}: {answer}");
    let (code, page, _) = run(folder, &["show", "events", "--name", &name]);
    assert!(code == 0 && page.contains("goes on with its kept state"), "{page}");
    let (code, totals, messages) = run(folder, &["down", "--name", &name]);
    assert!(code == 0 && totals.contains("accounts hold"), "{totals} {messages}");
}

#[test]
fn one_that_cannot_follow_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("unfollowed"));
    let _manager = Detached::of(folder, &name);
    let file = written(folder, &configuration(&name));
    let (code, _, messages) = run(folder, &["up", "--detach", &file]);
    assert_eq!(code, 0, "{messages}");
    let before = daemon(folder, &name);
    if !is_root() {
        println!("one_that_cannot_follow_changes_nothing: skipped: only root's place is known here");
        return;
    }
    let failures = || {
        let now: Snapshot = headgate_api::call(&name, &Request::Snapshot { audit: false }).unwrap();
        now.events.iter().filter(|event| event.code == EventCode::HandOverFailed).count()
    };
    // A program that ends at once, and one that is no manager and never asks.
    for (round, program) in ["/bin/false", "/bin/true"].into_iter().enumerate() {
        let request = Request::Upgrade { program: program.into(), file: file.clone().into(), node: None };
        headgate_api::call::<Json>(&name, &request).unwrap();
        eventually("its end is told", || failures() == round + 1);
    }
    // A file with an NF that never becomes ready: the new manager gives up, or is stopped.
    let broken = configuration(&name).replace("run = \"monitor\"", "exec = [\"/bin/false\"]");
    let other = folder.join("broken.toml");
    fs::write(&other, broken).unwrap();
    let (code, _, messages) = run(folder, &["upgrade", other.to_str().unwrap()]);
    assert_eq!(code, 1, "{messages}");
    assert!(messages.contains("did not take over, and the old one goes on"), "{messages}");
    assert!(messages.contains("second: "), "{messages}");
    assert_eq!(daemon(folder, &name), before);
    // A word of a version that does not exist.
    let request = Request::HandOver { socket: "/nowhere".into(), version: 99 };
    let refused = headgate_api::call::<Json>(&name, &request).unwrap_err().to_string();
    assert!(refused.contains("version 99"), "{refused}");
    let request = Request::HandOver { socket: "/nowhere".into(), version: 1 };
    let refused = headgate_api::call::<Json>(&name, &request).unwrap_err().to_string();
    assert!(refused.contains("/nowhere"), "{refused}");
    let (code, totals, _) = run(folder, &["down", "--name", &name]);
    assert!(code == 0 && totals.contains("accounts hold"), "{totals}");
}

#[test]
fn what_cannot_be_handed_over_is_said_and_restarted_on_request() {
    if !is_root() {
        println!(
            "what_cannot_be_handed_over_is_said_and_restarted_on_request: skipped: only root's place is known"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("restarted"));
    let _manager = Detached::of(folder, &name);
    let capture = folder.join("out.pcapng");
    let to_file = format!("kind = \"pcap\"\nwrite = \"{}\"", capture.display());
    let file = written(folder, &configuration(&name).replace("kind = \"null\"", &to_file));
    let (code, _, messages) = run(folder, &["up", "--detach", &file]);
    assert_eq!(code, 0, "{messages}");
    let before = daemon(folder, &name);
    let (code, _, messages) = run(folder, &["upgrade", &file]);
    assert_eq!(code, 4, "{messages}");
    assert!(messages.contains("port \"sink\" is a capture") && messages.contains("--restart"), "{messages}");
    assert_eq!(daemon(folder, &name), before);
    fs::remove_file(Path::new(&capture)).unwrap();
    let (code, data, messages) = run(folder, &["--json", "upgrade", "--restart", &file]);
    assert_eq!(code, 0, "{messages}");
    assert!(json(&data)["silent_ns"].as_u64().unwrap() > 0 && messages.contains("is lost"), "{messages}");
    assert_ne!(daemon(folder, &name), before);
    let (code, _, messages) = run(folder, &["down", "--name", &name]);
    assert_eq!(code, 0, "{messages}");
}
