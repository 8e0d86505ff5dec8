//! Checkers: what must hold in every scene. Looked at each millisecond; nothing of the
//! model knows of them.

use core::fmt;

use headgate_decide::units::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::fairness::Bounds;
use crate::plant::Plant;
use crate::ring::Ring;

/// Time between two looks.
const EVERY: Span = Span::from_millis(1);
/// Looks in a row at which something has to be seen that may be true for a moment. Our choice: a call that
/// moved nothing is repeated after a millisecond (`decide::wake::AGAIN`).
const LOOKS: u32 = 4;
/// Looks in a row at which an NF may sleep beside packets. Our choice: a call that was without effect has
/// been repeated several times by then.
const LOOKS_ASLEEP: u32 = 8;
/// Longest time for which an NF may want its core and not get it. Our choice: ten round-robin slices.
const STARVED_AFTER: Span = Span::from_secs(1);
/// Longest time for which an instance may be without a process. Our choice: longer than the back-off behind
/// seven failures in a row, which no scene of the swarm has.
const RECOVERED_AFTER: Span = Span::from_secs(1);
/// Violations that are kept: the first ones say it.
const KEPT: usize = 16;

/// What did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Packets that entered a chain have left it, have ended, or are inside.
    Conservation,
    /// An NF holds what is in its rings and hands, and no more than its ring has places.
    Holding,
    /// Packets of a flow leave in the order in which they came.
    Order,
    /// An NF that wants its core gets it.
    Starvation,
    /// A core does not idle while one of its NFs has packets and is not blocked.
    IdleCore,
    /// An NF is throttled only while its queue is long.
    ThrottledWithoutCause,
    /// An NF is blocked only while another one is throttled.
    BlockedWithoutCause,
    /// An NF that never gives up its core has nearly its share of it.
    Fairness,
    /// An NF is not throttled and opened again more often than its marks allow.
    Oscillation,
    /// An instance whose process ended is in service again.
    Recovery,
    /// A run ends.
    Panic,
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Time since the start, in nanoseconds.
    pub at_ns: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.3} ms: {}", self.rule, self.at_ns as f64 / 1e6, self.what)
    }
}

/// Looks in a row at which something was seen while a count stood still, as that of packets taken: what is
/// seen again and again may be something new each time.
#[derive(Clone, Copy, Debug, Default)]
struct Standstill {
    looks: u32,
    count: u64,
}

impl Standstill {
    /// Takes in a look, and the count so far, ever. Returns the looks in a row.
    fn look(&mut self, is_seen: bool, count: u64) -> u32 {
        let stands_still = is_seen && (self.looks == 0 || count == self.count);
        self.looks = if stands_still { self.looks + 1 } else { u32::from(is_seen) };
        self.count = count;
        self.looks
    }
}

/// Everything that checkers remember from look to look.
#[derive(Debug)]
pub(crate) struct Checker {
    violations: Vec<Violation>,
    /// Looks in a row, by core and by link.
    idle: Vec<Standstill>,
    asleep: Vec<Standstill>,
    without_cause: Vec<[Standstill; 2]>,
    bounds: Bounds,
}

impl Checker {
    pub(crate) fn new(plant: &Plant) -> Self {
        Self {
            violations: Vec::new(),
            idle: vec![Standstill::default(); plant.cores.len()],
            asleep: vec![Standstill::default(); plant.links.len()],
            without_cause: vec![[Standstill::default(); 2]; plant.links.len()],
            bounds: Bounds::new(plant),
        }
    }

