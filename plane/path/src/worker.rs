//! A worker: one pinned thread that owns queues of ports and instances of NFs, and makes turns.
//!
//! Each turn receives a burst from each queue and sends it into first stages, drains the transmit rings
//! of its instances, takes in what other workers sent, and calls sleeping NFs. No turn allocates, locks
//! or makes a system call while the NFs are awake; commands from the control loop are the exception.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use headgate_port::{Queue, QueueCounters};
use headgate_shm::cpu::cycles;
use headgate_shm::{Descriptor, Offence, Stack};
use headgate_wire::flow_key::{FlowKey4, FlowKeyWide};

use crate::BURST;
use crate::audit::{Pause, WorkerReport};
use crate::black_box::{BlackBox, BoxEnds};
use crate::board::{Board, Station};
use crate::bound::{Bounded, Bounds};
use crate::divert::Diverts;
use crate::flows::{Entry, Flows, Seeds};
use crate::holders::{Holders, Place};
use crate::instance::{Instance, InstanceEnds};
use crate::links::Links;
use crate::plan::Plan;
use crate::pressure::Pressure;
use crate::sync::{self, AtomicU32, Ordering};

/// The buffers of one region as one worker has them.
pub struct Store {
    /// Free ones in this worker's hands.
    pub stack: Stack,
    /// Who holds each.
    pub holders: Arc<Holders>,
    /// Free buffers this worker should have when all are free.
    pub fair_share: usize,
}

/// A queue of a port in the hands of a worker.
pub struct Device {
    /// The port's number.
    pub port: u8,
    /// The queue's number.
    pub queue: u8,
    /// The region it receives into.
    pub region: u8,
    /// The queue.
    pub device: Box<dyn Queue>,
}

/// The sizes and secrets a worker starts with.
pub struct Setup {
    /// Its number.
    pub number: u8,
    /// By region number.
    pub stores: Vec<Store>,
    /// Its queues.
    pub devices: Vec<Device>,
    /// Its links to other workers.
    pub links: Links,
    /// What to work by at first.
    pub plan: Arc<Plan>,
    /// Where all workers count, by number.
    pub boards: Arc<[Arc<Board>]>,
    /// Which instances are throttled, those of other workers too.
    pub pressure: Arc<Pressure>,
    /// Which flows leave out stages.
    pub diverts: Arc<Diverts>,
    /// How many packets chains with delay bounds may have inside.
    pub bounds: Arc<Bounds>,
    /// TSC cycles in a microsecond.
    pub cycles_per_micro: u64,
    /// Most instances there can be.
    pub instances: usize,
    /// Flows to remember.
    pub flows: usize,
    /// TSC cycles of one tick of the flow table's clock.
    pub tick_cycles: u64,
    /// Ticks after which an idle flow is forgotten.
    pub idle_ticks: u32,
    /// The key of the flow hash.
    pub seeds: Seeds,
    /// Where commands come from.
    pub mailbox: Arc<Mailbox>,
    /// Where events go.
    pub events: Sender<Event>,
}

/// What the control loop asks of a worker.
pub enum Command {
    /// Work by this plan from now on.
    Plan(Arc<Plan>),
    /// Take an instance into service. The one that had its number before was reclaimed.
    Attach(Box<InstanceEnds>),
    /// Take a black box into service, as an instance.
    AttachBox(Box<BoxEnds>),
    /// Take an instance out of service: its process is gone. Answered by [`Event::Reclaimed`].
    Reclaim {
        /// The instance.
        number: u16,
    },
    /// Stand still while somebody counts.
    Pause(Arc<Pause>),
    /// List known flows.
    Flows {
        /// At most so many of each kind.
        most: usize,
        /// Where to send them.
        reply: Sender<FlowList>,
    },
    /// Measure the cost of each station, or stop.
    Measure(bool),
    /// Take in packets from ports, or nothing more; what is on its way goes on. A worker begins with it.
    Receive(bool),
    /// Give everything back and end.
    Stop,
}

/// Flows that a worker knows: key, what is known, ticks since last used.
#[derive(Default)]
pub struct FlowList {
    /// Plain IPv4.
    pub narrow: Vec<(FlowKey4, Entry, u32)>,
    /// Everything else.
    pub wide: Vec<(FlowKeyWide, Entry, u32)>,
}

