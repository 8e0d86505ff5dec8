//! Instances of one NF.

use headgate_decide::units::{InstanceId, NfId};

use super::Instances;
use crate::control::instance::Instance;

impl Instances {
    /// Returns the numbers of a stage's instances that packets may be sent to.
    pub fn in_service(&self, stage: NfId) -> Vec<InstanceId> {
        let here = |instance: &&Instance| instance.seat.stage == stage && instance.life.is_in_service();
        self.all.iter().filter(here).map(|instance| instance.seat.number).collect()
    }

    /// Returns the numbers of a stage's instances, by worker.
    pub fn by_worker(&self, stage: NfId, workers: usize) -> Vec<Vec<InstanceId>> {
        let mut all = vec![Vec::new(); workers];
        for instance in self.all.iter().filter(|one| one.seat.stage == stage && !one.is_gone()) {
            all[instance.seat.worker.index()].push(instance.seat.number);
        }
        all
    }

    /// Returns whether all instances at work of an NF take frames that are not cut yet; `None` when none is
    /// at work.
    pub fn take_long(&self, nf: &str) -> Option<bool> {
        let at_work = self.all.iter().filter(|one| one.seat.nf.name == nf && one.is_at_work());
        let takes = |one: &Instance| one.process.as_ref().is_some_and(|process| process.link.takes_long());
        at_work.map(takes).reduce(|all, one| all && one)
    }
}
