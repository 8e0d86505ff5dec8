//! The fabric: regions, workers and the plan they work by, as the control loop holds them.

mod passes;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_decide::units::{ChainId, NfId, Ticks, WorkerId};
use headgate_host::clock::Clock;
use headgate_host::{Pid, cores};
use headgate_path::audit::{Audit, Pause, audit};
use headgate_path::board::Board;
use headgate_path::flows::Seeds;
use headgate_path::holders::{ExtrasWanted, Holders};
use headgate_path::intake::FlowSetup;
use headgate_path::ledger::Store;
use headgate_path::mesh::mesh;
use headgate_path::plan::{Chain, Parts, Plan};
use headgate_path::ports::{Device, SharedCounters};
use headgate_path::signals::Signals;
use headgate_path::totals::ChainTotals;
use headgate_path::worker::{Command, Event, Mailbox, Setup, Worker};
use headgate_session::message::MESSAGE_BYTES_MAX;
use headgate_shm::{PagesWanted, Region, Stack, Times};

use crate::StartError;
use crate::config::{Config, Hugepages};
use crate::layout;

use passes::Idle;

/// Beginning of the names of worker threads; their core follows. Other managers find them by it.
pub const WORKER_NAME: &str = "hg-worker-";
/// Most NF instances, dead ones not yet taken back included.
pub const INSTANCES_MAX: usize = 256;
/// Least number of chains there is room for, so that some can be added while the manager runs.
const CHAINS_MIN: usize = 1024;
/// Resolution of the flow table's clock. Our choice: a hundredth of the shortest sensible idle time.
const TICK: Duration = Duration::from_millis(10);
/// Most bytes of a welcome that names of chains may take: half of the longest message.
const CHAIN_NAMES_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;
/// Bytes of a chain's number and of the JSON around its name.
const CHAIN_NUMBER_BYTES: usize = 16;
/// Time that workers may take to stand still for an audit.
const PAUSE_PATIENCE: Duration = Duration::from_secs(2);

/// Region and its holder records.
pub struct RegionHome {
    /// The buffers.
    pub region: Region,
    /// Holder of each buffer.
    pub holders: Arc<Holders>,
}

/// Worker as seen from outside.
pub struct WorkerHome {
    /// Its core.
    pub core: u32,
    /// Its thread, as the kernel counts it.
    pub task: Pid,
    /// Its counters.
    pub board: Arc<Board>,
    /// Counters of its queues.
    pub queues: SharedCounters,
    /// Its mailbox.
    pub mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

/// Regions, workers and plan.
pub struct Fabric {
    /// Clock of all times.
    pub clock: Clock,
    /// By domain number.
    pub regions: Vec<RegionHome>,
    /// By worker number.
    pub workers: Vec<WorkerHome>,
    /// Parts of the plan; [`Fabric::publish`] puts them into force.
    pub parts: Parts,
    /// Events of workers.
    pub events: Receiver<Event>,
    /// Signals between workers.
    pub signals: Arc<Signals>,
    chains_max: usize,
    /// Number of plans published after the first.
    pub(crate) published: u64,
}

/// Makes the packet region of each domain.
///
/// # Errors
/// [`StartError`] when memory is short.
pub fn make_regions(config: &Config) -> Result<Vec<RegionHome>, StartError> {
    let wanted = match config.memory.hugepages {
        Hugepages::Auto => PagesWanted::HugeIfFree,
        Hugepages::Require => PagesWanted::HugeOnly,
        Hugepages::Never => PagesWanted::Ordinary,
    };
    let extras = ExtrasWanted { service: config.has_service_headers(), clock: config.works_for_groups() };
    let make = |domain: &crate::config::model::Domain| {
        let geometry =
            headgate_config::geometry(&config.memory, domain).map_err(StartError::Configuration)?;
        let name = format!("headgate:{}", domain.name);
        let region = Region::create(&name, geometry, wanted)?;
        let mut holders = Holders::new(geometry, extras, layout::pages_of_tables(config));
        if extras.clock {
            holders.extras.times = Some(Times::create(geometry)?);
        }
        Ok(RegionHome { region, holders: Arc::new(holders) })
    };
    config.domains.iter().map(make).collect()
}

/// Returns each region's stack with all its buffers free.
pub fn full_stacks(regions: &[RegionHome]) -> Vec<Stack> {
    let stack = |(id, home): (usize, &RegionHome)| {
        Stack::new(home.region.clone(), id as u8, home.region.geometry().all())
    };
    regions.iter().enumerate().map(stack).collect()
}

/// Returns the part of the free buffers that a worker starts with.
fn share(free: &[u32], worker: usize, workers: usize) -> &[u32] {
    &free[free.len() * worker / workers..free.len() * (worker + 1) / workers]
}

impl Fabric {
    /// Starts one pinned worker for each core of the configuration. `devices` has the queues of each,
    /// `stacks` the buffers of each region that are free. They take in no packets before a command says so.
    ///
    /// # Errors
    /// [`StartError`] when a thread cannot be started or pinned.
    pub fn start(
        config: &Config,
        clock: Clock,
        regions: Vec<RegionHome>,
        stacks: &[Stack],
        parts: Parts,
        devices: Vec<Vec<Device>>,
    ) -> Result<Self, StartError> {
        let (sender, events) = channel();
        let chains_max = (parts.chains.len() * 2).max(CHAINS_MIN);
        let cores = &config.manager.cores;
        let signals = Signals::new(cores.len(), chains_max, INSTANCES_MAX, config.scheduler.shed_by_flow);
        let workers = Vec::new();
        let mut fabric = Self { clock, regions, workers, parts, events, signals, chains_max, published: 0 };
        let plan = Arc::new(Plan::new(fabric.parts.clone()));
        let flows = fabric.flow_setup(config);
        let mut shared = config.cores_of_nfs();
        shared.extend(config.scheduler.unis.core);
        for ((number, mesh), devices) in mesh(cores.len()).into_iter().enumerate().zip(devices) {
            let mailbox = passes::mailbox().map_err(|cause| StartError::Thread { cause })?;
            mailbox.post(Command::Receive(false));
            let setup = Setup {
                number: WorkerId(number as u8),
                stores: fabric.stores(number, cores.len(), stacks),
                devices,
                mesh,
                plan: plan.clone(),
                signals: fabric.signals.clone(),
                flows,
                ticks_per_micro: fabric.clock.cycles_per_second() / 1_000_000,
                instances: INSTANCES_MAX,
                mailbox: mailbox.clone(),
                events: sender.clone(),
            };
            let board = fabric.signals.boards[number].clone();
            let core = cores[number];
            let idle = Idle::of(config, shared.contains(&core));
            let (task, queues, thread) = spawn(setup, core, idle)?;
            fabric.workers.push(WorkerHome { core, task, board, queues, mailbox, thread: Some(thread) });
        }
        Ok(fabric)
    }

