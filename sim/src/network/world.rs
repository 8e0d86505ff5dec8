//! A network while it runs: flows arrive, end, move; epochs pass; things fail.

use std::collections::{BTreeMap, BTreeSet};

use headgate_decide::market::demand::Use;
use headgate_decide::market::solver::Solver;
use headgate_decide::market::view::PriceView;
use headgate_decide::steer::cost::Terrain;
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::Instant;

use super::checker::Checker;
use super::fluid::{Fluid, PathId};
use super::graph::Routes;
use super::ground::{Field, Ground, Layout, Trip};
use super::instances::Instances;
use super::scene::{Fault, NetworkScene};
use super::steering::Steering;
use super::tally::{NetworkReport, Sums};
use crate::digest::Digest;
use crate::random::Random;

/// What flows have in common: where they go, and through which instances.
pub(super) type PathKey = (Trip, Vec<Owner>);

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) trip: Trip,
    pub(super) hash: u32,
    pub(super) begun: Instant,
    pub(super) ended: Option<Instant>,
    /// Where it is: its path and its ticket there; `None` while it waits for a way.
    pub(super) place: Option<(PathId, u64)>,
    /// Bits that a waiting flow still has.
    left: f64,
    pub(super) moved: Option<Instant>,
}

/// Flows of a host that arrive.
#[derive(Debug)]
struct Source {
    random: Random,
    next: Instant,
}

pub(super) struct World<'a> {
    pub(super) scene: &'a NetworkScene,
    pub(super) layout: Layout,
    pub(super) routes: Routes,
    pub(super) fluid: Fluid,
    pub(super) ground: Ground,
    pub(super) instances: Instances,
    pub(super) steering: Steering,
    pub(super) solver: Solver,
    pub(super) prices: PriceView,
    pub(super) flows: Vec<Flow>,
    pub(super) live: BTreeSet<u64>,
    pub(super) waiting: BTreeSet<u64>,
    pub(super) paths: BTreeMap<PathKey, PathId>,
    pub(super) keys: Vec<PathKey>,
    sources: Vec<Source>,
    pub(super) faults: Vec<Fault>,
    pub(super) down: BTreeSet<NodeId>,
    pub(super) cut: BTreeSet<u32>,
    pub(super) sums: Sums,
    pub(super) report: NetworkReport,
    pub(super) checker: Checker,
    digest: Digest,
    shared: Instant,
    /// When demand was looked at last.
    pub(super) looked: Instant,
    pub(super) epoch: u64,
}

/// Runs a scene to its horizon.
#[must_use]
pub fn run(scene: &NetworkScene) -> NetworkReport {
    let mut world = World::new(scene);
    world.run();
    world.finish()
}

const NS: f64 = 1e9;

/// What happens next; of one moment in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Fault,
    End,
    Epoch,
    Arrival(usize),
    Share,
}

impl<'a> World<'a> {
    fn new(scene: &'a NetworkScene) -> Self {
        let layout = Layout::new(scene);
        let routes = Routes::new(&scene.graph, |_| true);
        let kappas = vec![0.0; layout.rates.len()];
        let mut instances = Instances::default();
        let none = BTreeMap::new();
        let empty =
            Ground::new(&layout, &routes, scene.graph.nodes(), kappas.clone(), (scene.services(), &none));
        instances.place_first(scene, &layout, &empty);
        let among = (scene.services(), &instances.all);
        let ground = Ground::new(&layout, &routes, scene.graph.nodes(), kappas, among);
        let mut faults = scene.faults.clone();
        faults.sort_by_key(|fault| fault.at.0);
        let mut world = Self {
            fluid: Fluid::new(scene.sharing, layout.rates.clone()),
            prices: PriceView::new(scene.source, scene.period, layout.rates.len()),
            checker: Checker::default(),
            steering: Steering::new(scene.seed),
            solver: Solver::default(),
            flows: Vec::new(),
            live: BTreeSet::new(),
            waiting: BTreeSet::new(),
            paths: BTreeMap::new(),
            keys: Vec::new(),
            sources: Vec::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            sums: Sums::default(),
            report: NetworkReport::default(),
            digest: Digest::default(),
            shared: Instant(0),
            looked: Instant(0),
            epoch: 0,
            faults,
            scene,
            layout,
            routes,
            ground,
            instances,
        };
        world.sources = sources(scene);
        world
    }

