//! Which sleeping NF is worth a wake-up call now, and who makes room for it.
//!
//! The problem: a call costs the caller a system call, and much more when the sleeper's core is idle,
//! because the interrupt leaves the virtual machine (14 us for the caller, 33-42 us until the sleeper
//! runs); a sleeper on a core that is awake costs 1-4 us. Calling for every burst wastes both cores;
//! waiting for a batch costs latency when there is little traffic.
//!
//! The intuition: *keep the core awake, and take turns on it*. An NF does not sleep the moment its ring is
//! empty: it looks at it for [`LOOK_MICROS`], so that at a steady rate an NF with a core of its own is not
//! called at all, and a neighbour that is called meanwhile needs no interrupt. Whoever is called sends the
//! NFs of its core that only look to sleep (the *give-way* order), so looking takes nothing from a
//! neighbour with work.
//!
//! What a call waits for depends on what the core does instead. If it is idle, for nothing. If another NF
//! has a burst of packets or more there, waking a second one only makes the two take turns more often: it waits
//! until its batch pays for the turn, a quarter of the ring, or until its oldest packet is
//! [`Marks::age_working`] old. If the others only look, or have less than that ([`TRICKLE`]), the same batch is
//! worth waiting for, but not as long, and not at all when packets only trickle in.
//!
//! A hostile NF can claim to sleep all the time. A call is repeated only after the NF has taken packets
//! since the last one, or after [`Marks::again`]; and no NF is called more often than [`Marks::gap`].
//!
//! What it refuses to do: predict arrivals, or treat an NF's own claims as anything but a hint.
//!
//! Sources: NFVnice section 3.2 (wake-up role: backlog, priority, downstream); a quarter of the ring
//! against 32 packets, and looking against sleeping: measured, `headgate bench hop`.

/// The numbers of the rule; times in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A backlog that is always worth a call: a quarter of the ring.
    pub backlog: u32,
    /// The age of the oldest packet that is worth a call while another NF of the core has packets.
    pub age_working: u64,
    /// The same while the others of the core only look at their empty rings.
    pub age_looking: u64,
    /// The same while they look and less than a burst has come: at that rate waiting gathers nothing.
    pub age_trickle: u64,
    /// The least time between two calls to one NF.
    pub gap: u64,
    /// When a call that had no effect is repeated.
    pub again: u64,
}

/// Oldest age on a core that works, microseconds. Our choice: some ten turns of a core between NFs (2 us a
/// switch plus a burst each), and well below the 4 ms tick by which the kernel would step in.
pub const AGE_WORKING_MICROS: u64 = 100;
/// Oldest age on a core that only looks, microseconds. Our choice: what a call to an idle core would have
/// taken until the NF ran (33-42 us median), so that keeping cores awake delays nobody.
pub const AGE_LOOKING_MICROS: u64 = 30;
/// Oldest age on a core that only looks, of packets that only trickle in, microseconds. Our choice: some
/// turns of a loaded worker.
pub const AGE_TRICKLE_MICROS: u64 = 5;
/// Fewer packets than this are a trickle: a burst of the NF library.
pub const TRICKLE: u32 = 64;
/// Longest turn of an NF on a core that others want too, microseconds. Our choice: what a batch of a quarter
/// of the ring takes the heavy NF of the papers (1,024 times 550 cycles); a heavier one would keep light
/// neighbours waiting until their rings are full.
pub const TURN_MICROS: u32 = 250;
/// A round of the turns of a core whose NFs have shares, microseconds, and the shortest turn in it. Our choice: the
/// rings of the papers' NFs hold several rounds at any rate a core can serve; a shorter turn would be mostly switch.
pub const ROUND_MICROS: u32 = 1000;
const TURN_MICROS_MIN: u32 = 20;

/// The longest turn of an NF with this share of its core, in parts of `whole`, microseconds. Turns must be as
/// unequal as shares: the kernel goes round among NFs that sleep after each turn. One that feeds another NF of
/// its core empties its ring, so that the queue of a chain stands where the chain is slow and not where others
/// have to pass; what it must not do is bounded by its rest.
#[must_use]
pub const fn turn_micros(share: u32, whole: u32, feeds: bool) -> u32 {
    let turn = (ROUND_MICROS as u64 * share as u64 / whole as u64) as u32;
    let least = if feeds { TURN_MICROS } else { TURN_MICROS_MIN };
    if turn < least { least } else { turn }
}

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
            age_working: AGE_WORKING_MICROS * cycles_per_micro,
            age_looking: AGE_LOOKING_MICROS * cycles_per_micro,
            age_trickle: AGE_TRICKLE_MICROS * cycles_per_micro,
            gap: GAP_MICROS * cycles_per_micro,
            again: AGAIN_MICROS * cycles_per_micro,
        }
    }
}

