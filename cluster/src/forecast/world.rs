//! The network that is thought of: who serves, where packets go, and what cores cost.

use std::collections::{BTreeMap, BTreeSet};

use headgate_api::status::{
    ClusterStatus, NodeStatus, OfferStatus, RangeStatus, ServerStatus, SharedStageStatus,
};
use headgate_config::model::{Across, NodeRange, StageAt, Steering};
use headgate_config::{Affinity, Config};
use headgate_decide::elastic::Band;
use headgate_decide::market::local::next_kappa;
use headgate_decide::routes::Network;
use headgate_decide::spread::SLOTS;
use headgate_decide::steer::redirect::State;
use headgate_decide::steer::sharing::{Rules, Server, Sharing};
use headgate_decide::steer::slots::{Pricing, TURNOVER, Toll};
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::Instant;

use super::told::{ChainForecast, ChangeForecast, CoreForecast, Demand, Forecast, Given, NfForecast};

/// A table: chain, position, and the node that has it.
type TableKey = (usize, usize, usize);

/// A core: its node, and its number there.
type Core = (usize, u32);

/// Nodes, chains, packets.
pub struct World {
    names: Vec<String>,
    /// Links on the way from the second to the first.
    hops: Vec<Vec<u32>>,
    chains: Vec<(String, Across)>,
    /// Core of each NF at each of its nodes.
    cores: BTreeMap<(String, usize), u32>,
    ranges: BTreeMap<String, NodeRange>,
    demand: Vec<Demand>,
    service_ns: BTreeMap<String, f64>,
    rules: Rules,
    period_ns: u64,
    /// Who serves: NF and node.
    serving: BTreeSet<(String, usize)>,
    kappas: BTreeMap<Core, f64>,
    loads: BTreeMap<Core, f64>,
    tables: BTreeMap<TableKey, Table>,
    /// What each chain lost in the last period, in packets per second.
    lost: Vec<f64>,
}

#[derive(Default)]
struct Table {
    sharing: Sharing,
    /// Packets per second that came in the last period.
    rate: f64,
    /// Part of them that goes to each node: where flows stay, these follow the slots slowly.
    parts: BTreeMap<usize, f64>,
}

impl Table {
    /// Ends a period, after which this part of the flows has begun anew. Flows of a node that is lost begin
    /// anew, too.
    fn turn_over(&mut self, part: f64) {
        let mut fresh: BTreeMap<usize, f64> = BTreeMap::new();
        for owner in self.sharing.table().iter().flatten() {
            *fresh.entry(owner.node.0 as usize).or_default() += 1.0 / SLOTS as f64;
        }
        let open: Vec<usize> = self.sharing.open().iter().map(|owner| owner.node.0 as usize).collect();
        self.parts.retain(|node, _| open.contains(node));
        self.parts.values_mut().for_each(|known| *known *= 1.0 - part);
        let new = 1.0 - self.parts.values().sum::<f64>();
        for (node, slots) in fresh {
            *self.parts.entry(node).or_default() += new * slots;
        }
    }
}

