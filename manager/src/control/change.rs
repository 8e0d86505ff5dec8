//! From one configuration to another while traffic runs, losing nothing.
//!
//! Three steps, each waited for:
//! 1. *new NFs start*: instances of added and replaced NFs are launched and become ready. If one fails,
//!    they are removed again and nothing has changed;
//! 2. *the turn*: rules lead to the new chains, flows to the new instances. Chains that are gone or have
//!    changed stay as they are, under their old numbers, until their last packet has left;
//! 3. *old NFs stop*: each returns what it holds and says goodbye.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use headgate_decide::units::{Instant as Moment, Span};
use headgate_path::plan::Chain as PathChain;

use super::{Control, Phase};
use crate::api::{Answer, Refusal};
use crate::config::model::{Chain, ChainIo, Nf, NfIo};
use crate::config::{self, Config};
use crate::layout;
use crate::status::NfState;

/// How long new NFs may take to become ready.
const START_PATIENCE: Span = Span::from_secs(6);
/// The same where black boxes are among them.
const BOX_START_PATIENCE: Span = Span::from_secs(31);
/// How long packets may take to leave chains that are gone.
const DRAIN_PATIENCE: Span = Span::from_secs(2);

enum Step {
    /// These instances must become ready.
    Starting(Vec<usize>),
    /// These chain numbers must run empty.
    Draining(Vec<u16>),
    /// These instances must end.
    Stopping,
}

/// A change under way.
pub struct Change {
    config: Config,
    /// Instances that will be gone.
    old: Vec<usize>,
    step: Step,
    until: Moment,
    reply: Sender<Answer>,
    summary: Vec<String>,
}

/// What differs between two configurations.
struct Difference {
    /// Instances to end.
    old: Vec<usize>,
    /// NFs to start.
    new: Vec<Nf>,
    /// The same for people.
    summary: Vec<String>,
}

fn failed(message: String) -> Refusal {
    Refusal::failed(message)
}

impl Control {
    /// Checks a configuration and begins to change to it.
    pub(super) fn begin_change(
        &mut self,
        name: &str,
        text: &str,
        reply: Sender<Answer>,
    ) -> Result<(), Refusal> {
        if self.change.is_some() {
            return Err(failed(
                "another configuration is being applied; try again when it is done".to_owned(),
            ));
        }
        if self.phase != Phase::Serving {
            return Err(failed("the manager is stopping".to_owned()));
        }
        // What this manager has reserved itself is not lacking to its next configuration.
        let mut machine = config::Machine::observe();
        let reserved: usize = self.fabric.regions.iter().map(|home| home.region.memory().bytes()).sum();
        machine.memory_bytes += reserved as u64;
        machine.hugepages_free += reserved as u64 >> 21;
        let loaded = config::parse(name, text, &self.settings.catalog, &machine)
            .map_err(|mistakes| Refusal { code: 4, message: mistakes.to_string() })?;
        let next = loaded.config;
        self.refuse_fixed(&next)?;
        self.prepare_reception(&next).map_err(failed)?;
        let Difference { old, new, summary } = self.compare(&next)?;
        for nf in &new {
            if !self.numbers.stages.contains_key(&nf.name) {
                self.numbers.stages.insert(nf.name.clone(), self.fabric.parts.stages.len() as u16);
                self.fabric.parts.stages.push(Some(layout::stage(nf)));
            }
        }
        let started = new.iter().flat_map(|nf| self.add_instances(nf)).collect();
        let boxes = new.iter().any(|nf| nf.black_box.is_some());
        let until = self.now() + if boxes { BOX_START_PATIENCE } else { START_PATIENCE };
        self.change =
            Some(Change { config: next, old, step: Step::Starting(started), until, reply, summary });
        Ok(())
    }

