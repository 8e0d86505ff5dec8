//! Service headers (RFC 8300): packets enter by them, leave with them, and end because of them.

mod hostile;
mod links;
mod shares;

use headgate_path::plan::{Exit, TunnelId};
use headgate_path::rules::Rule;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_units::{ChainId, InstanceId, PortId};
use headgate_wire::nsh::{self, Base, Context, Header, ServicePath, md_type, next_protocol};
use headgate_wire::{MacAddress, ethernet};

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved, udp4, udp4_long, udp6};
use crate::harness::layout::{At, HERE, Layout, from_port, to_chain};

/// Address of the port, and of who sends to it.
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);
const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xbb]);
/// Ethernet header towards the next hop.
const LINK: [u8; 14] = [2, 0, 0, 0, 0, 0xcc, 2, 0, 0, 0, 0, 0xaa, 0x89, 0x4f];
const PATH: u32 = 0x12_3456;
const CONTEXT: Context = Context { flow_hash: 0, ingress: 7, egress: 9, time_us: 11, target: 12, digest: 13 };

fn path(index: u8) -> ServicePath {
    ServicePath { path: PATH, index }
}

fn link(destination: MacAddress) -> [u8; 14] {
    let mut bytes = [0; 14];
    let header = ethernet::Header { destination, source: SENDER, ethertype: ethernet::ethertype::NSH };
    header.write(&mut bytes).unwrap();
    bytes
}

/// Returns `payload` behind a service header.
fn behind(base: Base, path: ServicePath, metadata: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; nsh::FIXED_LENGTH + metadata.len()];
    nsh::write(base, path, metadata, &mut header).unwrap();
    [&link(OWN)[..], &header, payload].concat()
}

fn of_type_1(index: u8, frame: &[u8]) -> Vec<u8> {
    behind(Base::of_type_1(), path(index), &CONTEXT.to_bytes(), frame)
}

fn all_behind(index: u8, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| of_type_1(index, frame)).collect()
}

/// Returns three NFs from port 0, where service headers come in, to the end of the path at port 1.
fn ends_here() -> Layout {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]);
    layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).on_path(PATH, 255).service_headers(OWN)
}

/// Returns the same with a next hop behind port 1, to which everything of port 0 goes that has no header.
fn goes_on() -> Layout {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]);
    let layout = layout.service_tunnel(1, &LINK, PATH, 252).chain(&[0, 1, 2], Exit::Tunnel(TunnelId(0)));
    layout.on_path(PATH, 255).service_headers(OWN).rule(from_port(0, 1))
}

fn delivered(world: &World) -> Vec<u64> {
    (0..3).map(|number| world.boards[0].instances[number].delivered.get()).collect()
}

/// Sends one frame, and returns the reason why it ended; none where it left.
fn end_of(world: &mut World, frame: &[u8]) -> Option<&'static str> {
    let before = world.drops(0);
    world.offer(0, &[frame.to_vec()]);
    world.settle();
    world.check();
    let after = world.drops(0);
    after.into_iter().find(|(reason, count)| before.get(reason) != Some(count)).map(|(reason, _)| reason)
}

#[test]
fn the_service_index_says_where_a_packet_enters() {
    for (index, expected) in [(255, [40; 3]), (254, [0, 40, 40]), (253, [0, 0, 40]), (252, [0; 3])] {
        let mut world = World::new(ends_here());
        let offered = interleaved(0..4, 0..10);
        world.offer(0, &all_behind(index, &offered));
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        assert_eq!((world.entered(1), world.left(1)), (40, 40));
        assert_eq!(delivered(&world), expected, "service index {index}");
        world.finish();
    }
}

