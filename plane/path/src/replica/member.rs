//! A node's end of a group: active, standby, or neither.
//!
//! Packets enter in the order of their lanes ([`receive`]), and their outputs wait in the latch until the
//! choice lets them go; [`apply`] does what it says.
//!
//! Of packets that were inside when the node lost its part, clocks mean nothing any more: a word beside the
//! holder record has the node's *tenure* beside the clock, and what is of an older one ends as `fenced`.

mod apply;
mod receive;

use headgate_decide::decision::Decision;
use headgate_decide::replicate::boundary::{Action, Event as Told, Progress, Setup};
use headgate_decide::replicate::member::{Member, Part as Role};
use headgate_decide::replicate::{Clock as LaneClock, Clocks, Epoch, Lane as LaneId, Message, Peer};
use headgate_shm::Descriptor;
use headgate_units::{ChainId, InstanceId, RegionId};

use crate::burst::{Burst, Run};
use crate::drop::DropReason;
use crate::holders::Place;
use crate::ledger::Ledger;
use crate::stages::Stages;
use crate::view::View;

use super::checkpoint::{Assembly, Incoming, Outgoing};
use super::common::{Clock, Common, Event, Kept, States};
use super::fail;
use super::journal::Journal;
use super::lane::Lane;
use super::latch::Latch;
use super::link::Links;
use super::merge::Merges;
use super::settings::Settings;
use super::setup::Command;

/// Bits of the word beside a holder record that are the clock; those above are the tenure.
const CLOCK_BITS: u32 = 56;
const CLOCK_MASK: u64 = (1 << CLOCK_BITS) - 1;

/// A node's end of a group.
pub(crate) struct MemberEnd {
    pub common: Common,
    pub links: Links,
    settings: Settings,
    choice: Member,
    lanes: Vec<Lane>,
    latch: Latch,
    pub merges: Merges,
    pub journal: Journal,
    /// Maximum number of packets of a lane inside, and in its latch.
    inside: u64,
    latch_max: u64,
    /// Maximum number of bytes of one NF's state.
    state_bytes: u32,
    /// Number of the tenure, which is not 0, and whether a packet entered in any.
    tenure: u8,
    is_fresh: bool,
    /// Whether it takes part no longer.
    has_left: bool,
    /// Whether the NFs have the state that they are to go on from.
    is_ready: bool,
    /// Whether all NFs are in service: while one is not, packets wait at the entrance.
    are_running: bool,
    /// Commit that comes in parts, of this number.
    commit: (u64, Assembly),
    outgoing: Option<Outgoing>,
    /// The checkpoint that the one that is copied rests on.
    copying: Option<Epoch>,
    /// When the last copy of state was begun, until it is stored.
    copied_since: Option<headgate_units::Instant>,
    incoming: Option<Incoming>,
    stored: Option<Epoch>,
    /// One that is to be stored, whether it rests on that one, and what was copied.
    storing: Option<(Epoch, bool, States)>,
    /// Checkpoints that the control loop was handed, ever.
    handed_on: u64,
    actions: Vec<Action>,
    /// Burst that is made of packets which waited before an NF.
    scratch: Box<Burst>,
    /// Bytes of a commit that is sent.
    bytes: Vec<u8>,
}

impl MemberEnd {
    pub fn new(
        setup: Setup,
        nfs: Vec<InstanceId>,
        [inside, latch, state_bytes]: [u32; 3],
        common: Common,
        (links, settings): (Links, Settings),
    ) -> Self {
        let lanes = common.chains.len().max(1) as u32;
        let (inside, latch) = ((inside / lanes).max(1), (latch / lanes).max(1));
        let resend_after = setup.resend_after;
        Self {
            choice: Member::new(setup),
            lanes: common.chains.iter().map(|chain| Lane::new(*chain, inside)).collect(),
            latch: Latch::new(&common.chains, latch, resend_after),
            merges: Merges::new(&nfs, common.chains.len(), inside),
            journal: Journal::new(),
            inside: inside.into(),
            latch_max: latch.into(),
            state_bytes,
            tenure: 1,
            is_fresh: true,
            has_left: false,
            is_ready: false,
            are_running: false,
            commit: (0, Assembly::default()),
            outgoing: None,
            copied_since: None,
            incoming: None,
            stored: None,
            storing: None,
            handed_on: 0,
            copying: None,
            actions: Vec::with_capacity(64),
            scratch: Box::default(),
            bytes: vec![0; 64 * 1024],
            common,
            links,
            settings,
        }
    }

