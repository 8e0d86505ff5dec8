//! What nodes would do under a demand, before anything is changed: the decisions of running nodes, in a
//! network that is only thought of.
//!
//! Flows are divided by [`headgate_decide::steer::sharing`], prices step by
//! [`headgate_decide::market::local`], nodes claim by `Claims` and the orchestrator says how many may by
//! `Orchestrator`: the code that nodes run. Here are only the packets: rates, that are spread over the
//! slots of tables evenly, take the service times of NFs and lose what a core has no time for.
//!
//! An NF starts at once and ends at once, a packet takes the same time everywhere, and where flows stay the
//! part of them begins anew in a period that nodes reckon with
//! ([`TURNOVER`](headgate_decide::steer::slots::TURNOVER)).

mod told;
mod world;

use headgate_config::Config;
use headgate_config::model::Steering;
use headgate_decide::units::{Instant, Span};

use crate::keys::{Claim, Known, Leader, State, View};
use crate::node::{Action, Claims, Rules};
use crate::orchestrator::Orchestrator;
use world::World;

pub use told::{ChainForecast, ChangeForecast, CoreForecast, Demand, Forecast, Given, NfForecast};

/// Looks of a node at the store in a period.
const LOOKS: u64 = 5;
/// Time without a start or an end after which there are no more: an instance may end that is 30 s old and was
/// little used for five periods.
const SETTLED_AFTER: Span = Span::from_secs(45);
/// Longest time that is thought through. Our choice: each instance of a large cluster starts in turn.
const TIME_MAX: Span = Span::from_secs(900);

/// Returns what nodes would do. `parts` is the configuration of each node, in the order of the file.
#[must_use]
pub fn forecast(parts: &[Config], known: &Given) -> Forecast {
    let mut run = Run::of(parts, known);
    let is_settled = run.run();
    Forecast { is_settled, ..run.world.told(run.changes, run.rules.band) }
}

/// Nodes that think, and the store where they meet.
struct Run {
    world: World,
    rules: Rules,
    view: View,
    written: u64,
    claims: Vec<Claims>,
    orchestrator: Orchestrator,
    changes: Vec<ChangeForecast>,
}

impl Run {
    fn of(parts: &[Config], known: &Given) -> Self {
        let of_node = |config: &Config| config.node.as_ref().and_then(|node| node.steering);
        let steering: Steering = parts.iter().find_map(of_node).unwrap_or_default();
        let period = Span(steering.period_ns);
        let rules = Rules { band: steering.band(), off_path: steering.price_of_hop(), period };
        let world = World::of(parts, steering, known);
        let mut run = Self {
            claims: world.names().iter().map(|_| Claims::default()).collect(),
            orchestrator: parts.first().map(Orchestrator::of).unwrap_or_default(),
            world,
            rules,
            view: View::default(),
            written: 1,
            changes: Vec::new(),
        };
        let leader = Leader { node: run.world.names().first().cloned().unwrap_or_default() };
        run.view.leader = Some(Known { value: leader, created: 1, written: 1 });
        for name in run.world.names() {
            let value = crate::keys::Alive { incarnation: 1 };
            run.view.nodes.insert(name.clone(), Known { value, created: 1, written: 1 });
        }
        for (nf, node) in &known.serving {
            run.claim(nf, node, State::Serving, "it serves");
            run.world.serve(nf, node, true);
        }
        run
    }

    /// Lets time pass until nothing changes any more. Returns whether that was so.
    fn run(&mut self) -> bool {
        let step = Span((self.rules.period.0 / LOOKS).max(1));
        let (mut now, mut changed) = (Instant::default() + step, Instant::default());
        for look in 1.. {
            if self.look(now, look % LOOKS == 0) {
                changed = now;
            }
            now = now + step;
            if now - changed >= SETTLED_AFTER.max(self.rules.period.times(4 * LOOKS)) {
                return true;
            }
            if now - Instant::default() >= TIME_MAX {
                break;
            }
        }
        false
    }

    /// Lets all nodes look once. Returns whether an instance started or ended.
    fn look(&mut self, now: Instant, is_epoch: bool) -> bool {
        let before = self.changes.len();
        if is_epoch {
            self.world.end_period(now);
        }
        let status = self.world.status(0);
        let told = self.orchestrator.on_look(now, (1, is_epoch), &self.rules.band, (&self.view, &status));
        for (nf, value) in told {
            self.written += 1;
            self.view.allows.insert(nf, Known { value, created: 1, written: self.written });
        }
        for node in 0..self.claims.len() {
            let status = self.world.status(node);
            for action in self.claims[node].poll(now, self.rules, &self.view, &status) {
                self.carry_out(now, &status.node, action);
            }
        }
        self.world.settle(now);
        self.changes.len() > before
    }

    fn carry_out(&mut self, now: Instant, node: &str, action: Action) {
        let mut note = |nf: &str, starts, why: String| {
            let (at_s, node) = ((now - Instant::default()).as_secs_f64(), node.to_owned());
            self.changes.push(ChangeForecast { at_s, nf: nf.to_owned(), node, starts, why });
        };
        match action {
            Action::Claim { nf, allow, written, why } => {
                let Some(known) = self.view.allows.get_mut(&nf).filter(|known| known.written == written)
                else {
                    return;
                };
                self.written += 1;
                (known.value, known.written) = (allow, self.written);
                note(&nf, true, why.clone());
                self.claim(&nf, node, State::Claimed, &why);
                self.world.serve(&nf, node, true);
            }
            Action::Mark { nf, state, .. } | Action::Tell { nf, state } => self.claim(&nf, node, state, ""),
            Action::Drain { nf } => {
                note(
                    &nf,
                    false,
                    "the others bear its load, and its price was low for five periods".to_owned(),
                );
                self.view.claims.remove(&(nf.clone(), node.to_owned()));
                self.world.serve(&nf, node, false);
            }
            Action::Release { nf, .. } => {
                self.view.claims.remove(&(nf, node.to_owned()));
            }
            // It has begun with its claim.
            Action::Start { .. } => {}
        }
    }

    fn claim(&mut self, nf: &str, node: &str, state: State, why: &str) {
        self.written += 1;
        let value = Claim { incarnation: 1, state, why: why.to_owned() };
        let known = Known { value, created: self.written, written: self.written };
        self.view.claims.insert((nf.to_owned(), node.to_owned()), known);
    }
}
