//! Three nodes and a store: `headgate lab` on a file of ours.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use headgate_api::Request;
use headgate_api::status::{ClusterStatus, Snapshot};
use headgate_host::clock::Clock;
use headgate_host::cores::Placement;
use headgate_host::programs::Program;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::observe::end;

const NODES: [&str; 3] = ["a", "b", "c"];
/// Packets per second. Our choice: a tenth of what links of packet sockets carry here.
const RATE: u32 = 5000;
/// Part of a core above which another node may serve, and its price.
const HIGH: u8 = 50;
pub(super) const HIGH_PRICE: f64 = 1.0;
/// Packets between two waits of an NF that waits. Our choice: a hundredth of a second's load.
const WAITS_EVERY: u32 = 10;
/// Longest wait for anything. Our choice: six leases of a node.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(1);

/// What packets take at the NF.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// So much of a core, all together.
    Core(f64),
    /// No core: each instance waits so long for each, as for a disk, and so limits what passes.
    Waits(Duration),
}

impl Load {
    /// Returns the arguments of the NF, for a machine whose clock counts so many cycles a second.
    fn arguments(self, cycles_per_second: u64) -> String {
        match self {
            Self::Core(part) => {
                let cycles = (part * cycles_per_second as f64 / f64::from(RATE)) as u64;
                format!("cycles = {cycles}")
            }
            // Of some packets at once: a wait of the kernel is some 50 us longer than it is asked for.
            Self::Waits(each) => {
                let us = (each * WAITS_EVERY).as_micros();
                format!("cycles = 0, sleep = {{ every = {WAITS_EVERY}, us = {us} }}")
            }
        }
    }
}

/// What a lab runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub placement: Placement,
    /// Fewest and most nodes that serve.
    pub serve: [u32; 2],
    /// What packets take.
    pub load: Load,
    /// Time between two choices.
    pub period: Duration,
    /// Way of choosing.
    pub mode: &'static str,
}

impl Plan {
    /// Returns the file, for a machine whose clock counts so many cycles a second.
    pub(super) fn to_toml(self, cycles_per_second: u64) -> String {
        let Self { placement, serve: [min, max], load, period, mode } = self;
        let arguments = load.arguments(cycles_per_second);
        let (manager, nfs, period) = (placement.manager, placement.nfs, period.as_millis());
        let mut text = format!(
            "[manager]\nname = \"bench\"\ncores = [{manager}]\nidle = \"yield\"\n\
             [memory]\nbuffers = 8192\nhugepages = \"never\"\n\
             [cluster]\nstore = [\"http://10.8.0.1:2379\"]\n\
             [steering]\nmode = \"{mode}\"\nhigh = {HIGH}\nlow = 5\nperiod = \"{period}ms\"\n"
        );
        text.extend(NODES.map(|node| format!("[[node]]\nname = \"{node}\"\n")));
        for (number, other) in NODES[1..].iter().enumerate() {
            text += &format!(
                "[[link]]\nnodes = [\"a\", \"{other}\"]\ninterfaces = [\"a{other}\", \"{other}a\"]\n\
                 addresses = [\"10.9.{number}.1/30\", \"10.9.{number}.2/30\"]\nmtu = 1600\n\
                 bfd = {{ interval = \"100ms\", multiplier = 3 }}\n"
            );
        }
        text + &format!(
            "[[port]]\nname = \"source\"\nnode = \"a\"\nkind = \"generator\"\nrate = {RATE}\nflows = 4096\n\
             [[port]]\nname = \"sink\"\nnode = \"a\"\nkind = \"null\"\n\
             [[nf]]\nname = \"work\"\nnodes = [\"b\", \"c\"]\ninstances = {{ min = {min}, max = {max} }}\naffinity = \"none\"\n\
             run = \"synthetic\"\ncore = {nfs}\nargs = {{ {arguments} }}\n\
             [[chain]]\nname = \"out\"\nstages = [\"work\"]\nout = \"sink\"\n\
             [[rule]]\nin = \"source\"\nchain = \"out\"\n"
        )
    }
}

/// A lab, until dropped.
pub(super) struct Lab {
    process: Child,
    /// Of a file that names one.
    store: Option<Pid>,
    _folder: TempDir,
}

impl Lab {
    /// Starts one, and waits until its nodes are ready.
    pub fn start(plan: &Plan) -> anyhow::Result<Self> {
        let lab = Self::of(&plan.to_toml(Clock::calibrate().cycles_per_second()))?;
        lab.store.context("the lab has a store")?;
        Ok(lab)
    }

