//! Measurement of a case: what the manager and the kernel counted in a window, as named values.
//!
//! The value without a name of its own is the case's throughput; the others are named behind the case:
//! `normal.os` and `normal.os.wasted`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headgate_api::status::{ChainStatus, NfStatus, Snapshot};
use headgate_host::accounting::{self, Switches};

use crate::statistics::Name;
use headgate_api::session::{Session, SessionError};

/// The thread of the manager that observes and decides.
const CONTROL_THREAD: &str = "hg-control";
/// The reason of packets that found a ring full.
const STAGE_FULL: &str = "stage-full";

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Behind the name of the case; empty for its throughput.
    pub name: Name,
    /// Unit in which it is shown; see [`crate::report::Row::unit`].
    pub unit: &'static str,
    /// The value.
    pub value: f64,
}

impl Value {
    /// A value.
    pub fn new(name: impl Into<Name>, unit: &'static str, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}

/// A reading besides throughput and wasted work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Packets per second that left each chain.
    Chains,
    /// For each NF: packets per second it worked on, its part of a core in percent, and packets per second
    /// that it had worked on and the next NF's ring had no room for (where NFs follow each other).
    Nfs,
    /// Context switches per second of each NF, and the time for which it waits for its core before it runs
    /// again, the mean of all switches.
    Switches,
    /// Cycles for each packet of the first NF, the median of its own samples.
    Cost,
    /// Jain's index of the chains' throughputs.
    Jain,
    /// Time from generator to null port, since the manager started.
    Latency,
    /// For the first core with time slices: switches and samples a second, the part of its time during which
    /// an NF had real-time priority, in percent, and what a switch takes there, as measured at start.
    Slices,
    /// Delay of the first chain's packets, and its 99th percentile by the chain's bound.
    Delay,
    /// CPU time of the control thread, as a part of a core.
    Control,
    /// Ratio of the packets that left this chain to those that the CPU time of this NF of it allows at its
    /// cost in cycles.
    Bottleneck {
        /// The chain's number.
        chain: usize,
        /// The NF's number.
        nf: usize,
        /// Cycles a packet.
        cycles: u32,
    },
}

/// State of a bed at one moment.
pub struct BedSample {
    at: Instant,
    snapshot: Snapshot,
    control: Option<Duration>,
    switches: BTreeMap<String, Switches>,
}

impl BedSample {
    /// Takes the sample that opens a window: what asking costs the manager is over when the time begins.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn before(session: &Session) -> Result<Self, SessionError> {
        let snapshot = session.snapshot()?;
        let switches = switches(&snapshot);
        Ok(Self { at: Instant::now(), control: control_time(session), switches, snapshot })
    }

    /// Takes the sample that closes it: the time ends before anything is asked.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn after(session: &Session) -> Result<Self, SessionError> {
        let (at, control) = (Instant::now(), control_time(session));
        let snapshot = session.snapshot()?;
        Ok(Self { at, control, switches: switches(&snapshot), snapshot })
    }
}

impl BedSample {
    /// Returns what the machine does not allow of the case's scheduler.
    pub fn limitations(&self) -> &[String] {
        &self.snapshot.scheduler.limitations
    }
}

fn control_time(session: &Session) -> Option<Duration> {
    accounting::thread(session.pid(), CONTROL_THREAD)
}

fn switches(snapshot: &Snapshot) -> BTreeMap<String, Switches> {
    let of = |nf: &NfStatus| Some((nf.instance.clone(), accounting::switches(nf.pid?)?));
    snapshot.nfs.iter().filter_map(of).collect()
}

/// Interval between two samples.
pub struct Window {
    /// The first.
    pub before: BedSample,
    /// The second.
    pub after: BedSample,
    /// Cycles of the TSC in a second.
    pub cycles_per_second: f64,
}

