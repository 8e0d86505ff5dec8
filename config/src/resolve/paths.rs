//! Chains and rules: the paths packets take, and what is wrong with them as a whole.

use std::collections::{HashMap, HashSet};

use super::super::codes::Code;
use super::super::document::{ChainTable, Document, RuleTable};
use super::super::limits::STAGES_MAX;
use super::super::model::{Chain, ChainId, ChainIo, Config, NfId, Out, Port, PortId, Rule};
use super::super::read::{At, Field};
use super::super::report::Span;
use super::super::rules;
use super::super::values::Name;
use super::ports::OUT_BY_NF;
use super::{Defined, Resolver, items};

impl Resolver<'_> {
    pub(super) fn chains(
        &mut self,
        tables: &[At<ChainTable>],
        defined: &Defined<'_>,
        ports: &[Option<Port>],
        workers: &[u32],
    ) -> Vec<Option<Chain>> {
        let mut chains = Vec::with_capacity(tables.len());
        for at in tables {
            let stages = self.stages(&at.value, defined);
            let end = self.end(&at.value, defined, ports, workers);
            let count = stages.as_ref().map_or(0, Vec::len);
            let service = self.service(&at.value, count, end.as_ref().map(|(out, _)| *out));
            let name = at.value.name.value();
            let delay_bound_us = at.value.delay_bound_us.value().map(|us| us.0 as u32);
            let rate_floor = at.value.rate_floor.value().map(|rate| rate.0);
            let across = name.and_then(|name| self.across.get(&name.0)).cloned();
            chains.push(name.zip(stages).zip(end).map(|((name, stages), (out, io))| Chain {
                name: name.0.clone(),
                stages,
                out,
                io,
                delay_bound_us,
                rate_floor,
                service,
                across,
            }));
        }
        chains
    }

    fn stages(&mut self, table: &ChainTable, defined: &Defined<'_>) -> Option<Vec<NfId>> {
        let list = table.stages.found.as_ref()?;
        // At the gate of its group a chain has none, and over several nodes it may have none here: there is
        // no key any more that says so.
        if list.value.items.is_empty() && list.value.complete && table.stages.key.is_some() {
            self.report
                .add(Code::EmptyChain, &list.span, "a chain without stages does nothing to packets")
                .help("name at least one NF, like [\"fw\"]");
        }
        if list.value.items.len() > STAGES_MAX {
            let message = format!("{} stages; a chain has at most {STAGES_MAX}", list.value.items.len());
            self.report.add(Code::TooMany, &list.span, message).help("fuse some of its NFs");
        }
        let mut stages = Vec::with_capacity(list.value.items.len());
        let mut seen: HashMap<&str, &Span> = HashMap::new();
        for stage in &list.value.items {
            if let Some(first) = seen.insert(&stage.value.0, &stage.span) {
                self.report
                    .add(
                        Code::RepeatedStage,
                        &stage.span,
                        format!("the chain visits `{}` twice", stage.value.0),
                    )
                    .label("again")
                    .help("define a second [[nf]] with the same `run`: it has a ring and counters of its own")
                    .beside(first.clone(), "first");
            }
            let place = defined.nfs.find(stage, self.report);
            stages.push(place.and_then(|place| u16::try_from(place).ok()).map(NfId));
        }
        stages.into_iter().collect::<Option<_>>().filter(|_| list.value.complete)
    }

    fn end(
        &mut self,
        table: &ChainTable,
        defined: &Defined<'_>,
        ports: &[Option<Port>],
        workers: &[u32],
    ) -> Option<(Out, Option<ChainIo>)> {
        let across = table.name.value().and_then(|name| self.across.get(&name.0));
        if across.is_some_and(|across| self.node.as_ref() != Some(&across.exit)) {
            return Some((Out::Node, None));
        }
        let Some(io) = &table.io.key else {
            return self.out(table, defined, ports).map(|out| (out, None));
        };
        if let Some(out) = &table.out.key {
            let help = "leave `out` out: `io` names the interface at the chain's end";
            self.conflict((io, "on interfaces"), out, "`out` and `io` exclude each other", help);
        }
        self.check_io_bound(table);
        let io = table.io.value().and_then(|table| self.io(table, workers))?;
        Some((Out::Interface, Some(io)))
    }

    fn out(&mut self, table: &ChainTable, defined: &Defined<'_>, ports: &[Option<Port>]) -> Option<Out> {
        if table.out.key.is_none() {
            self.report
                .add(Code::ChainWithoutEnd, &table.span, "the chain does not say where packets leave it")
                .label("`out` is missing")
                .help("add `out = \"…\"`: a port, or \"nf\" when the last NF always names the port");
            return None;
        }
        let at = table.out.found.as_ref()?;
        if at.value.0 == OUT_BY_NF {
            return Some(Out::Nf);
        }
        let place = defined.ports.find(at, self.report)?;
        if ports.get(place)?.as_ref().is_some_and(|port| !port.backend.takes()) {
            let name = &at.value.0;
            self.report
                .add(Code::PortDirection, &at.span, format!("port `{name}` takes no packets"))
                .help("a generator takes none, a pcap port only with `write`; name another port");
        }
        Some(Out::Port(PortId(u16::try_from(place).ok()?)))
    }

    pub(super) fn rules(
        &mut self,
        tables: &[At<RuleTable>],
        defined: &Defined<'_>,
        ports: &[Option<Port>],
        chains: &[Option<Chain>],
    ) -> Vec<Option<Rule>> {
        let mut resolved = Vec::with_capacity(tables.len());
        for at in tables {
            let rule = self.rule(&at.value, defined, ports);
            self.refuse_rule_to_interfaces(&at.value, rule.as_ref(), chains);
            if let Some(why) = rule.as_ref().and_then(rules::impossible) {
                self.report
                    .add(
                        Code::RuleImpossible,
                        &at.value.span,
                        format!("no packet can match this rule: {why}"),
                    )
                    .label("matches nothing")
                    .help("leave one of the conditions out, or make two rules of it");
            }
            resolved.push(rule);
        }
        for (place, covered_by) in rules::covered(&resolved).into_iter().enumerate() {
            let Some(first) = covered_by else { continue };
            let broad = tables[first].value.span.clone();
            self.report
                .add(Code::RuleCovered, &tables[place].value.span, "no packet gets as far as this rule")
                .label("never reached")
                .help("the first rule that matches decides: put the narrower rule first, or leave it out")
                .beside(broad, "takes all of its packets");
        }
        resolved
    }

    fn rule(&mut self, table: &RuleTable, defined: &Defined<'_>, ports: &[Option<Port>]) -> Option<Rule> {
        let port = self.rule_port(&table.r#in, defined, ports);
        let chain = table.chain.found.as_ref().and_then(|name| defined.chains.find(name, self.report));
        Some(Rule {
            port: port?,
            vlan: condition(&table.vlan)?,
            ethertype: condition(&table.ethertype)?,
            protocol: condition(&table.protocol)?,
            source: condition(&table.source)?,
            destination: condition(&table.destination)?,
            source_port: condition(&table.source_port)?,
            destination_port: condition(&table.destination_port)?,
            chain: ChainId(u16::try_from(chain?).ok()?),
        })
    }

    fn refuse_rule_to_interfaces(
        &mut self,
        table: &RuleTable,
        rule: Option<&Rule>,
        chains: &[Option<Chain>],
    ) {
        let chain = rule.and_then(|rule| chains.get(usize::from(rule.chain.0))?.as_ref());
        if let (Some(chain), Some(at)) = (chain.filter(|chain| chain.io.is_some()), &table.chain.found) {
            let message = format!("chain `{}` takes its packets from an interface, not by rules", chain.name);
            self.report
                .add(Code::KeyConflict, &at.span, message)
                .help("leave the rule out, or the chain's `io`");
        }
    }

    /// `None` when the port is broken, `Some(None)` when the rule names none.
    fn rule_port(
        &mut self,
        field: &Field<Name>,
        defined: &Defined<'_>,
        ports: &[Option<Port>],
    ) -> Option<Option<PortId>> {
        if field.key.is_none() {
            return Some(None);
        }
        let at = field.found.as_ref()?;
        let place = defined.ports.find(at, self.report)?;
        if ports.get(place)?.as_ref().is_some_and(|port| !port.backend.gives()) {
            let name = &at.value.0;
            self.report
                .add(Code::PortDirection, &at.span, format!("no packets come from port `{name}`"))
                .help("a null port gives none, a pcap port only with `read`; name another port");
        }
        Some(Some(PortId(u16::try_from(place).ok()?)))
    }

    /// Warns of what is defined and of no use. Only of a configuration without errors: a misspelt
    /// reference would look like a thing that nobody refers to.
    pub(super) fn warn_unused(&mut self, document: &Document, config: &Config) {
        let led_to: HashSet<ChainId> = config.ways().iter().map(|rule| rule.chain).collect();
        for (index, table) in items(&document.chain).iter().enumerate() {
            let is_entered = self.entered.as_ref().is_none_or(|all| all.contains(&config.chains[index].name));
            if is_entered && !led_to.contains(&ChainId(index as u16)) && config.chains[index].io.is_none() {
                let message = format!("no rule leads to chain `{}`", config.chains[index].name);
                let help = format!("add a [[rule]] with `chain = \"{}\"`", config.chains[index].name);
                self.report.add(Code::ChainUnused, &table.value.span, message).help(help);
            }
        }
        for (index, table) in items(&document.nf).iter().enumerate() {
            if !config.chains.iter().any(|chain| chain.stages.contains(&NfId(index as u16))) {
                let message = format!("no chain visits NF `{}`", config.nfs[index].name);
                let help = "put it into the `stages` of a chain, or leave it out";
                self.report.add(Code::NfUnused, &table.value.span, message).help(help);
            }
        }
        for (index, table) in items(&document.domain).iter().enumerate() {
            let inside = |domain: super::super::model::DomainId| domain.index() == index;
            let used = config.ports.iter().any(|port| inside(port.domain))
                || config.nfs.iter().any(|nf| inside(nf.domain));
            if !used {
                let message = format!("domain `{}` has memory and nobody in it", config.domains[index].name);
                let help = "put a port or an NF into it, or leave it out";
                self.report.add(Code::DomainUnused, &table.value.span, message).help(help);
            }
        }
        self.warn_unused_ports(document, config);
        // A node may have its part in what others move.
        if self.entered.is_none() {
            self.warn_nothing_moves(config);
        }
    }

    /// A file that is right and does nothing is what one has who did not get further.
    fn warn_nothing_moves(&mut self, config: &Config) {
        let on_interfaces = config.chains.iter().any(|chain| chain.io.is_some());
        let missing = match (config.chains.is_empty(), config.ways().is_empty() && !on_interfaces) {
            (true, true) => "no [[chain]] and no [[rule]]",
            (true, false) => "no [[chain]]",
            (false, true) => "no [[rule]]",
            (false, false) => return,
        };
        self.report
            .add_about_file(Code::NothingMoves, format!("no packet will move: there is {missing}"))
            .help("start from an example of docs/guide/examples, or from `headgate demo --config`");
    }

    fn warn_unused_ports(&mut self, document: &Document, config: &Config) {
        let ways = config.ways();
        let nf_may_choose = config.chains.iter().any(|chain| chain.out == Out::Nf);
        for (index, table) in items(&document.port).iter().enumerate() {
            let (id, port) = (PortId(index as u16), &config.ports[index]);
            if !port.is_here() {
                continue;
            }
            let claimed = ways.iter().any(|rule| rule.port.is_none_or(|port| port == id));
            let gives = port.backend.gives() && claimed;
            let takes = port.backend.takes()
                && (nf_may_choose || config.chains.iter().any(|chain| chain.out == Out::Port(id)));
            if !gives && !takes {
                let message = format!("port `{}` has no rule and no chain", port.name);
                let help = "name it in a rule's `in` or a chain's `out`, or leave it out";
                self.report.add(Code::PortUnused, &table.value.common.span, message).help(help);
            } else if port.backend.gives() && !claimed {
                let message = format!("what comes in by port `{}` is dropped: no rule takes it", port.name);
                let help = format!(
                    "add a [[rule]] with `in = \"{}\"`, as TCP and ping need both directions; or leave it so",
                    port.name
                );
                self.report.add(Code::PortUnclaimed, &table.value.common.span, message).help(help);
            }
        }
    }
}

/// `None` when the condition is broken, `Some(None)` when the rule has none.
fn condition<T: Clone>(field: &Field<T>) -> Option<Option<T>> {
    if field.is_broken() { None } else { Some(field.value().cloned()) }
}
