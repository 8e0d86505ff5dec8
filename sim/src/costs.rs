//! What things cost on the machine that is modelled: a plain table, with the measurement that each number
//! comes from. Nothing here was chosen so that a result comes out.

use headgate_decide::units::Span;
use serde::{Deserialize, Serialize};

use crate::random::Random;

mod file;

pub use file::NAMES;

/// Costs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Cycles of the time stamp counter in a microsecond.
    pub cycles_per_micro: u64,
    /// Worker: a packet from a port to the first ring (arrive, classify, admit, deliver), in picoseconds.
    pub worker_enter_ps: u64,
    /// Worker: a packet that is shed at the head, in picoseconds.
    pub worker_shed_ps: u64,
    /// Worker: a packet from one ring to the next, in picoseconds.
    pub worker_hop_ps: u64,
    /// Worker: a packet out of a port, in picoseconds.
    pub worker_leave_ps: u64,
    /// Worker: a pass in which nothing moves, in nanoseconds.
    pub worker_pass_ns: u64,
    /// NF: the library's part of a packet, in picoseconds.
    pub nf_packet_ps: u64,
    /// NF: the library's part of a burst, in nanoseconds.
    pub nf_burst_ns: u64,
    /// Core: from one NF to another, with what the caches lost, in nanoseconds.
    pub switch_ns: u64,
    /// Core: what an NF's caches cost it that others had lost, at most, beside the switch, in nanoseconds.
    pub refill_ns: u64,
    /// Core: time of others after which that is lost whole, in nanoseconds.
    pub refill_after_ns: u64,
    /// Core: a yield, with the switch to the next NF, in nanoseconds.
    pub yield_ns: u64,
    /// Caller: a wake-up call to an NF of a core that is awake, in nanoseconds.
    pub call_awake_ns: u64,
    /// Caller: a wake-up call to an NF of an idle core, in nanoseconds.
    pub call_idle_ns: u64,
    /// Time until an NF of an idle core runs after the call, in nanoseconds.
    pub wake_idle_ns: u64,
    /// Scheduler of time slices: from the end of a slice until the next NF runs, in nanoseconds.
    pub slice_switch_ns: u64,
    /// Manager: from the end of a process until its successor is ready, in nanoseconds.
    pub start_ns: u64,
    /// Kernel: time between two ticks.
    pub tick: Span,
    /// Kernel: the least time that a tick takes from what runs on its core, in nanoseconds.
    pub tick_least_ns: u64,
    /// Kernel: the most time that it takes.
    pub tick_most_ns: u64,
    /// Kernel: the slice of a fair task that asked for none.
    pub base_slice: Span,
    /// Kernel: the slice of round-robin tasks.
    pub round_robin: Span,
}

/// Machine C of `docs/results/nfvnice.md` (two virtual cores, Intel Xeon under KVM, Linux 6.18, HZ 250).
///
/// - The counter and the library's part of a packet: CPU time by packets served of `nfvnice chain`, three
///   NFs, and of `nfvnice fairness`, the sixth.
/// - The worker's stations: `bench hop` (`one_*_ns`) as `docs/promises.md` has it, of a machine B of the same
///   kind.
/// - Wake-up calls and the time until an NF runs: decisions 4 and 15.
/// - The switch: decision 4 (2 us and a burst). The yield: `docs/results/unis.md` (1.25 us).
/// - What caches lose is in the price of the switch, of NFs that hold little; the refill is for those that
///   hold much. Nothing was measured of it.
/// - The start of a process: `bench start` (`death_to_packet_ms`) as `docs/promises.md` has it, of a machine
///   D.
/// - What a tick takes: two threads that did nothing but read the counter, on a machine of the same kernel
///   and hypervisor (AMD EPYC, two virtual cores). Both lost 24 to 104 us (p10, p90; median 54) at the same
///   phase of each 4 ms, each its own time: a timer's interrupt leaves the virtual machine.
/// - The kernel's numbers: `kernel/sched/fair.c` and `sched/rt.c` of Linux 6.18 with two cores.
impl Default for Costs {
    fn default() -> Self {
        Self {
            cycles_per_micro: 2_100,
            worker_enter_ps: 21_300,
            worker_shed_ps: 19_000,
            worker_hop_ps: 9_100,
            worker_leave_ps: 10_300,
            worker_pass_ns: 400,
            nf_packet_ps: 8_000,
            nf_burst_ns: 60,
            switch_ns: 2_000,
            refill_ns: 0,
            refill_after_ns: 1_000_000,
            yield_ns: 1_250,
            call_awake_ns: 1_000,
            call_idle_ns: 14_000,
            wake_idle_ns: 37_000,
            slice_switch_ns: 10_000,
            start_ns: 2_700_000,
            tick: Span::from_millis(4),
            tick_least_ns: 24_000,
            tick_most_ns: 100_000,
            base_slice: Span::from_micros(1_400),
            round_robin: Span::from_millis(100),
        }
    }
}

impl Costs {
    /// Returns the time that a tick takes.
    pub(crate) fn tick_takes(&self, random: &mut Random) -> u64 {
        if self.tick_most_ns == 0 { 0 } else { random.between(self.tick_least_ns, self.tick_most_ns) }
    }

    /// Returns the time that caches cost which others used for so long.
    pub(crate) fn refill(&self, others_ns: u64) -> u64 {
        if self.refill_ns == 0 {
            return 0;
        }
        let lost = others_ns.min(self.refill_after_ns);
        (u128::from(self.refill_ns) * u128::from(lost) / u128::from(self.refill_after_ns.max(1))) as u64
    }

    /// Returns the time of so many cycles.
    pub(crate) const fn cycles(&self, cycles: u64) -> u64 {
        cycles * 1_000 / self.cycles_per_micro
    }
}