impl Window {
    /// Throughput, wasted work, and what is asked for.
    #[must_use]
    pub fn values(&self, reads: &[Reading]) -> Vec<Value> {
        let left = self.chains(|chain| chain.left);
        let wasted: f64 = self.chains(|chain| chain.wasted).iter().sum();
        let delivered: f64 = left.iter().sum();
        let dropped = [&self.before, &self.after].map(|sample| dropped(&sample.snapshot));
        let mut all = vec![
            Value::new("", "Mpps", delivered),
            Value::new("dropped", "Mpps", self.rate(dropped[0], dropped[1])),
            Value::new("wasted", "Mpps", wasted),
        ];
        if delivered > 0.0 {
            all.push(Value::new("wasted_over_delivered", "", wasted / delivered));
        }
        for read in reads {
            self.read(*read, &left, &mut all);
        }
        all
    }

    fn read(&self, read: Reading, left: &[f64], all: &mut Vec<Value>) {
        match read {
            Reading::Chains => {
                let of = |(at, rate): (usize, &f64)| Value::new(format!("chain{}", at + 1), "Mpps", *rate);
                all.extend(left.iter().enumerate().map(of));
            }
            Reading::Nfs => self.read_nfs(all),
            Reading::Switches => self.read_switches(all),
            Reading::Jain => all.extend(jain(left).map(|index| Value::new("jain", "", index))),
            Reading::Latency => {
                let ports = &self.after.snapshot.ports;
                if let Some(latency) = ports.iter().find_map(|port| port.latency.as_ref()) {
                    all.push(Value::new("p50", "us", latency.p50_ns as f64 / 1e3));
                    all.push(Value::new("p99", "us", latency.p99_ns as f64 / 1e3));
                }
            }
            Reading::Slices => self.read_slices(all),
            Reading::Cost => {
                let p50 = self.after.snapshot.nfs.first().and_then(|nf| nf.service_time_ns_p50);
                let cycles = p50.map(|ns| ns as f64 * self.cycles_per_second / 1e9);
                all.extend(cycles.map(|cycles| Value::new("cycles", "cycles", cycles)));
            }
            Reading::Delay => {
                let chain = self.after.snapshot.chains.get(1);
                let Some((chain, delay)) = chain.and_then(|chain| Some((chain, chain.delay?))) else {
                    return;
                };
                all.push(Value::new("p50", "us", delay.p50_ns as f64 / 1e3));
                all.push(Value::new("p99", "us", delay.p99_ns as f64 / 1e3));
                if let Some(bound) = chain.delay_bound_ns {
                    all.push(Value::new("p99_over_bound", "", delay.p99_ns as f64 / bound as f64));
                }
            }
            Reading::Control => {
                if let (Some(before), Some(after)) = (self.before.control, self.after.control) {
                    let part = after.saturating_sub(before).as_secs_f64() / self.seconds();
                    all.push(Value::new("control_cpu", "cores", part));
                }
            }
            Reading::Bottleneck { chain, nf, cycles } => {
                let cpu = self.nf(nf, |nf| nf.cpu_ns).unwrap_or(0.0) / 1e9;
                let most = cpu * self.cycles_per_second / f64::from(cycles);
                if most > 0.0 {
                    all.push(Value::new(
                        format!("chain{}_over_bottleneck", chain + 1),
                        "",
                        left[chain] / most,
                    ));
                }
            }
        }
    }

    fn read_slices(&self, all: &mut Vec<Value>) {
        let cores = |sample: &BedSample| sample.snapshot.scheduler.cores.first().cloned();
        let (Some(before), Some(after)) = (cores(&self.before), cores(&self.after)) else { return };
        all.push(Value::new("switches", "1/s", self.rate(before.switches, after.switches)));
        all.push(Value::new("samples", "1/s", self.rate(before.samples, after.samples)));
        all.push(Value::new("core", "%", self.rate(before.real_time_ns, after.real_time_ns) / 1e7));
        all.extend(after.switch_ns.map(|ns| Value::new("switch", "us", ns as f64 / 1e3)));
    }

