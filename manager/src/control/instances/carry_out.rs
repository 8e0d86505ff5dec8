//! Carries out the actions that an instance's life decides on.

use headgate_decide::lifecycle::{Action, Event, Next, Report};
use headgate_decide::{liveness, spare};
use headgate_host::Signal;
use headgate_host::cgroup::NfGroup;
use headgate_path::worker::Command;
use headgate_session::inbox::Inbox;
use headgate_session::launch::Launch as Orders;
use headgate_session::message::Part;
use rustix::fs::Mode;

use super::observe::program_now;
use super::takeover::report_takeover;
use super::{Actions, Effect, Ground, Instances};
use crate::control::instance::{Process, Seat, SpareProcess};
use crate::control::link::{self, Link};
use crate::control::origin::{Birth, Origin};
use crate::control::state::StateHome;
use crate::status::EventCode;

impl Instances {
    /// Performs the actions of a life, and passes their results back to it.
    pub(super) fn carry_out(
        &mut self,
        at: usize,
        actions: Actions,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        for action in actions {
            let answer = self.carry_out_one(at, action, ground, effects);
            if let Some(event) = answer {
                self.tell(at, event, ground, effects);
            }
        }
    }

    fn carry_out_one(
        &mut self,
        at: usize,
        action: Action,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) -> Option<Event> {
        let instance = &mut self.all[at];
        let (worker, stage) = (instance.seat.worker, instance.seat.stage);
        match action {
            Action::Spawn => {
                // Before it is started: a change from here on may have come too late for it.
                instance.program = program_now(instance, ground);
                self.decide_spare(at, spare::Event::Needed, ground, effects);
            }
            Action::Welcome => return self.welcome(at, ground, effects),
            Action::Post => {
                let process = instance.process.as_mut()?;
                let protected = instance.state.as_ref().and_then(StateHome::protected_base);
                if protected.is_some() {
                    process.link.bind(&process.origin);
                }
                if let Some(command) = process.link.post(&instance.seat, protected, ground) {
                    effects.push(Effect::Post { worker, command });
                }
            }
            Action::Publish => effects.push(Effect::Publish { stage }),
            Action::Place => {
                effects.push(Effect::InService(at));
                self.decide_spare(at, spare::Event::Served, ground, effects);
            }
            Action::AskToStop => {
                let process = instance.process.as_mut()?;
                process.link.ask_to_stop(&mut process.origin);
                effects.push(Effect::Rouse(at));
            }
            Action::Kill => {
                // It may have ended meanwhile.
                let process = instance.process.as_mut()?;
                let _ = process.origin.signal(Signal::KILL);
                // The signal takes effect when the process gets its core.
                effects.push(Effect::Rouse(at));
            }
            Action::TakeOver => return self.take_over(at, effects),
            Action::Succeed => self.succeed(at, ground, effects),
            Action::Reclaim => self.reclaim(at, effects),
            Action::Release => self.release(at, ground, effects),
            Action::Log(report) => self.report(at, &report, effects),
        }
        None
    }

    /// Gives an instance the process that it has from now on.
    pub(super) fn take(
        &mut self,
        at: usize,
        process: Process,
        ground: &mut Ground<'_>,
        effects: &mut Vec<Effect>,
    ) {
        let instance = &mut self.all[at];
        instance.process = Some(process);
        instance.liveness.on(ground.now, liveness::Event::Begins, &mut Vec::new());
        effects.push(Effect::Begins(at));
        self.tell(at, Event::Process, ground, effects);
    }

    fn welcome(&mut self, at: usize, ground: &Ground<'_>, effects: &mut Vec<Effect>) -> Option<Event> {
        let instance = &mut self.all[at];
        let process = instance.process.as_mut()?;
        let state = (instance.state.as_mut(), Part::Active);
        let given = process.link.welcome(&instance.seat, state, &process.inbox, ground);
        if given.is_ok()
            && let Some(settle) = process.origin.settle()
        {
            let Seat { number, worker, .. } = instance.seat;
            effects.push(Effect::Post { worker, command: Command::Settle { number, settle } });
        }
        given.err().map(|why| Event::Condemned(headgate_decide::lifecycle::Cause::NotWelcomed(why)))
    }

    fn release(&mut self, at: usize, ground: &mut Ground<'_>, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        instance.before.io = instance.link_status().io.unwrap_or_default();
        if let Some(process) = instance.process.take() {
            give_up(process, ground);
        }
        effects.push(Effect::Released);
    }

