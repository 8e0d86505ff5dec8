//! Time slices of one core: drives `decide::slice` on the plant, as a scheduler's thread does on the machine.
//!
//! The thread runs on its NFs' core. It wakes by a timer, samples the rings, and sets priorities; what that
//! takes is taken from the NF that runs next.

use headgate_decide::decision::Decision;
use headgate_decide::slice::pace::{Seat, Wait};
use headgate_decide::slice::{
    self, Action, Dispatcher, Member, PacketCost, Priority, RingSample, Rings, Rules, Runnable, Setup, Tally,
};
use headgate_decide::units::{CoreId, Instant, NfId, Rate, Span};

use crate::kernel::Class;
use crate::plant::Plant;
use crate::scene::{Nf, Scene, Waits};

/// Of the price of a switch, the part that a sample without one takes: a timer's interrupt.
const SAMPLE_PERCENT: u64 = 80;

/// The scheduler of one core.
pub(crate) struct Slices {
    core: usize,
    dispatcher: Dispatcher,
    rules: Rules,
    /// NFs by member, and those that are next.
    members: Vec<usize>,
    next: Vec<Vec<usize>>,
    due: Instant,
    actions: Vec<Action>,
}

impl Slices {
    /// Returns the schedulers of all cores with NFs that have time slices.
    pub(crate) fn of(scene: &Scene, plant: &Plant) -> Vec<Self> {
        if !scene.scheduler.slices {
            return Vec::new();
        }
        let mut cores: Vec<u16> = scene
            .nfs
            .iter()
            .filter(|nf| nf.waits == Waits::Polling)
            .flat_map(Nf::places)
            .map(|at| at.core)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores.into_iter().map(|core| Self::new(core, scene, plant)).collect()
    }

    fn new(core: u16, scene: &Scene, plant: &Plant) -> Self {
        let chain = |chain: &crate::scene::Chain| slice::Chain {
            stages: chain.stages.iter().copied().map(NfId).collect(),
            floor: chain.floor.map(|floor| Rate(floor as f64)),
            bound: chain.bound,
        };
        let runnable = |(number, nf): (usize, &usize)| Runnable {
            nf: Some(NfId(*nf as u16)),
            core: CoreId(plant.links[number].seat.core as u16),
            has_slices: scene.nfs[*nf].waits == Waits::Polling,
        };
        let chains: Vec<_> = scene.chains.iter().map(chain).collect();
        let runnable: Vec<_> = plant.of.iter().enumerate().map(runnable).collect();
        let ring = |instance: usize| scene.nfs[plant.of[instance]].ring;
        let plan = slice::plan(CoreId(core), &chains, &runnable);
        let rules = Rules {
            gamma_percent: scene.scheduler.gamma_percent,
            occupancy: scene.scheduler.occupancy,
            switch: Span(scene.costs.slice_switch_ns),
        };
        let member = |(at, nf): (usize, &usize)| {
            let next = plan.next[at].iter().map(|next| ring(*next));
            Member::new(ring(*nf), next, PacketCost::default())
        };
        let members = plan.members.iter().enumerate().map(member).collect();
        let setup = Setup { rules, members, objectives: plan.objectives, tally: Tally::default() };
        Self {
            core: core.into(),
            dispatcher: Dispatcher::new(setup),
            rules,
            members: plan.members,
            next: plan.next,
            due: Instant(0),
            actions: Vec::new(),
        }
    }

    /// Returns its core.
    pub(crate) const fn core(&self) -> usize {
        self.core
    }

    /// Returns when it wakes next.
    pub(crate) const fn next(&self) -> Instant {
        self.due
    }

    /// Samples the rings of the core, which is advanced already, and sets priorities.
    pub(crate) fn poll(&mut self, now: Instant, plant: &mut Plant) {
        let samples: Vec<RingSample> = (0..self.members.len()).map(|at| self.sample(at, plant)).collect();
        let switches = self.dispatcher.tally().switches;
        self.dispatcher.poll(now, &samples, &mut self.actions);
        let has_switched = self.dispatcher.tally().switches != switches;
        let switch = self.rules.switch.0;
        // The kernel's own switch to the NF is part of the price.
        let price = if has_switched {
            switch.saturating_sub(plant.costs.switch_ns)
        } else {
            switch * SAMPLE_PERCENT / 100
        };
        plant.cores[self.core].interrupt(price);
        for action in self.actions.drain(..) {
            if let Action::SetPriority { nf, priority } = action {
                let seat = plant.links[self.members[nf]].seat;
                plant.cores[self.core].set_class(seat.task, class_of(priority));
            }
        }
        let due = self.dispatcher.poll_at();
        self.due = match Seat::OwnCore.wait(self.rules.slice_min(), now, now + Span(price), due) {
            Wait::Sleep(until) | Wait::Spin(until) => until,
            Wait::Yield => now + Span(price),
        };
    }

    fn sample(&self, at: usize, plant: &Plant) -> RingSample {
        let nf = &plant.nfs[self.members[at]];
        let rings = Rings {
            waiting: nf.receive.packets(),
            returning: nf.transmit.packets(),
            taken: nf.counts.taken as u32,
            in_hand: nf.in_hand(),
        };
        let before = |next: &usize| {
            let next = &plant.nfs[*next];
            next.receive.packets() + next.transmit.packets()
        };
        let sample = RingSample::new(rings, self.next[at].iter().map(before), false);
        let runs = self.dispatcher.priority(at) == Some(Priority::Running);
        let seat = plant.links[self.members[at]].seat;
        RingSample { ran: runs.then(|| Span(plant.cores[seat.core].tasks[seat.task].cpu_ns)), ..sample }
    }
}

const fn class_of(priority: Priority) -> Class {
    match priority {
        Priority::Own => Class::Fair,
        Priority::Waiting => Class::RealTime { priority: 1, in_slices: false },
        Priority::Running => Class::RealTime { priority: 2, in_slices: false },
    }
}
