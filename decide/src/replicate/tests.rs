//! Committed tables of what follows from what: the gate's next view, and a node's next part.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::boundary::{self, Action, Event, WINDOW_MAX};
use super::gate::{self, Gate};
use super::member::{Member, Part};
use super::mutant::Mutation;
use super::*;
use crate::decision::Decision;
use crate::snapshot;
use crate::units::{Instant, Span};

const LEFT: Incarnation = Incarnation { node: NodeId(0), boot: Boot(1) };
const RIGHT: Incarnation = Incarnation { node: NodeId(1), boot: Boot(1) };
const AGAIN: Incarnation = Incarnation { node: NodeId(0), boot: Boot(2) };

fn assignment(view: u32, active: Incarnation, standby: Option<Incarnation>) -> Assignment {
    let log_begins_after = Clocks::new(1);
    let (joined, begun) = (View(1), View(1));
    Assignment { view: View(view), active, standby, joined, handed_over: false, begun, log_begins_after }
}

fn received(from: Incarnation, view: u32, message: Message) -> gate::Event {
    gate::Event::Received(Envelope { from: Peer::Node(from.node), view: View(view), message })
}

fn hello(me: Incarnation, view: u32) -> gate::Event {
    echoed(me, view, 0)
}

/// A hello of a node that the active one answered in a view.
fn echoed(me: Incarnation, view: u32, echoed: u32) -> gate::Event {
    let arrived = (me.node == NodeId(0) && view > 0).then(|| Clocks::new(1));
    received(me, view, Message::Hello { me, arrived, echoed: View(echoed) })
}

fn durable(view: u32) -> gate::Event {
    let cut = Cut { clocks: Clocks::new(1), journal: JournalIndex(0) };
    received(RIGHT, view, Message::Durable { epoch: Epoch(1), cut })
}

/// A gate of one lane, whose disk is empty.
fn small_gate() -> Gate {
    Gate::new(gate::Setup {
        boot: Boot(1),
        lanes: 1,
        nodes: [LEFT.node, RIGHT.node],
        log: 10,
        resend_after: Span::from_millis(1),
        written: None,
        mutation: Mutation::default(),
    })
}

/// Tells the gate, lets it write, and returns what nodes are told then.
fn told(gate: &mut Gate, event: gate::Event) -> String {
    let mut actions = Vec::new();
    gate.on(Instant(0), event, &mut actions);
    gate.poll(Instant(0), &(), &mut actions);
    let written = actions.iter().find_map(|action| match action {
        gate::Action::Write(assignment) => Some(assignment.view),
        _ => None,
    });
    if let Some(view) = written {
        gate.on(Instant(0), gate::Event::Written { view }, &mut Vec::new());
    }
    gate.told().map_or("nothing".into(), |told| {
        let name = |one: Incarnation| format!("node {} boot {}", one.node, one.boot);
        let standby = told.standby.map_or("nobody".into(), name);
        let begun = if told.begun == told.view { ", state begins empty" } else { "" };
        format!("view {}: {} active, {standby} stands by{begun}", told.view, name(told.active))
    })
}

