//! The whole path in one process, stepped by hand, so that every run is the same run.

pub mod frames;
pub mod layout;
pub mod nf;
pub mod port;
mod standby;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headgate_decide::wake::CallMarks;
use headgate_path::audit::{Audit, RegionAudit, WorkerReport, audit};
use headgate_path::board::Board;
use headgate_path::drop::DropReason;
use headgate_path::flows::Seeds;
use headgate_path::holders::{Holder, Holders};
use headgate_path::intake::FlowSetup;
use headgate_path::ledger::Store;
use headgate_path::link::Handling;
use headgate_path::link::{LinkEnds, RingEnds};
use headgate_path::mesh::mesh;
use headgate_path::plan::{InstancePlace, Parts, Plan, PortPlace};
use headgate_path::ports::Device;
use headgate_path::rules::Rules;
use headgate_path::signals::Signals;
use headgate_path::stages::InstanceEnds;
use headgate_path::worker::{Command, Event, Mailbox, Pass, Setup, Worker};
use headgate_shm::{ControlLayout, Geometry, ManagerSide, Pages, PagesWanted, Region, Stack};
use headgate_units::{ChainId, CoreId, InstanceId, PortId, RegionId, Ticks, WorkerId};

use layout::{At, Layout};
use nf::{Handler, Making, Nf};
use port::Cable;

/// TSC cycles between two passes of these tests, and of one tick of the flow table.
pub const PASS_TICKS: u64 = 2_500;
/// TSC cycles in a microsecond of these tests.
pub const TICKS_PER_MICRO: u64 = 2_500;
/// Passes without a move after which nothing will move any more: a queue keeps what it sends for two.
const QUIET_PASSES: usize = 3;
/// Passes without a move for several workers: they send the last surplus buffers every 64 passes.
const QUIET_PASSES_OF_SEVERAL: usize = 130;

/// Workers with everything around them, and a control loop that the test plays.
pub struct World {
    pub workers: Vec<Worker>,
    pub boards: Vec<Arc<Board>>,
    pub mailboxes: Vec<Arc<Mailbox>>,
    pub regions: Vec<Region>,
    pub holders: Vec<Arc<Holders>>,
    pub ports: Vec<Arc<Mutex<Cable>>>,
    pub nfs: BTreeMap<u16, Nf>,
    /// Instances that are external programs: their packets lie in no buffer.
    pub programs: Vec<u16>,
    pub parts: Parts,
    pub now: u64,
    instances: Vec<At>,
    ring: u32,
    lend: u32,
    refusing: Vec<u16>,
    handling: Handling,
    protected: bool,
    /// Standbys that wait.
    pub standbys: BTreeMap<u16, Nf>,
    pub signals: Arc<Signals>,
    events: Receiver<Event>,
}

impl World {
    /// Returns a world with every instance attached, and no packet yet.
    pub fn new(layout: Layout) -> Self {
        let (sender, events) = channel();
        let shape = |&(buffers, frame): &(u32, u32)| {
            Geometry::new(buffers, frame).unwrap().with_long(layout.long).unwrap()
        };
        let shapes = layout.regions.iter().map(shape);
        let regions: Vec<Region> =
            shapes.map(|shape| Region::create("test", shape, PagesWanted::Ordinary).unwrap()).collect();
        let holders: Vec<_> = regions.iter().map(|region| Arc::new(layout.records_of(region))).collect();
        let signals =
            Signals::new(layout.workers, layout.chains_max, layout.instances_max, layout.shed_by_flow);
        let mut world = Self {
            workers: Vec::new(),
            boards: signals.boards.to_vec(),
            mailboxes: (0..layout.workers).map(|_| Arc::default()).collect(),
            regions,
            holders,
            ports: layout.ports.iter().map(|_| Arc::default()).collect(),
            nfs: BTreeMap::new(),
            programs: Vec::new(),
            parts: parts(&layout),
            now: PASS_TICKS,
            instances: layout.instances.clone(),
            ring: layout.ring,
            lend: layout.lend,
            refusing: layout.refusing.clone(),
            handling: layout.handling,
            protected: layout.protected,
            standbys: BTreeMap::new(),
            signals,
            events,
        };
        let plan = Arc::new(Plan::new(world.parts.clone()));
        for (number, ends) in mesh(layout.workers).into_iter().enumerate() {
            world.workers.push(Worker::new(Setup {
                number: WorkerId(number as u8),
                stores: world.stores(number, layout.workers),
                devices: world.devices(number, &layout),
                mesh: ends,
                plan: plan.clone(),
                signals: world.signals.clone(),
                flows: FlowSetup {
                    capacity: layout.flows,
                    tick: Ticks(PASS_TICKS),
                    idle_ticks: layout.idle_ticks,
                    pages: Pages::Huge,
                    seeds: Seeds([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]),
                },
                ticks_per_micro: TICKS_PER_MICRO,
                instances: layout.instances_max,
                mailbox: world.mailboxes[number].clone(),
                events: sender.clone(),
            }));
        }
        (0..layout.instances.len()).for_each(|number| world.start(number as u16));
        world
    }