impl World {
    /// Returns that of a configuration's nodes. NFs without a range serve at all of their nodes.
    pub fn of(parts: &[Config], steering: Steering, given: &Given) -> Self {
        let network = parts.iter().find_map(|config| config.node.as_ref().map(|node| &node.network));
        let network = network.cloned().unwrap_or_default();
        let graph = Network { nodes: network.nodes.len() as u16, links: &network.links };
        let place = |config: &Config| network.place(&config.node.as_ref()?.name).map(usize::from);
        let (mut cores, mut ranges, mut serving) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for (node, config) in parts.iter().filter_map(|config| Some((place(config)?, config))) {
            for nf in &config.nfs {
                cores.insert((nf.name.clone(), node), nf.cores.first().copied().unwrap_or_default());
                match nf.range {
                    Some(range) => drop(ranges.insert(nf.name.clone(), range)),
                    None => drop(serving.insert((nf.name.clone(), node))),
                }
            }
        }
        // Every node knows all of them.
        let of_first = parts.first().map(|config| config.chains.as_slice()).unwrap_or_default();
        let across = of_first.iter().filter_map(|chain| Some((chain.name.clone(), chain.across.clone()?)));
        let chains: Vec<(String, Across)> = across.collect();
        Self {
            hops: (0..graph.nodes).map(|goal| graph.hops_to(goal)).collect(),
            names: network.nodes,
            lost: vec![0.0; chains.len()],
            chains,
            cores,
            ranges,
            demand: given.demand.clone(),
            service_ns: given.service_ns.clone(),
            rules: steering.rules(),
            period_ns: steering.period_ns,
            serving,
            kappas: BTreeMap::new(),
            loads: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    /// Returns the names of nodes, by place.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Begins or ends an instance.
    pub fn serve(&mut self, nf: &str, node: &str, begins: bool) {
        let Some(place) = self.names.iter().position(|name| name == node) else { return };
        let key = (nf.to_owned(), place);
        match begins {
            true => self.serving.insert(key),
            false => self.serving.remove(&key),
        };
    }

    /// Ends a period: packets take their ways, prices follow, tables too.
    pub fn end_period(&mut self, now: Instant) {
        let before = std::mem::take(&mut self.loads);
        self.tables.values_mut().for_each(|table| table.rate = 0.0);
        for chain in 0..self.chains.len() {
            self.lost[chain] = self.pass(chain, &before);
        }
        let in_use: BTreeSet<Core> =
            self.serving.iter().filter_map(|(nf, node)| self.core(nf, *node)).collect();
        self.kappas.retain(|core, _| in_use.contains(core));
        for core in in_use {
            let kappa = self.kappas.entry(core).or_insert(0.0);
            *kappa = next_kappa(*kappa, self.loads.get(&core).copied().unwrap_or(0.0));
        }
        self.divide(now, true);
    }

    /// Has tables follow who serves.
    pub fn settle(&mut self, now: Instant) {
        self.divide(now, false);
    }

    fn core(&self, nf: &str, node: usize) -> Option<Core> {
        self.cores.get(&(nf.to_owned(), node)).map(|core| (node, *core))
    }

    /// Leads the packets of a chain from stage to stage. Returns those that are lost, per second.
    fn pass(&mut self, chain: usize, before: &BTreeMap<Core, f64>) -> f64 {
        let (name, across) = self.chains[chain].clone();
        let mut here: BTreeMap<usize, f64> = BTreeMap::new();
        for demand in self.demand.iter().filter(|demand| demand.chain == name) {
            if let Some(node) = self.names.iter().position(|name| *name == demand.node) {
                *here.entry(node).or_default() += demand.rate;
            }
        }
        let entered: f64 = here.values().sum();
        for (position, stage) in across.stages.iter().enumerate() {
            let mut next: BTreeMap<usize, f64> = BTreeMap::new();
            for (node, rate) in here {
                for (to, part) in self.parts_of((chain, position, node), stage, rate) {
                    *next.entry(to).or_default() += part;
                }
            }
            let service_ns = self.service_ns.get(&stage.nf).copied().unwrap_or(0.0);
            for (node, rate) in &mut next {
                let Some(core) = self.core(&stage.nf, *node) else { continue };
                *self.loads.entry(core).or_default() += *rate * service_ns * 1e-9;
                // What it has no time for is lost there.
                *rate /= before.get(&core).copied().unwrap_or(0.0).max(1.0);
            }
            here = next;
        }
        (entered - here.values().sum::<f64>()).max(0.0)
    }

    /// Returns where the packets at a node go for a stage.
    fn parts_of(&mut self, key: TableKey, stage: &StageAt, rate: f64) -> Vec<(usize, f64)> {
        if !stage.is_shared() {
            let only = stage.nodes.first().and_then(|name| self.place(name));
            return only.into_iter().map(|node| (node, rate)).collect();
        }
        let table = self.tables.entry(key).or_default();
        table.rate += rate;
        table.parts.iter().map(|(node, part)| (*node, part * rate)).collect()
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|one| one == name)
    }

    fn divide(&mut self, now: Instant, ends: bool) {
        for (chain, (_, across)) in self.chains.clone().iter().enumerate() {
            for (position, stage) in across.stages.iter().enumerate().filter(|(_, stage)| stage.is_shared()) {
                let (egress, state) = (self.place(&across.exit).unwrap_or_default(), state_of(stage));
                for node in 0..self.names.len() {
                    let (servers, kappas) = self.servers(stage, node, egress);
                    let table = self.tables.entry((chain, position, node)).or_default();
                    let rates = [table.rate / SLOTS as f64; SLOTS];
                    let mut pricing = Pricing::new(&kappas);
                    table.sharing.settle((now, ends), self.rules, &mut pricing, &servers, (state, &rates));
                    let is_served = table
                        .parts
                        .keys()
                        .all(|node| servers.iter().any(|one| one.owner.node.0 as usize == *node));
                    if ends || !is_served || table.parts.is_empty() {
                        table.turn_over(if state == State::Kept { TURNOVER } else { 1.0 });
                    }
                }
            }
        }
    }

    /// Returns the nodes that serve a stage as one of them sees them, and the prices of their cores.
    fn servers(&self, stage: &StageAt, own: usize, egress: usize) -> (Vec<Server>, Vec<f64>) {
        let (mut servers, mut kappas) = (Vec::new(), Vec::new());
        let share = self.service_ns.get(&stage.nf).copied().unwrap_or(0.0) * 1e-9;
        let direct = self.hops(own, egress);
        for node in stage.nodes.iter().filter_map(|name| self.place(name)) {
            if !self.serving.contains(&(stage.nf.clone(), node)) {
                continue;
            }
            let hops = self.hops(own, node);
            let detour = (hops + self.hops(node, egress) - direct).max(0.0);
            let core = Toll { resource: kappas.len() as u32, factor: 1.0, share };
            kappas.push(self.kappa(&stage.nf, node));
            let owner = Owner { node: NodeId(node as u32), instance: 0 };
            let detour = if detour.is_finite() { detour } else { 0.0 };
            servers.push(Server { owner, core, hops, detour });
        }
        (servers, kappas)
    }

    fn kappa(&self, nf: &str, node: usize) -> f64 {
        self.core(nf, node).and_then(|core| self.kappas.get(&core)).copied().unwrap_or(0.0)
    }

    fn hops(&self, from: usize, to: usize) -> f64 {
        let hops = self.hops.get(to).and_then(|to| to.get(from)).filter(|hops| **hops != u32::MAX);
        hops.map_or(f64::INFINITY, |hops| f64::from(*hops))
    }

    /// Returns what a node knows of all.
    pub fn status(&self, own: usize) -> ClusterStatus {
        let names = self.names.iter().enumerate();
        let here = |(nf, range): (&String, &NodeRange)| {
            let core = *self.cores.get(&(nf.clone(), own))?;
            let serves = self.serving.contains(&(nf.clone(), own));
            Some(RangeStatus {
                nf: nf.clone(),
                min: range.min,
                max: range.max,
                state: if serves { "serving" } else { "absent" }.to_owned(),
                core,
                price: self.kappa(nf, own),
            })
        };
        ClusterStatus {
            node: self.names[own].clone(),
            period_ns: self.period_ns,
            nodes: names.map(|(node, name)| self.node_status(own, node, name)).collect(),
            stages: self
                .tables
                .iter()
                .filter_map(|(key, table)| self.stage_status(own, *key, table))
                .collect(),
            ranges: self.ranges.iter().filter_map(here).collect(),
            ..ClusterStatus::default()
        }
    }

    fn node_status(&self, own: usize, node: usize, name: &str) -> NodeStatus {
        let of_node = self.serving.iter().filter(|(_, at)| *at == node);
        let offer = |(nf, _): &(String, usize)| OfferStatus {
            nf: nf.clone(),
            instances: 1,
            price: self.kappa(nf, node),
            service_time_ns: self.service_ns.get(nf).map(|ns| *ns as u64),
            leaving: false,
        };
        let hops = self.hops(own, node);
        NodeStatus {
            name: name.to_owned(),
            alive: true,
            hops: hops.is_finite().then_some(hops as u32),
            nfs: of_node.map(offer).collect(),
            ..NodeStatus::default()
        }
    }

    fn stage_status(&self, own: usize, key: TableKey, table: &Table) -> Option<SharedStageStatus> {
        let (chain, position, node) = key;
        if node != own {
            return None;
        }
        let (name, across) = &self.chains[chain];
        let stage = across.stages.get(position)?;
        let server = |name: &String| {
            let place = self.place(name)? as u32;
            let slots = table.sharing.table().iter().flatten().filter(|owner| owner.node.0 == place).count();
            let rate = table.rate * table.parts.get(&(place as usize)).copied().unwrap_or(0.0);
            Some(ServerStatus {
                node: name.clone(),
                alive: true,
                slots: slots as u32,
                rate,
                ..Default::default()
            })
        };
        Some(SharedStageStatus {
            chain: name.clone(),
            position: position as u8,
            nf: stage.nf.clone(),
            servers: stage.nodes.iter().filter_map(server).collect(),
            ..SharedStageStatus::default()
        })
    }

    /// Returns what there is now.
    pub fn told(&self, changes: Vec<ChangeForecast>, band: Band) -> Forecast {
        let core = |(core, price): (&Core, &f64)| {
            let on = self.serving.iter().filter(|(nf, node)| self.core(nf, *node) == Some(*core));
            CoreForecast {
                node: self.names[core.0].clone(),
                core: core.1,
                nfs: on.map(|(nf, _)| nf.clone()).collect(),
                asked: self.loads.get(core).copied().unwrap_or(0.0),
                price: *price,
                band: match *price {
                    price if price > band.high => "over",
                    price if price < band.low => "under",
                    _ => "within",
                },
            }
        };
        let nf = |(nf, range): (&String, &NodeRange)| {
            let of_nf = self.serving.iter().filter(|(of, _)| of == nf);
            let nodes = of_nf.map(|(_, node)| self.names[*node].clone()).collect();
            NfForecast { nf: nf.clone(), min: range.min, max: range.max, nodes }
        };
        let chain = |((name, _), lost): (&(String, Across), &f64)| {
            let entered = self.demand.iter().filter(|demand| demand.chain == *name);
            let entered = entered.map(|demand| demand.rate).sum();
            ChainForecast { chain: name.clone(), entered, lost: *lost }
        };
        Forecast {
            is_settled: true,
            changes,
            cores: self.kappas.iter().map(core).collect(),
            nfs: self.ranges.iter().map(nf).collect(),
            chains: self.chains.iter().zip(&self.lost).map(chain).collect(),
        }
    }
}

/// Returns what becomes of a flow when its slot moves.
fn state_of(stage: &StageAt) -> State {
    if stage.affinity == Affinity::None { State::None } else { State::Kept }
}
