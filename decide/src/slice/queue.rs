//! The run queue of one core: who is next, and when its slice ends.

use alloc::vec::Vec;

use super::entry::{Entry, Rank, Slice, SliceEnd};
use super::objective::{Goals, Sample};
use super::{
    BRIEF_SLICES, Choice, DEMOTE_AFTER, FRUITLESS_MAX, GAMMA_PERCENT, HOUSEKEEPING, HOUSEKEEPING_AGAIN,
    HOUSEKEEPING_EVERY, IDLE_SAMPLE_EVERY, Member, Objective, PATIENCE, PacketCost, RingSample, Rules,
    SLICE_MAX, SPARE_PERCENT, STALLED_FOR, THETA_MIN, part_of,
};
use crate::units::{Instant, Span};

/// The NF that has the core next.
#[derive(Clone, Copy, Debug)]
struct Next {
    nf: usize,
    rank: Rank,
    /// Whether it is a slice of the round.
    in_round: bool,
}

/// The run queue of one core.
#[derive(Clone, Debug)]
pub struct RunQueue {
    rules: Rules,
    entries: Vec<Entry>,
    goals: Goals,
    pub(super) slice: Option<Slice>,
    /// Member at which the round goes on, and the rest of a slice there that let another pass.
    round: usize,
    left: Option<Span>,
    idle_since: Option<Instant>,
    poll_at: Instant,
}

impl RunQueue {
    /// Returns the queue of these NFs, in the order in which packets pass them ([`super::order`]), with the
    /// objectives of their chains.
    #[must_use]
    pub fn new(
        rules: Rules,
        members: impl IntoIterator<Item = Member>,
        objectives: impl IntoIterator<Item = Objective>,
    ) -> Self {
        let entries: Vec<Entry> = members.into_iter().map(Entry::new).collect();
        let goals = Goals::new(&rules, entries.len(), objectives);
        Self {
            rules,
            entries,
            goals,
            slice: None,
            round: 0,
            left: None,
            idle_since: None,
            poll_at: Instant(0),
        }
    }

    /// Returns when to sample again at the latest.
    #[must_use]
    pub const fn poll_at(&self) -> Instant {
        self.poll_at
    }

    /// Returns how many NFs there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns what is known of an NF's cost.
    #[must_use]
    pub fn cost(&self, nf: usize) -> Option<PacketCost> {
        self.entries.get(nf).map(|entry| entry.member.cost)
    }

    /// Chooses, from what the rings of all members show.
    ///
    /// # Panics
    /// When there are not as many samples as members.
    pub fn poll(&mut self, now: Instant, rings: &[RingSample]) -> Choice {
        assert_eq!(rings.len(), self.entries.len());
        self.note_waiting(now, rings);
        self.goals.on_sample(Sample { now, entries: &self.entries, rings });
        let goes_on = self.slice.is_some_and(|slice| slice.works && !self.is_over(&slice, now, rings))
            || self.may_finish(now, rings);
        let choice = if goes_on { self.go_on(now, rings) } else { self.switch(now, rings) };
        self.poll_at = choice.until();
        choice
    }

    fn note_waiting(&mut self, now: Instant, rings: &[RingSample]) {
        let runs = self.slice.filter(|slice| slice.works).map(|slice| slice.nf);
        for (nf, (entry, rings)) in self.entries.iter_mut().zip(rings).enumerate() {
            let waits = rings.waiting > 0 && runs != Some(nf);
            entry.waits_since = if waits { entry.waits_since.or(Some(now)) } else { None };
            entry.ran_at.get_or_insert(now);
        }
    }

    /// Packets that may lie behind an NF.
    fn theta_max(&self, nf: usize) -> u32 {
        part_of(self.entries[nf].member.capacity, GAMMA_PERCENT)
    }

    /// Whether fewer than that do.
    fn has_room(&self, nf: usize, rings: &[RingSample]) -> bool {
        !self.rules.occupancy || rings[nf].behind < self.theta_max(nf)
    }

