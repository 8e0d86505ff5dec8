//! `firewall`: stateless rules over the 5-tuple; the first that matches decides.
//!
//! Rules are compiled into one list for IPv4 and one for IPv6 and searched in order: a comparison
//! with masks costs 1-2 ns, so some hundreds of rules are fine and thousands are not what this is for.
//!
//! A rule with ports matches only packets that have ports. Later fragments have none: such a rule never
//! decides about them, so a rule that denies by port lets the packet's later fragments pass where a later
//! rule or the default does, and where those deny they are lost. Malformed packets are always denied.
//!
//! A rule that rejects ends a packet and tells its sender (`firewall/reject.rs`).

mod reject;

use std::net::IpAddr;
use std::ops::BitAnd;

use headgate_nf::wire::flow_key::{self, FlowKey4, FlowKeyWide, Parsed};
use headgate_nf::wire::ip;
use headgate_nf::{ArgumentErrors, Burst, Context, Counter, NetworkFunction, NfError, PathStep, Stage};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::reject::Reject;
use crate::arguments::{PortRange, Prefix, Protocol};
use crate::catalog::{Argument, Count, Entry, Message, entry};

pub(crate) const ENTRY: Entry = Entry {
    arguments: &[
        Argument {
            name: "rules",
            kind: "a list of {\"action\": \"allow\" | \"deny\" | \"reject\" | {\"to\": STAGE}, \"protocol\", \"source\", \
                   \"destination\", \"source_port\", \"destination_port\", \"name\"}",
            required: true,
            text: "the first rule whose every given field matches decides; prefixes as 10.0.0.0/8, ports as \
                   80 or \"1024-65535\"; `to` leads packets to a later stage of their chain, past those between; `reject` \
                   drops them and tells their senders, TCP by a reset, others by ICMP \"administratively prohibited\"",
        },
        Argument {
            name: "default",
            kind: "as a rule's action",
            required: false,
            text: "what holds for IP packets no rule matches; \"deny\" without it",
        },
        Argument {
            name: "non_ip",
            kind: "as a rule's action",
            required: false,
            text: "what holds for frames that are not IP, such as ARP; \"allow\" without it",
        },
        Argument {
            name: "reject_rate",
            kind: "a number",
            required: false,
            text: "most answers to rejected packets in a second, after 50 at once; 1000 without it, 0: none",
        },
    ],
    takes_long_frames: true,
    messages: &[Message { body: "report", text: "tells how many packets each rule has decided about" }],
    counters: &[
        Count { name: "allowed", text: "packets let through" },
        Count { name: "denied", text: "packets dropped by a rule or the default" },
        Count { name: "rejected", text: "packets dropped by a rule or the default that rejects" },
        Count { name: "answered", text: "of these, those whose senders were told" },
        Count { name: "unanswered", text: "of these, those of which nothing may be told, or not so often" },
        Count { name: "led", text: "packets led to the stage a rule names" },
        Count { name: "malformed", text: "packets dropped because their headers are wrong" },
        Count { name: "rule.NAME", text: "packets a rule has decided about; the first 32 rules" },
    ],
    ..entry("firewall", "allows or denies by stateless rules over the 5-tuple", |context| {
        Ok(Box::new(Firewall::new(context)?))
    })
};

/// Rules with a counter of their own. Our choice: half of a process's counters.
const RULE_COUNTERS_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    rules: Vec<Rule>,
    #[serde(default = "deny")]
    default: Action,
    #[serde(default = "allow")]
    non_ip: Action,
    #[serde(default = "reject_rate")]
    reject_rate: u32,
}

const fn reject_rate() -> u32 {
    reject::RATE
}

const fn deny() -> Action {
    Action::Deny
}

const fn allow() -> Action {
    Action::Allow
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Deny,
    /// Its sender is told.
    Reject,
    /// To a named stage.
    To(String),
}

/// Fate of a packet.
#[derive(Clone, Copy)]
enum Fate {
    Passes,
    Ends,
    IsRejected,
    GoesTo(Stage),
}

