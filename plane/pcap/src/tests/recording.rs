//! Writing: what is in the file, and what happens when the file fails.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use headgate_port::middleware::Recorded;
use headgate_port::testing::link::TestLink;

use headgate_generator::{self as generator, GeneratorSpec, Load, Rate, Sizes, Transport};

fn transmit(queue: &mut dyn Queue, now: u64, frames: &[Vec<u8>]) {
    let mut stack = stack(64);
    for burst in frames.chunks(32) {
        let packets = packets(&mut stack, burst);
        assert_eq!(queue.transmit(now, &mut stack, &packets), packets.len());
        assert_eq!(stack.len(), 64, "all buffers are back");
        queue.tend(now, &mut stack);
    }
}

fn contents(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let records = Records::new(&bytes).unwrap().map(Result::unwrap);
    records.map(|record| (record.time_ns.unwrap(), bytes[record.bytes].to_vec())).collect()
}

/// Waits for the writing thread to get on, for as long as a test may take.
fn wait_until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[test]
fn packets_are_written_with_their_times() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let PcapPort { mut queues, summary, status } = open(&writing(&path), &setting(1)).unwrap();
    let status = status.unwrap();
    assert!(summary.is_none());
    let frames: Vec<_> = (0..200).map(|number| numbered(number, 14 + number * 7)).collect();
    for (number, frame) in frames.iter().enumerate() {
        transmit(&mut *queues[0], 1_000 + number as u64 * 2_500, std::slice::from_ref(frame));
    }
    let sent = queues[0].counters();
    assert_eq!((sent.sent, sent.failed), (200, 0));
    assert_eq!(sent.sent_bytes, frames.iter().map(|frame| frame.len() as u64).sum::<u64>());
    assert!(queues[0].is_finished(), "it gives no packet");
    drop(queues);
    assert_eq!((status.packets(), status.bytes()), (200, fs::metadata(&path).unwrap().len()));
    assert!(!status.is_broken() && status.take_error().is_none());
    let start = setting(1).timebase.unix_ns;
    let wanted = frames.iter().enumerate().map(|(at, frame)| (start + at as u64 * 1_000, frame.clone()));
    assert_eq!(contents(&path), wanted.collect::<Vec<_>>());

    let Some(lines) = tshark(&path, &["frame.time_epoch", "frame.len", "frame.interface_name"]) else {
        return;
    };
    assert_eq!(lines.len(), 200);
    assert_eq!(lines[3], "1700000000.000003000\t35\ttest.0");
}

#[test]
fn tshark_finds_no_fault_in_generated_traffic() {
    let directory = TempDir::new().unwrap();
    let v6 = |spec: GeneratorSpec| GeneratorSpec {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
        ..spec
    };
    let spec = || GeneratorSpec {
        load: Load::Even { flows: 1000, rate: Rate::Unlimited },
        sizes: Sizes::Imix,
        ..GeneratorSpec::default()
    };
    let tcp = || GeneratorSpec { transport: Transport::Tcp, ..spec() };
    let short = GeneratorSpec { sizes: Sizes::Fixed(64), ..spec() };
    for (number, spec) in
        [short, spec(), tcp(), v6(spec()), v6(tcp()), GeneratorSpec { vlan: Some(9), ..spec() }]
            .iter()
            .enumerate()
    {
        let path = directory.path().join(format!("{number}.pcapng"));
        let mut queue = open(&writing(&path), &setting(1)).unwrap().queues.remove(0);
        let mut source = generator::open(spec, &setting(1)).unwrap().remove(0);
        let mut stack = stack(64);
        for now in 0..50 {
            transmit(&mut *queue, now, &receive(&mut *source, now, &mut stack, 32));
        }
        drop(queue);
        let fields =
            ["_ws.expert.message", "ip.checksum.status", "udp.checksum.status", "tcp.checksum.status"];
        let Some(lines) = tshark(&path, &fields) else { return };
        assert_eq!(lines.len(), 50 * 32);
        let good = if spec.source.is_ipv6() { 1 } else { 2 };
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            assert!(!fields[0].contains("hecksum") && !fields[0].contains("alformed"), "{line}");
            assert_eq!(fields[1..].iter().filter(|status| **status == "1").count(), good, "{line}");
        }
    }
}

