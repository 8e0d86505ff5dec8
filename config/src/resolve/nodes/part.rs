//! The part of a file that one node runs.
//!
//! What other nodes run is taken out of the document before it is resolved, so everything after this knows
//! one machine only. Three things of others stay: a group's chains at its gate, which pass the NFs of the
//! others and have no stages there; at the others the gate's ports, where packets leave; and chains over
//! several nodes, with the stages that are here.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::super::super::codes::Code;
use super::super::super::digest::Digest;
use super::super::super::document::{ChainTable, Document, PortKeys, RuleTable};
use super::super::super::model::{
    Across, Backend, ChainId, Config, Group, NfId, Node, NodeLink, PortId, Role, Store,
};
use super::super::super::read::{At, Field, Many};
use super::super::super::report::Span;
use super::super::super::values::{NAME_BYTES_MAX, Name};
use super::super::{Resolver, items};
use super::across;
use super::topology::{GroupPlan, Home, Topology, Way};

/// Bytes that a packet's frame on a link has beyond an Ethernet frame's payload at the gate's port: the
/// header between nodes (32), the packet's own Ethernet header and VLAN tag (18), and what an output carries
/// before its packet, at most the rest. Our choice: a round number that leaves the format room.
const OVERHEAD_BYTES: u32 = 64;

impl Resolver<'_> {
    /// Leaves of a document what a node runs.
    pub fn keep_part(&mut self, document: &mut Document, topology: &Topology, node: &str) {
        self.name_manager(document, node);
        give_cores(document, topology, node);
        let works_for = |group: &GroupPlan| matches!(group.role_of(node), Some(Role::Active | Role::Standby));
        let worked_for = topology.groups.iter().flatten().filter(|group| works_for(group));
        let gates: HashSet<&str> = worked_for.map(GroupPlan::gate).collect();
        let chains = across::all(document, topology);
        retain(&mut document.port, |place, table| match topology.ports[place].as_deref() {
            Some(home) if home == node => true,
            Some(home) if gates.contains(home) => {
                table.kind = Some(PortKeys::Elsewhere(home.to_owned()));
                (table.common.faults, table.common.nsh) = (Field::ABSENT, Field::ABSENT);
                true
            }
            other => other.is_none(),
        });
        retain(&mut document.nf, |place, _| match &topology.nfs[place] {
            Some(Home::Node(home)) => home == node,
            Some(Home::Nodes(homes)) => homes.iter().any(|home| home == node),
            Some(Home::Group(group)) => topology.group(*group).is_none_or(works_for),
            Some(Home::Across(_)) | None => true,
        });
        let entered = keep_chains(document, topology, node);
        keep_rules(document, &entered, &chains);
        (self.entered, self.node) = (Some(entered), Some(node.to_owned()));
        if !chains.is_empty() {
            self.links = links_of(topology, node);
        }
        self.across = chains;
        keep_domains(document);
    }

    /// Several managers of one file may run on one machine, each under a name of its own.
    fn name_manager(&mut self, document: &mut Document, node: &str) {
        let Some(manager) = &mut document.manager.found else { return };
        let Some(at) = &mut manager.value.name.found else { return };
        if manager.value.name.key.is_none() {
            at.value = Name(node.to_owned());
            return;
        }
        let name = format!("{}-{node}", at.value.0);
        if name.len() > NAME_BYTES_MAX {
            let message =
                format!("`{name}`, the name of the node's manager, is longer than {NAME_BYTES_MAX} bytes");
            self.report.add(Code::OutOfRange, &at.span, message).help("shorten it, or the node's name");
            return;
        }
        at.value = Name(name);
    }

    /// The node that a configuration is the part of.
    pub fn node(
        &mut self,
        document: &Document,
        config: &Config,
        topology: &Topology,
        name: &str,
        digest: Digest,
    ) -> Node {
        let at =
            items(&document.node).iter().find(|at| at.value.name.value().is_some_and(|own| own.0 == name));
        let at = at.map(|at| &at.value);
        let state = at.and_then(|table| table.state.found.as_ref());
        let state = state.map(|at| self.path(&at.value.0));
        let groups = topology.groups.iter().enumerate().filter_map(|(number, group)| {
            let group = group.as_ref()?;
            Some(group_of(config, (number, group), group.role_of(name)?))
        });
        let groups: Vec<Group> = groups.collect();
        if let Some(at) = at.filter(|_| state.is_none() && !groups.is_empty()) {
            self.report
                .add(
                    Code::MissingKey,
                    &at.span,
                    format!(
                        "node `{name}` is of group `{}`, and has no folder for its views",
                        groups[0].name
                    ),
                )
                .label("`state` is missing")
                .help(format!("add `state = \"state/{name}\"`: who is active must survive a restart"));
        }
        let (links, network) = (links_of(topology, name), topology.network());
        let steering = topology.steering.filter(|_| topology.shares());
        let store = store_of(document, &config.manager.name, name);
        let node = Node { name: name.to_owned(), state, digest, links, groups, network, steering, store };
        self.check_mtus(document, config, topology, &node);
        node
    }

    /// Checks that the packets of the gate's ports fit into the frames of its links.
    fn check_mtus(&mut self, document: &Document, config: &Config, topology: &Topology, node: &Node) {
        let mtu_of_port = |port: &PortId| match &config.ports[port.index()].backend {
            Backend::Interface(one) => self.machine.mtus.get(&one.interface).copied(),
            _ => None,
        };
        let gated = node.groups.iter().filter(|group| group.role == Role::Gate);
        let largest = gated.flat_map(|group| &group.ports).filter_map(mtu_of_port).max();
        let gated = largest.map(|largest| (largest, OVERHEAD_BYTES));
        let rules = config.rules.iter().map(|rule| rule.chain);
        let entered = across::entered(&config.chains, rules);
        let entries = config.rules.iter().filter(|rule| entered.contains(&rule.chain));
        let largest = entries.filter_map(|rule| mtu_of_port(&rule.port?)).max();
        let handed_on = largest;
        self.check_wanted_mtus(document, topology, node);
        let needs = |(largest, overhead): &(u32, u32)| largest + overhead;
        let ends = topology.interfaces();
        for link in &node.links {
            let Some(mtu) = self.machine.mtus.get(&link.interface).copied() else { continue };
            let handed_on = handed_on.map(|largest| (largest, link.header_bytes()));
            let most = gated.into_iter().chain(handed_on).max_by_key(needs);
            let Some((largest, overhead)) = most else { return };
            let at = ends.get(&(node.name.as_str(), link.interface.as_str()));
            let at = at.and_then(|place| items(&document.link).get(*place));
            let Some(at) = at.filter(|_| mtu < largest + overhead) else { continue };
            let message = format!(
                "the MTU of `{}`, {mtu}, is too small: packets of {largest} bytes travel between nodes with \
                 {overhead} bytes of headers",
                link.interface
            );
            let help = format!("`ip link set {} mtu {}` at both ends", link.interface, largest + overhead);
            self.report.add(Code::MtuShort, &at.value.span, message).help(help);
        }
    }

    /// Checks that interfaces of links have the MTUs that the file names.
    fn check_wanted_mtus(&mut self, document: &Document, topology: &Topology, node: &Node) {
        let ends = topology.interfaces();
        for link in &node.links {
            let at = ends.get(&(node.name.as_str(), link.interface.as_str()));
            let table = at.and_then(|place| items(&document.link).get(*place)).map(|at| &at.value);
            let wanted = table.and_then(|table| table.mtu.found.as_ref());
            let (Some(wanted), Some(mtu)) = (wanted, self.machine.mtus.get(&link.interface)) else {
                continue;
            };
            if u64::from(*mtu) < wanted.value.0 {
                let message = format!("the MTU of `{}` is {mtu}", link.interface);
                let help = format!("`ip link set {} mtu {}`", link.interface, wanted.value.0);
                self.report.add(Code::MtuShort, &wanted.span, message).help(help);
            }
        }
    }
}

