//! Five hosts of the demo's own: two that talk, and three nodes between them, each with a manager.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use headgate_api::Request;
use headgate_api::attendance::Text;
use headgate_api::daemon::{Configuration, Daemon, Options};
use headgate_api::request::{Applied, RequestError};
use headgate_api::status::Snapshot;
use headgate_host::cores::Placement;
use headgate_host::namespace::{Endpoint, Namespace, NamespaceError, Namespaces};
use headgate_host::network::{Mac, VethEnd};
use headgate_host::programs::Program;

use crate::error::CommandError;

/// Name of the group.
pub const GROUP: &str = "edge";
/// Packets of 1500 bytes travel between nodes with 64 bytes of headers.
const LINK_MTU: u32 = 1564;
/// Bits of the networks of links: two addresses each.
const LINK_BITS: u8 = 30;
const NODES: [&str; 3] = ["gate", "left", "right"];

/// A link: the places of its nodes, their interfaces, and the last byte of their addresses.
struct Link {
    nodes: [usize; 2],
    interfaces: [&'static str; 2],
    addresses: [u8; 2],
}

const LINKS: [Link; 3] = [
    Link { nodes: [0, 1], interfaces: ["g0", "l0"], addresses: [1, 2] },
    Link { nodes: [0, 2], interfaces: ["g1", "r0"], addresses: [5, 6] },
    Link { nodes: [1, 2], interfaces: ["l1", "r1"], addresses: [9, 10] },
];

/// Nodes, hosts, and the managers that run.
pub struct Lab {
    // First: managers end before what they stand on.
    managers: BTreeMap<&'static str, Daemon>,
    nodes: [Namespace; 3],
    hosts: Namespaces,
    folder: Folder,
    name: String,
}

/// Folder of what survives a restart of a node, as long as the demo lasts.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Lab {
    /// Makes hosts and nodes.
    ///
    /// # Errors
    /// A right is missing.
    pub fn new() -> Result<Self, CommandError> {
        let nodes = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        let hosts = Namespaces::new(&nodes[0])?;
        for (number, link) in LINKS.iter().enumerate() {
            join(number as u8, link, &nodes)?;
        }
        let name = format!("demo-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(format!("headgate-{name}")));
        fs::create_dir(&folder.0)?;
        Ok(Self { managers: BTreeMap::new(), nodes, hosts, folder, name })
    }

    /// Returns the name of a node's manager.
    pub fn manager(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    pub const fn server(&self) -> &Endpoint {
        &self.hosts.left
    }

    pub const fn client(&self) -> &Endpoint {
        &self.hosts.right
    }

    /// Starts the manager of a node.
    ///
    /// # Errors
    /// It does not start.
    pub fn up(&mut self, node: &'static str) -> Result<(), CommandError> {
        let text = configuration(&self.name, &self.folder.0.display().to_string());
        let configuration = Configuration::Text(Text { name: "demo".to_owned(), text });
        let options = Options::new(Program::Manager.find()?, configuration);
        let options = Options { node: Some(node.to_owned()), quiet: true, costs: false, ..options };
        let at = NODES.iter().position(|one| *one == node).unwrap_or(0);
        let daemon = self.nodes[at].run(move || Daemon::start(options))??;
        self.managers.insert(node, daemon);
        Ok(())
    }

    /// Kills the manager of a node, and with it all of its NFs.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, node: &str) -> Result<(), CommandError> {
        if let Some(daemon) = self.managers.remove(node) {
            daemon.killer().kill().map_err(CommandError::environment)?;
            // It cannot end in order any more; this waits for its process.
            drop(daemon);
        }
        Ok(())
    }

    /// Stops all managers in order. Returns the nodes at whose end something was missing.
    pub fn down(&mut self) -> Vec<String> {
        let mut missing = Vec::new();
        for node in NODES {
            let Some(daemon) = self.managers.remove(node) else { continue };
            let holds = daemon.stop().is_ok_and(|ended| ended.last.conserved == Some(true));
            missing.extend((!holds).then(|| node.to_owned()));
        }
        missing
    }

    /// Asks the manager of a node.
    ///
    /// # Errors
    /// It refuses, or does not run.
    pub fn sample(&self, node: &str) -> Result<Snapshot, RequestError> {
        let daemon = self.managers.get(node);
        daemon.ok_or_else(|| RequestError::failed(format!("`{node}` does not run")))?.handle().sample()
    }

    /// Has the manager of a node change something.
    ///
    /// # Errors
    /// It refuses, or does not run.
    pub fn ask(&self, node: &str, request: &Request) -> Result<Applied, RequestError> {
        let daemon = self.managers.get(node);
        daemon.ok_or_else(|| RequestError::failed(format!("`{node}` does not run")))?.handle().get(request)
    }
}

fn join(number: u8, link: &Link, nodes: &[Namespace; 3]) -> Result<(), NamespaceError> {
    let [one, other] = link.nodes.map(|at| &nodes[at]);
    let [near, far] =
        [0, 1].map(|end| VethEnd { name: link.interfaces[end], mac: Mac([2, 0, 0, 9, number, end as u8]) });
    one.join(other, [near, far], LINK_MTU)?;
    for (at, node) in [one, other].into_iter().enumerate() {
        node.links()?.add_address(
            link.interfaces[at],
            IpAddr::from([10, 9, 0, link.addresses[at]]),
            LINK_BITS,
        )?;
    }
    Ok(())
}

/// The configuration of all three nodes.
pub fn configuration(name: &str, folder: &str) -> String {
    let Placement { manager, nfs } = Placement::choose().unwrap_or(Placement { manager: 0, nfs: 0 });
    let mut text = format!(
        "\
[manager]
name = {name:?}
cores = [{manager}]
idle = \"yield\"               # three workers share a core here

[memory]
buffers = 8192
"
    );
    for node in NODES {
        text += &format!("\n[[node]]\nname = {node:?}\nstate = \"{folder}/{node}\"\n");
    }
    for Link { nodes, interfaces, addresses } in LINKS {
        let [one, other] = nodes.map(|at| NODES[at]);
        let [here, there] = addresses;
        text += &format!(
            "\n[[link]]\nnodes = [{one:?}, {other:?}]\ninterfaces = {interfaces:?}\naddresses = [\"10.9.0.{here}/{LINK_BITS}\", \
             \"10.9.0.{there}/{LINK_BITS}\"]\nbfd = {{ interval = \"50ms\", multiplier = 4 }}\n"
        );
    }
    text + &include_str!("group.toml").replace("NFS", &nfs.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_toml() {
        let text = configuration("demo-1", "/tmp/x");
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["link"][2]["interfaces"][1].as_str(), Some("r1"));
    }
}
