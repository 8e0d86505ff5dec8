//! The cost of an NF changes while it runs: who gets the core before, during and after (figure 5.14a).
//!
//! The CPU time of both NFs is read every 20 ms; the first one's part of the last 100 ms, the window in
//! which loads are formed, is its *share*. A share has *settled* at the first sample from which on it stays
//! within 5 points of the ideal until the end of the phase.

use std::thread::sleep;
use std::time::{Duration, Instant};

use headgate_api::Request;
use headgate_api::status::Snapshot;

use crate::lab::bed::{TestBed, Work};
use crate::lab::experiment::{Curve, Method};
use crate::lab::measure::{Value, jain};
use crate::lab::model::Model;
use crate::lab::runner::Runner;
use headgate_api::session::Session;
use headgate_decide::units::Span;
use headgate_sim::{self as sim, Resolution, World};

/// Time between two samples. Our choice: five ticks of the kernel.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// Samples in the window of a share: 100 ms.
const WINDOW_SAMPLES: usize = 5;
/// Largest distance from the ideal that counts as settled, in points of percent.
const NEAR_POINTS: f64 = 5.0;
/// The factor of the change (section 5.4.4.6).
const FACTOR: u32 = 3;

/// Each of the three phases, with `--quick` and without.
const PHASE_QUICK: Duration = Duration::from_millis(800);
const PHASE: Duration = Duration::from_secs(3);

/// While the cost of the first NF is tripled for a while.
#[derive(Debug)]
pub struct Change;

impl Method for Change {
    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        bed: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)> {
        sleep(runner.pace.warm_up);
        let (values, shares) = measure(session, bed, if runner.pace.quick { PHASE_QUICK } else { PHASE })?;
        Ok((values, Some(shares)))
    }

    fn simulate(&self, model: &Model, bed: &TestBed) -> Result<(Vec<Value>, Option<Curve>), String> {
        let [first, _] = costs(bed);
        let mut scene = model.scene(bed)?;
        let phase = Span(PHASE.as_nanos() as u64);
        let change = |at: u64, cycles: u32| sim::Change {
            at: scene.warm_up + Span(at),
            cost: sim::Cost::Fixed(cycles.into()),
        };
        scene.nfs[0].changes = vec![change(phase.0, FACTOR * first), change(2 * phase.0, first)];
        scene.horizon = Span(3 * phase.0);
        let every = Span(SAMPLE_EVERY.as_nanos() as u64);
        let reports = World::new(scene, Resolution::default()).run_in_windows(every);
        // Only differences of these moments are used.
        let (origin, mut sample) = (Instant::now(), Sample { at: Instant::now(), cpu_ns: [0; 2] });
        let per_phase = (phase.0 / every.0) as usize;
        let (mut samples, mut delivered, mut left) = (Vec::new(), Vec::new(), [0.0; 2]);
        for (number, report) in reports.iter().enumerate() {
            let at = origin + SAMPLE_EVERY * (number as u32 + 1);
            let used = [0, 1].map(|nf| (report.nfs[nf].cpu_percent / 100.0 * every.0 as f64) as u64);
            sample = Sample { at, cpu_ns: [0, 1].map(|nf| sample.cpu_ns[nf] + used[nf]) };
            samples.push(Sample { ..sample });
            left = [0, 1].map(|chain| left[chain] + report.chains[chain].left.per_second());
            if (number + 1) % per_phase == 0 {
                delivered.push(jain(&core::mem::take(&mut left)));
            }
        }
        let starts: Vec<Instant> = (0..3).map(|number| origin + PHASE * number).collect();
        let (values, curve) = judged(bed, &samples, &starts, &delivered, PHASE);
        Ok((values, Some(curve)))
    }
}

/// Samples of one run.
struct Sample {
    at: Instant,
    cpu_ns: [u64; 2],
}

/// Three phases of this length: as it is, costing more, as it was; with the first NF's share over time.
fn measure(session: &Session, bed: &TestBed, phase: Duration) -> anyhow::Result<(Vec<Value>, Curve)> {
    let [first, _] = costs(bed);
    let handle = session.handle();
    let (mut samples, mut changes) = (Vec::new(), Vec::new());
    let mut delivered = Vec::new();
    for cycles in [first, first * FACTOR, first] {
        let body = format!("{{\"cycles\": {cycles}}}");
        handle.ask(&Request::Tell { nf: "nf1".to_owned(), body })?;
        let (changed, before) = (Instant::now(), session.snapshot()?);
        changes.push(changed);
        while changed.elapsed() < phase {
            sleep(SAMPLE_EVERY);
            samples.push(sample(&session.snapshot()?));
        }
        delivered.push(fairness(&before, &session.snapshot()?));
    }
    Ok(judged(bed, &samples, &changes, &delivered, phase))
}

