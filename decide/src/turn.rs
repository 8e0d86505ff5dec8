//! Whose turn it is on a core of NFs that never sleep, and for how long.
//!
//! The problem: an NF that polls looks busy whether it has packets or not, so the kernel gives all of them the
//! same time, for milliseconds. In one such turn an NF fills the ring behind it many times over, and what does
//! not fit was worked on for nothing: three of them on a core deliver a hundredth of what the core could do.
//! And a black box cannot be asked to yield, nor to say what it costs.
//!
//! The intuition: *the rings tell*. An NF is worth the core exactly while packets wait before it and there is
//! room behind it, and both can be seen from outside. So one NF of a core runs at a time, in the order of the
//! chain, each for as long as it takes to fill most of the room behind it. The next one then finds a whole
//! batch; what a switch costs is spread over thousands of packets; and nothing is worked on that must be
//! dropped.
//!
//! A turn lasts `cost * gamma * capacity` of the ring behind (UNiS, algorithm 1). It ends early when fewer
//! than [`THETA_MIN`] packets wait, or more than `gamma * capacity` lie behind (theta_max, the *occupancy
//! rule*). The thesis looks for that every microsecond from a core of its own. Who cannot look that often is
//! told when it would be so: a turn is never longer than the packets that wait, or the room that is left,
//! will last at this cost. So one state machine serves a scheduler that polls and one that sleeps.
//!
//! The cost is not asked for: a turn in which packets were left over took its time for the packets that it
//! consumed. A turn that emptied the ring says only what a packet costs at most, because the NF may have
//! polled for a while; so the estimate then comes down a little until packets are left again, and is exact.
//! (The thesis measures once, on a spare core, and names this as future work.)
//!
//! Nobody starves: the wait queue goes round, so each NF with work and room comes before any has a second
//! turn; packets fewer than [`THETA_MIN`] count too after [`PATIENCE`], or when nobody has more. An NF behind
//! which the ways part runs while one of them has room: a chain that is stuck does not stop the others.
//!
//! An NF has more to do than packets: it starts, ends, reads its mail, dies. For such an *errand* it has a turn of
//! [`ERRAND`], which it gets without one every [`COURTESY`].
//!
//! Whoever lies about its rings harms itself. One that seems to have packets and takes none gets
//! [`ERRAND`] each [`STALLED`], once it has had [`FRUITLESS_MAX`] for nothing; no turn is longer than [`TURN_MAX`], whatever a packet seems to cost.
//!
//! Chains of which something is asked, a throughput or a delay, have their NFs' turns before the round goes on, as
//! late as that keeps it ([`objective`]).
//!
//! Rejected: preferring the fullest ring, which lets an overloaded chain take the core of a quiet one; and
//! shares by cost, which need a core's worth of time to be exact where this is exact each round.
//!
//! What it refuses to do: look inside an NF, drop a packet, or keep the core from the rest of the machine when
//! there is nothing to do: after [`REST_AFTER`] without packets nobody is to run before others any more.
//!
//! Source: UNiS, algorithm 1 and section 3.3.

mod estimate;
pub mod objective;
mod order;

use alloc::vec::Vec;

use crate::units::{Instant, Span};

pub use estimate::{Estimate, Origin};
use objective::{Claims, Ended, Look, Objective, Rank};
pub use order::order;

