//! Named scenarios: experiments of the papers as scenes, one for each policy and mode, beside what was
//! measured on a machine (`docs/results/`) and what the papers have.

mod bed;
mod hop;
mod large;
mod linked;
mod nfvnice;
mod scc;
mod unis;

pub use bed::Scenario;
pub use large::{STUDY_MODES, possible, studied};
pub use linked::linked;

/// Returns the scenarios that take minutes.
#[must_use]
pub fn long() -> Vec<Scenario> {
    vec![large::large()]
}

/// Returns every other scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![
        hop::hop(),
        nfvnice::chain(),
        nfvnice::fairness(),
        nfvnice::dynamic(),
        unis::uniform(),
        scc::policy(),
    ]
}

/// Returns the scenario of a name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().chain(long()).find(|scenario| scenario.name == name)
}
