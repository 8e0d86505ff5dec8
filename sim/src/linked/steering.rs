//! Who gets the flows of chains over machines: prices of cores and cables by their use (`decide::market`),
//! and tables of slots that are filled by them (`decide::steer`), as in the model of networks and at the
//! nodes of a cluster.
//!
//! Each machine computes the prices of its own cores and of the cables that lead from it. A table moves
//! towards a fresh one at each period, as those of sessions do: flows here never end.

use std::collections::BTreeMap;

use headgate_decide::market::view::{PriceView, Source};
use headgate_decide::spread::SLOTS;
use headgate_decide::steer::cost::{Candidate, Lookahead, OFF_PATH, Terrain, detour, rest};
use headgate_decide::steer::slots::{MOVES_MAX, Pricing, SlotTable, Toll, Way, approach};
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::Instant;

use super::scene::{LinkedChain, LinkedScene};
use crate::network::{Graph, Routes};
use crate::scene::Cost;

/// A table's machine, chain and position.
pub(crate) type TableKey = (u16, u16, u8);

/// Steering of all machines.
#[derive(Debug)]
pub(crate) struct Steering {
    graph: Graph,
    routes: Routes,
    /// Bits per second of each direction of each cable.
    rates: Vec<u64>,
    /// Time of a packet at each NF, by machine, and what costs are told in.
    packet_ns: Vec<Vec<f64>>,
    reference_ns: f64,
    /// Core of each NF, by machine.
    core_of: Vec<Vec<u32>>,
    /// The first core of each machine among all resources, and their number.
    first_core: Vec<u32>,
    resources: usize,
    prices: PriceView,
    tables: BTreeMap<TableKey, SlotTable>,
    /// Slots that moved.
    pub(crate) moved: u64,
}

/// Prices of cables for packets of one size.
struct Land<'a> {
    routes: &'a Routes,
    costs: Vec<f64>,
}

impl Terrain for Land<'_> {
    fn price(&self, from: NodeId, to: NodeId) -> f64 {
        match self.routes.hops(from, to) {
            Some(_) => self.routes.links(from, to).map(|link| self.costs[link as usize]).sum(),
            None => f64::INFINITY,
        }
    }

    fn hops(&self, from: NodeId, to: NodeId) -> f64 {
        self.routes.hops(from, to).map_or(f64::INFINITY, f64::from)
    }
}

impl Steering {
    pub(crate) fn new(scene: &LinkedScene) -> Self {
        let ends = scene.cables.iter().map(|cable| (u32::from(cable.ends[0]), u32::from(cable.ends[1])));
        let graph = Graph::new(scene.machines.len() as u32, ends, 0.0);
        let rates: Vec<u64> = scene.cables.iter().flat_map(|cable| [cable.rate; 2]).collect();
        let (mut first_core, mut resources) = (Vec::new(), rates.len());
        for machine in &scene.machines {
            first_core.push(resources as u32);
            resources += machine.nfs.iter().map(|nf| usize::from(nf.core) + 1).max().unwrap_or(0);
        }
        let of_nf = |nf: &crate::scene::Nf| {
            let library = scene.costs.nf_packet_ps as f64 / 1e3;
            mean_cycles(&nf.cost) * 1e3 / scene.costs.cycles_per_micro as f64 + library
        };
        let packet_ns: Vec<Vec<f64>> =
            scene.machines.iter().map(|machine| machine.nfs.iter().map(of_nf).collect()).collect();
        let cores = |machine: &super::scene::Machine| machine.nfs.iter().map(|nf| nf.core.into()).collect();
        let count = packet_ns.iter().flatten().count().max(1) as f64;
        let mut steering = Self {
            routes: Routes::new(&graph, |_| true),
            graph,
            rates,
            reference_ns: (packet_ns.iter().flatten().sum::<f64>() / count).max(1.0),
            packet_ns,
            core_of: scene.machines.iter().map(cores).collect(),
            first_core,
            resources,
            prices: PriceView::new(Source::Local, scene.period, resources),
            tables: BTreeMap::new(),
            moved: 0,
        };
        steering.fill(Instant(0), scene);
        steering.moved = 0;
        steering
    }

    /// Number of resources: directions of cables, then cores machine by machine.
    pub(crate) const fn resources(&self) -> usize {
        self.resources
    }

    /// Returns the number of a core among resources.
    pub(crate) fn core(&self, machine: usize, core: usize) -> usize {
        self.first_core[machine] as usize + core
    }

    /// Returns the direction of a cable by which packets to a machine leave another one, and where it leads.
    pub(crate) fn hop(&self, from: u16, to: u16) -> Option<(usize, u16)> {
        let link = self.routes.links(NodeId(from.into()), NodeId(to.into())).next()?;
        Some((link as usize, self.graph.links()[link as usize].to.0 as u16))
    }

