//! Delays as they are told: what the workers sampled in the last 100 to 200 ms, as median and 99th percentile.
//!
//! An NF has one delay, whichever chains it serves; a stage of several instances shows all of them together. Where a
//! chain takes longer than its bound, flows move from the slowest of them to the fastest.

use headgate_decide::bound::relief;
use headgate_decide::delay::{Recent, WINDOW, quantile};
use headgate_decide::spread;
use headgate_decide::units::{ChainId, InstanceId, Instant as Moment, NfId, Span};
use headgate_host::clock::Clock;
use headgate_path::delay::{Delayed, Sample};
use headgate_path::holders::TICK_SHIFT;
use headgate_path::plan::Stage;
use headgate_shm::histogram::{BUCKETS, bucket_of, middle_of};

use super::Control;
use crate::status::{DelayStatus, EventCode, StageDelayStatus};

/// Time between two moves of flows: until then all that is known of delays was seen after the last one.
const RELIEF_EVERY: Span = Span(2 * WINDOW.0);

type Histogram = Recent<BUCKETS>;

/// What was seen lately, by number; nothing is kept of what was never seen.
#[derive(Default)]
pub struct Delays {
    /// How far each worker's log is read.
    read: Vec<u64>,
    queueing: Seen,
    processing: Seen,
    whole: Seen,
    next_relief: Moment,
}

#[derive(Default)]
struct Seen(Vec<Option<Box<Histogram>>>);

impl Seen {
    fn at(&mut self, number: u16) -> &mut Histogram {
        let number = usize::from(number);
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number].get_or_insert_default()
    }

    /// Median and tail of all these together.
    fn of(&self, numbers: &[u16], clock: &Clock) -> Option<DelayStatus> {
        let all = numbers.iter().filter_map(|&number| self.0.get(usize::from(number))?.as_deref());
        let ns = |bucket: usize| clock.cycles_to_ns(middle_of(bucket) << TICK_SHIFT);
        Some(DelayStatus { median_ns: ns(quantile(all.clone(), 500)?), p99_ns: ns(quantile(all, 990)?) })
    }
}

impl Control {
    /// Takes in what the workers have sampled.
    pub(super) fn tend_delays(&mut self) {
        let now = self.now();
        let Delays { read, queueing, processing, whole, .. } = &mut self.delays;
        read.resize(self.fabric.workers.len(), 0);
        for (worker, read) in self.fabric.workers.iter().zip(read) {
            *read = worker.board.delays.read(*read, |Sample { of, packets, ticks }| {
                let seen = match of {
                    Delayed::Queueing(instance) => queueing.at(instance.0),
                    Delayed::Processing(instance) => processing.at(instance.0),
                    Delayed::Whole(chain) => whole.at(chain.0),
                };
                seen.add(now, bucket_of(ticks.into()), packets.into());
            });
        }
    }

    /// Moves flows to faster instances in the chains that have a window now.
    pub(super) fn tend_relief(&mut self) {
        let now = self.now();
        if now < self.delays.next_relief {
            return;
        }
        self.delays.next_relief = now + RELIEF_EVERY;
        let late = self.fabric.parts.chains.iter().enumerate().filter_map(|(number, chain)| {
            let (chain, bounds) = (chain.as_ref()?, &self.fabric.signals.bounds);
            let bound_us =
                chain.delay_bound_us.filter(|_| bounds.window(ChainId(number as u16)).is_some())?;
            Some((chain.stages.clone(), Span::from_micros(bound_us.into())))
        });
        for (stages, bound) in late.collect::<Vec<_>>() {
            stages.into_iter().for_each(|stage| self.relieve(stage, bound));
        }
    }

    fn relieve(&mut self, stage: NfId, bound: Span) {
        let Some(running) = self.fabric.parts.stages[stage.index()].as_ref().map(|stage| &stage.running)
        else {
            return;
        };
        // What is known of an instance without packets is old.
        let delay = |&number: &InstanceId| match self.held(number) {
            0 => Span::ZERO,
            _ => self
                .delays
                .queueing
                .of(&[number.0], &self.fabric.clock)
                .map_or(Span::ZERO, |it| Span(it.median_ns)),
        };
        let delays: Vec<Span> = running.iter().map(delay).collect();
        let Some((from, to)) = relief(&delays, bound) else { return };
        let (from, to) = (running[from], running[to]);
        let Some(stage) = self.fabric.parts.stages[stage.index()].as_mut() else { return };
        if spread::relieve(&mut stage.table, from, to) > 0 {
            self.fabric.publish();
            let [from, to] = [from, to].map(|number| self.instances[number.index()].seat.name.clone());
            self.log(
                EventCode::FlowsMoved,
                &from,
                format!("is slow for a chain's delay bound: some of its flows move to {to}"),
            );
        }
    }

    fn held(&self, number: InstanceId) -> u64 {
        let worker = self.instances[number.index()].seat.worker;
        self.fabric.workers[worker.index()].board.instances[number.index()].held.get()
    }

    /// From a chain's head to its end.
    pub(super) fn chain_delay(&self, chain: u16) -> Option<DelayStatus> {
        self.delays.whole.of(&[chain], &self.fabric.clock)
    }

    /// In the queue and in the hands of each stage, by number: once for all chains that pass it.
    pub(super) fn stage_delays(&self) -> Vec<Option<StageDelayStatus>> {
        let of_stage = |stage: &Option<Stage>| {
            let stage = stage.as_ref()?;
            let running: Vec<u16> = stage.running.iter().map(|number| number.0).collect();
            let (queueing, processing) = self.instance_delays(&running);
            Some(StageDelayStatus { stage: stage.name.clone(), queueing, processing })
        };
        self.fabric.parts.stages.iter().map(of_stage).collect()
    }

    /// In the queues and in the hands of instances.
    pub(super) fn instance_delays(&self, numbers: &[u16]) -> (Option<DelayStatus>, Option<DelayStatus>) {
        let clock = &self.fabric.clock;
        (self.delays.queueing.of(numbers, clock), self.delays.processing.of(numbers, clock))
    }
}
