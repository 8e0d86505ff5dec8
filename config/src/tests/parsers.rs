//! Properties of the parsers of values, of the relations between rules, and of the whole on any text.

use std::net::IpAddr;

use proptest::prelude::*;

use super::super::codes::Code;
use super::super::model::{ChainId, PortId, Rule};
use super::super::values::{Address, Device, Mac, Name, Period, User, Whole, Word};
use super::super::{EtherType, PortRange, Prefix, Protocol, Rate, Vlan, parse, rules};
use super::{catalog, machine};

type Count = Whole<0, { u64::MAX }>;
type AnyPeriod = Period<0, { u64::MAX }>;

proptest! {
    #[test]
    fn counts_are_exact(number in 0..1_000_000_000_u64, unit in 0..4_usize) {
        let (unit, factor) = [("", 1), ("K", 1000), ("Mi", 1 << 20), ("G", 1_000_000_000)][unit];
        prop_assert_eq!(Count::from_text(&format!("{number}{unit}")), Ok(Whole(number * factor)));
        prop_assert_eq!(Count::from_integer(number.into()), Some(Ok(Whole(number))));
    }

    #[test]
    fn fractions_are_exact_or_refused(whole in 0..1_000_000_u64, thousandths in 0..1000_u64) {
        let text = format!("{whole}.{thousandths:03}");
        prop_assert_eq!(AnyPeriod::from_text(&format!("{text}us")), Ok(Period(whole * 1000 + thousandths)));
        prop_assert_eq!(Count::from_text(&format!("{text}K")), Ok(Whole(whole * 1000 + thousandths)));
        prop_assert_eq!(AnyPeriod::from_text(&format!("{text}ns")).is_ok(), thousandths == 0);
        prop_assert_eq!(Rate::from_text(&text).is_ok(), thousandths == 0);
    }

    #[test]
    fn ranges_are_kept(number: i128) {
        let read = Whole::<10, 20>::from_integer(number);
        match read {
            Some(Ok(whole)) => prop_assert!((10..=20).contains(&number) && whole.0 as i128 == number),
            Some(Err(wrong)) => prop_assert!(!(10..=20).contains(&number) && wrong.code == Code::OutOfRange),
            None => prop_assert!(false),
        }
    }

    #[test]
    fn prefixes_read_what_they_print(address: IpAddr, length in 0..=128_u8) {
        let text = format!("{address}/{length}");
        if let Ok(prefix) = Prefix::from_text(&text) {
            prop_assert_eq!(&prefix.to_string(), &text);
            prop_assert!(prefix.covers(&prefix));
        }
        let longest = if address.is_ipv4() { 32 } else { 128 };
        prop_assert_eq!(Prefix::from_text(&address.to_string()), Ok(Prefix { address, length: longest }));
    }

    #[test]
    fn a_prefix_covers_what_lies_in_it(bits: u32, other: u32, length in 0..=32_u8, longer in 0..=32_u8) {
        let mask = |length: u8| u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let prefix = |bits: u32, length: u8| Prefix { address: IpAddr::V4((bits & mask(length)).into()), length };
        let (broad, narrow) = (prefix(bits, length), prefix(other, longer));
        let inside = length <= longer && (bits ^ other) & mask(length) == 0;
        prop_assert_eq!(broad.covers(&narrow), inside);
    }

    #[test]
    fn port_ranges_read_what_they_print(first: u16, last: u16) {
        let range = PortRange { first, last };
        prop_assert_eq!(PortRange::from_text(&range.to_string()).ok(), (first <= last).then_some(range));
        prop_assert_eq!(PortRange::from_integer(first.into()), Some(Ok(PortRange { first, last: first })));
    }

    #[test]
    fn protocols_and_ethertypes_read_what_they_print(protocol in 1..=255_u8, ethertype in 0x600..=u16::MAX) {
        let text = Protocol(protocol).to_string();
        prop_assert_eq!(Protocol::from_text(text.trim_start_matches("protocol ")), Ok(Protocol(protocol)));
        prop_assert_eq!(EtherType::from_text(&EtherType(ethertype).to_string()), Ok(EtherType(ethertype)));
    }

    #[test]
    fn words_never_panic(text in any::<String>(), number: i128) {
        fn both<T: Word>(text: &str, number: i128) {
            let _ = (T::from_text(text), T::from_integer(number));
        }
        both::<Count>(&text, number);
        both::<AnyPeriod>(&text, number);
        both::<Rate>(&text, number);
        both::<Prefix>(&text, number);
        both::<Address>(&text, number);
        both::<Mac>(&text, number);
        both::<PortRange>(&text, number);
        both::<Protocol>(&text, number);
        both::<EtherType>(&text, number);
        both::<Vlan>(&text, number);
        both::<Device>(&text, number);
        both::<User>(&text, number);
        both::<Name>(&text, number);
    }

    #[test]
    fn any_text_is_explained(text in any::<String>()) {
        explain(&text);
    }

    #[test]
    fn any_change_of_a_good_file_is_explained(at: prop::sample::Index, until: prop::sample::Index, other in change()) {
        let good: Vec<char> = include_str!("good/everything.toml").chars().collect();
        let (at, until) = (at.index(good.len()), until.index(good.len()));
        let until = at + until.saturating_sub(at) % 40;
        let text: String = good[..at].iter().chain(other.chars().collect::<Vec<_>>().iter()).chain(&good[until..]).collect();
        explain(&text);
    }

    #[test]
    fn covered_rules_are_found_as_if_all_pairs_were_compared(
        all in prop::collection::vec(prop::option::weighted(0.9, rule()), 0..30)
    ) {
        let first = |(place, rule): (usize, &Option<Rule>)| {
            let rule = rule.as_ref()?;
            (0..place).find(|at| all[*at].as_ref().is_some_and(|broad| rules::covers(broad, rule)))
        };
        let expected: Vec<Option<usize>> = all.iter().enumerate().map(first).collect();
        prop_assert_eq!(rules::covered(&all), expected);
    }

    #[test]
    fn a_covered_rule_takes_nothing(broad in rule(), narrow in rule(), packet in packet()) {
        if rules::covers(&broad, &narrow) && matches(&narrow, &packet) {
            prop_assert!(matches(&broad, &packet), "{broad:?}\n{narrow:?}\n{packet:?}");
        }
        prop_assert!(rules::covers(&broad, &broad));
        if rules::impossible(&broad).is_some() {
            prop_assert!(!matches(&broad, &packet), "{broad:?}\n{packet:?}");
        }
    }
}