    /// Returns the buffers that a worker starts with.
    fn stores(&self, worker: usize, workers: usize, stacks: &[Stack]) -> Vec<Store> {
        let store = |(id, home): (usize, &RegionHome)| {
            let stack = &stacks[id];
            let [plain, long] = [stack.free(), stack.free_long()].map(|free| share(free, worker, workers));
            let all = plain.iter().chain(long).copied();
            Store {
                fair_share: plain.len(),
                fair_share_long: long.len(),
                stack: Stack::new(home.region.clone(), id as u8, all),
                holders: home.holders.clone(),
            }
        };
        self.regions.iter().enumerate().map(store).collect()
    }

    /// Returns the setup of each worker's flow table.
    fn flow_setup(&self, config: &Config) -> FlowSetup {
        let idle_ticks = config.flows.idle_timeout_ns / TICK.as_nanos() as u64;
        FlowSetup {
            capacity: (config.flows.capacity as usize).div_ceil(config.manager.cores.len()),
            tick: Ticks(self.clock.ns_to_cycles(TICK.as_nanos() as u64)),
            idle_ticks: idle_ticks.clamp(1, u64::from(u32::MAX)) as u32,
            seeds: Seeds(random_seeds()),
            pages: layout::pages_of_tables(config),
        }
    }

    /// Returns the nanoseconds of one tick of the flow table's clock.
    pub const fn tick_ns(&self) -> u64 {
        TICK.as_nanos() as u64
    }

    /// Returns the number of chains there can be.
    pub const fn chains_max(&self) -> usize {
        self.chains_max
    }

    /// Makes all workers work by the parts as they are now.
    pub fn publish(&mut self) {
        self.published += 1;
        let plan = Arc::new(Plan::new(self.parts.clone()));
        for worker in &self.workers {
            worker.mailbox.post(Command::Plan(plan.clone()));
        }
    }

    /// Returns whether every worker works by the parts that were published last. Until then packets may still
    /// take ways that are no more.
    pub fn is_current(&self) -> bool {
        self.workers.iter().all(|worker| worker.board.plans_taken() == self.published)
    }

    /// Sends a command to one worker.
    pub fn post(&self, worker: WorkerId, command: Command) {
        self.workers[worker.index()].mailbox.post(command);
    }

