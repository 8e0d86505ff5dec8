//! Groups: chains that nodes keep for each other.
//!
//! Chains that share an NF share its state, so they commit, fail over and move together: a group has all
//! chains of its NFs. What cannot be repeated elsewhere exactly as it happened is refused: several instances
//! (whose packets meet in no order), packets that go past an NF, that leave by the kernel or wait for a disk.

use std::collections::{BTreeSet, HashMap};

use super::super::super::codes::Code;
use super::super::super::document::{ChainTable, Document, GroupTable, NfTable};
use super::super::super::read::{At, Field};
use super::super::super::report::Span;
use super::super::super::values::{Name, OnFailure};
use super::super::names::Names;
use super::super::{Defined, Resolver, items};
use super::room::{Demand, demands_of};
use super::topology::{GroupPlan, Topology};

/// Percent of a log at which a checkpoint is made early. Our choice: the rest takes what comes until the
/// standby has the copy.
const EARLY_CHECKPOINT_PERCENT: u64 = 70;

impl Resolver<'_> {
    pub(super) fn groups(
        &mut self,
        document: &Document,
        nodes: &Names<'_>,
        defined: &Defined<'_>,
    ) -> Vec<Option<GroupPlan>> {
        let tables = items(&document.group);
        let names = tables.iter().map(|at| &at.value.name);
        // Nothing refers to a group, so of their names only doubles matter.
        Names::collect("group", Code::UndefinedNode, names, true, self.report);
        let mut taken: HashMap<usize, &Span> = HashMap::new();
        let mut groups = Vec::new();
        for at in tables {
            let nodes = self.roles(&at.value, nodes);
            let chains = self.chains_of_group(&at.value, defined, &mut taken);
            groups.push(
                nodes
                    .zip(chains)
                    .and_then(|(nodes, chains)| plan(document, defined, &at.value, nodes, chains)),
            );
        }
        groups
    }

    /// Gate, active node and standby: three nodes.
    fn roles(&mut self, table: &GroupTable, nodes: &Names<'_>) -> Option<[String; 3]> {
        let fields: [(&Field<Name>, &str); 3] =
            [(&table.gate, "gate"), (&table.active, "active node"), (&table.standby, "standby")];
        let mut is_whole = true;
        for (place, (field, what)) in fields.iter().enumerate() {
            let Some(at) = &field.found else {
                is_whole = false;
                continue;
            };
            is_whole &= nodes.find(at, self.report).is_some();
            let same = fields[..place].iter().find_map(|(earlier, word)| {
                earlier
                    .found
                    .as_ref()
                    .filter(|earlier| earlier.value == at.value)
                    .map(|earlier| (earlier, word))
            });
            if let Some((first, word)) = same {
                is_whole = false;
                let message = format!("node `{}` is the {word} and the {what} of one group", at.value.0);
                self.report
                    .add(Code::NodeParts, &at.span, message)
                    .help("name three nodes: when one fails, another takes over and the third decides")
                    .beside(first.span.clone(), format!("the {word}"));
            }
        }
        let name = |field: &Field<Name>| field.value().map(|name| name.0.clone());
        let [gate, active, standby] = fields.map(|(field, _)| name(field));
        is_whole.then_some([gate?, active?, standby?])
    }

    fn chains_of_group<'d>(
        &mut self,
        table: &'d GroupTable,
        defined: &Defined<'_>,
        taken: &mut HashMap<usize, &'d Span>,
    ) -> Option<Vec<usize>> {
        let list = table.chains.found.as_ref()?;
        if list.value.items.is_empty() && list.value.complete {
            self.report
                .add(Code::GroupSplit, &list.span, "a group without chains keeps nothing")
                .help("name its chains, like [\"out\", \"back\"]");
        }
        let mut chains = Vec::new();
        for at in &list.value.items {
            let place = defined.chains.find(at, self.report);
            if let Some(first) = place.and_then(|place| taken.insert(place, &at.span)) {
                self.report
                    .add(Code::GroupSplit, &at.span, format!("chain `{}` is in a group already", at.value.0))
                    .help("a chain is in one group, once")
                    .beside(first.clone(), "first");
            }
            chains.push(place);
        }
        chains.into_iter().collect::<Option<_>>().filter(|_| list.value.complete)
    }

    /// Checks each group against links, chains, NFs and memory.
    pub(super) fn check_groups(&mut self, document: &Document, topology: &Topology) {
        let tables = items(&document.group);
        self.check_one_worker(document, topology);
        let mut demands: Vec<Demand<'_>> = Vec::new();
        for (at, group) in tables.iter().zip(&topology.groups) {
            self.check_log(&at.value);
            let Some(group) = group else { continue };
            self.check_ways(&at.value, group, topology);
            self.check_sharing(&at.value, group, document);
            self.check_states(document, group);
            for chain in &group.chains {
                self.check_chain_of_group(&items(&document.chain)[*chain].value);
            }
            for nf in &group.nfs {
                self.check_nf_of_group(&items(&document.nf)[*nf].value);
            }
            let own = demands_of(&at.value, group, document, topology);
            self.check_room(&own, &demands, document);
            demands.extend(own);
        }
    }

    /// A node that is of groups has one worker, which has all of them.
    fn check_one_worker(&mut self, document: &Document, topology: &Topology) {
        for (place, at) in items(&document.node).iter().enumerate() {
            let Some(node) = topology.nodes.get(place) else { continue };
            if !topology.groups.iter().flatten().any(|group| group.role_of(node).is_some()) {
                continue;
            }
            let own = at.value.cores.found.as_ref().filter(|_| at.value.cores.key.is_some());
            let shared = || document.manager.value().and_then(|manager| manager.cores.found.as_ref());
            if let Some(cores) = own.or_else(shared).filter(|cores| cores.value.items.len() > 1) {
                let message = format!(
                    "node `{node}` is of a group, and has {} workers: one has all of a group",
                    cores.value.items.len()
                );
                self.report
                    .add(Code::NodeParts, &cores.span, message)
                    .help(format!("give it one core: `cores = [{}]`", cores.value.items[0].value.0));
            }
        }
    }

    fn check_ways(&mut self, table: &GroupTable, group: &GroupPlan, topology: &Topology) {
        let [gate, active, standby] = &group.nodes;
        let fields = [
            (gate, active, &table.active),
            (gate, standby, &table.standby),
            (active, standby, &table.standby),
        ];
        for (one, other, field) in fields {
            if let Some(at) = &field.found
                && topology.links_of(one, other).next().is_none()
                && topology.links.iter().all(Option::is_some)
            {
                self.report
                    .add(
                        Code::LinkMissing,
                        &at.span,
                        format!("there is no link between `{one}` and `{other}`"),
                    )
                    .label(format!("not linked to `{one}`"))
                    .help(format!("add a [[link]] with `nodes = [\"{one}\", \"{other}\"]`"));
            }
        }
    }

    /// Chains outside of a group that visit its NFs.
    fn check_sharing(&mut self, table: &GroupTable, group: &GroupPlan, document: &Document) {
        let shared: BTreeSet<&str> = group
            .nfs
            .iter()
            .filter_map(|nf| Some(items(&document.nf)[*nf].value.name.value()?.0.as_str()))
            .collect();
        let Some(list) = table.chains.found.as_ref() else { return };
        let mut missing: Vec<&At<ChainTable>> = Vec::new();
        let mut met = BTreeSet::new();
        for (place, at) in items(&document.chain).iter().enumerate() {
            let stages = at.value.stages.value().map_or(&[][..], |many| &many.items);
            let visits: Vec<&str> = stages
                .iter()
                .map(|stage| stage.value.0.as_str())
                .filter(|name| shared.contains(name))
                .collect();
            if !visits.is_empty() && !group.chains.contains(&place) {
                missing.push(at);
                met.extend(visits);
            }
        }
        let Some(first) = missing.first() else { return };
        let name =
            |at: &&At<ChainTable>| at.value.name.value().map_or("?", |name| name.0.as_str()).to_owned();
        let names: Vec<String> = missing.iter().map(name).collect();
        let all: Vec<String> =
            list.value.items.iter().map(|at| at.value.0.clone()).chain(names.clone()).collect();
        let nfs = met.into_iter().collect::<Vec<_>>().join("`, `");
        let (what, visit) = if names.len() == 1 { ("chain", "visits") } else { ("chains", "visit") };
        let message = format!("{what} `{}` {visit} `{nfs}` too", names.join("`, `"));
        self.report
            .add(Code::GroupSplit, &list.span, message)
            .label("not all of them")
            .help(format!(
                "chains that share an NF fail over together: write `chains = [\"{}\"]`",
                all.join("\", \"")
            ))
            .beside(first.value.span.clone(), "this chain");
    }

    fn check_chain_of_group(&mut self, table: &ChainTable) {
        let keys = [
            (&table.io.key, "what its NFs send is with the kernel before it could be committed", "io"),
            (
                &table.delay_bound_us.key,
                "a packet that is shed for its delay was logged already, and would pass in a replay",
                "delay_bound_us",
            ),
            (&table.nsh.key, "service headers are not carried between the nodes of a group", "nsh"),
        ];
        for (key, why, name) in keys {
            if let Some(key) = key {
                self.refuse_unprotected(key, &format!("a chain of a group has no `{name}`: {why}"), name);
            }
        }
    }

    fn check_nf_of_group(&mut self, table: &NfTable) {
        if let Some(at) = table.instances.found.as_ref().filter(|at| at.value.0 > 1) {
            let why = "an NF of a group has one instance: in which order several work cannot be repeated";
            self.refuse_unprotected(&at.span, why, "instances");
        }
        if let Some(at) = table.on_failure.found.as_ref().filter(|at| at.value == OnFailure::Bypass) {
            let why = "packets wait for an NF of a group that failed: what went past it cannot be repeated";
            self.refuse_unprotected(&at.span, why, "on_failure");
        }
        if let Some(key) = &table.r#box.key {
            let why = "an external program keeps its state itself, so nothing could take over from it";
            self.refuse_unprotected(key, why, "box");
        }
        if let Some(key) = &table.write.key {
            let why = "an NF of a group writes no files: packets that wait for a disk are in no order";
            self.refuse_unprotected(key, why, "write");
        }
        let runs = table.run.found.as_ref().and_then(|at| Some((at, self.known.get(&at.value.0)?)));
        if let Some((at, shipped)) = runs.filter(|(_, shipped)| shipped.writes.is_some()) {
            let why =
                format!("`{}` writes files, and packets that wait for a disk are in no order", shipped.name);
            self.report
                .add(Code::NotProtected, &at.span, why)
                .help("put it into a chain outside of the group");
        }
    }

    fn refuse_unprotected(&mut self, span: &Span, message: &str, key: &str) {
        let help = format!("leave `{key}` out, or keep the chain out of the group");
        self.report.add(Code::NotProtected, span, message).help(help);
    }

    /// Warns of NFs whose state the standby would not have.
    fn check_states(&mut self, document: &Document, group: &GroupPlan) {
        for nf in &group.nfs {
            let table = &items(&document.nf)[*nf].value;
            let keeps = table.state.value().and_then(|state| state.keep.value()) == Some(&true);
            let Some(at) = table.run.found.as_ref().filter(|_| !keeps && !table.state.is_broken()) else {
                continue;
            };
            if self.known.get(&at.value.0).is_some_and(|shipped| shipped.keeps) {
                let message = format!("`{}` has state, and the standby would begin with none", at.value.0);
                self.report.add(Code::StateNotKept, &at.span, message).help("add `state = { keep = true }`");
            }
        }
    }

    /// What waits for the standby is in the log, and a checkpoint is to begin before the log is full of it.
    fn check_log(&mut self, table: &GroupTable) {
        let (Some(log), Some(latch)) = (&table.log.found, table.latch.value()) else { return };
        let least = (latch.0 * 100).div_ceil(EARLY_CHECKPOINT_PERCENT);
        if log.value.0 >= least {
            return;
        }
        let message = format!(
            "a log of {} is too short for a latch of {}: the gate keeps what waits there, and copies state when \
             its log is filled to {EARLY_CHECKPOINT_PERCENT} percent",
            log.value.0, latch.0
        );
        self.report
            .add(Code::LogShort, &log.span, message)
            .help(format!("raise `log` to {least} at least, or lower `latch`"));
    }
}

