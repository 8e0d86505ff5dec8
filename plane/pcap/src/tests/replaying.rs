//! Replay: order, timing, and what cannot be replayed.

use std::collections::BTreeMap;
use std::fs;

use headgate_shm::Descriptor;
use headgate_wire::flow_key::{self, Parsed};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use headgate_generator::{self as generator, GeneratorSpec, Load, Rate, Sizes};

const MICROSECOND: u64 = HERTZ / 1_000_000;

fn capture(directory: &TempDir, records: &[(u64, Vec<u8>)]) -> PathBuf {
    let path = directory.path().join("in.pcap");
    fs::write(&path, pcap(records)).unwrap();
    path
}

fn open_one(replay: ReplaySpec) -> Box<dyn Queue> {
    open(&replaying(replay), &setting(1)).unwrap().queues.remove(0)
}

fn numbered_frames(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| numbered(number, 14 + number % 300)).collect()
}

fn every_microsecond(frames: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    frames.iter().enumerate().map(|(at, frame)| (5_000 + at as u64 * 1_000, frame.clone())).collect()
}

#[test]
fn a_capture_is_given_once_in_its_order() {
    let directory = TempDir::new().unwrap();
    let frames = numbered_frames(100);
    let path = capture(&directory, &every_microsecond(&frames));
    let PcapPort { mut queues, summary, status } =
        open(&replaying(ReplaySpec::new(path)), &setting(1)).unwrap();
    let bytes = frames.iter().map(|frame| frame.len() as u64).sum();
    assert_eq!(summary, Some(Summary { frames: 100, bytes, ..Summary::default() }));
    assert!(status.is_none());
    let (queue, mut stack) = (&mut *queues[0], stack(64));
    let mut given = Vec::new();
    while !queue.is_finished() {
        given.extend(receive(queue, 0, &mut stack, 7));
    }
    assert_eq!(given, frames);
    assert!(receive(queue, HERTZ, &mut stack, 7).is_empty());
    assert_eq!((queue.counters().received, queue.counters().received_bytes), (100, bytes));
}

#[test]
fn without_buffers_frames_wait() {
    let directory = TempDir::new().unwrap();
    let frames = numbered_frames(3);
    let mut queue = open_one(ReplaySpec::new(capture(&directory, &every_microsecond(&frames))));
    let mut stack = stack(2);
    let mut burst = [Descriptor::default(); 8];
    assert_eq!(queue.receive(0, &mut stack, &mut burst), 2);
    assert_eq!(queue.receive(0, &mut stack, &mut burst[2..]), 0);
    assert!(!queue.is_finished());
    assert_eq!(queue.transmit(0, &mut stack, &burst[..2]), 2);
    assert_eq!(stack.len(), 2);
    assert_eq!(receive(&mut *queue, 0, &mut stack, 8), frames[2..]);
}

#[test]
fn a_loop_goes_on() {
    let directory = TempDir::new().unwrap();
    let frames = numbered_frames(5);
    let path = capture(&directory, &every_microsecond(&frames));
    let mut queue = open_one(ReplaySpec { mode: Mode::Loop, ..ReplaySpec::new(path) });
    let given = receive(&mut *queue, 0, &mut stack(64), 64);
    assert!(given.iter().enumerate().all(|(at, frame)| *frame == frames[at % 5]));
    assert_eq!(given.len(), 64);
    assert!(!queue.is_finished());
}

#[test]
fn original_timing_is_that_of_the_capture() {
    let directory = TempDir::new().unwrap();
    let frames = numbered_frames(4);
    // The third goes back in time: it is given with the second.
    let times = [1_000_000, 1_010_000, 1_005_000, 1_040_000];
    let path = capture(&directory, &times.into_iter().zip(frames).collect::<Vec<_>>());
    let spec = ReplaySpec { timing: Timing::Original, mode: Mode::Loop, ..ReplaySpec::new(path) };
    let mut queue = open_one(spec);
    let mut stack = stack(64);
    let start = 777;
    // Mean gap: 40 us by 3, 13.333 us; a repetition starts every 53.333 us.
    for (at_us, wanted) in
        [(0, 1), (9, 0), (10, 2), (39, 0), (40, 1), (53, 0), (54, 1), (63, 0), (64, 2), (200, 9)]
    {
        let given = receive(&mut *queue, start + at_us * MICROSECOND, &mut stack, 64).len();
        assert_eq!(given, wanted, "after {at_us} us");
    }
}

