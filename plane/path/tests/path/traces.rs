//! Traces of a packet show the way it went.

use headgate_path::board::Station;
use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::trace::{self, Trace, TraceReader, Traced};
use headgate_path::worker::Command;
use headgate_shm::Verdict;
use headgate_units::{ChainId, PortId};

use crate::harness::World;
use crate::harness::frames::{interleaved, malformed};
use crate::harness::layout::{HERE, Layout};

/// Returns two NFs; the first one ends every packet of flow 1.
fn world() -> World {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).chain(&[0, 1], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    world.on(
        0,
        Box::new(|region, packet| {
            let mut frame = vec![0; packet.length() as usize];
            region.read(packet, &mut frame);
            let ends = crate::harness::frames::label(&frame).flow == 1;
            packet.with_verdict(if ends { Verdict::Drop } else { Verdict::Next })
        }),
    );
    world
}

fn traces(reader: &mut TraceReader) -> Vec<Trace> {
    std::iter::from_fn(|| reader.take()).collect()
}

#[test]
fn a_packet_is_traced_at_each_station_it_passes() {
    let mut world = world();
    let (writer, mut reader) = trace::ring(256);
    world.mailboxes[0].post(Command::Trace(Some(writer)));
    world.offer(0, &interleaved(0..2, 0..1));
    world.settle();
    let all = traces(&mut reader);
    let of = |index: u32| -> Vec<Traced> {
        all.iter().filter(|trace| trace.packet.index() == index).map(|trace| trace.what).collect()
    };
    let passed =
        |stations: &[Station]| -> Vec<Traced> { stations.iter().map(|&it| Traced::Passed(it)).collect() };
    use Station::{Admit, Arrive, Classify, Deliver, Emit, Hop};
    let (first, second) = (all[0].packet.index(), all[1].packet.index());
    assert_eq!(of(first), passed(&[Arrive, Classify, Admit, Deliver, Hop, Deliver, Hop, Emit]));
    let ended =
        [passed(&[Arrive, Classify, Admit, Deliver]), vec![Traced::Ended(DropReason::NfVerdict)]].concat();
    assert_eq!(of(second), ended);
    assert!(all.is_sorted_by_key(|trace| trace.at));
    assert!(all[2..].iter().all(|trace| trace.place.chain() == ChainId(1)), "known from `classify` on");
    world.finish();
}

#[test]
fn one_that_never_comes_to_a_chain_is_traced_to_its_end() {
    let mut world = world();
    let (writer, mut reader) = trace::ring(16);
    world.mailboxes[0].post(Command::Trace(Some(writer)));
    world.offer(0, &[malformed(0, 0)]);
    world.settle();
    let what: Vec<Traced> = traces(&mut reader).iter().map(|trace| trace.what).collect();
    assert_eq!(what, [Traced::Passed(Station::Arrive), Traced::Ended(DropReason::Malformed)]);
    world.finish();
}

#[test]
fn a_full_ring_keeps_nobody_waiting_and_tracing_ends_when_told() {
    let mut world = world();
    let (writer, mut reader) = trace::ring(8);
    world.mailboxes[0].post(Command::Trace(Some(writer)));
    world.offer(0, &interleaved(2..6, 0..50));
    world.settle();
    assert_eq!(world.sent(1).len(), 200);
    // Six stations of 200 packets, two of them twice.
    assert_eq!((traces(&mut reader).len(), reader.lost()), (8, 8 * 200 - 8));
    world.mailboxes[0].post(Command::Trace(None));
    world.offer(0, &interleaved(2..6, 50..60));
    world.settle();
    assert_eq!((traces(&mut reader).len(), reader.lost()), (0, 8 * 200 - 8));
    world.finish();
}