/// What a worker tells the control loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An NF broke the rules of shared memory. Nothing is read from it any more.
    Offence {
        /// The instance.
        number: u16,
        /// What it did.
        offence: Offence,
    },
    /// What an instance held was taken back.
    Reclaimed {
        /// The instance.
        number: u16,
        /// Packets that died with it.
        lost: u32,
    },
}

/// How commands reach a worker without costing it more than a load in each turn.
#[derive(Default)]
pub struct Mailbox {
    waiting: AtomicU32,
    commands: sync::Mutex<Vec<Command>>,
}

impl Mailbox {
    /// Leaves a command.
    ///
    /// # Panics
    /// When the worker has panicked while it held the box.
    pub fn post(&self, command: Command) {
        let mut commands =
            self.commands.lock().expect("a worker does not panic while it empties its mailbox");
        commands.push(command);
        self.waiting.store(commands.len() as u32, Ordering::Release); // M-release, with M-acquire
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        let mut commands = self.commands.lock().expect("nobody panics while posting");
        self.waiting.store(0, Ordering::Relaxed);
        std::mem::take(&mut commands)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 // M-acquire, with M-release
    }
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Packets moved.
    Busy,
    /// Nothing to do.
    Idle,
    /// The worker was told to stop, and has.
    Stopped,
}

/// A burst on its way through stations, and what they work out of it. Kept between bursts, because arrays
/// made anew for each would be zeroed for each: some 3 ns a packet.
#[derive(Clone)]
pub(crate) struct Hands {
    pub(crate) packets: [Descriptor; BURST],
    pub(crate) places: [Place; BURST],
    pub(crate) keys: [u128; BURST],
    pub(crate) hashes: [u64; BURST],
    pub(crate) entries: [Entry; BURST],
}

impl Default for Hands {
    fn default() -> Self {
        Self {
            packets: [Descriptor::default(); BURST],
            places: [Place::default(); BURST],
            keys: [0; BURST],
            hashes: [0; BURST],
            entries: [Entry::default(); BURST],
        }
    }
}

/// Turns between two looks at slow things: sweeping flows, sending the last of a surplus home. Our
/// choice: some 100 us under load.
const SLOW_EVERY: u64 = 64;
/// Buckets of the flow table swept at each slow look. Our choice: a table of a million flows is swept in
/// some seconds, at a cost of one cache line each 64 turns.
const SWEEP_BUCKETS: usize = 8;
/// Bursts drained from one instance or link in one turn. Our choice: enough to catch up with an NF that
/// ran a whole slice, short enough that ports are not kept waiting for more than some microseconds.
pub(crate) const DRAIN_BURSTS: usize = 4;

/// One worker.
pub struct Worker {
    pub(crate) number: u8,
    pub(crate) stores: Vec<Store>,
    pub(crate) devices: Vec<Device>,
    /// Port number -> this worker's first queue of it.
    pub(crate) device_of_port: Vec<Option<u8>>,
    pub(crate) links: Links,
    pub(crate) plan: Arc<Plan>,
    pub(crate) board: Arc<Board>,
    pub(crate) boards: Arc<[Arc<Board>]>,
    pub(crate) instances: Vec<Option<Box<Instance>>>,
    pub(crate) owned: Vec<u16>,
    /// Instances that are black boxes.
    pub(crate) boxes: Vec<BlackBox>,
    pub(crate) next_box_look: u64,
    pub(crate) flows: Flows<u128>,
    pub(crate) wide_flows: Flows<[u128; 3]>,
    pub(crate) seeds: Seeds,
    pub(crate) tick: u32,
    hands: Option<Box<Hands>>,
    pub(crate) pressure: Arc<Pressure>,
    pub(crate) diverts: Arc<Diverts>,
    pub(crate) bounds: Arc<Bounds>,
    pub(crate) cycles_per_micro: u64,
    /// The chains whose windows this worker judges.
    pub(crate) bounded: Vec<Bounded>,
    /// Instances sent to rest.
    pub(crate) resting: u32,
    pub(crate) surplus_to: usize,
    pub(crate) returns_sent: u64,
    pub(crate) returns_taken: u64,
    tick_cycles: u64,
    next_tick: u64,
    mailbox: Arc<Mailbox>,
    events: Sender<Event>,
    measuring: bool,
    receiving: bool,
    mark: u64,
    /// From when on a packet that leaves is asked how long it took.
    pub(crate) next_whole: u64,
    pub(crate) station: Station,
    turns: u64,
    counters: Arc<Mutex<Vec<(u8, u8, QueueCounters)>>>,
}

