//! The neighbour is another implementation of BFD: FRR's `bfdd`.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use headgate_host::namespace::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use tempfile::TempDir;

use super::tests::{Bed, Now, PATIENCE, wait_for, wait_for_states};
use super::*;

/// Folder of FRR's daemons.
const DAEMONS: &str = "/usr/lib/frr";
/// The session as it configures it: ours are at 50 ms x 5.
const PEER: &str = "peer 10.9.0.1 local-address 10.9.0.2 interface l0e1";

/// FRR's daemons in a namespace, until dropped.
struct Frr {
    daemons: Vec<Child>,
    folder: TempDir,
}

impl Frr {
    /// `None` where FRR is not installed, which is said.
    fn start(place: &Namespace) -> Option<Self> {
        if !Path::new(DAEMONS).join("bfdd").exists() {
            eprintln!("skipped: there is no FRR (`setup.sh` installs it)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "bfd\n {PEER}\n  detect-multiplier 5\n  transmit-interval 50\n  receive-interval 50\n exit\nexit\n"
        );
        std::fs::write(folder.path().join("bfdd.conf"), text).unwrap();
        std::fs::write(folder.path().join("zebra.conf"), "").unwrap();
        // They give their rights up, and write into it.
        let mut chown = Command::new("chown");
        assert!(chown.args(["-R", "frr:frr"]).arg(folder.path()).status().unwrap().success());
        let mut frr = Self { daemons: Vec::new(), folder };
        frr.run(place, "zebra", &[]);
        frr.until("zebra listens", || frr.path("zserv").exists());
        let control = frr.path("bfdd.sock").display().to_string();
        frr.run(place, "bfdd", &["--bfdctl", &control]);
        frr.until("bfdd knows the session", || frr.told().is_some());
        Some(frr)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&mut self, place: &Namespace, daemon: &str, more: &[&str]) {
        let path = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new(Path::new(DAEMONS).join(daemon));
        command.args(["-f", &path(&format!("{daemon}.conf")), "-z", &path("zserv"), "-i", &path(daemon)]);
        command.args(["--vty_socket", &path(""), "-u", "frr", "-g", "frr", "-P", "0"]).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(place.run(move || command.spawn().unwrap()).unwrap());
    }

    fn vtysh(&self, lines: &[&str]) -> String {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(self.folder.path());
        command.args(lines.iter().flat_map(|line| ["-c", line]));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn configure(&self, lines: &[&str]) {
        self.vtysh(&[&["configure terminal", "bfd", PEER], lines].concat());
    }

    /// Returns what it says of the session.
    fn told(&self) -> Option<Json> {
        let text = self.vtysh(&["show bfd peers json"]);
        serde_json::from_str::<Json>(&text).ok()?.get(0).cloned()
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Now::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "waited until {what}: {:?}", self.told());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it says so, while ours makes its passes.
    fn says(&self, ours: &Sessions, key: &str, value: &str) {
        self.until(&format!("{key} is {value}"), || {
            drop(ours.tend());
            self.told().is_some_and(|told| told[key] == value)
        });
    }

    fn signal_bfdd(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.daemons[1]), signal).unwrap();
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // One that is stopped ends too.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn bfdd_and_ours_understand_each_other() {
    let Some(bed) = Bed::make() else { return };
    let Some(frr) = Frr::start(&bed.namespaces[1]) else { return };
    let ours = bed.start(0);
    wait_for_states(&[&ours], ["up", "down"]);
    frr.says(&ours, "status", "up");
    let before = ours.status()[0].clone();
    assert!(before.received > 0 && before.refused == 0, "{before:?}");

    // It announces other timers by a Poll Sequence, and the session stays.
    frr.configure(&["transmit-interval 300", "receive-interval 300"]);
    let milliseconds = |count: u64| count * 1_000_000;
    frr.until("its timers are taken", || {
        drop(ours.tend());
        let now = &ours.status()[0];
        now.transmit_interval_ns == milliseconds(300) && now.detection_time_ns == Some(milliseconds(1500))
    });
    frr.configure(&["transmit-interval 50", "receive-interval 50"]);
    frr.until("they are taken back", || {
        drop(ours.tend());
        ours.status()[0].transmit_interval_ns == milliseconds(50)
    });
    assert_eq!(ours.status()[0].changes, before.changes, "{:?}", ours.status()[0]);

    // It takes the session out of use, and into use again.
    frr.configure(&["shutdown"]);
    wait_for(&[&ours], &[EventCode::LinkDown]);
    assert!(ours.status()[0].diagnostic.contains("neighbour"), "{:?}", ours.status()[0]);
    frr.configure(&["no shutdown"]);
    wait_for_states(&[&ours], ["up", "down"]);

    // It hangs.
    frr.signal_bfdd(Signal::STOP);
    wait_for_states(&[&ours], ["down", "down"]);
    assert_eq!(ours.status()[0].diagnostic, "the neighbour is not heard");
    frr.signal_bfdd(Signal::CONT);
    wait_for_states(&[&ours], ["up", "down"]);
    frr.says(&ours, "status", "up");

    // Ours ends on purpose.
    drop(ours);
    frr.until("it sees that", || {
        frr.told().is_some_and(|told| told["status"] == "down" && told["remote-diagnostic"] != "ok")
    });
}
