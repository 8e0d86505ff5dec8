//! Pressure: which instances are throttled, what closes chains for it, and who rests. The rule is
//! `decide::pressure`; this applies it.
//!
//! One flag for each instance, written by the worker that owns it and read by all: relaxed, because a
//! packet let in or shed a moment late is all that can come of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use headgate_decide::pressure::{Marks, may_rest, step};
use headgate_decide::spread;
use headgate_shm::Descriptor;

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

    /// Whether nothing can pass this hop in time: where flows are spread, when all instances are throttled.
    fn blocks(&self, plan: &Plan, hop: Hop) -> bool {
        match hop {
            Hop::Instance { number, .. } => self.is_throttled(number),
            Hop::Spread { stage, .. } => plan.running(stage).iter().all(|&number| self.is_throttled(number)),
            Hop::Port(_) | Hop::End(_) => false,
        }
    }
}

impl Worker {
    /// Weighs the queue of each instance, and sends to rest whoever only feeds those that are throttled.
    pub(crate) fn weigh(&mut self, now: u64) {
        for &number in &self.owned {
            let Some(instance) = self.instances[number as usize].as_deref_mut() else { continue };
            let depth = instance.held + instance.waiting.len() as u32;
            instance.queue = instance.queue.look(depth);
            let Some(marks) = &instance.pressure else { continue };
            let next = step(instance.load, depth, now, marks);
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
            let blocks = |hop| self.pressure.blocks(&self.plan, hop);
            let blocked = |way: &Vec<Hop>| self.diverts.is_closed(&self.plan, way, blocks);
            // Who never sleeps would not hear the bell that ends the rest.
            let may = instance.pressure.is_some() && instance.sleeps && !self.diverts.is_by(number);
            let rests = may && may_rest(self.plan.ways_on(number).iter().map(blocked));
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
        let diverts = self.diverts.any();
        let mut by_flow = false;
        // From the exit: the last NF that cannot keep up is the one that limits the chain.
        for (position, &hop) in self.plan.hops(chain).iter().enumerate().rev() {
            if self.pressure.blocks(&self.plan, hop) {
                // Every flow comes to the first.
                if diverts && position > 0 {
                    by_flow = true;
                    continue;
                }
                // What would have come to the first NF has come for it, when its share is decided.
                if let (0, Hop::Instance { number, .. }) = (position, hop) {
                    let drops = &self.board.instances[number as usize].drops;
                    drops[Reason::Throttled as usize].add(packets.len() as u64);
                }
                self.end(chain, region, Reason::Throttled, packets);
                return 0;
            }
            by_flow |= matches!(hop, Hop::Spread { .. });
        }
        if !by_flow {
            return packets.len();
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
        let comes_to = |position: u8| passed_over >> position & 1 == 0;
        self.plan.hops(chain).iter().any(|&hop| match hop {
            Hop::Instance { position, number } => comes_to(position) && self.pressure.is_throttled(number),
            Hop::Spread { position, stage } => {
                let number = self.plan.table(stage)[spread::slot(flow)];
                comes_to(position) && self.pressure.is_throttled(number)
            }
            Hop::Port(_) | Hop::End(_) => false,
        })
    }
}

/// How a worker treats an instance that cannot keep up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handling {
    /// When it is throttled; `None`: never.
    pub marks: Option<Marks>,
    /// Average queue from which on ECN-capable packets are marked; 0: never.
    pub mark_at: u32,
    /// Packets that wait at the worker while its ring is full, of those that an NF has worked on.
    pub hold: u32,
    /// Whether it takes turns with its neighbours by batches.
    pub turns: bool,
}
