//! NFs that several nodes share, and how flows are divided among these.

use super::super::super::codes::Code;
use super::super::super::document::{Document, NfTable, RangeTable};
use super::super::super::model::Steering;
use super::super::super::report::Span;
use super::super::super::values::{Affinity, OnFailure};
use super::super::names::Names;
use super::super::{Resolver, items};
use super::topology::{Home, Topology};

impl Resolver<'_> {
    /// Returns the nodes that share an NF; `None` where there is no such list, or it is broken.
    pub(super) fn nodes_of(&mut self, table: &NfTable, nodes: &Names<'_>) -> Option<Home> {
        let list = table.nodes.found.as_ref()?;
        if let (Some(node), Some(key)) = (&table.node.key, &table.nodes.key) {
            let help = "leave `node` out: `nodes` names all of them";
            self.conflict((node, "one node"), key, "`nodes` and `node` exclude each other", help);
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        for at in &list.value.items {
            nodes.find(at, self.report)?;
            if names.contains(&at.value.0) {
                let message = format!("node `{}` is named twice", at.value.0);
                self.report
                    .add(Code::NodeParts, &at.span, message)
                    .help("name it once, and raise `instances` for more of them there");
                return None;
            }
            names.push(at.value.0.clone());
        }
        if !list.value.complete {
            return None;
        }
        self.refuse_of_shared(table);
        match names.len() {
            0 => {
                self.report
                    .add(Code::NodeParts, &list.span, "an NF without nodes runs nowhere")
                    .help("name the nodes that share it, like [\"a\", \"b\"]");
                None
            }
            1 => names.pop().map(Home::Node),
            _ => Some(Home::Nodes(names)),
        }
    }

    /// Refuses an affinity that instances cannot keep: what chooses among them goes by one direction.
    pub(super) fn check_affinity(&mut self, table: &NfTable) {
        let affinity = table.affinity.found.as_ref().filter(|at| at.value == Affinity::Session);
        let many = table.instances.value().filter(|count| count.0 > 1 && table.nodes.key.is_none());
        let (Some(at), Some(_)) = (affinity, many) else { return };
        let message = "both directions of a session may come to different instances: each flow goes to one by its \
                       own hash";
        self.report
            .add(Code::NodeParts, &at.span, message)
            .help("leave `instances` out, or let the NF go by flows and `affinity = \"flow\"`");
    }

    /// Refuses what several nodes cannot keep for an NF that they share.
    fn refuse_of_shared(&mut self, table: &NfTable) {
        let affinity = table.affinity.found.as_ref().filter(|at| at.value == Affinity::Session);
        let bypass = table.on_failure.found.as_ref().filter(|at| at.value == OnFailure::Bypass);
        if let Some(at) = affinity {
            let message = "both directions of a session cannot be brought to one of several nodes: each node \
                           chooses for the packets that come to it";
            self.report
                .add(Code::NodeParts, &at.span, message)
                .help("name one node with `node`, or let the NF go by flows and `affinity = \"flow\"`");
        }
        if let Some(at) = bypass {
            let message = "an NF that several nodes share is not bypassed: where it is down at one, the others \
                           have its flows";
            self.report.add(Code::NodeParts, &at.span, message).help("leave `on_failure` out");
        }
    }

    /// Checks how many nodes are to serve each NF, and that a store is there where they have to agree on it.
    pub(super) fn check_ranges(&mut self, document: &Document, topology: &Topology) {
        let mut any = false;
        for (at, home) in items(&document.nf).iter().zip(&topology.nfs) {
            let table = &at.value.instances;
            let (Some(found), Some(range)) =
                (&table.found, table.value().and_then(|instances| instances.1.as_ref()))
            else {
                continue;
            };
            any = true;
            let nodes = match home {
                Some(Home::Nodes(nodes)) => nodes.len() as u64,
                Some(_) => {
                    let message = "a range is of nodes that serve the NF, and this one has one place";
                    let help = "name several with `nodes = [\"a\", \"b\"]`, or write how many processes: `instances = 2`";
                    self.report.add(Code::NodeParts, &found.span, message).help(help);
                    continue;
                }
                None => continue,
            };
            self.check_range(range, nodes, at.value.state.key.as_ref());
        }
        self.check_store(document, any);
    }

    /// Checks that a store is there where `ranges` need it, and nodes where a store is.
    fn check_store(&mut self, document: &Document, ranges: bool) {
        let store = document.cluster.value().and_then(|cluster| cluster.store.key.as_ref());
        match (store, ranges) {
            (Some(store), _) if items(&document.node).is_empty() => {
                self.report
                    .add(
                        Code::NodeParts,
                        store,
                        "a store is for nodes that agree in it, and the file has none",
                    )
                    .help("add [[node]] for each, or leave [cluster] out");
            }
            (None, true) => {
                self.report
                    .add_about_file(
                        Code::NodeParts,
                        "`instances` is a range, and there is no store where nodes agree who serves",
                    )
                    .help("add [cluster] with `store = [\"http://10.0.0.10:2379\"]`, the address of an etcd");
            }
            _ => {}
        }
    }

    fn check_range(&mut self, range: &RangeTable, nodes: u64, state: Option<&Span>) {
        let (Some(min), Some(max)) = (&range.min.found, &range.max.found) else { return };
        if min.value.0 > max.value.0 {
            let message = format!("`min`, {}, is above `max`, {}", min.value.0, max.value.0);
            self.report.add(Code::OutOfRange, &min.span, message).help("lower `min`, or raise `max`");
        }
        if max.value.0 > nodes {
            let message = format!("at most {} nodes are to serve it, and it has {nodes}", max.value.0);
            self.report
                .add(Code::OutOfRange, &max.span, message)
                .help("lower `max`, or name more in `nodes`: each has one instance");
        }
        if let Some(state) = state {
            let message = "state that is kept stays at a node where the NF may end";
            self.report
                .add(Code::NodeParts, state, message)
                .help("leave `state` out, or give `instances` no range");
        }
    }

    /// Returns how flows are divided among nodes.
    pub(super) fn steering(&mut self, document: &Document, topology: &Topology) -> Option<Steering> {
        self.check_ranges(document, topology);
        let Some(at) = &document.steering.found else { return Some(Steering::default()) };
        let table = &at.value;
        if !topology.shares() && topology.nfs.iter().all(Option::is_some) {
            self.report
                .add(Code::NodeParts, &at.span, "no NF is on several nodes, so there is nothing to choose")
                .help("give an [[nf]] several nodes, like `nodes = [\"a\", \"b\"]`, or leave [steering] out");
        }
        let (low, high) = (table.low.value()?.0 as u8, table.high.value()?.0 as u8);
        if low >= high {
            let span = table.low.found.as_ref().map_or(&at.span, |low| &low.span);
            let message = format!("`low`, {low} %, is not below `high`, {high} %");
            self.report.add(Code::OutOfRange, span, message).help("lower `low`, or raise `high`");
        }
        Some(Steering {
            mode: *table.mode.value()?,
            low,
            high,
            off_path: table.off_path.value()?.0 as u16,
            period_ns: table.period.value()?.0,
            beat_ns: table.beat.value()?.0,
        })
    }
}
