//! Trace: watches packets at each station while somebody asks: how long stations take, and which packets
//! pass.
//!
//! A station reports once for each burst that it is done (`Watch::passed`). While nobody watches that is one
//! branch that is never taken. Each watcher has a [`Tap`]: what it wants, and a private bounded [`ring()`] of
//! copies that another thread drains. A full ring loses records and counts them; a packet never waits.
//!
//! # The price of being watched
//!
//! Copying takes longer than passing on. So looking at packets has a budget of the worker's time: a small
//! part of the time in which it is busy, and half of the time in which it has nothing to do, which costs
//! nobody anything. When that is spent, packets pass unseen and are only counted, until there is more. The
//! budget is one for all watchers of a worker: more watchers see less, and the chain pays the same.
//! Rejected: sampling every n-th packet, which is too much for small packets and too little for long ones.
//!
//! A packet that is followed from station to station ([`Picks`]) is never lost from sight for the budget,
//! which only decides whether another one is picked: there are few, and each is gone soon.

pub mod bpf;
mod picks;
mod record;
mod ring;
mod tap;

use headgate_shm::Descriptor;
use headgate_shm::cpu::cycles;
use headgate_units::{RegionId, Ticks};

use crate::board::{Board, Station};
use crate::holders::Place;

pub use picks::{InstanceSet, Picks};
pub use record::{At, Record, Step};
pub use ring::{RecordReader, RecordWriter, ring};
pub(crate) use tap::Seen;
pub use tap::{KEPT_BYTES_MAX, Steps, Tap, Wanted};

/// Part of a busy worker's time that watchers may take: 1/256. Our choice, because a watched chain is to lose
/// 5 % at most, and each copy costs others some times as much: the ways that are left out while one looks,
/// lines of the cache, and where no core is free the threads that drain, write and read. With 1/64 a chain
/// lost 15 % (`headgate bench observe`, two cores).
const BUSY_PARTS: u64 = 256;
/// Part of the time without packets that watchers may take. Our choice: half, so that a queue which has
/// formed meanwhile is worked off.
const IDLE_PARTS: u64 = 2;
/// Most time that is saved for later, in cycles, some 200 us. Our choice: bursts of some thousand packets are
/// seen whole, and a ring of an NF is not filled meanwhile.
const CREDIT_MAX: i64 = 1 << 19;
/// Packets that are looked at between two samples of the clock. Our choice: long frames take some 10 us each.
const LOOK_AT_ONCE: usize = 16;

/// What becomes of packets that make a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Nothing: nobody watches.
    #[default]
    Off,
    /// They are counted, whatever their chain: there is no time to look.
    Counts,
    /// They are shown: looked at, measured, or counted where a watcher wants some chains only.
    Shows,
}

/// State of what a worker watches.
#[derive(Default)]
pub(crate) struct Watch {
    attention: Attention,
    measures: bool,
    /// Packets that were only counted in this pass, by kind of step.
    unseen: [u64; Step::KINDS],
    /// Whether there is time to look at packets.
    looks: bool,
    /// End of the last station, while stations are measured.
    mark: Ticks,
    /// Begin of this pass, and whether packets moved in it.
    began: Ticks,
    moved: bool,
    /// Cycles that may be spent on looking; negative: were spent too much.
    credit: i64,
    taps: Vec<(u32, Box<Tap>)>,
}

impl Watch {
    /// Measures the cost of each station, or stops.
    pub fn measure(&mut self, on: bool) {
        self.measures = on;
        self.attend();
    }

    /// Begins to serve a tap, by which number it is taken away again.
    pub fn tap(&mut self, number: u32, tap: Box<Tap>) {
        self.tell_unseen();
        self.taps.push((number, tap));
        self.attend();
    }

    /// Takes a tap away, if there is one of this number.
    pub fn untap(&mut self, number: u32) {
        self.tell_unseen();
        self.taps.retain(|(other, _)| *other != number);
        self.looks &= !self.taps.is_empty();
        self.attend();
    }

    /// Decides what becomes of packets from here on.
    fn attend(&mut self) {
        let shows = self.looks || self.measures || self.taps.iter().any(|(_, tap)| tap.is_choosy());
        self.attention = match (shows, self.taps.is_empty()) {
            (true, _) => Attention::Shows,
            (false, true) => Attention::Off,
            (false, false) => Attention::Counts,
        };
    }

    /// Returns what becomes of packets that make a step.
    #[inline(always)]
    pub const fn attention(&self) -> Attention {
        self.attention
    }

    /// Returns whether anything is watched.
    #[inline(always)]
    pub const fn is_on(&self) -> bool {
        !matches!(self.attention, Attention::Off)
    }

    /// Counts packets that make a step while that is all that becomes of them.
    #[inline(always)]
    pub const fn count(&mut self, step: Step, packets: usize) {
        self.unseen[step.kind()] += packets as u64;
    }

