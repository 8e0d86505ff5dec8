//! Spares: processes that wait in their place to become an instance's next one.
//! [`headgate_decide::spare`] decides when there is one; this file makes it, tells it to go, and reaps it.
//!
//! A spare runs our code alone until it is told to go. It has a group of its own, so that nothing an NF does
//! to its own group reaches it.

use headgate_decide::decision::Decision;
use headgate_decide::lifecycle::{Event as LifeEvent, State};
use headgate_decide::spare::{self, Action, Event, Sample};
use headgate_host::Signal;
use headgate_session::inbox::Received;
use headgate_session::launch::Launch as Orders;
use headgate_session::message::{FromNf, ToNf};

use super::carry_out::{launch, spawn};
use super::{Effect, Ground, Instances};
use crate::control::instance::{Instance, Process, SpareProcess};
use crate::control::link::{self, Link};
use crate::status::EventCode;

/// Most messages read from a spare in one pass. It says two, and is an NF as soon as it says more.
pub(super) const MESSAGES_MAX: usize = 4;

impl Instances {
    /// Passes an event to the decision about a spare, and carries out what it decides.
    pub(super) fn decide_spare(
        &mut self,
        at: usize,
        event: Event,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let mut actions = Vec::new();
        self.all[at].spare.on(ground.now, event, &mut actions);
        self.carry_out_spare(at, actions, ground, effects);
    }

    fn carry_out_spare(
        &mut self,
        at: usize,
        actions: Vec<Action>,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        for action in actions {
            match action {
                Action::Make => self.make_spare(at, ground, effects),
                Action::Go => self.send_spare(at, ground, effects),
                Action::Prepare => self.prepare_standby(at, ground, effects),
                Action::Start => self.start(at, ground, effects),
                Action::Kill => self.end_spare(at, effects),
                Action::Report { why, again_in } => {
                    let who = self.all[at].seat.name.clone();
                    let again = again_in.as_millis();
                    let what = format!("its spare process was lost: {why}; the next one in {again} ms");
                    effects.push(Effect::Log { code: EventCode::SpareLost, who, what });
                }
            }
        }
    }

    fn make_spare(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(program) = link::early_program(&instance.seat.nf) else { return };
        let orders = Orders { waits: true, ..Orders::new(instance.seat.name.clone(), program, 0) };
        match launch(&instance.seat, orders, None, ground, effects) {
            Ok(spare) => instance.spare_process = Some(spare),
            Err(why) => self.decide_spare(at, Event::NotMade(why), ground, effects),
        }
    }

    /// Makes the spare the process of its instance. It reads that it is to go once it is in its place; what
    /// it lacks there was said by the process before it.
    fn send_spare(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(spare) = instance.spare_process.take() else { return self.start(at, ground, effects) };
        let link = match Link::make(&instance.seat, ground) {
            Ok(link) => link,
            Err(why) => {
                self.leaving.push(spare);
                return self.tell(at, LifeEvent::NoProcess(why), ground, effects);
            }
        };
        if spare.origin.has_ended() || spare.inbox.send(&ToNf::Go, &[]).is_err() {
            self.leaving.push(spare);
            return self.start(at, ground, effects);
        }
        self.take(at, Process::started(spare, link), ground, effects);
    }

    fn start(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        match spawn(&self.all[at].seat, ground, effects) {
            Ok(process) => self.take(at, process, ground, effects),
            Err(why) => self.tell(at, LifeEvent::NoProcess(why), ground, effects),
        }
    }

    fn end_spare(&mut self, at: usize, effects: &mut Vec<Effect>) {
        self.leaving.extend(self.all[at].spare_process.take());
        self.end_standby(at, effects);
    }

    /// Returns whether something of this manager starts or is reclaimed, so that no spare is made now.
    pub(super) fn are_busy(&self) -> bool {
        self.all.iter().any(|instance| {
            matches!(instance.state(), State::Starting | State::Reclaiming | State::Stopping)
                || instance.spare.state() == spare::State::Starting
        })
    }

    pub(super) fn poll_spare(
        &mut self,
        at: usize,
        heard: bool,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        if heard {
            self.read_spare(at, ground, effects);
        }
        if !self.all[at].spare.is_due(ground.now) {
            return;
        }
        let (sample, mut actions) = (Sample { busy: self.are_busy() }, Vec::new());
        self.all[at].spare.poll(ground.now, &sample, &mut actions);
        self.carry_out_spare(at, actions, ground, effects);
    }

    /// Reads a spare's messages, and checks whether it has ended.
    fn read_spare(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let Instance { spare_process: Some(spare), .. } = &mut self.all[at] else { return };
        let ended = spare.origin.has_ended();
        let mut seated = false;
        for _ in 0..MESSAGES_MAX {
            match spare.inbox.receive(ground.now) {
                Some(Received::Word(FromNf::Seated { .. })) => seated = true,
                Some(Received::Word(FromNf::Goodbye { reason, .. })) => spare.goodbye = reason,
                Some(Received::Closed) | None => break,
                Some(_) => {}
            }
        }
        if seated {
            self.decide_spare(at, Event::Seated, ground, effects);
        }
        if ended && let Some(spare) = self.all[at].spare_process.take() {
            self.lose_spare(at, spare, ground, effects);
        }
    }

    /// Reaps a spare that has ended.
    pub(super) fn lose_spare(
        &mut self,
        at: usize,
        mut spare: SpareProcess,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let exit = spare.origin.reap();
        let why = if spare.goodbye.is_empty() { exit } else { std::mem::take(&mut spare.goodbye) };
        self.leaving.push(spare);
        self.decide_spare(at, Event::Exited(why), ground, effects);
    }

    /// Kills and reaps spares that are not needed any more.
    pub(super) fn reap_spares(&mut self, ground: &mut Ground<'_>) {
        for mut spare in std::mem::take(&mut self.leaving) {
            if spare.origin.has_ended() {
                spare.origin.reap();
                spare.origin.release(ground.ledger);
                ground.groups.take_back(spare.group, true, ground.ledger);
            } else {
                // It may have ended meanwhile.
                let _ = spare.origin.signal(Signal::KILL);
                self.leaving.push(spare);
            }
        }
    }

    /// Returns whether no spare is left.
    pub fn have_no_spares(&self) -> bool {
        self.leaving.is_empty()
            && self.all.iter().all(|one| one.spare_process.is_none() && one.standby.is_none())
    }
}
