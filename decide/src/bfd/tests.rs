//! The table of transitions as a committed snapshot, and properties of two sessions over a bad link.

use std::format;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::snapshot;

const MS: u64 = 1_000_000;
const FAST: Timers = Timers {
    desired_transmit: Span::from_millis(10),
    required_receive: Span::from_millis(10),
    multiplier: 3,
};

fn session(local: u32, timers: Timers) -> Session {
    Session::new(Setup { local: Discriminator(local), timers, is_routed: false, now: Instant(0) })
}

/// A packet of the neighbour, whose session is number 2.
fn packet(state: State) -> Packet {
    Packet {
        state,
        diagnostic: Diagnostic::None,
        poll: false,
        is_final: false,
        demand: false,
        multiplier: 3,
        mine: Discriminator(2),
        yours: Discriminator(1),
        desired_transmit: Span::from_millis(10),
        required_receive: Span::from_millis(10),
    }
}

fn received(packet: Packet) -> Event {
    Event::Received { packet, ttl: TTL }
}

/// Our session in this state, and the neighbour heard just now.
fn in_state(state: State) -> Session {
    let mut session = session(1, FAST);
    let way: &[State] = match state {
        State::Down => &[],
        State::Init => &[State::Down],
        State::Up | State::AdminDown => &[State::Down, State::Init],
    };
    for state in way {
        session.on(Instant(0), received(packet(*state)), &mut Vec::new());
    }
    if state == State::AdminDown {
        session.on(Instant(0), Event::Administered { up: false }, &mut Vec::new());
    }
    assert_eq!(session.state(), state);
    session
}

fn word(action: &Action) -> String {
    match action {
        Action::Send(packet) => {
            let poll = if packet.poll { " P" } else { "" };
            let last = if packet.is_final { " F" } else { "" };
            let desired = packet.desired_transmit.as_millis();
            let required = packet.required_receive.as_millis();
            format!("send {:?}{poll}{last} to {} ({desired}/{required} ms)", packet.state, packet.yours.0)
        }
        Action::Became { state, diagnostic } => format!("became {state:?}, {diagnostic:?}"),
        Action::Refused(refusal) => format!("refused {refusal:?}"),
    }
}

fn line(session: &Session, actions: &[Action]) -> String {
    let time = session.detection_time().map_or("never".into(), |time| format!("{} ms", time.as_millis()));
    let actions: Vec<String> = actions.iter().map(word).collect();
    let pace = session.transmit_interval().as_millis();
    format!("{:?}, sends every {pace} ms, detects in {time}: {}", session.state(), actions.join("; "))
}

/// Every event in every state: a change of the session is a change of this table.
/// RFC 5883, 3: who is behind routers has any TTL.
#[test]
fn a_neighbour_behind_routers_is_heard_whatever_its_ttl() {
    let timers = Timers { desired_transmit: SLOW, required_receive: SLOW, multiplier: 3 };
    let hears = |is_routed, ttl| {
        let setup = Setup { local: Discriminator(1), timers, is_routed, now: Instant(0) };
        let (mut session, mut actions) = (Session::new(setup), Vec::new());
        session.on(Instant(1), Event::Received { packet: packet(State::Down), ttl }, &mut actions);
        !actions.iter().any(|action| matches!(action, Action::Refused(_)))
    };
    assert!(hears(true, 61) && hears(true, TTL) && hears(false, TTL) && !hears(false, 61));
}

