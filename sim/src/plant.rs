//! The plant: everything that workers and schedulers act on: cores, NFs, links, chains and what was counted.

use std::collections::VecDeque;

use headgate_decide::pressure::{HopPressure, flow_is_shed};
use headgate_decide::spread::{FREE, SLOTS, Table, rebalance, slot};
use headgate_decide::units::{InstanceId, Instant, Span};

use crate::bounds::Bounds;
use crate::canary::{Cage, Canary};
use crate::core::{Core, Ground};
use crate::costs::Costs;
use crate::digest::Digest;
use crate::histogram::Histogram;
use crate::link::{Link, Seat};
use crate::nf::Nf;
use crate::random::Random;
use crate::ring::{Ring, Run, cut};
use crate::scene::{self, Arrivals, Scene};
use crate::sender::Fate;
use crate::timeline::{Timeline, Track};

mod processes;

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
    /// Packets that ended with an NF's process, and that came to an NF without one.
    pub(crate) died: u64,
    pub(crate) down: u64,
    /// Packets for which the ring to another worker had no room.
    pub(crate) worker_full: u64,
    /// Packets that were kept out for its delay bound.
    pub(crate) late: u64,
    /// Position of its first NF in a chain that began on another machine.
    pub(crate) from: usize,
    /// Those of the latter that an NF had worked on.
    pub(crate) wasted: u64,
    /// Worker of the port that it leaves by; `None`: any.
    pub(crate) exit: Option<usize>,
    /// Delays of packets that left since it was cleared.
    pub(crate) delays: Histogram,
}

/// A flow: where it goes, and whether its packets leave in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) chain: usize,
    /// The scene's flow that it is one of, and its slot among instances.
    pub(crate) of: usize,
    /// Whether its sender heeds what becomes of its packets, and marks of them.
    listens: bool,
    heeds_marks: bool,
    slot: usize,
    /// Number behind the last packet that entered. Packets before `moved` may be overtaken: another instance
    /// has the flow since.
    entered: u64,
    moved: u64,
    /// Number behind the last packet that left.
    next: u64,
    /// Packets that left behind later ones.
    pub(crate) overtaken: u64,
}

/// An NF of a scene: its instances, and which of them has which flows.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) instances: Vec<usize>,
    /// Those that have a process.
    pub(crate) running: Vec<usize>,
    table: Table,
}

impl Stage {
    fn new(instances: Vec<usize>) -> Self {
        let mut stage = Self { running: Vec::new(), table: [FREE; SLOTS], instances: instances.clone() };
        stage.run_by(instances);
        stage
    }

    /// Spreads flows over those that have a process.
    fn run_by(&mut self, running: Vec<usize>) {
        let all: Vec<InstanceId> = running.iter().map(|&instance| InstanceId(instance as u16)).collect();
        rebalance(&mut self.table, &all);
        self.running = running;
    }

    /// Returns the instance that has the flows of a slot; `None`: none has a process.
    fn instance_of(&self, slot: usize) -> Option<usize> {
        (!self.running.is_empty()).then(|| self.table[slot].index())
    }
}

/// Where packets go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To an instance.
    Instance(usize),
    /// To an NF of which no instance has a process.
    Down,
    /// Out of a port.
    Out,
}

/// The whole plant.
#[derive(Clone, Debug)]
pub(crate) struct Plant {
    pub(crate) costs: Costs,
    pub(crate) cores: Vec<Core>,
    pub(crate) nfs: Vec<Nf>,
    /// Links by instance, as `nfs` are.
    pub(crate) links: Vec<Link>,
    /// NFs of the scene, and the one that each instance is of.
    pub(crate) stages: Vec<Stage>,
    pub(crate) of: Vec<usize>,
    /// Ways on from each NF of the scene: chains, and the position behind it.
    ways: Vec<Vec<(usize, usize)>>,
    /// Packets between workers, by the one they come from and the one they go to.
    pub(crate) mesh: Vec<Ring>,
    /// Workers that rest until something comes, and those of them to which something came.
    pub(crate) rests: Vec<bool>,
    pub(crate) woken: VecDeque<usize>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) flows: Vec<Flow>,
    bytes: Vec<u32>,
    /// Windows of chains with delay bounds.
    pub(crate) bounds: Bounds,
    /// Packets that left, where they go on to another machine.
    pub(crate) exports: Option<Vec<(Instant, Run)>>,
    /// What became of packets whose senders heed it, since somebody told them.
    pub(crate) news: Vec<(u16, u32, Fate)>,
    /// The bug that a test put in.
    pub(crate) cage: Cage,
    /// When instances were throttled, where that is kept, and since when they are.
    pub(crate) throttles: Option<Track>,
    throttled_since: Vec<Option<Instant>>,
    /// Number of throttled NFs.
    pub(crate) throttled: usize,
    /// Digest of what happened to packets.
    digest: Digest,
}

