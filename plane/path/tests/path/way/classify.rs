//! Classification: packets go to the chain that the rules say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use headgate_path::plan::{Exit, UNCLAIMED};
use headgate_path::rules::{Prefix, Rule};
use headgate_units::{ChainId, PortId};
use headgate_wire::vlan::Tag;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved, malformed, other, tagged, udp4, udp6};
use crate::harness::layout::{HERE, Layout};

const ARP: u16 = 0x0806;

/// Returns chains of which `n` leaves by port `n`.
fn chains(count: u16) -> Layout {
    let mut layout = Layout::new().region(1024, 320).port(HERE);
    for chain in 1..=count {
        layout = layout.port(HERE).chain(&[], Exit::Port(PortId(chain)));
    }
    layout
}

fn to(chain: u16) -> Rule {
    Rule { chain: ChainId(chain), ..Rule::default() }
}

fn prefix(address: impl Into<IpAddr>, bits: u8) -> Option<Prefix> {
    Some(Prefix { address: address.into(), bits })
}

/// Offers frames, twice, and returns how many left by ports 1, 2, … The second time they are known.
#[track_caller]
fn where_to<const N: usize>(world: &mut World, frames: &[Vec<u8>]) -> [usize; N] {
    let mut once = || {
        world.offer(0, frames);
        world.settle();
        std::array::from_fn(|port| world.sent(port + 1).len())
    };
    let asked = once();
    assert_eq!(once(), asked, "what was learnt is what the rules said");
    asked
}

#[test]
fn rules_choose_by_address_and_the_first_match_wins() {
    let source = prefix(Ipv4Addr::new(10, 0, 0, 0), 30);
    let mut world =
        World::new(chains(3).rule(Rule { source, ..to(1) }).rule(Rule { protocol: Some(17), ..to(2) }));
    let ports = where_to(&mut world, &interleaved(0..10, 0..2));
    assert_eq!(ports, [8, 12, 0]);
    assert_eq!((world.entered(1), world.entered(2)), (16, 24));
    world.finish();
}

#[test]
fn vlans_are_told_apart() {
    let vlan = |id, chain| Rule { vlan: Some(id), ..to(chain) };
    let mut world = World::new(chains(4).rule(vlan(10, 1)).rule(vlan(0, 2)).rule(vlan(20, 3)).rule(to(4)));
    let frames = [
        tagged([Some(Tag::customer(10)), None], 0, 0),
        tagged([Some(Tag::customer(20)), None], 0, 1),
        tagged([Some(Tag::service(20)), Some(Tag::customer(10))], 0, 2),
        tagged([Some(Tag::customer(30)), None], 0, 3),
        udp4(0, 4),
    ];
    assert_eq!(where_to(&mut world, &frames), [1, 1, 2, 1]);
    world.finish();
}

#[test]
fn ipv6_and_other_protocols_have_chains_too() {
    let rules = [
        Rule { destination: prefix(Ipv6Addr::from_bits(0xfd01 << 112), 64), ..to(1) },
        Rule { ethertype: Some(ARP), ..to(2) },
        Rule { ethertype: Some(0x0800), ..to(3) },
    ];
    let mut world = World::new(rules.into_iter().fold(chains(3), Layout::rule));
    let mut frames: Vec<_> = (0..5).map(|sequence| udp6(sequence % 2, sequence)).collect();
    frames.extend((0..3).map(|sequence| other(ARP, 1, sequence)));
    frames.extend((0..2).map(|sequence| udp4(1, sequence)));
    assert_eq!(where_to(&mut world, &frames), [5, 3, 2]);
    world.finish();
}

#[test]
fn unclaimed_and_malformed_packets_are_counted() {
    let mut world = World::new(chains(1).rule(Rule { protocol: Some(6), ..to(1) }));
    world.offer(0, &[udp4(0, 0), malformed(0, 1), udp6(0, 2), other(0x88cc, 0, 3), malformed(1, 4)]);
    world.settle();
    assert_eq!(world.entered(UNCLAIMED.0), 5);
    assert_eq!(world.drops(UNCLAIMED.0), [("malformed", 2), ("no-rule", 3)].into());
    world.finish();
}

