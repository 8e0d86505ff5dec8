//! A core whose NFs have no packets: which one polls for the next ones, how often it is sampled, and when
//! none keeps a real-time priority.

use super::entry::{Rank, Slice};
use super::{Choice, DEMOTE_AFTER, IDLE_SAMPLE_EVERY, RingSample, RunQueue};
use crate::units::{Instant, Span};

impl RunQueue {
    pub(super) fn idle(&mut self, now: Instant, rings: &[RingSample]) -> Choice {
        self.round = 0;
        let since = *self.idle_since.get_or_insert(now);
        let idle = now - since;
        let shortest = self.rules.slice_min();
        let [soonest, latest] = IDLE_SAMPLE_EVERY.map(|every| every.max(shortest));
        let until = now + Span(idle.0 / 8).clamp(soonest, latest);
        let pause = self.pause(now, rings);
        if idle >= DEMOTE_AFTER || self.entries.is_empty() || pause.is_some() {
            // No NF keeps another from the core.
            self.entries.iter_mut().for_each(|entry| entry.ran_at = Some(now));
            return Choice::Demote { until: pause.unwrap_or(until) };
        }
        // One that starts or stops needs the core, and one that polls does not.
        let nf = rings.iter().position(|rings| rings.housekeeping).unwrap_or(0);
        self.slice = Some(Slice {
            nf,
            rank: Rank::Round,
            in_round: false,
            began: now,
            ends: until,
            taken: rings[nf].taken,
            given_on: rings[nf].given_on(),
            waiting: 0,
            oldest: None,
            had_any: false,
            works: false,
            housekeeping: false,
        });
        Choice::Idle { nf, until }
    }

    /// Returns the time until which no sample is needed, where packets of all NFs may wait; `None` where an
    /// NF may poll for them.
    fn pause(&self, now: Instant, rings: &[RingSample]) -> Option<Instant> {
        let pause = self.goals.pause(now)?;
        let on_their_way =
            rings.iter().any(|rings| rings.behind > 0) && !rings.iter().any(RingSample::has_any);
        let until = match self.next_due(Rank::Round, None, now, rings) {
            Some(due) => due,
            None if on_their_way => now,
            None => now + pause,
        };
        Some(until.max(now + self.rules.slice_min()))
    }
}