#[test]
fn nfs_see_plain_frames_and_the_header_leaves_as_it_came() {
    let mut world = World::new(goes_on());
    let offered = interleaved(0..4, 0..10);
    let inside = offered.clone();
    world.on(
        0,
        Box::new(move |region, packet| {
            let mut frame = vec![0; packet.length() as usize];
            region.read(packet, &mut frame);
            assert!(inside.contains(&frame));
            packet.with_tag(0)
        }),
    );
    world.offer(0, &all_behind(255, &offered));
    world.settle();
    let sent = world.sent(1);
    let expected: Vec<Vec<u8>> = offered
        .iter()
        .map(|frame| {
            let behind = behind(Base::of_type_1().with_ttl(62), path(252), &CONTEXT.to_bytes(), frame);
            [&LINK, &behind[LINK.len()..]].concat()
        })
        .collect();
    assert_eq!(sent.len(), expected.len());
    assert!(expected.iter().all(|frame| sent.contains(frame)));
    assert_eq!((world.entered(1), world.left(1), world.drops(1)), (40, 40, [].into()));
    world.finish();
}

#[test]
fn a_packet_without_header_leaves_with_one_of_its_own() {
    let mut world = World::new(goes_on());
    let offered = [udp4(1, 0), udp4(2, 1), udp6(3, 2)];
    world.offer(0, &offered);
    world.settle();
    let sent = world.sent(1);
    for frame in &offered {
        let found = sent.iter().find(|sent| sent.ends_with(frame)).unwrap();
        assert_eq!(found[..LINK.len()], LINK);
        let header = Header::new(&found[LINK.len()..]).unwrap();
        assert_eq!((header.base(), header.service_path()), (Base::of_type_1(), path(252)));
        assert_eq!(header.payload(), frame);
        let context = header.context().unwrap();
        assert_eq!(context.flow_hash, nsh::flow_hash(frame, frame.len()));
        assert_eq!((context.ingress, context.egress, context.digest), (0, 0, 0));
        let now_us = world.now / crate::harness::TICKS_PER_MICRO;
        assert!(u64::from(context.time_us) <= now_us && u64::from(context.time_us) + 100 > now_us);
    }
    world.finish();
}

/// What an earlier packet in the same buffer had is nobody's: also where an NF makes a packet in it.
#[test]
fn a_header_is_not_the_next_packets() {
    let mut world = World::new(goes_on());
    for round in 0..40 {
        let (with, without) = (of_type_1(255, &udp4(1, round)), udp4(2, round));
        world.offer(0, &[with, without]);
        world.settle();
        let sent = world.sent(1);
        let mut ingress: Vec<u16> = sent
            .iter()
            .map(|frame| Header::new(&frame[LINK.len()..]).unwrap().context().unwrap().ingress)
            .collect();
        ingress.sort_unstable();
        assert_eq!(ingress, [0, 7]);
    }
    world.finish();
}

/// Returns a header of MD type 2 with an option that nobody knows, and every unassigned bit.
fn odd(data: usize) -> (Base, Vec<u8>) {
    let base = Base::from_bits(u32::from(md_type::VARIABLE) << 8 | u32::from(next_protocol::ETHERNET));
    let mut option = vec![0x12, 0x34, 0x80, data as u8];
    option.extend((0..data).map(|byte| byte as u8));
    (Base::from_bits(base.bits() | UNASSIGNED).with_ttl(0), option)
}

const UNASSIGNED: u32 = 1 << 28 | 0xf << 12;

/// Sends packets with options of so many bytes through two NFs, of which the first and the port at the end
/// may be in another domain.
fn options_are_kept(data: usize, there: At) {
    let layout = Layout::new().workers(2).region(512, 640).region(512, 640).port(HERE).port(there);
    let layout = layout.nf("a", &[there]).nf("b", &[HERE]).service_tunnel(1, &LINK, PATH, 253);
    let layout = layout.chain(&[0, 1], Exit::Tunnel(TunnelId(0))).on_path(PATH, 255);
    let mut world = World::new(layout.service_headers(OWN));
    let (base, metadata) = odd(data);
    let offered = interleaved(0..3, 0..20);
    world
        .offer(0, &offered.iter().map(|frame| behind(base, path(255), &metadata, frame)).collect::<Vec<_>>());
    while world.pass() {
        world.check();
    }
    world.settle();
    let sent = world.sent(1);
    assert_eq!((sent.len(), world.drops(1)), (60, [].into()));
    for frame in &sent {
        let header = Header::new(&frame[LINK.len()..]).unwrap();
        assert_eq!((header.metadata(), header.service_path()), (metadata.as_slice(), path(253)));
        assert_eq!(header.base().ttl(), 63, "0 becomes 63");
        assert_eq!(header.base().bits() & UNASSIGNED, UNASSIGNED);
        assert!(offered.iter().any(|frame| frame == header.payload()));
    }
    world.finish();
}

