//! Three nodes of a group, each with a manager in a namespace of its own, and two hosts at the gate.

use std::net::IpAddr;
use std::path::Path;

use headgate_host::namespace::{Namespace, Namespaces};
use headgate_host::network::{Mac, VethEnd};
use rustix::process::Signal;
use serde_json::Value as Json;

use super::{Detached, eventually, headgate, name_of, run, signal, told, written};

/// Packets of 1500 bytes travel between nodes with 64 bytes of headers.
const LINK_MTU: u32 = 1564;

/// Returns the file of all three nodes.
pub fn configuration(name: &str) -> String {
    format!(
        "\
[manager]
name = \"{name}\"
idle = \"yield\"
[memory]
buffers = 8192
hugepages = \"never\"
[[node]]
name = \"gate\"
state = \"state/gate\"
[[node]]
name = \"left\"
state = \"state/left\"
[[node]]
name = \"right\"
state = \"state/right\"
[[link]]
nodes = [\"gate\", \"left\"]
interfaces = [\"g0\", \"l0\"]
addresses = [\"10.9.0.1/30\", \"10.9.0.2/30\"]
bfd = {{ interval = \"100ms\", multiplier = 5 }}
[[link]]
nodes = [\"gate\", \"right\"]
interfaces = [\"g1\", \"r0\"]
addresses = [\"10.9.0.5/30\", \"10.9.0.6/30\"]
bfd = {{ interval = \"100ms\", multiplier = 5 }}
[[link]]
nodes = [\"left\", \"right\"]
interfaces = [\"l1\", \"r1\"]
addresses = [\"10.9.0.9/30\", \"10.9.0.10/30\"]
bfd = {{ interval = \"100ms\", multiplier = 5 }}
[[group]]
name = \"edge\"
chains = [\"out\", \"back\"]
gate = \"gate\"
active = \"left\"
standby = \"right\"
log = 4096
latch = 1024
checkpoint_every = \"100ms\"
[[port]]
name = \"west\"
node = \"gate\"
interface = \"hg-left\"
[[port]]
name = \"east\"
node = \"gate\"
interface = \"hg-right\"
[[nf]]
name = \"fw\"
run = \"firewall\"
args = {{ rules = [], default = \"allow\" }}
ring = 512
state = {{ keep = true, bytes = \"64Ki\" }}
standby = \"local\"
[[nf]]
name = \"mon\"
run = \"monitor\"
args = {{ flows = 4096 }}
ring = 512
state = {{ keep = true, bytes = \"4Mi\" }}
standby = \"local\"
[[chain]]
name = \"out\"
stages = [\"fw\", \"mon\"]
out = \"east\"
[[chain]]
name = \"back\"
stages = [\"mon\", \"fw\"]
out = \"west\"
[[rule]]
in = \"west\"
chain = \"out\"
[[rule]]
in = \"east\"
chain = \"back\"
"
    )
}

/// Three nodes with links between them, and two hosts at the ports of the gate.
pub struct Lab<'a> {
    pub folder: &'a Path,
    pub name: String,
    pub file: String,
    nodes: [(&'static str, Namespace); 3],
    pub hosts: Namespaces,
    _managers: Vec<Detached>,
}

fn join(number: u8, one: (&Namespace, &str), other: (&Namespace, &str), addresses: [[u8; 4]; 2]) {
    let mac = |end| Mac([2, 0, 0, 9, number, end]);
    let (near, far) = (VethEnd { name: one.1, mac: mac(1) }, VethEnd { name: other.1, mac: mac(2) });
    one.0.join(other.0, [near, far], LINK_MTU).unwrap();
    for ((node, name), address) in [one, other].into_iter().zip(addresses) {
        node.links().unwrap().add_address(name, IpAddr::from(address), 30).unwrap();
    }
}

impl<'a> Lab<'a> {
    /// Makes nodes, links and hosts, and writes the file.
    pub fn new(folder: &'a Path, test: &str) -> Self {
        let name = name_of(test);
        let nodes = ["gate", "left", "right"].map(|node| (node, Namespace::new().unwrap()));
        let [gate, left, right] = [0, 1, 2].map(|at: usize| &nodes[at].1);
        let hosts = Namespaces::new(gate).unwrap();
        join(0, (gate, "g0"), (left, "l0"), [[10, 9, 0, 1], [10, 9, 0, 2]]);
        join(1, (gate, "g1"), (right, "r0"), [[10, 9, 0, 5], [10, 9, 0, 6]]);
        join(2, (left, "l1"), (right, "r1"), [[10, 9, 0, 9], [10, 9, 0, 10]]);
        let managers = nodes.iter().map(|(node, _)| Detached::of(folder, &format!("{name}-{node}")));
        let managers = managers.collect();
        let file = written(folder, &configuration(&name));
        Self { folder, name, file, nodes, hosts, _managers: managers }
    }

    /// Returns the name of a node's manager.
    pub fn manager(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    /// Returns the namespace of a node.
    pub fn namespace(&self, node: &str) -> &Namespace {
        &self.nodes.iter().find(|(name, _)| *name == node).unwrap().1
    }

    /// Starts the manager of a node with a file: exit code, standard output, messages.
    pub fn up_with(&self, node: &str, file: &str) -> (i32, String, String) {
        let words = ["up", "--detach", file, "--node", node];
        self.namespace(node).run(|| told(headgate(self.folder, &words).output().unwrap())).unwrap()
    }

    /// Starts the manager of a node.
    pub fn up(&self, node: &str) {
        let (code, _, messages) = self.up_with(node, &self.file);
        assert_eq!(code, 0, "{node}: {messages}");
    }

    /// Runs a command for the manager of a node.
    pub fn told(&self, node: &str, words: &[&str]) -> (i32, String, String) {
        let name = self.manager(node);
        run(self.folder, &[words, &["--name", &name]].concat())
    }

    /// Returns what a command for the manager of a node answers as JSON.
    pub fn json(&self, node: &str, words: &[&str]) -> Json {
        let (code, data, messages) = self.told(node, &[&["--json"], words].concat());
        assert_eq!(code, 0, "{node}: {words:?}: {messages}");
        serde_json::from_str(&data).unwrap_or_else(|error| panic!("no JSON: {error}: {data}"))
    }

    /// Returns the group as a node sees it.
    pub fn group(&self, node: &str) -> Json {
        self.json(node, &["show", "groups"])[0].clone()
    }

    /// Returns the events of a node.
    pub fn events(&self, node: &str) -> String {
        self.told(node, &["show", "events"]).1
    }

    /// Describes what all nodes know, for a test that fails.
    pub fn described(&self) -> String {
        let of = |node: &str| {
            let groups = self.told(node, &["show", "groups"]).1;
            format!("{node}:\n{groups}{}\n{}", self.events(node), self.told(node, &["show", "drops"]).1)
        };
        ["gate", "left", "right"].map(of).join("\n")
    }

    /// Waits until one node is active, and another one could take over.
    pub fn protected(&self, active: &str, standby: &str) {
        let mut last = Json::Null;
        let is_so = std::cell::Cell::new(false);
        let holds = || {
            last = self.group("gate");
            is_so.set(last["active"] == active && last["standby"] == standby && last["protected"] == true);
            is_so.get()
        };
        self.eventually(&format!("`{active}` is active and protected by `{standby}`"), holds);
    }

    /// Waits until something holds; describes the nodes if it never does.
    pub fn eventually(&self, what: &str, holds: impl FnMut() -> bool) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, holds)));
        if let Err(panic) = outcome {
            eprintln!("{}", self.described());
            std::panic::resume_unwind(panic);
        }
    }

    /// Returns the process of an NF, and whether another one is ready to take over.
    pub fn nf(&self, node: &str, name: &str) -> Option<(u32, bool)> {
        let nfs = self.json(node, &["show", "nfs"]);
        let nf = nfs.as_array()?.iter().find(|nf| nf["instance"] == name)?.clone();
        let pid = nf["pid"].as_u64()? as u32;
        Some((pid, nf["state"] == "running" && nf["spare"] == "ready"))
    }

    /// Kills the process of an NF that has a standby.
    pub fn kill_nf(&self, node: &str, name: &str) {
        self.eventually("the NF has a standby", || self.nf(node, name).is_some_and(|(_, is_ready)| is_ready));
        let (pid, _) = self.nf(node, name).unwrap();
        signal(pid, Signal::KILL);
        self.eventually("the NF has another process", || {
            self.nf(node, name).is_some_and(|(now, _)| now != pid)
        });
    }
}
