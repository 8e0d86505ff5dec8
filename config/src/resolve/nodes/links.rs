//! Links between nodes.

use std::collections::HashMap;

use super::super::super::codes::Code;
use super::super::super::document::{Document, LinkTable, PortKeys};
use super::super::super::model::{Bfd, LabLink};
use super::super::super::read::{At, Field, Many};
use super::super::super::report::Span;
use super::super::super::values::{Carrier, InterfaceAddress};
use super::super::names::Names;
use super::super::{Resolver, items};
use super::topology::{GroupPlan, LinkEnds, Topology};

impl Resolver<'_> {
    pub(super) fn links(&mut self, document: &Document, nodes: &Names<'_>) -> Vec<Option<LinkEnds>> {
        items(&document.link).iter().map(|at| self.link(&at.value, nodes)).collect()
    }

    fn link(&mut self, table: &LinkTable, nodes: &Names<'_>) -> Option<LinkEnds> {
        let names = self.pair(&table.nodes, "two nodes, like [\"gate\", \"left\"]");
        let interfaces = self.pair(&table.interfaces, "an interface for each node, like [\"g0\", \"l0\"]");
        let help = "an address for each node, like [\"10.9.0.1/30\", \"10.9.0.2/30\"]";
        let addresses = self.pair(&table.addresses, help);
        let [first, second] = names?;
        let defined = [first, second].map(|name| nodes.find(name, self.report).is_some());
        if first.value == second.value {
            self.report
                .add(Code::NodeParts, &second.span, format!("a link of node `{}` to itself", second.value.0))
                .help("name the node at its other end")
                .beside(first.span.clone(), "first");
            return None;
        }
        let addresses = addresses?;
        let carrier = table.carrier.value().copied()?;
        self.check_network(addresses, carrier);
        let bfd = table.bfd.value()?;
        let bfd = Bfd { interval_ns: bfd.interval.value()?.0, multiplier: bfd.multiplier.value()?.0 as u8 };
        let mtu = table.mtu.value().map(|mtu| mtu.0 as u32);
        let lab = table.lab.value()?;
        let lab = LabLink {
            rate: lab.rate.value().map(|rate| rate.0),
            delay_ns: lab.delay.value().map_or(0, |delay| delay.0),
        };
        (defined == [true; 2]).then_some(LinkEnds {
            nodes: [first, second].map(|name| name.value.0.clone()),
            interfaces: interfaces?.map(|name| name.value.0.clone()),
            addresses: addresses.map(|address| address.value),
            carrier,
            bfd,
            mtu,
            lab,
        })
    }

    /// The two elements of a list.
    fn pair<'f, T>(&mut self, field: &'f Field<Many<T>>, help: &str) -> Option<[&'f At<T>; 2]> {
        let at = field.found.as_ref()?;
        if let [first, second] = &at.value.items[..] {
            return Some([first, second]);
        }
        if at.value.complete {
            let count = at.value.items.len();
            let message = format!("a link has two ends, and {count} are here");
            self.report.add(Code::NodeParts, &at.span, message).help(format!("write {help}"));
        }
        None
    }

    fn check_network(&mut self, [first, second]: [&At<InterfaceAddress>; 2], carrier: Carrier) {
        let (one, other) = (first.value, second.value);
        let same = "give both ends addresses of one network, like \"10.9.0.1/30\" and \"10.9.0.2/30\"";
        let (wrong, help) = if one.address == other.address {
            ("both ends have one address", same)
        } else if one.address.is_ipv4() != other.address.is_ipv4() {
            ("one address is of IPv4 and one of IPv6", "give both ends addresses of one version")
        } else if carrier == Carrier::Ethernet && one.network() != other.network() {
            (
                "the two addresses are not in one network",
                "give both ends addresses of one network, like \"10.9.0.1/30\" and \"10.9.0.2/30\", or, where routers \
                 are between them, the link `carrier = \"vxlan-gpe\"`",
            )
        } else {
            return;
        };
        self.report
            .add(Code::LinkAddresses, &second.span, wrong)
            .help(help)
            .beside(first.span.clone(), "the other end");
    }

    /// Refuses links over routed networks between nodes of a group, whose frames go by Ethernet alone.
    fn refuse_routed_groups(&mut self, document: &Document, topology: &Topology) {
        for (at, link) in items(&document.link).iter().zip(&topology.links) {
            let Some(link) = link.as_ref().filter(|link| link.carrier != Carrier::Ethernet) else { continue };
            let joins = |group: &&GroupPlan| link.nodes.iter().all(|node| group.nodes.contains(node));
            if let Some(group) = topology.groups.iter().flatten().find(joins) {
                let span = at.value.carrier.found.as_ref().map_or(&at.span, |carrier| &carrier.span);
                let message = format!("group `{}` keeps its state over Ethernet alone", group.name);
                self.report
                    .add(Code::NodeParts, span, message)
                    .help("join its nodes by links on one wire, with `carrier = \"ethernet\"`");
            }
        }
    }

    /// Checks links against each other and against ports.
    pub(super) fn check_links(&mut self, document: &Document, topology: &Topology) {
        let tables = items(&document.link);
        let mut interfaces: HashMap<(&str, &str), &Span> = HashMap::new();
        let mut addresses: HashMap<(&str, InterfaceAddress), &Span> = HashMap::new();
        for (at, link) in tables.iter().zip(&topology.links) {
            let Some(link) = link else { continue };
            for end in [0, 1] {
                let node = link.nodes[end].as_str();
                let (Some(name), Some(address)) = (
                    at.value.interfaces.value().and_then(|many| many.items.get(end)),
                    at.value.addresses.value().and_then(|many| many.items.get(end)),
                ) else {
                    continue;
                };
                if let Some(first) = interfaces.insert((node, &name.value.0), &name.span) {
                    let message = format!("interface `{}` of node `{node}` has two links", name.value.0);
                    self.refuse_second(Code::DeviceTwice, &name.span, message, first);
                }
                if let Some(first) = addresses.insert((node, address.value), &address.span) {
                    let message = format!("address {} of node `{node}` is that of two links", address.value);
                    self.refuse_second(Code::LinkAddresses, &address.span, message, first);
                }
            }
        }
        self.refuse_ports_on_links(document, topology, &interfaces);
        self.refuse_routed_groups(document, topology);
    }

    fn refuse_second(&mut self, code: Code, span: &Span, message: String, first: &Span) {
        self.report
            .add(code, span, message)
            .label("again")
            .help("a link has an interface and an address of its own at each end")
            .beside(first.clone(), "first");
    }

    /// A port takes all that comes by its interface.
    fn refuse_ports_on_links(
        &mut self,
        document: &Document,
        topology: &Topology,
        links: &HashMap<(&str, &str), &Span>,
    ) {
        for (at, node) in items(&document.port).iter().zip(&topology.ports) {
            let (Some(node), Some(kind)) = (node, &at.value.kind) else { continue };
            let name = match kind {
                PortKeys::Interface(keys) => &keys.interface,
                PortKeys::Tap(keys) => &keys.tap,
                _ => continue,
            };
            let Some(name) = &name.found else { continue };
            if let Some(first) = links.get(&(node.as_str(), name.value.0.as_str())) {
                let message = format!("interface `{}` of node `{node}` is that of a link", name.value.0);
                self.report
                    .add(Code::DeviceTwice, &name.span, message)
                    .help("give the port an interface of its own: it would take what comes by the link")
                    .beside((*first).clone(), "the link");
            }
        }
    }
}
