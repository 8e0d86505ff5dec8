//! Chains on interfaces of the kernel between two hosts: every driver and wiring carries what the hosts
//! say, NFs that die and interfaces that go hurt nobody else. Both hosts are network namespaces; it takes
//! root.

use std::net::UdpSocket;
use std::time::Duration;

use headgate_api::status::{NfState, Snapshot};
use headgate_host::namespace::{Endpoint, Namespace, Namespaces};
use headgate_host::{Pid, Signal, container, openvswitch, process};
use headgate_tests::machine;
use headgate_tests::patience::Patience;
use headgate_tests::session::{PATIENCE, Session, chain, nf};
use rustix::process::kill_process;

const NFS: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 1024
[[nf]]
name = "wall"
run = "firewall"
core = {nf}
ring = 512
args = { default = "allow", rules = [{ action = "deny", protocol = "udp", destination_port = 23 }] }
[[nf]]
name = "count"
run = "monitor"
core = {nf}
ring = 512
policy = "normal"
nice = -3
slice_us = 3000
[[nf]]
name = "pass"
run = "forward"
core = {nf}
ring = 512
loop = "cooperative"
[[chain]]
name = "edge"
stages = ["wall", "count", "pass"]
"#;

fn configuration(io: &str) -> String {
    format!("{NFS}io = {{ in = \"hg-left\", out = \"hg-right\", {io} }}\n")
}

/// Two hosts and a manager in the middle.
struct Bed {
    middle: Namespace,
    hosts: Namespaces,
    session: Session,
}

impl Bed {
    fn new(test: &str, io: &str) -> Option<Self> {
        Self::configured(test, &configuration(io))
    }

    fn configured(test: &str, text: &str) -> Option<Self> {
        if !machine::is_root() {
            machine::skip(test, "namespaces and packet sockets take root");
            return None;
        }
        let middle = Namespace::new().expect("root makes a namespace");
        let hosts = Namespaces::new(&middle).expect("root makes namespaces");
        let session = middle.run(|| Session::start(text)).expect("the namespace can be entered");
        Some(Self { middle, hosts, session })
    }

    /// Sends from one host and answers from the other, until it works.
    fn talk(&self) {
        let server = socket(&self.hosts.right, 7000);
        let client = socket(&self.hosts.left, 7001);
        let mut patience = Patience::of(PATIENCE);
        let mut buffer = [0; 2000];
        for length in [1, 100, 1400].into_iter().cycle() {
            assert!(!patience.is_over(), "no answer; {:#?}", self.session.snapshot());
            // Until the neighbours are known, what is sent may be refused.
            let _ = client.send_to(&vec![7; length], "192.0.2.2:7000");
            let Ok((heard, from)) = server.recv_from(&mut buffer) else { continue };
            let _ = server.send_to(&buffer[..heard], from);
            if client.recv(&mut buffer).is_ok_and(|heard| heard >= 1400) {
                return;
            }
        }
    }
}

fn socket(host: &Endpoint, port: u16) -> UdpSocket {
    let bind = || UdpSocket::bind(("0.0.0.0", port)).expect("a port is free");
    let socket = host.namespace.run(bind).expect("the namespace can be entered");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time above zero");
    socket
}

fn has_switch(test: &str) -> bool {
    openvswitch::PROGRAMS.iter().all(|program| machine::has_program(test, program))
}

fn interfaces(snapshot: &Snapshot, name: &str) -> [u64; 2] {
    let io = nf(snapshot, name).io.as_ref().expect("it works on interfaces");
    io.interfaces.each_ref().map(|interface| interface.received)
}

