//! Networks of nodes at the level of flows, under the prices, the steering and the elasticity of
//! `decide`.
//!
//! A [`NetworkScene`] says what there is; [`run`] returns a [`NetworkReport`], the same to the bit
//! everywhere. What two cores cannot hold is judged here: flows are fluid, links and cores are rates, and
//! packets are not seen.
//!
//! - `scene`: what can be asked; `graph`, `rocketfuel`: nodes, links, routes; `sizes`: of flows;
//! - `rates`: how flows share; `flows`: those under way; `fluid`: when they end;
//! - `ground`: prices along routes in an epoch; `steering`: who gets a flow; `simple`: a baseline;
//! - `instances`: where services are; `world`, `epoch`, `faults`: who acts when; `checker`: what must hold;
//!   `tally`: what was counted;
//! - `prices`: demand of any size for the price solver; `labels`: identifiers of chains and of paths.

mod checker;
mod epoch;
mod faults;
mod flows;
mod fluid;
mod graph;
mod ground;
mod instances;
pub mod labels;
pub mod prices;
mod rates;
pub mod rocketfuel;
mod scene;
mod simple;
mod sizes;
mod steering;
mod tally;
#[cfg(test)]
mod tests;
mod world;

pub use graph::Graph;
pub(crate) use graph::Routes;
pub(crate) use rates::{Bundle, Sharing, rates};
pub use scene::{Failing, Fault, LINK_RATE, Mode, NetworkScene};
pub use tally::NetworkReport;
pub use world::{NetworkRun, run};
