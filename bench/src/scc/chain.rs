//! A case: routers in a row on interfaces of the kernel, or what they are compared with.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use anyhow::Context as _;
use headgate_api::status::{NfStatus, Snapshot};
use headgate_host::Pid;
use headgate_host::{openvswitch, process};

use crate::lab::bed::TestBed;
use crate::lab::experiment::{Curve, Method};
use crate::lab::measure::Value;
use crate::lab::runner::Runner;
use headgate_api::session::Session;

use super::hosts::{ADDRESSES, END, ENTRY, Hosts, MACS};
use super::traffic::{self, Load, TrafficResult};

/// Packets that may wait at each NF. Our choice: what the kernel's default of 208 KiB for a socket's receive
/// buffer holds of small packets.
const QUEUE: u32 = 256;
/// Part of the most that routers with one packet a call sustain, in percent, which is offered where times are
/// measured. The paper offers the most that its slowest router sustains without loss; a random walk does
/// not stay below its own mean.
const OFFERED_PERCENT: u32 = 95;

/// The wiring `ovs` with the switch on another core than the NFs (SCC, figure 7b; `ovs` is 7a).
pub const OVS_APART: &str = "ovs_apart";

/// Way in which packets pass between the kernel and NFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// A chain on interfaces of the kernel.
    Kernel {
        /// Word in the configuration.
        driver: &'static str,
        /// Packets of one system call.
        batch: u32,
        /// `direct`, `bridge` or `ovs`.
        wiring: &'static str,
    },
    /// The same, with one packet a call, and an Open vSwitch between the chain and the host.
    Switched,
    /// Through the workers' rings, from and to DPDK ports on the same interfaces.
    Rings,
    /// No NF: a kernel that routes.
    Routing,
}

/// Scheduling policy of NFs in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Word in the configuration.
    pub word: &'static str,
    /// The slice asked for, in microseconds.
    pub slice_us: Option<u32>,
    /// Whether each NF goes before the one that feeds it: of real-time policies.
    pub is_rising: bool,
}

/// Priority of the first NF where it rises with each.
const FIRST_PRIORITY: usize = 10;

/// The kernel's default.
pub const DEFAULT: Policy = Policy { word: "normal", slice_us: None, is_rising: false };

/// State that all cases of an experiment share.
#[derive(Default)]
pub struct Shared {
    hosts: OnceCell<Hosts>,
    routed: OnceCell<Hosts>,
    switched: OnceCell<Hosts>,
    /// Packets per second that so many routers sustain with one packet a call under the default policy.
    sustained: RefCell<BTreeMap<usize, f64>>,
}

/// A case.
#[derive(Clone)]
pub struct Chain {
    /// State shared with other cases.
    pub shared: Rc<Shared>,
    /// Way in which packets pass.
    pub io: Io,
    /// Routers in a row.
    pub length: usize,
    /// Scheduling policy of the kernel.
    pub policy: Policy,
    /// Bytes of a frame, check sequence included.
    pub frame_bytes: usize,
    /// Routers in the chain whose most is offered where times are measured: one, as in the paper, for
    /// which longer chains are too slow; or as many as here.
    pub offered_to: usize,
    /// Part of it that is offered, in percent.
    pub offered_percent: u32,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} routers, {:?}, {:?}", self.length, self.io, self.policy)
    }
}

impl Chain {
    /// Makes a chain of one router with one packet a call under the kernel's default policy.
    #[must_use]
    pub fn baseline(shared: &Rc<Shared>) -> Self {
        let io = Io::Kernel { driver: "packet", batch: 1, wiring: "direct" };
        Self {
            shared: shared.clone(),
            io,
            length: 1,
            policy: DEFAULT,
            frame_bytes: 64,
            offered_to: 1,
            offered_percent: OFFERED_PERCENT,
        }
    }

    fn hosts(&self, cores: &[u32]) -> anyhow::Result<&Hosts> {
        let cell = match self.io {
            Io::Routing => &self.shared.routed,
            Io::Switched => &self.shared.switched,
            Io::Kernel { .. } | Io::Rings => &self.shared.hosts,
        };
        if let Some(hosts) = cell.get() {
            return Ok(hosts);
        }
        let made = match self.io {
            Io::Routing => Hosts::routed().map_err(anyhow::Error::from),
            // What one core does is compared.
            Io::Switched => Hosts::switched(cores.last().copied().unwrap_or(0)),
            Io::Kernel { .. } | Io::Rings => Hosts::new().map_err(anyhow::Error::from),
        };
        let made = made.context("namespaces of the experiment")?;
        Ok(cell.get_or_init(|| made))
    }