/// Checks a text and renders what is said of it, for people and for programs.
fn explain(text: &str) {
    let findings = match parse("any.toml", text, &catalog(), &machine()) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => {
            assert!(findings.has_errors());
            findings
        }
    };
    let rendered = findings.to_string();
    assert!(!rendered.contains(|c: char| c.is_control() && c != '\n'), "{rendered:?}");
    serde_json::to_string(&findings).unwrap();
}

fn change() -> impl Strategy<Value = String> {
    const TOKENS: &[&str] = &[
        "",
        "\"",
        "[",
        "]",
        "{",
        "}",
        "=",
        "\n",
        "[[port]]\n",
        "\u{1b}",
        "é",
        "nan",
        "-1",
        "1979-05-27",
        "= ''\n",
    ];
    prop_oneof![any::<String>(), prop::sample::select(TOKENS).prop_map(str::to_owned)]
}

/// A packet as rules see it.
#[derive(Debug, Clone)]
struct Packet {
    port: u16,
    vlan: u16,
    ethertype: u16,
    ip: Option<(IpAddr, IpAddr, u8)>,
    ports: Option<(u16, u16)>,
}

/// Few enough addresses that rules and packets meet.
fn address(is_v6: bool) -> impl Strategy<Value = IpAddr> {
    (0..4_u8).prop_map(move |bits| {
        let (high, low) = (bits >> 1, bits & 1);
        if is_v6 {
            IpAddr::from([high << 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, low])
        } else {
            IpAddr::from([high << 7, 0, 0, low])
        }
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let ip = any::<bool>().prop_flat_map(|is_v6| {
        let protocol = prop::sample::select(vec![1_u8, 6, 17, 47]);
        (Just(is_v6), address(is_v6), address(is_v6), protocol)
    });
    (0..2_u16, 0..2_u16, prop::option::weighted(0.8, ip), 0..4_u16, 0..4_u16).prop_map(
        |(port, vlan, ip, source, destination)| Packet {
            port,
            vlan,
            ethertype: ip.map_or(0x0806, |(is_v6, ..)| if is_v6 { 0x86dd } else { 0x0800 }),
            ip: ip.map(|(_, source, destination, protocol)| (source, destination, protocol)),
            ports: ip.filter(|(.., protocol)| Protocol(*protocol).has_ports()).map(|_| (source, destination)),
        },
    )
}

fn prefix() -> impl Strategy<Value = Option<Prefix>> {
    let one = any::<bool>().prop_flat_map(|is_v6| (address(is_v6), prop::sample::select(vec![0_u8, 1, 255])));
    let prefix = one.prop_map(|(address, length)| {
        let length = length.min(if address.is_ipv4() { 32 } else { 128 });
        match length {
            0 if address.is_ipv4() => Prefix { address: IpAddr::from([0; 4]), length },
            0 => Prefix { address: IpAddr::from([0; 16]), length },
            1 => match address {
                IpAddr::V4(v4) => Prefix { address: IpAddr::from([v4.octets()[0], 0, 0, 0]), length },
                IpAddr::V6(v6) => {
                    let mut octets = [0; 16];
                    octets[0] = v6.octets()[0];
                    Prefix { address: IpAddr::from(octets), length }
                }
            },
            _ => Prefix { address, length },
        }
    });
    prop::option::of(prefix)
}

fn rule() -> impl Strategy<Value = Rule> {
    let range = || {
        let one = (0..4_u16, 0..4_u16);
        prop::option::of(one.prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) }))
    };
    let select = |list: Vec<u16>| prop::option::of(prop::sample::select(list));
    let ethertype = select(vec![0x0800, 0x86dd, 0x0806]);
    (
        select(vec![0, 1]),
        select(vec![0, 1]),
        ethertype,
        select(vec![1, 6, 17, 47]),
        prefix(),
        prefix(),
        range(),
        range(),
    )
        .prop_map(
            |(port, vlan, ethertype, protocol, source, destination, source_port, destination_port)| Rule {
                port: port.map(PortId),
                vlan: vlan.map(Vlan),
                ethertype: ethertype.map(EtherType),
                protocol: protocol.map(|number| Protocol(number as u8)),
                source,
                destination,
                source_port,
                destination_port,
                chain: ChainId(0),
            },
        )
}

/// The meaning of a rule, condition by condition.
fn matches(rule: &Rule, packet: &Packet) -> bool {
    let within = |prefix: Prefix, address: IpAddr| {
        let length = if address.is_ipv4() { 32 } else { 128 };
        prefix.covers(&Prefix { address, length })
    };
    let in_range = |range: PortRange, port: u16| (range.first..=range.last).contains(&port);
    rule.port.is_none_or(|port| port.0 == packet.port)
        && rule.vlan.is_none_or(|vlan| vlan.0 == packet.vlan)
        && rule.ethertype.is_none_or(|ethertype| ethertype.0 == packet.ethertype)
        && rule.protocol.is_none_or(|protocol| packet.ip.is_some_and(|(.., number)| number == protocol.0))
        && rule.source.is_none_or(|prefix| packet.ip.is_some_and(|(source, ..)| within(prefix, source)))
        && rule.destination.is_none_or(|prefix| packet.ip.is_some_and(|(_, to, _)| within(prefix, to)))
        && rule.source_port.is_none_or(|range| packet.ports.is_some_and(|(port, _)| in_range(range, port)))
        && rule
            .destination_port
            .is_none_or(|range| packet.ports.is_some_and(|(_, port)| in_range(range, port)))
}