    fn read_nfs(&self, all: &mut Vec<Value>) {
        let count = self.after.snapshot.nfs.len();
        let full = |nf: &NfStatus| nf.drops.get(STAGE_FULL).copied().unwrap_or(0);
        for number in 0..count {
            let name = &self.after.snapshot.nfs[number].nf;
            if let Some(rate) = self.nf(number, |nf| nf.returned) {
                all.push(Value::new(format!("{name}.served"), "Mpps", rate));
            }
            if let Some(ns) = self.nf(number, |nf| nf.cpu_ns) {
                all.push(Value::new(format!("{name}.cpu"), "%", ns / 1e7));
            }
            // Only in a chain does the next NF drop what this one has worked on.
            if let Some(lost) = self.nf(number + 1, full).filter(|_| self.is_one_chain()) {
                all.push(Value::new(format!("{name}.wasted"), "Mpps", lost));
            }
        }
    }

    fn read_switches(&self, all: &mut Vec<Value>) {
        for (name, after) in &self.after.switches {
            let Some(before) = self.before.switches.get(name) else { continue };
            let rate =
                |of: fn(&Switches) -> u64| of(after).saturating_sub(of(before)) as f64 / self.seconds();
            all.push(Value::new(format!("{name}.voluntary"), "1/s", rate(|switches| switches.voluntary)));
            all.push(Value::new(format!("{name}.involuntary"), "1/s", rate(|switches| switches.involuntary)));
            let all_of = |switches: &Switches| switches.voluntary + switches.involuntary;
            let runs = all_of(after).saturating_sub(all_of(before));
            if let Some(waited) = self.core_wait_ns(name).filter(|_| runs > 0) {
                all.push(Value::new(format!("{name}.delay"), "us", waited as f64 / runs as f64 / 1e3));
            }
        }
    }

    /// Time for which an instance was ready to run and did not.
    fn core_wait_ns(&self, instance: &str) -> Option<u64> {
        let of = |sample: &BedSample| {
            let nf = sample.snapshot.nfs.iter().find(|nf| nf.instance == instance);
            nf.and_then(|nf| nf.core_wait_ns)
        };
        Some(of(&self.after)?.saturating_sub(of(&self.before)?))
    }

    /// The first chain is that of packets without one.
    fn is_one_chain(&self) -> bool {
        self.after.snapshot.chains.len() == 2
    }

    fn seconds(&self) -> f64 {
        self.after.at.duration_since(self.before.at).as_secs_f64().max(1e-9)
    }

    /// Returns for each chain, in their order and without that of packets no rule claims, how much a count
    /// grew in a second.
    fn chains(&self, count: impl Fn(&ChainStatus) -> u64) -> Vec<f64> {
        let pairs = self.before.snapshot.chains.iter().zip(&self.after.snapshot.chains).skip(1);
        pairs.map(|(before, after)| self.rate(count(before), count(after))).collect()
    }

    /// Returns how much a count of an NF grew in a second.
    fn nf(&self, number: usize, count: impl Fn(&NfStatus) -> u64) -> Option<f64> {
        let (before, after) = (self.before.snapshot.nfs.get(number)?, self.after.snapshot.nfs.get(number)?);
        Some(self.rate(count(before), count(after)))
    }

    fn rate(&self, before: u64, after: u64) -> f64 {
        let ns = self.after.snapshot.at_ns.saturating_sub(self.before.snapshot.at_ns).max(1);
        after.saturating_sub(before) as f64 * 1e9 / ns as f64
    }
}

/// Packets that did not leave a chain, for whatever reason: shed at its head, most of them, where more is
/// offered than there is time for.
fn dropped(snapshot: &Snapshot) -> u64 {
    snapshot.drops.iter().map(|drop| drop.count).sum()
}

/// (Σx)² / (n Σx²): 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe, 1984). `None` of
/// nothing.
#[must_use]
pub fn jain(values: &[f64]) -> Option<f64> {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests;
