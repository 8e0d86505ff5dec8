//! What nodes run: one file for all of them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use headgate_host::cores::Placement;

use super::links::describe;

/// Name of the group.
pub(crate) const GROUP: &str = "edge";
/// Time since its manager started at which the gate's generator begins. Our choice: BFD says hello once a
/// second until a session is up, and nodes have met before the first packet.
pub(crate) const BEGIN: Duration = Duration::from_secs(4);
/// Name of the file of packets that left.
pub(super) const CAPTURE: &str = "left.pcapng";
/// Packets that the gate keeps: twice the largest latch.
const LOG: u32 = 16_384;
/// Flows of a monitor for a mebibyte of its state: keys of both kinds, values, and a log as large.
const FLOWS_OF_MEBIBYTE: u32 = 1024;

/// Traffic through the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// From a generator at the gate, so many packets of 64 bytes a second and flows, into a port that
    /// measures their delay.
    Measured {
        /// Packets per second.
        rate: u32,
    },
    /// The same into a capture.
    Captured {
        /// Packets per second.
        rate: u32,
        /// Flows.
        flows: u32,
    },
    /// Between two hosts.
    Hosts,
}

/// What nodes run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Cores: of all managers, and of all NFs.
    pub placement: Placement,
    /// Whether the chains are a group; otherwise their NFs are on `left`.
    pub is_protected: bool,
    /// Number of NFs, which count flows.
    pub nfs: usize,
    /// Flows that each has room for.
    pub flows: u32,
    /// Packets that the latch has room for.
    pub latch: u32,
    /// Whether NFs of the group have a local standby besides.
    pub has_spares: bool,
    /// Time between two copies of the NFs' state.
    pub checkpoint_every: &'static str,
    /// Time that is added to each frame's way between `left` and `right`.
    pub delay: Duration,
    /// Time since its manager started at which the gate's generator begins.
    pub begin: Duration,
    /// Packets per second of a chain of the gate's own, which is of no group, from a generator through an NF
    /// into a port `plain-end` that measures their delay; 0: there is none.
    pub plain_rate: u32,
    /// Traffic.
    pub traffic: Traffic,
}

impl Plan {
    /// Returns that of one NF, protected by the defaults.
    pub fn new(placement: Placement, traffic: Traffic) -> Self {
        Self {
            placement,
            is_protected: true,
            nfs: 1,
            flows: 4096,
            latch: 8192,
            has_spares: false,
            checkpoint_every: "20ms",
            delay: Duration::ZERO,
            begin: BEGIN,
            plain_rate: 0,
            traffic,
        }
    }

    /// Returns the configuration of all nodes.
    pub fn to_toml(self, folder: &Path) -> String {
        let mut text = format!(
            "[manager]\nname = \"bench\"\ncores = [{}]\nidle = \"yield\"\n\n\
             [memory]\nbuffers = 65536\nhugepages = \"never\"\n",
            self.placement.manager
        );
        describe(folder, &mut text);
        let chains = if self.traffic == Traffic::Hosts { &["out", "back"][..] } else { &["out"][..] };
        if self.is_protected {
            let _ = write!(
                text,
                "\n[[group]]\nname = \"{GROUP}\"\nchains = {chains:?}\ngate = \"gate\"\nactive = \"left\"\n\
                 standby = \"right\"\nlog = {LOG}\nlatch = {}\ncheckpoint_every = \"{}\"\n",
                self.latch, self.checkpoint_every
            );
        }
        for (name, keys) in ["west", "east"].into_iter().zip(self.ports(folder)) {
            let _ = write!(text, "\n[[port]]\nname = \"{name}\"\nnode = \"gate\"\n{keys}\n");
        }
        (0..self.nfs).for_each(|number| self.nf(number, &mut text));
        for chain in chains {
            self.chain(chain, &mut text);
        }
        if self.plain_rate > 0 {
            self.plain(&mut text);
        }
        text
    }