    fn report(&mut self, at: usize, report: &Report, effects: &mut Vec<Effect>) {
        let instance = &mut self.all[at];
        let (code, what) = match report {
            Report::Ready { took } => {
                let since = if instance.seat.nf.attaches() { "it attached" } else { "its launch" };
                (EventCode::NfReady, format!("ready {} us after {since}", took.0 / 1000))
            }
            Report::Failed { why, lost, next } => {
                let ended = lost.map_or(String::new(), |lost| format!("; {lost} packets ended with it"));
                let why = format!("{why}{ended}");
                let (code, next) = match next {
                    Next::Attach => (EventCode::NfFailed, "the next process may attach".to_owned()),
                    Next::Restart(span) => {
                        (EventCode::NfFailed, format!("restart in {} ms", span.as_millis()))
                    }
                    Next::Change => (EventCode::ArgumentsRefused, REFUSED.to_owned()),
                };
                instance.last_failure = Some(why.clone());
                (code, format!("failed: {why}; {next}"))
            }
            Report::TakenOver(takeover) => report_takeover(instance, takeover, effects),
            Report::Gone { why, lost } => {
                (EventCode::NfStopped, format!("gone: {why}; {lost} packets ended with it"))
            }
        };
        effects.push(Effect::Log { code, who: instance.seat.name.clone(), what });
    }
}

/// Gives up what a process had on this machine that has ended.
pub(super) fn give_up(process: Process, ground: &mut Ground<'_>) {
    let Process { origin, group, .. } = process;
    let ours = origin.leaves_to_us();
    origin.release(ground.ledger);
    ground.groups.take_back(group, ours, ground.ledger);
}

/// What an operator can do about refused arguments.
const REFUSED: &str = "it is not started again with these arguments: change them and `headgate apply` the file, \
                       or replace its program";

/// Starts a process for an instance, with memory and interfaces of its own.
pub(super) fn spawn(
    seat: &Seat,
    ground: &mut Ground<'_>,
    effects: &mut Vec<Effect>,
) -> Result<Process, String> {
    let program = seat.nf.origin.program().ok_or_else(|| "it attaches by itself".to_owned())?;
    // Without a link there is no use for a process.
    let link = Link::make(seat, ground)?;
    if seat.nf.is_resident() {
        let (origin, inbox) = Origin::settle_in(seat)?;
        return Ok(Process::new(origin, link, inbox, NfGroup::default()));
    }
    let (program, network) = link.program(program);
    let orders = Orders::new(seat.name.clone(), program, 0);
    launch(seat, orders, network, ground, effects).map(|process| Process::started(process, link))
}

/// Starts a process in the place of an instance.
pub(super) fn launch(
    seat: &Seat,
    orders: Orders,
    network: Option<String>,
    ground: &mut Ground<'_>,
    effects: &mut Vec<Effect>,
) -> Result<SpareProcess, String> {
    let (inbox, socket) = Inbox::pair().map_err(|error| format!("no socket for it: {error}"))?;
    let output = ground.outputs.open(&seat.nf.name, &seat.name);
    let (tap, output) = output.map_err(|error| format!("no pipe for its output: {error}"))?;
    let undo = &mut |undo| ground.ledger.before_changing(undo);
    let user = ground.users.of(&seat.nf, ground.config, undo)?;
    if user.is_some() {
        // It may open its outputs once more to write, as scripts do by /dev/stderr; nobody else finds the
        // way. To make it the owner would take a right that the manager need not have (CAP_CHOWN).
        let writable = Mode::RUSR | Mode::WUSR | Mode::WGRP | Mode::WOTH;
        rustix::fs::fchmod(&output, writable).map_err(|error| format!("its output: {error}"))?;
    }
    let configured = seat.nf.confinement.allow.iter().map(|allowed| allowed.permission());
    let orders = Orders {
        allow: link::allows(&seat.nf).chain(configured).collect(),
        write: seat.nf.confinement.write.clone(),
        ..orders
    };
    let group = ground.groups.group(seat, None, ground.config, ground.ledger).unwrap_or_else(|error| {
        let what = format!("runs without a control group, so it is not limited: {error}");
        effects.push(Effect::Log { code: EventCode::SchedulingLimited, who: seat.name.clone(), what });
        NfGroup::default()
    });
    match Origin::spawn(seat, Birth { orders, user, network, socket, output, group: &group }, ground) {
        Ok(origin) => Ok(SpareProcess { origin, group, inbox, tap, goodbye: String::new() }),
        Err(why) => {
            ground.groups.take_back(group, true, ground.ledger);
            Err(why)
        }
    }
}