    /// Returns a configuration with NFs on the last of `cores`, the first is that of the host. Where a worker
    /// has work, it shares the NFs' core: what is compared is what one core does.
    #[must_use]
    pub fn to_toml(&self, cores: &[u32]) -> String {
        let (host, nf) = (cores.first().copied().unwrap_or(0), cores.last().copied().unwrap_or(0));
        let manager = if self.io == Io::Rings { nf } else { host };
        // What schedules is the kernel.
        let mut text =
            format!("[manager]\nname = \"bench\"\ncores = [{manager}]\n[scheduler]\nmode = \"os\"\n");
        if self.io == Io::Routing {
            return text;
        }
        for stage in 0..self.length {
            let _ = write!(
                text,
                "\n[[nf]]\nname = \"nf{stage}\"\nrun = \"router\"\ncore = {nf}\nring = {QUEUE}\npolicy = \"{}\"\n",
                self.policy.word
            );
            if let Some(us) = self.policy.slice_us {
                let _ = writeln!(text, "slice_us = {us}");
            }
            if self.policy.is_rising {
                let _ = writeln!(text, "rt_priority = {}", FIRST_PRIORITY + stage);
            }
            let _ = writeln!(text, "args = {}", Self::router());
        }
        let stages: Vec<_> = (0..self.length).map(|stage| format!("\"nf{stage}\"")).collect();
        let _ = write!(text, "\n[[chain]]\nname = \"chain\"\nstages = [{}]\n", stages.join(", "));
        let on_interfaces = match self.io {
            Io::Switched => Some(("packet", 1, "direct")),
            Io::Kernel { driver, batch, wiring } => Some((driver, batch, wiring)),
            Io::Rings | Io::Routing => None,
        };
        if let Some((driver, batch, wiring)) = on_interfaces {
            let (wiring, switch) = match wiring {
                "ovs" => (wiring, format!(", switch_core = {nf}")),
                OVS_APART => ("ovs", format!(", switch_core = {host}")),
                _ => (wiring, String::new()),
            };
            let _ = writeln!(
                text,
                "io = {{ in = \"{ENTRY}\", out = \"{END}\", driver = \"{driver}\", batch = {batch}, wiring = \"{wiring}\"{switch} }}"
            );
        }
        match self.io {
            Io::Rings => {
                let _ = write!(
                    text,
                    "out = \"out\"\n[[rule]]\nin = \"in\"\nchain = \"chain\"\n\
                     [[port]]\nname = \"in\"\nkind = \"dpdk\"\ndevice = \"net_af_packet0,iface={ENTRY}\"\n\
                     [[port]]\nname = \"out\"\nkind = \"dpdk\"\ndevice = \"net_af_packet1,iface={END}\"\n"
                );
            }
            Io::Kernel { .. } | Io::Switched | Io::Routing => {}
        }
        text
    }

    /// A router's arguments: whatever comes goes on, and the next takes what is sent to the sink as well.
    fn router() -> String {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        let (own, next) = (mac(MACS[2]), mac(MACS[3]));
        format!(
            "{{ routes = [{{ prefix = \"{}/32\", port = \"out\", next_hop = \"{next}\" }}], \
             interfaces = {{ out = {{ mac = \"{own}\" }} }} }}",
            ADDRESSES[1]
        )
    }

    /// The rate at which times are measured.
    fn offered(&self, runner: &Runner) -> anyhow::Result<f64> {
        let part = f64::from(self.offered_percent) / 100.0;
        if let Some(rate) = self.shared.sustained.borrow().get(&self.offered_to) {
            return Ok(part * rate);
        }
        let baseline = Self { length: self.offered_to, ..Self::baseline(&self.shared) };
        let session = baseline.launch(runner, "reference (made by headgate bench)")?;
        let seen = baseline.send(runner, None)?;
        session.stop()?;
        eprintln!("headgate: {} with one packet a call: {:.0} packets a second", self.offered_to, seen.came);
        self.shared.sustained.borrow_mut().insert(self.offered_to, seen.came);
        Ok(part * seen.came)
    }

