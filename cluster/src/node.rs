//! What this node claims to serve, starts, and gives up.
//!
//! A node looks at what its manager runs, at its claims in the store, and at what the orchestrator allows,
//! and mends what differs. What runs without a claim, as after a store that was lost, gets one: the
//! orchestrator ends those that are too many.

use std::collections::BTreeMap;

use headgate_api::status::{ClusterStatus, RangeStatus};
use headgate_decide::elastic::Band;
use headgate_decide::elastic::start::{CoreLoad, Rival, Start, starts, wait};
use headgate_decide::units::{Instant, Span};

use crate::keys::{Allow, Known, State, View};

/// Time after which an instance that was claimed must serve. Our choice: longer than any start that succeeds,
/// a container's included.
const START_MAX: Span = Span::from_secs(10);
/// Time for which a node claims nothing of an NF that did not start there. Our choice: others have had the
/// time to start one.
const HOLD_OFF: Span = Span::from_secs(30);
/// Time after which the manager is asked once more for what it has not done.
const ASK_AGAIN: Span = Span::from_secs(2);

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Claim to serve an NF, by what was allowed in this revision.
    Claim { nf: String, allow: Allow, written: u64, why: String },
    /// Say what runs here without a claim.
    Tell { nf: String, state: State },
    /// Say how far a claim is, which was written last in this revision.
    Mark { nf: String, state: State, written: u64 },
    /// Give a claim up.
    Release { nf: String, why: String },
    /// Have the manager start an NF.
    Start { nf: String },
    /// Have the manager lead flows away from an NF, and end it.
    Drain { nf: String },
}

/// What a node goes by, beside the store.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub band: Band,
    /// Price of a hop.
    pub off_path: f64,
    /// Time between two prices.
    pub period: Span,
}

/// A node's memory of its claims.
#[derive(Debug, Default)]
pub struct Claims {
    /// When it may claim an NF that is worth it: the best placed waits shortest.
    due: BTreeMap<String, Instant>,
    /// Since when it has claimed an NF that does not serve.
    claimed: BTreeMap<String, Instant>,
    /// Until when it claims nothing of an NF.
    held_off: BTreeMap<String, Instant>,
    /// When the manager was asked for something of an NF.
    asked: BTreeMap<String, Instant>,
}

impl Claims {
    /// Returns what is to be done now.
    pub fn poll(&mut self, now: Instant, rules: Rules, view: &View, status: &ClusterStatus) -> Vec<Action> {
        status.ranges.iter().filter_map(|range| self.of_nf(now, rules, range, view, status)).collect()
    }

    fn of_nf(
        &mut self,
        now: Instant,
        rules: Rules,
        range: &RangeStatus,
        view: &View,
        status: &ClusterStatus,
    ) -> Option<Action> {
        let nf = range.nf.clone();
        // Without the one who said it, nothing of it holds any more.
        let term = view.leader.as_ref().map(|leader| leader.created);
        let allow = view.allows.get(&nf).filter(|allow| Some(allow.value.term) == term);
        let claim = view.claim(&nf, &status.node);
        let state = claim.map(|claim| (claim.value.state, claim.written));
        if !matches!((range.state.as_str(), state), ("absent" | "starting", Some((State::Claimed, _)))) {
            self.claimed.remove(&nf);
        }
        let mark = |state, written| Some(Action::Mark { nf: nf.clone(), state, written });
        match (range.state.as_str(), state) {
            ("absent", None) => self.claim(now, rules, range, allow, status),
            ("absent" | "starting", Some((State::Claimed, _))) => self.start(now, range),
            ("absent", Some(_)) => Some(Action::Release { nf, why: "it has ended here".to_owned() }),
            ("starting" | "serving", None) => {
                let state = if range.state == "serving" { State::Serving } else { State::Claimed };
                Some(Action::Tell { nf, state })
            }
            ("leaving", None) => Some(Action::Tell { nf, state: State::Leaving }),
            ("serving", Some((State::Claimed | State::Leaving, written))) => mark(State::Serving, written),
            ("leaving", Some((State::Claimed | State::Serving, written))) => mark(State::Leaving, written),
            ("serving", Some((State::Serving, _))) => {
                let ends = allow.is_some_and(|allow| allow.value.end.contains(&status.node));
                (ends && self.may_ask(now, &nf)).then_some(Action::Drain { nf })
            }
            _ => None,
        }
    }

    /// Returns whether the manager may be asked, and remembers that it was.
    fn may_ask(&mut self, now: Instant, nf: &str) -> bool {
        let is_due = self.asked.get(nf).is_none_or(|at| now - *at >= ASK_AGAIN);
        if is_due {
            self.asked.insert(nf.to_owned(), now);
        }
        is_due
    }