/// Nothing but an Ethernet header, and everything that ends before it says what it is.
#[test]
fn the_shortest_frames_are_safe() {
    let mut world = World::new(chains(1).default_chain(1));
    let whole = [udp4(0, 0), udp6(0, 0), tagged([Some(Tag::customer(1)), Some(Tag::customer(2))], 0, 0)];
    let cut = whole.iter().flat_map(|frame| (14..frame.len()).map(|length| frame[..length].to_vec()));
    let frames: Vec<_> = cut.chain([other(ARP, 0, 0)[..14].to_vec()]).collect();
    world.offer(0, &frames);
    world.settle();
    let malformed: u64 = world.drops(UNCLAIMED.0).values().sum();
    assert_eq!(world.sent(1).len() as u64 + malformed, frames.len() as u64);
    assert_eq!(world.left(1), 1, "only the bare Ethernet header is complete");
    world.finish();
}

#[test]
fn the_port_of_arrival_is_part_of_the_flow() {
    let ingress = |port, chain| Rule { ingress: Some(PortId(port)), ..to(chain) };
    let mut world = World::new(chains(2).rule(ingress(0, 2)).rule(ingress(2, 1)));
    for _ in 0..2 {
        let offered = interleaved(0..4, 0..4);
        world.offer(0, &offered);
        world.offer(2, &offered);
        world.settle();
        assert_same_flows(&offered, &world.sent(2));
        assert_same_flows(&offered, &world.sent(1));
    }
    world.finish();
}

fn passes(world: &mut World, count: usize) {
    for _ in 0..count {
        world.pass();
    }
}

#[test]
fn idle_flows_are_forgotten_and_learnt_again() {
    let mut world = World::new(chains(1).default_chain(1).idle_ticks(3_000));
    world.offer(0, &interleaved(0..20, 0..2));
    world.offer(0, &[udp6(0, 0), udp6(0, 1)]);
    passes(&mut world, 64);
    let board = world.boards[0].clone();
    assert_eq!((board.flows.get(), board.flows_learnt.get()), (21, 21));
    // 8 of 128 buckets are swept every 64 passes, and the board is renewed as often.
    passes(&mut world, 3_000 + 128 / 8 * 64);
    assert_eq!(board.flows.get(), 0);
    world.offer(0, &interleaved(0..20, 2..4));
    passes(&mut world, 64);
    assert_eq!((board.flows.get(), board.flows_learnt.get()), (20, 41));
    world.finish();
}

#[test]
fn flows_in_use_are_not_forgotten() {
    let mut world = World::new(chains(1).default_chain(1).idle_ticks(3_000));
    for sequence in 0..30 {
        world.offer(0, &[udp4(1, sequence)]);
        passes(&mut world, 500);
    }
    assert_eq!(world.boards[0].flows_learnt.get(), 1);
    world.finish();
}

/// The table knows 512 flows and a few more come; each still goes where the rules say.
#[test]
fn a_flood_of_flows_is_forgotten_but_not_misled() {
    let source = prefix(Ipv4Addr::new(10, 0, 0, 0), 20);
    let mut world = World::new(chains(2).rule(Rule { source, ..to(1) }).rule(to(2)));
    let offered = interleaved(0..8_192, 0..1);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered[..4_096], &world.sent(1));
    assert_same_flows(&offered[4_096..], &world.sent(2));
    passes(&mut world, 64);
    let board = &world.boards[0];
    assert_eq!(board.flows_learnt.get(), 8_192);
    assert!(board.flows.get() <= 512);
    assert_eq!(board.flows.get() + board.flows_evicted.get(), 8_192);
    world.finish();
}
