//! Weights: when loads and service times are sampled, which NFs compete for a core, and when shares are
//! written.
//!
//! The problem: shares ([`crate::share`]) must follow traffic that changes within milliseconds, but each
//! sample wakes a thread that takes from a worker's core, each share that is written is a system call, and
//! the machine may refuse them, or somebody may remove what was made for them.
//!
//! The intuition: sample what is cheap often and what is expensive seldom, write only what changed by more
//! than it is known, and take every refusal for one that passes.
//!
//! The thresholds: loads are sampled every `LOADS_EVERY` at most, service times every `COSTS_EVERY`,
//! shares are decided as often as the configuration says. Shares that stay as they are are written again
//! every `RENEW_EVERY`, so that a control group that is gone is noticed; what was refused is tried again
//! every `RETRY_EVERY`, and told of once.
//!
//! Contenders: an NF in service that sleeps when it has no packets, whose packets pass a worker and whose
//! cost can be known. What an NF that never sleeps needs cannot be told from what it uses; what comes to one
//! on interfaces of the kernel passes us by; nobody knows what a packet costs an external program; and
//! weights mean nothing to real-time NFs, which have a group of their own for the time they may have.
//!
//! Rejected: deciding when packets come, on the packet path, where a decision costs what it must save.
//!
//! What it refuses to do: stop anything. Where weights cannot be set the kernel shares cores evenly
//! meanwhile.
//!
//! Source: NFVnice, section 5.2 (loads every millisecond, weights every 10); decisions 10 and 12.

#[cfg(test)]
mod bottlenecks;
mod machine;
#[cfg(test)]
mod tests;

use alloc::string::String;

use crate::cost::Account;
use crate::units::{CoreId, InstanceId, RegionId, Span};

pub use machine::Weights;

/// Longest time between two samples of loads. NFVnice takes them every millisecond; here arrivals are counted
/// by the workers, so a sample misses none, and each wake-up of the sampling thread takes from a worker's
/// core: with 16 NFs in a virtual machine samples every 5 ms took 1.3 percent of it.
pub(crate) const LOADS_EVERY: Span = Span::from_millis(10);
/// Time between two samples of service times. Our choice: a fifth of the window they are formed over.
pub(crate) const COSTS_EVERY: Span = Span::from_millis(20);
/// Time between two attempts to set weights that were refused. Our choice: soon for a person, and what a
/// refusal costs is then nothing.
pub(crate) const RETRY_EVERY: Span = Span::from_secs(1);
/// Time between two writes of shares that stay as they are. Our choice: as for `RETRY_EVERY`.
pub(crate) const RENEW_EVERY: Span = Span::from_secs(1);
/// Assumed cost of a packet before anything is known. Our choice: between the cheapest NFs (25 ns) and
/// expensive ones (tens of microseconds); it holds for a tenth of a second.
pub(crate) const UNKNOWN_COST: Span = Span::from_micros(1);

/// Settings of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// Whether shares are decided; else loads and service times are only sampled, for people.
    pub weighs: bool,
    /// Time between two decisions of shares.
    pub every: Span,
    /// Cores whose time in a window one NF's work counts as at most.
    pub claim_cores: u32,
}

/// An NF as one incarnation of an instance has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nf {
    /// Its core.
    pub core: CoreId,
    /// Its trust domain. NFs compete within their domain; domains share a core by parts that are configured.
    pub domain: RegionId,
    /// Factor of its share, 1 to 100.
    pub priority: u32,
    /// The slice of the kernel's that its configuration asks for, if it does.
    pub slice: Option<Span>,
    /// Whether its packets pass a worker, and its cost can be known.
    pub is_seen: bool,
    /// Whether it sleeps when it has no packets.
    pub sleeps: bool,
    /// Whether it is under a real-time policy.
    pub is_real_time: bool,
    /// Whether it is under the batch policy: it takes the core from nobody when it wakes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub is_batch: bool,
}