    fn run(&mut self) {
        let horizon = Instant(0) + self.scene.horizon;
        let mut fault = 0;
        loop {
            let (now, event) = self.next(fault);
            if now > horizon {
                break;
            }
            match event {
                Event::Fault => {
                    self.on_fault(now, self.faults[fault]);
                    fault += 1;
                }
                Event::End => self.on_end(now),
                Event::Epoch => {
                    self.epoch += 1;
                    self.on_epoch(now);
                }
                Event::Arrival(source) => self.on_arrival(now, source),
                Event::Share => {}
            }
            let is_due = (now - self.shared).0 >= self.scene.resolution.0;
            if self.fluid.is_stale() && is_due {
                self.fluid.share(now);
                self.shared = now;
            }
        }
        // What is under way has come so far.
        self.look(horizon);
    }

    fn next(&mut self, fault: usize) -> (Instant, Event) {
        let fault = self.faults.get(fault).map(|fault| (Instant(0) + fault.at, Event::Fault));
        let end = self.fluid.next_end().map(|at| (at, Event::End));
        let epoch = Some((Instant(0) + self.scene.period.times(self.epoch + 1), Event::Epoch));
        let arrivals = self.sources.iter().enumerate().map(|(at, source)| (source.next, Event::Arrival(at)));
        let share = self.fluid.is_stale().then(|| (self.shared + self.scene.resolution, Event::Share));
        let all = [fault, end, epoch, arrivals.min(), share].into_iter().flatten();
        all.min().unwrap_or((Instant(u64::MAX), Event::Epoch))
    }

    fn on_arrival(&mut self, now: Instant, at: usize) {
        let scene = self.scene;
        let mean = scene.hosts.len() as f64 / scene.arrivals() * NS;
        let Source { random, next } = &mut self.sources[at];
        // One random number of each kind for each flow, so that modes see the same flows.
        let other = random.below(scene.hosts.len() as u64 - 1) as usize;
        let egress = scene.hosts[if other < at { other } else { other + 1 }];
        let total: f64 = scene.chains.iter().map(|(_, weight)| weight).sum();
        let mut place = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * total;
        let chain = scene.chains.iter().position(|(_, weight)| {
            place -= weight;
            place < 0.0
        });
        let (bits, hash) = (scene.sizes.draw(random), random.next() as u32);
        *next = Instant(now.0.saturating_add((random.exponential(mean) as u64).max(1)));
        let trip = Trip { chain: chain.unwrap_or(0) as u32, ingress: scene.hosts[at], egress };
        if self.down.contains(&trip.ingress) {
            return;
        }
        self.report.begun += 1;
        self.report.events += 1;
        let flow = self.flows.len() as u64;
        self.flows.push(Flow { trip, hash, begun: now, ended: None, place: None, left: bits, moved: None });
        self.live.insert(flow);
        self.enter(now, flow);
    }

    /// Steers a flow that has no path, and lets it begin, or wait.
    pub(super) fn enter(&mut self, now: Instant, flow: u64) {
        let Flow { trip, hash, left, begun, .. } = self.flows[flow as usize];
        let found = {
            let (field, steering) = split(self);
            steering.choose(field, trip, hash, left)
        };
        match found {
            Some(owners) => {
                if begun == now {
                    self.count_way(now, trip, &owners);
                }
                self.put(now, flow, (trip, owners));
            }
            None => {
                self.waiting.insert(flow);
            }
        }
    }

    /// Puts a flow on a path.
    pub(super) fn put(&mut self, now: Instant, flow: u64, key: PathKey) {
        self.checker.on_path(&self.scene.chains[key.0.chain as usize].0, &key.1, &self.instances.all);
        let known = self.paths.get(&key).copied();
        let path = known.unwrap_or_else(|| {
            let way = self.way(&key);
            let path = self.fluid.open(now, way);
            self.keys.push(key.clone());
            self.paths.insert(key, path);
            path
        });
        let ticket = self.fluid.begin(now, path, flow, self.flows[flow as usize].left);
        self.flows[flow as usize].place = Some((path, ticket));
        self.waiting.remove(&flow);
    }

    /// Takes a flow off its path.
    pub(super) fn take(&mut self, now: Instant, flow: u64) {
        if let Some((path, ticket)) = self.flows[flow as usize].place.take() {
            self.flows[flow as usize].left = self.fluid.leave(now, path, flow, ticket);
        }
    }