    /// Starts what was claimed, and gives it up where it does not start.
    fn start(&mut self, now: Instant, range: &RangeStatus) -> Option<Action> {
        let nf = range.nf.clone();
        let since = *self.claimed.entry(nf.clone()).or_insert(now);
        if now - since >= START_MAX {
            self.claimed.remove(&nf);
            self.held_off.insert(nf.clone(), now + HOLD_OFF);
            let why = format!("it did not come into service within {} s", START_MAX.as_secs_f64());
            return Some(Action::Release { nf, why });
        }
        (range.state == "absent" && self.may_ask(now, &nf)).then_some(Action::Start { nf })
    }

    /// Claims what is worth it, or what this node was named for.
    fn claim(
        &mut self,
        now: Instant,
        rules: Rules,
        range: &RangeStatus,
        allow: Option<&Known<Allow>>,
        status: &ClusterStatus,
    ) -> Option<Action> {
        let nf = range.nf.clone();
        if self.held_off.get(&nf).is_some_and(|until| !until.is_due(now)) {
            return None;
        }
        self.held_off.remove(&nf);
        let Known { value: allow, written, .. } = allow?;
        if allow.named.contains(&status.node) {
            let mut rest = allow.clone();
            rest.named.retain(|node| *node != status.node);
            let why = format!("fewer than {} nodes serve it", range.min);
            return Some(Action::Claim { nf, allow: rest, written: *written, why });
        }
        let Some(start) = worth(rules, range, allow.new, status) else {
            self.due.remove(&nf);
            return None;
        };
        let due = *self.due.entry(nf.clone()).or_insert(now + wait(&start.expected, rules.period));
        if !due.is_due(now) {
            return None;
        }
        self.due.remove(&nf);
        let rest = Allow { new: allow.new - 1, ..allow.clone() };
        let why = format!(
            "flows would pay {:.2} here for it, {:.2} at best; its core's price is {:.2}",
            start.expected.price, start.expected.on_path, range.price
        );
        Some(Action::Claim { nf, allow: rest, written: *written, why })
    }
}

/// Returns what an instance here would earn, where it is worth one.
fn worth(rules: Rules, range: &RangeStatus, allowed: u32, status: &ClusterStatus) -> Option<Start> {
    const SERVICE: u32 = 0;
    if allowed == 0 {
        return None;
    }
    let rivals: Vec<Rival> = rivals(&range.nf, SERVICE, status).collect();
    let core = CoreLoad { core: range.core, kappa: range.price, instances: 0 };
    starts(&rules.band, rules.off_path, &rivals, &[core], |_| allowed).into_iter().next()
}

/// Returns the instances of other nodes.
fn rivals<'s>(nf: &'s str, service: u32, status: &'s ClusterStatus) -> impl Iterator<Item = Rival> + 's {
    let others = status.nodes.iter().filter(|node| node.alive && node.name != status.node);
    others.filter_map(move |node| {
        let offer = node.nfs.iter().find(|offer| offer.nf == nf && offer.instances > 0)?;
        // What this node sends there, as a part of what the instance can do.
        let stages = status.stages.iter().filter(|stage| stage.nf == nf);
        let servers = stages.flat_map(|stage| &stage.servers).filter(|server| server.node == node.name);
        let rate: f64 = servers.map(|server| server.rate).sum();
        let passing = rate * offer.service_time_ns.unwrap_or(0) as f64 * 1e-9;
        // Links have no price yet.
        let (kappa, hops, way) = (offer.price, f64::from(node.hops?), 0.0);
        Some(Rival { service, price: kappa + 1.0, kappa, way, hops, passing })
    })
}

#[cfg(test)]
mod tests {
    use headgate_api::status::{NodeStatus, OfferStatus};

    use super::*;
    use crate::keys::{Claim, Leader};

    const RULES: fn() -> Rules =
        || Rules { band: Band::default(), off_path: 0.3, period: Span::from_secs(1) };

    fn status(state: &str, price_elsewhere: f64) -> ClusterStatus {
        let offer = OfferStatus {
            nf: "fw".to_owned(),
            instances: 1,
            price: price_elsewhere,
            ..OfferStatus::default()
        };
        let other = NodeStatus {
            name: "b".to_owned(),
            alive: true,
            hops: Some(1),
            nfs: vec![offer],
            ..NodeStatus::default()
        };
        let range = RangeStatus {
            nf: "fw".to_owned(),
            min: 1,
            max: 2,
            state: state.to_owned(),
            ..RangeStatus::default()
        };
        ClusterStatus {
            node: "c".to_owned(),
            nodes: vec![other],
            ranges: vec![range],
            ..ClusterStatus::default()
        }
    }

