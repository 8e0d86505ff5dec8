//! Reported delays: the workers' samples of the last 100 to 200 ms, as median and 99th percentile; and the
//! relief of instances that are slow for their chains' bounds, by [`headgate_decide::relief`].
//!
//! An NF has one delay, whichever chains it serves; a stage of several instances shows all of them together.

use std::iter::once;

use headgate_decide::decision::Decision;
use headgate_decide::delay::{Recent, quantile};
use headgate_decide::record::Entry;
use headgate_decide::relief::{Action, Relief, StageSample};
use headgate_decide::units::{ChainId, InstanceId, Instant as Moment, Span};
use headgate_host::clock::Clock;
use headgate_path::delay::{Delayed, Log, Sample};
use headgate_path::holders::TICK_SHIFT;
use headgate_shm::histogram::{BUCKETS, bucket_of, middle_of};

use super::by_number::ByNumber;
use super::totals::Totals;
use crate::record::{Recorded, Recorder};
use crate::status::{DelayStatus, HistogramStatus};

type Histogram = Recent<BUCKETS>;

/// Recent samples of delays.
pub struct Delays {
    clock: Clock,
    /// Read position in each worker's log.
    read: Vec<u64>,
    queueing: Sampled,
    processing: Sampled,
    whole: Sampled,
    relief: Recorded<Relief>,
}

/// Samples by number; nothing is kept for a number without any.
#[derive(Default)]
struct Sampled {
    recent: ByNumber<Histogram>,
    totals: Totals,
}

impl Sampled {
    /// Returns median and tail of the samples of all these together.
    fn of(&self, numbers: impl Iterator<Item = u16> + Clone, clock: &Clock) -> Option<DelayStatus> {
        let all = numbers.filter_map(|number| self.recent.get(number));
        let ns = |bucket: usize| clock.cycles_to_ns(middle_of(bucket) << TICK_SHIFT);
        Some(DelayStatus { p50_ns: ns(quantile(all.clone(), 500)?), p99_ns: ns(quantile(all, 990)?) })
    }
}

impl Delays {
    /// Returns delays without samples.
    pub fn new(clock: Clock, recorder: &Recorder) -> Self {
        Self {
            clock,
            read: Vec::new(),
            queueing: Sampled::default(),
            processing: Sampled::default(),
            whole: Sampled::default(),
            relief: Recorded::new(recorder, Moment::default(), (), Entry::Relief),
        }
    }

