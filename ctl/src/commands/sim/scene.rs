//! From a checked configuration to the simulator's scene. What a scene has no room for was refused before
//! (`headgate_config::load_simulated`), so nothing is left out here.

use headgate_config::model::{Backend, Chain, Generator, Load, Nf, Policy, PortId};
use headgate_config::{self as config, Config, Mode, NfCost, Rate, Simulated, Simulation, SizeMix};
use headgate_session::message::Loop;
use headgate_sim::{self as sim, Costs, Scene, Waits};
use headgate_units::Span;
use serde_json::{Value as Json, json};

/// Returns the scene of a configuration.
///
/// # Errors
/// A cost of the arguments of a synthetic NF that cannot be read, and every mistake of the scene.
pub fn of(simulated: &Simulated) -> Result<Scene, String> {
    let Simulated { config, simulation, .. } = simulated;
    let mut nfs = Vec::new();
    for (nf, cost) in config.nfs.iter().zip(&simulation.nfs) {
        nfs.push(nf_of(nf, cost.as_ref())?);
    }
    let scene = Scene {
        seed: simulation.seed,
        warm_up: Span(simulation.warm_up_ns),
        horizon: Span(simulation.horizon_ns),
        costs: costs_of(config, simulation)?,
        scheduler: scheduler_of(config),
        workers: 1,
        nfs,
        chains: config.chains.iter().map(chain_of).collect(),
        flows: flows_of(config, simulation),
    };
    match scene.mistakes().as_slice() {
        [] => Ok(scene),
        mistakes => Err(mistakes.join("; ")),
    }
}

/// Costs of the default machine with those that the file gives.
fn costs_of(config: &Config, simulation: &Simulation) -> Result<Costs, String> {
    let mut costs = json!(Costs::default());
    for (name, value) in &simulation.costs {
        costs[name] = json!(value);
    }
    let mut costs: Costs = serde_json::from_value(costs).map_err(|error| error.to_string())?;
    if let Some(ms) = config.scheduler.rr_quantum_ms {
        costs.round_robin = Span::from_millis(ms.into());
    }
    Ok(costs)
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
    }
}

fn nf_of(nf: &Nf, cost: Option<&NfCost>) -> Result<sim::Nf, String> {
    // One without a cost is visited by no chain.
    let cost = match cost {
        None => sim::Cost::Fixed(0),
        Some(NfCost::Cycles(cycles)) => sim::Cost::Fixed(*cycles),
        Some(NfCost::Synthetic(cycles)) => {
            synthetic(cycles).ok_or_else(|| format!("NF `{}`: `cycles` = {cycles} is no cost", nf.name))?
        }
    };
    Ok(sim::Nf {
        name: nf.name.clone(),
        core: nf.cores.first().copied().unwrap_or(0) as u16,
        worker: 0,
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
    })
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

fn chain_of(chain: &Chain) -> sim::Chain {
    sim::Chain { name: chain.name.clone(), stages: chain.stages.iter().map(|nf| nf.0).collect() }
}

/// Returns the traffic that the file gives to ports, and that of generators without such.
fn flows_of(config: &Config, simulation: &Simulation) -> Vec<sim::Flow> {
    let mut flows = Vec::new();
    for traffic in &simulation.traffic {
        let Some(chain) = traffic.chain.map(|chain| chain.0).or_else(|| chain_by_rules(config, traffic.port))
        else {
            continue;
        };
        let rate = traffic.rate;
        let arrivals = match traffic.arrivals {
            config::Arrivals::Constant => sim::Arrivals::Constant { rate },
            config::Arrivals::Poisson => sim::Arrivals::Poisson { rate },
            config::Arrivals::OnOff { on_ns, off_ns } => {
                sim::Arrivals::OnOff { rate, on: Span(on_ns), off: Span(off_ns) }
            }
        };
        flows.push(sim::Flow { chain, worker: 0, bytes: traffic.bytes, arrivals });
    }
    for (number, port) in config.ports.iter().enumerate() {
        let id = PortId(number as u16);
        if let Backend::Generator(generator) = &port.backend
            && simulation.traffic.iter().all(|traffic| traffic.port != id)
            && let Some(chain) = chain_by_rules(config, id)
        {
            flows.extend(flows_of_generator(generator, chain));
        }
    }
    flows
}

/// Returns the chain of a port's packets, whose first rule takes all of them; `None`: no rule takes any.
fn chain_by_rules(config: &Config, port: PortId) -> Option<u16> {
    let rule = config.rules.iter().find(|rule| rule.port.is_none_or(|one| one == port))?;
    Some(rule.chain.0)
}

/// Returns the flows of a generator: one for each class, because within a class packets keep their order.
fn flows_of_generator(generator: &Generator, chain: u16) -> Vec<sim::Flow> {
    let bytes = match &generator.sizes {
        SizeMix::Weighted(sizes) => sizes.first().map_or(64, |(bytes, _)| *bytes),
        SizeMix::Imix => 64,
    };
    let rates = match &generator.load {
        Load::Even { rate: Rate::PacketsPerSecond(rate), .. } => vec![*rate],
        Load::Even { rate: Rate::Max, .. } => Vec::new(),
        Load::Classes(classes) => classes.iter().map(|class| class.packets_per_second).collect(),
    };
    let flow = |rate| sim::Flow { chain, worker: 0, bytes, arrivals: sim::Arrivals::Constant { rate } };
    rates.into_iter().map(flow).collect()
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
