//! The report of a run: what `headgate bench` reports of a real one.

use headgate_decide::units::{Rate, Span};
use serde::Serialize;

use crate::checker::Violation;
use crate::plant::Plant;
use crate::scene::Scene;
use crate::worker::Worker;

/// What was counted of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Time for which was counted, in milliseconds.
    pub horizon_ms: u64,
    /// Packets per second that left.
    pub throughput: Rate,
    /// Packets per second that ended after an NF had worked on them.
    pub wasted: Rate,
    /// Jain's index of the chains' throughputs.
    pub jain: f64,
    /// By chain.
    pub chains: Vec<ChainReport>,
    /// By NF.
    pub nfs: Vec<NfReport>,
    /// By core of NFs.
    pub cores: Vec<CoreReport>,
    /// Part of its time that each worker worked, in percent.
    pub workers_busy_percent: Vec<f64>,
    /// What happened to instances, from the start on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<LifeEvent>,
    /// One number that two runs share only if they were equal.
    pub digest: String,
    /// What did not hold that must.
    pub violations: Vec<Violation>,
}

/// Something that happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LifeEvent {
    /// Time since the start, in nanoseconds.
    pub at_ns: u64,
    /// The instance, as NFs are counted in this report.
    pub instance: u16,
    /// In words.
    pub what: String,
}

/// What was counted of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainReport {
    /// Its name.
    pub name: String,
    /// Packets per second that came, those that no worker took among them.
    pub offered: Rate,
    /// Packets per second that left.
    pub left: Rate,
    /// Packets per second that were shed at the head.
    pub throttled: Rate,
    /// Packets per second that were kept out for its delay bound.
    pub delay_bound: Rate,
    /// Packets per second for which an NF's ring had no room.
    pub stage_full: Rate,
    /// Packets per second for which the ring to another worker had no room.
    pub worker_full: Rate,
    /// Packets per second that ended with an NF's process, and that came to an NF without one.
    pub died: Rate,
    /// The latter.
    pub stage_down: Rate,
    /// Packets per second that its ports lost because the worker was late.
    pub missed: Rate,
    /// Packets per second that ended after an NF had worked on them.
    pub wasted: Rate,
    /// Half of the packets that left took no longer, in microseconds.
    pub delay_us_p50: Option<f64>,
    /// 99 of 100 took no longer.
    pub delay_us_p99: Option<f64>,
    /// Delays in microseconds, each with the percent of packets that took no longer, to be drawn.
    #[serde(skip)]
    pub delays_us: Vec<(f64, f64)>,
}

/// What was counted of an NF.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NfReport {
    /// Its name, with the instance's number where it has several.
    pub name: String,
    /// Its core.
    pub core: u16,
    /// Part of its core that it had, in percent.
    pub cpu_percent: f64,
    /// Packets per second that it returned.
    pub served: Rate,
    /// Packets per second that it returned and that ended at the next NF.
    pub wasted: Rate,
    /// Wake-up calls per second.
    pub calls: Rate,
    /// Times per second that it gave up its core, and that the core was taken from it.
    pub voluntary: Rate,
    /// The latter.
    pub involuntary: Rate,
    /// Time for which it was ready and waited for its core before it ran, the mean of all times that it
    /// gave the core up or lost it, in microseconds.
    pub wait_us: Option<f64>,
    /// Times per second that it was throttled.
    pub throttles: Rate,
}

/// What was counted of a core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreReport {
    /// Part of its time that no NF had it, in percent.
    pub idle_percent: f64,
    /// Part of its time that switches took, in percent.
    pub switching_percent: f64,
    /// Switches per second.
    pub switches: Rate,
}

/// A figure of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    /// Name: the case, and what of it.
    pub name: String,
    /// Unit; nothing for a ratio.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

/// Everything that is counted, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    chains: Vec<[u64; 9]>,
    /// By flow: packets that came, and that were missed.
    flows: Vec<[u64; 2]>,
    nfs: Vec<[u64; 8]>,
    cores: Vec<[u64; 3]>,
    workers: Vec<u64>,
}

