//! What the control loop does for groups: NFs go on with another node's state, what the machine reports
//! becomes events, and operators get their answers.

use std::collections::BTreeMap;
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
use super::replication::{OfGroup, OfNf, Replication};
use super::state::StateHome;
use crate::api::{Answer, RequestError, answer};
use crate::config::model::NfId;
use crate::config::{Digest, suggest};
use crate::ports;
use crate::status::{Event, EventCode, GroupStatus};

/// Time that an operator waits for another active node. Our choice: below the patience of who asks
/// ([`headgate_api::request::ANSWER_PATIENCE`]), and above what it takes to copy the largest state.
const WISH_PATIENCE: Span = Span::from_secs(20);

impl Control {
    /// Takes part in the groups of this node, once its instances are known.
    pub(super) fn join_groups(&mut self) {
        for mut replication in std::mem::take(&mut self.replications) {
            let nfs = replication.group.nfs.iter().filter_map(|nf| self.of_group(*nf)).collect();
            match replication.join(&self.config, nfs) {
                Ok(()) => self.replications.push(replication),
                Err(why) => self.log(EventCode::GroupFailed, "manager", why),
            }
        }
    }

    /// Returns what a group has of one of its NFs.
    fn of_group(&self, nf: NfId) -> Option<OfGroup> {
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
    }

    /// Returns the part in the group of this number.
    fn replication(&mut self, group: u16) -> Option<&mut Replication> {
        self.replications.iter_mut().find(|one| one.group.number == group)
    }

    /// Handles what the keeper of a group has to say.
    pub(super) fn on_group_news(&mut self, group: u16, news: News) {
        match news {
            News::Restore(begins) => self.restore_states(group, begins),
            News::Gate(at, report) => self.on_gate_report(at, group, &report),
            News::Node(at, report) => {
                let (code, what) = told::of_node(&report);
                self.log_group(at, group, code, what);
                self.tell_group_decision(group, &report);
            }
            News::Foreign(at, peer, digest) => {
                let Some(replication) = self.replication(group) else { return };
                let what = told::foreign(replication.name_of(peer), digest, replication.digest.whole());
                self.log_group(at, group, EventCode::GroupForeign, what);
            }
            News::Settings(at, peer, theirs) => self.log_differences(at, group, peer, &theirs),
            News::WroteApart(at, place) => {
                let of = self.replication(group).and_then(|one| one.instances.get(place).copied());
                let Some(of) = of else { return };
                let what = told::wrote_apart(&self.instances[of].seat.name);
                self.log_group(at, group, EventCode::GroupFailed, what);
            }
            News::Resumed(at, view) => {
                let failover = self.replication(group).and_then(|one| one.failover.as_mut());
                let Some(failover) = failover.filter(|one| one.view == view) else { return };
                failover.resumed_at = Some(at);
                let what = failover.sentence();
                self.log_group(at, group, EventCode::GroupResumed, what);
            }
            News::Kept(at, kept) => {
                let (code, what) = match kept {
                    Kept::Fails(what) => (EventCode::GroupFailed, what),
                    Kept::Works(what) => (EventCode::GroupMended, what),
                };
                self.log_group(at, group, code, what);
            }
        }
    }

    fn log_differences(&mut self, at: Moment, group: u16, peer: Peer, theirs: &Digest) {
        let Some(replication) = self.replication(group) else { return };
        let differences = replication.digest.differences(theirs);
        let what = told::differs(replication.name_of(peer), &differences);
        self.log_group(at, group, EventCode::GroupForeign, what);
    }

    fn log_group(&mut self, at: Moment, group: u16, code: EventCode, what: String) {
        let Some(name) = self.replication(group).map(|one| one.group.name.clone()) else { return };
        self.events.add(Event::new(at.0, code, &name, what));
    }

    fn on_gate_report(&mut self, at: Moment, group: u16, report: &OfGate) {
        let Some(replication) = self.replication(group) else { return };
        if let OfGate::View(assignment) = report {
            replication.note_view(at, assignment);
        }
        let (code, what) = replication.of_gate(report);
        self.log_group(at, group, code, what);
        self.tell_group_decision(group, report);
        self.answer_wishes();
    }

    /// Tells who listens what the machine of a group decided, with its numbers, and which nodes these name.
    fn tell_group_decision(&mut self, group: u16, decided: &impl Serialize) {
        if !self.watchers.hear_decisions() {
            return;
        }
        let Some(Replication { group, .. }) = self.replication(group) else { return };
        let nodes = [&group.active, &group.standby];
        let action = serde_json::json!({ "group": group.name, "nodes": nodes, "decided": decided });
        self.tell_decision("group", action);
    }

