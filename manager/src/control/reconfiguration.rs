//! Change from one configuration to another while traffic runs, losing nothing.
//! [`headgate_decide::reconfigure`] decides what is waited for, and for how long; the difference is worked
//! out here before anything changes, and then carried out.

mod difference;
mod ports;
mod replace;
mod rules;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use headgate_api::request::{Applied, NOTHING_TO_CHANGE};
use headgate_decide::lifecycle::State;
use headgate_decide::reconfigure::{Action, Observation, Reconfiguration, Step};
use headgate_decide::units::ChainId;
use headgate_path::plan::{Across, Chain as PathChain, Share};

use super::Control;
use super::instance::Instance;
use crate::api::{Answer, RequestError, answer};
use crate::config::model::{Link, Nf};
use crate::config::{Config, Machine};
use crate::layout;
use crate::status::EventCode;

/// Change of configuration that is under way.
pub struct Change {
    config: Config,
    /// The text that the configuration was read from.
    source: Source,
    progress: Reconfiguration,
    /// Instances that become ready first.
    new: Vec<usize>,
    /// Instances that are to end.
    old: Vec<usize>,
    /// Chains that run empty after the switch-over.
    retired: Vec<u16>,
    /// Instances to be replaced after this one, each as a change of its own; `None` for other changes.
    rest: Option<VecDeque<Replacement>>,
    reply: Sender<Answer>,
    summary: Vec<String>,
}

/// Instance to be replaced.
struct Replacement {
    nf: Nf,
    /// Which of its NF's instances.
    which: usize,
    /// The one that runs; `None` where it was drained.
    old: Option<usize>,
    name: String,
}

/// Difference between the configuration in force and the next one.
struct Difference {
    next: Config,
    /// Names of NFs whose instances end.
    ended: Vec<String>,
    /// NFs to start.
    new: Vec<Nf>,
    /// Description of the difference, for people.
    summary: Vec<String>,
}

/// Text of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Name of its file; relative paths lead from its folder.
    pub name: String,
    /// The text.
    pub text: String,
    /// Whether a rule was added or deleted since the file was read.
    pub edited: bool,
}

impl Control {
    /// Checks a configuration and begins to change to it.
    pub(super) fn begin_change(&mut self, source: Source, reply: Sender<Answer>) -> Result<(), RequestError> {
        self.refuse_while_changing()?;
        let Difference { next, ended, new, summary } = self.difference(&source)?;
        self.prepare_reception(&next).map_err(RequestError::failed)?;
        // Where it cannot leave the core of a new NF, the weight of NFs says so.
        let _ = crate::keep_off(&next);
        let ends = |instance: &&Instance| !instance.is_gone() && ended.contains(&instance.seat.nf.name);
        let old = self.instances.iter().filter(ends).map(|instance| instance.seat.number.index()).collect();
        for nf in &new {
            if !self.numbers.stages.contains_key(&nf.name) {
                self.numbers.stages.insert(nf.name.clone(), self.fabric.parts.stages.len() as u16);
                self.fabric.parts.stages.push(Some(layout::stage(nf)));
            }
        }
        layout::add_stages_elsewhere(&next, &mut self.numbers, &mut self.fabric.parts);
        let started = new.iter().flat_map(|nf| self.add_instances(nf)).collect();
        let progress = self.begin_progress(&new);
        let (retired, rest) = Default::default();
        self.change =
            Some(Change { config: next, source, progress, new: started, old, retired, rest, reply, summary });
        Ok(())
    }

    /// Begins the steps of a change that starts these NFs.
    fn begin_progress(&self, new: &[Nf]) -> Reconfiguration {
        Reconfiguration::begin(self.now(), new.iter().any(Nf::is_external))
    }

    fn refuse_while_changing(&self) -> Result<(), RequestError> {
        if let Some(group) = self.config.node.as_ref().and_then(|node| node.groups.first()) {
            let message = format!(
                "this node works for group `{}`, which goes by the file that it began with: change the file of all \
                 nodes and start them anew, the standby first",
                group.name
            );
            return Err(failed(&message));
        }
        if self.change.is_some() {
            return Err(failed("another configuration is being applied; try again when it is done"));
        }
        if !self.end.is_serving() {
            return Err(failed("the manager is stopping"));
        }
        Ok(())
    }

    /// Returns the machine as the next configuration finds it: resources that this manager has reserved count
    /// as free.
    fn machine(&self) -> Machine {
        let mut machine = Machine::observe();
        let reserved: usize = self.fabric.regions.iter().map(|home| home.region.memory().bytes()).sum();
        machine.memory_bytes += reserved as u64;
        machine.hugepages_free += reserved as u64 >> 21;
        machine
    }

    fn refuse_too_many_chains(&self, next: &Config) -> Result<(), RequestError> {
        let most = self.fabric.chains_max();
        if self.fabric.parts.chains.len() + next.chains.len() <= most {
            return Ok(());
        }
        Err(RequestError::failed(format!(
            "this manager was started with room for {most} chains, changed ones included; restart it with the new file"
        )))
    }