#[test]
fn what_the_gate_wants_is_a_table() {
    let up = |node, up| gate::Event::Reachable { node: NodeId(node), up };
    let protected: [(&str, gate::Event); 4] = [
        ("the left node says hello", hello(LEFT, 0)),
        ("the right node says hello", hello(RIGHT, 0)),
        ("the left node confirms", hello(LEFT, 1)),
        ("a checkpoint is durable", durable(1)),
    ];
    let unanswered = received(LEFT, 1, Message::Unanswered);
    let runs: [(&str, Vec<(&str, gate::Event)>); 7] = [
        ("the active node is gone", [("left down", up(0, false)), ("right down", up(1, false))].into()),
        ("the active node is started again", [("left says hello", hello(AGAIN, 0))].into()),
        (
            "the standby is gone and comes back",
            [
                ("right down", up(1, false)),
                ("left confirms", hello(LEFT, 2)),
                ("right up", up(1, true)),
                ("right says hello", hello(RIGHT, 0)),
                ("left answered right", echoed(RIGHT, 2, 2)),
                ("left down", up(0, false)),
            ]
            .into(),
        ),
        (
            "the standby does not answer",
            [
                ("left complains", unanswered),
                ("left confirms", hello(LEFT, 2)),
                ("right says hello", hello(RIGHT, 2)),
                ("left answered right before", echoed(RIGHT, 2, 1)),
                ("left answered right", echoed(RIGHT, 2, 2)),
            ]
            .into(),
        ),
        ("the group is handed over", [("wanted", gate::Event::HandOver { wanted: true })].into()),
        (
            "it is handed over to nobody",
            [
                ("wanted", gate::Event::HandOver { wanted: true }),
                ("right says hello", hello(Incarnation { boot: Boot(2), ..RIGHT }, 0)),
            ]
            .into(),
        ),
        ("the operator fails it over", [("now", gate::Event::FailOver)].into()),
    ];
    let mut table = String::new();
    for (name, events) in runs {
        let nodes = [LEFT.node, RIGHT.node];
        let (lanes, log, resend_after) = (1, 10, Span::from_millis(1));
        let setup = gate::Setup {
            boot: Boot(1),
            lanes,
            nodes,
            log,
            resend_after,
            written: None,
            mutation: Mutation::default(),
        };
        let mut gate = Gate::new(setup);
        table += &format!("{name}\n");
        for (word, event) in protected.iter().chain(&events) {
            table += &format!("    {word:<26} -> {}\n", told(&mut gate, *event));
        }
    }
    snapshot::assert("gate", &table);
}

fn part(member: &Member) -> &'static str {
    match member.part() {
        Part::Neither => "neither",
        Part::Active(active) if active.is_on_its_own() => "active, on its own",
        Part::Active(_) => "active",
        Part::Standby(standby) if standby.durable().is_some() => "standby with a checkpoint",
        Part::Standby(_) => "standby",
    }
}

#[test]
fn what_a_node_becomes_is_a_table() {
    let new = Assignment { begun: View(9), ..assignment(9, LEFT, None) };
    let named = [
        ("active with a standby", assignment(9, LEFT, Some(RIGHT))),
        ("active on its own", assignment(9, LEFT, None)),
        ("active, state begins", new),
        ("standby of the same pair", assignment(9, RIGHT, Some(LEFT))),
        ("standby of a new pair", Assignment { joined: View(9), ..assignment(9, RIGHT, Some(LEFT)) }),
        ("not named", assignment(9, RIGHT, None)),
        ("in another life", assignment(9, AGAIN, None)),
        ("in an older view", assignment(1, RIGHT, None)),
    ];
    let event = |assignment| {
        let (from, view, message) = (Peer::Gate, View(9), Message::Assign(assignment));
        Event::Received(Envelope { from, view, message })
    };
    let begins = Assignment { begun: View(2), ..assignment(2, LEFT, None) };
    let before =
        [("new", None), ("active", Some(begins)), ("standby", Some(assignment(2, RIGHT, Some(LEFT))))];
    let mut table = String::new();
    for (name, first) in before {
        for (word, assignment) in named {
            let millisecond = Span::from_millis(1);
            let mut member = Member::new(boundary::Setup {
                me: LEFT,
                lanes: LANES_MAX as u8,
                window: WINDOW_MAX,
                commit_every: millisecond,
                checkpoint_every: None,
                resend_after: millisecond,
                unanswered_after: millisecond,
                settle: Span::ZERO,
                report_every: millisecond,
                mutation: Mutation::default(),
            });
            let mut actions = Vec::new();
            first.into_iter().for_each(|first| member.on(Instant(0), event(first), &mut actions));
            actions.clear();
            member.on(Instant(0), event(assignment), &mut actions);
            let does: Vec<String> = actions.iter().filter_map(action_word).collect();
            table += &format!("{name}, named {word:<24} -> {}: {}\n", part(&member), does.join(", "));
        }
    }
    snapshot::assert("member", &table);
}

fn action_word(action: &Action) -> Option<String> {
    match action {
        Action::Send { message: Message::Hello { .. }, view, .. } => Some(format!("hello in view {view}")),
        Action::Send { message: Message::Probe, .. } => Some("asks for an answer".into()),
        Action::Send { message: Message::Assign(own), .. } => Some(format!("tells view {}", own.view)),
        Action::Report(report) => Some(format!("report {report:?}").to_lowercase()),
        other => Some(format!("{other:?}").to_lowercase()),
    }
}

