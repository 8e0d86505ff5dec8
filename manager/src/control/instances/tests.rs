//! Instances on a fabric without threads: events of their processes become effects, and nothing else does.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use headgate_host::cgroup::{Controller, Hierarchy, NfGroup, Version};
use headgate_host::peer::Peer;
use headgate_session::inbox::Inbox;
use headgate_session::message::{self, FromNf, ToNf};

use super::*;
use crate::config::{Catalog, Machine};
use crate::control::link::Link;
use crate::control::origin::{Attached, Origin};
use crate::layout::{self, Numbers};

const LAUNCHED: &str = "exec = [\"/bin/true\"]";
const ATTACHED: &str = "attach = true";

/// Parts of the manager below the instances.
struct Below {
    config: Config,
    settings: Settings,
    fabric: Fabric,
    wiring: Wiring,
    ledger: Ledger,
    groups: NfGroups,
    users: Users,
    outputs: Outputs,
    now: Moment,
}

impl Below {
    fn new(nf: &str, nf_program: &str) -> Self {
        let text = format!(
            "[memory]\nhugepages = \"never\"\n[[port]]\nname = \"in\"\nkind = \"null\"\n[[nf]]\nname = \"nf\"\nring = 64\n{nf}\n"
        );
        let machine = Machine { cores: vec![0, 1], memory_bytes: 1 << 34, ..Machine::default() };
        let config = crate::config::parse("test.toml", &text, &Catalog::default(), &machine).unwrap().config;
        let parts = layout::first_parts(&config, &[(vec![1], None)], &mut Numbers::default());
        let settings = Settings {
            nf_program: nf_program.into(),
            log: None,
            costs: None,
            once: false,
            catalog: Catalog::default(),
            recorder: Recorder::default(),
        };
        let mut ledger = Ledger::new(None);
        Self {
            fabric: Fabric::without_threads(&config, parts),
            config,
            settings,
            wiring: Wiring::new(None),
            groups: NfGroups::in_hierarchies(&[], "tests", &mut ledger),
            ledger,
            users: Users::default(),
            outputs: Outputs::start(Arc::default(), None).unwrap(),
            now: Moment(1),
        }
    }

    fn ground(&mut self) -> Ground<'_> {
        Ground {
            now: self.now,
            config: &self.config,
            settings: &self.settings,
            fabric: &self.fabric,
            wiring: &mut self.wiring,
            ledger: &mut self.ledger,
            groups: &mut self.groups,
            users: &mut self.users,
            outputs: &mut self.outputs,
        }
    }
}

fn one_instance(below: &Below) -> Instances {
    let mut instances = Instances::default();
    instances.add(&below.config.nfs[0], NfId(0), 0, &[0]).unwrap();
    instances
}

/// Returns each effect as a word, and logs in full.
fn words(effects: &[Effect]) -> Vec<String> {
    let word = |effect: &Effect| match effect {
        Effect::Post { command: Command::Attach(_), .. } => "post attach".to_owned(),
        Effect::Post { command: Command::Reclaim { .. }, .. } => "post reclaim".to_owned(),
        Effect::Post { .. } => "post".to_owned(),
        Effect::Publish { .. } => "publish".to_owned(),
        Effect::Processes => "processes".to_owned(),
        Effect::Begins(_) => "begins".to_owned(),
        Effect::InService(_) => "in service".to_owned(),
        Effect::Ended(_) => "ended".to_owned(),
        Effect::Rouse(_) => "rouse".to_owned(),
        Effect::Answered { .. } => "answered".to_owned(),
        Effect::Released => "released".to_owned(),
        Effect::Log { what, .. } => what.clone(),
    };
    effects.iter().map(word).collect()
}

/// Polls until something happens. Returns the effects.
fn poll_until_something(instances: &mut Instances, below: &mut Below) -> Vec<Effect> {
    let started = Clock::now();
    let mut effects = Vec::new();
    while effects.is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing happened");
        instances.poll(true, &mut below.ground(), &mut effects);
        std::thread::sleep(Duration::from_millis(1));
    }
    effects
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure_that_is_tried_again() {
    let mut below = Below::new(LAUNCHED, "/is/not/there");
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    instances.begin(0, &mut below.ground(), &mut effects);
    assert_eq!(instances[0].state(), State::Waiting);
    let words = words(&effects);
    assert!(words[0].starts_with("failed: ") && words[0].ends_with("restart in 0 ms"), "{words:?}");
    assert_eq!((words.len(), instances[0].life.failures()), (1, 1));
    // At its time it is tried again, and then waits for longer.
    instances.poll(false, &mut below.ground(), &mut effects);
    assert_eq!((instances[0].life.failures(), instances.poll_at()), (2, Some(Moment(10_000_001))));
}