    /// Opens the reception for NFs that attach, if `config` has some, and sets whether other users may
    /// connect to it.
    fn prepare_reception(&mut self, config: &Config) -> Result<(), String> {
        match &self.reception {
            Some(reception) => reception.serve(config).map_err(|error| error.to_string()),
            None => {
                self.reception = super::Reception::open(config).map_err(|error| error.to_string())?;
                Ok(())
            }
        }
    }

    /// Goes on with a change, if there is one.
    pub(super) fn tend_change(&mut self) {
        let Some(mut change) = self.change.take() else { return };
        let seen = self.observe_change(&change);
        match change.progress.poll(self.now(), seen) {
            Some(Action::GiveUp) => return self.give_up(&change),
            Some(Action::SwitchOver) => self.switch_over(&mut change),
            Some(Action::StopOld) => self.stop_old(&change),
            Some(Action::Finish) => return self.finish(change),
            None => {}
        }
        self.change = Some(change);
    }

    fn observe_change(&self, change: &Change) -> Observation {
        let new = || change.new.iter().map(|&at| &self.instances[at]);
        // An NF that attaches is as ready as it will be before somebody starts it.
        let is_ready = |one: &Instance| matches!(one.state(), State::Running | State::Awaited);
        let is_empty = |&chain: &u16| self.fabric.chain_counts(ChainId(chain)).in_flight() == 0;
        // Counting chains takes time, and matters in one step alone.
        let drains = change.progress.step() == Step::Draining;
        Observation {
            new_are_ready: new().all(is_ready),
            new_has_failed: new().any(|one| one.life.failures() > 0),
            // A worker that has not read the new plan yet may let packets into an empty chain.
            gone_are_empty: drains && self.fabric.is_current() && change.retired.iter().all(is_empty),
            old_are_gone: change.old.iter().all(|&at| self.instances[at].is_gone()),
        }
    }

    /// Removes the new instances again, and answers the request with the one that failed.
    fn give_up(&mut self, change: &Change) {
        let new = || change.new.iter().map(|&at| &self.instances[at]);
        let blamed = new()
            .find(|one| one.life.failures() > 0)
            .or_else(|| new().find(|one| !matches!(one.state(), State::Running | State::Awaited)));
        let name = blamed.map_or("NF", |one| one.seat.name.as_str());
        let why = blamed.and_then(|one| one.last_failure.as_deref()).unwrap_or("it was not ready in time");
        let done = match (&change.rest, change.summary.split_last()) {
            (Some(_), Some((_, done))) if !done.is_empty() => format!("only so far: {}", done.join(", ")),
            _ => "nothing was changed".to_owned(),
        };
        let message = format!("{done}: the new {name} did not start: {why}");
        let code = if blamed.is_some_and(|one| one.state() == State::Failed) { 4 } else { 1 };
        for &at in &change.new {
            self.with_instances(|instances, ground, effects| instances.remove(at, ground, effects));
        }
        let _ = change.reply.send(Err(RequestError { code, message }));
    }

    /// Makes packets take the ways of the new configuration from now on.
    fn switch_over(&mut self, change: &mut Change) {
        self.number_chains(change);
        let next = &change.config;
        let rules = layout::rules(next, &self.numbers);
        self.keep_hits(&rules, next);
        self.number_shares(change);
        self.fabric.parts.rules = rules;
        self.fabric.parts.generation += 1;
        for nf in &next.nfs {
            let stage = self.numbers.stages[&nf.name] as usize;
            if let Some(stage) = self.fabric.parts.stages[stage].as_mut() {
                stage.on_failure = layout::stage(nf).on_failure;
            }
        }
        self.lead_away_from(&change.old);
        // One that is restarted leaves the others of its NF as they are.
        if change.rest.is_none() {
            self.forget_drained(&change.new, &change.config);
        }
        self.config = next.clone();
        self.source = change.source.clone();
        self.order_batches();
        self.note_chains();
        // What they refused may be there now: a chain, a file; and an operator who applies a file wants it to
        // work.
        let again =
            self.with_instances(|instances, ground, effects| instances.retry(&change.old, ground, effects));
        change.summary.extend(again.into_iter().map(|name| format!("nf {name} started again")));
    }

    /// Gives the chains of the next configuration their numbers. One that stays keeps its own; those that are
    /// gone or have changed stay as they are, under their old numbers, until their last packet has left.
    fn number_chains(&mut self, change: &mut Change) {
        let next = &change.config;
        let mut chains = HashMap::new();
        for chain in layout::path_chains(next) {
            let path = layout::path_chain(next, chain, &self.numbers, &mut self.fabric.parts);
            let old = self.numbers.chains.remove(&chain.name);
            let same = old.filter(|&number| is_same(&self.fabric.parts.chains[number as usize], &path));
            let number = match same {
                Some(number) => {
                    let old = &mut self.fabric.parts.chains[number as usize];
                    *old = Some(path);
                    number
                }
                None => {
                    change.retired.extend(old);
                    self.fabric.parts.chains.push(Some(path));
                    (self.fabric.parts.chains.len() - 1) as u16
                }
            };
            chains.insert(chain.name.clone(), number);
        }
        change.retired.extend(self.numbers.chains.drain().map(|(_, number)| number));
        self.numbers.chains = chains;
        self.take_paths(&change.retired);
    }

