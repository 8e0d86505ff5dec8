//! A core of NFs that another program uses: an NF whose policy is left to the manager pre-empts there when it
//! wakes, and one with a policy in the file keeps that.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headgate_api::status::{EventCode, Snapshot};
use headgate_host::cores;
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

/// Few packets: each has an NF wake up, and wait for its core.
fn configuration() -> String {
    let nfs = [("open", "run = \"forward\""), ("kept", "run = \"forward\"\npolicy = \"batch\"")];
    path_through(&nfs).replace("\"50K\"", "\"2K\"")
}

/// Waits until the one pre-empts, and the other is left as its file has it.
fn assert_preempts(session: Session) {
    let policy = |now: &Snapshot, name: &str| nf(now, name).policy.clone();
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

/// This thread is one of the manager's process, and asks it all the time: where it may have had the core of
/// NFs, nobody else is blamed for that.
fn keep_off() {
    let _ = cores::keep_current_thread_off(&[machine::nf_core()]).expect("a thread may be kept off a core");
}

#[test]
fn nfs_preempt_on_a_core_that_others_use() {
    keep_off();
    let session = Session::start(&configuration());
    let _spinner = Spinner::on(machine::nf_core());
    assert_preempts(session);
}

#[test]
fn nfs_preempt_on_a_core_that_others_had_before_the_manager_began() {
    keep_off();
    let _spinner = Spinner::on(machine::nf_core());
    assert_preempts(Session::start(&configuration()));
}
