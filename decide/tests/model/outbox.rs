//! Outputs on their way to the gate: a node, its successor and a gate over a link that loses, doubles and
//! reorders; every run within bounds.

use std::collections::BTreeSet;

use headgate_decide::replicate::outbox::{Coming, Gone, Inbox, Outbox, Place, Taken};
use headgate_decide::replicate::{Boot, Clock, LANES_MAX, Lane, View};
use headgate_decide::units::{Instant, Span};
use stateright::{Checker, Model};

use super::explore::{Search, Walk};

const LANE: Lane = Lane(0);
const NOW: Instant = Instant(0);
const LATER: Instant = Instant(u64::MAX);
/// Outputs by clock: one, none, two.
const OUTPUTS: [u32; 3] = [1, 0, 2];

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Error {
    None,
    /// Outputs do not name the one before them.
    Nameless,
    /// A checkpoint is made while the gate has not all outputs before its cut.
    CutAhead,
    /// A node sends in a view before it has heard the gate.
    Unheard,
    /// A gate that was started again says that it is in the same life.
    SameLife,
}

/// Something on the link. Frames stay: one that is not delivered is lost, and one that is delivered again is
/// doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Frame {
    Out(View, Place, Place),
    Taken(View, Boot, Place, u16),
}

/// How often things happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct May {
    /// The node is lost, and another one goes on from the cut.
    promote: u8,
    /// The gate is started again.
    crash: u8,
    /// The view changes, and nothing else.
    change: u8,
    /// Time runs out.
    time_out: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    error: Error,
    outbox: Outbox<Place>,
    inbox: Inbox,
    /// Views of the node and of the gate, and the gate's life.
    views: [View; 2],
    boot: Boot,
    frames: BTreeSet<Frame>,
    /// Clock up to which the node is finished, and the last cut.
    finished: u64,
    cut: u64,
    left: Vec<Place>,
    in_doubt: Vec<Place>,
    may: May,
    is_wrong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Work,
    Send,
    Deliver(Frame),
    TimeOut,
    Cut,
    Promote,
    GateCrash,
    ViewChange,
    Adopt,
}

impl World {
    fn new(may: May, error: Error) -> Self {
        let mut world = Self {
            error,
            outbox: empty(),
            inbox: inbox(Boot(1)),
            views: [View(1), View(1)],
            boot: Boot(1),
            frames: BTreeSet::new(),
            finished: 0,
            cut: 0,
            left: Vec::new(),
            in_doubt: Vec::new(),
            may,
            is_wrong: false,
        };
        world.tell();
        world
    }
}

impl Walk for World {
    type Step = Step;