    fn stores(&self, worker: usize, workers: usize) -> Vec<Store> {
        let store = |(id, region): (usize, &Region)| {
            let buffers = region.geometry().plain_buffers();
            let share = buffers as usize / workers;
            let free = (0..buffers).filter(|&index| (index as usize / share).min(workers - 1) == worker);
            let long = region.geometry().all().skip(buffers as usize);
            let free = free.chain(long.filter(|_| worker == 0));
            Store {
                stack: Stack::new(region.clone(), id as u8, free),
                holders: self.holders[id].clone(),
                fair_share: share,
                fair_share_long: if worker == 0 { region.geometry().long_buffers() as usize } else { 0 },
            }
        };
        self.regions.iter().enumerate().map(store).collect()
    }

    fn devices(&self, worker: usize, layout: &Layout) -> Vec<Device> {
        let ports = layout.ports.iter().enumerate();
        let here = ports.filter(|(_, port)| usize::from(port.at.worker) == worker);
        here.map(|(number, port)| Device {
            port: PortId(number as u16),
            queue: 0,
            region: RegionId(port.at.region),
            device: (layout.make_queue)(
                number,
                self.ports[number].clone(),
                port.bound.then_some(port.at.region),
            ),
        })
        .collect()
    }

    /// Starts a fresh incarnation of an instance, with a handler that forwards.
    pub fn start(&mut self, number: u16) {
        let (nf, ends) = self.make_nf(number);
        self.nfs.insert(number, nf);
        self.attach(self.instances[number as usize].worker, ends);
    }

    fn make_nf(&self, number: u16) -> (Nf, InstanceEnds) {
        let region = self.instances[number as usize].region;
        let layout = ControlLayout::new(self.ring).unwrap();
        let side = Arc::new(ManagerSide::create("test", layout).unwrap());
        let nf = Nf::attach(&side, &self.regions[region as usize]);
        let link = LinkEnds::Rings(Box::new(RingEnds {
            core: CoreId(number),
            sleeps: true,
            marks: CallMarks::new(self.ring, TICKS_PER_MICRO),
            handling: self.handling,
            lend: self.lend,
            takes_long: !self.refusing.contains(&number),
            protected: self.protected.then_some(0),
            side,
        }));
        (nf, InstanceEnds { number: InstanceId(number), region: RegionId(region), link })
    }

    /// Attaches an instance that is ready.
    pub fn attach(&self, worker: u8, ends: InstanceEnds) {
        self.mailboxes[worker as usize].post(Command::Attach(Box::new(ends)));
    }

    /// Ends an instance's process. The plan is not changed.
    pub fn kill(&mut self, number: u16) {
        self.nfs.remove(&number);
        self.reclaim(number);
    }

    /// Has the buffers that an instance held taken back.
    pub fn reclaim(&self, number: u16) {
        let worker = self.instances[number as usize].worker;
        self.mailboxes[worker as usize].post(Command::Reclaim { number: InstanceId(number), dead: None });
    }

    /// Sets what an instance does with its packets.
    pub fn on(&mut self, number: u16, handler: Handler) {
        self.nfs.get_mut(&number).unwrap().handler = handler;
    }

    /// Sets what an instance that makes packets does.
    pub fn makes(&mut self, number: u16, making: Making) {
        self.nf(number).making = Some(making);
    }

    pub fn nf(&mut self, number: u16) -> &mut Nf {
        self.nfs.get_mut(&number).unwrap()
    }

    /// Changes the plan of all workers.
    pub fn replan(&mut self, change: impl FnOnce(&mut Parts)) {
        change(&mut self.parts);
        let plan = Arc::new(Plan::new(self.parts.clone()));
        for mailbox in &self.mailboxes {
            mailbox.post(Command::Plan(plan.clone()));
        }
    }

    /// Sets which instances of a stage run.
    pub fn set_running(&mut self, stage: u16, running: &[u16]) {
        let stage = stage as usize;
        self.replan(|parts| {
            parts.stages[stage]
                .as_mut()
                .unwrap()
                .set_running(running.iter().copied().map(InstanceId).collect())
        });
    }

    /// Adds frames that a port will receive.
    pub fn offer(&self, port: usize, frames: &[Vec<u8>]) {
        self.ports[port].lock().unwrap().incoming.extend(frames.iter().cloned());
    }