/// Gives the manager the cores that its node names.
fn give_cores(document: &mut Document, topology: &Topology, node: &str) {
    let place = topology.nodes.iter().position(|one| one == node);
    let own = place.and_then(|place| items(&document.node).get(place)).map(|at| at.value.cores.clone());
    if let Some((own, manager)) =
        own.zip(document.manager.found.as_mut()).filter(|(own, _)| own.key.is_some())
    {
        manager.value.cores = own;
    }
}

/// Leaves the chains that a node has a part in. Returns the names of those that packets enter there.
fn keep_chains(document: &mut Document, topology: &Topology, node: &str) -> HashSet<String> {
    let mut entered = HashSet::new();
    retain(&mut document.chain, |place, table| {
        let (enters, is_kept) = match (&topology.chains[place], topology.way(place)) {
            (_, Some(way)) => {
                keep_stages(table, way, node);
                (way.entries.iter().any(|entry| entry == node), true)
            }
            (home, None) => {
                let role = match home {
                    Some(Home::Group(group)) => topology.group(*group).and_then(|group| group.role_of(node)),
                    _ => None,
                };
                if role == Some(Role::Gate) {
                    table.stages = none_at(table.span.clone());
                }
                let enters = topology.entry(place).is_none_or(|entry| entry == node);
                (enters, enters || role.is_some())
            }
        };
        entered.extend(table.name.value().filter(|_| enters).map(|name| name.0.clone()));
        is_kept
    });
    entered
}

