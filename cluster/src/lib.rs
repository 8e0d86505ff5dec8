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
//! - `publish`: a file for all nodes, given to them by an operator, and `text`, where its text
//!   lies;
//! - `follow`: what a node does with it;
//! - [`forecast`]: what nodes would do under a demand, by the same decisions;
//! - `manager`: what is asked of the manager;
//! - `status`: what an operator is told of the store;
//! - `agent`: the thread that does all of it at a node, beside a manager that knows nothing of a store.
//!
//! The decisions are in [`headgate_decide::elastic`]. Packets, prices and steering go on without a store:
//! nothing starts or ends by need meanwhile.

mod agent;
mod follow;
pub mod forecast;
mod keys;
mod manager;
mod node;
mod orchestrator;
mod publish;
mod status;
mod store;
mod text;

pub use agent::{Agent, AgentError};
pub use manager::Manager;
pub use publish::{NodeAnswer, Proposal, PublishError, Publisher};
