//! Replication of a group of chains between nodes: what a worker of the gate, of the active node and of the
//! standby does with packets. Who does what is decided in `headgate_decide::replicate`; here its actions are
//! applied.
//!
//! - `gate`: packets get the clock of their lane and are kept in the `log` (holder [`Holder::LOG`]); what
//!   comes back leaves once. Overload is shed here, before the clock.
//! - `member`: packets enter in the order of their `lane`, meet at NFs in an order that is written down
//!   or, in a replay, obeyed (`merge`, `journal`), and wait in the `latch` (holder [`Holder::LATCH`])
//!   until the standby knows what they rest on. `checkpoint` sends and stores copies of the NFs' state.
//! - `link`: frames to and from other nodes, `train`: packets that travel in one; `codec`: messages as bytes;
//!   `settings`: what files say, told to a node that was given another one; `time`: what NFs take for it.
//!
//! A group has one worker on each node; a worker may have several, which have nothing in common: each has
//! links of its own, and what is not its own it leaves to the next. A lane is a chain: its packets come by
//! one queue. Packets come from ports of the gate and leave by ports of the gate.
//!
//! Where no group is, the packet path pays two branches a pass, and one a burst at hop, deliver and the exit.
//!
//! [`Holder::LOG`]: crate::holders::Holder::LOG
//! [`Holder::LATCH`]: crate::holders::Holder::LATCH

mod board;
mod checkpoint;
mod codec;
mod common;
mod fail;
mod gate;
mod journal;
mod lane;
mod latch;
mod link;
mod log;
mod member;
mod merge;
mod settings;
mod setup;
mod time;
mod train;

use headgate_units::{ChainId, InstanceId, Ticks};

use crate::burst::{Burst, Run};
use crate::ledger::Ledger;
use crate::stages::Stages;
use crate::view::View;

pub use board::{GroupBoard, LaneCounts, REFUSALS, Refusal};
pub(crate) use common::Clock;
use common::Common;
pub use common::{Event, States};
use gate::GateEnd;
pub use link::LinkEnd;
use link::Links;
use member::MemberEnd;
use settings::Settings;
pub use setup::{Command, Role, Setup};
use time::GateTime;

/// Groups of a worker.
#[derive(Default)]
pub(crate) struct Groups {
    all: Vec<Replica>,
    /// Packets that ended since the last pass: chain, and the word beside its holder record.
    ended: Vec<(ChainId, u64)>,
}

impl Groups {
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub const fn count(&self) -> usize {
        self.all.len()
    }

    pub fn of(&mut self, at: usize) -> &mut Replica {
        &mut self.all[at]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Replica> {
        self.all.iter()
    }

    /// Obeys a command for the group of this number.
    pub fn obey(&mut self, clock: Clock, ledger: &mut Ledger, number: u16, command: Command) {
        match command {
            Command::Join(setup) => self.all.push(Replica::new(clock, *setup)),
            command => {
                if let Some(group) = self.all.iter_mut().find(|group| group.links().group() == number) {
                    group.obey(clock, ledger, command);
                }
            }
        }
    }

    /// Does what is due in each pass.
    pub fn tend(&mut self, view: &View, clock: Clock, ledger: &mut Ledger, stages: &mut Stages) {
        if let Some(ends) = &mut ledger.ends {
            std::mem::swap(ends, &mut self.ended);
        }
        for group in &mut self.all {
            match group {
                Replica::Gate(gate) => gate.poll(clock, ledger),
                Replica::Member(member) => member.poll(view, clock, ledger, stages, &self.ended),
            }
            group.links_mut().tend(clock.ticks, ledger);
        }
        self.ended.clear();
    }
}

/// Part of a worker in a group.
#[expect(clippy::large_enum_variant, reason = "a worker has few")]
pub(crate) enum Replica {
    Gate(GateEnd),
    Member(MemberEnd),
}

impl Replica {
    fn new(clock: Clock, setup: Setup) -> Self {
        let Setup { group, configuration, settings, chains, links, role, board, events } = setup;
        let common = Common::new(chains, board, events);
        let settings = Settings::new(settings);
        let links = Links::new(group, configuration, links);
        match role {
            Role::Gate { setup, wall_us } => {
                let time = GateTime::new(clock, wall_us);
                Self::Gate(GateEnd::new((setup, time), common, links, settings))
            }
            Role::Member { setup, nfs, inside, latch, state_bytes } => {
                let room = [inside, latch, state_bytes];
                Self::Member(MemberEnd::new(setup, nfs, room, common, (links, settings)))
            }
        }
    }

    /// Returns the links to other nodes.
    pub const fn links(&self) -> &Links {
        match self {
            Self::Gate(gate) => &gate.links,
            Self::Member(member) => &member.links,
        }
    }

    pub const fn is_gate(&self) -> bool {
        matches!(self, Self::Gate(_))
    }

    /// Takes in a frame. A packet that may go on is put into the burst.
    pub fn receive(&mut self, clock: Clock, ledger: &mut Ledger, at: [usize; 2], burst: &mut Burst) {
        match self {
            Self::Gate(gate) => gate.receive(clock, ledger, at, burst),
            Self::Member(member) => member.receive(clock, ledger, at, burst),
        }
    }

    /// Lets packets enter that waited at the entrance, into an empty burst. Returns how many.
    pub fn let_in(&mut self, clock: Clock, ledger: &mut Ledger, burst: &mut Burst) -> usize {
        match self {
            Self::Gate(_) => 0,
            Self::Member(member) => member.let_in(clock, ledger, burst),
        }
    }

    /// Returns whether the node takes part no longer.
    pub const fn has_left(&self) -> bool {
        match self {
            Self::Gate(_) => false,
            Self::Member(member) => member.has_left(),
        }
    }

    pub const fn links_mut(&mut self) -> &mut Links {
        match self {
            Self::Gate(gate) => &mut gate.links,
            Self::Member(member) => &mut member.links,
        }
    }

    /// Takes packets of the group that are at the end of their chain. Returns the others.
    fn take<'a>(&mut self, clock: Clock, ledger: &mut Ledger, run: Run<'a>) -> Run<'a> {
        match self {
            Self::Gate(gate) => gate.take(clock, ledger, run),
            Self::Member(member) => member.take(ledger, run),
        }
    }

    fn obey(&mut self, clock: Clock, ledger: &mut Ledger, command: Command) {
        match self {
            Self::Gate(gate) => gate.obey(clock, ledger, command),
            Self::Member(member) => member.obey(clock, ledger, command),
        }
    }
}

/// Returns those packets on their way to an NF that may be delivered now: all, where no group is.
#[inline(always)]
pub(crate) fn in_order<'a>(
    groups: &mut Groups,
    view: &View,
    ledger: &mut Ledger,
    stages: &mut Stages,
    to: (InstanceId, u8),
    run: Run<'a>,
) -> Run<'a> {
    let mut run = run;
    for group in &mut groups.all {
        if let Replica::Member(member) = group {
            run = member.deliver(view, ledger, stages, to, run);
        }
    }
    run
}

/// Returns those packets at the end of their chain that no group takes: all, where none is.
#[inline(always)]
pub(crate) fn into_group<'a>(
    groups: &mut Groups,
    now: Ticks,
    ticks_per_micro: u64,
    ledger: &mut Ledger,
    run: Run<'a>,
) -> Run<'a> {
    let mut run = run;
    for group in &mut groups.all {
        run = group.take(Clock { ticks: now, ticks_per_micro }, ledger, run);
    }
    run
}