#[test]
fn a_recording_replays_as_it_was() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let frames: Vec<_> = (0..5_000).map(|number| numbered(number, 14 + number % 1_500)).collect();
    let mut queue = open(&writing(&path), &setting(1)).unwrap().queues.remove(0);
    for (at, frames) in frames.chunks(64).enumerate() {
        transmit(&mut *queue, 1_000 + at as u64 * HERTZ / 1_000, frames);
        // The writing thread may be slower than this loop, and a slow disk loses packets.
        wait_until(|| queue.counters().failed == 0);
    }
    drop(queue);
    let mut queue = open(&replaying(ReplaySpec::new(&path)), &setting(1)).unwrap().queues.remove(0);
    let mut stack = stack(64);
    for frames in frames.chunks(32) {
        assert_eq!(receive(&mut *queue, 0, &mut stack, 32), frames);
    }
    assert!(queue.is_finished());
}

#[test]
fn several_queues_write_one_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let PcapPort { mut queues, status, .. } = open(&writing(&path), &setting(3)).unwrap();
    for (number, queue) in queues.iter_mut().enumerate() {
        transmit(&mut **queue, 1_000, &vec![numbered(number, 60); 10 * (number + 1)]);
    }
    drop(queues);
    assert_eq!(status.unwrap().packets(), 60);
    let Some(lines) = tshark(&path, &["frame.interface_name"]) else { return };
    for (number, count) in [(0, 10), (1, 20), (2, 30)] {
        let name = format!("test.{number}");
        assert_eq!(lines.iter().filter(|line| **line == name).count(), count);
    }
}

#[test]
fn what_waits_is_written_after_a_while() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let PcapPort { mut queues, status, .. } = open(&writing(&path), &setting(1)).unwrap();
    let status = status.unwrap();
    let mut stack = stack(4);
    transmit(&mut *queues[0], 0, &[numbered(0, 60)]);
    queues[0].tend(HERTZ / 10, &mut stack);
    assert_eq!(status.packets(), 0);
    queues[0].tend(HERTZ / 10 + 1, &mut stack);
    wait_until(|| status.packets() == 1);
    assert_eq!(contents(&path).len(), 1);
}

#[test]
fn a_disk_that_is_full_is_refused() {
    // /dev/full refuses every write, so the head of the file cannot either.
    let refused = open(&writing(Path::new("/dev/full")), &setting(1)).err().unwrap().to_string();
    assert!(refused.contains("No space left") && refused.contains("free space"), "{refused}");
}

/// A file that grows no further, as on a full disk: the limit on the size of files, which ends a
/// process by a signal unless that is ignored. So this test is a process of its own.
#[test]
fn a_disk_that_fills_up_leaves_a_whole_capture() {
    const CHILD: &str = "HEADGATE_TEST_FULL_DISK";
    let Ok(path) = std::env::var(CHILD) else {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("out.pcapng");
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "tests::recording::a_disk_that_fills_up_leaves_a_whole_capture"])
            .env(CHILD, &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    let path = Path::new(&path);
    let PcapPort { mut queues, status, .. } = open(&writing(path), &setting(1)).unwrap();
    let (queue, status) = (&mut *queues[0], status.unwrap());
    let frames: Vec<_> = (0..64).map(|number| numbered(number, 1_000)).collect();
    let mut offered = 0;
    while !status.is_broken() {
        transmit(queue, offered, &frames);
        offered += 64;
        assert!(offered < 1_000_000, "the file never filled up");
    }
    transmit(queue, offered, &frames);
    offered += 64;
    let reported = status.take_error().unwrap().to_string();
    assert!(reported.contains("cannot write") && reported.contains("out.pcapng"), "{reported}");
    assert!(status.take_error().is_none(), "it is reported once");
    wait_until(|| {
        let counters = queue.counters();
        // Pieces already handed over are counted as lost by the thread, one by one.
        counters.sent == status.packets() && counters.sent + counters.failed == offered
    });
    assert_eq!(queue.counters().sent_bytes, status.packets() * 1_000);
    assert!(queue.counters().failed > 0);
    drop(queues);
    assert_eq!(contents(path).len() as u64, status.packets());
    assert_eq!(fs::metadata(path).unwrap().len(), status.bytes());
}

#[test]
fn an_old_file_is_overwritten() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let mut queue = open(&writing(&path), &setting(1)).unwrap().queues.remove(0);
    transmit(&mut *queue, 0, &[numbered(0, 60)]);
    drop(queue);
    assert_eq!(contents(&path).len(), 1);
}

#[test]
fn a_capture_is_not_replayed_onto_itself() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("in.pcap");
    let before = pcap(&[(0, numbered(0, 60))]);
    fs::write(&path, &before).unwrap();
    let (link, name) = (directory.path().join("link"), directory.path().join("name"));
    symlink(&path, &link).unwrap();
    fs::hard_link(&path, &name).unwrap();
    for write in [&path, &link, &name] {
        let spec = PcapSpec { read: Some(ReplaySpec::new(&path)), write: Some(write.clone()) };
        let refused = open(&spec, &setting(1)).err().unwrap();
        assert!(matches!(refused, PcapError::OntoItself { .. }), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), before, "nothing was cut");
    }
}