impl Counts {
    pub(crate) fn of(plant: &Plant, workers: &[Worker]) -> Self {
        let chain = |chain: &crate::plant::Chain| {
            [
                chain.entered,
                chain.left,
                chain.throttled,
                chain.full,
                chain.wasted,
                chain.worker_full,
                chain.died,
                chain.down,
                chain.late,
            ]
        };
        let flows_of_scene = plant.flows.iter().map(|flow| flow.of + 1).max().unwrap_or(0);
        let mut flows = vec![[0; 2]; flows_of_scene];
        for port in workers.iter().flat_map(Worker::ports) {
            let [came, missed] = &mut flows[plant.flows[port.flow()].of];
            (*came, *missed) = (*came + port.came, *missed + port.missed);
        }
        let core =
            |core: &crate::core::Core| [core.counts.idle_ns, core.counts.switch_ns, core.counts.switches];
        Self {
            chains: plant.chains.iter().map(chain).collect(),
            flows,
            nfs: plant.nfs.iter().zip(&plant.links).map(|(nf, link)| of_nf(plant, nf, link)).collect(),
            cores: plant.cores.iter().map(core).collect(),
            workers: workers.iter().map(|worker| worker.busy_ns).collect(),
        }
    }
}

/// The counts of an NF.
fn of_nf(plant: &Plant, nf: &crate::nf::Nf, link: &crate::link::Link) -> [u64; 8] {
    let task = &plant.cores[link.seat.core].tasks[link.seat.task];
    let of_link = &link.counts;
    [
        task.cpu_ns,
        nf.counts.returned,
        of_link.wasted,
        of_link.calls,
        task.voluntary,
        task.involuntary,
        of_link.throttles,
        task.waited_ns,
    ]
}

/// The difference of two lists of counts.
fn more<const N: usize>(after: [u64; N], before: [u64; N]) -> [u64; N] {
    std::array::from_fn(|at| after[at] - before[at])
}

/// (Σx)² / (n Σx²): 1 when all are equal, 1/n when one has everything (Jain, Chiu, Hawe, 1984).
fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

impl Report {
    pub(crate) fn new(
        scene: &Scene,
        length: Span,
        plant: &Plant,
        before: &Counts,
        after: &Counts,
        violations: Vec<Violation>,
    ) -> Self {
        let span = Window { scene, length, before, after };
        let chains: Vec<ChainReport> =
            (0..plant.chains.len()).map(|number| span.chain(number, plant)).collect();
        let left: Vec<f64> = chains.iter().map(|chain| chain.left.per_second()).collect();
        let sum =
            |of: fn(&ChainReport) -> Rate| Rate(chains.iter().map(|chain| of(chain).per_second()).sum());
        Self {
            horizon_ms: length.as_millis(),
            throughput: sum(|chain| chain.left),
            wasted: sum(|chain| chain.wasted),
            jain: jain(&left),
            nfs: (0..plant.nfs.len()).map(|number| span.nf(number, plant)).collect(),
            cores: (0..plant.cores.len()).map(|number| span.core(number)).collect(),
            workers_busy_percent: (0..after.workers.len()).map(|number| span.worker(number)).collect(),
            lives: Vec::new(),
            digest: format!("{:016x}", plant.digest()),
            violations,
            chains,
        }
    }
}

/// Returns the name of an instance: that of its NF, with a number where this has several.
fn name_of(instance: usize, scene: &Scene, plant: &Plant) -> String {
    let nf = plant.of[instance];
    let name = scene.nfs[nf].name.clone();
    match plant.stages[nf].instances.as_slice() {
        [_] => name,
        all => format!("{name}.{}", all.iter().take_while(|one| **one != instance).count()),
    }
}

/// The time between two moments of a run.
struct Window<'a> {
    scene: &'a Scene,
    length: Span,
    before: &'a Counts,
    after: &'a Counts,
}

