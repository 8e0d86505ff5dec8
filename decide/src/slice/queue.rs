//! The run queue of one core: which NF is next, and when its slice ends.

use alloc::vec::Vec;

use super::entry::{Entry, Rank, Sample, Slice, SliceEnd};
use super::objective::Goals;
use super::{
    BRIEF_SWITCHES, Choice, FRUITLESS_MAX, GAMMA_PERCENT, HOUSEKEEPING, HOUSEKEEPING_AGAIN,
    HOUSEKEEPING_EVERY, Member, NO_PROGRESS_AFTER, Objective, PATIENCE, PacketCost, RingSample, Rules, SLACK,
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
    pub(super) rules: Rules,
    pub(super) entries: Vec<Entry>,
    pub(super) goals: Goals,
    pub(super) slice: Option<Slice>,
    /// Member at which the round goes on, and the rest of a slice there that let another pass.
    pub(super) round: usize,
    left: Option<Span>,
    pub(super) idle_since: Option<Instant>,
    poll_at: Instant,
    /// NFs that were found to make no progress by the last sample.
    lost: Vec<usize>,
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
            lost: Vec::new(),
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

    /// Returns the NFs that have made no progress for [`NO_PROGRESS_AFTER`] by the last sample, each once,
    /// with the CPU time that they had in their slices meanwhile.
    pub fn without_progress(&self) -> impl Iterator<Item = (usize, Span)> {
        self.lost.iter().map(|&nf| (nf, self.entries[nf].fruitless))
    }

    /// Chooses, from what the rings of all members show.
    ///
    /// # Panics
    /// If there are not as many samples as members.
    pub fn poll(&mut self, now: Instant, rings: &[RingSample]) -> Choice {
        assert_eq!(rings.len(), self.entries.len());
        self.note_progress(now, rings);
        self.goals.on_sample(Sample { now, entries: &self.entries, rings });
        let goes_on = self.slice.is_some_and(|slice| slice.works && !self.is_over(&slice, now, rings));
        let choice = if goes_on { self.go_on(now, rings) } else { self.switch(now, rings) };
        self.poll_at = choice.until();
        choice
    }

    fn note_progress(&mut self, now: Instant, rings: &[RingSample]) {
        self.lost.clear();
        for (nf, rings) in rings.iter().enumerate() {
            let could = rings.has_any() && !rings.housekeeping && rings.behind < self.theta_max(nf);
            let entry = &mut self.entries[nf];
            entry.ran_at.get_or_insert(now);
            let after = NO_PROGRESS_AFTER + self.goals.may_wait(nf);
            if entry.progress.is_lost(now, rings, could, after) {
                self.lost.push(nf);
            }
        }
    }

    /// Packets that may lie behind an NF.
    fn theta_max(&self, nf: usize) -> u32 {
        part_of(self.entries[nf].member.capacity, GAMMA_PERCENT)
    }

    /// Returns whether fewer than that do.
    fn has_room(&self, nf: usize, rings: &[RingSample]) -> bool {
        !self.rules.occupancy || rings[nf].behind < self.theta_max(nf)
    }

    fn is_over(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        if now >= slice.ends || !self.rules.occupancy {
            return now >= slice.ends;
        }
        if self.is_outranked(slice, now, rings) {
            return now - slice.began >= self.rules.slice_min();
        }
        // A scheduler that polls samples before the switch is over.
        let own = &rings[slice.nf];
        if own.has_any() && !slice.has_moved(own) && now - slice.began < self.slice_min(slice.nf) {
            return false;
        }
        let has_room = self.has_room(slice.nf, rings);
        let few_left = slice.is_for_few() && slice.gave_on(own) < slice.waiting;
        if few_left && has_room && now - slice.began < PATIENCE {
            return false;
        }
        let starved = !slice.housekeeping && (own.waiting < THETA_MIN || !has_room);
        starved || self.is_brief(slice, now, rings)
    }

    /// The shortest slice of an NF.
    fn slice_min(&self, nf: usize) -> Span {
        self.entries[nf].slice_min(self.rules.slice_min())
    }

    /// Returns whether an NF is due that goes before it.
    fn is_outranked(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        self.due(now, rings).is_some_and(|(rank, nf)| rank < slice.rank && nf != slice.nf)
    }

    /// The NF that is due for an objective of its chain.
    fn due(&self, now: Instant, rings: &[RingSample]) -> Option<(Rank, usize)> {
        if self.goals.is_empty() {
            return None;
        }
        let sample = Sample { now, entries: &self.entries, rings };
        self.goals.due(sample, |nf| self.may_run(nf, now, rings))
    }

    /// Returns whether so little is left when the time planned is over that others come first: what comes
    /// while an NF works off the rest is less and less, and each sample costs as much as the first.
    fn is_brief(&self, slice: &Slice, now: Instant, rings: &[RingSample]) -> bool {
        let brief = self.rules.switch.times(BRIEF_SWITCHES);
        now >= self.poll_at
            && !slice.housekeeping
            && self.lasts(slice.nf, rings) < brief
            && self.next(slice.nf + 1, now, rings).is_none_or(|next| next.nf != slice.nf)
    }

    fn go_on(&self, now: Instant, rings: &[RingSample]) -> Choice {
        let Some(slice) = self.slice else { unreachable!("only a slice goes on") };
        let lasts = match slice.housekeeping {
            true => HOUSEKEEPING,
            // That they are not given on yet is all that is known: for as long again.
            false if slice.is_for_few() => self.lasts(slice.nf, rings).max(now - slice.began),
            false => self.lasts(slice.nf, rings),
        };
        let until = slice.ends.min(now + lasts);
        let due = self.next_due(slice.rank, Some(slice.nf), now, rings);
        let until = due.map_or(until, |due| until.min(due.max(now + self.rules.slice_min())));
        Choice::Run { nf: slice.nf, until }
    }

    /// Returns the time at which an NF will be due that precedes a slice of this rank. One that could not run
    /// then brings nothing forward.
    pub(super) fn next_due(
        &self,
        rank: Rank,
        runs: Option<usize>,
        now: Instant,
        rings: &[RingSample],
    ) -> Option<Instant> {
        let sample = Sample { now, entries: &self.entries, rings };
        self.goals.next_due(rank, sample, |nf| {
            runs != Some(nf) && self.has_room(nf, rings) && !self.is_stalled(nf, now)
        })
    }

    /// Returns the time for which packets before it and room behind it last, after a switch.
    fn lasts(&self, nf: usize, rings: &[RingSample]) -> Span {
        let member = &self.entries[nf].member;
        let room = part_of(member.capacity, GAMMA_PERCENT + SPARE_PERCENT).saturating_sub(rings[nf].behind);
        let packets = if self.rules.occupancy { rings[nf].waiting.min(room) } else { u32::MAX };
        let packets = packets.saturating_add(rings[nf].in_hand);
        self.planned(nf, packets.saturating_add(packets / SLACK))
    }

    /// Returns the length of a slice for so many packets.
    fn planned(&self, nf: usize, packets: u32) -> Span {
        let slice = self.rules.switch + self.entries[nf].member.cost.of(packets);
        slice.clamp(self.slice_min(nf), SLICE_MAX)
    }

    /// Ends the slice, learns the cost from it, and chooses the next one.
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
        // An NF that stalls is tried again and again; the core is idle nevertheless.
        if self.entries[nf].stalled_since.is_none() {
            self.idle_since = None;
        }
        let housekeeping = self.has_housekeeping(nf, now, rings);
        let ends = now + self.length(nf, rank, left, housekeeping);
        self.slice = Some(Slice {
            nf,
            rank,
            in_round,
            began: now,
            ends,
            taken: rings[nf].taken,
            given_on: rings[nf].given_on(),
            waiting: rings[nf].waiting,
            oldest: self.goals.oldest(nf),
            had_any: rings[nf].has_any(),
            works: true,
            housekeeping,
        });
        self.go_on(now, rings)
    }

    /// Returns the maximum length of a slice that begins: what fills the ring behind, or what was left of the
    /// last one.
    fn length(&self, nf: usize, rank: Rank, left: Option<Span>, housekeeping: bool) -> Span {
        let Entry { member, stalled_since, .. } = &self.entries[nf];
        let mut batch = part_of(member.capacity, self.rules.gamma_percent);
        if let Rank::Bound(_) = rank {
            batch = batch.saturating_sub(self.goals.early(nf));
        }
        let slice = left.unwrap_or_else(|| self.planned(nf, batch));
        match housekeeping {
            true => slice.max(HOUSEKEEPING),
            false if stalled_since.is_some() => self.slice_min(nf),
            false => slice,
        }
    }

    /// A slice has ended.
    fn end(&mut self, slice: &Slice, now: Instant, rings: &[RingSample]) {
        let entry = &mut self.entries[slice.nf];
        entry.ran_at = Some(now);
        if !slice.works {
            entry.ran = rings[slice.nf].ran;
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
        let worth = left >= self.rules.switch.times(BRIEF_SWITCHES) && rings[slice.nf].waiting >= THETA_MIN;
        if slice.in_round && !slice.housekeeping && worth && self.is_outranked(slice, now, rings) {
            (self.round, self.left) = (slice.nf, Some(left + self.rules.switch));
        }
    }

    /// Moves the round to an NF, perhaps past others. Returns what is left of its slice.
    fn advance_round(&mut self, nf: usize) -> Option<Span> {
        let (count, from) = (self.entries.len(), self.round);
        let steps = (nf + count - from) % count;
        (0..=steps).for_each(|step| self.goals.on_round((from + step) % count));
        self.round = (nf + 1) % count;
        self.left.take().filter(|_| steps == 0)
    }

    fn learn(&mut self, slice: &Slice, now: Instant, rings: RingSample) {
        let done = slice.gave_on(&rings);
        let entry = &mut self.entries[slice.nf];
        if slice.housekeeping {
            entry.housekeeping_at = Some(now);
        }
        let ran = slice.ran(now, rings.ran, entry.ran, self.rules.switch);
        entry.ran = rings.ran;
        // A burst may take longer than a slice. An external program's is taken at its beginning.
        entry.untold += ran;
        if done > 0 {
            let time = core::mem::take(&mut entry.untold);
            entry.member.cost.on_slice(done, time, rings.waiting >= THETA_MIN);
        }
        let moved = slice.has_moved(&rings);
        if moved || slice.had_any {
            entry.on_slice(moved || slice.housekeeping);
        }
        entry.fruitless = if moved { Span::ZERO } else { entry.fruitless + ran };
        entry.stalled_since = (entry.fruitless >= FRUITLESS_MAX).then_some(now);
    }

    /// The NF that is due; else the first from `after` on, round the queue, that has packets and room: enough
    /// of them, or any if it has not run for long; else one that has any, unless packets of all may
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
            let last_ran = self.entries[*nf].ran_at.map_or(Span::ZERO, |at| now - at);
            rings[*nf].waiting >= THETA_MIN || last_ran >= PATIENCE
        };
        let may_run = |nf: &usize| self.may_run(*nf, now, rings);
        let timely = |nf: &usize| may_run(nf) && !self.goals.is_early(*nf, sample);
        let others = || round().find(|nf| if self.goals.all_bounded { timely(nf) } else { may_run(nf) });
        let first = |nf: &usize| timely(nf) && is_worth(nf) && !self.goals.has_had_its_slice(*nf, sample);
        let has_work = |nf: &usize| self.may_do_housekeeping(*nf, now, rings);
        let found = round().find(|nf| has_work(nf) || first(nf)).or_else(|| round().find(timely));
        found.or_else(others).map(in_round)
    }

    /// Returns whether an NF has packets, before it or in hand, and room is behind it.
    fn may_run(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        rings[nf].has_any() && self.has_room(nf, rings) && !self.is_stalled(nf, now)
    }

    fn has_housekeeping(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        rings[nf].housekeeping || self.entries[nf].ran_at.is_some_and(|at| now - at >= HOUSEKEEPING_EVERY)
    }

    /// Returns whether it has housekeeping, and has not just had a slice for it.
    fn may_do_housekeeping(&self, nf: usize, now: Instant, rings: &[RingSample]) -> bool {
        let done = self.entries[nf].housekeeping_at.is_some_and(|at| now - at < HOUSEKEEPING_AGAIN);
        self.has_housekeeping(nf, now, rings) && !done
    }

    /// Returns whether an NF that took nothing in its last slices has to wait for another.
    fn is_stalled(&self, nf: usize, now: Instant) -> bool {
        self.entries[nf].stalled_since.is_some_and(|since| now - since < STALLED_FOR)
    }
}
