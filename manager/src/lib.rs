//! The daemon: workers, control loop, API.
//!
//! [`Manager::start`] takes a checked [`config::Config`], makes the packet regions, opens the ports, starts
//! the workers, and hands all of it to the control loop, which launches the NFs and answers requests.
//! Everything is given back when it ends. The program `headgate-manager` runs one.
//!
//! - `layout`: from the configuration to the numbers of the packet path;
//! - `fabric`: regions, workers and their plan;
//! - `ports`: the configured ports, opened;
//! - `wiring`: the interfaces of chains on kernel I/O;
//! - `control`: the control loop;
//! - `api`: requests on their way to it; `listening`: where clients find it;
//! - `output`: what NFs write; [`log`]: lines for people, on a stream that may be full;
//! - [`place`]: a manager's lock and sockets;
//! - `watch`: streams of packets to clients;
//! - [`record`]: inputs and actions of decisions, written to a file.

mod api;
pub use api::Handle;
mod beats;
mod bfd;
mod control;
mod fabric;
mod layout;
mod listening;
pub mod log;
mod output;
pub mod place;
mod ports;
pub mod record;
mod scratch;
mod successor;
mod users;
mod watch;
mod wiring;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use headgate_decide::units::ChainId;
use headgate_host::clock::Clock;
use headgate_host::cores::{self, CoresError};
use headgate_host::undo::Janitor;

use api::{Request, RequestError};
use beats::{Beats, BeatsError};
use bfd::{BfdError, ReachTold, Sessions};
use config::{Catalog, Config};
use control::{Base, Before, Coming, Control, Door, Parts, Reception, Replication, Settings, WORKER};
pub use control::{Fate, Source};
use headgate_api::status;
use headgate_config as config;
use headgate_host::perf::kept as costs;
use listening::Listening;
use log::Log;
use output::{Kept, Outputs};
use status::Snapshot;

/// Options of a manager.
pub struct Options {
    /// Text that the configuration was read from, for those who ask for it.
    pub source: Source,
    /// Program that hosts NFs: [`headgate_host::programs::Program::Nfs`].
    pub nf_program: PathBuf,
    /// NFs that it ships: [`Catalog::of`] that program.
    pub catalog: Catalog,
    /// Whether to listen at [`headgate_api::place::api_socket`], so that other commands find this manager.
    pub listen: bool,
    /// Log that gets the lines of NFs; `None`: they are only kept for `headgate logs`.
    pub log: Option<Log>,
    /// Whether to end once every port has given its last packet and all have left.
    pub once: bool,
    /// Folder of the measured costs of NFs ([`costs::folder`]), with which their time slices begin; `None`:
    /// they begin with none.
    pub costs: Option<PathBuf>,
    /// Janitor, which undoes changes to the machine if the manager is killed.
    pub janitor: Option<Arc<Janitor>>,
    /// Recorder of decisions; does nothing unless they are recorded.
    pub recorder: record::Recorder,
    /// Whether it follows the manager of its name that runs: it prepares everything, takes over its
    /// interfaces and what its NFs kept, and has its place when that one has ended.
    pub follows: bool,
}

