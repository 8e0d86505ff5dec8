use std::collections::BTreeMap;

use super::*;

const MS: Span = Span::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant(0) + Span(MS.0 * ms)
}

const fn group(number: u16, part: Part, ms: u64) -> Group {
    Group { number, part, hand_over: Span::from_millis(ms) }
}

fn warned(within_ms: u64) -> Evacuation {
    let mut evacuation = Evacuation::new(());
    evacuation.on(at(0), Event::Warned { within: Span::from_millis(within_ms) }, &mut Vec::new());
    evacuation
}

fn polled(evacuation: &mut Evacuation, ms: u64, groups: &[Group]) -> Vec<Action> {
    let mut actions = Vec::new();
    evacuation.poll(at(ms), groups, &mut actions);
    actions
}

#[test]
fn the_cheapest_goes_first_and_the_next_when_it_has_left() {
    let mut evacuation = warned(1000);
    let mut groups = [group(0, Part::Protected, 300), group(1, Part::Protected, 100)];
    assert_eq!(polled(&mut evacuation, 0, &groups), [Action::HandOver(1)]);
    assert_eq!(polled(&mut evacuation, 5, &groups), [], "it is asked for once");
    assert_eq!(
        polled(&mut evacuation, 100, &groups),
        [Action::HandOver(1)],
        "and again, in case it was lost"
    );
    groups[1].part = Part::Standby;
    let left =
        Report::Left { after: Span::from_millis(120), left: Some(Span::from_millis(880)), by_failure: false };
    assert_eq!(polled(&mut evacuation, 120, &groups), [Action::Report(1, left), Action::HandOver(0)]);
}

#[test]
fn all_go_at_once_where_the_time_is_too_short_for_one_after_the_other() {
    let groups = [group(0, Part::Protected, 300), group(1, Part::Protected, 200)];
    assert_eq!(polled(&mut warned(400), 0, &groups), [Action::HandOver(1), Action::HandOver(0)]);
}

#[test]
fn a_hand_over_that_would_come_too_late_is_a_failure_in_time() {
    let groups = [group(0, Part::Protected, 50), group(1, Part::Protected, 2000)];
    let mut evacuation = warned(1000);
    let late = Report::TooLate { takes: Span::from_secs(2), left: Span::from_secs(1) };
    let first = polled(&mut evacuation, 0, &groups);
    assert_eq!(first, [Action::HandOver(0), Action::Report(1, late), Action::FailOver(1)]);
    assert_eq!(polled(&mut evacuation, 50, &groups), []);
    // A hand-over that does not come to its end takes the same path while there is time.
    let then = polled(&mut evacuation, 951, &groups);
    assert!(then.contains(&Action::FailOver(0)) && then.contains(&Action::FailOver(1)), "{then:?}");
}

#[test]
fn nobody_takes_a_group_without_a_standby_and_that_is_told_once() {
    let mut evacuation = warned(100);
    let mut groups = [group(0, Part::Alone, 50)];
    assert_eq!(polled(&mut evacuation, 0, &groups), []);
    let given_up = Action::Report(0, Report::GivenUp { alone: true });
    assert_eq!(polled(&mut evacuation, 100, &groups), [given_up]);
    assert_eq!(polled(&mut evacuation, 105, &groups), []);
    // Another warning, and somebody stands by.
    evacuation.on(at(200), Event::Warned { within: Span::from_secs(1) }, &mut Vec::new());
    groups[0].part = Part::Protected;
    assert_eq!(polled(&mut evacuation, 200, &groups), [Action::HandOver(0)]);
}

#[test]
fn what_leaves_when_the_time_is_over_left_all_the_same() {
    let mut evacuation = warned(20);
    let mut groups = [group(0, Part::Protected, 50)];
    assert!(polled(&mut evacuation, 0, &groups).contains(&Action::FailOver(0)));
    let given_up = Action::Report(0, Report::GivenUp { alone: false });
    assert_eq!(polled(&mut evacuation, 20, &groups), [given_up]);
    groups[0].part = Part::Neither;
    let left = Report::Left { after: Span::from_millis(30), left: None, by_failure: true };
    assert_eq!(polled(&mut evacuation, 30, &groups), [Action::Report(0, left)]);
    groups[0].part = Part::Standby;
    evacuation.on(at(40), Event::Withdrawn, &mut Vec::new());
    assert_eq!(polled(&mut evacuation, 40, &groups), [Action::HandOver(0)]);
}

