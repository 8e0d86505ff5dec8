//! Chains over two overloaded NFs, one of which becomes faster: who is served then, how steadily, and how
//! soon (not in the paper; `decide/src/weights/bottlenecks.rs` is its model).
//!
//! Chain 1 passes a light NF and a heavy one, chain 3 another pair of the same costs, and chain 2 both heavy
//! ones. So each of these sheds packets of chain 2, and chains 1 and 3 are mirror images. The heavy NF of
//! chain 1 costs five times as much at first.

use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headgate_api::Request;
use headgate_api::session::Session;
use headgate_api::status::Snapshot;
use headgate_decide::units::Span;
use headgate_sim::{self as sim, Resolution, World};

use crate::lab::bed::{Chain, Mode, Policy, TestBed, Work};
use crate::lab::experiment::{Case, Comparison, Curve, Experiment, Formula, Measurement, Method, joined};
use crate::lab::measure::Value;
use crate::lab::model::Model;
use crate::lab::runner::Runner;

/// Cycles of a light and a heavy NF. Our choice: 1 to 5, as in the model.
const LIGHT: u32 = 270;
const HEAVY: u32 = 1350;
/// Cost of the slow NF over that of its mirror image, at first.
const FACTOR: u32 = 5;
/// Packets per second of each chain. Our choice: each is more than the core can do.
const OFFERED: f64 = 2e6;
/// Policies that are compared.
const POLICIES: [Policy; 2] = [Policy::Normal, Policy::Batch];
/// Time between two samples. Our choice: two fifths of the time in which a chain is to recover.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Interval over which throughputs are averaged, to be compared with each other.
const MEAN_OVER: Duration = Duration::from_millis(100);
/// Part of its later throughput from which on a chain has recovered.
const RECOVERED: f64 = 0.9;

/// The experiment.
pub(super) fn experiment() -> Experiment {
    let chain = |stages: [usize; 2]| Chain { stages: stages.to_vec(), rate: OFFERED };
    let nfs = [LIGHT, HEAVY * FACTOR, LIGHT, HEAVY].map(Work::Cycles).to_vec();
    let bed = TestBed::of(nfs, vec![chain([0, 1]), chain([1, 3]), chain([2, 3])]);
    let method = Rc::new(Recovery);
    let (mut cases, mut comparisons) = (Vec::new(), Vec::new());
    for policy in POLICIES {
        for mode in Mode::ALL {
            let bed = bed.clone().scheduled(policy, mode);
            let measurement = Measurement::Own(method.clone());
            cases.push(Case { measurement, ..Case::new(policy.name(), bed, &[]) });
        }
        let of = |value: &str| joined(&format!("{}.nfvnice", policy.name()), value);
        let name = |value: &str| format!("{}.{value}", policy.name());
        let mirrored = ["chain1", "chain3"].map(of).to_vec();
        comparisons.extend([
            Comparison::new(name("chains_differ"), Formula::Spread(mirrored), "at most 0.1"),
            Comparison::same(name("variation"), &of("variation"), "at most 0.1"),
            Comparison::same(name("recovers_ms"), &of("recovers_ms"), "at most 50"),
        ]);
    }
    let mut bottlenecks = Experiment::new(
        "two-bottlenecks",
        "three chains over two overloaded NFs of one core, which the second shares with both others; the first \
         of the two costs five times as much until it becomes as fast as the other",
        "not in the paper",
        cases,
    )
    .compare_with_best("nfvnice", &Mode::ALL.map(Mode::name), "at least 0.97");
    bottlenecks.comparisons.extend(comparisons);
    bottlenecks
}

/// Measures what leaves while the cost of the second NF falls.
#[derive(Debug)]
struct Recovery;

/// Lengths of the phases.
#[derive(Clone, Copy)]
struct Phases {
    /// Until the cost falls.
    slow: Duration,
    /// From then on until throughputs count as settled.
    settling: Duration,
    /// From then on.
    settled: Duration,
}

impl Method for Recovery {
    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        _: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)> {
        let ms = Duration::from_millis;
        let phases = match runner.pace.quick {
            true => Phases { slow: ms(700), settling: ms(600), settled: ms(1000) },
            false => Phases { slow: ms(1000), settling: ms(1000), settled: ms(3000) },
        };
        sleep(phases.slow);
        let body = format!("{{\"cycles\": {HEAVY}}}");
        session.handle().ask(&Request::Tell { nf: "nf2".to_owned(), body })?;
        let mut samples = vec![Sample::of(&session.snapshot()?)];
        let began = Instant::now();
        while began.elapsed() < phases.settling + phases.settled {
            sleep(SAMPLE_EVERY);
            samples.push(Sample::of(&session.snapshot()?));
        }
        Ok((values(&samples, phases.settling), None))
    }

    fn simulate(&self, model: &Model, bed: &TestBed) -> Result<(Vec<Value>, Option<Curve>), String> {
        let mut scene = model.scene(bed)?;
        let (slow, settling, settled) = (Span::from_secs(1), Duration::from_secs(1), Span::from_secs(3));
        scene.warm_up = slow;
        scene.nfs[1].changes = vec![sim::Change { at: slow, cost: sim::Cost::Fixed(HEAVY.into()) }];
        scene.horizon = Span(settling.as_nanos() as u64) + settled;
        let every = Span(SAMPLE_EVERY.as_nanos() as u64);
        let mut samples = vec![Sample { at_ns: 0, left: [0; 3] }];
        for report in World::new(scene, Resolution::default()).run_in_windows(every) {
            let Sample { at_ns, left } = samples[samples.len() - 1];
            let more =
                |chain: usize| (report.chains[chain].left.per_second() * every.as_secs_f64()).round() as u64;
            samples.push(Sample {
                at_ns: at_ns + every.0,
                left: [0, 1, 2].map(|chain| left[chain] + more(chain)),
            });
        }
        Ok((values(&samples, settling), None))
    }
}

