//! A network as it is in one epoch: routes, prices along them, instances in service.

use std::collections::BTreeMap;
use std::rc::Rc;

use headgate_decide::steer::cost::{Candidate, Terrain};
use headgate_decide::steer::slots::{Toll, Way};
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::Instant;

use super::graph::Routes;
use super::scene::NetworkScene;

/// An instance of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instance {
    pub(crate) service: u32,
    /// Its core, as a resource.
    pub(crate) core: u32,
    pub(crate) since: Instant,
    /// Whether new flows may come; else it drains.
    pub(crate) serves: bool,
}

/// Where resources are: links by their number, then cores, node by node.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    links: u32,
    cores: u32,
    /// Resources of NF nodes begin here, by node.
    firsts: BTreeMap<NodeId, u32>,
    /// Bits per second of each resource.
    pub(crate) rates: Vec<f64>,
    /// Bits per second of an instance alone: what prices are scaled to.
    pub(crate) core_rate: f64,
}

impl Layout {
    pub(crate) fn new(scene: &NetworkScene) -> Self {
        let links = scene.graph.links().len() as u32;
        let firsts = (0..).zip(&scene.nf_nodes).map(|(at, node)| (*node, links + at * scene.cores));
        let mut rates: Vec<f64> = scene.graph.links().iter().map(|link| link.capacity).collect();
        rates.resize(rates.len() + scene.nf_nodes.len() * scene.cores as usize, scene.core_rate);
        Self { links, cores: scene.cores, firsts: firsts.collect(), rates, core_rate: scene.core_rate }
    }

    /// Returns the cores of a node, as resources.
    pub(crate) fn cores(&self, node: NodeId) -> std::ops::Range<u32> {
        self.firsts.get(&node).map_or(0..0, |first| *first..first + self.cores)
    }

    /// Number of links: resources from there on are cores.
    pub(crate) const fn links(&self) -> u32 {
        self.links
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.firsts.keys().copied()
    }

    /// What a scaled price of a resource is multiplied by to be the cost of a bit, an instance's being 1.
    fn toll(&self, resource: u32) -> Toll {
        let rate = self.rates[resource as usize];
        Toll { resource, factor: self.core_rate / rate, share: 1.0 / rate }
    }
}

/// Nodes of the largest network of which hops and prices between all pairs are kept in tables. Our choice:
/// they are 16 MB then. In a larger one routes are walked whenever somebody asks.
pub(crate) const TABLE_NODES: u32 = 1_000;

/// Hops and prices between all pairs of nodes.
#[derive(Clone, Debug)]
struct Tables {
    price: Vec<f64>,
    hops: Vec<f64>,
}

/// What steering sees of a network in an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    nodes: usize,
    routes: Rc<Routes>,
    /// Price of a bit over each link.
    costs: Vec<f64>,
    /// `None` of a large network.
    tables: Option<Tables>,
    /// Prices without a scale, by resource.
    pub(crate) kappas: Vec<f64>,
    /// Instances in service by service, with their price.
    pub(crate) candidates: Vec<Vec<Candidate>>,
}

impl Ground {
    pub(crate) fn new(
        layout: &Layout,
        routes: &Rc<Routes>,
        nodes: u32,
        kappas: Vec<f64>,
        (services, instances): (u32, &BTreeMap<Owner, Instance>),
    ) -> Self {
        let cost = |resource: u32| layout.toll(resource).factor * (kappas[resource as usize] + 1.0);
        let mut candidates = vec![Vec::new(); services as usize];
        for (&owner, instance) in instances.iter().filter(|(_, instance)| instance.serves) {
            candidates[instance.service as usize].push(Candidate { owner, price: cost(instance.core) });
        }
        let costs = (0..layout.links()).map(cost).collect();
        let mut ground =
            Self { nodes: nodes as usize, routes: routes.clone(), costs, tables: None, kappas, candidates };
        if nodes <= TABLE_NODES {
            ground.tables = Some(ground.tabled(nodes));
        }
        ground
    }

    fn tabled(&self, nodes: u32) -> Tables {
        let all = || (0..nodes).flat_map(|from| (0..nodes).map(move |to| (NodeId(from), NodeId(to))));
        Tables {
            price: all().map(|(from, to)| self.walked_price(from, to)).collect(),
            hops: all().map(|(from, to)| self.walked_hops(from, to)).collect(),
        }
    }

    fn walked_hops(&self, from: NodeId, to: NodeId) -> f64 {
        self.routes.hops(from, to).map_or(f64::INFINITY, f64::from)
    }

    fn walked_price(&self, from: NodeId, to: NodeId) -> f64 {
        let mut links = self.routes.links(from, to).peekable();
        if from != to && links.peek().is_none() {
            return f64::INFINITY;
        }
        links.map(|link| self.costs[link as usize]).sum()
    }

    /// Returns the candidates of each stage.
    pub(crate) fn stages(&self, stages: &[u32]) -> Vec<&[Candidate]> {
        stages.iter().map(|stage| self.candidates[*stage as usize].as_slice()).collect()
    }
}

impl Terrain for Ground {
    fn price(&self, from: NodeId, to: NodeId) -> f64 {
        match &self.tables {
            Some(tables) => tables.price[from.0 as usize * self.nodes + to.0 as usize],
            None => self.walked_price(from, to),
        }
    }

    fn hops(&self, from: NodeId, to: NodeId) -> f64 {
        match &self.tables {
            Some(tables) => tables.hops[from.0 as usize * self.nodes + to.0 as usize],
            None => self.walked_hops(from, to),
        }
    }
}

/// Where a flow begins and ends, and which chain it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trip {
    pub(crate) chain: u32,
    pub(crate) ingress: NodeId,
    pub(crate) egress: NodeId,
}

/// A network as steering finds it.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) scene: &'a NetworkScene,
    pub(crate) layout: &'a Layout,
    pub(crate) routes: &'a Routes,
    pub(crate) ground: &'a Ground,
    pub(crate) instances: &'a BTreeMap<Owner, Instance>,
}

/// Returns the way from a node to an instance: what is fixed of its cost, links and core.
pub(crate) fn way(
    layout: &Layout,
    routes: &Routes,
    from: NodeId,
    (owner, core): (Owner, u32),
    fixed: f64,
) -> Way {
    let links = routes.links(from, owner.node).map(|link| layout.toll(link));
    Way { owner, fixed, tolls: links.chain([layout.toll(core)]).collect() }
}
