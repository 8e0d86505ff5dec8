use super::*;
use headgate_nf::Verdict;
use headgate_nf::testing::pcap::Capture;
use headgate_nf::testing::{Arrival, EngineChoice, Harness, Setup, check};
use std::path::Path;

fn setup(path: &Path, more: &str, disk: EngineChoice) -> Setup {
    Setup { disk, ..Setup::with(format!(r#"{{"path":"{}"{more}}}"#, path.display())) }
}

fn logger(path: &Path, more: &str, disk: EngineChoice) -> Harness {
    Harness::new(setup(path, more, disk), PacketLogger::new).unwrap()
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| [&number.to_le_bytes()[..], &vec![number as u8; 52 + number % 900]].concat())
        .collect()
}

/// The frames of all files in a folder, oldest first; files are checked on the way.
fn logged(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let captures = paths.iter().map(|path| Capture::read(path).unwrap_or_else(|error| panic!("{error}")));
    captures.flat_map(|capture| capture.arrivals.into_iter().map(|arrival| arrival.frame)).collect()
}

const WAYS: [(&str, EngineChoice); 3] =
    [("", EngineChoice::Best), ("", EngineChoice::Threads), (r#","write":"sync""#, EngineChoice::Best)];

#[test]
fn every_packet_is_in_the_files_in_order() {
    for (way, engine) in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let more = format!(r#","rotate_bytes":100000,"files":1000{way}"#);
        let mut harness = logger(&folder.path().join("all.pcapng"), &more, engine);
        let sent = frames(5000);
        assert!(harness.run(&sent).iter().all(|(verdict, _)| *verdict == Verdict::Next));
        harness.stop();
        assert_eq!(logged(folder.path()), sent, "{way} {engine:?}");
        assert_eq!((harness.counter("logged"), harness.counter("lost")), (5000, 0));
        let files = std::fs::read_dir(folder.path()).unwrap().count() as u64;
        assert_eq!(harness.counter("files"), files);
        assert!(files > 2, "{files} files");
    }
}

#[test]
fn only_so_many_files_are_kept_and_they_are_the_last() {
    for (way, engine) in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("few.pcapng");
        let more = format!(r#","rotate_bytes":50000,"files":3{way}"#);
        let mut sent = Vec::new();
        for _ in 0..2 {
            let mut harness = logger(&path, &more, engine);
            for _ in 0..8 {
                let some = frames(100);
                harness.run(&some);
                // A pause in which the buffer is written, so that each rotation finds the last one done.
                harness.wait(Duration::from_millis(150));
                sent.extend(some);
            }
            harness.stop();
            assert_eq!((harness.counter("logged"), harness.counter("errors")), (800, 0));
        }
        let kept = logged(folder.path());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        assert!(kept.len() < sent.len() && sent.ends_with(&kept));
    }
}

#[test]
fn a_file_is_full_after_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let mut harness = logger(&path, r#","rotate_after":"1s""#, EngineChoice::Best).with_bursts_of(1);
    let arrival = |ms: u64| Arrival { at: Duration::from_millis(ms), ingress: 1, frame: vec![1; 60] };
    harness.run_arrivals(&[arrival(0), arrival(500)]);
    harness.run_arrivals(&[arrival(1500)]);
    // Hours without a packet make no files.
    harness.run_arrivals(&[arrival(7_200_000)]);
    harness.stop();
    assert_eq!((harness.counter("logged"), harness.counter("files")), (4, 3));
    let first = Capture::read(&folder.path().join("a-000001.pcapng")).unwrap();
    assert_eq!(first.arrivals.iter().map(|arrival| arrival.at.as_millis()).collect::<Vec<_>>(), [0, 500]);
    assert_eq!(first.arrivals[0].ingress, 1);
}

#[test]
fn the_flush_interval_brings_few_packets_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut harness = logger(&folder.path().join("a.pcapng"), r#","flush":"20ms""#, EngineChoice::Best);
    harness.run(&[[1; 60]]);
    assert_eq!(harness.counter("logged"), 0);
    harness.wait(Duration::from_millis(19));
    assert_eq!(harness.counter("logged"), 0);
    harness.wait(Duration::from_millis(1));
    assert_eq!(harness.counter("logged"), 1);
    assert_eq!(logged(folder.path()).len(), 1);
}

#[test]
fn a_snap_length_cuts_what_is_kept_and_tells_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let mut harness = logger(&folder.path().join("a.pcapng"), r#","snap_bytes":34"#, EngineChoice::Best);
    harness.run(&[vec![1; 60], vec![2; 20]]);
    harness.stop();
    assert_eq!(logged(folder.path()), [vec![1; 34], vec![2; 20]]);
    let bytes = std::fs::read(folder.path().join("a-000001.pcapng")).unwrap();
    assert!(bytes.windows(8).any(|lengths| lengths == [34, 0, 0, 0, 60, 0, 0, 0]));
}

/// Packets that the disk does not take are counted; every packet passes, and the NF lives.
#[test]
fn a_full_disk_costs_the_log_and_no_packet() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("a-000002.pcapng")).unwrap();
    for (way, engine) in WAYS {
        // The next file is one of a disk that is full: the old one goes on.
        let first = folder.path().join("b.pcapng");
        let mut harness = logger(&first, &format!(r#","rotate_bytes":4096,"files":9{way}"#), engine);
        let next = Files::new(&first, 9).unwrap().begin().unwrap();
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let sent = frames(300);
        assert_eq!(harness.run(&sent).len(), 300);
        harness.stop();
        assert_eq!((harness.counter("logged"), harness.counter("lost")), (300, 0));
        assert!(harness.counter("errors") >= 1);
        std::fs::remove_file(&next).unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("b-") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
    // And without any room for a beginning there is no NF, but a reason.
    let full = setup(&folder.path().join("no/such/a.pcapng"), "", EngineChoice::Best);
    let refused = Harness::new(full, PacketLogger::new).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("No such file"), "{refused}");
}

#[test]
fn wrong_arguments_are_refused_and_a_check_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let arguments = |more: &str| setup(&path, more, EngineChoice::Best).arguments;
    for (more, why) in [
        (r#","snap_bytes":13"#, "`snap_bytes` is 13; it is at least 14"),
        (r#","rotate_bytes":1"#, "at least 4096"),
        (r#","files":1"#, "`files` is 1; it is at least 2"),
        (r#","rotate_after":"0s""#, "longer than nothing"),
        (r#","when_slow":"wait""#, "unknown variant `wait`"),
        (r#","buffer_bytes":1"#, "65536 to 67108864"),
        (r#","write":"sync","flush":"1s""#, "`flush` has no effect"),
        (r#","write":"sync","when_slow":"skip""#, "`when_slow` has no effect"),
    ] {
        let refused = check(&arguments(more), PacketLogger::new).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    for more in ["", r#","write":"sync""#, r#","when_slow":"skip","rotate_after":"1h""#] {
        check(&arguments(more), PacketLogger::new).unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
