//! Nodes that agree in a store on who serves an NF, over a lab with an etcd of its own: instances come and go
//! as they are needed, and a node, the store, and who wants to spoil it change nothing for packets.

mod common;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::network::{Connection, Lab, exchange_all};
use common::store::{claims, delete, has_event, put, text, the_one_that_serves};
use common::{daemon, eventually, signal};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

/// Each lab has the machine to itself.
static ALONE: Mutex<()> = Mutex::new(());

/// The process of a server of the store.
fn store_process(lab: &Lab, server: usize) -> Pid {
    let pid = lab.told["store"][server]["pid"].as_i64().unwrap();
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

#[test]
fn instances_come_under_load_and_go_when_their_flows_are_silent() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lab) = Lab::start("cluster-load", text) else { return };
    let first = the_one_that_serves(&lab);
    let second = if first == "b" { "c" } else { "b" };
    let listener = lab.listen();
    let mut old = [lab.connect(&listener)];
    exchange_all(&mut old, 1);
    // Three quarters of a core, or half of a fast one.
    let load = lab.load(4, 1);
    eventually("both have claimed it, for a reason with numbers", || {
        old[0].touch();
        let told = lab.json("a", &["cluster", "status"]).to_string();
        claims(&lab).len() == 2 && told.contains("flows would pay ")
    });
    lab.wait_for_servers(["b", "c"]);
    assert!(has_event(&lab, second, "nf-claimed"));
    exchange_all(&mut old, 2);
    assert_eq!(lab.node_of(&old[0]), first, "a known flow stays");
    let mut new: Vec<_> = (0..8).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut new, 3);
    drop(load);
    // Nobody needs two: one gets no new flows, and keeps its own.
    let mut leaving = String::new();
    eventually("one of the two leaves", || {
        old.iter_mut().chain(&mut new).for_each(Connection::touch);
        let found = claims(&lab).into_iter().find(|(_, state)| state == "leaving");
        leaving = found.map(|(node, _)| node).unwrap_or_default();
        !leaving.is_empty()
    });
    let all: Vec<_> = old.into_iter().chain(new).collect();
    let (mut its, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| lab.node_of(one) == leaving);
    drop(others);
    let until = Instant::now() + Duration::from_secs(6);
    while Instant::now() < until {
        its.iter_mut().for_each(Connection::touch);
        assert!(its.iter().all(|one| lab.node_of(one) == leaving), "flows that go on stay");
        thread::sleep(Duration::from_millis(200));
    }
    let mut late = [lab.connect(&listener)];
    exchange_all(&mut late, 5);
    assert_ne!(lab.node_of(&late[0]), leaving, "it gets no new flows");
    if !its.is_empty() {
        assert!(claims(&lab).contains(&(leaving.clone(), "leaving".to_owned())), "it serves those it has");
    }
    drop(its);
    let rest = the_one_that_serves(&lab);
    assert_ne!(rest, leaving);
    assert!(has_event(&lab, &leaving, "nf-leaves") && has_event(&lab, &leaving, "nf-released"));
    exchange_all(&mut late, 6);
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}