    /// Starts one by a file, and waits until its nodes are ready.
    pub fn of(text: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("no folder for the configuration")?;
        let file = folder.path().join("cluster.toml");
        std::fs::write(&file, text)?;
        let mut process = Command::new(Program::Command.find()?)
            .args(["--json", "lab"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("`headgate lab` does not start")?;
        let stdout = process.stdout.take().context("its output is ours")?;
        let told = BufReader::new(stdout).lines().next().transpose()?;
        let told: Option<Json> = told.and_then(|line| serde_json::from_str(&line).ok());
        let store = told.as_ref().and_then(|told| told["store"][0]["pid"].as_i64());
        let store = store.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if told.is_none() {
            end(&mut process);
            anyhow::bail!(
                "`headgate lab` ended at its start: run it by hand, on docs/guide/examples/elastic.toml"
            );
        }
        Ok(Self { process, store, _folder: folder })
    }

    /// Returns what `a` says of the nodes.
    pub fn status(&self) -> anyhow::Result<ClusterStatus> {
        self.status_at("a")
    }

    fn status_at(&self, node: &str) -> anyhow::Result<ClusterStatus> {
        let now: Option<ClusterStatus> = headgate_api::call(&format!("bench-{node}"), &Request::Cluster)?;
        now.context("nodes share an NF")
    }

    /// Waits until `a` says something. Returns when it did.
    pub fn until(&self, what: &str, is_so: impl Fn(&ClusterStatus) -> bool) -> anyhow::Result<Instant> {
        self.until_at("a", what, is_so)
    }

    /// Waits until a node says something. Returns when it did.
    pub fn until_at(
        &self,
        node: &str,
        what: &str,
        is_so: impl Fn(&ClusterStatus) -> bool,
    ) -> anyhow::Result<Instant> {
        let began = Instant::now();
        loop {
            // A manager that is being started does not answer.
            if self.status_at(node).is_ok_and(|now| is_so(&now)) {
                return Ok(Instant::now());
            }
            if began.elapsed() > PATIENCE {
                anyhow::bail!("waited {} s in vain until {what}", PATIENCE.as_secs());
            }
            sleep(SAMPLE_EVERY);
        }
    }

    /// Returns the packets that have come out of the chain, per second, over a time.
    pub fn throughput(&self, over: Duration) -> anyhow::Result<f64> {
        let left = || -> anyhow::Result<u64> {
            let now = self.snapshot("a")?;
            Ok(now.ports.iter().filter(|port| port.name == "sink").map(|port| port.sent).sum())
        };
        let (began, before) = (Instant::now(), left()?);
        sleep(over);
        Ok((left()? - before) as f64 / began.elapsed().as_secs_f64())
    }

    /// Waits until a port of a node has sent so many packets, or has sent none for a while.
    pub fn until_sent(&self, node: &str, port: &str, packets: u64) -> anyhow::Result<()> {
        let (mut sent, mut since) = (0, Instant::now());
        while sent < packets && since.elapsed() < PATIENCE {
            let now = self.snapshot(node)?;
            let now = now.ports.iter().filter(|one| one.name == port).map(|one| one.sent).sum();
            if now > sent {
                (sent, since) = (now, Instant::now());
            }
            sleep(SAMPLE_EVERY);
        }
        Ok(())
    }

    fn snapshot(&self, node: &str) -> anyhow::Result<Snapshot> {
        Ok(headgate_api::call(&format!("bench-{node}"), &Request::Snapshot { audit: false })?)
    }

    /// Kills the manager of a node.
    pub fn kill(&self, node: &str) -> anyhow::Result<()> {
        let pid = i32::try_from(self.snapshot(node)?.manager.pid).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.context("a manager has a process")?, Signal::KILL)?)
    }

    /// Signals the store.
    pub fn signal_store(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(self.store.context("the lab has a store")?, signal)?)
    }

    /// Returns the packets that were dropped at any node, that a port missed, or that it could not send.
    pub fn lost(&self) -> anyhow::Result<u64> {
        let mut lost = 0;
        for node in NODES {
            let now = self.snapshot(node)?;
            lost += now.drops.iter().map(|drop| drop.count).sum::<u64>();
            lost += now.ports.iter().map(|port| port.missed + port.failed).sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It gives everything back itself.
        end(&mut self.process);
    }
}

#[cfg(test)]
mod tests {
    use headgate_config::{Catalog, ShippedNf};

    use super::*;

    #[test]
    fn its_configuration_is_accepted() {
        let catalog = Catalog::new(vec![ShippedNf { name: "synthetic".to_owned(), ..ShippedNf::default() }]);
        let placement = Placement { manager: 0, nfs: 1 };
        let loads = [
            (Load::Core(0.7), "cycles = 280000"),
            (Load::Waits(Duration::from_millis(1)), "sleep = { every = 10, us = 10000 }"),
        ];
        for (load, arguments) in loads {
            let plan =
                Plan { placement, serve: [1, 2], load, period: Duration::from_secs(1), mode: "drench" };
            let text = plan.to_toml(2_000_000_000);
            let parts = headgate_config::parse_parts("cluster.toml", &text, &catalog);
            let parts = parts.unwrap_or_else(|refused| panic!("{refused}\n{text}"));
            assert_eq!(parts.len(), NODES.len());
            assert!(text.contains(arguments), "{text}");
        }
    }
}
