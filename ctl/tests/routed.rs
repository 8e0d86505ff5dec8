//! A link over a routed network: nodes on both sides of a router share an NF, and what others send there is
//! not heeded.

mod common;

use std::io::Read as _;
use std::process::Stdio;

use common::network::{EAST, EDGES, Lab, WEST, exchange_all, link, there_and_back};
use common::{Running, eventually};
use headgate_host::namespace::{Namespace, named};
use serde_json::Value as Json;

/// Packets enter and leave at a; b, on a's wire, and c, behind a router, work on them.
fn text(name: &str) -> String {
    let wire = link(0, ["a", "b"]);
    let chains = there_and_back("fw");
    format!(
        r#"
[manager]
name = "{name}"
idle = "yield"
[memory]
buffers = 8192
hugepages = "never"
[steering]
mode = "ecmp"
beat = "200ms"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
{wire}
[[link]]
nodes = ["a", "c"]
interfaces = ["up", "up"]
addresses = ["10.1.0.2/24", "10.2.0.2/24"]
carrier = "vxlan-gpe"
bfd = {{ interval = "200ms", multiplier = 5 }}
{EDGES}
[[nf]]
name = "fw"
nodes = ["b", "c"]
run = "firewall"
args = {{ default = "allow", rules = [] }}
{chains}"#
    )
}

/// Returns what tshark reads at the router while connections are used.
fn read_at(router: &Namespace, mut traffic: impl FnMut()) -> Vec<String> {
    let mut command = router.command("tshark").unwrap();
    command.args(["-n", "-l", "-i", "link1-1", "-c", "100", "-f", "udp port 4790", "-T", "fields"]);
    command.args(["-E", "separator=|", "-E", "occurrence=l"]);
    for name in ["udp.dstport", "nsh.si", "nsh.nextproto", "ip.src"] {
        command.args(["-e", name]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tshark = Running::start(command);
    let mut output = tshark.0.stdout.take().unwrap();
    // It says nothing when it is ready, so there is traffic until it has enough.
    eventually("tshark has seen enough", || {
        traffic();
        tshark.0.try_wait().unwrap().is_some()
    });
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Sends a datagram from any address, in hexadecimal.
fn send(place: &Namespace, from: (&str, u16), to: (&str, u16), bytes: &str) {
    const SCRIPT: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.setsockopt(socket.IPPROTO_IP, 19, 1)\n\
        s.bind((sys.argv[1], int(sys.argv[2])))\n\
        s.sendto(bytes.fromhex(sys.argv[5]), (sys.argv[3], int(sys.argv[4])))\n";
    let mut command = place.command("python3").unwrap();
    command.args(["-c", SCRIPT, from.0, &from.1.to_string(), to.0, &to.1.to_string(), bytes]);
    assert!(command.status().unwrap().success());
}

fn dropped(lab: &Lab, reason: &str) -> u64 {
    let drops = lab.json("a", &["status"])["drops"].as_array().cloned().unwrap_or_default();
    let one = drops.iter().find(|drop| drop["chain"] == "-" && drop["reason"] == reason);
    one.map_or(0, |drop| drop["count"].as_u64().unwrap())
}

/// Sends a what its neighbour would not send, and what others would.
fn check_hostile_datagrams(lab: &Lab, router: &Namespace) {
    let (neighbour, a) = (("10.2.0.2", 4790), ("10.1.0.2", 4790));
    let (malformed, no_chain) = (dropped(lab, "nsh-malformed"), dropped(lab, "nsh-no-chain"));
    let header = "0c00000400000000";
    let service = format!("0fc60103abcdefff{}{}0800{}", "00".repeat(16), "02".repeat(12), "45".repeat(40));
    // No VXLAN, plain VXLAN, a frame, and a service path that nobody knows.
    for bytes in ["", "0800000000000100", &format!("0c00000300000000{service}")] {
        send(router, neighbour, a, bytes);
    }
    send(router, neighbour, a, &format!("{header}{service}"));
    // The same from another address, and from another port.
    send(router, ("10.2.0.99", 4790), a, &format!("{header}{service}"));
    send(router, ("10.2.0.2", 4791), a, &format!("{header}{service}"));
    eventually("what the neighbour would not send is counted, and others are not heard", || {
        (dropped(lab, "nsh-malformed"), dropped(lab, "nsh-no-chain")) == (malformed + 3, no_chain + 1)
    });
    let foreign = || lab.json("a", &["cluster", "status"])["beats"]["foreign"].as_u64().unwrap();
    let before = foreign();
    send(router, ("10.2.0.99", 7784), ("10.1.0.2", 7784), "48474232");
    eventually("a foreign beat is counted", || foreign() == before + 1);
}

#[test]
fn nodes_behind_a_router_share_an_nf() {
    let Some(lab) = Lab::start("routed", text) else { return };
    lab.wait_for_servers(["b", "c"]);
    let listener = lab.listen();
    let mut all: Vec<_> = (0..12).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut all, 1);
    let nodes: Vec<String> = all.iter().map(|one| lab.node_of(one)).collect();
    assert!(nodes.contains(&"b".to_owned()) && nodes.contains(&"c".to_owned()), "{nodes:?}");
    let ports = lab.json("a", &["status"])["ports"].as_array().cloned().unwrap();
    let detail = |port: &&Json| port["detail"].as_str().is_some_and(|detail| detail.contains("VXLAN-GPE"));
    assert!(ports.iter().find(detail).is_some_and(|port| port["sent"].as_u64() > Some(0)), "{ports:#?}");

    let router = named::open(&format!("{}-router", lab.name)).unwrap();
    let read = read_at(&router, || exchange_all(&mut all, 2));
    // To c before its stage, and back behind it.
    for index in [255, 254] {
        let is_read = |host| read.contains(&format!("4790|{index}|3|{host}"));
        assert!(is_read(WEST) || is_read(EAST), "{index} is not in {read:#?}");
    }
    check_hostile_datagrams(&lab, &router);
    exchange_all(&mut all, 3);

    // The router loses the way: flows go to b, and none is cut.
    router.links().unwrap().set_down("link1-2").unwrap();
    lab.wait_for_servers(["b"]);
    exchange_all(&mut all, 4);
    assert!(all.iter().all(|one| lab.node_of(one) == "b"));
    router.links().unwrap().set_up("link1-2").unwrap();
    let mut ways = router.links().unwrap();
    // What was routed there is forgotten with the interface.
    let _ = ways.add_address("link1-2", "10.2.0.1".parse().unwrap(), 24);
    lab.wait_for_servers(["b", "c"]);
    let mut later: Vec<_> = (0..8).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut later, 5);
    assert!(later.iter().any(|one| lab.node_of(one) == "c"));
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}
