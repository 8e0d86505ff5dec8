use std::net::IpAddr;
pub(super) use std::time::Instant as Now;

use headgate_host::namespace::{Namespace, NamespaceError};
use headgate_host::network::{Mac, VethEnd};

use super::*;
use crate::config::model::{Bfd, LabLink, Network, NodeLink};
use crate::config::{Carrier, Digest};

/// Longest wait for what has to come; not a measurement.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Two nodes with two links between them, each in a namespace of its own.
pub(super) struct Bed {
    pub namespaces: [Namespace; 2],
}

fn address(link: u8, end: u8) -> IpAddr {
    IpAddr::from([10, 9, link, end + 1])
}

impl Bed {
    /// `None` where no namespace can be made, which is said.
    pub fn make() -> Option<Self> {
        let namespaces = match [Namespace::new(), Namespace::new()] {
            [Ok(one), Ok(other)] => [one, other],
            [Err(error @ NamespaceError::NotPermitted { .. }), _] => {
                eprintln!("skipped: {error}");
                return None;
            }
            [one, other] => panic!("{:?} {:?}", one.err(), other.err()),
        };
        for link in 0..2 {
            let name = |end: usize| format!("l{link}e{end}");
            let (near, far) = (name(0), name(1));
            let near = VethEnd { name: &near, mac: Mac([2, 0, 0, 0, link, 0]) };
            let far = VethEnd { name: &far, mac: Mac([2, 0, 0, 0, link, 1]) };
            namespaces[0].join(&namespaces[1], [near, far], 1500).unwrap();
            for (end, namespace) in namespaces.iter().enumerate() {
                let mut links = namespace.links().unwrap();
                links.add_address(&name(end), address(link, end as u8), 24).unwrap();
            }
        }
        Some(Self { namespaces })
    }

    pub fn start(&self, end: usize) -> Sessions {
        let link = |number: u8| NodeLink {
            number: u16::from(number),
            peer: ["one", "other"][1 - end].to_owned(),
            interface: format!("l{number}e{end}"),
            carrier: Carrier::Ethernet,
            address: address(number, end as u8),
            peer_address: address(number, 1 - end as u8),
            prefix_bits: 24,
            bfd: Bfd { interval_ns: 50_000_000, multiplier: 5 },
            mtu: None,
            lab: LabLink::default(),
        };
        let node = Node {
            steering: None,
            store: None,
            name: ["one", "other"][end].to_owned(),
            state: None,
            digest: Digest::default(),
            links: (0..2).map(link).collect(),
            groups: Vec::new(),
            network: Network::default(),
        };
        let clock = Clock::calibrate();
        let start = || Sessions::start(&node, clock, clock.now_ns(), Vec::new(), Box::new(|_| {}));
        self.namespaces[end].run(start).unwrap().unwrap()
    }
}

