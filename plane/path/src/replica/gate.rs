//! The gate's end of a group: stamps packets, keeps them, sends them, and lets leave what comes back, once.

use std::collections::VecDeque;

use headgate_decide::decision::Decision;
use headgate_decide::replicate::gate::{Action, Event as Told, Gate, Report, Setup, Stamp};
use headgate_decide::replicate::outbox::{Coming, Inbox, Place as OutputPlace};
use headgate_decide::replicate::{
    Boot, Clock as LaneClock, Envelope, Incarnation, Lane as LaneId, NodeId, Peer, View,
};
use headgate_wire::replica::{self as wire, Header, Kind};

use crate::burst::{Burst, Run};
use crate::drop::DropReason;
use crate::holders::{Entrance, Holder, Place};
use crate::ledger::Ledger;
use crate::{BURST, DRAIN_BURSTS};

use super::board::Refusal;
use super::codec::{body_of, message_in, taken_out};
use super::common::{Clock, Common, Event, Kept};
use super::fail;
use super::link::{Links, Received, ReceivedBody};
use super::log::Log;
use super::settings::Settings;
use super::setup::Command;
use super::time::GateTime;

/// Part of the log that packets may fill which are not sent yet, as a divisor. Our choice: an active node
/// that is behind by more than half of what is kept for its failure is overloaded, and the other half is for
/// what it has not released.
const UNSENT_DIVISOR: u64 = 2;

/// The gate in a hello, which names nobody who could be assigned a part.
const GATE: Incarnation = Incarnation { node: NodeId(u8::MAX), boot: Boot(0) };

/// One lane at the gate.
struct Lane {
    log: Log,
    /// Packets that a hand-over keeps outside.
    held: VecDeque<Kept>,
    /// Clock of the last packet that was given to the link, and one that it would not take.
    sent: u64,
    unsent: Option<u64>,
}

/// The gate's end of a group.
pub(crate) struct GateEnd {
    pub common: Common,
    pub links: Links,
    settings: Settings,
    choice: Gate,
    lanes: Vec<Lane>,
    time: GateTime,
    /// Outputs that came, and the view in which the active node hears which they are.
    inbox: Inbox,
    inbox_view: View,
    log_max: u64,
    /// View of another active node than before, none of whose outputs has left.
    resumes: Option<View>,
    active: Option<Incarnation>,
    actions: Vec<Action>,
}

impl GateEnd {
    pub fn new((setup, time): (Setup, GateTime), common: Common, links: Links, settings: Settings) -> Self {
        let lane = |chain: &headgate_units::ChainId| Lane {
            log: Log::new(*chain, setup.log),
            held: VecDeque::with_capacity(setup.log as usize),
            sent: 0,
            unsent: None,
        };
        Self {
            lanes: common.chains.iter().map(lane).collect(),
            inbox: Inbox::new(common.chains.len(), setup.boot, setup.resend_after),
            inbox_view: View(0),
            time,
            choice: Gate::new(setup),
            log_max: setup.log,
            resumes: None,
            active: None,
            common,
            links,
            settings,
            actions: Vec::with_capacity(64),
        }
    }

