//! Features that only some chains ask for: an entrance in the middle, a stage on another node, an exit
//! through a tunnel, output that waits, words beside the holder records. The accounts hold with each.

use headgate_path::commit::LATCH_PLACES;
use headgate_path::holders::{ExtrasWanted, Holder};
use headgate_path::plan::{Exit, TunnelId};
use headgate_path::rules::Rule;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_units::{ChainId, InstanceId, PortId};
use headgate_wire::nsh::{Base, CONTEXT_LENGTH};

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved};
use crate::harness::layout::{At, HERE, Layout, from_port, to_chain};

/// Returns a chain of three NFs from port 0 to port 1.
fn three() -> Layout {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]);
    layout.chain(&[0, 1, 2], Exit::Port(PortId(1)))
}

fn delivered(world: &World) -> [u64; 3] {
    std::array::from_fn(|number| world.boards[0].instances[number].delivered.get())
}

#[test]
fn a_flow_may_enter_its_chain_in_the_middle() {
    for (position, expected) in [(0, [50; 3]), (1, [0, 50, 50]), (2, [0, 0, 50]), (3, [0; 3]), (9, [0; 3])] {
        let mut world = World::new(three().rule(Rule { position, ..to_chain(1) }));
        let offered = interleaved(0..5, 0..10);
        world.offer(0, &offered);
        world.settle();
        assert_same_flows(&offered, &world.sent(1));
        assert_eq!((world.entered(1), world.left(1)), (50, 50));
        assert_eq!(delivered(&world), expected, "entered at position {position}");
        world.finish();
    }
}

/// Packets that enter behind an overloaded NF are not shed for it.
#[test]
fn only_what_comes_to_the_overloaded_is_shed() {
    let layout = Layout::plain().ring(256).pressure(0).nf("slow", &[HERE]).nf("fast", &[HERE]);
    let layout = layout.chain(&[0, 1], Exit::Port(PortId(1)));
    let behind = Rule { position: 1, ..from_port(1, 1) };
    let mut world = World::new(layout.rule(from_port(0, 1)).rule(behind));
    for round in 0..40 {
        world.offer(0, &interleaved(0..4, round * 8..round * 8 + 8));
        world.offer(1, &interleaved(10..14, round * 8..round * 8 + 8));
        world.pass_of(0);
        world.nf(1).step();
    }
    assert!(world.signals.pressure.is_throttled(InstanceId(0)));
    assert_eq!(world.sent(1).len() + world.nf(1).receive.refresh().unwrap() as usize, 39 * 32);
    let throttled = world.drops(1)["throttled"];
    assert_eq!(world.boards[0].instances[0].drops.iter().map(|count| count.get()).sum::<u64>(), throttled);
    world.settle();
    world.finish();
}

const HEADER: [u8; 18] = *b"outer header, 18 b";

fn with_header(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| [&HEADER, frame.as_slice()].concat()).collect()
}

#[test]
fn a_stage_on_another_node_is_reached_through_its_tunnel() {
    let layout = Layout::plain().tunnel(1, &HEADER).nf("here", &[HERE]).nf("there", &[]).elsewhere(0);
    let layout = layout.nf("behind", &[HERE]).chain(&[0, 1, 2], Exit::Port(PortId(0)));
    let mut world = World::new(layout.default_chain(1));
    let offered = interleaved(0..5, 0..50);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&with_header(&offered), &world.sent(1));
    assert_eq!((world.entered(1), world.left(1)), (250, 250));
    assert_eq!(world.boards[0].instances[1].delivered.get(), 0, "the node goes on with the chain");
    // An instance of ours is nearer.
    world.set_running(1, &[1]);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(0));
    world.finish();
}

#[test]
fn a_node_that_no_tunnel_leads_to_is_out_of_reach() {
    let layout = Layout::plain().nf("there", &[]).elsewhere(7);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    world.offer(0, &interleaved(0..5, 0..10));
    world.settle();
    assert_eq!(world.drops(1), [("no-way", 50)].into());
    world.finish();
}

#[test]
fn an_exit_may_be_a_tunnel() {
    // The port belongs to the other worker, and sends from its own region only.
    let there = At { worker: 1, region: 1 };
    let layout = Layout::new().workers(2).region(512, 320).region(512, 320).port(HERE).port(there);
    let layout = layout.tunnel(1, &HEADER).nf("a", &[HERE]).chain(&[0], Exit::Tunnel(TunnelId(0)));
    let mut world = World::new(layout.default_chain(1));
    let offered = interleaved(0..5, 0..50);
    world.offer(0, &offered);
    while world.pass() {
        world.check();
    }
    world.settle();
    assert_same_flows(&with_header(&offered), &world.sent(1));
    assert_eq!((world.entered(1), world.left(1)), (250, 250));
    world.finish();
}

#[test]
fn what_has_no_room_for_the_outer_header_ends() {
    let long = vec![7; HEADROOM_BYTES as usize - 10];
    let layout = Layout::plain().tunnel(1, &long).nf("a", &[HERE]).chain(&[0], Exit::Tunnel(TunnelId(0)));
    let mut world = World::new(layout.default_chain(1));
    // Every other packet comes back with a header of the NF's in front of it.
    let mut count = 0;
    world.on(
        0,
        Box::new(move |_, packet| {
            count += 1;
            let more = if count % 2 == 0 { 20 } else { 0 };
            packet.with_extent(packet.offset() - more, packet.length() + more).with_tag(0)
        }),
    );
    world.offer(0, &interleaved(0..1, 0..40));
    world.settle();
    assert_eq!((world.left(1), world.drops(1)), (20, [("no-headroom", 20)].into()));
    world.finish();
}

