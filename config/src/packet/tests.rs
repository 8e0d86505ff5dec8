//! Descriptions of packets: what is read, what is refused and where, and which rule is theirs.

use headgate_wire::flow_key::{self, Parsed};
use proptest::prelude::*;

use super::*;
use crate::catalog::{Catalog, ShippedNf};
use crate::machine::Machine;

fn read(text: &str) -> PacketDescription {
    PacketDescription::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> (usize, String) {
    let error = PacketDescription::parse(text).expect_err(text);
    (error.column, format!("{}; {}", error.message, error.help))
}

/// Two ports that packets come by, one that they only leave by, and these rules to chains `a` and `b`.
fn config(rules: &str) -> Config {
    let forward = ShippedNf { name: "forward".to_owned(), takes_long_frames: true, ..ShippedNf::default() };
    let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
    let text = format!(
        r#"[[port]]
        name = "west"
        interface = "w"
        [[port]]
        name = "east"
        interface = "e"
        [[port]]
        name = "sink"
        kind = "null"
        [[nf]]
        name = "one"
        run = "forward"
        core = 1
        [[chain]]
        name = "a"
        stages = ["one"]
        out = "sink"
        [[chain]]
        name = "b"
        stages = ["one"]
        out = "sink"
        {rules}"#
    );
    let loaded = crate::parse("test.toml", &text, &Catalog::new(vec![forward]), &machine);
    loaded.unwrap_or_else(|refused| panic!("{refused}")).config
}

#[test]
fn what_is_read_is_written_the_same() {
    for text in [
        "tcp 10.0.0.1:1234 > 10.0.1.1:80",
        "udp [2001:db8::1]:53 > [2001:db8::2]:5353 in west",
        "icmp 10.0.0.1 > 10.0.0.2 vlan 7",
        "99 10.0.0.1 > 10.0.0.2",
        "arp vlan 4094 in east",
        "0x88b5",
    ] {
        assert_eq!(read(text).to_string(), text);
    }
    // Order of what follows, blanks, brackets around an address without a port.
    assert_eq!(read("  icmpv6   [::1] >  ::2  in w vlan 3 ").to_string(), "icmpv6 ::1 > ::2 vlan 3 in w");
}

#[test]
fn what_is_wrong_is_told_with_its_column_and_a_cure() {
    let told = |text: &str, column: usize, words: &str| {
        let (at, message) = refused(text);
        assert!(at == column && message.contains(words), "{text}: column {at}: {message}");
    };
    told("", 1, "protocol is missing");
    told("tpc 10.0.0.1:1 > 10.0.0.2:2", 1, "did you mean `tcp`");
    told("ipv4 10.0.0.1 > 10.0.0.2", 1, "says too little");
    told("tcp", 4, "source address is missing");
    told("tcp 10.0.0.1 > 10.0.0.2:80", 5, "has no port");
    told("icmp 10.0.0.1:7 > 10.0.0.2", 6, "have no ports");
    told("tcp 10.0.0.1:1 -> 10.0.0.2:2", 16, "stands where `>`");
    told("tcp 10.0.0.1:1 > 10.0.0.256:2", 18, "is not an address");
    told("tcp 10.0.0.1:1 > [::1]:2", 18, "one IPv4 and one IPv6");
    told("arp vlan", 9, "VLAN identifier is missing");
    told("arp vlan 4095", 10, "4095");
    told("arp vlan 7 vlan 8", 12, "said twice");
    told("arp inn west", 5, "did you mean `in`");
    told("arp in", 7, "name is missing");
    // Columns are characters, not bytes.
    told("arp in wést blah", 13, "does not belong here");
}

#[test]
fn the_first_rule_that_matches_is_found_by_its_place() {
    let config = config(
        r#"[[rule]]
        in = "west"
        protocol = "tcp"
        destination_port = "80-90"
        destination = "10.0.1.0/24"
        chain = "a"
        [[rule]]
        vlan = 7
        chain = "b"
        [[rule]]
        in = "west"
        ethertype = "arp"
        chain = "a"
        [[rule]]
        in = "east"
        source_port = 53
        chain = "a""#,
    );
    let place = |text: &str| {
        let packet = read(text);
        packet.first_match(&config, packet.ingress(&config).unwrap())
    };
    assert_eq!(place("tcp 1.1.1.1:1 > 10.0.1.7:90 in west"), Some(0));
    assert_eq!(place("tcp 1.1.1.1:1 > 10.0.1.7:90 vlan 7 in west"), Some(0), "earlier wins");
    assert_eq!(place("tcp 1.1.1.1:1 > 10.0.2.7:90 vlan 7 in west"), Some(1));
    assert_eq!(place("tcp 1.1.1.1:1 > 10.0.1.7:91 in west"), None);
    assert_eq!(place("tcp 1.1.1.1:1 > 10.0.1.7:90 in east"), None);
    assert_eq!(place("arp in west"), Some(2));
    assert_eq!(place("udp 1.1.1.1:53 > 2.2.2.2:9 in east"), Some(3));
    assert_eq!(place("gre 1.1.1.1 > 2.2.2.2 in east"), None, "no ports to match");
}

#[test]
fn a_port_is_one_that_packets_come_by() {
    let config = config("[[rule]]\nin = \"west\"\nchain = \"a\"\n[[rule]]\nin = \"east\"\nchain = \"b\"");
    let ingress = |text: &str| read(text).ingress(&config);
    assert_eq!(ingress("arp in east"), Ok(PortId(1)));
    assert!(ingress("arp in wets").unwrap_err().contains("did you mean `west`"));
    assert!(ingress("arp in sink").unwrap_err().contains("no packet comes by a port named `sink`"));
    assert!(ingress("arp").unwrap_err().contains("one of: west, east"));
}

fn descriptions() -> impl Strategy<Value = PacketDescription> {
    let v4 = any::<[(u32, u16); 2]>()
        .prop_map(|ends| ends.map(|(address, port)| SocketAddr::new(IpAddr::V4(address.into()), port)));
    let v6 = any::<[(u128, u16); 2]>()
        .prop_map(|ends| ends.map(|(address, port)| SocketAddr::new(IpAddr::V6(address.into()), port)));
    // Without the headers that IPv6 is walked through, which are no protocol of a packet.
    let protocol = prop_oneof![Just(6u8), Just(17), Just(132), Just(1), Just(58), Just(47), Just(99)];
    let ip = (protocol, prop_oneof![v4, v6]).prop_map(|(protocol, mut ends)| {
        let protocol = Protocol(protocol);
        if !protocol.has_ports() {
            ends.iter_mut().for_each(|end| end.set_port(0));
        }
        Payload::Ip { protocol, ends }
    });
    let other = prop_oneof![Just(0x0806), Just(0x88cc), Just(0x0600)];
    let payload = prop_oneof![4 => ip, 1 => other.prop_map(|value| Payload::Other(EtherType(value)))];
    (payload, 0..=crate::values::VLAN_MAX, proptest::option::of("[a-z]{1,8}"))
        .prop_map(|(payload, vlan, port)| PacketDescription { payload, vlan: Vlan(vlan), port })
}

proptest! {
    #[test]
    fn text_and_frame_say_the_same(packet in descriptions()) {
        prop_assert_eq!(&read(&packet.to_string()), &packet);
        // The very parser of the packet path reads from the frame what the description says.
        let frame = packet.frame();
        let (vlan, ethertype, protocol_seen, addresses, ports) = match flow_key::parse(&frame, frame.len()) {
            Parsed::Ipv4 { key, .. } => {
                let addresses = Some((key.source().into(), key.destination().into()));
                (key.vlan(), EtherType::IPV4.0, key.protocol(), addresses, key.ports())
            }
            Parsed::Wide { key, .. } => {
                let addresses = key.source().zip(key.destination());
                (key.vlan(), key.ethertype(), key.protocol(), addresses, key.ports())
            }
            refused => return Err(TestCaseError::fail(format!("{refused:?}"))),
        };
        prop_assert_eq!((vlan, ethertype), (packet.vlan.0, packet.ethertype().0));
        if let Payload::Ip { protocol, ends: [source, destination] } = packet.payload {
            prop_assert_eq!(protocol_seen, protocol.0);
            prop_assert_eq!(addresses, Some((source.ip(), destination.ip())));
            prop_assert_eq!(ports, protocol.has_ports().then_some((source.port(), destination.port())));
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in ".{0,80}") {
        if let Err(error) = PacketDescription::parse(&text) {
            prop_assert!(error.column >= 1 && !error.help.is_empty());
        }
    }
}
