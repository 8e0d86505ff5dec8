//! Nodes for instances that have no price to compete with: the first of a service, and those that died
//! with their node.

use alloc::vec::Vec;

use crate::steer::cost::{Candidate, Terrain, path, rest};
use crate::steer::{NodeId, Owner};

/// Classes that wait: a chain between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Where its packets come from.
    pub ingress: NodeId,
    /// Where they leave.
    pub egress: NodeId,
    /// Services of its stages.
    pub stages: Vec<u32>,
    /// Its weight.
    pub weight: f64,
}

/// A core that is free, and the price of a bit there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Node, and the core's number there.
    pub core: Owner,
    /// Price.
    pub price: f64,
}

/// Returns the place at which an instance of a service lowers the cost of what waits most. `known` are
/// the instances of each service; stages without one are passed over. Ties go to the lower node. `None`
/// without a place in reach.
#[must_use]
pub fn best<T: Terrain>(
    terrain: &T,
    service: u32,
    places: &[Place],
    waiting: &[Waiting],
    known: impl Fn(u32) -> Vec<Candidate>,
) -> Option<Place> {
    let cost = |place: &Place| -> f64 {
        let own = [Candidate { owner: place.core, price: place.price }];
        let of = |class: &Waiting| {
            let of_stage = |&stage: &u32| {
                let mut candidates = known(stage);
                if stage == service {
                    candidates.extend(own);
                }
                candidates
            };
            let stages: Vec<Vec<Candidate>> = class.stages.iter().map(of_stage).collect();
            let stages: Vec<&[Candidate]> =
                stages.iter().map(Vec::as_slice).filter(|stage| !stage.is_empty()).collect();
            class.weight * way(terrain, &stages, class)
        };
        waiting.iter().filter(|class| class.stages.contains(&service)).map(of).sum()
    };
    let costs = places.iter().map(|place| (place, cost(place)));
    let finite = costs.filter(|(_, cost)| cost.is_finite());
    let best = finite.min_by(|(one, a), (other, b)| a.total_cmp(b).then(one.core.cmp(&other.core)));
    best.map(|(place, _)| *place)
}

/// Cost of a class's whole way, hops counted too: where nothing has a price yet, the shortest is best.
fn way<T: Terrain>(terrain: &T, stages: &[&[Candidate]], class: &Waiting) -> f64 {
    let rest = rest(terrain, crate::steer::cost::Lookahead::Chain, stages, class.egress);
    let first = stages.first().zip(rest.first()).map(|(stage, rest)| {
        let through =
            |(one, rest): (&Candidate, &f64)| terrain.price(class.ingress, one.owner.node) + one.price + rest;
        stage.iter().zip(rest).map(through).fold(f64::INFINITY, f64::min)
    });
    let Some(owners) = path(terrain, stages, class.ingress, class.egress) else { return f64::INFINITY };
    let nodes = owners.iter().map(|owner| owner.node).chain([class.egress]);
    let mut from = class.ingress;
    let hops: f64 = nodes.map(|node| terrain.hops(core::mem::replace(&mut from, node), node)).sum();
    first.unwrap_or(0.0) + hops
}
