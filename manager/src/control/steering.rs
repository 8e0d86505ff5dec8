//! Nodes that share an NF: what each of their tables was, and prices of this node's own cores.
//!
//! [`headgate_decide::steer::sharing`] says which node serves a slot, and [`headgate_decide::market::local`]
//! what a core costs; `policies/steering.rs` gathers their input and puts tables into force.

use std::collections::BTreeMap;
use std::sync::Arc;

use headgate_decide::market::local::next_kappa;
use headgate_decide::routes::Network;
use headgate_decide::spread::SLOTS;
use headgate_decide::steer::sharing::{Server as Choice, Sharing};
use headgate_decide::steer::slots::SlotTable;
use headgate_decide::steer::{NodeId as Node, Owner};
use headgate_decide::units::{InstanceId, Instant as Moment, Span};
use headgate_path::plan::{NodeId, Server, Share};

use crate::config::model;
use crate::status::StoreStatus;

/// Service time that is assumed of an NF which nobody has measured. Our choice: it decides how evenly the
/// first flows are divided, and nothing once there are packets.
pub(super) const SERVICE_ASSUMED_NS: f64 = 1000.0;

/// Changes of a slot that are kept. Our choice: a node that went and came back is two.
const CHANGES_MAX: usize = 4;

/// Table of a stage that several nodes serve.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) sharing: Sharing,
    /// Servers that were alive at the last pass, with the cost of a packet there.
    pub(super) servers: Vec<(Choice, f64)>,
    /// Packets of each slot at the end of the last period.
    counted: [u64; SLOTS],
    /// Packets per second of each slot in the last period.
    pub(super) rates: [f64; SLOTS],
    /// Slots that changed their node while they had one.
    pub(super) moved: u64,
    /// The last such changes of each, the newest first.
    changes: Vec<Vec<Change>>,
}

/// Change of the node that serves a slot.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) from: Owner,
    pub(super) to: Owner,
    pub(super) at: Moment,
    /// Nodes that served then, with the cost of a packet there; all changes of a moment share it.
    pub(super) servers: Arc<[(Choice, f64)]>,
}

impl Table {
    /// Returns one that goes on with the table of a plan.
    pub fn of(share: &Share, own: u16) -> Self {
        let is_new = share.alive.is_empty();
        let table = share.servers.map(|server| (!is_new).then(|| owner_of(server, own)));
        Self {
            sharing: Sharing::with_table(table),
            servers: Vec::new(),
            counted: std::array::from_fn(|slot| share.known.steered(slot)),
            rates: [0.0; SLOTS],
            moved: 0,
            changes: vec![Vec::new(); SLOTS],
        }
    }

    /// Notes which slots have another node than before, and what packets cost when that was decided.
    pub fn note_changes(&mut self, at: Moment, before: &SlotTable, servers: &[(Choice, f64)]) {
        let mut shared: Option<Arc<[(Choice, f64)]>> = None;
        for (slot, changes) in self.changes.iter_mut().enumerate() {
            let (Some(from), Some(to)) = (before[slot], self.sharing.table()[slot]) else { continue };
            if from != to {
                let servers = shared.get_or_insert_with(|| servers.into()).clone();
                changes.truncate(CHANGES_MAX - 1);
                changes.insert(0, Change { from, to, at, servers });
            }
        }
    }

    /// Returns the last change of a slot to a server: a known flow stays where it is when its slot goes on.
    pub fn change_to(&self, slot: usize, to: Owner) -> Option<&Change> {
        self.changes.get(slot)?.iter().find(|change| change.to == to)
    }

    /// Forms the rates of a period from counts.
    pub fn count(&mut self, share: &Share, period: Span) {
        for slot in 0..SLOTS {
            let counted = share.known.steered(slot);
            let more = counted.saturating_sub(std::mem::replace(&mut self.counted[slot], counted));
            self.rates[slot] = more as f64 / period.as_secs_f64().max(1e-3);
        }
    }

    /// Returns packets per second of the slots of one node in the last period.
    pub fn rate_of(&self, owner: Owner) -> f64 {
        let slots = self.sharing.table().iter().zip(&self.rates);
        slots.filter(|(of, _)| **of == Some(owner)).map(|(_, rate)| rate).sum()
    }

    /// Returns packets per second of all slots in the last period.
    pub fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// Returns the table as the packet path has it; a slot that nobody serves keeps what it has.
    pub fn servers_of(&self, share: &Share, own: u16) -> [Server; SLOTS] {
        let table: &SlotTable = self.sharing.table();
        std::array::from_fn(|slot| table[slot].map_or(share.servers[slot], |owner| server_of(owner, own)))
    }

    /// Returns the living servers as the packet path has them.
    pub fn alive(&self, own: u16) -> Vec<Server> {
        self.servers.iter().map(|(server, _)| server_of(server.owner, own)).collect()
    }
}

/// Returns a node as decisions know it. Instances of one node are one: its own table divides flows among
/// them.
pub(super) fn owner(place: u16) -> Owner {
    Owner { node: Node(place.into()), instance: 0 }
}

pub(super) fn owner_of(server: Server, own: u16) -> Owner {
    match server {
        Server::Here => owner(own),
        Server::Node(node) => owner(node.0),
    }
}

fn server_of(owner: Owner, own: u16) -> Server {
    server(owner.node.0 as u16, own)
}

/// Returns a node, by its place, as the packet path knows it.
pub(super) fn server(place: u16, own: u16) -> Server {
    if place == own { Server::Here } else { Server::Node(NodeId(place)) }
}