    fn is_over(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        let starved =
            !slice.housekeeping && (rings[slice.nf].waiting < THETA_MIN || !self.has_room(slice.nf, rings));
        now >= slice.ends
            || self.rules.occupancy
                && (starved || self.is_brief(slice, now, rings) || self.is_outranked(slice, now, rings))
    }

    /// Whether an NF that came for a bound has its last burst in hand: taken away now, that would be there
    /// until its next slice. Once, since there is always a burst in hand where packets come all the time.
    fn may_finish(&mut self, now: Instant, rings: &[RingSample]) -> bool {
        let Some(slice) = self.slice.as_mut().filter(|slice| matches!(slice.rank, Rank::Bound(_))) else {
            return false;
        };
        let finishes = !slice.longer && rings[slice.nf].in_hand > 0 && now < slice.ends;
        slice.longer |= finishes;
        finishes
    }

    /// Whether an NF is due that goes before it.
    fn is_outranked(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        self.due(now, rings).is_some_and(|(rank, nf)| rank < slice.rank && nf != slice.nf)
    }

    /// The NF that is due for an objective of its chain.
    fn due(&self, now: Instant, rings: &[RingSample]) -> Option<(Rank, usize)> {
        if self.goals.is_empty() {
            return None;
        }
        let sample = Sample { now, entries: &self.entries, rings };
        let may_run =
            |nf: usize| rings[nf].has_any() && self.has_room(nf, rings) && !self.is_stalled(nf, now);
        self.goals.due(sample, may_run)
    }

    /// Whether so little is left when the time planned is over that others come first: what comes while an NF
    /// works off the rest is less and less, and each sample costs as much as the first.
    fn is_brief(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        let brief = self.rules.slice_min.times(BRIEF_SLICES);
        now >= self.poll_at
            && !slice.housekeeping
            && self.lasts(slice.nf, rings) < brief
            && self.next(slice.nf + 1, now, rings).is_none_or(|next| next.nf != slice.nf)
    }

    fn go_on(&self, now: Instant, rings: &[RingSample]) -> Choice {
        let Some(slice) = self.slice else { unreachable!("only a slice goes on") };
        let lasts = if slice.housekeeping { HOUSEKEEPING } else { self.lasts(slice.nf, rings) };
        let sample = Sample { now, entries: &self.entries, rings };
        let until = slice.ends.min(now + lasts);
        let due = self.goals.next_due(slice.rank, Some(slice.nf), sample);
        let until = due.map_or(until, |due| until.min(due.max(now + self.rules.slice_min)));
        Choice::Run { nf: slice.nf, until }
    }

    /// Returns the time for which packets before it and room behind it last.
    fn lasts(&self, nf: usize, rings: &[RingSample]) -> Span {
        let member = &self.entries[nf].member;
        let room = part_of(member.capacity, GAMMA_PERCENT + SPARE_PERCENT).saturating_sub(rings[nf].behind);
        let packets = if self.rules.occupancy { rings[nf].waiting.min(room) } else { u32::MAX };
        let packets = packets.saturating_add(rings[nf].in_hand);
        member.cost.of(packets).clamp(self.rules.slice_min, SLICE_MAX)
    }

    /// The slice is over: what it says of the cost, and who is next.
    fn switch(&mut self, now: Instant, rings: &[RingSample]) -> Choice {
        if let Some(slice) = self.slice.take() {
            self.end(&slice, now, rings);
        }
        let Some(Next { nf, rank, in_round }) = self.next(self.round, now, rings) else {
            return self.idle(now, rings);
        };
        let left = if in_round { self.advance_round(nf) } else { None };
        if let Rank::Bound(bound) = rank {
            self.goals.on_due(bound, Sample { now, entries: &self.entries, rings });
        }
        self.idle_since = None;
        let housekeeping = self.has_housekeeping(nf, now, rings);
        let ends = now + self.length(nf, left, housekeeping);
        self.entries[nf].waits_since = None;
        self.slice = Some(Slice {
            nf,
            rank,
            in_round,
            began: now,
            ends,
            taken: rings[nf].taken,
            waiting: rings[nf].waiting,
            oldest: self.goals.oldest(nf),
            longer: false,
            works: true,
            housekeeping,
        });
        self.go_on(now, rings)
    }

