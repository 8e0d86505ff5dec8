//! Frames that come to a node: packets in the order of their lane, and messages.

use headgate_decide::replicate::boundary::{Arrival, Event as Told};
use headgate_decide::replicate::{
    Clock as LaneClock, Envelope, Epoch, JournalIndex, Lane as LaneId, Message, Peer, Seq, View,
};
use headgate_units::PortId;
use headgate_wire::replica::{Clocks, Commit, Header, Kind, LANES_MAX, Message as Body, Part, StateEnd};

use crate::BURST;
use crate::burst::Burst;
use crate::drop::DropReason;
use crate::holders::{Entrance, Place};
use crate::ledger::Ledger;
use crate::replica::board::Refusal;
use crate::replica::checkpoint::{Assembly, COMMIT_BYTES_MAX, Incoming};
use crate::replica::codec::{clocks_in, cut_in, message_in, taken_in};
use crate::replica::common::{Clock, Kept};
use crate::replica::lane::Early;
use crate::replica::link::{Received, ReceivedBody};

use super::MemberEnd;

impl MemberEnd {
    /// Takes in a frame. A packet that may enter is put into the burst.
    pub fn receive(&mut self, clock: Clock, ledger: &mut Ledger, at: [usize; 2], burst: &mut Burst) {
        let received = self.links.read(ledger, &self.common.board, at);
        let Some(Received { from, header, body }) = received else { return };
        let body = match body {
            ReceivedBody::Packet(kept) => return self.arrive(clock, ledger, &header, kept, burst),
            // Only who has another configuration says hello to this node.
            ReceivedBody::Message(Body::Hello { configuration, .. }) => {
                return self.refuse_foreign(clock, ledger, from, configuration);
            }
            ReceivedBody::Message(body) => body,
        };
        let view = View(header.view);
        self.common.refuse_older(&header, self.choice.view());
        let (lanes, stored) = (self.lanes.len() as u8, self.stored);
        let told = match (header.kind, body) {
            (Kind::Settings, Body::Part(part)) => {
                self.settings.take(&self.common, from, header.clock, &part).map(|()| None)
            }
            (Kind::Taken, Body::Taken { clocks, numbers }) => {
                self.on_taken(clock, ledger, (from, &header), (&clocks, &numbers))
            }
            (Kind::Commit, Body::Part(part)) => match take_part(&mut self.commit, &header, &part) {
                true if self.commit.1.whole().is_some() => return self.on_commit(clock, ledger, from, view),
                true => Ok(None),
                false => Err(Refusal::Malformed),
            },
            (Kind::State, Body::Part(part)) => {
                let room = self.choice.stands_by_in(view).then_some((self.merges.len(), self.state_bytes));
                take_state(&mut self.incoming, &header, &part, room, stored).map(|()| None)
            }
            (Kind::StateEnd, Body::Part(part)) => {
                end_of_state(self.incoming.as_mut(), &header, &part, (lanes, stored))
            }
            (_, body) => message_in(&header, &body, lanes)
                .map(|message| Some(Told::Received(Envelope { from, view, message })))
                .ok_or(Refusal::ForeignGroup),
        };
        let told = told.map_err(|refusal| self.common.board.refuse(refusal)).ok().flatten();
        told.into_iter().for_each(|told| self.tell(clock, ledger, told));
    }

    /// Takes in which outputs the gate has.
    fn on_taken(
        &mut self,
        clock: Clock,
        ledger: &mut Ledger,
        (from, header): (Peer, &Header),
        (clocks, numbers): (&Clocks, &[u32; LANES_MAX]),
    ) -> Result<Option<Told>, Refusal> {
        let (view, lanes) = (View(header.view), self.lanes.len() as u8);
        let taken = taken_in(header, clocks, numbers, lanes).filter(|_| from == Peer::Gate);
        let taken = taken.ok_or(Refusal::ForeignGroup)?;
        if view == self.choice.view() {
            self.latch.on_taken(clock, ledger, view, &taken);
        }
        Ok(None)
    }

    fn refuse_foreign(&mut self, clock: Clock, ledger: &mut Ledger, from: Peer, configuration: u64) {
        self.common.refuse_foreign(from, configuration);
        self.settings.send(clock, ledger, &mut self.links, from);
    }

