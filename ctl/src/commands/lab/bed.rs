//! Namespaces of nodes and hosts, and the cables between them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use headgate_api::place;
use headgate_config::Config;
use headgate_config::model::{Backend, Node, NodeLink};
use headgate_host::cable::Cable;
use headgate_host::lock::Lock;
use headgate_host::namespace::{ETHERNET_MTU, INSIDE, Namespace, named};
use headgate_host::network::{Mac, VethEnd};
use headgate_host::undo::{Action, Janitor};
use serde::Serialize;

use super::cable::lay;
use super::route;
use super::store::{INTERFACE, Store, give_address};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// MTU of links where the file names none: frames of hosts, and 38 bytes of headers. Our choice: a round
/// number that leaves room for VLAN tags.
const LINK_MTU: u32 = 1600;
/// Last part of the name of the router's namespace.
const ROUTER: &str = "router";
/// Network of the hosts, from a block reserved for documentation (RFC 5737), and its prefix. All are in one:
/// chains are cables to them.
const HOSTS: [u8; 3] = [192, 0, 2];
const HOSTS_BITS: u8 = 24;
/// Last byte of the first host's address.
const FIRST_HOST: u8 = 10;
/// Most hosts that the network has addresses for.
const HOSTS_MAX: usize = 240;

/// A node, as people reach it.
#[derive(Clone, Debug, Serialize)]
pub struct NodePlace {
    /// Its name.
    pub node: String,
    /// The name of its manager.
    pub manager: String,
    /// The name of its namespace.
    pub namespace: String,
    /// Neighbours, with the own interface.
    pub links: Vec<String>,
}

impl NodePlace {
    fn of(lab: &str, config: &Config, node: &Node) -> Self {
        Self {
            node: node.name.clone(),
            manager: config.manager.name.clone(),
            namespace: format!("{lab}-{}", node.name),
            links: node.links.iter().map(|link| format!("{} by {}", link.peer, link.interface)).collect(),
        }
    }
}

/// A host behind a port.
#[derive(Clone, Debug, Serialize)]
pub struct HostPlace {
    /// The port.
    pub port: String,
    /// The port's node.
    pub node: String,
    /// The name of the host's namespace.
    pub namespace: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// A server of the store.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerPlace {
    /// Its address.
    pub address: SocketAddr,
    /// Its process, where it runs.
    pub pid: Option<u32>,
}

/// Namespaces of a lab, and their cables.
pub struct Bed {
    nodes: Vec<(NodePlace, Namespace)>,
    hosts: Vec<(HostPlace, Namespace)>,
    store: Option<Store>,
    /// Between the ends of links over routed networks.
    router: Option<Namespace>,
    /// Links with a rate or a delay.
    cables: Vec<Cable>,
    _lock: Lock,
}

/// Returns the name of a lab: that of `[manager]`, or of the file.
pub fn name_of(file: &Path, first: &Config) -> String {
    let node = first.node.as_ref().map_or("", |node| node.name.as_str());
    let given = first.manager.name.strip_suffix(node).and_then(|name| name.strip_suffix('-'));
    let stem = || file.file_stem().map_or("lab".into(), |stem| stem.to_string_lossy().into_owned());
    given.map_or_else(stem, str::to_owned)
}

