//! Chains over several nodes: where their packets enter, are worked on and leave, and whether ways lead
//! there.
//!
//! Packets cross links with a service header (RFC 8300) whose path says which chain, and whose index which
//! stage is next. Every node knows all such chains, so that each can pass packets on.

use std::collections::{BTreeSet, HashMap};

use headgate_decide::chain_ids;
use headgate_decide::routes::Network as Graph;

use super::super::super::codes::Code;
use super::super::super::digest::of_words;
use super::super::super::document::{ChainTable, Document, RuleTable};
use super::super::super::model::{Across, Chain, ChainId, NodeRange, StageAt};
use super::super::super::read::At;
use super::super::super::report::Span;
use super::super::super::values::{Affinity, Name};
use super::super::nfs::range_of;
use super::super::ports::OUT_BY_NF;
use super::super::{Defined, Resolver, items};
use super::topology::{Home, Topology, Way};

impl Resolver<'_> {
    /// Returns the place of a chain that is of no group; `None` where something that says it is missing.
    pub(super) fn home_of_chain(
        document: &Document,
        table: &ChainTable,
        defined: &Defined<'_>,
        topology: &Topology,
        nfs: &[Option<Home>],
    ) -> Option<Home> {
        let list = table.stages.value()?;
        let nodes = |stage: &At<Name>| match nfs.get(defined.nfs.get(&stage.value.0)?)?.as_ref()? {
            Home::Node(node) => Some(vec![node.clone()]),
            Home::Nodes(nodes) => Some(nodes.clone()),
            _ => None,
        };
        let stages: Vec<Vec<String>> = list.items.iter().map(nodes).collect::<Option<_>>()?;
        let last = stages.last().filter(|_| list.complete)?.first()?;
        let node_of = |port: &Name| topology.ports.get(defined.ports.get(&port.0)?)?.clone();
        let exit = table.out.value().filter(|out| out.0 != OUT_BY_NF).and_then(node_of);
        let exit = exit.unwrap_or_else(|| last.clone());
        let mut entries: Vec<String> = Vec::new();
        for port in rules_to(document, table).filter_map(|rule| rule.r#in.value()) {
            entries.extend(node_of(port).filter(|node| !entries.contains(node)));
        }
        let mut others = entries.iter().chain(stages.iter().flatten());
        match others.all(|node| *node == exit) {
            true => Some(Home::Node(exit)),
            false => Some(Home::Across(Way { entries, stages, exit })),
        }
    }

    /// Checks chains over several nodes.
    pub(super) fn check_across(&mut self, document: &Document, topology: &Topology) {
        let all_links = topology.links.iter().all(Option::is_some);
        for (place, at) in items(&document.chain).iter().enumerate() {
            let Some(way) = topology.way(place) else { continue };
            self.refuse_of_across(&at.value);
            self.check_last_of_shared(&at.value, way);
            self.check_rules_to(document, &at.value);
            if all_links {
                self.check_legs(&at.value, way, topology);
            }
        }
    }

    /// What needs all of a chain in one place.
    fn refuse_of_across(&mut self, table: &ChainTable) {
        let keys = [
            (&table.nsh.key, "nsh", "nodes give it a service path of its own"),
            (&table.io.key, "io", "no worker sees its packets, so none could hand them on"),
            (&table.delay_bound_us.key, "delay_bound_us", "no node sees the whole delay of its packets"),
        ];
        for (key, name, why) in keys {
            let Some(key) = key else { continue };
            let message = format!("a chain over several nodes has no `{name}`: {why}");
            let help = format!("leave `{name}` out, or put all NFs and ports of the chain on one node");
            self.report.add(Code::NodeParts, key, message).help(help);
        }
    }

    /// Ports that an NF names are those of one node.
    fn check_last_of_shared(&mut self, table: &ChainTable, way: &Way) {
        let is_shared = way.stages.last().is_some_and(|nodes| nodes.len() > 1);
        let Some(out) = table.out.found.as_ref().filter(|out| is_shared && out.value.0 == OUT_BY_NF) else {
            return;
        };
        let message = "the last NF is on several nodes, so the ports that it names are not those of one";
        self.report.add(Code::NodeParts, &out.span, message).help("name the port where packets leave");
    }

    fn check_rules_to(&mut self, document: &Document, table: &ChainTable) {
        let name = table.name.value().map_or("", |name| name.0.as_str());
        for rule in rules_to(document, table).filter(|rule| rule.r#in.key.is_none()) {
            let message =
                format!("chain `{name}` is on several nodes, and the rule does not say where packets enter");
            self.report
                .add(Code::NodeUnsaid, &rule.span, message)
                .label("`in` is missing")
                .help("name the port, like `in = \"west\"`: packets enter at its node");
        }
        if rules_to(document, table).next().is_none() {
            let message = format!("no rule leads to chain `{name}`");
            let help = format!("add a [[rule]] with `chain = \"{name}\"`");
            self.report.add(Code::ChainUnused, &table.span, message).help(help);
        }
    }

    /// Checks that a way leads wherever packets have to go.
    fn check_legs(&mut self, table: &ChainTable, way: &Way, topology: &Topology) {
        let network = topology.network();
        let graph = Graph { nodes: network.nodes.len() as u16, links: &network.links };
        let mut told = BTreeSet::new();
        for (from, to) in way.legs() {
            let ends = network.place(from).zip(network.place(to));
            let is_joined = ends.is_none_or(|(from, to)| graph.joins(from, to));
            if is_joined || !told.insert((from.min(to), from.max(to))) {
                continue;
            }
            let message = format!(
                "there is no way from node `{from}` to node `{to}`, and packets of the chain go there"
            );
            self.report.add(Code::LinkMissing, place_of(table, way, to), message).label("not reached").help(
                format!("add a [[link]] with `nodes = [\"{from}\", \"{to}\"]`, or links by other nodes"),
            );
        }
    }
}