/// Leaves the rules by which packets enter at a node: into a chain over several nodes by its own ports alone.
fn keep_rules(document: &mut Document, entered: &HashSet<String>, across: &HashMap<String, Across>) {
    let here: HashSet<String> =
        items(&document.port).iter().filter_map(|at| Some(at.value.common.name.value()?.0.clone())).collect();
    retain(&mut document.rule, |_, table: &mut RuleTable| {
        let Some(chain) = table.chain.value() else { return true };
        let comes_here = || table.r#in.value().is_some_and(|port| here.contains(&port.0));
        entered.contains(&chain.0) && (!across.contains_key(&chain.0) || comes_here())
    });
}

/// Leaves those stages of a chain over several nodes that one runs.
fn keep_stages(table: &mut ChainTable, way: &Way, node: &str) {
    let span = table.span.clone();
    let Some(list) = &mut table.stages.found else { return };
    let mut stages = way.stages.iter();
    list.value.items.retain(|_| stages.next().is_some_and(|nodes| nodes.iter().any(|one| one == node)));
    if list.value.items.is_empty() {
        table.stages = none_at(span);
    }
}

/// An empty list that no key stands for.
const fn none_at<T>(span: Span) -> Field<Many<T>> {
    Field { key: None, found: Some(At { value: Many { items: Vec::new(), complete: true }, span }) }
}

/// Keeps the tables that `is_kept` says, by place.
fn retain<T>(list: &mut Field<Many<T>>, mut is_kept: impl FnMut(usize, &mut T) -> bool) {
    let Some(many) = &mut list.found else { return };
    let mut place = 0;
    many.value.items.retain_mut(|at: &mut At<T>| {
        place += 1;
        is_kept(place - 1, &mut at.value)
    });
}

/// Takes out domains that only other nodes use, and with them their memory.
fn keep_domains(document: &mut Document) {
    let ports = items(&document.port).iter();
    let ports = ports.filter(|at| !matches!(at.value.kind, Some(PortKeys::Elsewhere(_))));
    let used =
        ports.map(|at| &at.value.common.domain).chain(items(&document.nf).iter().map(|at| &at.value.domain));
    let used: HashSet<String> = used.filter_map(|field| Some(field.value()?.0.clone())).collect();
    retain(&mut document.domain, |_, table| table.name.value().is_none_or(|name| used.contains(&name.0)));
}

fn links_of(topology: &Topology, node: &str) -> Vec<NodeLink> {
    let ends = topology.links.iter().enumerate().filter_map(|(number, link)| {
        let link = link.as_ref()?;
        let own = link.nodes.iter().position(|one| one == node)?;
        Some(NodeLink {
            number: number as u16,
            peer: link.nodes[1 - own].clone(),
            interface: link.interfaces[own].clone(),
            carrier: link.carrier,
            address: link.addresses[own].address,
            peer_address: link.addresses[1 - own].address,
            prefix_bits: link.addresses[own].length,
            bfd: link.bfd,
            mtu: link.mtu,
            lab: link.lab,
        })
    });
    ends.collect()
}

/// A group, with the numbers that things have at this node.
fn group_of(config: &Config, (number, group): (usize, &GroupPlan), role: Role) -> Group {
    let [gate, active, standby] = group.nodes.clone();
    let is_of_gate = |backend: &Backend| match backend {
        Backend::Elsewhere { node } => *node == gate,
        _ => role == Role::Gate,
    };
    let ports = config.ports.iter().enumerate().filter(|(_, port)| port.link.is_none());
    let ports = ports.filter(|(_, port)| is_of_gate(&port.backend));
    let ports = ports.map(|(place, _)| PortId(place as u16)).collect();
    let chain = |name: &String| config.chains.iter().position(|chain| chain.name == *name);
    let nf = |name: &String| config.nfs.iter().position(|nf| nf.name == *name);
    Group {
        name: group.name.clone(),
        number: number as u16,
        role,
        chains: group.chain_names.iter().filter_map(chain).map(|place| ChainId(place as u16)).collect(),
        ports,
        nfs: match role {
            // One of this name could be another group's.
            Role::Gate => Vec::new(),
            _ => group.nf_names.iter().filter_map(nf).map(|place| NfId(place as u16)).collect(),
        },
        gate,
        active,
        standby,
        log: group.log,
        latch: group.latch,
        window: group.window,
        commit_every_ns: group.commit_every_ns,
        checkpoint_every_ns: group.checkpoint_every_ns,
    }
}

/// The store of a file, for the node with this manager.
fn store_of(document: &Document, manager: &str, node: &str) -> Option<Store> {
    let table = document.cluster.value()?;
    let servers: Vec<SocketAddr> = items(&table.store).iter().map(|at| at.value.0).collect();
    // Without a name in [manager] it is called as its node, which is another at each.
    let common = manager.strip_suffix(node).and_then(|name| name.strip_suffix('-')).unwrap_or("default");
    let cluster = table.name.value().map_or_else(|| common.to_owned(), |name| name.0.clone());
    (!servers.is_empty()).then_some(Store { cluster, servers })
}
