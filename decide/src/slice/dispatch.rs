//! The dispatcher of one core: which real-time priorities make the chosen NF run, and no other.
//!
//! The problem: the run queue chooses, but cores are the kernel's. An NF whose priority is left raised keeps
//! the core from the rest of the machine; one that is left behind at its own has its part of the core
//! whatever was chosen, because the kernel keeps a twentieth of each core for fair tasks that wait.
//!
//! The intuition: all NFs of a core are `SCHED_FIFO`, one at [`Priority::Running`], the others at
//! [`Priority::Waiting`], so the core is the first one's until two priorities change. Only what differs is
//! changed: two system calls a switch, none while the same NF goes on.
//!
//! What it refuses to do: touch an NF whose process is gone, whose number may be another's by now.
//!
//! Source: UNiS, section 3.3 (priorities of a real-time class); decision 15.

use alloc::vec;
use alloc::vec::Vec;

use super::{Choice, Member, Objective, PacketCost, RingSample, Rules, RunQueue};
use crate::decision::Decision;
use crate::units::{Instant, Span};

/// The scheduling class and priority of an NF's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Priority {
    /// Its own policy: it is demoted.
    Own,
    /// Real-time, behind the one that runs.
    Waiting,
    /// Real-time, before the others of its core.
    Running,
}

/// Command for the NFs of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Give an NF this priority. Answer with [`Event::Gone`] when its process is not there any more, or not
    /// ours to schedule.
    SetPriority {
        /// Its place among the members.
        nf: usize,
        /// The priority.
        priority: Priority,
    },
    /// Count a slice for an NF, which has the core for work from now on.
    Began {
        /// Its place among the members.
        nf: usize,
    },
    /// Report an NF that has packets and room behind it, and has neither taken a packet nor given one on for
    /// long. Once, until it does.
    NoProgress {
        /// Its place among the members.
        nf: usize,
        /// CPU time that it had in its slices meanwhile.
        ran: Span,
    },
}

/// Counts of a core's slices, for the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tally {
    /// Samples of the rings.
    pub samples: u64,
    /// Times another NF was given the core.
    pub switches: u64,
    /// Times all NFs were demoted.
    pub demotions: u64,
    /// Time in which some NF had a real-time priority.
    pub real_time: Span,
}

/// Settings of a core's dispatcher.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Setup {
    /// Settings of the time slices.
    pub rules: Rules,
    /// Its NFs, in the order in which packets pass them, all at their own priority.
    pub members: Vec<Member>,
    /// Its part of the objectives of chains.
    pub objectives: Vec<Objective>,
    /// Counts from before.
    pub tally: Tally,
}

/// Event on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Event {
    /// An NF has this priority already, from before this core was made anew.
    Has {
        /// Its place among the members.
        nf: usize,
        /// The priority.
        priority: Priority,
    },
    /// An NF's process is not there any more, or not ours to schedule.
    Gone {
        /// Its place among the members.
        nf: usize,
    },
    /// The core is given back: no NF is to keep a real-time priority.
    Ends,
}

/// One core: its run queue, and the priorities in force.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    queue: RunQueue,
    /// One for each NF; `None`: gone.
    priorities: Vec<Option<Priority>>,
    tally: Tally,
    /// Time of the core's last sample, if some NF had a real-time priority from then on.
    real_time_since: Option<Instant>,
    /// Samples without those of NFs that are gone; kept for its memory.
    rings: Vec<RingSample>,
}

impl Decision for Dispatcher {
    type Setup = Setup;
    type Event = Event;
    type Sample = [RingSample];
    type Action = Action;

    fn new(setup: Setup) -> Self {
        let queue = RunQueue::new(setup.rules, setup.members, setup.objectives);
        Self {
            priorities: vec![Some(Priority::Own); queue.len()],
            rings: Vec::with_capacity(queue.len()),
            queue,
            tally: setup.tally,
            real_time_since: None,
        }
    }

    fn on(&mut self, _: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Has { nf, priority } => self.know(nf, Some(priority)),
            Event::Gone { nf } => self.know(nf, None),
            Event::Ends => self.demote(actions),
        }
    }

    /// Chooses, from what the rings of all members show. One that is not among the samples shows nothing.
    fn poll(&mut self, now: Instant, rings: &[RingSample], actions: &mut Vec<Action>) {
        self.rings.clear();
        // Rings of an NF that is gone say nothing, and nothing is to be done for it.
        let known = rings.iter().zip(&self.priorities);
        self.rings.extend(known.map(|(rings, priority)| priority.map_or_else(Default::default, |_| *rings)));
        self.rings.resize(self.priorities.len(), RingSample::default());
        let choice = self.queue.poll(now, &self.rings);
        self.tally.samples += 1;
        if let Some(since) = self.real_time_since.take() {
            self.tally.real_time += now - since;
        }
        match choice {
            Choice::Run { nf, .. } => self.run(nf, true, actions),
            Choice::Idle { nf, .. } => self.run(nf, false, actions),
            Choice::Demote { .. } => self.demote(actions),
        }
        self.real_time_since = (!matches!(choice, Choice::Demote { .. })).then_some(now);
        actions.extend(self.queue.without_progress().map(|(nf, ran)| Action::NoProgress { nf, ran }));
    }

    fn poll_at(&self) -> Option<Instant> {
        Some(self.queue.poll_at())
    }
}

impl Dispatcher {
    /// Returns what is known of an NF's cost.
    #[must_use]
    pub fn cost(&self, nf: usize) -> Option<PacketCost> {
        self.queue.cost(nf)
    }

    /// Returns the priority of an NF; `None` when it is gone.
    #[must_use]
    pub fn priority(&self, nf: usize) -> Option<Priority> {
        self.priorities.get(nf).copied().flatten()
    }