    fn plain(&self, text: &mut String) {
        let (core, from) = (self.placement.nfs, self.generator(self.plain_rate, 32));
        let _ = write!(
            text,
            "\n[[port]]\nname = \"plain\"\nnode = \"gate\"\n{from}\n\n[[port]]\nname = \"plain-end\"\n\
             node = \"gate\"\nkind = \"null\"\n\n[[nf]]\nname = \"plain\"\nrun = \"forward\"\nnode = \"gate\"\n\
             core = {core}\n\n[[chain]]\nname = \"plain\"\nstages = [\"plain\"]\nout = \"plain-end\"\n\n\
             [[rule]]\nin = \"plain\"\nchain = \"plain\"\n"
        );
    }

    fn ports(&self, folder: &Path) -> [String; 2] {
        match self.traffic {
            Traffic::Measured { rate } => [self.generator(rate, 32), "kind = \"null\"".to_owned()],
            Traffic::Captured { rate, flows } => {
                let file = folder.join(CAPTURE);
                [self.generator(rate, flows), format!("kind = \"pcap\"\nwrite = {file:?}")]
            }
            Traffic::Hosts => ["left", "right"].map(|side| format!("interface = \"hg-{side}\"")),
        }
    }

    /// Returns the keys of a generator of so many packets per second and flows.
    fn generator(&self, rate: u32, flows: u32) -> String {
        let begin = self.begin.as_millis();
        format!(
            "kind = \"generator\"\nsize = 64\nflows = {flows}\nrate = 1\n\
             steps = [{{ at = \"{begin}ms\", rate = {rate} }}]"
        )
    }

    fn nf(&self, number: usize, text: &mut String) {
        let Self { placement, flows, .. } = self;
        let _ = write!(
            text,
            "\n[[nf]]\nname = \"nf-{number}\"\nrun = \"monitor\"\ncore = {}\nring = 8192\n\
             args = {{ flows = {flows}, idle_timeout = \"1h\" }}\n",
            placement.nfs
        );
        if !self.is_protected {
            text.push_str("node = \"left\"\n");
            return;
        }
        let mebibytes = (flows / FLOWS_OF_MEBIBYTE).max(4);
        let _ = writeln!(text, "state = {{ keep = true, bytes = \"{mebibytes}Mi\" }}");
        if self.has_spares {
            text.push_str("standby = \"local\"\n");
        }
    }

    fn chain(&self, name: &str, text: &mut String) {
        let (from, to) = if name == "out" { ("west", "east") } else { ("east", "west") };
        let mut stages: Vec<String> = (0..self.nfs).map(|number| format!("nf-{number}")).collect();
        if name != "out" {
            stages.reverse();
        }
        let _ = write!(
            text,
            "\n[[chain]]\nname = \"{name}\"\nstages = {stages:?}\nout = \"{to}\"\n\n\
             [[rule]]\nin = \"{from}\"\nchain = \"{name}\"\n"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_configurations_are_accepted_at_each_node() {
        let monitor = headgate_config::ShippedNf {
            name: "monitor".to_owned(),
            keeps: true,
            ..headgate_config::ShippedNf::default()
        };
        let forward = headgate_config::ShippedNf {
            name: "forward".to_owned(),
            ..headgate_config::ShippedNf::default()
        };
        let catalog = headgate_config::Catalog::new(vec![monitor, forward]);
        let placement = Placement { manager: 0, nfs: 1 };
        let captured = Traffic::Captured { rate: 20_000, flows: 100_000 };
        for (traffic, is_protected, flows) in [
            (Traffic::Measured { rate: 150_000 }, true, 4096),
            (Traffic::Measured { rate: 150_000 }, false, 4096),
            (captured, true, 131_072),
            (Traffic::Hosts, true, 4096),
            (Traffic::Hosts, false, 4096),
        ] {
            let plan =
                Plan { is_protected, flows, nfs: 3, has_spares: true, ..Plan::new(placement, traffic) };
            let plan = Plan { plain_rate: 1000, ..plan };
            let text = plan.to_toml(Path::new("/tmp/nodes"));
            let parts = headgate_config::parse_parts("nodes", &text, &catalog);
            for part in parts.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}")) {
                assert_eq!(part.config.node.is_some_and(|one| !one.groups.is_empty()), is_protected);
            }
        }
    }
}
