//! The whole path in one process, stepped by hand, so that every run is the same run.

pub mod frames;
pub mod layout;
pub mod nf;
pub mod port;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headgate_decide::wake::CallMarks;
use headgate_path::audit::{Audit, WorkerReport, audit};
use headgate_path::board::Board;
use headgate_path::bound::Bounds;
use headgate_path::divert::Diverts;
use headgate_path::drop::Reason;
use headgate_path::flows::Seeds;
use headgate_path::holders::{FIRST_INSTANCE, Holders};
use headgate_path::instance::InstanceEnds;
use headgate_path::links;
use headgate_path::plan::{InstancePlace, Parts, Plan, PortPlace};
use headgate_path::pressure::{Handling, Pressure};
use headgate_path::rules::Rules;
use headgate_path::worker::{Command, Device, Event, Mailbox, Setup, Store, Turn, Worker};
use headgate_shm::{ControlLayout, Geometry, ManagerSide, PagesWanted, Region, Stack};

use layout::{At, Layout};
use nf::{Handler, Nf};
use port::Cable;

/// TSC cycles between two turns of these tests, and of one tick of the flow table.
pub const TURN_CYCLES: u64 = 2_500;
/// TSC cycles in a microsecond of these tests.
pub const CYCLES_PER_MICRO: u64 = 2_500;
/// Turns without a move after which nothing will move any more: a queue keeps what it sends for two.
const QUIET_TURNS: usize = 3;
/// The same for several workers: they look at the last surplus buffers every 64 turns.
const QUIET_TURNS_OF_SEVERAL: usize = 130;

/// Workers with everything around them, and a control loop that does what a test says.
pub struct World {
    pub workers: Vec<Worker>,
    pub boards: Vec<Arc<Board>>,
    pub mailboxes: Vec<Arc<Mailbox>>,
    pub regions: Vec<Region>,
    pub holders: Vec<Arc<Holders>>,
    pub ports: Vec<Arc<Mutex<Cable>>>,
    pub nfs: BTreeMap<u16, Nf>,
    /// Instances that are black boxes: what they hold lies in no buffer.
    pub boxes: Vec<u16>,
    pub parts: Parts,
    pub now: u64,
    instances: Vec<At>,
    ring: u32,
    handling: Handling,
    pub pressure: Arc<Pressure>,
    pub bounds: Arc<Bounds>,
    diverts: Arc<Diverts>,
    events: Receiver<Event>,
}

impl World {
    /// Everything in place, every instance attached, no packet yet.
    pub fn new(layout: Layout) -> Self {
        let (sender, events) = channel();
        let shapes = layout.regions.iter().map(|&(buffers, frame)| Geometry::new(buffers, frame).unwrap());
        let regions: Vec<Region> =
            shapes.map(|shape| Region::create("test", shape, PagesWanted::Ordinary).unwrap()).collect();
        let holders: Vec<_> =
            regions.iter().map(|region| Arc::new(Holders::new(region.geometry().buffers()))).collect();
        let board = || Arc::new(Board::new(layout.chains_max, layout.instances_max));
        let mut world = Self {
            workers: Vec::new(),
            boards: (0..layout.workers).map(|_| board()).collect(),
            mailboxes: (0..layout.workers).map(|_| Arc::default()).collect(),
            regions,
            holders,
            ports: layout.ports.iter().map(|_| Arc::default()).collect(),
            nfs: BTreeMap::new(),
            boxes: Vec::new(),
            parts: parts(&layout),
            now: TURN_CYCLES,
            instances: layout.instances.clone(),
            ring: layout.ring,
            handling: layout.handling,
            pressure: Pressure::new(layout.instances_max),
            diverts: Diverts::new(layout.instances_max, layout.shed_by_flow),
            bounds: Bounds::new(layout.chains_max),
            events,
        };
        let plan = Arc::new(Plan::new(world.parts.clone()));
        for (number, links) in links::mesh(layout.workers).into_iter().enumerate() {
            world.workers.push(Worker::new(Setup {
                number: number as u8,
                stores: world.stores(number, layout.workers),
                devices: world.devices(number, &layout),
                links,
                plan: plan.clone(),
                boards: world.boards.clone().into(),
                pressure: world.pressure.clone(),
                diverts: world.diverts.clone(),
                bounds: world.bounds.clone(),
                cycles_per_micro: CYCLES_PER_MICRO,
                instances: layout.instances_max,
                flows: layout.flows,
                tick_cycles: TURN_CYCLES,
                idle_ticks: layout.idle_ticks,
                seeds: Seeds([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]),
                mailbox: world.mailboxes[number].clone(),
                events: sender.clone(),
            }));
        }
        (0..layout.instances.len()).for_each(|number| world.start(number as u16));
        world
    }

    fn stores(&self, worker: usize, workers: usize) -> Vec<Store> {
        let store = |(id, region): (usize, &Region)| {
            let buffers = region.geometry().buffers();
            let share = buffers as usize / workers;
            let free = (0..buffers).filter(|&index| (index as usize / share).min(workers - 1) == worker);
            Store {
                stack: Stack::new(region.clone(), id as u8, free),
                holders: self.holders[id].clone(),
                fair_share: share,
            }
        };
        self.regions.iter().enumerate().map(store).collect()
    }

