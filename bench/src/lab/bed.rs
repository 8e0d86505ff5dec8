//! A test bed: NFs, chains, traffic and scheduler of one case, as plain values, and the configuration file
//! that they make.
//!
//! Flow `n` of the generator has a source address of its own, and a rule sends it into chain `n`. So the
//! rates of flows are those of chains.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::Serialize;

/// Buffers of the packet memory. Our choice: more than all rings and what waits for them hold, so that
/// overload leaves some to the ports, and no port is the one that decides who gets less.
const BUFFERS: u32 = 65_536;
/// Source address of flow 0, as a number; flow `n` has the `n`th after it (the generator's default).
const FIRST_SOURCE: u32 = u32::from_be_bytes([10, 0, 0, 1]);
/// testpmd as an external program: a thread that waits and one that polls, on one core, without huge pages.
/// It takes the largest rings that it is offered (`rsize`, a power of two).
const TESTPMD: [&str; 15] = [
    "/usr/bin/dpdk-testpmd",
    "--no-huge",
    "-m",
    "64",
    "--no-pci",
    "--no-shconf",
    "--no-telemetry",
    "--lcores",
    "0@{core},1@{core}",
    "--vdev=net_memif0,role=client,rsize=14,socket={in}",
    "--vdev=net_memif1,role=client,rsize=14,socket={out}",
    "--",
    "--forward-mode=macswap",
    "--auto-start",
    "--total-num-mbufs=4096",
];
/// Preamble, start of frame and gap between frames, in bytes (IEEE 802.3).
const BETWEEN_FRAMES_BYTES: f64 = 20.0;
/// The link of the paper, in bits per second.
const LINK: f64 = 10e9;

/// Packets per second of the paper's link at its fullest: 14.88 million of 64 bytes.
#[must_use]
pub fn line_rate(frame_bytes: u32) -> f64 {
    LINK / 8.0 / (f64::from(frame_bytes) + BETWEEN_FRAMES_BYTES)
}

/// Kind of scheduling, as `[scheduler] mode` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// The kernel alone.
    Os,
    /// Shares by need.
    Weights,
    /// Shedding at the entry.
    Backpressure,
    /// Both.
    Nfvnice,
    /// Time slices for NFs that poll.
    Unis,
}

impl Mode {
    /// Modes for NFs that sleep.
    pub const ALL: [Self; 4] = [Self::Os, Self::Weights, Self::Backpressure, Self::Nfvnice];

    /// Returns the name in the configuration and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Weights => "weights",
            Self::Backpressure => "backpressure",
            Self::Nfvnice => "nfvnice",
            Self::Unis => "unis",
        }
    }
}

/// Scheduling policy of NFs in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Policy {
    /// A fair share each; who wakes may pre-empt.
    Normal,
    /// A fair share each, without pre-emption by an NF that wakes.
    Batch,
    /// Real time in time slices of 100 ms, the kernel's default.
    RoundRobin,
    /// Real time in time slices of 1 ms, rounded up to a tick by the kernel.
    RoundRobinShort,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Batch, Self::RoundRobin, Self::RoundRobinShort];
    /// Policies of the paper's section 3.2.
    pub const THREE: [Self; 3] = [Self::Normal, Self::Batch, Self::RoundRobin];

    /// Returns the name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Batch => "batch",
            Self::RoundRobin => "rr",
            Self::RoundRobinShort => "rr_1ms",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Batch => "batch",
            Self::RoundRobin | Self::RoundRobinShort => "rr",
        }
    }

    const fn quantum_ms(self) -> Option<u32> {
        match self {
            Self::Normal | Self::Batch => None,
            Self::RoundRobin => Some(100),
            Self::RoundRobinShort => Some(1),
        }
    }
}

/// Work of an NF on a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A number of TSC cycles.
    Cycles(u32),
    /// A number of cycles for frames from each of these sizes on.
    Steps(Vec<(u32, u32)>),
    /// A number of cycles, and a sleep in the kernel: cycles, packets between two, microseconds of one.
    Sleeps(u32, u32, u32),
    /// One of these numbers of cycles, each as often.
    OneOf(Vec<u32>),
    /// What an NF that is shipped does, with these arguments as TOML; empty for none.
    Shipped(&'static str, &'static str),
    /// A swap of the Ethernet addresses, by a program that nobody here wrote: dpdk-testpmd, which polls.
    Testpmd,
    /// A write to a file in this folder.
    Log {
        /// The folder.
        folder: String,
        /// Whether the NF waits for the disk.
        sync: bool,
    },
}

/// A path through NFs, and the flow that takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Numbers of its NFs.
    pub stages: Vec<usize>,
    /// Packets per second offered.
    pub rate: f64,
}

/// Way in which NFs wait for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Waits {
    /// Asleep.
    Notified,
    /// Never.
    Polling,
    /// No sleep, and a yield after so many bursts.
    Cooperative(u32),
}

