use std::time::Duration;

use super::*;
use headgate_nf::Verdict;
use headgate_nf::testing::{Arrival, Harness, Setup, check};
use headgate_nf::wire::frame::{self, Network, Transport};
use headgate_nf::wire::icmp::{Message, kind4, kind6};
use headgate_nf::wire::{checksum::Sum, udp, vlan::Tag};
use proptest::prelude::*;

const ARGUMENTS: &str = r#"{
    "interfaces": {
        "west": {"mac": "02:00:00:00:00:01", "ipv4": "10.1.0.1", "ipv6": "2001:db8:1::1"},
        "east": {"mac": "02:00:00:00:00:02"}
    },
    "routes": [
        {"prefix": "10.0.0.0/8", "port": "west", "next_hop": "02:00:00:00:01:01"},
        {"prefix": "10.2.0.0/16", "port": "east", "next_hop": "02:00:00:00:02:01"},
        {"prefix": "2001:db8::/32", "port": "east", "next_hop": "02:00:00:00:02:02"}
    ]
}"#;

fn router() -> Harness {
    Harness::new(Setup::with(ARGUMENTS), Router::new).unwrap()
}

const HOST: MacAddress = MacAddress([2, 0, 0, 0, 9, 9]);

fn frame(source: &str, destination: &str, hops: u8, payload: usize) -> Vec<u8> {
    tagged(source, destination, hops, payload, [None, None])
}

fn tagged(source: &str, destination: &str, hops: u8, payload: usize, tags: [Option<Tag>; 2]) -> Vec<u8> {
    let mut network = Network::between(source.parse().unwrap(), destination.parse().unwrap()).unwrap();
    match &mut network {
        Network::V4(header) => header.ttl = hops,
        Network::V6(header) => header.hop_limit = hops,
    }
    let transport = Transport::Udp(udp::Header { source_port: 1024, destination_port: 53 });
    let destination = MacAddress([2, 0, 0, 0, 0, 1]);
    let frame = frame::Frame { destination, source: HOST, tags, network, transport };
    let mut bytes = vec![0; frame.headers_length() + payload];
    frame.write(&mut bytes, payload, |payload| payload.fill(0x5a)).unwrap();
    bytes
}

fn addresses(frame: &[u8]) -> (MacAddress, MacAddress) {
    let frame = Frame::new(frame).unwrap();
    (frame.destination(), frame.source())
}

