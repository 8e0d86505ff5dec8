//! Three nodes on this machine: managers in network namespaces of their own, joined by veth pairs.
//!
//! ```text
//! traffic -- gate ==== left      the group's active node at first
//!              \\       ||
//!               \\==== right     its standby
//! ```
//!
//! The same nodes without the group, whose NFs are on `left` ([decision 95]), are what the group is compared
//! with. All managers share one core and yield it, all NFs another. Namespaces have no names, so nothing of
//! them stays, however this process ends.
//!
//! [decision 95]: ../../../docs/decisions/0095-chains-over-several-nodes.md
//!
//! - [`plan`]: what they run; [`links`]: how they are joined; [`folder`]: what they keep on disk.

mod folder;
mod links;
mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use headgate_api::Request;
use headgate_api::attendance::Text;
use headgate_api::daemon::{Configuration, Daemon, Handle, Options};
use headgate_api::status::{FailoverStatus, GroupStatus, NfState, PortStatus, Snapshot};
use headgate_host::cable::Cable;
use headgate_host::namespace::{Namespace, Namespaces};
use headgate_host::programs::Program;
use serde_json::Value as Json;

use folder::Folder;
use links::NODES;
pub(crate) use plan::{BEGIN, GROUP, Plan, Traffic};

/// Longest wait for anything. Our choice: a hundred times the longest, a node that starts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two samples of a manager's state, which take it a tenth of a millisecond.
const SAMPLE_EVERY: Duration = Duration::from_millis(2);
/// Samples by which a node's time is compared with ours; the quickest counts.
const CLOCK_SAMPLES: u32 = 5;

/// The two nodes of a group, as the gate has them.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub active: &'static str,
    pub standby: &'static str,
    pub view: u32,
}

/// Nodes that run.
pub(crate) struct Nodes {
    // First: managers end before what they stand on.
    managers: BTreeMap<&'static str, Daemon>,
    _slow: Option<Cable>,
    places: [Namespace; 3],
    hosts: Option<Namespaces>,
    folder: Folder,
    program: PathBuf,
    text: String,
}

/// A moment, by our clock, by that of captures, and by that of the gate's manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
    /// Nanoseconds since the gate's manager started.
    pub gate_ns: u64,
}

