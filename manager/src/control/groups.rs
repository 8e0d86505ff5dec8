//! Control groups of NFs: each holds a process, gives it a weight, and ends it with all that it started.
//!
//! The kernel's side is [`headgate_host::cgroup`] (decision 27). This file decides which group a process
//! gets, and when it is given back: a group is made before its process and is of that process alone, so
//! nothing of one process is ever taken for something of the next.

use std::collections::{BTreeMap, VecDeque};

use headgate_host::Pid;
use headgate_host::cgroup::{
    Controller, DomainGroup, GroupError, GroupTree, Hierarchy, Limits, NfGroup, NfGroupPlan, all_that_is,
};
use headgate_host::environment;

use super::instance::Seat;
use super::ledger::Ledger;
use crate::config::Config;
use crate::config::model::DomainId;

/// Weight of a domain with one part, in parts of 10,000. Our choice: parts go from 1 to 100, and the kernel's
/// weights to 10,000.
const PART: u32 = 100;

/// Part of the machine's memory that an instance may have whose file names none. Our choice: no NF takes it
/// all, and no honest one meets the limit.
const MEMORY_PART: u64 = 2;

/// Most groups removed at once. Our choice: a millisecond's work, and ten samples a second take more of them
/// than any crash loop leaves.
const SWEPT_MAX: usize = 4;

/// Control groups of a manager.
pub struct NfGroups {
    tree: GroupTree,
    /// Groups of each trust domain on each core.
    domains: BTreeMap<(u32, DomainId), DomainGroup>,
    /// Memory limit of an instance whose file names none.
    memory_bytes: Option<u64>,
    /// Number of groups made so far, which is in their names.
    made: u64,
    /// Groups of processes that have ended, which are removed by and by.
    leaving: VecDeque<NfGroup>,
}

impl NfGroups {
    /// Makes the group tree of the manager of this name, in as many hierarchies as there are for it.
    pub fn make(manager: &str, ledger: &mut Ledger) -> Self {
        Self::in_hierarchies(&Hierarchy::all(), manager, ledger)
    }

    /// Makes the group tree in these hierarchies.
    pub(super) fn in_hierarchies(hierarchies: &[Hierarchy], manager: &str, ledger: &mut Ledger) -> Self {
        let name = format!("headgate-{manager}-{}", std::process::id());
        let tree = GroupTree::make(&name, hierarchies, &mut |undo| ledger.before_changing(undo));
        let memory_bytes = environment::memory_bytes().map(|bytes| bytes / MEMORY_PART);
        Self { tree, domains: BTreeMap::new(), memory_bytes, made: 0, leaving: VecDeque::new() }
    }

    /// Returns what groups cannot limit on this machine, as one sentence; `None` when they limit everything.
    pub fn lacks(&self) -> Option<String> {
        all_that_is(self.tree.missing())
    }

    /// Returns the reason why no weights are set, if that is so.
    pub fn unweighed(&self) -> Option<String> {
        let missing = self.tree.missing().iter().find(|missing| missing.controller == Controller::Cpu);
        missing.map(ToString::to_string)
    }

    /// Makes the group of a process of an instance. A guest, which is not ours to end, is let go, with all
    /// that it started, when the group is given up or we are killed: back to where it was. If it is a
    /// real-time task it gets no group, because the one of all real-time tasks ends with us.
    ///
    /// # Errors
    /// [`GroupError`]; nothing is left behind then.
    pub fn group(
        &mut self,
        seat: &Seat,
        guest: Option<Pid>,
        config: &Config,
        ledger: &mut Ledger,
    ) -> Result<NfGroup, GroupError> {
        let real_time = seat.nf.runs_in_real_time(config.scheduler.mode);
        if guest.is_some() && real_time {
            return Ok(NfGroup::default());
        }
        let group = self.make_group(seat, guest, real_time, config)?;
        if guest.is_some() {
            group.letting_go().into_iter().for_each(|undo| ledger.before_changing(undo));
        }
        Ok(group)
    }

    fn make_group(
        &mut self,
        seat: &Seat,
        guest: Option<Pid>,
        real_time: bool,
        config: &Config,
    ) -> Result<NfGroup, GroupError> {
        let place = (seat.core, seat.nf.domain);
        if !self.domains.contains_key(&place) {
            let domain = &config.domains[seat.nf.domain.index()];
            let group = self.tree.domain(seat.core, &domain.name)?;
            group.weigh(domain.part * PART)?;
            self.domains.insert(place, group);
        }
        self.made += 1;
        let plan = NfGroupPlan {
            name: format!("{}.{}", self.made, seat.name),
            core: Some(seat.core),
            limits: Limits {
                processes: Some(seat.nf.confinement.processes),
                memory_bytes: seat.nf.confinement.memory_bytes.or(self.memory_bytes),
                share: None,
            },
            real_time,
            guest,
        };
        let made = NfGroup::make(&self.domains[&place], &plan);
        if made.is_err() {
            // Somebody may have removed it; the next one is made anew.
            self.domains.remove(&place);
        }
        made
    }

    /// Allows one of our threads to be a real-time task.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn admit_real_time(&self, thread: Pid) -> Result<(), GroupError> {
        self.tree.admit_real_time(thread)
    }

    /// Gives all groups together the weight of this many processes, each of so many outside: with 1 NFs get
    /// as much as in no group.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn set_members(&self, members: usize, each: u32) -> Result<(), GroupError> {
        self.tree.set_members(members.max(1), each)
    }

    /// Takes back the group of a process that has ended. One of ours is removed by [`NfGroups::sweep`]: the
    /// kernel does so one after the other, and behind processes that enter groups, and the successor does not
    /// wait for that.
    pub fn take_back(&mut self, group: NfGroup, ours: bool, ledger: &mut Ledger) {
        if !ours {
            let letting_go = group.letting_go();
            return ledger.take_back(|undo| letting_go.contains(undo));
        }
        self.leaving.push_back(group);
    }

    /// Removes some of the groups that were taken back. Processes that are left in one are killed, and it is
    /// tried again in its turn.
    pub fn sweep(&mut self) {
        for _ in 0..SWEPT_MAX.min(self.leaving.len()) {
            let Some(group) = self.leaving.pop_front() else { return };
            // What cannot be ended now is tried again.
            let _ = group.kill();
            if group.remove().is_err() {
                self.leaving.push_back(group);
            }
        }
    }
}