    fn launch(&self, runner: &Runner, name: &str) -> anyhow::Result<Session> {
        let text = self.to_toml(&runner.cores);
        Ok(self.hosts(&runner.cores)?.middle.run(|| runner.launcher.start(name, &text))??)
    }

    fn send(&self, runner: &Runner, rate: Option<f64>) -> anyhow::Result<TrafficResult> {
        let core = runner.cores.first().copied().unwrap_or(0);
        let (warm_up, window) = (runner.pace.warm_up, runner.pace.window);
        traffic::run(
            self.hosts(&runner.cores)?,
            core,
            Load { frame_bytes: self.frame_bytes, rate, warm_up, window },
        )
    }
}

impl Method for Chain {
    fn check(&self) -> anyhow::Result<()> {
        if matches!(self.io, Io::Switched | Io::Kernel { wiring: "ovs" | OVS_APART, .. }) {
            let missing = openvswitch::PROGRAMS.iter().find(|name| process::find_program(name).is_none());
            return missing
                .map_or(Ok(()), |name| anyhow::bail!("there is no `{name}`: {}", openvswitch::INSTALL));
        }
        self.hosts(&[]).map(|_| ())
    }

    fn start(&self, runner: &Runner, name: &str, _: &TestBed) -> anyhow::Result<Session> {
        self.offered(runner)?;
        self.launch(runner, name)
    }

    fn measure(
        &self,
        runner: &Runner,
        session: &Session,
        _: &TestBed,
    ) -> anyhow::Result<(Vec<Value>, Option<Curve>)> {
        let most = self.send(runner, None)?;
        let before = ChainSample::at(session.snapshot()?);
        let seen = self.send(runner, Some(self.offered(runner)?))?;
        let after = ChainSample::at(session.snapshot()?);
        let mut values = vec![Value::new("", "Mpps", most.came)];
        values.push(Value::new("came", "Mpps", seen.came));
        let times = [("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p99", 0.99)];
        let of =
            |(name, part): (&'static str, f64)| Some(Value::new(name, "us", seen.quantile(part)? / 1000.0));
        values.extend(times.into_iter().filter_map(of));
        if let (Some(low), Some(high)) = (seen.quantile(0.25), seen.quantile(0.75)) {
            values.push(Value::new("spread", "us", (high - low) / 1000.0));
        }
        values.extend(before.until(&after));
        Ok((values, None))
    }
}

/// Counts of the kernel and the NFs at one moment.
struct ChainSample {
    at_ns: u64,
    ran_ns: u64,
    waited_ns: u64,
    nfs: usize,
    calls: u64,
    packets: u64,
}

impl ChainSample {
    fn at(snapshot: Snapshot) -> Self {
        let pid = |nf: &NfStatus| Pid::from_raw(nf.pid? as i32);
        let seen = snapshot.nfs.iter().filter_map(pid).filter_map(|pid| process::observe(pid).ok());
        let (ran_ns, waited_ns) =
            seen.fold((0, 0), |(ran, waited), seen| (ran + seen.on_core_ns, waited + seen.waiting_ns));
        let io = || snapshot.nfs.iter().filter_map(|nf| nf.io.as_ref());
        Self {
            at_ns: snapshot.at_ns,
            ran_ns,
            waited_ns,
            nfs: snapshot.nfs.len(),
            calls: io().map(headgate_api::status::IoStatus::calls).sum(),
            packets: io()
                .map(|io| io.interfaces.iter().map(|interface| interface.received).sum::<u64>())
                .sum(),
        }
    }

    /// Tables 5 and 8: time in which NFs slept, and in which they wanted to run and did not, to that in which
    /// they ran; and system calls for a packet at one NF.
    fn until(&self, after: &Self) -> Vec<Value> {
        let ran = (after.ran_ns - self.ran_ns) as f64;
        let waited = (after.waited_ns - self.waited_ns) as f64;
        if ran == 0.0 {
            return Vec::new();
        }
        let all = (after.at_ns - self.at_ns) as f64 * self.nfs as f64;
        let mut values = vec![
            Value::new("wait", "", (all - ran - waited).max(0.0) / ran),
            Value::new("contention", "", waited / ran),
        ];
        let packets = after.packets - self.packets;
        if packets > 0 {
            values.push(Value::new("calls", "", (after.calls - self.calls) as f64 / packets as f64));
        }
        values
    }
}
