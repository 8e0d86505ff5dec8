//! Costs of instances, with a look ahead over the rest of the chain.

use alloc::vec::Vec;

use super::{NodeId, Owner};

/// Price of a hop off the shortest path, rho. The dissertation has 0.3 to 0.5.
pub const OFF_PATH: f64 = 0.3;

/// How far a node looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookahead {
    /// To the instance: the dissertation's.
    None,
    /// From the instance to the egress, past the other stages.
    Egress,
    /// Over the best instances of all stages that come.
    #[default]
    Chain,
}

/// What lies between nodes. Both are infinite where there is no way.
pub trait Terrain {
    /// Returns the sum of prices of the links of a route.
    fn price(&self, from: NodeId, to: NodeId) -> f64;
    /// Returns the number of links of a route.
    fn hops(&self, from: NodeId, to: NodeId) -> f64;
}

/// A living instance, and the price of a bit there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Which.
    pub owner: Owner,
    /// Its price, P.
    pub price: f64,
}

/// Returns for each stage and each of its candidates what the rest of the chain costs from there: V.
#[must_use]
pub fn rest<T: Terrain>(
    terrain: &T,
    lookahead: Lookahead,
    stages: &[&[Candidate]],
    egress: NodeId,
) -> Vec<Vec<f64>> {
    let mut rest: Vec<Vec<f64>> = Vec::with_capacity(stages.len());
    for position in (0..stages.len()).rev() {
        let beyond = |from: NodeId| match (lookahead, stages.get(position + 1), rest.last()) {
            (Lookahead::None, ..) => 0.0,
            (Lookahead::Chain, Some(next), Some(costs)) => {
                let through =
                    |(one, cost): (&Candidate, &f64)| terrain.price(from, one.owner.node) + one.price + cost;
                next.iter().zip(costs).map(through).fold(f64::INFINITY, f64::min)
            }
            _ => terrain.price(from, egress),
        };
        let of_stage = stages[position].iter().map(|one| beyond(one.owner.node)).collect();
        rest.push(of_stage);
    }
    rest.reverse();
    rest
}

/// Returns the detour to an instance in hops: 0 where it lies on a shortest path.
#[must_use]
pub fn detour<T: Terrain>(terrain: &T, from: NodeId, through: NodeId, egress: NodeId) -> f64 {
    let detour = terrain.hops(from, through) + terrain.hops(through, egress) - terrain.hops(from, egress);
    if detour.is_nan() { f64::INFINITY } else { detour.max(0.0) }
}

/// Returns the cheapest of them and its cost; `None` when none is within reach.
#[must_use]
pub fn cheapest(costs: impl IntoIterator<Item = (Owner, f64)>) -> Option<(Owner, f64)> {
    let finite = costs.into_iter().filter(|(_, cost)| cost.is_finite());
    finite.min_by(|(one, a), (other, b)| a.total_cmp(b).then(one.cmp(other)))
}

/// Returns the cheapest instances of all stages from a node on, one after another, without detours'
/// penalty: the shortest path in the layered graph. `None` when a stage has none within reach.
#[must_use]
pub fn path<T: Terrain>(
    terrain: &T,
    stages: &[&[Candidate]],
    ingress: NodeId,
    egress: NodeId,
) -> Option<Vec<Owner>> {
    let rest = rest(terrain, Lookahead::Chain, stages, egress);
    let mut from = ingress;
    let mut path = Vec::with_capacity(stages.len());
    for (stage, rest) in stages.iter().zip(&rest) {
        let cost = |(one, rest): (&Candidate, &f64)| {
            (one.owner, terrain.price(from, one.owner.node) + one.price + rest)
        };
        let (owner, _) = cheapest(stage.iter().zip(rest).map(cost))?;
        from = owner.node;
        path.push(owner);
    }
    Some(path)
}
