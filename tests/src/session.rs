//! A manager in this process, from its configuration to its last audit.

use std::fs::File;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use headgate_api::status::{ChainStatus, NfState, NfStatus, PortStatus, Snapshot};
use headgate_api::{Request, RequestError};
use headgate_config::{self as config, Machine};
use headgate_manager::log::Log;
use headgate_manager::record::Recorder;
use headgate_manager::{Handle, Manager, Options};

use crate::patience::Patience;
use crate::{machine, programs};

/// Longest wait of a test before it gives up. Our choice: a thousand times what it takes on a free machine,
/// because a test that is right must not fail on a busy one.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two samples while waiting.
const POLL_EVERY: Duration = Duration::from_millis(2);

/// A manager that runs. No other test has one meanwhile.
pub struct Session {
    manager: Option<Manager>,
    handle: Handle,
    _alone: File,
}

impl Session {
    /// Starts a manager and waits until its NFs run. `{manager}` and `{nf}` in the text stand for cores.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    pub fn start(text: &str) -> Self {
        let session = Self::launch(Path::new("test.toml"), text, false);
        session.wait_for("the NFs run", all_run);
        session
    }

    /// The same with costs of NFs that are kept in a folder.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    pub fn with_costs(text: &str, folder: &Path) -> Self {
        let session = Self::begin(Path::new("test.toml"), text, false, Some(folder));
        session.wait_for("the NFs run", all_run);
        session
    }

    /// Starts a manager that ends by itself once every port has given its last packet and all have left.
    /// Paths in the text lead from the folder of `file`.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    pub fn once(file: &Path, text: &str) -> Self {
        Self::launch(file, text, true)
    }

    /// Starts a manager whose NFs need not ever be ready.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    pub fn launch(file: &Path, text: &str, once: bool) -> Self {
        Self::begin(file, text, once, None)
    }

    fn begin(file: &Path, text: &str, once: bool, costs: Option<&Path>) -> Self {
        let alone = machine::alone();
        let catalog = programs::catalog();
        let loaded =
            config::parse(&file.display().to_string(), &with_cores(text), &catalog, &Machine::observe());
        let loaded = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let options = Options {
            source: headgate_manager::Source {
                name: file.display().to_string(),
                text: loaded.text,
                edited: false,
            },
            nf_program: programs::nfs(),
            catalog,
            listen: false,
            log: Log::to_stderr().ok(),
            once,
            costs: costs.map(Path::to_owned),
            janitor: None,
            recorder: Recorder::default(),
            follows: false,
        };
        let manager = Manager::start(loaded.config, options).unwrap_or_else(|error| panic!("{error}"));
        Self { handle: manager.handle(), manager: Some(manager), _alone: alone }
    }

    /// Returns the manager's status.
    ///
    /// # Panics
    /// Panics if it does not answer.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.handle.get(Request::Snapshot { audit: false }).expect("the manager answers")
    }

    /// The same, with every packet and buffer counted; all must be there.
    ///
    /// # Panics
    /// Panics if it does not answer, or something is missing.
    #[must_use]
    pub fn audited(&self) -> Snapshot {
        // On a busy machine a worker may not get its core while the others stand still.
        let counted = || self.handle.get::<Snapshot>(Request::Snapshot { audit: true });
        let audits = std::iter::repeat_with(|| counted().expect("the manager answers"));
        let snapshot = audits.take(10).find(|snapshot| snapshot.conserved.is_some());
        let snapshot = snapshot.expect("the workers stand still for an audit");
        assert_conserved(&snapshot);
        snapshot
    }

    /// Waits until something is so, and returns the snapshot that showed it.
    ///
    /// # Panics
    /// Panics if it is not so within [`PATIENCE`].
    pub fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut patience = Patience::of(PATIENCE);
        loop {
            let snapshot = self.snapshot();
            if is_so(&snapshot) {
                return snapshot;
            }
            assert!(
                !patience.is_over(),
                "waited {} s in vain until {what}; NFs: {:#?}; chains: {:#?}; events: {:#?}",
                PATIENCE.as_secs(),
                snapshot.nfs,
                snapshot.chains,
                snapshot.events
            );
            sleep(POLL_EVERY);
        }
    }

    /// Waits until `packets` more have left a chain than had when this was called.
    ///
    /// # Panics
    /// Panics if they do not within [`PATIENCE`].
    pub fn wait_for_packets(&self, name: &str, packets: u64) -> Snapshot {
        let target = chain(&self.snapshot(), name).left + packets;
        self.wait_for(&format!("{packets} more packets leave chain {name}"), |now| {
            chain(now, name).left >= target
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn ask(&self, request: Request) -> Result<serde_json::Value, RequestError> {
        self.handle.get(request)
    }

    /// Changes the configuration and returns what changed.
    ///
    /// # Errors
    /// The manager's refusal.
    pub fn apply(&self, text: &str) -> Result<Vec<String>, RequestError> {
        let answer = self.ask(Request::Apply { name: "next.toml".to_owned(), text: with_cores(text) })?;
        let changes = answer["changes"].as_array().into_iter().flatten();
        Ok(changes.filter_map(|change| change.as_str().map(str::to_owned)).collect())
    }

    /// Another way to ask, for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops it; everything must be accounted for.
    ///
    /// # Panics
    /// Panics if something is missing, or the manager panicked.
    pub fn stop(mut self) -> Snapshot {
        let manager = self.manager.take().expect("a session is stopped once");
        let last = manager.stop().expect("the control loop did not panic");
        assert_conserved(&last);
        last
    }

    /// Waits until it has ended by itself; everything must be accounted for.
    ///
    /// # Panics
    /// Panics if it does not end within [`PATIENCE`], something is missing, or it panicked.
    pub fn end(mut self) -> Snapshot {
        let manager = self.manager.take().expect("a session ends once");
        let mut patience = Patience::of(PATIENCE);
        while !manager.has_ended() {
            assert!(!patience.is_over(), "the manager did not end: {:#?}", self.snapshot());
            sleep(POLL_EVERY);
        }
        let last = manager.wait().expect("the control loop did not panic");
        assert_conserved(&last);
        last
    }
}

/// A configuration: a generator, a sink, and one chain called `path` through NFs in this order, each with its
/// name and keys.
#[must_use]
pub fn path_through(nfs: &[(&str, &str)]) -> String {
    let mut text = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 2048
hugepages = "never"
[[port]]
name = "in"
kind = "generator"
rate = "50K"
flows = 32
[[port]]
name = "out"
kind = "null"
[[rule]]
in = "in"
chain = "path"
"#
    .to_owned();
    let mut stages = Vec::new();
    for (name, keys) in nfs {
        text += &format!("[[nf]]\nname = \"{name}\"\ncore = {{nf}}\nring = 256\n{keys}\n");
        stages.push(format!("\"{name}\""));
    }
    text + &format!("[[chain]]\nname = \"path\"\nstages = [{}]\nout = \"out\"\n", stages.join(", "))
}

fn with_cores(text: &str) -> String {
    let cores = [("{manager}", machine::manager_core()), ("{nf}", machine::nf_core())];
    cores.iter().fold(text.to_owned(), |text, (what, core)| text.replace(what, &core.to_string()))
}

fn all_run(snapshot: &Snapshot) -> bool {
    snapshot.nfs.iter().all(|nf| nf.state == NfState::Running)
}

/// Every packet is where it is said to be, and every buffer is in one place.
///
/// # Panics
/// Panics if something is missing.
pub fn assert_conserved(snapshot: &Snapshot) {
    for memory in &snapshot.memory {
        assert_eq!(memory.missing, Some(0), "buffers of domain {}: {memory:#?}", memory.domain);
    }
    for chain in snapshot.chains.iter().filter(|chain| chain.entry.is_none()) {
        assert_eq!(chain.missing, Some(0), "packets of chain {}: {chain:#?}", chain.name);
    }
    assert_eq!(snapshot.conserved, Some(true), "{snapshot:#?}");
}

/// A chain of a snapshot, by name.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn chain<'a>(snapshot: &'a Snapshot, name: &str) -> &'a ChainStatus {
    let mut chains = snapshot.chains.iter().rev();
    chains
        .find(|chain| chain.name == name)
        .unwrap_or_else(|| panic!("no chain {name}: {:#?}", snapshot.chains))
}

/// An NF instance of a snapshot, by its own name.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn nf<'a>(snapshot: &'a Snapshot, instance: &str) -> &'a NfStatus {
    let mut nfs = snapshot.nfs.iter();
    nfs.find(|nf| nf.instance == instance).unwrap_or_else(|| panic!("no NF {instance}: {:#?}", snapshot.nfs))
}

/// A port of a snapshot, by name.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn port<'a>(snapshot: &'a Snapshot, name: &str) -> &'a PortStatus {
    let mut ports = snapshot.ports.iter();
    ports.find(|port| port.name == name).unwrap_or_else(|| panic!("no port {name}: {:#?}", snapshot.ports))
}

/// Packets of a chain that ended for a reason, by their names.
#[must_use]
pub fn drops(snapshot: &Snapshot, chain: &str, reason: &str) -> u64 {
    let of = snapshot.drops.iter().filter(|drop| drop.chain == chain && drop.reason == reason);
    of.map(|drop| drop.count).sum()
}