#[test]
fn the_whole_table_of_transitions() {
    let slower = Timers { desired_transmit: Span::from_millis(50), ..FAST };
    let eager = Timers { required_receive: Span::from_millis(2), ..FAST };
    let yours = |yours| Packet { yours: Discriminator(yours), ..packet(State::Up) };
    let events = [
        ("hears AdminDown", received(packet(State::AdminDown))),
        ("hears Down", received(packet(State::Down))),
        ("hears Init", received(packet(State::Init))),
        ("hears Up", received(packet(State::Up))),
        ("hears Up with poll", received(Packet { poll: true, ..packet(State::Up) })),
        ("hears Up, final", received(Packet { is_final: true, ..packet(State::Up) })),
        ("hears who wants none", received(Packet { required_receive: Span::ZERO, ..packet(State::Up) })),
        ("hears Up of nobody", received(yours(0))),
        ("hears another session", received(yours(9))),
        ("hears through a router", Event::Received { packet: packet(State::Up), ttl: 254 }),
        ("hears multiplier 0", received(Packet { multiplier: 0, ..packet(State::Up) })),
        ("hears no number", received(Packet { mine: Discriminator(0), ..packet(State::Up) })),
        ("hears poll and final", received(Packet { poll: true, is_final: true, ..packet(State::Up) })),
        ("taken out of use", Event::Administered { up: false }),
        ("taken into use", Event::Administered { up: true }),
        ("data plane hangs", Event::DataPlane { advances: false }),
        ("to send slower", Event::Configured(slower)),
        ("to be sent faster", Event::Configured(eager)),
    ];
    let mut table = String::new();
    for state in [State::AdminDown, State::Down, State::Init, State::Up] {
        table += &format!("{}\n", line(&in_state(state), &[]).trim_end_matches(": "));
        for (name, event) in events {
            let (mut session, mut actions) = (in_state(state), Vec::new());
            session.on(Instant(5 * MS), event, &mut actions);
            table += &format!("    {name:<22} -> {}\n", line(&session, &actions).trim_end_matches(": "));
        }
        for (name, millis) in [("1 s of silence", 1000), ("10 s of silence", 10_000)] {
            let (mut session, mut actions) = (in_state(state), Vec::new());
            session.poll(Instant(millis * MS), &0, &mut actions);
            table += &format!("    {name:<22} -> {}\n", line(&session, &actions).trim_end_matches(": "));
        }
    }
    snapshot::assert("bfd", &table);
}

#[test]
fn longer_intervals_wait_for_the_final() {
    let mut session = in_state(State::Up);
    let poll = Packet { is_final: true, ..packet(State::Up) };
    session.on(Instant(0), received(poll), &mut Vec::new());
    let slow = Timers {
        desired_transmit: Span::from_millis(80),
        required_receive: Span::from_millis(5),
        multiplier: 3,
    };
    session.on(Instant(0), Event::Configured(slow), &mut Vec::new());
    let (pace, time) = (session.transmit_interval(), session.detection_time());
    assert_eq!((pace, time), (Span::from_millis(10), Some(Span::from_millis(30))), "as before");
    let mut actions = Vec::new();
    session.poll(Instant(20 * MS), &0, &mut actions);
    let announced = Packet { poll: true, ..session.packet(false, false) };
    assert_eq!(actions, [Action::Send(announced)], "and announced");
    session.on(Instant(20 * MS), received(poll), &mut Vec::new());
    assert_eq!(session.transmit_interval(), Span::from_millis(80));
}

#[test]
fn a_neighbour_that_asks_for_silence_is_sent_nothing_but_answers() {
    let mut session = in_state(State::Up);
    let (mut actions, quiet) = (Vec::new(), Packet { is_final: true, demand: true, ..packet(State::Up) });
    session.on(Instant(0), received(quiet), &mut actions);
    assert_eq!(session.next_send(), None);
    session.on(Instant(MS), received(Packet { poll: true, is_final: false, ..quiet }), &mut actions);
    assert!(matches!(actions[..], [Action::Send(Packet { is_final: true, poll: false, .. })]), "{actions:?}");
}

#[test]
fn a_session_out_of_use_says_so_for_a_while_and_then_is_silent() {
    let mut session = in_state(State::AdminDown);
    let (mut sent, mut last) = (0, Instant(0));
    while let Some(at) = session.poll_at() {
        let mut actions = Vec::new();
        session.poll(at, &0, &mut actions);
        (sent, last) = (sent + actions.len(), at);
        assert!(sent < 10, "for ever");
    }
    assert!(last >= Instant(0) + SLOW.times(3), "a detection time: {last:?}");
}

/// Two sessions and what is on the way between them.
struct Pair {
    sides: [Session; 2],
    /// Packets by their arrival and the side that they arrive at.
    wire: Vec<(Instant, usize, Packet)>,
    now: Instant,
    /// Time at which each side sent on its own last, and whether that was too early.
    sent: [Option<Instant>; 2],
    random: u64,
    falls: u32,
}

