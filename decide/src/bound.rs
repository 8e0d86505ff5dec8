//! How many packets of a chain may be inside at once, so that none takes longer than the chain's delay bound.
//!
//! The problem: a ring of thousands of packets in front of a dear NF is milliseconds of delay for every packet that
//! is let in, and shedding by the length of that ring (`pressure`) keeps it long. Shedding by the delay that is
//! *measured* at the chain's end is too late by just this delay: what is inside already will be late as well.
//!
//! The intuition: Little's law. Packets inside = rate at which they leave x time they take. So a delay is bounded
//! by a *window* of packets inside: a packet is let in as one leaves, whatever the rates of both ends are, and
//! the delay comes to rest at window / rate without swinging. The measured delay only sets the window: to `window x bound /
//! delay`, all of the way down and half of the way up, no more often than every [`Marks::tick`], and only by packets
//! that came in under the window that is judged.
//!
//! There is no window before a packet has taken longer than the bound. The first one is the rate of the last tick
//! times the bound. A window that lets everything in while delays are below half of the bound for
//! [`Marks::calm`] has done its work and goes.
//!
//! Where flows of one chain are spread over instances, the slow ones are relieved first ([`relief`]).
//!
//! What it refuses to do: predict a delay, or drop what is inside.
//!
//! Sources: dissertation section 6.2.2 (shed or re-route flows beyond their delay constraint); Little (1961); a window
//! for each chain instead of a rate, as TCP has, because it needs no clock.

/// The numbers of the rule for one chain; times in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// No packet shall take longer.
    pub bound: u64,
    /// Least time between two windows.
    pub tick: u64,
    /// How long delays must be short before the window goes.
    pub calm: u64,
}

/// Least time of calm, microseconds. Our choice: as long as the figures that people see look back.
const CALM_MICROS_MIN: u64 = 100_000;
/// The smallest window. Our choice: NFVnice's batch of 32; with fewer packets each of them would pay for a turn.
pub const WINDOW_MIN: u32 = 32;
/// The largest: more than all rings of a chain hold.
const WINDOW_MAX: u32 = 1 << 30;

impl Marks {
    /// The marks of a bound. A tick is twice the bound: the first half passes until a packet that came in
    /// under the new window has come out.
    #[must_use]
    pub const fn new(bound_micros: u64, cycles_per_micro: u64) -> Self {
        let calm = if bound_micros * 20 > CALM_MICROS_MIN { bound_micros * 20 } else { CALM_MICROS_MIN };
        let bound = bound_micros * cycles_per_micro;
        Self { bound, tick: 2 * bound, calm: calm * cycles_per_micro }
    }
}

/// What is seen of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The longest delay since the last look of a packet that came in since [`Limit::since`], in TSC cycles; 0: none
    /// came out. While there is no window it counts whenever the packet came in.
    pub longest: u64,
    /// Packets that left, ever.
    pub left: u64,
    /// Packets that the window kept out, ever.
    pub shed: u64,
}

/// What a chain may have inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    window: Option<u32>,
    /// Since when it is no larger than this.
    since: u64,
    judged: u64,
    /// What had been seen by then.
    left: u64,
    shed: u64,
    /// Since when delays are short and nothing is kept out.
    calm_since: u64,
}

impl Limit {
    /// Packets that may be inside; `None`: any number.
    #[must_use]
    pub const fn window(&self) -> Option<u32> {
        self.window
    }

    /// Packets that came in since then came in under this window or a smaller one, in TSC cycles.
    #[must_use]
    pub const fn since(&self) -> u64 {
        self.since
    }

    /// Whether [`Limit::step`] has to do something.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now: u64, marks: &Marks) -> bool {
        now.wrapping_sub(self.judged) >= marks.tick
    }

    /// What to let in from now on.
    #[must_use]
    pub fn step(self, now: u64, seen: &Seen, marks: &Marks) -> Self {
        if !self.is_due(now, marks) {
            return self;
        }
        let next = Self { judged: now, left: seen.left, shed: seen.shed, ..self };
        let Some(window) = self.window else {
            if seen.longest <= marks.bound {
                return next;
            }
            let left = seen.left.wrapping_sub(self.left);
            let window = scaled(left, marks.bound, now.wrapping_sub(self.judged));
            return Self { window: Some(window), since: now, calm_since: now, ..next };
        };
        let kept_out = seen.shed != self.shed;
        if seen.longest == 0 && kept_out {
            // What was inside before is still on its way out, or nothing moves at all.
            return self;
        }
        if seen.longest <= marks.bound / 2 && !kept_out {
            let is_over = now.wrapping_sub(self.calm_since) >= marks.calm;
            return Self { window: self.window.filter(|_| !is_over), ..next };
        }
        let fitting = scaled(window.into(), marks.bound, seen.longest.max(1));
        if seen.longest > marks.bound {
            let window = fitting.max(window / 2).max(WINDOW_MIN);
            return Self { window: Some(window), since: now, calm_since: now, ..next };
        }
        let more = if kept_out { ((fitting - window) / 2).min(window) } else { 0 };
        Self { window: Some((window + more).min(WINDOW_MAX)), calm_since: now, ..next }
    }
}