    /// Sends a command to all workers.
    pub fn post_all(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            worker.mailbox.post(command());
        }
    }

    /// Counts every packet and buffer while the workers stand still. Returns `None` when one does not answer.
    pub fn audit(&self) -> Option<Audit> {
        let pause = Arc::new(Pause::new(self.workers.len()));
        self.post_all(|| Command::Pause(pause.clone()));
        let result = pause.gather(PAUSE_PATIENCE).map(|reports| {
            let boards: Vec<&Board> = self.workers.iter().map(|worker| &*worker.board).collect();
            let holders: Vec<&Holders> = self.regions.iter().map(|home| &*home.holders).collect();
            audit(&boards, &holders, &reports)
        });
        pause.release();
        result
    }

    /// Returns the counts of a chain, of all workers together.
    #[must_use]
    pub fn chain_counts(&self, chain: ChainId) -> ChainTotals {
        ChainTotals::of(self.workers.iter().map(|worker| &*worker.board), chain)
    }

    /// Returns the names of the stages, by number.
    #[must_use]
    pub fn stage_names(&self) -> Vec<String> {
        let name = |stage: &Option<headgate_path::plan::Stage>| {
            stage.as_ref().map_or_else(String::new, |stage| stage.name.clone())
        };
        self.parts.stages.iter().map(name).collect()
    }

    /// Returns numbers and names of the chains that visit a stage, as many as fit a message.
    #[must_use]
    pub fn chains_of(&self, stage: NfId) -> Vec<(u16, String)> {
        let chains = self.parts.chains.iter().zip(0..);
        let visits = |chain: &&Chain| chain.stages.contains(&stage);
        let visiting =
            chains.filter_map(|(chain, number)| Some((number, chain.as_ref().filter(visits)?.name.clone())));
        let mut room = CHAIN_NAMES_BYTES_MAX;
        let fits = |(_, name): &(u16, String)| {
            room = room.saturating_sub(name.len() + CHAIN_NUMBER_BYTES);
            room > 0
        };
        visiting.take_while(fits).collect()
    }

    /// Returns the counters of each worker.
    pub fn boards(&self) -> Vec<Arc<Board>> {
        self.workers.iter().map(|worker| worker.board.clone()).collect()
    }

    /// Returns the core of a worker that ended without being told to: it panicked.
    #[must_use]
    pub fn lost_worker(&self) -> Option<u32> {
        let ended = |worker: &&WorkerHome| worker.thread.as_ref().is_some_and(JoinHandle::is_finished);
        self.workers.iter().find(ended).map(|worker| worker.core)
    }

    /// Ends the workers. Their queues are closed by then.
    pub fn stop(&mut self) {
        self.post_all(|| Command::Stop);
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A worker that panicked has printed so already.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
impl Fabric {
    /// Returns a fabric of one worker that has no thread.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn without_threads(config: &Config, parts: Parts) -> Self {
        let clock = Clock::calibrate();
        let regions = make_regions(config).unwrap();
        let (chains_max, events) = (CHAINS_MIN, channel().1);
        let signals = Signals::new(1, chains_max, INSTANCES_MAX, false);
        let worker = WorkerHome {
            core: config.manager.cores[0],
            task: rustix::thread::gettid(),
            board: signals.boards[0].clone(),
            queues: SharedCounters::default(),
            mailbox: Arc::default(),
            thread: None,
        };
        Self { clock, regions, workers: vec![worker], parts, events, signals, chains_max, published: 0 }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts a worker. It makes its tables itself, on its core, so that their memory is near to that.
fn spawn(
    setup: Setup,
    core: u32,
    when_idle: Idle,
) -> Result<(Pid, SharedCounters, JoinHandle<()>), StartError> {
    let (pinned, answer) = channel();
    let body = move || {
        if let Err(error) = cores::pin_current_thread(core) {
            let _ = pinned.send(Err(error));
            return;
        }
        let worker = Worker::new(setup);
        let _ = pinned.send(Ok((rustix::thread::gettid(), worker.queue_counters())));
        passes::run(worker, when_idle);
    };
    let thread = std::thread::Builder::new()
        .name(format!("{WORKER_NAME}{core}"))
        .spawn(body)
        .map_err(|cause| StartError::Thread { cause })?;
    let ended = || StartError::Thread { cause: std::io::Error::other("it ended at its start") };
    let (task, queues) = answer.recv().map_err(|_| ended())?.map_err(StartError::Cores)?;
    Ok((task, queues, thread))
}

/// Returns the key of the flow hash, from the kernel by way of the standard library's hasher.
fn random_seeds() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    [RandomState::new().hash_one(1), RandomState::new().hash_one(2)]
}
