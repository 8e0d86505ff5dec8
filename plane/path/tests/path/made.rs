//! Packets that NFs make in buffers they are lent: where they go, where they are counted, how they end.

use headgate_path::board::InstanceCounts;
use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::worker::Event;
use headgate_shm::ring::Consumer;
use headgate_shm::{Descriptor, Region, Verdict};
use headgate_units::{InstanceId, PortId};
use proptest::prelude::*;

use crate::harness::World;
use crate::harness::frames::{assert_same_flows, interleaved, label, udp4};
use crate::harness::layout::{At, HERE, Layout, from_port};
use crate::harness::nf::{Making, make};

const LEND: u32 = 8;
/// Labels of made packets begin here, so that they are told apart.
const MADE: u32 = 1 << 20;

/// Chain 1 from port 0 to port 1 through a, b and c; chain 2 from port 2 to port 2 through b and d; chain 3
/// through d alone.
fn world() -> World {
    World::new(layout(Layout::plain().port(HERE).lend(LEND)))
}

fn layout(layout: Layout) -> Layout {
    let layout = layout.nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]).nf("d", &[HERE]);
    layout
        .chain(&[0, 1, 2], Exit::Port(PortId(1)))
        .chain(&[1, 3], Exit::Port(PortId(2)))
        .chain(&[3], Exit::Port(PortId(2)))
        .rule(from_port(0, 1))
        .rule(from_port(2, 2))
}

const B: u16 = 1;

/// Returns each packet, and behind it one made with this tag and the same sequence.
fn echoes(tag: u32) -> Making {
    Box::new(move |region, packet, lent| {
        let copy = made_of(region, packet);
        let mut back = vec![packet.with_tag(0)];
        back.extend(make(region, lent, &copy, tag));
        back
    })
}

fn made_of(region: &Region, packet: Descriptor) -> Vec<u8> {
    let mut frame = vec![0; packet.length() as usize];
    region.read(packet, &mut frame);
    let at = label(&frame);
    udp4(at.flow, MADE | at.sequence)
}

fn is_made(frame: &[u8]) -> bool {
    label(frame).sequence >= MADE
}

fn counts(world: &World, number: u16) -> &InstanceCounts {
    &world.boards[0].instances[usize::from(number)]
}

/// Offers packets a few at a time, so that every one finds a buffer lent.
fn offer_slowly(world: &mut World, port: usize, frames: &[Vec<u8>]) {
    for few in frames.chunks(LEND as usize) {
        world.offer(port, few);
        for _ in 0..4 {
            world.pass();
            world.check();
        }
    }
    world.settle();
}

#[test]
fn a_copy_goes_behind_the_packet_it_follows() {
    let mut world = world();
    world.makes(B, echoes(0));
    let offered = interleaved(0..4, 0..20);
    offer_slowly(&mut world, 0, &offered);
    let sent = world.sent(1);
    let (made, others): (Vec<_>, Vec<_>) = sent.iter().cloned().partition(|frame| is_made(frame));
    assert_same_flows(&offered, &others);
    assert_eq!(made.len(), 80);
    for pair in sent.chunks(2) {
        assert_eq!(label(&pair[1]).sequence, MADE + label(&pair[0]).sequence, "each behind its original");
    }
    assert_eq!((world.entered(1), world.made(1), world.left(1)), (80, 80, 160));
    assert_eq!((counts(&world, B).returned.get(), counts(&world, B).made.get()), (80, 80));
    assert_eq!(counts(&world, 0).delivered.get(), 80, "NFs before the maker do not see it");
    assert_eq!(counts(&world, 2).delivered.get(), 160, "NFs behind it do");
    world.finish();
}

#[test]
fn an_answer_goes_back_by_the_port_its_question_came_by() {
    let mut world = world();
    world.makes(
        B,
        Box::new(|region, packet, lent| {
            let back = Verdict::Port(packet.tag() as u16).encode();
            let mut all = vec![packet.with_verdict(Verdict::Drop)];
            all.extend(make(region, lent, &made_of(region, packet), back));
            all
        }),
    );
    offer_slowly(&mut world, 0, &interleaved(0..4, 0..20));
    offer_slowly(&mut world, 2, &interleaved(4..6, 0..20));
    assert_eq!((world.sent(0).len(), world.sent(1).len(), world.sent(2).len()), (80, 0, 40));
    assert_eq!((world.made(1), world.made(2)), (80, 40), "each in the chain of its question");
    assert_eq!((world.drops(1), world.drops(2)), ([("nf-verdict", 80)].into(), [("nf-verdict", 40)].into()));
    world.finish();
}

