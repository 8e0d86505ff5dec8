//! Time slices of NFs that poll: a core goes round in the order of its chains, nobody is stopped by another
//! that dies or hangs, and nobody is left before the rest of the machine.

use headgate_api::event::{Event, EventCode};
use headgate_api::status::{NfState, Snapshot};
use headgate_host::perf::kept::{self, NfCost};
use headgate_host::sched::{self, Policy};
use headgate_tests::session::{Session, chain, nf};
use headgate_tests::{machine, programs};
use rustix::process::{Pid, Signal, kill_process};

/// Kills of a run. Our choice: each NF of three some times, in a second or two.
const KILLS: usize = 12;

/// `chains` of NFs that poll on one core, each with a generator of its own; NFs are named after their chain.
fn configuration(generator: &str, chains: &[(&str, &[&str])]) -> String {
    let mut text = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 8192
hugepages = "never"
[scheduler]
mode = "unis"
[[port]]
name = "out"
kind = "null"
"#
    .to_owned();
    for (name, nfs) in chains {
        text += &format!("[[port]]\nname = \"{name}\"\nkind = \"generator\"\nflows = 16\n{generator}\n");
        let mut stages = Vec::new();
        for (position, keys) in nfs.iter().enumerate() {
            let nf = format!("{name}{position}");
            text += &format!(
                "[[nf]]\nname = \"{nf}\"\n{keys}\ncore = {{nf}}\nloop = \"polling\"\nring = 1024\n\
                 restart = {{ first = \"1ms\", longest = \"5ms\" }}\n"
            );
            stages.push(format!("\"{nf}\""));
        }
        text += &format!(
            "[[chain]]\nname = \"{name}\"\nstages = [{}]\nout = \"out\"\n\
             [[rule]]\nin = \"{name}\"\nchain = \"{name}\"\n",
            stages.join(", ")
        );
    }
    text
}

const THREE: (&str, &[&str]) = ("path", &["run = \"forward\"", "run = \"mac-swap\"", "run = \"forward\""]);

fn pid(now: &Snapshot, instance: &str) -> Pid {
    let pid = nf(now, instance).pid.expect("a running NF has a process");
    Pid::from_raw(pid as i32).expect("a process has a number")
}

fn policies(now: &Snapshot) -> Vec<Option<Policy>> {
    let all = now.nfs.iter().filter_map(|nf| Pid::from_raw(nf.pid? as i32));
    all.map(|pid| sched::get(Some(pid)).ok()).collect()
}

fn are_raised(policies: &[Option<Policy>]) -> bool {
    policies.iter().all(|policy| matches!(policy, Some(Policy::Fifo { .. })))
}

fn are_fair(policies: &[Option<Policy>]) -> bool {
    policies.iter().all(|policy| matches!(policy, Some(Policy::Normal { nice: 0, .. })))
}

#[test]
fn a_core_goes_round_and_is_given_back_when_there_is_nothing_to_do() {
    if !machine::has_slices("a_core_goes_round_and_is_given_back_when_there_is_nothing_to_do") {
        return;
    }
    let session = Session::start(&configuration("rate = \"200K\"\ncount = 1000000", &[THREE]));
    session.wait_for("packets pass, by NFs with time slices", |now| {
        chain(now, "path").left > 10_000 && are_raised(&policies(now))
    });
    let now = session.wait_for("all are through", |now| {
        let path = chain(now, "path");
        path.entered >= 1_000_000 && path.left + path.dropped == path.entered
    });
    assert!(now.nfs.iter().all(|nf| nf.slices > 3), "{:#?}", now.nfs);
    // Another program that takes the machine for a while lets a slice last longer than planned.
    assert!(chain(&now, "path").wasted < 100_000, "what was worked on got through");
    session.wait_for("nobody is before the rest of the machine", |now| are_fair(&policies(now)));
    let now = session.audited();
    let core = &now.scheduler.cores[0];
    assert_eq!((core.core, core.scheduler_core), (machine::nf_core(), Some(machine::nf_core())));
    assert!(core.idle_demotions > 0);
    session.stop();
}

