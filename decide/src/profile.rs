//! Profiles: where the time of a packet goes, and what to change first.
//!
//! The problem: a chain is slow, and what people monitor (CPU, packets per second) does not say why.
//!
//! The intuition: the SCC paper answers with arithmetic: count events over an interval, divide by the packets
//! of the interval, multiply by what one event costs on this machine ([`Counts`], [`UnitCosts`],
//! [`Breakdown`]):
//!
//! `latency per packet = sum over sources of (events / packets) * cost of one event` (SCC, section 3.2.3,
//! table 3), and two ratios for what cannot be told by packet, [`Ratios`]: *wait/runtime* and
//! *contention/runtime* (section 4.2.1).
//!
//! Differences from the paper, and reasons:
//! - A source that this machine cannot count is absent, not zero: a total is then one *of what was counted*,
//!   and says so ([`Breakdown::is_whole`]).
//! - The first TLB level (the paper's L_T1) is left out: today's processors ask it while they ask the first
//!   cache, so its time lies in that of the cache.
//! - Time that an NF was ready and waited for its core is a source too ([`Source::Ready`]): the paper leaves
//!   it in the ratio, because it could not tell it by packet; the kernel counts it for every task today.
//! - The sum says what memory *would* cost if loads came one after another. Processors overlap them, so it
//!   may exceed the measured time of a packet ([`Breakdown::run_ns`]); it ranks causes and is no clock.
//!
//! The thresholds stand with what they decide: what is worth proposing ([`propose`]), and what is kept once
//! it was tried ([`is_better`]).
//!
//! Rejected: sampling stacks, which says where instructions are and not what a packet waits for.
//!
//! What it refuses to do: guess. Without packets there is no figure by packet, and without an account of the
//! kernel no ratio.
//!
//! Source: SCC, sections 3.2.3 and 4.2.1; decision 14.

mod advice;
mod estimate;
mod hierarchy;
mod tried;

pub use advice::{
    Advice, CALL_BATCH, Calls, CoreLoad, Fusable, Knob, Proposal, SLICE_US_LONG, Stage, advise, propose,
};
pub use estimate::{CostEstimate, estimate};
pub use hierarchy::{Curve, Levels, Point, levels};
pub use tried::{Effect, Kept, PAIRS, Ratio, Window, is_better};

/// A cause of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Data found in the first cache.
    DataL1,
    /// Data found in the second.
    DataL2,
    /// Data found in the third.
    DataL3,
    /// Data fetched from memory.
    DataDram,
    /// Addresses found in the second TLB.
    TranslationL2,
    /// Addresses looked up in page tables.
    TranslationWalk,
    /// The core changed hands.
    Switches,
    /// The kernel was called.
    Calls,
    /// Ready to run, and another had the core.
    Ready,
}

impl Source {
    /// All sources, in the order of the paper's table 3.
    pub const ALL: [Self; 9] = [
        Self::DataL1,
        Self::DataL2,
        Self::DataL3,
        Self::DataDram,
        Self::TranslationL2,
        Self::TranslationWalk,
        Self::Switches,
        Self::Calls,
        Self::Ready,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataL1 => "data_l1",
            Self::DataL2 => "data_l2",
            Self::DataL3 => "data_l3",
            Self::DataDram => "data_dram",
            Self::TranslationL2 => "translation_l2",
            Self::TranslationWalk => "translation_walk",
            Self::Switches => "context_switches",
            Self::Calls => "system_calls",
            Self::Ready => "scheduler_wait",
        }
    }

    /// Returns its name in words, for the operator.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::DataL1 => "data, L1",
            Self::DataL2 => "data, L2",
            Self::DataL3 => "data, L3",
            Self::DataDram => "data, DRAM",
            Self::TranslationL2 => "translation, L2 TLB",
            Self::TranslationWalk => "translation, page walk",
            Self::Switches => "context switches",
            Self::Calls => "system calls",
            Self::Ready => "scheduler wait",
        }
    }
}

/// Loads and stores by where they found their line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataAccesses {
    /// In the first cache.
    pub l1: u64,
    /// In the second.
    pub l2: u64,
    /// In the third.
    pub l3: u64,
    /// In memory.
    pub dram: u64,
}

impl DataAccesses {
    /// From what counters of caches say. They are read one after another, and speculation is counted in some
    /// and not in others, so a level may seem to miss more than it had accesses; it had as many then.
    #[must_use]
    pub const fn of_misses(accesses: u64, l1_misses: u64, l3_accesses: u64, l3_misses: u64) -> Self {
        Self {
            l1: accesses.saturating_sub(l1_misses),
            l2: l1_misses.saturating_sub(l3_accesses),
            l3: l3_accesses.saturating_sub(l3_misses),
            dram: l3_misses,
        }
    }

    const fn at(&self, source: Source) -> Option<u64> {
        match source {
            Source::DataL1 => Some(self.l1),
            Source::DataL2 => Some(self.l2),
            Source::DataL3 => Some(self.l3),
            Source::DataDram => Some(self.dram),
            _ => None,
        }
    }
}

/// Counters of an NF between two samples; absent where they could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets it returned.
    pub packets: u64,
    /// Time between the samples, in nanoseconds.
    pub elapsed_ns: u64,
    /// Time it had a core, in nanoseconds.
    pub run_ns: u64,
    /// Time it was ready and had none, in nanoseconds.
    pub ready_ns: u64,
    /// Context switches away from it, voluntary or not.
    pub switches: Option<u64>,
    /// System calls it made.
    pub calls: Option<u64>,
    /// Levels of memory in which its loads and stores found their data.
    pub data: Option<DataAccesses>,
    /// Translations that the second TLB knew.
    pub translations_l2: Option<u64>,
    /// Translations that took a walk through page tables.
    pub walks: Option<u64>,
}

