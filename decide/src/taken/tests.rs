//! What was counted becomes what is said.

use super::*;
use crate::snapshot;
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec;

const CORE: CoreId = CoreId(1);

/// Counters of one core with tasks of ours, a second at a time.
struct Core {
    decided: TakenCores,
    now: Instant,
    sample: Sample,
}

impl Core {
    fn with_tasks(tasks: u32) -> Self {
        let task = |task| TaskTimes { task, ran: Span(0), waited: Span(0) };
        let tasks = (0..tasks).map(task).collect();
        let core = CoreSample { core: CORE, stolen: Span(0), busy: Span(0), beside: Span(0), tasks };
        let mut this =
            Self { decided: TakenCores::new(()), now: Instant(0), sample: Sample { cores: vec![core] } };
        this.poll();
        this
    }

    fn poll(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        self.decided.poll(self.now, &self.sample, &mut actions);
        self.now = self.now + SAMPLE_EVERY;
        actions
    }

    /// A second in which tasks ran and waited for so many percent, and the hypervisor had some.
    fn second(&mut self, tasks: &[(u64, u64)], stolen: u64) -> Vec<Action> {
        let of = |percent: u64| SAMPLE_EVERY.0 * percent / 100;
        let core = &mut self.sample.cores[0];
        core.stolen.0 += of(stolen);
        for (task, (ran, waited)) in core.tasks.iter_mut().zip(tasks) {
            task.ran.0 += of(*ran);
            task.waited.0 += of(*waited);
        }
        self.poll()
    }

    fn seconds(&mut self, count: u32, tasks: &[(u64, u64)], stolen: u64) -> Vec<Action> {
        (0..count).flat_map(|_| self.second(tasks, stolen)).collect()
    }
}

const fn taken(by: Taker, part: f64) -> Action {
    Action::Taken { core: CORE, by, part }
}

#[test]
fn a_worker_that_shares_its_core_with_a_stranger_is_told_of_once_and_when_it_ends() {
    let mut core = Core::with_tasks(1);
    assert_eq!(core.seconds(BEGINS_AFTER - 1, &[(50, 50)], 0), []);
    assert_eq!(core.second(&[(50, 50)], 0), [taken(Taker::Programs, 0.5)]);
    assert_eq!(core.seconds(20, &[(50, 50)], 0), [], "told already");
    assert_eq!(core.decided.taken().collect::<Vec<_>>(), [(CORE, Taker::Programs, 0.5)]);
    assert_eq!(core.seconds(ENDS_AFTER - 1, &[(100, 0)], 0), []);
    assert_eq!(core.second(&[(100, 0)], 0), [Action::Free { core: CORE, by: Taker::Programs }]);
    assert_eq!(core.decided.taken().count(), 0);
}