    /// What cannot change while the manager runs.
    fn refuse_fixed(&self, next: &Config) -> Result<(), Refusal> {
        let old = &self.config;
        let fixed = [
            ("[manager]", old.manager == next.manager),
            ("[memory]", old.memory == next.memory),
            ("[flows]", old.flows == next.flows),
            ("[scheduler]", old.scheduler == next.scheduler),
            ("[[domain]]", old.domains == next.domains),
            ("[[port]]", old.ports == next.ports),
        ];
        // Old and new NFs of one interface would both have its packets.
        fn on_interfaces(config: &Config) -> (Vec<Chain>, Vec<Nf>) {
            let chains = config.chains.iter().filter(|chain| chain.io.is_some()).cloned();
            let chains =
                chains.map(|chain| Chain { io: chain.io.map(|io| ChainIo { batch: 0, ..io }), ..chain });
            (chains.collect(), config.nfs.iter().filter(|nf| nf.io.is_some()).map(but_batch).collect())
        }
        let stay = on_interfaces(old) == on_interfaces(next);
        let fixed = fixed.into_iter().chain([("[[chain]] with `io` but its `batch`, and its NFs,", stay)]);
        let changed: Vec<&str> = fixed.filter(|(_, same)| !same).map(|(what, _)| what).collect();
        if changed.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            code: 4,
            message: format!(
                "{} cannot change while the manager runs; NFs, chains and rules can. For the rest: \
                 `headgate down`, then `headgate up FILE`",
                changed.join(", ")
            ),
        })
    }

    /// What is to end and what to start.
    fn compare(&self, next: &Config) -> Result<Difference, Refusal> {
        let before: HashMap<&str, &Nf> = self.config.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
        let after: HashMap<&str, &Nf> = next.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
        let mut summary = Vec::new();
        let mut new = Vec::new();
        for nf in &next.nfs {
            match before.get(nf.name.as_str()) {
                None => summary.push(format!("nf {} added", nf.name)),
                Some(old) if but_batch(old) != but_batch(nf) => {
                    summary.push(format!("nf {} replaced", nf.name))
                }
                Some(old) => {
                    if let Some(io) = nf.io.as_ref().filter(|_| **old != *nf) {
                        summary.push(format!("nf {}: {} packets a call", nf.name, io.batch));
                    }
                    continue;
                }
            }
            new.push(nf.clone());
        }
        let stays =
            |nf: &Nf| after.get(nf.name.as_str()).is_some_and(|next| but_batch(next) == but_batch(nf));
        for nf in self.config.nfs.iter().filter(|nf| !after.contains_key(nf.name.as_str())) {
            summary.push(format!("nf {} removed", nf.name));
        }
        let old = self.instances.iter().filter(|instance| !instance.is_gone() && !stays(&instance.nf));
        let old = old.map(|instance| instance.number as usize).collect();
        let chains = self.fabric.parts.chains.len() + next.chains.len();
        if chains > self.fabric.chains_max() {
            return Err(failed(format!(
                "this manager was started with room for {} chains, changed ones included; restart it with the new file",
                self.fabric.chains_max()
            )));
        }
        Ok(Difference { old, new, summary })
    }

    /// Goes on with a change, if there is one.
    pub(super) fn tend_change(&mut self) {
        let Some(mut change) = self.change.take() else { return };
        let late = self.now() >= change.until;
        match &change.step {
            Step::Starting(new) => {
                // One that comes by itself is as ready as it will be before somebody starts it.
                let ready =
                    |at: &usize| matches!(self.instances[*at].state, NfState::Running | NfState::Awaited);
                if new.iter().all(ready) {
                    self.turn(&mut change);
                } else if let Some(&at) =
                    new.iter().find(|&&at| self.instances[at].restart.failures() > 0 || late)
                {
                    return self.give_up(&change, new, at);
                }
            }
            Step::Draining(chains) => {
                // A worker that has not read the new plan yet may let packets into an empty chain.
                let empty = self.fabric.is_current()
                    && chains.iter().all(|&chain| self.chain_counts(chain).in_flight() == 0);
                if empty || late {
                    for &chain in chains {
                        self.fabric.parts.chains[chain as usize] = None;
                    }
                    self.fabric.publish();
                    for &at in &change.old {
                        self.remove_instance(at);
                    }
                    change.step = Step::Stopping;
                }
            }
            Step::Stopping => {
                if change.old.iter().all(|&at| self.instances[at].is_gone()) {
                    return self.finish(change);
                }
            }
        }
        self.change = Some(change);
    }

    fn give_up(&mut self, change: &Change, new: &[usize], at: usize) {
        let instance = &self.instances[at];
        let why = instance.last_failure.clone().unwrap_or_else(|| "it was not ready in time".to_owned());
        let message = format!("nothing was changed: the new {} did not start: {why}", instance.name);
        for &at in new {
            self.remove_instance(at);
        }
        let _ = change.reply.send(Err(failed(message)));
    }

    /// The turn: from now on packets take the new ways.
    fn turn(&mut self, change: &mut Change) {
        let next = &change.config;
        let mut retired = Vec::new();
        let mut chains = HashMap::new();
        for chain in layout::path_chains(next) {
            let path = layout::path_chain(next, chain, &self.numbers);
            let old = self.numbers.chains.remove(&chain.name);
            if floor_of(&self.config, &chain.name) != chain.rate_floor && old.is_some() {
                change.summary.push(format!("chain {}: throughput floor changed", chain.name));
            }
            let same = old.filter(|&number| is_same(&self.fabric.parts.chains[number as usize], &path));
            if let Some(number) = same {
                let old = &mut self.fabric.parts.chains[number as usize];
                if old.as_ref().is_some_and(|old| old.delay_bound_us != path.delay_bound_us) {
                    change.summary.push(format!("chain {}: delay bound changed", chain.name));
                    *old = Some(path.clone());
                }
            }
            let number = same.unwrap_or_else(|| {
                change.summary.push(format!(
                    "chain {} {}",
                    chain.name,
                    if old.is_some() { "changed" } else { "added" }
                ));
                self.fabric.parts.chains.push(Some(path));
                (self.fabric.parts.chains.len() - 1) as u16
            });
            if same.is_none() {
                retired.extend(old);
            }
            chains.insert(chain.name.clone(), number);
        }
        for (name, number) in self.numbers.chains.drain() {
            change.summary.push(format!("chain {name} removed"));
            retired.push(number);
        }
        self.numbers.chains = chains;
        self.fabric.parts.rules = layout::rules(next, &self.numbers);
        self.fabric.parts.generation += 1;
        for nf in &next.nfs {
            let stage = self.numbers.stages[&nf.name] as usize;
            if let Some(stage) = self.fabric.parts.stages[stage].as_mut() {
                stage.on_failure = layout::stage(nf).on_failure;
            }
        }
        self.lead_away_from(&change.old);
        self.config = next.clone();
        self.order_batches();
        self.note_feeders();
        self.turns.stale = true;
        change.until = self.now() + DRAIN_PATIENCE;
        change.step = Step::Draining(retired);
    }

    /// Tells NFs on interfaces how many packets are the most of one call from now on.
    fn order_batches(&mut self) {
        for instance in &mut self.instances {
            let next = self.config.nfs.iter().find(|nf| nf.name == instance.nf.name);
            let Some((old, next)) = instance.nf.io.as_mut().zip(next.and_then(|nf| nf.io.as_ref())) else {
                continue;
            };
            if std::mem::replace(&mut old.batch, next.batch) != next.batch
                && let Some(side) = instance.process.as_ref().and_then(|process| process.side.as_ref())
            {
                // Relaxed: a number that stands for itself.
                side.orders().call_batch.store(next.batch, Ordering::Relaxed);
            }
        }
    }

    /// Flows go to instances other than these, where their stage has others.
    fn lead_away_from(&mut self, old: &[usize]) {
        for stage in self.fabric.parts.stages.iter_mut().flatten() {
            let rest: Vec<_> =
                stage.running.iter().copied().filter(|&number| !old.contains(&number.index())).collect();
            if !rest.is_empty() && rest.len() < stage.running.len() {
                stage.set_running(rest);
            }
        }
        self.fabric.publish();
    }

    fn finish(&mut self, change: Change) {
        let still: Vec<&str> = self.config.nfs.iter().map(|nf| nf.name.as_str()).collect();
        let gone: Vec<String> =
            self.numbers.stages.keys().filter(|name| !still.contains(&name.as_str())).cloned().collect();
        for name in gone {
            if let Some(number) = self.numbers.stages.remove(&name) {
                self.fabric.parts.stages[number as usize] = None;
            }
        }
        self.fabric.publish();
        let mut summary = change.summary;
        if summary.is_empty() {
            summary.push("nothing to change".to_owned());
        }
        self.log("manager", format!("configuration applied: {}", summary.join(", ")));
        // Whoever asked may have given up.
        let _ = change.reply.send(Ok(serde_json::json!({ "changes": summary })));
    }
}

fn floor_of(config: &Config, name: &str) -> Option<u64> {
    config.chains.iter().find(|chain| chain.name == name)?.rate_floor
}

/// An NF but for the packets of one call, which it changes by itself.
fn but_batch(nf: &Nf) -> Nf {
    Nf { io: nf.io.clone().map(|io| NfIo { batch: 0, ..io }), ..nf.clone() }
}

fn is_same(old: &Option<PathChain>, new: &PathChain) -> bool {
    old.as_ref().is_some_and(|old| old.stages == new.stages && old.exit == new.exit)
}
