//! Difference between the configuration in force and another one: what `headgate apply` does and `headgate
//! diff` shows. Nothing is changed here.

use std::collections::HashMap;

use super::super::Control;
use super::{Difference, Source, ports};
use crate::api::RequestError;
use crate::config::model::{Chain, ChainIo, Nf, Node, Service};
use crate::config::{self, Config, plan};
use crate::layout;

/// Most rules that a summary names. Our choice: a screen.
const RULES_TOLD_MAX: usize = 20;

impl Control {
    /// Reads the next configuration and compares it with the one in force.
    ///
    /// # Errors
    /// Mistakes of the configuration, and what cannot change while the manager runs.
    pub(super) fn difference(&self, source: &Source) -> Result<Difference, RequestError> {
        let node = self.config.node.as_ref().map(|node| node.name.as_str());
        let (catalog, machine) = (&self.settings.catalog, self.machine());
        let loaded = config::parse_part(&source.name, &source.text, catalog, &machine, node)
            .map_err(|mistakes| RequestError { code: 4, message: mistakes.to_string() })?;
        let mut next = loaded.config;
        let kept = ports::keep_memory(&self.config, &mut next);
        refuse_fixed(&self.config, &next)?;
        self.refuse_too_many_chains(&next)?;
        let (ended, new, mut summary) = compare(&self.config, &next);
        summary.extend(kept);
        summary.extend(compare_chains(&self.config, &next));
        summary.extend(compare_rules(&self.config, &next));
        Ok(Difference { next, ended, new, summary })
    }
}

/// Refuses changes that cannot be made while the manager runs.
fn refuse_fixed(old: &Config, next: &Config) -> Result<(), RequestError> {
    let fixed = [
        ("[manager]", old.manager == next.manager),
        ("[memory]", old.memory == next.memory),
        ("[flows]", old.flows == next.flows),
        ("[scheduler]", old.scheduler == next.scheduler),
        ("[[domain]]", old.domains == next.domains),
        ("[[node]], [[link]], [[group]]", is_same_node(old, next)),
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

/// Returns whether two configurations are the part of one node, with the same links and groups. The rest of
/// the file may differ, and with it the digest, and how flows are divided.
fn is_same_node(old: &Config, next: &Config) -> bool {
    let (Some(old), Some(next)) = (&old.node, &next.node) else { return old.node == next.node };
    // The thread of beats has its own.
    let beat_ns = |node: &Node| node.steering.map(|steering| steering.beat_ns);
    let is_beat_same = old.steering.is_none() || next.steering.is_none() || beat_ns(old) == beat_ns(next);
    let next = Node { digest: old.digest.clone(), steering: old.steering, ..next.clone() };
    is_beat_same && *old == next
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

/// Returns names of NFs that are to end, NFs that are to start, and both in sentences.
fn compare(old: &Config, next: &Config) -> (Vec<String>, Vec<Nf>, Vec<String>) {
    let before: HashMap<&str, &Nf> = old.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
    let after: HashMap<&str, &Nf> = next.nfs.iter().map(|nf| (nf.name.as_str(), nf)).collect();
    let (mut ended, mut new, mut summary) = (Vec::new(), Vec::new(), Vec::new());
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
    (ended, new, summary)
}

/// Returns what changes of chains, in sentences.
fn compare_chains(old: &Config, next: &Config) -> Vec<String> {
    let before: HashMap<&str, &Chain> = layout::path_chains(old).map(|one| (&*one.name, one)).collect();
    let mut summary = Vec::new();
    for chain in layout::path_chains(next) {
        let name = &chain.name;
        let Some(&was) = before.get(name.as_str()) else {
            summary.push(format!("chain {name} added"));
            continue;
        };
        if was.rate_floor != chain.rate_floor {
            summary.push(format!("chain {name}: throughput floor changed"));
        }
        if way(old, was) != way(next, chain) {
            summary.push(format!("chain {name} changed"));
        } else if was.delay_bound_us != chain.delay_bound_us {
            summary.push(format!("chain {name}: delay bound changed"));
        }
    }
    let stay = |name: &str| layout::path_chains(next).any(|chain| chain.name == name);
    let gone = layout::path_chains(old).filter(|chain| !stay(&chain.name));
    summary.extend(gone.map(|chain| format!("chain {} removed", chain.name)));
    summary
}

/// Returns the way that packets of a chain take, without numbers.
fn way<'c>(config: &'c Config, chain: &'c Chain) -> (Vec<&'c str>, String, Option<Service>) {
    let names = chain.stages.iter().map(|nf| config.nfs[nf.index()].name.as_str());
    // Ports are the same in both.
    (names.collect(), format!("{:?}", chain.out), chain.service)
}

/// Returns what changes of rules, in sentences.
fn compare_rules(old: &Config, next: &Config) -> Vec<String> {
    let (before, after) = (rules_of(old), rules_of(next));
    if before == after {
        return Vec::new();
    }
    let mut counts: HashMap<&str, i64> = HashMap::new();
    after.iter().for_each(|rule| *counts.entry(rule).or_default() += 1);
    before.iter().for_each(|rule| *counts.entry(rule).or_default() -= 1);
    let mut told = Vec::new();
    for (rules, sign, word) in [(&before, -1, "removed"), (&after, 1, "added")] {
        for (place, rule) in rules.iter().enumerate() {
            let left = counts.entry(rule).or_default();
            if *left * sign > 0 {
                *left -= sign;
                told.push(format!("rule {} {word}: {rule}", place + 1));
            }
        }
    }
    if told.is_empty() {
        return vec!["rules are the same in another order".to_owned()];
    }
    let more = told.len().saturating_sub(RULES_TOLD_MAX);
    told.truncate(RULES_TOLD_MAX);
    told.extend((more > 0).then(|| format!("and {more} more rules")));
    told
}

/// Returns every rule in words, the same for the same rule.
pub(super) fn rules_of(config: &Config) -> Vec<String> {
    let chain = |rule: &config::model::Rule| &config.chains[rule.chain.index()].name;
    config
        .rules
        .iter()
        .map(|rule| format!("{}, to chain {}", plan::matches(config, rule), chain(rule)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

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
        assert_eq!(compare(&base, &base), Default::default());
        assert!(compare_chains(&base, &base).is_empty() && compare_rules(&base, &base).is_empty());
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
        let (ended, new, summary) = compare(&config(BASE), &config(&next));
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

    #[test]
    fn chains_and_rules_are_compared_by_what_they_say() {
        let next = BASE.replace("stages = [\"a\", \"b\"]", "stages = [\"b\", \"a\"]").replace(
            "[[rule]]",
            "[[rule]]\nprotocol = \"tcp\"\nchain = \"one\"\n[[rule]]\nprotocol = \"udp\"\nchain = \"one\"\n[[rule]]",
        );
        let (base, next) = (config(BASE), config(&next));
        assert_eq!(compare_chains(&base, &next), ["chain one changed"]);
        assert_eq!(
            compare_rules(&base, &next),
            ["rule 1 added: tcp, to chain one", "rule 2 added: udp, to chain one"]
        );
        assert_eq!(compare_rules(&next, &base)[0], "rule 1 removed: tcp, to chain one");
        let mut turned = next.clone();
        turned.rules.swap(0, 1);
        assert_eq!(compare_rules(&next, &turned), ["rules are the same in another order"]);
        turned.rules = std::iter::repeat_n(turned.rules[0].clone(), 30).collect();
        let told = compare_rules(&base, &turned);
        assert_eq!((told.len(), told.last().unwrap().as_str()), (21, "and 11 more rules"));
    }
}
