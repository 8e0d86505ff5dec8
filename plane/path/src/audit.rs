//! Audit: proves that nothing was lost. The invariant, for each chain:
//!
//! ```text
//! entered + made = left + sum(drops by reason) + in rings and NF hands + held by workers
//! ```
//!
//! and for each region: every buffer is free in exactly one stack, in a device, or has a holder. A buffer
//! that is lent to an NF for a packet it makes has a holder and is in no chain.
//!
//! Counters say the left side, the holder table the right: two accounts kept by different code. A packet in
//! an external program lies in no buffer of ours; what is outstanding there is a third. For the comparison to
//! be exact the workers stand still meanwhile, some 100 us for 16,384 buffers; rings of thousands of
//! descriptors absorb that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headgate_units::{ChainId, WorkerId};

use crate::board::Board;
use crate::holders::{Holder, Holders};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, yield_now};
use crate::totals::ChainTotals;

/// Report of a worker that stands still.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// Free buffers, by region.
    pub free: Vec<Vec<u32>>,
    /// Number of buffers in the hands of devices, by region.
    pub in_devices: Vec<usize>,
    /// Packets outstanding at external programs, with their chains.
    pub in_programs: Vec<(ChainId, u64)>,
    /// Buffers sent to other workers, ever.
    pub returns_sent: u64,
    /// Buffers taken from other workers, ever.
    pub returns_taken: u64,
}

/// Place where workers wait while somebody counts.
pub struct Pause {
    arrived: AtomicUsize,
    released: AtomicBool,
    reports: Mutex<Vec<Option<WorkerReport>>>,
}

impl Pause {
    /// Returns a pause for this many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            arrived: AtomicUsize::new(0),
            released: AtomicBool::new(false),
            reports: Mutex::new(vec![None; workers]),
        }
    }

    /// Reports and stands still until released; called by a worker.
    ///
    /// # Panics
    /// When another worker panicked here.
    pub fn wait(&self, worker: WorkerId, report: WorkerReport) {
        self.reports.lock().expect("nobody panics here")[worker.index()] = Some(report);
        self.arrived.fetch_add(1, Ordering::Release); // A-release, with A-acquire
        // R-acquire, with R-release
        while !self.released.load(Ordering::Acquire) {
            yield_now();
        }
    }

    /// Waits for all workers; called by the thread that counts. Returns `None` when one does not come in
    /// time.
    ///
    /// # Panics
    /// When a worker panicked here.
    #[must_use]
    pub fn gather(&self, patience: Duration) -> Option<Vec<WorkerReport>> {
        let since = Instant::now();
        let workers = self.reports.lock().expect("nobody panics here").len();
        while self.arrived.load(Ordering::Acquire) < workers {
            // A-acquire, with A-release
            if since.elapsed() > patience {
                return None;
            }
            yield_now();
        }
        self.reports.lock().expect("nobody panics here").iter().cloned().collect()
    }

    /// Lets the workers go on.
    pub fn release(&self) {
        self.released.store(true, Ordering::Release); // R-release, with R-acquire
    }
}

/// Packet account of one chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainAudit {
    /// What the workers have counted.
    pub counted: ChainTotals,
    /// Packets in rings and hands of NFs, those outstanding at external programs among them.
    pub in_nfs: u64,
    /// Packets in the hands of workers, those that wait at the station `commit` among them.
    pub held: u64,
}

impl ChainAudit {
    /// Returns the packets unaccounted for: zero, or there is a bug.
    #[must_use]
    pub const fn missing(&self) -> i64 {
        self.counted.balance() - (self.in_nfs + self.held) as i64
    }
}

/// Buffer account of one region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionAudit {
    /// All buffers.
    pub buffers: u64,
    /// Free buffers.
    pub free: u64,
    /// Buffers with a holder: an NF or a worker.
    pub held: u64,
    /// Buffers in the hands of devices.
    pub in_devices: u64,
    /// Free buffers on their way between workers (for the first region; the links carry all).
    pub in_links: u64,
    /// Buffers in two places at once: zero, or there is a bug.
    pub doubled: u64,
}

impl RegionAudit {
    /// Returns the buffers unaccounted for: zero, or there is a bug.
    #[must_use]
    pub const fn missing(&self) -> i64 {
        self.buffers as i64 - (self.free + self.held + self.in_devices + self.in_links) as i64
    }
}

/// Result of an audit.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Accounts of the chains that ever saw a packet, by number.
    pub chains: BTreeMap<ChainId, ChainAudit>,
    /// Accounts of the regions, by number.
    pub regions: Vec<RegionAudit>,
}

impl Audit {
    /// Returns whether both identities hold everywhere.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.chains.values().all(|chain| chain.missing() == 0)
            && self.regions.iter().map(RegionAudit::missing).sum::<i64>() == 0
            && self.regions.iter().all(|region| region.doubled == 0)
    }
}

/// Compares the two accounts. The workers must stand still.
#[must_use]
pub fn audit(boards: &[&Board], regions: &[&Holders], reports: &[WorkerReport]) -> Audit {
    let mut result = Audit::default();
    let chains = boards.iter().map(|board| board.chains.len()).max().unwrap_or(0);
    for chain in (0..chains).map(|number| ChainId(number as u16)) {
        let counted = ChainTotals::of(boards.iter().copied(), chain);
        if counted != ChainTotals::default() {
            result.chains.insert(chain, ChainAudit { counted, ..ChainAudit::default() });
        }
    }
    for (number, holders) in regions.iter().enumerate() {
        result.regions.push(audit_region(number, holders, reports, &mut result.chains));
    }
    for &(chain, packets) in reports.iter().flat_map(|report| &report.in_programs) {
        result.chains.entry(chain).or_default().in_nfs += packets;
    }
    let sent: u64 = reports.iter().map(|report| report.returns_sent).sum();
    let taken: u64 = reports.iter().map(|report| report.returns_taken).sum();
    if let Some(first) = result.regions.first_mut() {
        first.in_links = sent - taken;
    }
    result
}

fn audit_region(
    number: usize,
    holders: &Holders,
    reports: &[WorkerReport],
    chains: &mut BTreeMap<ChainId, ChainAudit>,
) -> RegionAudit {
    let mut region = RegionAudit { buffers: u64::from(holders.buffers()), ..RegionAudit::default() };
    let mut seen = vec![false; holders.indices() as usize];
    for report in reports {
        region.in_devices += report.in_devices[number] as u64;
        for &index in &report.free[number] {
            region.free += 1;
            region.doubled += u64::from(std::mem::replace(&mut seen[index as usize], true));
        }
    }
    for index in 0..holders.indices() {
        let place = holders.place(index);
        if place.holder() == Holder::FREE {
            continue;
        }
        region.held += 1;
        region.doubled += u64::from(seen[index as usize]);
        if place.is_lent() {
            continue;
        }
        let chain = chains.entry(place.chain()).or_default();
        if place.holder().is_instance() {
            chain.in_nfs += 1;
        } else {
            chain.held += 1;
        }
    }
    region
}
