//! Events: what happened, to which part, and how severe it is.
//!
//! A kind of event has one [`EventCode`], a stable word that programs may compare, and each code one
//! [`Severity`]. The sentence in [`Event::what`] is for people and may change.

use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Time in nanoseconds since the manager started.
    pub at_ns: u64,
    /// Kind of event.
    #[serde(default)]
    pub code: EventCode,
    /// Severity.
    #[serde(default)]
    pub severity: Severity,
    /// Subject: an instance, a chain, a port, or `manager`.
    pub who: String,
    /// Description in a sentence.
    pub what: String,
}

impl Event {
    /// Returns an event of a kind, with the severity of its kind.
    #[must_use]
    pub fn new(at_ns: u64, code: EventCode, who: &str, what: String) -> Self {
        Self { at_ns, code, severity: code.severity(), who: who.to_owned(), what }
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Normal operation.
    #[default]
    Info,
    /// Reduced operation: something works, and not as well as was asked for.
    Warning,
    /// Something failed.
    Error,
}

macro_rules! codes {
    ($($(#[$doc:meta])+ $code:ident: $severity:ident,)+) => {
        /// The kind of an event, in `--json` a word in kebab-case that keeps its meaning.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum EventCode {
            $($(#[$doc])+ $code,)+
            /// A kind that has no word of its own, or one that only a newer manager knows.
            #[default]
            #[serde(other)]
            Other,
        }

        impl EventCode {
            /// Every kind that has a word of its own.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns how bad events of this kind are.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$code => Severity::$severity,)+
                    Self::Other => Severity::Info,
                }
            }
        }
    };
}

codes! {
    /// An NF is in service: launched, started again, or attached.
    NfReady: Info,
    /// A process attached as an NF.
    NfAttached: Info,
    /// A process that wanted to attach as an NF was refused.
    AttachRefused: Warning,
    /// An NF failed: it ended, hung, misbehaved, or could not be started. It is started again, or awaited.
    NfFailed: Error,
    /// The process of an NF failed, and its standby took over with its state and its packets.
    NfTakenOver: Error,
    /// A packet ended because process after process of an NF died with it.
    PacketPoisoned: Error,
    /// An NF ended because it was told to.
    NfStopped: Info,
    /// An NF refuses its arguments, and is not started again until these or its program change.
    ArgumentsRefused: Error,
    /// An NF could not be launched at all.
    NfNotLaunched: Error,
    /// The process that waited to be an NF's next one ended.
    SpareLost: Warning,
    /// An NF goes on with the state that earlier processes of it kept.
    StateKept: Info,
    /// Kept state of an NF was discarded, or a part of it.
    StateDiscarded: Warning,
    /// State is to be kept of an NF that has none.
    StateUnused: Warning,
    /// The container of an NF is not on the core or in the group that it should be in.
    ContainerMisplaced: Warning,
    /// Another configuration is in force.
    ConfigurationApplied: Info,
    /// The manager was told to read its file again, and goes on with the configuration it has.
    ConfigurationRefused: Warning,
    /// A manager that is to follow this one is ready, and packets inside leave.
    HandOverBegun: Info,
    /// The work of a manager went over to the one that follows it, without a packet lost.
    HandedOver: Info,
    /// A manager does not follow the one before, which goes on.
    HandOverFailed: Error,
    /// An interface, a bridge or a switch between the stages of a chain changed or failed.
    WiringChanged: Warning,
    /// A capture cannot be written any more.
    CaptureFailed: Error,
    /// The interface of a port was switched off, or is gone.
    PortDown: Warning,
    /// The interface of a port works again.
    PortUp: Info,
    /// A link to another node is up.
    LinkUp: Info,
    /// A link to another node is down.
    LinkDown: Warning,
    /// Another node can be reached, by one link at least.
    NodeReached: Info,
    /// Another node cannot be reached any more: all links to it are down.
    NodeLost: Error,
    /// Another node said what it has, and may get flows.
    PeerHeard: Info,
    /// Another node said nothing for too long: its flows go to other nodes.
    PeerLost: Error,
    /// Slots of a stage that several nodes serve went to other nodes.
    FlowsSteered: Info,
    /// An NF that several nodes serve gets no new flows here, and ends when those that it has are silent.
    NfLeaves: Info,
    /// An NF that was to leave stays: no other node serves it any more.
    NfStays: Warning,
    /// The store does not answer: what runs goes on, and nothing starts or ends by need.
    StoreLost: Error,
    /// The store answers again.
    StoreBack: Info,
    /// The store is as it must not be: another node has this one's name, for example.
    StoreProblem: Error,
    /// This node says from now on how many instances may start, and which end.
    Orchestrates: Info,
    /// The node has claimed to serve an NF, for the reason said.
    NfClaimed: Info,
    /// The node has given up serving an NF.
    NfReleased: Info,
    /// Another node of a group is active or stands by.
    GroupView: Info,
    /// This node has another part in its group.
    GroupRole: Info,
    /// A group works without a standby: a failure would lose its state.
    GroupAlone: Warning,
    /// The standby of a group could take over now.
    GroupProtected: Info,
    /// Packets of a group leave again, from another node.
    GroupResumed: Info,
    /// The active node of a group is gone, and nobody has its state.
    GroupStuck: Error,
    /// A group lost state or packets, because two nodes failed at once.
    GroupStateLost: Error,
    /// Outputs of a group may have left with the node before.
    GroupInDoubt: Info,
    /// Another node of a group has another configuration, and is not heard.
    GroupForeign: Error,
    /// This node will lose its power: groups that it works for are handed over.
    NodeWarned: Warning,
    /// This node keeps its power after all: groups that were handed over come back.
    NodeWarningWithdrawn: Info,
    /// A group left this node, which will lose its power, or came back.
    GroupMoved: Info,
    /// The time before this node loses its power is too short to hand a group over: it is failed over.
    GroupTooLate: Warning,
    /// A group was not handed over before this node's time was over, or did not come back.
    GroupGivenUp: Error,
    /// What a group waits for cannot be done: a view cannot be written, or state copied.
    GroupFailed: Error,
    /// What a group waited for can be done again.
    GroupMended: Info,
    /// An audit was given up, because a worker did not stand still.
    AuditGivenUp: Warning,
    /// A chain does not get the rate that it was promised.
    ObjectiveMissed: Warning,
    /// A chain gets the rate that it was promised again.
    ObjectiveMet: Info,
    /// The promises of a core's chains add up to more than the core has.
    ObjectivesImpossible: Warning,
    /// Flows were moved from an instance that is slow for a delay bound to another.
    FlowsMoved: Warning,
    /// This machine does not allow a part of the configured scheduling.
    SchedulingLimited: Warning,
    /// An NF runs under another scheduling policy than the configured one.
    PolicyRefused: Warning,
    /// An NF has its configured scheduling policy again, or at last.
    PolicyGranted: Info,
    /// Weights cannot be set, so that the kernel shares cores evenly meanwhile.
    WeightsNotSet: Warning,
    /// Weights are set again.
    WeightsSet: Info,
    /// An NF's own figure of its service time was overridden by CPU accounting.
    ServiceTimeOverridden: Warning,
    /// An NF, or all NFs of a core, have no time slices.
    SlicesNotGiven: Warning,
    /// The price of a switch between NFs with time slices could not be measured and is assumed.
    SwitchNotMeasured: Warning,
    /// An NF with time slices has packets and made no progress for long.
    NoProgress: Warning,
    /// Time slices of an NF begin without a kept cost.
    CostNotKept: Warning,
    /// Cores are kept free of other programs.
    CoresReserved: Info,
    /// Cores are not, or not wholly, kept free of other programs.
    CoresNotReserved: Warning,
    /// Others use a core of workers or NFs, which wait for it: other programs, or the hypervisor.
    CoreTaken: Warning,
    /// Others no longer use a core.
    CoreFree: Info,
    /// Events of an NF, a chain or a port were left out, because there were too many.
    EventsLeftOut: Warning,
    /// The log cannot be written; the manager goes on without it.
    LogNotWritten: Warning,
    /// The log is written again.
    LogWritten: Info,
    /// The manager stops: it takes in no more packets.
    Stopping: Info,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs compare these words; a changed one breaks them.
    #[test]
    fn the_words_of_codes_are_as_committed() {
        let word = |code: &EventCode| serde_json::to_value(code).unwrap().as_str().unwrap().to_owned();
        let line = |code: &EventCode| {
            let severity = serde_json::to_value(code.severity()).unwrap();
            format!("{:<9}{}", severity.as_str().unwrap(), word(code))
        };
        let lines: Vec<String> = EventCode::ALL.iter().map(line).collect();
        assert_eq!(lines.join("\n") + "\n", include_str!("event/codes.txt"));
    }

    #[test]
    fn the_guide_has_a_line_for_every_code() {
        let guide = include_str!("../../docs/guide/events.md");
        let rows: Vec<[&str; 2]> = guide
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .map(|row| {
                let mut cells = row.split(" | ").map(|cell| cell.trim_end_matches('`'));
                [cells.next().unwrap_or_default(), cells.next().unwrap_or_default()]
            })
            .collect();
        let codes: Vec<String> = rows.iter().map(|[code, severity]| format!("{severity:<9}{code}")).collect();
        assert_eq!(codes.join("\n") + "\n", include_str!("event/codes.txt"));
    }

    #[test]
    fn a_code_of_a_newer_manager_is_still_an_event() {
        let text = r#"{"at_ns":1,"code":"not-yet-invented","severity":"error","who":"fw","what":"melted"}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!((event.code, event.severity), (EventCode::Other, Severity::Error));
    }

    #[test]
    fn an_event_is_as_bad_as_its_kind() {
        let event = Event::new(7, EventCode::NfFailed, "fw", "killed".to_owned());
        assert_eq!((event.at_ns, event.severity, &*event.who), (7, Severity::Error, "fw"));
        assert!(Severity::Info < Severity::Warning && Severity::Warning < Severity::Error);
    }
}
