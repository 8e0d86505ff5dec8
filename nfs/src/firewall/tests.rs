use super::*;
use headgate_nf::Verdict as Outcome;
use headgate_nf::testing::{Harness, Setup, check};
use headgate_nf::wire::MacAddress;
use headgate_nf::wire::frame::{Frame, Network, Transport};
use headgate_nf::wire::vlan::Tag;
use headgate_nf::wire::{ip::protocol, tcp, udp};
use proptest::prelude::*;

/// A packet of a test: what its tuple is.
#[derive(Clone, Debug)]
struct Shown {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    tags: usize,
}

impl Shown {
    fn frame(&self) -> Vec<u8> {
        let (source_port, destination_port) = self.ports;
        let transport = match self.protocol {
            protocol::UDP => Transport::Udp(udp::Header { source_port, destination_port }),
            protocol::TCP => {
                Transport::Tcp(tcp::Header { source_port, destination_port, ..tcp::Header::default() })
            }
            other => Transport::Raw(other),
        };
        let tag = |number| (number < self.tags).then(|| Tag::customer(number as u16 + 1));
        let network = Network::between(self.source, self.destination).unwrap();
        let (source, destination) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
        let frame = Frame { destination, source, tags: [tag(0), tag(1)], network, transport };
        let mut bytes = vec![0; frame.headers_length() + 16];
        frame.write(&mut bytes, 16, |payload| payload.fill(8)).unwrap();
        bytes
    }
}

fn udp(source: &str, destination: &str, ports: (u16, u16)) -> Shown {
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    Shown { source, destination, protocol: protocol::UDP, ports, tags: 0 }
}

fn firewall(arguments: &str) -> Harness {
    Harness::new(Setup::with(arguments), Firewall::new).unwrap()
}

fn passes(harness: &mut Harness, shown: &Shown) -> bool {
    harness.run(&[shown.frame()])[0].0 == Outcome::Next
}

#[test]
fn the_first_rule_that_matches_decides() {
    let mut firewall = firewall(
        r#"{"rules":[
            {"action":"deny","source":"10.0.0.0/8","destination_port":53,"protocol":"udp","name":"dns"},
            {"action":"allow","source":"10.0.0.0/8"},
            {"action":"allow","destination":"2001:db8::/32","source_port":"1024-65535"},
            {"action":"deny"}
        ],"default":"allow"}"#,
    );
    for (shown, passed) in [
        (udp("10.1.1.1", "1.1.1.1", (9, 53)), false),
        (udp("10.1.1.1", "1.1.1.1", (9, 54)), true),
        (udp("11.1.1.1", "1.1.1.1", (9, 54)), false),
        (udp("2001:db9::1", "2001:db8::1", (1024, 53)), true),
        (udp("2001:db9::1", "2001:db8::1", (1023, 53)), false),
        (udp("2001:db9::1", "2001:db9::1", (1024, 53)), false),
    ] {
        for tags in 0..3 {
            assert_eq!(
                passes(&mut firewall, &Shown { tags, ..shown.clone() }),
                passed,
                "{shown:?}, {tags} tags"
            );
        }
    }
    let counters = ["allowed", "denied", "rule.dns", "rule.2", "rule.3", "rule.4"];
    assert_eq!(counters.map(|name| firewall.counter(name)), [6, 12, 3, 3, 3, 9]);
    firewall.message("report").unwrap();
    let report: serde_json::Value = serde_json::from_str(&firewall.told()[0]).unwrap();
    assert_eq!(report["rules"][0], json!({ "name": "dns", "action": "deny", "packets": 3 }));
    assert!(firewall.message("reset").is_err());
}

#[test]
fn a_rule_leads_packets_to_a_stage() {
    let arguments = r#"{"rules":[{"action":{"to":"dpi"},"source":"10.0.0.0/8"}],"default":"allow"}"#;
    let names = |stages: &[&str]| Setup {
        stages: stages.iter().map(|&name| name.to_owned()).collect(),
        ..Setup::with(arguments)
    };
    let mut firewall = Harness::new(names(&["fw", "dpi"]), Firewall::new).unwrap();
    let verdict_on =
        |firewall: &mut Harness, source| firewall.run(&[udp(source, "1.1.1.1", (9, 9)).frame()])[0].0;
    assert_eq!(verdict_on(&mut firewall, "10.0.0.1"), Outcome::Stage(1));
    assert_eq!(verdict_on(&mut firewall, "11.0.0.1"), Outcome::Next);
    assert_eq!(["led", "allowed", "rule.1"].map(|name| firewall.counter(name)), [1, 1, 1]);
    let error = Harness::new(names(&["fw"]), Firewall::new).err().unwrap().to_string();
    assert!(error.contains("rules[0].action.to: there is no stage `dpi`; there are fw"), "{error}");
}