impl Plant {
    pub(crate) fn new(scene: &Scene) -> Self {
        let places = || scene.nfs.iter().flat_map(scene::Nf::places);
        let count = places().map(|place| usize::from(place.core) + 1).max().unwrap_or(0);
        let workers = usize::from(scene.workers);
        let mut plant = Self {
            costs: scene.costs.clone(),
            cores: (0..count).map(|core| new_core(core as u64, scene)).collect(),
            nfs: Vec::new(),
            links: Vec::new(),
            stages: Vec::new(),
            of: Vec::new(),
            ways: Vec::new(),
            mesh: vec![Ring::default(); workers * workers],
            rests: vec![false; workers],
            woken: VecDeque::new(),
            chains: scene.chains.iter().map(Chain::new).collect(),
            flows: flows_of(scene),
            bytes: Vec::new(),
            bounds: Bounds::new(scene),
            exports: None,
            news: Vec::new(),
            cage: Cage::default(),
            throttles: None,
            throttled_since: Vec::new(),
            throttled: 0,
            digest: Digest::default(),
        };
        plant.bytes = plant.flows.iter().map(|flow| scene.flows[flow.of].bytes).collect();
        plant.add_instances(scene);
        plant
    }

    /// Adds instances: first the first one of each NF, so that their numbers are the NFs'.
    fn add_instances(&mut self, scene: &Scene) {
        let first = scene.nfs.iter().enumerate().filter_map(|(nf, of)| Some((nf, of.places().next()?)));
        let further = scene.nfs.iter().enumerate();
        let further = further.flat_map(|(nf, of)| of.places().skip(1).map(move |place| (nf, place)));
        for (number, (nf, place)) in first.chain(further).enumerate() {
            let described = &scene.nfs[nf];
            let mut random = Random::stream(scene.seed, NFS + number as u64);
            let starts = Instant(random.below(STARTS_WITHIN.0));
            let made = Nf::new(described, random);
            let core = usize::from(place.core);
            let domain = usize::from(described.domain);
            let part = scene.domains.get(domain).copied().unwrap_or(1);
            let task = self.cores[core].add(number, described, (described.domain, part), starts);
            let seat = Seat { core, task, worker: place.worker.into(), domain: described.domain as u8 };
            self.links.push(Link::new(seat, described, &scene.scheduler, made.sleeps()));
            self.nfs.push(made);
            self.throttled_since.push(None);
            self.of.push(nf);
        }
        let instances = |nf: usize| (0..self.of.len()).filter(|&number| self.of[number] == nf).collect();
        self.stages = (0..scene.nfs.len()).map(|nf| Stage::new(instances(nf))).collect();
        let behind = |(number, chain): (usize, &Chain), nf| Some((number, chain.position_of(nf)? + 1));
        let ways = |nf| self.chains.iter().enumerate().filter_map(|of| behind(of, nf)).collect();
        self.ways = (0..scene.nfs.len()).map(ways).collect();
    }

    /// Returns where a flow goes at a position of its chain.
    pub(crate) fn way(&self, flow: u16, position: u8) -> Way {
        let flow = &self.flows[usize::from(flow)];
        let chain = &self.chains[flow.chain];
        // Whoever was before the first NF here is on another machine.
        let Some(place) = usize::from(position).checked_sub(chain.from) else { return Way::Down };
        match chain.stages.get(place) {
            Some(nf) => self.stages[*nf].instance_of(flow.slot).map_or(Way::Down, Way::Instance),
            None => Way::Out,
        }
    }

    /// Returns the instance to which a flow goes at a position of its chain; `None`: to none.
    fn instance_at(&self, flow: u16, position: u8) -> Option<usize> {
        match self.way(flow, position) {
            Way::Instance(instance) => Some(instance),
            Way::Down | Way::Out => None,
        }
    }