    /// Tells taps how many packets were only counted.
    fn tell_unseen(&mut self) {
        self.taps.iter_mut().for_each(|(_, tap)| tap.miss_all(&self.unseen));
        self.unseen = [0; Step::KINDS];
    }

    /// Returns whether packets are looked at, one by one.
    #[inline(always)]
    pub const fn looks(&self) -> bool {
        self.looks
    }

    /// Begins a pass: the time up to now is no station's.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.is_on() {
            self.begin_watched();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_watched(&mut self) {
        let now = Ticks(cycles());
        let earned = now.0.saturating_sub(self.began.0) / if self.moved { BUSY_PARTS } else { IDLE_PARTS };
        self.credit = (self.credit + earned.min(CREDIT_MAX as u64) as i64).min(CREDIT_MAX);
        self.looks = !self.taps.is_empty() && (self.credit > 0 || self.follows());
        self.attend();
        (self.mark, self.began) = (now, now);
    }

    /// Returns whether a packet is followed.
    fn follows(&self) -> bool {
        self.taps.iter().any(|(_, tap)| tap.follows())
    }

    /// Notes that packets made a step.
    #[cold]
    #[inline(never)]
    pub fn passed(&mut self, board: &Board, seen: Seen<'_>, packets: &[Descriptor], places: &[Place]) {
        if let Step::Passed(station) = seen.step {
            self.measure_station(board, station, packets.len());
        }
        if self.taps.is_empty() {
            return;
        }
        let looked = if self.looks { self.look(seen, packets, places) } else { 0 };
        if let Some(unseen) = places.get(looked..) {
            self.taps.iter_mut().for_each(|(_, tap)| tap.miss(seen.step, seen.at, unseen));
        }
    }

    /// Looks at packets of a step as long as there is time to. Returns how many were looked at.
    fn look(&mut self, seen: Seen<'_>, packets: &[Descriptor], places: &[Place]) -> usize {
        let began = Ticks(cycles());
        let (seen, mut looked, mut spent_from) = (Seen { time: began, ..seen }, 0, began);
        for (packets, places) in packets.chunks(LOOK_AT_ONCE).zip(places.chunks(LOOK_AT_ONCE)) {
            if !self.looks {
                break;
            }
            self.taps.iter_mut().for_each(|(_, tap)| tap.look(seen, packets, places));
            let spent_to = Ticks(cycles());
            self.credit -= spent_to.since(spent_from).0 as i64;
            spent_from = spent_to;
            self.looks = self.credit > 0 || self.follows();
            looked += packets.len();
        }
        self.attend();
        // What an NF or the next station took, without us.
        self.mark = self.mark + spent_from.since(began);
        looked
    }

    /// Counts the time since the last station to this one, which so many packets passed, while stations are
    /// measured. To sample the clock at each takes a watched chain more than all else here.
    #[cold]
    #[inline(never)]
    pub fn measure_station(&mut self, board: &Board, station: Station, packets: usize) {
        if !self.measures {
            return;
        }
        let now = Ticks(cycles());
        let counts = &board.stations[station as usize];
        counts.cycles.add(now.since(self.mark).0);
        counts.packets.add(packets as u64);
        self.mark = now;
    }

    /// Notes that packets of one place went from one instance straight to another, which nobody looks at.
    #[inline(always)]
    pub fn went_straight(&mut self, board: &Board, from: At, to: At, place: Place, packets: usize) {
        match self.attention {
            Attention::Off => {}
            Attention::Counts => {
                self.count(Step::Passed(Station::Hop), packets);
                self.count(Step::Passed(Station::Deliver), packets);
            }
            Attention::Shows => self.show_straight(board, from, to, place, packets),
        }
    }

    #[cold]
    #[inline(never)]
    fn show_straight(&mut self, board: &Board, from: At, to: At, place: Place, packets: usize) {
        self.measure_station(board, Station::Hop, packets);
        for (_, tap) in &mut self.taps {
            tap.miss_run(Step::Passed(Station::Hop), from, place, packets);
            tap.miss_run(Step::Passed(Station::Deliver), to, place, packets);
        }
    }

    /// Ends a pass in which so many packets moved.
    #[inline(always)]
    pub fn tended(&mut self, board: &Board, moved: usize) {
        if self.is_on() {
            self.measure_station(board, Station::Tend, moved);
            self.moved = moved > 0;
            self.tell_unseen();
        }
    }

    /// Notes that a packet was copied to a buffer of another region.
    #[cold]
    pub fn copied(&mut self, to: Seen<'_>, copy: Descriptor, place: Place, from: (RegionId, u32)) {
        let to = Seen { time: Ticks(cycles()), ..to };
        self.taps.iter_mut().for_each(|(_, tap)| tap.copied(to, copy, place, from));
    }
}
