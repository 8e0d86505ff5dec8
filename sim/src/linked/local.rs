//! A machine of several: its own scene, in which each part of a chain that may lie there is a chain of its
//! own, and what its flows are in the whole.

use std::collections::BTreeMap;

use headgate_decide::steer::NodeId;

use super::scene::LinkedScene;
use crate::network::{Graph, Routes};
use crate::random::Random;
use crate::scene::{Arrivals, Chain, Flow, Idle, Scene};

/// A part of a chain for one of its flows: the chain, the flow, and the positions from which and to which.
pub(crate) type Part = (u16, u16, u8, u8);

/// What the flows of a machine's scene are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    /// Chains and flows whose packets come here, by the port that they come by: those are the first flows.
    pub(crate) entries: Vec<(u16, u16)>,
    parts: Vec<Part>,
    flows: BTreeMap<Part, u16>,
    /// Number behind the last packet of each part that was handed in.
    next: Vec<u64>,
}

impl Local {
    /// Returns a machine's scene, and what its flows are.
    pub(crate) fn new(whole: &LinkedScene, machine: u16) -> (Scene, Self) {
        let mut scene = without_traffic(whole, machine);
        let mut local = Self::default();
        for (chain, of) in (0..).zip(&whole.chains).filter(|(_, of)| of.entry() == machine) {
            for flow in 0..of.flows {
                local.entries.push((chain, flow));
                // Its chain is set before the first packet comes.
                let arrivals = of.arrivals.part(flow, of.flows);
                scene.flows.push(Flow {
                    chain: 0,
                    worker: 0,
                    bytes: of.bytes,
                    arrivals,
                    flows: 1,
                    silent: false,
                });
            }
        }
        for (chain, of) in (0..).zip(&whole.chains) {
            for from in 0..of.stages.len() {
                let here = (from..of.stages.len()).map_while(|position| of.nf_at(machine, position));
                let stages: Vec<u16> = here.collect();
                for length in 1..=stages.len() {
                    let (from, to) = (from as u8, (from + length) as u8);
                    scene.chains.push(Chain {
                        name: format!("{}[{from}..{to}]", of.name),
                        stages: stages[..length].to_vec(),
                        exit: None,
                        floor: None,
                        bound: None,
                        from,
                    });
                    local.add_flows(&mut scene, (chain, of.flows, of.bytes), from, to);
                }
            }
        }
        (scene, local)
    }

    /// Adds the flows of a part of a chain, the last one of the scene.
    fn add_flows(&mut self, scene: &mut Scene, (chain, flows, bytes): (u16, u16, u32), from: u8, to: u8) {
        let number = scene.chains.len() as u16 - 1;
        for flow in 0..flows {
            let part = (chain, flow, from, to);
            self.flows.insert(part, scene.flows.len() as u16);
            self.parts.push(part);
            self.next.push(0);
            let arrivals = Arrivals::Constant { rate: 0 };
            scene.flows.push(Flow { chain: number, worker: 0, bytes, arrivals, flows: 1, silent: false });
        }
    }

    /// Returns the flow of a part.
    pub(crate) fn flow(&self, part: Part) -> u16 {
        self.flows[&part]
    }

    /// Returns what a flow is part of.
    pub(crate) fn part(&self, flow: u16) -> Part {
        self.parts[usize::from(flow) - self.entries.len()]
    }

    /// Returns the number of the first of so many packets of a flow that are handed in.
    pub(crate) fn number(&mut self, flow: u16, packets: u32) -> u64 {
        let next = &mut self.next[usize::from(flow) - self.entries.len()];
        *next += u64::from(packets);
        *next - u64::from(packets)
    }
}

/// Returns the scene of a machine without chains and flows.
fn without_traffic(whole: &LinkedScene, machine: u16) -> Scene {
    Scene {
        seed: Random::stream(whole.seed, MACHINES + u64::from(machine)).next(),
        warm_up: whole.warm_up,
        horizon: whole.horizon,
        costs: whole.costs.clone(),
        scheduler: whole.scheduler.clone(),
        workers: 1,
        idle: Idle::Spin,
        domains: Vec::new(),
        nfs: whole.machines[usize::from(machine)].nfs.clone(),
        chains: Vec::new(),
        flows: Vec::new(),
        faults: Vec::new(),
        captures: Vec::new(),
        rates: Vec::new(),
    }
}

/// The first random stream of machines.
const MACHINES: u64 = 1 << 42;

/// Returns the scene of each machine, and what its flows are.
///
/// # Errors
/// Everything that is wrong.
pub(crate) fn machines(scene: &LinkedScene) -> Result<Vec<(Scene, Local)>, Vec<String>> {
    let mut mistakes = scene.mistakes();
    if mistakes.is_empty() {
        mistakes = out_of_reach(scene);
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let made: Vec<(Scene, Local)> =
        (0..scene.machines.len() as u16).map(|machine| Local::new(scene, machine)).collect();
    for (machine, (of, _)) in scene.machines.iter().zip(&made) {
        mistakes.extend(of.mistakes().into_iter().map(|what| format!("{}: {what}", machine.name)));
    }
    if mistakes.is_empty() { Ok(made) } else { Err(mistakes) }
}

/// Returns what lies out of each other's reach, in sentences.
fn out_of_reach(scene: &LinkedScene) -> Vec<String> {
    let ends = scene.cables.iter().map(|cable| (u32::from(cable.ends[0]), u32::from(cable.ends[1])));
    let graph = Graph::new(scene.machines.len() as u32, ends, 0.0);
    let routes = Routes::new(&graph, |_| true);
    let node = |machine: u16| NodeId(machine.into());
    let mut found = Vec::new();
    for (number, chain) in scene.chains.iter().enumerate() {
        let all = chain.stages.iter().flatten().map(|host| host.machine).chain([chain.exit]);
        for machine in all {
            if routes.hops(node(chain.entry()), node(machine)).is_none() {
                let name = &scene.machines[usize::from(machine)].name;
                found.push(format!("chains[{number}]: no cables lead to `{name}`; add one, or leave it out"));
            }
        }
    }
    found
}
