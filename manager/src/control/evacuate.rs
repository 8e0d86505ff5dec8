//! What the control loop does when its node is warned that it will lose its power: the decision
//! ([`headgate_decide::evacuate`]) is asked, and the gate of the group is told.

use headgate_api::request::Applied;
use headgate_decide::decision::Decision as _;
use headgate_decide::evacuate::{Action, Event as Told, Group, Part};
use headgate_decide::units::Span;
use headgate_path::replica::Command as Order;
use headgate_units::text;

use super::Control;
use super::replication::{Replication, told};
use crate::api::{Answer, RequestError, answer};
use crate::config::model::Role;
use crate::status::EventCode;

/// Time that a hand-over takes beyond two copies of state: the copy under way and the last one. Our
/// choice: as long as the gate and the node wait twice before they ask again for what was lost.
const BEYOND_COPIES: Span = Span::from_millis(50);

impl Control {
    /// Takes in a warning, or that it is withdrawn.
    pub(super) fn warn_node(&mut self, within_ms: Option<u64>) -> Answer {
        let now = self.now();
        let (code, what) = match within_ms {
            Some(ms) => {
                let within = text::time(ms.saturating_mul(1_000_000));
                (EventCode::NodeWarned, format!("this node loses its power in {within}"))
            }
            None => (EventCode::NodeWarningWithdrawn, "this node keeps its power".to_owned()),
        };
        let mut actions = Vec::new();
        if self.replications.iter().any(Replication::works) {
            if within_ms.is_none() && self.evacuation.until().is_none() {
                return Err(RequestError::failed("there is no warning to withdraw".to_owned()));
            }
            let event =
                within_ms.map_or(Told::Withdrawn, |ms| Told::Warned { within: Span::from_millis(ms) });
            self.evacuation.on(now, event, &mut actions);
        }
        let then = self.replications.iter().map(|replication| {
            let name = &replication.group.name;
            if !replication.works() {
                return format!(
                    "it is the gate of group `{name}`: while it is down nothing enters or leaves, and nothing is handed \
                     over"
                );
            }
            told::warned(name, within_ms.is_some(), replication.of_evacuation().part)
        });
        let mut then: Vec<String> = then.collect();
        if then.is_empty() {
            then.push("it is of no group: nothing is handed over".to_owned());
        }
        self.log(code, "manager", format!("{what}; {}", then.join("; ")));
        self.evacuate(&actions);
        self.tend_evacuation();
        answer(&Applied { changes: [what].into_iter().chain(then).collect() })
    }

    /// Goes on with groups that leave or come back.
    pub(super) fn tend_evacuation(&mut self) {
        let now = self.now();
        if !self.evacuation.is_due(now) {
            return;
        }
        let works = self.replications.iter().filter(|replication| replication.works());
        let (groups, mut actions) = (works.map(Replication::of_evacuation).collect::<Vec<_>>(), Vec::new());
        self.evacuation.poll(now, &groups, &mut actions);
        self.evacuate(&actions);
    }

    /// Does what was decided: the gate of a group is asked.
    fn evacuate(&mut self, actions: &[Action]) {
        for action in actions {
            let (Action::HandOver(number)
            | Action::Stay(number)
            | Action::FailOver(number)
            | Action::Report(number, _)) = *action;
            let Some(replication) = self.replications.iter().find(|one| one.group.number == number) else {
                continue;
            };
            match *action {
                Action::HandOver(_) => replication.order(Order::HandOver(true)),
                Action::Stay(_) => replication.order(Order::HandOver(false)),
                Action::FailOver(_) => replication.order(Order::FailOver),
                Action::Report(_, report) => {
                    let (code, what) = told::of_evacuation(&report);
                    let name = replication.group.name.clone();
                    self.log(code, &name, what);
                }
            }
        }
    }
}

impl Replication {
    /// Returns whether the node works for the group, or may have to: a gate does not.
    fn works(&self) -> bool {
        self.group.role != Role::Gate
    }

    /// Returns its group as the decision sees it.
    fn of_evacuation(&self) -> Group {
        let board = self.board();
        let part = match board.role.get() {
            2 => Part::Protected,
            3 => Part::Alone,
            4 => Part::Standby,
            _ => Part::Neither,
        };
        let copies = Span(board.copy_ns.get().saturating_mul(2));
        Group { number: self.group.number, part, hand_over: copies + BEYOND_COPIES }
    }
}
