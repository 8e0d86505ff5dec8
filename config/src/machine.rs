//! The machine that a configuration is checked against.
//!
//! An argument of the check, so that it touches nothing itself and a test can invent any machine;
//! [`Machine::observe`] is the real one.

use headgate_host::environment::Environment;
use headgate_host::{cores, hugepages, network};
use serde::{Deserialize, Serialize};

/// Facts about the machine that will run the configuration; by default it has nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that are online and that the manager may use, in rising order.
    pub cores: Vec<u32>,
    /// Memory that can be used without swapping, in bytes: `MemAvailable` of /proc/meminfo, which
    /// leaves huge pages out.
    pub memory_bytes: u64,
    /// Huge pages of 2 MiB that a new mapping can get.
    pub hugepages_free: u64,
    /// Names of the interfaces with a default route, and the PCI addresses (`0000:00:03.0`) of those
    /// that have one.
    pub default_route: Vec<String>,
    /// Names of the interfaces that are there; none when they are not known.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

impl Machine {
    /// Returns what this machine has. What cannot be found out is taken for absent.
    #[must_use]
    pub fn observe() -> Self {
        Self {
            cores: cores::allowed().map(|list| list.as_slice().to_vec()).unwrap_or_default(),
            memory_bytes: Environment::observe().memory_available_bytes.unwrap_or(0),
            hugepages_free: hugepages::pool().map(|pool| pool.available()).unwrap_or(0),
            default_route: default_routes(),
            interfaces: interfaces(),
        }
    }
}

/// Interfaces of this thread's namespace.
fn interfaces() -> Vec<String> {
    let all = network::Links::here().and_then(|mut links| links.interfaces());
    all.map(|all| all.into_iter().map(|interface| interface.name).collect()).unwrap_or_default()
}

/// Interfaces that carry a default route, by name and by PCI address.
fn default_routes() -> Vec<String> {
    let mut all = network::default_route_interfaces().unwrap_or_default();
    let pci: Vec<String> = all
        .iter()
        .filter_map(|name| std::fs::read_link(format!("/sys/class/net/{name}/device")).ok())
        .filter_map(|device| Some(device.file_name()?.to_str()?.to_owned()))
        .collect();
    all.extend(pci);
    all
}
