//! Intake: state of a worker for packets that it takes in. From ports: which flow goes where, and which
//! chains have room. From other workers: the rings that their packets come by.

use headgate_shm::Pages;
use headgate_shm::ring::Consumer;
use headgate_units::{Ticks, WorkerId};
use headgate_wire::flow_key::{FlowKey4, FlowKeyWide};

use crate::board::Board;
use crate::bound::Windows;
use crate::flows::{Entry, Flows, Seeds, Stamp};
use crate::mesh::Parcels;
use crate::plan::Plan;
use crate::signals::Bounds;
use crate::view::View;

/// Number of lines of the flow table swept each time slow things are done. Our choice: a table of a million
/// flows is swept in some seconds, at a cost of one cache line each 4 passes.
const SWEEP_LINES: usize = 16;

/// Sizes and secrets of a flow table.
#[derive(Clone, Copy, Debug)]
pub struct FlowSetup {
    /// Number of flows to remember.
    pub capacity: usize,
    /// Length of one tick of the table's clock.
    pub tick: Ticks,
    /// Number of its ticks after which an idle flow is forgotten.
    pub idle_ticks: u32,
    /// Key of the flow hash.
    pub seeds: Seeds,
    /// Pages that it lies on, as far as the kernel gives them.
    pub pages: Pages,
}

/// Flows that a worker knows: key, entry, ticks of the table's clock since it was last used.
#[derive(Default)]
pub struct FlowList {
    /// Flows of plain IPv4.
    pub narrow: Vec<(FlowKey4, Entry, u32)>,
    /// All other flows.
    pub wide: Vec<(FlowKeyWide, Entry, u32)>,
}

/// Clock of the flow table.
pub(crate) struct FlowClock {
    tick: u32,
    next: Ticks,
    every: Ticks,
}

/// State of the stations `arrive`, `classify`, `admit`.
pub(crate) struct Intake {
    /// The worker.
    pub(crate) worker: WorkerId,
    pub(crate) flows: Flows<u128>,
    pub(crate) wide_flows: Flows<[u128; 3]>,
    pub(crate) seeds: Seeds,
    pub(crate) clock: FlowClock,
    /// Windows of chains with a delay bound, by the worker that judges them.
    windows: Windows,
    /// Packets from other workers.
    pub(crate) parcels: Parcels,
}

impl Intake {
    /// Returns an intake of a worker that knows no flow, and takes in packets of others by these rings.
    pub fn new(worker: WorkerId, setup: &FlowSetup, from: Vec<Option<Consumer>>) -> Self {
        Self {
            worker,
            flows: Flows::on(setup.pages, setup.capacity, setup.idle_ticks),
            // Other traffic than plain IPv4 and its VLANs is the smaller part today.
            wide_flows: Flows::on(setup.pages, setup.capacity.div_ceil(4), setup.idle_ticks),
            seeds: setup.seeds,
            clock: FlowClock { tick: 0, next: Ticks(0), every: setup.tick.max(Ticks(1)) },
            windows: Windows::default(),
            parcels: Parcels::new(from),
        }
    }

    /// Takes the windows of a new plan, to judge them.
    pub fn take_windows(&mut self, plan: &Plan, bounds: &Bounds, ticks_per_micro: u64) {
        self.windows.take(plan, bounds, ticks_per_micro);
    }

    /// Returns how many workers there are, this one included.
    pub const fn workers(&self) -> usize {
        self.parcels.workers()
    }

    /// Returns how many buffers came home, ever.
    pub const fn returns_taken(&self) -> u64 {
        self.parcels.returns_taken()
    }

    /// Returns the stamp of flows that are used now.
    #[inline(always)]
    pub fn stamp(&self, plan: &Plan) -> Stamp {
        Stamp::new(plan.generation, self.clock.tick)
    }

    /// Judges the windows that are due, and moves the table's clock on.
    #[inline(always)]
    pub fn tend(&mut self, view: &View) {
        self.windows.judge(view.now, view.signals);
        if self.clock.next.is_due(view.now) {
            self.clock.next = view.now + self.clock.every;
            self.clock.tick = self.clock.tick.wrapping_add(1);
        }
    }

    /// Forgets some of the flows that are idle, and counts the others.
    pub fn sweep(&mut self, board: &Board) {
        self.flows.sweep(SWEEP_LINES, self.clock.tick);
        self.wide_flows.sweep(SWEEP_LINES, self.clock.tick);
        board.flows.set((self.flows.live() + self.wide_flows.live()) as u64);
    }

    /// Returns up to `most` known flows of each kind.
    pub fn list(&self, most: usize) -> FlowList {
        let narrow = self.flows.list(most, self.clock.tick).into_iter();
        let wide = self.wide_flows.list(most, self.clock.tick).into_iter();
        FlowList {
            narrow: narrow.map(|(key, entry, idle)| (FlowKey4::from_bits(key), entry, idle)).collect(),
            wide: wide.map(|(key, entry, idle)| (FlowKeyWide::from_words(key), entry, idle)).collect(),
        }
    }
}
