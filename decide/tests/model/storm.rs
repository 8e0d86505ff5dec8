//! Long random runs: one failure after the other over links that lose, double and reorder, and then an end to
//! failures, after which everything has to go on (I9).
//!
//! `HEADGATE_STORMS=1000000 cargo test --release -p headgate-decide --test model storm` for more of them;
//! `HEADGATE_SEED=17` runs one and tells it.

use headgate_decide::replicate::Lane;
use headgate_decide::replicate::mutant::Mutation;

use super::step::{Bounds, Step};
use super::world::World;

/// Runs in the suite.
const RUNS: u64 = 10_000;
/// Steps of a run before failures end.
const STEPS: usize = 250;
const BOUNDS: Bounds = Bounds {
    packets: [9, 9],
    checkpoints: 6,
    time_outs: 40,
    crashes: [2, 2],
    suspicions: [2, 2],
    gate_crashes: 1,
    hand_overs: 1,
    overloads: 3,
};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }
}

/// Weight of a step among others: failures are rare, or nothing else would happen.
fn weight(step: &Step) -> usize {
    match step {
        Step::WorkA(..) | Step::WorkB(..) | Step::Stored(_) | Step::Reboot(_) | Step::Stamp(_) => 8,
        Step::Deliver(_) => 6,
        Step::TimeOut(_) | Step::GateTimesOut | Step::Checkpoint(_) | Step::Reach(_) | Step::Suspect(_) => 2,
        Step::Crash(_) | Step::CrashGate | Step::HandOver | Step::Overload(_) => 1,
    }
}

fn choose(steps: &[Step], random: &mut Random) -> Step {
    let mut at = random.below(steps.iter().map(weight).sum());
    for step in steps {
        match at.checked_sub(weight(step)) {
            Some(rest) => at = rest,
            None => return *step,
        }
    }
    steps[0]
}

/// Runs one storm. Returns why it is wrong.
fn storm(seed: u64, tells: bool) -> Result<(), String> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut world = World::new(BOUNDS, Mutation::default());
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        steps.clear();
        world.steps(&mut steps);
        if steps.is_empty() {
            break;
        }
        let step = choose(&steps, &mut random);
        if tells {
            println!("{step:?} {:?}", world.frame(step));
        }
        world.step(step);
        if let Some(violation) = world.violation() {
            return Err(format!("seed {seed}: {violation:?} after {step:?}"));
        }
    }
    heal(&mut world);
    if tells {
        println!("healed: {world:#?}");
    }
    match world.violation() {
        Some(violation) => Err(format!("seed {seed}: {violation:?} after failures ended")),
        None if !world.is_done() => Err(format!("seed {seed}: something never came to an end")),
        None => Ok(()),
    }
}

/// Lets links deliver and time pass, without further failures.
fn heal(world: &mut World) {
    for at in 0..2 {
        if !world.nodes[at].is_up {
            world.step(Step::Reboot(at));
        }
        if world.is_suspected[at] {
            world.step(Step::Reach(at));
        }
    }
    for _ in 0..12 {
        world.settle();
        for at in 0..2 {
            world.step(Step::TimeOut(at));
        }
        world.step(Step::GateTimesOut);
        for lane in [Lane(0), Lane(1)] {
            if world.left.packets[usize::from(lane.0)] > 0 {
                world.step(Step::Stamp(lane));
            }
        }
    }
    world.settle();
}

#[test]
fn storms() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("HEADGATE_SEED") {
        return storm(seed, true).unwrap();
    }
    let wrong: Vec<String> =
        (0..number("HEADGATE_STORMS").unwrap_or(RUNS)).filter_map(|seed| storm(seed, false).err()).collect();
    assert!(wrong.is_empty(), "{} runs, the first are {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}
