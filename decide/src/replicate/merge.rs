//! The order in which lanes met at an NF, as runs, and the same order again in a replay.
//!
//! The problem: where several lanes meet at an NF, the order of delivery is chance, and its state depends on
//! it.
//!
//! The intuition: write down how many packets of one lane came before the next one's. Which packets these
//! were follows from their clocks, so a run is two numbers. In a replay a *turnstile* before the NF lets
//! lanes through as the runs say, and is open behind the last of them: what was in no run was in no commit,
//! and nothing that left rests on it.
//!
//! What it refuses to do: keep runs. They are entries of the journal; a turnstile holds the one it is at.
//!
//! Source: our own; the thesis replays flows one by one, and has no NF at which two of them meet.

use super::mutant::{Mutant, Mutation};
use super::types::Lane;

/// A number of packets of one lane in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Run {
    /// The lane.
    pub lane: Lane,
    /// Number of its packets.
    pub packets: u32,
}

/// Records the order in which packets are delivered to one NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recorder {
    open: Option<Run>,
}

impl Recorder {
    /// Takes in a delivery. Returns the run that it ended, for the journal.
    #[inline]
    pub fn deliver(&mut self, lane: Lane, packets: u32) -> Option<Run> {
        match &mut self.open {
            Some(run) if run.lane == lane && run.packets.checked_add(packets).is_some() => {
                run.packets += packets;
                None
            }
            open => open.replace(Run { lane, packets }),
        }
    }

    /// Returns the run under way, for the journal: before each commit, which has to have it.
    #[inline]
    pub const fn flush(&mut self) -> Option<Run> {
        self.open.take()
    }
}

/// Lets lanes through in the recorded order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turnstile {
    run: Option<Run>,
    mutation: Mutation,
}

impl Turnstile {
    /// Returns one that is open.
    #[must_use]
    pub const fn new(mutation: Mutation) -> Self {
        Self { run: None, mutation }
    }

    /// Returns whether it wants the next run of its NF, if there is one.
    #[must_use]
    pub const fn wants_run(&self) -> bool {
        self.run.is_none()
    }

    /// Takes the next run.
    pub fn take_run(&mut self, run: Run) {
        self.run = Some(run).filter(|run| run.packets > 0);
    }

    /// Returns how many packets of a lane may be delivered now.
    #[must_use]
    #[inline]
    pub fn allows(&self, lane: Lane) -> u32 {
        match self.run {
            Some(run) if run.lane != lane && !self.mutation.is(Mutant::AnyOrder) => 0,
            Some(run) if !self.mutation.is(Mutant::AnyOrder) => run.packets,
            _ => u32::MAX,
        }
    }

    /// Takes in a delivery that it allowed.
    #[inline]
    pub fn deliver(&mut self, lane: Lane, packets: u32) {
        if let Some(run) = &mut self.run
            && run.lane == lane
        {
            run.packets = run.packets.saturating_sub(packets);
        }
        self.run = self.run.filter(|run| run.packets > 0);
    }
}
