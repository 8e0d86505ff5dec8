//! Three nodes of a group, each with a manager in a namespace of its own, and two hosts at the gate.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use headgate_host::cable::{Cable, Quality};
use headgate_host::namespace::{Namespace, Namespaces};
use headgate_host::network::{Mac, VethEnd};
use rustix::process::Signal;
use serde_json::Value as Json;

use super::{Detached, daemon, eventually, headgate, name_of, run, runs, signal, told, written};

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

/// A link: the places of its nodes, their interfaces, and the last byte of their addresses.
type Link = ([usize; 2], [&'static str; 2], [u8; 2]);

const LINKS: [Link; 3] =
    [([0, 1], ["g0", "l0"], [1, 2]), ([0, 2], ["g1", "r0"], [5, 6]), ([1, 2], ["l1", "r1"], [9, 10])];

fn lay(number: u8, places: [&Namespace; 2], names: [&str; 2]) {
    let end = |end: u8| VethEnd { name: names[usize::from(end)], mac: Mac([2, 0, 0, 9, number, end + 1]) };
    places[0].join(places[1], [end(0), end(1)], LINK_MTU).unwrap();
}

impl<'a> Lab<'a> {
    /// Makes nodes, links and hosts, and writes the file.
    pub fn new(folder: &'a Path, test: &str) -> Self {
        Self::joined_by(folder, test, lay)
    }

    /// Makes the same with links that can be made bad: from gate to left, gate to right, left to right.
    pub fn on_cables(folder: &'a Path, test: &str) -> (Self, Vec<Cable>) {
        let mut cables = Vec::new();
        let lab = Self::joined_by(folder, test, |_, places, names| {
            cables.push(Cable::lay(places, names, LINK_MTU, Quality::default()).unwrap());
        });
        (lab, cables)
    }

    fn joined_by(folder: &'a Path, test: &str, mut lay: impl FnMut(u8, [&Namespace; 2], [&str; 2])) -> Self {
        let name = name_of(test);
        let nodes = ["gate", "left", "right"].map(|node| (node, Namespace::new().unwrap()));
        let hosts = Namespaces::new(&nodes[0].1).unwrap();
        for (number, (ends, names, addresses)) in (0..).zip(LINKS) {
            let places = ends.map(|end| &nodes[end].1);
            lay(number, places, names);
            for ((place, name), last) in places.into_iter().zip(names).zip(addresses) {
                let address = IpAddr::from([10, 9, 0, last]);
                place.links().unwrap().add_address(name, address, 30).unwrap();
            }
        }
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

    /// Starts the manager of a node as on a machine that has run for a month longer.
    pub fn up_on_an_older_machine(&self, node: &str) {
        const MONTH_S: &str = "2592000";
        let words = ["up", "--detach", &self.file, "--node", node];
        let command = headgate(self.folder, &words);
        let mut older = Command::new("unshare");
        older.args(["--fork", "--time", "--monotonic", MONTH_S, "--boottime", MONTH_S]);
        older.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => older.env(name, value),
                None => older.env_remove(name),
            };
        }
        let output = self.namespace(node).run(|| older.stdin(Stdio::null()).output().unwrap()).unwrap();
        let (code, _, messages) = told(output);
        assert_eq!(code, 0, "{node}: {messages}");
    }

    /// Starts the manager of a node, of which a step is to fail: `STEP:N:WHAT`. Returns its process,
    /// which may have ended.
    pub fn up_failing(&self, node: &str, fail: &str) -> u32 {
        let start = || {
            let mut command = headgate(self.folder, &["up", &self.file, "--node", node]);
            command.env("HEADGATE_FAIL", fail).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut command = self.namespace(node).run(start).unwrap();
        let cli = command.id();
        let mut pid = 0;
        eventually("the manager is started", || {
            let children = std::fs::read_to_string(format!("/proc/{cli}/task/{cli}/children"));
            let first =
                children.unwrap_or_default().split_whitespace().next().and_then(|pid| pid.parse().ok());
            pid = first.unwrap_or(0);
            pid != 0 || !runs(cli)
        });
        // It ends with the manager.
        std::thread::spawn(move || command.wait());
        pid
    }

    /// Starts the manager of a node.
    pub fn up(&self, node: &str) {
        let (code, _, messages) = self.up_with(node, &self.file);
        assert_eq!(code, 0, "{node}: {messages}");
    }

    /// Starts all managers, and waits until `left` is active and protected.
    pub fn up_all(&self) {
        self.nodes.iter().for_each(|(node, _)| self.up(node));
        self.protected("left", "right");
    }

    /// Stops managers in this order: in order, and the accounts of each hold.
    #[track_caller]
    pub fn down(&self, nodes: &[&str]) {
        for node in nodes {
            let (code, totals, messages) = self.told(node, &["down"]);
            assert!(code == 0 && totals.contains("accounts hold"), "{node}: {totals} {messages}");
        }
    }

    /// Numbers that arrived are all that were sent, each once, in their order.
    #[track_caller]
    pub fn assert_all_in_order(&self, (sent, received): &(u64, Vec<u64>)) {
        let first = received.iter().copied().zip(0..).find(|(number, at)| number != at);
        assert!(
            first.is_none() && received.len() as u64 == *sent,
            "sent {sent}, received {}, first out of place: {first:?}\n{}",
            received.len(),
            self.described()
        );
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

    /// Kills the manager of a node, and waits until it is gone.
    pub fn kill(&self, node: &str) {
        let manager = daemon(self.folder, &self.manager(node));
        signal(manager, Signal::KILL);
        self.eventually("the manager is gone", || !runs(manager));
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
