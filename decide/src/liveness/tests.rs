//! NFs that hang in one way or another, and NFs that do not.

use super::*;
use crate::snapshot;
use proptest::prelude::*;
use std::format;
use std::string::String;

/// An NF at one moment.
#[derive(Clone, Copy)]
struct World {
    held: u64,
    progress: u64,
    process: ProcessSample,
}

const fn world(held: u64, progress: u64, cpu_millis: u64, state: TaskState) -> World {
    let process = ProcessSample { cpu: Span::from_millis(cpu_millis), state, disk_beat: None };
    World { held, progress, process }
}

fn with_beat(world: World, beat: u64) -> World {
    World { process: ProcessSample { disk_beat: Some(beat), ..world.process }, ..world }
}

/// Polls at one moment, and answers what is asked.
fn polled(liveness: &mut Liveness, now: Instant, world: &World) -> Option<Hang> {
    let mut actions = Vec::new();
    liveness.poll(now, &(), &mut actions);
    while let Some(action) = actions.pop() {
        let event = match action {
            Action::Count => Event::Counted { held: world.held, progress: world.progress },
            Action::SampleProcess => Event::Process(world.process),
            Action::GiveUp(hang) => return Some(hang),
        };
        liveness.on(now, event, &mut actions);
    }
    None
}

/// Watches an NF whose state follows from the number of the sample, for so many seconds. Why it is given
/// up, and after how many tenths of a second.
fn watch(seconds: u64, world: impl Fn(u64) -> World) -> Option<(Hang, u64)> {
    let mut liveness = Liveness::default();
    (0..seconds * 10).find_map(|sample| {
        let now = Instant(0) + SAMPLE_EVERY.times(sample);
        polled(&mut liveness, now, &world(sample)).map(|hang| (hang, sample))
    })
}

#[test]
fn each_way_to_hang_has_its_name_and_its_time() {
    use TaskState::{Asleep, Runnable, Stopped};
    assert_eq!(watch(60, |_| world(5, 1, 0, Stopped)), Some((Hang::Stopped, 6)));
    assert_eq!(watch(60, |sample| world(5, 1, sample * 100, Runnable)), Some((Hang::Looping, 6)));
    assert_eq!(watch(60, |_| world(5, 1, 0, Asleep)), Some((Hang::Blocked, 51)));
}

#[test]
fn a_starved_nf_is_not_blamed() {
    assert_eq!(watch(60, |_| world(5, 1, 10, TaskState::Runnable)), None);
}

#[test]
fn the_kernel_is_asked_only_about_an_nf_that_holds_packets_and_stands_still() {
    let mut liveness = Liveness::default();
    let mut asked = |held, progress| {
        let mut actions = Vec::new();
        liveness.on(Instant(0), Event::Counted { held, progress }, &mut actions);
        !actions.is_empty()
    };
    assert_eq!(
        [asked(5, 1), asked(5, 1), asked(0, 1), asked(5, 2), asked(5, 2)],
        [false, true, false, false, true]
    );
}

#[test]
fn a_fresh_process_is_not_blamed_for_the_last_one() {
    let mut liveness = Liveness::default();
    let stopped = world(5, 1, 0, TaskState::Stopped);
    let at = |sample| Instant(0) + SAMPLE_EVERY.times(sample);
    assert!((0..6).all(|sample| polled(&mut liveness, at(sample), &stopped).is_none()));
    liveness.on(at(6), Event::Begins, &mut Vec::new());
    assert_eq!(polled(&mut liveness, at(6), &stopped), None);
}

#[test]
fn an_nf_that_waits_for_its_disk_is_left_alone_but_not_for_ever() {
    let waits = |sample| with_beat(world(5, 1, sample, TaskState::Asleep), sample);
    assert_eq!(watch(60, waits), None);
    assert_eq!(watch(120, waits), Some((Hang::Blocked, 651)));
    // A polling loop uses its core while it waits.
    let polls = |sample| with_beat(world(5, 1, sample * 100, TaskState::Runnable), sample);
    assert_eq!(watch(60, polls), None);
}

#[test]
fn an_nf_that_only_says_that_it_waits_is_not_believed() {
    let says = |state, cpu: u64| move |sample| with_beat(world(5, 1, sample * cpu, state), 7);
    assert_eq!(watch(60, says(TaskState::Runnable, 100)), Some((Hang::Looping, 16)));
    assert_eq!(watch(60, says(TaskState::Asleep, 0)), Some((Hang::Blocked, 61)));
    let stopped = |sample| with_beat(world(5, 1, 0, TaskState::Stopped), sample);
    assert_eq!(watch(60, stopped), Some((Hang::Stopped, 6)));
}

#[test]
fn what_is_given_up_when_is_a_table() {
    use TaskState::{Asleep, Runnable, Stopped};
    let mut table = String::from("an NF that holds packets and returns none, sampled every 100 ms\n");
    for (state, name) in [(Runnable, "runnable"), (Stopped, "stopped"), (Asleep, "asleep")] {
        for cpu_percent in [0, 10, 100] {
            for (says, beat) in [("no disk", None), ("one beat", Some(0)), ("beats", Some(1))] {
                let lives = |sample: u64| {
                    let world = world(5, 1, sample * cpu_percent, state);
                    beat.map_or(world, |each| with_beat(world, sample * each))
                };
                let given_up = watch(120, lives).map_or(String::from("never"), |(hang, tenths)| {
                    format!("{hang:?} after {:4.1} s", tenths as f64 / 10.0)
                });
                table += &format!("{name:8}  CPU {cpu_percent:3} %  {says:8}  ->  {given_up}\n");
            }
        }
    }
    snapshot::assert("liveness", &table);
}

proptest! {
    /// Whatever an NF claims, and however it changes its claim: without progress it is given up.
    #[test]
    fn no_claim_buys_more_than_the_limits(claims in prop::collection::vec(prop::option::of(any::<u64>()), 1..20)) {
        let claimed = |sample: u64| claims[sample as usize % claims.len()];
        let lies = |sample: u64| {
            let world = world(5, 1, 0, TaskState::Asleep);
            claimed(sample).map_or(world, |beat| with_beat(world, beat ^ sample))
        };
        prop_assert!(watch(70, lies).is_some());
    }

    #[test]
    fn progress_or_an_empty_ring_is_always_enough(steps in prop::collection::vec((any::<bool>(), 0u64..10_000), 1..50)) {
        let (mut liveness, mut now, mut progress) = (Liveness::default(), 0, 0);
        for (empty, pass) in steps {
            now += pass;
            progress += u64::from(!empty);
            let seen = world(u64::from(!empty), progress, now, TaskState::Runnable);
            prop_assert_eq!(polled(&mut liveness, Instant(now * 1_000_000), &seen), None);
        }
    }
}