    /// Takes in a whole commit.
    fn on_commit(&mut self, clock: Clock, ledger: &mut Ledger, from: Peer, view: View) {
        let assembly = std::mem::take(&mut self.commit.1);
        let lanes = self.lanes.len() as u8;
        let commit = assembly.whole().and_then(Commit::read);
        let message = commit.and_then(|commit| {
            Some(Message::Commit {
                seq: Seq(commit.seq),
                base: JournalIndex(commit.base),
                from: JournalIndex(commit.from),
                to: JournalIndex(commit.to()),
                finished: clocks_in(&commit.finished, lanes)?,
                released: clocks_in(&commit.released, lanes)?,
            })
        });
        match message {
            Some(message) => {
                let mut actions = std::mem::take(&mut self.actions);
                let told = Told::Received(Envelope { from, view, message });
                headgate_decide::decision::Decision::on(
                    &mut self.choice,
                    clock.instant(),
                    told,
                    &mut actions,
                );
                self.apply(clock, ledger, actions, commit.as_ref());
            }
            None => self.common.board.refuse(Refusal::Malformed),
        }
        // Its room is used again.
        self.commit.1 = assembly;
        self.commit.1.clear();
    }

    /// Takes in a packet of a lane.
    fn arrive(&mut self, clock: Clock, ledger: &mut Ledger, header: &Header, kept: Kept, burst: &mut Burst) {
        let lane = usize::from(header.lane);
        if header.kind != Kind::Data || lane >= self.lanes.len() {
            self.common.board.refuse(Refusal::ForeignGroup);
            return ledger.release(kept.region, kept.packet);
        }
        let (view, time_us) = (View(header.view), header.time_us());
        let early = Early { kept, view, clock: header.clock, time_us };
        if let Some(last) = self.lanes[lane].early.back() {
            if last.clock + 1 == early.clock && last.view == early.view {
                return self.wait(ledger, lane, early);
            }
            let known = if early.clock <= last.clock { Refusal::Duplicate } else { Refusal::Gap };
            self.common.board.refuse(known);
            return ledger.release(kept.region, kept.packet);
        }
        match self.ask(clock, ledger, lane, early, burst) {
            Arrival::Take => self.enter(ledger, lane, early, burst, true),
            Arrival::Wait => self.wait(ledger, lane, early),
            Arrival::Duplicate => self.refuse(ledger, kept, Refusal::Duplicate),
            Arrival::Gap => self.refuse(ledger, kept, Refusal::Gap),
            Arrival::Foreign | Arrival::Shed => self.refuse(ledger, kept, Refusal::ForeignView),
        }
    }

    fn refuse(&self, ledger: &mut Ledger, kept: Kept, refusal: Refusal) {
        self.common.board.refuse(refusal);
        ledger.release(kept.region, kept.packet);
    }

    /// Asks whether a packet may enter now.
    fn ask(
        &mut self,
        clock: Clock,
        ledger: &mut Ledger,
        lane: usize,
        early: Early,
        burst: &Burst,
    ) -> Arrival {
        let fits = burst.count == 0 || burst.count < BURST && burst.region == early.kept.region;
        let has_room = fits
            && self.is_ready
            && self.are_running
            && early.clock <= self.credit(lane)
            && !self.journal.is_filling();
        let mut actions = std::mem::take(&mut self.actions);
        let packet = (LaneId(lane as u8), LaneClock(early.clock));
        let arrival = self.choice.arrive(early.view, packet, has_room, &mut actions);
        self.apply(clock, ledger, actions, None);
        arrival
    }

    /// Has a packet wait at the entrance, counted as one of its chain; or not, where too many do.
    fn wait(&mut self, ledger: &mut Ledger, lane: usize, early: Early) {
        if !self.lanes[lane].has_room_at_entrance() {
            return self.refuse(ledger, early.kept, Refusal::Gap);
        }
        self.place(ledger, lane, early);
        self.lanes[lane].early.push_back(early);
    }

    /// Gives a packet its place at the head of its chain, and counts it in.
    fn place(&self, ledger: &Ledger, lane: usize, early: Early) -> Place {
        let chain = self.lanes[lane].chain;
        let place = Place::arrived(PortId(0), 0).entering(Entrance::head(chain));
        let store = ledger.store(early.kept.region);
        store.holders.extras.clear(&[early.kept.packet]);
        store.holders.set_place(early.kept.packet.index(), place);
        ledger.board.chains[chain.index()].entered.add(1);
        place
    }