/// Load of an own core in a period, as parts of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CoreLoad {
    /// CPU time of its NFs.
    pub(super) used: f64,
    /// What their packets ask for.
    pub(super) asked: f64,
}

/// What tables go by: the part of the configuration that is about nodes.
pub struct Map {
    /// Name of this node.
    pub(super) name: String,
    /// Its place.
    pub(super) own: u16,
    /// All nodes and links.
    pub(super) network: model::Network,
    /// How flows are divided.
    pub(super) settings: model::Steering,
    /// Links on the way from each node, by goal.
    hops: Vec<Vec<u32>>,
}

impl Map {
    /// Returns that of a node.
    pub fn of(node: &model::Node) -> Self {
        let graph = Network { nodes: node.network.nodes.len() as u16, links: &node.network.links };
        Self {
            name: node.name.clone(),
            own: node.network.place(&node.name).unwrap_or_default(),
            network: node.network.clone(),
            settings: node.steering.unwrap_or_default(),
            hops: (0..graph.nodes).map(|goal| graph.hops_to(goal)).collect(),
        }
    }

    /// Returns the links on the way from one node to another; infinite where there is none.
    pub fn hops(&self, from: u16, to: u16) -> f64 {
        let hops = self.hops.get(usize::from(to)).and_then(|to| to.get(usize::from(from)));
        hops.filter(|hops| **hops != u32::MAX).map_or(f64::INFINITY, |hops| f64::from(*hops))
    }

    /// Returns the name of a node that serves a stage.
    pub fn name_of(&self, server: &Choice) -> Option<&str> {
        self.network.nodes.get(server.owner.node.0 as usize).map(String::as_str)
    }

    /// Returns the places of all nodes.
    pub fn places(&self) -> impl Iterator<Item = u16> {
        0..self.network.nodes.len() as u16
    }
}

/// What is remembered of a node's own NFs and of tables.
#[derive(Default)]
pub struct Steering {
    /// By chain and position.
    pub(super) tables: BTreeMap<(u16, u8), Table>,
    /// Price of each own core without a scale.
    kappas: BTreeMap<u32, f64>,
    /// CPU time of each own instance at the end of the last period, and the packets that had come for it.
    pub(super) counted: BTreeMap<InstanceId, (Option<u64>, u64)>,
    /// Time that a packet took at each own instance in the last period, in nanoseconds; 0: not known.
    pub(super) service_ns: BTreeMap<InstanceId, u32>,
    /// What tables go by; `None`: the configuration is another now.
    pub(super) map: Option<Arc<Map>>,
    /// When the period ends, and when it began.
    pub(super) due: Moment,
    pub(super) began: Moment,
    /// When the clock of known flows ticks.
    pub(super) tick_due: Moment,
    /// NFs that leave: they keep the flows that they have until these are silent.
    pub(super) departures: BTreeMap<String, Departure>,
    /// The store, as the agent saw it last.
    pub(super) store: Option<StoreStatus>,
}

/// An NF that leaves this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// Packets that have come for it.
    pub(super) came: u64,
    /// Since when none came.
    pub(super) silent_since: Moment,
}

impl Steering {
    /// Returns the price of a core.
    pub fn kappa(&self, core: u32) -> f64 {
        self.kappas.get(&core).copied().unwrap_or(0.0)
    }

    /// Ends a period in which own cores had these loads.
    pub fn step_prices(&mut self, loads: &BTreeMap<u32, CoreLoad>) {
        self.kappas.retain(|core, _| loads.contains_key(core));
        for (core, load) in loads {
            let kappa = self.kappas.entry(*core).or_insert(0.0);
            *kappa = next_kappa(*kappa, load.used.max(load.asked));
        }
    }
}

/// Returns the stage of a chain over several nodes that a table is of.
pub(super) fn stage_of<'c>(
    config: &'c crate::config::Config,
    chain: &str,
    position: u8,
) -> Option<&'c model::StageAt> {
    let chain = config.chains.iter().find(|one| one.name == chain)?;
    chain.across.as_ref()?.stages.get(usize::from(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_follows_the_load_of_its_core_and_ends_with_it() {
        let mut steering = Steering::default();
        let loads = |used, asked| BTreeMap::from([(3, CoreLoad { used, asked })]);
        for _ in 0..60 {
            steering.step_prices(&loads(0.5, 0.2));
        }
        assert!((steering.kappa(3) - 1.0).abs() < 0.01, "half used: {}", steering.kappa(3));
        // More is asked for than there is.
        for _ in 0..10 {
            steering.step_prices(&loads(1.0, 3.0));
        }
        assert_eq!(steering.kappa(3), 99.0);
        steering.step_prices(&loads(0.1, 0.1));
        assert!(steering.kappa(3) < 11.0, "it comes down at once: {}", steering.kappa(3));
        steering.step_prices(&BTreeMap::new());
        assert_eq!((steering.kappa(3), steering.kappa(9)), (0.0, 0.0));
    }

    #[test]
    fn ways_that_are_not_there_are_infinitely_long() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let network = model::Network { nodes: names.into(), links: vec![[0, 1]] };
        let graph = Network { nodes: 3, links: &network.links };
        let hops = (0..3).map(|goal| graph.hops_to(goal)).collect();
        let settings = model::Steering::default();
        let map = Map { name: "a".to_owned(), own: 0, network: network.clone(), settings, hops };
        assert_eq!([0, 1, 2, 7].map(|from| map.hops(from, 0)), [0.0, 1.0, f64::INFINITY, f64::INFINITY]);
        assert_eq!(server_of(owner(4), 4), Server::Here);
        assert_eq!(owner_of(server_of(owner(3), 4), 4), owner(3));
    }
}
