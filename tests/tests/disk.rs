//! NFs that read and write files, under a manager: every packet is in the files, or counted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use headgate_api::status::{NfState, Snapshot};
use headgate_tests::capture;
use headgate_tests::session::{Session, chain, drops, nf};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Packets of a test.
const PACKETS: u64 = 20_000;

/// A folder that the users of trust domains may write to.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("headgate-tests-").tempdir().expect("a folder can be made");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("the folder is ours");
    folder
}

/// A generator, one NF, a port that takes all.
fn configuration(nf: &str, rate: &str, count: &str) -> String {
    format!(
        r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 16384
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "{rate}"
flows = 100
size = 200
{count}
[[port]]
name = "out"
kind = "null"
[[nf]]
name = "disk"
core = {{nf}}
{nf}
[[chain]]
name = "path"
stages = ["disk"]
out = "out"
[[rule]]
in = "in"
chain = "path"
"#
    )
}

/// The files of a log, oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn logged(folder: &Path) -> Vec<Vec<u8>> {
    files(folder).iter().flat_map(|file| capture::read_pcapng(file)).collect()
}

/// Returns the number of packets that tshark sees in a file; nothing where there is no tshark.
fn tshark(file: &Path) -> Option<usize> {
    let output =
        Command::new("tshark").args(["-n", "-T", "fields", "-e", "frame.len", "-r"]).arg(file).output();
    let output = output.ok()?;
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    Some(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
}

/// Packets that ended on their way, for whatever reason.
fn dropped(last: &Snapshot) -> u64 {
    last.drops.iter().filter(|drop| drop.chain == "path").map(|drop| drop.count).sum()
}

/// Generated frames carry their number, so no two are equal unless one was logged twice.
fn all_different(frames: &[Vec<u8>]) -> bool {
    let mut sorted: Vec<_> = frames.iter().collect();
    sorted.sort();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

#[test]
fn every_packet_is_in_the_files() {
    for way in ["", ", write = \"sync\""] {
        let folder = folder();
        let log = format!(
            "run = \"packet-logger\"\nargs = {{ path = \"{}/log.pcapng\", rotate_bytes = 1_000_000, files = 100{way} }}",
            folder.path().display()
        );
        let text = configuration(&log, "100K", &format!("count = {PACKETS}"));
        let session = Session::once(Path::new("test.toml"), &text);
        let last = session.end();
        let left = chain(&last, "path").left;
        assert_eq!(left + dropped(&last), PACKETS);
        let frames = logged(folder.path());
        assert_eq!(frames.len() as u64, left, "{way}");
        assert!(all_different(&frames) && frames.iter().all(|frame| frame.len() == 196));
        let seen: Option<usize> = files(folder.path()).iter().map(|file| tshark(file)).sum();
        match seen {
            Some(seen) => assert_eq!(seen as u64, left),
            None => eprintln!("not compared with tshark: it is not here"),
        }
        assert!(files(folder.path()).len() > 3);
    }
}

/// A file system of 1 MiB fills up in the middle: packets pass, the log says how many it lost, and what is
/// in the file is whole.
#[test]
fn a_full_disk_costs_the_log_and_no_packet() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may mount a small file system");
        return;
    }
    let folder = folder();
    let small = c"size=1m,mode=0777";
    mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(small)).expect("root may mount");
    let unmounted = Unmounted(folder.path().to_owned());
    let log = format!(
        "run = \"packet-logger\"\nargs = {{ path = \"{}/log.pcapng\", flush = \"10ms\" }}",
        folder.path().display()
    );
    let session = Session::start(&configuration(&log, "20K", ""));
    session.wait_for("the disk is full", |now| {
        nf(now, "disk").counters.get("lost").is_some_and(|lost| *lost > 1000)
    });
    session.wait_for_packets("path", 5000);
    let now = session.audited();
    let counters = &nf(&now, "disk").counters;
    assert_eq!((nf(&now, "disk").failures, nf(&now, "disk").state), (0, NfState::Running));
    assert!(counters["logged"] > 1000 && counters["errors"] > 0);
    let last = session.stop();
    assert_eq!(drops(&last, "path", "nf-died"), 0);
    let counters = &nf(&last, "disk").counters;
    assert!(logged(folder.path()).len() as u64 >= counters["logged"], "{counters:?}");
    drop(unmounted);
}

