//! What a configuration is checked against: the machine, and the NFs that are shipped.
//!
//! Both are values, so that a check is a pure function and a test can invent any machine.

use serde::{Deserialize, Serialize};

/// Facts about the machine that will run the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// The NFs that `run` can name, as `headgate-nfs list --json` prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Catalog(pub Vec<ShippedNf>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShippedNf {
    /// What `run` says.
    pub name: String,
    /// What it does, in one sentence.
    pub summary: String,
    /// What its `args` may hold; `None` when only the NF itself can tell.
    #[serde(default)]
    pub arguments: Option<Vec<Argument>>,
}

/// One argument of a shipped NF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its key in `args`.
    pub name: String,
    /// What kind of value it takes, in words.
    pub kind: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it means.
    pub text: String,
}

impl Catalog {
    /// The NF called `name`.
    pub fn get(&self, name: &str) -> Option<&ShippedNf> {
        self.0.iter().find(|nf| nf.name == name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|nf| nf.name.as_str())
    }
}
