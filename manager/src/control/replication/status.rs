//! What is shown of a group, and whether it can be what an operator wants.

use headgate_api::request::RequestError;
use headgate_decide::replicate::gate::Report as OfGate;
use headgate_decide::replicate::{Assignment, NodeId, Peer};
use headgate_decide::units::Instant as Moment;
use headgate_path::replica::{LaneCounts, Refusal};

use super::Replication;
use super::told::{self, Failover, clocks};
use crate::config::model::Role as Part;
use crate::config::suggest;
use crate::status::{EventCode, GroupStatus, LaneStatus, RefusedFrames};

/// Names of parts, by their numbers on the board.
const ROLES: [&str; 5] = ["neither", "gate", "active", "alone", "standby"];

impl Replication {
    /// Notes an assignment that is in force.
    pub fn note_view(&mut self, at: Moment, assignment: &Assignment) {
        let before = self.told.replace(*assignment);
        let Some(before) = before.filter(|before| before.active != assignment.active) else { return };
        let name = |node| self.name_of(Peer::Node(node)).to_owned();
        self.failover = Some(Failover {
            view: assignment.view,
            from: name(before.active.node),
            to: name(assignment.active.node),
            at,
            lost_at: self.lost_at.take(),
            resumed_at: None,
        });
    }

    /// Returns the event for what the gate says.
    pub fn of_gate(&self, report: &OfGate) -> (EventCode, String) {
        let name = |node| self.name_of(Peer::Node(node));
        match report {
            OfGate::View(Assignment { view, active, standby: Some(standby), .. }) => (
                EventCode::GroupView,
                format!("view {}: `{}` is active, `{}` stands by", view.0, name(active.node), name(standby.node)),
            ),
            OfGate::View(Assignment { view, active, standby: None, .. }) => (
                EventCode::GroupAlone,
                format!("view {}: `{}` is active, and nobody stands by", view.0, name(active.node)),
            ),
            OfGate::Protected => {
                (EventCode::GroupProtected, "the standby has a copy of all state: it can take over now".to_owned())
            }
            OfGate::NobodyToPromote => (
                EventCode::GroupStuck,
                "the active node is out of reach, and no other has its state: packets wait in the log until it is \
                 back; started anew, it begins with empty state"
                    .to_owned(),
            ),
            OfGate::Unanswered { node } => told::unanswered(name(*node)),
            OfGate::Behind { told, node, held, serves } => told::behind(*told, name(*node), *held, *serves),
            OfGate::StateLost { up_to } => (
                EventCode::GroupStateLost,
                format!(
                    "state of NFs is lost, because two nodes failed at once: they begin anew behind packets {} (by \
                     chain)",
                    clocks(up_to)
                ),
            ),
        }
    }

    /// Returns its status. `until`: the node loses its power then.
    pub fn status(
        &self,
        now: Moment,
        until: Option<Moment>,
        chains: impl Fn(usize) -> String,
    ) -> GroupStatus {
        let board = &self.board;
        let is_gate = self.group.role == Part::Gate;
        let name = |node| self.name_of(Peer::Node(node)).to_owned();
        let lane = |(at, counts): (usize, &LaneCounts)| LaneStatus {
            chain: chains(self.group.chains[at].index()),
            arrived: counts.arrived.get(),
            finished: counts.finished.get(),
            released: counts.released.get(),
            trimmed: is_gate.then(|| counts.trimmed.get()),
        };
        let refused = Refusal::ALL.iter().map(|refusal| (refusal, board.refused[*refusal as usize].get()));
        GroupStatus {
            name: self.group.name.clone(),
            role: ROLES[board.role.get().min(4) as usize].to_owned(),
            view: board.view.get() as u32,
            gate: self.group.gate.clone(),
            active: self.told.as_ref().map(|told| name(told.active.node)),
            standby: self.told.as_ref().and_then(|told| told.standby).map(|standby| name(standby.node)),
            protected: is_gate.then(|| board.protected.get() == 1 && self.is_told(board.view.get())),
            epoch: board.epoch.get() as u32,
            log: is_gate.then_some(self.group.log),
            in_log: board.in_log.get(),
            latch: (!is_gate).then_some(self.group.latch),
            in_latch: board.in_latch.get(),
            doubled: board.doubled.get(),
            lanes: board.lanes.iter().take(self.base.lanes.len()).enumerate().map(lane).collect(),
            refused: refused
                .filter(|(_, count)| *count > 0)
                .map(|(refusal, count)| RefusedFrames { reason: refusal.name().to_owned(), count })
                .collect(),
            warned_ns: until.filter(|_| !is_gate).map(|until| (until - now).0),
            failover: self.failover.as_ref().map(Failover::status),
        }
    }

    /// Returns whether this is the view that was told, and somebody stands by in it.
    fn is_told(&self, view: u64) -> bool {
        self.told.is_some_and(|told| told.standby.is_some() && u64::from(told.view.0) == view)
    }

    /// Checks what an operator wants. Returns the node that is to be active.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn check(&self, to: Option<&str>) -> Result<NodeId, RequestError> {
        let group = &self.group.name;
        if self.group.role != Part::Gate {
            return Err(RequestError::failed(format!(
                "group `{group}` is decided on at its gate: ask the manager of node `{}`",
                self.group.gate
            )));
        }
        let told = self.told.as_ref().ok_or_else(|| {
            let (active, standby) = (&self.group.active, &self.group.standby);
            RequestError::failed(format!(
                "group `{group}` has not begun: its gate has not heard of both `{active}` and `{standby}`"
            ))
        })?;
        if let Some(to) = to {
            self.check_node(to, told.active.node)?;
        }
        if self.wish.is_some() {
            let message = "another hand-over is under way; try again when it is done";
            return Err(RequestError::failed(message.to_owned()));
        }
        self.standby_of(told)
    }

    fn check_node(&self, to: &str, active: NodeId) -> Result<(), RequestError> {
        let group = &self.group.name;
        let nodes = [self.group.active.as_str(), self.group.standby.as_str()];
        if !nodes.contains(&to) {
            let help = suggest::help("nodes that can work for it", to, nodes);
            let message = format!("`{to}` is no node that works for group `{group}`; {help}");
            return Err(RequestError::failed(message));
        }
        if self.name_of(Peer::Node(active)) == to {
            return Err(RequestError::failed(format!("`{to}` is active for group `{group}` already")));
        }
        Ok(())
    }

    /// Returns the standby, which could take over now.
    fn standby_of(&self, told: &Assignment) -> Result<NodeId, RequestError> {
        let group = &self.group.name;
        let standby = told.standby.map(|standby| standby.node).ok_or_else(|| {
            RequestError::failed(format!(
                "nobody stands by for group `{group}`: start the manager of the other node, and wait until \
                 `headgate show groups` says that it is protected"
            ))
        })?;
        if self.board.protected.get() == 0 {
            return Err(RequestError::failed(format!(
                "`{}` has no copy of the state of group `{group}` yet; try again when `headgate show groups` says \
                 that it is protected",
                self.name_of(Peer::Node(standby))
            )));
        }
        Ok(standby)
    }
}