#[test]
fn replaying_and_writing_go_together() {
    let directory = TempDir::new().unwrap();
    let (read, write) = (directory.path().join("in.pcap"), directory.path().join("out.pcapng"));
    fs::write(&read, pcap(&[(0, numbered(0, 60)), (0, numbered(1, 61))])).unwrap();
    let spec = PcapSpec { read: Some(ReplaySpec::new(&read)), write: Some(write.clone()) };
    let mut queue = open(&spec, &setting(1)).unwrap().queues.remove(0);
    let given = receive(&mut *queue, 0, &mut stack(8), 8);
    transmit(&mut *queue, 1_000, &given);
    drop(queue);
    assert_eq!(contents(&write).into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), given);
}

#[test]
fn what_cannot_be_written_is_refused_with_a_reason() {
    let directory = TempDir::new().unwrap();
    let refusal = |path: &Path| open(&writing(path), &setting(1)).err().unwrap().to_string();
    let missing = refusal(&directory.path().join("no/out.pcapng"));
    assert!(missing.contains("make the directory first"), "{missing}");
    assert!(refusal(directory.path()).contains("a directory"));
    let socket = directory.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(refusal(&socket).contains("a socket"));

    let path = directory.path().join("out.pcapng");
    let port = open(&writing(&path), &setting(1)).unwrap();
    assert!(refusal(&path).contains("another port or process is writing"));
    drop(port);
    assert!(open(&writing(&path), &setting(1)).is_ok());
}

#[test]
fn a_recorder_without_memory_fails_packets_and_never_waits() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let PcapPort { mut queues, .. } = open(&writing(&path), &setting(1)).unwrap();
    let frames: Vec<_> = (0..64).map(|number| numbered(number, 1_500)).collect();
    // 8 MiB of memory: some of 64 MiB may fail if the thread is slow, none may be lost from the count.
    for _ in 0..700 {
        transmit(&mut *queues[0], 0, &frames);
    }
    let counters = queues[0].counters();
    assert_eq!(counters.sent + counters.failed, 700 * 64);
    drop(queues);
    assert_eq!(contents(&path).len() as u64, counters.sent);
}

#[test]
fn what_passes_another_queue_is_captured_with_its_direction() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("passed.pcapng");
    let (mut sinks, status) = capture(&path, &setting(1)).unwrap();
    let link = TestLink::default();
    let mut queue = Recorded::new(link.queue(), sinks.remove(0));
    let mut stack = stack(64);
    let frames: Vec<_> = (0..20).map(|number| numbered(number, 60 + number)).collect();
    link.offer(&frames[..10]);
    assert_eq!(receive(&mut queue, 1_000, &mut stack, 32), frames[..10]);
    transmit(&mut queue, 1_000 + HERTZ / 1_000_000, &frames[10..]);
    assert_eq!(link.take_left(), frames[10..]);
    drop(queue);
    let start = setting(1).timebase.unix_ns;
    let time = |number| start + if number < 10 { 0 } else { 1_000 };
    let wanted = frames.iter().enumerate().map(|(number, frame)| (time(number), frame.clone()));
    assert_eq!(contents(&path), wanted.collect::<Vec<_>>());
    assert_eq!((status.packets(), status.lost()), (20, 0));
    let Some(lines) = tshark(&path, &["frame.packet_flags_direction"]) else { return };
    let (came, left) = lines.split_at(10);
    assert!(
        came.iter().all(|way| way == "0x00000001") && left.iter().all(|way| way == "0x00000002"),
        "{lines:?}"
    );
}

#[test]
fn a_capture_that_cannot_be_written_loses_copies_and_no_packet() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("passed.pcapng");
    let (mut sinks, status) = capture(&path, &setting(1)).unwrap();
    let link = TestLink::default();
    let mut queue = Recorded::new(link.queue(), sinks.remove(0));
    let frames: Vec<_> = (0..64).map(|number| numbered(number, 1_500)).collect();
    for _ in 0..700 {
        transmit(&mut queue, 0, &frames);
        assert_eq!(link.take_left().len(), 64);
    }
    assert_eq!((queue.counters().sent, queue.counters().failed), (700 * 64, 0));
    drop(queue);
    assert_eq!(status.packets() + status.lost(), 700 * 64);
    assert_eq!(contents(&path).len() as u64, status.packets());
}