/// Packets that are worth a turn at once: a burst of 64 less 8 (UNiS, section 3.3).
pub const THETA_MIN: u32 = 64 - 8;
/// gamma, in percent: the part of the ring behind that one turn may fill (UNiS, section 3.3).
pub const GAMMA_PERCENT: u32 = 75;
/// Percent of the ring behind that a turn may fill besides, when the next NF has left packets there: else a
/// chain whose NFs leave some would have smaller batches than its neighbour. Our choice: half of what gamma
/// leaves; the other half is for costs that are not as estimated.
const SPARE_PERCENT: u32 = 12;
/// What is left of a turn is put off when it takes less than so many of the shortest turns and others have
/// packets. Our choice: a look more would be a quarter of it.
const BRIEF: u64 = 4;
/// How long fewer packets than [`THETA_MIN`] wait while others have more. Our choice: some turns of light
/// NFs, and what a sleeping NF waits for on a core that works (`wake::AGE_WORKING`).
pub const PATIENCE: Span = Span::from_micros(100);
/// The longest turn. Our choice: a ring of 16,384 packets of 700 cycles takes as long; a dearer NF, or one
/// that seems to be, must not keep its neighbours waiting longer.
pub const TURN_MAX: Span = Span::from_millis(5);
/// How long an NF may have the core without taking a packet. Our choice: four turns; a burst of 64 packets of
/// 300 us takes as long, and is taken at its beginning.
pub const FRUITLESS_MAX: Span = Span::from_millis(20);
/// When an NF that had that has another turn. Our choice: a hung one then has a twentieth of a core until it is
/// noticed, and one that waited for something itself is soon back.
pub const STALLED: Span = Span::from_millis(10);
/// A turn for something other than packets. Our choice: a fifth of what the start of an NF takes; whoever has
/// packets waits for one of them in three halves of a millisecond at most.
pub const ERRAND: Span = Span::from_micros(500);
/// When an errand that is not done goes on: twice as long after it.
const ERRAND_AGAIN: Span = Span::from_millis(1);
/// How long an NF may be without any turn. Our choice: as often as a sleeping NF looks around by itself.
pub const COURTESY: Span = Span::from_millis(100);
/// Bounds of the time between two looks at a core without packets: an eighth of the time since the last ones.
/// Our choice: the first packet after a pause waits less than a wake-up from another core would take (33-42
/// us), and looking takes no more than a fifth of a core that nobody needs.
pub const IDLE_LOOK: [Span; 2] = [Span::from_micros(10), Span::from_micros(50)];
/// Time without packets after which nobody is to run before the rest of the machine. Our choice: longer than
/// a pause in any traffic whose delay matters in microseconds.
pub const REST_AFTER: Span = Span::from_millis(20);

/// How turns are given on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// gamma of the time slice, in percent. That of theta_max stays [`GAMMA_PERCENT`].
    pub gamma_percent: u32,
    /// Whether rings are looked at. Without, every NF has its time slice in turn, as in UNiS, section 4.4.
    pub occupancy: bool,
    /// The shortest turn: what a switch costs, since a shorter one would be mostly switch.
    pub turn_min: Span,
}

/// An NF of the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Packets that its own ring holds.
    pub ring: u32,
    /// Packets that the ring behind it holds: the one of the next NF, or its own to the port.
    pub capacity: u32,
    /// What a packet costs it, as far as known.
    pub estimate: Estimate,
}

/// What the rings of an NF show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets before it.
    pub waiting: u32,
    /// Packets behind it that the next has not taken; where ways part, on the emptiest of them.
    pub behind: u32,
    /// Packets it has taken, ever (wraps).
    pub taken: u32,
    /// Packets of these that it has not given on yet, as far as that can be seen.
    pub in_hand: u32,
    /// It has something to do that is no packet: it starts, or was told something.
    pub errand: bool,
}

impl Seen {
    /// Whether it has packets, before it or in hand.
    const fn has_any(&self) -> bool {
        self.waiting > 0 || self.in_hand > 0
    }
}

/// What is to happen on the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// This NF runs, and no other.
    Run {
        /// Its place among the members.
        nf: usize,
        /// When to look again.
        until: Instant,
    },
    /// Nobody has work. This NF may poll: the first in the chain, so that packets that come find it running.
    Idle {
        /// Its place among the members.
        nf: usize,
        /// When to look again.
        until: Instant,
    },
    /// Nobody has had work for long: nobody goes before the rest of the machine.
    Rest {
        /// When to look again.
        until: Instant,
    },
}