    /// Has all NFs of a group go on with this state, or begin anew with an empty one.
    fn restore_states(&mut self, group: u16, begins: Vec<Begin>) {
        let Some(replication) = self.replication(group) else { return };
        replication.restores = true;
        let instances = replication.instances.clone();
        for (at, begin) in instances.into_iter().zip(begins) {
            self.with_instances(|instances, ground, effects| match begin {
                Begin::With(region) => instances.go_on_with(at, region, ground, effects),
                Begin::Empty => instances.begin_anew(at, None, ground, effects),
                Begin::Without(why) => instances.begin_anew(at, Some(&why), ground, effects),
            });
        }
        self.tend_groups();
    }

    /// Goes on with NFs that are given other state, and polls interfaces of links.
    pub(super) fn tend_groups(&mut self) {
        let is_anew = |at: &usize| {
            let instance = &self.instances[*at];
            let known = instance.state.as_ref().is_none_or(StateHome::is_known);
            known && instance.state() == Life::Running
        };
        for replication in &mut self.replications {
            if replication.restores && replication.instances.iter().all(is_anew) {
                replication.restores = false;
                replication.order(Order::Restored);
            }
        }
        // Groups that share an interface see the same of it.
        let changed: BTreeMap<_, _> =
            self.replications.iter_mut().flat_map(Replication::poll_links).collect();
        for (name, state) in changed {
            let (is_up, what) = ports::interfaces::interface_sentence(&name, state);
            self.log(if is_up { EventCode::PortUp } else { EventCode::PortDown }, &name, what);
        }
        self.tend_evacuation();
        self.answer_wishes();
    }

    /// Returns the status of the groups of this node.
    pub(super) fn group_status(&self) -> Vec<GroupStatus> {
        let chain = |at: usize| self.config.chains[at].name.clone();
        let (now, until) = (self.now(), self.evacuation.until());
        self.replications.iter().map(|replication| replication.status(now, until, chain)).collect()
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
        if self.replications.is_empty() {
            return Some(Err(RequestError::failed("this manager's node is of no group".to_owned())));
        }
        let names: Vec<String> = self.replications.iter().map(|one| one.group.name.clone()).collect();
        let Some(replication) = self.replications.iter_mut().find(|one| one.group.name == group) else {
            let help = suggest::help("groups of this node", group, names.iter().map(String::as_str));
            let message = format!("there is no group named {group:?}; {help}");
            return Some(Err(RequestError::failed(message)));
        };
        let standby = match replication.check(to) {
            Ok(standby) => standby,
            Err(refusal) => return Some(Err(refusal)),
        };
        let is_hand_over = to.is_some();
        replication.order(if is_hand_over { Order::HandOver(true) } else { Order::FailOver });
        replication.wish = Some(Wish { to: standby, since, is_hand_over, reply: reply.clone() });
        None
    }

    /// Answers operators whose wishes are fulfilled, or cannot be.
    pub(super) fn answer_wishes(&mut self) {
        let now = self.now();
        self.replications.iter_mut().for_each(|replication| replication.answer_wish(now));
    }

    /// Notes that a node is out of reach, in case a group has to do without it, or does already.
    pub(super) fn note_lost(&mut self, node: &str, at: Moment) {
        for replication in &mut self.replications {
            let active =
                replication.told.map(|told| replication.name_of(Peer::Node(told.active.node)) == node);
            if active == Some(true) {
                replication.lost_at = Some(at);
            } else if let Some(failover) = &mut replication.failover {
                failover.note_lost(node, at);
            }
        }
    }
}

impl Replication {
    /// Answers an operator whose wish is fulfilled, or cannot be.
    fn answer_wish(&mut self, now: Moment) {
        let Some(wish) = &self.wish else { return };
        let told = self.told.filter(|told| told.active.node == wish.to);
        let said = match told {
            Some(told) => {
                let (_, what) = self.of_gate(&OfGate::View(told));
                answer(&Applied { changes: vec![format!("group {}: {what}", self.group.name)] })
            }
            None if now < wish.since + WISH_PATIENCE => return,
            None => {
                if wish.is_hand_over {
                    self.order(Order::HandOver(false));
                }
                Err(RequestError::failed(format!(
                    "group `{}` was not handed over within {} s, and goes on as before; see `headgate show groups` and \
                     `headgate show events`",
                    self.group.name,
                    WISH_PATIENCE.as_millis() / 1000
                )))
            }
        };
        if let Some(wish) = self.wish.take() {
            // Who asked may be gone.
            let _ = wish.reply.send(said);
        }
    }
}
