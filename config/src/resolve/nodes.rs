//! Nodes: who is where, and whether that fits together.
//!
//! One file is for all nodes. What it says about them is checked as a whole here; then [`part`] leaves of it
//! what one node runs, and that is resolved as the file of one machine is.

pub mod across;
mod groups;
mod links;
pub mod part;
mod room;
mod sharing;
pub mod topology;
mod whole;

use super::super::codes::Code;
use super::super::document::Document;
use super::super::read::Field;
use super::super::report::Span;
use super::super::suggest;
use super::super::values::Name;
use super::names::Names;
use super::{Defined, Resolver, is_whole, items};
use topology::{GroupPlan, Home, Topology};

impl Resolver<'_> {
    /// Returns the node whose part of the file is asked for. Reports one that is not there.
    pub fn select<'n>(&mut self, topology: &Topology, node: Option<&'n str>) -> Option<&'n str> {
        let node = node?;
        if !topology.nodes.iter().any(|one| one == node) {
            let defined = topology.nodes.iter().map(String::as_str);
            let help = match topology.nodes.is_empty() {
                true => "leave `--node` out: the file is for one machine".to_owned(),
                false => suggest::help("nodes of the file", node, defined),
            };
            self.report.add_about_file(Code::UndefinedNode, format!("there is no node `{node}`")).help(help);
            return None;
        }
        Some(node)
    }

    /// Checks everything that a file says about nodes.
    pub fn topology(&mut self, document: &Document) -> Topology {
        let names = items(&document.node).iter().map(|at| &at.value.name);
        let nodes = Names::collect("node", Code::UndefinedNode, names, is_whole(&document.node), self.report);
        let defined = self.define(document);
        let named = items(&document.node).iter().filter_map(|at| at.value.name.value());
        let mut topology =
            Topology { nodes: named.map(|name| name.0.clone()).collect(), ..Topology::default() };
        let has_nodes = document.node.key.is_some();
        topology.ports = self.homes_of_ports(document, &nodes, has_nodes);
        topology.links = self.links(document, &nodes);
        topology.groups = self.groups(document, &nodes, &defined);
        self.homes(document, &nodes, &defined, has_nodes, &mut topology);
        self.check_links(document, &topology);
        self.check_groups(document, &topology);
        self.check_across(document, &topology);
        topology.steering = self.steering(document, &topology);
        topology
    }

    fn homes_of_ports(
        &mut self,
        document: &Document,
        nodes: &Names<'_>,
        has_nodes: bool,
    ) -> Vec<Option<String>> {
        let mut homes = Vec::new();
        for at in items(&document.port) {
            let common = &at.value.common;
            homes.push(self.node_of(&common.node, nodes));
            if common.node.key.is_none() && has_nodes {
                self.refuse_unsaid(&common.span, "the port does not say which node it is at");
            }
        }
        homes
    }

    fn refuse_unsaid(&mut self, span: &Span, message: &str) {
        self.report
            .add(Code::NodeUnsaid, span, message)
            .label("`node` is missing")
            .help("add `node = \"…\"` with the name of a [[node]]");
    }

    /// The node that a key names, which is reported where there is none.
    fn node_of(&mut self, field: &Field<Name>, nodes: &Names<'_>) -> Option<String> {
        let at = field.found.as_ref()?;
        nodes.find(at, self.report).map(|_| at.value.0.clone())
    }

    /// Finds the places of NFs and chains.
    fn homes(
        &mut self,
        document: &Document,
        nodes: &Names<'_>,
        defined: &Defined<'_>,
        has_nodes: bool,
        topology: &mut Topology,
    ) {
        let groups =
            || topology.groups.iter().enumerate().filter_map(|(place, one)| Some((place, one.as_ref()?)));
        let group_of_chain =
            |chain| groups().find(|(_, group)| group.chains.contains(&chain)).map(|(place, _)| place);
        let group_of_nf = |nf| groups().find(|(_, group)| group.nfs.contains(&nf)).map(|(place, _)| place);
        let whole_groups = topology.groups.iter().all(Option::is_some) && is_whole(&document.group);
        let mut nfs = Vec::new();
        for (place, at) in items(&document.nf).iter().enumerate() {
            let shared = self.nodes_of(&at.value, nodes);
            let own = shared.or_else(|| self.node_of(&at.value.node, nodes).map(Home::Node));
            self.check_affinity(&at.value);
            let group = group_of_nf(place);
            let said = at.value.node.key.as_ref().or(at.value.nodes.key.as_ref());
            if let (Some(key), Some(_)) = (said, group) {
                self.report
                    .add(Code::NodeParts, key, "an NF of a group runs on its active node and on its standby")
                    .help("leave `node` and `nodes` out");
            }
            // Of a group that is broken it is not known which NFs it has.
            if said.is_none() && group.is_none() && has_nodes && whole_groups {
                self.refuse_unsaid(&at.value.span, "the NF does not say which node it runs on");
            }
            nfs.push(group.map(Home::Group).or(own));
        }
        let mut chains = Vec::new();
        for (place, at) in items(&document.chain).iter().enumerate() {
            let home = group_of_chain(place).map(Home::Group);
            chains.push(home.or_else(|| Self::home_of_chain(document, &at.value, defined, topology, &nfs)));
        }
        (topology.nfs, topology.chains) = (nfs, chains);
        self.check_ends_of_chains(document, defined, topology);
    }

    /// Checks that packets come to a chain of a group, and leave it, at its gate.
    fn check_ends_of_chains(&mut self, document: &Document, defined: &Defined<'_>, topology: &Topology) {
        let node_of_port = |name: &str| topology.ports.get(defined.ports.get(name)?)?.as_deref();
        let gate_of = |chain: usize| match topology.chains.get(chain)?.as_ref()? {
            Home::Group(group) => topology.group(*group).map(GroupPlan::gate),
            _ => None,
        };
        for (place, at) in items(&document.chain).iter().enumerate() {
            let (Some(gate), Some(out)) = (gate_of(place), &at.value.out.found) else { continue };
            if let Some(node) = node_of_port(&out.value.0).filter(|node| *node != gate) {
                self.refuse_end(&out.span, &out.value.0, node, "leave the chain", gate);
            }
        }
        for at in items(&document.rule) {
            let (Some(port), Some(chain)) = (&at.value.r#in.found, &at.value.chain.found) else { continue };
            let gate = defined.chains.get(&chain.value.0).and_then(gate_of);
            let (Some(node), Some(gate)) = (node_of_port(&port.value.0), gate) else { continue };
            if node != gate {
                self.refuse_end(&port.span, &port.value.0, node, "enter the chain", gate);
            }
        }
    }

    fn refuse_end(&mut self, span: &Span, port: &str, node: &str, does: &str, gate: &str) {
        let message = format!(
            "port `{port}` is at node `{node}`, and packets {does} at `{gate}`, the gate of its group"
        );
        self.report.add(Code::NodeParts, span, message).help(format!("name a port of node `{gate}`"));
    }
}