/// Returns a world in which chain 1 from port 0 waits at its exit, and chain 2 from port 1 does not.
fn committed() -> World {
    let layout = Layout::plain().region(LATCH_PLACES as u32 + 1024, 128).nf("nf", &[HERE]);
    let layout = layout.chain(&[0], Exit::Port(PortId(1))).committed().chain(&[0], Exit::Port(PortId(0)));
    World::new(layout.rule(from_port(0, 1)).rule(from_port(1, 2)))
}

fn waiting(world: &World) -> usize {
    world.holders.iter().map(|holders| holders.held_by(Holder::COMMIT).count()).sum()
}

#[test]
fn output_waits_until_it_may_be_seen_and_leaves_in_order() {
    let mut world = committed();
    let offered = interleaved(0..4, 0..10);
    world.offer(0, &offered);
    world.offer(1, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(0));
    assert_eq!((world.sent(1).len(), world.left(1), waiting(&world)), (0, 0, 40));
    assert_eq!(world.audit().chains[&ChainId(1)].held, 40);
    let mut sent = Vec::new();
    for allowed in [7u64, 7, 20, 40] {
        world.signals.releases.allow(ChainId(1), allowed);
        // What was allowed stays allowed.
        world.signals.releases.allow(ChainId(1), 3);
        world.settle();
        sent.extend(world.sent(1));
        assert_eq!(sent.len() as u64, allowed);
    }
    assert_eq!((sent.as_slice(), waiting(&world)), (offered.as_slice(), 0));
    assert_eq!((world.left(1), world.drops(1)), (40, [].into()));
    world.finish();
}

#[test]
fn what_waits_leaves_when_its_chain_needs_it_no_more() {
    let mut world = committed();
    let offered = interleaved(0..4, 0..60);
    world.offer(0, &offered[..200]);
    world.settle();
    world.replan(|parts| parts.chains[1].as_mut().unwrap().committed = false);
    world.offer(0, &offered[200..]);
    world.settle();
    assert_eq!(world.sent(1), offered);
    world.finish();
}

#[test]
fn more_than_may_wait_ends() {
    let layout = Layout::new().region(LATCH_PLACES as u32 + 1024, 128).port(HERE).port(HERE);
    let layout = layout.chain(&[], Exit::Port(PortId(1))).committed();
    let mut world = World::new(layout.default_chain(1));
    let offered = interleaved(0..1, 0..LATCH_PLACES as u32 + 300);
    world.offer(0, &offered);
    world.settle();
    assert_eq!((waiting(&world), world.drops(1)), (LATCH_PLACES, [("uncommitted", 300)].into()));
    world.signals.releases.allow(ChainId(1), u64::MAX);
    world.settle();
    assert_eq!(world.sent(1), offered[..LATCH_PLACES]);
    world.finish();
}

/// A buffer is held by somebody until the port has taken it: also of packets that it then does not take.
#[test]
fn a_packet_is_held_until_the_port_took_it() {
    let mut world = World::new(three().default_chain(1));
    let holders = world.holders[0].clone();
    let (seen, witnessed) = std::sync::mpsc::channel();
    let witness = move |packets: &[headgate_shm::Descriptor]| {
        for packet in packets {
            seen.send(holders.place(packet.index()).holder()).unwrap();
        }
    };
    world.ports[1].lock().unwrap().witness = Some(Box::new(witness));
    world.ports[1].lock().unwrap().room = Some(30);
    world.offer(0, &interleaved(0..5, 0..10));
    world.settle();
    let holders: Vec<Holder> = witnessed.try_iter().collect();
    assert_eq!(holders, [Holder::WORKER; 50]);
    assert_eq!((world.left(1), world.drops(1)), (30, [("port-full", 20)].into()));
    world.ports[1].lock().unwrap().witness = None;
    world.finish();
}

/// What is beside a packet's record goes where the packet goes, and is not the next packet's.
#[test]
fn extras_go_with_their_packet() {
    let there = At { worker: 0, region: 1 };
    let mut layout = Layout::new().region(64, 320).region(64, 320).port(HERE).port(there);
    layout.extras = ExtrasWanted { clock: true, service: true };
    let layout = layout.nf("a", &[HERE]).nf("b", &[there]).chain(&[0, 1], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    let held = |world: &World, region: usize, nf: u16| -> Vec<u32> {
        world.holders[region].held_by(Holder::instance(InstanceId(nf))).map(|(index, _)| index).collect()
    };
    for round in 0..3 {
        world.offer(0, &interleaved(0..5, round * 4..round * 4 + 4));
        world.pass_of(0);
        let here = held(&world, 0, 0);
        assert_eq!(here.len(), 20);
        for (number, &index) in here.iter().enumerate() {
            let extras = &world.holders[0].extras;
            assert_eq!((extras.clock.get(index), extras.service.get(index).is_none()), (Some(0), true));
            extras.clock.set(index, number as u64 + 1);
            extras.service.set(index, Base::of_type_1(), &[number as u8; CONTEXT_LENGTH]);
        }
        world.nf(0).step();
        world.pass_of(0);
        let extras = &world.holders[1].extras;
        let mut clocks = Vec::new();
        for index in held(&world, 1, 1) {
            let clock = extras.clock.get(index).unwrap();
            assert_eq!(extras.service.get(index).unwrap().metadata(), [clock as u8 - 1; CONTEXT_LENGTH]);
            clocks.push(clock);
        }
        clocks.sort_unstable();
        assert_eq!(clocks, (1..=20).collect::<Vec<_>>());
        world.settle();
    }
    world.finish();
}
