//! A port that takes everything and gives nothing, and can measure what it takes.

mod latency;
mod measure;

use std::num::NonZeroU32;
use std::sync::Arc;

use headgate_shm::{Descriptor, Stack};

pub use measure::{FLOWS_JUDGED, Measurements, Report};

use headgate_port::{Queue, QueueCounters, Setting, count_sent, give_back};
use measure::Probe;

/// Measurements that a null port makes of the stamps of generators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Nothing: packets are not read.
    #[default]
    Nothing,
    /// The latency of one of so many packets.
    Latency {
        /// 1 means each.
        every: NonZeroU32,
    },
    /// The latency of each packet, loss, and the order of the first [`FLOWS_JUDGED`] flows of each
    /// generator.
    Everything,
}

/// An open null port.
pub struct NullPort {
    /// As many as were asked for.
    pub queues: Vec<Box<dyn Queue>>,
    /// Its measurements; to be read at any time.
    pub measurements: Arc<Measurements>,
}

/// Makes the queues.
#[must_use]
pub fn open(measure: Measure, setting: &Setting<'_>) -> NullPort {
    let measurements = Arc::new(Measurements::new(
        setting.queues,
        setting.timebase.cycles_per_second,
        measure == Measure::Everything,
    ));
    let queue = |number| {
        let probe = Probe::new(measure, Arc::clone(&measurements), number);
        Box::new(NullQueue { probe, counters: QueueCounters::default() }) as Box<dyn Queue>
    };
    NullPort { queues: (0..setting.queues).map(queue).collect(), measurements }
}

struct NullQueue {
    probe: Option<Probe>,
    counters: QueueCounters,
}

impl Queue for NullQueue {
    fn receive(&mut self, _now: u64, _stack: &mut Stack, _into: &mut [Descriptor]) -> usize {
        0
    }

    fn transmit(&mut self, now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        if let Some(probe) = &mut self.probe {
            probe.sample(now, stack.region(), packets);
        }
        count_sent(&mut self.counters, packets);
        give_back(stack, packets);
        packets.len()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn is_finished(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