/// Load of a chain.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Frames of one size, check sequence included.
    Even(u32),
    /// Frames of these sizes, each as often, drawn from a seeded generator.
    Mixed(Vec<u32>),
    /// The frames of this capture, over and over, as fast as they are taken.
    Capture(PathBuf),
}

/// NFs, chains, traffic and scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct TestBed {
    /// The NFs; number `n` is called `nf{n + 1}`, as the paper does.
    pub nfs: Vec<Work>,
    /// The chains; number `n` is called `chain{n + 1}`.
    pub chains: Vec<Chain>,
    /// Frames.
    pub traffic: Traffic,
    /// Way in which NFs wait.
    pub waits: Waits,
    /// Places of each ring, where they are not the default.
    pub ring: Option<u32>,
    /// Packet buffers, where they are not the default.
    pub buffers: Option<u32>,
    /// Mode of scheduling.
    pub mode: Mode,
    /// Policy of the kernel.
    pub policy: Policy,
    /// High and low watermark in percent of a ring, where they are not the defaults.
    pub watermarks: Option<(u32, u32)>,
    /// Whether all NFs are in one process; there is one chain over all of them then.
    pub fused: bool,
    /// Each NF on the next core, as far as there are some; else all on one.
    pub spread: bool,
    /// More keys of the first chain, as text.
    pub asked: String,
    /// More keys of the scheduler, as text.
    pub scheduler: String,
    /// More ports, NFs, chains and rules, as text.
    pub more: String,
}

impl TestBed {
    /// NFs of these costs in one chain, with so many packets per second.
    #[must_use]
    pub fn chain(cycles: &[u32], rate: f64) -> Self {
        let stages = (0..cycles.len()).collect();
        Self::of(cycles.iter().map(|&cycles| Work::Cycles(cycles)).collect(), vec![Chain { stages, rate }])
    }

    /// NFs of these costs, each in a chain of its own, with so many packets per second each.
    #[must_use]
    pub fn side_by_side(nfs: &[(u32, f64)]) -> Self {
        let chains = nfs.iter().enumerate().map(|(nf, &(_, rate))| Chain { stages: vec![nf], rate });
        Self::of(nfs.iter().map(|&(cycles, _)| Work::Cycles(cycles)).collect(), chains.collect())
    }

    /// These NFs and chains.
    #[must_use]
    pub const fn of(nfs: Vec<Work>, chains: Vec<Chain>) -> Self {
        Self {
            nfs,
            chains,
            traffic: Traffic::Even(64),
            waits: Waits::Notified,
            ring: None,
            buffers: None,
            mode: Mode::Nfvnice,
            policy: Policy::Normal,
            watermarks: None,
            fused: false,
            spread: false,
            asked: String::new(),
            scheduler: String::new(),
            more: String::new(),
        }
    }

    /// The same with another scheduler.
    #[must_use]
    pub fn scheduled(self, policy: Policy, mode: Mode) -> Self {
        Self { mode, policy, ..self }
    }

    /// Returns a configuration file with the manager's worker on the first of `cores`, NFs on the others.
    #[must_use]
    pub fn to_toml(&self, cores: &[u32]) -> String {
        let (manager, nf_cores) = cores.split_first().unwrap_or((&0, &[]));
        let nf_cores = if nf_cores.is_empty() { std::slice::from_ref(manager) } else { nf_cores };
        let mut text = format!("[manager]\nname = \"bench\"\ncores = [{manager}]\n");
        let buffers = self.buffers.unwrap_or(BUFFERS);
        let _ = write!(text, "\n[memory]\nbuffers = {buffers}\n");
        self.write_scheduler(&mut text);
        self.write_ports(&mut text);
        self.write_nfs(&mut text, nf_cores);
        self.write_chains(&mut text);
        text.push_str(&self.more);
        text
    }

    fn write_scheduler(&self, text: &mut String) {
        let _ = write!(text, "\n[scheduler]\nmode = \"{}\"\n", self.mode.name());
        // The paper bounds no load, and offers single NFs several cores of it.
        let _ = writeln!(text, "claim_cores = 64");
        if let Some((high, low)) = self.watermarks {
            let _ = writeln!(text, "high_watermark = {high}\nlow_watermark = {low}");
        }
        if let Some(quantum) = self.policy.quantum_ms() {
            let _ = writeln!(text, "rr_quantum_ms = {quantum}");
        }
        text.push_str(&self.scheduler);
    }