    /// Returns the machine that has a flow at a position, seen from another one; `None`: none is in reach.
    pub(crate) fn owner(&self, key: TableKey, slot: usize) -> Option<u16> {
        self.tables.get(&key)?[slot].map(|owner| owner.node.0 as u16)
    }

    /// A period is over, in which resources were used so much of their time: new prices, and tables that move
    /// towards them.
    pub(crate) fn on_period(&mut self, now: Instant, used: &[f64], scene: &LinkedScene) {
        for (resource, used) in (0..).zip(used) {
            self.prices.on_load(resource, *used);
        }
        self.fill(now, scene);
    }

    fn fill(&mut self, now: Instant, scene: &LinkedScene) {
        let kappas = self.prices.in_use(now).0.to_vec();
        let pricing = Pricing::new(&kappas);
        for (number, chain) in (0..).zip(&scene.chains) {
            let stages = self.candidates(chain, &kappas);
            let stages: Vec<&[Candidate]> = stages.iter().map(Vec::as_slice).collect();
            let toll = |link: usize| self.link_toll(link, chain.bytes);
            let cost = |link: usize| toll(link).factor * (kappas[link] + 1.0);
            let land = Land { routes: &self.routes, costs: (0..self.rates.len()).map(cost).collect() };
            let rests = rest(&land, Lookahead::Chain, &stages, NodeId(chain.exit.into()));
            for position in 1..stages.len() {
                for host in &chain.stages[position - 1] {
                    let key = (host.machine, number, position as u8);
                    let ways = self.ways(&land, chain, key, (stages[position], &rests[position]));
                    let fresh = pricing.fill(&ways, 1.0);
                    let table = self.tables.entry(key).or_insert([None; SLOTS]);
                    self.moved += approach(table, &fresh, MOVES_MAX, |_| true) as u64;
                }
            }
        }
    }

    fn candidates(&self, chain: &LinkedChain, kappas: &[f64]) -> Vec<Vec<Candidate>> {
        let candidate = |position: usize| -> Vec<Candidate> {
            let of = |host: &super::scene::Host| {
                let toll = self.core_toll(host.machine, host.nf);
                let owner = Owner { node: NodeId(host.machine.into()), instance: host.nf.into() };
                Candidate { owner, price: toll.factor * (kappas[toll.resource as usize] + 1.0) }
            };
            chain.stages[position].iter().map(of).collect()
        };
        (0..chain.stages.len()).map(candidate).collect()
    }

    fn ways(
        &self,
        land: &Land<'_>,
        chain: &LinkedChain,
        (machine, ..): TableKey,
        (candidates, rests): (&[Candidate], &[f64]),
    ) -> Vec<Way> {
        let (node, exit) = (NodeId(machine.into()), NodeId(chain.exit.into()));
        let way = |(one, rest): (&Candidate, &f64)| {
            let owner = one.owner;
            let links =
                land.routes.links(node, owner.node).map(|link| self.link_toll(link as usize, chain.bytes));
            let (of, nf) = (owner.node.0 as u16, owner.instance as u16);
            let core = self.core_toll(of, nf);
            let fixed = rest + OFF_PATH * detour(land, node, owner.node, exit);
            Way { owner, fixed, tolls: links.chain([core]).collect() }
        };
        let reached =
            candidates.iter().zip(rests).filter(|(one, _)| land.hops(node, one.owner.node).is_finite());
        reached.map(way).collect()
    }

    fn link_toll(&self, link: usize, bytes: u32) -> Toll {
        let seconds = f64::from(bytes) * 8.0 / self.rates[link] as f64;
        Toll { resource: link as u32, factor: seconds * 1e9 / self.reference_ns, share: seconds }
    }

    fn core_toll(&self, machine: u16, nf: u16) -> Toll {
        let (machine, nf) = (usize::from(machine), usize::from(nf));
        let ns = self.packet_ns[machine][nf];
        let resource = self.first_core[machine] + self.core_of[machine][nf];
        Toll { resource, factor: ns / self.reference_ns, share: ns / 1e9 }
    }
}

/// Returns the mean cost of a packet of 64 bytes.
fn mean_cycles(cost: &Cost) -> f64 {
    match cost {
        Cost::Fixed(cycles) | Cost::Exponential { mean: cycles } => *cycles as f64,
        Cost::Uniform { least, most } => u64::midpoint(*least, *most) as f64,
        Cost::BySize(steps) => steps.first().map_or(0.0, |(_, cycles)| *cycles as f64),
        Cost::OneOf(choices) => {
            let weights: f64 = choices.iter().map(|(_, weight)| f64::from(*weight)).sum();
            choices.iter().map(|(cycles, weight)| *cycles as f64 * f64::from(*weight)).sum::<f64>() / weights
        }
    }
}