    fn view(allow: Allow, claim: Option<State>) -> View {
        let leader = Leader { node: "a".to_owned() };
        let mut view =
            View { leader: Some(Known { value: leader, created: 0, written: 0 }), ..View::default() };
        view.allows.insert("fw".to_owned(), Known { value: allow, created: 2, written: 5 });
        if let Some(state) = claim {
            let value = Claim { incarnation: 1, state, why: String::new() };
            view.claims.insert(("fw".to_owned(), "c".to_owned()), Known { value, created: 3, written: 6 });
        }
        view
    }

    fn at(ms: u64) -> Instant {
        Instant(0) + Span::from_millis(ms)
    }

    #[test]
    fn it_claims_what_is_allowed_and_worth_it_after_its_wait_and_what_it_is_named_for_at_once() {
        let mut claims = Claims::default();
        let allowed = view(Allow { new: 2, ..Allow::default() }, None);
        let mut claimed = Vec::new();
        for ms in (0..1000).step_by(50) {
            claimed = claims.poll(at(ms), RULES(), &allowed, &status("absent", 12.0));
            if !claimed.is_empty() {
                assert!(ms <= 500, "half a period at most");
                break;
            }
        }
        let [Action::Claim { allow, written: 5, .. }] = claimed.as_slice() else { panic!("{claimed:?}") };
        assert_eq!(allow.new, 1);
        // Neither where the others are cheap, nor where nothing is allowed.
        for (new, price) in [(2, 0.5), (0, 12.0)] {
            let mut claims = Claims::default();
            let view = view(Allow { new, ..Allow::default() }, None);
            for ms in (0..3000).step_by(50) {
                assert_eq!(claims.poll(at(ms), RULES(), &view, &status("absent", price)), []);
            }
        }
        let named = view(Allow { named: vec!["b".to_owned(), "c".to_owned()], ..Allow::default() }, None);
        let claimed = Claims::default().poll(at(0), RULES(), &named, &status("absent", 0.0));
        let [Action::Claim { allow, .. }] = claimed.as_slice() else { panic!("{claimed:?}") };
        assert_eq!(allow.named, ["b"]);
    }

    #[test]
    fn what_differs_is_mended() {
        let nothing = || view(Allow::default(), None);
        let claimed = |state| view(Allow::default(), Some(state));
        let nf = || "fw".to_owned();
        let poll =
            |view: View, state: &str| Claims::default().poll(at(0), RULES(), &view, &status(state, 0.0));
        assert_eq!(poll(nothing(), "serving"), [Action::Tell { nf: nf(), state: State::Serving }]);
        assert_eq!(poll(claimed(State::Claimed), "absent"), [Action::Start { nf: nf() }]);
        assert_eq!(poll(claimed(State::Claimed), "starting"), []);
        let mark = |state| [Action::Mark { nf: nf(), state, written: 6 }];
        assert_eq!(poll(claimed(State::Claimed), "serving"), mark(State::Serving));
        assert_eq!(poll(claimed(State::Serving), "leaving"), mark(State::Leaving));
        assert_eq!(poll(claimed(State::Leaving), "serving"), mark(State::Serving));
        assert!(matches!(poll(claimed(State::Leaving), "absent").as_slice(), [Action::Release { .. }]));
        let ends = view(Allow { end: vec!["c".to_owned()], ..Allow::default() }, Some(State::Serving));
        assert_eq!(poll(ends, "serving"), [Action::Drain { nf: nf() }]);
    }

    #[test]
    fn one_that_does_not_start_is_given_up_and_left_to_others_for_a_while() {
        let mut claims = Claims::default();
        let claimed = view(Allow::default(), Some(State::Claimed));
        let (mut starts, mut given_up) = (0, None);
        for second in 0..20 {
            match claims.poll(at(second * 1000), RULES(), &claimed, &status("absent", 0.0)).as_slice() {
                [Action::Start { .. }] => starts += 1,
                [Action::Release { .. }] => {
                    given_up = Some(second);
                    break;
                }
                _ => {}
            }
        }
        assert_eq!((starts, given_up), (5, Some(10)));
        let named = view(Allow { named: vec!["c".to_owned()], ..Allow::default() }, None);
        assert_eq!(claims.poll(at(30_000), RULES(), &named, &status("absent", 0.0)), []);
        assert_eq!(claims.poll(at(41_000), RULES(), &named, &status("absent", 0.0)).len(), 1);
    }
}
