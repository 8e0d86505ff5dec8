//! Advice: what to change first.
//!
//! Every candidate is weighed by the nanoseconds that each packet would save; the heaviest comes first.
//! That is what it is hoped to gain: a change that looks best may gain nothing, which is why [`super::tried`]
//! judges what was measured.
//!
//! - *Spinning*: a polling NF polls its empty ring on a core that others need. What it runs beyond its work
//!   is theirs.
//! - *Fusing*: neighbours of one process's worth of trust hand packets on without the kernel. Their switches
//!   and waits go, except the first NF's.
//! - *Placement*: NFs wait for one core while another is idle.
//! - *Batch policy, long slice*: an NF that is interrupted often pays for switches; the paper's batch policy
//!   with a long quantum (SCC, section 5.2.1) makes time slices longer.
//! - *Packets of one call*: NFs on interfaces of the kernel pay a system call for few packets; the paper's
//!   first cure (SCC, section 5.1.1).
//!
//! What it refuses to do: propose for a chain without packets, and trade isolation away where trust differs:
//! only NFs that are in one domain already are fused.

use super::{Breakdown, Counts, Ratios, Source};

/// The part of an NF's run time below which polling an empty ring is no waste worth a change. Our choice.
const SPUN: f64 = 0.1;
/// Contention over run time from which a core is crowded. Our choice: a packet then waits half as long for
/// the core as it is worked on; two equal NFs that alternate are at 1.
const CROWDED: f64 = 0.5;
/// The busy part of a core below which it can take another NF.
const QUIET: f64 = 0.5;
/// The part of the CPU time of its chain, or of its NF for a change of one NF, that a change must promise to
/// save. Our choice: below, its effect is not told from noise.
const WORTH: f64 = 0.02;
/// The slice of the batch policy that is proposed, in microseconds: two ticks of a kernel with 250 Hz, about
/// five times the default.
pub const SLICE_US_LONG: u32 = 8000;
/// Factor by which another source must exceed the gain of the best change to be named instead: a knob that
/// saves a little is not what to begin with where something else takes most.
const OUTWEIGHS: f64 = 2.0;
/// Packets of one system call from which more save next to nothing (SCC, figure 8; the same here).
pub const CALL_BATCH: u32 = 32;

/// Whether an NF may go into one process with its neighbour behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusable {
    /// They are shipped, of one domain and user, one instance each, waited for alike, and in no other chain.
    Yes,
    /// They are not, or there is none.
    No,
}

/// Use that an NF makes of system calls on interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    /// Most packets of one system call.
    pub batch: u32,
    /// System calls it made for each packet.
    pub for_each: f64,
}

/// An NF of a chain, as it is and as it did.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Its counters.
    pub counts: Counts,
    /// By packet.
    pub breakdown: Breakdown,
    /// Time that it takes for a packet, in nanoseconds, where that is known.
    pub work_ns: Option<f64>,
    /// Its core.
    pub core: u32,
    /// Whether it never sleeps.
    pub polls: bool,
    /// Whether it is under the batch policy.
    pub is_batch: bool,
    /// Whether it goes before all with a fair share.
    pub is_real_time: bool,
    /// The slice it asks for, in microseconds.
    pub slice_us: Option<u32>,
    /// Whether it may be fused with the next.
    pub with_next: Fusable,
    /// If it works on interfaces of the kernel.
    pub calls: Option<Calls>,
}

impl Stage {
    fn each(&self, source: Source) -> f64 {
        self.breakdown.at(source).unwrap_or(0.0)
    }

    /// Time of the core for each packet in which there was none.
    fn spun_ns(&self) -> f64 {
        self.work_ns.map_or(0.0, |work| (self.breakdown.run_ns - work).max(0.0))
    }
}

/// A core that NFs may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreLoad {
    /// Its number.
    pub number: u32,
    /// The part of the time it was busy, 0 to 1.
    pub busy: f64,
}

/// Setting of a chain that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// `loop = "notified"`.
    Notified,
    /// One process for all stages from the proposal's to this one.
    Fuse {
        /// The last of them.
        last: usize,
    },
    /// `core = …`.
    Place {
        /// The core.
        core: u32,
    },
    /// `policy = "batch"` and a long slice.
    LongBatch,
    /// `io = { batch = … }` of the chain.
    CallBatch,
}

/// A change, and what speaks for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The stage it is about, counted from 0.
    pub stage: usize,
    /// The change.
    pub knob: Knob,
    /// At most so many nanoseconds less for each packet.
    pub gain_ns: f64,
}

/// Advice on the first thing to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Advice {
    /// No packets passed: nothing can be said.
    NoPackets,
    /// Change this.
    Change(Proposal),
    /// A source that no knob changes is the largest: this part of the chain's time is there.
    Source {
        /// The stage with the most of it.
        stage: usize,
        /// The source.
        source: Source,
        /// Time that it takes there, in nanoseconds for each packet.
        ns: f64,
    },
    /// The NF's own instructions are the largest: only another program, or more instances, make it faster.
    Work {
        /// The stage that takes longest.
        stage: usize,
        /// Time that it takes, in nanoseconds for each packet.
        ns: f64,
    },
}

/// At most one for each kind of change.
const PROPOSALS_MAX: usize = 5;

