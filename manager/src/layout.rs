//! Translates a configuration to numbers: chains, stages, ports and rules as the packet path knows them.

use std::collections::HashMap;

use headgate_decide::units::{ChainId, NfId, PortId, WorkerId};
use headgate_path::plan::{
    Chain, ChainPath, Exit, InstancePlace, OnFailure, Parts, PortPlace, Stage, Tunnel, TunnelId,
};
use headgate_path::rules::{Prefix, Rule, Rules};

use crate::config::model::{self, Config, Out};
use crate::fabric::INSTANCES_MAX;

/// Numbers of all named things. None is used twice while packets may still carry it.
#[derive(Debug, Default)]
pub struct Numbers {
    /// NF name -> stage number.
    pub stages: HashMap<String, u16>,
    /// Chain name -> chain number.
    pub chains: HashMap<String, u16>,
}

/// Returns the worker that serves a port for each worker: itself if it has a queue of it.
fn port_place(queues_of_worker: &[u32], service_address: Option<[u8; 6]>) -> PortPlace {
    let owners: Vec<u8> =
        (0u8..).zip(queues_of_worker).filter(|(_, queues)| **queues > 0).map(|(w, _)| w).collect();
    let worker_for = (0u8..)
        .zip(queues_of_worker)
        .map(|(worker, queues)| {
            let nearest = || owners.get(worker as usize % owners.len().max(1)).copied().unwrap_or(0);
            WorkerId(if *queues > 0 { worker } else { nearest() })
        })
        .collect();
    PortPlace { worker_for, service_address }
}

/// Returns the parts of the first plan. `ports` gives, for each port, how many queues each worker has of it,
/// and the address to which service headers come by it.
#[must_use]
pub fn first_parts(config: &Config, ports: &[(Vec<u32>, Option<[u8; 6]>)], numbers: &mut Numbers) -> Parts {
    let mut parts = Parts {
        generation: 1,
        chains: vec![None],
        ports: ports.iter().map(|(of_worker, address)| port_place(of_worker, *address)).collect(),
        instances: vec![InstancePlace { worker: WorkerId(0) }; INSTANCES_MAX],
        ..Parts::default()
    };
    for nf in &config.nfs {
        numbers.stages.insert(nf.name.clone(), parts.stages.len() as u16);
        parts.stages.push(Some(stage(nf)));
    }
    for chain in path_chains(config) {
        numbers.chains.insert(chain.name.clone(), parts.chains.len() as u16);
        let path = path_chain(config, chain, numbers, &mut parts);
        parts.chains.push(Some(path));
    }
    parts.rules = rules(config, numbers);
    parts
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
    Chain {
        name: chain.name.clone(),
        stages: chain.stages.iter().map(|nf| NfId(numbers.stages[&config.nfs[nf.index()].name])).collect(),
        exit: match chain.out {
            Out::Port(port) => exit(chain, PortId(port.0), parts),
            Out::Nf => Exit::Nf,
            Out::Interface => unreachable!("chains on interfaces are none of the path's"),
        },
        delay_bound_us: chain.delay_bound_us,
        committed: false,
        path: chain.service.map(path_of),
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
