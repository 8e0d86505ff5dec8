//! Translates a configuration to numbers: chains, stages, ports and rules as the packet path knows them.

use std::collections::HashMap;
use std::sync::Arc;

use headgate_decide::spread::SLOTS;
use headgate_decide::units::{ChainId, NfId, PortId, Span, WorkerId};
use headgate_path::plan::{
    Across, Chain, ChainPath, Exit, InstancePlace, KnownFlows, NodeId, OnFailure, Parts, PortPlace, Senders,
    Server, Share, Stage, Tunnel, TunnelId,
};
use headgate_path::rules::{Prefix, Rule, Rules};
use headgate_shm::Pages;

use crate::config::model::{self, Config, Out};
use crate::config::{Affinity, Hugepages};
use crate::fabric::INSTANCES_MAX;

/// Service index of packets that come to the first stage of a chain over several nodes: the largest (RFC
/// 8300, 2.3).
const FIRST_INDEX: u8 = u8::MAX;

/// Numbers of all named things. None is used twice while packets may still carry it.
#[derive(Debug, Default)]
pub struct Numbers {
    /// NF name -> stage number.
    pub stages: HashMap<String, u16>,
    /// Chain name -> chain number.
    pub chains: HashMap<String, u16>,
}

/// Returns the worker that serves a port for each worker: itself if it has a queue of it.
fn port_place(queues_of_worker: &[u32], service_address: Option<[u8; 6]>, port: &model::Port) -> PortPlace {
    let owners: Vec<u8> =
        (0u8..).zip(queues_of_worker).filter(|(_, queues)| **queues > 0).map(|(w, _)| w).collect();
    let worker_for = (0u8..)
        .zip(queues_of_worker)
        .map(|(worker, queues)| {
            let nearest = || owners.get(worker as usize % owners.len().max(1)).copied().unwrap_or(0);
            WorkerId(if *queues > 0 { worker } else { nearest() })
        })
        .collect();
    // Whose they are is known when the neighbour answers.
    let senders = if port.link.is_some() { Senders::UnknownNeighbour } else { Senders::Anybody };
    PortPlace { worker_for, service_address, senders }
}

/// Returns the parts of the first plan. `ports` gives, for each port, how many queues each worker has of it,
/// and the address to which service headers come by it.
#[must_use]
pub fn first_parts(config: &Config, ports: &[(Vec<u32>, Option<[u8; 6]>)], numbers: &mut Numbers) -> Parts {
    let mut parts = Parts {
        generation: 1,
        chains: vec![None],
        ports: (ports.iter().zip(&config.ports))
            .map(|((of_worker, address), port)| port_place(of_worker, *address, port))
            .collect(),
        nodes: vec![None; config.node.as_ref().map_or(0, |node| node.network.nodes.len())],
        // Those of links come first, in the order of links.
        tunnels: vec![Tunnel::default(); config.node.as_ref().map_or(0, |node| node.links.len())],
        instances: vec![InstancePlace { worker: WorkerId(0) }; INSTANCES_MAX],
        ..Parts::default()
    };
    for nf in &config.nfs {
        numbers.stages.insert(nf.name.clone(), parts.stages.len() as u16);
        parts.stages.push(Some(stage(nf)));
    }
    add_stages_elsewhere(config, numbers, &mut parts);
    for chain in path_chains(config) {
        numbers.chains.insert(chain.name.clone(), parts.chains.len() as u16);
        let path = path_chain(config, chain, numbers, &mut parts);
        parts.chains.push(Some(path));
    }
    parts.shares = shares(config, numbers, |_, _| None);
    parts.rules = rules(config, numbers);
    parts
}

/// Adds the stages of chains over several nodes that other nodes run, unless they are there.
pub fn add_stages_elsewhere(config: &Config, numbers: &mut Numbers, parts: &mut Parts) {
    for (name, node) in stages_elsewhere(config) {
        if numbers.stages.contains_key(&name) {
            continue;
        }
        numbers.stages.insert(name.clone(), parts.stages.len() as u16);
        let stage = Stage::new(name, OnFailure::Drop);
        parts.stages.push(Some(Stage { elsewhere: node, ..stage }));
    }
}

/// Returns the stages of chains over several nodes that other nodes run, and which; `None` where several
/// share one.
pub fn stages_elsewhere(config: &Config) -> impl Iterator<Item = (String, Option<NodeId>)> + '_ {
    config.node.iter().flat_map(|own| {
        let stages = config.chains.iter().flat_map(|chain| &chain.across).flat_map(|across| &across.stages);
        let elsewhere = stages.filter(|stage| !stage.is_at(&own.name));
        elsewhere.map(|stage| {
            let node = stage.nodes.first().filter(|_| !stage.is_shared());
            let node = node.and_then(|node| own.network.place(node)).map(NodeId);
            (stage.name_at(&own.name), node)
        })
    })
}

/// Time between two ticks of the clock by which flows are known at the nodes that they go to.
pub const SHARE_TICK: Span = Span::from_millis(250);

