//! What the control loop does for a group: NFs go on with another node's state, what the machine reports
//! becomes events, and operators get their answers.

use std::sync::mpsc::Sender;

use headgate_api::request::Applied;
use headgate_decide::lifecycle::State as Life;
use headgate_decide::replicate::Peer;
use headgate_decide::replicate::gate::Report as OfGate;
use headgate_decide::units::{Instant as Moment, Span};
use headgate_path::replica::Command as Order;
use serde::Serialize;

use super::Control;
use super::replication::news::{Begin, Kept, News};
use super::replication::told::{self, Wish};
use super::replication::{OfGroup, OfNf};
use super::state::StateHome;
use crate::api::{Answer, RequestError, answer};
use crate::config::Digest;
use crate::ports;
use crate::status::{Event, EventCode, GroupStatus};

/// Time that an operator waits for another active node. Our choice: below the patience of who asks
/// ([`headgate_api::request::ANSWER_PATIENCE`]), and above what it takes to copy the largest state.
const WISH_PATIENCE: Span = Span::from_secs(20);

impl Control {
    /// Takes part in the group of this node, once its instances are known.
    pub(super) fn join_group(&mut self) {
        let Some(mut replication) = self.replication.take() else { return };
        let of_group = |nf: &crate::config::model::NfId| {
            let name = &self.config.nfs[nf.index()].name;
            let at = self.instances.iter().position(|one| one.seat.nf.name == *name)?;
            let seat = &self.instances[at].seat;
            let state = self.instances[at].state.as_ref().map(|state| OfNf {
                name: seat.name.clone(),
                number: seat.number,
                board: self.fabric.workers[seat.worker.index()].board.clone(),
                file: state.file(),
                shape: state.shape(),
            });
            Some(OfGroup { at, state })
        };
        let nfs = replication.group.nfs.iter().filter_map(of_group).collect();
        match replication.join(&self.config, nfs) {
            Ok(()) => self.replication = Some(replication),
            Err(why) => self.log(EventCode::GroupFailed, "manager", why),
        }
    }

    /// Handles what the keeper of a group has to say.
    pub(super) fn on_group_news(&mut self, news: News) {
        match news {
            News::Restore(begins) => self.restore_states(begins),
            News::Gate(at, report) => self.on_gate_report(at, &report),
            News::Node(at, report) => {
                let (code, what) = told::of_node(&report);
                self.log_group(at, code, what);
                self.tell_group_decision(&report);
            }
            News::Foreign(at, peer, digest) => {
                let Some(replication) = &self.replication else { return };
                let what = told::foreign(replication.name_of(peer), digest, replication.digest.whole());
                self.log_group(at, EventCode::GroupForeign, what);
            }
            News::Settings(at, peer, theirs) => self.log_differences(at, peer, &theirs),
            News::WroteApart(at, place) => self.log_wrote_apart(at, place),
            News::Resumed(at, view) => {
                let Some(replication) = &mut self.replication else { return };
                let Some(failover) = replication.failover.as_mut().filter(|one| one.view == view) else {
                    return;
                };
                failover.resumed_at = Some(at);
                let what = failover.sentence();
                self.log_group(at, EventCode::GroupResumed, what);
            }
            News::Kept(at, kept) => {
                let (code, what) = match kept {
                    Kept::Fails(what) => (EventCode::GroupFailed, what),
                    Kept::Works(what) => (EventCode::GroupMended, what),
                };
                self.log_group(at, code, what);
            }
        }
    }

    fn log_differences(&mut self, at: Moment, peer: Peer, theirs: &Digest) {
        let Some(replication) = &self.replication else { return };
        let differences = replication.digest.differences(theirs);
        let what = told::differs(replication.name_of(peer), &differences);
        self.log_group(at, EventCode::GroupForeign, what);
    }

    fn log_wrote_apart(&mut self, at: Moment, place: usize) {
        let of = self.replication.as_ref().and_then(|replication| replication.instances.get(place));
        let Some(of) = of.copied() else { return };
        let what = told::wrote_apart(&self.instances[of].seat.name);
        self.log_group(at, EventCode::GroupFailed, what);
    }

    fn log_group(&mut self, at: Moment, code: EventCode, what: String) {
        let Some(replication) = &self.replication else { return };
        self.events.add(Event::new(at.0, code, &replication.group.name, what));
    }

    fn on_gate_report(&mut self, at: Moment, report: &OfGate) {
        let Some(replication) = &mut self.replication else { return };
        if let OfGate::View(assignment) = report {
            replication.note_view(at, assignment);
        }
        let (code, what) = replication.of_gate(report);
        self.log_group(at, code, what);
        self.tell_group_decision(report);
        self.answer_wish();
    }