/// Packets that left each chain, ever.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    left: [u64; 3],
}

impl Sample {
    /// The first chain of a snapshot is that of packets without one.
    fn of(snapshot: &Snapshot) -> Self {
        let left = |number: usize| snapshot.chains.get(number + 1).map_or(0, |chain| chain.left);
        Self { at_ns: snapshot.at_ns, left: [left(0), left(1), left(2)] }
    }

    /// Packets per second of a chain until another sample.
    fn rate(&self, until: &Self, chain: usize) -> f64 {
        let ns = until.at_ns.saturating_sub(self.at_ns).max(1);
        until.left[chain].saturating_sub(self.left[chain]) as f64 * 1e9 / ns as f64
    }
}

/// Values of samples since the change.
fn values(samples: &[Sample], settling: Duration) -> Vec<Value> {
    let [Some(first), Some(last)] = [samples.first(), samples.last()] else { return Vec::new() };
    let settled_at = first.at_ns + settling.as_nanos() as u64;
    let settled = &samples[samples.partition_point(|sample| sample.at_ns < settled_at)..];
    let Some(from) = settled.first() else { return Vec::new() };
    let rates = [0, 1, 2].map(|chain| from.rate(last, chain));
    let mut all = vec![Value::new("", "Mpps", rates.iter().sum())];
    let names = ["chain1", "chain2", "chain3"];
    all.extend(names.into_iter().zip(rates).map(|(name, rate)| Value::new(name, "Mpps", rate)));
    let variations = [0, 2].into_iter().filter_map(|chain| variation(settled, chain));
    all.extend(variations.reduce(f64::max).map(|largest| Value::new("variation", "", largest)));
    let recovers = recovers_after(samples, RECOVERED * rates[0]).unwrap_or(settling);
    all.push(Value::new("recovers_ms", "ms", recovers.as_secs_f64() * 1e3));
    all
}

/// Number of samples over which throughputs are averaged.
const fn samples_in_mean() -> usize {
    (MEAN_OVER.as_millis() / SAMPLE_EVERY.as_millis()) as usize
}

/// Standard deviation over mean, of a chain's throughputs in one interval after another; `None` of a chain
/// that delivers nothing.
fn variation(samples: &[Sample], chain: usize) -> Option<f64> {
    let ends: Vec<_> = samples.iter().step_by(samples_in_mean()).collect();
    let rates: Vec<f64> = ends.windows(2).map(|pair| pair[0].rate(pair[1], chain)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
    (mean > 0.0).then(|| square.sqrt() / mean)
}

/// Time from the first sample until the first interval in which the first chain delivers so much; `None` if
/// none does, or nothing is asked of it.
fn recovers_after(samples: &[Sample], rate: f64) -> Option<Duration> {
    let intervals = samples.windows(samples_in_mean() + 1).filter(|_| rate > 0.0);
    let from = intervals.filter_map(|of| Some((of.first()?, of.last()?)));
    let (found, _) = from.into_iter().find(|(from, until)| from.rate(until, 0) >= rate)?;
    Some(Duration::from_nanos(found.at_ns - samples.first()?.at_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Samples of chains that deliver so many packets in each.
    fn samples(delivered: impl Fn(u64) -> [u64; 3]) -> Vec<Sample> {
        let mut left = [0; 3];
        let of = |number: u64| {
            let now = delivered(number);
            left = [0, 1, 2].map(|chain| left[chain] + now[chain]);
            Sample { at_ns: number * 20 * MS, left }
        };
        (0..100).map(of).collect()
    }

    fn value(values: &[Value], name: &str) -> f64 {
        values.iter().find(|value| value.name == name).unwrap_or_else(|| panic!("{name}: {values:?}")).value
    }

    #[test]
    fn a_steady_chain_does_not_vary_and_one_that_swings_does() {
        let steady = samples(|_| [20, 10, 20]);
        let values = super::values(&steady, Duration::from_secs(1));
        assert_eq!([value(&values, ""), value(&values, "chain2")], [2500.0, 500.0]);
        assert_eq!([value(&values, "variation"), value(&values, "recovers_ms")], [0.0, 0.0]);
        // It has most of a tenth of a second, and little of the next one.
        let swings = samples(|number| [20, 10, if number / 5 % 2 == 0 { 40 } else { 0 }]);
        assert!(value(&super::values(&swings, Duration::from_secs(1)), "variation") > 0.5);
    }

    #[test]
    fn a_chain_has_recovered_when_it_delivers_nearly_what_it_does_later() {
        let late = samples(|number| [if number <= 10 { 2 } else { 20 }, 10, 20]);
        let values = super::values(&late, Duration::from_secs(1));
        // From the tenth sample, at 200 ms, on all are fast; 9 of 10 parts are reached a little before.
        let recovers = value(&values, "recovers_ms");
        assert!((180.0..=200.0).contains(&recovers), "{recovers}");
        let never = samples(|_| [0, 10, 20]);
        let values = super::values(&never, Duration::from_secs(1));
        assert_eq!(value(&values, "recovers_ms"), 1000.0, "as long as was waited for it");
    }
}
