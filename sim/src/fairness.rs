//! Bounds that hold over a time: an NF that never gives up its core has nearly what its share says, and no
//! NF is throttled and opened again more often than its marks allow.

use headgate_decide::units::{Instant, Span};

use crate::core::{Core, WHOLE};
use crate::plant::Plant;

/// Ticks by which a task of the fair class may be behind its share besides the longest slice on its core.
/// EEVDF bounds the lag by that slice or a tick; our choice: three ticks, one at which the kernel first
/// looks, one at which a share was written while another task ran, and one for its switches.
const TICKS: u64 = 3;

/// The time since which an NF has wanted its core without a break: what it was due, and what it had before.
#[derive(Clone, Copy, Debug)]
struct Claim {
    since: Instant,
    due_ns: u64,
    longest_slice: u64,
    had_ns: u64,
    /// Times that it gave the core up, or a task of the core had another class, maybe between two looks.
    breaks: u64,
}

/// What is remembered of an NF from look to look.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    claim: Option<Claim>,
    throttles: u64,
    looked: Instant,
}

/// Everything that is remembered.
#[derive(Debug)]
pub(crate) struct Bounds(Vec<Watched>);

impl Bounds {
    pub(crate) fn new(plant: &Plant) -> Self {
        Self(vec![Watched::default(); plant.nfs.len()])
    }

    /// Returns what NFs lack of their shares, in sentences.
    pub(crate) fn unfair(&mut self, now: Instant, plant: &Plant) -> Vec<String> {
        let mut found = Vec::new();
        for (number, watched) in self.0.iter_mut().enumerate() {
            let (nf, seat) = (&plant.nfs[number], plant.links[number].seat);
            let core = &plant.cores[seat.core];
            let has_ns = core.tasks[seat.task].cpu_ns;
            if nf.is_idle_by_choice() || plant.links[number].is_out || !core.is_fair() {
                watched.claim = None;
                continue;
            }
            let breaks = nf.counts.sleeps + nf.counts.waits + core.reclassed();
            let fresh = Claim { since: now, due_ns: 0, longest_slice: 0, had_ns: has_ns, breaks };
            let claim = watched.claim.filter(|claim| claim.breaks == breaks).unwrap_or(fresh);
            let claim = claim.grown(core, seat.task, now - watched.looked);
            watched.claim = Some(claim);
            let slack = claim.longest_slice + TICKS * core.tick_ns();
            let (due, had) = (claim.due_ns.saturating_sub(slack), has_ns - claim.had_ns);
            if had < due {
                let ms = (now - claim.since).as_millis();
                let [had, due] = [had, due].map(|ns| ns / 1_000);
                found.push(format!("NF {number} had {had} us of its core in {ms} ms, and not {due}"));
            }
        }
        found
    }

    /// Returns which NFs were throttled more often than their marks allow, in sentences.
    pub(crate) fn oscillating(&mut self, now: Instant, plant: &Plant) -> Vec<String> {
        let mut found = Vec::new();
        for (number, (watched, link)) in self.0.iter_mut().zip(&plant.links).enumerate() {
            let times = link.counts.throttles - watched.throttles;
            let passed = now - watched.looked;
            // Each state lasts a tick at least.
            let most = link.marks.map_or(0, |marks| 1 + passed.0 / (2 * marks.tick.0).max(1));
            if times > most {
                let us = passed.0 / 1_000;
                found.push(format!("NF {number} was throttled {times} times in {us} us, {most} at most"));
            }
            (watched.throttles, watched.looked) = (link.counts.throttles, now);
        }
        found
    }
}

impl Claim {
    /// Returns it after some more time; none has passed for one that began now.
    fn grown(self, core: &Core, task: usize, passed: Span) -> Self {
        let passed = if self.longest_slice == 0 { Span::ZERO } else { passed };
        let part = u128::from(passed.0) * core.part_of(task) / WHOLE;
        Self {
            due_ns: self.due_ns + part as u64,
            longest_slice: self.longest_slice.max(core.longest_slice()),
            ..self
        }
    }
}
