//! A machine of the size of our users': 64 cores of NFs, eight workers, a thousand NFs in 250 chains. Where
//! each mode breaks as the load grows.
//!
//! Flows are those of chains: a chain's stands for 128 of the ten million that its packets may be of, because
//! instances and not flows are what decisions tell apart.

use headgate_decide::market::demand::Use;
use headgate_decide::units::Span;

use super::bed::{Mode, Scenario, on_one_core};
use crate::network::{Bundle, Sharing, rates};
use crate::random::Random;
use crate::scene::{Arrivals, Chain, Cost, Flow, Policy, Scene, Waits};

const CORES: u64 = 64;
const WORKERS: u64 = 8;
const NFS: u64 = 1_000;
/// NFs of a chain.
const LENGTH: usize = 4;
/// Costs that are drawn, each as often: low, medium and high (NFVnice, section 5.4.3.1), and one of a heavy
/// NF.
const COSTS: [u64; 4] = [120, 270, 550, 2_200];
/// Load of the mean core, in percent of what its NFs' cycles take.
const LOADS: [u64; 3] = [50, 90, 150];
/// Places of a ring with time slices (`ring` of the configuration).
const RING_OF_SLICES: u32 = 16_384;
/// The streams of what is drawn.
const STREAM: u64 = 1 << 41;

/// The machine in each mode and at each load.
pub(super) fn large() -> Scenario {
    let mut cases = Vec::new();
    for load in LOADS {
        for mode in MODES {
            cases.push((format!("load{load}.{}", mode.name()), in_mode(load, mode)));
        }
    }
    Scenario {
        name: "large",
        about: "1,000 NFs of 120 to 2,200 cycles in 250 chains of four, on 64 cores with eight workers, by load and mode",
        cases,
        beside: &[],
    }
}

const MODES: [Mode; 5] = [Mode::Os, Mode::Weights, Mode::Backpressure, Mode::Nfvnice, Mode::Unis];

/// Names of the modes that [`studied`] takes.
pub const STUDY_MODES: [&str; 5] = ["os", "weights", "backpressure", "nfvnice", "unis"];

/// Returns the machine in a mode of [`STUDY_MODES`], with a mean core loaded by so many percent, for so long.
///
/// # Panics
/// If there is no such mode.
#[must_use]
pub fn studied(mode: usize, load_percent: u64, warm_up: Span, horizon: Span) -> Scene {
    Scene { warm_up, horizon, ..in_mode(load_percent, MODES[mode]) }
}

/// Returns how many packets per second of each chain of a scene could leave at once: none can have more
/// without another one having less that has no more than it (max-min), and none more than come. NFs cost
/// what they say and what their library takes.
#[must_use]
pub fn possible(scene: &Scene) -> Vec<f64> {
    let cores = scene.nfs.iter().map(|nf| usize::from(nf.core) + 1).max().unwrap_or(0);
    let mut capacities = vec![1.0; cores];
    let mut ways: Vec<Vec<Use>> = Vec::new();
    for (number, chain) in (0..).zip(&scene.chains) {
        let offered =
            scene.flows.iter().filter(|flow| flow.chain == number).filter_map(|of| of.arrivals.rate());
        let mut way = vec![Use { resource: capacities.len() as u32, coefficient: 1.0 }];
        capacities.push(offered.sum::<u64>() as f64);
        for nf in chain.stages.iter().map(|nf| &scene.nfs[usize::from(*nf)]) {
            let Cost::Fixed(cycles) = nf.cost else { continue };
            let ns = scene.costs.cycles(cycles) as f64 + scene.costs.nf_packet_ps as f64 / 1e3;
            way.push(Use { resource: nf.core.into(), coefficient: ns / 1e9 });
        }
        ways.push(way);
    }
    let bundles: Vec<Bundle<'_>> = ways.iter().map(|way| Bundle { flows: 1.0, way }).collect();
    rates(Sharing::MaxMin, &capacities, &bundles)
}

fn in_mode(load_percent: u64, mode: Mode) -> Scene {
    let mut scene = scene(load_percent).scheduled(Policy::Normal, mode);
    if mode == Mode::Unis {
        scene.nfs.iter_mut().for_each(|nf| (nf.waits, nf.ring) = (Waits::Polling, RING_OF_SLICES));
    }
    scene
}

/// NFs are dealt to cores at random, and chains to NFs; an NF belongs to the worker that its core's number
/// says.
fn scene(load_percent: u64) -> Scene {
    let mut random = Random::stream(1, STREAM);
    let costs: Vec<u64> = (0..NFS).map(|_| COSTS[random.below(COSTS.len() as u64) as usize]).collect();
    let mut scene = on_one_core(&costs, &[]);
    scene.workers = WORKERS as u16;
    for nf in &mut scene.nfs {
        nf.core = random.below(CORES) as u16;
        nf.worker = nf.core % scene.workers;
    }
    let mut left: Vec<u16> = (0..NFS as u16).collect();
    let mut draw = || left.swap_remove(random.below(left.len() as u64) as usize);
    let chains: Vec<Vec<u16>> =
        (0..NFS as usize / LENGTH).map(|_| (0..LENGTH).map(|_| draw()).collect()).collect();
    // All chains have one rate, at which the cores have that load in the mean.
    let cycles: u64 = costs.iter().sum();
    let rate = scene.costs.cycles_per_micro * 1_000_000 * CORES * load_percent / 100 / cycles;
    for (number, stages) in chains.into_iter().enumerate() {
        let worker = scene.nfs[usize::from(stages[0])].worker;
        scene.chains.push(Chain {
            name: format!("chain{number}"),
            stages,
            exit: None,
            floor: None,
            bound: None,
            from: 0,
        });
        let arrivals = Arrivals::Constant { rate };
        scene.flows.push(Flow { chain: number as u16, worker, bytes: 64, arrivals, flows: 1, silent: false });
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_possible_fills_a_core_and_no_more() {
        let (costs, names) = (crate::costs::Costs::default(), MODES.map(Mode::name));
        assert_eq!(names, STUDY_MODES);
        // Two chains of one NF of 1 us each on one core: one wants little and has it, the other has the rest.
        let library = costs.nf_packet_ps as f64 / 1e3;
        let scene = on_one_core(&[2_100, 2_100], &[(&[0], 100_000), (&[1], 5_000_000)]);
        let found = possible(&scene);
        assert!((found[0] - 100_000.0).abs() < 1.0, "{found:?}");
        let all = 1e9 / (1_000.0 + library);
        assert!((found[0] + found[1] - all).abs() < 1.0, "{found:?} {all}");
    }

    #[test]
    fn it_is_as_large_as_it_says() {
        let scene = scene(100);
        assert_eq!(scene.mistakes(), [] as [String; 0]);
        assert_eq!((scene.nfs.len(), scene.chains.len(), scene.workers), (1_000, 250, 8));
        // What is offered fills the cores in the mean.
        let needs: u64 = scene
            .chains
            .iter()
            .zip(&scene.flows)
            .flat_map(|(chain, flow)| {
                chain.stages.iter().map(move |nf| (*nf, flow.arrivals.rate().unwrap_or(0)))
            })
            .map(|(nf, rate)| match scene.nfs[usize::from(nf)].cost {
                Cost::Fixed(cycles) => cycles * rate,
                _ => 0,
            })
            .sum();
        let has = scene.costs.cycles_per_micro * 1_000_000 * CORES;
        assert!((0.99..=1.0).contains(&(needs as f64 / has as f64)), "{needs} {has}");
    }
}