/// How long an NF looks at an empty ring before it sleeps, microseconds. Our choice: about what a call to
/// an idle core costs both sides (14 us for the caller, 33-42 us until the sleeper runs), so looking never
/// costs more than twice the better choice (ski rental).
pub const LOOK_MICROS: u32 = 50;
/// The same for an NF on a core where others may want to work and cannot say so: one switch.
pub const LOOK_BRIEFLY_MICROS: u32 = 2;

/// How long an NF looks at an empty ring before it sleeps, in microseconds.
#[must_use]
pub const fn look_before_sleep_micros(briefly: bool) -> u32 {
    if briefly { LOOK_BRIEFLY_MICROS } else { LOOK_MICROS }
}

/// What the other NFs on a sleeper's core do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Core {
    /// All of them sleep.
    Idle,
    /// At least one is awake, and none has more than a trickle of packets.
    Looking,
    /// At least one has more than that.
    Working,
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
    /// What its core does meanwhile.
    pub core: Core,
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
    let age_enough = match sleeper.core {
        Core::Idle => return true,
        Core::Looking if sleeper.backlog < TRICKLE => marks.age_trickle,
        Core::Looking => marks.age_looking,
        Core::Working => marks.age_working,
    };
    sleeper.backlog >= marks.backlog || sleeper.age >= age_enough
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: Marks = Marks::new(4096, 2500);
    const RESTED: Sleeper =
        Sleeper { backlog: 1, age: 0, since_call: u64::MAX, moved: true, core: Core::Idle };

    #[test]
    fn the_first_packet_wakes_an_idle_core() {
        assert!(worth_a_call(&MARKS, &RESTED));
    }

    #[test]
    fn turns_are_as_unequal_as_shares() {
        let turn = |feeds| move |share| turn_micros(share, 10_000, feeds);
        assert_eq!([0, 100, 3_500, 10_000].map(turn(false)), [20, 20, 350, 1000]);
        assert_eq!([0, 100, 3_500, 10_000].map(turn(true)), [250, 250, 350, 1000]);
    }

    #[test]
    fn an_awake_core_is_left_alone_until_the_batch_or_the_age_pays() {
        for (core, backlog, micros) in [
            (Core::Looking, 1, 5),
            (Core::Looking, 64, 30),
            (Core::Working, 1, 100),
            (Core::Working, 64, 100),
        ] {
            let awake = Sleeper { core, backlog, ..RESTED };
            assert!(!worth_a_call(&MARKS, &Sleeper { age: micros * 2500 - 1, ..awake }));
            assert!(worth_a_call(&MARKS, &Sleeper { age: micros * 2500, ..awake }));
            assert!(!worth_a_call(&MARKS, &Sleeper { backlog: 1023, ..awake }));
            assert!(worth_a_call(&MARKS, &Sleeper { backlog: 1024, ..awake }));
        }
    }

    fn cores() -> impl Strategy<Value = Core> {
        prop_oneof![Just(Core::Idle), Just(Core::Looking), Just(Core::Working)]
    }

    proptest! {
        #[test]
        fn nobody_with_work_sleeps_for_ever(backlog in 1u32..5000, moved: bool, core in cores()) {
            let waited = Sleeper { backlog, age: MARKS.age_working, since_call: MARKS.again, moved, core };
            prop_assert!(worth_a_call(&MARKS, &waited));
        }

        #[test]
        fn an_empty_ring_is_never_worth_a_call(age: u64, since_call: u64, moved: bool, core in cores()) {
            let sleeper = Sleeper { backlog: 0, age, since_call, moved, core };
            prop_assert!(!worth_a_call(&MARKS, &sleeper));
        }

        /// However an NF behaves, calls to it are at least `gap` apart, and `again` if it never moves.
        #[test]
        fn calls_are_bounded(
            steps in prop::collection::vec((1u64..50_000, any::<bool>(), 0u32..5000, cores()), 1..300)
        ) {
            let (mut now, mut called, mut moved_since) = (0u64, None::<u64>, true);
            for (pass, moves, backlog, core) in steps {
                now += pass;
                moved_since |= moves;
                let since_call = called.map_or(u64::MAX, |at| now - at);
                let sleeper = Sleeper { backlog, age: now, since_call, moved: moved_since, core };
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
