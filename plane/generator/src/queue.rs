//! One queue of a generator.

use headgate_shm::{Descriptor, Stack};

use crate::check::source_low;
use crate::flows::Cursor;
use crate::line::Line;
use crate::schedule::RateSchedule;
use crate::sizes::Bag;
use crate::spec::{GeneratorSpec, Load};
use crate::stamp;
use crate::template::{Burst, Layout, Template};
use headgate_port::random::Random;
use headgate_port::{Queue, QueueCounters, Setting, count_received, count_sent, give_back};

/// Way of making frames.
enum Maker {
    Line(Box<Line>),
    Any { layout: Layout, templates: Vec<Template>, bag: Bag },
}

impl Maker {
    fn new(spec: &GeneratorSpec) -> Self {
        let layout = Layout::new(spec);
        let (sizes, weights): (Vec<u32>, Vec<u32>) = spec.sizes_and_weights().into_iter().unzip();
        let templates: Vec<Template> = sizes.iter().map(|&size| Template::new(spec, size)).collect();
        match templates.as_slice() {
            [only] if let Some(line) = Line::new(layout, only) => Self::Line(Box::new(line)),
            _ => Self::Any { layout, templates, bag: Bag::new(&weights) },
        }
    }
}

pub(super) struct GeneratorQueue {
    schedule: RateSchedule,
    cursors: Vec<Cursor>,
    /// The class that goes first, so that none starves where room is short.
    first: usize,
    random: Random,
    /// Low 32 bits of the source address of flow 0.
    address: u32,
    /// Number of the generator queue, as the stamp holds it.
    source: u32,
    /// Number of the next packet.
    sequence: u32,
    maker: Maker,
    remaining: u64,
    counters: QueueCounters,
}

impl GeneratorQueue {
    pub(super) fn new(spec: &GeneratorSpec, setting: &Setting<'_>, queue: u32) -> Self {
        let queues = u32::from(setting.queues);
        let classes = match &spec.load {
            Load::Even { flows, .. } => vec![*flows],
            Load::Classes(classes) => classes.iter().map(|class| class.flows).collect(),
        };
        let mut from = 0;
        let mut parts = Vec::with_capacity(classes.len());
        let mut cursors = Vec::with_capacity(classes.len());
        for flows in classes {
            let cursor = Cursor::new(from, from + flows, queue, queues, spec.selection);
            parts.push(f64::from(cursor.count()) / f64::from(flows));
            cursors.push(cursor);
            from += flows;
        }
        Self {
            schedule: RateSchedule::new(spec, &parts, setting.timebase.cycles_per_second),
            cursors,
            first: 0,
            random: Random::new(spec.seed, queue),
            address: source_low(spec.source),
            source: stamp::tagged(setting.source.wrapping_add(queue as u8), 0),
            sequence: 0,
            maker: Maker::new(spec),
            remaining: remaining(spec, queue, queues),
            counters: QueueCounters::default(),
        }
    }

    /// Makes packets of one class in the buffers that come next, which the stack has.
    fn fill(&mut self, class: usize, now: u64, stack: &mut Stack, packets: &mut [Descriptor]) {
        let count = packets.len();
        let (cursor, random) = (&mut self.cursors[class], &mut self.random);
        let burst = Burst {
            address: self.address,
            source: self.source,
            sequence: self.sequence,
            now,
            region: stack.region(),
            buffers: &stack.free()[stack.len() - count..],
        };
        match &mut self.maker {
            Maker::Line(line) => line.fill(burst, cursor, random, packets),
            Maker::Any { layout, templates, bag } => {
                for (at, packet) in packets.iter_mut().enumerate() {
                    let mut flow = [0];
                    cursor.choose(random, &mut flow);
                    *packet = templates[bag.draw(random)].fill(*layout, burst, at, flow[0]);
                }
            }
        }
        // Only now, so that the buffers' numbers are read where they are and not copied first.
        drop(stack.take_many(count));
        self.sequence = self.sequence.wrapping_add(count as u32);
    }
}

/// The part of the packets asked for that this queue gives.
fn remaining(spec: &GeneratorSpec, queue: u32, queues: u32) -> u64 {
    let active = queues.min(spec.flows());
    match spec.count {
        _ if queue >= active => 0,
        Some(count) => {
            let (queue, active) = (u64::from(queue), u64::from(active));
            count / active + u64::from(queue < count % active)
        }
        None => u64::MAX,
    }
}

impl Queue for GeneratorQueue {
    fn receive(&mut self, now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        if self.remaining == 0 {
            // Behind the last packet none is offered that could be missed.
            return 0;
        }
        self.counters.missed += self.schedule.advance(now);
        let room = into.len().min(stack.len());
        let room = self.remaining.min(room as u64) as usize;
        let classes = self.cursors.len();
        let mut filled = 0;
        for step in 0..classes {
            let class =
                if self.first + step < classes { self.first + step } else { self.first + step - classes };
            let due =
                if self.cursors[class].count() > 0 { self.schedule.due(class, room - filled) } else { 0 };
            self.fill(class, now, stack, &mut into[filled..filled + due]);
            self.schedule.spend(class, due);
            filled += due;
        }
        self.first = if self.first + 1 < classes { self.first + 1 } else { 0 };
        self.remaining -= filled as u64;
        count_received(&mut self.counters, &into[..filled]);
        filled
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        count_sent(&mut self.counters, packets);
        give_back(stack, packets);
        packets.len()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn is_finished(&self) -> bool {
        self.remaining == 0
    }
}
