//! Static checks of rules: contradictory conditions, and rules that earlier ones cover.
//!
//! A rule is covered when *one* earlier rule takes every packet it could take. That several earlier
//! rules together cover a later one is not noticed: deciding it is hard in general (it is the complement
//! of satisfiability), and the mistake that operators make is a broad rule above a narrow one.

use std::collections::HashMap;

use super::model::{Chain, ChainId, Config, Node, Port, PortId, Rule};
use super::values::{EtherType, PortRange, Prefix, Protocol, Vlan};

/// Returns the reason why no packet can match `rule`, if its conditions exclude each other.
pub fn impossible(rule: &Rule) -> Option<&'static str> {
    let ports = rule.source_port.is_some() || rule.destination_port.is_some();
    let prefixes = [rule.source, rule.destination];
    let (v4, v6) = (prefixes.iter().flatten()).fold((false, false), |(v4, v6), prefix| {
        (v4 || prefix.address.is_ipv4(), v6 || prefix.address.is_ipv6())
    });
    if v4 && v6 {
        return Some("no packet has one IPv4 and one IPv6 address");
    }
    if ports && rule.protocol.is_some_and(|protocol| !protocol.has_ports()) {
        return Some("its protocol has no ports");
    }
    match rule.ethertype {
        None => None,
        Some(EtherType::IPV4) if v6 => Some("no packet of type ipv4 has an IPv6 address"),
        Some(EtherType::IPV6) if v4 => Some("no packet of type ipv6 has an IPv4 address"),
        Some(EtherType::IPV4 | EtherType::IPV6) => None,
        Some(_) if v4 || v6 => Some("only packets of type ipv4 or ipv6 have IP addresses"),
        Some(_) if ports || rule.protocol.is_some() => {
            Some("only packets of type ipv4 or ipv6 have an IP protocol and ports")
        }
        Some(_) => None,
    }
}

/// Returns whether `rule` takes every packet of its port.
pub const fn takes_all(rule: &Rule) -> bool {
    let Rule {
        port: _,
        chain: _,
        vlan,
        ethertype,
        protocol,
        source,
        destination,
        source_port,
        destination_port,
    } = rule;
    vlan.is_none()
        && ethertype.is_none()
        && protocol.is_none()
        && source.is_none()
        && destination.is_none()
        && source_port.is_none()
        && destination_port.is_none()
}

/// Returns whether `broad` takes every packet that `narrow` could take.
pub fn covers(broad: &Rule, narrow: &Rule) -> bool {
    wider(&broad.port, &narrow.port, PartialEq::eq)
        && wider(&broad.vlan, &narrow.vlan, PartialEq::eq)
        && wider(&broad.destination_port, &narrow.destination_port, PortRange::covers)
        && wider(&broad.source_port, &narrow.source_port, PortRange::covers)
        && wider(&broad.protocol, &narrow.protocol, PartialEq::eq)
        && wider(&broad.ethertype, &ethertype(narrow), PartialEq::eq)
        && addresses_wider(broad.source, narrow.source, narrow)
        && addresses_wider(broad.destination, narrow.destination, narrow)
}

/// No condition is wider than any; else both must be there and the broad one must cover.
fn wider<T>(broad: &Option<T>, narrow: &Option<T>, covers: impl Fn(&T, &T) -> bool) -> bool {
    match (broad, narrow) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(broad), Some(narrow)) => covers(broad, narrow),
    }
}

/// The EtherType that a rule demands, be it by an address.
fn ethertype(rule: &Rule) -> Option<EtherType> {
    let by_address =
        |prefix: Prefix| if prefix.address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    rule.ethertype.or_else(|| rule.source.or(rule.destination).map(by_address))
}

/// Compares prefixes as [`wider`] does; a prefix of length 0 covers every packet of its IP version.
fn addresses_wider(broad: Option<Prefix>, narrow: Option<Prefix>, rule: &Rule) -> bool {
    match (broad, narrow) {
        (Some(broad), None) if broad.length == 0 => {
            let version = if broad.address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
            ethertype(rule) == Some(version)
        }
        _ => wider(&broad, &narrow, Prefix::covers),
    }
}

/// Shape of a rule: the conditions that it has, and the lengths of its prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    port: bool,
    vlan: bool,
    ethertype: bool,
    protocol: bool,
    source: u8,
    destination: u8,
}

