//! Plan: chains, stages, ports and rules that workers work by, as the control loop last arranged them.
//!
//! A plan never changes. A new one replaces it between two passes of a worker, so a packet sees one plan
//! at each station. Three questions are answered in three places: which chain (`classify`), which
//! position (the packet's [`crate::holders::Place`]), which instance ([`Stage::table`]).

mod hop;
mod outside;
mod paths;
mod shares;
mod stage;

use std::collections::{HashMap, HashSet};

use headgate_decide::spread::{self, SLOTS, Table};
use headgate_units::{ChainId, InstanceId, NfId, PortId, WorkerId};
use headgate_wire::nsh::ServicePath;

use crate::drop::DropReason;
use crate::holders::Entrance;
use crate::rules::Rules;

pub(crate) use hop::PackedHop;
pub use hop::{Hop, NodeId, ShareId, TunnelId};
pub use outside::{Across, Inner, Senders, Tunnel};
pub(crate) use outside::{Aim, Outer, Own};
pub use paths::ChainPath;
use paths::Paths;
pub use shares::{KnownFlows, Server, Share};
pub use stage::{OnFailure, PortPlace, Stage};

/// Chain of packets that no rule claims, so that they too are counted.
pub const UNCLAIMED: ChainId = ChainId(0);

/// End of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Out of this port.
    Port(PortId),
    /// Out of a port, behind the header of this tunnel.
    Tunnel(TunnelId),
    /// At another node.
    Node(NodeId),
    /// The last NF names the port.
    Nf,
}

/// A linear path through stages.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Its stages, in order.
    pub stages: Vec<NfId>,
    /// Its end.
    pub exit: Exit,
    /// Bound on the delay of its packets, in microseconds.
    pub delay_bound_us: Option<u32>,
    /// Whether its packets wait at the exit until they may be seen outside ([`crate::commit`]).
    pub committed: bool,
    /// The service path that leads to it, for packets with a service header.
    pub path: Option<ChainPath>,
    /// Its way over several nodes; `None` where all of it is here.
    pub across: Option<Across>,
}

/// Worker that serves an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstancePlace {
    /// The worker that owns its rings.
    pub worker: WorkerId,
}

/// Parts of a plan; [`Plan::new`] works out the rest.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Grows with each plan whose rules differ: flow entries of an older one are asked for anew. Not 0.
    pub generation: u32,
    /// Chains by number; `None` where one was removed. Number 0 is [`UNCLAIMED`] and stays `None`.
    pub chains: Vec<Option<Chain>>,
    /// Stages by number; `None` where an NF was removed.
    pub stages: Vec<Option<Stage>>,
    /// Ports by number.
    pub ports: Vec<PortPlace>,
    /// Instances by number.
    pub instances: Vec<InstancePlace>,
    /// The tunnel that leads to each node, or to the next one on the way there; `None`: none does now.
    pub nodes: Vec<Option<TunnelId>>,
    /// Tunnels by number.
    pub tunnels: Vec<Tunnel>,
    /// Tables of the stages that several nodes serve.
    pub shares: Vec<Share>,
    /// The rules by which flows go to chains.
    pub rules: Rules,
}

/// Place of a chain's hops, which chains of equal hops share: ten thousand over the same NFs need no more of
/// the cache for them than one.
#[derive(Clone, Copy, Debug)]
struct ChainHops {
    first: u32,
    /// Number of hops after the first.
    more: u16,
    /// Reason why nothing may enter it.
    closed: Option<DropReason>,
    flags: u8,
}

const _: () = assert!(size_of::<ChainHops>() == 8);

/// Flag of a chain that has a delay bound.
const BOUNDED: u8 = 1;
/// Flag of a chain whose packets wait at the station `commit`.
const COMMITTED: u8 = 2;

/// Everything a worker works by.
#[derive(Debug)]
pub struct Plan {
    parts: Parts,
    /// Hops of each chain, by chain number.
    chain_hops: Vec<ChainHops>,
    hops: Vec<PackedHop>,
    /// Different ways on from each instance, as the instances and spread stages there.
    ways: Vec<Vec<Vec<Hop>>>,
    /// Slot of a flow's hash -> instance, by stage number.
    tables: Vec<Table>,
    /// Chains by service path.
    paths: Paths,
    /// Chains over several nodes, by the service path between these.
    across: Paths,
    /// Flags that any chain has.
    flags: u8,
}

