//! The part of a plan that concerns other nodes, in words.

use std::fmt;

use super::super::model::{Across, Chain, ChainId, Config, Group, Node, NodeLink, Out, Role, Store};
use super::super::values::duration_text;

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Some(folder) => writeln!(f, "\nNode {}, state in {}", self.name, folder.display())?,
            None => writeln!(f, "\nNode {}", self.name)?,
        }
        for link in &self.links {
            writeln!(f, "  link to {link}")?;
        }
        for group in &self.groups {
            writeln!(f, "  group {group}")?;
        }
        if let Some(Store { cluster, servers }) = &self.store {
            let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
            let at = servers.join(", ");
            writeln!(f, "  store {at}, cluster {cluster}: says which nodes serve NFs with a range")?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, interface, address, peer_address, bfd, .. } = self;
        let (interval, times) = (duration_text(bfd.interval_ns), bfd.multiplier);
        let by = if self.is_routed() { " over VXLAN-GPE" } else { "" };
        write!(f, "{peer}: {interface}, {address} to {peer_address}{by}; down after {times} x {interval}")
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, gate, active, standby, .. } = self;
        write!(f, "{name}: {} here; gate {gate}, active {active}, standby {standby}; ", self.role.word())?;
        let (commit, checkpoint) =
            (duration_text(self.commit_every_ns), duration_text(self.checkpoint_every_ns));
        match self.role {
            Role::Gate => write!(f, "log of {} packets", self.log),
            Role::Active | Role::Standby => write!(
                f,
                "latch of {} packets, {} commits under way, one in {commit} at least, checkpoint every {checkpoint}",
                self.latch, self.window
            ),
        }
    }
}

impl Node {
    /// Returns the nodes that work on the packets of a chain which enter here: the active one first.
    pub(super) fn workers_of(&self, chain: ChainId) -> Option<[&str; 2]> {
        let gated = self.groups.iter().filter(|group| group.role == Role::Gate);
        let group = gated.into_iter().find(|group| group.chains.contains(&chain))?;
        Some([&group.active, &group.standby])
    }
}

/// Names of a chain's NFs; of those at other nodes with the node.
pub(super) fn stage_names(config: &Config, chain: &Chain) -> Vec<String> {
    match (&chain.across, &config.node) {
        (Some(across), Some(node)) => across.stages.iter().map(|stage| stage.name_at(&node.name)).collect(),
        _ => chain.stages.iter().map(|id| config.nfs[id.index()].name.clone()).collect(),
    }
}

/// Name of the end of a chain; of one at another node with the node.
pub(super) fn out_name(config: &Config, chain: &Chain) -> String {
    match chain.out {
        Out::Port(id) => config.ports[id.index()].name.clone(),
        Out::Nf => "nf".to_owned(),
        Out::Node => chain.across.as_ref().map_or(String::new(), Across::exit_name),
        Out::Interface => chain.io.as_ref().map_or(String::new(), |io| io.end.clone()),
    }
}

/// Writes the service path of a chain over several nodes.
pub(super) fn write_path(f: &mut fmt::Formatter<'_>, path: u32) -> fmt::Result {
    writeln!(f, "  service path {path:#x} between nodes")
}