#[test]
fn every_driver_and_wiring_carries_what_hosts_say() {
    const TEST: &str = "every_driver_and_wiring_carries_what_hosts_say";
    let all = [
        "batch = 1",
        "batch = 256, wiring = \"bridge\"",
        "driver = \"mapped\"",
        "driver = \"mapped\", wiring = \"bridge\", batch = 1",
        "driver = \"uring\"",
        "driver = \"uring\", wiring = \"bridge\", batch = 1",
        "driver = \"xdp\"",
        "driver = \"xdp\", wiring = \"bridge\", batch = 1",
        "wiring = \"ovs\", batch = 1",
        "driver = \"mapped\", wiring = \"ovs\"",
    ];
    for io in all {
        if io.contains("ovs") && !has_switch(TEST) {
            continue;
        }
        let Some(bed) = Bed::new(TEST, io) else { return };
        bed.talk();
        let refused = socket(&bed.hosts.left, 7002);
        refused.send_to(b"telnet", "192.0.2.2:23").expect("the neighbour is known");
        let counted = |now: &Snapshot| {
            let edge = chain(now, "edge");
            // Equal: nothing of what lies between joins in.
            nf(now, "wall").drops.get("nf-verdict") == Some(&1) && edge.entered == edge.left + edge.dropped
        };
        let snapshot = bed.session.wait_for("what came has gone or ended", counted);
        assert!(interfaces(&snapshot, "count").iter().all(|came| *came > 0), "{io}: both ways");
        let edge = chain(&snapshot, "edge");
        assert_eq!(edge.stages, ["wall", "count", "pass"]);
        assert_eq!((edge.entry.as_deref(), &*edge.out), (Some("hg-left"), "hg-right"));
        assert_eq!(nf(&snapshot, "count").policy, "normal");
        bed.session.stop();
        drop(bed.middle);
    }
}

#[test]
fn an_nf_that_is_killed_comes_back_and_counts_on() {
    let Some(bed) = Bed::new("an_nf_that_is_killed_comes_back_and_counts_on", "batch = 8") else { return };
    bed.talk();
    let before = bed.session.snapshot();
    let pid = nf(&before, "count").pid.expect("it runs");
    let pid = Pid::from_raw(pid as i32).expect("a process has a number");
    kill_process(pid, Signal::KILL).expect("it is ours");
    bed.session.wait_for("the NF runs again", |now| {
        nf(now, "count").failures == 1 && nf(now, "count").state == NfState::Running
    });
    bed.talk();
    let after = bed.session.snapshot();
    assert!(interfaces(&after, "count")[0] >= interfaces(&before, "count")[0]);
    assert_eq!(nf(&after, "wall").failures + nf(&after, "pass").failures, 0);
    bed.session.stop();
}

#[test]
fn nfs_in_containers_work_on_interfaces_too() {
    const TEST: &str = "nfs_in_containers_work_on_interfaces_too";
    if container::RUNTIMES.iter().all(|runtime| process::find_program(runtime).is_none()) {
        return machine::skip(TEST, container::INSTALL);
    }
    let contained = "name = \"count\"\nenvironment = \"container\"";
    let text = configuration("batch = 8").replace("name = \"count\"", contained);
    let Some(bed) = Bed::configured(TEST, &text) else { return };
    bed.talk();
    let now = bed.session.snapshot();
    assert!(nf(&now, "count").container);
    assert!(interfaces(&now, "count").iter().all(|came| *came > 0), "both ways");
    bed.session.stop();
}

#[test]
fn a_switch_that_is_killed_is_told_of_and_comes_back() {
    const TEST: &str = "a_switch_that_is_killed_is_told_of_and_comes_back";
    if !has_switch(TEST) {
        return;
    }
    let Some(bed) = Bed::new(TEST, "wiring = \"ovs\"") else { return };
    bed.talk();
    let switch = |now: &Snapshot| chain(now, "edge").switch.clone().expect("it has one");
    let before = switch(&bed.session.snapshot());
    let pid = Pid::from_raw(before.pid.expect("it runs") as i32).expect("a process has a number");
    kill_process(pid, Signal::KILL).expect("it is ours");
    let told = bed
        .session
        .wait_for("it is started again", |now| switch(now).failures == 1 && switch(now).pid.is_some());
    let said = |what: &str| told.events.iter().any(|event| event.who == "edge" && event.what.contains(what));
    assert!(said("Open vSwitch failed: ovs-vswitchd killed by SIGKILL"), "{:#?}", told.events);
    assert!(told.nfs.iter().all(|nf| nf.failures == 0), "{:#?}", told.nfs);
    bed.talk();
    let after = switch(&bed.session.snapshot());
    assert!(after.cpu_ns > 0);
    bed.session.stop();
    let pid = Pid::from_raw(after.pid.expect("it ran") as i32).expect("a process has a number");
    assert!(!process::is_alive(pid).expect("/proc can be read"), "it is gone with the manager");
}

