//! A core of NFs that another program uses: an NF whose policy is left to the manager pre-empts there when it
//! wakes, and one with a policy in the file keeps that.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headgate_api::status::{EventCode, Snapshot};
use headgate_tests::machine;
use headgate_tests::session::{Session, nf, path_through};

/// A program that never sleeps, on one core. Dropping it ends it.
struct Spinner(Child);

impl Spinner {
    fn on(core: u32) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), "sh", "-c", "while :; do :; done"]);
        Self(command.stdin(Stdio::null()).spawn().expect("taskset is part of util-linux"))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nfs_preempt_on_a_core_that_others_use() {
    // Few packets: each has an NF wake up, and wait for its core.
    let text =
        path_through(&[("open", "run = \"forward\""), ("kept", "run = \"forward\"\npolicy = \"batch\"")])
            .replace("\"50K\"", "\"2K\"");
    let session = Session::start(&text);
    let policy = |now: &Snapshot, name: &str| nf(now, name).policy.clone();
    let _spinner = Spinner::on(machine::nf_core());
    let now = session.wait_for("the NF pre-empts", |now| policy(now, "open") == "normal");
    assert_eq!(policy(&now, "kept"), "batch");
    // The policy is written together with shares and slices, and checked each second.
    std::thread::sleep(Duration::from_secs(3));
    let last = session.stop();
    let told = |code| last.events.iter().any(|event| event.code == code);
    assert!(told(EventCode::CoreTaken), "{:#?}", last.events);
    // It is our doing, and nobody else's.
    assert!(!told(EventCode::PolicyGranted) && !told(EventCode::PolicyRefused), "{:#?}", last.events);
}