#[test]
fn options_that_nobody_knows_are_kept() {
    options_are_kept(124, HERE);
}

#[test]
fn options_that_nobody_knows_are_kept_across_domains() {
    options_are_kept(92, At { worker: 1, region: 1 });
}

#[test]
fn an_ip_packet_gets_an_ethernet_header_and_leaves_as_a_frame() {
    let mut world = World::new(goes_on());
    for (protocol, frame) in [(next_protocol::IPV4, udp4(1, 0)), (next_protocol::IPV6, udp6(2, 0))] {
        let base = Base::of_type_1().with_next_protocol(protocol);
        world.offer(0, &[behind(base, path(255), &CONTEXT.to_bytes(), &frame[14..])]);
        world.settle();
        let sent = world.sent(1).pop().unwrap();
        let header = Header::new(&sent[LINK.len()..]).unwrap();
        assert_eq!(header.base(), Base::of_type_1().with_ttl(62));
        let inside = header.payload();
        assert_eq!(inside[..12], [OWN.0, SENDER.0].concat());
        assert_eq!(inside[12..], frame[12..]);
    }
    world.finish();
}

#[test]
fn what_is_not_addressed_to_the_port_is_classified() {
    let mut world = World::new(ends_here().rule(Rule { position: 3, ..to_chain(1) }));
    let mut foreign = of_type_1(255, &udp4(1, 0));
    foreign[..14].copy_from_slice(&link(SENDER));
    let mut tagged = of_type_1(255, &udp4(1, 1));
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let plain = udp4(1, 2);
    world.offer(0, &[foreign.clone(), tagged.clone(), plain.clone()]);
    world.settle();
    assert_eq!(world.sent(1), [foreign, tagged, plain]);
    assert_eq!(delivered(&world), [0; 3]);
    world.finish();
}

#[test]
fn a_port_that_takes_none_classifies_all() {
    let layout = ends_here().rule(Rule { position: 3, ..to_chain(1) });
    let mut layout = layout;
    layout.ports[0].service_address = None;
    let mut world = World::new(layout);
    let frame = of_type_1(255, &udp4(1, 0));
    world.offer(0, std::slice::from_ref(&frame));
    world.settle();
    assert_eq!((world.sent(1), delivered(&world)), (vec![frame], vec![0; 3]));
    world.finish();
}

#[test]
fn a_frame_without_room_for_the_header_ends() {
    let layout = Layout::new().region(64, 640).port(HERE).port(HERE);
    let long = vec![7; HEADROOM_BYTES as usize - 20];
    let layout = layout.service_tunnel(1, &long, PATH, 255).chain(&[], Exit::Tunnel(TunnelId(0)));
    let mut world = World::new(layout.service_headers(OWN).default_chain(1));
    world.offer(0, &[udp4_long(1, 0, 600)]);
    world.settle();
    assert_eq!(world.drops(1), [("no-headroom", 1)].into());
    world.finish();
}

#[test]
fn a_long_frame_with_a_header_ends() {
    let mut world = World::new(ends_here().long(2));
    world.offer(0, &[of_type_1(255, &udp4_long(1, 0, 600))]);
    world.settle();
    assert_eq!(world.drops(0), [("long-frame", 1)].into());
    world.finish();
}

