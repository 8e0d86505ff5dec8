//! Change from one configuration to another while traffic runs, losing nothing.
//! [`headgate_decide::reconfigure`] decides what is waited for, and for how long; the difference is worked
//! out here before anything changes, and then carried out.

mod ports;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use headgate_decide::lifecycle::State;
use headgate_decide::reconfigure::{Action, Observation, Reconfiguration, Step};
use headgate_decide::units::ChainId;
use headgate_path::plan::Chain as PathChain;

use super::Control;
use super::instance::Instance;
use crate::api::{Answer, RequestError};
use crate::config::model::{Chain, ChainIo, Link, Nf};
use crate::config::{self, Config, Machine};
use crate::layout;
use crate::status::EventCode;

/// Change of configuration that is under way.
pub struct Change {
    config: Config,
    progress: Reconfiguration,
    /// Instances that become ready first.
    new: Vec<usize>,
    /// Instances that are to end.
    old: Vec<usize>,
    /// Chains that run empty after the switch-over.
    retired: Vec<u16>,
    reply: Sender<Answer>,
    summary: Vec<String>,
}

/// Difference between two configurations.
#[derive(Debug, Default, PartialEq)]
struct Difference {
    /// Names of NFs whose instances end.
    ended: Vec<String>,
    /// NFs to start.
    new: Vec<Nf>,
    /// Description of the difference, for people.
    summary: Vec<String>,
}