    /// Returns what the core has done.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    fn know(&mut self, nf: usize, priority: Option<Priority>) {
        if let Some(known) = self.priorities.get_mut(nf) {
            *known = priority;
        }
    }

    /// Gives every NF its own policy back.
    fn demote(&mut self, actions: &mut Vec<Action>) {
        let is_raised =
            |priority: &Option<Priority>| matches!(priority, Some(Priority::Waiting | Priority::Running));
        self.tally.demotions += u64::from(self.priorities.iter().any(is_raised));
        for nf in 0..self.priorities.len() {
            if is_raised(&self.priorities[nf]) {
                self.set(nf, Priority::Own, actions);
            }
        }
    }

    /// Gives the core to one NF.
    fn run(&mut self, nf: usize, works: bool, actions: &mut Vec<Action>) {
        if matches!(self.priorities[nf], Some(Priority::Running) | None) {
            return;
        }
        for other in 0..self.priorities.len() {
            if other != nf && matches!(self.priorities[other], Some(Priority::Own | Priority::Running)) {
                self.set(other, Priority::Waiting, actions);
            }
        }
        self.set(nf, Priority::Running, actions);
        self.tally.switches += 1;
        if works {
            actions.push(Action::Began { nf });
        }
    }

    fn set(&mut self, nf: usize, priority: Priority, actions: &mut Vec<Action>) {
        self.priorities[nf] = Some(priority);
        actions.push(Action::SetPriority { nf, priority });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: Rules = Rules { gamma_percent: 75, occupancy: true, switch: Span::from_micros(10) };

    fn core(nfs: usize) -> Dispatcher {
        let members = vec![Member::new(4096, [], PacketCost::default()); nfs];
        Dispatcher::new(Setup { rules: RULES, members, objectives: Vec::new(), tally: Tally::default() })
    }

    fn told(core: &mut Dispatcher, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        core.on(Instant(0), event, &mut actions);
        actions
    }

    fn polled(core: &mut Dispatcher, now: u64, waiting: &[u32]) -> Vec<Action> {
        let rings: Vec<RingSample> =
            waiting.iter().map(|&waiting| RingSample { waiting, ..RingSample::default() }).collect();
        let mut actions = Vec::new();
        core.poll(Instant(now), &rings, &mut actions);
        actions
    }

    const fn set(nf: usize, priority: Priority) -> Action {
        Action::SetPriority { nf, priority }
    }

    #[test]
    fn only_what_differs_is_changed() {
        use Priority::{Own, Running, Waiting};
        let mut core = core(2);
        let first = polled(&mut core, 0, &[0, 900]);
        assert_eq!(first, [set(0, Waiting), set(1, Running), Action::Began { nf: 1 }]);
        assert_eq!(polled(&mut core, 1_000, &[0, 900]), []);
        let second = polled(&mut core, 200_000, &[900, 900]);
        assert_eq!(second, [set(1, Waiting), set(0, Running), Action::Began { nf: 0 }]);
        assert_eq!(polled(&mut core, 250_000, &[0, 0]), [], "it may poll for the next packets");
        assert_eq!(polled(&mut core, 25_000_000, &[0, 0]), [set(0, Own), set(1, Own)]);
        let tally = Tally { samples: 5, switches: 2, demotions: 1, real_time: Span(25_000_000) };
        assert_eq!(core.tally(), tally);
    }

    #[test]
    fn one_that_is_gone_is_touched_no_more() {
        let mut core = core(2);
        polled(&mut core, 0, &[0, 900]);
        told(&mut core, Event::Gone { nf: 1 });
        let actions = polled(&mut core, 1_000, &[0, 900]);
        assert_eq!(actions, [set(0, Priority::Running)], "the one that is left polls");
        assert_eq!(told(&mut core, Event::Ends), [set(0, Priority::Own)]);
        assert_eq!(told(&mut core, Event::Ends), []);
    }

    #[test]
    fn a_successor_goes_on_with_the_priorities_it_is_told() {
        let mut next = core(2);
        told(&mut next, Event::Has { nf: 0, priority: Priority::Running });
        told(&mut next, Event::Has { nf: 1, priority: Priority::Waiting });
        assert_eq!(polled(&mut next, 1_000, &[900, 0]), []);
        assert_eq!(told(&mut next, Event::Gone { nf: 7 }), [], "there is no such NF");
    }

    proptest! {
        /// Whatever rings show and whichever NF ends: at most one NF runs before the others of its core, none
        /// stands at its own priority beside it, and the actions lead to the priorities that are said to be
        /// in force.
        #[test]
        fn one_runs_and_the_others_wait(
            steps in prop::collection::vec((prop::collection::vec(0u32..5000, 4), 0u64..30_000_000, 0usize..20), 1..100)
        ) {
            let (mut core, mut now, mut in_force) = (core(4), 0, [Priority::Own; 4]);
            for (waiting, pass, gone) in steps {
                now += pass;
                if gone < 4 {
                    told(&mut core, Event::Gone { nf: gone });
                }
                for action in polled(&mut core, now, &waiting) {
                    if let Action::SetPriority { nf, priority } = action {
                        prop_assert!(core.priority(nf).is_some(), "{nf} is gone");
                        in_force[nf] = priority;
                    }
                }
                let all: Vec<Priority> = (0..4).filter_map(|nf| core.priority(nf)).collect();
                let running = all.iter().filter(|one| **one == Priority::Running).count();
                prop_assert!(running <= 1, "{all:?}");
                prop_assert!(running == 0 || !all.contains(&Priority::Own), "{all:?}");
                let agrees = |(nf, in_force)| core.priority(nf).is_none_or(|known| known == in_force);
                prop_assert!(in_force.into_iter().enumerate().all(agrees));
            }
        }
    }
}