proptest! {
    /// A routed packet differs from what came in its MAC addresses and its hop, and its checksum is right.
    #[test]
    fn routed_packets_lose_a_hop_and_nothing_else(
        low: u16, hops in 2u8.., payload in 0usize..1400, tag in prop::option::of(1u16..4095)
    ) {
        let destination = std::net::Ipv4Addr::from_bits(0x0a02_0000 | u32::from(low)).to_string();
        let sent = tagged("10.1.0.9", &destination, hops, payload, [tag.map(Tag::customer), None]);
        let (verdict, got) = router().run(&[&sent]).remove(0);
        prop_assert_eq!(verdict, Verdict::Port(1));
        let expected = (MacAddress([2, 0, 0, 0, 2, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
        prop_assert_eq!(addresses(&got), expected);
        let start = if tag.is_some() { 18 } else { 14 };
        let packet = ipv4::Packet::new(&got[start..]).unwrap();
        prop_assert!(packet.verify_checksum());
        prop_assert_eq!(packet.ttl(), hops - 1);
        let before = ipv4::Packet::new(&sent[start..]).unwrap();
        prop_assert_eq!((packet.destination(), packet.payload()), (before.destination(), before.payload()));
    }

    /// Whatever bytes come, every packet gets a verdict, counted once, and none stays in a bad shape.
    #[test]
    fn any_bytes_are_dealt_with(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..200), 1..70)) {
        let mut router = router();
        for frame in router.run(&frames) {
            prop_assert!(matches!(frame.0, Verdict::Drop | Verdict::Port(_)));
        }
        let fates = ["routed", "no_route", "hops_exceeded", "not_routable", "malformed", "not_ip"];
        let counted: u64 = fates.iter().map(|fate| router.counter(fate)).sum();
        prop_assert_eq!(counted, frames.len() as u64);
    }
}

#[test]
fn the_longest_prefix_wins_in_both_versions() {
    let frames = [
        frame("10.1.0.9", "10.3.0.1", 64, 20),
        frame("10.1.0.9", "10.2.0.1", 64, 20),
        frame("2001:db8:9::1", "2001:db8:2::1", 64, 20),
    ];
    let outcomes = router().run(&frames);
    let verdicts: Vec<_> = outcomes.iter().map(|(verdict, _)| *verdict).collect();
    assert_eq!(verdicts, [Verdict::Port(0), Verdict::Port(1), Verdict::Port(1)]);
    assert_eq!(ipv6::Packet::new(&outcomes[2].1[14..]).unwrap().hop_limit(), 63);
}

#[test]
fn a_packet_whose_hops_ran_out_becomes_the_error_about_it() {
    // Short and long ones: the error is longer than the one and shorter than the other.
    for payload in [0, 18, 500, 1400] {
        let sent = frame("10.1.0.9", "10.2.0.1", 1, payload);
        let mut router = router();
        let (verdict, got) = router.run(&[&sent]).remove(0);
        assert_eq!(verdict, Verdict::Port(0), "back out of the port it came by");
        assert_eq!(addresses(&got), (HOST, MacAddress([2, 0, 0, 0, 0, 1])));
        let error = ipv4::Packet::new(&got[14..]).unwrap();
        assert!(error.verify_checksum());
        assert_eq!(
            (error.source().to_string(), error.destination().to_string()),
            ("10.1.0.1".into(), "10.1.0.9".into())
        );
        let message = Message::new(error.payload()).unwrap();
        assert_eq!((message.kind(), message.code()), (kind4::TIME_EXCEEDED, 0));
        assert!(message.verify_checksum(Sum::new()));
        assert!(sent[14..].starts_with(message.payload()) && message.payload().len() >= 28);
        assert_eq!((router.counter("hops_exceeded"), router.counter("errors_sent")), (1, 1));
    }
}

#[test]
fn a_packet_without_a_route_becomes_an_error_in_ipv6_too() {
    let sent = frame("2001:db8:1::9", "2001:db9::1", 64, 1400);
    let (verdict, got) = router().run(&[&sent]).remove(0);
    assert_eq!(verdict, Verdict::Port(0));
    let error = ipv6::Packet::new(&got[14..]).unwrap();
    assert_eq!((error.total_length(), error.destination()), (1280, "2001:db8:1::9".parse().unwrap()));
    let message = Message::new(error.payload()).unwrap();
    assert_eq!((message.kind(), message.code()), (kind6::UNREACHABLE, 0));
    assert!(message.verify_checksum(error.pseudo_header(58, error.payload().len() as u32)));
}

#[test]
fn no_error_without_an_address_to_send_it_from_and_none_about_an_error() {
    let mut router = router();
    let sent = frame("10.2.0.9", "172.16.0.1", 64, 20);
    let arrival = Arrival { at: Duration::ZERO, ingress: 1, frame: sent };
    assert_eq!(router.run_arrivals(&[arrival])[0].0, Verdict::Drop);
    let (_, error) = router.run(&[frame("10.1.0.9", "10.2.0.1", 1, 20)]).remove(0);
    let mut about = error;
    about[30..34].copy_from_slice(&[172, 16, 0, 1]);
    ipv4::Packet::new(&mut about[14..]).unwrap().fill_checksum();
    assert_eq!(router.run(&[about])[0].0, Verdict::Drop);
    assert_eq!(router.counter("errors_sent"), 1);
}

#[test]
fn what_must_stay_on_its_link_or_is_wrong_is_dropped() {
    let mut wrong = frame("10.1.0.9", "10.2.0.1", 64, 20);
    wrong[24] ^= 1;
    let mut broadcast = frame("10.1.0.9", "10.2.0.1", 64, 20);
    broadcast[..6].fill(0xff);
    let mut arp = frame("10.1.0.9", "10.2.0.1", 64, 20);
    arp[12..14].copy_from_slice(&[8, 6]);
    let frames = [
        frame("10.1.0.9", "224.0.0.5", 64, 20),
        frame("169.254.0.1", "10.2.0.1", 64, 20),
        frame("fe80::1", "2001:db8::1", 64, 20),
        broadcast,
        wrong,
        arp,
    ];
    let mut router = router();
    assert!(router.run(&frames).iter().all(|(verdict, _)| *verdict == Verdict::Drop));
    let counters = ["not_routable", "malformed", "not_ip"].map(|name| router.counter(name));
    assert_eq!(counters, [4, 1, 1]);
}

#[test]
fn errors_are_limited() {
    let arguments = ARGUMENTS.replacen('{', r#"{"errors_per_second": 20,"#, 1);
    let mut router = Harness::new(Setup::with(arguments), Router::new).unwrap();
    let frames = vec![frame("10.1.0.9", "10.2.0.1", 1, 20); 50];
    router.run(&frames);
    assert_eq!(router.counter("errors_sent"), 2, "a tenth of a second's worth at once");
    router.wait(Duration::from_millis(50));
    router.run(&frames);
    assert_eq!(router.counter("errors_sent"), 3);
    router.wait(Duration::from_secs(100));
    router.run(&frames);
    assert_eq!(router.counter("errors_sent"), 5);
}

#[test]
fn wrong_arguments_are_refused() {
    let route = |prefix: &str, port: &str, mac: &str| {
        format!(
            r#"{{"interfaces":{{"west":{{"mac":"02:00:00:00:00:01"}}}},
                "routes":[{{"prefix":"{prefix}","port":"{port}","next_hop":"{mac}"}},
                          {{"prefix":"10.0.0.0/8","port":"west","next_hop":"02:00:00:00:00:09"}}]}}"#
        )
    };
    let mac = "02:00:00:00:00:09";
    for (arguments, why) in [
        (route("11.0.0.1/8", "west", mac), "write 11.0.0.0/8"),
        (route("10.0.0.0/8", "west", mac), "two routes to 10.0.0.0/8"),
        (route("11.0.0.0/8", "east", mac), "port `east`, which `interfaces` does not have"),
        (route("11.0.0.0/8", "west", "02:00"), "`02:00`: not a MAC address"),
        ("{}".to_owned(), "missing field `routes`"),
    ] {
        let error = check(&arguments, Router::new).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
