//! NFs, chains and rules change while packets flow, and nothing is lost that was not addressed to what was
//! removed.

use std::collections::BTreeMap;

use headgate_api::Request;
use headgate_api::status::{NfState, Snapshot};
use headgate_tests::programs;
use headgate_tests::session::{Session, chain, nf};

/// Packets that leave each chain between two changes.
const PACKETS: u64 = 1_000;

/// The part of the configuration that stays the same: two generators and a sink.
const FIXED: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 8192
hugepages = "never"
[[port]]
name = "west"
kind = "generator"
rate = "20K"
flows = 60
[[port]]
name = "east"
kind = "generator"
rate = "20K"
flows = 60
source = "10.9.0.1"
[[port]]
name = "out"
kind = "null"
"#;

fn with_nf(name: &str, keys: &str) -> String {
    format!("[[nf]]\nname = \"{name}\"\ncore = {{nf}}\n{keys}\n")
}

fn with_chain(name: &str, stages: &[&str], from: &str) -> String {
    format!(
        "[[chain]]\nname = \"{name}\"\nstages = {stages:?}\nout = \"out\"\n[[rule]]\nin = \"{from}\"\nchain = \"{name}\"\n"
    )
}

fn whole(parts: &[String]) -> String {
    FIXED.to_owned() + &parts.concat()
}

/// Packets end only where an NF cannot keep up, which a busy machine may bring about at any time.
fn is_overload(reason: &str) -> bool {
    matches!(reason, "stage-full" | "throttled")
}

fn assert_nothing_lost(snapshot: &Snapshot) {
    for drop in &snapshot.drops {
        assert!(is_overload(&drop.reason), "{drop:#?}");
    }
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.chains.iter().map(|chain| chain.name.as_str()).filter(|name| *name != "-").collect()
}

fn pids(snapshot: &Snapshot) -> BTreeMap<&str, Option<u32>> {
    snapshot.nfs.iter().map(|nf| (nf.instance.as_str(), nf.pid)).collect()
}

#[test]
fn nfs_and_chains_come_change_and_go_under_traffic() {
    let (forward, swap, monitor) = (
        with_nf("first", "run = \"forward\""),
        with_nf("first", "run = \"mac-swap\""),
        with_nf("count", "run = \"monitor\""),
    );
    let from_west = with_chain("there", &["first"], "west");
    let through_both = with_chain("there", &["first", "count"], "west");
    let from_east = with_chain("back", &["first"], "east");
    let apart = with_chain("apart", &["count"], "east");
    let base = whole(&[forward.clone(), from_west.clone(), from_east.clone()]);
    let steps = [
        (whole(&[forward.clone(), monitor.clone(), from_west.clone(), apart.clone()]), "nf count added"),
        (whole(&[swap.clone(), monitor.clone(), from_west, apart.clone()]), "nf first replaced"),
        (whole(&[swap, monitor.clone(), through_both.clone(), apart.clone()]), "chain there changed"),
        (whole(&[forward, monitor, through_both, apart]), "nf first replaced"),
        (base.clone(), "nf count removed"),
    ];
    let session = Session::start(&base);
    session.wait_for_packets("back", PACKETS);
    for round in 0..2 {
        for (text, expected) in &steps {
            let changes = session.apply(text).unwrap_or_else(|refusal| panic!("round {round}: {refusal}"));
            assert!(changes.iter().any(|change| change == expected), "{expected}: {changes:?}");
            let now = session.snapshot();
            for name in names(&now) {
                session.wait_for_packets(name, PACKETS);
            }
            let now = session.audited();
            assert_nothing_lost(&now);
            assert!(
                now.nfs.iter().all(|nf| nf.state == NfState::Running && nf.failures == 0),
                "{:#?}",
                now.nfs
            );
        }
    }
    let now = session.snapshot();
    assert_eq!(names(&now), ["there", "back"].map(|name| chain(&now, name).name.as_str()));
    assert_eq!(now.nfs.len(), 1);
    assert_nothing_lost(&session.stop());
}

#[test]
fn a_refused_change_changes_nothing() {
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let (forward, path) = (with_nf("first", "run = \"forward\""), with_chain("there", &["first"], "west"));
    let base = whole(&[forward.clone(), path.clone()]);
    let session = Session::start(&base);
    let before = session.snapshot();
    let dying = with_nf("dying", &format!("exec = [\"{}\", \"exit-at-once\"]", program.display()));
    let changed = |from: &str, to: &str| base.replacen(from, to, 1);
    let refused = [
        ("no such NF", changed("run = \"forward\"", "run = \"farward\""), 4),
        ("two mistakes at once", changed("\"there\"", "\"th re\""), 4),
        ("another port", changed("rate = \"20K\"", "rate = \"10K\""), 4),
        ("other memory", changed("buffers = 8192", "buffers = 4096"), 4),
        ("no TOML", "[[nf]".to_owned(), 4),
        (
            "an NF that does not start",
            whole(&[forward.clone(), dying, path.clone(), with_chain("back", &["dying"], "east")]),
            1,
        ),
    ];
    for (what, text, code) in &refused {
        let refusal = session.apply(text).expect_err(what);
        assert_eq!(refusal.code, *code, "{what}: {refusal}");
        assert!(refusal.message.len() > 20, "{what}: {refusal}");
        session.wait_for_packets("there", PACKETS);
        let now = session.wait_for("what was started is gone", |now| now.nfs.len() == before.nfs.len());
        assert_eq!(names(&now), names(&before), "{what}");
        assert_eq!(pids(&now), pids(&before), "{what}");
        let _ = session.audited();
    }
    // It is as ready for a change as before.
    let good = whole(&[
        forward,
        with_nf("count", "run = \"monitor\""),
        path,
        with_chain("back", &["count"], "east"),
    ]);
    session.apply(&good).unwrap();
    session.wait_for_packets("back", PACKETS);
    let last = session.stop();
    assert!(
        last.drops.iter().all(|drop| drop.chain == "-" || is_overload(&drop.reason)),
        "{:#?}",
        last.drops
    );
}