#[test]
fn original_timing_without_times_cannot_be_repeated() {
    let directory = TempDir::new().unwrap();
    let path = capture(&directory, &[(5, numbered(0, 60)), (5, numbered(1, 60))]);
    let spec = ReplaySpec { timing: Timing::Original, mode: Mode::Loop, ..ReplaySpec::new(&path) };
    let refused = open(&replaying(spec.clone()), &setting(1)).err().unwrap();
    assert!(matches!(refused, PcapError::Capture { error: ReplayError::NoTimes, .. }), "{refused}");
    assert_eq!(
        receive(&mut *open_one(ReplaySpec { mode: Mode::Once, ..spec }), 0, &mut stack(4), 4).len(),
        2
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_rate_is_kept_over_all_queues(rate in 1e4f64..5e6, queues in 1u16..4) {
        let directory = TempDir::new().unwrap();
        let spec = GeneratorSpec { load: Load::Even { flows: 64, rate: Rate::Unlimited }, ..GeneratorSpec::default() };
        let mut source = generator::open(&spec, &setting(1)).unwrap().remove(0);
        let path = capture(&directory, &every_microsecond(&receive(&mut *source, 0, &mut stack(256), 256)));
        let replay = ReplaySpec { timing: Timing::Rate(rate), mode: Mode::Loop, ..ReplaySpec::new(path) };
        let mut stack = stack(256);
        let mut given = 0;
        for mut queue in open(&replaying(replay), &setting(queues)).unwrap().queues {
            for at_us in 0..=2_000 {
                given += receive(&mut *queue, at_us * MICROSECOND, &mut stack, 256).len();
            }
        }
        prop_assert!((given as f64 - rate * 0.002).abs() <= 1.1 * f64::from(queues), "{given} at {rate}");
    }
}

#[test]
fn queues_share_a_capture_by_its_hosts() {
    let directory = TempDir::new().unwrap();
    let spec = GeneratorSpec {
        load: Load::Even { flows: 50, rate: Rate::Unlimited },
        sizes: Sizes::Imix,
        ..GeneratorSpec::default()
    };
    let mut source = generator::open(&spec, &setting(1)).unwrap().remove(0);
    let mut frames = receive(&mut *source, 0, &mut stack(256), 200);
    // Answers: addresses the other way round.
    for frame in &mut frames[100..] {
        let (source, destination) = frame[26..34].split_at_mut(4);
        source.swap_with_slice(destination);
    }
    let path = capture(&directory, &every_microsecond(&frames));
    let mut owner = BTreeMap::new();
    let mut total = 0;
    for (number, mut queue) in
        open(&replaying(ReplaySpec::new(path)), &setting(3)).unwrap().queues.into_iter().enumerate()
    {
        let given = receive(&mut *queue, 0, &mut stack(256), 256);
        total += given.len();
        for frame in &given {
            let Parsed::Ipv4 { key, .. } = flow_key::parse(frame, frame.len()) else { unreachable!() };
            let hosts = key.source().max(key.destination()).min(key.source().min(key.destination()));
            assert_eq!(*owner.entry(hosts).or_insert(number), number);
        }
        assert!(given.len() > 20, "queue {number} has {} of 200", given.len());
    }
    assert_eq!(total, 200);
}

#[test]
fn frames_that_do_not_fit_are_left_out_and_counted() {
    let directory = TempDir::new().unwrap();
    let mut records = every_microsecond(&[numbered(0, 60), numbered(1, 2048), numbered(2, 2049)]);
    records.push((9_000, vec![1; 13]));
    let path = capture(&directory, &records);
    let port = open(&replaying(ReplaySpec::new(path)), &setting(1)).unwrap();
    assert_eq!(port.summary, Some(Summary { frames: 2, bytes: 2108, cut: 0, too_short: 1, too_long: 1 }));
    let counters = port.queues[0].counters();
    assert_eq!((counters.too_long, counters.failed), (1, 1));
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("in.pcap");
    let refusal = |spec: ReplaySpec| open(&replaying(spec), &setting(1)).err().unwrap().to_string();
    let says = |bytes: &[u8], wanted: &str| {
        fs::write(&path, bytes).unwrap();
        let refusal = refusal(ReplaySpec::new(&path));
        assert!(refusal.contains(wanted) && refusal.contains("in.pcap"), "{refusal} / {wanted}");
    };
    says(b"", "empty");
    says(b"not a capture at all", "neither pcap nor pcapng");
    says(&pcap(&[]), "no packet that can be sent");
    says(&pcap(&[(0, vec![0; 13])]), "no packet that can be sent");
    let mut broken = pcap(&[(0, vec![0; 60])]);
    broken.pop();
    says(&broken, "breaks off");

    let missing = refusal(ReplaySpec::new(directory.path().join("no.pcap")));
    assert!(missing.contains("No such file") && missing.contains("names count from"), "{missing}");
    let folder = refusal(ReplaySpec::new(directory.path()));
    assert!(folder.contains("a directory"), "{folder}");
    let device = refusal(ReplaySpec::new("/dev/zero"));
    assert!(device.contains("a device"), "{device}");
    fs::write(&path, pcap(&[(0, vec![0; 60])])).unwrap();
    let large = refusal(ReplaySpec { memory_bytes_max: 99, ..ReplaySpec::new(&path) });
    assert!(large.contains("its 100 bytes are more than the 99"), "{large}");
    let rate = refusal(ReplaySpec { timing: Timing::Rate(0.0), ..ReplaySpec::new(&path) });
    assert!(rate.contains("timing: 0 packets per second"), "{rate}");
    let nothing = open(&PcapSpec::default(), &setting(1)).err().unwrap().to_string();
    assert!(nothing.contains("neither reads nor writes"), "{nothing}");
}
