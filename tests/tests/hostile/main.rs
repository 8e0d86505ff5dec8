//! A hostile network function harms the packets of its own domain and nothing else.
//!
//! Each test runs the C program of `tests/hostile` in a domain of its own while another domain's chain
//! carries traffic. The manager must not crash and must answer, packets must go on leaving the neighbour's
//! chain, every packet and buffer must be accounted for while it happens and at the end, a breach must be
//! named in the NF's status, and nothing may outlive the manager: no process, no group.
//!
//! - [`memory`]: attacks on shared memory;
//! - [`machine`]: attacks on the socket, on the core and on the machine.

mod machine;
mod memory;

use std::fs;
use std::path::{Path, PathBuf};

use headgate_api::status::Snapshot;
use headgate_tests::machine::groups_of;
use headgate_tests::patience::Patience;
use headgate_tests::programs;
use headgate_tests::session::{PATIENCE, Session, chain, nf};
use tempfile::TempDir;

/// Failures of the foe that are waited for. Our choice: the second restart is the first that waits, and
/// each incarnation misbehaves with another seed.
const FAILURES: u32 = 3;
/// Packets that must leave the neighbour's chain in each phase.
const NEIGHBOUR_PACKETS: u64 = 2_000;

/// A foe in its surroundings.
struct Attack<'a> {
    mode: &'a str,
    hugepages: &'a str,
    /// Mode of the scheduler.
    scheduler: &'a str,
    /// More keys of the foe.
    keys: &'a str,
}

impl<'a> Attack<'a> {
    const fn of(mode: &'a str) -> Self {
        Self { mode, hugepages: "never", scheduler: "nfvnice", keys: "" }
    }

    fn configuration(&self, program: &Path) -> String {
        let Self { mode, hugepages, scheduler, keys } = self;
        let program = program.display();
        format!(
            r#"
[manager]
name = "tests"
cores = [{{manager}}]
[memory]
buffers = 1024
hugepages = "{hugepages}"
[scheduler]
mode = "{scheduler}"
[[domain]]
name = "theirs"
[[port]]
name = "theirs"
kind = "generator"
rate = "40K"
flows = 16
size = 128
[[port]]
name = "ours"
kind = "generator"
rate = "40K"
flows = 16
[[port]]
name = "sink"
kind = "null"
[[nf]]
name = "foe"
exec = ["{program}", "{mode}"]
domain = "theirs"
core = {{nf}}
ring = 256
restart = {{ first = "5ms", longest = "20ms" }}
{keys}
[[nf]]
name = "honest"
run = "monitor"
core = {{nf}}
ring = 512
[[chain]]
name = "theirs"
stages = ["foe"]
out = "sink"
[[chain]]
name = "ours"
stages = ["honest"]
out = "sink"
[[rule]]
in = "theirs"
chain = "theirs"
[[rule]]
in = "ours"
chain = "ours"
"#
        )
    }

    fn start(&self) -> Field {
        let (folder, program) = programs::for_everybody(&programs::hostile());
        let session = Session::launch("hostile.toml".as_ref(), &self.configuration(&program), false);
        session.wait_for("the neighbour's chain carries packets", |now| chain(now, "ours").left > 0);
        Field { session, program, _folder: folder }
    }
}

/// A manager under attack. The program lies where every user may run it: an NF of root's manager runs as
/// somebody else, who cannot read root's folders.
struct Field {
    session: Session,
    program: PathBuf,
    _folder: TempDir,
}

impl std::ops::Deref for Field {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Field {
    /// The neighbour is as well as before, all is accounted for, and nothing outlives the manager.
    fn leave_well(self) {
        let Self { session, program, _folder } = self;
        session.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = session.audited();
        assert_eq!(nf(&now, "honest").failures, 0, "the neighbour's NF failed: {now:#?}");
        assert_eq!(chain(&now, "ours").stages, ["honest"]);
        session.stop();
        let mut patience = Patience::of(PATIENCE);
        let left = || [processes_of(&program), groups_of(std::process::id())].concat();
        while !left().is_empty() {
            assert!(!patience.is_over(), "these live on: {:?}", left());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Processes that run a program, or ran it when they were forked, by their folders in /proc.
fn processes_of(program: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc is there").filter_map(Result::ok);
    let is_one = |process: &PathBuf| fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program);
    processes.map(|process| process.path()).filter(is_one).collect()
}

/// The foe is stopped again and again, each time for one of these reasons.
fn is_stopped_for(mode: &str, reasons: &[&str]) {
    is_stopped(&Attack::of(mode), reasons, FAILURES);
}

fn is_stopped(attack: &Attack<'_>, reasons: &[&str], failures: u32) {
    let (field, mode) = (attack.start(), attack.mode);
    for failure in 1..=failures {
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        field.wait_for("the foe is stopped", |now| nf(now, "foe").failures >= failure);
        let now = field.audited();
        let why = nf(&now, "foe").last_failure.clone().unwrap_or_default();
        assert!(reasons.iter().any(|reason| why.contains(reason)), "{mode}: stopped for {why:?}");
        let told = now.events.iter().any(|event| event.who == "foe" && event.what.contains("failed: "));
        assert!(told, "{mode}: no event tells of it: {:#?}", now.events);
    }
    field.leave_well();
}

/// Checks that a mode is a nuisance and no offence: the NF runs on, and its own packets pass.
fn is_borne(attack: &Attack<'_>) {
    let (field, mode) = (attack.start(), attack.mode);
    for _ in 0..3 {
        field.wait_for("the foe returns packets", |now| nf(now, "foe").returned > 0);
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.audited();
        assert_eq!(nf(&now, "foe").failures, 0, "{mode}: {:?}", nf(&now, "foe").last_failure);
    }
    field.leave_well();
}

/// Checks that a mode is borne, as `is_borne` says, or stopped for one reason alone.
fn is_borne_or_stopped_for(attack: &Attack<'_>, reason: &str, is_borne: impl Fn(&Snapshot) -> bool) {
    let (field, mode) = (attack.start(), attack.mode);
    for _ in 0..3 {
        field.wait_for_packets("ours", NEIGHBOUR_PACKETS);
        let now = field.audited();
        match &nf(&now, "foe").last_failure {
            Some(why) => assert!(why.contains(reason), "{mode}: stopped for {why:?}"),
            None => assert!(is_borne(&now), "{mode}: neither borne nor stopped: {now:#?}"),
        }
    }
    field.leave_well();
}