/// Values of those conditions.
type Key =
    (Option<PortId>, Option<Vlan>, Option<EtherType>, Option<Protocol>, Option<Prefix>, Option<Prefix>);

impl Shape {
    fn of(rule: &Rule) -> Self {
        let bits = |prefix: Option<Prefix>| prefix.map_or(0, |prefix| prefix.length);
        Self {
            port: rule.port.is_some(),
            vlan: rule.vlan.is_some(),
            ethertype: rule.ethertype.is_some(),
            protocol: rule.protocol.is_some(),
            source: bits(rule.source),
            destination: bits(rule.destination),
        }
    }

    /// Returns the values that a rule of this shape that covers `rule` must say; it need not cover it then.
    fn key(&self, rule: &Rule) -> Key {
        (
            rule.port.filter(|_| self.port),
            rule.vlan.filter(|_| self.vlan),
            ethertype(rule).filter(|_| self.ethertype),
            rule.protocol.filter(|_| self.protocol),
            rule.source.filter(|_| self.source > 0).map(|prefix| prefix.shortened(self.source)),
            rule.destination
                .filter(|_| self.destination > 0)
                .map(|prefix| prefix.shortened(self.destination)),
        )
    }
}

/// Returns for every rule the first earlier rule that covers it. Rules that are `None` were reported as
/// broken and neither cover nor are covered.
///
/// Ten thousand rules come with ten thousand chains, so not every pair is compared: rules that have the
/// same conditions are found by what these say, as in the classifier (`headgate_path::rules`).
pub fn covered(rules: &[Option<Rule>]) -> Vec<Option<usize>> {
    let mut by_shape: HashMap<Shape, HashMap<Key, Vec<usize>>> = HashMap::new();
    let mut covered = Vec::with_capacity(rules.len());
    for (place, rule) in rules.iter().enumerate() {
        let Some(rule) = rule else {
            covered.push(None);
            continue;
        };
        let candidates = by_shape.iter().filter_map(|(shape, places)| places.get(&shape.key(rule))).flatten();
        let covers = |place: &&usize| rules[**place].as_ref().is_some_and(|broad| covers(broad, rule));
        covered.push(candidates.filter(covers).min().copied());
        let shape = Shape::of(rule);
        by_shape.entry(shape).or_default().entry(shape.key(rule)).or_default().push(place);
    }
    covered
}

/// Returns the ways of packets with service headers, as if rules led to the chains of their paths.
pub fn ways<'a>(
    ports: impl Iterator<Item = Option<&'a Port>>,
    chains: impl Iterator<Item = Option<&'a Chain>> + Clone,
) -> Vec<Rule> {
    let takes = ports.enumerate().filter_map(|(number, port)| Some((number, port?)));
    let takes = takes.filter(|(_, port)| port.service.is_some());
    let all = chains.enumerate().filter_map(|(number, chain)| Some((number, chain?)));
    takes
        .flat_map(|(port, at)| {
            let led = all.clone().filter(|(_, chain)| at.leads_by_path(chain));
            led.map(move |(chain, _)| Rule::by_path(port as u16, chain as u16))
        })
        .collect()
}

impl Config {
    /// Returns whether packets with service headers may come by any port.
    pub fn has_service_headers(&self) -> bool {
        self.ports.iter().any(|port| port.service.is_some())
    }

    /// Returns whether this is a node that works, or stands by, for a group.
    pub fn works_for_groups(&self) -> bool {
        self.node.as_ref().is_some_and(Node::works_for_groups)
    }

    /// Returns whether an NF is of a group that this node works, or stands by, for.
    pub fn is_in_group(&self, nf: &str) -> bool {
        let mut groups = self.node.iter().flat_map(|node| &node.groups);
        groups.any(|group| group.nfs.iter().any(|one| self.nfs[one.index()].name == nf))
    }

    /// Returns all ways into chains: rules, and behind them those of service paths as if they were rules.
    pub fn ways(&self) -> Vec<Rule> {
        let led = ways(self.ports.iter().map(Some), self.chains.iter().map(Some));
        self.rules.iter().cloned().chain(led).collect()
    }
}

impl Rule {
    fn by_path(port: u16, chain: u16) -> Self {
        Self {
            port: Some(PortId(port)),
            vlan: None,
            ethertype: Some(EtherType::NSH),
            protocol: None,
            source: None,
            destination: None,
            source_port: None,
            destination_port: None,
            chain: ChainId(chain),
        }
    }
}
