//! A network while it runs: flows arrive, end, move; epochs pass; things fail.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use headgate_decide::market::demand::Use;
use headgate_decide::market::solver::Solver;
use headgate_decide::market::view::PriceView;
use headgate_decide::steer::cost::Terrain;
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::Instant;

use super::checker::Checker;
use super::flows::Flows;
use super::fluid::{FlowId, Fluid, PathId};
use super::graph::Routes;
use super::ground::{Field, Ground, Layout, Trip};
use super::instances::Instances;
use super::scene::{Fault, NetworkScene};
use super::steering::Steering;
use super::tally::{NetworkReport, Sums};
use crate::agenda::Agenda;
use crate::digest::Digest;
use crate::random::Random;

/// What flows have in common: where they go, and through which instances.
pub(super) type PathKey = (Trip, Vec<Owner>);

pub(super) struct World<'a> {
    pub(super) scene: &'a NetworkScene,
    pub(super) layout: Layout,
    pub(super) routes: Rc<Routes>,
    pub(super) fluid: Fluid,
    pub(super) ground: Ground,
    pub(super) instances: Instances,
    pub(super) steering: Steering,
    pub(super) solver: Solver,
    pub(super) prices: PriceView,
    pub(super) flows: Flows,
    pub(super) paths: BTreeMap<PathKey, PathId>,
    pub(super) keys: Vec<PathKey>,
    /// What each host draws its flows from, and when the next one comes.
    sources: Vec<Random>,
    arrivals: Agenda,
    /// What fails, and how much of that has.
    pub(super) faults: Vec<Fault>,
    failed: usize,
    pub(super) down: BTreeSet<NodeId>,
    pub(super) cut: BTreeSet<u32>,
    pub(super) sums: Sums,
    pub(super) report: NetworkReport,
    pub(super) checker: Checker,
    digest: Digest,
    now: Instant,
    shared: Instant,
    /// When demand was looked at last.
    pub(super) looked: Instant,
    pub(super) epoch: u64,
}

/// Runs a scene to its horizon.
#[must_use]
pub fn run(scene: &NetworkScene) -> NetworkReport {
    let mut world = World::new(scene);
    world.run_until(Instant(0) + scene.horizon);
    world.finish()
}

/// A scene that is run step by step: for measurements of the simulator.
pub struct NetworkRun<'a>(World<'a>);

impl<'a> NetworkRun<'a> {
    /// Returns one in which nothing has happened yet.
    #[must_use]
    pub fn new(scene: &'a NetworkScene) -> Self {
        Self(World::new(scene))
    }

    /// Begins so many flows now, besides those that come by themselves: of one host after another.
    pub fn add(&mut self, flows: u64) {
        let (now, hosts) = (self.0.now, self.0.sources.len());
        (0..flows).for_each(|number| self.0.begin_flow(now, number as usize % hosts));
    }

    /// Runs until a moment, or to the horizon.
    pub fn run_until(&mut self, until: Instant) {
        let horizon = Instant(0) + self.0.scene.horizon;
        self.0.run_until(until.min(horizon));
    }

    /// Number of flows that are under way.
    #[must_use]
    pub fn live(&self) -> usize {
        self.0.flows.live()
    }