impl Control {
    /// Checks a configuration and begins to change to it.
    pub(super) fn begin_change(
        &mut self,
        name: &str,
        text: &str,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        if self.change.is_some() {
            return Err(failed("another configuration is being applied; try again when it is done"));
        }
        if !self.end.is_serving() {
            return Err(failed("the manager is stopping"));
        }
        let loaded = config::parse(name, text, &self.settings.catalog, &self.machine())
            .map_err(|mistakes| RequestError { code: 4, message: mistakes.to_string() })?;
        let mut next = loaded.config;
        let kept = ports::keep_memory(&self.config, &mut next);
        refuse_fixed(&self.config, &next)?;
        self.refuse_too_many_chains(&next)?;
        self.prepare_reception(&next).map_err(RequestError::failed)?;
        // Where it cannot leave the core of a new NF, the weight of NFs says so.
        let _ = crate::keep_off(&next);
        let Difference { ended, new, mut summary } = compare(&self.config, &next);
        summary.extend(kept);
        let ends = |instance: &&Instance| !instance.is_gone() && ended.contains(&instance.seat.nf.name);
        let old = self.instances.iter().filter(ends).map(|instance| instance.seat.number.index()).collect();
        for nf in &new {
            if !self.numbers.stages.contains_key(&nf.name) {
                self.numbers.stages.insert(nf.name.clone(), self.fabric.parts.stages.len() as u16);
                self.fabric.parts.stages.push(Some(layout::stage(nf)));
            }
        }
        let started = new.iter().flat_map(|nf| self.add_instances(nf)).collect();
        let progress = Reconfiguration::begin(self.now(), new.iter().any(Nf::is_external));
        let retired = Vec::new();
        self.change = Some(Change { config: next, progress, new: started, old, retired, reply, summary });
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
        let message = format!("nothing was changed: the new {name} did not start: {why}");
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
            if floor_of(&self.config, &chain.name) != chain.rate_floor && old.is_some() {
                change.summary.push(format!("chain {}: throughput floor changed", chain.name));
            }
            let same = old.filter(|&number| is_same(&self.fabric.parts.chains[number as usize], &path));
            let number = match same {
                Some(number) => {
                    let old = &mut self.fabric.parts.chains[number as usize];
                    if old.as_ref().is_some_and(|old| old.delay_bound_us != path.delay_bound_us) {
                        change.summary.push(format!("chain {}: delay bound changed", chain.name));
                        *old = Some(path);
                    }
                    number
                }
                None => {
                    let what = if old.is_some() { "changed" } else { "added" };
                    change.summary.push(format!("chain {} {what}", chain.name));
                    change.retired.extend(old);
                    self.fabric.parts.chains.push(Some(path));
                    (self.fabric.parts.chains.len() - 1) as u16
                }
            };
            chains.insert(chain.name.clone(), number);
        }
        for (name, number) in self.numbers.chains.drain() {
            change.summary.push(format!("chain {name} removed"));
            change.retired.push(number);
        }
        self.numbers.chains = chains;
        self.take_paths(&change.retired);
    }

    /// Takes chains their service paths: what still comes by these takes the chains that have them now.
    fn take_paths(&mut self, retired: &[u16]) {
        for &chain in retired {
            if let Some(chain) = self.fabric.parts.chains[chain as usize].as_mut() {
                chain.path = None;
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
        self.fabric.publish();
        for &at in &change.old {
            self.with_instances(|instances, ground, effects| instances.remove(at, ground, effects));
        }
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
        self.log(
            EventCode::ConfigurationApplied,
            "manager",
            format!("configuration applied: {}", summary.join(", ")),
        );
        // The client may have closed its connection.
        let _ = change.reply.send(Ok(serde_json::json!({ "changes": summary })));
    }
}

fn failed(message: &str) -> RequestError {
    RequestError::failed(message.to_owned())
}

/// Refuses changes that cannot be made while the manager runs.
fn refuse_fixed(old: &Config, next: &Config) -> Result<(), RequestError> {
    let fixed = [
        ("[manager]", old.manager == next.manager),
        ("[memory]", old.memory == next.memory),
        ("[flows]", old.flows == next.flows),
        ("[scheduler]", old.scheduler == next.scheduler),
        ("[[domain]]", old.domains == next.domains),
        ("[[port]]", ports::are_same(&old.ports, &next.ports)),
        // Old and new NFs of one interface would both have its packets.
        ("[[chain]] with `io` but its `batch`, and its NFs,", on_interfaces(old) == on_interfaces(next)),
    ];
    let changed: Vec<&str> = fixed.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(RequestError {
        code: 4,
        message: format!(
            "{} cannot change while the manager runs; NFs, chains and rules can. For the rest: \
             `headgate down`, then `headgate up FILE`",
            changed.join(", ")
        ),
    })
}

/// Returns the part of a configuration that is on interfaces of the kernel, without what can change there.
fn on_interfaces(config: &Config) -> (Vec<Chain>, Vec<Nf>) {
    let chains = config.chains.iter().filter(|chain| chain.io.is_some()).cloned();
    let chains = chains.map(|chain| Chain { io: chain.io.map(|io| ChainIo { batch: 0, ..io }), ..chain });
    (
        chains.collect(),
        config.nfs.iter().filter(|nf| nf.interfaces().is_some()).map(Nf::without_batch).collect(),
    )
}

/// Returns what is to end and what is to start.
fn compare(old: &Config, next: &Config) -> Difference {
    let before: HashMap<&str, &Nf> = old.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
    let after: HashMap<&str, &Nf> = next.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
    let mut difference = Difference::default();
    let Difference { ended, new, summary } = &mut difference;
    for nf in &next.nfs {
        match before.get(nf.name.as_str()) {
            None => summary.push(format!("nf {} added", nf.name)),
            Some(old) if old.without_batch() != nf.without_batch() => {
                let discarded = if old.state.is_some() { "; its kept state is discarded" } else { "" };
                summary.push(format!("nf {} replaced{discarded}", nf.name));
                ended.push(nf.name.clone());
            }
            Some(old) => {
                if let Some(interfaces) = nf.interfaces().filter(|_| **old != *nf) {
                    summary.push(format!("nf {}: {} packets a call", nf.name, interfaces.batch));
                }
                continue;
            }
        }
        new.push(nf.clone());
    }
    for nf in old.nfs.iter().filter(|nf| !after.contains_key(nf.name.as_str())) {
        summary.push(format!("nf {} removed", nf.name));
        ended.push(nf.name.clone());
    }
    difference
}

fn floor_of(config: &Config, name: &str) -> Option<u64> {
    config.chains.iter().find(|chain| chain.name == name)?.rate_floor
}

fn is_same(old: &Option<PathChain>, new: &PathChain) -> bool {
    old.as_ref().is_some_and(|old| (&old.stages, old.exit, old.path) == (&new.stages, new.exit, new.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"
        [[port]]
        name = "in"
        kind = "generator"
        [[port]]
        name = "out"
        kind = "null"
        [[nf]]
        name = "a"
        exec = ["/bin/true"]
        [[nf]]
        name = "b"
        exec = ["/bin/true"]
        [[chain]]
        name = "one"
        stages = ["a", "b"]
        out = "out"
        [[rule]]
        in = "in"
        chain = "one"
    "#;

    fn config(text: &str) -> Config {
        let machine = Machine { cores: vec![0, 1], memory_bytes: 1 << 34, ..Machine::default() };
        config::parse("test.toml", text, &config::Catalog::default(), &machine).unwrap().config
    }

    #[test]
    fn a_configuration_differs_from_itself_in_nothing() {
        let base = config(BASE);
        assert_eq!(compare(&base, &base), Difference::default());
        assert!(refuse_fixed(&base, &base).is_ok());
    }

    #[test]
    fn nfs_are_added_replaced_and_removed() {
        let next = BASE
            .replace(
                "name = \"b\"\n        exec = [\"/bin/true\"]",
                "name = \"b\"\n        exec = [\"/bin/false\"]",
            )
            .replace("\"a\"", "\"c\"");
        let Difference { ended, new, summary } = compare(&config(BASE), &config(&next));
        assert_eq!(summary, ["nf c added", "nf b replaced", "nf a removed"]);
        assert_eq!(ended, ["b", "a"]);
        assert_eq!(new.iter().map(|nf| nf.name.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    }

    #[test]
    fn what_is_fixed_is_named() {
        let more = "[[port]]\nname = \"more\"\nkind = \"null\"\n";
        let next = config(&format!("[memory]\nbuffer_bytes = 4096\n{BASE}{more}"));
        let refused = refuse_fixed(&config(BASE), &next).unwrap_err();
        assert_eq!(refused.code, 4);
        assert!(refused.message.starts_with("[memory], [[port]] cannot change"), "{}", refused.message);
    }
}
