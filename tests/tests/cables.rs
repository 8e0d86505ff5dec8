//! Interfaces that are pulled out under traffic: an event, a state, and traffic again when they are back. It
//! takes root.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use headgate_api::status::{EventCode, Snapshot};
use headgate_host::namespace::{Namespace, Namespaces, Plan};
use headgate_host::network::{Links, Mac, VethEnd};
use headgate_tests::machine;
use headgate_tests::session::{Session, chain, port};

const CONFIGURATION: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 4096
[[port]]
name = "west"
interface = "hg-left"
[[port]]
name = "east"
interface = "hg-right"
[[nf]]
name = "count"
run = "monitor"
core = {nf}
[[chain]]
name = "there"
stages = ["count"]
out = "east"
[[chain]]
name = "back"
stages = ["count"]
out = "west"
[[rule]]
in = "west"
chain = "there"
[[rule]]
in = "east"
chain = "back"
"#;

/// Lays the cable of the right host again: what is deleted at one end is gone at both.
fn lay_again(middle: &Namespace, hosts: &Namespaces) {
    let mut links = middle.links().unwrap();
    let ends =
        [("hg-right", 9), ("eth0", 2)].map(|(name, last)| VethEnd { name, mac: Mac([2, 0, 0, 0, 0, last]) });
    let [ours, theirs] = ends;
    links.add_veth(ours, theirs, hosts.right.namespace.as_fd(), 1500).unwrap();
    links.set_no_own_ipv6_address("hg-right").unwrap();
    links.set_up("hg-right").unwrap();
    let mut inside = hosts.right.namespace.links().unwrap();
    inside.set_up("eth0").unwrap();
    inside.add_address("eth0", hosts.right.addresses[0], 24).unwrap();
}

fn state(snapshot: &Snapshot) -> &str {
    port(snapshot, "east").state.as_deref().unwrap_or_default()
}

/// Whether what left the chains is what the ports sent and what they lost.
fn agrees(snapshot: &Snapshot) -> bool {
    [("there", "east"), ("back", "west")].into_iter().all(|(name, end)| {
        let end = port(snapshot, end);
        chain(snapshot, name).left == end.sent + end.failed
    })
}

/// Asks for a round trip by UDP until there is one.
fn wait_for_an_answer(hosts: &Namespaces) {
    let answer = || {
        let at = (hosts.right.addresses[0], 7);
        let server = hosts.right.namespace.run(|| UdpSocket::bind(at)).unwrap().unwrap();
        let client =
            hosts.left.namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap().unwrap();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        }
        client.send_to(b"there", at).is_ok()
            && server.recv_from(&mut [0; 9]).is_ok_and(|(_, from)| server.send_to(b"back", from).is_ok())
            && client.recv(&mut [0; 9]).is_ok()
    };
    assert!((0..100).any(|_| answer()), "no answer comes through");
}

#[test]
fn a_cable_that_is_pulled_out_under_traffic_works_again() {
    const TEST: &str = "a_cable_that_is_pulled_out_under_traffic_works_again";
    if !machine::is_root() {
        return machine::skip(TEST, "network namespaces take root");
    }
    let plan = Plan { offloads: true, ..Plan::default() };
    // Counters of ports are published a moment after those of chains.
    pull_under_traffic(CONFIGURATION, &plan, |session| {
        session.wait_for("ports sent or lost all that left", agrees);
    });
}

/// The same interfaces by DPDK's driver, whose sockets are bound anew below it.
#[test]
fn a_dpdk_port_whose_interface_was_gone_works_again() {
    const TEST: &str = "a_dpdk_port_whose_interface_was_gone_works_again";
    if !machine::is_root() {
        return machine::skip(TEST, "network namespaces take root");
    }
    let mut text = CONFIGURATION.to_owned();
    for (number, name) in ["hg-left", "hg-right"].into_iter().enumerate() {
        let device = format!("kind = \"dpdk\"\ndevice = \"net_af_packet{number},iface={name}\"");
        text = text.replace(&format!("interface = \"{name}\""), &device);
    }
    pull_under_traffic(&text, &Plan::default(), |_| ());
}

fn pull_under_traffic(text: &str, plan: &Plan, settled: impl FnOnce(&Session)) {
    let middle = Namespace::new().unwrap();
    let hosts = Namespaces::planned(&middle, plan).unwrap();
    let session = middle.run(|| Session::start(text)).unwrap();
    wait_for_an_answer(&hosts);

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let socket = hosts.left.namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)));
            let socket = socket.unwrap().unwrap();
            while !stop.load(Ordering::Relaxed) {
                // Nobody knows where the right host is while its cable is out.
                let _ = socket.send_to(&[0; 100], (hosts.right.addresses[0], 9));
                thread::sleep(Duration::from_micros(100));
            }
        });
        let ended = thread::scope(|inner| inner.spawn(|| pull_and_lay(&session, &middle, &hosts)).join());
        stop.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    wait_for_an_answer(&hosts);
    settled(&session);
    let _ = session.audited();
    let last = session.stop();
    let told = |code| last.events.iter().filter(|event| event.code == code && event.who == "east").count();
    assert!(told(EventCode::PortDown) >= 4 && told(EventCode::PortUp) >= 4, "{:#?}", last.events);
}

/// What cannot come back says so, and the rest goes on: a tap device is its interface, and sockets of a group
/// are bound once.
#[test]
fn a_dpdk_port_that_cannot_come_back_says_so() {
    const TEST: &str = "a_dpdk_port_that_cannot_come_back_says_so";
    if !machine::is_root() {
        return machine::skip(TEST, "network namespaces take root");
    }
    for (device, interface, cure) in [
        ("device = \"net_tap0,iface=hg-tap\"", "hg-tap", "which makes it again"),
        ("device = \"net_af_packet0,iface=hg-right\"\nqueues = 2", "hg-right", "restart the manager"),
    ] {
        let middle = Namespace::new().unwrap();
        let hosts = Namespaces::planned(&middle, &Plan::default()).unwrap();
        let text = CONFIGURATION.replace("interface = \"hg-right\"", &format!("kind = \"dpdk\"\n{device}"));
        let session = middle.run(|| Session::start(&text)).unwrap();
        middle.links().unwrap().delete(interface).unwrap();
        let now = session.wait_for("the port's interface is gone", |now| state(now) == "gone");
        assert_eq!(port(&now, "east").link, Some(false));
        if interface == "hg-right" {
            lay_again(&middle, &hosts);
        }
        let events = session.snapshot().events;
        let down = events.iter().find(|event| event.code == EventCode::PortDown && event.who == "east");
        let down = down.unwrap_or_else(|| panic!("{events:#?}"));
        assert!(down.what.contains("stays dead") && down.what.contains(cure), "{down:?}");
        let last = session.stop();
        assert!(!last.events.iter().any(|event| event.code == EventCode::PortUp), "{:#?}", last.events);
    }
}

fn pull_and_lay(session: &Session, middle: &Namespace, hosts: &Namespaces) {
    for pull in 0..4 {
        session.wait_for_packets("there", 100);
        if pull % 2 == 0 {
            middle.links().unwrap().delete("hg-right").unwrap();
            session.wait_for("the port's interface is gone", |now| state(now) == "gone");
            let _ = session.audited();
            lay_again(middle, hosts);
        } else {
            let mut links: Links = middle.links().unwrap();
            links.set_down("hg-right").unwrap();
            session.wait_for("the port's interface is down", |now| state(now) == "down");
            links.set_up("hg-right").unwrap();
        }
        session.wait_for("the port's interface is up", |now| state(now) == "up");
        wait_for_an_answer(hosts);
    }
}
