//! Tests the compiled rules against the plain reading: walk the list, take the first that matches.

use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn plain_match(rule: &Rule, flow: &Flow) -> bool {
    let inside = |prefix: Option<Prefix>, pick: fn((IpAddr, IpAddr)) -> IpAddr| match prefix {
        None => true,
        Some(prefix) => flow.addresses.is_some_and(|pair| match (prefix.address, pick(pair)) {
            (IpAddr::V4(net), IpAddr::V4(host)) => {
                let shift = 32 - u32::from(prefix.bits);
                shift == 32 || net.to_bits() >> shift == host.to_bits() >> shift
            }
            (IpAddr::V6(net), IpAddr::V6(host)) => {
                let shift = 128 - u32::from(prefix.bits);
                shift == 128 || net.to_bits() >> shift == host.to_bits() >> shift
            }
            _ => false,
        }),
    };
    let port = |range: Option<(u16, u16)>, pick: fn((u16, u16)) -> u16| match range {
        None => true,
        Some((low, high)) => flow.ports.is_some_and(|pair| (low..=high).contains(&pick(pair))),
    };
    rule.ingress.is_none_or(|want| want == flow.ingress)
        && rule.vlan.is_none_or(|want| want == flow.vlan)
        && rule.ethertype.is_none_or(|want| want == flow.ethertype)
        && rule.protocol.is_none_or(|want| want == flow.protocol)
        && inside(rule.source, |pair| pair.0)
        && inside(rule.destination, |pair| pair.1)
        && port(rule.source_port, |pair| pair.0)
        && port(rule.destination_port, |pair| pair.1)
}

fn port() -> impl Strategy<Value = PortId> {
    (0u16..2).prop_map(PortId)
}

fn small_port() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..8, Just(80), Just(443), Just(65535)]
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u32..16).prop_map(|host| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 | host))),
        (0u128..16).prop_map(|host| IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | host))),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (address(), any::<u8>()).prop_map(|(address, bits)| {
        let width = if address.is_ipv4() { 33 } else { 129 };
        Prefix { address, bits: (u16::from(bits) % width) as u8 }
    })
}

fn range() -> impl Strategy<Value = (u16, u16)> {
    (small_port(), small_port()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

prop_compose! {
    fn rule()(
        ingress in prop::option::of(port()), vlan in prop::option::weighted(0.2, 0u16..3),
        protocol in prop::option::of(prop_oneof![Just(6u8), Just(17)]),
        source in prop::option::of(prefix()), destination in prop::option::of(prefix()),
        source_port in prop::option::weighted(0.3, range()), destination_port in prop::option::of(range()),
        (chain, position) in ((1u16..20).prop_map(ChainId), 0u8..4),
    ) -> Rule {
        Rule { ingress, vlan, ethertype: None, protocol, source, destination, source_port, destination_port, chain, position }
    }
}

prop_compose! {
    fn flow()(
        ingress in port(), vlan in 0u16..3, protocol in prop_oneof![Just(6u8), Just(17), Just(1)],
        source in address(), destination in address(), ports in (small_port(), small_port()), whole: bool, ip in 0..5,
    ) -> Flow {
        let same_family = source.is_ipv4() == destination.is_ipv4();
        if ip == 0 || !same_family {
            return Flow { ingress, vlan, ethertype: 0x0806, protocol: 0, addresses: None, ports: None };
        }
        let ethertype = if source.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let ports = (whole && protocol != 1).then_some(ports);
        Flow { ingress, vlan, ethertype, protocol, addresses: Some((source, destination)), ports }
    }
}

proptest! {
    #[test]
    fn compiled_rules_agree_with_the_list(
        rules in prop::collection::vec(rule(), 0..12), flows in prop::collection::vec(flow(), 1..30)
    ) {
        let compiled = Rules::new(&rules);
        for flow in flows {
            let plain = rules.iter().find(|rule| plain_match(rule, &flow));
            let plain = plain.map(|rule| Entrance::new(rule.chain, rule.position));
            prop_assert_eq!(compiled.entrance(&flow), plain, "{:?}", flow);
        }
    }

    #[test]
    fn a_range_is_covered_exactly(low: u16, high: u16, probe: u16) {
        let (low, high) = (low.min(high), low.max(high));
        let prefixes = cover(Some((low, high)));
        prop_assert!(prefixes.len() <= 30);
        for probe in [probe, low, high, low.wrapping_sub(1), high.wrapping_add(1)] {
            let hits = prefixes.iter().filter(|(value, mask)| probe & mask == *value).count();
            prop_assert_eq!(hits, usize::from((low..=high).contains(&probe)));
        }
    }
}

#[test]
fn ten_thousand_like_rules_are_one_group() {
    let rules: Vec<Rule> = (0..10_000)
        .map(|number| Rule {
            destination_port: Some((number, number)),
            chain: ChainId(number),
            ..Rule::default()
        })
        .collect();
    assert_eq!(Rules::new(&rules).groups.len(), 1);
}

#[test]
fn hits_count_what_was_claimed_and_outlive_copies() {
    let by_port = |port: u16, chain: u16| Rule {
        destination_port: Some((port, port + 9)),
        chain: ChainId(chain),
        ..Rule::default()
    };
    let rules = Rules::new(&[by_port(80, 1), by_port(85, 2)]);
    let flow = |port: u16| Flow {
        ingress: PortId(0),
        vlan: 0,
        ethertype: ETHERTYPE_IPV4,
        protocol: 6,
        addresses: Some((Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())),
        ports: Some((1, port)),
    };
    let copy = rules.clone();
    for port in [80, 88, 93, 200] {
        assert_eq!(rules.entrance(&flow(port)), copy.claim(&flow(port)));
    }
    assert_eq!(rules.hits(), [2, 1]);
    let next = Rules::new(&[by_port(85, 2)]);
    next.begin_hits(0, 7);
    next.begin_hits(9, 7);
    assert!(next.claim(&flow(94)).is_some() && next.claim(&flow(80)).is_none());
    assert_eq!((next.hits(), rules.hits()), (vec![8], vec![2, 1]));
}
