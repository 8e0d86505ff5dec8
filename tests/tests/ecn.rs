//! A real TCP sender with ECN hears of a long queue before anything of it is lost.
//!
//! A test program of its own, because a process has one DPDK. It takes root.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use headgate_host::namespace::{Endpoint, Namespace, Namespaces};
use headgate_tests::machine;
use headgate_tests::session::{Session, nf};

/// The slow NF takes some 100 us a packet, so that on any machine it is what limits the transfer.
const CONFIGURATION: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 4096
[scheduler]
ecn_watermark = 10
[[port]]
name = "west"
kind = "dpdk"
device = "net_af_packet0,iface=hg-left"
[[port]]
name = "east"
kind = "dpdk"
device = "net_af_packet1,iface=hg-right"
[[nf]]
name = "slow"
run = "synthetic"
core = {nf}
ring = 1024
args = { cycles = 250000 }
[[nf]]
name = "pass"
run = "forward"
core = {nf}
[[chain]]
name = "there"
stages = ["slow"]
out = "east"
[[chain]]
name = "back"
stages = ["pass"]
out = "west"
[[rule]]
in = "west"
chain = "there"
[[rule]]
in = "east"
chain = "back"
"#;

const SERVER: &str = "192.0.2.2:9000";
const BYTES: usize = 12 << 20;

/// Sets whether connections of a host ask for ECN (ip-sysctl, `tcp_ecn`: 1 asks and answers, 0 does neither).
fn set_ecn(host: &Endpoint, on: bool) {
    let write = || std::fs::write("/proc/sys/net/ipv4/tcp_ecn", if on { "1" } else { "0" });
    host.namespace.run(write).expect("the namespace can be entered").expect("root sets a sysctl");
}

/// Packets with CE that a host has received, as its kernel counts them.
fn congestion_experienced(host: &Endpoint) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat");
    let text = host.namespace.run(read).expect("the namespace can be entered").expect("the kernel counts");
    let mut lines = text.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "InCEPkts").expect("this kernel counts CE");
    value.parse().expect("a number")
}

/// Sends from left to right; returns when all has arrived.
fn transfer(hosts: &Namespaces) {
    let listener =
        hosts.right.namespace.run(|| TcpListener::bind(SERVER)).unwrap().expect("the port is free");
    let receiver = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("somebody connects");
        let mut received = Vec::with_capacity(BYTES);
        connection.read_to_end(&mut received).expect("the connection holds");
        received.len()
    });
    let connect = || TcpStream::connect(SERVER);
    let mut sender = hosts.left.namespace.run(connect).unwrap().expect("the server answers");
    sender.write_all(&vec![7; BYTES]).expect("the connection holds");
    drop(sender);
    assert_eq!(receiver.join().expect("the receiver does not panic"), BYTES);
}

#[test]
fn a_sender_with_ecn_is_told_and_one_without_is_not_touched() {
    if !machine::is_root() {
        return machine::skip("ecn", "network namespaces and packet sockets take root");
    }
    let middle = Namespace::new().expect("root makes a namespace");
    let hosts = Namespaces::new(&middle).expect("root makes namespaces");
    let session = middle.run(|| Session::start(CONFIGURATION)).expect("the namespace can be entered");
    for (on, what) in [(false, "without ECN nothing is marked"), (true, "with ECN the sender is told")] {
        set_ecn(&hosts.left, on);
        set_ecn(&hosts.right, on);
        let (marked, seen) = (nf(&session.snapshot(), "slow").marked, congestion_experienced(&hosts.right));
        transfer(&hosts);
        let marked = nf(&session.audited(), "slow").marked - marked;
        let seen = congestion_experienced(&hosts.right) - seen;
        assert_eq!((marked > 0, seen > 0), (on, on), "{what}: {marked} marked, {seen} seen");
    }
    session.stop();
}
