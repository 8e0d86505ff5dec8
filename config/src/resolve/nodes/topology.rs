//! What a file says about nodes: who is where.

use std::collections::HashMap;

use super::super::super::model::{Bfd, LabLink, Network, Role, Steering};
use super::super::super::values::{Carrier, InterfaceAddress};

/// Nodes, links and groups of a file, and where everything is.
#[derive(Debug, Default)]
pub struct Topology {
    /// Names of the nodes, in the order of the file.
    pub nodes: Vec<String>,
    /// Links, in the order of the file; `None` where one is broken.
    pub links: Vec<Option<LinkEnds>>,
    /// Groups, in the order of the file; `None` where one is broken.
    pub groups: Vec<Option<GroupPlan>>,
    /// Node of each port, by place; `None` where that is broken.
    pub ports: Vec<Option<String>>,
    /// Place of each NF, by place; `None` where that is broken, or no chain visits it and it has no node.
    pub nfs: Vec<Option<Home>>,
    /// Place of each chain, by place; `None` where that is broken.
    pub chains: Vec<Option<Home>>,
    /// Choice among nodes that share an NF; `None` where it is broken.
    pub steering: Option<Steering>,
}

/// Place of a chain or an NF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// A node.
    Node(String),
    /// Nodes that share an NF.
    Nodes(Vec<String>),
    /// Nodes of a group, by its place.
    Group(usize),
    /// Several nodes, which hand its packets on.
    Across(Way),
}

/// Way of a chain over several nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Nodes where packets enter it, in the order of rules.
    pub entries: Vec<String>,
    /// Nodes of each stage: one, or several that share it.
    pub stages: Vec<Vec<String>>,
    /// Node where packets leave.
    pub exit: String,
}

impl Way {
    /// Returns the nodes that packets have to come to, each with the one they come from.
    pub fn legs(&self) -> impl Iterator<Item = (&str, &str)> {
        let exit = std::slice::from_ref(&self.exit);
        let sources = [self.entries.as_slice()].into_iter().chain(self.stages.iter().map(Vec::as_slice));
        let targets = self.stages.iter().map(Vec::as_slice).chain([exit]);
        sources.zip(targets).flat_map(|(from, to)| {
            from.iter().flat_map(move |one| to.iter().map(move |other| (one.as_str(), other.as_str())))
        })
    }
}

/// A link.
#[derive(Debug, Clone)]
pub struct LinkEnds {
    /// The nodes.
    pub nodes: [String; 2],
    /// The interface of each.
    pub interfaces: [String; 2],
    /// The address of each.
    pub addresses: [InterfaceAddress; 2],
    /// What carries packets.
    pub carrier: Carrier,
    /// How its end is noticed.
    pub bfd: Bfd,
    /// MTU that both interfaces are to have.
    pub mtu: Option<u32>,
    /// What `headgate lab` has it be like.
    pub lab: LabLink,
}

/// A group.
#[derive(Debug, Clone)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// Its chains, by place.
    pub chains: Vec<usize>,
    /// Their names.
    pub chain_names: Vec<String>,
    /// NFs of its chains, by place, in the order of the file.
    pub nfs: Vec<usize>,
    /// Their names.
    pub nf_names: Vec<String>,
    /// Gate, active node and standby.
    pub nodes: [String; 3],
    /// Packets that the gate keeps.
    pub log: u32,
    /// Packets that wait for the standby.
    pub latch: u32,
    /// Commits under way at once.
    pub window: u32,
    /// Longest time between two commits, in nanoseconds.
    pub commit_every_ns: u64,
    /// Time between two checkpoints, in nanoseconds.
    pub checkpoint_every_ns: u64,
}

/// Roles in the order of [`GroupPlan::nodes`].
pub const ROLES: [Role; 3] = [Role::Gate, Role::Active, Role::Standby];

impl GroupPlan {
    /// Returns the role of a node; `None` where it has none.
    pub fn role_of(&self, node: &str) -> Option<Role> {
        let place = self.nodes.iter().position(|one| one == node)?;
        Some(ROLES[place])
    }

    /// Returns the gate.
    pub fn gate(&self) -> &str {
        &self.nodes[0]
    }
}

impl Topology {
    /// Returns the group with this place, unless it is broken.
    pub fn group(&self, place: usize) -> Option<&GroupPlan> {
        self.groups.get(place)?.as_ref()
    }

    /// Returns the node where packets enter a chain; `None` where they may at several.
    pub fn entry(&self, chain: usize) -> Option<&str> {
        match self.chains.get(chain)?.as_ref()? {
            Home::Node(node) => Some(node),
            Home::Group(group) => self.group(*group).map(GroupPlan::gate),
            Home::Across(_) | Home::Nodes(_) => None,
        }
    }

    /// Returns whether any NF is shared by several nodes.
    pub fn shares(&self) -> bool {
        self.nfs.iter().flatten().any(|home| matches!(home, Home::Nodes(_)))
    }

    /// Returns the way of a chain over several nodes.
    pub fn way(&self, chain: usize) -> Option<&Way> {
        match self.chains.get(chain)?.as_ref()? {
            Home::Across(way) => Some(way),
            _ => None,
        }
    }

    /// Returns all nodes, and all links that are whole.
    pub fn network(&self) -> Network {
        let place = |node: &String| self.nodes.iter().position(|one| one == node).unwrap_or_default() as u16;
        let ends = |link: &LinkEnds| link.nodes.each_ref().map(place);
        Network { nodes: self.nodes.clone(), links: self.links.iter().flatten().map(ends).collect() }
    }

    /// Returns the links of two nodes.
    pub fn links_of<'t>(&'t self, one: &'t str, other: &'t str) -> impl Iterator<Item = &'t LinkEnds> {
        let joins = move |link: &&LinkEnds| {
            let [a, b] = &link.nodes;
            (a == one && b == other) || (a == other && b == one)
        };
        self.links.iter().flatten().filter(joins)
    }

    /// Returns interfaces of links, by node and name.
    pub fn interfaces(&self) -> HashMap<(&str, &str), usize> {
        let ends = self.links.iter().enumerate().filter_map(|(place, link)| Some((place, link.as_ref()?)));
        ends.flat_map(|(place, link)| {
            [0, 1].map(|end| ((link.nodes[end].as_str(), link.interfaces[end].as_str()), place))
        })
        .collect()
    }
}
