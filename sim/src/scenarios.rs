//! Named scenarios: experiments of the papers as scenes, one for each policy and mode, beside what was
//! measured on a machine (`docs/results/`) and what the papers have.

mod bed;
mod nfvnice;
mod unis;

pub use bed::Scenario;

/// Returns every scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![nfvnice::chain(), nfvnice::fairness(), nfvnice::dynamic(), unis::uniform()]
}

/// Returns the scenario of a name.
#[must_use]
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}