/// `packets x bound / time`, within what a window may be.
fn scaled(packets: u64, bound: u64, time: u64) -> u32 {
    let window = u128::from(packets) * u128::from(bound) / u128::from(time.max(1));
    window.clamp(WINDOW_MIN.into(), WINDOW_MAX.into()) as u32
}

/// Of the instances of a stage, given by how long packets wait for each, which one shall give up flows to which
/// other one; `None` where that would not help: the slowest is far below the bound, or the fastest has no half of
/// its delay.
#[must_use]
pub fn relief(delays: &[u64], bound: u64) -> Option<(usize, usize)> {
    let slowest = (0..delays.len()).max_by_key(|&at| delays[at])?;
    let fastest = (0..delays.len()).min_by_key(|&at| delays[at])?;
    let helps = delays[slowest] > bound / 2 && delays[fastest] < delays[slowest] / 2;
    helps.then_some((slowest, fastest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const MARKS: Marks = Marks::new(500, 1000);
    /// Cycles between two looks of the worker in the model.
    const TURN: u64 = 5_000;

    /// One server behind one queue, fed in bursts, shed by the rule.
    struct Model {
        now: u64,
        queue: VecDeque<u64>,
        /// Cycles of work owed.
        credit: u64,
        cost: u64,
        limit: Limit,
        seen: Seen,
        marks: Marks,
        /// Of the last run: delays, packets kept out, turns without work, changes of the window.
        delays: Vec<u64>,
        idle: usize,
        changed: Vec<u64>,
    }

    impl Model {
        fn new(cost: u64, marks: Marks) -> Self {
            let (limit, seen) = (Limit::default(), Seen::default());
            Self {
                now: 0,
                queue: VecDeque::new(),
                credit: 0,
                cost,
                limit,
                seen,
                marks,
                delays: Vec::new(),
                idle: 0,
                changed: Vec::new(),
            }
        }

        /// `load` percent of what the server can do, for `turns`, its ring 4096 long.
        fn run(&mut self, load: u64, turns: u64) -> u64 {
            let (shed, mut owed) = (self.seen.shed, 0);
            (self.delays, self.idle, self.changed) = (Vec::new(), 0, Vec::new());
            for _ in 0..turns {
                self.now += TURN;
                self.serve();
                owed += TURN * load;
                while owed >= 100 * self.cost {
                    owed -= 100 * self.cost;
                    self.offer();
                }
                let before = self.limit;
                self.limit = before.step(self.now, &self.seen, &self.marks);
                if self.limit != before {
                    self.seen.longest = 0;
                }
                if self.limit.window != before.window {
                    self.changed.push(self.now);
                }
            }
            self.seen.shed - shed
        }

        fn offer(&mut self) {
            match self.limit.window() {
                Some(window) if self.queue.len() >= window as usize => self.seen.shed += 1,
                _ if self.queue.len() >= 4096 => {}
                _ => self.queue.push_back(self.now),
            }
        }

        fn serve(&mut self) {
            self.credit += TURN;
            while self.credit >= self.cost {
                let Some(arrived) = self.queue.pop_front() else {
                    self.credit = 0;
                    self.idle += 1;
                    return;
                };
                self.credit -= self.cost;
                self.seen.left += 1;
                self.delays.push(self.now - arrived);
                if self.limit.window().is_none() || arrived >= self.limit.since() {
                    self.seen.longest = self.seen.longest.max(self.now - arrived);
                }
            }
        }
    }

    #[test]
    fn nothing_is_kept_out_before_the_bound_is_exceeded() {
        let limit = Limit::default();
        let seen = Seen { longest: MARKS.bound, left: 10_000, shed: 0 };
        assert_eq!(limit.step(MARKS.tick, &seen, &MARKS).window(), None);
        let seen = Seen { longest: MARKS.bound + 1, ..seen };
        assert_eq!(limit.step(MARKS.tick - 1, &seen, &MARKS), limit);
        // 10,000 packets in two bounds: 5,000 in one.
        assert_eq!(limit.step(MARKS.tick, &seen, &MARKS).window(), Some(5000));
    }

    #[test]
    fn a_window_is_judged_by_the_packets_that_came_in_under_it() {
        let seen = Seen { longest: 2 * MARKS.bound, left: 1000, shed: 0 };
        let limit = Limit::default().step(MARKS.tick, &seen, &MARKS);
        let still_draining = Seen { longest: 0, left: 5000, shed: 90 };
        assert_eq!(limit.step(9 * MARKS.tick, &still_draining, &MARKS), limit);
        let late = Seen { longest: 4 * MARKS.bound, ..still_draining };
        assert_eq!(limit.step(9 * MARKS.tick, &late, &MARKS).window(), Some(250));
        let early = Seen { longest: MARKS.bound / 2, ..still_draining };
        assert_eq!(limit.step(9 * MARKS.tick, &early, &MARKS).window(), Some(750));
        let unused = Seen { shed: 0, longest: MARKS.bound, ..still_draining };
        assert_eq!(limit.step(9 * MARKS.tick, &unused, &MARKS).window(), Some(500));
    }

    #[test]
    fn flows_move_from_the_slowest_to_the_fastest_where_that_helps() {
        assert_eq!(relief(&[100, 900, 300], 1000), Some((1, 0)));
        assert_eq!(relief(&[100, 400, 300], 1000), None, "nobody is near the bound");
        assert_eq!(relief(&[500, 900, 600], 1000), None, "all of them are slow");
        assert_eq!(relief(&[900], 1000), None);
        assert_eq!(relief(&[], 1000), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Overloaded, every packet is in time and the server is never idle; when the load falls the
        /// limit ends, and nothing is shed any more.
        #[test]
        fn the_bound_holds_and_costs_no_throughput(
            cost in 100u64..5_000, load in 110u64..2_000, bound_micros in 200u64..5_000, after in 0u64..45
        ) {
            let marks = Marks::new(bound_micros, 1000);
            // More packets fit into the bound than into the smallest window, and fewer than into the ring.
            prop_assume!((64..3_000).contains(&(marks.bound / cost)));
            let turns = |ticks: u64| ticks * marks.tick / TURN + 1;
            let mut model = Model::new(cost, marks);
            model.run(load, turns(60));
            let shed = model.run(load, turns(50));
            let longest = model.delays.iter().copied().max().unwrap_or(0);
            prop_assert!(longest <= marks.bound + marks.bound / 8 + 2 * TURN, "{longest} of {}", marks.bound);
            prop_assert!(longest >= marks.bound / 2, "{longest} of {}", marks.bound);
            prop_assert_eq!(model.idle, 0);
            prop_assert!(shed > 0);
            model.run(after, turns(2) + marks.calm * 2 / TURN);
            prop_assert_eq!(model.limit.window(), None);
            prop_assert_eq!(model.run(after, turns(20)), 0);
        }

        /// Below its bound nothing is ever shed.
        #[test]
        fn no_load_that_fits_is_shed(cost in 100u64..5_000, loads in prop::collection::vec(0u64..99, 1..20)) {
            let mut model = Model::new(cost, MARKS);
            for load in loads {
                prop_assert_eq!(model.run(load, 500), 0);
            }
        }

        /// Whatever is seen: windows change a tick apart at least, only grow where packets were kept out, come only with
        /// a delay above the bound, and none is left when delays are short.
        #[test]
        fn no_oscillation_and_no_window_without_reason(
            steps in prop::collection::vec((0u64..3 * MARKS.tick, any::<u32>(), 0u64..1_000_000, 0u64..3), 1..300)
        ) {
            let (mut limit, mut now, mut seen, mut changed) = (Limit::default(), 0u64, Seen::default(), None);
            for (pass, longest, left, shed) in steps {
                now += pass;
                let kept_out = limit.shed != seen.shed + shed;
                seen = Seen { longest: u64::from(longest), left: seen.left + left, shed: seen.shed + shed };
                let next = limit.step(now, &seen, &MARKS);
                if next.window() != limit.window() {
                    prop_assert!(changed.is_none_or(|before| now - before >= MARKS.tick));
                    changed = Some(now);
                    match (limit.window(), next.window()) {
                        (None, _) => prop_assert!(seen.longest > MARKS.bound),
                        (Some(_), None) => prop_assert!(seen.longest <= MARKS.bound / 2 && !kept_out),
                        (Some(old), Some(new)) if new > old => prop_assert!(kept_out && seen.longest <= MARKS.bound),
                        (Some(old), Some(new)) => prop_assert!(new >= old / 2 && seen.longest > MARKS.bound),
                    }
                }
                prop_assert!(next.window().is_none_or(|window| window >= WINDOW_MIN));
                limit = next;
            }
            for _ in 0..MARKS.calm / MARKS.tick + 3 {
                now += MARKS.tick;
                limit = limit.step(now, &Seen { longest: 1, ..seen }, &MARKS);
            }
            prop_assert_eq!(limit.window(), None);
        }
    }
}