/// An NF as its core knows it.
#[derive(Clone, Debug)]
struct Place {
    member: Member,
    /// Since when packets wait before it while it does not run.
    waits_since: Option<Instant>,
    /// Time of its turns since it last took a packet.
    fruitless: Span,
    /// It had too much of that; its last turn ended then.
    stalled_since: Option<Instant>,
    /// Its last errand ended then.
    errand_at: Option<Instant>,
    /// When it last had the core, as far as known.
    ran_at: Option<Instant>,
}

impl Place {
    /// Packets of a turn that is worth its switch: as many as its rings take.
    fn batch(&self) -> u32 {
        part_of(self.member.capacity.min(self.member.ring), GAMMA_PERCENT)
    }
}

/// A turn under way.
#[derive(Clone, Copy, Debug)]
struct Turn {
    nf: usize,
    /// Who goes before it.
    rank: Rank,
    /// Whether it is one of the round.
    in_round: bool,
    began: Instant,
    /// When its time slice is over.
    ends: Instant,
    taken: u32,
    /// Packets before it when it began, and since when the oldest of them is here.
    waiting: u32,
    oldest: Option<Instant>,
    /// Whether it was made longer for packets in hand.
    longer: bool,
    /// Whether it was given for work; else the NF merely polls.
    works: bool,
    /// Whether that is something other than packets.
    errand: bool,
}

/// One core.
#[derive(Clone, Debug)]
pub struct Core {
    rules: Rules,
    places: Vec<Place>,
    claims: Claims,
    turn: Option<Turn>,
    /// Where the round goes on, and what is left of a turn there that let another pass.
    round: usize,
    left: Option<Span>,
    idle_since: Option<Instant>,
    poll_at: Instant,
}

impl Core {
    /// A core with these NFs, in the order in which packets pass them ([`order`]), and what is asked of their chains.
    #[must_use]
    pub fn new(
        rules: Rules,
        members: impl IntoIterator<Item = Member>,
        objectives: impl IntoIterator<Item = Objective>,
    ) -> Self {
        let place = |member| Place {
            member,
            waits_since: None,
            fruitless: Span(0),
            stalled_since: None,
            errand_at: None,
            ran_at: None,
        };
        let places: Vec<Place> = members.into_iter().map(place).collect();
        let claims = Claims::new(&rules, places.len(), objectives);
        Self {
            rules,
            places,
            claims,
            turn: None,
            round: 0,
            left: None,
            idle_since: None,
            poll_at: Instant(0),
        }
    }

    /// When to look again at the latest.
    #[must_use]
    pub const fn poll_at(&self) -> Instant {
        self.poll_at
    }

    /// What is known of an NF's cost.
    #[must_use]
    pub fn estimate(&self, nf: usize) -> Option<Estimate> {
        self.places.get(nf).map(|place| place.member.estimate)
    }

    /// Decides, from what the rings of all members show.
    ///
    /// # Panics
    /// When there are not as many as members.
    pub fn poll(&mut self, now: Instant, seen: &[Seen]) -> Action {
        assert_eq!(seen.len(), self.places.len());
        self.note_waiting(now, seen);
        self.claims.note(Look { now, places: &self.places, seen });
        let goes_on = self.turn.is_some_and(|turn| turn.works && !self.is_over(&turn, now, seen))
            || self.may_finish(now, seen);
        let action = if goes_on { self.go_on(now, seen) } else { self.change(now, seen) };
        let (Action::Run { until, .. } | Action::Idle { until, .. } | Action::Rest { until }) = action;
        self.poll_at = until;
        action
    }

    fn note_waiting(&mut self, now: Instant, seen: &[Seen]) {
        let runs = self.turn.filter(|turn| turn.works).map(|turn| turn.nf);
        for (nf, (place, seen)) in self.places.iter_mut().zip(seen).enumerate() {
            let waits = seen.waiting > 0 && runs != Some(nf);
            place.waits_since = if waits { place.waits_since.or(Some(now)) } else { None };
            place.ran_at.get_or_insert(now);
        }
    }

