//! What is told of a group, in sentences, and what an operator waits for.

use std::sync::mpsc::Sender;

use headgate_api::request::Answer;
use headgate_decide::evacuate::{self, Part};
use headgate_decide::replicate::{Clocks, NodeId, View, boundary};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_units::text;

use crate::config::Difference;
use crate::status::{EventCode, FailoverStatus};

/// How another node became active.
#[derive(Debug, Clone)]
pub struct Failover {
    /// View that began with it.
    pub view: View,
    /// The node before.
    pub from: String,
    /// The node since.
    pub to: String,
    /// When its view was on disk.
    pub at: Moment,
    /// When the node before was seen to be out of reach, if that was the reason.
    pub lost_at: Option<Moment>,
    /// When its first output left.
    pub resumed_at: Option<Moment>,
}

/// What an operator asked for and waits for.
pub struct Wish {
    /// Node that is to be active.
    pub to: NodeId,
    /// When it was asked for.
    pub since: Moment,
    /// Whether it is handed over, and not failed over.
    pub is_hand_over: bool,
    /// Who asked.
    pub reply: Sender<Answer>,
}

impl Failover {
    /// Notes that a node was seen to be out of reach. The worker hears it by another way than the control
    /// loop, and may have begun the next view before it is noted here.
    pub fn note_lost(&mut self, node: &str, at: Moment) {
        if self.from == node && at <= self.at {
            self.lost_at.get_or_insert(at);
        }
    }

    /// Returns the sentence on it.
    pub fn sentence(&self) -> String {
        let micros = |from: Moment, to: Moment| (to - from).0 / 1000;
        let detected = self.lost_at.map_or(String::new(), |lost| {
            format!("{} us after it was out of reach and ", self.resumed_at.map_or(0, |at| micros(lost, at)))
        });
        let switched = self.resumed_at.map_or(0, |at| micros(self.at, at));
        format!(
            "packets leave again: `{}` works on them after `{}`, {detected}{switched} us after view {} was on disk",
            self.to, self.from, self.view.0
        )
    }

    /// Returns its status.
    pub fn status(&self) -> FailoverStatus {
        FailoverStatus {
            view: self.view.0,
            from: self.from.clone(),
            to: self.to.clone(),
            at_ns: self.at.0,
            decided_ns: self.lost_at.map(|lost| (self.at - lost).0),
            resumed_ns: self.resumed_at.map(|resumed| (resumed - self.at).0),
        }
    }
}

/// Returns clocks in words.
pub fn clocks(clocks: &Clocks) -> String {
    let all: Vec<String> = clocks.lanes().map(|lane| clocks.of(lane).0.to_string()).collect();
    all.join(", ")
}

/// Returns the event for what a node says of its part.
pub fn of_node(report: &boundary::Report) -> (EventCode, String) {
    use boundary::Report;
    match report {
        Report::Active { solo: false } => {
            (EventCode::GroupRole, "this node is active, and another one stands by".to_owned())
        }
        Report::Active { solo: true } => (
            EventCode::GroupAlone,
            "this node is active, and nobody stands by: its end would lose state".to_owned(),
        ),
        Report::Standby => (EventCode::GroupRole, "this node stands by".to_owned()),
        Report::Fenced => (
            EventCode::GroupRole,
            "this node has no part: another one is active; it offers itself as standby".to_owned(),
        ),
        Report::InDoubt { left, stored } => (
            EventCode::GroupInDoubt,
            format!(
                "outputs of packets behind {} up to {} (by chain) may have left with the node before: each \
                 leaves the gate once",
                clocks(left),
                clocks(stored)
            ),
        ),
        Report::InputsLost { have, lost } => (
            EventCode::GroupStateLost,
            format!(
                "packets behind {} up to {} (by chain) are in no state and no log: gate and active node failed at \
                 once",
                clocks(have),
                clocks(lost)
            ),
        ),
    }
}

/// Returns what a warning, or its end, means for a group in which this node has that part.
pub fn warned(group: &str, is_warned: bool, part: Part) -> String {
    match (is_warned, part) {
        (true, Part::Protected) => format!("group `{group}` is handed over"),
        (true, Part::Alone) => format!(
            "nobody stands by for group `{group}`: start the manager of the other node, and it is handed over as soon \
             as that one has a copy of its state"
        ),
        (true, Part::Standby | Part::Neither) => {
            format!("this node does not work for group `{group}`: nothing is handed over")
        }
        (false, Part::Protected | Part::Alone) => format!("group `{group}` stays"),
        (false, Part::Standby | Part::Neither) => {
            format!("group `{group}` comes back, if it left because of the warning")
        }
    }
}

/// Returns the event for what became of a group of a node that was warned.
pub fn of_evacuation(report: &evacuate::Report) -> (EventCode, String) {
    use evacuate::Report;
    let time = |span: Span| text::time(span.0);
    match *report {
        Report::Left { after, left, by_failure } => {
            let how = if by_failure { "failed over" } else { "handed over" };
            let left = left.map_or("after the time was over".to_owned(), |left| {
                format!("{} before this node loses its power", time(left))
            });
            (EventCode::GroupMoved, format!("{how} {} after the warning, {left}", time(after)))
        }
        Report::TooLate { takes, left } => (
            EventCode::GroupTooLate,
            format!(
                "a hand-over takes up to {}, and {} are left: it is failed over now",
                time(takes),
                time(left)
            ),
        ),
        Report::GivenUp { alone } => {
            let why = if alone { "nobody stood by" } else { "the gate did not hand it over" };
            (EventCode::GroupGivenUp, format!("the time of the warning is over, and it is still here: {why}"))
        }
        Report::Returned { after } => {
            (EventCode::GroupMoved, format!("came back {} after the warning was withdrawn", time(after)))
        }
        Report::NotReturned => (
            EventCode::GroupGivenUp,
            "did not come back after the warning was withdrawn; `headgate migrate` at its gate hands it over"
                .to_owned(),
        ),
    }
}