/// Reason why a manager did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration asks for something impossible.
    #[error("{0}")]
    Configuration(String),
    /// Memory is short.
    #[error(transparent)]
    Memory(#[from] headgate_shm::MemoryError),
    /// A core cannot be used.
    #[error(transparent)]
    Cores(#[from] headgate_host::cores::CoresError),
    /// A port cannot be opened.
    #[error("{why}")]
    Port {
        /// The port.
        port: String,
        /// Failure, its reason and its cure.
        why: String,
    },
    /// A link to another node cannot be used.
    #[error("a link cannot be used: {0}")]
    Link(#[from] BfdError),
    /// What nodes say of themselves cannot be sent by a link.
    #[error("what nodes tell each other: {0}")]
    Beats(#[from] BeatsError),
    /// The node's part in a group cannot be had.
    #[error("group `{group}`: {why}")]
    Group {
        /// The group.
        group: String,
        /// Failure, its reason and its cure.
        why: String,
    },
    /// The place is taken or unusable.
    #[error(transparent)]
    Place(#[from] place::PlaceError),
    /// There is no manager that this one could follow.
    #[error("cannot follow the manager before: {0}")]
    NotFollowed(String),
    /// No thread could be started.
    #[error("no thread could be started: {cause}; is the limit of processes (ulimit -u) reached?")]
    Thread {
        /// The kernel's error.
        cause: std::io::Error,
    },
}

impl StartError {
    /// Returns the exit code of a command that could not start a manager.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) => 4,
            _ => 3,
        }
    }
}

/// Running manager. Dropping it stops it.
pub struct Manager {
    handle: Handle,
    control: Option<JoinHandle<Snapshot>>,
    fate: Fate,
    _place: Option<Listening>,
}

impl Manager {
    /// Starts everything. NFs are being launched when this returns: ask for a snapshot to see them ready.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
    pub fn start(config: Config, options: Options) -> Result<Self, StartError> {
        let name = config.manager.name.clone();
        let (listens, follows) = (options.listen, options.follows);
        let listening = if listens && !follows { Some(place::Place::take(&name)?) } else { None };
        let left = config.cores_of_nfs();
        let kept = Arc::<Kept>::default();
        let (handle, inbox) = api::inbox(kept.clone()).map_err(|cause| StartError::Thread { cause })?;
        let (started, answer) = channel();
        let settings = Settings {
            nf_program: options.nf_program,
            log: options.log,
            costs: options.costs,
            once: options.once,
            catalog: options.catalog,
            recorder: options.recorder,
        };
        // Everything is made in the control thread: NFs die with the thread that launched them, and
        // ports must be closed where they were opened.
        let (janitor, source) = (options.janitor, options.source);
        let fate = Fate::default();
        let around =
            Around { source, kept, janitor, inbox, handle: handle.clone(), fate: fate.clone(), follows };
        let body = move || match assemble(config, settings, around) {
            Err(error) => {
                let _ = started.send(Err(error));
                Snapshot::default()
            }
            Ok(control) => {
                let _ = started.send(Ok(()));
                control.run()
            }
        };
        let thread = std::thread::Builder::new().name("hg-control".to_owned()).spawn(body);
        let control = thread.map_err(|cause| StartError::Thread { cause })?;
        match answer.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                return Err(StartError::Configuration("the control loop ended at its start".to_owned()));
            }
        }
        let place = listens.then(|| Listening::begin(name, listening, handle.clone(), left)).transpose();
        let place = place.map_err(|cause| StartError::Thread { cause })?;
        Ok(Self { handle, control: Some(control), fate, _place: place })
    }

    /// Returns the outcome of hand-overs.
    #[must_use]
    pub fn fate(&self) -> Fate {
        self.fate.clone()
    }

    /// Returns a way to send it requests.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits for its end, by a request or after it ran once. Returns the last, audited snapshot.
    ///
    /// # Errors
    /// When the control loop panicked.
    pub fn wait(mut self) -> Result<Snapshot, RequestError> {
        self.join()
    }

    /// Stops it and waits. Returns the last, audited snapshot.
    ///
    /// # Errors
    /// When the control loop panicked.
    pub fn stop(mut self) -> Result<Snapshot, RequestError> {
        // If it has ended already, that is as good.
        let _ = self.handle.ask(Request::Stop);
        self.join()
    }

    /// Returns whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.control.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> Result<Snapshot, RequestError> {
        let ended = || RequestError::failed("the control loop panicked; this is a bug".to_owned());
        self.control.take().ok_or_else(ended)?.join().map_err(|_| ended())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if self.control.is_some() {
            let _ = self.handle.ask(Request::Stop);
            let _ = self.join();
        }
    }
}

/// Keeps the control thread, and what it starts, off the cores of NFs, and off those of workers where there
/// are others still. On the core of an NF it would wait for the NF, and whatever it samples of the NF would
/// be of moments at which it has just taken the core from it.
pub(crate) fn keep_off(config: &Config) -> Result<(), CoresError> {
    let of_nfs = config.cores_of_nfs();
    let all = [&of_nfs[..], &config.manager.cores].concat();
    if !of_nfs.is_empty() && !cores::keep_current_thread_off(&all)? {
        cores::keep_current_thread_off(&of_nfs)?;
    }
    Ok(())
}

/// Parts of a control loop that come from around it.
struct Around {
    source: Source,
    kept: Arc<Kept>,
    janitor: Option<Arc<Janitor>>,
    inbox: api::Inbox,
    handle: Handle,
    fate: Fate,
    follows: bool,
}