/// The sender's hash chooses the instance where there is one; else the flow inside does.
#[test]
fn flows_stay_at_one_instance() {
    let layout = Layout::plain().nf("a", &[HERE; 4]).chain(&[0], Exit::Port(PortId(1))).on_path(PATH, 255);
    for said in [0, 0x1234_5678] {
        let mut world = World::new(layout.clone().service_headers(OWN));
        let context = Context { flow_hash: said, ..CONTEXT }.to_bytes();
        let offered = interleaved(0..16, 0..10);
        let behind = offered.iter().map(|frame| behind(Base::of_type_1(), path(255), &context, frame));
        world.offer(0, &behind.collect::<Vec<_>>());
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        let counts = world.boards[0].instances[..4].iter().map(|board| board.delivered.get());
        let used = counts.filter(|&count| count > 0).inspect(|count| assert_eq!(count % 10, 0)).count();
        assert_eq!(used == 1, said != 0, "{used} instances were used");
        world.finish();
    }
}

/// A chain that takes the path over has its packets; what is inside goes on along the old one.
#[test]
fn a_path_moves_from_chain_to_chain() {
    let mut world = World::new(ends_here().chain(&[2], Exit::Port(PortId(0))));
    let offered = interleaved(0..2, 0..10);
    world.offer(0, &all_behind(255, &offered));
    world.pass_of(0);
    world.replan(|parts| {
        let path = parts.chains[1].as_mut().unwrap().path.take();
        parts.chains[2].as_mut().unwrap().path = path;
    });
    world.offer(0, &all_behind(255, &offered));
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_same_flows(&offered, &world.sent(0));
    world.replan(|parts| parts.chains[2] = None);
    world.offer(0, &all_behind(255, &offered));
    world.settle();
    assert_eq!(world.drops(0), [("nsh-no-chain", 20)].into());
    world.finish();
}

#[test]
fn a_stage_that_is_down_is_bypassed_or_closes_the_chain() {
    let layout = Layout::plain().nf("a", &[]).bypassed().nf("b", &[HERE]);
    let layout = layout.service_tunnel(1, &LINK, PATH, 253).chain(&[0, 1], Exit::Tunnel(TunnelId(0)));
    let mut world = World::new(layout.on_path(PATH, 255).service_headers(OWN));
    let offered = interleaved(0..2, 0..5);
    world.offer(0, &all_behind(255, &offered));
    world.settle();
    let sent = world.sent(1);
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|frame| Header::new(&frame[14..]).unwrap().service_path() == path(253)));
    world.set_running(1, &[]);
    world.offer(0, &all_behind(255, &offered));
    world.settle();
    assert_eq!(world.drops(1), [("stage-down", 10)].into());
    world.set_running(1, &[0]);
    assert_eq!(world.parts.stages[1].as_ref().unwrap().running, [InstanceId(0)]);
    world.offer(0, &all_behind(254, &offered));
    world.settle();
    assert_eq!((world.sent(1).len(), world.entered(1)), (10, 30));
    world.finish();
}

/// A packet that an NF makes has no header but the one that it gets here.
#[test]
fn a_made_packet_gets_a_header_of_its_own() {
    let mut world = World::new(goes_on().lend(4));
    world.makes(
        0,
        Box::new(|region, packet, lent| {
            let made = crate::harness::nf::make(region, lent, &udp4(9, 9), 0);
            [packet.with_tag(0)].into_iter().chain(made).collect()
        }),
    );
    for round in 0..30 {
        world.offer(0, &[of_type_1(255, &udp4(1, round))]);
        world.settle();
        for frame in world.sent(1) {
            let context = Header::new(&frame[14..]).unwrap().context().unwrap();
            assert_eq!(context.ingress == 0, frame.ends_with(&udp4(9, 9)));
        }
    }
    assert!(world.made(1) > 20);
    world.finish();
}

#[test]
fn an_unknown_port_of_the_plan_takes_no_headers() {
    let world = World::new(ends_here());
    let plan = headgate_path::plan::Plan::new(world.parts.clone());
    assert_eq!(plan.service_address(PortId(0)), Some(OWN.0));
    assert_eq!(plan.service_address(PortId(9)), None);
    let entrance = plan.entrance_by(path(254), false).unwrap();
    assert_eq!((entrance.chain(), entrance.position()), (ChainId(1), 1));
}