    /// Packets that may lie behind an NF.
    fn theta_max(&self, nf: usize) -> u32 {
        part_of(self.places[nf].member.capacity, GAMMA_PERCENT)
    }

    /// Whether fewer than that do.
    fn has_room(&self, nf: usize, seen: &[Seen]) -> bool {
        !self.rules.occupancy || seen[nf].behind < self.theta_max(nf)
    }

    fn is_over(&self, turn: &Turn, now: Instant, seen: &[Seen]) -> bool {
        let starved = !turn.errand && (seen[turn.nf].waiting < THETA_MIN || !self.has_room(turn.nf, seen));
        now >= turn.ends
            || self.rules.occupancy
                && (starved || self.is_brief(turn, now, seen) || self.is_outranked(turn, now, seen))
    }

    /// Whether an NF that came for a bound has its last burst in hand: taken away now, that would be there until its next
    /// turn. Once, since there is always a burst in hand where packets come all the time.
    fn may_finish(&mut self, now: Instant, seen: &[Seen]) -> bool {
        let Some(turn) = self.turn.as_mut().filter(|turn| matches!(turn.rank, Rank::Bound(_))) else {
            return false;
        };
        let finishes = !turn.longer && seen[turn.nf].in_hand > 0 && now < turn.ends;
        turn.longer |= finishes;
        finishes
    }

    /// Whether somebody is due who goes before it.
    fn is_outranked(&self, turn: &Turn, now: Instant, seen: &[Seen]) -> bool {
        self.due(now, seen).is_some_and(|(rank, nf)| rank < turn.rank && nf != turn.nf)
    }

    /// Who is due for what is asked of its chain.
    fn due(&self, now: Instant, seen: &[Seen]) -> Option<(Rank, usize)> {
        if self.claims.is_empty() {
            return None;
        }
        let look = Look { now, places: &self.places, seen };
        let may_run = |nf: usize| seen[nf].has_any() && self.has_room(nf, seen) && !self.rests(nf, now);
        self.claims.due(look, may_run)
    }

    /// Whether so little is left when the time planned is over that others come first: what comes while an NF
    /// works off the rest is less and less, and each look costs as much as the first.
    fn is_brief(&self, turn: &Turn, now: Instant, seen: &[Seen]) -> bool {
        let brief = Span(self.rules.turn_min.0 * BRIEF);
        now >= self.poll_at
            && !turn.errand
            && self.lasts(turn.nf, seen) < brief
            && self.next(turn.nf + 1, now, seen).is_none_or(|next| next.nf != turn.nf)
    }

    fn go_on(&self, now: Instant, seen: &[Seen]) -> Action {
        let Some(turn) = self.turn else { unreachable!("only a turn goes on") };
        let lasts = if turn.errand { ERRAND } else { self.lasts(turn.nf, seen) };
        let look = Look { now, places: &self.places, seen };
        let until = turn.ends.min(now + lasts);
        let due = self.claims.next_due(turn.rank, Some(turn.nf), look);
        let until = due.map_or(until, |due| until.min(due.max(now + self.rules.turn_min)));
        Action::Run { nf: turn.nf, until }
    }

    /// How long packets before it and room behind it last.
    fn lasts(&self, nf: usize, seen: &[Seen]) -> Span {
        let member = &self.places[nf].member;
        let room = part_of(member.capacity, GAMMA_PERCENT + SPARE_PERCENT).saturating_sub(seen[nf].behind);
        let packets = if self.rules.occupancy { seen[nf].waiting.min(room) } else { u32::MAX };
        let packets = packets.saturating_add(seen[nf].in_hand);
        let time = member.estimate.of(packets);
        time.clamp(self.rules.turn_min, TURN_MAX)
    }

