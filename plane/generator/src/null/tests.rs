use std::num::NonZeroU32;

use super::*;
use crate::stamp::Stamp;
use crate::{self as generator, GeneratorSpec, Load, Rate, Transport};
use headgate_port::testing::{HERTZ, packets, receive, setting, stack};

fn open_one(measure: Measure) -> (Box<dyn Queue>, Arc<Measurements>) {
    let NullPort { mut queues, measurements } = open(measure, &setting(1));
    (queues.remove(0), measurements)
}

/// `count` stamped frames of `flows` flows, all made at cycle `now`.
fn stamped(flows: u32, count: usize, now: u64) -> Vec<Vec<u8>> {
    let load = Load::Even { flows, rate: Rate::Unlimited };
    let spec = GeneratorSpec { load, ..GeneratorSpec::default() };
    let mut queue = generator::open(&spec, &setting(1)).unwrap().remove(0);
    let mut stack = stack(32);
    let mut frames = Vec::new();
    while frames.len() < count {
        let most = (count - frames.len()).min(32);
        frames.extend(receive(&mut *queue, now, &mut stack, most));
    }
    frames
}

fn transmit(queue: &mut dyn Queue, now: u64, frames: &[Vec<u8>]) {
    let mut stack = stack(64);
    for burst in frames.chunks(32) {
        let packets = packets(&mut stack, burst);
        assert_eq!(queue.transmit(now, &mut stack, &packets), packets.len());
        assert_eq!(stack.len(), 64, "all buffers are back");
    }
}

#[test]
fn it_takes_everything_and_gives_nothing() {
    let (mut queue, measurements) = open_one(Measure::Nothing);
    transmit(&mut *queue, 0, &stamped(3, 100, 0));
    let counters = queue.counters();
    assert_eq!((counters.sent, counters.sent_bytes), (100, 6000));
    assert!(receive(&mut *queue, 0, &mut stack(8), 8).is_empty());
    assert!(queue.is_finished());
    assert_eq!(measurements.report().stamped, 0);
}

#[test]
fn latency_is_the_time_between_the_bursts() {
    let (mut queue, measurements) = open_one(Measure::Everything);
    transmit(&mut *queue, 5_000 + HERTZ / 1_000, &stamped(3, 100, 5_000));
    let report = measurements.report();
    assert_eq!((report.stamped, report.late, report.missing), (100, 0, 0));
    assert_eq!(report.latency_ns.len(), 100);
    let millisecond = report.latency_ns.value_at_quantile(0.5);
    assert!(millisecond.abs_diff(1_000_000) < 10_000, "{millisecond}");
}

#[test]
fn latency_of_some_looks_at_some() {
    for every in [1, 2, 7, 31, 33, 100] {
        let every = NonZeroU32::new(every).unwrap();
        let (mut queue, measurements) = open_one(Measure::Latency { every });
        transmit(&mut *queue, 10, &stamped(3, 1000, 0));
        let report = measurements.report();
        assert_eq!(report.stamped, 1000u64.div_ceil(u64::from(every.get())));
        assert_eq!((report.late, report.missing), (0, 0));
    }
}

#[test]
fn a_stamp_is_found_behind_every_header() {
    let v6 = |spec: GeneratorSpec| GeneratorSpec {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..spec
    };
    let spec = || GeneratorSpec { sizes: generator::Sizes::Fixed(200), ..GeneratorSpec::default() };
    let tcp = || GeneratorSpec { transport: Transport::Tcp, ..spec() };
    let tagged = GeneratorSpec { vlan: Some(5), ..v6(tcp()) };
    for spec in [spec(), tcp(), v6(spec()), v6(tcp()), tagged] {
        let mut source = generator::open(&spec, &setting(1)).unwrap().remove(0);
        let (mut queue, measurements) = open_one(Measure::Everything);
        transmit(&mut *queue, 1, &receive(&mut *source, 0, &mut stack(32), 32));
        assert_eq!(measurements.report().stamped, 32, "{spec:?}");
    }
}

#[test]
fn lost_late_and_repeated_packets_are_told_apart() {
    let measure = |frames: &[Vec<u8>]| {
        let (mut queue, measurements) = open_one(Measure::Everything);
        transmit(&mut *queue, 1, frames);
        let report = measurements.report();
        (report.stamped, report.late, report.missing)
    };
    let frames = stamped(4, 100, 0);
    assert_eq!(measure(&frames), (100, 0, 0));
    let mut lost = frames.clone();
    lost.drain(10..20);
    assert_eq!(measure(&lost), (90, 0, 10));
    let mut first_lost = frames.clone();
    first_lost.drain(..5);
    assert_eq!(measure(&first_lost), (95, 0, 5));
    // Neighbours are of different flows, so that their order does not matter.
    let mut swapped = frames.clone();
    swapped.swap(10, 11);
    assert_eq!(measure(&swapped), (100, 0, 0));
    // Four apart are of the same flow.
    let mut reordered = frames.clone();
    reordered.swap(10, 14);
    assert_eq!(measure(&reordered), (100, 1, 0));
    let mut repeated = frames.clone();
    repeated.insert(13, frames[12].clone());
    assert_eq!(measure(&repeated), (101, 1, 0));
}

#[test]
fn packets_of_one_source_may_end_at_several_queues() {
    let frames = stamped(2, 100, 0);
    let NullPort { mut queues, measurements } = open(Measure::Everything, &setting(2));
    let (even, odd): (Vec<_>, Vec<_>) = frames.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    for (queue, frames) in queues.iter_mut().zip([even, odd]) {
        let frames: Vec<_> = frames.into_iter().map(|(_, frame)| frame).collect();
        transmit(&mut **queue, 1, &frames);
    }
    let report = measurements.report();
    assert_eq!((report.stamped, report.late, report.missing), (100, 0, 0));
}

#[test]
fn numbers_wrap_without_loss() {
    let template = stamped(1, 1, 0).remove(0);
    let at = template.len() - generator::stamp::BYTES;
    let frame = |number: u32| {
        let mut stamp = Stamp::find(&template, template.len()).unwrap();
        stamp.sequence = number;
        let mut frame = template.clone();
        frame[at..].copy_from_slice(&stamp.to_bytes());
        frame
    };
    let (mut queue, measurements) = open_one(Measure::Everything);
    // Three strides around the circle, then over its end; all between is missing.
    let numbers = [0, 0x6000_0000, 0xc000_0000, 0xffff_fffe, 0xffff_ffff, 0, 1, 2];
    transmit(&mut *queue, 1, &numbers.map(frame));
    let report = measurements.report();
    assert_eq!((report.stamped, report.late), (8, 0));
    assert_eq!(report.missing, (1 << 32) + 3 - 8);
}

#[test]
fn what_is_no_stamp_is_not_counted() {
    let (mut queue, measurements) = open_one(Measure::Everything);
    let mut frames = stamped(1, 4, 0);
    frames[0].truncate(14);
    frames[1][14] = 0x60;
    frames[2][42] ^= 1;
    transmit(&mut *queue, 1, &frames);
    assert_eq!(measurements.report().stamped, 1);
    assert_eq!(queue.counters().sent, 4);
}
