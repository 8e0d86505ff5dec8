//! From a checked configuration to the simulator's scene. What a scene has no room for was refused before
//! (`headgate_config::load_simulated`), so nothing is left out here.

use std::path::Path;

use headgate_config::model::{Backend, Chain, Nf, Out, Policy, PortId};
use headgate_config::{
    self as config, Config, FaultKind, IdleWorker, Mode, NfCost, SimFault, Simulated, Simulation,
};
use headgate_session::message::Loop;
use headgate_sim::{self as sim, Costs, Scene, Waits};
use headgate_units::Span;
use serde_json::{Value as Json, json};

use super::{captured, generator};

/// Returns the scene of a configuration.
///
/// # Errors
/// A cost of the arguments of a synthetic NF that cannot be read, and every mistake of the scene.
pub fn of(simulated: &Simulated) -> Result<Scene, String> {
    let Simulated { config, simulation, .. } = simulated;
    let mut nfs = Vec::new();
    for ((nf, cost), pauses) in config.nfs.iter().zip(&simulation.nfs).zip(&simulation.pauses) {
        let pauses = pauses.map(|of| sim::Pauses { every: of.every, length: Span(of.length_ns) });
        nfs.push(sim::Nf { pauses, ..nf_of(nf, cost.as_ref(), config.manager.cores.len())? });
    }
    let (mut captures, mut rates) = (Vec::new(), Vec::new());
    let scene = Scene {
        seed: simulation.seed,
        warm_up: Span(simulation.warm_up_ns),
        horizon: Span(simulation.horizon_ns),
        costs: costs_of(config, simulation)?,
        scheduler: scheduler_of(config),
        workers: config.manager.cores.len() as u16,
        idle: idle_of(config.manager.idle),
        domains: config.domains.iter().map(|domain| domain.part).collect(),
        nfs,
        chains: config.chains.iter().map(|chain| chain_of(chain, config)).collect(),
        flows: flows_of(config, simulation, &mut captures, &mut rates)?,
        faults: simulation.faults.iter().map(fault_of).collect(),
        captures,
        rates,
    };
    match scene.mistakes().as_slice() {
        [] => Ok(scene),
        mistakes => Err(mistakes.join("; ")),
    }
}

/// Costs of the default machine with those that the file gives.
fn costs_of(config: &Config, simulation: &Simulation) -> Result<Costs, String> {
    let of_file = match &simulation.cost_file {
        Some(file) => read_costs(file)?,
        None => Costs::default(),
    };
    let mut costs = json!(of_file);
    for (name, value) in &simulation.costs {
        costs[name] = json!(value);
    }
    let mut costs: Costs = serde_json::from_value(costs).map_err(|error| error.to_string())?;
    if let Some(ms) = config.scheduler.rr_quantum_ms {
        costs.round_robin = Span::from_millis(ms.into());
    }
    Ok(costs)
}

/// Reads a cost file.
///
/// # Errors
/// It cannot be read, or everything that is wrong with it.
pub fn read_costs(file: &Path) -> Result<Costs, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        format!("the cost file {shown} cannot be read: {error}; `headgate sim calibrate` writes one")
    })?;
    Costs::default().read(&text).map_err(|mistakes| format!("{shown}: {}", mistakes.join("; ")))
}

fn fault_of(fault: &SimFault) -> sim::Fault {
    let what = match fault.what {
        FaultKind::Kill => sim::Misfortune::Kill,
        FaultKind::Hang => sim::Misfortune::Hang,
        FaultKind::Stop => sim::Misfortune::Stop,
        FaultKind::Lie => sim::Misfortune::Lie,
    };
    sim::Fault { at: Span(fault.at_ns), nf: fault.nf.0, instance: fault.instance, what }
}

const fn idle_of(idle: IdleWorker) -> sim::Idle {
    match idle {
        IdleWorker::Spin => sim::Idle::Spin,
        IdleWorker::Yield => sim::Idle::Yield,
        IdleWorker::Sleep => sim::Idle::Sleep,
    }
}