    /// Number of flows that began or ended.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.0.report.events
    }

    /// Runs to the horizon. Returns what was counted.
    #[must_use]
    pub fn finish(mut self) -> NetworkReport {
        self.0.run_until(Instant(0) + self.0.scene.horizon);
        self.0.finish()
    }
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
        let routes = Rc::new(Routes::new(&scene.graph, |_| true));
        let (instances, ground) = first(scene, &layout, &routes);
        let mut faults = scene.faults.clone();
        faults.sort_by_key(|fault| fault.at.0);
        let mut world = Self {
            fluid: Fluid::new(scene.sharing, layout.rates.clone()),
            prices: PriceView::new(scene.source, scene.period, layout.rates.len()),
            checker: Checker::default(),
            steering: Steering::new(scene.seed),
            solver: Solver::default(),
            flows: Flows::default(),
            paths: BTreeMap::new(),
            keys: Vec::new(),
            sources: Vec::new(),
            arrivals: Agenda::new(scene.hosts.len()),
            failed: 0,
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            sums: Sums::default(),
            report: NetworkReport::default(),
            digest: Digest::default(),
            now: Instant(0),
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
        world.begin_sources();
        world
    }

    /// Each host's first flow.
    fn begin_sources(&mut self) {
        let mean = self.scene.hosts.len() as f64 / self.scene.arrivals() * NS;
        for (at, host) in self.scene.hosts.iter().enumerate() {
            let mut random = Random::stream(self.scene.seed, u64::from(host.0) + 1);
            self.arrivals.set(at, Some(Instant(random.exponential(mean) as u64)));
            self.sources.push(random);
        }
    }

    fn run_until(&mut self, until: Instant) {
        while let Some((now, event)) = self.next().filter(|(now, _)| *now <= until) {
            self.now = now;
            match event {
                Event::Fault => {
                    self.on_fault(now, self.faults[self.failed]);
                    self.failed += 1;
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
        self.now = until;
    }

    fn next(&mut self) -> Option<(Instant, Event)> {
        let fault = self.faults.get(self.failed).map(|fault| (Instant(0) + fault.at, Event::Fault));
        let end = self.fluid.next_end().map(|at| (at, Event::End));
        let epoch = Some((Instant(0) + self.scene.period.times(self.epoch + 1), Event::Epoch));
        let arrival = self.arrivals.next().map(|(at, source)| (at, Event::Arrival(source)));
        let share = self.fluid.is_stale().then(|| (self.shared + self.scene.resolution, Event::Share));
        [fault, end, epoch, arrival, share].into_iter().flatten().min()
    }

    fn on_arrival(&mut self, now: Instant, at: usize) {
        self.begin_flow(now, at);
        let mean = self.scene.hosts.len() as f64 / self.scene.arrivals() * NS;
        let next = (self.sources[at].exponential(mean) as u64).max(1);
        self.arrivals.set(at, Some(Instant(now.0.saturating_add(next))));
    }

    /// A flow of a host begins.
    fn begin_flow(&mut self, now: Instant, at: usize) {
        let scene = self.scene;
        let random = &mut self.sources[at];
        // One random number of each kind for each flow, so that modes see the same flows.
        let egress = scene.hosts[scene.peer(at, random)];
        let total: f64 = scene.chains.iter().map(|(_, weight)| weight).sum();
        let mut place = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * total;
        let chain = scene.chains.iter().position(|(_, weight)| {
            place -= weight;
            place < 0.0
        });
        let (bits, hash) = (scene.sizes.draw(random), random.next() as u32);
        let trip = Trip { chain: chain.unwrap_or(0) as u32, ingress: scene.hosts[at], egress };
        if self.down.contains(&trip.ingress) {
            return;
        }
        self.report.begun += 1;
        self.report.events += 1;
        let flow = self.flows.begin(now, trip, hash, bits);
        self.enter(now, flow);
    }

    /// Steers a flow that has no path, and lets it begin, or wait.
    pub(super) fn enter(&mut self, now: Instant, flow: FlowId) {
        let of = self.flows.of(flow);
        let (trip, hash, begun) = (of.trip, of.hash, of.begun);
        let found = {
            let (field, steering) = split(self);
            steering.choose(field, trip, hash)
        };
        match found {
            Some(owners) => {
                if begun == now {
                    self.count_way(now, trip, &owners);
                }
                self.put(now, flow, (trip, owners));
            }
            None => self.flows.wait(flow),
        }
    }

    /// Puts a flow on a path.
    pub(super) fn put(&mut self, now: Instant, flow: FlowId, key: PathKey) {
        self.checker.on_path(&self.scene.chains[key.0.chain as usize].0, &key.1, &self.instances.all);
        let known = self.paths.get(&key).copied();
        let path = known.unwrap_or_else(|| {
            let way = self.way(&key);
            let path = self.fluid.open(now, way);
            self.keys.push(key.clone());
            self.paths.insert(key, path);
            path
        });
        let ticket = self.fluid.begin(now, path, flow, self.flows.of(flow).left);
        self.flows.of_mut(flow).put(path, ticket);
        self.flows.wait_no_more(flow);
    }

    /// Takes a flow off its path.
    pub(super) fn take(&mut self, now: Instant, flow: FlowId) {
        let of = self.flows.of_mut(flow);
        if let Some((path, ticket)) = of.take() {
            of.left = self.fluid.leave(now, path, flow, ticket);
        }
    }

    /// A flow is over before it is done.
    pub(super) fn abort(&mut self, flow: FlowId) {
        self.flows.end(flow);
        self.report.aborted += 1;
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
            let (number, begun) = self.flows.end(flow);
            if begun >= Instant(0) + self.scene.warm_up {
                self.sums.done += 1;
                self.sums.done_s += (now - begun).as_secs_f64();
            }
            self.report.finished += 1;
            self.report.events += 1;
            self.digest.event(now, number, 1);
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
        // What is under way has come so far.
        self.look(horizon);
        let live = self.flows.in_order();
        let young = live.iter().map(|flow| self.flows.of(*flow).begun).filter(|begun| *begun >= warm);
        let ages: Vec<f64> = young.map(|begun| (horizon - begun).as_secs_f64()).collect();
        let (report, sums) = (&mut self.report, &self.sums);
        let mean = |sum: f64, count: u64| sum / count.max(1) as f64;
        let judged = sums.done + ages.len() as u64;
        report.fct_s = mean(sums.done_s + ages.iter().sum::<f64>(), judged);
        report.fct_finished_s = mean(sums.done_s, sums.done);
        report.unfinished = live.len() as u64;
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

/// Returns the first instances, and what steering sees of them.
fn first(scene: &NetworkScene, layout: &Layout, routes: &Rc<Routes>) -> (Instances, Ground) {
    let (nodes, kappas) = (scene.graph.nodes(), vec![0.0; layout.rates.len()]);
    let mut instances = Instances::default();
    let none = BTreeMap::new();
    let empty = Ground::new(layout, routes, nodes, kappas.clone(), (scene.services(), &none));
    instances.place_first(scene, layout, &empty);
    let ground = Ground::new(layout, routes, nodes, kappas, (scene.services(), &instances.all));
    (instances, ground)
}

/// Returns what steering sees, and steering itself.
pub(super) fn split<'w>(world: &'w mut World<'_>) -> (Field<'w>, &'w mut Steering) {
    let World { scene, layout, routes, ground, instances, steering, .. } = world;
    (Field { scene, layout, routes, ground, instances: &instances.all }, steering)
}
