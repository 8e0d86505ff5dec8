//! Chains over several nodes, seen from one of them: what it sends on, works on, and refuses.

use headgate_path::plan::{Exit, NodeId, Senders};
use headgate_shm::Verdict;
use headgate_units::PortId;
use headgate_wire::nsh::{Base, Context, Header};
use headgate_wire::{MacAddress, ethernet};

use super::{CONTEXT, PATH, end_of, path};
use crate::harness::World;
use crate::harness::frames::{interleaved, udp4};
use crate::harness::layout::{HERE, Layout, from_port};

/// Own address, and the neighbour's, of both links.
const LINKS: [[MacAddress; 2]; 2] = [mac_pair(0x10), mac_pair(0x20)];

const fn mac_pair(first: u8) -> [MacAddress; 2] {
    [MacAddress([2, 0, 0, 0, 0, first]), MacAddress([2, 0, 0, 0, 0, first + 1])]
}

/// Returns a frame that the neighbour at a link sends.
fn by_link(link: usize, base: Base, index: u8, inside: &[u8]) -> Vec<u8> {
    let [own, neighbour] = LINKS[link];
    framed(neighbour, own, base, PATH, index, inside)
}

fn framed(
    source: MacAddress,
    destination: MacAddress,
    base: Base,
    path: u32,
    index: u8,
    inside: &[u8],
) -> Vec<u8> {
    let mut bytes =
        super::behind(base, headgate_wire::nsh::ServicePath { path, index }, &CONTEXT.to_bytes(), inside);
    let link = ethernet::Header { destination, source, ethertype: ethernet::ethertype::NSH };
    link.write(&mut bytes).unwrap();
    bytes
}

/// Returns a node with an outside port 0 and links at ports 1 and 2: of the chain's stages the first is
/// behind the first link, the second here, the third and the exit behind the second link.
fn node() -> Layout {
    let layout =
        Layout::plain().port(HERE).nf("a", &[]).elsewhere(0).nf("b", &[HERE]).nf("c", &[]).elsewhere(1);
    let layout = layout.link(1, LINKS[0][0], LINKS[0][1]).link(2, LINKS[1][0], LINKS[1][1]);
    layout.chain(&[0, 1, 2], Exit::Node(NodeId(1))).across(PATH).rule(from_port(0, 1))
}

/// Returns addresses, base header, path and context of frames, and what is inside.
fn opened(frames: &[Vec<u8>]) -> Vec<(MacAddress, Base, u8, Context, Vec<u8>)> {
    let open = |frame: &Vec<u8>| {
        let header = Header::new(&frame[ethernet::HEADER_LENGTH..]).unwrap();
        assert_eq!(header.service_path().path, PATH);
        let to = MacAddress(*frame.first_chunk().unwrap());
        let index = header.service_path().index;
        (to, header.base(), index, header.context().unwrap(), header.payload().to_vec())
    };
    frames.iter().map(open).collect()
}

#[test]
fn what_enters_here_goes_to_the_node_of_its_first_stage() {
    let mut world = World::new(node());
    let offered = interleaved(0..3, 0..5);
    world.offer(0, &offered);
    world.settle();
    let sent = opened(&world.sent(1));
    assert_eq!(sent.len(), 15);
    for (to, base, index, context, inside) in sent {
        assert_eq!((to, base, index), (LINKS[0][1], Base::of_type_1(), 255));
        assert_eq!((context.ingress, context.egress, context.target), (1, 3, 1));
        assert!(context.flow_hash != 0 && offered.contains(&inside));
    }
    assert_eq!((world.entered(1), world.left(1)), (15, 15));
    world.finish();
}

#[test]
fn what_comes_is_worked_on_here_or_passed_on() {
    for (link, index, worked) in [(0, 254, 1), (0, 253, 0), (0, 252, 0)] {
        let mut world = World::new(node());
        world.offer(1 + link, &[by_link(link, Base::of_type_1(), index, &udp4(1, 0))]);
        world.settle();
        let sent = opened(&world.sent(2));
        // For the node of the third stage, whatever was said before.
        let context = Context { target: 2, ..CONTEXT };
        let expected = (LINKS[1][1], Base::of_type_1().with_ttl(62), index - worked, context, udp4(1, 0));
        assert_eq!(sent, [expected], "service index {index}");
        assert_eq!(world.boards[0].instances[0].delivered.get(), u64::from(worked));
        world.finish();
    }
}