    /// Returns whether something did not hold.
    pub(crate) fn has_found(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Returns what did not hold.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Looks at everything. Returns the time until the next look.
    pub(crate) fn check(&mut self, now: Instant, plant: &Plant) -> Span {
        let mut found = Vec::new();
        check_conservation(plant, &mut found);
        check_holding(plant, &mut found);
        check_order(plant, &mut found);
        check_starvation(now, plant, &mut found);
        check_recovery(now, plant, &mut found);
        self.check_idle(plant, &mut found);
        self.check_sleepers(plant, &mut found);
        self.check_causes(plant, &mut found);
        found.extend(self.bounds.unfair(now, plant).into_iter().map(|what| (Rule::Fairness, what)));
        found.extend(self.bounds.oscillating(now, plant).into_iter().map(|what| (Rule::Oscillation, what)));
        for (rule, what) in found {
            let is_known = self.violations.iter().any(|one| one.rule == rule);
            if !is_known && self.violations.len() < KEPT {
                self.violations.push(Violation { rule, at_ns: now.0, what });
            }
        }
        EVERY
    }

    fn check_idle(&mut self, plant: &Plant, found: &mut Vec<(Rule, String)>) {
        for (number, core) in plant.cores.iter().enumerate() {
            let has_work = |nf: &&usize| {
                let (nf, link) = (&plant.nfs[**nf], &plant.links[**nf]);
                !nf.receive.is_empty() && !nf.is_stopped() && !link.is_blocked && !link.is_out
            };
            let idles = core.is_idle().then(|| core.nfs().iter().find(has_work)).flatten();
            let changes = core.nfs().iter().map(|nf| changes_of(plant, *nf)).sum();
            if self.idle[number].look(idles.is_some(), changes) >= LOOKS
                && let Some(nf) = idles
            {
                let packets = plant.nfs[*nf].receive.packets();
                found.push((
                    Rule::IdleCore,
                    format!("core {number} idles while NF {nf} has {packets} packets"),
                ));
            }
        }
    }

    /// An NF that sleeps beside packets is called within some repeats of a call.
    fn check_sleepers(&mut self, plant: &Plant, found: &mut Vec<(Rule, String)>) {
        for (number, (nf, link)) in plant.nfs.iter().zip(&plant.links).enumerate() {
            let has_work = !nf.receive.is_empty() && !link.is_blocked;
            let waits = nf.is_asleep() && has_work && !nf.is_stopped() && !link.is_out;
            if self.asleep[number].look(waits, changes_of(plant, number)) >= LOOKS_ASLEEP {
                let packets = nf.receive.packets();
                found.push((Rule::Starvation, format!("NF {number} sleeps beside {packets} packets")));
            }
        }
    }

    fn check_causes(&mut self, plant: &Plant, found: &mut Vec<(Rule, String)>) {
        for (nf, link) in plant.links.iter().enumerate() {
            let is_short = link.marks.is_none_or(|marks| link.depth() < marks.low);
            let seen = [link.load.is_throttled() && is_short, link.is_blocked && plant.throttled == 0];
            let rules = [Rule::ThrottledWithoutCause, Rule::BlockedWithoutCause];
            // A state lasts a while after its cause; one that was left and came again is another one.
            let throttles = link.counts.throttles;
            for ((looks, seen), rule) in self.without_cause[nf].iter_mut().zip(seen).zip(rules) {
                if looks.look(seen, throttles) >= LOOKS {
                    found.push((rule, format!("NF {nf} with {} packets", link.depth())));
                }
            }
        }
    }
}

/// Returns a count that stands still while an NF takes no packet and is not blocked anew: one that is blocked
/// between all looks was called for nothing each time.
fn changes_of(plant: &Plant, nf: usize) -> u64 {
    plant.nfs[nf].counts.taken + plant.links[nf].counts.blocks
}

fn check_conservation(plant: &Plant, found: &mut Vec<(Rule, String)>) {
    let mut inside = vec![0u64; plant.chains.len()];
    for (nf, link) in plant.nfs.iter().zip(&plant.links) {
        let runs = nf.receive.runs().chain(nf.hand()).chain(nf.transmit.runs()).chain(link.pending.runs());
        for run in runs {
            inside[plant.flows[usize::from(run.flow)].chain] += u64::from(run.packets);
        }
    }
    for run in plant.mesh.iter().flat_map(Ring::runs) {
        inside[plant.flows[usize::from(run.flow)].chain] += u64::from(run.packets);
    }
    for (number, (chain, inside)) in plant.chains.iter().zip(inside).enumerate() {
        let gone = chain.gone();
        if chain.entered != gone + inside {
            let what = format!("chain {number}: {} entered, {gone} are gone, {inside} inside", chain.entered);
            found.push((Rule::Conservation, what));
        }
    }
}

fn check_holding(plant: &Plant, found: &mut Vec<(Rule, String)>) {
    for (number, (nf, link)) in plant.nfs.iter().zip(&plant.links).enumerate() {
        let has = nf.receive.packets() + nf.in_hand() + nf.transmit.packets();
        if has != link.held || has > link.capacity() {
            let (held, ring) = (link.held, link.capacity());
            found.push((
                Rule::Holding,
                format!("NF {number} has {has} packets, {held} are known, {ring} places"),
            ));
        }
    }
}

fn check_order(plant: &Plant, found: &mut Vec<(Rule, String)>) {
    for (number, flow) in plant.flows.iter().enumerate().filter(|(_, flow)| flow.overtaken > 0) {
        found.push((Rule::Order, format!("flow {number}: {} packets were overtaken", flow.overtaken)));
    }
}

fn check_recovery(now: Instant, plant: &Plant, found: &mut Vec<(Rule, String)>) {
    for (number, link) in plant.links.iter().enumerate() {
        let out = link.out_since.map_or(Span::ZERO, |since| now - since);
        if out > RECOVERED_AFTER {
            found.push((
                Rule::Recovery,
                format!("instance {number} has no process for {} ms", out.as_millis()),
            ));
        }
    }
}

fn check_starvation(now: Instant, plant: &Plant, found: &mut Vec<(Rule, String)>) {
    for (number, core) in plant.cores.iter().enumerate() {
        for (task, counts) in core.tasks.iter().enumerate() {
            let waited = counts.waits_since.map_or(Span::ZERO, |since| now - since);
            let nf = core.nfs()[task];
            if waited > STARVED_AFTER && !plant.nfs[nf].receive.is_empty() {
                let ms = waited.as_millis();
                found.push((Rule::Starvation, format!("NF {nf} has waited {ms} ms for core {number}")));
            }
        }
    }
}