#[test]
fn a_burst_comes_through_an_idle_chain_beside_an_overload() {
    if !machine::has_slices("a_burst_comes_through_an_idle_chain_beside_an_overload") {
        return;
    }
    let busy: (&str, &[&str]) = ("busy", &["run = \"synthetic\"\nargs = { cycles = 2000 }"; 2]);
    let text = configuration("rate = \"max\"", &[busy, THREE]);
    // Of the second generator ten packets come, all at once.
    let (first, second) = text.split_once("name = \"path\"\nkind = \"generator\"").expect("it has a port");
    let text = format!("{first}name = \"path\"\nkind = \"generator\"\ncount = 10{second}");
    for _ in 0..3 {
        let session = Session::start(&text);
        let now = session.wait_for("the burst is through", |now| chain(now, "path").left == 10);
        // Twice as long as the NFs take to switch the core makes a slice worth its switch.
        assert!(now.scheduler.cores[0].switch_ns.is_none_or(|ns| (1..=100_000).contains(&ns)));
        session.wait_for_packets("busy", 1_000);
        let _ = session.audited();
        session.stop();
    }
}

#[test]
fn killed_in_their_slice() {
    if !machine::has_slices("killed_in_their_slice") {
        return;
    }
    let other: (&str, &[&str]) = ("other", &["run = \"forward\""]);
    let session = Session::start(&configuration("rate = \"100K\"", &[THREE, other]));
    for kill in 0..KILLS {
        let victim = format!("path{}", kill % 3);
        let now = session.wait_for("it runs", |now| nf(now, &victim).state == NfState::Running);
        let (failures, left) = (nf(&now, &victim).failures, chain(&now, "other").left);
        kill_process(pid(&now, &victim), Signal::KILL).unwrap();
        session.wait_for("its end is noticed", |now| nf(now, &victim).failures > failures);
        session.wait_for("the others go on", |now| chain(now, "other").left > left + 1_000);
        let _ = session.audited();
    }
    session.wait_for("all run again", |now| now.nfs.iter().all(|nf| nf.state == NfState::Running));
    session.wait_for_packets("path", 1_000);
    session.stop();
}

#[test]
fn one_that_hangs_is_given_up_and_the_other_chain_goes_on() {
    if !machine::has_slices("one_that_hangs_is_given_up_and_the_other_chain_goes_on") {
        return;
    }
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let endless = format!("exec = [\"{}\", \"endless-loop\"]", program.display());
    let hung: (&str, &[&str]) = ("hung", &["run = \"forward\"", &endless]);
    let session = Session::start(&configuration("rate = \"100K\"", &[hung, THREE]));
    session.wait_for_packets("path", 20_000);
    let now = session.wait_for("it is given up", |now| nf(now, "hung1").failures > 0);
    let told = |event: &Event| event.who == "hung1" && event.code == EventCode::NoProgress;
    assert!(now.events.iter().any(told), "{:#?}", now.events);
    session.wait_for_packets("path", 20_000);
    let _ = session.audited();
    session.stop();
}

#[test]
fn slices_begin_with_the_cost_that_was_measured_and_go_on_with_their_own() {
    if !machine::has_slices("slices_begin_with_the_cost_that_was_measured_and_go_on_with_their_own") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let args = serde_json::json!({ "cycles": 400 }).as_object().unwrap().clone();
    let cost = NfCost { runs: "synthetic".to_owned(), args, cost_ns: 4321.0, ..NfCost::default() };
    kept::keep_nf(folder.path(), cost).unwrap();
    let (same, other) =
        ("run = \"synthetic\"\nargs = { cycles = 400 }", "run = \"synthetic\"\nargs = { cycles = 401 }");
    let few = configuration("rate = 10", &[("path", &[same, other])]);
    let session = Session::with_costs(&few, folder.path());
    let now = session.wait_for_packets("path", 3);
    let told = |now: &Snapshot, instance: &str| {
        (nf(now, instance).slice_cost_measured, nf(now, instance).slice_cost_ns)
    };
    assert_eq!(told(&now, "path0"), (true, Some(4321.0)));
    assert!(!told(&now, "path1").0, "nobody measured it");
    session.stop();
    let many = configuration("rate = \"max\"", &[("path", &[same, other])]);
    let session = Session::with_costs(&many, folder.path());
    let now = session.wait_for("its slices tell another", |now| !told(now, "path0").0);
    assert!(told(&now, "path0").1.is_some_and(|ns| ns < 4321.0), "{:?}", told(&now, "path0"));
    session.stop();
}

