//! Observes a running manager and its NFs over an interval, counting only.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use headgate_api::status::{NfState, NfStatus, Snapshot};
use headgate_api::{self as api, Request};
use headgate_decide::profile::{Calls, CoreLoad, Counts, DataAccesses};
use headgate_host::perf::counters::{Kind, Reading, Watch};
use headgate_host::perf::tally::{self, Tally};
use headgate_host::{Pid, accounting, cores};

use crate::error::{CommandError, Exit};

/// Time between two samples at the queues. Our choice: a hundred samples in the shortest profile, and a
/// snapshot takes the manager's control thread some 100 us.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

/// Observation of chains for a time.
pub struct Observation {
    /// Duration.
    pub elapsed: Duration,
    /// The manager at the end.
    pub after: Snapshot,
    /// Packets that left each chain in the meantime, by its name.
    pub left: BTreeMap<String, u64>,
    /// Packets dropped on each chain in the meantime.
    pub dropped: BTreeMap<String, u64>,
    /// CPU time of each chain's Open vSwitch in the meantime, in nanoseconds.
    pub switch_ns: BTreeMap<String, u64>,
    /// The NFs, as the manager lists them.
    pub nfs: Vec<NfObservation>,
    /// Cores that NFs may use: no worker's.
    pub cores: Vec<CoreLoad>,
    /// Notes on events that were not counted, with the reason, and on disturbances, in sentences.
    pub notes: Vec<String>,
}

/// An NF, its instances together.
pub struct NfObservation {
    /// Its name.
    pub name: String,
    /// Program that it runs.
    pub runs: String,
    /// The core of its first instance.
    pub core: u32,
    /// The kernel's policy it is under.
    pub policy: String,
    /// Its processes.
    pub pids: Vec<Pid>,
    /// Counts of events.
    pub counts: Counts,
    /// The kernel's account.
    pub tally: Tally,
    /// Whether hardware counters hold the kernel's part too.
    pub with_kernel: bool,
    /// Time that it works on a packet, in nanoseconds.
    pub work_ns: Option<f64>,
    /// System calls, if it works on interfaces.
    pub calls: Option<Calls>,
    /// Packets that were at it on average: in its ring, in its hands, and waiting for its ring.
    pub held: f64,
}

impl NfObservation {
    /// Returns how long a packet was at it, by Little's law: packets there over packets a second. Nobody
    /// knows how many wait in the sockets of one on interfaces.
    pub fn stay_ns(&self) -> Option<f64> {
        let per_ns = self.counts.packets as f64 / self.counts.elapsed_ns.max(1) as f64;
        (self.counts.packets > 0 && self.calls.is_none()).then(|| self.held / per_ns)
    }
}

/// A process that is watched.
struct Watched {
    instance: String,
    pid: Pid,
    before: Tally,
    watch: Watch,
}

/// The manager's state now.
pub fn snapshot(name: &str) -> Result<Snapshot, CommandError> {
    Ok(api::call(name, &Request::Snapshot { audit: false })?)
}

/// Observes the NFs whose names `wanted` accepts, for the given time.
pub fn observe(
    name: &str,
    time: Duration,
    wanted: impl Fn(&str) -> bool,
) -> Result<Observation, CommandError> {
    let first = snapshot(name)?;
    let instances = first.nfs.iter().filter(|nf| wanted(&nf.nf));
    let mut watched: Vec<Watched> = instances.filter_map(watch).collect();
    if watched.is_empty() {
        return Err(CommandError::new(
            Exit::Failed,
            "none of the NFs to be profiled is running; `headgate status` says why",
        ));
    }
    let cores_before = busy_cores();
    let began = Instant::now();
    let before = snapshot(name)?;
    let (mut held, mut samples) = (BTreeMap::<String, u64>::new(), 0u64);
    while began.elapsed() < time {
        thread::sleep(SAMPLE_EVERY.min(time.saturating_sub(began.elapsed())));
        for nf in snapshot(name)?.nfs {
            *held.entry(nf.nf).or_default() += nf.held + nf.pending;
        }
        samples += 1;
    }
    let after = snapshot(name)?;
    let elapsed = Duration::from_nanos(after.at_ns.saturating_sub(before.at_ns));
    let mut notes = Vec::new();
    let mut nfs: Vec<NfObservation> = Vec::new();
    for one in &mut watched {
        let Some((status, seen)) = one.finish(&before, &after, elapsed, &mut notes) else { continue };
        match nfs.iter_mut().find(|nf| nf.name == status.nf) {
            Some(nf) => nf.join(seen),
            None => nfs.push(seen),
        }
    }
    for nf in &mut nfs {
        nf.held = held.get(&nf.name).copied().unwrap_or(0) as f64 / samples.max(1) as f64;
    }
    // In the order of the first chain that visits them.
    let place = |nf: &NfObservation| {
        let stages = after.chains.iter().flat_map(|chain| &chain.stages);
        stages.enumerate().find(|(_, stage)| **stage == nf.name).map_or(usize::MAX, |(at, _)| at)
    };
    nfs.sort_by_key(place);
    let workers: Vec<u32> = after.workers.iter().map(|worker| worker.core).collect();
    Ok(Observation {
        elapsed,
        left: difference(&before, &after, |chain| chain.left),
        dropped: difference(&before, &after, |chain| chain.dropped),
        switch_ns: difference(&before, &after, |chain| chain.switch.as_ref().map_or(0, |one| one.cpu_ns)),
        nfs,
        cores: free_cores(&cores_before, &workers),
        notes,
        after,
    })
}