#[test]
fn an_end_is_announced_before_it_is_reaped() {
    let mut below = Below::new(LAUNCHED, "/bin/true");
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    instances.begin(0, &mut below.ground(), &mut effects);
    assert_eq!(words(&effects), ["begins"]);
    assert_eq!(instances[0].state(), State::Starting);
    assert_eq!(words(&poll_until_something(&mut instances, &mut below)), ["ended"]);
    // Not reaped yet: its number is still its own.
    let pid = instances[0].pid().unwrap();
    assert!(headgate_host::process::observe(pid).is_ok());
    let mut effects = Vec::new();
    instances.reap(&mut below.ground(), &mut effects);
    assert_eq!(
        words(&effects),
        ["released", "failed: exited with code 0; 0 packets ended with it; restart in 0 ms"]
    );
    assert!(instances[0].process.is_none());
}

/// Attaches an NF in this process. Returns its end of the socket.
fn attach(instances: &mut Instances, below: &mut Below, effects: &mut Vec<Effect>) -> OwnedFd {
    let (ours, theirs) = Inbox::pair().unwrap();
    rustix::io::ioctl_fionbio(&theirs, true).unwrap();
    let peer = Peer::of(&ours).unwrap();
    let link = Link::make(&instances[0].seat, &mut below.ground()).unwrap();
    let process = Process::new(Origin::Attached(Attached(peer)), link, ours, NfGroup::default());
    instances.begin(0, &mut below.ground(), effects);
    instances.admit(0, process, &mut below.ground(), effects);
    theirs
}

#[test]
fn an_nf_that_attaches_is_welcomed_once_and_then_serves() {
    let mut below = Below::new(ATTACHED, "");
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    let theirs = attach(&mut instances, &mut below, &mut effects);
    let Some((ToNf::Welcome(welcome), files)) = message::receive::<ToNf>(&theirs).unwrap() else { panic!() };
    assert_eq!((welcome.name.as_str(), welcome.ring, files.len()), ("nf", 64, 3));
    assert_eq!(welcome.ports, ["in"]);
    message::send(&theirs, &FromNf::Ready { lend: 0, answers: false, state: None, takes_long: false }, &[])
        .unwrap();
    let effects = poll_until_something(&mut instances, &mut below);
    assert!(message::receive::<ToNf>(&theirs).unwrap().is_none());
    let words = words(&effects);
    assert_eq!(words[..3], ["post attach", "publish", "in service"]);
    assert!(words[3].starts_with("ready ") && words[3].ends_with("us after it attached"), "{words:?}");
    assert_eq!(instances.in_service(NfId(0)), [InstanceId(0)]);
}

#[test]
fn an_answer_is_passed_on_and_a_library_without_answers_is_known() {
    let mut below = Below::new(ATTACHED, "");
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    let theirs = attach(&mut instances, &mut below, &mut effects);
    assert!(matches!(message::receive::<ToNf>(&theirs), Ok(Some((ToNf::Welcome(_), _)))));
    let ask = |instances: &Instances| instances.pass_on("nf", "how many", 7, &mut Vec::new()).unwrap();
    for (answers, expected) in [(false, Some(Outcome::Unknown)), (true, None)] {
        message::send(&theirs, &FromNf::Ready { lend: 0, answers, state: None, takes_long: false }, &[])
            .unwrap();
        poll_until_something_or_heard(&mut instances, &mut below, answers);
        assert_eq!(ask(&instances), [(0, "nf".to_owned(), expected)]);
        let asked = message::receive::<ToNf>(&theirs).unwrap().unwrap().0;
        assert_eq!(asked, ToNf::Message { body: "how many".to_owned(), number: Some(7) });
    }
    assert_eq!(instances.pass_on("other", "", 8, &mut Vec::new()), None);
    let answer = FromNf::Answer { number: 7, body: "three".to_owned(), refused: false };
    message::send(&theirs, &answer, &[]).unwrap();
    let effects = poll_until_something(&mut instances, &mut below);
    let [Effect::Answered { at: 0, number: 7, outcome }] = &effects[..] else {
        panic!("{:?}", words(&effects))
    };
    assert_eq!(*outcome, Outcome::Answered("three".into()));
    instances[0].note_answer(outcome);
    instances[0].note_answer(&Outcome::Refused("no".into()));
    instances[0].note_answer(&Outcome::Answered(String::new()));
    assert_eq!(instances[0].message.as_deref(), Some("three"));
}