/// The group itself; `None` where something of it is broken.
fn plan(
    document: &Document,
    defined: &Defined<'_>,
    table: &GroupTable,
    nodes: [String; 3],
    chains: Vec<usize>,
) -> Option<GroupPlan> {
    let stages = chains.iter().filter_map(|chain| items(&document.chain)[*chain].value.stages.value());
    let visited: BTreeSet<usize> =
        stages.flat_map(|many| &many.items).filter_map(|stage| defined.nfs.get(&stage.value.0)).collect();
    let named = |field: &Field<Name>| field.value().map(|name| name.0.clone());
    let chain_names = chains.iter().map(|place| named(&items(&document.chain)[*place].value.name));
    let nf_names = visited.iter().map(|place| named(&items(&document.nf)[*place].value.name));
    Some(GroupPlan {
        name: table.name.value()?.0.clone(),
        chain_names: chain_names.collect::<Option<_>>()?,
        nf_names: nf_names.collect::<Option<_>>()?,
        chains,
        nfs: visited.into_iter().collect(),
        nodes,
        log: table.log.value()?.0 as u32,
        latch: table.latch.value()?.0 as u32,
        window: table.window.value()?.0 as u32,
        commit_every_ns: table.commit_every.value()?.0,
        checkpoint_every_ns: table.checkpoint_every.value()?.0,
    })
}
