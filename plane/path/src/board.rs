//! Board: the counters of a worker. One writer, many readers: a count is a plain add in the worker, and any
//! thread may read.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_units::ChainId;

use crate::delay;
use crate::drop::{DROP_REASONS, DropReason};

/// Counter with one writer.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. Only the owning worker may call this.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Replaces the count. Only the owning worker may call this.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Returns the count.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of a chain.
#[derive(Default)]
pub struct ChainCounts {
    /// Packets classified into the chain.
    pub entered: Count,
    /// Packets that NFs made and sent on in the chain.
    pub made: Count,
    /// Packets that came back to the gate of their group, which has them in its log too.
    pub returned: Count,
    /// Packets that the gate of their group does not keep any more.
    pub forgotten: Count,
    /// Packets that left by a port.
    pub left: Count,
    /// Packets that ended at a full ring after an NF had worked on them.
    pub wasted: Count,
}

/// Counters of an instance.
#[derive(Default)]
pub struct InstanceCounts {
    /// Packets put into its receive ring.
    pub delivered: Count,
    /// Packets taken from its transmit ring.
    pub returned: Count,
    /// Packets that it made and that went on.
    pub made: Count,
    /// Packets it holds: rings and hands.
    pub held: Count,
    /// Empty buffers it was lent and has not returned.
    pub lent: Count,
    /// Packets that wait at the worker for room in its ring.
    pub pending: Count,
    /// Packets marked on their way to it: congestion experienced.
    pub marked: Count,
    /// Times it was throttled.
    pub throttles: Count,
    /// Wake-up calls made.
    pub calls: Count,
    /// Drops on the way to it or by it.
    pub drops: Drops,
}

/// Number of packets that ended, by reason.
pub struct Drops([Count; DROP_REASONS]);

impl Default for Drops {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

impl std::ops::Deref for Drops {
    type Target = [Count; DROP_REASONS];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The stations of a packet's way, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Station {
    /// Packets received from ports.
    Arrive,
    /// From headers to a chain.
    Classify,
    /// Into a chain, or shed at its head.
    Admit,
    /// Into an NF's ring, or to an external program.
    Deliver,
    /// NFs in the worker's own thread.
    Work,
    /// Out of an NF's ring, and where it goes next.
    Hop,
    /// Waiting until it may be seen outside.
    Commit,
    /// Out of a port.
    Emit,
    /// Wake-up calls, timers, commands, sweeping. No packet passes it.
    Tend,
}

impl Station {
    /// All stations, in order.
    pub const ALL: [Self; 9] = [
        Self::Arrive,
        Self::Classify,
        Self::Admit,
        Self::Deliver,
        Self::Work,
        Self::Hop,
        Self::Commit,
        Self::Emit,
        Self::Tend,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrive => "arrive",
            Self::Classify => "classify",
            Self::Admit => "admit",
            Self::Deliver => "deliver",
            Self::Work => "work",
            Self::Hop => "hop",
            Self::Commit => "commit",
            Self::Emit => "emit",
            Self::Tend => "tend",
        }
    }
}

/// Cycles and packets of one station, while stations are measured.
#[derive(Default)]
pub struct StationCounts {
    /// TSC cycles spent.
    pub cycles: Count,
    /// Packets passed.
    pub packets: Count,
}

/// The counters of one worker.
pub struct Board {
    /// Counters of the chains, by number.
    pub chains: Box<[ChainCounts]>,
    drops: Box<[Drops]>,
    /// Counters of the instances, by number.
    pub instances: Box<[InstanceCounts]>,
    /// Counters of the stations.
    pub stations: [StationCounts; Station::ALL.len()],
    /// Number of passes made.
    pub passes: Count,
    /// Passes in which a packet moved.
    pub busy_passes: Count,
    /// 1 once no queue of this worker will ever give another packet.
    pub finished: Count,
    /// Flows known now.
    pub flows: Count,
    /// Flow entries learnt, ever.
    pub flows_learnt: Count,
    /// Live flow entries given up to make room for new ones.
    pub flows_evicted: Count,
    /// Samples of delays.
    pub delays: delay::Log,
    plans: AtomicU64,
}

impl Board {
    /// Returns a board for so many chains and instances.
    #[must_use]
    pub fn new(chains: usize, instances: usize) -> Self {
        fn zeroes<T: Default>(count: usize) -> Box<[T]> {
            (0..count).map(|_| T::default()).collect()
        }
        Self {
            chains: zeroes(chains),
            drops: zeroes(chains),
            instances: zeroes(instances),
            stations: Default::default(),
            passes: Count::default(),
            busy_passes: Count::default(),
            finished: Count::default(),
            flows: Count::default(),
            flows_learnt: Count::default(),
            flows_evicted: Count::default(),
            delays: delay::Log::default(),
            plans: AtomicU64::new(0),
        }
    }

    /// Counts that the worker works by another plan from now on.
    pub(crate) fn plan_taken(&self) {
        // One writer: no two may add at once.
        let plans = self.plans.load(Ordering::Relaxed) + 1;
        self.plans.store(plans, Ordering::Release); // N-release, with N-acquire
    }

    /// Returns how many plans the worker has taken after its first. A thread that sees one
    /// counted sees all that was counted by older ones.
    #[must_use]
    pub fn plans_taken(&self) -> u64 {
        self.plans.load(Ordering::Acquire) // N-acquire, with N-release
    }

    /// Counts drops of a chain.
    #[inline]
    pub fn ended(&self, chain: ChainId, reason: DropReason, count: u64) {
        self.drops[chain.index()][reason as usize].add(count);
    }

    /// Returns the drops of a chain for a reason.
    #[must_use]
    pub fn dropped(&self, chain: ChainId, reason: DropReason) -> u64 {
        self.drops[chain.index()][reason as usize].get()
    }

    /// Returns all drops of a chain.
    #[must_use]
    pub fn dropped_all(&self, chain: ChainId) -> u64 {
        DropReason::ALL.iter().map(|&reason| self.dropped(chain, reason)).sum()
    }
}