/// A link at a moment: loss in percent, delay.
#[derive(Clone, Copy, Debug)]
struct Quality {
    loss: [u64; 2],
    delay: Span,
}

impl Pair {
    fn new(timers: [Timers; 2], seed: u64) -> Self {
        let sides = [session(1, timers[0]), session(2, timers[1])];
        Self { sides, wire: Vec::new(), now: Instant(0), sent: [None; 2], random: seed | 1, falls: 0 }
    }

    /// xorshift64.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn run(&mut self, until: Instant, quality: Quality) {
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            if let Some(at) = self.wire.iter().position(|(due, ..)| *due <= self.now) {
                let (_, side, packet) = self.wire.remove(at);
                let mut actions = Vec::new();
                self.sides[side].on(self.now, received(packet), &mut actions);
                self.carry_out(side, &actions, quality);
            }
            for side in 0..2 {
                if !self.sides[side].is_due(self.now) {
                    continue;
                }
                let (mut actions, random) = (Vec::new(), self.random() as u32);
                let before = self.sides[side].clone();
                self.sides[side].poll(self.now, &random, &mut actions);
                self.check_pace(side, &before, &actions);
                self.carry_out(side, &actions, quality);
            }
        }
        self.now = until;
    }

    fn next(&self) -> Option<Instant> {
        let polls = self.sides.iter().filter_map(Decision::poll_at);
        self.wire.iter().map(|(due, ..)| *due).chain(polls).min()
    }

    fn check_pace(&mut self, side: usize, before: &Session, actions: &[Action]) {
        let on_time = before.next_send().is_some_and(|next| next.is_due(self.now));
        if !on_time || !actions.iter().any(|action| matches!(action, Action::Send(_))) {
            return;
        }
        // At most a quarter below the interval that both agreed to, and slow while it is not up.
        let least = if before.state() == State::Up { before.timers.desired_transmit } else { SLOW };
        let least = least.max(before.remote.required_receive).0 / 4 * 3;
        if let Some(last) = self.sent[side].replace(self.now) {
            assert!((self.now - last).0 >= least.min(before.transmit_interval().0 / 4 * 3), "too fast");
        }
    }

    fn carry_out(&mut self, side: usize, actions: &[Action], quality: Quality) {
        for action in actions {
            match action {
                Action::Send(packet) => {
                    assert!(!(packet.poll && packet.is_final), "RFC 5880, 6.5");
                    let announced = packet.desired_transmit;
                    assert!(packet.state == State::Up || announced >= SLOW, "RFC 5880, 6.8.3: {packet:?}");
                    if self.random() % 100 >= quality.loss[side] {
                        self.wire.push((self.now + quality.delay, 1 - side, *packet));
                    }
                }
                Action::Became { state, .. } => self.falls += u32::from(*state == State::Down),
                Action::Refused(refusal) => panic!("a peer's own packet is refused: {refusal:?}"),
            }
        }
    }

    fn are_up(&self) -> bool {
        self.sides.iter().all(|side| side.state() == State::Up)
    }
}

fn timers() -> impl Strategy<Value = Timers> {
    (1u64..300, 1u64..300, 2u8..6).prop_map(|(desired, required, multiplier)| Timers {
        desired_transmit: Span::from_millis(desired),
        required_receive: Span::from_millis(required),
        multiplier,
    })
}

const GOOD: Quality = Quality { loss: [0, 0], delay: Span(1000) };