/// Returns what is said of a node with another configuration.
pub fn foreign(name: &str, theirs: u64, ours: u64) -> String {
    format!(
        "node `{name}` is refused: it was started with another file (digest {theirs:016x}, here {ours:016x}); give \
         all nodes the same one, and start those anew that have another"
    )
}

/// Returns the event for a standby that does not answer the active node.
pub fn unanswered(name: &str) -> (EventCode, String) {
    let what = format!(
        "`{name}` does not answer the active node, though both answer this gate: the active node goes on alone, and \
         `{name}` stands by again when the two hear each other; look at the link between them (`headgate show bfd` on \
         both)"
    );
    (EventCode::GroupAlone, what)
}

/// Returns the event for a node that goes by a view which its gate never told.
pub fn behind(told: View, name: &str, held: View, serves: bool) -> (EventCode, String) {
    let (told, held) = (told.0, held.0);
    if serves {
        let what = format!(
            "`{name}` goes by view {held}, which this gate never told, and packets were taken in by view {told}: it is \
             not heard. What it has is of another history; start its manager anew to have it stand by"
        );
        return (EventCode::GroupForeign, what);
    }
    let what = format!(
        "this gate knows view {told}, and `{name}` goes by view {held}: the view's file was replaced by an older one, \
         or removed. No packet is taken in until both nodes were heard; then the newest view that one of them has goes \
         on. Start the node that is down"
    );
    (EventCode::GroupStuck, what)
}

/// Most keys that are named in which two files differ, and characters of each path and value. Our choice: an
/// operator mends them one by one, and a line stays a line.
const KEYS_MAX: usize = 3;
const CHARS_MAX: usize = 80;

/// Returns what is said of the keys in which the file of a node differs.
pub fn differs(name: &str, differences: &[Difference]) -> String {
    let short = |text: &str| {
        let text: String = text.escape_debug().take(CHARS_MAX).collect();
        text.replace("\\\"", "\"")
    };
    let value = |value: &Option<String>| value.as_deref().map_or("not there".to_owned(), short);
    let key = |difference: &Difference| {
        let Difference { path, ours, theirs } = difference;
        format!("`{}` is {} in its file and {} here", short(path), value(theirs), value(ours))
    };
    let keys: Vec<String> = differences.iter().take(KEYS_MAX).map(key).collect();
    let more = match differences.len().saturating_sub(KEYS_MAX) {
        0 => String::new(),
        more => format!(", and {more} more keys differ"),
    };
    if keys.is_empty() {
        return format!(
            "node `{name}` is refused, though its file says the same: is its manager of another version?"
        );
    }
    format!(
        "node `{name}` is refused: {}{more}; make them the same, and start the node anew that is wrong",
        keys.join(", ")
    )
}

/// Returns what is said of an NF that wrote while it had no packet.
pub fn wrote_apart(nf: &str) -> String {
    format!(
        "NF `{nf}` wrote its state while it had no packet and this node stood by: what it wrote is thrown away when \
         the node takes over, but it will spoil state that counts in the same way; report it to who wrote it"
    )
}

#[cfg(test)]
mod tests {
    use headgate_decide::replicate::{Clock, Lane};

    use super::*;

    #[test]
    fn keys_that_differ_are_told_with_both_values() {
        let difference = |path: &str, ours: Option<&str>, theirs: Option<&str>| Difference {
            path: path.to_owned(),
            ours: ours.map(str::to_owned),
            theirs: theirs.map(str::to_owned),
        };
        let one = difference("group[0].log", Some("4096"), Some("4095"));
        let text = difference("nf[0].args", Some("\"a\""), None);
        let said = differs("right", &[one.clone(), text]);
        assert!(said.contains("`group[0].log` is 4095 in its file and 4096 here, "), "{said}");
        assert!(said.contains("`nf[0].args` is not there in its file and \"a\" here;"), "{said}");
        let forged = difference(&"\u{1b}[2J".repeat(900), None, Some(&"x".repeat(9000)));
        let said = differs("right", &[forged.clone(), forged.clone(), forged.clone(), forged, one]);
        assert!(said.len() < 900 && !said.contains('\u{1b}') && said.contains("2 more keys"), "{said}");
        assert!(differs("right", &[]).contains("another version"));
    }

    #[test]
    fn a_loss_that_is_noted_behind_its_view_is_its_reason() {
        let (from, to) = ("left".to_owned(), "right".to_owned());
        let ended = Failover { view: View(4), from, to, at: Moment(500), lost_at: None, resumed_at: None };
        let noted = |node: &str, at| {
            let mut failover = ended.clone();
            failover.note_lost(node, Moment(at));
            failover.lost_at
        };
        assert_eq!(noted("left", 400), Some(Moment(400)));
        assert_eq!(noted("right", 400), None, "the node that took over");
        assert_eq!(noted("left", 600), None, "the node before, as a standby");
        let mut failover = Failover { lost_at: Some(Moment(300)), ..ended };
        failover.note_lost("left", Moment(400));
        assert_eq!(failover.lost_at, Some(Moment(300)));
    }

    #[test]
    fn clocks_are_told_by_chain() {
        let mut all = Clocks::new(2);
        all.set(Lane(0), Clock(7));
        assert_eq!(clocks(&all), "7, 0");
        assert!(
            of_node(&boundary::Report::InDoubt { left: all, stored: all })
                .1
                .contains("behind 7, 0 up to 7, 0")
        );
    }
}