#[test]
fn a_program_that_comes_and_goes_is_told_of_once() {
    let mut core = Core::with_tasks(1);
    let mut told = core.seconds(BEGINS_AFTER, &[(50, 50)], 0);
    for _ in 0..10 {
        told.extend(core.seconds(ENDS_AFTER - 1, &[(100, 0)], 0));
        told.extend(core.seconds(1, &[(80, 20)], 0));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    let mut core = Core::with_tasks(1);
    let short = (0..10).flat_map(|_| {
        [core.seconds(BEGINS_AFTER - 1, &[(50, 50)], 0), core.seconds(1, &[(100, 0)], 0)].concat()
    });
    assert_eq!(short.count(), 0, "too short to tell");
}

#[test]
fn what_ours_have_is_not_taken() {
    let mut core = Core::with_tasks(2);
    assert_eq!(core.seconds(10, &[(50, 50), (50, 50)], 0), [], "two NFs in turn");
    assert_eq!(core.seconds(10, &[(0, 100), (100, 0)], 0), [], "one has it all");
    // Two of three parts are ours, and the third waits for what is neither's.
    assert_eq!(core.seconds(3, &[(33, 67), (33, 67)], 0), [taken(Taker::Programs, 0.34)]);
}

#[test]
fn a_core_whose_nfs_sleep_may_be_used() {
    let mut core = Core::with_tasks(1);
    assert_eq!(core.seconds(10, &[(0, 0)], 0), []);
    assert_eq!(core.seconds(10, &[(5, 4)], 0), [], "a waking NF waits a little");
}

#[test]
fn what_other_threads_of_ours_may_have_had_is_no_ones_fault() {
    let mut core = Core::with_tasks(1);
    let mut told = Vec::new();
    for _ in 0..10 {
        core.sample.cores[0].beside.0 += SAMPLE_EVERY.0 * 45 / 100;
        told.extend(core.second(&[(50, 50)], 0));
    }
    assert_eq!((told, core.decided.is_shared(CORE)), (vec![], false));
}

/// An NF to which few packets come, each of which waits for its core.
#[test]
fn an_nf_that_waits_longer_than_it_works_shares_its_core() {
    let seconds = |busy: u64, task: (u64, u64), count: u32| {
        let (mut core, mut told) = (Core::with_tasks(1), Vec::new());
        for _ in 0..count {
            core.sample.cores[0].busy.0 += SAMPLE_EVERY.0 * busy / 100;
            told.extend(core.second(&[task], 0));
        }
        (told, core.decided.is_shared(CORE))
    };
    assert_eq!(seconds(100, (1, 5), BEGINS_AFTER), (vec![taken(Taker::Programs, 0.05)], true));
    assert_eq!(seconds(100, (1, 5), BEGINS_AFTER - 1), (vec![], false), "not yet");
    assert_eq!(seconds(100, (1, 0), 10), (vec![], false), "next to nothing");
    assert_eq!(seconds(100, (9, 5), 10), (vec![], false), "it works longer than it waits");
    // Its core was idle, and the kernel took its time to wake that up.
    assert_eq!(seconds(6, (1, 5), 10), (vec![], false), "nobody had the core");
}

/// Threads of ours that are kept elsewhere, however much they do, explain no waiting here.
#[test]
fn what_ours_do_on_other_cores_hides_nobody() {
    let other = CoreId(0);
    let of = |core, beside, tasks: Vec<TaskTimes>| CoreSample {
        core,
        stolen: Span(0),
        busy: Span(0),
        beside,
        tasks,
    };
    let percent = |percent: u64| Span(SAMPLE_EVERY.0 * percent / 100);
    let (mut decided, mut told) = (TakenCores::new(()), Vec::new());
    for second in 0..=u64::from(BEGINS_AFTER) {
        let task = TaskTimes { task: 1, ran: percent(5 * second), waited: percent(40 * second) };
        let cores = vec![of(other, percent(95 * second), Vec::new()), of(CORE, Span(0), vec![task])];
        decided.poll(Instant(0) + SAMPLE_EVERY.times(second), &Sample { cores }, &mut told);
    }
    assert_eq!(told, [taken(Taker::Programs, 0.4)]);
    assert_eq!((decided.is_shared(CORE), decided.is_shared(other)), (true, false));
}

/// A core that was busy before this manager began is as shared as one that becomes so: found by a
/// worker that polls there, or by the first samples, and it stays so.
#[test]
fn a_core_that_was_taken_before_the_start_is_shared_as_any_other() {
    let mut core = Core::with_tasks(2);
    assert!(!core.decided.is_shared(CORE));
    assert_eq!(core.seconds(BEGINS_AFTER, &[(2, 60), (2, 55)], 0), [taken(Taker::Programs, 0.58)]);
    assert!(core.decided.is_shared(CORE));
    core.seconds(ENDS_AFTER, &[(2, 0), (2, 0)], 0);
    assert_eq!((core.decided.taken().count(), core.decided.is_shared(CORE)), (0, true));
    let mut core = Core::with_tasks(1);
    core.decided.on(Instant(0), Event::Polled { core: CORE }, &mut Vec::new());
    assert!(core.decided.is_shared(CORE), "NFs pre-empt there from the first packet on");
    let mut core = Core::with_tasks(1);
    core.seconds(10, &[(70, 30)], 30);
    assert!(!core.decided.is_shared(CORE), "no policy helps against the hypervisor");
}

#[test]
fn what_the_hypervisor_takes_is_told_apart() {
    let mut core = Core::with_tasks(1);
    assert_eq!(core.seconds(3, &[(70, 30)], 30), [taken(Taker::Hypervisor, 0.3)]);
    assert_eq!(core.seconds(2, &[(20, 50)], 30), [], "programs too, now");
    assert_eq!(core.second(&[(20, 50)], 30), [taken(Taker::Programs, 0.2)]);
    assert_eq!(core.decided.taken().count(), 2);
}

#[test]
fn a_core_that_was_polled_at_the_start_is_taken_until_it_is_seen_to_be_free() {
    let mut core = Core::with_tasks(1);
    let mut told = Vec::new();
    core.decided.on(Instant(0), Event::Polled { core: CORE }, &mut told);
    assert_eq!((told.len(), core.decided.taken().count()), (0, 1));
    assert_eq!(core.seconds(10, &[(50, 50)], 0), [], "told at the start");
    assert_eq!(core.seconds(5, &[(100, 0)], 0), [Action::Free { core: CORE, by: Taker::Programs }]);
}

#[test]
fn a_task_that_has_come_and_a_core_that_is_given_up_are_no_mistakes() {
    let mut core = Core::with_tasks(1);
    core.seconds(3, &[(50, 50)], 0);
    // A successor begins to count anew, and its predecessor had the core.
    core.sample.cores[0].tasks[0] =
        TaskTimes { task: 9, ran: Span(SAMPLE_EVERY.0 / 2), waited: Span(u64::MAX / 2) };
    assert_eq!(core.poll(), []);
    core.sample.cores.clear();
    assert_eq!((core.poll(), core.decided.taken().count()), (vec![], 0));
}

#[test]
fn nothing_is_sampled_before_it_is_due() {
    let mut decided = TakenCores::new(());
    decided.poll(Instant(0), &Sample::default(), &mut Vec::new());
    assert_eq!(decided.poll_at(), Some(Instant(0) + SAMPLE_EVERY));
    let (Some((then, _)), at) = (decided.before.clone(), Instant(1)) else { panic!() };
    decided.poll(at, &Sample::default(), &mut Vec::new());
    assert_eq!(decided.before.unwrap().0, then);
}

/// How long it takes until a core is taken, and until it is free again.
#[test]
fn what_is_taken_is_a_table() {
    let mut table =
        String::from("a worker waits for so much of each second: taken after, free again after (s)\n");
    for percent in [0, 5, 9, 10, 11, 25, 50, 90, 100] {
        let until = |core: &mut Core, percent: u64| {
            let seconds = (1..=10).find(|_| !core.second(&[(100 - percent, percent)], 0).is_empty());
            seconds.map_or("never".into(), |seconds: u32| format!("{seconds}"))
        };
        let begins = until(&mut Core::with_tasks(1), percent);
        table += &format!("{percent:3} %: {begins:>5}");
        if begins != "never" {
            let ends = [0, 4, 5, 9].map(|rest| {
                let mut core = Core::with_tasks(1);
                until(&mut core, percent);
                format!("{} at {rest} %", until(&mut core, rest))
            });
            table += &format!("; {}", ends.join(", "));
        }
        table += "\n";
    }
    snapshot::assert("taken", &table);
}

proptest! {
    /// Whatever is counted, messages alternate, parts are parts, and nothing overflows.
    #[test]
    fn messages_alternate(
        counts in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), 0u64..3), 1..60),
    ) {
        let mut decided = TakenCores::new(());
        let mut is_taken = [false; 2];
        for (second, (ran, waited, stolen, task)) in counts.into_iter().enumerate() {
            let times = |add: u64| TaskTimes {
                task: (task + add) as u32, ran: Span(ran >> 8), waited: Span(waited),
            };
            let (stolen, beside) = (Span(stolen >> 8), Span(ran >> 9));
            let core = CoreSample {
                core: CORE, stolen, busy: Span(waited >> 7), beside, tasks: vec![times(0), times(1)],
            };
            let sample = Sample { cores: vec![core] };
            let mut actions = Vec::new();
            decided.poll(Instant(0) + SAMPLE_EVERY.times(second as u64), &sample, &mut actions);
            for action in actions {
                match action {
                    Action::Taken { by, part, .. } => {
                        prop_assert!((SLIGHT_AT..=1.0).contains(&part));
                        prop_assert!(!std::mem::replace(&mut is_taken[by as usize], true));
                    }
                    Action::Free { by, .. } => {
                        prop_assert!(std::mem::replace(&mut is_taken[by as usize], false));
                    }
                }
            }
        }
    }
}
