//! NFs that refuse their arguments are told by name and path, and not started again until somebody changes
//! something; programs that cannot be run at all are tried ever more seldom.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use headgate_api::status::{EventCode, NfState, NfStatus, Snapshot};
use headgate_tests::programs;
use headgate_tests::session::{Session, chain, drops, nf, path_through};

/// Packets of the chain after which it counts as settled that nothing more happens.
const PACKETS: u64 = 5_000;
/// Arguments that `forward` accepts, and `monitor` does not.
const GOOD: &str = "{ to = \"out\" }";
/// Arguments that neither accepts.
const BAD: &str = "{ to = \"nowhere\" }";

/// Programs that NFs of other users may run.
struct Programs {
    _folder: tempfile::TempDir,
    /// The program that hosts the shipped NFs.
    nfs: PathBuf,
    /// A script that becomes an NF.
    script: PathBuf,
}

impl Programs {
    fn new() -> Self {
        let (folder, nfs) = programs::for_everybody(&programs::nfs());
        let script = folder.path().join("nf.sh");
        Self { _folder: folder, nfs, script }
    }

    /// Makes the script become an NF.
    fn write(&self, nf: &str) {
        let fresh = self.script.with_extension("fresh");
        fs::write(&fresh, format!("#!/bin/sh\nexec {} run {nf}\n", self.nfs.display())).unwrap();
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).unwrap();
        fs::rename(&fresh, &self.script).unwrap();
    }
}

/// A chain through one NF that is a program.
fn through(program: &Path, args: &str) -> String {
    path_through(&[("fw", &format!("exec = [\"{}\"]\nargs = {args}", program.display()))])
}

fn forward(programs: &Programs, args: &str) -> String {
    let keys = format!("exec = [\"{}\", \"run\", \"forward\"]\nargs = {args}", programs.nfs.display());
    path_through(&[("fw", &keys)])
}

fn launch(text: &str) -> Session {
    Session::launch("test.toml".as_ref(), text, false)
}

fn places(nf: &NfStatus) -> Vec<&str> {
    nf.refused.iter().map(|refused| refused.path.as_str()).collect()
}

fn wait_for_refusal(session: &Session) -> Snapshot {
    session.wait_for("the NF has failed for good", |now| nf(now, "fw").state == NfState::Failed)
}

/// Waits until so many packets have ended at the stage that is down.
fn wait_for_drops(session: &Session, more: u64) -> Snapshot {
    let ended = |now: &Snapshot| drops(now, "path", "stage-down");
    let target = ended(&session.snapshot()) + more;
    session.wait_for("packets end at the stage that is down", |now| ended(now) >= target)
}

#[test]
fn an_nf_that_refuses_its_arguments_starts_once_and_again_when_they_change() {
    let programs = Programs::new();
    let session = launch(&forward(&programs, BAD));
    wait_for_refusal(&session);
    // Packets of its chain end as at any stage that is down, and nothing is started meanwhile.
    let now = wait_for_drops(&session, PACKETS);
    let fw = nf(&now, "fw");
    assert_eq!((fw.state, fw.failures, fw.pid, fw.spare_pid), (NfState::Failed, 1, None, None));
    assert_eq!(places(fw), ["to"]);
    assert!(fw.last_failure.as_ref().unwrap().contains("to: there is no port `nowhere`"), "{fw:#?}");
    let told: Vec<_> = now.events.iter().filter(|event| event.code == EventCode::ArgumentsRefused).collect();
    let [told] = told[..] else { panic!("{:#?}", now.events) };
    assert!(told.who == "fw" && told.what.contains("change them and `headgate apply`"), "{told:?}");
    let _ = session.audited();
    // Whoever applies a file, even the same, wants it tried.
    assert_eq!(session.apply(&forward(&programs, BAD)).unwrap(), ["nf fw started again"]);
    session.wait_for("it refused again", |now| nf(now, "fw").failures == 2);
    wait_for_refusal(&session);
    let changes = session.apply(&forward(&programs, GOOD)).unwrap();
    assert_eq!(changes, ["nf fw replaced"]);
    let now = session.wait_for_packets("path", PACKETS);
    assert_eq!((nf(&now, "fw").state, places(nf(&now, "fw")).len()), (NfState::Running, 0));
    session.stop();
}

#[test]
fn a_change_to_an_nf_that_refuses_its_arguments_changes_nothing() {
    let programs = Programs::new();
    let session = Session::start(&forward(&programs, GOOD));
    let before = nf(&session.snapshot(), "fw").pid;
    let refusal = session.apply(&forward(&programs, "{ to = \"out\", too = 1 }")).unwrap_err();
    assert!(refusal.code == 4 && refusal.message.contains("too: unknown field `too`"), "{refusal}");
    let now = session.wait_for_packets("path", PACKETS);
    assert_eq!((nf(&now, "fw").pid, now.nfs.len()), (before, 1));
    session.stop();
}

#[test]
fn a_program_that_was_replaced_is_tried_again() {
    let programs = Programs::new();
    programs.write("monitor");
    let session = launch(&through(&programs.script, GOOD));
    let now = wait_for_refusal(&session);
    assert_eq!((nf(&now, "fw").failures, places(nf(&now, "fw"))), (1, vec!["to"]));
    programs.write("forward");
    session.wait_for_packets("path", PACKETS);
    let now = session.audited();
    assert_eq!((nf(&now, "fw").state, nf(&now, "fw").failures), (NfState::Running, 1));
    session.stop();
}

/// What is no refusal is tried again without end, and not often.
#[test]
fn a_program_that_cannot_be_run_is_tried_ever_more_seldom_and_found_when_it_is_there() {
    let programs = Programs::new();
    let keys = "restart = { first = \"50ms\", longest = \"200ms\" }";
    fs::write(&programs.script, "not executable").unwrap();
    let session =
        launch(&through(&programs.script, GOOD).replace("ring = 256", &format!("ring = 256\n{keys}")));
    let now = session.wait_for("it was tried some times", |now| nf(now, "fw").failures >= 5);
    let fw = nf(&now, "fw");
    assert!(fw.last_failure.as_ref().unwrap().contains("cannot run"), "{fw:#?}");
    // The pauses are what the life cycle says (its tests count them); the longest is kept to.
    assert!(now.events.iter().any(|event| event.what.contains("restart in 200 ms")), "{:#?}", now.events);
    assert_eq!((fw.state == NfState::Failed, fw.refused.len()), (false, 0));
    let _ = session.audited();
    programs.write("forward");
    session.wait_for_packets("path", PACKETS);
    assert_eq!(nf(&session.snapshot(), "fw").state, NfState::Running);
    assert!(chain(&session.stop(), "path").left >= PACKETS);
}