    fn write_ports(&self, text: &mut String) {
        if self.chains.is_empty() && !self.more.is_empty() {
            // Packets come and go by other ports.
            return;
        }
        // A configuration has whole packets per second.
        let rates: Vec<_> = self.chains.iter().map(|chain| format!("{:.0}", chain.rate)).collect();
        let rates = rates.join(", ");
        let source = match &self.traffic {
            Traffic::Even(bytes) => format!("kind = \"generator\"\nsize = {bytes}\nrates = [{rates}]"),
            Traffic::Mixed(sizes) => {
                let sizes: Vec<_> = sizes.iter().map(|bytes| format!("[{bytes}, 1]")).collect();
                format!("kind = \"generator\"\nsizes = [{}]\nrates = [{rates}]", sizes.join(", "))
            }
            Traffic::Capture(file) => {
                format!("kind = \"pcap\"\nread = \"{}\"\nmode = \"loop\"", file.display())
            }
        };
        let _ = write!(
            text,
            "\n[[port]]\nname = \"source\"\n{source}\n\n[[port]]\nname = \"sink\"\nkind = \"null\"\n"
        );
    }

    fn write_nfs(&self, text: &mut String, cores: &[u32]) {
        let policy = self.policy.word();
        if self.fused {
            let all: Vec<_> = self.nfs.iter().map(|work| format!("{{ {} }}", program(work, ", "))).collect();
            let (all, core) = (all.join(", "), cores[0]);
            let _ = write!(
                text,
                "\n[[nf]]\nname = \"all\"\nfuse = [{all}]\ncore = {core}\npolicy = \"{policy}\"\n"
            );
            return;
        }
        let waits = match self.waits {
            Waits::Notified => String::new(),
            Waits::Polling => "loop = \"polling\"\n".to_owned(),
            Waits::Cooperative(bursts) => format!("loop = \"cooperative\"\nyield_after = {bursts}\n"),
        };
        let ring = self.ring.map_or(String::new(), |ring| format!("ring = {ring}\n"));
        let policy = match self.mode {
            Mode::Unis => String::new(),
            _ => format!("policy = \"{policy}\"\n"),
        };
        for (number, work) in self.nfs.iter().enumerate() {
            let core = cores[if self.spread { number % cores.len() } else { 0 }];
            let (name, program) = (number + 1, program(work, "\n"));
            let _ = write!(
                text,
                "\n[[nf]]\nname = \"nf{name}\"\n{program}\ncore = {core}\n{policy}{waits}{ring}"
            );
        }
    }

    fn write_chains(&self, text: &mut String) {
        for (number, chain) in self.chains.iter().enumerate() {
            let stages: Vec<_> = chain.stages.iter().map(|nf| format!("\"nf{}\"", nf + 1)).collect();
            let stages = if self.fused { "\"all\"".to_owned() } else { stages.join(", ") };
            let source = Ipv4Addr::from(FIRST_SOURCE + number as u32);
            let name = number + 1;
            let asked = if number == 0 { &*self.asked } else { "" };
            // All of a capture takes the only chain.
            let which = match self.traffic {
                Traffic::Capture(_) => String::new(),
                _ => format!("source = \"{source}\"\n"),
            };
            let _ = write!(
                text,
                "\n[[chain]]\nname = \"chain{name}\"\nstages = [{stages}]\nout = \"sink\"\n{asked}\
                 \n[[rule]]\nin = \"source\"\n{which}chain = \"chain{name}\"\n"
            );
        }
    }
}

/// `run` and `args` of an NF.
fn program(work: &Work, between: &str) -> String {
    match work {
        Work::Cycles(cycles) => format!("run = \"synthetic\"{between}args = {{ cycles = {cycles} }}"),
        Work::Sleeps(cycles, every, us) => format!(
            "run = \"synthetic\"{between}args = {{ cycles = {cycles}, sleep = {{ every = {every}, us = {us} }} }}"
        ),
        Work::Steps(steps) => {
            let steps: Vec<_> = steps
                .iter()
                .map(|(from, cycles)| format!("{{ from = {from}, cycles = {cycles} }}"))
                .collect();
            let steps = steps.join(", ");
            format!("run = \"synthetic\"{between}args = {{ cycles = {{ steps = [{steps}] }} }}")
        }
        Work::OneOf(all) => {
            let all: Vec<_> = all.iter().map(|cost| format!("{{ cycles = {cost}, weight = 1 }}")).collect();
            let all = all.join(", ");
            format!("run = \"synthetic\"{between}args = {{ cycles = {{ choice = [{all}] }} }}")
        }
        Work::Shipped(run, "") => format!("run = \"{run}\""),
        Work::Shipped(run, args) => format!("run = \"{run}\"{between}args = {args}"),
        Work::Testpmd => {
            let words = TESTPMD.map(|word| format!("\"{word}\""));
            format!("box = \"memif\"{between}exec = [{}]", words.join(", "))
        }
        Work::Log { folder, sync } => {
            let write = if *sync { "sync" } else { "async" };
            // Two files of 64 MB: they fit into the page cache of any machine that runs this.
            format!(
                "run = \"packet-logger\"{between}args = {{ path = \"{folder}/log.pcapng\", write = \"{write}\", \
                 rotate_bytes = 64000000, files = 2 }}"
            )
        }
    }
}