impl Nodes {
    /// Starts all three, and waits until they work together.
    ///
    /// # Errors
    /// A right or veth is missing, the configuration is refused, or it takes too long.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        let places = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        let hosts = matches!(plan.traffic, Traffic::Hosts).then(|| Namespaces::new(&places[0]));
        let hosts = hosts.transpose()?;
        let slow = links::join(&places, plan.delay)?;
        let folder = Folder::new()?;
        let text = plan.to_toml(folder.path());
        let program = Program::Manager.find()?;
        let managers = BTreeMap::new();
        let mut nodes = Self { managers, _slow: slow, places, hosts, folder, program, text };
        // The gate's clock is that of the traffic, so it comes last.
        for node in ["left", "right", "gate"] {
            nodes.up(node)?;
        }
        nodes.await_that("links are up", |now| now.bfd.iter().all(|link| link.state == "up"))?;
        if plan.is_protected {
            nodes.make_active("left")?;
        }
        let nfs_run = |now: &Snapshot| now.nfs.iter().all(|nf| nf.state == NfState::Running);
        nodes.await_at("left", "NFs run", nfs_run)?;
        Ok(nodes)
    }

    /// Starts the manager of a node.
    ///
    /// # Errors
    /// It does not start.
    pub fn up(&mut self, node: &'static str) -> anyhow::Result<()> {
        let text = Text { name: "nodes (made by headgate bench)".to_owned(), text: self.text.clone() };
        let options = Options::new(self.program.clone(), Configuration::Text(text));
        let options =
            Options { node: Some(node.to_owned()), listed: false, quiet: true, costs: false, ..options };
        let daemon =
            self.place(node).run(move || Daemon::start(options))?.with_context(|| format!("node {node}"))?;
        self.managers.insert(node, daemon);
        Ok(())
    }

    /// Kills the manager of a node with SIGKILL, and with it all of its NFs. Returns when.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, node: &'static str) -> anyhow::Result<Moment> {
        let moment = self.now()?;
        self.kill_at_once(&[node])?;
        Ok(moment)
    }

    /// Kills the managers of some nodes with SIGKILL, as close to one another as can be.
    ///
    /// # Errors
    /// One does not run.
    pub fn kill_at_once(&mut self, nodes: &[&'static str]) -> anyhow::Result<()> {
        let killers = nodes.iter().map(|node| Ok(self.manager(node)?.killer()));
        for killer in killers.collect::<anyhow::Result<Vec<_>>>()? {
            killer.kill()?;
        }
        for node in nodes {
            // It cannot end in order any more; this waits for its process.
            drop(self.managers.remove(node));
        }
        Ok(())
    }

    /// Lets a node's interface of a link carry frames, or not.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn set_link(&self, node: &str, interface: &str, up: bool) -> anyhow::Result<()> {
        let mut links = self.place(node).links()?;
        Ok(if up { links.set_up(interface) } else { links.set_down(interface) }?)
    }

    /// Returns this moment.
    ///
    /// # Errors
    /// The gate does not answer.
    pub fn now(&self) -> anyhow::Result<Moment> {
        moment(Instant::now(), self.began("gate")?)
    }

    /// Waits until one node is active, and the other one could take over. Returns which they are.
    ///
    /// # Errors
    /// It takes too long.
    pub fn await_protected(&self) -> anyhow::Result<Pair> {
        let is_protected = |now: &Snapshot| now.groups.first().is_some_and(|it| it.protected == Some(true));
        let now = self.await_that("the group is protected", is_protected)?;
        let group = now.groups.first().context("the gate has a group")?;
        let is_left = group.active.as_deref() == Some("left");
        let [active, standby] = if is_left { ["left", "right"] } else { ["right", "left"] };
        Ok(Pair { active, standby, view: group.view })
    }

    /// Waits until this node is active and protected. Where the machine stood still for some 10 ms, the other
    /// one may have taken over.
    fn make_active(&self, wanted: &str) -> anyhow::Result<()> {
        loop {
            let Pair { active, view, .. } = self.await_protected()?;
            if active == wanted {
                return Ok(());
            }
            self.ask(&Request::Migrate { group: GROUP.to_owned(), to: wanted.to_owned() })?;
            self.await_failover(view)?;
        }
    }

    /// Waits until packets leave again in a later view than this one. Returns how it came.
    ///
    /// # Errors
    /// It takes too long.
    pub fn await_failover(&self, view: u32) -> anyhow::Result<FailoverStatus> {
        let is_over = |group: &GroupStatus| {
            let failover = group.failover.as_ref();
            failover.is_some_and(|failover| failover.view > view && failover.resumed_ns.is_some())
        };
        let now = self.await_that("packets leave again", |now| now.groups.first().is_some_and(is_over))?;
        let failover = now.groups.into_iter().next().and_then(|group| group.failover);
        failover.context("the gate tells of its last failover")
    }

    /// Waits until something is so at the gate.
    ///
    /// # Errors
    /// It takes too long.
    pub fn await_that(&self, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> anyhow::Result<Snapshot> {
        self.await_at("gate", what, is_so)
    }

    /// Waits until something is so at a node.
    ///
    /// # Errors
    /// It takes too long.
    pub fn await_at(
        &self,
        node: &'static str,
        what: &str,
        is_so: impl Fn(&Snapshot) -> bool,
    ) -> anyhow::Result<Snapshot> {
        let started = Instant::now();
        loop {
            let now = self.sample(node)?;
            if is_so(&now) {
                return Ok(now);
            }
            if started.elapsed() > PATIENCE {
                let last = now.events.iter().rev().take(5);
                let last: String = last.map(|event| format!("\n  {}: {}", event.who, event.what)).collect();
                bail!(
                    "waited {} s in vain at node `{node}` until {what}; is the machine busy with something else? \
                     Last events:{last}",
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(SAMPLE_EVERY);
        }
    }

    /// Returns the state of a node.
    ///
    /// # Errors
    /// It does not answer.
    pub fn sample(&self, node: &'static str) -> anyhow::Result<Snapshot> {
        let now = self.manager(node)?.handle().sample();
        now.with_context(|| format!("node {node}"))
    }

    /// Has the gate do something.
    ///
    /// # Errors
    /// It refuses.
    pub fn ask(&self, request: &Request) -> anyhow::Result<Json> {
        Ok(self.handle("gate")?.ask(request)?)
    }

    /// Returns a way to ask the manager of a node.
    ///
    /// # Errors
    /// It does not run.
    pub fn handle(&self, node: &str) -> anyhow::Result<Handle> {
        Ok(self.manager(node)?.handle())
    }

    /// Returns the two hosts.
    ///
    /// # Errors
    /// The plan has none.
    pub fn hosts(&self) -> anyhow::Result<&Namespaces> {
        self.hosts.as_ref().context("there are no hosts")
    }

    /// Returns the file of packets that left.
    pub fn capture(&self) -> PathBuf {
        self.folder.path().join(plan::CAPTURE)
    }

    /// Returns the bytes that the kernel's interfaces of links have sent at a node, by interface.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn sent_bytes(&self, node: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        let table = self.place(node).run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        Ok(table.lines().filter_map(sent_of_line).collect())
    }

    /// Stops all in order, the gate first, behind which nothing enters. Returns the gate's last snapshot, and
    /// whether the accounts of all hold.
    ///
    /// # Errors
    /// One did not end in order.
    pub fn stop(&mut self) -> anyhow::Result<(Snapshot, bool)> {
        let (mut gate, mut conserved) = (None, true);
        for node in NODES {
            let Some(last) = self.stop_one(node)? else { continue };
            conserved &= last.conserved != Some(false);
            gate.get_or_insert(last);
        }
        Ok((gate.unwrap_or_default(), conserved))
    }

    /// Stops a node in order, if it runs. Returns its last snapshot.
    ///
    /// # Errors
    /// It did not end in order.
    pub fn stop_one(&mut self, node: &str) -> anyhow::Result<Option<Snapshot>> {
        let daemon = self.managers.remove(node);
        let stopped = daemon.map(|daemon| daemon.stop().with_context(|| format!("node {node}")));
        Ok(stopped.transpose()?.map(|stopped| stopped.last))
    }

    fn place(&self, node: &str) -> &Namespace {
        &self.places[NODES.iter().position(|one| *one == node).unwrap_or(0)]
    }

    fn manager(&self, node: &str) -> anyhow::Result<&Daemon> {
        self.managers.get(node).with_context(|| format!("node {node} does not run"))
    }

    /// Returns when the time of a node's manager began, by our clock.
    fn began(&self, node: &'static str) -> anyhow::Result<Instant> {
        let mut best: Option<(Duration, Instant)> = None;
        for _ in 0..CLOCK_SAMPLES {
            let before = Instant::now();
            let now = self.sample(node)?;
            let took = before.elapsed();
            let began = (before + took / 2).checked_sub(Duration::from_nanos(now.at_ns));
            let began = began.context("a manager began before this machine")?;
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, began));
            }
        }
        best.map(|(_, began)| began).context("a sample was taken")
    }
}

/// Returns the status of a port.
///
/// # Errors
/// There is none of this name.
pub(crate) fn port<'a>(now: &'a Snapshot, name: &str) -> anyhow::Result<&'a PortStatus> {
    now.ports.iter().find(|port| port.name == name).with_context(|| format!("there is a port {name}"))
}

fn moment(at: Instant, gate_began: Instant) -> anyhow::Result<Moment> {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let since = at.saturating_duration_since(gate_began);
    Ok(Moment { wall_ns: wall.as_nanos() as u64, gate_ns: since.as_nanos() as u64 })
}

/// Returns an interface and the bytes that it has sent, of a line of `/proc/net/dev` (proc_pid_net(5)).
fn sent_of_line(line: &str) -> Option<(String, u64)> {
    let (name, counts) = line.split_once(':')?;
    let sent = counts.split_whitespace().nth(8)?.parse().ok()?;
    Some((name.trim().to_owned(), sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_has_sent_is_the_ninth_count() {
        let line = "    g0: 1296 16 0 0 0 0 0 0 4711 18 0 0 0 0 0 0";
        assert_eq!(sent_of_line(line), Some(("g0".to_owned(), 4711)));
        assert_eq!(sent_of_line("Inter-|   Receive    |  Transmit"), None);
    }
}
