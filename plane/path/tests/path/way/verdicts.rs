//! Verdicts: what an NF can say of a packet.

use headgate_path::drop::DropReason;
use headgate_path::hop::JUMPS_MAX;
use headgate_path::plan::Exit;
use headgate_shm::{Descriptor, Region, Verdict};
use headgate_units::PortId;

use crate::harness::World;
use crate::harness::frames::{Label, assert_same_flows, by_flow, interleaved, label};
use crate::harness::layout::{HERE, Layout};
use crate::harness::nf::Handler;

fn label_of(region: &Region, packet: Descriptor) -> Label {
    let mut frame = vec![0; packet.length() as usize];
    region.read(packet, &mut frame);
    label(&frame)
}

/// Returns an NF whose verdict depends on the label.
fn says(verdict: impl Fn(Label) -> Verdict + Send + 'static) -> Handler {
    Box::new(move |region, packet| packet.with_verdict(verdict(label_of(region, packet))))
}

/// Returns ports 0-2, three NFs, and chain 1 through all of them to port 1.
fn world() -> World {
    let layout = Layout::plain().port(HERE).nf("a", &[HERE]).nf("b", &[HERE]).nf("c", &[HERE]);
    World::new(layout.chain(&[0, 1, 2], Exit::Port(PortId(1))).default_chain(1))
}

fn delivered(world: &World) -> [u64; 3] {
    std::array::from_fn(|number| world.boards[0].instances[number].delivered.get())
}

#[test]
fn drop_ends_a_packet_and_its_nf_is_named() {
    let mut world = world();
    world.on(1, says(|at| if at.flow.is_multiple_of(3) { Verdict::Drop } else { Verdict::Next }));
    let offered = interleaved(0..9, 0..40);
    world.offer(0, &offered);
    world.settle();
    let kept: Vec<_> = offered.into_iter().filter(|frame| !label(frame).flow.is_multiple_of(3)).collect();
    assert_same_flows(&kept, &world.sent(1));
    assert_eq!(world.drops(1), [("nf-verdict", 120)].into());
    let counts = &world.boards[0].instances[1];
    assert_eq!(counts.drops[DropReason::NfVerdict as usize].get(), 120);
    world.finish();
}

#[test]
fn port_sends_a_packet_out_at_once() {
    let mut world = world();
    world.on(0, says(|at| if at.flow == 0 { Verdict::Port(2) } else { Verdict::Next }));
    let offered = interleaved(0..2, 0..50);
    world.offer(0, &offered);
    world.settle();
    let sent = [world.sent(2), world.sent(1)].concat();
    assert_same_flows(&offered, &sent);
    assert_eq!((world.left(1), delivered(&world)), (100, [100, 50, 50]));
    world.finish();
}

/// A flow whose packets leave by the same port for two reasons still leaves in order.
#[test]
fn mixed_verdicts_keep_the_order_of_a_flow() {
    let mut world = world();
    world.on(2, says(|at| if at.sequence % 3 == 1 { Verdict::Port(1) } else { Verdict::Next }));
    let offered = interleaved(0..2, 0..100);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    world.finish();
}

#[test]
fn unknown_ports_and_stages_are_counted() {
    let mut world = world();
    world.on(
        0,
        says(|at| match at.flow {
            0 => Verdict::Port(3),
            1 => Verdict::Port(4095),
            2 => Verdict::Stage(3),
            3 => Verdict::Stage(4095),
            _ => Verdict::Next,
        }),
    );
    world.offer(0, &interleaved(0..5, 0..20));
    world.settle();
    assert_eq!(world.drops(1), [("no-such-port", 40), ("no-such-stage", 40)].into());
    assert_eq!(world.left(1), 20);
    world.finish();
}

#[test]
fn a_stage_of_another_chain_is_no_stage_of_this_one() {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).chain(&[0], Exit::Port(PortId(1)));
    let mut world = World::new(layout.chain(&[1], Exit::Port(PortId(1))).default_chain(1));
    world.on(0, says(|_| Verdict::Stage(1)));
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    assert_eq!(world.drops(1), [("no-such-stage", 10)].into());
    world.finish();
}

#[test]
fn stage_skips_ahead() {
    let mut world = world();
    world.on(0, says(|at| if at.flow == 0 { Verdict::Stage(2) } else { Verdict::Next }));
    let offered = interleaved(0..2, 0..30);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_eq!(delivered(&world), [60, 30, 60]);
    world.finish();
}

#[test]
fn stage_goes_back_and_the_way_goes_on_from_there() {
    let mut world = world();
    let mut seen = std::collections::HashSet::new();
    world.on(
        2,
        Box::new(move |region, packet| {
            let again = seen.insert(label_of(region, packet).sequence);
            packet.with_verdict(if again { Verdict::Stage(1) } else { Verdict::Next })
        }),
    );
    let offered = interleaved(0..1, 0..30);
    world.offer(0, &offered);
    world.settle();
    assert_same_flows(&offered, &world.sent(1));
    assert_eq!(delivered(&world), [30, 60, 60]);
    world.finish();
}

#[test]
fn a_packet_sent_back_too_often_ends() {
    let mut world = world();
    world.on(0, says(|_| Verdict::Stage(0)));
    world.offer(0, &interleaved(0..1, 0..10));
    world.settle();
    assert_eq!(world.drops(1), [("loop", 10)].into());
    assert_eq!(delivered(&world), [10 * (u64::from(JUMPS_MAX) + 1), 0, 0]);
    world.finish();
}

#[test]
fn an_nf_at_the_end_names_the_port() {
    let layout = Layout::plain().port(HERE).nf("router", &[HERE]).chain(&[0], Exit::Nf);
    let mut world = World::new(layout.default_chain(1));
    world.on(0, says(|at| if at.flow < 3 { Verdict::Port(at.flow as u16) } else { Verdict::Next }));
    let offered = interleaved(0..4, 0..30);
    world.offer(0, &offered);
    world.settle();
    for port in 0..3 {
        let sent = world.sent(port);
        assert_eq!(by_flow(&sent), [(port as u32, by_flow(&offered)[&(port as u32)].clone())].into());
    }
    assert_eq!((world.left(1), world.drops(1)), (90, [("no-exit", 30)].into()));
    world.finish();
}

/// Every verdict at once, in every order, by every NF: only what was not dropped comes out.
#[test]
fn all_verdicts_mixed_lose_nothing_uncounted() {
    let mut world = world();
    for number in 0..3u16 {
        world.on(
            number,
            says(move |at| match (at.flow * 7 + at.sequence * 5 + u32::from(number)) % 11 {
                0 => Verdict::Drop,
                1 => Verdict::Port(2),
                2 => Verdict::Stage(at.sequence as u16 % 4),
                3 => Verdict::Port(at.flow as u16 % 5),
                _ => Verdict::Next,
            }),
        );
    }
    for round in 0..20 {
        world.offer(0, &interleaved(0..10, round * 10..round * 10 + 10));
        world.pass();
        world.check();
    }
    world.settle();
    let sent: usize = (0..3).map(|port| world.sent(port).len()).sum();
    let ended: u64 = world.drops(1).values().sum();
    assert_eq!((sent as u64, sent as u64 + ended), (world.left(1), 2000));
    world.finish();
}