#[test]
fn what_a_link_must_not_bring_ends_with_its_reason() {
    // The outside port takes service headers too, and not those of links.
    let outside = MacAddress([2, 0, 0, 0, 0, 0xaa]);
    let mut layout = node();
    (layout.ports[0].service_address, layout.ports[0].senders) = (Some(outside.0), Senders::Anybody);
    let mut world = World::new(layout);
    let ([own, neighbour], base, frame) = (LINKS[0], Base::of_type_1(), udp4(1, 0));
    let cases = [
        (1, None, by_link(0, base, 254, &frame)),
        (1, Some("nsh-unknown-peer"), framed(LINKS[1][1], own, base, PATH, 254, &frame)),
        (1, Some("nsh-unknown-peer"), framed(neighbour, outside, base, PATH, 254, &frame)),
        (1, Some("nsh-unknown-peer"), frame.clone()),
        (1, Some("nsh-no-chain"), framed(neighbour, own, base, PATH + 1, 254, &frame)),
        (1, Some("nsh-index"), by_link(0, base, 251, &frame)),
        (1, Some("nsh-ttl"), by_link(0, base.with_ttl(1), 254, &frame)),
        (1, Some("nsh-malformed"), by_link(0, base, 254, &[])),
        (1, Some("nsh-malformed"), by_link(0, base, 254, &frame)[..30].to_vec()),
        // Its next stage is at the neighbour that it came from.
        (1, Some("no-way"), by_link(0, base, 255, &frame)),
        (2, Some("no-way"), by_link(1, base, 252, &frame)),
        (0, Some("nsh-no-chain"), framed(neighbour, outside, base, PATH, 254, &frame)),
    ];
    for (port, expected, frame) in cases {
        let before = world.drops(0);
        world.offer(port, std::slice::from_ref(&frame));
        world.settle();
        world.check();
        let after = world.drops(0);
        let ended = after.into_iter().find(|(reason, count)| before.get(reason) != Some(count));
        assert_eq!(ended.map(|(reason, _)| reason), expected, "port {port}: {frame:02x?}");
    }
    assert_eq!((world.left(1), world.entered(1), world.entered(0)), (1, 1, 11));
    assert_eq!(end_of(&mut world, &[0; 6]), Some("malformed"));
    world.finish();
}

#[test]
fn without_a_way_packets_end_and_are_counted() {
    let mut world = World::new(node());
    world.replan(|parts| parts.nodes[0] = None);
    world.offer(0, &interleaved(0..1, 0..20));
    world.settle();
    assert_eq!((world.drops(1), world.sent(1).len()), ([("no-way", 20)].into(), 0));
    // The other node is reached as before.
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.settle();
    assert_eq!(world.sent(2).len(), 1);
    // By another link: what came by that one would go back.
    world.replan(|parts| parts.nodes[1] = parts.nodes[0]);
    world.replan(|parts| parts.ports[1].senders = Senders::UnknownNeighbour);
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.settle();
    assert_eq!(world.drops(0), [("nsh-unknown-peer", 1)].into());
    world.finish();
}

/// What an NF put on a link the neighbour would take for ours.
#[test]
fn an_nf_sends_nothing_to_a_link() {
    let mut world = World::new(node());
    world.on(0, Box::new(|_, packet| packet.with_verdict(Verdict::Port(2))));
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.settle();
    assert_eq!((world.sent(2).len(), world.drops(1)), (0, [("no-such-port", 1)].into()));
    // Any other port it may name.
    world.on(0, Box::new(|_, packet| packet.with_verdict(Verdict::Port(0))));
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.settle();
    assert_eq!(world.sent(0), [udp4(1, 0)]);
    world.finish();
}

/// A chain that was replaced goes on with the packets that it has, and gets no new ones.
#[test]
fn a_chain_on_its_way_out_still_sends_what_it_has() {
    let mut world = World::new(node());
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.pass_of(0);
    world.replan(|parts| {
        let chain = parts.chains[1].as_mut().unwrap();
        chain.across.as_mut().unwrap().enters = false;
    });
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 1))]);
    world.settle();
    assert_eq!(opened(&world.sent(2))[0].2, path(253).index);
    assert_eq!((world.left(1), world.drops(0)), (1, [("nsh-no-chain", 1)].into()));
    world.finish();
}

/// What no chain has any more could be sent nowhere.
#[test]
fn a_packet_of_a_chain_that_is_gone_ends() {
    let mut world = World::new(node());
    world.offer(1, &[by_link(0, Base::of_type_1(), 254, &udp4(1, 0))]);
    world.pass_of(0);
    world.replan(|parts| parts.chains[1].as_mut().unwrap().across = None);
    world.settle();
    assert_eq!(world.drops(1), [("chain-removed", 1)].into());
    assert_eq!(world.parts.ports[1].worker_for.len(), 1);
    assert_eq!(world.sent(usize::from(PortId(2).0)).len(), 0);
    world.finish();
}