#[test]
fn what_a_withdrawn_warning_moved_comes_back_and_nothing_else() {
    let mut evacuation = warned(1000);
    let mut groups =
        [group(0, Part::Protected, 10), group(1, Part::Standby, 10), group(2, Part::Protected, 20)];
    polled(&mut evacuation, 0, &groups);
    groups[0].part = Part::Standby;
    assert!(polled(&mut evacuation, 20, &groups).contains(&Action::HandOver(2)));
    let mut actions = Vec::new();
    evacuation.on(at(30), Event::Withdrawn, &mut actions);
    assert_eq!(actions, [Action::Stay(2)]);
    assert_eq!(evacuation.until(), None);
    assert_eq!(polled(&mut evacuation, 30, &groups), [Action::HandOver(0)]);
    groups[0].part = Part::Protected;
    let returned = Report::Returned { after: Span::from_millis(20) };
    assert_eq!(polled(&mut evacuation, 50, &groups), [Action::Report(0, returned)]);
    assert_eq!(polled(&mut evacuation, 500, &groups), []);
    assert_eq!(evacuation.poll_at(), None, "nothing is left to do");
}

#[test]
fn a_group_that_left_while_it_was_asked_to_stay_comes_back() {
    let mut evacuation = warned(1000);
    let mut groups = [group(0, Part::Protected, 10)];
    polled(&mut evacuation, 0, &groups);
    evacuation.on(at(5), Event::Withdrawn, &mut Vec::new());
    assert_eq!(polled(&mut evacuation, 5, &groups), []);
    groups[0].part = Part::Standby;
    assert_eq!(polled(&mut evacuation, 10, &groups), [Action::HandOver(0)]);
}

#[test]
fn one_that_does_not_come_back_is_told() {
    let mut evacuation = warned(1000);
    let mut groups = [group(0, Part::Protected, 10)];
    polled(&mut evacuation, 0, &groups);
    groups[0].part = Part::Neither;
    polled(&mut evacuation, 10, &groups);
    evacuation.on(at(20), Event::Withdrawn, &mut Vec::new());
    assert_eq!(polled(&mut evacuation, 20, &groups), [], "there is nothing that it could go on from");
    let end = 20 + RETURN_PATIENCE.as_millis();
    assert_eq!(polled(&mut evacuation, end, &groups), [Action::Report(0, Report::NotReturned)]);
    assert_eq!(evacuation.poll_at(), None);
}

/// Groups, warnings and their ends in any order: whatever is asked for was active here, a warning that is
/// long enough for all leaves nothing behind, and at the end of everything nothing is left to do.
#[test]
fn whatever_happens_it_comes_to_an_end() {
    for seed in 0..500_u64 {
        let mut random = seed;
        let mut next = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let mut groups: Vec<Group> =
            (0..1 + next(6) as u16).map(|number| group(number, Part::Protected, 1 + next(200))).collect();
        let total: u64 = groups.iter().map(|group| group.hand_over.as_millis()).sum();
        let mut evacuation = warned(2 * total + 200);
        let mut ends: BTreeMap<u16, u64> = BTreeMap::new();
        for ms in (0..=2 * total + 200).step_by(5) {
            for action in polled(&mut evacuation, ms, &groups) {
                if let Action::HandOver(number) = action {
                    let takes = groups[usize::from(number)].hand_over.as_millis() / (1 + next(2));
                    ends.entry(number).or_insert(ms + takes);
                }
                assert!(!matches!(action, Action::FailOver(_) | Action::Report(_, Report::GivenUp { .. })));
            }
            for (number, _) in ends.iter().filter(|(_, end)| **end <= ms) {
                groups[usize::from(*number)].part = Part::Standby;
            }
        }
        assert!(groups.iter().all(|group| group.part == Part::Standby), "seed {seed}: {groups:?}");
        evacuation.on(at(10_000), Event::Withdrawn, &mut Vec::new());
        let back: Vec<Action> = polled(&mut evacuation, 10_000, &groups);
        assert_eq!(back.len(), groups.len(), "seed {seed}");
        groups.iter_mut().for_each(|group| group.part = Part::Protected);
        polled(&mut evacuation, 10_010, &groups);
        assert_eq!(evacuation.poll_at(), None, "seed {seed}");
    }
}