    fn devices(&self, worker: usize, layout: &Layout) -> Vec<Device> {
        let ports = layout.ports.iter().enumerate();
        let here = ports.filter(|(_, port)| usize::from(port.at.worker) == worker);
        here.map(|(number, port)| Device {
            port: number as u8,
            queue: 0,
            region: port.at.region,
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
        let At { worker, region } = self.instances[number as usize];
        let layout = ControlLayout::new(self.ring).unwrap();
        let side = Arc::new(ManagerSide::create("test", layout).unwrap());
        self.nfs.insert(number, Nf::attach(&side, &self.regions[region as usize]));
        self.mailboxes[worker as usize].post(Command::Attach(Box::new(InstanceEnds {
            number,
            region,
            core: number,
            sleeps: true,
            marks: CallMarks::new(self.ring, CYCLES_PER_MICRO),
            handling: self.handling,
            side,
        })));
    }

    /// An instance's process is gone. The plan is not told.
    pub fn kill(&mut self, number: u16) {
        self.nfs.remove(&number);
        self.reclaim(number);
    }

    /// What an instance held is to be taken back.
    pub fn reclaim(&self, number: u16) {
        let worker = self.instances[number as usize].worker;
        self.mailboxes[worker as usize].post(Command::Reclaim { number });
    }

    /// Says what an instance does with its packets.
    pub fn on(&mut self, number: u16, handler: Handler) {
        self.nfs.get_mut(&number).unwrap().handler = handler;
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

    /// Says which instances of a stage run.
    pub fn set_running(&mut self, stage: u16, running: &[u16]) {
        let stage = stage as usize;
        self.replan(|parts| parts.stages[stage].as_mut().unwrap().set_running(running.to_vec()));
    }

    /// Frames that a port will receive.
    pub fn offer(&self, port: usize, frames: &[Vec<u8>]) {
        self.ports[port].lock().unwrap().incoming.extend(frames.iter().cloned());
    }

    /// The frames that left by a port since the last call.
    pub fn sent(&self, port: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ports[port].lock().unwrap().sent)
    }

    /// One turn of one worker, and no NF.
    pub fn turn_of(&mut self, worker: usize) -> Turn {
        self.now += TURN_CYCLES;
        self.workers[worker].turn(self.now)
    }

    /// One turn of every worker, then every NF works on what it has. Whether a packet moved.
    pub fn turn(&mut self) -> bool {
        let mut moved = false;
        for worker in 0..self.workers.len() {
            moved |= self.turn_of(worker) == Turn::Busy;
        }
        for nf in self.nfs.values_mut() {
            moved |= nf.step() > 0;
        }
        moved
    }

    /// Turns until nothing moves any more.
    #[track_caller]
    pub fn settle(&mut self) {
        let enough = if self.workers.len() > 1 { QUIET_TURNS_OF_SEVERAL } else { QUIET_TURNS };
        let mut quiet = 0;
        for _ in 0..10_000 {
            quiet = if self.turn() { 0 } else { quiet + 1 };
            if quiet == enough {
                return self.check();
            }
        }
        panic!("packets move for ever");
    }

    /// What happened since the last call.
    pub fn events(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }

    /// The next thing that happens.
    pub fn next_event(&self, patience: Duration) -> Event {
        self.events.recv_timeout(patience).expect("an event comes")
    }

    pub fn entered(&self, chain: u16) -> u64 {
        self.boards.iter().map(|board| board.chains[chain as usize].entered.get()).sum()
    }

    pub fn left(&self, chain: u16) -> u64 {
        self.boards.iter().map(|board| board.chains[chain as usize].left.get()).sum()
    }

    pub fn dropped(&self, chain: u16, reason: Reason) -> u64 {
        self.boards.iter().map(|board| board.dropped(chain, reason)).sum()
    }

    /// Everything that ended in a chain, by reason.
    pub fn drops(&self, chain: u16) -> BTreeMap<&'static str, u64> {
        let counts = Reason::ALL.iter().map(|&reason| (reason.name(), self.dropped(chain, reason)));
        counts.filter(|&(_, count)| count > 0).collect()
    }

    /// The two accounts, compared between two turns.
    pub fn audit(&self) -> Audit {
        let reports: Vec<_> = self.workers.iter().map(Worker::report).collect();
        self.audit_of(&reports)
    }

    /// The same with the reports of workers that stand still.
    pub fn audit_of(&self, reports: &[WorkerReport]) -> Audit {
        let boards: Vec<&Board> = self.boards.iter().map(Arc::as_ref).collect();
        let holders: Vec<&Holders> = self.holders.iter().map(Arc::as_ref).collect();
        audit(&boards, &holders, reports)
    }

    /// Nothing is missing and nothing is in two places, and workers count what NFs hold as the holder
    /// table has it.
    #[track_caller]
    pub fn check(&self) {
        let audit = self.audit();
        assert!(audit.holds(), "{audit:#?}");
        let nfs = self.instances.iter().enumerate();
        for (number, at) in nfs.filter(|(number, _)| !self.boxes.contains(&(*number as u16))) {
            let in_table = self.holders[at.region as usize].held_by(FIRST_INSTANCE + number as u16).count();
            let counted = self.boards[at.worker as usize].instances[number].held.get();
            assert_eq!(counted, in_table as u64, "packets in the hands of instance {number}");
            assert!(in_table <= self.ring as usize, "instance {number} holds more than its ring");
        }
    }

    /// Nothing moves any more, and every buffer is free.
    #[track_caller]
    pub fn finish(mut self) {
        self.settle();
        let audit = self.audit();
        for (number, region) in audit.regions.iter().enumerate() {
            assert_eq!((region.held, region.in_devices), (0, 0), "region {number}: {audit:#?}");
        }
        let free: u64 = audit.regions.iter().map(|region| region.free + region.in_links).sum();
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
            .map(|port| PortPlace { worker_for: vec![port.at.worker; layout.workers] })
            .collect(),
        instances: layout.instances.iter().map(|at| InstancePlace { worker: at.worker }).collect(),
        rules: Rules::new(&layout.rules),
    }
}