/// Runs a program of the system; whether it is there and did what it should.
fn does(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// Longer than a blocked NF is given: 5 s.
const FROZEN: Duration = Duration::from_secs(7);

/// The file system is frozen: writes take as long as it likes. The logger takes no more packets, sleeps, and
/// is not taken for one that hangs; when the disk is back, so is it, and nothing is missing.
#[test]
fn a_logger_whose_disk_stands_still_waits_and_lives() {
    let images = folder();
    let image = images.path().join("image").display().to_string();
    let folder = folder();
    let at = folder.path().display().to_string();
    let is_made = rustix::process::geteuid().is_root()
        && does("truncate", &["-s", "256M", &image])
        && does("mkfs.ext4", &["-q", &image])
        && does("mount", &["-o", "loop", &image, &at]);
    if !is_made {
        eprintln!("skipped: only root may mount a file system of its own, with mkfs.ext4 and a loop device");
        return;
    }
    let unmounted = Unmounted(folder.path().to_owned());
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).expect("the file system is ours");
    fs::set_permissions(&logs, Permissions::from_mode(0o777)).expect("the folder is ours");
    let log = format!(
        "run = \"packet-logger\"\nring = 1024\nargs = {{ path = \"{}/log.pcapng\", flush = \"5ms\" }}",
        logs.display()
    );
    let session = Session::start(&configuration(&log, "20K", ""));
    session.wait_for("packets are in the file", |now| {
        nf(now, "disk").counters.get("logged").is_some_and(|logged| *logged > 1000)
    });
    assert!(does("fsfreeze", &["-f", &at]));
    let thawed = Thawed(at);
    session.wait_for("its ring fills", |now| nf(now, "disk").held >= 512);
    std::thread::sleep(Duration::from_millis(500));
    let before = session.snapshot();
    std::thread::sleep(FROZEN);
    let after = session.audited();
    let (before, now) = (nf(&before, "disk"), nf(&after, "disk"));
    assert_eq!((now.failures, now.state, now.pid), (0, NfState::Running, before.pid));
    assert!(now.returned == before.returned && now.held >= 512, "{now:#?}");
    drop(thawed);
    // One that was killed meanwhile could end only now, for the kernel was at work for it.
    let later = session.wait_for_packets("path", 10_000);
    assert_eq!(nf(&later, "disk").failures, 0);
    let last = session.stop();
    assert_eq!(logged(&logs).len() as u64, chain(&last, "path").left);
    drop(unmounted);
}

/// Thaws a frozen file system, whatever became of the test.
struct Thawed(String);

impl Drop for Thawed {
    fn drop(&mut self) {
        does("fsfreeze", &["-u", &self.0]);
    }
}

/// Unmounts, whatever became of the test.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        // Who still has a file open there sees it go when it is closed.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Packets that a killed logger had flushed are there and can be read; its successor begins a file of its
/// own.
#[test]
fn a_killed_logger_leaves_what_it_flushed() {
    let folder = folder();
    let log = format!(
        "run = \"packet-logger\"\nargs = {{ path = \"{}/log.pcapng\", flush = \"1ms\" }}",
        folder.path().display()
    );
    let session = Session::start(&configuration(&log, "20K", ""));
    let now = session.wait_for("packets are in the file", |now| {
        nf(now, "disk").counters.get("logged").is_some_and(|logged| *logged > 2000)
    });
    let pid = Pid::from_raw(nf(&now, "disk").pid.expect("it runs") as i32).expect("a process has a number");
    kill_process(pid, Signal::KILL).expect("an NF may be killed by whom started it");
    session.wait_for("its successor logs", |now| {
        let nf = nf(now, "disk");
        nf.failures == 1 && nf.counters.get("logged").is_some_and(|logged| *logged > 100)
    });
    session.stop();
    let files = files(folder.path());
    assert_eq!(files.len(), 2);
    assert!(whole_blocks(&files[0]) > 2000);
    assert!(capture::read_pcapng(&files[1]).len() > 100);
}

/// Packets whose blocks are whole (draft-ietf-opsawg-pcapng §3.1), up to a tail that was cut short.
fn whole_blocks(file: &Path) -> usize {
    let bytes = fs::read(file).expect("the file is there");
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let (mut at, mut packets) = (0, 0);
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        let length = length as usize;
        if length < 12 || word(at + length - 4) != Some(length as u32) {
            break;
        }
        packets += usize::from(kind == 6);
        at += length;
    }
    packets
}

#[test]
fn flows_are_treated_as_their_records_say() {
    let folder = folder();
    let path = folder.path().join("flows");
    // Record 0 of one: every flow is dropped by it.
    let mut record = [0u8; 64];
    record[..5].copy_from_slice(b"HGC1\x01");
    let file = fs::File::create(&path).expect("the folder is ours");
    file.write_all_at(&record, 0).expect("the disk has room");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("the file is ours");
    let cache = format!("run = \"cache\"\nargs = {{ path = \"{}\" }}", path.display());
    let text = configuration(&cache, "50K", &format!("count = {PACKETS}"));
    let last = Session::once(Path::new("test.toml"), &text).end();
    assert_eq!((chain(&last, "path").left, dropped(&last)), (0, PACKETS));
    let counters = &nf(&last, "disk").counters;
    assert_eq!(counters["dropped"], drops(&last, "path", "nf-verdict"));
    assert!(counters["dropped"] > PACKETS / 2 && counters["errors"] == 0, "{counters:?}");
}