#[test]
fn an_interface_that_goes_is_told_of_and_taken_again_when_it_is_back() {
    for driver in ["packet", "mapped", "uring", "xdp"] {
        go_and_come_back(driver);
    }
}

fn go_and_come_back(driver: &str) {
    const TEST: &str = "an_interface_that_goes_is_told_of_and_taken_again_when_it_is_back";
    let Some(mut bed) = Bed::new(TEST, &format!("driver = \"{driver}\", batch = 8")) else { return };
    bed.talk();
    bed.middle.links().and_then(|mut links| Ok(links.delete("hg-right")?)).expect("it is there");
    let told = bed.session.wait_for("its NF fails", |now| nf(now, "pass").state == NfState::Waiting);
    let events: Vec<&str> = told.events.iter().map(|event| event.what.as_str()).collect();
    assert!(events.iter().any(|what| what.contains("its interface hg-right is gone")), "{events:#?}");
    assert_eq!(nf(&told, "wall").state, NfState::Running);
    assert_eq!(nf(&told, "count").state, NfState::Running);
    // Another pair of hosts cannot be had under the same names; the left one stays as it is.
    bed.middle.links().and_then(|mut links| Ok(links.delete("hg-left")?)).expect("it is there");
    bed.session.wait_for("the other NF fails", |now| nf(now, "wall").state == NfState::Waiting);
    bed.hosts = Namespaces::new(&bed.middle).expect("root makes namespaces");
    bed.session.wait_for("all run again", |now| now.nfs.iter().all(|nf| nf.state == NfState::Running));
    bed.talk();
    bed.session.stop();
}

#[test]
fn what_changes_on_interfaces_is_refused_while_the_manager_runs() {
    const TEST: &str = "what_changes_on_interfaces_is_refused_while_the_manager_runs";
    let Some(bed) = Bed::new(TEST, "batch = 8") else { return };
    let refusal = bed.session.apply(&configuration("batch = 8, driver = \"mapped\""));
    let refusal = refusal.expect_err("it cannot change");
    assert!(refusal.message.contains("[[chain]] with `io`"), "{}", refusal.message);
    let more = format!(
        "{}[[nf]]\nname = \"idle\"\nrun = \"hello\"\ncore = {{nf}}\nring = 512\n",
        configuration("batch = 8")
    );
    bed.session.apply(&more).expect("the rest can");
    bed.talk();
    bed.session.stop();
}

#[test]
fn packets_of_one_call_change_while_the_manager_runs() {
    const TEST: &str = "packets_of_one_call_change_while_the_manager_runs";
    for driver in ["packet", "mapped", "uring", "xdp"] {
        let io = |batch: u32| format!("driver = \"{driver}\", batch = {batch}");
        let Some(bed) = Bed::new(TEST, &io(8)) else { return };
        bed.talk();
        let before = bed.session.snapshot();
        for batch in [256, 1, 32] {
            bed.session.apply(&configuration(&io(batch))).expect("that can change");
            bed.talk();
        }
        let after = bed.session.snapshot();
        for name in ["wall", "count", "pass"] {
            assert_eq!(nf(&after, name).io.as_ref().map(|io| io.batch), Some(32), "{driver}");
            assert_eq!(nf(&after, name).pid, nf(&before, name).pid, "{driver}: no process is another");
        }
        bed.session.stop();
    }
}