    /// Packets come to an NF without a process.
    pub(crate) fn end_at_down(&mut self, run: &Run) {
        self.tell_sender(run, Fate::Lost);
        let packets = u64::from(run.packets);
        let chain = &mut self.chains[self.flows[usize::from(run.flow)].chain];
        chain.down += packets;
        chain.wasted += if run.position > 0 { packets } else { 0 };
    }

    /// Notes what became of packets, where their sender heeds it.
    pub(crate) fn tell_sender(&mut self, run: &Run, fate: Fate) {
        if self.flows[usize::from(run.flow)].listens {
            self.news.push((run.flow, run.packets, fate));
        }
    }

    /// Notes that packets of a flow enter their chain. Returns whether an NF of it has no process.
    pub(crate) fn enter(&mut self, run: &Run) -> bool {
        let flow = &mut self.flows[usize::from(run.flow)];
        flow.entered = run.number + u64::from(run.packets);
        let chain = &mut self.chains[flow.chain];
        chain.entered += u64::from(run.packets);
        chain.stages.iter().any(|nf| self.stages[*nf].running.is_empty())
    }

    /// Sends packets to another worker. Those for which its ring has no room end.
    pub(crate) fn ship(&mut self, from: usize, to: usize, run: Run) {
        let ring = &mut self.mesh[from * self.rests.len() + to];
        let (fits, late) = cut(run, MESH - ring.packets());
        if let Some(run) = fits {
            ring.push(run);
        }
        if let Some(late) = late {
            let chain = self.flows[usize::from(late.flow)].chain;
            self.chains[chain].worker_full += u64::from(late.packets);
            self.tell_sender(&late, Fate::Lost);
        }
        if std::mem::take(&mut self.rests[to]) {
            self.woken.push_back(to);
        }
    }

    /// Advances a core to a moment.
    pub(crate) fn advance(&mut self, core: usize, now: Instant) {
        let ground = Ground { costs: &self.costs, bytes: &self.bytes };
        self.cores[core].advance(now, &mut self.nfs, ground);
    }

    /// Notes that an instance is throttled from now on, or no longer.
    pub(crate) fn note_throttled(&mut self, now: Instant, instance: usize, is_throttled: bool) {
        self.throttled = if is_throttled { self.throttled + 1 } else { self.throttled - 1 };
        let since = std::mem::replace(&mut self.throttled_since[instance], is_throttled.then_some(now));
        if let (Some(track), Some(since)) = (&mut self.throttles, since) {
            track.add(instance, since, now);
        }
    }

    /// Keeps what happens when from now on.
    pub(crate) fn keep_timeline(&mut self) {
        self.cores.iter_mut().for_each(|core| core.track = Some(Track::default()));
        self.throttles = Some(Track::default());
    }

    /// Returns what happened when, by now.
    pub(crate) fn timeline(&mut self, now: Instant) -> Timeline {
        let mut throttled = self.throttles.take().unwrap_or_default();
        for (instance, since) in self.throttled_since.iter().enumerate() {
            if let Some(since) = since {
                throttled.add(instance, *since, now);
            }
        }
        let of_core = |core: &mut Core| core.track.take().unwrap_or_default();
        Timeline { cores: self.cores.iter_mut().map(of_core).collect(), throttled }
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
        let is_marked = run.is_marked && self.flows[usize::from(run.flow)].heeds_marks;
        self.tell_sender(run, if is_marked { Fate::Marked } else { Fate::Left });
        let flow = &mut self.flows[usize::from(run.flow)];
        let behind = run.number + u64::from(run.packets);
        if run.number < flow.next && run.number >= flow.moved {
            flow.overtaken += u64::from(run.packets);
        }
        flow.next = flow.next.max(behind);
        let chain = &mut self.chains[flow.chain];
        chain.left += u64::from(run.packets);
        chain.delays.add((now - run.arrived).0, run.packets.into());
        self.bounds.on_left(flow.chain, now, run.arrived);
        if let Some(exports) = &mut self.exports {
            exports.push((now, *run));
        }
        self.digest.event(now, run.flow.into(), run.number << 16 ^ u64::from(run.packets));
    }