#[test]
fn made_packets_go_to_stages_and_to_ports_that_are_there() {
    for (verdict, sent, drops) in [
        (Verdict::Stage(2), [0, 80, 0], [].into()),
        (Verdict::Port(2), [0, 40, 40], [].into()),
        (Verdict::Stage(3), [0, 40, 0], [("no-such-stage", 40)].into()),
        (Verdict::Port(77), [0, 40, 0], [("no-such-port", 40)].into()),
    ] {
        let mut world = world();
        world.makes(0, echoes(verdict.encode()));
        offer_slowly(&mut world, 0, &interleaved(0..4, 0..10));
        assert_eq!([0, 1, 2].map(|port| world.sent(port).len()), sent, "{verdict:?}");
        assert_eq!((world.made(1), world.drops(1)), (40, drops), "{verdict:?}");
        world.finish();
    }
}

#[test]
fn a_made_packet_enters_the_chain_it_names_behind_its_maker() {
    let mut world = world();
    world.makes(B, echoes(Verdict::onto_chain(2).unwrap()));
    offer_slowly(&mut world, 0, &interleaved(0..4, 0..10));
    let sent = world.sent(2);
    assert!(sent.len() == 40 && sent.iter().all(|frame| is_made(frame)));
    assert_eq!((world.made(1), world.made(2), world.left(2), world.entered(2)), (0, 40, 40, 0));
    assert_eq!(counts(&world, 3).delivered.get(), 40);
    world.finish();
}

#[test]
fn a_chain_that_does_not_visit_its_maker_is_none() {
    for chain in [0, 3, 4, 15, 16, 4094] {
        let mut world = world();
        world.makes(B, echoes(Verdict::onto_chain(chain).unwrap()));
        offer_slowly(&mut world, 0, &interleaved(0..4, 0..10));
        assert_eq!(world.dropped(0, DropReason::NoSuchChain), 40, "chain {chain}");
        assert_eq!(
            (world.made(0), world.made(3), world.left(1)),
            (40, 0, 40),
            "no chain of others is touched"
        );
        world.finish();
    }
}

#[test]
fn an_nf_that_had_no_packet_yet_makes_them_for_its_first_chain() {
    let mut world = world();
    world.settle();
    for (number, tag, sent) in [(3, 0, [0, 1]), (B, 0, [1, 0]), (B, Verdict::onto_chain(2).unwrap(), [0, 1])]
    {
        let nf = world.nf(number);
        let packet = make(&nf.region, &mut nf.lent, &udp4(1, MADE), tag).unwrap();
        nf.give_back(&[packet]);
        world.settle();
        assert_eq!([1, 2].map(|port| world.sent(port).len()), sent, "from instance {number}");
    }
    assert_eq!((world.made(1), world.made(2)), (1, 2));
    world.finish();
}

#[test]
fn what_is_followed_is_remembered_across_bursts() {
    let mut world = world();
    world.offer(2, &[udp4(5, 0)]);
    world.settle();
    world.sent(2);
    world.offer(0, &[udp4(6, 0)]);
    world.settle();
    let nf = world.nf(B);
    let made: Vec<_> =
        (0..3).map(|at| make(&nf.region, &mut nf.lent, &udp4(9, MADE + at), 0).unwrap()).collect();
    nf.give_back(&made);
    world.settle();
    assert_eq!((world.made(1), world.sent(1).len()), (3, 4), "the packet returned last was of chain 1");
    world.offer(2, &[udp4(5, 1)]);
    world.settle();
    let nf = world.nf(B);
    let made = make(&nf.region, &mut nf.lent, &udp4(9, MADE + 3), 0).unwrap();
    nf.give_back(&[made]);
    world.settle();
    assert_eq!((world.made(2), world.sent(2).len()), (1, 2));
    world.finish();
}

