//! Weights: drives `decide::weights` on the plant, as the manager's control loop drives it on the machine.

use headgate_decide::cost::Account;
use headgate_decide::decision::Decision;
use headgate_decide::share::feeds;
use headgate_decide::units::{CoreId, InstanceId, Instant, NfId, RegionId, Span};
use headgate_decide::weights::{self, Action, Event, Load, Rules, Weights};

use crate::plant::Plant;
use crate::scene::{Policy, Scene};

/// The weights of all NFs.
pub(crate) struct Weighing {
    weighs: bool,
    decision: Weights,
    /// What is known of each instance, and whether it feeds another one of its core.
    known: Vec<(weights::Nf, bool)>,
    actions: Vec<Action>,
}

impl Weighing {
    pub(crate) fn new(scene: &Scene, plant: &mut Plant) -> Self {
        let scheduler = &scene.scheduler;
        let rules = Rules {
            weighs: scheduler.weighs,
            every: scheduler.weights_every,
            claim_cores: scheduler.claim_cores,
        };
        let mut weighing = Self {
            weighs: rules.weighs,
            decision: Weights::new(rules),
            known: Vec::new(),
            actions: Vec::new(),
        };
        let chains: Vec<Vec<NfId>> =
            scene.chains.iter().map(|chain| chain.stages.iter().copied().map(NfId).collect()).collect();
        for number in 0..plant.nfs.len() {
            let instance = InstanceId(number as u16);
            let (nf, core) = (plant.of[number], CoreId(plant.links[number].seat.core as u16));
            let runs_on = |other: NfId, core: CoreId| {
                scene.nfs[other.index()].places().any(|place| place.core == core.0)
            };
            let chains = chains.iter().map(Vec::as_slice);
            let feeds = feeds(NfId(nf as u16), core, chains, runs_on);
            let nf = traits(&scene.nfs[nf], core, plant.nfs[number].sleeps());
            weighing.known.push((nf, feeds && scheduler.presses_back));
            weighing.begins(Instant(0), instance.index(), plant);
        }
        weighing
    }

    /// Returns when it is to be polled next. Loads that nobody weighs are only for people.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.decision.poll_at().filter(|_| self.weighs)
    }

    /// Does what is due. The cores are advanced already.
    pub(crate) fn poll(&mut self, now: Instant, plant: &mut Plant) {
        while self.decision.is_due(now) {
            let mut actions = core::mem::take(&mut self.actions);
            self.decision.poll(now, &(), &mut actions);
            self.carry_out(now, actions, plant);
        }
    }

    /// An instance has a fresh process.
    pub(crate) fn begins(&mut self, now: Instant, number: usize, plant: &mut Plant) {
        let (instance, (nf, feeds)) = (InstanceId(number as u16), self.known[number]);
        self.tell(now, Event::Begins { instance, nf }, plant);
        self.tell(now, Event::Feeds { instance, feeds }, plant);
        self.tell(now, Event::Ready(instance), plant);
    }

    /// An instance's process has ended.
    pub(crate) fn ended(&mut self, now: Instant, number: usize, plant: &mut Plant) {
        self.tell(now, Event::Ended(InstanceId(number as u16)), plant);
    }

    fn tell(&mut self, now: Instant, event: Event, plant: &mut Plant) {
        let mut actions = core::mem::take(&mut self.actions);
        self.decision.on(now, event, &mut actions);
        self.carry_out(now, actions, plant);
    }

    fn carry_out(&mut self, now: Instant, mut actions: Vec<Action>, plant: &mut Plant) {
        let mut done = 0;
        while done < actions.len() {
            match actions[done].clone() {
                Action::SampleLoads => self.sample_loads(now, &mut actions, plant),
                Action::SampleCosts => self.sample_costs(now, &mut actions, plant),
                Action::Enter(instance) => self.decision.on(now, Event::Entered(instance), &mut actions),
                Action::Write { instance, share, slice, yields_after } => {
                    let nf = instance.index();
                    let seat = plant.links[nf].seat;
                    plant.cores[seat.core].set_share(seat.task, share, slice, plant.cage);
                    plant.nfs[nf].orders.slice = yields_after;
                }
                // Nobody reads a log here.
                Action::Report(_) => {}
            }
            done += 1;
        }
        actions.clear();
        self.actions = actions;
    }

    fn sample_loads(&mut self, now: Instant, actions: &mut Vec<Action>, plant: &Plant) {
        for (number, link) in plant.links.iter().enumerate().filter(|(_, link)| !link.is_out) {
            let load = Load {
                delivered: link.counts.delivered,
                full: link.counts.full,
                throttled: link.counts.throttled,
                late: link.counts.late,
                backlog: plant.nfs[number].receive.packets(),
            };
            self.decision.on(now, Event::Load { instance: InstanceId(number as u16), load }, actions);
        }
    }

    fn sample_costs(&mut self, now: Instant, actions: &mut Vec<Action>, plant: &mut Plant) {
        for (number, nf) in plant.nfs.iter_mut().enumerate() {
            if plant.links[number].is_out {
                continue;
            }
            let instance = InstanceId(number as u16);
            for time in nf.take_samples() {
                self.decision.on(now, Event::ServiceTime { instance, time, count: 1 }, actions);
            }
            let seat = plant.links[number].seat;
            let account = self.decision.wants_account(now, instance).then(|| Account {
                cpu: Span(plant.cores[seat.core].tasks[seat.task].cpu_ns),
                returned: nf.counts.returned,
                sleeps: nf.counts.sleeps,
                empty_polls: nf.counts.empty_polls(),
            });
            self.decision.on(now, Event::Costs { instance, account }, actions);
        }
    }
}

/// Returns what weights must know of an NF.
const fn traits(nf: &crate::scene::Nf, core: CoreId, sleeps: bool) -> weights::Nf {
    weights::Nf {
        core,
        domain: RegionId(nf.domain as u8),
        priority: nf.priority,
        slice: nf.slice,
        is_seen: true,
        sleeps,
        is_real_time: matches!(nf.policy, Policy::RoundRobin | Policy::Fifo),
        is_batch: matches!(nf.policy, Policy::Batch),
    }
}
