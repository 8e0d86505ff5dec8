//! Shell around the decisions: it gathers their input from instances and the fabric, and carries out their
//! actions. It decides nothing.
//!
//! - here: events of instances, for all decisions that need them;
//! - [`weights`], [`slices`], [`delays`], [`objectives`], [`taken`]: one shell for each decision;
//! - [`granted`]: policies that NFs ask for.

mod delays;
mod departures;
mod granted;
mod objectives;
mod slices;
mod steering;
mod taken;
mod ways;
mod weights;

use headgate_decide::share::feeds;
use headgate_decide::units::{CoreId, NfId};
use headgate_decide::weights::Event;
use headgate_host::undo::Action;

use super::Control;
use super::instance::Instance;
use crate::config::model::Nf;

impl Control {
    /// Tells all decisions that an instance has a fresh process.
    pub(super) fn begin_policies(&mut self, at: usize) {
        let now = self.now();
        let number = self.instances[at].seat.number;
        self.slices.begin(number);
        let mut actions = Vec::new();
        self.scheduling.begin(now, &self.instances[at].seat, &mut actions);
        self.weigh(now, actions);
    }

    /// Gives a ready process its policy and, where weights are decided here, its group.
    pub(super) fn place(&mut self, at: usize) {
        let (now, number) = (self.now(), self.instances[at].seat.number);
        self.tell_weights(now, Event::Ready(number));
        self.weigh_others(now);
        let instance = &self.instances[at];
        if self.slices.gives(&instance.seat.nf, instance.seat.core) {
            return self.scheduling.note_policy(number, "fifo");
        }
        self.grant_policy(at);
    }

    /// Tells all decisions that an instance's process has ended: from now on none touches it by its number.
    pub(super) fn end_policies(&mut self, at: usize) {
        let (now, instance) = (self.now(), &self.instances[at]);
        let number = instance.seat.number;
        self.granted.forget(number);
        if self.slices.gives(&instance.seat.nf, instance.seat.core) {
            let pid = instance.pid().map(|pid| pid.as_raw_pid());
            self.arrange_slices(Some(number));
            self.ledger
                .take_back(|undo| matches!(undo, Action::Reschedule { pid: of, .. } if Some(*of) == pid));
        }
        self.tell_weights(now, Event::Ended(number));
        self.weigh_others(now);
    }

    /// Notes that chains or instances have changed: which NF feeds which, and what runs where.
    pub(super) fn note_chains(&mut self) {
        let now = self.now();
        let config = &self.config;
        let presses_back = config.scheduler.mode.presses_back();
        let stages: Vec<Vec<NfId>> =
            config.chains.iter().map(|chain| chain.stages.iter().map(|nf| NfId(nf.0)).collect()).collect();
        let runs_on = |nf: NfId, core: CoreId| config.nfs[nf.index()].cores.contains(&core.0.into());
        let mut events = Vec::new();
        for Instance { seat, .. } in self.instances.iter() {
            let core = CoreId(seat.core as u16);
            let chains = || stages.iter().map(Vec::as_slice);
            let feeds = self.nf_id(&seat.nf).is_some_and(|nf| feeds(nf, core, chains(), runs_on));
            let instance = seat.number;
            events.push(Event::Feeds { instance, feeds: presses_back && feeds });
        }
        for event in events {
            self.tell_weights(now, event);
        }
        self.slices.note_change();
    }

    /// Returns the place of an NF in the configuration; `None` when it is of an older one.
    fn nf_id(&self, nf: &Nf) -> Option<NfId> {
        let at = self.config.nfs.iter().position(|other| other.name == nf.name)?;
        Some(NfId(at as u16))
    }
}
