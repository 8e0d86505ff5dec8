//! How many instances of each service may start, which node begins with one, and which instance ends: what
//! one node says for all.
//!
//! Each instance is that of a node. The others decide by themselves whether they start one
//! ([`super::start`]): here is only the number, so that not all do.

use alloc::vec::Vec;

use super::Band;
use super::end::{Ends, Serving};
use super::start::allowance;
use crate::steer::{NodeId, Owner};
use crate::units::Instant;

/// State of a node's claim to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its instance starts.
    Claimed,
    /// It serves.
    Serving,
    /// It gets no new flows.
    Leaving,
}

/// Claim of a node to serve a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// The node.
    pub node: NodeId,
    /// How far it is.
    pub stage: Stage,
    /// Price of its instance's core without a scale; `None` where the node is not heard.
    pub kappa: Option<f64>,
    /// Since when it is known here to serve.
    pub since: Instant,
}

/// A service, and who has claimed to serve it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Fewest instances.
    pub min: u32,
    /// Most instances.
    pub max: u32,
    /// All claims, by node.
    pub claims: Vec<Claim>,
    /// Living nodes without a claim that could serve it, the best placed first.
    pub candidates: Vec<NodeId>,
}

/// What nodes may and must do for a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Instances that may start, by what nodes expect them to earn.
    pub new: u32,
    /// Nodes that are to start one whatever it earns: there are fewer than the least.
    pub named: Vec<NodeId>,
    /// Nodes whose instance ends.
    pub end: Vec<NodeId>,
}

/// The ends of all services, over epochs.
#[derive(Clone, Debug, Default)]
pub struct Orchestrator {
    ends: Ends,
    /// Instances that end since the last epoch.
    ended: Vec<Owner>,
}

impl Orchestrator {
    /// Looks at all services at any time, and counts an epoch if one ends. Returns what holds for each from
    /// now on.
    pub fn on_look(&mut self, now: Instant, band: &Band, services: &[Service], is_epoch: bool) -> Vec<Order> {
        if is_epoch {
            self.ended = self.ended(now, band, services);
        }
        let ended = self.ended.clone();
        let order = |(number, service): (usize, &Service)| {
            let count = |stage| service.claims.iter().filter(|claim| claim.stage == stage).count() as u32;
            let (claimed, serving, leaving) =
                (count(Stage::Claimed), count(Stage::Serving), count(Stage::Leaving));
            // Who leaves has a place until it is gone: there are never more than the most.
            let room = service.max.saturating_sub(claimed + serving + leaving);
            let missing = service.min.saturating_sub(claimed + serving).min(room);
            let named: Vec<NodeId> = service.candidates.iter().take(missing as usize).copied().collect();
            let kappas = service.claims.iter().filter(|claim| claim.stage == Stage::Serving);
            let kappas = kappas.filter_map(|claim| claim.kappa);
            let new = allowance(band, kappas, claimed, (serving + leaving, service.max));
            // Who is named takes one of these.
            let new = new.saturating_sub(missing);
            Order { new, named, end: surplus_or(service, (claimed, serving), ended_of(&ended, number)) }
        };
        services.iter().enumerate().map(order).collect()
    }

    fn ended(&mut self, now: Instant, band: &Band, services: &[Service]) -> Vec<Owner> {
        let of = |(number, service): (usize, &Service)| {
            let serving = |claim: &Claim| Serving {
                owner: Owner { node: claim.node, instance: number as u32 },
                service: number as u32,
                // One that is not heard is neither little used nor too much.
                kappa: claim.kappa.unwrap_or(band.high),
                // One that leaves keeps its flows, so their number is no matter.
                flows: 0,
                since: claim.since,
            };
            let serve = service.claims.iter().filter(|claim| claim.stage == Stage::Serving);
            serve.map(serving).collect::<Vec<_>>()
        };
        let all: Vec<Serving> = services.iter().enumerate().flat_map(of).collect();
        let min = |number: u32| services.get(number as usize).map_or(1, |service| service.min);
        self.ends.on_epoch(now, band, &all, min)
    }
}