impl Worker {
    /// A worker that has made no turn yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let mut device_of_port = vec![None; setup.plan.ports.len()];
        for (number, device) in setup.devices.iter().enumerate() {
            device_of_port[device.port as usize].get_or_insert(number as u8);
        }
        let mut worker = Self {
            number: setup.number,
            device_of_port,
            links: setup.links,
            plan: setup.plan,
            board: setup.boards[setup.number as usize].clone(),
            boards: setup.boards,
            instances: (0..setup.instances).map(|_| None).collect(),
            owned: Vec::with_capacity(setup.instances),
            boxes: Vec::new(),
            next_box_look: 0,
            flows: Flows::new(setup.flows, setup.idle_ticks),
            // What is neither plain IPv4 nor a VLAN of it is the smaller part of today's traffic.
            wide_flows: Flows::new(setup.flows.div_ceil(4), setup.idle_ticks),
            seeds: setup.seeds,
            tick: 0,
            hands: Some(Box::default()),
            pressure: setup.pressure,
            diverts: setup.diverts,
            bounds: setup.bounds,
            cycles_per_micro: setup.cycles_per_micro,
            bounded: Vec::new(),
            resting: 0,
            surplus_to: setup.number as usize,
            returns_sent: 0,
            returns_taken: 0,
            tick_cycles: setup.tick_cycles.max(1),
            next_tick: 0,
            mailbox: setup.mailbox,
            events: setup.events,
            measuring: false,
            receiving: true,
            mark: 0,
            next_whole: 0,
            station: Station::Tend,
            turns: 0,
            counters: Arc::new(Mutex::new(
                setup
                    .devices
                    .iter()
                    .map(|device| (device.port, device.queue, QueueCounters::default()))
                    .collect(),
            )),
            stores: setup.stores,
            devices: setup.devices,
        };
        worker.take_bounds();
        worker
    }

    /// Where the counters of this worker's queues can be read: (port, queue, counters), renewed at each
    /// slow look.
    #[must_use]
    pub fn queue_counters(&self) -> Arc<Mutex<Vec<(u8, u8, QueueCounters)>>> {
        self.counters.clone()
    }

    /// One turn. `now` is the TSC.
    pub fn turn(&mut self, now: u64) -> Turn {
        if !self.mailbox.is_empty() && self.obey(now) {
            return Turn::Stopped;
        }
        if self.measuring {
            self.mark = cycles();
        }
        let mut moved = 0;
        if self.receiving {
            for device in 0..self.devices.len() {
                moved += self.arrive(now, device);
            }
        }
        for at in 0..self.owned.len() {
            moved += self.drain(|worker| worker.hop(now, worker.owned[at]));
            self.let_in(self.owned[at]);
        }
        for at in 0..self.boxes.len() {
            moved += self.drain(|worker| worker.take_from_box(now, at));
        }
        for other in 0..self.links.count() {
            moved += self.drain(|worker| worker.take_in(now, other));
        }
        self.station = Station::Tend;
        self.tend_boxes(now);
        self.weigh(now);
        self.probe(now);
        self.judge_bounds(now);
        self.wake_sleepers(now);
        self.tend(now);
        self.passed(Station::Tend, moved);
        self.turns += 1;
        self.board.turns.set(self.turns);
        if moved == 0 {
            return Turn::Idle;
        }
        self.board.busy_turns.add(1);
        Turn::Busy
    }

    /// Has a burst's worth of arrays in hand for one station after another. Not to be nested.
    #[inline(always)]
    pub(crate) fn with_hands<R>(&mut self, work: impl FnOnce(&mut Self, &mut Hands) -> R) -> R {
        let mut hands = self.hands.take().expect("stations that need hands do not call each other");
        let result = work(self, &mut hands);
        self.hands = Some(hands);
        result
    }

    #[inline(always)]
    fn drain(&mut self, mut burst: impl FnMut(&mut Self) -> usize) -> usize {
        let mut total = 0;
        for _ in 0..DRAIN_BURSTS {
            let count = burst(self);
            total += count;
            if count < BURST {
                break;
            }
        }
        total
    }

    /// Ports flush, clocks tick, and every so often the slow things.
    fn tend(&mut self, now: u64) {
        for device in &mut self.devices {
            device.device.tend(now, &mut self.stores[device.region as usize].stack);
        }
        if now.wrapping_sub(self.next_tick) < u64::MAX / 2 {
            self.next_tick = now + self.tick_cycles;
            self.tick = self.tick.wrapping_add(1);
        }
        let slow = self.turns.is_multiple_of(SLOW_EVERY);
        if self.links.count() > 1 {
            self.send_surplus(if slow { 1 } else { BURST });
        }
        if slow {
            self.flows.sweep(SWEEP_BUCKETS, self.tick);
            self.wide_flows.sweep(SWEEP_BUCKETS, self.tick);
            self.board.flows.set((self.flows.live() + self.wide_flows.live()) as u64);
            self.publish_counters();
            let finished = self.devices.iter().all(|device| device.device.is_finished());
            self.board.finished.set(u64::from(finished));
        }
    }

    /// Skipped when somebody reads at this moment: the next look comes soon.
    fn publish_counters(&self) {
        if let Ok(mut counters) = self.counters.try_lock() {
            for (slot, device) in counters.iter_mut().zip(&self.devices) {
                slot.2 = device.device.counters();
            }
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        // Without a control loop there is nobody to tell, and the process is about to end.
        let _ = self.events.send(event);
    }

    /// Carries out what the control loop asked. True when told to stop.
    #[cold]
    fn obey(&mut self, now: u64) -> bool {
        for command in self.mailbox.take() {
            match command {
                Command::Plan(plan) => {
                    self.plan = plan;
                    self.take_bounds();
                    self.board.plan_taken();
                }
                Command::Attach(ends) => {
                    let number = ends.number;
                    let place = &mut self.instances[number as usize];
                    // The buffers of the one before would be the new one's to return.
                    debug_assert!(place.is_none(), "instance {number} is attached before it was reclaimed");
                    if place.is_none() {
                        *place = Some(Box::new(Instance::new(*ends)));
                        self.owned.push(number);
                    }
                }
                Command::AttachBox(ends) => self.boxes.push(BlackBox::new(*ends)),
                Command::Reclaim { number } => {
                    let lost = self.reclaim(now, number);
                    self.tell(Event::Reclaimed { number, lost });
                }
                Command::Pause(pause) => {
                    self.publish_counters();
                    pause.wait(self.number as usize, self.report());
                }
                Command::Flows { most, reply } => {
                    let narrow = self.flows.list(most, self.tick).into_iter();
                    let wide = self.wide_flows.list(most, self.tick).into_iter();
                    let _ = reply.send(FlowList {
                        narrow: narrow
                            .map(|(key, entry, idle)| (FlowKey4::from_bits(key), entry, idle))
                            .collect(),
                        wide: wide
                            .map(|(key, entry, idle)| (FlowKeyWide::from_words(key), entry, idle))
                            .collect(),
                    });
                }
                Command::Measure(on) => self.measuring = on,
                Command::Receive(on) => self.receiving = on,
                Command::Stop => {
                    self.publish_counters();
                    return true;
                }
            }
        }
        false
    }

    /// What it has in hand, for [`crate::audit`]. To be asked between two turns.
    #[must_use]
    pub fn report(&self) -> WorkerReport {
        WorkerReport {
            free: self.stores.iter().map(|store| store.stack.free().to_vec()).collect(),
            in_devices: (0..self.stores.len())
                .map(|region| {
                    let here = self.devices.iter().filter(|device| device.region as usize == region);
                    let in_ports: usize = here.map(|device| device.device.holds()).sum();
                    in_ports + self.boxes.iter().map(|it| it.holds(region)).sum::<usize>()
                })
                .collect(),
            in_boxes: self.boxes.iter().filter_map(BlackBox::in_chain).collect(),
            returns_sent: self.returns_sent,
            returns_taken: self.returns_taken,
        }
    }

    /// Charges the time since the last mark to a station, while stations are measured.
    #[inline(always)]
    pub(crate) fn passed(&mut self, station: Station, packets: usize) {
        if self.measuring {
            let now = cycles();
            let counts = &self.board.stations[station as usize];
            counts.cycles.add(now.wrapping_sub(self.mark));
            counts.packets.add(packets as u64);
            self.mark = now;
        }
    }

    /// A station within a station begins: what passed so far is the outer one's.
    #[inline(always)]
    pub(crate) fn enter(&mut self, station: Station) -> Station {
        let outer = self.station;
        if self.measuring {
            let now = cycles();
            self.board.stations[outer as usize].cycles.add(now.wrapping_sub(self.mark));
            self.mark = now;
        }
        self.station = station;
        outer
    }

    /// The inner station has ended.
    #[inline(always)]
    pub(crate) fn leave(&mut self, outer: Station) {
        self.station = outer;
    }
}
