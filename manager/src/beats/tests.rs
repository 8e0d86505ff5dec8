use std::net::IpAddr;
use std::time::Instant as Now;

use headgate_host::namespace::{Namespace, NamespaceError};
use headgate_host::network::{Mac, VethEnd};

use super::*;
use crate::config::model::{Bfd, LabLink, Network as Nodes, Steering};
use crate::config::{Carrier, Digest};

const NAMES: [&str; 3] = ["a", "b", "c"];
const EVERY: Span = Span::from_millis(50);
/// Longest wait for what has to come; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn address(link: u8, end: u8) -> IpAddr {
    IpAddr::from([10, 9, link, end + 1])
}

/// Three nodes in a row, each in a namespace of its own; `None` where none can be made, which is said.
fn row() -> Option<[Namespace; 3]> {
    let made = [Namespace::new(), Namespace::new(), Namespace::new()];
    if let [Err(error @ NamespaceError::NotPermitted { .. }), ..] = &made {
        eprintln!("skipped: {error}");
        return None;
    }
    let nodes = made.map(|one| one.unwrap());
    for link in 0..2u8 {
        let name = |end: u8| format!("l{link}e{end}");
        let (near, far) = (name(0), name(1));
        let near = VethEnd { name: &near, mac: Mac([2, 0, 0, 1, link, 0]) };
        let far = VethEnd { name: &far, mac: Mac([2, 0, 0, 1, link, 1]) };
        nodes[usize::from(link)].join(&nodes[usize::from(link) + 1], [near, far], 1500).unwrap();
        for end in 0..2u8 {
            let mut links = nodes[usize::from(link + end)].links().unwrap();
            links.add_address(&name(end), address(link, end), 24).unwrap();
        }
    }
    Some(nodes)
}

fn start(nodes: &[Namespace; 3], place: usize) -> Beats {
    let link = |number: u8, end: u8| NodeLink {
        number: number.into(),
        peer: NAMES[usize::from(number + 1 - end)].to_owned(),
        interface: format!("l{number}e{end}"),
        carrier: Carrier::Ethernet,
        address: address(number, end),
        peer_address: address(number, 1 - end),
        prefix_bits: 24,
        bfd: Bfd { interval_ns: 50_000_000, multiplier: 5 },
        mtu: None,
        lab: LabLink::default(),
    };
    let links = [vec![link(0, 0)], vec![link(0, 1), link(1, 0)], vec![link(1, 1)]];
    let node = Node {
        name: NAMES[place].to_owned(),
        state: None,
        digest: Digest::default(),
        links: links[place].clone(),
        groups: Vec::new(),
        network: Nodes { nodes: NAMES.map(str::to_owned).into(), links: vec![[0, 1], [1, 2]] },
        steering: Some(Steering { beat_ns: EVERY.0, ..Steering::default() }),
        store: None,
    };
    let clock = Clock::calibrate();
    nodes[place].run(|| Beats::start(&node, clock, clock.now_ns())).unwrap().unwrap()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Now::now() + PATIENCE;
    while !is_so() {
        assert!(Now::now() < until, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns what a living node says of an NF that runs there.
fn said_by(at: &Beats, node: usize, nf: &str) -> Option<Offered> {
    at.heard(node)?.1.into_iter().find(|offer| offer.nf == nf && offer.instances > 0)
}

fn offer(nf: &str, kappa: f64) -> Offered {
    Offered { nf: nf.to_owned(), instances: 2, kappa, service_ns: 900, leaving: false }
}

#[test]
fn nodes_hear_of_those_behind_their_neighbour() {
    let Some(nodes) = row() else { return };
    let [a, b] = [0, 1].map(|place| start(&nodes, place));
    let mut c = Some(start(&nodes, 2));
    c.as_ref().unwrap().say(vec![offer("fw", 0.5), Offered { instances: 0, ..offer("mon", 0.0) }]);
    eventually("a hears of c", || said_by(&a, 2, "fw") == Some(offer("fw", 0.5)));
    assert_eq!(said_by(&a, 2, "mon"), None, "no instance runs");
    assert_eq!((said_by(&a, 1, "fw"), said_by(&a, 0, "fw"), said_by(&a, 9, "fw")), (None, None, None));
    c.as_ref().unwrap().say(vec![offer("fw", 3.0)]);
    eventually("the price is passed on", || said_by(&a, 2, "fw").is_some_and(|offer| offer.kappa > 2.9));
    let heard = a.changes();
    assert!([1, 2].iter().all(|node| heard.contains(&Change::Heard(*node))), "{heard:?}");
    // One that stops says so; then it is lost.
    drop(c.take());
    eventually("c has nothing", || said_by(&a, 2, "fw").is_none());
    let mut changes = Vec::new();
    eventually("c is lost", || {
        changes.extend(a.changes());
        changes.contains(&Change::Lost(2))
    });
    assert!(a.heard(1).is_some() && a.heard(2).is_none() && b.heard(0).is_some());
    let c = start(&nodes, 2);
    c.say(vec![offer("fw", 1.0)]);
    eventually("it is back", || said_by(&a, 2, "fw") == Some(offer("fw", 1.0)));
}

/// Sends a datagram from a node to a's address of the first link.
fn send(node: &Namespace, ttl: u32, source: &str, bytes: &[u8]) {
    let send = || {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        socket.set_ttl(ttl).unwrap();
        socket.send_to(bytes, (address(0, 0), PORT)).unwrap();
    };
    node.run(send).unwrap();
}

fn said(node: &str, number: (u64, u32)) -> Writer {
    let mut writer = Writer::default();
    let offer = Offer { nf: "fw", instances: 1, kappa: 0.0, service_ns: 0, leaving: false };
    writer.record(node, number, [offer]).unwrap();
    writer
}

#[test]
fn what_nobody_means_well_is_counted_and_changes_nothing() {
    let Some(nodes) = row() else { return };
    let a = start(&nodes, 0);
    let from_b = |ttl: u32, source: &str, bytes: &[u8]| send(&nodes[1], ttl, source, bytes);
    nodes[1].links().unwrap().add_address("l0e1", IpAddr::from([10, 9, 0, 77]), 24).unwrap();
    let neighbour = "10.9.0.2";
    let good = said("b", (5, 7));
    from_b(64, neighbour, good.bytes());
    from_b(255, "10.9.0.77", good.bytes());
    from_b(255, neighbour, b"no beat");
    from_b(255, neighbour, &good.bytes()[..good.bytes().len() - 1]);
    from_b(255, neighbour, &[0; BYTES_MAX + 200]);
    from_b(255, neighbour, said("nobody", (5, 7)).bytes());
    from_b(255, neighbour, said("a", (5, 7)).bytes());
    let expected = BeatStatus { received: 7, foreign: 2, malformed: 3, unknown: 1, ..BeatStatus::default() };
    let counted = || BeatStatus { sent: 0, unsent: 0, ..a.status() };
    eventually("all were counted", || counted() == expected);
    assert_eq!(said_by(&a, 1, "fw"), None);
    from_b(255, neighbour, good.bytes());
    eventually("a good one is heard", || said_by(&a, 1, "fw").is_some());
    from_b(255, neighbour, said("b", (5, 1)).bytes());
    from_b(255, neighbour, said("b", (4, 9)).bytes());
    eventually("older ones are counted", || a.status().old == 2);
    eventually("it is lost", || said_by(&a, 1, "fw").is_none());
    from_b(255, neighbour, good.bytes());
    eventually("a replay is counted", || a.status().old == 3);
    assert_eq!(said_by(&a, 1, "fw"), None);
}
