//! A test bed as a scene of the simulator: what the configuration of the bed would make of a machine.

use headgate_decide::units::Span;
use headgate_sim::{self as sim, Arrivals, Cost, Costs, Scene};

use super::bed::{Chain, Mode, Policy, TestBed, Traffic, Waits, Work};

/// Places of a ring where a bed says nothing: the defaults of the configuration, without and with time
/// slices.
const RING: u32 = 4_096;
const RING_OF_SLICES: u32 = 16_384;
/// Time before something is counted, as in runs that are not `--quick`.
pub const WARM_UP: Span = Span::from_millis(300);
/// Time for which is counted.
pub const WINDOW: Span = Span::from_secs(1);

/// A machine that is modelled.
#[derive(Clone, Debug)]
pub struct Model {
    /// Cores for NFs.
    pub nf_cores: usize,
    /// What things cost on it.
    pub costs: Costs,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

impl Model {
    /// Cycles of its time stamp counter in a second.
    #[must_use]
    pub fn cycles_per_second(&self) -> f64 {
        self.costs.cycles_per_micro as f64 * 1e6
    }

    /// Returns the scene of a bed.
    ///
    /// # Errors
    /// What of it is not modelled, in words.
    pub fn scene(&self, bed: &TestBed) -> Result<Scene, String> {
        if !bed.more.is_empty() {
            return Err("ports of the kernel and what comes by them".to_owned());
        }
        let nfs: Vec<sim::Nf> = match bed.fused {
            true => vec![self.nf(bed, 0, fused(&bed.nfs)?)],
            false => bed
                .nfs
                .iter()
                .enumerate()
                .map(|(number, work)| {
                    Ok(sim::Nf { pauses: pauses(work), ..self.nf(bed, number, cost(work)?) })
                })
                .collect::<Result<_, String>>()?,
        };
        let mut costs = self.costs.clone();
        if matches!(bed.policy, Policy::RoundRobinShort) {
            costs.round_robin = costs.tick;
        }
        let scene = Scene {
            seed: self.seed,
            warm_up: WARM_UP,
            horizon: WINDOW,
            costs,
            scheduler: scheduler(bed)?,
            workers: 1,
            idle: sim::Idle::Spin,
            domains: Vec::new(),
            nfs,
            chains: chains(bed)?,
            flows: flows(bed)?,
            faults: Vec::new(),
            captures: Vec::new(),
            rates: Vec::new(),
        };
        match scene.mistakes().as_slice() {
            [] => Ok(scene),
            mistakes => Err(mistakes.join("; ")),
        }
    }

