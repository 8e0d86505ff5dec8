//! The plant: everything that workers and schedulers act on: cores, NFs, links, chains and what was counted.

use headgate_decide::pressure::HopPressure;
use headgate_decide::units::{Instant, Span};

use crate::canary::{Cage, Canary};
use crate::core::{Core, Ground};
use crate::costs::Costs;
use crate::digest::Digest;
use crate::histogram::Histogram;
use crate::link::{Link, Seat};
use crate::nf::Nf;
use crate::random::Random;
use crate::ring::Run;
use crate::scene::Scene;

/// A chain and its counts, ever.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// NFs, in order.
    pub(crate) stages: Vec<usize>,
    pub(crate) entered: u64,
    pub(crate) left: u64,
    /// Packets that were shed at the head, and that found no room.
    pub(crate) throttled: u64,
    pub(crate) full: u64,
    /// Those of the latter that an NF had worked on.
    pub(crate) wasted: u64,
    /// Delays of packets that left since it was cleared.
    pub(crate) delays: Histogram,
}

/// A flow: where it goes, and whether its packets leave in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) chain: usize,
    /// Number behind the last packet that left.
    next: u64,
    /// Packets that left behind later ones.
    pub(crate) overtaken: u64,
}

/// The whole plant.
#[derive(Clone, Debug)]
pub(crate) struct Plant {
    pub(crate) costs: Costs,
    pub(crate) cores: Vec<Core>,
    pub(crate) nfs: Vec<Nf>,
    /// Links by NF.
    pub(crate) links: Vec<Link>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) flows: Vec<Flow>,
    bytes: Vec<u32>,
    /// The bug that a test put in.
    pub(crate) cage: Cage,
    /// Number of throttled NFs.
    pub(crate) throttled: usize,
    /// Digest of what happened to packets.
    digest: Digest,
}

impl Plant {
    pub(crate) fn new(scene: &Scene) -> Self {
        let count = scene.nfs.iter().map(|nf| usize::from(nf.core) + 1).max().unwrap_or(0);
        let mut plant = Self {
            costs: scene.costs.clone(),
            cores: (0..count).map(|core| new_core(core as u64, scene)).collect(),
            nfs: Vec::new(),
            links: Vec::new(),
            chains: scene.chains.iter().map(|chain| Chain::new(&chain.stages)).collect(),
            flows: scene.flows.iter().map(|flow| Flow::new(flow.chain)).collect(),
            bytes: scene.flows.iter().map(|flow| flow.bytes).collect(),
            cage: Cage::default(),
            throttled: 0,
            digest: Digest::default(),
        };
        for (number, described) in scene.nfs.iter().enumerate() {
            let mut random = Random::stream(scene.seed, NFS + number as u64);
            let starts = Instant(random.below(STARTS_WITHIN.0));
            let nf = Nf::new(described, random);
            let core = usize::from(described.core);
            let task = plant.cores[core].add(number, described.policy, starts);
            let seat = Seat { core, task, worker: described.worker.into() };
            plant.links.push(Link::new(seat, described, &scene.scheduler, nf.sleeps()));
            plant.nfs.push(nf);
        }
        plant
    }

    /// Advances a core to a moment.
    pub(crate) fn advance(&mut self, core: usize, now: Instant) {
        let ground = Ground { costs: &self.costs, bytes: &self.bytes };
        self.cores[core].advance(now, &mut self.nfs, ground);
    }

    /// Hands packets to an NF.
    pub(crate) fn deliver(&mut self, nf: usize, run: Run) {
        let delivered = self.links[nf].deliver(run);
        if let Some(run) = delivered.now {
            self.nfs[nf].receive.push(run);
        }
        if let Some(run) = delivered.ended {
            self.end_at_full(&run);
        }
    }

    /// Packets leave by a port.
    pub(crate) fn leave(&mut self, now: Instant, run: &Run) {
        let flow = &mut self.flows[usize::from(run.flow)];
        if run.number < flow.next {
            flow.overtaken += u64::from(run.packets);
        }
        flow.next = run.number + u64::from(run.packets);
        let chain = &mut self.chains[flow.chain];
        chain.left += u64::from(run.packets);
        chain.delays.add((now - run.arrived).0, run.packets.into());
        self.digest.event(now, run.flow.into(), run.number << 16 ^ u64::from(run.packets));
    }

    fn end_at_full(&mut self, run: &Run) {
        let packets = u64::from(run.packets);
        let chain = &mut self.chains[self.flows[usize::from(run.flow)].chain];
        chain.full += packets;
        chain.throttled += if self.cage.has(Canary::CountedTwice) { packets } else { 0 };
        if run.position > 0 {
            chain.wasted += packets;
            self.links[chain.stages[usize::from(run.position) - 1]].counts.wasted += packets;
        }
    }

    /// Returns the facts about the NFs of a chain from a position on.
    pub(crate) fn hops(
        &self,
        chain: usize,
        from: usize,
    ) -> impl DoubleEndedIterator<Item = HopPressure> + ExactSizeIterator {
        let hop = |nf: &usize| HopPressure {
            throttled: self.links[*nf].load.is_throttled(),
            ..HopPressure::default()
        };
        self.chains[chain].stages[from..].iter().map(hop)
    }

    /// Returns the ways on from an NF: each a chain and the position behind it.
    pub(crate) fn ways_on(&self, nf: usize) -> impl Iterator<Item = (usize, usize)> {
        let chains = self.chains.iter().enumerate();
        chains.filter_map(move |(number, chain)| Some((number, chain.position_of(nf)? + 1)))
    }

    /// Returns the digest of everything that happened.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = self.digest;
        for core in &self.cores {
            digest.fold(core.digest.value());
        }
        digest.value()
    }
}

/// Time in which all NFs start, each at a moment of its own: of tasks that start at once the kernel would see
/// no difference for ever. Our choice: some ticks.
const STARTS_WITHIN: Span = Span::from_millis(20);
/// The first random streams of NFs, cores and workers; flows have those from 0 on.
const NFS: u64 = 1 << 32;
const CORES: u64 = 1 << 33;
pub(crate) const WORKERS: u64 = 1 << 34;

fn new_core(number: u64, scene: &Scene) -> Core {
    Core::new(number, &scene.costs, Random::stream(scene.seed, CORES + number))
}

impl Chain {
    fn new(stages: &[u16]) -> Self {
        Self {
            stages: stages.iter().map(|&nf| nf.into()).collect(),
            entered: 0,
            left: 0,
            throttled: 0,
            full: 0,
            wasted: 0,
            delays: Histogram::default(),
        }
    }

    /// Returns the position of an NF.
    pub(crate) fn position_of(&self, nf: usize) -> Option<usize> {
        self.stages.iter().position(|stage| *stage == nf)
    }
}

impl Flow {
    const fn new(chain: u16) -> Self {
        Self { chain: chain as usize, next: 0, overtaken: 0 }
    }
}