    fn end_at_full(&mut self, run: &Run) {
        self.tell_sender(run, Fate::Lost);
        let packets = u64::from(run.packets);
        let chain = &mut self.chains[self.flows[usize::from(run.flow)].chain];
        chain.full += packets;
        chain.throttled += if self.cage.has(Canary::CountedTwice) { packets } else { 0 };
        if run.position > 0 {
            chain.wasted += packets;
            if let Some(before) = self.instance_at(run.flow, run.position - 1) {
                self.links[before].counts.wasted += packets;
            }
        }
    }

    /// Returns the facts about the NFs of a chain from a position on.
    pub(crate) fn hops(
        &self,
        chain: usize,
        from: usize,
    ) -> impl DoubleEndedIterator<Item = HopPressure> + ExactSizeIterator {
        let hop = |nf: &usize| {
            let instances = &self.stages[*nf].running;
            HopPressure {
                throttled: !instances.is_empty()
                    && instances.iter().all(|&one| self.links[one].load.is_throttled()),
                diverts: false,
                spreads: instances.len() > 1,
            }
        };
        self.chains[chain].stages[from..].iter().map(hop)
    }

    /// Returns whether a flow comes to a throttled instance.
    pub(crate) fn flow_is_shed(&self, flow: u16) -> bool {
        let chain = &self.chains[self.flows[usize::from(flow)].chain];
        let (from, count) = (chain.from as u8, chain.stages.len() as u8);
        let instances = (0..count).filter_map(|at| Some((at, self.instance_at(flow, from + at)?)));
        flow_is_shed(instances.map(|(at, one)| (at, self.links[one].load.is_throttled())), 0)
    }

    /// Returns the ways on from an instance: each a chain and the position behind its NF.
    pub(crate) fn ways_on(&self, instance: usize) -> &[(usize, usize)] {
        &self.ways[self.of[instance]]
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
/// Packets that a ring to another worker holds (`mesh.rs` of the path).
const MESH: u32 = 2_048;
/// The first random streams of NFs, cores and workers; flows have those from 0 on.
const NFS: u64 = 1 << 32;
const CORES: u64 = 1 << 33;
const HASHES: u64 = 1 << 35;
pub(crate) const WORKERS: u64 = 1 << 34;

fn new_core(number: u64, scene: &Scene) -> Core {
    Core::new(number, &scene.costs, scene.scheduler.rt_percent, Random::stream(scene.seed, CORES + number))
}

impl Chain {
    fn new(described: &scene::Chain) -> Self {
        Self {
            stages: described.stages.iter().map(|&nf| nf.into()).collect(),
            exit: described.exit.map(usize::from),
            entered: 0,
            left: 0,
            throttled: 0,
            full: 0,
            died: 0,
            down: 0,
            worker_full: 0,
            late: 0,
            from: described.from.into(),
            wasted: 0,
            delays: Histogram::default(),
        }
    }

    /// Returns how many packets have left it or ended.
    pub(crate) const fn gone(&self) -> u64 {
        self.left + self.throttled + self.full + self.worker_full + self.late + self.died + self.down
    }

    /// Returns the place of an NF among those of this machine.
    pub(crate) fn position_of(&self, nf: usize) -> Option<usize> {
        self.stages.iter().position(|stage| *stage == nf)
    }
}

/// Returns the flows of a scene, one for each that a described one stands for: first the first ones, so that
/// their numbers are those of the scene.
fn flows_of(scene: &Scene) -> Vec<Flow> {
    let flow = |(number, of, _): (usize, usize, u16)| Flow {
        chain: scene.flows[of].chain.into(),
        of,
        listens: matches!(scene.flows[of].arrivals, Arrivals::Tcp { .. }),
        heeds_marks: matches!(scene.flows[of].arrivals, Arrivals::Tcp { ecn: true, .. }),
        slot: slot(Random::stream(scene.seed, HASHES + number as u64).next() as u32),
        entered: 0,
        moved: 0,
        next: 0,
        overtaken: 0,
    };
    numbered_flows(scene).map(flow).collect()
}

/// Returns the flows of a scene: the number of each, that of the scene's flow, and which part of it.
pub(crate) fn numbered_flows(scene: &Scene) -> impl Iterator<Item = (usize, usize, u16)> {
    let first = (0..scene.flows.len()).map(|of| (of, 0));
    let further = scene.flows.iter().enumerate();
    let further = further.flat_map(|(of, flow)| (1..flow.flows).map(move |part| (of, part)));
    first.chain(further).enumerate().map(|(number, (of, part))| (number, of, part))
}
