//! Models of the protocols that drive the machines themselves, and search for a run that breaks an invariant.

mod check;
mod explore;
mod frame;
#[cfg(feature = "mutants")]
mod mutants;
mod node;
mod step;
mod storm;
mod world;