/// The node that takes over may not have what the one before had, and the gate hears of its gap by a message
/// that may be lost.
#[test]
fn packets_that_only_the_node_before_had_are_sent_again() {
    let mut gate = small_gate();
    for event in [hello(LEFT, 0), hello(RIGHT, 0), hello(LEFT, 1), durable(1)] {
        told(&mut gate, event);
    }
    (0..4).for_each(|_| assert!(matches!(gate.stamp(Instant(0), Lane(0)), gate::Stamp::Logged(_))));
    let sent = |gate: &mut Gate| core::iter::from_fn(|| gate.send_next(Lane(0))).count();
    assert_eq!(sent(&mut gate), 4);
    let mut arrived = Clocks::new(1);
    arrived.set(Lane(0), Clock(4));
    let (released, credit) = (Clocks::new(1), arrived);
    told(&mut gate, received(LEFT, 1, Message::Released { arrived, released, credit }));
    told(&mut gate, gate::Event::Reachable { node: LEFT.node, up: false });
    let (arrived, echoed) = (Some(Clocks::new(1)), View(0));
    told(&mut gate, received(RIGHT, 2, Message::Hello { me: RIGHT, arrived, echoed }));
    assert_eq!(sent(&mut gate), 4);
    // All four are lost, and so is the word that they are missing.
    gate.poll(Instant(u64::MAX), &(), &mut Vec::new());
    assert_eq!(sent(&mut gate), 4, "the clocks of the node before say nothing of this one");
}

/// A node that will lose its power asks for what an operator asks for, and later asks the group back.
#[test]
fn a_node_hands_over_what_it_works_for_and_asks_for_what_it_stands_by_for() {
    let mut gate = small_gate();
    for event in [hello(LEFT, 0), hello(RIGHT, 0), hello(LEFT, 1)] {
        told(&mut gate, event);
    }
    let wanted = |wanted| Message::HandOver { wanted };
    let before = "view 1: node 0 boot 1 active, node 1 boot 1 stands by, state begins empty";
    assert_eq!(told(&mut gate, received(LEFT, 1, Message::FailOver)), before, "nobody could take over");
    assert_eq!(told(&mut gate, received(LEFT, 1, wanted(true))), before, "not before its last copy");
    assert_eq!(told(&mut gate, received(LEFT, 1, wanted(false))), before);
    assert_eq!(told(&mut gate, durable(1)), before, "it is not wanted any more");
    let moved = told(&mut gate, received(LEFT, 1, wanted(true)));
    assert_eq!(moved, "view 2: node 1 boot 1 active, node 0 boot 1 stands by");
    assert_eq!(told(&mut gate, received(LEFT, 1, wanted(true))), moved, "of a view that is over");

    let arrived = Some(Clocks::new(1));
    told(&mut gate, received(RIGHT, 2, Message::Hello { me: RIGHT, arrived, echoed: View(0) }));
    let cut = Cut { clocks: Clocks::new(1), journal: JournalIndex(0) };
    told(&mut gate, received(LEFT, 2, Message::Durable { epoch: Epoch(2), cut }));
    let back = told(&mut gate, received(LEFT, 2, wanted(true)));
    assert_eq!(back, "view 3: node 0 boot 1 active, node 1 boot 1 stands by");
}

