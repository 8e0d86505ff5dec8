//! Nodes that agree in a store on who serves what.
//!
//! An NF whose `instances` is a range is served by so many of its nodes as it is needed. Which, nodes decide
//! by prices, which they tell each other without a store; how many, one of them says for all. Here is what
//! both takes: claims, each of which only one node can make.
//!
//! - `store`: the few operations of etcd that are used;
//! - `keys`: what lies under which key;
//! - `node`: what this node claims and gives up;
//! - `orchestrator`: what the one that was elected says for all;
//! - `agent`: the thread that does both, beside a manager that knows nothing of a store.
//!
//! The decisions are in [`headgate_decide::elastic`]. Packets, prices and steering go on without a store:
//! nothing starts or ends by need meanwhile.

mod agent;
mod keys;
mod node;
mod orchestrator;
mod store;

pub use agent::{Agent, AgentError, Manager};
