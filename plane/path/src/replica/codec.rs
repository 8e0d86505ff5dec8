//! Messages of the choices as bodies of frames, and back.

use headgate_decide::replicate as choice;
use headgate_decide::replicate::outbox::{Place, Taken};
use headgate_decide::replicate::{
    Boot, Clock, Clocks, Epoch, JournalIndex, LANES_MAX, Lane, NodeId, Seq, View,
};
use headgate_wire::replica::{self as wire, Header, Kind, Message};

/// Returns clocks as bytes have them.
pub(crate) fn clocks_out(clocks: &Clocks) -> wire::Clocks {
    wire::Clocks::new(clocks.lanes().map(|lane| clocks.of(lane).0))
}

/// Returns clocks of a group of so many lanes; `None` where they are of another.
pub(crate) fn clocks_in(clocks: &wire::Clocks, lanes: u8) -> Option<Clocks> {
    if clocks.as_slice().len() != usize::from(lanes) {
        return None;
    }
    let mut all = Clocks::new(lanes);
    for (lane, clock) in clocks.as_slice().iter().enumerate() {
        all.set(Lane(lane as u8), Clock(*clock));
    }
    Some(all)
}

/// Returns the outputs that the gate has, as a frame says it.
pub(crate) fn taken_out(header: &mut Header, taken: &Taken, lanes: usize) -> Message<'static> {
    (header.kind, header.clock, header.seq) = (Kind::Taken, taken.boot.0, taken.again.into());
    let places = &taken.places[..lanes];
    let clocks = wire::Clocks::new(places.iter().map(|place| place.clock.0));
    Message::Taken { clocks, numbers: taken.places.map(|place| place.number) }
}

/// Returns what a frame says of outputs; `None` where it is of another number of lanes.
pub(crate) fn taken_in(
    header: &Header,
    clocks: &wire::Clocks,
    numbers: &[u32; LANES_MAX],
    lanes: u8,
) -> Option<Taken> {
    let clocks = clocks_in(clocks, lanes)?;
    let place = |lane: usize| Place { clock: clocks.of(Lane(lane as u8)), number: numbers[lane] };
    Some(Taken { boot: Boot(header.clock), places: std::array::from_fn(place), again: header.seq as u16 })
}

pub(crate) fn cut_out(cut: &choice::Cut) -> wire::Cut {
    wire::Cut { clocks: clocks_out(&cut.clocks), journal: cut.journal.0 }
}

pub(crate) fn cut_in(cut: &wire::Cut, lanes: u8) -> Option<choice::Cut> {
    Some(choice::Cut { clocks: clocks_in(&cut.clocks, lanes)?, journal: JournalIndex(cut.journal) })
}

const fn one_out(one: choice::Incarnation) -> wire::Incarnation {
    wire::Incarnation { node: one.node.0, boot: one.boot.0 }
}

const fn one_in(one: wire::Incarnation) -> choice::Incarnation {
    choice::Incarnation { node: NodeId(one.node), boot: Boot(one.boot) }
}

fn assignment_out(assignment: &choice::Assignment) -> wire::Assignment {
    wire::Assignment {
        active: one_out(assignment.active),
        standby: assignment.standby.map(one_out),
        joined: assignment.joined.0,
        handed_over: assignment.handed_over,
        begun: assignment.begun.0,
        log_begins_after: clocks_out(&assignment.log_begins_after),
    }
}

/// Completes a header for a message, and returns the body; `None` for a commit, which is sent in parts.
pub(crate) fn body_of(
    header: &mut Header,
    message: &choice::Message,
    configuration: u64,
) -> Option<Message<'static>> {
    use choice::Message as Choice;
    Some(match message {
        Choice::Assign(assignment) => {
            (header.kind, header.view) = (Kind::Assign, assignment.view.0);
            Message::Assign(assignment_out(assignment))
        }
        Choice::Hello { me, arrived, echoed } => {
            header.kind = Kind::Hello;
            let arrived = arrived.as_ref().map(clocks_out);
            Message::Hello { me: one_out(*me), configuration, arrived, echoed: echoed.0 }
        }
        Choice::Nack { lane, clock } => {
            (header.kind, header.lane, header.clock) = (Kind::Nack, u16::from(lane.0), clock.0);
            Message::Nothing
        }
        Choice::Released { arrived, released, credit } => {
            header.kind = Kind::Released;
            let [arrived, released, credit] = [arrived, released, credit].map(clocks_out);
            Message::Released { arrived, released, credit }
        }
        Choice::Ack { seq } => {
            (header.kind, header.seq) = (Kind::Ack, seq.0 as u32);
            Message::Ack { seq: seq.0 }
        }
        Choice::Durable { epoch, cut } => {
            (header.kind, header.seq) = (Kind::Durable, epoch.0);
            Message::Durable(cut_out(cut))
        }
        Choice::Commit { .. } => return None,
        _ => {
            (header.kind, header.seq) = word(message);
            Message::Nothing
        }
    })
}

/// Returns the kind of a message that has no body, and what the header says of it.
fn word(message: &choice::Message) -> (Kind, u32) {
    match message {
        choice::Message::HandOver { wanted } => (Kind::HandOver, u32::from(*wanted)),
        choice::Message::FailOver => (Kind::FailOver, 0),
        choice::Message::Checkpoint => (Kind::Checkpoint, 0),
        choice::Message::Probe => (Kind::Probe, 0),
        choice::Message::Echo => (Kind::Echo, 0),
        _ => (Kind::Unanswered, 0),
    }
}

/// Returns what a frame says; `None` where it is no message of a group of so many lanes.
pub(crate) fn message_in(header: &Header, message: &Message, lanes: u8) -> Option<choice::Message> {
    use choice::Message as Choice;
    Some(match (header.kind, message) {
        (Kind::Nack, _) => {
            let lane = u8::try_from(header.lane).ok().filter(|lane| *lane < lanes)?;
            Choice::Nack { lane: Lane(lane), clock: Clock(header.clock) }
        }
        (Kind::Checkpoint, _) => Choice::Checkpoint,
        (Kind::Unanswered, _) => Choice::Unanswered,
        (Kind::HandOver, _) => Choice::HandOver { wanted: header.seq == 1 },
        (Kind::FailOver, _) => Choice::FailOver,
        (Kind::Probe, _) => Choice::Probe,
        (Kind::Echo, _) => Choice::Echo,
        (_, Message::Ack { seq }) => Choice::Ack { seq: Seq(*seq) },
        (_, Message::Durable(cut)) => Choice::Durable { epoch: Epoch(header.seq), cut: cut_in(cut, lanes)? },
        (_, Message::Released { arrived, released, credit }) => Choice::Released {
            arrived: clocks_in(arrived, lanes)?,
            released: clocks_in(released, lanes)?,
            credit: clocks_in(credit, lanes)?,
        },
        (_, Message::Hello { me, arrived, echoed, .. }) => {
            let arrived = match arrived {
                Some(clocks) => Some(clocks_in(clocks, lanes)?),
                None => None,
            };
            Choice::Hello { me: one_in(*me), arrived, echoed: View(*echoed) }
        }
        (_, Message::Assign(assignment)) => Choice::Assign(choice::Assignment {
            view: View(header.view),
            active: one_in(assignment.active),
            standby: assignment.standby.map(one_in),
            joined: View(assignment.joined),
            handed_over: assignment.handed_over,
            begun: View(assignment.begun),
            log_begins_after: clocks_in(&assignment.log_begins_after, lanes)?,
        }),
        _ => return None,
    })
}