#[test]
fn what_is_not_ip_and_what_is_malformed() {
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut cut = udp("10.0.0.1", "10.0.0.2", (1, 2)).frame();
    cut.truncate(40);
    let mut open = firewall(r#"{"rules":[],"default":"allow"}"#);
    assert_eq!(open.run(&[&arp])[0].0, Outcome::Next);
    assert_eq!(open.run(&[&cut])[0].0, Outcome::Drop, "malformed packets never pass");
    assert_eq!(open.counter("malformed"), 1);
    let mut closed = firewall(r#"{"rules":[{"action":"allow"}],"non_ip":"deny"}"#);
    assert_eq!(closed.run(&[&arp])[0].0, Outcome::Drop);
    assert_eq!(closed.counter("denied"), 1);
}

#[test]
fn a_rule_with_ports_never_decides_about_later_fragments() {
    let mut later = udp("10.0.0.1", "10.0.0.2", (0, 0)).frame();
    later[14 + 6..14 + 8].copy_from_slice(&[0x20, 0x10]);
    let mut firewall = firewall(r#"{"rules":[{"action":"allow","destination_port":"0-65535"}]}"#);
    assert!(passes(&mut firewall, &udp("10.0.0.1", "10.0.0.2", (0, 0))));
    assert_eq!(firewall.run(&[later])[0].0, Outcome::Drop);
}

#[test]
fn wrong_rules_are_refused_and_named() {
    for (rule, why) in [
        (
            r#"{"action":"allow","source":"10.0.0.0/8","destination":"::/0","name":"x"}"#,
            "rules[0]: `source` and",
        ),
        (
            r#"{"action":"allow","protocol":"icmp","source_port":1}"#,
            "rules[0]: it names ports, which icmp does",
        ),
        (
            r#"{"action":"accept"}"#,
            "unknown variant `accept`, expected one of `allow`, `deny`, `reject`, `to`",
        ),
        (r#"{"action":"allow","sport":1}"#, "unknown field `sport`"),
        (r#"{"action":"allow","name":"y"},{"action":"deny","name":"y"}"#, "two rules are called y"),
        (r#"{}"#, "missing field `action`"),
    ] {
        let arguments = format!(r#"{{"rules":[{rule}]}}"#);
        let error = check(&arguments, Firewall::new).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn more_rules_than_counters_are_fine() {
    let rules = vec![r#"{"action":"deny","source":"10.0.0.0/8"}"#; 100].join(",");
    let firewall = firewall(&format!(r#"{{"rules":[{rules}]}}"#));
    assert_eq!(firewall.counters().len(), 4 + RULE_COUNTERS_MAX);
}

/// Returns whether a rule matches, word for word from its fields.
fn slow(rule: &Rule, shown: &Shown) -> bool {
    let within = |address: IpAddr, prefix: Option<Prefix>| {
        prefix.is_none_or(|prefix| match (address, prefix.address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                u64::from(one.to_bits()) >> (32 - prefix.length)
                    == u64::from(other.to_bits()) >> (32 - prefix.length)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                let cut = |address: std::net::Ipv6Addr| {
                    address.to_bits().checked_shr(128 - u32::from(prefix.length))
                };
                cut(one) == cut(other)
            }
            _ => false,
        })
    };
    let port = |port: u16, range: Option<PortRange>| {
        let has_ports = matches!(shown.protocol, protocol::TCP | protocol::UDP);
        range.is_none_or(|range| has_ports && (range.first..=range.last).contains(&port))
    };
    within(shown.source, rule.source)
        && within(shown.destination, rule.destination)
        && rule.protocol.is_none_or(|protocol| protocol.0 == shown.protocol)
        && port(shown.ports.0, rule.source_port)
        && port(shown.ports.1, rule.destination_port)
}

/// Few addresses and ports, so that rules and packets meet.
fn address(ipv4: bool) -> impl Strategy<Value = IpAddr> {
    let last = prop::sample::select(vec![0u8, 1, 0x80, 0xff]);
    (last.clone(), last).prop_map(move |(one, two)| {
        if ipv4 { [10, one, two, 1].into() } else { [0x2001, one.into(), two.into(), 0, 0, 0, 0, 1].into() }
    })
}

fn prefix(ipv4: bool) -> impl Strategy<Value = Option<Prefix>> {
    let bits = if ipv4 { 32 } else { 128u8 };
    prop::option::of((address(ipv4), 0..=bits).prop_map(|(address, length)| {
        let whole = Prefix { address, length };
        let cut: IpAddr = match address {
            IpAddr::V4(address) => IpAddr::V4((address.to_bits() & whole.mask4()).into()),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & whole.mask6()).into()),
        };
        Prefix { address: cut, length }
    }))
}

fn ports() -> impl Strategy<Value = Option<PortRange>> {
    prop::option::of(
        (0u16..4, 0u16..4).prop_map(|(one, two)| PortRange { first: one.min(two), last: one.max(two) }),
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    let protocols =
        prop::option::of(prop::sample::select(vec![protocol::TCP, protocol::UDP]).prop_map(Protocol));
    let prefixes = any::<bool>().prop_flat_map(|ipv4| (prefix(ipv4), prefix(ipv4)));
    (any::<bool>(), protocols, prefixes, ports(), ports()).prop_map(
        |(allow, protocol, (source, destination), source_port, destination_port)| {
            let action = if allow { Action::Allow } else { Action::Deny };
            Rule { action, name: None, protocol, source, destination, source_port, destination_port }
        },
    )
}

fn shown() -> impl Strategy<Value = Shown> {
    let protocols = prop::sample::select(vec![protocol::TCP, protocol::UDP, protocol::GRE]);
    let addresses = any::<bool>().prop_flat_map(|ipv4| (address(ipv4), address(ipv4)));
    (addresses, protocols, (0u16..4, 0u16..4), 0usize..3).prop_map(
        |((source, destination), protocol, ports, tags)| Shown { source, destination, protocol, ports, tags },
    )
}

proptest! {
    #[test]
    fn compiled_rules_mean_what_they_say(
        rules in prop::collection::vec(rule(), 0..12), packets in prop::collection::vec(shown(), 1..30)
    ) {
        let compiled = Rules::compile(&rules);
        for packet in packets {
            let frame = packet.frame();
            let got = match flow_key::parse(&frame, frame.len()) {
                Parsed::Ipv4 { key, .. } => compiled.match4(key),
                Parsed::Wide { key, .. } => compiled.match_wide(key),
                other => panic!("{other:?}"),
            };
            let expected = rules.iter().position(|rule| slow(rule, &packet));
            prop_assert_eq!(got, expected.map_or(Match::Default, Match::Rule), "{:?} of {:?}", packet, rules);
        }
    }
}