impl Counts {
    /// Events of a source; `None` where they were not counted, or are time and no events.
    #[must_use]
    pub fn events(&self, source: Source) -> Option<u64> {
        match source {
            Source::TranslationL2 => self.translations_l2,
            Source::TranslationWalk => self.walks,
            Source::Switches => self.switches,
            Source::Calls => self.calls,
            Source::Ready => None,
            data => self.data.and_then(|accesses| accesses.at(data)),
        }
    }

    /// Both together, as for two threads of one NF. What one of them did not count is not counted.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = |one: Option<u64>, two: Option<u64>| Some(one? + two?);
        let data = |one: DataAccesses, two: DataAccesses| DataAccesses {
            l1: one.l1 + two.l1,
            l2: one.l2 + two.l2,
            l3: one.l3 + two.l3,
            dram: one.dram + two.dram,
        };
        Self {
            packets: self.packets + other.packets,
            elapsed_ns: self.elapsed_ns.max(other.elapsed_ns),
            run_ns: self.run_ns + other.run_ns,
            ready_ns: self.ready_ns + other.ready_ns,
            switches: both(self.switches, other.switches),
            calls: both(self.calls, other.calls),
            data: self.data.zip(other.data).map(|(one, two)| data(one, two)),
            translations_l2: both(self.translations_l2, other.translations_l2),
            walks: both(self.walks, other.walks),
        }
    }
}

/// Cost of one event on this machine, in nanoseconds; absent where it could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitCosts {
    /// A dependent load from each level of memory.
    pub levels: Levels,
    /// Additional time of an address found in the second TLB.
    pub translation_l2_ns: Option<f64>,
    /// Additional time of an address for which page tables are walked.
    pub walk_ns: Option<f64>,
    /// A switch from one process to another, under the policy of the NF.
    pub switch_ns: Option<f64>,
    /// A system call that does next to nothing.
    pub call_ns: Option<f64>,
}

impl UnitCosts {
    const fn of(&self, source: Source) -> Option<f64> {
        match source {
            Source::DataL1 => self.levels.l1_ns,
            Source::DataL2 => self.levels.l2_ns,
            Source::DataL3 => self.levels.l3_ns,
            Source::DataDram => self.levels.dram_ns,
            Source::TranslationL2 => self.translation_l2_ns,
            Source::TranslationWalk => self.walk_ns,
            Source::Switches => self.switch_ns,
            Source::Calls => self.call_ns,
            Source::Ready => None,
        }
    }
}

/// The time of one packet by source, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breakdown {
    by_source: [Option<f64>; Source::ALL.len()],
    /// CPU time for each packet, by the kernel's account; polling an empty ring counts too.
    pub run_ns: f64,
}

impl Breakdown {
    /// Returns the breakdown of these counts; `None` without packets.
    #[must_use]
    pub fn of(counts: &Counts, costs: &UnitCosts) -> Option<Self> {
        if counts.packets == 0 {
            return None;
        }
        let packets = counts.packets as f64;
        let each = |source: Source| match source {
            Source::Ready => Some(counts.ready_ns as f64 / packets),
            source => Some(counts.events(source)? as f64 / packets * costs.of(source)?),
        };
        Some(Self { by_source: Source::ALL.map(each), run_ns: counts.run_ns as f64 / packets })
    }

    /// Returns the figure of one source; `None` where it was not counted.
    #[must_use]
    pub const fn at(&self, source: Source) -> Option<f64> {
        self.by_source[source as usize]
    }

    /// Returns the sum over all sources that were counted: the paper's latency per packet, and the
    /// scheduler's wait.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.by_source.iter().flatten().sum()
    }

    /// Returns whether every source was counted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.by_source.iter().all(Option::is_some)
    }

    /// Returns the breakdown of a chain from those of its NFs. A source that one of them did not count is not
    /// counted.
    #[must_use]
    pub fn of_chain(nfs: impl IntoIterator<Item = Self>) -> Option<Self> {
        let both = |one: &Self, two: &Self| {
            let sum = |source: Source| Some(one.at(source)? + two.at(source)?);
            Self { by_source: Source::ALL.map(sum), run_ns: one.run_ns + two.run_ns }
        };
        nfs.into_iter().reduce(|one, two| both(&one, &two))
    }
}

/// The paper's two ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Time asleep over time on a core.
    pub wait_over_run: f64,
    /// Time ready without a core over time on one.
    pub contention_over_run: f64,
}

impl Ratios {
    /// Returns the ratio over all these NFs together; `None` when they did not run.
    #[must_use]
    pub fn of<'a>(nfs: impl IntoIterator<Item = &'a Counts>) -> Option<Self> {
        let (mut run, mut ready, mut asleep) = (0, 0, 0);
        for nf in nfs {
            run += nf.run_ns;
            ready += nf.ready_ns;
            asleep += nf.elapsed_ns.saturating_sub(nf.run_ns + nf.ready_ns);
        }
        (run > 0).then(|| Self {
            wait_over_run: asleep as f64 / run as f64,
            contention_over_run: ready as f64 / run as f64,
        })
    }
}

#[cfg(test)]
mod tests;