/// Returns the tables of the stages that several nodes serve. `before` gives that of the same NF at this
/// position of the chain of this name, where there was one: its flows stay where they are.
#[must_use]
pub fn shares(
    config: &Config,
    numbers: &Numbers,
    before: impl Fn(&str, usize) -> Option<Share>,
) -> Vec<Share> {
    let Some(node) = &config.node else { return Vec::new() };
    let mut shares = Vec::new();
    for chain in path_chains(config) {
        let stages = chain.across.iter().flat_map(|across| across.stages.iter().enumerate());
        for (position, stage) in stages.filter(|(_, stage)| stage.is_shared()) {
            let idle = match stage.affinity {
                Affinity::None => 0,
                Affinity::Flow | Affinity::Session => {
                    config.flows.idle_timeout_ns.div_ceil(SHARE_TICK.0).max(1)
                }
            };
            let idle = u32::try_from(idle).unwrap_or(u32::MAX);
            let first = stage.nodes.iter().find_map(|one| node.network.place(one)).map(NodeId);
            let first = first.filter(|_| !stage.is_at(&node.name)).map_or(Server::Here, Server::Node);
            let number = ChainId(numbers.chains[&chain.name]);
            let there = NfId(numbers.stages[&stage.name_at(&node.name)]);
            let known = before(&chain.name, position).filter(|share| share.known.stay() == (idle > 0));
            let share = known.unwrap_or_else(|| Share {
                chain: number,
                position: position as u8,
                stage: there,
                servers: [first; SLOTS],
                alive: Vec::new(),
                known: Arc::new(KnownFlows::new(idle)),
            });
            shares.push(Share { chain: number, stage: there, ..share });
        }
    }
    shares
}

/// Returns a stage for an NF, with nothing running yet.
#[must_use]
pub fn stage(nf: &model::Nf) -> Stage {
    let on_failure = match nf.on_failure {
        crate::config::OnFailure::Drop => OnFailure::Drop,
        crate::config::OnFailure::Bypass => OnFailure::Bypass,
    };
    Stage::new(nf.name.clone(), on_failure)
}

/// Returns the chains that the packet path knows: not those on interfaces of the kernel.
pub fn path_chains(config: &Config) -> impl Iterator<Item = &model::Chain> {
    config.chains.iter().filter(|chain| chain.io.is_none())
}

/// Returns a chain in numbers; one of [`path_chains`]. Where it leaves for a next hop there is a tunnel for
/// it.
#[must_use]
pub fn path_chain(config: &Config, chain: &model::Chain, numbers: &Numbers, parts: &mut Parts) -> Chain {
    let across = chain.across.as_ref().zip(config.node.as_ref());
    let names: Vec<String> = match across {
        Some((across, node)) => across.stages.iter().map(|stage| stage.name_at(&node.name)).collect(),
        None => chain.stages.iter().map(|nf| config.nfs[nf.index()].name.clone()).collect(),
    };
    Chain {
        name: chain.name.clone(),
        stages: names.iter().map(|name| NfId(numbers.stages[name])).collect(),
        exit: match chain.out {
            Out::Port(port) => exit(chain, PortId(port.0), parts),
            Out::Nf => Exit::Nf,
            Out::Node => {
                let exit = across.and_then(|(across, node)| node.network.place(&across.exit));
                Exit::Node(NodeId(exit.unwrap_or(u16::MAX)))
            }
            Out::Interface => unreachable!("chains on interfaces are none of the path's"),
        },
        delay_bound_us: chain.delay_bound_us,
        committed: false,
        path: chain.service.map(path_of),
        across: across.map(|(across, node)| way_of(across, node)),
    }
}

/// Returns the way of a chain over several nodes. Nodes have the numbers of their places, from 1.
fn way_of(across: &model::Across, node: &model::Node) -> Across {
    let number = |name: &str| node.network.place(name).map_or(0, |place| place + 1);
    Across {
        path: ChainPath { path: across.path, index: FIRST_INDEX },
        enters: true,
        ingress: number(&node.name),
        egress: number(&across.exit),
    }
}

const fn path_of(service: model::Service) -> ChainPath {
    ChainPath { path: service.path, index: service.index }
}

/// Returns the exit of a chain that leaves by a port. Tunnels that are the same are one.
fn exit(chain: &model::Chain, port: PortId, parts: &mut Parts) -> Exit {
    let own = parts.ports.get(port.index()).and_then(|place| place.service_address);
    let next = chain.service.and_then(|service| Some((service, service.next?)));
    let Some(((service, next), own)) = next.zip(own) else { return Exit::Port(port) };
    let tunnel = Tunnel::on_path(port, own, next.0.0, path_of(service), chain.stages.len() as u8);
    let known = parts.tunnels.iter().position(|one| *one == tunnel);
    let number = known.unwrap_or_else(|| {
        parts.tunnels.push(tunnel);
        parts.tunnels.len() - 1
    });
    Exit::Tunnel(TunnelId(number as u16))
}

/// Returns the pages of the manager's own tables. They take none of the reserved ones: the kernel makes huge
/// pages of what is private to a process where it can, and takes them back with it.
#[must_use]
pub const fn pages_of_tables(config: &Config) -> Pages {
    match config.memory.hugepages {
        Hugepages::Auto | Hugepages::Require => Pages::Huge,
        Hugepages::Never => Pages::Ordinary,
    }
}

/// Returns the rules in numbers.
#[must_use]
pub fn rules(config: &Config, numbers: &Numbers) -> Rules {
    let prefix = |prefix: &crate::config::Prefix| Prefix { address: prefix.address, bits: prefix.length };
    let range = |range: &crate::config::PortRange| (range.first, range.last);
    let rule = |rule: &model::Rule| Rule {
        ingress: rule.port.map(|port| PortId(port.0)),
        vlan: rule.vlan.map(|vlan| vlan.0),
        ethertype: rule.ethertype.map(|ethertype| ethertype.0),
        protocol: rule.protocol.map(|protocol| protocol.0),
        source: rule.source.as_ref().map(prefix),
        destination: rule.destination.as_ref().map(prefix),
        source_port: rule.source_port.as_ref().map(range),
        destination_port: rule.destination_port.as_ref().map(range),
        chain: ChainId(numbers.chains[&config.chains[rule.chain.index()].name]),
        position: 0,
    };
    Rules::new(&config.rules.iter().map(rule).collect::<Vec<_>>())
}