fn scheduler_of(config: &Config) -> sim::Scheduler {
    let of = &config.scheduler;
    sim::Scheduler {
        weighs: matches!(of.mode, Mode::Weights | Mode::Nfvnice),
        presses_back: matches!(of.mode, Mode::Backpressure | Mode::Nfvnice),
        slices: of.mode == Mode::Unis,
        high_watermark: of.high_watermark,
        low_watermark: of.low_watermark,
        queue_time: Span::from_micros(of.queue_time_us.into()),
        pending: of.pending,
        weights_every: Span::from_millis(of.weights_every_ms.into()),
        claim_cores: of.claim_cores,
        gamma_percent: of.unis.gamma,
        occupancy: of.unis.occupancy,
        rt_percent: 100,
        ecn_mark: of.ecn_watermark,
    }
}

fn nf_of(nf: &Nf, cost: Option<&NfCost>, workers: usize) -> Result<sim::Nf, String> {
    // One without a cost is visited by no chain.
    let cost = match cost {
        None => sim::Cost::Fixed(0),
        Some(NfCost::Cycles(cycles)) => sim::Cost::Fixed(*cycles),
        Some(NfCost::Synthetic(cycles)) => {
            synthetic(cycles).ok_or_else(|| format!("NF `{}`: `cycles` = {cycles} is no cost", nf.name))?
        }
    };
    // An instance belongs to the worker that its core's number says, as the manager has it.
    let place = |core: &u32| sim::Place { core: *core as u16, worker: (*core as usize % workers) as u16 };
    let first = nf.cores.first().map_or(sim::Place { core: 0, worker: 0 }, place);
    Ok(sim::Nf {
        name: nf.name.clone(),
        core: first.core,
        worker: first.worker,
        instances: nf.cores.iter().skip(1).map(place).collect(),
        domain: nf.domain.0,
        ring: nf.ring,
        priority: nf.priority,
        policy: match nf.policy {
            Policy::Normal { .. } => sim::Policy::Normal,
            Policy::Batch { .. } => sim::Policy::Batch,
            Policy::RoundRobin { .. } => sim::Policy::RoundRobin,
            Policy::Fifo { .. } => sim::Policy::Fifo,
        },
        waits: match nf.waits {
            Loop::Notified => Waits::Notified,
            Loop::Polling => Waits::Polling,
            Loop::Cooperative { yield_after } => Waits::Cooperative { yield_after },
        },
        cost,
        changes: Vec::new(),
        pauses: None,
        rt_priority: rt_priority_of(nf.policy),
        slice: slice_us_of(nf.policy).map(|us| Span::from_micros(us.into())),
    })
}

const fn rt_priority_of(policy: Policy) -> u8 {
    match policy {
        Policy::RoundRobin { rt_priority } | Policy::Fifo { rt_priority } => rt_priority,
        Policy::Normal { .. } | Policy::Batch { .. } => 1,
    }
}

const fn slice_us_of(policy: Policy) -> Option<u32> {
    match policy {
        Policy::Normal { slice_us, .. } | Policy::Batch { slice_us, .. } => slice_us,
        Policy::RoundRobin { .. } | Policy::Fifo { .. } => None,
    }
}

