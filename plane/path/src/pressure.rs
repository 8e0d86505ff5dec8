//! Pressure: which instances are throttled, what closes chains for it, and who rests. The rule is
//! `decide::pressure`; this applies it.
//!
//! One flag for each instance, written by the worker that owns it and read by all: relaxed, because a
//! packet let in or shed a moment late is all that can come of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use headgate_decide::pressure::{
    self, HopPressure, QueueMarks, Shed, flow_is_shed, is_blocked, is_closed, step,
};
use headgate_decide::spread;
use headgate_shm::Descriptor;
use headgate_units::Ticks;

use crate::divert::Diverts;
use crate::drop::Reason;
use crate::holders::{Holders, Place};
use crate::plan::{Hop, Plan};
use crate::worker::Worker;

/// The throttled instances, as all workers see them.
pub struct Pressure {
    throttled: Box<[AtomicBool]>,
    count: AtomicU32,
}

impl Pressure {
    /// Nobody throttled, of `instances`.
    #[must_use]
    pub fn new(instances: usize) -> Arc<Self> {
        let throttled = (0..instances).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { throttled, count: AtomicU32::new(0) })
    }

    /// Whether anybody is throttled.
    #[inline(always)]
    #[must_use]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether this instance is.
    #[inline(always)]
    #[must_use]
    pub fn is_throttled(&self, number: u16) -> bool {
        self.throttled[number as usize].load(Ordering::Relaxed)
    }

    /// Only the worker that owns the instance may call this.
    pub(crate) fn set(&self, number: u16, throttled: bool) {
        if self.throttled[number as usize].swap(throttled, Ordering::Relaxed) != throttled {
            if throttled {
                self.count.fetch_add(1, Ordering::Relaxed);
            } else {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Gathers what is known of a hop.
    fn of_hop(&self, plan: &Plan, diverts: &Diverts, hop: Hop) -> HopPressure {
        match hop {
            Hop::Instance { number, .. } => HopPressure {
                throttled: self.is_throttled(number),
                diverts: diverts.is_by(number),
                spreads: false,
            },
            Hop::Spread { stage, .. } => HopPressure {
                throttled: plan.running(stage).iter().all(|&number| self.is_throttled(number)),
                diverts: plan.running(stage).iter().any(|&number| diverts.is_by(number)),
                spreads: true,
            },
            Hop::Port(_) | Hop::End(_) => HopPressure::default(),
        }
    }
}

impl Worker {
    /// Weighs the queue of each instance, and sends to rest whoever only feeds those that are throttled.
    pub(crate) fn weigh(&mut self, now: u64) {
        for &number in &self.owned {
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            let depth = instance.held + instance.waiting.len() as u32;
            instance.queue = instance.queue.sample(depth);
            let Some(marks) = &instance.pressure else { continue };
            let next = step(instance.load, depth, Ticks(now), marks);
            if next.is_throttled() != instance.load.is_throttled() {
                self.pressure.set(number, next.is_throttled());
                self.board.instances[number as usize].throttles.add(u64::from(next.is_throttled()));
            }
            instance.load = next;
        }
        if self.pressure.any() || self.resting > 0 {
            self.arrange_rest();
        }
    }

    fn arrange_rest(&mut self) {
        let mut resting = 0;
        for &number in &self.owned {
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            let of_hop = |hop: &Hop| self.pressure.of_hop(&self.plan, &self.diverts, *hop);
            let closed = |way: &Vec<Hop>| is_closed(way.iter().map(of_hop));
            // Who never sleeps would not hear the bell that ends the rest.
            let may = instance.pressure.is_some() && instance.sleeps && !self.diverts.is_by(number);
            let rests = may && is_blocked(self.plan.ways_on(number).iter().map(closed));
            if rests != instance.rests {
                instance.rests = rests;
                instance.side.orders().rest.store(u32::from(rests), Ordering::Relaxed);
            }
            resting += u32::from(rests);
        }
        self.resting = resting;
    }

    /// Of packets of one chain, those that pass no throttled instance stay, at the front; the others have
    /// ended. Returns how many stay.
    #[cold]
    pub(crate) fn shed(
        &mut self,
        chain: u16,
        region: u8,
        packets: &mut [Descriptor],
        places: &mut [Place],
    ) -> usize {
        let hops = self.plan.hops(chain);
        let of_hop = |hop: &Hop| self.pressure.of_hop(&self.plan, &self.diverts, *hop);
        match pressure::shed(hops.iter().map(of_hop), self.diverts.any()) {
            Shed::Nothing => return packets.len(),
            Shed::Flows => {}
            Shed::Chain(position) => {
                // What would have come to the first NF has come for it, when its share is decided.
                if let (0, Hop::Instance { number, .. }) = (position, hops[position]) {
                    let drops = &self.board.instances[number as usize].drops;
                    drops[Reason::Throttled as usize].add(packets.len() as u64);
                }
                self.end(chain, region, Reason::Throttled, packets);
                return 0;
            }
        }
        let mut kept = 0;
        for at in 0..packets.len() {
            let holders = &self.stores[region as usize].holders;
            if self.flow_is_throttled(chain, holders, packets[at]) {
                self.end(chain, region, Reason::Throttled, &packets[at..=at]);
            } else {
                packets[kept] = packets[at];
                places[kept] = places[at];
                kept += 1;
            }
        }
        kept
    }

    fn flow_is_throttled(&self, chain: u16, holders: &Holders, packet: Descriptor) -> bool {
        let flow = holders.origin(packet.index()).flow;
        let passed_over = if self.diverts.any() { self.diverts.passed_over(chain, flow) } else { 0 };
        let hops = self.plan.hops(chain).iter().filter_map(|&hop| match hop {
            Hop::Instance { position, number } => Some((position, self.pressure.is_throttled(number))),
            Hop::Spread { position, stage } => {
                let number = self.plan.table(stage)[spread::slot(flow)].0;
                Some((position, self.pressure.is_throttled(number)))
            }
            Hop::Port(_) | Hop::End(_) => None,
        });
        flow_is_shed(hops, passed_over)
    }
}

/// How a worker treats an instance that cannot keep up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handling {
    /// When it is throttled; `None`: never.
    pub marks: Option<QueueMarks>,
    /// Average queue from which on ECN-capable packets are marked; 0: never.
    pub mark_at: u32,
    /// Packets that wait at the worker while its ring is full, of those that an NF has worked on.
    pub hold: u32,
    /// Whether it takes turns with its neighbours by batches.
    pub turns: bool,
}
