//! Cores that others take, by [`headgate_decide::taken`], and what was said of them.

use std::collections::BTreeMap;

use headgate_decide::record::Entry;
use headgate_decide::taken::{TakenCores, Taker};
use headgate_decide::units::{CoreId, Instant as Moment};

use crate::record::{Recorded, Recorder};
use crate::status::TakenStatus;

/// Cores that others take.
pub struct Taken {
    /// The decision.
    pub decided: Recorded<TakenCores>,
    /// What was said of each core that is taken.
    pub said: BTreeMap<(CoreId, Taker), String>,
}

impl Taken {
    /// Returns one that has seen nothing.
    pub fn new(recorder: &Recorder) -> Self {
        let decided = Recorded::new(recorder, Moment::default(), (), Entry::Taken);
        Self { decided, said: BTreeMap::new() }
    }

    /// Returns the cores that are taken now.
    pub fn status(&self) -> Vec<TakenStatus> {
        let of = |(core, by, part): (CoreId, Taker, f64)| TakenStatus {
            core: core.0.into(),
            by: word(by).to_owned(),
            part,
            what: self.said.get(&(core, by)).cloned().unwrap_or_default(),
        };
        self.decided.taken().map(of).collect()
    }
}

const fn word(by: Taker) -> &'static str {
    match by {
        Taker::Programs => "programs",
        Taker::Hypervisor => "hypervisor",
    }
}
