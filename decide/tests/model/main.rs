//! Models of the protocols that drive the machines themselves, and search for a run that breaks an invariant.

mod check;
mod cut;
mod explore;
mod frame;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod outbox;
mod reports;
mod stale;
mod step;
mod storm;
mod world;