/// Chains `other`, four NFs, and `asked`, one, each offered more than they take, also by a debug build; `key`
/// is one of the latter.
fn overloaded(key: &str) -> String {
    let run = "run = \"synthetic\"\nargs = { cycles = 20000 }";
    let chains: [(&str, &[&str]); 2] = [("other", &[run; 4]), ("asked", &[run])];
    let text = configuration("rate = \"max\"", &chains);
    text.replace("name = \"asked\"\nstages", &format!("name = \"asked\"\n{key}\nstages"))
}

#[test]
fn a_chain_with_a_floor_has_more_than_its_part_and_the_other_the_rest() {
    if !machine::has_slices("a_chain_with_a_floor_has_more_than_its_part_and_the_other_the_rest") {
        return;
    }
    let session = Session::start(&overloaded("rate_floor = \"30K\""));
    session.wait_for("costs are known", |now| now.nfs.iter().all(|nf| nf.slice_cost_ns.is_some()));
    // Without a floor both have as many: five NFs go round. With it the others have what is left.
    let mut before = session.snapshot();
    session.wait_for("it has half as many again as the other", |now| {
        let had = |name: &str| chain(now, name).left - chain(&before, name).left;
        let (asked, other) = (had("asked"), had("other"));
        if other >= 5_000 {
            before = now.clone();
        }
        other >= 5_000 && asked * 2 > other * 3
    });
    let told = session.wait_for("it is told of", |now| {
        chain(now, "asked").objective.as_ref().is_some_and(|asked| asked.floor_kept.is_some())
    });
    assert_eq!(chain(&told, "asked").objective.as_ref().unwrap().rate_floor, Some(30_000));
    assert_eq!(chain(&told, "other").objective, None);
    let changes = session.apply(&overloaded("rate_floor = \"20K\"")).unwrap();
    assert_eq!(changes, ["chain asked: throughput floor changed"]);
    let _ = session.audited();
    session.stop();
}

#[test]
fn a_floor_that_cannot_be_is_told_of_and_starves_nobody() {
    if !machine::has_slices("a_floor_that_cannot_be_is_told_of_and_starves_nobody") {
        return;
    }
    let session = Session::start(&overloaded("rate_floor = \"1M\""));
    let now = session.wait_for("it is told of", |now| {
        now.scheduler.limitations.iter().any(|why| why.contains("the floors of asked take"))
            && chain(now, "asked").objective.as_ref().is_some_and(|asked| asked.floor_kept == Some(false))
    });
    assert!(now.events.iter().any(|event| event.what.contains("floor of 1000000 packets/s is not kept")));
    session.wait_for_packets("other", 2_000);
    let _ = session.audited();
    session.stop();
}

#[test]
fn a_chain_with_a_bound_leaves_the_core_while_its_packets_may_wait() {
    if !machine::has_slices("a_chain_with_a_bound_leaves_the_core_while_its_packets_may_wait") {
        return;
    }
    let demotions = |key: &str| {
        let text = configuration("rate = 2000", &[THREE]);
        let session = Session::start(&text.replace("[[chain]]", &format!("[[chain]]\n{key}")));
        session.wait_for_packets("path", 500);
        let before = session.snapshot().scheduler.cores[0].idle_demotions;
        let now = session.wait_for_packets("path", 2_000);
        let _ = session.audited();
        session.stop();
        (now.scheduler.cores[0].idle_demotions - before, chain(&now, "path").objective.clone())
    };
    let (demotions_free, asked) = demotions("");
    assert_eq!(asked, None);
    let (demotions_bounded, asked) = demotions("delay_bound_us = 10000");
    assert_eq!(asked.unwrap().delay_bound_ns, Some(10_000_000));
    // Packets come every half millisecond: without a bound their NFs poll for the next ones.
    assert!(demotions_bounded > 10 + 2 * demotions_free, "{demotions_bounded} {demotions_free}");
}
