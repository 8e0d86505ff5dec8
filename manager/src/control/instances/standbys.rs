//! Standbys: second processes of instances, ready and asleep, that take over when the first ones die.
//!
//! A standby begins as a spare ([`super::spares`]). Told to go, it becomes the NF with rings of its own and
//! the state of the process that works, to which it writes nothing; its worker has its rings, and promotes
//! it. Here it is welcomed and handed over. One that ends is first forgotten by the worker, which may just
//! have promoted it. How it becomes the process of its instance is [`super::promotions`].

use headgate_decide::spare;
use headgate_host::Signal;
use headgate_host::sched::{self, Policy};
use headgate_path::worker::Command;
use headgate_session::inbox::Received;
use headgate_session::message::{FromNf, Part, ToNf};
use headgate_session::version::Versions;
use headgate_shm::control::{COUNTERS, STANDBY_VERSION};

use super::spares::MESSAGES_MAX;
use super::{Effect, Ground, Instances};
use crate::control::instance::{Instance, StandbyProcess};
use crate::control::link::Link;

/// Policy of a standby until it is promoted and gets its NF's: the shortest slice that the kernel has (Linux
/// 6.12), because a task that is woken preempts those with longer ones. The process that died still has the
/// core for as long as its memory takes to be given back.
const COMES_AT_ONCE: Policy = Policy::Normal { nice: 0, slice_ns: Some(100_000) };

impl Instances {
    /// Lets a spare go on to become a standby.
    pub(super) fn prepare_standby(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(spare) = instance.spare_process.take() else { return };
        let link = Link::make(&instance.seat, ground).and_then(|link| {
            let sent = spare.inbox.send(&ToNf::Go, &[]);
            sent.map(|()| link).map_err(|error| format!("could not be told to go: {error}"))
        });
        match link {
            Ok(link) => {
                let before = instance.standby.replace(StandbyProcess::new(spare, link));
                self.leaving.extend(before.map(|standby| standby.spare));
            }
            Err(why) => {
                self.leaving.push(spare);
                self.decide_spare(at, spare::Event::NotMade(why), ground, effects);
            }
        }
    }

    /// Reads a standby's messages, and checks whether it has ended.
    pub(super) fn poll_standby(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        if self.all[at].promotion.is_some() {
            return self.poll_promoted(at, effects);
        }
        let Some(standby) = self.all[at].standby.as_ref().filter(|standby| !standby.dismissed) else {
            return;
        };
        let ended = standby.spare.origin.has_ended();
        for _ in 0..MESSAGES_MAX {
            let Some(standby) = &mut self.all[at].standby else { return };
            match standby.spare.inbox.receive(ground.now) {
                Some(Received::Word(message)) => self.hear_standby(at, message, ground, effects),
                Some(Received::Garbled(_) | Received::Offence(_)) => kill(standby),
                Some(Received::Closed) | None => break,
            }
        }
        if ended {
            self.on_standby_ended(at, ground, effects);
        }
    }

    fn hear_standby(
        &mut self,
        at: usize,
        message: FromNf,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let Instance { seat, state, standby: Some(standby), .. } = &mut self.all[at] else { return };
        match message {
            FromNf::Hello { versions, .. } => {
                let inbox = &mut standby.spare.inbox;
                let state = (state.as_mut(), Part::Standby);
                let welcomed = check_version(versions)
                    .and_then(|()| inbox.agree(versions))
                    .and_then(|()| standby.link.welcome(seat, state, inbox, ground));
                if let Err(why) = welcomed {
                    standby.spare.goodbye = why;
                    kill(standby);
                }
            }
            FromNf::Ready { lend, answers, takes_long, state: said } if !standby.posted => {
                standby.link.lend(lend);
                standby.link.note_long(takes_long);
                (standby.answers, standby.replaces) = (answers, said.is_some_and(|said| said.replaces));
                prepare(standby);
                let Some(command) = standby.link.post_standby(seat, ground) else { return };
                standby.posted = true;
                effects.push(Effect::Post { worker: seat.worker, command });
                self.decide_spare(at, spare::Event::Ready, ground, effects);
            }
            FromNf::Counters { mut names } => {
                names.truncate(COUNTERS);
                standby.counters = names;
            }
            FromNf::Goodbye { reason, .. } => standby.spare.goodbye = reason,
            FromNf::Seated { .. } | FromNf::Ready { .. } | FromNf::Message { .. } | FromNf::Answer { .. } => {
            }
        }
    }

    /// Handles the end of a standby: its worker may have promoted it, so that is asked first.
    fn on_standby_ended(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let Instance { seat, standby: Some(standby), .. } = &mut self.all[at] else { return };
        if standby.posted {
            standby.dismissed = true;
            let command = Command::Dismiss { number: seat.number };
            effects.push(Effect::Post { worker: seat.worker, command });
        } else {
            self.lose_standby(at, ground, effects);
        }
    }

    /// Handles the answer of a worker that has forgotten a standby.
    pub fn on_dismissed(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let Some(standby) = instance.standby.as_ref().filter(|standby| standby.dismissed) else { return };
        if instance.promotion.is_some() {
            // It was promoted before it could be forgotten.
        } else if standby.spare.origin.has_ended() {
            self.lose_standby(at, ground, effects);
        } else {
            self.leaving.extend(instance.standby.take().map(|standby| standby.spare));
        }
    }

    fn lose_standby(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        if let Some(standby) = self.all[at].standby.take() {
            self.lose_spare(at, standby.spare, ground, effects);
        }
    }

    /// Ends a standby that is not needed. One that its worker has promoted works, and ends with its instance.
    pub(super) fn end_standby(&mut self, at: usize, effects: &mut Vec<Effect>) {
        if self.all[at].promotion.is_some() {
            return;
        }
        let Instance { seat, standby: Some(standby), .. } = &mut self.all[at] else { return };
        if !standby.posted {
            self.leaving.extend(self.all[at].standby.take().map(|standby| standby.spare));
        } else if !standby.dismissed {
            kill(standby);
            standby.dismissed = true;
            let command = Command::Dismiss { number: seat.number };
            effects.push(Effect::Post { worker: seat.worker, command });
        }
    }
}

/// Sees to it that the end of a standby that is ready is seen at once, and that it comes at once.
fn prepare(standby: &mut StandbyProcess) {
    standby.link.bind(&standby.spare.origin);
    if let Some(pid) = standby.spare.origin.pid() {
        // A kernel without slices of tasks has it run when its turn comes.
        let _ = sched::set(Some(pid), COMES_AT_ONCE);
    }
}

/// Kills a standby; its end is noticed next.
pub(super) fn kill(standby: &mut StandbyProcess) {
    // It may have ended meanwhile.
    let _ = standby.spare.origin.signal(Signal::KILL);
}

/// Checks that a process knows what a standby is.
fn check_version(theirs: Versions) -> Result<(), String> {
    if theirs.max >= STANDBY_VERSION {
        return Ok(());
    }
    Err(format!(
        "its library speaks version {} of the interface, and a standby needs {STANDBY_VERSION}: build it with a \
         newer one, or leave `standby` out",
        theirs.max
    ))
}