fn ended_of(ended: &[Owner], number: usize) -> Vec<NodeId> {
    ended.iter().filter(|owner| owner.instance as usize == number).map(|owner| owner.node).collect()
}

/// Returns the nodes whose instance ends: those beyond the most, the youngest first, as after a store that
/// was lost for a time; or else those that are little used.
fn surplus_or(service: &Service, (claimed, serving): (u32, u32), little_used: Vec<NodeId>) -> Vec<NodeId> {
    let surplus = (claimed + serving).saturating_sub(service.max);
    if surplus == 0 {
        return little_used;
    }
    let mut serve: Vec<&Claim> =
        service.claims.iter().filter(|claim| claim.stage == Stage::Serving).collect();
    serve.sort_by(|one, other| other.since.cmp(&one.since).then(other.node.cmp(&one.node)));
    serve.into_iter().take(surplus as usize).map(|claim| claim.node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn claim(node: u32, stage: Stage, kappa: f64) -> Claim {
        Claim { node: NodeId(node), stage, kappa: Some(kappa), since: Instant(u64::from(node)) }
    }

    fn order(service: Service) -> Order {
        let orders = Orchestrator::default().on_look(Instant(0), &Band::default(), &[service], true);
        orders.into_iter().next().unwrap()
    }

    #[test]
    fn the_least_are_named_and_no_node_twice() {
        let nobody = Service {
            min: 2,
            max: 3,
            claims: Vec::new(),
            candidates: alloc::vec![NodeId(4), NodeId(1), NodeId(2)],
        };
        assert_eq!(
            order(nobody.clone()),
            Order { named: alloc::vec![NodeId(4), NodeId(1)], ..Order::default() }
        );
        let one = Service {
            claims: alloc::vec![claim(4, Stage::Claimed, 0.0)],
            candidates: alloc::vec![NodeId(1)],
            ..nobody
        };
        assert_eq!(order(one).named, [NodeId(1)]);
    }

    #[test]
    fn no_more_may_start_than_the_most_less_all_claims() {
        for (stage, allowed) in [(Stage::Claimed, 1), (Stage::Serving, 1), (Stage::Leaving, 1)] {
            let claims = alloc::vec![claim(0, Stage::Serving, 12.0), claim(1, stage, 12.0)];
            let service = Service { min: 1, max: 3, claims, candidates: Vec::new() };
            assert_eq!(order(service).new, allowed, "{stage:?}");
        }
        let claims = alloc::vec![claim(0, Stage::Serving, 99.0), claim(1, Stage::Leaving, 0.0)];
        assert_eq!(order(Service { min: 1, max: 2, claims, candidates: Vec::new() }).new, 0);
    }

    #[test]
    fn those_beyond_the_most_end_the_youngest_first() {
        let claims = (0..4).map(|node| claim(node, Stage::Serving, 1.0)).collect();
        let order = order(Service { min: 1, max: 2, claims, candidates: Vec::new() });
        assert_eq!((order.end, order.new), (alloc::vec![NodeId(3), NodeId(2)], 0));
    }

    #[test]
    fn one_that_is_little_used_ends_in_time_and_one_that_is_not_heard_stays() {
        let mut orchestrator = Orchestrator::default();
        let silent = Claim { kappa: None, ..claim(1, Stage::Serving, 0.0) };
        let claims = alloc::vec![claim(0, Stage::Serving, 0.1), silent, claim(2, Stage::Serving, 0.1)];
        let service = Service { min: 1, max: 3, claims, candidates: Vec::new() };
        let mut ends = Vec::new();
        for second in 0..40 {
            let now = Instant(0) + Span::from_secs(second);
            let orders = orchestrator.on_look(now, &Band::default(), core::slice::from_ref(&service), true);
            ends.push(orders[0].end.clone());
        }
        assert!(ends[..30].iter().all(Vec::is_empty));
        // Of two alike the younger.
        assert_eq!(ends[39], [NodeId(2)]);
    }
}