/// Returns the cost that a synthetic NF takes in its `cycles`.
fn synthetic(cycles: &Json) -> Option<sim::Cost> {
    if let Some(fixed) = cycles.as_u64() {
        return Some(sim::Cost::Fixed(fixed));
    }
    let (kind, of) = cycles.as_object()?.iter().next()?;
    let pairs = |first: &str, second: &str| -> Option<Vec<(u64, u64)>> {
        of.as_array()?.iter().map(|one| Some((one[first].as_u64()?, one[second].as_u64()?))).collect()
    };
    Some(match kind.as_str() {
        "steps" => sim::Cost::BySize(
            pairs("from", "cycles")?
                .into_iter()
                .map(|(from, cycles)| Some((u32::try_from(from).ok()?, cycles)))
                .collect::<Option<_>>()?,
        ),
        "uniform" => sim::Cost::Uniform { least: of["min"].as_u64()?, most: of["max"].as_u64()? },
        "exponential" => sim::Cost::Exponential { mean: of["mean"].as_u64()? },
        "choice" => sim::Cost::OneOf(
            pairs("cycles", "weight")?
                .into_iter()
                .map(|(cycles, weight)| Some((cycles, u32::try_from(weight).ok()?)))
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

fn chain_of(chain: &Chain, config: &Config) -> sim::Chain {
    let workers = config.manager.cores.len() as u16;
    let queues = match chain.out {
        Out::Port(port) => queues_of(port, config),
        Out::Nf | Out::Node | Out::Interface => workers,
    };
    // Where not every worker has a queue, packets go to the first one.
    let exit = (queues < workers).then_some(0);
    sim::Chain {
        name: chain.name.clone(),
        stages: chain.stages.iter().map(|nf| nf.0).collect(),
        exit,
        floor: chain.rate_floor,
        bound: chain.delay_bound_us.map(|us| Span::from_micros(us.into())),
        from: 0,
    }
}

/// Returns how many workers have a queue of a port: the first ones, as the manager deals queues.
fn queues_of(port: PortId, config: &Config) -> u16 {
    let workers = config.manager.cores.len() as u16;
    match &config.ports[port.index()].backend {
        Backend::Generator(_) | Backend::Null | Backend::Elsewhere { .. } => workers,
        Backend::Dpdk(device) => device.queues.min(workers),
        _ => 1,
    }
}

/// Returns the flows of a port's packets, spread over its queues.
fn spread_over_queues(flow: &sim::Flow, port: PortId, config: &Config) -> Vec<sim::Flow> {
    let queues = queues_of(port, config).max(1);
    let of = |worker: u16| sim::Flow {
        worker,
        arrivals: flow.arrivals.part(worker, queues),
        flows: (flow.flows / queues).max(1),
        ..flow.clone()
    };
    (0..queues).map(of).collect()
}

/// Returns how many flows of the model stand for so many: as many as instances can tell apart, and one where
/// no NF of the chain has several.
fn told_apart(flows: u32, chain: u16, config: &Config) -> u16 {
    let mut stages = config.chains[usize::from(chain)].stages.iter();
    let spreads = stages.any(|nf| config.nfs[nf.index()].cores.len() > 1);
    if spreads { flows.clamp(1, FLOWS_TOLD_APART) as u16 } else { 1 }
}

/// Shape of heavy tails: of bursts that add up to self-similar traffic, from 1 to 2 (Willinger et al.,
/// 1997). Our choice: the middle.
const TAIL_SHAPE_PERCENT: u32 = 150;
/// Slots of the table by which flows are spread over instances (`headgate_decide::spread`).
const FLOWS_TOLD_APART: u32 = headgate_decide::spread::SLOTS as u32;

/// Returns when packets come; those of a capture are its own.
const fn arrivals_of(traffic: &config::Traffic) -> sim::Arrivals {
    let rate = traffic.rate;
    match traffic.arrivals {
        config::Arrivals::Constant | config::Arrivals::Capture(_) => sim::Arrivals::Constant { rate },
        config::Arrivals::Poisson => sim::Arrivals::Poisson { rate },
        config::Arrivals::OnOff { on_ns, off_ns } => {
            sim::Arrivals::OnOff { rate, on: Span(on_ns), off: Span(off_ns) }
        }
        config::Arrivals::HeavyTailed { on_ns, off_ns } => sim::Arrivals::HeavyTailed {
            rate,
            on: Span(on_ns),
            off: Span(off_ns),
            shape_percent: TAIL_SHAPE_PERCENT,
        },
        config::Arrivals::Tcp { rtt_ns, window, ecn } => {
            sim::Arrivals::Tcp { rate, rtt: Span(rtt_ns), window, ecn }
        }
    }
}

/// Returns the traffic that the file gives to ports, and that of generators without such.
///
/// # Errors
/// A capture that cannot be read.
fn flows_of(
    config: &Config,
    simulation: &Simulation,
    captures: &mut Vec<sim::Capture>,
    rates: &mut Vec<sim::RateChange>,
) -> Result<Vec<sim::Flow>, String> {
    let mut flows = Vec::new();
    for traffic in &simulation.traffic {
        let Some(chain) = traffic.chain.map(|chain| chain.0).or_else(|| chain_by_rules(config, traffic.port))
        else {
            continue;
        };
        let told = told_apart(u32::MAX, chain, config);
        let silent = config.ports[traffic.port.index()].backend.is_silent();
        if let config::Arrivals::Capture(file) = &traffic.arrivals {
            for (bytes, capture) in captured::read(file)? {
                let arrivals = sim::Arrivals::Replay { capture: captures.len() as u16 };
                flows.push(sim::Flow { chain, worker: 0, bytes, arrivals, flows: told, silent });
                captures.push(capture);
            }
            continue;
        }
        let arrivals = arrivals_of(traffic);
        let bytes = traffic.bytes;
        let flow = sim::Flow { chain, worker: 0, bytes, arrivals, flows: told, silent };
        flows.extend(spread_over_queues(&flow, traffic.port, config));
    }
    add_generators(config, simulation, &mut flows, rates);
    Ok(flows)
}

/// Adds the traffic of generators to which the file gives none.
fn add_generators(
    config: &Config,
    simulation: &Simulation,
    flows: &mut Vec<sim::Flow>,
    rates: &mut Vec<sim::RateChange>,
) {
    for (number, port) in config.ports.iter().enumerate() {
        let id = PortId(number as u16);
        if let Backend::Generator(generator) = &port.backend
            && simulation.traffic.iter().all(|traffic| traffic.port != id)
            && let Some(chain) = chain_by_rules(config, id)
        {
            let told = |flows| told_apart(flows, chain, config);
            for flow in generator::flows(generator, chain, told) {
                for flow in spread_over_queues(&flow, id, config) {
                    rates.extend(generator::changes(generator, flows.len(), &flow));
                    flows.push(flow);
                }
            }
        }
    }
}

/// Returns the chain of a port's packets, whose first rule takes all of them; `None`: no rule takes any.
fn chain_by_rules(config: &Config, port: PortId) -> Option<u16> {
    let rule = config.rules.iter().find(|rule| rule.port.is_none_or(|one| one == port))?;
    Some(rule.chain.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_of_a_file_is_one_of_the_model() {
        let schema = config::schema();
        let keys = schema.pointer("/properties/sim/properties/costs/properties").expect("they are keys");
        let known = json!(Costs::default());
        let keys: Vec<&String> = keys.as_object().expect("a table").keys().collect();
        assert!(keys.len() > 10 && keys.iter().all(|key| known.get(key.as_str()).is_some()), "{keys:?}");
    }

    #[test]
    fn the_costs_of_a_synthetic_nf_are_those_of_the_model() {
        for (cycles, wanted) in [
            (json!(120), Some(sim::Cost::Fixed(120))),
            (json!({ "uniform": { "min": 1, "max": 9 } }), Some(sim::Cost::Uniform { least: 1, most: 9 })),
            (json!({ "exponential": { "mean": 250 } }), Some(sim::Cost::Exponential { mean: 250 })),
            (
                json!({ "steps": [{ "from": 64, "cycles": 5 }, { "from": 512, "cycles": 7 }] }),
                Some(sim::Cost::BySize(vec![(64, 5), (512, 7)])),
            ),
            (
                json!({ "choice": [{ "cycles": 120, "weight": 2 }, { "cycles": 550, "weight": 1 }] }),
                Some(sim::Cost::OneOf(vec![(120, 2), (550, 1)])),
            ),
            (json!({ "steps": [{ "from": 64 }] }), None),
            (json!({ "often": 1 }), None),
            (json!(-1), None),
        ] {
            assert_eq!(synthetic(&cycles), wanted, "{cycles}");
        }
    }
}