    /// Puts a packet into the burst of those that enter.
    fn enter(&mut self, ledger: &Ledger, lane: usize, early: Early, burst: &mut Burst, is_new: bool) {
        let Kept { packet, region } = early.kept;
        let place = if is_new {
            self.place(ledger, lane, early)
        } else {
            ledger.store(region).holders.place(packet.index())
        };
        let extras = &ledger.store(region).holders.extras;
        extras.clock.set(packet.index(), self.word(early.clock));
        extras.set_time(packet.index(), early.time_us);
        self.lanes[lane].enter(early.clock);
        self.is_fresh = false;
        if burst.count == 0 {
            burst.begin(region, 0);
        }
        (burst.packets[burst.count], burst.places[burst.count]) = (packet, place);
        burst.count += 1;
    }

    /// Lets packets enter that waited at the entrance, into an empty burst. Returns how many.
    pub fn let_in(&mut self, clock: Clock, ledger: &mut Ledger, burst: &mut Burst) -> usize {
        for lane in 0..self.lanes.len() {
            while let Some(early) = self.lanes[lane].early.front().copied() {
                match self.ask(clock, ledger, lane, early, burst) {
                    Arrival::Take => self.enter(ledger, lane, early, burst, false),
                    Arrival::Wait => break,
                    _ => {
                        let chain = self.lanes[lane].chain;
                        ledger.end(chain, early.kept.region, DropReason::Fenced, &[early.kept.packet]);
                    }
                }
                // A choice that discarded everything has emptied it.
                self.lanes[lane].early.pop_front();
            }
        }
        burst.count
    }
}

/// Takes the end of a checkpoint. Returns what is to be told, if all of it came, or why it is none.
fn end_of_state(
    incoming: Option<&mut Incoming>,
    header: &Header,
    part: &Part,
    (lanes, stored): (u8, Option<Epoch>),
) -> Result<Option<Told>, Refusal> {
    let is_all = part.offset == 0 && part.bytes.len() == part.total as usize;
    let end = StateEnd::read(part.bytes).filter(|_| is_all).ok_or(Refusal::Malformed)?;
    let cut = cut_in(&end.cut, lanes).ok_or(Refusal::ForeignGroup)?;
    let (view, epoch) = (View(header.view), Epoch(header.seq));
    let is_whole = |it: &mut Incoming| (it.view, it.epoch) == (view, epoch) && it.is_whole(&end);
    // Of one that is stored the answer was lost.
    let is_here = stored == Some(epoch) || incoming.is_some_and(is_whole);
    let base = (end.base != 0).then_some(Epoch(end.base));
    Ok(is_here.then_some(Told::StateComplete { view, epoch, base, cut }))
}

/// Takes a part of a checkpoint of so many NFs with so many bytes each, where this node stands by.
///
/// # Errors
/// Why it is not one that is wanted.
fn take_state(
    incoming: &mut Option<Incoming>,
    header: &Header,
    part: &Part,
    room: Option<(usize, u32)>,
    stored: Option<Epoch>,
) -> Result<(), Refusal> {
    let (view, epoch) = (View(header.view), Epoch(header.seq));
    if stored.is_some_and(|stored| epoch <= stored) {
        return Err(Refusal::StaleEpoch);
    }
    let (nfs, bytes_max) = room.ok_or(Refusal::ForeignView)?;
    // One of another view cannot be completed any more, and an older one is not worth it.
    if incoming.as_ref().is_some_and(|known| known.view != view || known.epoch < epoch) {
        *incoming = None;
    }
    let incoming = incoming.get_or_insert_with(|| Incoming::new(view, epoch, nfs, bytes_max));
    if incoming.epoch != epoch {
        return Err(Refusal::StaleEpoch);
    }
    if incoming.take(header.lane, part) { Ok(()) } else { Err(Refusal::Malformed) }
}

fn take_part((number, assembly): &mut (u64, Assembly), header: &Header, part: &Part) -> bool {
    let this = u64::from(header.view) << 32 | u64::from(header.seq);
    if *number != this {
        assembly.clear();
        *number = this;
    }
    assembly.take(part, COMMIT_BYTES_MAX)
}
