//! Origin of the demo's packets, and the configuration that follows.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use headgate_host::cores::Placement;
use headgate_host::namespace::{Endpoint, EndpointPlan, Namespace, NamespaceError, Namespaces, Plan};
use headgate_host::network::Mac;

use super::sample;
use crate::error::CommandError;

/// Addresses from the blocks reserved for documentation (RFC 5737), which no real route names.
const LEFT: Side = Side {
    name: "left",
    host: Ipv4Addr::new(192, 0, 2, 10),
    router: Ipv4Addr::new(192, 0, 2, 1),
    prefix: "192.0.2.0/24",
    host_mac: Mac([2, 0, 0, 0, 1, 10]),
    router_mac: Mac([2, 0, 0, 0, 1, 1]),
};
const RIGHT: Side = Side {
    name: "right",
    host: Ipv4Addr::new(198, 51, 100, 10),
    router: Ipv4Addr::new(198, 51, 100, 1),
    prefix: "198.51.100.0/24",
    host_mac: Mac([2, 0, 0, 0, 2, 10]),
    router_mac: Mac([2, 0, 0, 0, 2, 1]),
};
const PREFIX_BITS: u8 = 24;
/// IEEE 802.3, 3.2.7: the largest payload of an ordinary frame, in bytes.
const MTU: u32 = 1500;

/// Generated packets a second. Our choice: with a core for the NFs, enough to be seen in their CPU
/// time and few enough to leave the hosts theirs.
const BACKGROUND_RATE: &str = "200k";
/// The same where workers, NFs and hosts share one core.
const BACKGROUND_RATE_ONE_CORE: &str = "10k";
/// Packets of the capture a second. Our choice, as above.
const CAPTURE_RATE: &str = "100k";
const CAPTURE_RATE_ONE_CORE: &str = "10k";

/// The name of the NF that is killed.
pub const VICTIM: &str = "monitor";
/// The chain between the hosts, or of the capture.
pub const MAIN_CHAIN: &str = "main";
/// The chain of the generated packets.
pub const BACKGROUND_CHAIN: &str = "background";

struct Side {
    name: &'static str,
    host: Ipv4Addr,
    router: Ipv4Addr,
    prefix: &'static str,
    host_mac: Mac,
    router_mac: Mac,
}

impl Side {
    fn interface(&self) -> String {
        format!("hg-{}", self.name)
    }

    fn plan(&self) -> EndpointPlan {
        EndpointPlan {
            port: self.interface(),
            mac: self.host_mac,
            port_mac: self.router_mac,
            addresses: vec![(IpAddr::V4(self.host), PREFIX_BITS)],
            gateways: vec![IpAddr::V4(self.router)],
        }
    }

    /// The router among the NFs answers no ARP.
    fn introduce_router(&self, host: &Endpoint) -> Result<(), NamespaceError> {
        let mut links = host.namespace.links()?;
        Ok(links.add_neighbour(host.interface, IpAddr::V4(self.router), self.router_mac)?)
    }
}

/// Origin of the packets.
#[derive(Debug)]
pub enum Scene {
    /// Two hosts.
    Hosts(Namespaces),
    /// A capture.
    Capture {
        /// Path of the file.
        path: PathBuf,
        /// Keeps a capture without a name.
        _memory: Option<File>,
    },
}

impl Scene {
    /// Makes two hosts, and moves this thread and all it starts later to where their cables end:
    /// a namespace of its own, so that nothing of the machine's is touched.
    pub fn hosts() -> Result<Self, CommandError> {
        let middle = Namespace::new()?;
        let plan = Plan { left: LEFT.plan(), right: RIGHT.plan(), mtu: MTU, offloads: true };
        let hosts = Namespaces::planned(&middle, &plan)?;
        LEFT.introduce_router(&hosts.left)?;
        RIGHT.introduce_router(&hosts.right)?;
        middle.enter()?;
        Ok(Self::Hosts(hosts))
    }

    /// Takes a capture, or makes one in memory.
    pub fn capture(file: Option<&Path>) -> Result<Self, CommandError> {
        if let Some(file) = file {
            // Said here, for the configuration below has no file whose line could be blamed.
            File::open(file).map_err(|error| {
                CommandError::environment(format!(
                    "cannot read the capture {}: {error}; name a pcap or pcapng file, or none",
                    file.display()
                ))
            })?;
            let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
            return Ok(Self::Capture { path, _memory: None });
        }
        let memory = sample::in_memory().map_err(|error| {
            CommandError::environment(format!("cannot make a capture in memory: {error}"))
        })?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd()));
        Ok(Self::Capture { path, _memory: Some(memory) })
    }

    /// Returns whether there are two hosts.
    pub fn has_hosts(&self) -> bool {
        matches!(self, Self::Hosts(_))
    }

    /// The configuration of a manager of this name.
    pub fn configuration(&self, name: &str) -> String {
        let cores = placement();
        match self {
            Self::Hosts(_) => hosts_text(name, cores),
            Self::Capture { path, .. } => capture_text(name, cores, path),
        }
    }
}