    /// Returns whether it takes part no longer.
    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    const fn word(&self, clock: u64) -> u64 {
        (self.tenure as u64) << CLOCK_BITS | clock & CLOCK_MASK
    }

    /// Returns the clock of a word of this tenure.
    fn clock_of(&self, word: u64) -> Option<u64> {
        (word >> CLOCK_BITS == u64::from(self.tenure)).then_some(word & CLOCK_MASK)
    }

    /// Returns the clock up to which a lane has room.
    fn credit(&self, lane: usize) -> u64 {
        let inside = self.lanes[lane].finished() + self.inside;
        let in_latch = self.latch.len(lane) as u64;
        // What is inside may all come to the latch.
        let latched = self.lanes[lane].finished() + self.latch_max.saturating_sub(in_latch);
        inside.min(latched)
    }

    /// Takes packets of the group on their way out of a port into the latch. Returns the others.
    #[cold]
    pub fn take<'a>(&mut self, ledger: &mut Ledger, run: Run<'a>) -> Run<'a> {
        let mut kept = 0;
        for at in 0..run.len() {
            let (packet, place) = (run.packets[at], run.places[at]);
            let Some(lane) = self.common.lane_of(place.chain()).map(usize::from) else {
                (run.packets[kept], run.places[kept]) = (packet, place);
                kept += 1;
                continue;
            };
            if !self.links.carry(packet) {
                ledger.end(place.chain(), run.region, DropReason::TooLong, &[packet]);
            } else if let Some(clock) = self.clock_or_end(ledger, run.region, packet, place) {
                self.latch.push(ledger, lane, (Kept { packet, region: run.region }, place), clock);
                self.lanes[lane].end(clock);
            }
        }
        run.split_at(kept).0
    }

    /// Returns the clock of a packet; it has ended where it has none of this tenure.
    fn clock_or_end(
        &self,
        ledger: &mut Ledger,
        region: RegionId,
        packet: Descriptor,
        place: Place,
    ) -> Option<u64> {
        let word = ledger.store(region).holders.extras.clock.get(packet.index()).unwrap_or(0);
        let clock = self.clock_of(word);
        if clock.is_none() {
            // One that an NF made cannot be made again; one of before is not ours any more.
            let reason = if word == 0 { DropReason::Uncommitted } else { DropReason::Fenced };
            ledger.end(place.chain(), region, reason, &[packet]);
        }
        clock
    }

    /// Returns those packets on their way to an NF that may be delivered now. The others wait, or have ended.
    #[cold]
    pub fn deliver<'a>(
        &mut self,
        view: &View,
        ledger: &mut Ledger,
        stages: &mut Stages,
        (nf, position): (InstanceId, u8),
        run: Run<'a>,
    ) -> Run<'a> {
        if !self.merges.has(nf) {
            return run;
        }
        let mut kept = 0;
        for at in 0..run.len() {
            let (packet, place) = (run.packets[at], run.places[at]);
            if self.clock_or_end(ledger, run.region, packet, place).is_some() {
                (run.packets[kept], run.places[kept]) = (packet, place);
                kept += 1;
            }
        }
        let run = run.split_at(kept).0;
        if self.merges.pass(&self.common, &mut self.journal, nf, &run) {
            return run;
        }
        self.merges.hold(&self.common, ledger, nf, position, &run);
        self.let_through(view, ledger, stages);
        run.split_at(0).0
    }

    /// Delivers packets whose turn it is in a replay.
    fn let_through(&mut self, view: &View, ledger: &mut Ledger, stages: &mut Stages) {
        for number in 0..self.merges.len() {
            while let Some((nf, position)) =
                self.merges.let_through(&mut self.journal, number, &mut self.scratch)
            {
                match stages.find(nf) {
                    Some(at) => stages.deliver(view, ledger, at, position, self.scratch.all()),
                    None => ledger.end_run(DropReason::StageDown, &self.scratch.all()),
                }
            }
        }
    }

    /// Obeys the control loop.
    pub fn obey(&mut self, clock: Clock, ledger: &mut Ledger, command: Command) {
        fail::passes("told", command.step());
        match command {
            Command::Copied(epoch, states) => {
                self.outgoing = Some(Outgoing::new(epoch, self.copying, states));
                self.tell(clock, ledger, Told::Copied { epoch });
            }
            Command::Prepared => self.tell(clock, ledger, Told::Prepared),
            Command::Flipped(epoch) => self.tell(clock, ledger, Told::Flipped { epoch }),
            Command::Restored => self.is_ready = true,
            Command::CheckpointWanted => self.tell(clock, ledger, Told::CheckpointWanted),
            Command::Link(at, up) => self.links.set_up(at, up),
            Command::HandOver(wanted) => self.ask_gate(clock, ledger, &Message::HandOver { wanted }),
            Command::FailOver => self.ask_gate(clock, ledger, &Message::FailOver),
            Command::Leave => {
                self.discard(ledger);
                self.has_left = true;
            }
            _ => {}
        }
    }

    /// Asks the gate for something on behalf of the operator. One that is lost is asked for again.
    fn ask_gate(&mut self, clock: Clock, ledger: &mut Ledger, message: &Message) {
        let view = self.choice.view();
        self.send(clock, ledger, Peer::Gate, view, message);
    }

    fn tell(&mut self, clock: Clock, ledger: &mut Ledger, told: Told) {
        let mut actions = std::mem::take(&mut self.actions);
        self.choice.on(clock.instant(), told, &mut actions);
        self.apply(clock, ledger, actions, None);
        self.start_lanes();
    }

    /// Does what is due in each pass.
    pub fn poll(
        &mut self,
        view: &View,
        clock: Clock,
        ledger: &mut Ledger,
        stages: &mut Stages,
        ended: &[(ChainId, u64)],
    ) {
        if self.has_left {
            return;
        }
        self.are_running = self.merges.nfs().all(|nf| stages.find(nf).is_some());
        self.let_through(view, ledger, stages);
        self.note_ends(ended);
        let progress = self.progress();
        let mut actions = std::mem::take(&mut self.actions);
        self.choice.poll(clock.instant(), &progress, &mut actions);
        self.apply(clock, ledger, actions, None);
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.send_some(clock, ledger, &mut self.links);
        }
        self.latch.let_out(clock, ledger, &mut self.links, self.choice.view());
        self.publish();
    }

    /// Takes in which packets of any chain ended since the last pass.
    fn note_ends(&mut self, ended: &[(ChainId, u64)]) {
        for (chain, word) in ended {
            if let (Some(lane), Some(clock)) = (self.common.lane_of(*chain), self.clock_of(*word)) {
                self.lanes[usize::from(lane)].end(clock);
            }
        }
    }

    fn progress(&mut self) -> Progress {
        let count = self.lanes.len();
        let clocks = |of: &dyn Fn(usize) -> u64| {
            let mut all = Clocks::new(count as u8);
            (0..count).for_each(|lane| all.set(LaneId(lane as u8), LaneClock(of(lane))));
            all
        };
        let finished = clocks(&|lane| self.lanes[lane].finished());
        let credit = clocks(&|lane| self.credit(lane));
        let is_replaying = self.merges.is_replaying();
        self.merges.flush(&mut self.journal);
        // Nobody needs entries of a node on its own, and one that joins begins behind them.
        if matches!(self.choice.part(), Role::Active(active) if active.is_on_its_own()) && !is_replaying {
            let end = self.journal.end();
            self.journal.trim(end);
        }
        let taken = clocks(&|lane| self.latch.taken(lane, self.lanes[lane].finished()));
        Progress { finished, journal: self.journal.end(), is_replaying, credit, taken }
    }

    fn publish(&self) {
        let board = &self.common.board;
        let role = match self.choice.part() {
            Role::Neither => 0,
            Role::Active(active) if active.is_on_its_own() => 3,
            Role::Active(_) => 2,
            Role::Standby(_) => 4,
        };
        board.role.set(role);
        board.view.set(self.choice.view().0.into());
        board.in_latch.set((0..self.lanes.len()).map(|lane| self.latch.len(lane) as u64).sum());
        let epoch = match self.choice.part() {
            Role::Active(active) => active.epoch().0,
            Role::Standby(standby) => standby.durable().map_or(0, |(epoch, _)| epoch.0),
            Role::Neither => 0,
        };
        board.epoch.set(epoch.into());
        for (lane, at) in self.lanes.iter().enumerate() {
            let counts = &board.lanes[lane];
            let (arrived, finished) = match self.choice.part() {
                Role::Standby(standby) => {
                    let finished = standby.finished().of(LaneId(lane as u8)).0;
                    (finished, finished)
                }
                _ => (at.entered(), at.finished()),
            };
            counts.arrived.set(arrived);
            counts.finished.set(finished);
            counts.released.set(self.latch.allowed(lane));
        }
    }
}

/// Asks the control loop for NFs with the state that is stored, or with an empty one.
fn restore(common: &Common, has_state: bool) {
    common.tell(Event::Restore(has_state));
}
