//! A manager that runs by itself, as a service does, and is told to read its file again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headgate_api::status::{Event, EventCode, NfState, Snapshot};
use headgate_api::{Request, RequestError};
use headgate_tests::patience::Patience;
use headgate_tests::session::PATIENCE;
use headgate_tests::{machine, programs};
use rustix::process::{Pid, Signal, kill_process};

/// A manager of one NF that is run by a file.
struct Service {
    process: Child,
    folder: tempfile::TempDir,
    name: String,
    _alone: fs::File,
}

impl Service {
    fn start(name: &str) -> Self {
        let alone = machine::alone();
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{name}-{}", std::process::id());
        fs::write(folder.path().join("edge.toml"), configuration(&name, &["fw"])).unwrap();
        let process = by_itself().arg("edge.toml").current_dir(folder.path()).spawn().unwrap();
        let service = Self { process, folder, name, _alone: alone };
        service.wait_for("its NF runs", |now| running(now) == ["fw"]);
        service
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("edge.toml")
    }

    fn write(&self, nfs: &[&str]) {
        fs::write(self.file(), configuration(&self.name, nfs)).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn snapshot(&self) -> Option<Snapshot> {
        headgate_api::call(&self.name, &Request::Snapshot { audit: false }).ok()
    }

    fn apply(&self, nfs: &[&str]) -> Result<(), RequestError> {
        let text = configuration(&self.name, nfs);
        let request = Request::Apply { name: "other.toml".to_owned(), text };
        let answer: Result<serde_json::Value, _> = headgate_api::call(&self.name, &request);
        match answer {
            Ok(_) => Ok(()),
            Err(headgate_api::CallError::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("{error}"),
        }
    }

    fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut patience = Patience::of(PATIENCE);
        loop {
            let now = self.snapshot();
            if let Some(now) = now.as_ref().filter(|now| is_so(now)) {
                return now.clone();
            }
            assert!(!patience.is_over(), "not within {} s: {what}: {now:#?}", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for so many refusals, and returns the last.
    fn refusal(&self, count: usize) -> String {
        let now = self.wait_for("the file is refused", |now| refusals(now).len() >= count);
        assert_eq!(refusals(&now).len(), count, "{:#?}", now.events);
        refusals(&now)[count - 1].to_owned()
    }

    /// Stops it; everything is accounted for.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn by_itself() -> Command {
    let _ = programs::nfs();
    // Under nohup the tests ignore SIGHUP, and so would it.
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=HUP").arg(programs::manager());
    command.env_remove("NOTIFY_SOCKET").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A chain through these NFs, between a generator and nowhere.
fn configuration(name: &str, nfs: &[&str]) -> String {
    let one = |nf: &&str| {
        format!("[[nf]]\nname = \"{nf}\"\nrun = \"forward\"\ncore = {}\nring = 256\n", machine::nf_core())
    };
    format!(
        "[manager]\nname = \"{name}\"\ncores = [{}]\n[memory]\nbuffers = 2048\nhugepages = \"never\"\n\
         [[port]]\nname = \"in\"\nkind = \"generator\"\nrate = \"10k\"\n[[port]]\nname = \"out\"\nkind = \"null\"\n\
         {}[[chain]]\nname = \"path\"\nstages = {nfs:?}\nout = \"out\"\n[[rule]]\nin = \"in\"\nchain = \"path\"\n",
        machine::manager_core(),
        nfs.iter().map(one).collect::<String>()
    )
}

fn running(now: &Snapshot) -> Vec<&str> {
    let running = now.nfs.iter().filter(|nf| nf.state == NfState::Running);
    running.map(|nf| nf.instance.as_str()).collect()
}

fn refusals(now: &Snapshot) -> Vec<&str> {
    let refused = now.events.iter().filter(|event| event.code == EventCode::ConfigurationRefused);
    refused.map(|event| event.what.as_str()).collect()
}

/// Returns the chain that is in force.
fn stages(now: &Snapshot) -> Vec<String> {
    now.chains.iter().rev().find(|chain| chain.name == "path").unwrap().stages.clone()
}

#[test]
fn a_file_is_applied_under_traffic_and_a_bad_one_changes_nothing() {
    let service = Service::start("hup-service");
    let pid = service.snapshot().unwrap().nfs[0].pid;
    service.write(&["fw", "next"]);
    service.signal(Signal::HUP);
    service.wait_for("both NFs run", |now| running(now) == ["fw", "next"] && stages(now) == ["fw", "next"]);
    let whole = fs::read_to_string(service.file()).unwrap();
    let place = service.file().display().to_string();
    for (count, (text, why)) in [
        (whole.replace("\"forward\"", "\"farward\""), format!("{place}:16:7: no NF `farward` is shipped; ")),
        (whole.replace("buffers = 2048", "buffers = 4096"), "[[domain]] cannot change while".to_owned()),
        ("[[nf]".to_owned(), format!("{place}:1:")),
        (configuration("another", &["fw"]), "[manager] cannot change while".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(service.file(), text).unwrap();
        service.signal(Signal::HUP);
        let said = service.refusal(count + 1);
        assert!(said.contains(&why) && said.contains("everything is as before"), "{why}: {said}");
    }
    fs::remove_file(service.file()).unwrap();
    service.signal(Signal::HUP);
    assert!(service.refusal(5).contains(&place), "a file that is gone");
    fs::create_dir(service.file()).unwrap();
    service.signal(Signal::HUP);
    assert!(service.refusal(6).contains(&place), "a folder");
    let now = service.snapshot().unwrap();
    assert_eq!((running(&now), now.nfs[0].pid), (vec!["fw", "next"], pid));
    fs::remove_dir(service.file()).unwrap();
    service.write(&["next"]);
    service.signal(Signal::HUP);
    service.wait_for("the first NF is gone", |now| running(now) == ["next"] && stages(now) == ["next"]);
    service.stop();
}

/// However many signals come, and whatever else is being applied, the last file is in force in the end, or
/// it is said that it is not.
#[test]
fn signals_without_end_apply_the_last_file() {
    let service = Service::start("hup-storm");
    for round in 0..20 {
        let nfs: &[&str] = if round % 2 == 0 { &["fw", "more"] } else { &["fw"] };
        service.write(nfs);
        (0..10).for_each(|_| service.signal(Signal::HUP));
        // A file that is read while it is written is no whole one, and the next signal is to come.
        std::thread::sleep(Duration::from_millis(3));
    }
    service.write(&["last"]);
    service.signal(Signal::HUP);
    service.wait_for("the last file is in force", |now| running(now) == ["last"] && stages(now) == ["last"]);
    service.stop();
}

#[test]
fn of_two_changes_at_once_one_is_refused_and_told() {
    let service = Service::start("hup-two");
    let mut told = 0;
    // More events of the manager than so many would be left out.
    for round in 0..6 {
        let (mine, theirs) = (format!("mine{round}"), format!("theirs{round}"));
        service.write(&["fw", &mine]);
        service.signal(Signal::HUP);
        let applied = service.apply(&["fw", &theirs]);
        if let Err(refusal) = &applied {
            assert!(refusal.message.contains("another configuration is being applied"), "{refusal}");
        }
        let is_mine = |now: &Snapshot| {
            let applied = |event: &Event| event.code == EventCode::ConfigurationApplied;
            now.events.iter().any(|event| applied(event) && event.what.contains(&format!("nf {mine} added")))
        };
        let is_settled = |now: &Snapshot| is_mine(now) || refusals(now).len() > told;
        let now = service.wait_for("the file is in force, or refused", is_settled);
        assert!(is_mine(&now) || applied.is_ok(), "{:#?}", now.events);
        told = refusals(&now).len();
        service.wait_for("no change is under way", |now| running(now).len() == 2 && now.nfs.len() == 2);
    }
    service.stop();
}

#[test]
fn a_configuration_from_elsewhere_cannot_be_read_again() {
    let alone = machine::alone();
    let name = format!("hup-stdin-{}", std::process::id());
    let mut process = by_itself().arg("-").stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, configuration(&name, &["fw"]).as_bytes()).unwrap();
    drop(stdin);
    let folder = tempfile::tempdir().unwrap();
    let service = Service { process, folder, name, _alone: alone };
    service.wait_for("its NF runs", |now| running(now) == ["fw"]);
    service.signal(Signal::HUP);
    assert!(service.refusal(1).contains("no file that could be read again"));
    assert!(Path::new(&format!("/proc/{}", service.process.id())).exists());
    service.stop();
}