    /// Returns the frames that left by a port since the last call.
    pub fn sent(&self, port: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ports[port].lock().unwrap().sent)
    }

    /// Makes one pass of one worker, and of no NF.
    pub fn pass_of(&mut self, worker: usize) -> Pass {
        self.now += PASS_TICKS;
        self.workers[worker].pass(Ticks(self.now))
    }

    /// Makes one pass of every worker, then lets every NF work on what it has. Returns whether a packet
    /// moved.
    pub fn pass(&mut self) -> bool {
        let mut moved = false;
        for worker in 0..self.workers.len() {
            moved |= self.pass_of(worker) == Pass::Busy;
        }
        for nf in self.nfs.values_mut() {
            moved |= nf.step() > 0;
        }
        moved
    }

    /// Makes passes until nothing moves any more.
    #[track_caller]
    pub fn settle(&mut self) {
        let enough = if self.workers.len() > 1 { QUIET_PASSES_OF_SEVERAL } else { QUIET_PASSES };
        let mut quiet = 0;
        for _ in 0..10_000 {
            quiet = if self.pass() { 0 } else { quiet + 1 };
            if quiet == enough {
                return self.check();
            }
        }
        panic!("packets move for ever");
    }

    /// Returns the events since the last call.
    pub fn events(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }

    /// Returns the next event.
    pub fn next_event(&self, patience: Duration) -> Event {
        self.events.recv_timeout(patience).expect("an event comes")
    }

    pub fn entered(&self, chain: u16) -> u64 {
        self.boards.iter().map(|board| board.chains[usize::from(chain)].entered.get()).sum()
    }

    pub fn left(&self, chain: u16) -> u64 {
        self.boards.iter().map(|board| board.chains[usize::from(chain)].left.get()).sum()
    }

    pub fn dropped(&self, chain: u16, reason: DropReason) -> u64 {
        self.boards.iter().map(|board| board.dropped(ChainId(chain), reason)).sum()
    }

    pub fn made(&self, chain: u16) -> u64 {
        self.boards.iter().map(|board| board.chains[usize::from(chain)].made.get()).sum()
    }

    /// Returns all packets that ended in a chain, by reason.
    pub fn drops(&self, chain: u16) -> BTreeMap<&'static str, u64> {
        let counts = DropReason::ALL.iter().map(|&reason| (reason.name(), self.dropped(chain, reason)));
        counts.filter(|&(_, count)| count > 0).collect()
    }

    /// Compares the two accounts between two passes.
    pub fn audit(&self) -> Audit {
        let reports: Vec<_> = self.workers.iter().map(Worker::report).collect();
        self.audit_of(&reports)
    }

    /// Compares the two accounts with the reports of workers that stand still.
    pub fn audit_of(&self, reports: &[WorkerReport]) -> Audit {
        let boards: Vec<&Board> = self.boards.iter().map(Arc::as_ref).collect();
        let holders: Vec<&Holders> = self.holders.iter().map(Arc::as_ref).collect();
        audit(&boards, &holders, reports)
    }

    /// Asserts that nothing is missing and nothing is in two places, and that workers count what NFs hold as
    /// the holder table has it.
    #[track_caller]
    pub fn check(&self) {
        let audit = self.audit();
        assert!(audit.holds(), "{audit:#?}");
        let nfs = self.instances.iter().enumerate();
        for (number, at) in nfs.filter(|(number, _)| !self.programs.contains(&(*number as u16))) {
            let holder = Holder::instance(InstanceId(number as u16));
            let (lent, held): (Vec<_>, Vec<_>) =
                self.holders[at.region as usize].held_by(holder).partition(|(_, place)| place.is_lent());
            let counts = &self.boards[at.worker as usize].instances[number];
            assert_eq!(counts.held.get(), held.len() as u64, "packets in the hands of instance {number}");
            assert_eq!(counts.lent.get(), lent.len() as u64, "buffers lent to instance {number}");
            assert!(lent.len() <= self.lend as usize, "instance {number} is lent more than it asked for");
            let all = held.len() + lent.len();
            assert!(all <= self.ring as usize, "instance {number} holds more than its ring");
        }
    }

    /// Returns the number of buffers that instances are lent.
    fn lent(&self, region: usize) -> u64 {
        let here = |at: &&(usize, &At)| usize::from(at.1.region) == region;
        let all = self.instances.iter().enumerate();
        all.filter(|at| here(&at))
            .map(|(number, at)| self.boards[usize::from(at.worker)].instances[number].lent.get())
            .sum()
    }

    /// Asserts that nothing moves any more, and every buffer is free or lent.
    #[track_caller]
    pub fn finish(mut self) {
        self.settle();
        let audit = self.audit();
        for (number, region) in audit.regions.iter().enumerate() {
            let lent = self.lent(number);
            assert_eq!((region.held, region.in_devices), (lent, 0), "region {number}: {audit:#?}");
        }
        let there = |region: &RegionAudit| region.free + region.in_links + region.held;
        let free: u64 = audit.regions.iter().map(there).sum();
        let all: u64 = audit.regions.iter().map(|region| region.buffers).sum();
        assert_eq!(free, all, "{audit:#?}");
    }
}

fn parts(layout: &Layout) -> Parts {
    Parts {
        generation: 1,
        chains: layout.chains.clone(),
        stages: layout.stages.iter().cloned().map(Some).collect(),
        ports: layout
            .ports
            .iter()
            .map(|port| PortPlace {
                worker_for: match port.everywhere {
                    true => (0..layout.workers as u8).map(WorkerId).collect(),
                    false => vec![WorkerId(port.at.worker); layout.workers],
                },
                service_address: port.service_address,
                senders: port.senders,
            })
            .collect(),
        instances: layout.instances.iter().map(|at| InstancePlace { worker: WorkerId(at.worker) }).collect(),
        nodes: layout.nodes.clone(),
        tunnels: layout.tunnels.clone(),
        shares: layout.shares.clone(),
        rules: Rules::new(&layout.rules),
    }
}
