//! Order in which lanes meet at the NFs of a group: written down while the node works, obeyed in a replay.
//!
//! In a replay packets wait before an NF, lane by lane, until its turnstile lets them through; behind the
//! last run of an NF it is free, and recording goes on.

use std::collections::VecDeque;

use headgate_decide::replicate::Lane;
use headgate_decide::replicate::merge::{Recorder, Run, Turnstile};
use headgate_units::{InstanceId, RegionId};
use headgate_wire::replica as wire;

use crate::burst;
use crate::holders::{Holder, Place};
use crate::ledger::Ledger;

use super::common::{Common, Kept};
use super::journal::Journal;

/// Packets of one lane that wait before an NF.
type Waiting = VecDeque<(Kept, u8, Place)>;

/// Meeting point of lanes: one NF.
pub(crate) struct Merge {
    pub instance: InstanceId,
    recorder: Recorder,
    turnstile: Turnstile,
    /// Runs that a replay has not come to.
    runs: VecDeque<Run>,
    waiting: Vec<Waiting>,
}

impl Merge {
    fn new(instance: InstanceId, lanes: usize, inside: u32) -> Self {
        let waiting = |_| VecDeque::with_capacity(inside as usize);
        Self {
            instance,
            recorder: Recorder::default(),
            turnstile: Turnstile::default(),
            runs: VecDeque::new(),
            waiting: (0..lanes).map(waiting).collect(),
        }
    }

    fn is_replaying(&self) -> bool {
        !self.runs.is_empty() || !self.turnstile.wants_run()
    }

    fn is_free(&self) -> bool {
        !self.is_replaying() && self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Returns the lane whose packet may be delivered next, and how many of them.
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.turnstile.wants_run()
            && let Some(run) = self.runs.pop_front()
        {
            self.turnstile.take_run(run);
        }
        let allowed = |lane: usize| self.turnstile.allows(Lane(lane as u8)) as usize;
        let ready = |lane: usize| (lane, self.waiting[lane].len().min(allowed(lane)));
        (0..self.waiting.len()).map(ready).find(|(_, count)| *count > 0)
    }
}

/// All NFs of a group.
pub(crate) struct Merges {
    all: Vec<Merge>,
}

impl Merges {
    pub fn new(nfs: &[InstanceId], lanes: usize, inside: u32) -> Self {
        Self { all: nfs.iter().map(|nf| Merge::new(*nf, lanes, inside)).collect() }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether an NF is of the group.
    pub fn has(&self, nf: InstanceId) -> bool {
        self.nfs().any(|one| one == nf)
    }

    pub fn nfs(&self) -> impl Iterator<Item = InstanceId> + '_ {
        self.all.iter().map(|merge| merge.instance)
    }

    pub fn is_replaying(&self) -> bool {
        self.all.iter().any(Merge::is_replaying)
    }

    /// Writes down that packets are delivered to an NF. Returns false where they have to wait: then
    /// [`Merges::hold`] them.
    #[inline]
    pub fn pass(&mut self, common: &Common, journal: &mut Journal, nf: InstanceId, run: &burst::Run) -> bool {
        let Some(number) = self.all.iter().position(|merge| merge.instance == nf) else { return true };
        if !self.all[number].is_free() {
            return false;
        }
        for place in run.places.iter() {
            if let Some(lane) = common.lane_of(place.chain()) {
                self.record(journal, number, Lane(lane), 1);
            }
        }
        true
    }

    fn record(&mut self, journal: &mut Journal, number: usize, lane: Lane, packets: u32) {
        if let Some(run) = self.all[number].recorder.deliver(lane, packets) {
            journal.push(entry(number, run));
        }
    }

    /// Has packets wait before an NF.
    pub fn hold(&mut self, common: &Common, ledger: &Ledger, nf: InstanceId, position: u8, run: &burst::Run) {
        let Some(merge) = self.all.iter_mut().find(|merge| merge.instance == nf) else { return };
        let holders = &ledger.store(run.region).holders;
        for (packet, place) in run.iter() {
            let place = place.held_by(Holder::WORKER);
            holders.set_place(packet.index(), place);
            let lane = common.lane_of(place.chain()).unwrap_or(0);
            let kept = Kept { packet, region: run.region };
            merge.waiting[usize::from(lane)].push_back((kept, position, place));
        }
    }

    /// Makes a burst of packets that may be delivered to an NF now, all of one lane. Returns the NF and the
    /// position that they are at.
    pub fn let_through(
        &mut self,
        journal: &mut Journal,
        number: usize,
        burst: &mut burst::Burst,
    ) -> Option<(InstanceId, u8)> {
        let is_free = !self.all[number].is_replaying();
        let merge = &mut self.all[number];
        let (lane, most) = merge.next()?;
        let &(first, position, _) = merge.waiting[lane].front()?;
        let mut count = 0;
        while count < most.min(crate::BURST)
            && let Some(&(kept, at, place)) = merge.waiting[lane].front()
            && (kept.region, at) == (first.region, position)
        {
            (burst.packets[count], burst.places[count]) = (kept.packet, place);
            merge.waiting[lane].pop_front();
            count += 1;
        }
        burst.begin(first.region, count);
        merge.turnstile.deliver(Lane(lane as u8), count as u32);
        let instance = merge.instance;
        if is_free {
            self.record(journal, number, Lane(lane as u8), count as u32);
        }
        Some((instance, position))
    }

    /// Puts runs under way into the journal: before each commit.
    pub fn flush(&mut self, journal: &mut Journal) {
        for (number, merge) in self.all.iter_mut().enumerate() {
            if let Some(run) = merge.recorder.flush() {
                journal.push(entry(number, run));
            }
        }
    }

    /// Takes the runs that are to be obeyed. What waited was ended before.
    pub fn begin(&mut self, runs: impl Iterator<Item = wire::Run>) {
        for merge in &mut self.all {
            merge.runs.clear();
            (merge.recorder, merge.turnstile) = (Recorder::default(), Turnstile::default());
        }
        for run in runs {
            if let Some(merge) = self.all.get_mut(usize::from(run.nf)) {
                merge.runs.push_back(Run { lane: Lane(run.lane), packets: run.packets });
            }
        }
    }

    /// Returns the packets that wait, which are nobody's here any more.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = (RegionId, headgate_shm::Descriptor, Place)> + '_ {
        let waiting = self.all.iter_mut().flat_map(|merge| &mut merge.waiting);
        waiting
            .flat_map(|waiting| waiting.drain(..))
            .map(|(kept, _, place)| (kept.region, kept.packet, place))
    }
}

fn entry(number: usize, run: Run) -> wire::Run {
    wire::Run { nf: number as u16, lane: run.lane.0, packets: run.packets }
}