/// Each instance of a monitor counts the flows it sees: if a flow visited two, their sum would be larger
/// than the number of flows.
#[test]
fn instances_keep_their_flows_while_others_change() {
    let many = with_nf("many", "run = \"monitor\"\ninstances = 3\nargs = { idle_timeout = \"1h\" }");
    let path = with_chain("there", &["many"], "west");
    let session = Session::start(&whole(&[many.clone(), path.clone()]));
    let flows = |now: &Snapshot| -> Vec<u64> {
        (1..=3).map(|number| nf(now, &format!("many.{number}")).counters["flows"]).collect()
    };
    let other = whole(&[
        many.clone(),
        with_nf("first", "run = \"forward\""),
        path.clone(),
        with_chain("back", &["first"], "east"),
    ]);
    for text in [&other, &whole(&[many, path])] {
        session.wait_for("all flows were seen", |now| flows(now).iter().sum::<u64>() >= 60);
        session.wait_for_packets("there", PACKETS);
        let now = session.audited();
        assert_eq!(flows(&now).iter().sum::<u64>(), 60, "{:?}", flows(&now));
        assert!(flows(&now).iter().all(|&flows| flows > 0), "an instance is idle: {:?}", flows(&now));
        session.apply(text).unwrap();
    }
    session.wait_for_packets("there", PACKETS);
    let now = session.audited();
    assert_eq!(flows(&now).iter().sum::<u64>(), 60, "{:?}", flows(&now));
    session.stop();
}

/// Processes of an NF are replaced and drained under traffic, again and again, and no packet is lost.
#[test]
fn nfs_are_restarted_and_drained_under_traffic() {
    let text = whole(&[
        with_nf("first", "run = \"forward\"\ninstances = 2"),
        with_nf("count", "run = \"monitor\"\non_failure = \"bypass\""),
        with_chain("there", &["first", "count"], "west"),
        with_chain("back", &["count", "first"], "east"),
    ]);
    let session = Session::start(&text);
    session.wait_for_packets("back", PACKETS);
    let ask = |request: Request| session.ask(request).unwrap_or_else(|refusal| panic!("{refusal}"));
    let named = |nf: &str| nf.to_owned();
    for _ in 0..3 {
        let before = session.snapshot();
        let changes = ask(Request::Restart { nf: named("first") });
        assert_eq!(changes["changes"], serde_json::json!(["nf first.1 restarted", "nf first.2 restarted"]));
        let now = session.audited();
        assert_eq!(now.nfs.len(), 3);
        for (name, pid) in pids(&before).into_iter().filter(|(name, _)| name.starts_with("first")) {
            assert_ne!(pids(&now)[name], pid, "{name}");
        }
        ask(Request::Drain { nf: named("first.1") });
        session.wait_for_packets("there", PACKETS);
        assert!(session.ask(Request::Drain { nf: named("first") }).is_err(), "the last one stays");
        ask(Request::Restart { nf: named("first.1") });
        ask(Request::Drain { nf: named("count") });
        session.wait_for_packets("back", PACKETS);
        ask(Request::Restart { nf: named("count") });
        session.wait_for_packets("there", PACKETS);
        let now = session.audited();
        assert_nothing_lost(&now);
        assert!(now.nfs.iter().all(|nf| nf.state == NfState::Running && nf.failures == 0), "{:#?}", now.nfs);
    }
    assert_nothing_lost(&session.stop());
}

/// A manager that runs for months starts more processes than it has numbers for instances.
#[test]
fn an_nf_is_restarted_more_often_than_there_are_numbers() {
    const NUMBERS: usize = 256;
    let text = whole(&[
        with_nf("first", "run = \"forward\"\ninstances = 2"),
        with_chain("there", &["first"], "west"),
        with_chain("back", &["first"], "east"),
    ]);
    let session = Session::start(&text);
    for round in 0..NUMBERS / 2 + 2 {
        let done = session.ask(Request::Restart { nf: "first".to_owned() });
        done.unwrap_or_else(|refusal| panic!("restart {round}: {refusal}"));
    }
    session.ask(Request::Drain { nf: "first.2".to_owned() }).unwrap();
    session.ask(Request::Restart { nf: "first.2".to_owned() }).unwrap();
    session.wait_for_packets("there", PACKETS);
    let now = session.audited();
    assert_nothing_lost(&now);
    assert!(now.nfs.len() == 2 && now.nfs.iter().all(|nf| nf.failures == 0), "{:#?}", now.nfs);
    assert_nothing_lost(&session.stop());
}