    /// Tells who listens what the group's machine decided, with its numbers, and which nodes these name.
    fn tell_group_decision(&self, decided: &impl Serialize) {
        let Some(replication) = self.replication.as_ref().filter(|_| self.watchers.hear_decisions()) else {
            return;
        };
        let group = &replication.group;
        let nodes = [&group.active, &group.standby];
        let action = serde_json::json!({ "group": group.name, "nodes": nodes, "decided": decided });
        self.tell_decision("group", action);
    }

    /// Has all NFs of the group go on with this state, or begin anew with an empty one.
    fn restore_states(&mut self, begins: Vec<Begin>) {
        let Some(replication) = &mut self.replication else { return };
        replication.restores = true;
        let instances = replication.instances.clone();
        for (at, begin) in instances.into_iter().zip(begins) {
            self.with_instances(|instances, ground, effects| match begin {
                Begin::With(region) => instances.go_on_with(at, region, ground, effects),
                Begin::Empty => instances.begin_anew(at, None, ground, effects),
                Begin::Without(why) => instances.begin_anew(at, Some(&why), ground, effects),
            });
        }
        self.tend_group();
    }

    /// Goes on with NFs that are given other state, and polls interfaces of links.
    pub(super) fn tend_group(&mut self) {
        let Some(replication) = &mut self.replication else { return };
        let is_anew = |at: &usize| {
            let instance = &self.instances[*at];
            let known = instance.state.as_ref().is_none_or(StateHome::is_known);
            known && instance.state() == Life::Running
        };
        if replication.restores && replication.instances.iter().all(is_anew) {
            replication.restores = false;
            replication.order(Order::Restored);
        }
        for (name, state) in replication.poll_links() {
            let (is_up, what) = ports::interfaces::interface_sentence(&name, state);
            self.log(if is_up { EventCode::PortUp } else { EventCode::PortDown }, &name, what);
        }
        self.tend_evacuation();
        self.answer_wish();
    }

    /// Returns the status of the group of this node.
    pub(super) fn group_status(&self) -> Vec<GroupStatus> {
        let chain = |at: usize| self.config.chains[at].name.clone();
        let now = self.now();
        self.replication.iter().map(|replication| replication.status(now, chain)).collect()
    }

    /// Begins to make the standby of a group active: with a last copy of all state, or at once.
    /// Returns the answer where that cannot be.
    pub(super) fn hand_group_over(
        &mut self,
        group: &str,
        to: Option<&str>,
        reply: &Sender<Answer>,
    ) -> Option<Answer> {
        let since = self.now();
        let Some(replication) = &mut self.replication else {
            return Some(Err(RequestError::failed("this manager's node is of no group".to_owned())));
        };
        let standby = match replication.check(group, to) {
            Ok(standby) => standby,
            Err(refusal) => return Some(Err(refusal)),
        };
        let is_hand_over = to.is_some();
        replication.order(if is_hand_over { Order::HandOver(true) } else { Order::FailOver });
        replication.wish = Some(Wish { to: standby, since, is_hand_over, reply: reply.clone() });
        None
    }

    /// Answers an operator whose wish is fulfilled, or cannot be.
    pub(super) fn answer_wish(&mut self) {
        let now = self.now();
        let Some(replication) = &mut self.replication else { return };
        let Some(wish) = &replication.wish else { return };
        let told = replication.told.filter(|told| told.active.node == wish.to);
        let said = match told {
            Some(told) => {
                let (_, what) = replication.of_gate(&OfGate::View(told));
                let changes = vec![format!("group {}: {what}", replication.group.name)];
                answer(&Applied { changes })
            }
            None if now < wish.since + WISH_PATIENCE => return,
            None => {
                if wish.is_hand_over {
                    replication.order(Order::HandOver(false));
                }
                Err(RequestError::failed(format!(
                    "group `{}` was not handed over within {} s, and goes on as before; see `headgate show groups` and \
                     `headgate show events`",
                    replication.group.name,
                    WISH_PATIENCE.as_millis() / 1000
                )))
            }
        };
        if let Some(wish) = replication.wish.take() {
            // Who asked may be gone.
            let _ = wish.reply.send(said);
        }
    }

    /// Notes that a node is out of reach, in case the group has to do without it, or does already.
    pub(super) fn note_lost(&mut self, node: &str, at: Moment) {
        let Some(replication) = &mut self.replication else { return };
        let active = replication.told.map(|told| replication.name_of(Peer::Node(told.active.node)) == node);
        if active == Some(true) {
            replication.lost_at = Some(at);
        } else if let Some(failover) = &mut replication.failover {
            failover.note_lost(node, at);
        }
    }
}