/// Makes passes of the control loops of `alive` until every one of `events` was told by the first.
pub(super) fn wait_for(alive: &[&Sessions], events: &[EventCode]) -> Vec<Event> {
    let (began, mut told) = (Now::now(), Vec::new());
    while !events.iter().all(|code| told.iter().any(|event: &Event| event.code == *code)) {
        assert!(began.elapsed() < PATIENCE, "waited for {events:?}; there were {told:?}");
        for (place, sessions) in alive.iter().enumerate() {
            let more = sessions.tend();
            told.extend(more.into_iter().filter(|_| place == 0));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    told
}

fn states(sessions: &Sessions) -> Vec<String> {
    sessions.status().into_iter().map(|link| link.state).collect()
}

pub(super) fn wait_for_states(alive: &[&Sessions], wanted: [&str; 2]) {
    let began = Now::now();
    while states(alive[0]) != wanted {
        assert!(began.elapsed() < PATIENCE, "waited for {wanted:?}: {:?}", alive[0].status());
        alive.iter().for_each(|sessions| drop(sessions.tend()));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn one_link_down_is_passed_by_and_all_of_them_are_the_node() {
    let Some(bed) = Bed::make() else { return };
    let (one, other) = (bed.start(0), bed.start(1));
    let told = wait_for(&[&one, &other], &[EventCode::LinkUp, EventCode::NodeReached]);
    assert!(told.iter().all(|event| event.who == "other" || event.who == "bfd"), "{told:?}");
    wait_for_states(&[&one, &other], ["up", "up"]);
    // The timers were announced anew when it came up: RFC 5880, 6.8.3.
    let status = one.status();
    assert!(status.iter().all(|link| link.received > 0 && link.refused == 0), "{status:?}");

    bed.namespaces[1].links().unwrap().set_down("l0e1").unwrap();
    let told = wait_for(&[&one, &other], &[EventCode::LinkDown]);
    assert!(!told.iter().any(|event| event.code == EventCode::NodeLost), "the other link is up: {told:?}");
    wait_for_states(&[&one, &other], ["down", "up"]);

    bed.namespaces[1].links().unwrap().set_down("l1e1").unwrap();
    wait_for(&[&one, &other], &[EventCode::LinkDown, EventCode::NodeLost]);
    assert_eq!(one.status()[1].diagnostic, "the neighbour is not heard");

    for link in ["l0e1", "l1e1"] {
        bed.namespaces[1].links().unwrap().set_up(link).unwrap();
    }
    wait_for(&[&one, &other], &[EventCode::NodeReached]);
}

/// It died before its session came up: no session changes, and it is told all the same, once.
#[test]
fn a_node_that_is_never_heard_is_lost() {
    let Some(bed) = Bed::make() else { return };
    let one = bed.start(0);
    let told = wait_for(&[&one], &[EventCode::NodeLost]);
    let lost = told.iter().find(|event| event.code == EventCode::NodeLost).unwrap();
    assert!(lost.who == "other" && lost.what.contains("not heard since this one started"), "{lost:?}");
    assert!(lost.at_ns >= Span::from_secs(5).0, "{lost:?}");
    // Who comes later is within reach, and not lost a second time.
    let other = bed.start(1);
    let told = wait_for(&[&one, &other], &[EventCode::NodeReached]);
    assert!(!told.iter().any(|event| event.code == EventCode::NodeLost), "{told:?}");
}

#[test]
fn an_end_on_purpose_is_told_to_the_neighbour() {
    let Some(bed) = Bed::make() else { return };
    let (one, other) = (bed.start(0), bed.start(1));
    wait_for_states(&[&one, &other], ["up", "up"]);
    drop(other);
    wait_for(&[&one], &[EventCode::LinkDown, EventCode::NodeLost]);
    assert_eq!(one.status()[0].diagnostic, "the neighbour says that it is down");
}

#[test]
fn a_control_loop_that_hangs_takes_its_sessions_down() {
    let Some(bed) = Bed::make() else { return };
    let (one, other) = (bed.start(0), bed.start(1));
    wait_for_states(&[&one, &other], ["up", "up"]);
    // Only `one` makes passes from now on.
    wait_for(&[&one], &[EventCode::LinkDown, EventCode::NodeLost]);
    assert!(other.status().iter().any(|link| link.diagnostic == "our data plane stands still"));
    // And goes on when it advances again.
    wait_for_states(&[&one, &other], ["up", "up"]);
}

#[test]
fn what_is_forged_or_came_through_a_router_is_refused() {
    let Some(bed) = Bed::make() else { return };
    let (one, other) = (bed.start(0), bed.start(1));
    wait_for_states(&[&one, &other], ["up", "up"]);
    // What the neighbour would say as it goes down, from its own address.
    let forged = headgate_wire::bfd::Control { multiplier: 3, mine: 7, ..Default::default() };
    let send = || {
        let socket = std::net::UdpSocket::bind((address(0, 1), 0)).unwrap();
        socket.set_ttl(254).unwrap();
        let to = (address(0, 0), headgate_wire::bfd::PORT);
        socket.send_to(&forged.to_bytes(), to).unwrap();
        socket.set_ttl(255).unwrap();
        socket.send_to(b"no BFD packet at all", to).unwrap();
    };
    bed.namespaces[1].run(send).unwrap();
    let began = Now::now();
    while one.status()[0].refused < 2 {
        assert!(began.elapsed() < PATIENCE, "{:?}", one.status());
        [&one, &other].iter().for_each(|sessions| drop(sessions.tend()));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(states(&one), ["up", "up"]);
}

#[test]
fn an_address_that_is_not_there_is_said_with_its_cure() {
    let Some(bed) = Bed::make() else { return };
    let mut links = bed.namespaces[0].links().unwrap();
    links.delete("l1e0").unwrap();
    let link = NodeLink {
        number: 0,
        peer: "other".to_owned(),
        interface: "l0e0".to_owned(),
        carrier: Carrier::Ethernet,
        address: address(7, 0),
        peer_address: address(7, 1),
        prefix_bits: 24,
        mtu: None,
        lab: LabLink::default(),
        bfd: Bfd { interval_ns: 50_000_000, multiplier: 5 },
    };
    let opened =
        bed.namespaces[0].run(|| Session::open(&link, Instant(0)).err().map(|error| error.to_string()));
    let refused = opened.unwrap().unwrap();
    assert!(refused.contains("ip address add 10.9.7.1/LENGTH dev l0e0"), "{refused}");
}
