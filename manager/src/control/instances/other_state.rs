//! State of another node, with which instances go on.
//!
//! A process that runs and has no packet is given it as a region, which it puts in the place of its own
//! before it works on the next packet: the worker lets none in before all of them were told. Where that
//! cannot be (it starts, hangs on packets of before, or its library knows nothing of it), the process is
//! killed and the next one begins with the region.

use std::sync::atomic::Ordering;

use headgate_decide::lifecycle::{Cause, Event, State};
use headgate_decide::spare;
use headgate_path::board::InstanceCounts;
use headgate_session::message::ToNf;
use headgate_shm::Memory;

use super::{Effect, Ground, Instances};
use crate::control::instance::{Instance, Process};
use crate::control::link;
use crate::status::EventCode;

impl Instances {
    /// Has an instance go on with the state of another node, in a region that is ready.
    pub fn go_on_with(
        &mut self,
        at: usize,
        region: Memory,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let instance = &mut self[at];
        let number = instance.seat.number.index();
        let board = &ground.fabric.workers[instance.seat.worker.index()].board;
        let can = can_go_on(instance, &board.instances[number]);
        let Some(state) = &mut instance.state else { return };
        let file = state.replace_by(region);
        let is_given = match &instance.process {
            Some(process) if can => give(process, file),
            _ => false,
        };
        if !is_given {
            let what = "begins anew with the state of another node, for its process cannot go on with it";
            effects.push(log(instance, EventCode::StateKept, what.to_owned()));
            return self.tell(at, Event::Condemned(Cause::StateReplaced), ground, effects);
        }
        state.note_known();
        effects.push(log(
            instance,
            EventCode::StateKept,
            "goes on with the state of another node".to_owned(),
        ));
        effects.push(Effect::Rouse(at));
        self.tell_standby(at, ground, effects);
    }

    /// Has the standby of an instance share the state that this one goes on with.
    fn tell_standby(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let Instance { standby: Some(standby), state: Some(state), .. } = &mut self[at] else { return };
        if standby.dismissed {
            return;
        }
        let file = state.given().map(|(_, file)| file);
        let inbox = &standby.spare.inbox;
        let is_given = |file| standby.replaces && inbox.send(&ToNf::State, &[file]).is_ok();
        if standby.posted && file.is_some_and(is_given) {
            return;
        }
        // One that is not ready may have the region of before, or not yet. Another one is made; its worker
        // forgets this one before a packet comes.
        self.end_standby(at, effects);
        let why = "its instance goes on with other state".to_owned();
        self.decide_spare(at, spare::Event::NotMade(why), ground, effects);
    }

    /// Has an instance begin anew with an empty state; `lost` says why another node's cannot be had.
    pub fn begin_anew(
        &mut self,
        at: usize,
        lost: Option<&str>,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let instance = &mut self[at];
        let Some(state) = &mut instance.state else { return };
        state.replace_by_nothing();
        let (code, what) = match lost {
            None => (EventCode::StateKept, "begins anew with the state of another node".to_owned()),
            Some(why) => {
                (EventCode::StateDiscarded, format!("the state of another node cannot be used: {why}"))
            }
        };
        effects.push(log(instance, code, what));
        self.tell(at, Event::Condemned(Cause::StateReplaced), ground, effects);
    }
}

fn log(instance: &Instance, code: EventCode, what: String) -> Effect {
    Effect::Log { code, who: instance.seat.name.clone(), what }
}

/// Returns whether the process of an instance can go on with another region: it works, knows how to, and has
/// no packet, nor does one wait for it.
fn can_go_on(instance: &Instance, counts: &InstanceCounts) -> bool {
    instance.state() == State::Running
        && instance.promotion.is_none()
        && counts.held.get() == 0
        && counts.pending.get() == 0
        && instance.process.as_ref().is_some_and(|process| process.replaces && process.ended.is_none())
}

/// Gives a process a region. Returns false where that does not get there.
fn give(process: &Process, region: std::os::fd::BorrowedFd<'_>) -> bool {
    let Some(side) = process.link.side() else { return false };
    if process.inbox.send(&ToNf::State, &[region]).is_err() {
        return false;
    }
    // Before any packet that it concerns.
    side.orders().mail.fetch_add(1, Ordering::Release);
    link::ring(side);
    true
}
