//! Promotions: a standby becomes the process of its instance.
//!
//! A worker that sees a death itself promotes the standby before the control loop knows of the death. The
//! promotion is then kept until the end of the process is noticed, for only that says why it ended; a process
//! that only says it has ended is ended by the worker. Where the instance is to be reclaimed by then, because
//! it is removed or has committed an offence, the standby that works is ended first: nothing is reclaimed
//! from a process that lives.

use headgate_decide::lifecycle::{Event as LifeEvent, State};
use headgate_decide::{liveness, spare};
use headgate_path::worker::{Command, Promotion};

use super::carry_out::give_up;
use super::standbys::kill;
use super::{Effect, Ground, Instances};
use crate::control::instance::{Process, StandbyProcess};

impl Instances {
    /// Lets nobody take over from the process of an instance.
    pub(super) fn have_no_successor(&self, at: usize) {
        let process = self.all[at].process.as_ref();
        if let Some(side) = process.and_then(|process| process.link.side()) {
            side.have_no_successor();
        }
    }

    /// Handles a promotion: a worker has made a standby the process of its instance.
    pub fn on_promoted(
        &mut self,
        at: usize,
        promotion: Promotion,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let instance = &mut self.all[at];
        if let Some(state) = &mut instance.state {
            state.note_returned(promotion.returned);
        }
        instance.takeover_ns = promotion.took.map(|took| ground.fabric.clock.cycles_to_ns(took.0));
        if instance.state() == State::TakingOver {
            let promoted = promoted(promotion);
            return self.tell(at, promoted, ground, effects);
        }
        instance.promotion = Some(promotion);
        if instance.state() == State::Reclaiming {
            self.reclaim(at, effects);
        }
    }

    /// Has the worker of an instance whose process has ended promote its standby. Returns the event when it
    /// has done so already.
    pub(super) fn take_over(&mut self, at: usize, effects: &mut Vec<Effect>) -> Option<LifeEvent> {
        let instance = &mut self.all[at];
        if let Some(promotion) = instance.promotion.take() {
            return Some(promoted(promotion));
        }
        let dead = instance.process.as_ref()?.link.side()?.clone();
        let (worker, number) = (instance.seat.worker, instance.seat.number);
        effects.push(Effect::Post { worker, command: Command::TakeOver { number, dead } });
        None
    }

    /// Has the worker of an instance take back what its processes hold, which have ended: a standby that
    /// works for it ends before.
    pub(super) fn reclaim(&mut self, at: usize, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        match &mut instance.standby {
            Some(standby) if instance.promotion.is_some() => kill(standby),
            _ => {
                let process = instance.process.as_ref();
                let dead = process.and_then(|process| process.link.side()).cloned();
                let (worker, number) = (instance.seat.worker, instance.seat.number);
                effects.push(Effect::Post { worker, command: Command::Reclaim { number, dead } });
            }
        }
    }

    /// Checks whether a standby has ended that worked for an instance which is to be reclaimed.
    pub(super) fn poll_promoted(&mut self, at: usize, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let has_ended = |standby: &mut StandbyProcess| standby.spare.origin.has_ended();
        if instance.state() != State::Reclaiming {
            return;
        }
        let Some(standby) = instance.standby.take_if(has_ended) else { return };
        instance.promotion = None;
        let (worker, number) = (instance.seat.worker, instance.seat.number);
        let dead = standby.link.side().cloned();
        effects.push(Effect::Post { worker, command: Command::Reclaim { number, dead } });
        self.leaving.push(standby.spare);
    }

    /// Makes a standby the process of its instance.
    pub(super) fn succeed(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(standby) = instance.standby.take() else { return };
        let StandbyProcess { spare, link, counters, answers, replaces, .. } = standby;
        let goodbye = spare.goodbye.clone();
        let process = Process { answers, replaces, goodbye, ..Process::started(spare, link) };
        let before = instance.process.replace(process);
        instance.counters = counters;
        instance.liveness.on(ground.now, liveness::Event::Begins, &mut Vec::new());
        if let Some(before) = before {
            give_up(before, ground);
        }
        effects.push(Effect::Begins(at));
        self.decide_spare(at, spare::Event::Promoted, ground, effects);
    }
}

/// Returns a promotion as an event in the life of an instance.
const fn promoted(promotion: Promotion) -> LifeEvent {
    let Promotion { again, is_alone, poisoned, .. } = promotion;
    LifeEvent::Promoted { again, alone: is_alone, poisoned }
}