/// The configuration as a file of its own, for people.
pub fn hosts_configuration() -> String {
    hosts_text("demo", placement())
}

/// The same for a capture.
pub fn capture_configuration(file: Option<&Path>) -> String {
    capture_text("demo", placement(), file.unwrap_or(Path::new("in.pcap")))
}

/// Returns the cores to use; one where this machine does not say which there are.
fn placement() -> Placement {
    Placement::choose().unwrap_or(Placement { manager: 0, nfs: 0 })
}

fn hosts_text(name: &str, cores: Placement) -> String {
    let mut text = head(name, cores);
    for side in [LEFT, RIGHT] {
        let _ = write!(text, "\n[[port]]\nname = {:?}\ninterface = {:?}\n", side.name, side.interface());
    }
    text += &nfs(cores);
    text += "args.interfaces = {";
    for (number, side) in [LEFT, RIGHT].iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(
            text,
            "{comma} {} = {{ mac = \"{}\", ipv4 = \"{}\" }}",
            side.name, side.router_mac, side.router
        );
    }
    text += " }\nargs.routes = [\n";
    for side in [LEFT, RIGHT] {
        let _ = writeln!(
            text,
            "    {{ prefix = \"{}\", port = \"{}\", next_hop = \"{}\" }},",
            side.prefix, side.name, side.host_mac
        );
    }
    text += "]\n";
    // The router names the port of each packet, so one chain serves both directions.
    text + &chains("nf", &[LEFT.name, RIGHT.name])
}

fn capture_text(name: &str, cores: Placement, path: &Path) -> String {
    let rate = if cores.is_shared() { CAPTURE_RATE_ONE_CORE } else { CAPTURE_RATE };
    let mut text = head(name, cores);
    let path = toml::Value::String(path.display().to_string());
    let _ = write!(
        text,
        "\n[[port]]\nname = \"capture\"\nkind = \"pcap\"\nread = {path}\nmode = \"loop\"\ntiming = \"{rate}\"\n"
    );
    text += &nfs(cores);
    let _ = writeln!(text, "args.errors_per_second = 0");
    let _ = writeln!(text, "args.interfaces = {{ sink = {{ mac = \"{}\" }} }}", RIGHT.router_mac);
    text += "args.routes = [\n";
    for prefix in ["0.0.0.0/0", "::/0"] {
        let next_hop = RIGHT.host_mac;
        let _ =
            writeln!(text, "    {{ prefix = \"{prefix}\", port = \"sink\", next_hop = \"{next_hop}\" }},");
    }
    text += "]\n";
    text + &chains("nf", &["capture"])
}

/// The manager, the generator and the port that leads nowhere.
fn head(name: &str, cores: Placement) -> String {
    let rate = if cores.is_shared() { BACKGROUND_RATE_ONE_CORE } else { BACKGROUND_RATE };
    format!(
        "\
[manager]
name = {name:?}
cores = [{}]

[[port]]
name = \"generator\"
kind = \"generator\"
rate = \"{rate}\"
sizes = \"imix\"
flows = 1000
timestamps = true

[[port]]
name = \"sink\"
kind = \"null\"
",
        cores.manager
    )
}

/// Three NFs on one core; the router's arguments are still to come.
fn nfs(cores: Placement) -> String {
    let core = cores.nfs;
    format!(
        "
[[nf]]
name = \"firewall\"
run = \"firewall\"
core = {core}
args.default = \"allow\"
args.rules = [
    {{ name = \"no-telnet\", action = \"deny\", protocol = \"tcp\", destination_port = 23 }},
    {{ name = \"unwanted\", action = \"deny\", protocol = \"udp\", source = \"10.0.0.0/26\" }},
]

[[nf]]
name = \"{VICTIM}\"
run = \"monitor\"
core = {core}
on_failure = \"bypass\"       # while it is down, packets go on without being counted

[[nf]]
name = \"router\"
run = \"router\"
core = {core}
"
    )
}

/// The chain that everything from `entries` takes, and that of the generated packets.
fn chains(out: &str, entries: &[&str]) -> String {
    let mut text = format!(
        "
[[chain]]
name = \"{MAIN_CHAIN}\"
stages = [\"firewall\", \"{VICTIM}\", \"router\"]
out = \"{out}\"

[[chain]]
name = \"{BACKGROUND_CHAIN}\"
stages = [\"firewall\", \"{VICTIM}\"]
out = \"sink\"

[[rule]]
in = \"generator\"
chain = \"{BACKGROUND_CHAIN}\"
"
    );
    for entry in entries {
        let _ = write!(text, "\n[[rule]]\nin = \"{entry}\"\nchain = \"{MAIN_CHAIN}\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_toml_whatever_the_path() {
        let odd = Path::new("/tmp/\"odd\" name\n.pcap");
        let text = capture_text("demo-1", Placement { manager: 0, nfs: 0 }, odd);
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["port"][2]["read"].as_str(), odd.to_str());
        toml::from_str::<toml::Table>(&hosts_text("demo-1", Placement { manager: 0, nfs: 1 })).unwrap();
    }
}
