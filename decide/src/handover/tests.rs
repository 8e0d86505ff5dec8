use proptest::prelude::*;

use super::*;

const fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

#[test]
fn a_hand_over_goes_through_its_steps() {
    let mut old = Predecessor::new();
    assert_eq!(old.on_asked(at(0)), Some(Parting::StopReceiving));
    assert_eq!(old.on_asked(at(1)), None);
    let inside = |in_flight, is_taken| Inside { in_flight, is_taken, ..Inside::default() };
    assert_eq!(old.poll(at(1), inside(3, false)), None);
    // None is inside yet, and a worker that has not heard may still take some in.
    assert_eq!(old.poll(at(2), Inside { may_receive: true, ..Inside::default() }), None);
    assert_eq!(old.poll(at(2), inside(0, false)), Some(Parting::Give));
    assert_eq!(old.poll(at(3), inside(0, false)), None);
    assert!(old.is_under_way() && !old.has_given());
    assert_eq!(old.poll(at(4), inside(0, true)), Some(Parting::End));
    assert!(old.has_given() && !old.is_under_way());
    assert_eq!(old.on_asked(at(5)), None);

    let mut new = Successor::new(at(0));
    let seen = |is_ready, has_interfaces, has_kept| Prepared {
        is_ready,
        has_interfaces,
        has_kept,
        ..Prepared::default()
    };
    assert_eq!(new.poll(at(0), seen(false, false, false)), None);
    assert_eq!(new.poll(at(1), seen(true, false, false)), Some(Arriving::Ask));
    assert_eq!(new.poll(at(2), seen(true, false, false)), None);
    assert_eq!(new.poll(at(3), seen(true, true, false)), Some(Arriving::TakeUp));
    assert!(!new.may_serve());
    assert_eq!(new.poll(at(4), seen(true, true, true)), Some(Arriving::Begin { whole: true }));
    assert!(new.may_serve());
}

#[test]
fn packets_that_stay_keep_the_predecessor_serving() {
    let mut old = Predecessor::default();
    old.on_asked(at(0)).unwrap();
    let stuck = Inside { in_flight: 1, ..Inside::default() };
    let late = Instant(DRAIN_PATIENCE.0);
    assert_eq!(old.poll(late, stuck), Some(Parting::GoOn(Failure::NotDrained)));
    // And another one may be tried.
    assert_eq!(old.on_asked(late), Some(Parting::StopReceiving));
}

#[test]
fn a_successor_that_ends_or_is_silent_changes_nothing() {
    for (seen, when, why) in [
        (Inside { is_lost: true, ..Inside::default() }, at(3), Failure::Lost),
        (Inside::default(), at(2_000), Failure::NotTaken),
    ] {
        let mut old = Predecessor::new();
        old.on_asked(at(0)).unwrap();
        assert_eq!(old.poll(at(2), Inside::default()), Some(Parting::Give));
        if why == Failure::NotTaken {
            assert_eq!(old.poll(when, seen), Some(Parting::Close));
        }
        assert_eq!(old.poll(when, seen), Some(Parting::GoOn(why)));
        assert!(!old.is_under_way());
    }
}

#[test]
fn a_word_that_came_just_in_time_counts() {
    let mut old = Predecessor::new();
    old.on_asked(at(0)).unwrap();
    old.poll(at(1), Inside::default()).unwrap();
    assert_eq!(old.poll(at(2_000), Inside::default()), Some(Parting::Close));
    let taken = Inside { is_taken: true, ..Inside::default() };
    assert_eq!(old.poll(at(2_000), taken), Some(Parting::End));
    let ready = Prepared { is_ready: true, has_interfaces: true, ..Prepared::default() };
    let mut new = Successor::new(at(0));
    new.poll(at(0), ready).unwrap();
    assert_eq!(new.poll(at(1), ready), Some(Arriving::TakeUp));
    assert_eq!(new.on_refused(), Some(Arriving::GiveUp));
    assert!(!new.may_serve());
}

