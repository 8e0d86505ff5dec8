//! The bound holds and costs no throughput, in a model of one server behind one queue.

use std::collections::VecDeque;
use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

const MARKS: BoundMarks = BoundMarks::new(Span::from_micros(500), 1000);
/// Cycles between two passes of the worker in the model.
const PASS: u64 = 5_000;

/// So many bounds of [`MARKS`], in quarters.
fn quarters(count: u64) -> Ticks {
    Ticks(count * MARKS.bound.0 / 4)
}

fn ticks(count: u64) -> Ticks {
    Ticks(count * MARKS.tick.0)
}

/// One server behind one queue, fed in bursts, shed by the rule.
struct Model {
    now: u64,
    queue: VecDeque<u64>,
    /// Cycles of work owed.
    credit: u64,
    cost: u64,
    limit: Limit,
    seen: ChainObservation,
    marks: BoundMarks,
    /// Figures of the last run: delays, packets kept out, passes without work, changes of the window.
    delays: Vec<u64>,
    idle: usize,
    changed: Vec<u64>,
}

impl Model {
    fn new(cost: u64, marks: BoundMarks) -> Self {
        let (limit, seen) = (Limit::default(), ChainObservation::default());
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

    /// `load` percent of what the server can do, for `passes`, its ring 4096 long.
    fn run(&mut self, load: u64, passes: u64) -> u64 {
        let (shed, mut owed) = (self.seen.shed, 0);
        (self.delays, self.idle, self.changed) = (Vec::new(), 0, Vec::new());
        for _ in 0..passes {
            self.now += PASS;
            self.serve();
            owed += PASS * load;
            while owed >= 100 * self.cost {
                owed -= 100 * self.cost;
                self.offer();
            }
            let before = self.limit;
            self.limit = before.step(Ticks(self.now), &self.seen, &self.marks);
            if self.limit != before {
                self.seen.longest = Ticks(0);
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
        self.credit += PASS;
        while self.credit >= self.cost {
            let Some(arrived) = self.queue.pop_front() else {
                self.credit = 0;
                self.idle += 1;
                return;
            };
            self.credit -= self.cost;
            self.seen.left += 1;
            self.delays.push(self.now - arrived);
            if self.limit.window().is_none() || Ticks(arrived) >= self.limit.since() {
                self.seen.longest = self.seen.longest.max(Ticks(self.now - arrived));
            }
        }
    }
}

#[test]
fn nothing_is_kept_out_before_the_bound_is_exceeded() {
    let limit = Limit::default();
    let seen = ChainObservation { longest: MARKS.bound, left: 10_000, shed: 0 };
    assert_eq!(limit.step(MARKS.tick, &seen, &MARKS).window(), None);
    let seen = ChainObservation { longest: MARKS.bound + Ticks(1), ..seen };
    assert_eq!(limit.step(Ticks(MARKS.tick.0 - 1), &seen, &MARKS), limit);
    // 10,000 packets in two bounds: 5,000 in one.
    assert_eq!(limit.step(MARKS.tick, &seen, &MARKS).window(), Some(5000));
}

#[test]
fn a_window_is_judged_by_the_packets_that_came_in_under_it() {
    let seen = ChainObservation { longest: quarters(8), left: 1000, shed: 0 };
    let limit = Limit::default().step(MARKS.tick, &seen, &MARKS);
    let still_draining = ChainObservation { longest: Ticks(0), left: 5000, shed: 90 };
    assert_eq!(limit.step(ticks(9), &still_draining, &MARKS), limit);
    let late = ChainObservation { longest: quarters(16), ..still_draining };
    assert_eq!(limit.step(ticks(9), &late, &MARKS).window(), Some(250));
    let early = ChainObservation { longest: quarters(2), ..still_draining };
    assert_eq!(limit.step(ticks(9), &early, &MARKS).window(), Some(750));
    let unused = ChainObservation { shed: 0, longest: MARKS.bound, ..still_draining };
    assert_eq!(limit.step(ticks(9), &unused, &MARKS).window(), Some(500));
}

/// A chain is overloaded by half for 20 ticks and then has little to do: its windows, tick by tick.
#[test]
fn the_window_is_this_table() {
    let mut table = String::from(
        "bound of 500 us, one packet in 1 us: window at each tick of 1 ms, longest delay in us\n",
    );
    let mut model = Model::new(1_000, MARKS);
    let mut line = |model: &mut Model, load: u64| {
        let shed = model.run(load, MARKS.tick.0 / PASS);
        let longest = model.delays.iter().max().map_or(0, |longest| longest / 1000);
        writeln!(table, "load {load:>3} %: {:?}, {longest}, {shed} shed", model.limit.window()).unwrap();
    };
    (0..20).for_each(|_| line(&mut model, 150));
    (0..4).for_each(|_| line(&mut model, 30));
    writeln!(table, "us of calm until there is no window: {}", MARKS.calm.0 / 1000).unwrap();
    snapshot::assert("bound", &table);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Overloaded, every packet is in time and the server is never idle; when the load falls the
    /// limit ends, and nothing is shed any more.
    #[test]
    fn the_bound_holds_and_costs_no_throughput(
        cost in 100u64..5_000, load in 110u64..2_000, bound_micros in 200u64..5_000, after in 0u64..45
    ) {
        let marks = BoundMarks::new(Span::from_micros(bound_micros), 1000);
        let (bound, tick, calm) = (marks.bound.0, marks.tick.0, marks.calm.0);
        // More packets fit into the bound than into the smallest window, and fewer than into the ring.
        prop_assume!((64..3_000).contains(&(bound / cost)));
        let passes = |ticks: u64| ticks * tick / PASS + 1;
        let mut model = Model::new(cost, marks);
        model.run(load, passes(60));
        let shed = model.run(load, passes(50));
        let longest = model.delays.iter().copied().max().unwrap_or(0);
        prop_assert!(longest <= bound + bound / 8 + 2 * PASS, "{longest} of {}", bound);
        prop_assert!(longest >= bound / 2, "{longest} of {}", bound);
        prop_assert_eq!(model.idle, 0);
        prop_assert!(shed > 0);
        model.run(after, passes(2) + calm * 2 / PASS);
        prop_assert_eq!(model.limit.window(), None);
        prop_assert_eq!(model.run(after, passes(20)), 0);
    }

    /// No more come in than the window has room for, and all that it has room for; an instance that holds
    /// nothing is never kept idle, and those below their parts hold less than a window together.
    #[test]
    fn a_window_is_filled_and_never_overfilled(window in 1u32..100_000, inside in 0u64..200_000, count in 0usize..=128, held in prop::collection::vec(0u64..5_000, 1..9)) {
        let fits = room(window, inside, count);
        prop_assert!(fits == count || inside + fits as u64 >= window.into());
        prop_assert!(fits == 0 || inside + fits as u64 <= window.into());
        let below = held.iter().filter(|&&one| is_below_its_part(one, window, held.len()));
        prop_assert!(is_below_its_part(0, window, held.len()));
        prop_assert!(below.sum::<u64>() <= u64::from(window));
    }

    /// Below its bound nothing is ever shed.
    #[test]
    fn no_load_that_fits_is_shed(cost in 100u64..5_000, loads in prop::collection::vec(0u64..99, 1..20)) {
        let mut model = Model::new(cost, MARKS);
        for load in loads {
            prop_assert_eq!(model.run(load, 500), 0);
        }
    }

    /// Whatever is seen: windows change a tick apart at least, only grow where packets were kept out, come
    /// only with a delay above the bound, and none is left when delays are short.
    #[test]
    fn no_oscillation_and_no_window_without_reason(
        steps in prop::collection::vec((0u64..3 * MARKS.tick.0, any::<u32>(), 0u64..1_000_000, 0u64..3), 1..300)
    ) {
        let (mut limit, mut now, mut seen, mut changed) = (Limit::default(), Ticks(0), ChainObservation::default(), None);
        for (pass, longest, left, shed) in steps {
            now = now + Ticks(pass);
            let kept_out = limit.shed != seen.shed + shed;
            seen = ChainObservation { longest: Ticks(longest.into()), left: seen.left + left, shed: seen.shed + shed };
            let next = limit.step(now, &seen, &MARKS);
            if next.window() != limit.window() {
                prop_assert!(changed.is_none_or(|before| now.since(before) >= MARKS.tick));
                changed = Some(now);
                match (limit.window(), next.window()) {
                    (None, _) => prop_assert!(seen.longest > MARKS.bound),
                    (Some(_), None) => prop_assert!(seen.longest <= quarters(2) && !kept_out),
                    (Some(old), Some(new)) if new > old => prop_assert!(kept_out && seen.longest <= MARKS.bound),
                    (Some(old), Some(new)) => prop_assert!(new >= old / 2 && seen.longest > MARKS.bound),
                }
            }
            prop_assert!(next.window().is_none_or(|window| window >= WINDOW_MIN));
            limit = next;
        }
        for _ in 0..MARKS.calm.0 / MARKS.tick.0 + 3 {
            now = now + MARKS.tick;
            limit = limit.step(now, &ChainObservation { longest: Ticks(1), ..seen }, &MARKS);
        }
        prop_assert_eq!(limit.window(), None);
    }
}