impl Window<'_> {
    fn rate(&self, count: u64) -> Rate {
        Rate::over(count, self.length)
    }

    fn percent(&self, ns: u64) -> f64 {
        100.0 * ns as f64 / self.length.0 as f64
    }

    fn chain(&self, number: usize, plant: &Plant) -> ChainReport {
        let [_, left, throttled, full, wasted, worker_full, died, down, late] =
            more(self.after.chains[number], self.before.chains[number]);
        let (mut offered, mut missed) = (0, 0);
        for (flow, _) in
            self.scene.flows.iter().enumerate().filter(|(_, flow)| usize::from(flow.chain) == number)
        {
            let [came, lost] = more(self.after.flows[flow], self.before.flows[flow]);
            (offered, missed) = (offered + came, missed + lost);
        }
        let delay = |percent| plant.chains[number].delays.percentile(percent).map(|ns| ns as f64 / 1e3);
        ChainReport {
            name: self.scene.chains[number].name.clone(),
            offered: self.rate(offered),
            left: self.rate(left),
            throttled: self.rate(throttled),
            delay_bound: self.rate(late),
            stage_full: self.rate(full),
            worker_full: self.rate(worker_full),
            died: self.rate(died),
            stage_down: self.rate(down),
            missed: self.rate(missed),
            wasted: self.rate(wasted),
            delay_us_p50: delay(50),
            delay_us_p99: delay(99),
            delays_us: plant.chains[number]
                .delays
                .cumulative()
                .into_iter()
                .map(|(ns, percent)| (ns as f64 / 1e3, percent))
                .collect(),
        }
    }

    fn nf(&self, number: usize, plant: &Plant) -> NfReport {
        let [cpu, served, wasted, calls, voluntary, involuntary, throttles, waited] =
            more(self.after.nfs[number], self.before.nfs[number]);
        NfReport {
            name: name_of(number, self.scene, plant),
            core: plant.links[number].seat.core as u16,
            cpu_percent: self.percent(cpu),
            served: self.rate(served),
            wasted: self.rate(wasted),
            calls: self.rate(calls),
            voluntary: self.rate(voluntary),
            involuntary: self.rate(involuntary),
            wait_us: (voluntary + involuntary > 0)
                .then(|| waited as f64 / (voluntary + involuntary) as f64 / 1e3),
            throttles: self.rate(throttles),
        }
    }

    fn core(&self, number: usize) -> CoreReport {
        let [idle, switch, switches] = more(self.after.cores[number], self.before.cores[number]);
        CoreReport {
            idle_percent: self.percent(idle),
            switching_percent: self.percent(switch),
            switches: self.rate(switches),
        }
    }

    fn worker(&self, number: usize) -> f64 {
        self.percent(self.after.workers[number] - self.before.workers[number])
    }
}

impl Report {
    /// Returns the figures that scenarios are compared by, of a case of this name.
    #[must_use]
    pub fn values(&self, case: &str) -> Vec<Value> {
        let named = |what: &str| if what.is_empty() { case.to_owned() } else { format!("{case}.{what}") };
        let value = |what: &str, unit, value| Value { name: named(what), unit, value };
        let mut all = vec![value("", "Mpps", self.throughput.per_second() / 1e6)];
        if self.chains.len() > 1 {
            let of_chain = |chain: &ChainReport| value(&chain.name, "Mpps", chain.left.per_second() / 1e6);
            all.extend(self.chains.iter().map(of_chain));
            all.push(value("jain", "", self.jain));
        }
        for nf in &self.nfs {
            all.push(value(&format!("{}.cpu", nf.name), "%", nf.cpu_percent));
            all.push(value(&format!("{}.wasted", nf.name), "Mpps", nf.wasted.per_second() / 1e6));
        }
        let delays =
            |of: fn(&ChainReport) -> Option<f64>| self.chains.iter().filter_map(of).fold(0.0, f64::max);
        all.push(value("p50", "us", delays(|chain| chain.delay_us_p50)));
        all.push(value("p99", "us", delays(|chain| chain.delay_us_p99)));
        all.push(value("switches", "1/s", self.cores.iter().map(|core| core.switches.per_second()).sum()));
        all
    }
}
