//! New processes for NFs that run: `headgate restart` and `headgate drain`.
//!
//! An instance is replaced as by a new configuration, with the difference that the configuration is the same:
//! the new one becomes ready beside the old one, packets are led to it, and the old one finishes what it has
//! and ends. One instance after the other, so that the others of its NF carry on, and the first new one that
//! does not start stops the rest.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use headgate_api::request::{Applied, NOTHING_TO_CHANGE};
use headgate_decide::units::NfId;

use super::super::instance::Instance;
use super::super::{Control, origin};
use super::{Change, Replacement, failed};
use crate::api::{Answer, RequestError, answer};
use crate::config::model::Nf;
use crate::config::{Config, OnFailure};

impl Control {
    /// Begins to replace the instances of an NF, or one instance.
    pub(in super::super) fn begin_restart(
        &mut self,
        name: &str,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        if self.end_departure(name, &reply) {
            return Ok(());
        }
        self.refuse_while_changing()?;
        let all = self.named(name)?;
        let nf = &all[0].nf;
        refuse_restart(nf)?;
        let workers = self.cores_of_workers();
        let stage = NfId(self.numbers.stages[&nf.name]);
        let is_new =
            |one: &&Replacement| self.instances.vacant(&one.nf, (stage, one.which), &workers).is_none();
        if !self.instances.has_numbers(all.iter().filter(is_new).count()) {
            return Err(failed("there have been too many instances since the start; restart the manager"));
        }
        self.replace_next(all, reply, Vec::new());
        Ok(())
    }

    /// Begins the next replacement. There is one.
    pub(super) fn replace_next(
        &mut self,
        mut rest: VecDeque<Replacement>,
        reply: Sender<Answer>,
        mut summary: Vec<String>,
    ) {
        let Some(Replacement { nf, which, old, name }) = rest.pop_front() else { return };
        summary.push(format!("nf {name} restarted"));
        let new = self.add_some_instances(&nf, which..which + 1);
        if let Some(old) = self.drained(&name) {
            self.instances[old].drained = false;
        }
        let progress = self.begin_progress(std::slice::from_ref(&nf));
        let (config, source) = (self.config.clone(), self.source.clone());
        let old = old.into_iter().collect();
        self.change = Some(Change {
            config,
            source,
            progress,
            new,
            old,
            retired: Vec::new(),
            rest: Some(rest),
            reply,
            summary,
        });
    }

    /// Begins to stop the instances of an NF, or one instance, once they have finished what they have.
    pub(in super::super) fn begin_drain(
        &mut self,
        name: &str,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        self.refuse_while_changing()?;
        let all = self.named(name)?;
        let old: Vec<usize> = all.iter().filter_map(|one| one.old).collect();
        if old.is_empty() {
            let _ = reply.send(answer(&Applied { changes: vec![NOTHING_TO_CHANGE.to_owned()] }));
            return Ok(());
        }
        self.refuse_drain(&all[0].nf, &old)?;
        for &at in &old {
            self.instances[at].drained = true;
        }
        let summary =
            all.iter().filter(|one| one.old.is_some()).map(|one| format!("nf {} drained", one.name));
        let summary = summary.collect();
        let progress = self.begin_progress(&[]);
        let (config, source) = (self.config.clone(), self.source.clone());
        let (new, retired, rest) = Default::default();
        self.change = Some(Change { config, source, progress, new, old, retired, rest, reply, summary });
        Ok(())
    }

    /// Refuses to stop instances of an NF without which its chains would lose every packet.
    fn refuse_drain(&self, nf: &Nf, old: &[usize]) -> Result<(), RequestError> {
        if nf.interfaces().is_some() {
            return Err(failed(
                "an NF on interfaces of the kernel has no other way for their packets; `headgate apply` with its chain \
                 left out ends it",
            ));
        }
        let stays = |one: &Instance| {
            one.seat.nf.name == nf.name && one.life.is_in_service() && !old.contains(&one.seat.number.index())
        };
        let is_spared = nf.on_failure == OnFailure::Bypass || self.is_served_elsewhere(&nf.name);
        if is_spared || self.instances.iter().any(stays) {
            return Ok(());
        }
        Err(failed(&format!(
            "nothing was changed: no other instance of {} is in service, so its chains would lose every packet; give it \
             `on_failure = \"bypass\"` or another instance, or take it out of its chains, with `headgate apply`",
            nf.name
        )))
    }

    /// Returns the instances of this name, of an NF or one of them, in their order; at least one.
    fn named(&self, name: &str) -> Result<VecDeque<Replacement>, RequestError> {
        let mut found = VecDeque::new();
        for nf in &self.config.nfs {
            for which in 0..nf.cores.len() {
                let instance = super::super::instances::name(nf, which);
                if nf.name == name || instance == name {
                    let here = |one: &&Instance| one.seat.name == instance && !one.is_gone();
                    let old = self.instances.iter().find(here).map(|one| one.seat.number.index());
                    found.push_back(Replacement { nf: nf.clone(), which, old, name: instance });
                }
            }
        }
        if found.is_empty() { Err(self.no_such_nf(name)) } else { Ok(found) }
    }

    /// Forgets drained instances of NFs that are replaced, by these new ones, or gone.
    pub(super) fn forget_drained(&mut self, new: &[usize], next: &Config) {
        let replaced: Vec<String> = new.iter().map(|&at| self.instances[at].seat.nf.name.clone()).collect();
        for instance in self.instances.iter_mut().filter(|one| one.drained) {
            let name = &instance.seat.nf.name;
            instance.drained = !replaced.contains(name) && next.nfs.iter().any(|nf| nf.name == *name);
        }
    }

    fn drained(&self, name: &str) -> Option<usize> {
        self.instances.iter().position(|one| one.drained && one.seat.name == name)
    }
}

fn refuse_restart(nf: &Nf) -> Result<(), RequestError> {
    let why = if !origin::writes_to_us(nf) {
        "attaches: whoever started its process restarts it"
    } else if nf.interfaces().is_some() {
        "works on interfaces of the kernel, whose packets two processes cannot share; kill its process, and the next \
         one is started at once"
    } else if nf.state.is_some() {
        "keeps state, which a new process beside it would not have; kill its process, and the next one goes on with \
         the state"
    } else {
        return Ok(());
    };
    Err(failed(&format!("nf {} {why}", nf.name)))
}