    /// Makes the tables of stages that several nodes serve; flows that are known stay where they are. Chains
    /// on their way out keep theirs.
    fn number_shares(&mut self, change: &Change) {
        let parts = &self.fabric.parts;
        let of = |share: &Share| {
            let chain = parts.chains.get(share.chain.index())?.as_ref()?;
            let stage = parts.stages.get(share.stage.index())?.as_ref()?;
            // With its nodes, where it is none of this one's.
            let nf = stage.name.split('@').next().unwrap_or_default();
            Some((chain.name.clone(), nf.to_owned(), usize::from(share.position)))
        };
        let known: HashMap<_, _> =
            parts.shares.iter().filter_map(|share| Some((of(share)?, share.clone()))).collect();
        let before = |chain: &str, position: usize| {
            let chain = change.config.chains.iter().find(|one| one.name == chain)?;
            let nf = &chain.across.as_ref()?.stages.get(position)?.nf;
            known.get(&(chain.name.clone(), nf.clone(), position)).cloned()
        };
        let mut shares = layout::shares(&change.config, &self.numbers, before);
        let is_retired = |share: &&Share| change.retired.contains(&share.chain.0);
        shares.extend(parts.shares.iter().filter(is_retired).cloned());
        self.fabric.parts.shares = shares;
        self.steering.map = None;
    }

    /// Takes chains their service paths: what still comes by these takes the chains that have them now.
    fn take_paths(&mut self, retired: &[u16]) {
        for &chain in retired {
            if let Some(chain) = self.fabric.parts.chains[chain as usize].as_mut() {
                chain.path = None;
                // What it has goes on.
                chain.across = chain.across.map(|across| Across { enters: false, ..across });
            }
        }
    }

    /// Sets the largest batch of one call, for NFs on interfaces.
    fn order_batches(&mut self) {
        for instance in self.instances.iter_mut() {
            let next = self.config.nfs.iter().find(|nf| nf.name == instance.seat.nf.name);
            let Some(batch) = next.and_then(Nf::interfaces).map(|interfaces| interfaces.batch) else {
                continue;
            };
            let Link::Interfaces(old) = &mut instance.seat.nf.link else { continue };
            if std::mem::replace(&mut old.batch, batch) != batch
                && let Some(side) = instance.process.as_ref().and_then(|process| process.link.side())
            {
                // Relaxed: a number that stands for itself.
                side.orders().call_batch.store(batch, Ordering::Relaxed);
            }
        }
    }

    /// Leads flows to instances other than these, where their stage has others.
    fn lead_away_from(&mut self, old: &[usize]) {
        for stage in self.fabric.parts.stages.iter_mut().flatten() {
            let rest: Vec<_> =
                stage.running.iter().copied().filter(|number| !old.contains(&number.index())).collect();
            if !rest.is_empty() && rest.len() < stage.running.len() {
                stage.set_running(rest);
            }
        }
        self.fabric.publish();
    }

    /// Forgets chains that are empty now, and has each old instance return what it holds and say goodbye.
    fn stop_old(&mut self, change: &Change) {
        for &chain in &change.retired {
            self.fabric.parts.chains[chain as usize] = None;
        }
        let chains = &self.fabric.parts.chains;
        let is_there = |share: &Share| chains.get(share.chain.index()).is_some_and(Option::is_some);
        self.fabric.parts.shares.retain(is_there);
        self.fabric.publish();
        for &at in &change.old {
            self.with_instances(|instances, ground, effects| instances.remove(at, ground, effects));
        }
    }

    fn finish(&mut self, change: Change) {
        let elsewhere = layout::stages_elsewhere(&self.config).map(|(name, _)| name);
        let still: Vec<String> = self.config.nfs.iter().map(|nf| nf.name.clone()).chain(elsewhere).collect();
        let gone: Vec<String> =
            self.numbers.stages.keys().filter(|name| !still.contains(name)).cloned().collect();
        for name in gone {
            if let Some(number) = self.numbers.stages.remove(&name) {
                self.fabric.parts.stages[number as usize] = None;
            }
        }
        self.fabric.publish();
        let Change { mut summary, rest, reply, .. } = change;
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            return self.replace_next(rest, reply, summary);
        }
        if summary.is_empty() {
            summary.push(NOTHING_TO_CHANGE.to_owned());
        }
        self.log(
            EventCode::ConfigurationApplied,
            "manager",
            format!("configuration applied: {}", summary.join(", ")),
        );
        // The client may have closed its connection.
        let _ = reply.send(answer(&Applied { changes: summary }));
    }
}

fn failed(message: &str) -> RequestError {
    RequestError::failed(message.to_owned())
}

fn is_same(old: &Option<PathChain>, new: &PathChain) -> bool {
    old.as_ref().is_some_and(|old| {
        (&old.stages, old.exit, old.path, old.across) == (&new.stages, new.exit, new.path, new.across)
    })
}