/// A checkpoint holds what outputs rest on, so nobody could make those before its cut again.
#[test]
fn a_checkpoint_is_sent_when_the_gate_has_every_output_before_its_cut() {
    let setup = boundary::Setup {
        me: LEFT,
        lanes: 1,
        window: 3,
        commit_every: Span(10),
        checkpoint_every: None,
        resend_after: Span(1000),
        unanswered_after: Span(1000),
        settle: Span::ZERO,
        report_every: Span(1000),
        mutation: Mutation::default(),
    };
    let clocks = |clock| {
        let mut clocks = Clocks::new(1);
        clocks.set(Lane(0), Clock(clock));
        clocks
    };
    let progress = |taken| boundary::Progress {
        finished: clocks(1),
        journal: JournalIndex(0),
        is_replaying: false,
        credit: clocks(9),
        taken: clocks(taken),
    };
    let (mut member, mut actions) = (Member::new(setup), Vec::new());
    let mut told = assignment(1, LEFT, Some(RIGHT));
    told.begun = View(1);
    let assign = Envelope { from: Peer::Gate, view: View(1), message: Message::Assign(told) };
    member.on(Instant(0), Event::Received(assign), &mut actions);
    assert_eq!(
        member.arrive(View(1), (Lane(0), Clock(1)), true, &mut actions),
        boundary::Arrival::Take,
        "{actions:?}"
    );
    member.poll(Instant(0), &progress(0), &mut actions);
    assert!(actions.contains(&Action::Prepare), "it is the first one");
    let second = (Lane(0), Clock(2));
    assert_eq!(member.arrive(View(1), second, false, &mut actions), boundary::Arrival::Wait);
    member.on(Instant(0), Event::Prepared, &mut actions);
    member.poll(Instant(0), &progress(0), &mut actions);
    let epoch = actions.iter().find_map(|action| match action {
        Action::Flip { epoch, .. } => Some(*epoch),
        _ => None,
    });
    let epoch = epoch.expect("it is copied at once");
    member.on(Instant(0), Event::Flipped { epoch }, &mut actions);
    member.on(Instant(0), Event::Copied { epoch }, &mut actions);
    let is_sent = |actions: &[Action]| actions.iter().any(|it| matches!(it, Action::SendState { .. }));
    member.poll(Instant(0), &progress(0), &mut actions);
    assert!(!is_sent(&actions), "its output is on the way");
    member.poll(Instant(0), &progress(1), &mut actions);
    assert!(is_sent(&actions));
}

/// Outputs wait for a standby, which does not know that it is one when the only word of it was lost.
#[test]
fn a_standby_that_was_not_heard_in_a_view_is_told_it_again() {
    let mut gate = small_gate();
    for event in [hello(LEFT, 0), hello(RIGHT, 0), hello(LEFT, 1)] {
        told(&mut gate, event);
    }
    let told_again = |gate: &mut Gate, now| {
        let mut actions = Vec::new();
        gate.poll(Instant(now), &(), &mut actions);
        let to = |action: &gate::Action| match action {
            gate::Action::Send { to, message: Message::Assign(_), .. } => Some(*to),
            _ => None,
        };
        actions.iter().filter_map(to).collect::<Vec<_>>()
    };
    let times = [1, 2, 3].map(|second| Span::from_secs(second).0);
    assert_eq!(told_again(&mut gate, times[0]), [RIGHT.node]);
    assert_eq!(told_again(&mut gate, times[1]), [RIGHT.node], "and again");
    told(&mut gate, hello(RIGHT, 1));
    assert_eq!(told_again(&mut gate, times[2]), []);
}

/// Both nodes have died. What comes while the new life is written is of that life: the node that begins
/// behind what was lost would wait for it for ever.
#[test]
fn packets_that_come_while_a_new_life_is_written_are_in_its_log() {
    let (mut gate, mut actions) = (small_gate(), Vec::new());
    for event in [hello(LEFT, 0), hello(RIGHT, 0), hello(LEFT, 1), durable(1)] {
        told(&mut gate, event);
    }
    for node in [LEFT.node, RIGHT.node] {
        told(&mut gate, gate::Event::Reachable { node, up: false });
    }
    assert_eq!(gate.stamp(Instant(0), Lane(0)), gate::Stamp::Logged(Clock(1)));
    // The right one had taken over.
    let again = Incarnation { boot: Boot(2), ..RIGHT };
    gate.on(Instant(0), gate::Event::Reachable { node: again.node, up: true }, &mut actions);
    gate.on(Instant(0), hello(again, 0), &mut actions);
    gate.poll(Instant(0), &(), &mut actions);
    let written = actions.iter().find_map(|action| match action {
        gate::Action::Write(next) if next.begun == next.view => Some(*next),
        _ => None,
    });
    let written = written.expect("state begins anew");
    assert_eq!(gate.stamp(Instant(0), Lane(0)), gate::Stamp::Logged(Clock(2)));
    gate.on(Instant(0), gate::Event::Written { view: written.view }, &mut actions);
    assert_eq!((written.log_begins_after.of(Lane(0)), gate.trimmed().of(Lane(0))), (Clock(1), Clock(1)));
    let arrived = Some(written.log_begins_after);
    let hello = Message::Hello { me: again, arrived, echoed: View(0) };
    gate.on(Instant(0), received(again, written.view.0, hello), &mut actions);
    assert_eq!(gate.send_next(Lane(0)), Some(Clock(2)));
}
