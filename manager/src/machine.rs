//! What a configuration needs to know of this machine.

use headgate_host::environment::Environment;
use headgate_host::{cores, hugepages, network};

use crate::config::Machine;

/// Looks at the machine. What cannot be found out is taken for absent.
#[must_use]
pub fn observe() -> Machine {
    Machine {
        cores: cores::allowed().map(|list| list.as_slice().to_vec()).unwrap_or_default(),
        memory_bytes: Environment::observe().memory_available_bytes.unwrap_or(0),
        hugepages_free: hugepages::pool().map(|pool| pool.available()).unwrap_or(0),
        default_route: default_routes(),
    }
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