    fn steps(&self, steps: &mut Vec<Step>) {
        let gate_has_all = self.outbox.taken(LANE, Clock(self.finished)).0 >= self.finished;
        let wanted = [
            (Step::Work, self.finished < OUTPUTS.len() as u64),
            (Step::Send, self.outbox.next(LANE).is_some()),
            (Step::TimeOut, self.may.time_out > 0),
            (Step::Cut, self.cut < self.finished && (gate_has_all || self.error == Error::CutAhead)),
            (Step::Promote, self.may.promote > 0),
            (Step::GateCrash, self.may.crash > 0),
            (Step::ViewChange, self.may.change > 0),
            (Step::Adopt, self.views[0] != self.views[1]),
        ];
        steps.extend(wanted.iter().filter(|(_, is)| *is).map(|(step, _)| *step));
        steps.extend(self.frames.iter().map(|frame| Step::Deliver(*frame)));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Work => {
                self.finished += 1;
                self.push(self.finished);
            }
            Step::Send => self.send(),
            Step::Deliver(frame) => self.deliver(frame),
            Step::TimeOut => {
                self.may.time_out -= 1;
                self.outbox.poll(LATER);
            }
            Step::Cut => self.cut = self.finished,
            Step::Promote => {
                self.may.promote -= 1;
                self.views = [self.views[1].next(); 2];
                self.outbox = empty();
                (self.cut + 1..=self.finished).for_each(|clock| self.push(clock));
                self.inbox.begin_view();
                self.tell();
            }
            Step::GateCrash => {
                self.may.crash -= 1;
                self.views[1] = self.views[1].next();
                self.boot = if self.error == Error::SameLife { self.boot } else { self.boot.next() };
                self.inbox = inbox(self.boot);
                self.tell();
            }
            Step::ViewChange => {
                self.may.change -= 1;
                self.views[1] = self.views[1].next();
                self.inbox.begin_view();
                self.tell();
            }
            Step::Adopt => {
                self.views[0] = self.views[1];
                if self.error != Error::Unheard {
                    self.outbox.begin_view();
                }
            }
        }
        // What nobody heeds any more is as good as lost.
        let [node, gate] = self.views;
        self.frames.retain(|frame| match frame {
            Frame::Out(view, ..) => *view >= gate,
            Frame::Taken(view, ..) => *view >= node,
        });
    }

    fn is_wrong(&self) -> bool {
        self.is_wrong
    }

    /// Whether everything leaves that was made, once the link is good.
    fn heals(&self) -> bool {
        let mut world = self.clone();
        if world.views[0] != world.views[1] {
            world.step(Step::Adopt);
        }
        // It says so again and again until it is heard.
        world.tell();
        for _ in 0..4 {
            world.outbox.poll(LATER);
            while world.outbox.next(LANE).is_some() {
                world.send();
            }
            for _ in 0..2 {
                for frame in world.frames.clone() {
                    world.deliver(frame);
                }
            }
        }
        all(world.finished).all(|place| world.is_known(&place)) && world.outbox.len(LANE) == 0
    }
}

impl World {
    fn push(&mut self, clock: u64) {
        self.outbox.allow(LANE, Clock(clock));
        for number in 1..=OUTPUTS[clock as usize - 1] {
            let place = Place { clock: Clock(clock), number };
            let _ = self.outbox.push(LANE, Clock(clock), place);
        }
    }

    fn send(&mut self) {
        let Some((after, place, _)) = self.outbox.next(LANE) else { return };
        let after = if self.error == Error::Nameless { Place::default() } else { after };
        self.frames.insert(Frame::Out(self.views[0], after, place));
        self.outbox.sent(NOW, LANE);
    }

    /// The gate says what it has, as soon as there is something to say: the link is as late as it likes.
    fn tell(&mut self) {
        if let Some(Taken { boot, places, again }) = self.inbox.poll(LATER) {
            self.frames.insert(Frame::Taken(self.views[1], boot, places[0], again));
        }
    }

    fn deliver(&mut self, frame: Frame) {
        match frame {
            Frame::Out(view, after, place) if view == self.views[1] => {
                if self.inbox.take(NOW, LANE, after, place) == Coming::Next {
                    // Twice, or behind one that comes after it.
                    self.is_wrong |= self.left.last().is_some_and(|last| *last >= place);
                    self.left.push(place);
                }
                self.tell();
            }
            Frame::Taken(view, boot, place, again) if view == self.views[0] => {
                let in_doubt = &mut self.in_doubt;
                self.outbox.on_taken(NOW, &taken(boot, place, again), |_, place, gone| {
                    if gone == Gone::InDoubt {
                        in_doubt.push(place);
                    }
                });
            }
            _ => {}
        }
        let last = self.left.last().copied().unwrap_or_default();
        self.is_wrong |= all(self.finished).any(|place| place < last && !self.is_known(&place));
        // Nothing is in doubt where the gate lives on.
        self.is_wrong |= !self.in_doubt.is_empty() && self.boot == Boot(1);
    }

    fn is_known(&self, place: &Place) -> bool {
        self.left.contains(place) || self.in_doubt.contains(place)
    }
}

fn empty() -> Outbox<Place> {
    Outbox::new(1, 4, Span(1))
}

fn inbox(boot: Boot) -> Inbox {
    let mut inbox = Inbox::new(1, boot, Span(1));
    inbox.begin_view();
    inbox
}

