//! Watchers see the way of packets, and nobody waits for them.

use std::sync::Arc;

use headgate_path::board::Station::{self, Admit, Arrive, Classify, Deliver, Emit, Hop};
use headgate_path::drop::DropReason;
use headgate_path::plan::Exit;
use headgate_path::trace::bpf::{Filter, Instruction};
use headgate_path::trace::{self, InstanceSet, Picks, Record, RecordReader, Step, Steps, Tap, Wanted};
use headgate_path::worker::Command;
use headgate_shm::Verdict;
use headgate_units::{ChainId, InstanceId, PortId, RegionId};

use crate::harness::World;
use crate::harness::frames::{interleaved, label, malformed};
use crate::harness::layout::{At, HERE, Layout};

/// Returns two NFs; the first one ends every packet of flow 1.
fn world() -> World {
    let layout = Layout::plain().nf("a", &[HERE]).nf("b", &[HERE]).chain(&[0, 1], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    world.on(
        0,
        Box::new(|region, packet| {
            let mut frame = vec![0; packet.length() as usize];
            region.read(packet, &mut frame);
            packet.with_verdict(if label(&frame).flow == 1 { Verdict::Drop } else { Verdict::Next })
        }),
    );
    world
}

fn all() -> Wanted {
    Wanted { steps: Steps::ALL, chain: None, instances: None, filter: None, bytes: 2048, picks: None }
}

/// Returns picks of this many packets of a world.
fn picks(world: &World, count: u32) -> Arc<Picks> {
    Picks::new(world.regions.iter().map(|region| region.geometry().indices()), count)
}

fn watch(world: &World, words: usize, wanted: Wanted) -> RecordReader {
    let (writer, reader) = trace::ring(words);
    world.mailboxes[0].post(Command::Tap { number: 7, tap: Box::new(Tap::new(wanted, writer)) });
    reader
}

/// Returns what a reader has: records with their bytes.
fn records(reader: &mut RecordReader) -> Vec<(Record, Vec<u8>)> {
    let mut next = || {
        let mut bytes = Vec::new();
        reader.take(&mut bytes).map(|record| (record, bytes))
    };
    std::iter::from_fn(&mut next).collect()
}

fn steps(records: &[(Record, Vec<u8>)]) -> Vec<Step> {
    records.iter().map(|(record, _)| record.step).collect()
}

fn passed(stations: &[Station]) -> Vec<Step> {
    stations.iter().map(|&it| Step::Passed(it)).collect()
}

/// Returns a filter that takes frames of exactly this many bytes.
fn of_length(length: u32) -> Filter<Box<[Instruction]>> {
    let one = |code, if_false, operand| Instruction { code, if_true: 0, if_false, operand };
    Filter::new([one(0x80, 0, 0), one(0x15, 1, length), one(6, 0, 1), one(6, 0, 0)].into()).unwrap()
}

#[test]
fn a_picked_packet_is_seen_at_each_station_it_passes() {
    let mut world = world();
    let picks = picks(&world, 2);
    let mut reader = watch(&world, 1 << 16, Wanted { picks: Some(picks.clone()), ..all() });
    let offered = interleaved(0..2, 0..1);
    world.offer(0, &offered);
    world.offer(0, &interleaved(2..6, 0..50));
    world.settle();
    let all = records(&mut reader);
    let of = |index: u32| -> Vec<(Record, Vec<u8>)> {
        all.iter().filter(|(record, _)| record.packet.index() == index).cloned().collect()
    };
    let (first, second) = (all[0].0.packet.index(), all[1].0.packet.index());
    assert_eq!(steps(&of(first)), passed(&[Arrive, Classify, Admit, Deliver, Hop, Deliver, Hop, Emit]));
    let ends = of(second);
    let (end, way) = ends.split_last().unwrap();
    assert_eq!(steps(way), passed(&[Arrive, Classify, Admit, Deliver]));
    let at = trace::At::Instance(InstanceId(0));
    assert_eq!((end.0.step, end.0.at), (Step::Ended(DropReason::NfVerdict), at));
    assert_eq!(of(first).last().unwrap().0.at, trace::At::Port(PortId(1)));
    assert_eq!((&all[0].1, &all[1].1), (&offered[0], &offered[1]));
    assert!(all.is_sorted_by_key(|(record, _)| record.time));
    assert_eq!(all.len(), 8 + 5, "no more than two were followed");
    assert_eq!((picks.left(), picks.out()), (0, 0));
    world.finish();
}

#[test]
fn one_that_never_comes_to_a_chain_is_followed_to_its_end() {
    let mut world = world();
    let mut reader = watch(&world, 1 << 10, Wanted { picks: Some(picks(&world, 1)), ..all() });
    world.offer(0, &[malformed(0, 0)]);
    world.settle();
    let seen = steps(&records(&mut reader));
    assert_eq!(seen, [Step::Passed(Arrive), Step::Ended(DropReason::Malformed)]);
    world.finish();
}

#[test]
fn those_of_another_chain_or_another_kind_are_not_followed() {
    let mut world = world();
    let picks = picks(&world, 1);
    let wanted = Wanted { chain: Some(ChainId(9)), picks: Some(picks.clone()), ..all() };
    let mut reader = watch(&world, 1 << 10, wanted);
    world.offer(0, &interleaved(2..3, 0..1));
    world.settle();
    assert_eq!(steps(&records(&mut reader)), [Step::Passed(Arrive), Step::Other]);
    assert_eq!((picks.left(), picks.out()), (1, 0), "another one may be picked");
    world.mailboxes[0].post(Command::Untap { number: 7 });
    let wanted = Wanted { filter: Some(of_length(1)), picks: Some(picks), ..all() };
    let mut reader = watch(&world, 1 << 10, wanted);
    world.offer(0, &interleaved(2..3, 1..2));
    world.settle();
    assert_eq!(steps(&records(&mut reader)), []);
    world.finish();
}

#[test]
fn a_packet_is_followed_from_one_domain_to_another() {
    const THERE: At = At { worker: 0, region: 1 };
    let layout = Layout::new().region(512, 320).region(512, 320).port(HERE).port(THERE);
    let layout = layout.nf("a", &[HERE]).nf("b", &[THERE]).chain(&[0, 1], Exit::Port(PortId(1)));
    let mut world = World::new(layout.default_chain(1));
    let mut reader = watch(&world, 1 << 16, Wanted { picks: Some(picks(&world, 1)), ..all() });
    world.offer(0, &interleaved(0..1, 0..1));
    world.settle();
    let all = records(&mut reader);
    let copied = all.iter().find(|(record, _)| record.step == Step::Copied).unwrap();
    let origin = copied.0.origin(&copied.1).unwrap();
    assert_eq!(origin, (RegionId(0), all[0].0.packet.index()));
    assert_eq!((copied.0.region, all.last().unwrap().0.region), (RegionId(1), RegionId(1)));
    assert_eq!(all.last().unwrap().0.step, Step::Passed(Emit));
    world.finish();
}

/// What is not looked at for want of time is counted, so both together are always the same.
#[test]
fn every_packet_at_every_station_is_recorded_or_counted() {
    let mut world = world();
    let mut reader = watch(&world, 1 << 20, Wanted { steps: Steps::OF_CHAIN, ..all() });
    for round in 0..20 {
        world.offer(0, &interleaved(1..6, round * 10..round * 10 + 10));
        world.settle();
    }
    assert_eq!((world.sent(1).len(), reader.lost()), (800, 0));
    let seen = records(&mut reader);
    // Admit, deliver, hop, deliver, hop, emit; those of flow 1 end behind `deliver`.
    assert_eq!(seen.len() as u64 + reader.unseen(), 6 * 800 + 3 * 200);
    assert!(!seen.is_empty());
    let ended = seen.iter().filter(|(record, _)| matches!(record.step, Step::Ended(_)));
    assert!(ended.clone().all(|(_, bytes)| label(bytes).flow == 1));
    world.finish();
}

#[test]
fn a_stage_shows_what_goes_in_and_comes_out_of_it() {
    let mut world = world();
    let set = Arc::new(InstanceSet::default());
    set.replace([InstanceId(1)]);
    let mut reader = watch(&world, 1 << 16, Wanted { instances: Some(set), ..all() });
    world.offer(0, &interleaved(0..4, 0..1));
    world.settle();
    let seen = steps(&records(&mut reader));
    assert_eq!(seen.len() as u64 + reader.unseen(), 6);
    assert!(seen.iter().all(|step| passed(&[Deliver, Hop]).contains(step)), "{seen:?}");
    world.finish();
}

#[test]
fn a_full_ring_keeps_nobody_waiting_and_watching_ends_when_told() {
    let mut world = world();
    let mut reader = watch(&world, 64, all());
    world.offer(0, &interleaved(2..6, 0..50));
    world.settle();
    assert_eq!(world.sent(1).len(), 200);
    // Six stations of 200 packets, two of them twice.
    let taken = records(&mut reader).len() as u64;
    assert_eq!(taken + reader.lost() + reader.unseen(), 8 * 200);
    assert!(taken <= 16 && reader.lost() > 0);
    let counted = reader.lost() + reader.unseen();
    world.mailboxes[0].post(Command::Untap { number: 7 });
    world.offer(0, &interleaved(2..6, 50..60));
    world.settle();
    assert_eq!((records(&mut reader).len(), reader.lost() + reader.unseen()), (0, counted));
    world.finish();
}