/// Polls until the NF's library is known to answer, or not.
fn poll_until_something_or_heard(instances: &mut Instances, below: &mut Below, answers: bool) {
    let started = Clock::now();
    while instances[0].state() != State::Running || instances[0].process.as_ref().unwrap().answers != answers
    {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing happened");
        instances.poll(true, &mut below.ground(), &mut Vec::new());
    }
}

#[test]
fn what_was_held_is_taken_back_before_the_next_process() {
    let mut below = Below::new(ATTACHED, "");
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    let theirs = attach(&mut instances, &mut below, &mut effects);
    message::send(&theirs, &FromNf::Ready { lend: 0, answers: false, state: None, takes_long: false }, &[])
        .unwrap();
    poll_until_something(&mut instances, &mut below);
    // Its process is this one, which must not be killed: the test reports its end itself.
    let mut effects = Vec::new();
    instances.tell(
        0,
        Event::Exited { said: String::new(), exit: "its process ended".into(), refuses: false },
        &mut below.ground(),
        &mut effects,
    );
    assert_eq!(words(&effects), ["publish", "post reclaim"]);
    assert!(instances.in_service(NfId(0)).is_empty() && instances[0].process.is_some());
    effects.clear();
    instances.on_reclaimed(0, (7, 0), &mut below.ground(), &mut effects);
    assert_eq!(
        words(&effects),
        ["released", "failed: its process ended; 7 packets ended with it; the next process may attach"]
    );
    assert_eq!((instances[0].state(), instances[0].process.is_none()), (State::Awaited, true));
}

/// Groups of a hierarchy whose groups are folders, in one of its own.
fn groups_in(home: &std::path::Path, ledger: &mut Ledger) -> NfGroups {
    let hierarchy = Hierarchy {
        version: Version::V1,
        mount: home.to_owned(),
        own: home.to_owned(),
        controllers: vec![Controller::Freezer],
    };
    NfGroups::in_hierarchies(&[hierarchy], "tests", ledger)
}

#[test]
fn an_nf_whose_group_cannot_be_made_runs_and_that_is_told() {
    let home = tempfile::tempdir().unwrap();
    let mut below = Below::new(LAUNCHED, "/bin/true");
    below.groups = groups_in(home.path(), &mut below.ledger);
    // Somebody removes the tree, and puts something else there.
    let root = home.path().join(format!("headgate-tests-{}", std::process::id()));
    std::fs::remove_dir(&root).unwrap();
    std::fs::write(&root, "").unwrap();
    let (mut instances, mut effects) = (one_instance(&below), Vec::new());
    instances.begin(0, &mut below.ground(), &mut effects);
    let words = words(&effects);
    assert!(words[0].starts_with("runs without a control group"), "{words:?}");
    assert_eq!(words[1..], ["begins"]);
    std::fs::remove_file(&root).unwrap();
}

/// The group of all real-time tasks ends with the manager, so a process that does not must not be in it.
#[test]
fn a_real_time_process_that_attaches_gets_no_group() {
    let home = tempfile::tempdir().unwrap();
    for (keys, has_group) in [("", true), ("\npolicy = \"fifo\"", false)] {
        let mut below = Below::new(&format!("{ATTACHED}{keys}"), "");
        below.groups = groups_in(home.path(), &mut below.ledger);
        let instances = one_instance(&below);
        let ground = below.ground();
        let guest = Some(rustix::process::getpid());
        let group = ground.groups.group(&instances[0].seat, guest, ground.config, ground.ledger).unwrap();
        assert_eq!(!group.letting_go().is_empty(), has_group);
        ground.groups.take_back(group, false, ground.ledger);
    }
}

/// One worker knows all NFs of a core, its own core before all others; other cores go to the worker with the
/// fewest instances, whatever their numbers.
#[test]
fn cores_of_nfs_are_dealt_to_workers_by_load() {
    let below = Below::new(LAUNCHED, "/bin/true");
    let nf = Nf { cores: vec![2, 4, 2, 0, 6, 8], ..below.config.nfs[0].clone() };
    let mut instances = Instances::default();
    for which in 0..nf.cores.len() {
        instances.add(&nf, NfId(0), which, &[0, 1]).unwrap();
    }
    let workers: Vec<u8> = instances.iter().map(|instance| instance.seat.worker.0).collect();
    assert_eq!(workers, [0, 1, 0, 0, 1, 1]);
}
