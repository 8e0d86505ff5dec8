//! Which sleeping NF is worth a wake-up call now.
//!
//! The problem: a call costs the caller a system call, and much more when the sleeper's core is idle,
//! because the interrupt leaves the virtual machine (14 us for the caller, 33-42 us until the sleeper
//! runs); a sleeper on a core that is awake costs 1-4 us. Calling for every burst wastes both cores;
//! waiting for a batch costs latency when there is little traffic.
//!
//! The intuition: *a core that is idle has nothing better to do*. So the first packet for an idle core
//! calls at once. While another NF of the core is awake, waking a second one only makes the two take
//! turns more often; it may wait until its batch pays for the turn, a quarter of the ring, or until its
//! oldest packet is [`Marks::age`] old. And an NF does not sleep the moment its ring is empty: it looks at
//! it for [`look_before_sleep_micros`], so that at a steady rate an NF with a core of its own is not called
//! at all.
//!
//! A hostile NF can claim to sleep all the time. A call is repeated only after the NF has taken packets
//! since the last one, or after [`Marks::again`]; and no NF is called more often than [`Marks::gap`].
//!
//! What it refuses to do: predict arrivals, or treat an NF's own claims as anything but a hint.
//!
//! Sources: NFVnice section 3.2 (wake-up role: backlog, priority, downstream); a quarter of the ring
//! against 32 packets: measured, `headgate bench hop`.

/// The numbers of the rule; times in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A backlog that is always worth a call: a quarter of the ring.
    pub backlog: u32,
    /// The age of the oldest packet that is worth a call although the core is busy with another NF.
    pub age: u64,
    /// The least time between two calls to one NF.
    pub gap: u64,
    /// When a call that had no effect is repeated.
    pub again: u64,
}

/// Oldest age on a busy core, microseconds. Our choice: some ten turns of a core between NFs (2 us a
/// switch plus a burst each), and well below the 4 ms tick by which the kernel would step in.
pub const AGE_MICROS: u64 = 100;
/// Least time between two calls to one NF, microseconds. Our choice: bounds the manager's time spent on
/// one hostile NF to 2 us in 20 on an awake core, while an honest one that slept has had to wait for the
/// NF library's own look-around of this length first.
pub const GAP_MICROS: u64 = 20;
/// When a call without effect is repeated, microseconds. Our choice: longer than the p99 of a wake-up
/// on an idle core (106 us), shorter than anyone notices.
pub const AGAIN_MICROS: u64 = 1000;

impl Marks {
    /// The marks for a ring of `ring` descriptors on a machine whose TSC runs at `cycles_per_micro`.
    #[must_use]
    pub const fn new(ring: u32, cycles_per_micro: u64) -> Self {
        Self {
            backlog: if ring < 4 { 1 } else { ring / 4 },
            age: AGE_MICROS * cycles_per_micro,
            gap: GAP_MICROS * cycles_per_micro,
            again: AGAIN_MICROS * cycles_per_micro,
        }
    }
}

/// How long an NF alone on its core looks at an empty ring before it sleeps, microseconds. Our choice:
/// about what a call to an idle core costs both sides (14 us for the caller, 33-42 us until the sleeper
/// runs), so looking never costs more than twice the better choice (ski rental).
pub const LOOK_ALONE_MICROS: u32 = 50;
/// The same for an NF with neighbours on its core, which could run meanwhile: one switch.
pub const LOOK_SHARED_MICROS: u32 = 2;

/// How long an NF looks at an empty ring before it sleeps, in microseconds.
#[must_use]
pub const fn look_before_sleep_micros(neighbours: usize) -> u32 {
    if neighbours == 0 { LOOK_ALONE_MICROS } else { LOOK_SHARED_MICROS }
}

/// What is known of one sleeping NF; times in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// Packets in its receive ring.
    pub backlog: u32,
    /// Age of the oldest of them.
    pub age: u64,
    /// Time since it was last called.
    pub since_call: u64,
    /// Whether it has taken packets since then.
    pub moved: bool,
    /// Whether another NF of its core is awake.
    pub core_busy: bool,
}

/// Whether to call it now.
#[inline]
#[must_use]
pub const fn worth_a_call(marks: &Marks, sleeper: &Sleeper) -> bool {
    if sleeper.backlog == 0 {
        return false;
    }
    let allowed = if sleeper.moved { marks.gap } else { marks.again };
    if sleeper.since_call < allowed {
        return false;
    }
    !sleeper.core_busy || sleeper.backlog >= marks.backlog || sleeper.age >= marks.age
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: Marks = Marks::new(4096, 2500);
    const RESTED: Sleeper =
        Sleeper { backlog: 1, age: 0, since_call: u64::MAX, moved: true, core_busy: false };

    #[test]
    fn the_first_packet_wakes_an_idle_core() {
        assert!(worth_a_call(&MARKS, &RESTED));
    }

    #[test]
    fn a_busy_core_is_left_alone_until_the_batch_or_the_age_pays() {
        let busy = Sleeper { core_busy: true, ..RESTED };
        assert!(!worth_a_call(&MARKS, &busy));
        assert!(worth_a_call(&MARKS, &Sleeper { backlog: 1024, ..busy }));
        assert!(worth_a_call(&MARKS, &Sleeper { age: 100 * 2500, ..busy }));
    }

    proptest! {
        #[test]
        fn nobody_with_work_sleeps_for_ever(backlog in 1u32..5000, moved: bool, core_busy: bool) {
            let waited = Sleeper { backlog, age: MARKS.age, since_call: MARKS.again, moved, core_busy };
            prop_assert!(worth_a_call(&MARKS, &waited));
        }

        #[test]
        fn an_empty_ring_is_never_worth_a_call(age: u64, since_call: u64, moved: bool, core_busy: bool) {
            let sleeper = Sleeper { backlog: 0, age, since_call, moved, core_busy };
            prop_assert!(!worth_a_call(&MARKS, &sleeper));
        }

        /// However an NF behaves, calls to it are at least `gap` apart, and `again` if it never moves.
        #[test]
        fn calls_are_bounded(
            steps in prop::collection::vec((1u64..50_000, any::<bool>(), 0u32..5000, any::<bool>()), 1..300)
        ) {
            let (mut now, mut called, mut moved_since) = (0u64, None::<u64>, true);
            for (pass, moves, backlog, core_busy) in steps {
                now += pass;
                moved_since |= moves;
                let since_call = called.map_or(u64::MAX, |at| now - at);
                let sleeper = Sleeper { backlog, age: now, since_call, moved: moved_since, core_busy };
                if worth_a_call(&MARKS, &sleeper) {
                    if let Some(last) = called {
                        let least = if moved_since { MARKS.gap } else { MARKS.again };
                        prop_assert!(now - last >= least);
                    }
                    called = Some(now);
                    moved_since = false;
                }
            }
        }
    }
}
