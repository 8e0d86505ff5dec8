//! Jumbo frames: carried whole through a chain where buffers hold them, refused and counted where not.
//!
//! Both hosts are network namespaces with an MTU of 9000; their cables end in a third, where the manager
//! runs. It takes root.

use std::net::UdpSocket;
use std::process::{Output, Stdio};
use std::time::Duration;

use headgate_host::namespace::{Endpoint, Namespace, Namespaces, Plan};
use headgate_tests::machine;
use headgate_tests::patience::Patience;
use headgate_tests::programs::Running;
use headgate_tests::session::{PATIENCE, Session, chain, port};

/// The usual MTU of networks with jumbo frames, in bytes.
const MTU: u32 = 9000;
/// Bytes that are left of it behind the headers of IPv4 and UDP, in bytes.
const ECHO_BYTES_MAX: usize = MTU as usize - 20 - 8;
/// Size of a buffer for a frame of that MTU, with a VLAN tag and the packet socket's own headers: the guide's
/// figure.
const BUFFER_BYTES: u32 = 9184;
/// Bytes of one transfer. Our choice: some hundred frames.
const BYTES: u64 = 4 << 20;
const SERVER: &str = "192.0.2.2";

/// Kinds of ports on the interfaces where the cables end.
#[derive(Clone, Copy)]
enum Ports {
    AfPacket,
    Interface,
}

fn configuration(ports: Ports, buffer_bytes: u32) -> String {
    let mut text = format!(
        "[manager]\nname = \"tests\"\ncores = [{{manager}}]\n\
         [memory]\nbuffers = 4096\nbuffer_bytes = {buffer_bytes}\n"
    );
    for (number, name) in ["left", "right"].into_iter().enumerate() {
        text += &match ports {
            Ports::AfPacket => format!(
                "[[port]]\nname = \"{name}\"\nkind = \"dpdk\"\n\
                 device = \"net_af_packet{number},iface=hg-{name}\"\n"
            ),
            Ports::Interface => format!("[[port]]\nname = \"{name}\"\ninterface = \"hg-{name}\"\n"),
        };
    }
    for (name, run) in [("first", "forward"), ("count", "monitor"), ("last", "forward")] {
        text += &format!("[[nf]]\nname = \"{name}\"\nrun = \"{run}\"\ncore = {{nf}}\nring = 1024\n");
    }
    for (name, from, to) in [("there", "left", "right"), ("back", "right", "left")] {
        text += &format!(
            "[[chain]]\nname = \"{name}\"\nstages = [\"first\", \"count\", \"last\"]\nout = \"{to}\"\n\
             [[rule]]\nin = \"{from}\"\nchain = \"{name}\"\n"
        );
    }
    text
}

fn run(host: &Endpoint, program: &str, arguments: &[&str]) -> Output {
    let mut command = host.namespace.command(program).expect("the namespace can be entered");
    command.args(arguments).stdin(Stdio::null()).output().expect("the program runs")
}

/// Sends one datagram there and back, in a frame each way, as it is no longer than the MTU; returns whether
/// it came whole.
fn echo(hosts: &Namespaces, bytes: usize, patience: Duration) -> bool {
    let bind = |host: &Endpoint| -> UdpSocket {
        let bound = host.namespace.run(|| UdpSocket::bind((host.addresses[0], 0)));
        let socket = bound.expect("the namespace can be entered").expect("a socket can be bound");
        socket.set_read_timeout(Some(patience)).expect("a socket has a timeout");
        socket
    };
    let (left, right) = (bind(&hosts.left), bind(&hosts.right));
    let sent: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
    let mut received = vec![0; bytes + 1];
    let mut carry = |from: &UdpSocket, to: &UdpSocket| {
        let address = to.local_addr().expect("a bound socket has an address");
        assert_eq!(from.send_to(&sent, address).expect("it fits the mtu"), bytes);
        to.recv(&mut received).is_ok_and(|count| received[..count] == sent)
    };
    carry(&left, &right) && carry(&right, &left)
}

fn echo_in_the_end(hosts: &Namespaces, bytes: usize) {
    let mut patience = Patience::of(PATIENCE);
    while !echo(hosts, bytes, Duration::from_secs(1)) {
        assert!(!patience.is_over(), "no datagram of {bytes} bytes came back");
    }
}