fn assemble(config: Config, settings: Settings, around: Around) -> Result<Control, StartError> {
    let Around { source, kept, janitor, inbox, handle, fate, follows } = around;
    let coming = follows.then(|| follow(&config)).transpose()?;
    // First: a socket that cannot be opened costs no memory then.
    let reception = Reception::open(&config)?;
    keep_off(&config)?;
    let clock = Clock::calibrate();
    let regions = fabric::make_regions(&config)?;
    let mut stacks = fabric::full_stacks(&regions);
    let interfaces = if follows { ports::Interfaces::Awaited } else { ports::Interfaces::Opened };
    let opened = ports::open(&config, &clock, &mut stacks, interfaces)?;
    let mut numbers = layout::Numbers::default();
    let parts = layout::first_parts(&config, &opened.ports, &mut numbers);
    let fabric = fabric::Fabric::start(&config, clock, regions, &stacks, parts, opened.devices)?;
    let ports = opened.homes;
    let outputs = Outputs::start(kept, settings.log.clone()).map_err(|cause| StartError::Thread { cause })?;
    let started_ns = clock.now_ns();
    let replications = replicate(&config, &fabric, &numbers, &handle, started_ns)?;
    let bfd = sessions(&config, clock, started_ns, &fabric, reach_of(&config, &replications))?;
    let parts = Parts {
        beats: beats(&config, clock, started_ns)?,
        config,
        source,
        settings,
        fabric,
        ports,
        outputs,
        numbers,
        reception,
        janitor,
        coming,
        fate,
        inbox,
        started_ns,
        bfd,
        replications,
    };
    Ok(Control::new(parts))
}

/// Starts the BFD sessions of a node, if this is one of several.
fn sessions(
    config: &Config,
    clock: Clock,
    started_ns: u64,
    fabric: &fabric::Fabric,
    reach: ReachTold,
) -> Result<Option<Sessions>, StartError> {
    let Some(node) = &config.node else { return Ok(None) };
    Ok(Some(Sessions::start(node, clock, started_ns, fabric.boards(), reach)?))
}

/// Starts the beats of a node that packets come to over links, if this is one.
fn beats(config: &Config, clock: Clock, started_ns: u64) -> Result<Option<Beats>, StartError> {
    let node = config.node.as_ref().filter(|_| config.ports.iter().any(|port| port.link.is_some()));
    Ok(node.map(|node| Beats::start(node, clock, started_ns)).transpose()?)
}

/// Opens the node's parts in its groups.
fn replicate(
    config: &Config,
    fabric: &fabric::Fabric,
    numbers: &layout::Numbers,
    handle: &Handle,
    started_ns: u64,
) -> Result<Vec<Replication>, StartError> {
    let number = |name: &String| numbers.chains.get(name).map(|number| ChainId(*number));
    let open = |group: &config::model::Group| {
        let lanes = group.chains.iter().filter_map(|chain| number(&config.chains[chain.index()].name));
        let frame_bytes = fabric.regions.iter().map(|home| home.region.geometry().frame_bytes_max());
        let base = Base {
            lanes: lanes.collect(),
            mailbox: fabric.workers[WORKER.index()].mailbox.clone(),
            handle: handle.clone(),
            frame_bytes: frame_bytes.collect(),
            clock: fabric.clock,
            started_ns,
        };
        let opened = Replication::open(config, group, base);
        opened.map_err(|why| StartError::Group { group: group.name.clone(), why })
    };
    config.node.iter().flat_map(|node| &node.groups).map(open).collect()
}

/// Returns what tells all groups which links and nodes are within reach.
fn reach_of(config: &Config, replications: &[Replication]) -> ReachTold {
    let mut told: Vec<_> = replications.iter().map(|one| one.reach(config)).collect();
    Box::new(move |reach| told.iter_mut().for_each(|tell| tell(reach)))
}

/// Returns how a manager follows the one of its name that runs.
fn follow(config: &Config) -> Result<Coming, StartError> {
    let name = &config.manager.name;
    let obstacles = control::obstacles(config);
    if !obstacles.is_empty() {
        return Err(StartError::NotFollowed(obstacles.join("; ")));
    }
    let before = Before::ask(name).map_err(StartError::NotFollowed)?;
    let folder = headgate_api::place::folder();
    place::make_own(&folder)?;
    let door = Door::open(&folder, name)
        .map_err(|cause| StartError::NotFollowed(format!("no socket in {}: {cause}", folder.display())))?;
    Ok(Coming::new(before, door))
}
