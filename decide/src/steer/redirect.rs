//! Moves flows away from an instance that has become expensive.
//!
//! An instance that costs more than the cheapest by theta, in two epochs running, gives up at most an
//! eighth of its flows, those with the largest rates first, and each only while the gap, after all that
//! moved before it, is still above theta. A flow that moved stays for [`HOLD_DOWN`]. Detours are left out
//! of the costs: a flow that is off its path already does not come back for that.
//!
//! A single flow of an instance counts as an eighth: else one that has fewer than eight would keep them
//! for good.
//!
//! Source: dissertation, 9.2.2.2, which moves "a portion"; own effect, hold-down and the two epochs are
//! ours.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Owner;
use super::cost::cheapest;
use super::slots::{Pricing, Traffic, Way};
use crate::units::{Instant, Span};

/// Part of an instance's flows that move in an epoch, at most: one in so many.
pub const PART_MAX: usize = 8;
/// Epochs in a row in which a gap must be seen.
pub const EPOCHS: u8 = 2;
/// Time for which a flow that moved is left alone. Our choice: ten periods, so that prices have settled
/// after it.
pub const HOLD_DOWN: Span = Span::from_secs(10);

/// What becomes of a flow's state when it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none: the flow moves.
    None,
    /// The NF exports it: the flow is paused, and moves with it.
    Exported,
    /// The NF keeps it: the flow stays.
    Kept,
}

/// A flow that an instance has, as a table's node sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowLoad {
    /// Its number.
    pub flow: u64,
    /// Its instance.
    pub owner: Owner,
    /// Its rate in bit/s.
    pub rate: f64,
    /// When it moved last.
    pub moved: Option<Instant>,
    /// What it adds to prices.
    pub traffic: Traffic,
}

/// A flow that moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Its number.
    pub flow: u64,
    /// Where from.
    pub from: Owner,
    /// Where to.
    pub to: Owner,
    /// Whether it is paused while its state is taken along.
    pub with_state: bool,
}

/// Redirection of the flows of one table.
#[derive(Clone, Debug, Default)]
pub struct Redirection {
    /// Epochs in a row in which an owner was too expensive.
    seen: BTreeMap<Owner, u8>,
}

impl Redirection {
    /// Looks at an epoch's costs (ways without their detour) and flows, and returns the flows that move.
    /// What moves is added to the prices.
    pub fn on_epoch(
        &mut self,
        now: Instant,
        theta: f64,
        pricing: &mut Pricing,
        ways: &[Way],
        (state, flows): (State, &[FlowLoad]),
    ) -> Vec<Move> {
        let mut moves = Vec::new();
        let costs =
            |pricing: &Pricing| ways.iter().map(|way| (way.owner, pricing.cost(way))).collect::<Vec<_>>();
        let first = costs(pricing);
        let Some((_, least)) = cheapest(first.iter().copied()) else { return moves };
        let too_expensive =
            |owner: &Owner| first.iter().any(|(one, cost)| one == owner && cost - least > theta);
        self.seen.retain(|owner, _| too_expensive(owner));
        let owners: BTreeSet<Owner> = flows.iter().map(|flow| flow.owner).filter(too_expensive).collect();
        for owner in owners {
            let seen = self.seen.entry(owner).or_default();
            *seen = seen.saturating_add(1);
            if *seen < EPOCHS || state == State::Kept {
                continue;
            }
            for flow in most_loaded(now, owner, flows) {
                let all = costs(pricing);
                let Some((to, least)) = cheapest(all.iter().copied()) else { break };
                let own = all.iter().find(|(one, _)| *one == owner).map_or(0.0, |(_, cost)| *cost);
                let Some(way) = ways.iter().find(|way| way.owner == to) else { break };
                if own - least <= theta || own - pricing.cost_with(way, flow.traffic) <= theta {
                    break;
                }
                pricing.add(way, flow.traffic);
                moves.push(Move { flow: flow.flow, from: owner, to, with_state: state == State::Exported });
            }
        }
        moves
    }
}

/// Returns the flows of an owner that may move in one epoch, largest first.
fn most_loaded(now: Instant, owner: Owner, flows: &[FlowLoad]) -> Vec<FlowLoad> {
    let own = || flows.iter().filter(|flow| flow.owner == owner);
    let limit = (own().count() / PART_MAX).max(1);
    let rests = |flow: &&FlowLoad| flow.moved.is_none_or(|at| (now - at).0 >= HOLD_DOWN.0);
    let mut able: Vec<FlowLoad> = own().filter(rests).copied().collect();
    able.sort_by(|one, other| other.rate.total_cmp(&one.rate).then(one.flow.cmp(&other.flow)));
    able.truncate(limit);
    able
}