    /// Returns the maximum length of a slice that begins: what fills the ring behind, or what was left of the
    /// last one.
    fn length(&self, nf: usize, left: Option<Span>, housekeeping: bool) -> Span {
        let Entry { member, stalled_since, .. } = &self.entries[nf];
        let batch = part_of(member.capacity, self.rules.gamma_percent);
        let slice = left.unwrap_or_else(|| member.cost.of(batch).clamp(self.rules.slice_min, SLICE_MAX));
        match housekeeping {
            true => slice.max(HOUSEKEEPING),
            false if stalled_since.is_some() => HOUSEKEEPING,
            false => slice,
        }
    }

    /// A slice has ended.
    fn end(&mut self, slice: &Slice, now: Instant, rings: &[RingSample]) {
        self.entries[slice.nf].ran_at = Some(now);
        if !slice.works {
            return;
        }
        self.put_off(slice, now, rings);
        self.learn(slice, now, rings[slice.nf]);
        let took = rings[slice.nf].taken.wrapping_sub(slice.taken);
        let Slice { nf, rank, began, waiting, oldest, .. } = *slice;
        let ended = SliceEnd { nf, rank, began, waiting, took, oldest };
        self.goals.on_end(&ended, Sample { now, entries: &self.entries, rings });
    }

    /// An NF that has to let another pass in its slice of the round has the rest of it afterwards.
    fn put_off(&mut self, slice: &Slice, now: Instant, rings: &[RingSample]) {
        let left = slice.ends - now;
        let worth = left >= self.rules.slice_min.times(BRIEF_SLICES) && rings[slice.nf].waiting >= THETA_MIN;
        if slice.in_round && !slice.housekeeping && worth && self.is_outranked(slice, now, rings) {
            (self.round, self.left) = (slice.nf, Some(left));
        }
    }

    /// The round comes to an NF, perhaps past others; what is left of its slice.
    fn advance_round(&mut self, nf: usize) -> Option<Span> {
        let (count, from) = (self.entries.len(), self.round);
        let steps = (nf + count - from) % count;
        (0..=steps).for_each(|step| self.goals.on_round((from + step) % count));
        self.round = (nf + 1) % count;
        self.left.take().filter(|_| steps == 0)
    }

    fn learn(&mut self, slice: &Slice, now: Instant, rings: RingSample) {
        let (took, time) = (rings.taken.wrapping_sub(slice.taken), now - slice.began);
        let entry = &mut self.entries[slice.nf];
        if slice.housekeeping {
            entry.housekeeping_at = Some(now);
        }
        // A burst is taken at its beginning, and may take longer than a slice.
        let time = time + entry.fruitless;
        if took == 0 {
            entry.fruitless = time;
            entry.stalled_since = (time >= FRUITLESS_MAX).then_some(now);
            return;
        }
        (entry.fruitless, entry.stalled_since) = (Span::ZERO, None);
        if time > self.rules.slice_min {
            entry.member.cost.on_slice(took, time, rings.waiting >= THETA_MIN);
        }
    }