    /// Reads what the workers have written since the last call, one log for each, always in one order.
    pub fn read<'a>(&mut self, now: Moment, logs: impl Iterator<Item = &'a Log>) {
        for (worker, log) in logs.enumerate() {
            if self.read.len() <= worker {
                self.read.push(0);
            }
            self.read[worker] = log.read(self.read[worker], |sample| self.on_sample(now, sample));
        }
    }

    fn on_sample(&mut self, now: Moment, Sample { of, packets, ticks }: Sample) {
        let (sampled, number) = match of {
            Delayed::Queueing(instance) => (&mut self.queueing, instance.0),
            Delayed::Processing(instance) => (&mut self.processing, instance.0),
            Delayed::Whole(chain) => (&mut self.whole, chain.0),
        };
        sampled.recent.at(number).on_sample(now, bucket_of(ticks.into()), packets.into());
        let ns = self.clock.cycles_to_ns(u64::from(ticks) << TICK_SHIFT);
        sampled.totals.add(number, ns, packets.into());
    }

    /// Returns the distribution of a chain's delays since the start.
    pub fn total_of_chain(&self, chain: ChainId) -> Option<HistogramStatus> {
        self.whole.totals.of(chain.0)
    }

    /// Returns the distributions of the times that packets spent in the queue and in the hands of an
    /// instance, since the start.
    pub fn totals_of(&self, instance: InstanceId) -> [Option<HistogramStatus>; 2] {
        [&self.queueing, &self.processing].map(|sampled| sampled.totals.of(instance.0))
    }

    /// Returns the delay of a chain, from its head to its end.
    pub fn of_chain(&self, chain: ChainId) -> Option<DelayStatus> {
        self.whole.of(once(chain.0), &self.clock)
    }

    /// Returns the time that packets spend in the queues and in the hands of instances.
    pub fn of_instances(&self, instances: &[InstanceId]) -> (Option<DelayStatus>, Option<DelayStatus>) {
        let numbers = || instances.iter().map(|instance| instance.0);
        (self.queueing.of(numbers(), &self.clock), self.processing.of(numbers(), &self.clock))
    }

    /// Returns the median of the time that packets waited for an instance lately.
    pub fn queueing(&self, instance: InstanceId) -> Option<Span> {
        self.queueing.of(once(instance.0), &self.clock).map(|delay| Span(delay.p50_ns))
    }

    /// Returns whether [`Delays::relieve`] is due.
    pub fn is_relief_due(&self, now: Moment) -> bool {
        self.relief.is_due(now)
    }

    /// Returns the flows to move, from the stages of chains whose window is limited for their bounds.
    pub fn relieve(&mut self, now: Moment, stages: &[StageSample]) -> Vec<Action> {
        let mut actions = Vec::new();
        self.relief.poll(now, stages, &mut actions);
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_decide::relief::InstanceSample;
    use headgate_decide::units::NfId;

    fn sample(of: Delayed, ticks: u32) -> Sample {
        Sample { of, packets: 1, ticks }
    }

    #[test]
    fn each_has_its_own_delays_and_several_are_told_together() {
        let clock = Clock::calibrate();
        let mut delays = Delays::new(clock, &Recorder::default());
        for _ in 0..99 {
            delays.on_sample(Moment(0), sample(Delayed::Queueing(InstanceId(3)), 1 << 10));
            delays.on_sample(Moment(0), sample(Delayed::Queueing(InstanceId(7)), 1 << 20));
        }
        delays.on_sample(Moment(0), sample(Delayed::Whole(ChainId(3)), 1 << 15));
        let ns = |ticks: u64| clock.cycles_to_ns(ticks << TICK_SHIFT);
        // A bucket is an eighth of its lowest value wide.
        let near = |told: u64, ticks: u64| told.abs_diff(ns(ticks)) * 8 <= ns(ticks);
        let (queueing, processing) = delays.of_instances(&[InstanceId(3)]);
        assert!(near(queueing.unwrap().p99_ns, 1 << 10) && processing.is_none());
        let (both, _) = delays.of_instances(&[InstanceId(3), InstanceId(7)]);
        assert!(near(both.unwrap().p50_ns, 1 << 10) && near(both.unwrap().p99_ns, 1 << 20));
        assert!(near(delays.of_chain(ChainId(3)).unwrap().p50_ns, 1 << 15));
        assert_eq!((delays.of_chain(ChainId(7)), delays.of_chain(ChainId(9_999))), (None, None));
    }

    #[test]
    fn logs_are_read_once() {
        let mut delays = Delays::new(Clock::calibrate(), &Recorder::default());
        let logs = [Log::default(), Log::default()];
        delays.read(Moment(0), logs.iter());
        assert_eq!(delays.read, [0, 0]);
        assert_eq!(delays.of_chain(ChainId(0)), None);
    }

    #[test]
    fn relief_is_due_now_and_then_and_says_which_flows_move() {
        let mut delays = Delays::new(Clock::calibrate(), &Recorder::default());
        let instance = |number, us| InstanceSample {
            instance: InstanceId(number),
            held: 1,
            queueing: Some(Span::from_micros(us)),
        };
        let bound = Span::from_micros(500);
        let stage = StageSample { stage: NfId(1), bound, instances: vec![instance(4, 10), instance(5, 400)] };
        assert!(delays.is_relief_due(Moment(0)));
        let moved = Action::MoveFlows { stage: NfId(1), from: InstanceId(5), to: InstanceId(4) };
        assert_eq!(delays.relieve(Moment(0), &[stage]), [moved]);
        assert!(!delays.is_relief_due(Moment(1)));
    }
}