    /// Takes packets on their way out of a port, which is the way into the group. Returns those of other
    /// chains.
    #[cold]
    pub fn take<'a>(&mut self, clock: Clock, ledger: &mut Ledger, run: Run<'a>) -> Run<'a> {
        let mut others = 0;
        for at in 0..run.len() {
            let (packet, place) = (run.packets[at], run.places[at]);
            let kept = Kept { packet, region: run.region };
            match self.common.lane_of(place.chain()) {
                Some(lane) if self.lanes[usize::from(lane)].held.is_empty() => {
                    self.stamp(clock, ledger, lane, (kept, place));
                }
                Some(lane) => self.hold(ledger, lane, (kept, place)),
                None => {
                    (run.packets[others], run.places[others]) = (packet, place);
                    others += 1;
                }
            }
        }
        run.split_at(others).0
    }

    fn stamp(&mut self, clock: Clock, ledger: &mut Ledger, lane: u8, (kept, place): (Kept, Place)) {
        let chain = self.common.chains[usize::from(lane)];
        if !self.links.carry(kept.packet) {
            return ledger.end(chain, kept.region, DropReason::TooLong, &[kept.packet]);
        }
        let (stamped, trimmed) = (self.choice.stamped(), self.choice.trimmed());
        let sent = self.lanes[usize::from(lane)].sent.max(trimmed.of(LaneId(lane)).0);
        let unsent = stamped.of(LaneId(lane)).0.saturating_sub(sent);
        if self.choice.is_confirmed() && unsent > self.log_max / UNSENT_DIVISOR {
            return ledger.end(chain, kept.region, DropReason::Uncommitted, &[kept.packet]);
        }
        match self.choice.stamp(clock.instant(), LaneId(lane)) {
            Stamp::Logged(_) => {
                let time_us = self.time.of(clock);
                self.lanes[usize::from(lane)].log.push(ledger, (kept, place), time_us);
            }
            Stamp::Shed => ledger.end(chain, kept.region, DropReason::LogFull, &[kept.packet]),
            Stamp::Held => self.hold(ledger, lane, (kept, place)),
        }
    }

    /// Keeps a packet outside while a hand-over is about to happen.
    fn hold(&mut self, ledger: &mut Ledger, lane: u8, (kept, place): (Kept, Place)) {
        let held = &mut self.lanes[usize::from(lane)].held;
        if held.len() as u64 >= self.log_max {
            let chain = self.common.chains[usize::from(lane)];
            return ledger.end(chain, kept.region, DropReason::LogFull, &[kept.packet]);
        }
        let holders = &ledger.store(kept.region).holders;
        holders.set_place(kept.packet.index(), place.held_by(Holder::LOG));
        held.push_back(kept);
    }

    /// Takes in a frame. An output that may leave is put into the burst.
    pub fn receive(&mut self, clock: Clock, ledger: &mut Ledger, at: [usize; 2], burst: &mut Burst) {
        let ours = self.links.configuration;
        let Some(received) = self.links.read(ledger, &self.common.board, at) else { return };
        let Received { from, header, body } = received;
        let message = match body {
            ReceivedBody::Packet(kept) => return self.take_output(clock, ledger, &header, kept, burst),
            ReceivedBody::Message(message) => message,
        };
        if let wire::Message::Hello { configuration, .. } = message
            && configuration != ours
        {
            // Hers is refused as well, so that both say so.
            let (node, hello) = (from, self.hello());
            self.common.refuse_foreign(node, configuration);
            self.links.send(clock.ticks, ledger, node, self.links.header(Kind::Hello, 0), &hello);
            self.settings.send(clock, ledger, &mut self.links, node);
            return;
        }
        if let (Kind::Settings, wire::Message::Part(part)) = (header.kind, &message) {
            let taken = self.settings.take(&self.common, from, header.clock, part);
            return taken.err().into_iter().for_each(|refusal| self.common.board.refuse(refusal));
        }
        let Some(message) = message_in(&header, &message, self.lanes.len() as u8) else {
            return self.common.board.refuse(Refusal::ForeignGroup);
        };
        let view = View(header.view);
        match self.choice.told() {
            Some(told) if view < told.view => self.common.board.refuse(Refusal::ForeignView),
            Some(told) if view == told.view && from == Peer::Node(told.active.node) => self.inbox.on_hello(),
            _ => {}
        }
        self.tell(clock, Told::Received(Envelope { from, view, message }));
        self.apply(clock, ledger);
    }

    /// Returns what tells a node that it has another configuration.
    const fn hello(&self) -> wire::Message<'static> {
        let me = wire::Incarnation { node: GATE.node.0, boot: GATE.boot.0 };
        wire::Message::Hello { me, configuration: self.links.configuration, arrived: None, echoed: 0 }
    }

    /// Takes a packet that left its chain on the active node, if it is the next of its lane.
    fn take_output(
        &mut self,
        clock: Clock,
        ledger: &mut Ledger,
        header: &Header,
        kept: Kept,
        burst: &mut Burst,
    ) {
        let fits = burst.count == 0 || burst.count < BURST && burst.region == kept.region;
        let refusal = self.refusal_of(clock, header, fits);
        if let Some(refusal) = refusal {
            self.common.board.refuse(refusal);
            return ledger.release(kept.region, kept.packet);
        }
        if self.resumes.is_some_and(|view| view.0 <= header.view)
            && let Some(view) = self.resumes.take()
        {
            self.common.tell(Event::Resumed(view));
        }
        let chain = self.common.chains[usize::from(header.lane)];
        let store = ledger.store(kept.region);
        store.holders.extras.clear(&[kept.packet]);
        // It comes to the end of its chain, which has no stage here.
        let place = Place::arrived(headgate_units::PortId(0), 0).entering(Entrance::head(chain));
        store.holders.set_place(kept.packet.index(), place);
        ledger.board.chains[chain.index()].returned.add(1);
        if burst.count == 0 {
            burst.begin(kept.region, 0);
        }
        (burst.packets[burst.count], burst.places[burst.count]) = (kept.packet, place);
        burst.count += 1;
    }

    /// Returns why an output is not taken, if it is not: it is not the next, or does not fit the burst.
    fn refusal_of(&mut self, clock: Clock, header: &Header, fits: bool) -> Option<Refusal> {
        if header.kind != Kind::Out || usize::from(header.lane) >= self.lanes.len() {
            return Some(Refusal::ForeignGroup);
        }
        if self.choice.told().is_none_or(|told| told.view != View(header.view)) {
            return Some(Refusal::ForeignView);
        }
        if !fits {
            // It comes again.
            return Some(Refusal::Gap);
        }
        let place = |(clock, number)| OutputPlace { clock: LaneClock(clock), number };
        let (after, this) = (place(header.after()), place((header.clock, header.seq)));
        match self.inbox.take(clock.instant(), LaneId(header.lane as u8), after, this) {
            Coming::Next => None,
            Coming::Gap => Some(Refusal::Gap),
            Coming::Doubled => {
                self.common.board.doubled.add(1);
                Some(Refusal::Duplicate)
            }
        }
    }

    /// Tells the active node which outputs came.
    fn tell_taken(&mut self, clock: Clock, ledger: &mut Ledger) {
        let Some(told) = self.choice.told() else { return };
        let (view, to) = (told.view, Peer::Node(told.active.node));
        if self.inbox_view != view {
            self.inbox_view = view;
            self.inbox.begin_view();
        }
        if let Some(taken) = self.inbox.poll(clock.instant()) {
            let mut header = self.links.header(Kind::Taken, view.0);
            let body = taken_out(&mut header, &taken, self.lanes.len());
            self.links.send(clock.ticks, ledger, to, header, &body);
        }
    }

    /// Obeys the control loop.
    pub fn obey(&mut self, clock: Clock, ledger: &mut Ledger, command: Command) {
        fail::passes("told", command.step());
        let told = match command {
            Command::Written(view) => Told::Written { view },
            Command::Reachable(node, up) => Told::Reachable { node, up },
            Command::HandOver(wanted) => Told::HandOver { wanted },
            Command::FailOver => Told::FailOver,
            Command::Link(at, up) => return self.links.set_up(at, up),
            _ => return,
        };
        self.tell(clock, told);
        self.apply(clock, ledger);
    }

    fn tell(&mut self, clock: Clock, told: Told) {
        self.choice.on(clock.instant(), told, &mut self.actions);
    }

    /// Does what is due in each pass.
    pub fn poll(&mut self, clock: Clock, ledger: &mut Ledger) {
        if self.choice.is_due(clock.instant()) {
            self.choice.poll(clock.instant(), &(), &mut self.actions);
            self.apply(clock, ledger);
        }
        for lane in 0..self.lanes.len() as u8 {
            self.let_in(clock, ledger, lane);
            self.send_lane(clock, ledger, lane);
        }
        self.tell_taken(clock, ledger);
        self.publish();
    }

    /// Stamps packets that were kept outside.
    fn let_in(&mut self, clock: Clock, ledger: &mut Ledger, lane: u8) {
        for _ in 0..self.lanes[usize::from(lane)].held.len().min(BURST) {
            let Some(kept) = self.lanes[usize::from(lane)].held.pop_front() else { return };
            let before = self.lanes[usize::from(lane)].held.len();
            let place = ledger.store(kept.region).holders.place(kept.packet.index());
            self.stamp(clock, ledger, lane, (kept, place));
            if self.lanes[usize::from(lane)].held.len() > before {
                // Still outside: it is the first again.
                return self.lanes[usize::from(lane)].held.rotate_right(1);
            }
        }
    }

    /// Sends packets that the active node has room for.
    fn send_lane(&mut self, clock: Clock, ledger: &mut Ledger, lane: u8) {
        let Some(told) = self.choice.told().copied() else { return };
        let to = Peer::Node(told.active.node);
        for _ in 0..BURST * DRAIN_BURSTS {
            let at = &mut self.lanes[usize::from(lane)];
            let Some(number) =
                at.unsent.take().or_else(|| self.choice.send_next(LaneId(lane)).map(|it| it.0))
            else {
                return;
            };
            let Some((kept, time_us)) = at.log.get(number) else { continue };
            let header = self.links.header(Kind::Data, told.view.0).at(time_us);
            let header = Header { lane: u16::from(lane), clock: number, ..header };
            if !self.links.send_copy(clock.ticks, ledger, to, header, kept) {
                self.lanes[usize::from(lane)].unsent = Some(number);
                return;
            }
            self.lanes[usize::from(lane)].sent = number;
        }
    }

    fn apply(&mut self, clock: Clock, ledger: &mut Ledger) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Write(assignment) => self.common.tell(Event::Write(assignment)),
                Action::Report(report) => {
                    if let Report::View(told) = report {
                        self.lanes.iter_mut().for_each(|lane| lane.unsent = None);
                        if self.active.replace(told.active).is_some_and(|before| before != told.active) {
                            self.resumes = Some(told.view);
                        }
                    }
                    self.common.tell(Event::Gate(report));
                }
                Action::Send { to, view, message } => {
                    let mut header = self.links.header(Kind::Hello, view.0);
                    if let Some(body) = body_of(&mut header, &message, self.links.configuration) {
                        self.links.send(clock.ticks, ledger, Peer::Node(to), header, &body);
                    }
                }
                Action::Trim { to } => {
                    for (lane, at) in self.lanes.iter_mut().enumerate() {
                        at.log.trim(ledger, to.of(LaneId(lane as u8)).0);
                    }
                }
            }
        }
        self.actions = actions;
        self.begin_logs();
    }

    /// Empty logs begin where the choice says: a gate that was started again has learned clocks.
    fn begin_logs(&mut self) {
        for (lane, at) in self.lanes.iter_mut().enumerate() {
            if at.log.len() == 0 {
                at.log.begin(self.choice.trimmed().of(LaneId(lane as u8)).0);
            }
        }
    }

    fn publish(&self) {
        let board = &self.common.board;
        board.role.set(1);
        board.protected.set(u64::from(self.choice.durable().is_some()));
        board.view.set(self.choice.told().map_or(0, |told| told.view.0.into()));
        board.in_log.set(self.lanes.iter().map(|lane| lane.log.len() as u64).sum());
        for (lane, at) in self.lanes.iter().enumerate() {
            let (counts, id) = (&board.lanes[lane], LaneId(lane as u8));
            counts.arrived.set(self.choice.stamped().of(id).0);
            counts.finished.set(at.sent);
            counts.released.set(self.inbox.last(id).clock.0);
            counts.trimmed.set(self.choice.trimmed().of(id).0);
        }
    }
}
