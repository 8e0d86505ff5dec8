//! What a worker has counted. One writer, many readers: a count is a plain add in the worker, and any
//! thread may read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::delay;
use crate::drop::{REASONS, Reason};

/// A counter with one writer.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds. Only the owning worker may call this.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Replaces. Only the owning worker may call this.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What enters and leaves a chain.
#[derive(Default)]
pub struct ChainCounts {
    /// Packets classified into the chain.
    pub entered: Count,
    /// Packets that left by a port.
    pub left: Count,
    /// Of those that ended at a full ring, the ones an NF had worked on.
    pub wasted: Count,
}

/// What an NF instance is given and gives back.
#[derive(Default)]
pub struct InstanceCounts {
    /// Packets put into its receive ring.
    pub delivered: Count,
    /// Packets taken from its transmit ring.
    pub returned: Count,
    /// Packets it holds: rings and hands.
    pub held: Count,
    /// Packets that wait at the worker for room in its ring.
    pub waiting: Count,
    /// Packets marked on their way to it: congestion experienced.
    pub marked: Count,
    /// Times it was throttled.
    pub throttles: Count,
    /// Wake-up calls made.
    pub calls: Count,
    /// Drops on the way to it or by it.
    pub drops: [Count; REASONS],
}

/// The stations whose cost is measured, in the order of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Station {
    /// Ports' receive.
    Arrive,
    /// Headers to chain.
    Classify,
    /// Into the first stage's ring.
    Deliver,
    /// Out of an NF's ring and into the next.
    Hop,
    /// Out of a port.
    Emit,
    /// Wake-up calls, timers, commands, sweeping.
    Tend,
}

impl Station {
    /// All of them, in order.
    pub const ALL: [Self; 6] =
        [Self::Arrive, Self::Classify, Self::Deliver, Self::Hop, Self::Emit, Self::Tend];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrive => "arrive",
            Self::Classify => "classify",
            Self::Deliver => "deliver",
            Self::Hop => "hop",
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
    /// By chain.
    pub chains: Box<[ChainCounts]>,
    drops: Box<[[Count; REASONS]]>,
    /// By instance.
    pub instances: Box<[InstanceCounts]>,
    /// By station.
    pub stations: [StationCounts; Station::ALL.len()],
    /// Turns made.
    pub turns: Count,
    /// Turns in which a packet moved.
    pub busy_turns: Count,
    /// 1 once no queue of this worker will ever give another packet.
    pub finished: Count,
    /// Flows known now.
    pub flows: Count,
    /// Flow entries learnt, ever.
    pub flows_learnt: Count,
    /// Live flow entries given up to make room for new ones.
    pub flows_evicted: Count,
    /// Delays seen.
    pub delays: delay::Log,
    plans: AtomicU64,
}

impl Board {
    /// A board for so many chains and instances.
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
            turns: Count::default(),
            busy_turns: Count::default(),
            finished: Count::default(),
            flows: Count::default(),
            flows_learnt: Count::default(),
            flows_evicted: Count::default(),
            delays: delay::Log::default(),
            plans: AtomicU64::new(0),
        }
    }

    /// The worker works by another plan from now on.
    pub(crate) fn plan_taken(&self) {
        // One writer: no two may add at once.
        self.plans.store(self.plans.load(Ordering::Relaxed) + 1, Ordering::Release); // N-release, with N-acquire
    }

    /// Plans the worker has taken after its first. Whoever sees one counted sees all it counted by older ones.
    #[must_use]
    pub fn plans_taken(&self) -> u64 {
        self.plans.load(Ordering::Acquire) // N-acquire, with N-release
    }

    /// Counts drops of a chain.
    #[inline]
    pub fn ended(&self, chain: u16, reason: Reason, count: u64) {
        self.drops[chain as usize][reason as usize].add(count);
    }

    /// Drops of a chain for a reason.
    #[must_use]
    pub fn dropped(&self, chain: u16, reason: Reason) -> u64 {
        self.drops[chain as usize][reason as usize].get()
    }

    /// All drops of a chain.
    #[must_use]
    pub fn dropped_all(&self, chain: u16) -> u64 {
        Reason::ALL.iter().map(|&reason| self.dropped(chain, reason)).sum()
    }
}