#[test]
fn a_chain_that_is_gone_is_not_followed() {
    let mut world = world();
    world.offer(0, &[udp4(6, 0)]);
    world.settle();
    world.sent(1);
    world.replan(|parts| parts.chains[1] = None);
    let send = |world: &mut World| {
        let nf = world.nf(B);
        let made = make(&nf.region, &mut nf.lent, &udp4(9, MADE), 0).unwrap();
        nf.give_back(&[made]);
        world.settle();
    };
    send(&mut world);
    assert_eq!(
        (world.made(1), world.made(2), world.sent(2).len()),
        (0, 1, 1),
        "the first chain that is left"
    );
    // Another chain that does not visit the NF gets its number.
    world.replan(|parts| parts.chains[1] = parts.chains[3].clone());
    send(&mut world);
    assert_eq!((world.made(1), world.made(2)), (0, 2));
    world.replan(|parts| (parts.chains[1], parts.chains[2]) = (None, None));
    send(&mut world);
    assert_eq!(world.dropped(0, DropReason::NoSuchChain), 1);
    world.finish();
}

#[test]
fn a_buffer_given_back_unused_changes_no_account() {
    let mut world = world();
    world.makes(B, echoes(Verdict::Drop.encode()));
    offer_slowly(&mut world, 0, &interleaved(0..4, 0..20));
    assert_eq!((world.made(1), world.left(1), counts(&world, B).made.get()), (0, 80, 0));
    assert_eq!(world.drops(1), [].into());
    assert_eq!(counts(&world, B).lent.get(), u64::from(LEND));
    world.finish();
}

/// Packets and made ones together fill the transmit ring while the worker stands still: there is room.
#[test]
fn the_transmit_ring_has_room_for_all() {
    let mut world = World::new(layout(Layout::plain().port(HERE).lend(LEND).ring(64)));
    world.makes(B, echoes(0));
    for round in 0..50 {
        world.offer(0, &interleaved(0..2, round * 40..round * 40 + 40));
        // The NF works, and nobody takes what it returns: `give_back` panics where there is no room.
        world.pass();
        world.nf(B).step();
        world.check();
        assert!(counts(&world, B).held.get() + counts(&world, B).lent.get() <= 64);
    }
    world.settle();
    assert!(world.made(1) > 100, "{} were made", world.made(1));
    world.finish();
}

#[test]
fn a_region_without_a_free_buffer_lends_later() {
    let layout = Layout::new().region(64, 128).port(HERE).port(HERE).lend(8).ring(64).nf("a", &[HERE]);
    let mut world = World::new(layout.chain(&[0], Exit::Port(PortId(1))).default_chain(1));
    // 56 packets stand in its ring, 8 buffers are lent; it uses all, and others take their places.
    world.pass();
    world.offer(0, &interleaved(0..1, 0..56));
    world.pass_of(0);
    assert_eq!((counts(&world, 0).held.get(), counts(&world, 0).lent.get()), (56, 8));
    let nf = world.nf(0);
    let made: Vec<_> =
        (0..8).map(|at| make(&nf.region, &mut nf.lent, &udp4(9, MADE + at), 0).unwrap()).collect();
    assert_eq!(make(&nf.region, &mut nf.lent, &udp4(9, MADE), 0), None);
    nf.give_back(&made);
    world.pass_of(0);
    assert_eq!(counts(&world, 0).lent.get(), 0, "the device has them");
    world.settle();
    assert_eq!((world.left(1), counts(&world, 0).lent.get()), (64, 8));
    world.finish();
}

#[test]
fn a_dead_nf_loses_no_buffer_and_its_packets_only() {
    let mut world = world();
    world.settle();
    world.offer(0, &interleaved(0..1, 0..20));
    world.pass_of(0);
    world.nf(0).step();
    world.pass_of(0);
    let nf = world.nf(B);
    let taken = nf.take(10);
    let made: Vec<_> =
        (0..5).map(|at| make(&nf.region, &mut nf.lent, &udp4(9, MADE + at), 0).unwrap()).collect();
    // Three packets and three made ones are back in good order; the rest dies with it.
    let back: Vec<_> =
        taken.iter().take(3).zip(&made).flat_map(|(one, other)| [one.with_tag(0), *other]).collect();
    nf.give_back(&back);
    world.kill(B);
    world.settle();
    assert_eq!(world.events(), [Event::Reclaimed { number: InstanceId(B), lost: 17, returned: 6 }]);
    assert_eq!((world.made(1), world.left(1), world.drops(1)), (3, 6, [("nf-died", 17)].into()));
    assert_eq!(counts(&world, B).lent.get(), 0);
    world.finish();
}