    /// The turn is over: what it says of the cost, and who is next.
    fn change(&mut self, now: Instant, seen: &[Seen]) -> Action {
        let last = self.turn.take();
        if let Some(turn) = last {
            self.places[turn.nf].ran_at = Some(now);
        }
        if let Some(turn) = last.filter(|turn| turn.works) {
            self.leave(&turn, now, seen);
            self.learn(&turn, now, seen[turn.nf]);
            self.tell(&turn, now, seen);
        }
        let Some(Next { nf, rank, in_round }) = self.next(self.round, now, seen) else {
            return self.idle(now, seen);
        };
        let left = if in_round { self.come_to(nf) } else { None };
        if let Rank::Bound(bound) = rank {
            self.claims.on_due(bound, Look { now, places: &self.places, seen });
        }
        self.idle_since = None;
        let member = &self.places[nf].member;
        let batch = part_of(member.capacity, self.rules.gamma_percent);
        let slice = left.unwrap_or_else(|| member.estimate.of(batch).clamp(self.rules.turn_min, TURN_MAX));
        let stalled = self.places[nf].stalled_since.is_some();
        let errand = self.has_errand(nf, now, seen);
        let ends = now
            + match errand {
                true => slice.max(ERRAND),
                false if stalled => ERRAND,
                false => slice,
            };
        self.places[nf].waits_since = None;
        let (taken, waiting, oldest) = (seen[nf].taken, seen[nf].waiting, self.claims.oldest(nf));
        let (began, works, longer) = (now, true, false);
        let turn = Turn { nf, rank, in_round, began, ends, taken, waiting, oldest, longer, works, errand };
        self.turn = Some(turn);
        self.go_on(now, seen)
    }

    /// Who has to let another pass in its turn of the round has the rest of it afterwards.
    fn leave(&mut self, turn: &Turn, now: Instant, seen: &[Seen]) {
        let left = turn.ends - now;
        let worth = left.0 >= self.rules.turn_min.0 * BRIEF && seen[turn.nf].waiting >= THETA_MIN;
        if turn.in_round && !turn.errand && worth && self.is_outranked(turn, now, seen) {
            (self.round, self.left) = (turn.nf, Some(left));
        }
    }

    /// The round comes to an NF, perhaps past others; what is left of its turn.
    fn come_to(&mut self, nf: usize) -> Option<Span> {
        let (count, from) = (self.places.len(), self.round);
        let steps = (nf + count - from) % count;
        (0..=steps).for_each(|step| self.claims.on_round((from + step) % count));
        self.round = (nf + 1) % count;
        self.left.take().filter(|_| steps == 0)
    }

    /// What a turn was for those of whom something is asked.
    fn tell(&mut self, turn: &Turn, now: Instant, seen: &[Seen]) {
        let Turn { nf, rank, began, waiting, oldest, .. } = *turn;
        let took = seen[nf].taken.wrapping_sub(turn.taken);
        let ended = Ended { nf, rank, began, waiting, took, oldest };
        self.claims.on_end(&ended, Look { now, places: &self.places, seen });
    }

    fn learn(&mut self, turn: &Turn, now: Instant, seen: Seen) {
        let (took, time) = (seen.taken.wrapping_sub(turn.taken), now - turn.began);
        let place = &mut self.places[turn.nf];
        if turn.errand {
            place.errand_at = Some(now);
        }
        // A burst is taken at its beginning, and may take longer than a turn.
        let time = Span(time.0 + place.fruitless.0);
        if took == 0 {
            place.fruitless = time;
            place.stalled_since = (time >= FRUITLESS_MAX).then_some(now);
            return;
        }
        (place.fruitless, place.stalled_since) = (Span(0), None);
        if time > self.rules.turn_min {
            place.member.estimate.on_turn(took, time, seen.waiting >= THETA_MIN);
        }
    }

