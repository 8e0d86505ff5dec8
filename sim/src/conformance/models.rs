//! The model's parts, as scripts drive them.

use headgate_decide::units::{Instant, Span};

use super::{BellPart, ClockPart, LoopPart, Order, RING, RingPart, SharesPart};
use crate::core::{Core, Ground};
use crate::costs::Costs;
use crate::nf::Nf;
use crate::random::Random;
use crate::ring::{Ring, Run, cut};
use crate::scene::{self, Cost, Policy, Waits};

/// The model's ring.
#[derive(Debug, Default)]
pub struct ModelRing(Ring, u64);

impl RingPart for ModelRing {
    fn push(&mut self, packets: u32) -> u32 {
        let run = packets_of(packets, self.1);
        let (fits, _) = cut(run, RING - self.0.packets());
        let put = fits.map_or(0, |run| run.packets);
        fits.into_iter().for_each(|run| self.0.push(run));
        self.1 += u64::from(put);
        put
    }

    fn pop(&mut self, most: u32) -> u32 {
        let mut taken = 0;
        while let Some(run) = self.0.pop(most - taken) {
            taken += run.packets;
        }
        taken
    }

    fn waiting(&mut self) -> u32 {
        self.0.packets()
    }
}

fn packets_of(packets: u32, number: u64) -> Run {
    Run { flow: 0, position: 0, packets, arrived: Instant(0), number, is_marked: false }
}

/// The model's NF, alone on a core: its loop and its doorbell.
#[derive(Debug)]
pub struct ModelNf {
    nf: Nf,
    waits: Waits,
    costs: Costs,
    now: Instant,
    delivered: u64,
    returned: u64,
}

impl ModelNf {
    /// Returns one that has just started.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        let mut nf = Nf::new(&task(waits, 100), Random::stream(1, 1));
        nf.orders.slice = Span::from_secs(1);
        nf.wake();
        Self { nf, waits, costs: Costs::default(), now: Instant(0), delivered: 0, returned: 0 }
    }
}

/// Returns an NF on core 0.
fn task(waits: Waits, cycles: u64) -> scene::Nf {
    scene::Nf {
        name: String::new(),
        core: 0,
        worker: 0,
        instances: Vec::new(),
        domain: 0,
        ring: RING,
        priority: 1,
        policy: Policy::Normal,
        waits,
        cost: Cost::Fixed(cycles),
        changes: Vec::new(),
        pauses: None,
        rt_priority: 1,
        slice: None,
    }
}

impl LoopPart for ModelNf {
    fn deliver(&mut self, packets: u32) {
        self.nf.receive.push(packets_of(packets, self.delivered));
        self.delivered += u64::from(packets);
        self.call();
    }

    fn call(&mut self) {
        if BellPart::take(self) {
            self.nf.wake();
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Blocked(blocked) => self.nf.orders.blocked = blocked,
            Order::Yield(batch) => (self.nf.orders.must_yield, self.nf.orders.batch) = (batch > 0, batch),
        }
    }

    fn settle(&mut self) {
        const STEP: Span = Span::from_micros(100);
        while !self.nf.is_asleep() {
            let (used, _) = self.nf.run(self.now, STEP.0, &self.costs, &[64]);
            self.now = self.now + Span(used.max(1));
            let is_done = self.nf.receive.is_empty() && self.nf.in_hand() == 0;
            if is_done && self.waits != Waits::Notified && !self.nf.orders.blocked {
                break;
            }
        }
    }

    fn returned(&mut self) -> u64 {
        while let Some(run) = self.nf.transmit.pop(u32::MAX) {
            self.returned += u64::from(run.packets);
        }
        self.returned
    }

    fn is_asleep(&mut self) -> bool {
        self.nf.is_asleep()
    }
}

impl BellPart for ModelNf {
    fn announce(&mut self) {
        self.nf.orders.blocked = true;
        self.settle();
        self.nf.orders.blocked = false;
    }

    fn withdraw(&mut self) {
        self.nf.wake();
    }

    fn is_sleeping(&mut self) -> bool {
        self.nf.waits_for_a_call()
    }

    fn take(&mut self) -> bool {
        // The model's worker calls nobody who does not wait for it.
        let waits = self.nf.waits_for_a_call();
        if waits {
            self.nf.note_call();
        }
        waits
    }
}

/// The model's core and its kernel.
#[derive(Debug, Default)]
pub struct ModelShares;

impl SharesPart for ModelShares {
    fn parts(&mut self, weights: &[u32]) -> Vec<f64> {
        let costs = Costs::default();
        let mut core = Core::new(0, &costs, 100, Random::stream(1, 2));
        let mut nfs: Vec<Nf> = Vec::new();
        for (number, weight) in weights.iter().enumerate() {
            // Each is a group with one task: a task with the weight of the group.
            core.add(number, &task(Waits::Polling, 100), (0, 1), Instant(0));
            core.set_share(number, *weight, costs.base_slice, crate::canary::Cage::default());
            nfs.push(Nf::new(&task(Waits::Polling, 100), Random::stream(1, number as u64)));
        }
        core.advance(Instant(0) + Span::from_secs(2), &mut nfs, Ground { costs: &costs, bytes: &[64] });
        let all: u64 = core.tasks.iter().map(|task| task.cpu_ns).sum();
        core.tasks.iter().map(|task| 100.0 * task.cpu_ns as f64 / all as f64).collect()
    }
}

/// The model's clock.
#[derive(Debug, Default)]
pub struct ModelClock(Instant);

impl ClockPart for ModelClock {
    fn now_ns(&mut self) -> u64 {
        self.0.0
    }

    fn wait(&mut self, ns: u64) {
        self.0 = self.0 + Span(ns);
    }
}
