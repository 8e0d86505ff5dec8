//! Room for what groups keep in the buffers of their nodes: what several keep at a node has to fit together.

use std::collections::BTreeSet;

use super::super::super::codes::Code;
use super::super::super::document::{Document, GroupTable, PortTable};
use super::super::super::limits::BUFFERS_MIN;
use super::super::super::read::At;
use super::super::super::report::Span;
use super::super::{Resolver, items};
use super::topology::{GroupPlan, Topology};

impl Resolver<'_> {
    /// Checks that what a group keeps fits beside what those before it keep.
    pub(super) fn check_room(&mut self, own: &[Demand<'_>], others: &[Demand<'_>], document: &Document) {
        for word in ["log", "latch"] {
            let short = own.iter().filter(|demand| demand.word == word).find_map(|demand| {
                let beside: u64 = own
                    .iter()
                    .chain(others)
                    .filter(|other| other.shares(demand))
                    .map(|other| other.packets)
                    .sum();
                let buffers = buffers_of(document, demand.domain)?;
                (beside + BUFFERS_MIN > buffers).then_some((demand, beside, buffers))
            });
            let Some((demand, all, buffers)) = short else { continue };
            let Demand { packets, domain, node, span, .. } = demand;
            let beside = if all > *packets {
                format!(", beside {} that are kept of others at node `{node}`,", all - packets)
            } else {
                String::new()
            };
            let message = format!(
                "a {word} of {packets}{beside} does not fit into the {buffers} buffers of domain `{domain}`, of which \
                 {BUFFERS_MIN} are for packets under way"
            );
            self.report
                .add(Code::OutOfRange, span, message)
                .help(format!("lower `{word}`, or raise `buffers` of the domain or of [memory]"));
        }
    }
}

/// Packets that a node keeps of a group in a domain.
pub(super) struct Demand<'d> {
    /// The key.
    word: &'static str,
    node: &'d str,
    domain: &'d str,
    packets: u64,
    span: &'d Span,
}

impl Demand<'_> {
    fn shares(&self, other: &Self) -> bool {
        (self.node, self.domain) == (other.node, other.domain)
    }
}

/// A log takes buffers of the domains that the gate's ports receive into, a latch those of the NFs at the two
/// other nodes.
pub(super) fn demands_of<'d>(
    table: &'d GroupTable,
    group: &'d GroupPlan,
    document: &'d Document,
    topology: &Topology,
) -> Vec<Demand<'d>> {
    let [gate, active, standby] = group.nodes.each_ref().map(String::as_str);
    let ports = items(&document.port).iter().zip(&topology.ports);
    let here = ports.filter(|(_, node)| node.as_deref() == Some(gate));
    let receives: BTreeSet<&str> = here.filter_map(|(at, _)| domain_of_port(at)).collect();
    let nfs = group.nfs.iter().filter_map(|nf| items(&document.nf)[*nf].value.domain.value());
    let work: BTreeSet<&str> = nfs.map(|name| name.0.as_str()).collect();
    let all =
        [(&table.log, "log", &receives, &[gate][..]), (&table.latch, "latch", &work, &[active, standby][..])];
    let demands = all.into_iter().flat_map(|(field, word, domains, nodes)| {
        let found = field.found.as_ref();
        let pairs = nodes.iter().flat_map(move |node| domains.iter().map(move |domain| (*node, *domain)));
        found.into_iter().flat_map(move |at| {
            let demand =
                move |(node, domain)| Demand { word, node, domain, packets: at.value.0, span: &at.span };
            pairs.clone().map(demand)
        })
    });
    demands.collect()
}

fn domain_of_port(at: &At<PortTable>) -> Option<&str> {
    at.value.common.domain.value().map(|name| name.0.as_str())
}

/// Buffers of a domain; `None` where they are not known.
fn buffers_of(document: &Document, domain: &str) -> Option<u64> {
    let all = || document.memory.value()?.buffers.value().map(|buffers| buffers.0);
    let named = |table: &super::super::super::document::DomainTable| {
        table.name.value().is_some_and(|name| name.0 == domain)
    };
    let table = items(&document.domain).iter().map(|at| &at.value).find(|table| named(table));
    match table {
        Some(table) if table.buffers.key.is_some() => table.buffers.value().map(|buffers| buffers.0),
        _ => all(),
    }
}
