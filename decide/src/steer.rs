//! Which instance a flow goes to in a network of nodes, and which flows move.
//!
//! The problem: a node that has a packet of a chain at some position knows the instances of the next NF,
//! near and far, idle and busy. The nearest may be busy, the idlest may lie the other way, and whichever
//! is cheapest now is so for all other nodes too.
//!
//! The intuition: prices of links and cores are in one unit, so a way can be added up. Cost of an
//! instance h of the NF at position k, seen from node i, for a chain that leaves at t:
//!
//! ```text
//! C(h) = mu(i,h) + P(h) + rho (hops(i,h) + hops(h,t) - hops(i,t)) + V(h)
//! ```
//!
//! mu is the sum of link prices, P the price of the instance, and V what the rest of the chain costs from
//! there on, a shortest path in a layered graph ([`cost`]). Workers compute nothing: a table of
//! [`SLOTS`](crate::spread::SLOTS) slots stands between a flow's hash and an instance, filled slot by
//! slot, each to the cheapest, with the price that the slot's own traffic will cause added before the
//! next ([`slots`]). Known flows stay with their instance ([`pins`]); they move when theirs costs more
//! than the cheapest by the width of the band, in two epochs running, an eighth at a time ([`redirect`]).
//!
//! Rejected: everything to the cheapest, which sends all nodes to yesterday's idlest instance (flows take
//! 1.8 times as long in a fluid model, with three times the redirections); one path for each flow from a
//! controller, which has to be asked for each flow.
//!
//! What it refuses to do: split a flow of an NF that keeps state and cannot export it.
//!
//! Source: dissertation, 9.2.2; look-ahead, own effect and hold-down are ours.

pub mod cost;
pub mod pins;
pub mod redirect;
pub mod sharing;
pub mod slots;

/// Node of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeId(pub u32);

/// Instance of an NF on a node. Ties are broken by this order: the lower node, then the lower instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Owner {
    /// Its node.
    pub node: NodeId,
    /// Its number there.
    pub instance: u32,
}