/// Returns the rules that lead to a chain.
fn rules_to<'d>(document: &'d Document, table: &'d ChainTable) -> impl Iterator<Item = &'d RuleTable> {
    let name = table.name.value();
    let rules = items(&document.rule).iter().map(|at| &at.value);
    rules.filter(move |rule| name.is_some() && rule.chain.value() == name)
}

/// Returns where a chain says that packets go to a node.
fn place_of<'t>(table: &'t ChainTable, way: &Way, node: &str) -> &'t Span {
    let stage = way.stages.iter().position(|nodes| nodes.iter().any(|one| one == node));
    let stage = stage.and_then(|place| table.stages.value()?.items.get(place));
    let out = table.out.found.as_ref().filter(|_| way.exit == node);
    stage.or(out).map_or(&table.span, |at| &at.span)
}

/// Returns the chains over several nodes by name. Their numbers are digests of what they are: where one that
/// was applied at one node is not known yet at another, packets end there, and enter no other.
pub(super) fn all(document: &Document, topology: &Topology) -> HashMap<String, Across> {
    let (mut chains, mut taken) = (HashMap::new(), BTreeSet::new());
    for (place, at) in items(&document.chain).iter().enumerate() {
        let (Some(way), Some(name)) = (topology.way(place), at.value.name.value()) else { continue };
        let names = at.value.stages.value().map_or(&[][..], |many| &many.items);
        let stages: Vec<StageAt> = (names.iter().zip(&way.stages))
            .map(|(nf, nodes)| StageAt {
                nf: nf.value.0.clone(),
                nodes: nodes.clone(),
                affinity: affinity_of(document, &nf.value),
                range: range_of_nf(document, &nf.value),
            })
            .collect();
        let out = at.value.out.value().map_or(OUT_BY_NF, |out| out.0.as_str());
        // A number stays whatever nodes share an NF.
        let node =
            |stage: &'_ StageAt| if stage.is_shared() { SHARED.to_owned() } else { stage.nodes.concat() };
        let nodes: Vec<String> = stages.iter().map(node).collect();
        let words = stages.iter().zip(&nodes).flat_map(|(stage, node)| [stage.nf.as_str(), node.as_str()]);
        let digest = of_words([name.0.as_str()].into_iter().chain(words).chain([out, way.exit.as_str()]));
        let Some(path) = chain_ids::of_list(digest, &taken) else { continue };
        taken.insert(path);
        let entries = way.entries.clone();
        let across = Across { path, entries, stages, exit: way.exit.clone(), out: out.to_owned() };
        chains.insert(name.0.clone(), across);
    }
    chains
}

/// Word in the place of a node's name, which none has, for NFs that several nodes share.
const SHARED: &str = "*";

/// How many of its nodes an NF runs on.
fn range_of_nf(document: &Document, nf: &Name) -> Option<NodeRange> {
    let tables = items(&document.nf).iter();
    let table =
        tables.map(|at| &at.value).find(|table| table.name.value().is_some_and(|name| name.0 == nf.0))?;
    range_of(table.instances.value()?.1.as_ref()?)
}

fn affinity_of(document: &Document, nf: &Name) -> Affinity {
    let table = items(&document.nf).iter().find(|at| at.value.name.value() == Some(nf));
    table.and_then(|at| at.value.affinity.value().copied()).unwrap_or(Affinity::Flow)
}

/// Returns the chains over several nodes that packets enter by a rule of this document.
pub(super) fn entered(chains: &[Chain], rules: impl Iterator<Item = ChainId> + Clone) -> Vec<ChainId> {
    let is_across = |id: &ChainId| chains.get(id.index()).is_some_and(|chain| chain.across.is_some());
    rules.filter(is_across).collect()
}