/// Every change that promises something, the one that promises most first.
#[must_use]
pub fn propose(stages: &[Stage], cores: &[CoreLoad]) -> [Option<Proposal>; PROPOSALS_MAX] {
    let chain_ns: f64 = stages.iter().map(|nf| nf.breakdown.run_ns).sum();
    let worth = |proposal: &Proposal| proposal.gain_ns > chain_ns * WORTH;
    let mut all = [notify(stages), fuse(stages), place(stages, cores), lengthen(stages), gather(stages)]
        .map(|proposal| proposal.filter(worth));
    all.sort_unstable_by(|one, two| {
        let gain = |proposal: &Option<Proposal>| proposal.map_or(-1.0, |p| p.gain_ns);
        gain(two).total_cmp(&gain(one))
    });
    all
}

/// Returns the first thing to change.
#[must_use]
pub fn advise(stages: &[Stage], cores: &[CoreLoad]) -> Advice {
    let largest = stages
        .iter()
        .enumerate()
        .flat_map(|(stage, nf)| Source::ALL.map(|source| (stage, source, nf.each(source))))
        .reduce(|one, two| if two.2 > one.2 { two } else { one });
    let slowest = stages
        .iter()
        .enumerate()
        .map(|(stage, nf)| (stage, nf.work_ns.unwrap_or(nf.breakdown.run_ns)))
        .reduce(|one, two| if two.1 > one.1 { two } else { one });
    let best = propose(stages, cores)[0];
    match (largest, slowest) {
        (Some((_, _, ns)), _) if best.is_some_and(|best| best.gain_ns * OUTWEIGHS >= ns) => {
            best.map_or(Advice::NoPackets, Advice::Change)
        }
        (Some((stage, source, ns)), Some((_, work))) if ns > work => Advice::Source { stage, source, ns },
        (_, Some((stage, ns))) => Advice::Work { stage, ns },
        _ => Advice::NoPackets,
    }
}

/// The stage for which this is largest, where it is for any.
fn best(stages: &[Stage], of: impl Fn(usize, &Stage) -> Option<(Knob, f64)>) -> Option<Proposal> {
    let each = |(stage, nf)| of(stage, nf).map(|(knob, gain_ns)| Proposal { stage, knob, gain_ns });
    stages
        .iter()
        .enumerate()
        .filter_map(each)
        .reduce(|one, two| if two.gain_ns > one.gain_ns { two } else { one })
}

fn is_alone(stages: &[Stage], nf: &Stage) -> bool {
    stages.iter().filter(|other| other.core == nf.core).count() < 2
        && nf.counts.ready_ns * 20 < nf.counts.run_ns
}

fn notify(stages: &[Stage]) -> Option<Proposal> {
    best(stages, |_, nf| {
        let spun = nf.spun_ns();
        let wasteful = nf.polls && spun > nf.breakdown.run_ns * SPUN && !is_alone(stages, nf);
        wasteful.then_some((Knob::Notified, spun))
    })
}

fn fuse(stages: &[Stage]) -> Option<Proposal> {
    best(stages, |first, nf| {
        let joined = stages[first..].iter().take_while(|stage| stage.with_next == Fusable::Yes).count();
        let starts = first == 0 || stages[first - 1].with_next == Fusable::No;
        let last = first + joined;
        // What the neighbours behind the first pay for being others.
        let spared = stages.get(first + 1..=last)?.iter().map(|stage| {
            stage.each(Source::Switches) + stage.each(Source::Calls) + stage.each(Source::Ready)
        });
        let spared: f64 = spared.sum();
        (starts && joined > 0 && spared > nf.breakdown.run_ns * WORTH)
            .then_some((Knob::Fuse { last }, spared))
    })
}

fn place(stages: &[Stage], cores: &[CoreLoad]) -> Option<Proposal> {
    let idle = cores.iter().filter(|core| core.busy < QUIET);
    let idle = idle.reduce(|one, two| if two.busy < one.busy { two } else { one })?;
    best(stages, |_, nf| {
        let ratios = Ratios::of([&nf.counts])?;
        let crowded = ratios.contention_over_run > CROWDED && nf.core != idle.number;
        crowded.then_some((Knob::Place { core: idle.number }, nf.each(Source::Ready)))
    })
}

fn lengthen(stages: &[Stage]) -> Option<Proposal> {
    best(stages, |_, nf| {
        let switches = nf.each(Source::Switches);
        let is_long = nf.is_batch && nf.slice_us.is_some_and(|slice| slice >= SLICE_US_LONG);
        let pays = switches > nf.breakdown.run_ns * WORTH && !nf.is_real_time && !is_long;
        (pays && !is_alone(stages, nf)).then_some((Knob::LongBatch, switches))
    })
}

/// One number for all NFs of a chain, so what all of them pay counts.
fn gather(stages: &[Stage]) -> Option<Proposal> {
    let spared = |nf: &Stage| {
        // In real time an NF takes each packet at once, and one call more or less gathers nothing.
        let calls = nf.calls.filter(|calls| calls.batch < CALL_BATCH && !nf.is_real_time)?;
        // One to receive a full batch, one to send it.
        let rest = 2.0 / f64::from(CALL_BATCH);
        (calls.for_each > rest).then(|| nf.each(Source::Calls) * (1.0 - rest / calls.for_each))
    };
    let gain_ns = stages.iter().filter_map(spared).sum();
    best(stages, |_, nf| Some((Knob::CallBatch, spared(nf)?))).map(|most| Proposal { gain_ns, ..most })
}
