//! Choices of a network of nodes, as those who apply them see them.

mod chain_ids;
mod elastic;
#[path = "../../src/snapshot.rs"]
mod snapshot;
mod steer;
mod view;
