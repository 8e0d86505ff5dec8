//! The store of a lab: an etcd for each server that the file names, with its address, in a namespace of its
//! own to which every node has a cable.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headgate_host::namespace::{Namespace, NamespaceError};
use headgate_host::network::{Mac, VethEnd};
use headgate_host::process::find_program;
use headgate_host::undo::{Action, Janitor};

use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Name of a node's interface to the store.
pub const INTERFACE: &str = "store";
/// Networks of the cables, one of 4 addresses each, in the space that is shared behind carriers (RFC 6598).
const CABLES: [u8; 2] = [100, 64];
const CABLE_BITS: u8 = 30;
const CABLE_MTU: u32 = 1500;
/// Most nodes that these networks have room for.
const NODES_MAX: usize = 64 * 256;
/// Time from the end of a server to its next start. Our choice: that of managers.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// A server.
struct Server {
    number: usize,
    address: SocketAddr,
    process: Option<Child>,
    /// When it is started again.
    due: Option<Instant>,
}

/// Servers of a lab's store.
pub struct Store {
    namespace: Namespace,
    program: PathBuf,
    folder: PathBuf,
    servers: Vec<Server>,
}

impl Store {
    /// Lays cables to all nodes, and starts the servers, with what they keep in this folder. The janitor
    /// takes it away; servers end with the thread that calls this.
    pub fn start<'n>(
        namespace: Namespace,
        nodes: impl Iterator<Item = (&'n str, &'n Namespace)>,
        addresses: &[SocketAddr],
        (folder, janitor): (PathBuf, &Janitor),
    ) -> Result<Self, CommandError> {
        let program = find_program("etcd").ok_or_else(|| {
            CommandError::environment(
                "the store of the lab is an etcd, and there is none: `apt-get install etcd-server`",
            )
        })?;
        for address in addresses {
            let IpAddr::V4(_) = address.ip() else {
                let message = format!("the store of a lab has IPv4 addresses, and {address} is none");
                return Err(CommandError::new(Exit::Configuration, message));
            };
            give_address(&namespace, "lo", address.ip(), 32)?;
        }
        for (number, node) in nodes.enumerate() {
            lay_cable(&namespace, number, node, addresses)?;
        }
        // What a killed lab left there would be another cluster's.
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(CommandError::environment)?;
        }
        janitor.register(Action::RemoveTree { path: folder.clone() }).map_err(CommandError::environment)?;
        fs::create_dir(&folder).map_err(CommandError::environment)?;
        let server = |(number, address): (usize, &SocketAddr)| Server {
            number,
            address: *address,
            process: None,
            due: None,
        };
        let servers = addresses.iter().enumerate().map(server).collect();
        let mut store = Self { namespace, program, folder, servers };
        for at in 0..store.servers.len() {
            store.spawn(at)?;
        }
        Ok(store)
    }

    fn spawn(&mut self, at: usize) -> Result<(), CommandError> {
        let name = |number: usize| format!("s{number}");
        let url = |address: SocketAddr| format!("http://{address}");
        // Servers speak to each other by the next port.
        let peer = |address: SocketAddr| url(SocketAddr::new(address.ip(), address.port().wrapping_add(1)));
        let all: Vec<String> =
            self.servers.iter().map(|one| format!("{}={}", name(one.number), peer(one.address))).collect();
        let Server { number, address, .. } = self.servers[at];
        let log = File::create(self.folder.join(format!("{}.log", name(number))));
        let log = log.map_err(CommandError::environment)?;
        let mut command = self.namespace.command(&self.program)?;
        command
            .env_clear()
            .arg("--name")
            .arg(name(number))
            .arg("--data-dir")
            .arg(self.folder.join(name(number)))
            .args(["--listen-client-urls", &url(address), "--advertise-client-urls", &url(address)])
            .args(["--listen-peer-urls", &peer(address), "--initial-advertise-peer-urls", &peer(address)])
            .args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = command.spawn().map_err(|error| {
            CommandError::environment(format!("cannot start {}: {error}", self.program.display()))
        })?;
        self.servers[at].process = Some(process);
        self.servers[at].due = None;
        Ok(())
    }

    /// Notices servers that ended by themselves, and starts them again when it is time.
    pub fn tend(&mut self, out: &Output) -> Result<(), CommandError> {
        let now = Instant::now();
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            let ended = server.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            if let Some(status) = ended {
                server.process = None;
                server.due = Some(now + RESTART_AFTER);
                out.note(format!("store {}: {status}; it is started again", server.address));
            }
            if server.due.is_some_and(|due| due <= now) {
                self.spawn(at)?;
            }
        }
        Ok(())
    }

    /// Returns the servers with their processes, to be told.
    pub fn places(&self) -> impl Iterator<Item = (SocketAddr, Option<u32>)> {
        self.servers.iter().map(|server| (server.address, server.process.as_ref().map(Child::id)))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for process in self.servers.iter_mut().filter_map(|server| server.process.as_mut()) {
            // One that has ended needs no more.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Gives an interface of a namespace an address.
pub fn give_address(place: &Namespace, name: &str, address: IpAddr, bits: u8) -> Result<(), NamespaceError> {
    Ok(place.links()?.add_address(name, address, bits)?)
}

/// Joins a node to the store, with a way to its servers.
fn lay_cable(
    store: &Namespace,
    number: usize,
    (name, node): (&str, &Namespace),
    addresses: &[SocketAddr],
) -> Result<(), CommandError> {
    if number >= NODES_MAX {
        let message = format!("a lab with a store has at most {NODES_MAX} nodes");
        return Err(CommandError::new(Exit::Configuration, message));
    }
    let [high, low] = (number as u16).to_be_bytes();
    // Locally administered; "HS", and unique in the lab.
    let end = |name, side| VethEnd { name, mac: Mac([2, b'H', b'S', high, low, side]) };
    let far = format!("n{number}");
    node.join(store, [end(INTERFACE, 1), end(&far, 2)], CABLE_MTU)?;
    let [third, fourth] = ((number * 4) as u16).to_be_bytes();
    let address = |last: u8| IpAddr::V4(Ipv4Addr::new(CABLES[0], CABLES[1], third, fourth + last));
    give_address(store, &far, address(1), CABLE_BITS)?;
    give_address(node, INTERFACE, address(2), CABLE_BITS)?;
    let mut links = node.links()?;
    for server in addresses {
        links.add_route(server.ip(), 32, address(1)).map_err(|error| {
            CommandError::environment(format!("node {name}: no way to the store: {error}"))
        })?;
    }
    Ok(())
}