    fn nf(&self, bed: &TestBed, number: usize, cost: Cost) -> sim::Nf {
        let core = if bed.spread { number % self.nf_cores.max(1) } else { 0 };
        let ring = if bed.mode == Mode::Unis { RING_OF_SLICES } else { RING };
        sim::Nf {
            name: format!("nf{}", number + 1),
            core: core as u16,
            worker: 0,
            instances: Vec::new(),
            domain: 0,
            ring: bed.ring.unwrap_or(ring),
            priority: 1,
            policy: match bed.policy {
                _ if bed.mode == Mode::Unis => sim::Policy::Normal,
                Policy::Normal => sim::Policy::Normal,
                Policy::Batch => sim::Policy::Batch,
                Policy::RoundRobin | Policy::RoundRobinShort => sim::Policy::RoundRobin,
            },
            slice: None,
            waits: match bed.waits {
                Waits::Notified => sim::Waits::Notified,
                Waits::Polling => sim::Waits::Polling,
                Waits::Cooperative(yield_after) => sim::Waits::Cooperative { yield_after },
            },
            cost,
            changes: Vec::new(),
            pauses: None,
            rt_priority: 1,
        }
    }
}

fn cost(work: &Work) -> Result<Cost, String> {
    Ok(match work {
        Work::Cycles(cycles) | Work::Sleeps(cycles, ..) => Cost::Fixed(u64::from(*cycles)),
        Work::Steps(steps) => {
            Cost::BySize(steps.iter().map(|(from, cycles)| (*from, u64::from(*cycles))).collect())
        }
        Work::OneOf(all) => Cost::OneOf(all.iter().map(|cycles| (u64::from(*cycles), 1)).collect()),
        Work::Shipped(run, _) => return Err(format!("what a packet costs the NF `{run}`: it is measured")),
        Work::Testpmd => return Err("external programs".to_owned()),
        Work::Log { .. } => return Err("disks".to_owned()),
    })
}

fn pauses(work: &Work) -> Option<sim::Pauses> {
    match work {
        Work::Sleeps(_, every, us) => {
            Some(sim::Pauses { every: *every, length: Span::from_micros(u64::from(*us)) })
        }
        _ => None,
    }
}

/// One process has the costs of all its NFs.
fn fused(nfs: &[Work]) -> Result<Cost, String> {
    let cycles = nfs.iter().map(|work| match work {
        Work::Cycles(cycles) => Ok(u64::from(*cycles)),
        _ => Err("NFs of several kinds in one process".to_owned()),
    });
    cycles.sum::<Result<u64, String>>().map(Cost::Fixed)
}

fn scheduler(bed: &TestBed) -> Result<sim::Scheduler, String> {
    let mut scheduler = sim::Scheduler {
        weighs: matches!(bed.mode, Mode::Weights | Mode::Nfvnice),
        presses_back: matches!(bed.mode, Mode::Backpressure | Mode::Nfvnice),
        slices: bed.mode == Mode::Unis,
        claim_cores: 64,
        ..sim::Scheduler::default()
    };
    if let Some((high, low)) = bed.watermarks {
        (scheduler.high_watermark, scheduler.low_watermark) = (high, low);
    }
    for (key, value) in keys(&bed.scheduler) {
        let number = value.parse();
        match (key, number) {
            ("pending", Ok(pending)) => scheduler.pending = pending,
            ("unis_gamma", Ok(gamma)) => scheduler.gamma_percent = gamma,
            ("unis_occupancy", _) => scheduler.occupancy = value == "true",
            // Nothing else runs on the model's cores, and real-time tasks have no limit there.
            ("lift_rt_limit", _) => {}
            _ => return Err(format!("`{key}` of [scheduler]")),
        }
    }
    Ok(scheduler)
}

fn chains(bed: &TestBed) -> Result<Vec<sim::Chain>, String> {
    let stages = |chain: &Chain| match bed.fused {
        true => vec![0],
        false => chain.stages.iter().map(|nf| *nf as u16).collect(),
    };
    let chain = |(number, chain): (usize, &Chain)| sim::Chain {
        name: format!("chain{}", number + 1),
        stages: stages(chain),
        exit: None,
        floor: None,
        bound: None,
        from: 0,
    };
    let mut chains: Vec<sim::Chain> = bed.chains.iter().enumerate().map(chain).collect();
    for (key, value) in keys(&bed.asked) {
        match (key, value.parse(), chains.first_mut()) {
            ("rate_floor", Ok(floor), Some(first)) => first.floor = Some(floor),
            ("delay_bound_us", Ok(us), Some(first)) => first.bound = Some(Span::from_micros(us)),
            _ => return Err(format!("`{key}` of a chain")),
        }
    }
    Ok(chains)
}

fn flows(bed: &TestBed) -> Result<Vec<sim::Flow>, String> {
    let sizes: &[u32] = match &bed.traffic {
        Traffic::Even(bytes) => &[*bytes],
        Traffic::Mixed(sizes) => sizes,
        Traffic::Capture(_) => return Err("captures that come as fast as they are taken".to_owned()),
    };
    let flow = |(chain, of): (usize, &Chain)| {
        let rate = (of.rate / sizes.len() as f64) as u64;
        sizes.iter().map(move |bytes| sim::Flow {
            chain: chain as u16,
            worker: 0,
            bytes: *bytes,
            arrivals: Arrivals::Constant { rate },
            flows: 1,
            silent: false,
        })
    };
    Ok(bed.chains.iter().enumerate().flat_map(flow).collect())
}

/// Returns the keys of a text, each a line, and their values.
fn keys(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model { nf_cores: 3, costs: Costs::default(), seed: 1 }
    }

    #[test]
    fn a_bed_is_a_scene() {
        let bed = TestBed { spread: true, ..TestBed::chain(&[120, 270, 550, 9], 1e6) };
        let scene = model().scene(&bed.clone().scheduled(Policy::RoundRobinShort, Mode::Backpressure));
        let scene = scene.expect("it is modelled");
        assert_eq!(scene.nfs.iter().map(|nf| nf.core).collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert_eq!(
            (scene.nfs[1].cost.clone(), scene.nfs[1].policy),
            (Cost::Fixed(270), sim::Policy::RoundRobin)
        );
        assert_eq!((scene.costs.round_robin, scene.scheduler.weighs), (Span::from_millis(4), false));
        let sleeps = Work::Sleeps(5, 100, 7);
        let scene = model().scene(&TestBed { nfs: vec![sleeps], ..TestBed::chain(&[1], 1e6) }).unwrap();
        let pauses = Some(sim::Pauses { every: 100, length: Span::from_micros(7) });
        assert_eq!((&scene.nfs[0].cost, scene.nfs[0].pauses), (&Cost::Fixed(5), pauses));
        let fused = model().scene(&TestBed { fused: true, ..bed }).expect("it is modelled");
        assert_eq!((fused.nfs.len(), fused.nfs[0].cost.clone()), (1, Cost::Fixed(949)));
    }

    #[test]
    fn what_is_not_modelled_is_refused_in_words() {
        let bed = TestBed::chain(&[1], 1e6);
        for (bed, wanted) in [
            (TestBed { asked: "nsh = true\n".to_owned(), ..bed.clone() }, "`nsh` of a chain"),
            (
                TestBed { scheduler: "unis_core = 0\n".to_owned(), ..bed.clone() },
                "`unis_core` of [scheduler]",
            ),
            (TestBed { nfs: vec![Work::Testpmd], ..bed.clone() }, "external programs"),
            (TestBed { more: "[[port]]".to_owned(), ..bed.clone() }, "ports of the kernel"),
            (TestBed { watermarks: Some((1, 2)), ..bed }, "watermarks are percent"),
        ] {
            let error = model().scene(&bed).expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        }
    }
}