impl Fate {
    /// An action at this place of the arguments; a stage that is not there is noted.
    fn of(
        action: &Action,
        context: &Context,
        mut path: Vec<PathStep>,
        mistakes: &mut ArgumentErrors,
    ) -> Self {
        match action {
            Action::Allow => Self::Passes,
            Action::Deny => Self::Ends,
            Action::Reject => Self::IsRejected,
            Action::To(stage) => match context.stage(stage) {
                Ok(stage) => Self::GoesTo(stage),
                Err(unknown) => {
                    path.push("to".into());
                    mistakes.add_unknown(path, &unknown);
                    Self::Ends
                }
            },
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    action: Action,
    name: Option<String>,
    protocol: Option<Protocol>,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    source_port: Option<PortRange>,
    destination_port: Option<PortRange>,
}

impl Rule {
    /// Notes conditions that exclude each other; `place` is the rule's in the arguments.
    fn check(&self, place: usize, mistakes: &mut ArgumentErrors) {
        let version = |prefix: Option<Prefix>| prefix.map(|prefix| prefix.address.is_ipv4());
        if let (Some(source), Some(destination)) = (version(self.source), version(self.destination))
            && source != destination
        {
            let why = "`source` and `destination` are of different IP versions, so it matches nothing";
            mistakes.add(["rules".into(), place.into()], why);
        }
        let ports = self.source_port.or(self.destination_port).is_some();
        if let Some(protocol) = self.protocol
            && ports
            && !ip::has_ports(protocol.0)
        {
            let why = format!("it names ports, which {} does not have", protocol.name());
            mistakes.add(["rules".into(), place.into()], why);
        }
    }

    /// Whether it can match packets of this version.
    fn is_for(&self, ipv4: bool) -> bool {
        [self.source, self.destination].iter().flatten().all(|prefix| prefix.address.is_ipv4() == ipv4)
    }
}

/// An address as a number, so that one matcher serves both versions.
trait Address: Copy + BitAnd<Output = Self> + PartialEq + Default {
    fn of(prefix: Prefix) -> (Self, Self);
}

impl Address for u32 {
    fn of(prefix: Prefix) -> (Self, Self) {
        match prefix.address {
            IpAddr::V4(address) => (address.to_bits(), prefix.mask4()),
            IpAddr::V6(_) => unreachable!("`is_for` keeps versions apart"),
        }
    }
}

impl Address for u128 {
    fn of(prefix: Prefix) -> (Self, Self) {
        match prefix.address {
            IpAddr::V6(address) => (address.to_bits(), prefix.mask6()),
            IpAddr::V4(_) => unreachable!("`is_for` keeps versions apart"),
        }
    }
}

/// Fields of a packet that the rules test.
#[derive(Clone, Copy)]
struct Tuple<A> {
    source: A,
    destination: A,
    protocol: u8,
    ports: Option<(u16, u16)>,
}

/// A rule for one IP version, ready to compare.
struct Test<A> {
    /// Address and mask; both 0 where any matches.
    source: (A, A),
    destination: (A, A),
    protocol: Option<u8>,
    ports: Option<(PortRange, PortRange)>,
    /// The rule's place in the arguments.
    rule: u32,
}

const ANY_PORT: PortRange = PortRange { first: 0, last: u16::MAX };

impl<A: Address> Test<A> {
    fn of(rule: &Rule, place: usize) -> Self {
        let prefix = |prefix: Option<Prefix>| prefix.map_or_else(Default::default, A::of);
        let ports = rule
            .source_port
            .or(rule.destination_port)
            .map(|_| (rule.source_port.unwrap_or(ANY_PORT), rule.destination_port.unwrap_or(ANY_PORT)));
        Self {
            source: prefix(rule.source),
            destination: prefix(rule.destination),
            protocol: rule.protocol.map(|protocol| protocol.0),
            ports,
            rule: place as u32,
        }
    }

    #[inline]
    fn matches(&self, tuple: &Tuple<A>) -> bool {
        let within = |address: A, (prefix, mask): (A, A)| address & mask == prefix;
        within(tuple.source, self.source)
            && within(tuple.destination, self.destination)
            && self.protocol.is_none_or(|protocol| protocol == tuple.protocol)
            && self.ports.is_none_or(|(sources, destinations)| {
                tuple.ports.is_some_and(|(source, destination)| {
                    sources.holds(source) && destinations.holds(destination)
                })
            })
    }
}

/// Result of the rules for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    /// The rule at this place decides.
    Rule(usize),
    /// None does.
    Default,
    /// They are not for such frames.
    NotIp,
}

/// All rules, ready to compare.
struct Rules {
    ipv4: Vec<Test<u32>>,
    ipv6: Vec<Test<u128>>,
}

impl Rules {
    fn compile(rules: &[Rule]) -> Self {
        fn of<A: Address>(rules: &[Rule], ipv4: bool) -> Vec<Test<A>> {
            let numbered = rules.iter().enumerate().filter(|(_, rule)| rule.is_for(ipv4));
            numbered.map(|(place, rule)| Test::of(rule, place)).collect()
        }
        Self { ipv4: of(rules, true), ipv6: of(rules, false) }
    }

    #[inline]
    fn match4(&self, key: FlowKey4) -> Match {
        let (source, destination) = (key.source().to_bits(), key.destination().to_bits());
        first(&self.ipv4, Tuple { source, destination, protocol: key.protocol(), ports: key.ports() })
    }

