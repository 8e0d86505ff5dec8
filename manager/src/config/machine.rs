//! What a configuration is checked against: the machine, and the NFs that are shipped.
//!
//! Both are arguments, so that a check touches nothing itself and a test can invent any machine.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

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
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Catalog {
    nfs: Vec<ShippedNf>,
    /// Asks an NF whether it takes its arguments.
    #[serde(skip)]
    ask: Option<Arc<Ask>>,
}

/// Whether the NF of this name takes these arguments; else why not.
type Ask = dyn Fn(&str, &Map<String, Json>) -> Result<(), String> + Send + Sync;

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

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.nfs).finish()
    }
}

impl Catalog {
    /// A catalog of these NFs.
    pub fn new(nfs: Vec<ShippedNf>) -> Self {
        Self { nfs, ask: None }
    }

    /// With a way to ask an NF, by its name, whether it takes its arguments. Which keys there are the
    /// catalog knows; what their values may be only the NF does.
    pub fn asking(
        self,
        ask: impl Fn(&str, &Map<String, Json>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { ask: Some(Arc::new(ask)), ..self }
    }

    /// Why the NF called `name` refuses `args`, if it can be asked and does.
    pub fn refusal(&self, name: &str, args: &Map<String, Json>) -> Option<String> {
        self.ask.as_ref().and_then(|ask| ask(name, args).err())
    }

    /// The NF called `name`.
    pub fn get(&self, name: &str) -> Option<&ShippedNf> {
        self.nfs.iter().find(|nf| nf.name == name)
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nfs.iter().map(|nf| nf.name.as_str())
    }
}