impl std::ops::Deref for Plan {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Plan {
    /// Works out each hop of each chain.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let (mut chain_hops, mut hops, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, chain) in parts.chains.iter().enumerate() {
            let way = way_of(&parts, ChainId(number as u16), chain.as_ref());
            let more = (way.len() - 1) as u16;
            // Packets enter it at any position, and what is down may lie behind them.
            let is_across = chain.as_ref().is_some_and(|chain| chain.across.is_some());
            let closed = closed(&way).filter(|_| !is_across);
            let first = *known.entry(way).or_insert_with_key(|way| {
                hops.extend(way.iter().map(|&hop| PackedHop::from(hop)));
                (hops.len() - way.len()) as u32
            });
            chain_hops.push(ChainHops { first, more, closed, flags: flags(chain.as_ref()) });
        }
        let flags = chain_hops.iter().fold(0, |flags, chain| flags | chain.flags);
        let nobody = [spread::FREE; SLOTS];
        let tables =
            parts.stages.iter().map(|stage| stage.as_ref().map_or(nobody, |stage| stage.table)).collect();
        let chains = || parts.chains.iter().map(Option::as_ref);
        let paths = Paths::of_chains(chains().map(|chain| chain?.path));
        let across = Paths::of_chains(chains().map(|chain| chain?.across?.entered_by()));
        let mut plan = Self { parts, chain_hops, hops, ways: Vec::new(), tables, paths, across, flags };
        plan.ways = ways_on(&plan);
        plan
    }

    /// Returns the hops of a chain in order, its exit last.
    #[inline]
    pub fn hops(&self, chain: ChainId) -> impl DoubleEndedIterator<Item = Hop> + ExactSizeIterator + '_ {
        let ChainHops { first, more, .. } = self.chain_hops[chain.index()];
        self.hops[first as usize..=first as usize + more as usize].iter().map(|hop| hop.unpack())
    }

    /// Returns the different ways on from an instance through the chains it serves.
    #[must_use]
    pub fn ways_on(&self, instance: InstanceId) -> &[Vec<Hop>] {
        self.ways.get(instance.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns the address to which service headers come by a port.
    #[inline(always)]
    #[must_use]
    pub fn service_address(&self, port: PortId) -> Option<[u8; 6]> {
        self.ports.get(port.index())?.service_address
    }

    /// Returns whose service headers a port takes.
    #[inline(always)]
    #[must_use]
    pub fn senders(&self, port: PortId) -> Senders {
        self.ports.get(port.index()).map_or(Senders::Anybody, |port| port.senders)
    }

    /// Returns where packets with this service path header enter; links know the paths between nodes alone.
    ///
    /// # Errors
    /// The reason why they enter nowhere.
    #[inline]
    pub fn entrance_by(&self, path: ServicePath, by_link: bool) -> Result<Entrance, DropReason> {
        let paths = if by_link { &self.across } else { &self.paths };
        let (chain, first) = paths.find(path.path).ok_or(DropReason::NshNoChain)?;
        let stages = self.chain_hops[chain.index()].more;
        let position = first.position_of(path.index, stages).ok_or(DropReason::NshIndex)?;
        Ok(Entrance::new(chain, position))
    }

    /// Returns the instances here of a stage that several nodes serve.
    #[must_use]
    pub(crate) fn running_of(&self, share: ShareId) -> &[InstanceId] {
        self.shares.get(usize::from(share.0)).map_or(&[], |share| self.running(share.stage))
    }

    /// Returns the instance of such a stage that has the flows of this hash; `None` where another node does.
    #[must_use]
    pub(crate) fn instance_here(&self, share: ShareId, flow: u32) -> Option<InstanceId> {
        let share = self.shares.get(usize::from(share.0))?;
        let is_here = share.server_of(flow) == Server::Here && !self.running(share.stage).is_empty();
        is_here.then(|| self.instance_of(share.stage, flow))
    }

    /// Returns the instances of a stage that run.
    #[must_use]
    pub fn running(&self, stage: NfId) -> &[InstanceId] {
        self.stages[stage.index()].as_ref().map_or(&[], |stage| &stage.running)
    }

    /// Returns where packets at this position of a chain go. A position beyond the last hop is that of a
    /// packet that was on its way when the chain was removed or became shorter: it takes the last hop.
    #[inline(always)]
    #[must_use]
    pub(crate) fn hop(&self, chain: ChainId, position: u8) -> PackedHop {
        let ChainHops { first, more, .. } = self.chain_hops[chain.index()];
        self.hops[(first + u32::from(more.min(u16::from(position)))) as usize]
    }

    /// Returns the reason why nothing may enter a chain now.
    #[inline(always)]
    #[must_use]
    pub fn closed(&self, chain: ChainId) -> Option<DropReason> {
        self.chain_hops[chain.index()].closed
    }

    /// Returns whether everything may enter a chain, as far as the plan knows.
    #[inline(always)]
    #[must_use]
    pub fn is_open(&self, chain: ChainId) -> bool {
        let chain = &self.chain_hops[chain.index()];
        chain.closed.is_none() & (chain.flags & BOUNDED == 0)
    }

    /// Returns whether a chain has a delay bound.
    #[inline(always)]
    #[must_use]
    pub fn is_bounded(&self, chain: ChainId) -> bool {
        self.chain_hops[chain.index()].flags & BOUNDED != 0
    }

    /// Returns whether any chain has a delay bound.
    #[inline(always)]
    #[must_use]
    pub const fn has_bounds(&self) -> bool {
        self.flags & BOUNDED != 0
    }

    /// Returns whether packets of a chain wait at the station `commit`.
    #[inline(always)]
    #[must_use]
    pub fn is_committed(&self, chain: ChainId) -> bool {
        self.chain_hops[chain.index()].flags & COMMITTED != 0
    }

    /// Returns whether packets of any chain wait there.
    #[inline(always)]
    #[must_use]
    pub const fn has_commits(&self) -> bool {
        self.flags & COMMITTED != 0
    }

    /// Returns the bits that choose instances for a flow of this hash that came by a port at a worker.
    #[must_use]
    pub(crate) fn spread_from(&self, port: PortId, worker: WorkerId, hash: u32) -> u32 {
        match self.ports.get(port.index()) {
            Some(place) if place.is_everywhere() => spread::of_worker(hash, worker, place.worker_for.len()),
            _ => hash,
        }
    }

    /// Returns the instance of a stage that has the flows of this hash.
    #[inline(always)]
    #[must_use]
    pub fn instance_of(&self, stage: NfId, flow: u32) -> InstanceId {
        self.table(stage)[spread::slot(flow)]
    }

    /// Returns the instance of a stage that has each slot.
    #[inline(always)]
    pub(crate) fn table(&self, stage: NfId) -> &Table {
        &self.tables[stage.index()]
    }

    /// Returns the position of a stage in a chain.
    #[must_use]
    pub fn position_of(&self, chain: ChainId, stage: NfId) -> Option<u8> {
        let chain = self.chains[chain.index()].as_ref()?;
        chain.stages.iter().position(|&there| there == stage).map(|position| position as u8)
    }

    /// Returns the tunnel that a hop or an exit names.
    #[must_use]
    pub(crate) fn tunnel(&self, hop: Hop) -> Option<&Tunnel> {
        let number = match hop {
            Hop::Tunnel(tunnel) => tunnel,
            Hop::Node { node, .. } => (*self.nodes.get(usize::from(node.0))?)?,
            _ => return None,
        };
        self.tunnels.get(usize::from(number.0))
    }
}

fn flags(chain: Option<&Chain>) -> u8 {
    let Some(chain) = chain else { return 0 };
    let bounded = if chain.delay_bound_us.is_some() { BOUNDED } else { 0 };
    bounded | if chain.committed { COMMITTED } else { 0 }
}

fn closed(way: &[Hop]) -> Option<DropReason> {
    way.iter().find_map(|hop| match hop {
        Hop::End(reason @ (DropReason::StageDown | DropReason::ChainRemoved)) => Some(*reason),
        _ => None,
    })
}

/// Returns the hops of a chain.
fn way_of(parts: &Parts, number: ChainId, chain: Option<&Chain>) -> Vec<Hop> {
    match chain {
        Some(chain) => {
            (0..=chain.stages.len()).map(|position| hop_at(parts, number, chain, position)).collect()
        }
        None => vec![Hop::End(DropReason::ChainRemoved)],
    }
}

fn hop_at(parts: &Parts, of: ChainId, chain: &Chain, position: usize) -> Hop {
    if let Some(share) = shares::find(&parts.shares, of, position) {
        return Hop::Shared { position: position as u8, share };
    }
    let Some(&number) = chain.stages.get(position) else {
        return match chain.exit {
            Exit::Port(port) => Hop::Port(port),
            Exit::Tunnel(tunnel) => Hop::Tunnel(tunnel),
            Exit::Node(node) => Hop::Node { position: position as u8, node },
            Exit::Nf => Hop::End(DropReason::NoExit),
        };
    };
    let Some(stage) = &parts.stages[number.index()] else { return Hop::End(DropReason::StageDown) };
    match (stage.running.as_slice(), stage.elsewhere, stage.on_failure) {
        ([], Some(node), _) => Hop::Node { position: position as u8, node },
        ([], None, OnFailure::Bypass) => hop_at(parts, of, chain, position + 1),
        ([], None, OnFailure::Drop) => Hop::End(DropReason::StageDown),
        (&[number], ..) => Hop::Instance { position: position as u8, number },
        _ => Hop::Spread { position: position as u8, stage: number },
    }
}

/// Returns the different ways on from each instance. Many chains go the same way: ten thousand over the same
/// NFs have one way on from each.
fn ways_on(plan: &Plan) -> Vec<Vec<Vec<Hop>>> {
    let (mut ways, mut seen) = (vec![HashSet::new(); plan.instances.len()], HashSet::new());
    for chain in (0..plan.chain_hops.len()).filter(|&chain| seen.insert(plan.chain_hops[chain].first)) {
        let hops: Vec<Hop> = plan.hops(ChainId(chain as u16)).collect();
        for (position, hop) in hops.iter().enumerate() {
            let from = match hop {
                Hop::Instance { number, .. } => std::slice::from_ref(number),
                Hop::Spread { stage, .. } => plan.running(*stage),
                Hop::Shared { share, .. } => plan.running_of(*share),
                _ => continue,
            };
            let is_stage = |hop: &&Hop| matches!(hop, Hop::Instance { .. } | Hop::Spread { .. });
            let way: Vec<Hop> = hops[position + 1..].iter().filter(is_stage).copied().collect();
            for number in from {
                if !ways[number.index()].contains(&way) {
                    ways[number.index()].insert(way.clone());
                }
            }
        }
    }
    ways.into_iter().map(|ways| ways.into_iter().collect()).collect()
}