    /// Links and cores of a path, in the order in which packets pass them.
    fn way(&self, (trip, owners): &PathKey) -> Vec<Use> {
        let one = |resource| Use { resource, coefficient: 1.0 };
        let mut node = trip.ingress;
        let mut way = Vec::new();
        for owner in owners {
            way.extend(self.routes.links(node, owner.node).map(one));
            way.extend(self.instances.all.get(owner).map(|instance| one(instance.core)));
            node = owner.node;
        }
        way.extend(self.routes.links(node, trip.egress).map(one));
        way
    }

    fn count_way(&mut self, now: Instant, trip: Trip, owners: &[Owner]) {
        if now < Instant(0) + self.scene.warm_up {
            return;
        }
        let nodes = owners.iter().map(|owner| owner.node).chain([trip.egress]);
        let mut from = trip.ingress;
        self.sums.hops +=
            nodes.map(|node| self.ground.hops(std::mem::replace(&mut from, node), node)).sum::<f64>();
        self.sums.shortest += self.ground.hops(trip.ingress, trip.egress);
        self.sums.steered += 1;
    }

    fn on_end(&mut self, now: Instant) {
        if let Some(flow) = self.fluid.end(now) {
            let one = &mut self.flows[flow as usize];
            (one.ended, one.place) = (Some(now), None);
            self.live.remove(&flow);
            self.report.finished += 1;
            self.report.events += 1;
            self.digest.event(now, flow, 1);
        }
    }

    /// Whether a node works.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        !self.down.contains(&node)
    }

    /// Prices and instances as they are now, for steering.
    pub(super) fn ground_anew(&mut self) {
        let kappas = self.ground.kappas.clone();
        let among = (self.scene.services(), &self.instances.all);
        self.ground = Ground::new(&self.layout, &self.routes, self.scene.graph.nodes(), kappas, among);
        self.steering.on_change();
    }

    fn finish(mut self) -> NetworkReport {
        let (warm, horizon) = (Instant(0) + self.scene.warm_up, Instant(0) + self.scene.horizon);
        let age = |flow: &Flow| (flow.ended.unwrap_or(horizon) - flow.begun).as_secs_f64();
        let lost =
            |number: usize| self.flows[number].ended.is_none() && !self.live.contains(&(number as u64));
        let judged: Vec<&Flow> = self
            .flows
            .iter()
            .enumerate()
            .filter(|(number, flow)| flow.begun >= warm && !lost(*number))
            .map(|(_, flow)| flow)
            .collect();
        let mean =
            |flows: &[&Flow]| flows.iter().map(|flow| age(flow)).sum::<f64>() / flows.len().max(1) as f64;
        let done: Vec<&Flow> = judged.iter().copied().filter(|flow| flow.ended.is_some()).collect();
        let (report, sums) = (&mut self.report, &self.sums);
        (report.fct_s, report.fct_finished_s) = (mean(&judged), mean(&done));
        report.unfinished = self.live.len() as u64;
        report.goodput = sums.bits / sums.seconds.max(f64::MIN_POSITIVE);
        report.stretch = sums.hops / sums.shortest.max(1.0);
        report.deviation = (sums.hops - sums.shortest) / sums.steered.max(1) as f64;
        let epochs = sums.epochs.max(1.0);
        report.instances = sums.instances / epochs;
        report.rate_of_instance = sums.served / sums.instances.max(1.0);
        let (count, sum, squares) = sums.used;
        report.uneven = (squares / count.max(1.0) - (sum / count.max(1.0)).powi(2)).max(0.0).sqrt();
        report.price_steps = sums.steps / epochs;
        (report.started, report.ended) = (self.instances.started, self.instances.ended);
        let conserved = report.begun == report.finished + report.aborted + report.unfinished;
        report.violations = self.checker.violations() + u64::from(!conserved);
        self.digest.fold(report.redirected);
        report.digest = self.digest.value();
        self.report
    }
}

/// Each host's first flow.
fn sources(scene: &NetworkScene) -> Vec<Source> {
    let mean = scene.hosts.len() as f64 / scene.arrivals() * NS;
    let source = |host: &NodeId| {
        let mut random = Random::stream(scene.seed, u64::from(host.0) + 1);
        let next = Instant(random.exponential(mean) as u64);
        Source { random, next }
    };
    scene.hosts.iter().map(source).collect()
}

/// Returns what steering sees, and steering itself.
pub(super) fn split<'w>(world: &'w mut World<'_>) -> (Field<'w>, &'w mut Steering) {
    let World { scene, layout, routes, ground, instances, steering, .. } = world;
    (Field { scene, layout, routes, ground, instances: &instances.all }, steering)
}