fn watch(nf: &NfStatus) -> Option<Watched> {
    let pid = Pid::from_raw(i32::try_from(nf.pid?).ok()?)?;
    // One that ends at this moment is as one that was not there.
    let before = (nf.state == NfState::Running).then(|| tally::of(pid).ok())??;
    Some(Watched { instance: nf.instance.clone(), pid, before, watch: Watch::start(pid) })
}

impl Watched {
    fn finish<'a>(
        &mut self,
        before: &Snapshot,
        after: &'a Snapshot,
        elapsed: Duration,
        notes: &mut Vec<String>,
    ) -> Option<(&'a NfStatus, NfObservation)> {
        let of = |snapshot: &'a Snapshot| snapshot.nfs.iter().find(|nf| nf.instance == self.instance);
        let status = of(after)?;
        let then = before.nfs.iter().find(|nf| nf.instance == self.instance)?;
        let same = status.pid == Some(self.pid.as_raw_pid() as u32);
        let Some(tally) = tally::of(self.pid).ok().filter(|_| same) else {
            notes.push(format!("{} ended while it was watched, and is left out", self.instance));
            return None;
        };
        for uncounted in self.watch.errors() {
            let uncounted = uncounted.to_string();
            if !notes.contains(&uncounted) {
                notes.push(uncounted);
            }
        }
        let reading = self.watch.read();
        if reading.counted_part < 0.9 {
            notes.push(format!(
                "{}: there are more hardware events than counters; each was counted for {:.0} % of the time and scaled",
                self.instance,
                reading.counted_part * 100.0
            ));
        }
        let tally = tally.since(&self.before);
        let mut counts = counts_of(&tally, &reading, status.returned.saturating_sub(then.returned), elapsed);
        let made = status.io.as_ref().zip(then.io.as_ref());
        let made = made.map(|(now, then)| (now.batch, now.calls().saturating_sub(then.calls())));
        // Those it makes for packets it counts itself, where nobody counts all.
        counts.calls = counts.calls.or(made.map(|(_, calls)| calls));
        let packets = counts.packets.max(1) as f64;
        let seen = NfObservation {
            name: status.nf.clone(),
            runs: status.runs.clone(),
            core: status.core,
            policy: status.policy.clone(),
            pids: vec![self.pid],
            counts,
            tally,
            with_kernel: self.watch.with_kernel(),
            work_ns: status.service_time_ns_p50.map(|ns| ns as f64).or(status.service_time_ns_mean),
            calls: made.map(|(batch, calls)| Calls { batch, for_each: calls as f64 / packets }),
            held: 0.0,
        };
        Some((status, seen))
    }
}

impl NfObservation {
    fn join(&mut self, other: Self) {
        self.counts = self.counts.and(other.counts);
        self.pids.extend(other.pids);
        self.with_kernel &= other.with_kernel;
        self.work_ns = self.work_ns.zip(other.work_ns).map(|(one, two)| f64::midpoint(one, two));
        self.tally.threads += other.tally.threads;
        self.tally.minor_faults += other.tally.minor_faults;
        self.tally.major_faults += other.tally.major_faults;
        self.tally.migrations = self.tally.migrations.zip(other.tally.migrations).map(|(a, b)| a + b);
        self.tally.voluntary_switches += other.tally.voluntary_switches;
        self.tally.involuntary_switches += other.tally.involuntary_switches;
    }
}

fn counts_of(tally: &Tally, reading: &Reading, packets: u64, elapsed: Duration) -> Counts {
    let accesses = reading.both(Kind::Loads, Kind::Stores);
    let l1_misses = reading.at(Kind::L1Misses);
    let last = reading.both(Kind::LastLoads, Kind::LastStores);
    let last_misses = reading.both(Kind::LastLoadMisses, Kind::LastStoreMisses);
    let data = || Some(DataAccesses::of_misses(accesses?, l1_misses?, last?, last_misses?));
    Counts {
        packets,
        elapsed_ns: elapsed.as_nanos() as u64,
        run_ns: tally.run_ns,
        ready_ns: tally.ready_ns,
        switches: Some(tally.switches()),
        calls: reading.at(Kind::Calls),
        data: data(),
        // No generic event counts what the second TLB knew.
        translations_l2: None,
        walks: reading.both(Kind::LoadWalks, Kind::StoreWalks),
    }
}

fn difference(
    before: &Snapshot,
    after: &Snapshot,
    of: impl Fn(&headgate_api::status::ChainStatus) -> u64,
) -> BTreeMap<String, u64> {
    let then = |name: &str| before.chains.iter().find(|chain| chain.name == name).map_or(0, &of);
    after
        .chains
        .iter()
        .map(|chain| (chain.name.clone(), of(chain).saturating_sub(then(&chain.name))))
        .collect()
}

fn busy_cores() -> Vec<(u32, accounting::MachineTime)> {
    let allowed = cores::allowed().map(|list| list.as_slice().to_vec()).unwrap_or_default();
    allowed.into_iter().filter_map(|core| Some((core, accounting::core(core).ok()?))).collect()
}

fn free_cores(before: &[(u32, accounting::MachineTime)], workers: &[u32]) -> Vec<CoreLoad> {
    let free = before.iter().filter(|(core, _)| !workers.contains(core));
    free.filter_map(|&(number, then)| {
        let now = accounting::core(number).ok()?;
        let (busy, idle) = (
            now.busy.saturating_sub(then.busy).as_secs_f64(),
            now.idle.saturating_sub(then.idle).as_secs_f64(),
        );
        (busy + idle > 0.0).then(|| CoreLoad { number, busy: busy / (busy + idle) })
    })
    .collect()
}