/// Returns the values of samples of three phases that begin then, and the first NF's share over time.
fn judged(
    bed: &TestBed,
    samples: &[Sample],
    starts: &[Instant],
    delivered: &[Option<f64>],
    phase: Duration,
) -> (Vec<Value>, Curve) {
    let [first, second] = costs(bed);
    let began = starts[0];
    let shares = shares(samples);
    let phases: Vec<_> = (0..starts.len())
        .map(|number| {
            let from = starts[number];
            let cycles = if number == 1 { first * FACTOR } else { first };
            let ideal = 100.0 * f64::from(cycles) / f64::from(cycles + second);
            let until = starts.get(number + 1).copied();
            let inside = |at: &Instant| *at >= from && until.is_none_or(|until| *at < until);
            let of_phase: Vec<_> = shares.iter().filter(|(at, _)| inside(at)).copied().collect();
            (from, ideal, of_phase)
        })
        .collect();
    let plotted = shares
        .iter()
        .map(|(at, share)| (at.saturating_duration_since(began).as_secs_f64(), *share))
        .collect();
    (values(&phases, delivered, phase), plotted)
}

fn costs(bed: &TestBed) -> [u32; 2] {
    let cycles = |number: usize| match bed.nfs.get(number) {
        Some(Work::Cycles(cycles)) => *cycles,
        _ => 1,
    };
    [cycles(0), cycles(1)]
}

fn sample(snapshot: &Snapshot) -> Sample {
    let cpu_ns = |number: usize| snapshot.nfs.get(number).map_or(0, |nf| nf.cpu_ns);
    Sample { at: Instant::now(), cpu_ns: [cpu_ns(0), cpu_ns(1)] }
}

/// Jain's index of what left the two chains.
fn fairness(before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let pairs = before.chains.iter().zip(&after.chains).skip(1);
    let left: Vec<f64> = pairs.map(|(before, after)| after.left.saturating_sub(before.left) as f64).collect();
    jain(&left)
}

/// Returns for each sample the first NF's percentage of what both used since the sample a window ago.
fn shares(samples: &[Sample]) -> Vec<(Instant, f64)> {
    let of = |pair: &[Sample]| {
        let (first, last) = (pair.first()?, pair.last()?);
        let used = |nf: usize| last.cpu_ns[nf].saturating_sub(first.cpu_ns[nf]) as f64;
        let both = used(0) + used(1);
        (both > 0.0).then(|| (last.at, 100.0 * used(0) / both))
    };
    samples.windows(WINDOW_SAMPLES + 1).filter_map(of).collect()
}

type Phase = (Instant, f64, Vec<(Instant, f64)>);

fn values(phases: &[Phase], fairness: &[Option<f64>], length: Duration) -> Vec<Value> {
    let names = ["share_before", "share_during", "share_after"];
    let mut all = Vec::new();
    let mut slowest: f64 = 0.0;
    for (number, (from, ideal, shares)) in phases.iter().enumerate() {
        // The second half: what it came to.
        if let Some(mean) = mean(&shares[shares.len() / 2..]) {
            all.push(Value::new(names[number], "%", mean));
        }
        if number > 0 {
            let settled = settled(*from, *ideal, shares).unwrap_or(length);
            slowest = slowest.max(settled.as_secs_f64() * 1e3);
        }
    }
    all.push(Value::new("settle_ms", "ms", slowest));
    if let Some(least) = fairness.iter().flatten().copied().reduce(f64::min) {
        all.push(Value::new("jain", "", least));
    }
    all
}

fn mean(shares: &[(Instant, f64)]) -> Option<f64> {
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    (!shares.is_empty()).then(|| sum / shares.len() as f64)
}

/// Returns how long after `from` the share has settled; `None` if it has not.
fn settled(from: Instant, ideal: f64, shares: &[(Instant, f64)]) -> Option<Duration> {
    let is_far = |(_, share): &(Instant, f64)| (share - ideal).abs() > NEAR_POINTS;
    let at = shares.iter().rposition(is_far).map_or(0, |last| last + 1);
    shares.get(at).map(|(settled, _)| settled.duration_since(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_share_is_that_of_the_last_window() {
        let began = Instant::now();
        // The first uses a quarter of what both use, then half of it.
        let used = |sample: u64| {
            let first = 5 * sample.min(10) + 10 * sample.saturating_sub(10);
            [first, 20 * sample - first]
        };
        let sample = |number| Sample { at: began + MS * 20 * number as u32, cpu_ns: used(number) };
        let samples: Vec<_> = (0..20).map(sample).collect();
        let shares = shares(&samples);
        assert_eq!(shares[0], (began + MS * 100, 25.0));
        assert_eq!(shares.last().map(|share| share.1), Some(50.0));
        let between = shares.iter().filter(|(_, share)| *share > 25.0 && *share < 50.0);
        assert_eq!(between.count(), WINDOW_SAMPLES - 1, "a window that holds both");
    }

    #[test]
    fn settled_is_near_and_stays_near() {
        let began = Instant::now();
        let at = |ms: u32, share| (began + MS * ms, share);
        // At 100 ms it passes the ideal on its way to far above, and comes back.
        let shares =
            [at(20, 25.0), at(100, 50.0), at(120, 90.0), at(140, 80.0), at(160, 52.0), at(180, 48.0)];
        assert_eq!(settled(began, 50.0, &shares), Some(MS * 160));
        assert_eq!(settled(began, 10.0, &shares), None);
        let leaves = [at(20, 50.0), at(100, 51.0), at(120, 56.0), at(140, 50.0)];
        assert_eq!(settled(began, 50.0, &leaves), Some(MS * 140), "that it was near before is nothing");
        assert_eq!(settled(began, 50.0, &leaves[..3]), None);
    }
}
