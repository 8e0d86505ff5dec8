//! Stages of chains over several nodes that more than one node serves, seen from one of them.

use headgate_path::plan::{Exit, NodeId, Server};
use headgate_wire::nsh::{Base, Context, Header};
use headgate_wire::{MacAddress, ethernet};

use super::{CONTEXT, PATH};
use crate::harness::World;
use crate::harness::frames::{interleaved, udp4};
use crate::harness::layout::{HERE, Layout, from_port};

/// Own addresses, and the neighbours', of the links at ports 1 and 2.
const LINKS: [[MacAddress; 2]; 2] = [mac_pair(0x10), mac_pair(0x20)];
/// This node in service headers, as the harness has it.
const OWN: u16 = 1;
/// The nodes behind the links.
const FAR: [Server; 2] = [Server::Node(NodeId(0)), Server::Node(NodeId(1))];

const fn mac_pair(first: u8) -> [MacAddress; 2] {
    [MacAddress([2, 0, 0, 0, 0, first]), MacAddress([2, 0, 0, 0, 0, first + 1])]
}

/// Returns a frame that the neighbour at a link sends for a node.
fn by_link(link: usize, index: u8, target: u16, inside: &[u8]) -> Vec<u8> {
    let [destination, source] = LINKS[link];
    let context = Context { target, ..CONTEXT }.to_bytes();
    let path = headgate_wire::nsh::ServicePath { path: PATH, index };
    let mut bytes = super::behind(Base::of_type_1(), path, &context, inside);
    ethernet::Header { destination, source, ethertype: ethernet::ethertype::NSH }.write(&mut bytes).unwrap();
    bytes
}

/// Returns a node with an outside port 0 and two links, a chain whose first stage is here and behind the
/// links, as `servers` says, and whose exit is port 0 again.
fn node(servers: &[Server], idle_ticks: u32) -> Layout {
    let layout =
        Layout::plain().port(HERE).nf("x", &[]).elsewhere(0).nf("y", &[]).elsewhere(1).nf("fw", &[HERE]);
    let layout = layout.link(1, LINKS[0][0], LINKS[0][1]).link(2, LINKS[1][0], LINKS[1][1]);
    let layout = layout.chain(&[2], Exit::Port(headgate_units::PortId(0))).across(PATH).rule(from_port(0, 1));
    layout.shared(0, servers, idle_ticks)
}

/// Returns target, index and payload of frames.
fn opened(frames: &[Vec<u8>]) -> Vec<(u16, u8, Vec<u8>)> {
    let open = |frame: &Vec<u8>| {
        let header = Header::new(&frame[ethernet::HEADER_LENGTH..]).unwrap();
        (header.context().unwrap().target, header.service_path().index, header.payload().to_vec())
    };
    frames.iter().map(open).collect()
}

#[test]
fn flows_are_divided_among_nodes_and_none_is_split() {
    let mut world = World::new(node(&[Server::Here, FAR[0], FAR[1]], 0));
    let offered = interleaved(0..60, 0..5);
    world.offer(0, &offered);
    world.settle();
    let here = world.sent(0);
    let (one, other) = (opened(&world.sent(1)), opened(&world.sent(2)));
    assert_eq!(here.len() + one.len() + other.len(), offered.len());
    assert!(one.iter().all(|(target, index, _)| (*target, *index) == (1, 255)));
    assert!(other.iter().all(|(target, index, _)| (*target, *index) == (2, 255)));
    for count in [here.len(), one.len(), other.len()] {
        assert!(count > 0 && count % 5 == 0, "{count} of flows of 5");
    }
    assert_eq!(world.boards[0].instances[0].delivered.get(), here.len() as u64);
    world.finish();
}

#[test]
fn what_another_node_sent_here_is_served_here() {
    // Its own table would send all to the second link.
    let mut world = World::new(node(&[FAR[1]], 0));
    world.offer(1, &[by_link(0, 255, OWN, &udp4(1, 0))]);
    world.settle();
    assert_eq!((world.sent(0), world.sent(2).len()), (vec![udp4(1, 0)], 0));
    assert_eq!(world.boards[0].instances[0].delivered.get(), 1);
    // Nobody says who: the table does.
    world.offer(1, &[by_link(0, 255, 0, &udp4(2, 0))]);
    world.settle();
    assert_eq!(opened(&world.sent(2)), [(2, 255, udp4(2, 0))]);
    world.finish();
}

#[test]
fn what_is_for_another_node_is_passed_on() {
    let mut world = World::new(node(&[Server::Here], 0));
    world.offer(1, &[by_link(0, 255, 2, &udp4(1, 0))]);
    world.settle();
    assert_eq!(opened(&world.sent(2)), [(2, 255, udp4(1, 0))]);
    assert_eq!(world.boards[0].instances[0].delivered.get(), 0);
    // It would go back by the link that it came by.
    world.offer(2, &[by_link(1, 255, 2, &udp4(1, 1))]);
    world.settle();
    assert_eq!((world.sent(2).len(), world.drops(0)), (0, [("no-way", 1)].into()));
    // Nobody knows the node.
    for (count, target) in [(1, 77), (2, u16::MAX)] {
        world.offer(1, &[by_link(0, 255, target, &udp4(1, 2))]);
        world.settle();
        assert_eq!(world.drops(1), [("no-way", count)].into(), "target {target}");
    }
    world.finish();
}

#[test]
fn a_known_flow_stays_and_a_new_one_goes_where_the_table_says() {
    let mut world = World::new(node(&[Server::Here, FAR[0]], 4));
    world.replan(|parts| parts.shares[0].servers = [Server::Here; 128]);
    let known = interleaved(0..20, 0..2);
    world.offer(0, &known);
    world.settle();
    assert_eq!(world.sent(0).len(), 40);
    world.replan(|parts| parts.shares[0].servers = [FAR[0]; 128]);
    world.offer(0, &known);
    world.settle();
    assert_eq!((world.sent(0).len(), world.sent(1).len()), (40, 0));
    world.offer(0, &interleaved(20..40, 0..2));
    world.settle();
    assert_eq!(world.sent(1).len(), 40);
    // The instance here is gone: its flows go on at the other node.
    world.set_running(2, &[]);
    world.replan(|parts| parts.shares[0].alive = vec![FAR[0]]);
    world.offer(0, &known);
    world.settle();
    assert_eq!((world.sent(0).len(), world.sent(1).len()), (0, 40));
    assert_eq!(world.drops(1), [].into());
    world.finish();
}

#[test]
fn where_nobody_serves_a_stage_packets_end_and_are_counted() {
    let mut world = World::new(node(&[Server::Here], 0));
    world.set_running(2, &[]);
    world.offer(0, &interleaved(0..2, 0..5));
    world.offer(1, &[by_link(0, 255, OWN, &udp4(1, 0))]);
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 11)].into());
    world.replan(|parts| {
        parts.shares[0].servers = [FAR[0]; 128];
        parts.nodes[0] = None;
    });
    world.offer(0, &interleaved(0..2, 0..5));
    world.settle();
    assert_eq!(world.drops(1), [("no-way", 10), ("stage-down", 11)].into());
    world.finish();
}