impl Bed {
    /// Makes all of it. The janitor takes it away when we end.
    pub fn make<'c>(
        name: &str,
        configs: impl Iterator<Item = &'c Config> + Clone,
        janitor: &Janitor,
    ) -> Result<Self, CommandError> {
        let configs: Vec<(&Config, &Node)> =
            configs.filter_map(|config| Some((config, config.node.as_ref()?))).collect();
        refuse_devices(&configs)?;
        let mut registry = Registry::open(name, janitor)?;
        let mut nodes = Vec::new();
        for (config, node) in &configs {
            let namespace = registry.make(&format!("{name}-{}", node.name))?;
            nodes.push((NodePlace::of(name, config, node), namespace));
        }
        let mut bed = Self {
            nodes,
            hosts: Vec::new(),
            store: None,
            router: None,
            cables: Vec::new(),
            _lock: registry.take_lock()?,
        };
        if configs.iter().any(|(_, node)| node.links.iter().any(NodeLink::is_routed)) {
            bed.router = Some(route::make(registry.make(&format!("{name}-{ROUTER}"))?)?);
        }
        for (_, node) in &configs {
            let cables = bed.lay_links(node, &configs)?;
            bed.cables.extend(cables);
        }
        for (config, node) in &configs {
            bed.add_hosts(name, config, node, &mut registry)?;
        }
        if let Some(store) = configs.iter().find_map(|(_, node)| node.store.as_ref()) {
            let namespace = registry.make(&format!("{name}-store"))?;
            let folder = place::folder().join(format!("{name}+lab.store"));
            let nodes = bed.nodes.iter().map(|(place, namespace)| (place.node.as_str(), namespace));
            bed.store = Some(Store::start(namespace, nodes, &store.servers, (folder, janitor))?);
        }
        Ok(bed)
    }

    /// Lays the links of a node to nodes that have not laid them, which come later in the file. Returns those
    /// with a rate or a delay.
    fn lay_links(&self, node: &Node, all: &[(&Config, &Node)]) -> Result<Vec<Cable>, CommandError> {
        let mut cables = Vec::new();
        let own = self.namespace_of(&node.name)?;
        let place = |name: &str| node.network.place(name);
        for link in node.links.iter().filter(|link| place(&node.name) < place(&link.peer)) {
            let peer = self.namespace_of(&link.peer)?;
            let theirs = all.iter().find(|(_, node)| node.name == link.peer);
            let far = theirs.and_then(|(_, node)| node.links.iter().find(|one| one.number == link.number));
            let far = far.ok_or_else(|| unknown(&link.peer))?;
            let far_name = &far.interface;
            let mtu = link.mtu.unwrap_or(LINK_MTU);
            // Where both ends are in one network, one cable is the way.
            if link.is_routed() && !link.is_on_one_network() {
                let router = self.router.as_ref().ok_or_else(|| unknown(ROUTER))?;
                cables.extend(route::through(router, [(own, link), (peer, far)], mtu)?);
                continue;
            }
            cables.extend(lay([own, peer], [&link.interface, far_name], mtu, (link.number, b'L'), link.lab)?);
            give_address(own, &link.interface, link.address, link.prefix_bits)?;
            give_address(peer, far_name, link.peer_address, link.prefix_bits)?;
        }
        Ok(cables)
    }

    /// Adds a host for each interface that is a port of a node.
    fn add_hosts(
        &mut self,
        name: &str,
        config: &Config,
        node: &Node,
        registry: &mut Registry<'_>,
    ) -> Result<(), CommandError> {
        for port in config.ports.iter().filter(|port| port.link.is_none()) {
            let Backend::Interface(interface) = &port.backend else { continue };
            let number = self.hosts.len();
            if number == HOSTS_MAX {
                let message = format!("a lab has at most {HOSTS_MAX} ports of the kind `interface`");
                return Err(CommandError::new(Exit::Configuration, message));
            }
            let last = FIRST_HOST + number as u8;
            let place = HostPlace {
                port: port.name.clone(),
                node: node.name.clone(),
                namespace: format!("{name}-{}-{}", node.name, port.name),
                address: Ipv4Addr::new(HOSTS[0], HOSTS[1], HOSTS[2], last),
            };
            let host = registry.make(&place.namespace)?;
            let end = |name, side| VethEnd { name, mac: Mac([2, b'H', b'H', 0, last, side]) };
            let middle = self.namespace_of(&node.name)?;
            host.join(middle, [end(INSIDE, 1), end(&interface.interface, 2)], ETHERNET_MTU)?;
            give_address(&host, INSIDE, IpAddr::V4(place.address), HOSTS_BITS)?;
            self.hosts.push((place, host));
        }
        Ok(())
    }

    fn namespace_of(&self, node: &str) -> Result<&Namespace, CommandError> {
        let found = self.nodes.iter().find(|(place, _)| place.node == node);
        found.map(|(_, namespace)| namespace).ok_or_else(|| unknown(node))
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> Vec<&NodePlace> {
        self.nodes.iter().map(|(place, _)| place).collect()
    }

    /// Returns the nodes with their namespaces.
    pub fn places(&self) -> impl Iterator<Item = &(NodePlace, Namespace)> {
        self.nodes.iter()
    }

    /// Notices servers of the store that ended, and starts them again.
    pub fn tend(&mut self, out: &Output) -> Result<(), CommandError> {
        self.store.as_mut().map_or(Ok(()), |store| store.tend(out))
    }

    /// Returns the servers of the store, with their processes.
    pub fn servers(&self) -> Vec<ServerPlace> {
        let place = |(address, pid): (SocketAddr, Option<u32>)| ServerPlace { address, pid };
        self.store.iter().flat_map(Store::places).map(place).collect()
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> Vec<&HostPlace> {
        self.hosts.iter().map(|(place, _)| place).collect()
    }
}

fn unknown(node: &str) -> CommandError {
    CommandError::new(Exit::Failed, format!("node {node} has no place in the lab; this is a bug"))
}

/// Refuses ports that a lab has nothing behind.
fn refuse_devices(configs: &[(&Config, &Node)]) -> Result<(), CommandError> {
    let all = configs.iter().flat_map(|(config, node)| config.ports.iter().map(move |port| (port, node)));
    let devices = all.filter(|(port, _)| matches!(port.backend, Backend::Dpdk(_)));
    let names: Vec<String> =
        devices.map(|(port, node)| format!("`{}` of node `{}`", port.name, node.name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message = format!(
        "a lab has no DPDK devices, and port {} is one: write `interface = \"…\"` in place of `device`",
        names.join(", ")
    );
    Err(CommandError::new(Exit::Configuration, message))
}

/// Names of namespaces that a lab has made, in a file, for the next one of its name where no janitor was
/// left.
struct Registry<'j> {
    janitor: &'j Janitor,
    file: PathBuf,
    names: Vec<String>,
    lock: Option<Lock>,
}

impl<'j> Registry<'j> {
    /// Takes the name of a lab, and takes away what an earlier one of this name left.
    fn open(name: &str, janitor: &'j Janitor) -> Result<Self, CommandError> {
        let folder = place::folder();
        let refused = |what: &str, error: &dyn fmt::Display| {
            CommandError::environment(format!("cannot {what} {}: {error}", folder.display()))
        };
        let register = |action| janitor.register(action).map_err(CommandError::environment);
        for path in [folder.as_path(), Path::new(named::FOLDER)] {
            // One that others use too is not empty, and stays.
            register(Action::RemoveDirectory { path: path.to_owned() })?;
        }
        place::make_own(&folder).map_err(|error| refused("make", &error))?;
        let mut failed = None;
        let mut undo = |action| failed = register(action).err();
        let lock = Lock::take(&folder.join(format!("{name}+lab")), &mut undo);
        let lock = lock.map_err(|error| refused("lock a file in", &error))?;
        failed.map_or(Ok(()), Err)?;
        let Some(lock) = lock else {
            let message =
                format!("a lab called {name} runs already: end it with Ctrl-C, or give `name` in [manager]");
            return Err(CommandError::environment(message));
        };
        let file = folder.join(format!("{name}+lab.namespaces"));
        let left: BTreeSet<String> =
            fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
        for name in left {
            named::remove(&named::file_of(&name))
                .map_err(|error| refused("remove a namespace of", &error))?;
        }
        register(Action::RemoveFile { path: file.clone() })?;
        Ok(Self { janitor, file, names: Vec::new(), lock: Some(lock) })
    }

    fn make(&mut self, name: &str) -> Result<Namespace, CommandError> {
        let mut failed = None;
        let made = named::make(name, &mut |path| {
            self.names.push(name.to_owned());
            let noted = fs::write(&self.file, self.names.join("\n")).map_err(CommandError::environment);
            let action = Action::RemoveNamespace { path };
            let told = self.janitor.register(action).map(|_| ()).map_err(CommandError::environment);
            failed = noted.and(told).err();
        });
        failed.map_or(Ok(()), Err)?;
        made.map_err(|error| {
            let help = format!("is there a namespace `{name}` already? `ip netns delete {name}`");
            CommandError::environment(format!("{error}; {help}"))
        })
    }

    fn take_lock(&mut self) -> Result<Lock, CommandError> {
        let gone = || CommandError::new(Exit::Failed, "the lab has no lock; this is a bug");
        self.lock.take().ok_or_else(gone)
    }
}

impl fmt::Display for Bed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Nodes")?;
        for (place, _) in &self.nodes {
            let links = if place.links.is_empty() { "no link".to_owned() } else { place.links.join(", ") };
            writeln!(f, "  {}: links to {links}", place.node)?;
            writeln!(f, "    headgate status --name {}", place.manager)?;
            writeln!(f, "    ip netns exec {} ip address", place.namespace)?;
        }
        for ServerPlace { address, pid } in self.servers() {
            let process = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
            writeln!(f, "\nStore at {address}{process}; each node reaches it by its interface {INTERFACE}")?;
        }
        writeln!(f, "\nHosts")?;
        for (place, _) in &self.hosts {
            writeln!(f, "  behind port {} of {}: {}", place.port, place.node, place.address)?;
            writeln!(f, "    ip netns exec {} ping {}", place.namespace, self.other_than(place))?;
        }
        Ok(())
    }
}

impl Bed {
    /// Returns the address of another host, to be tried.
    fn other_than(&self, host: &HostPlace) -> Ipv4Addr {
        let others = self.hosts.iter().rev().map(|(place, _)| place.address);
        others.into_iter().find(|address| *address != host.address).unwrap_or(host.address)
    }
}