    /// The NF that is due; else the first from `after` on, round the queue, that has packets and room: enough
    /// of them, or packets that have waited long enough; else one that has any, unless packets of all may
    /// wait.
    fn next(&self, after: usize, now: Instant, rings: &[RingSample]) -> Option<Next> {
        let count = self.entries.len();
        let sample = Sample { now, entries: &self.entries, rings };
        let round = || (0..count).map(move |step| (after + step) % count);
        let in_round = |nf| Next { nf, rank: self.goals.rank_of_round(), in_round: true };
        if !self.rules.occupancy {
            let any = rings.iter().any(|rings| rings.waiting > 0 || rings.housekeeping);
            return round().next().filter(|_| any).map(in_round);
        }
        if let Some((rank, nf)) = self.due(now, rings) {
            return Some(Next { nf, rank, in_round: false });
        }
        let is_worth = |nf: &usize| {
            let waited = self.entries[*nf].waits_since.map_or(Span::ZERO, |since| now - since);
            rings[*nf].waiting >= THETA_MIN || waited >= PATIENCE
        };
        let may_run = |nf: &usize| self.may_run(*nf, now, rings);
        let timely = |nf: &usize| may_run(nf) && !self.goals.is_early(*nf, sample);
        let others = || round().find(|nf| if self.goals.all_bounded { timely(nf) } else { may_run(nf) });
        let first = |nf: &usize| timely(nf) && is_worth(nf) && !self.goals.has_had_its_slice(*nf, sample);
        let keeps_house = |nf: &usize| self.may_keep_house(*nf, now, rings);
        let found = round().find(|nf| keeps_house(nf) || first(nf)).or_else(|| round().find(timely));
        found.or_else(others).map(in_round)
    }

    /// Whether packets are before an NF and room is behind it.
    fn may_run(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        rings[nf].waiting > 0 && self.has_room(nf, rings) && !self.is_stalled(nf, now)
    }

    fn has_housekeeping(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        rings[nf].housekeeping || self.entries[nf].ran_at.is_some_and(|at| now - at >= HOUSEKEEPING_EVERY)
    }

    /// Whether it has housekeeping, and has not just had a slice for it.
    fn may_keep_house(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        let done = self.entries[nf].housekeeping_at.is_some_and(|at| now - at < HOUSEKEEPING_AGAIN);
        self.has_housekeeping(nf, now, rings) && !done
    }

    /// Whether an NF that took nothing in its last slices has to wait for another.
    fn is_stalled(&self, nf: usize, now: Instant) -> bool {
        self.entries[nf].stalled_since.is_some_and(|since| now - since < STALLED_FOR)
    }

    fn idle(&mut self, now: Instant, rings: &[RingSample]) -> Choice {
        self.round = 0;
        let since = *self.idle_since.get_or_insert(now);
        let idle = now - since;
        let [soonest, latest] = IDLE_SAMPLE_EVERY;
        let until = now + Span(idle.0 / 8).clamp(soonest, latest);
        let pause = self.pause(now, rings);
        if idle >= DEMOTE_AFTER || self.entries.is_empty() || pause.is_some() {
            // No NF keeps another from the core.
            self.entries.iter_mut().for_each(|entry| entry.ran_at = Some(now));
            return Choice::Demote { until: pause.unwrap_or(until) };
        }
        self.slice = Some(Slice {
            nf: 0,
            rank: Rank::Round,
            in_round: false,
            began: now,
            ends: until,
            taken: rings[0].taken,
            waiting: 0,
            oldest: None,
            longer: false,
            works: false,
            housekeeping: false,
        });
        Choice::Idle { nf: 0, until }
    }

    /// Until when no sample is needed, where packets of all NFs may wait; `None` where an NF may poll for
    /// them.
    fn pause(&self, now: Instant, rings: &[RingSample]) -> Option<Instant> {
        let pause = self.goals.pause()?;
        let sample = Sample { now, entries: &self.entries, rings };
        let on_their_way =
            rings.iter().any(|rings| rings.behind > 0) && !rings.iter().any(RingSample::has_any);
        let [soonest, _] = IDLE_SAMPLE_EVERY;
        let until = match self.goals.next_due(Rank::Round, None, sample) {
            Some(due) => due,
            None if on_their_way => now,
            None => now + pause,
        };
        Some(until.max(now + soonest))
    }
}
