//! The machine that a configuration is checked against.
//!
//! An argument of the check, so that it touches nothing itself and a test can invent any machine;
//! [`Machine::observe`] is the real one.

use std::collections::BTreeMap;

use headgate_host::environment::Environment;
use headgate_host::sched::{self, MissingRight, Policy, SchedError};
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
    /// MTUs of these interfaces, in bytes.
    #[serde(default)]
    pub mtus: BTreeMap<String, u32>,
    /// Limits on the cores of this process.
    #[serde(default)]
    pub limits: CoreLimits,
    /// Scheduling that the kernel refuses this process.
    #[serde(default)]
    pub refused: RefusedScheduling,
}

/// Limits on the cores of a process, and where they come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreLimits {
    /// Cores that are online, those that the process may not use included; none when they are not known.
    pub online: Vec<u32>,
    /// Affinity mask that the process was started with, which it may leave; none when it is not known.
    pub mask: Vec<u32>,
    /// The cpuset that it may not leave, where that lacks a core: its name, and how to widen it.
    pub cpuset: Option<(String, String)>,
}

/// Scheduling that the kernel refuses a process, with reasons that name the cure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedScheduling {
    /// Reason why its tasks can have no real-time policy.
    pub real_time: Option<String>,
    /// Reason why they can have no negative nice value.
    pub negative_nice: Option<String>,
    /// Reason why they cannot choose the length of their slices.
    pub slices: Option<String>,
    /// Microseconds of a second that real-time tasks may use of a core; `None` where they may use all.
    pub real_time_us: Option<u32>,
}

impl Machine {
    /// Returns what this machine has. What cannot be found out is taken for absent.
    #[must_use]
    pub fn observe() -> Self {
        let interfaces = interfaces();
        Self {
            cores: cores::allowed().map(|list| list.as_slice().to_vec()).unwrap_or_default(),
            memory_bytes: Environment::observe().memory_available_bytes.unwrap_or(0),
            hugepages_free: hugepages::pool().map(|pool| pool.available()).unwrap_or(0),
            default_route: default_routes(),
            mtus: interfaces.iter().map(|one| (one.name.clone(), one.mtu)).collect(),
            interfaces: interfaces.into_iter().map(|one| one.name).collect(),
            limits: CoreLimits::observe(),
            refused: RefusedScheduling::observe(),
        }
    }

    /// Returns the cores to choose from where a configuration names none: those of the affinity mask that it
    /// may use, or else all that it may use.
    pub(crate) fn preferred_cores(&self) -> Vec<u32> {
        let is_meant = |core: &u32| self.limits.mask.contains(core);
        let meant: Vec<u32> = self.cores.iter().copied().filter(is_meant).collect();
        if meant.is_empty() { self.cores.clone() } else { meant }
    }
}

impl CoreLimits {
    fn observe() -> Self {
        let list = |cores: Result<cores::CoreList, _>| {
            cores.map(|cores| cores.as_slice().to_vec()).unwrap_or_default()
        };
        Self {
            online: list(cores::online()),
            mask: list(cores::given()),
            cpuset: cores::cpuset().map(|cpuset| (cpuset.name, cpuset.cure)),
        }
    }
}

impl RefusedScheduling {
    /// Tries each in a thread of its own, which ends at once.
    fn observe() -> Self {
        let refused = |policy| {
            let tried = std::thread::spawn(move || sched::set(None, policy)).join();
            match tried {
                // The manager gives the group of such NFs the time, and says so where it cannot.
                Ok(Err(SchedError::NotPermitted { reason: MissingRight::NoRealTimeInGroup(_), .. })) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Ok(Ok(())) | Err(_) => None,
            }
        };
        let normal = |nice, slice_ns| Policy::Normal { nice, slice_ns };
        let limit = sched::real_time_limit_us().and_then(|us| u32::try_from(us).ok());
        Self {
            real_time: refused(Policy::Fifo { priority: 1 }),
            negative_nice: refused(normal(-1, None)),
            slices: refused(normal(0, Some(sched::SLICE_NS_MIN))),
            real_time_us: limit.filter(|us| *us < 1_000_000),
        }
    }
}

/// Interfaces of this thread's namespace.
fn interfaces() -> Vec<network::Interface> {
    network::Links::here().and_then(|mut links| links.interfaces()).unwrap_or_default()
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
