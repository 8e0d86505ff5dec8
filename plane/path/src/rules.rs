//! Rules: choose the chain that a new flow goes to. First match in file order wins.
//!
//! The problem: ten thousand chains come with ten thousand rules, and a flood of new flows must not
//! make the manager walk them all. The intuition (tuple space search, Srinivasan, Suri and Varghese,
//! SIGCOMM 1999): rules on the same bits form a group, and within a group the answer is one
//! hash lookup. Real rule sets have few groups. Groups are visited in the order of their earliest rule,
//! so the search ends at the first group that cannot win any more. A range of L4 ports becomes the
//! prefixes that cover it, at most 30.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headgate_units::{ChainId, PortId};

use crate::holders::Entrance;

/// Flow as rules see it: fixed places for all fields, so that a mask selects any of them.
///
/// Words 0-1: source address, 2-3: destination (IPv4 in the low 32 bits), 4: source port 16,
/// destination port 16, VLAN 16, protocol 8, ingress port 8; 5: ethertype 16.
pub type Tuple = [u64; 6];

/// Address and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Number of leading bits that count: 0-32 or 0-128.
    pub bits: u8,
}

/// Rule of a chain. A field that is `None` matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The port the packet came by.
    pub ingress: Option<PortId>,
    /// VLAN identifier, 0 for untagged.
    pub vlan: Option<u16>,
    /// The ethertype behind VLAN tags.
    pub ethertype: Option<u16>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Source addresses.
    pub source: Option<Prefix>,
    /// Destination addresses.
    pub destination: Option<Prefix>,
    /// Source ports, both ends included.
    pub source_port: Option<(u16, u16)>,
    /// Destination ports, both ends included.
    pub destination_port: Option<(u16, u16)>,
    /// The chain.
    pub chain: ChainId,
    /// The position in the chain where its packets enter: 0 at the head.
    pub position: u8,
}

/// Fields of a flow that rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The port the packet came by.
    pub ingress: PortId,
    /// VLAN identifier, 0 for untagged.
    pub vlan: u16,
    /// The ethertype behind VLAN tags.
    pub ethertype: u16,
    /// IP protocol number, 0 for other ethertypes.
    pub protocol: u8,
    /// Source and destination; absent for other ethertypes than IP.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// Source and destination port; `None` where there is none to see (other protocols, later
    /// fragments): rules on L4 ports then do not match.
    pub ports: Option<(u16, u16)>,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Bit of word 5 that is set where L4 ports can be seen, so that a rule on them matches no other flow.
const HAS_PORTS: u64 = 1 << 16;

fn address_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

fn prefix_mask(prefix: Prefix) -> [u64; 2] {
    let (width, bits) = match prefix.address {
        IpAddr::V4(_) => (32, prefix.bits.min(32)),
        IpAddr::V6(_) => (128, prefix.bits.min(128)),
    };
    let host = width - u32::from(bits);
    let all = if width == 32 { u128::from(u32::MAX) } else { u128::MAX };
    let mask = if host >= 128 { 0 } else { all >> host << host };
    [(mask >> 64) as u64, mask as u64]
}

impl Flow {
    fn tuple(&self) -> Tuple {
        let (mut tuple, mut words) = ([0; 6], [[0; 2]; 2]);
        if let Some((source, destination)) = self.addresses {
            words = [address_words(source), address_words(destination)];
        }
        tuple[..2].copy_from_slice(&words[0]);
        tuple[2..4].copy_from_slice(&words[1]);
        let (source_port, destination_port) = self.ports.unwrap_or_default();
        tuple[4] = l4_word(source_port, destination_port, self.vlan, self.protocol, self.ingress);
        tuple[5] = u64::from(self.ethertype) | if self.ports.is_some() { HAS_PORTS } else { 0 };
        tuple
    }
}

fn l4_word(source: u16, destination: u16, vlan: u16, protocol: u8, ingress: PortId) -> u64 {
    u64::from(source) << 48
        | u64::from(destination) << 32
        | u64::from(vlan) << 16
        | u64::from(protocol) << 8
        | u64::from(ingress.0 & 0xff)
}

/// Returns the prefixes that cover a range of 16-bit numbers, as (value, mask).
fn cover(range: Option<(u16, u16)>) -> Vec<(u16, u16)> {
    let Some((low, high)) = range else { return vec![(0, 0)] };
    let (mut next, high, mut prefixes) = (u32::from(low), u32::from(high), Vec::new());
    while next <= high {
        let mut size = if next == 0 { 1 << 16 } else { 1 << next.trailing_zeros() };
        while next + size - 1 > high {
            size /= 2;
        }
        prefixes.push((next as u16, !(size - 1) as u16));
        next += size;
    }
    prefixes
}

