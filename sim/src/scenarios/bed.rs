//! What scenarios are made of: scenes on one core, the modes of the scheduler, and figures that stand beside.

use headgate_decide::units::Span;

use crate::costs::Costs;
use crate::report::Report;
use crate::scene::{Arrivals, Chain, Cost, Flow, Idle, Nf, Policy, Scene, Scheduler, Waits};
use crate::world::{Resolution, World};

/// Packets per second of a link of 10 Gbit/s with frames of 64 bytes.
pub(super) const LINE_RATE: u64 = 14_880_952;
/// Places of a ring where nothing else is said (`ring` of the configuration).
const RING: u32 = 4096;

/// A figure that stands beside a simulated one: the value's name, what was measured, and the paper's.
pub(super) type Beside = (&'static str, &'static str, &'static str);

/// A scenario: scenes that are compared with each other.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Its cases, each a name and a scene.
    pub cases: Vec<(String, Scene)>,
    /// Figures that stand beside.
    pub(super) beside: &'static [Beside],
}

impl Scenario {
    /// Runs one of its cases.
    #[must_use]
    pub fn run(&self, case: usize) -> Report {
        World::new(self.cases[case].1.clone(), Resolution::default()).run()
    }

    /// Returns what stands beside a value: measured, and the paper's.
    #[must_use]
    pub fn beside(&self, value: &str) -> Option<(&'static str, &'static str)> {
        let found = self.beside.iter().find(|(name, ..)| *name == value)?;
        Some((found.1, found.2))
    }
}

/// Way in which cores are shared, as `[scheduler] mode` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Os,
    Weights,
    Backpressure,
    Nfvnice,
    Unis,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Weights => "weights",
            Self::Backpressure => "backpressure",
            Self::Nfvnice => "nfvnice",
            Self::Unis => "unis",
        }
    }

    /// The scheduler of the benchmarks: they bound no load.
    fn scheduler(self) -> Scheduler {
        Scheduler {
            weighs: matches!(self, Self::Weights | Self::Nfvnice),
            presses_back: matches!(self, Self::Backpressure | Self::Nfvnice),
            slices: self == Self::Unis,
            claim_cores: 64,
            ..Scheduler::default()
        }
    }
}

/// Returns an NF of this cost on core 0.
fn nf(number: usize, cycles: u64) -> Nf {
    Nf {
        name: format!("nf{}", number + 1),
        core: 0,
        worker: 0,
        ring: RING,
        priority: 1,
        policy: Policy::Normal,
        waits: Waits::Notified,
        cost: Cost::Fixed(cycles),
        changes: Vec::new(),
        instances: Vec::new(),
        domain: 0,
        pauses: None,
        rt_priority: 1,
        slice: None,
    }
}

/// Returns NFs of these costs on one core, and chains over them, each with this rate of small frames.
pub(super) fn on_one_core(cycles: &[u64], chains: &[(&[u16], u64)]) -> Scene {
    let flow = |(number, (_, rate)): (usize, &(&[u16], u64))| Flow {
        chain: number as u16,
        worker: 0,
        bytes: 64,
        arrivals: Arrivals::Constant { rate: *rate },
        flows: 1,
        silent: false,
    };
    let chain = |(number, (stages, _)): (usize, &(&[u16], u64))| Chain {
        name: format!("chain{}", number + 1),
        stages: stages.to_vec(),
        exit: None,
        floor: None,
        bound: None,
        from: 0,
    };
    Scene {
        seed: 1,
        warm_up: Span::from_millis(300),
        horizon: Span::from_secs(1),
        costs: Costs::default(),
        scheduler: Scheduler::default(),
        workers: 1,
        idle: Idle::Spin,
        domains: Vec::new(),
        nfs: cycles.iter().enumerate().map(|(number, cycles)| nf(number, *cycles)).collect(),
        chains: chains.iter().enumerate().map(chain).collect(),
        flows: chains.iter().enumerate().map(flow).collect(),
        faults: Vec::new(),
        captures: Vec::new(),
        rates: Vec::new(),
    }
}

impl Scene {
    /// The same under another scheduler.
    pub(super) fn scheduled(mut self, policy: Policy, mode: Mode) -> Self {
        self.scheduler = mode.scheduler();
        self.nfs.iter_mut().for_each(|nf| nf.policy = policy);
        self
    }
}