#[test]
fn a_successor_begins_without_what_does_not_come() {
    let mut new = Successor::new(at(0));
    let ready = Prepared { is_ready: true, has_interfaces: true, ..Prepared::default() };
    assert_eq!(new.poll(at(0), ready), Some(Arriving::Ask));
    assert_eq!(new.poll(at(1), ready), Some(Arriving::TakeUp));
    let lost = Prepared { is_lost: true, ..ready };
    assert_eq!(new.poll(at(2), lost), Some(Arriving::Begin { whole: false }));
    let mut refused = Successor::new(at(0));
    assert_eq!(refused.on_refused(), None);
    refused.poll(at(0), ready).unwrap();
    assert_eq!(refused.on_refused(), Some(Arriving::GiveUp));
    assert_eq!(refused.poll(at(1), lost), None);
    let mut slow = Successor::new(at(0));
    let late = Instant(PREPARE_PATIENCE.0);
    assert_eq!(slow.poll(late, Prepared::default()), Some(Arriving::GiveUp));
    assert!(!slow.may_serve() && !slow.is_preparing());
    let mut broken = Successor::new(at(0));
    let hopeless = Prepared { is_hopeless: true, ..Prepared::default() };
    assert_eq!(broken.poll(at(1), hopeless), Some(Arriving::GiveUp));
}

/// Both together, with a wire between them that is as late as it likes, and either may end at any moment.
struct Pair {
    old: Predecessor,
    new: Successor,
    now: u64,
    inside: u64,
    receives: bool,
    given: bool,
    /// A word on its way, and one that has arrived.
    word: bool,
    taken_word: bool,
    is_closed: bool,
    new_has: bool,
    kept: bool,
    new_dead: bool,
    old_ended: bool,
}

impl Pair {
    fn new() -> Self {
        Self {
            old: Predecessor::new(),
            new: Successor::new(at(0)),
            now: 0,
            inside: 0,
            receives: true,
            given: false,
            word: false,
            taken_word: false,
            is_closed: false,
            new_has: false,
            kept: false,
            new_dead: false,
            old_ended: false,
        }
    }

    fn step(&mut self, choice: u8, ms: u64) {
        self.now += ms;
        let now = at(self.now);
        match choice % 8 {
            0 if self.receives => self.inside += 1,
            1 => self.inside = self.inside.saturating_sub(1),
            2 => self.poll_old(now),
            3 => self.taken_word |= self.word,
            4 | 5 => self.poll_new(now),
            6 => self.kept = self.old_ended,
            7 if ms > 95 => self.new_dead = true,
            _ => {}
        }
    }

    fn poll_old(&mut self, now: Instant) {
        let seen = Inside {
            in_flight: self.inside,
            may_receive: false,
            is_lost: self.new_dead,
            is_taken: self.taken_word,
        };
        match self.old.poll(now, seen) {
            Some(Parting::Give) => {
                assert_eq!(self.inside, 0, "given with packets inside");
                self.given = true;
            }
            // What it gave it has back.
            Some(Parting::GoOn(_)) => {
                assert!(!self.new_has || self.new_dead, "both have the interfaces");
                (self.receives, self.is_closed) = (true, true);
            }
            Some(Parting::Close) => (self.is_closed, self.taken_word) = (true, self.word),
            Some(Parting::End) => self.old_ended = true,
            Some(Parting::StopReceiving) => unreachable!("nobody asked"),
            None => {}
        }
    }

    fn poll_new(&mut self, now: Instant) {
        if self.new_dead {
            return;
        }
        let (has_interfaces, is_lost) = (self.given, self.is_closed && !self.old_ended);
        let seen =
            Prepared { is_ready: true, has_interfaces, has_kept: self.kept, is_lost, ..Prepared::default() };
        match self.new.poll(now, seen) {
            Some(Arriving::Ask) => {
                assert_eq!(self.old.on_asked(now), Some(Parting::StopReceiving));
                self.receives = false;
            }
            Some(Arriving::TakeUp) if self.is_closed => {
                assert_eq!(self.new.on_refused(), Some(Arriving::GiveUp));
                self.new_dead = true;
            }
            Some(Arriving::TakeUp) => (self.word, self.new_has) = (true, true),
            Some(Arriving::GiveUp) => self.new_dead = true,
            Some(Arriving::Begin { .. }) | None => {}
        }
    }
}

proptest! {
    /// They never both receive, and never neither for longer than the patience allows.
    #[test]
    fn one_of_both_serves(steps in proptest::collection::vec((any::<u8>(), 0_u64..100), 1..400)) {
        let mut pair = Pair::new();
        for (choice, ms) in steps {
            pair.step(choice, ms);
            prop_assert!(!(pair.receives && pair.new.may_serve()), "both take packets");
            prop_assert!(!pair.old_ended || pair.new_has, "the predecessor ended for nothing");
        }
        // The rest of it, with nothing that disturbs.
        for _ in 0..4_000 {
            pair.step(1, 1);
            pair.step(2, 1);
            pair.step(3, 1);
            pair.step(4, 1);
            pair.step(6, 1);
        }
        prop_assert!(pair.receives || pair.new.may_serve() || (pair.new_dead && pair.old_ended));
    }
}