    fn match_wide(&self, key: FlowKeyWide) -> Match {
        let (protocol, ports) = (key.protocol(), key.ports());
        match (key.source(), key.destination()) {
            (Some(IpAddr::V4(source)), Some(IpAddr::V4(destination))) => {
                let (source, destination) = (source.to_bits(), destination.to_bits());
                first(&self.ipv4, Tuple { source, destination, protocol, ports })
            }
            (Some(IpAddr::V6(source)), Some(IpAddr::V6(destination))) => {
                let (source, destination) = (source.to_bits(), destination.to_bits());
                first(&self.ipv6, Tuple { source, destination, protocol, ports })
            }
            _ => Match::NotIp,
        }
    }
}

#[inline]
fn first<A: Address>(tests: &[Test<A>], tuple: Tuple<A>) -> Match {
    let found = tests.iter().find(|test| test.matches(&tuple));
    found.map_or(Match::Default, |test| Match::Rule(test.rule as usize))
}

/// Fate of the packets that match a rule, and their number.
struct Verdict {
    action: Action,
    fate: Fate,
    name: String,
    packets: u64,
    public: Option<Counter>,
}

/// The NF.
pub struct Firewall {
    rules: Rules,
    verdicts: Vec<Verdict>,
    default: Fate,
    non_ip: Fate,
    allowed: Counter,
    denied: Counter,
    led: Counter,
    malformed: Counter,
    /// Responder, where a rule or the default rejects.
    reject: Option<Reject>,
}

impl Firewall {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Errors in the arguments.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { rules, default, non_ip, reject_rate } = context.arguments()?;
        let (allowed, denied) = (context.counter("allowed")?, context.counter("denied")?);
        let (led, malformed) = (context.counter("led")?, context.counter("malformed")?);
        let mut mistakes = ArgumentErrors::default();
        if non_ip == Action::Reject {
            let why = "nothing can be told about frames that are not IP, so none is rejected; say \"deny\"";
            mistakes.add(["non_ip".into()], why);
        }
        let mut verdicts: Vec<Verdict> = Vec::new();
        for (place, rule) in rules.iter().enumerate() {
            let name = rule.name.clone().unwrap_or_else(|| (place + 1).to_string());
            rule.check(place, &mut mistakes);
            if verdicts.iter().any(|earlier| earlier.name == name) {
                let path = ["rules".into(), place.into(), "name".into()];
                mistakes.add(path, format!("two rules are called {name}"));
                continue;
            }
            let counted = place < RULE_COUNTERS_MAX;
            let public = counted.then(|| context.counter(&format!("rule.{name}"))).transpose()?;
            let path = vec!["rules".into(), place.into(), "action".into()];
            let fate = Fate::of(&rule.action, context, path, &mut mistakes);
            verdicts.push(Verdict { action: rule.action.clone(), fate, name, packets: 0, public });
        }
        let reject = reject(&rules, &default, reject_rate, context)?;
        let default = Fate::of(&default, context, vec!["default".into()], &mut mistakes);
        let non_ip = Fate::of(&non_ip, context, vec!["non_ip".into()], &mut mistakes);
        mistakes.none()?;
        let rules = Rules::compile(&rules);
        Ok(Self { rules, verdicts, default, non_ip, allowed, denied, led, malformed, reject })
    }

    #[inline]
    fn decide(&mut self, matched: Match) -> Fate {
        let rule = match matched {
            Match::Rule(rule) => rule,
            Match::Default => return self.default,
            Match::NotIp => return self.non_ip,
        };
        let verdict = &mut self.verdicts[rule];
        verdict.packets += 1;
        if let Some(public) = &verdict.public {
            public.add(1);
        }
        verdict.fate
    }
}

/// Makes what answers, if anything is rejected.
fn reject(
    rules: &[Rule],
    default: &Action,
    rate: u32,
    context: &mut Context,
) -> Result<Option<Reject>, NfError> {
    let mut actions = rules.iter().map(|rule| &rule.action).chain([default]);
    actions.any(|action| *action == Action::Reject).then(|| Reject::new(context, rate)).transpose()
}

impl NetworkFunction for Firewall {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        for mut packet in burst.packets() {
            let matched = match flow_key::parse(packet.data(), packet.len()) {
                Parsed::Ipv4 { key, .. } => self.rules.match4(key),
                Parsed::Wide { key, .. } => self.rules.match_wide(key),
                // The whole frame was given, so nothing more can be needed.
                Parsed::NeedMore { .. } | Parsed::Malformed(_) => {
                    self.malformed.add(1);
                    packet.discard();
                    continue;
                }
            };
            match self.decide(matched) {
                Fate::Passes => self.allowed.add(1),
                Fate::Ends => {
                    self.denied.add(1);
                    packet.discard();
                }
                Fate::IsRejected => {
                    if let Some(reject) = &mut self.reject {
                        reject.reject(&mut packet, context);
                    }
                }
                Fate::GoesTo(stage) => {
                    self.led.add(1);
                    packet.divert_to(stage);
                }
            }
        }
    }

    fn takes_long_frames(&self) -> bool {
        true
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        if body != "report" {
            return Err(format!("no message `{body}`; there is `report`").into());
        }
        let rule = |verdict: &Verdict| json!({ "name": verdict.name, "action": verdict.action, "packets": verdict.packets });
        let rules: Vec<_> = self.verdicts.iter().map(rule).collect();
        let (allowed, denied, malformed) = (self.allowed.get(), self.denied.get(), self.malformed.get());
        let led = self.led.get();
        let rejected = self.reject.as_ref().map_or(0, |reject| reject.rejected.get());
        let report = json!({ "allowed": allowed, "denied": denied, "rejected": rejected, "led": led,
            "malformed": malformed, "rules": rules });
        Ok(context.tell(report.to_string())?)
    }
}

#[cfg(test)]
mod tests;