#[test]
fn made_packets_cross_workers_and_domains() {
    let at = |worker, region| At { worker, region };
    let layout = Layout::new().workers(2).region(1024, 320).region(1024, 320).lend(LEND);
    let layout = layout.port(at(0, 0)).port(at(1, 1)).nf("a", &[at(1, 0)]).nf("b", &[at(0, 1), at(1, 1)]);
    let mut world = World::new(layout.chain(&[0, 1], Exit::Port(PortId(1))).default_chain(1));
    world.makes(0, echoes(0));
    let offered = interleaved(0..20, 0..20);
    for few in offered.chunks(4) {
        world.offer(0, few);
        for _ in 0..6 {
            world.pass();
        }
        world.check();
    }
    world.settle();
    let sent = world.sent(1);
    let (made, others): (Vec<_>, Vec<_>) = sent.into_iter().partition(|frame| is_made(frame));
    assert_same_flows(&offered, &others);
    assert_eq!(made.len() as u64, world.made(1));
    assert!(made.len() > 300, "{} were made", made.len());
    assert_eq!(world.boards[1].instances[0].made.get(), world.made(1));
    world.finish();
}

/// Actions of an NF with a packet and the buffers it is lent.
#[derive(Clone, Debug)]
struct Act {
    tag: u32,
    make: Vec<u32>,
    before: bool,
}

fn any_tag() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => Just(0u32),
        1 => Just(Verdict::Drop.encode()),
        1 => (0u16..5).prop_map(|port| Verdict::Port(port).encode()),
        1 => (0u16..5).prop_map(|stage| Verdict::Stage(stage).encode()),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let made =
        prop_oneof![3 => any_tag(), 1 => (0u16..6).prop_map(|chain| Verdict::onto_chain(chain).unwrap())];
    (any_tag(), prop::collection::vec(made, 0..3), any::<bool>()).prop_map(|(tag, make, before)| Act {
        tag,
        make,
        before,
    })
}

fn acting(acts: Vec<Act>) -> Making {
    let mut at = 0;
    Box::new(move |region: &Region, packet: Descriptor, lent: &mut Consumer| {
        at += 1;
        let act = &acts[at % acts.len()];
        let frame = made_of(region, packet);
        let made: Vec<_> = act.make.iter().filter_map(|tag| make(region, lent, &frame, *tag)).collect();
        let packet = packet.with_tag(act.tag);
        if act.before { [made, vec![packet]].concat() } else { [vec![packet], made].concat() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever NFs make, the accounts hold after each pass, and everything ends.
    #[test]
    fn accounts_hold_whatever_is_made(
        acts in prop::collection::vec(prop::collection::vec(any_act(), 1..6), 4),
        offers in prop::collection::vec((0usize..3, 0u32..60), 1..12),
        killed in prop::option::of((0usize..12, 0u16..4)),
    ) {
        let mut world = World::new(layout(Layout::plain().port(HERE).lend(LEND).ring(64)));
        for (number, acts) in (0..).zip(acts) {
            world.makes(number, acting(acts));
        }
        let mut offered = 0;
        for (round, (port, count)) in offers.into_iter().enumerate() {
            // What no rule claims is of no chain.
            let port = if port == 1 { 0 } else { port };
            world.offer(port, &interleaved(0..1, offered..offered + count));
            offered += count;
            world.pass();
            world.check();
            if let Some((_, number)) = killed.filter(|(when, _)| *when == round) {
                world.kill(number);
                world.pass();
                world.start(number);
            }
        }
        world.settle();
        prop_assert_eq!(world.entered(1) + world.entered(2), u64::from(offered));
        world.finish();
    }
}