proptest! {
    /// Whatever the link did, both are up some seconds after it is good again, and then nobody flaps.
    #[test]
    fn a_link_that_heals_is_up_and_stays_up(
        ours in timers(), theirs in timers(), seed: u64,
        bad in prop::collection::vec((1u64..3000, 0u64..101, 0u64..101, 0u64..400), 0..6),
    ) {
        let mut pair = Pair::new([ours, theirs], seed);
        let mut end = Instant(0);
        for (millis, there, back, delay) in bad {
            end = end + Span::from_millis(millis);
            pair.run(end, Quality { loss: [there, back], delay: Span::from_millis(delay) });
        }
        // The longest detection time while slow, and three slow packets each way.
        let healed = end + SLOW.times(12);
        pair.run(healed, GOOD);
        prop_assert!(pair.are_up(), "{:?}", pair.sides);
        let falls = pair.falls;
        pair.run(healed + SLOW.times(20), GOOD);
        prop_assert_eq!((pair.are_up(), pair.falls), (true, falls));
    }

    /// A new pace at any moment costs no session, in any order.
    #[test]
    fn new_timers_do_not_bring_a_good_link_down(
        ours in timers(), theirs in timers(), seed: u64,
        changes in prop::collection::vec((0u64..500, 0usize..2, timers()), 1..6),
    ) {
        let mut pair = Pair::new([ours, theirs], seed);
        let mut end = Instant(0) + SLOW.times(10);
        pair.run(end, GOOD);
        prop_assert!(pair.are_up());
        for (millis, side, timers) in changes {
            pair.sides[side].on(pair.now, Event::Configured(timers), &mut Vec::new());
            end = end + Span::from_millis(millis);
            pair.run(end, GOOD);
        }
        pair.run(end + SLOW.times(20), GOOD);
        prop_assert_eq!((pair.are_up(), pair.falls), (true, 0));
        let [left, right] = &pair.sides;
        let agreed = left.timers.desired_transmit.max(right.timers.required_receive);
        prop_assert_eq!(left.transmit_interval(), agreed);
    }

    /// A link that breaks, in one direction or both, is down on both sides: within the detection time on the
    /// side that hears nothing.
    #[test]
    fn a_broken_link_is_down_in_time(ours in timers(), theirs in timers(), seed: u64, both: bool) {
        let mut pair = Pair::new([ours, theirs], seed);
        pair.run(Instant(0) + SLOW.times(10), GOOD);
        prop_assert!(pair.are_up());
        let time = pair.sides[1].detection_time().expect("it is up");
        let quality = Quality { loss: [100, if both { 100 } else { 0 }], ..GOOD };
        pair.run(pair.now + time + Span(2000), quality);
        prop_assert_eq!(pair.sides[1].state(), State::Down);
        prop_assert_eq!(pair.sides[1].diagnostic, Diagnostic::DetectionTimeExpired);
        let other = pair.sides[0].detection_time().unwrap_or(Span::ZERO);
        pair.run(pair.now + other + Span(2000), quality);
        // Where it still hears the other, it offers to come up again, and nothing more.
        let offers = if both { State::Down } else { State::Init };
        prop_assert!([State::Down, offers].contains(&pair.sides[0].state()));
    }

    /// No sequence of events makes it panic, stop for ever, or send to a neighbour that wants nothing.
    #[test]
    fn any_events(seed: u64, steps in prop::collection::vec((0u8..6, any::<u32>(), 0u64..2000), 0..60)) {
        let mut pair = Pair::new([FAST, FAST], seed);
        let states = [State::AdminDown, State::Down, State::Init, State::Up];
        for (kind, value, millis) in steps {
            let now = pair.now + Span::from_millis(millis);
            let span = Span::from_micros(u64::from(value));
            let state = states[value as usize % 4];
            let event = match kind {
                0 => Event::Administered { up: value % 2 == 0 },
                1 => Event::DataPlane { advances: value % 2 == 0 },
                2 => Event::Configured(Timers { desired_transmit: span, required_receive: span, multiplier: 1 }),
                3 => received(Packet { required_receive: span, desired_transmit: span, ..packet(state) }),
                4 => received(Packet { poll: true, multiplier: value as u8, ..packet(state) }),
                _ => received(Packet { required_receive: Span::ZERO, ..packet(state) }),
            };
            let (session, mut actions) = (&mut pair.sides[0], Vec::new());
            session.on(now, event, &mut actions);
            session.poll(now, &value, &mut actions);
            pair.now = now;
            let is_silent = session.remote.required_receive == Span::ZERO || session.announced_until.is_some();
            prop_assert!(session.poll_at().is_some() || is_silent);
            prop_assert!(actions.len() <= 6);
        }
    }
}
