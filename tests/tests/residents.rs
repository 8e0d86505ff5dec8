//! NFs in the thread of their worker: they work, answer and are replaced like those with processes, beside
//! them in one chain; and what cannot be is refused where it stands.

use headgate_api::status::{NfState, Snapshot};
use headgate_tests::machine;
use headgate_tests::session::{Session, chain, nf};

/// A chain through an NF with a process between two in the worker, one of them fused.
fn text(first: &str) -> String {
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 2048
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "50K"
flows = 32
[[port]]
name = "out"
kind = "null"
[[nf]]
name = "first"
ring = 256
fused = "worker"
{first}
[[nf]]
name = "process"
ring = 256
run = "forward"
core = {{nf}}
[[nf]]
name = "last"
ring = 256
fuse = [{{ run = "forward" }}, {{ run = "monitor" }}]
fused = "worker"
[[chain]]
name = "path"
stages = ["first", "process", "last"]
out = "out"
[[rule]]
in = "in"
chain = "path"
"#
    )
}

fn runs(now: &Snapshot, instance: &str) -> bool {
    now.nfs.iter().any(|nf| nf.instance == instance && nf.state == NfState::Running)
}

#[test]
fn residents_and_processes_share_a_chain() {
    let session = Session::start(&text("run = \"mac-swap\""));
    session.wait_for_packets("path", 2_000);
    let now = session.audited();
    for instance in ["first", "last"] {
        let nf = nf(&now, instance);
        assert_eq!((nf.pid, nf.spare_pid, nf.failures), (None, None, 0), "{nf:#?}");
        assert!(nf.runs.ends_with("in its worker, without isolation"), "{}", nf.runs);
        assert!(nf.delivered > 0 && nf.bursts > 0, "{nf:#?}");
    }
    assert!(nf(&now, "process").pid.is_some());
    let counted = |now: &Snapshot| nf(now, "last").counters.iter().any(|(name, _)| name.contains("monitor"));
    session.wait_for("its counters are told", counted);

    // It is replaced under traffic, and nothing of it stays.
    session.apply(&text("run = \"forward\"")).expect("the change is applied");
    let now = session.wait_for("the other one works", |now| {
        runs(now, "first")
            && nf(now, "first").runs.starts_with("forward")
            && nf(now, "first").delivered > 1_000
    });
    assert_eq!(nf(&now, "first").failures, 0);
    let last = session.stop();
    assert_eq!(chain(&last, "path").missing.unwrap_or(0), 0);
}

/// Each worker has a queue, flows and an instance of its own, and works on what it took in.
#[test]
fn each_of_two_workers_has_its_own() {
    if machine::manager_core() == machine::nf_core() {
        return machine::skip("each_of_two_workers_has_its_own", "it takes two cores");
    }
    let text = r#"
[manager]
name = "tests"
cores = [{manager}, {nf}]
[memory]
buffers = 2048
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "50K"
flows = 64
[[port]]
name = "out"
kind = "null"
[[nf]]
name = "nf"
ring = 256
run = "forward"
fused = "worker"
instances = 2
[[chain]]
name = "path"
stages = ["nf"]
out = "out"
[[rule]]
in = "in"
chain = "path"
"#;
    let session = Session::start(text);
    let both_work = |now: &Snapshot, name: &str| {
        now.nfs.iter().filter(|nf| nf.nf == name && nf.delivered > 500).count() == 2
    };
    session.wait_for("both instances work", |now| both_work(now, "nf"));
    let now = session.audited();
    assert!(now.workers.iter().all(|worker| worker.flows_learnt > 0), "{:#?}", now.workers);
    // Applied anew, with a stage more, nothing is lost and both still work.
    let more = text.replace("stages = [\"nf\"]", "stages = [\"nf\", \"last\"]").replace(
        "[[chain]]",
        "[[nf]]\nname = \"last\"\nring = 256\nrun = \"mac-swap\"\nfused = \"worker\"\n\
         instances = 2\n[[chain]]",
    );
    session.apply(&more).expect("the change is applied");
    session.wait_for("both instances of the new one work", |now| both_work(now, "last"));
    session.stop();
}