fn taken(boot: Boot, place: Place, again: u16) -> Taken {
    let mut places = [Place::default(); LANES_MAX];
    places[0] = place;
    Taken { boot, places, again }
}

/// Every output of clocks up to one.
fn all(finished: u64) -> impl Iterator<Item = Place> {
    (1..=finished).flat_map(move |clock| {
        (1..=OUTPUTS[clock as usize - 1]).map(move |number| Place { clock: Clock(clock), number })
    })
}

/// Searches every run. Returns the number of states, and what is wrong with some.
fn search(may: May, error: Error) -> (usize, Vec<String>) {
    let checker = Search(World::new(may, error)).checker().spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let told = found.map(|(name, path)| format!("not {name}: {:?}", path.into_actions()));
    (checker.unique_state_count(), told.collect())
}

#[test]
fn each_output_leaves_once_whatever_fails() {
    let all = May { promote: 1, crash: 1, change: 1, time_out: 1 };
    for may in [May { crash: 0, ..all }, May { promote: 0, ..all }, May { time_out: 3, ..May::default() }] {
        let (states, found) = search(may, Error::None);
        assert!(found.is_empty(), "{may:?}: {}", found.join("\n"));
        println!("{may:?}: {states} states");
    }
}

#[test]
fn each_error_on_the_way_to_the_gate_is_found() {
    let nothing = May::default();
    let cases = [
        (Error::Nameless, nothing),
        (Error::CutAhead, May { promote: 1, ..nothing }),
        (Error::Unheard, May { crash: 1, time_out: 1, ..nothing }),
        (Error::SameLife, May { crash: 1, ..nothing }),
    ];
    for (error, may) in cases {
        assert!(!search(may, error).1.is_empty(), "{error:?} is not found");
    }
}

#[test]
fn a_window_bounds_what_is_under_way() {
    const MANY: u64 = 10_000;
    let mut outbox = Outbox::new(1, 0, Span(1));
    outbox.allow(LANE, Clock(u64::MAX));
    (1..=MANY).for_each(|clock| outbox.push(LANE, Clock(clock), clock).unwrap());
    assert!(outbox.next(LANE).is_none(), "the gate was not heard");
    let at = |clock| taken(Boot(1), Place { clock: Clock(clock), number: 1 }, 0);
    outbox.on_taken(NOW, &at(0), |_, _, _| panic!("nothing is gone"));
    let mut sent = 0;
    while outbox.next(LANE).is_some() {
        outbox.sent(NOW, LANE);
        sent += 1;
    }
    assert!((64..MANY / 2).contains(&sent), "{sent}");
    let mut gone = 0;
    outbox.on_taken(NOW, &at(10), |_, _, why| gone += usize::from(why == Gone::Taken));
    assert_eq!((gone, outbox.len(LANE)), (10, MANY as usize - 10));
    assert_eq!(outbox.taken(LANE, Clock(MANY)), Clock(10));
    let next = outbox.next(LANE).map(|(after, place, _)| (after.clock.0, place.clock.0));
    assert_eq!(next, Some((sent, sent + 1)));
    outbox.on_taken(NOW, &Taken { again: 1, ..at(10) }, |_, _, _| panic!("nothing new"));
    assert_eq!(outbox.next(LANE).map(|(after, ..)| after.clock.0), Some(10), "it goes back");
}

#[test]
fn an_output_that_the_gate_has_is_not_kept() {
    let mut outbox: Outbox<u8> = Outbox::new(1, 4, Span(1));
    outbox.on_taken(NOW, &taken(Boot(1), Place { clock: Clock(3), number: 1 }, 0), |_, _, _| {});
    assert_eq!(outbox.push(LANE, Clock(3), 7), Err(7));
    assert_eq!(outbox.push(LANE, Clock(3), 8), Ok(()), "another one of the same packet");
    assert_eq!(outbox.push(Lane(1), Clock(3), 9), Err(9), "of no lane");
}