impl Rule {
    /// Returns the ethertypes that its fields ask for. More than one: it can match nothing.
    fn ethertypes(&self) -> Vec<u16> {
        let of_prefix = |prefix: Option<Prefix>| {
            prefix.map(|p| if p.address.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 })
        };
        let asked = [self.ethertype, of_prefix(self.source), of_prefix(self.destination)];
        let mut all: Vec<u16> = asked.into_iter().flatten().collect();
        all.dedup();
        all
    }

    /// Returns word 4 but for the ports, as value and mask.
    fn fixed_l4(&self) -> (u64, u64) {
        let value = l4_word(
            0,
            0,
            self.vlan.unwrap_or(0),
            self.protocol.unwrap_or(0),
            self.ingress.unwrap_or_default(),
        );
        let ones = |there: bool| if there { u16::MAX } else { 0 };
        let mask = l4_word(
            0,
            0,
            ones(self.vlan.is_some()),
            ones(self.protocol.is_some()) as u8,
            PortId(ones(self.ingress.is_some())),
        );
        (value, mask)
    }

    /// Returns the rule as (value, mask) pairs, more than one where port ranges need it.
    fn tuples(&self) -> Vec<(Tuple, Tuple)> {
        let (mut value, mut mask) = ([0; 6], [0; 6]);
        for (at, prefix) in [(0, self.source), (2, self.destination)] {
            if let Some(prefix) = prefix {
                let (words, bits) = (address_words(prefix.address), prefix_mask(prefix));
                for word in 0..2 {
                    value[at + word] = words[word] & bits[word];
                    mask[at + word] = bits[word];
                }
            }
        }
        match self.ethertypes().as_slice() {
            [] => {}
            [ethertype] => {
                value[5] |= u64::from(*ethertype);
                mask[5] |= 0xffff;
            }
            _ => return Vec::new(),
        }
        if self.source_port.is_some() || self.destination_port.is_some() {
            value[5] |= HAS_PORTS;
            mask[5] |= HAS_PORTS;
        }
        let (fixed_value, fixed_mask) = self.fixed_l4();
        let mut all = Vec::new();
        for (source, source_mask) in cover(self.source_port) {
            for (destination, destination_mask) in cover(self.destination_port) {
                value[4] = fixed_value | l4_word(source, destination, 0, 0, PortId(0));
                mask[4] = fixed_mask | l4_word(source_mask, destination_mask, 0, 0, PortId(0));
                all.push((value, mask));
            }
        }
        all
    }
}

#[derive(Clone, Debug)]
struct Group {
    mask: Tuple,
    /// Order of the earliest rule of the group.
    first: u32,
    /// Masked tuple -> (order of the rule, where it sends its flows).
    entrances: HashMap<Tuple, (u32, Entrance)>,
}

/// Compiled rule set.
///
/// A rule's hits are counted where rules are asked, which is for flows that the flow table does not know: a
/// packet of a known flow costs nothing more. All workers add to one count: one atomic addition beside the
/// look-ups and the new entry that such a flow costs in any case.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    groups: Vec<Group>,
    /// Flows that each rule decided on, in the order of precedence. Copies of a rule set share them.
    hits: Arc<[AtomicU64]>,
}

impl Rules {
    /// Returns the compiled rules; the order of the slice is the order of precedence.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut by_mask: HashMap<Tuple, usize> = HashMap::new();
        for (order, rule) in rules.iter().enumerate() {
            let (order, entrance) = (order as u32, Entrance::new(rule.chain, rule.position));
            for (value, mask) in rule.tuples() {
                let group = *by_mask.entry(mask).or_insert_with(|| {
                    groups.push(Group { mask, first: order, entrances: HashMap::new() });
                    groups.len() - 1
                });
                groups[group].entrances.entry(value).or_insert((order, entrance));
            }
        }
        groups.sort_by_key(|group| group.first);
        Self { groups, hits: rules.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns how many flows each rule has decided on, in the order of precedence. A flow that the flow
    /// table forgot and that comes again counts again.
    #[must_use]
    pub fn hits(&self) -> Vec<u64> {
        // Relaxed, here and below: counts that stand for themselves.
        self.hits.iter().map(|hits| hits.load(Ordering::Relaxed)).collect()
    }

    /// Begins the count of a rule with that of the same rule in an earlier set.
    pub fn begin_hits(&self, rule: usize, hits: u64) {
        if let Some(count) = self.hits.get(rule) {
            count.store(hits, Ordering::Relaxed);
        }
    }

    /// Returns where a new flow enters, if any rule claims it, and counts a hit of the rule.
    #[must_use]
    pub fn claim(&self, flow: &Flow) -> Option<Entrance> {
        let (order, entrance) = self.first_match(flow)?;
        self.hits[order as usize].fetch_add(1, Ordering::Relaxed);
        Some(entrance)
    }

    /// Returns where a flow enters, if any rule claims it. Counts nothing.
    #[must_use]
    pub fn entrance(&self, flow: &Flow) -> Option<Entrance> {
        self.first_match(flow).map(|(_, entrance)| entrance)
    }

    fn first_match(&self, flow: &Flow) -> Option<(u32, Entrance)> {
        let tuple = flow.tuple();
        let mut best: Option<(u32, Entrance)> = None;
        for group in &self.groups {
            if best.is_some_and(|(order, _)| order < group.first) {
                break;
            }
            let masked = std::array::from_fn(|word| tuple[word] & group.mask[word]);
            if let Some(&found) = group.entrances.get(&masked)
                && best.is_none_or(|(order, _)| found.0 < order)
            {
                best = Some(found);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests;