/// iperf3's segments fill the frames.
fn transfer(hosts: &Namespaces, session: &Session) {
    let mut server = hosts.right.namespace.command("iperf3").expect("the namespace can be entered");
    server.args(["-s", "-1"]).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Running::start(server);
    let before = port(&session.snapshot(), "right").clone();
    let mut patience = Patience::of(PATIENCE);
    let amount = BYTES.to_string();
    let words = ["-c", SERVER, "-n", &amount, "-w", "256K", "--connect-timeout", "2000"];
    loop {
        let output = run(&hosts.left, "iperf3", &words);
        if output.status.success() {
            break;
        }
        assert!(!patience.is_over(), "iperf3: {}", String::from_utf8_lossy(&output.stderr));
    }
    drop(server);
    session.wait_for("the transfer is counted", |now| {
        port(now, "right").sent_bytes - before.sent_bytes >= BYTES / 2
    });
    let after = port(&session.snapshot(), "right").clone();
    let (bytes, frames) = (after.sent_bytes - before.sent_bytes, after.sent - before.sent);
    assert!(bytes / frames > u64::from(MTU) / 2, "{bytes} bytes came in {frames} frames");
}

/// Without DPDK: ordinary frames of that length, and TCP, both ways.
#[test]
fn jumbo_frames_pass_between_interfaces() {
    if !machine::is_root() {
        return machine::skip("jumbo", "network namespaces and packet sockets take root");
    }
    if !machine::has_program("jumbo", "iperf3") {
        return;
    }
    for offloads in [false, true] {
        let middle = Namespace::new().expect("root makes a namespace");
        let plan = Plan { mtu: MTU, offloads, ..Plan::default() };
        let hosts = Namespaces::planned(&middle, &plan).expect("root makes namespaces");
        let text = configuration(Ports::Interface, BUFFER_BYTES);
        let session = middle.run(|| Session::start(&text)).expect("the namespace can be entered");
        for bytes in [8900, ECHO_BYTES_MAX] {
            echo_in_the_end(&hosts, bytes);
        }
        transfer(&hosts, &session);
        let now = session.audited();
        for name in ["left", "right"] {
            let port = port(&now, name);
            assert_eq!((port.too_long, port.failed, port.bad_offload), (0, 0, 0), "{port:#?}");
        }
        session.stop();
    }
}

#[test]
fn jumbo_frames_pass_where_buffers_hold_them_and_are_refused_where_not() {
    if !machine::is_root() {
        return machine::skip("jumbo", "network namespaces and packet sockets take root");
    }
    if !machine::has_program("jumbo", "iperf3") {
        return;
    }
    let middle = Namespace::new().expect("root makes a namespace");
    let plan = Plan { mtu: MTU, ..Plan::default() };
    let hosts = Namespaces::planned(&middle, &plan).expect("root makes namespaces");
    let start = |buffer_bytes| {
        let text = configuration(Ports::AfPacket, buffer_bytes);
        middle.run(|| Session::start(&text)).expect("the namespace can be entered")
    };

    let session = start(BUFFER_BYTES);
    for bytes in [8900, ECHO_BYTES_MAX] {
        echo_in_the_end(&hosts, bytes);
    }
    transfer(&hosts, &session);
    let now = session.audited();
    assert!(chain(&now, "there").left > 0 && chain(&now, "back").left > 0);
    for name in ["left", "right"] {
        let port = port(&now, name);
        assert_eq!(port.too_long, 0, "{port:#?}");
        assert!(!port.detail.contains("too long"), "{}", port.detail);
    }
    session.stop();

    let session = start(2048);
    echo_in_the_end(&hosts, 100);
    assert!(!echo(&hosts, 8900, Duration::from_secs(1)), "a frame passed that no buffer holds");
    session.wait_for("the long frame is counted", |now| port(now, "left").too_long > 0);
    let now = session.audited();
    let detail = &port(&now, "left").detail;
    assert!(detail.contains("mtu 9000") && detail.contains("lost as too long"), "{detail}");
    assert!(detail.contains(&format!("raise memory.buffer_bytes to {BUFFER_BYTES}")), "{detail}");
    echo_in_the_end(&hosts, 100);
    session.stop();
}