impl Nf {
    /// Returns whether it gets a share by need.
    #[must_use]
    pub const fn is_weighed(&self) -> bool {
        self.is_seen && self.sleeps && !self.is_real_time
    }
}

/// Number of packets that have come for an instance, ever, and of those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Load {
    /// Packets put into its ring.
    pub delivered: u64,
    /// Packets that found no room in it.
    pub full: u64,
    /// Packets that were shed at the head of their chain for its sake.
    pub throttled: u64,
    /// Packets that were shed because they would have been late.
    pub late: u64,
    /// Packets in its ring.
    pub backlog: u32,
}

impl Load {
    /// Packets that have come for it: those that found no room have all the same.
    const fn arrived(&self) -> u64 {
        self.delivered + self.full + self.throttled + self.late
    }
}

/// Event that the weights are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// An instance has a fresh process: it has claimed nothing and is in no group yet.
    Begins {
        /// The instance.
        instance: InstanceId,
        /// Its properties.
        nf: Nf,
    },
    /// Chains or instances have changed: whether an instance feeds another NF of its core under backpressure.
    Feeds {
        /// The instance.
        instance: InstanceId,
        /// Whether it does.
        feeds: bool,
    },
    /// An instance is in service.
    Ready(InstanceId),
    /// An instance's process has ended.
    Ended(InstanceId),
    /// An instance's process is in its control group. Answers [`Action::Enter`].
    Entered(InstanceId),
    /// The control group of an instance was refused, or a write to it: it is in none now.
    Refused {
        /// The instance.
        instance: InstanceId,
        /// Why.
        why: String,
    },
    /// The group of all groups could not be weighed.
    GroupsRefused {
        /// Why.
        why: String,
    },
    /// The load of an instance in service. Answers [`Action::SampleLoads`].
    Load {
        /// The instance.
        instance: InstanceId,
        /// Its load.
        load: Load,
    },
    /// Samples of an instance's service times since the last ones. Answers [`Action::SampleCosts`].
    ServiceTime {
        /// The instance.
        instance: InstanceId,
        /// The service time.
        time: Span,
        /// Number of samples that had it.
        count: u32,
    },
    /// End of the samples of an instance's service times. Follows them, and may be all there is.
    Costs {
        /// The instance.
        instance: InstanceId,
        /// The kernel's counts, if [`Weights::wants_account`] and it could be read.
        account: Option<Account>,
    },
}

/// Command for the kernel's groups and the NFs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Answer with [`Event::Load`] for each instance in service, and poll again.
    SampleLoads,
    /// Answer with [`Event::ServiceTime`] and [`Event::Costs`] for each instance in service, and poll again.
    SampleCosts,
    /// Put an instance's process into a control group of its own, or into that of all real-time NFs. Answer
    /// with [`Event::Entered`] or [`Event::Refused`].
    Enter(InstanceId),
    /// Set the weight of an instance. Answer with [`Event::Refused`] when that cannot be.
    Write {
        /// The instance.
        instance: InstanceId,
        /// Its share, in parts of [`crate::share::WHOLE`].
        share: u32,
        /// The slice to ask the kernel for.
        slice: Span,
        /// Time for which it may work before it yields to others of its core.
        yields_after: Span,
    },
    /// Tell people.
    Report(Report),
}

/// Message about weights, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Report {
    /// Weights cannot be set.
    Refused {
        /// Why.
        why: String,
    },
    /// Weights are set again.
    SetAgain,
    /// A real-time NF has no group with time for it.
    NoRealTimeGroup {
        /// The instance.
        instance: InstanceId,
        /// Why.
        why: String,
    },
    /// The service times of an NF are overridden by CPU accounting.
    Overridden {
        /// The instance.
        instance: InstanceId,
        /// The median it claims.
        claimed: Span,
        /// CPU time for each packet it returned.
        accounted: Span,
    },
}
