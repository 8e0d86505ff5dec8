//! Instances of one NF: their numbers, their workers, and what they do together.

use headgate_decide::units::{InstanceId, NfId, WorkerId};

use super::{Instances, name};
use crate::config::model::Nf;
use crate::control::instance::Instance;
use crate::fabric::INSTANCES_MAX;

impl Instances {
    /// Returns the place of an instance that is gone, for the next one of the same stage, name, core and
    /// worker.
    pub fn vacant(&self, nf: &Nf, (stage, which): (NfId, usize), workers: &[u32]) -> Option<usize> {
        let (name, core) = (name(nf, which), nf.cores[which]);
        let worker = self.worker_for(core, workers);
        self.all.iter().position(|one| {
            let seat = &one.seat;
            let is_empty = one.process.is_none() && one.spare_process.is_none() && one.standby.is_none();
            let is_same = (seat.stage, seat.core, seat.worker) == (stage, core, worker) && seat.name == name;
            is_same && one.is_gone() && is_empty
        })
    }

    /// Returns whether there are so many numbers that nobody has had.
    pub fn has_numbers(&self, count: usize) -> bool {
        self.all.len() + count <= INSTANCES_MAX
    }

    /// Returns the worker of an instance on a core: the one of that core, if it has one. NFs of one core
    /// yield to each other, so one worker knows all of them; a core without instances is dealt to the worker
    /// that has the fewest.
    pub(super) fn worker_for(&self, core: u32, workers: &[u32]) -> WorkerId {
        let here = |instance: &&Instance| !instance.is_gone() && instance.seat.core == core;
        let of_core = workers.iter().position(|own| *own == core).map(|at| WorkerId(at as u8));
        let load = |worker: &WorkerId| {
            let has = |instance: &&Instance| !instance.is_gone() && instance.seat.worker == *worker;
            self.all.iter().filter(has).count()
        };
        let least = || (0..workers.len() as u8).map(WorkerId).min_by_key(load).unwrap_or_default();
        of_core.or_else(|| self.all.iter().find(here).map(|one| one.seat.worker)).unwrap_or_else(least)
    }

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