    /// Who is due; else the first from `after` on, round the queue, that has work and room: enough of it, or packets
    /// that have waited long enough; else anybody who has any, unless packets of all may wait.
    fn next(&self, after: usize, now: Instant, seen: &[Seen]) -> Option<Next> {
        let count = self.places.len();
        let look = Look { now, places: &self.places, seen };
        let round = || (0..count).map(move |step| (after + step) % count);
        let errand = |nf: &usize| {
            let done = self.places[*nf].errand_at.is_some_and(|at| now - at < ERRAND_AGAIN);
            self.has_errand(*nf, now, seen) && !done
        };
        let in_round = |nf| Next { nf, rank: self.claims.rank_of_round(), in_round: true };
        if !self.rules.occupancy {
            let any = seen.iter().any(|seen| seen.waiting > 0 || seen.errand);
            return round().next().filter(|_| any).map(in_round);
        }
        if let Some((rank, nf)) = self.due(now, seen) {
            return Some(Next { nf, rank, in_round: false });
        }
        let is_worth = |nf: &usize| {
            let waited = self.places[*nf].waits_since.map_or(Span(0), |since| now - since);
            seen[*nf].waiting >= THETA_MIN || waited >= PATIENCE
        };
        let may_run = |nf: &usize| self.may_run(*nf, now, seen);
        let timely = |nf: &usize| may_run(nf) && !self.claims.is_early(*nf, look);
        let others = || round().find(|nf| if self.claims.all_bounded { timely(nf) } else { may_run(nf) });
        let first = |nf: &usize| timely(nf) && is_worth(nf) && !self.claims.has_had_its_turn(*nf, look);
        let found = round().find(|nf| errand(nf) || first(nf)).or_else(|| round().find(timely));
        found.or_else(others).map(in_round)
    }

    /// Whether packets are before an NF and room is behind it.
    fn may_run(&self, nf: usize, now: Instant, seen: &[Seen]) -> bool {
        seen[nf].waiting > 0 && self.has_room(nf, seen) && !self.rests(nf, now)
    }

    fn has_errand(&self, nf: usize, now: Instant, seen: &[Seen]) -> bool {
        seen[nf].errand || self.places[nf].ran_at.is_some_and(|at| now - at >= COURTESY)
    }

    /// Whether an NF that took nothing in its last turn has to wait for another.
    fn rests(&self, nf: usize, now: Instant) -> bool {
        self.places[nf].stalled_since.is_some_and(|since| now - since < STALLED)
    }

    fn idle(&mut self, now: Instant, seen: &[Seen]) -> Action {
        self.round = 0;
        let since = *self.idle_since.get_or_insert(now);
        let idle = now - since;
        let [soonest, latest] = IDLE_LOOK;
        let until = now + Span(idle.0 / 8).clamp(soonest, latest);
        let pause = self.pause(now, seen);
        if idle >= REST_AFTER || self.places.is_empty() || pause.is_some() {
            // Nobody keeps anybody from the core.
            self.places.iter_mut().for_each(|place| place.ran_at = Some(now));
            return Action::Rest { until: pause.unwrap_or(until) };
        }
        let idle = Turn {
            nf: 0,
            rank: Rank::Round,
            in_round: false,
            began: now,
            ends: until,
            taken: seen[0].taken,
            waiting: 0,
            oldest: None,
            longer: false,
            works: false,
            errand: false,
        };
        self.turn = Some(idle);
        Action::Idle { nf: 0, until }
    }

    /// Until when nobody need look, where packets of all NFs may wait; `None` where somebody may poll for them.
    fn pause(&self, now: Instant, seen: &[Seen]) -> Option<Instant> {
        let pause = self.claims.pause()?;
        let look = Look { now, places: &self.places, seen };
        let on_their_way = seen.iter().any(|seen| seen.behind > 0) && !seen.iter().any(Seen::has_any);
        let [soonest, _] = IDLE_LOOK;
        let until = match self.claims.next_due(Rank::Round, None, look) {
            Some(due) => due,
            None if on_their_way => now,
            None => now + pause,
        };
        Some(until.max(now + soonest))
    }
}

/// Who has the core next.
#[derive(Clone, Copy, Debug)]
struct Next {
    nf: usize,
    rank: Rank,
    /// Whether it is a turn of the round.
    in_round: bool,
}

fn part_of(capacity: u32, percent: u32) -> u32 {
    (u64::from(capacity) * u64::from(percent) / 100) as u32
}

#[cfg(test)]
mod tests;