#[test]
fn a_node_the_store_and_what_lies_in_it_may_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lab) = Lab::start("cluster-fails", text) else { return };
    let first = the_one_that_serves(&lab);
    let second = if first == "b" { "c" } else { "b" };
    let listener = lab.listen();
    let mut all = [lab.connect(&listener)];
    exchange_all(&mut all, 1);

    // A store that hangs: packets go on, and it is said.
    kill_process(store_process(&lab, 0), Signal::STOP).unwrap();
    eventually("the store is said to be lost", || {
        has_event(&lab, &first, "store-lost")
            && lab.json(&first, &["cluster", "status"])["store"]["reachable"] == false
    });
    // Longer than any lease: no claim is left when it comes back.
    thread::sleep(Duration::from_secs(6));
    exchange_all(&mut all, 2);
    kill_process(store_process(&lab, 0), Signal::CONT).unwrap();
    eventually("the store is back, and has what runs", || {
        has_event(&lab, &first, "store-back") && claims(&lab).contains(&(first.clone(), "serving".to_owned()))
    });
    assert_eq!(the_one_that_serves(&lab), first, "what ran goes on");
    exchange_all(&mut all, 3);

    // Values that nobody of us wrote.
    put(&lab, "claim/work/zzz", r#"{"incarnation":1,"state":"serving","why":"\u001b[2J"}"#);
    put(&lab, &format!("claim/work/{second}"), "not JSON");
    put(
        &lab,
        "allow/work",
        r#"{"term":1,"epoch":1,"new":4000000000,"named":["b","c","zzz"],"end":["b","c"]}"#,
    );
    put(&lab, "what/is/this", "");
    eventually("what means nothing is said", || {
        let problem = lab.json("a", &["cluster", "status"])["store"]["problem"].to_string();
        problem.contains("mean nothing to this version")
    });
    thread::sleep(Duration::from_secs(2));
    lab.wait_for_servers([first.as_str()]);
    for key in ["claim/work/zzz", &format!("claim/work/{second}"), "what/is/this"] {
        delete(&lab, key);
    }

    // The node that serves dies: its claim ends with its lease, and the other is named.
    signal(daemon(lab.folder.path(), &format!("{}-{first}", lab.name)), Signal::KILL);
    // Another takes its name meanwhile: the lab's own claims nothing then.
    put(&lab, &format!("node/{first}"), r#"{"incarnation":7}"#);
    lab.wait_for_servers([second]);
    eventually("a name that is taken is said", || has_event(&lab, &first, "store-problem"));
    let mut later = [lab.connect(&listener)];
    exchange_all(&mut later, 5);
    assert_eq!(lab.node_of(&later[0]), second);
    delete(&lab, &format!("node/{first}"));
    eventually("it has its name again", || {
        lab.json(&first, &["cluster", "status"])["store"]["problem"] == Json::Null
    });

    // The orchestrator dies: another says what may start.
    let leader = lab.json("b", &["cluster", "status"])["store"]["orchestrator"].as_str().unwrap().to_owned();
    let watcher = if leader == "b" { "c" } else { "b" };
    let store = |key: &str| lab.json(watcher, &["cluster", "status"])["store"][key].clone();
    let term = store("term").as_u64().unwrap();
    signal(daemon(lab.folder.path(), &format!("{}-{leader}", lab.name)), Signal::KILL);
    eventually("there is a later term", || {
        store("orchestrator").is_string() && store("term").as_u64().is_some_and(|later| later > term)
    });
    eventually("at least one serves", || claims(&lab).iter().any(|(_, state)| state == "serving"));
    lab.end();
}

#[test]
fn each_of_three_servers_of_the_store_may_die() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = [1, 2, 3].map(|last| format!("\"http://10.8.0.{last}:2379\"")).join(", ");
    let with_three = |name: &str| text(name).replace("\"http://10.8.0.1:2379\"", &servers);
    let Some(lab) = Lab::start("cluster-three", with_three) else { return };
    let first = the_one_that_serves(&lab);
    let listener = lab.listen();
    let mut all = [lab.connect(&listener)];
    exchange_all(&mut all, 1);
    let store = || lab.json("a", &["cluster", "status"])["store"].clone();
    for server in 0..3 {
        kill_process(store_process(&lab, server), Signal::KILL).unwrap();
        // The lab starts it again; two of three are enough meanwhile.
        thread::sleep(Duration::from_secs(3));
        eventually("the store answers", || {
            store()["reachable"] == true && claims(&lab).contains(&(first.clone(), "serving".to_owned()))
        });
        exchange_all(&mut all, 2 + server as u32);
    }
    assert_eq!(the_one_that_serves(&lab), first, "who served serves, and nobody else");
    let mut new = [lab.connect(&listener)];
    exchange_all(&mut new, 9);
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}
