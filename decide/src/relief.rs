//! Relief of slow instances: which instance of a stage gives up flows to which other one, and how often.
//!
//! The problem: where flows of a chain with a delay bound are spread over instances, one of them may be slow
//! (its core is shared, its flows are heavy) while another is idle. The window at the entry (`bound`) then
//! sheds packets of all of them for the sake of one.
//!
//! The intuition: move the problem before shedding it. Flows of the slowest instance move to the fastest, a
//! few at a time (`spread`), and what one step overshoots the next one back mends.
//!
//! The threshold: an instance is slow above half of the bound, and another is worth the move when packets
//! wait less than half as long for it. No oftener than every `RELIEF_EVERY`, so that all that is known of
//! delays was seen after the last move; and only for chains whose packets are held back.
//!
//! Rejected: moving as many flows as would make delays equal, which needs to know what each flow brings.
//!
//! What it refuses to do: believe an old delay. What is known of an instance without packets was seen before.
//!
//! Source: NFVnice dissertation, section 6.2.2 (re-route flows beyond their delay constraint); decision 13.

use alloc::vec::Vec;

use crate::decision::{Decision, NoEvent};
use crate::delay::WINDOW;
use crate::units::{InstanceId, Instant, NfId, Span};

/// Time between two moves of flows: two windows of delays.
const RELIEF_EVERY: Span = WINDOW.times(2);

/// An instance of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct InstanceSample {
    /// The instance.
    pub instance: InstanceId,
    /// Packets in its rings and hands.
    pub held: u64,
    /// Median time that packets lately waited for it.
    pub queueing: Option<Span>,
}

impl InstanceSample {
    fn delay(&self) -> Span {
        self.queueing.filter(|_| self.held > 0).unwrap_or_default()
    }
}

/// A stage of a chain whose packets are held back for its delay bound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageSample {
    /// The stage.
    pub stage: NfId,
    /// The chain's bound.
    pub bound: Span,
    /// Its instances that run.
    pub instances: Vec<InstanceSample>,
}

/// Command for the balance between instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Action {
    /// Some flows of one instance go to another from now on.
    MoveFlows {
        /// The stage.
        stage: NfId,
        /// The slow instance.
        from: InstanceId,
        /// The fast one.
        to: InstanceId,
    },
}

/// The relief of all stages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relief {
    next: Instant,
}

impl Decision for Relief {
    type Setup = ();
    type Event = NoEvent;
    type Sample = [StageSample];
    type Action = Action;

    fn new((): ()) -> Self {
        Self::default()
    }

    fn on(&mut self, _: Instant, event: NoEvent, _: &mut Vec<Action>) {
        match event {}
    }

    fn poll(&mut self, now: Instant, stages: &[StageSample], actions: &mut Vec<Action>) {
        if !self.next.is_due(now) {
            return;
        }
        self.next = now + RELIEF_EVERY;
        for stage in stages {
            let Some((from, to)) = relief(&stage.instances, stage.bound) else { continue };
            actions.push(Action::MoveFlows { stage: stage.stage, from, to });
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        Some(self.next)
    }
}

/// Returns the instance that shall give up flows, and the one that shall have them; `None` where that would
/// not help: the slowest is far below the bound, or the fastest has no half of its delay.
fn relief(instances: &[InstanceSample], bound: Span) -> Option<(InstanceId, InstanceId)> {
    let slowest = instances.iter().max_by_key(|instance| instance.delay())?;
    let fastest = instances.iter().min_by_key(|instance| instance.delay())?;
    let helps = slowest.delay() > Span(bound.0 / 2) && fastest.delay() < Span(slowest.delay().0 / 2);
    helps.then_some((slowest.instance, fastest.instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec;

    const BOUND: Span = Span::from_micros(1000);

    /// A stage whose instances, from 10 on, have packets that waited so many microseconds.
    fn stage(delays_us: &[u64]) -> StageSample {
        let instance = |(at, us): (usize, &u64)| InstanceSample {
            instance: InstanceId(10 + at as u16),
            held: 1,
            queueing: Some(Span::from_micros(*us)),
        };
        StageSample {
            stage: NfId(4),
            bound: BOUND,
            instances: delays_us.iter().enumerate().map(instance).collect(),
        }
    }

    fn moved(stage: &StageSample) -> Option<(u16, u16)> {
        let mut actions = Vec::new();
        Relief::new(()).poll(Instant(0), core::slice::from_ref(stage), &mut actions);
        actions.pop().map(|Action::MoveFlows { from, to, .. }| (from.0, to.0))
    }

    #[test]
    fn flows_move_from_the_slowest_to_the_fastest_where_that_helps() {
        assert_eq!(moved(&stage(&[100, 900, 300])), Some((11, 10)));
        assert_eq!(moved(&stage(&[100, 400, 300])), None, "none is near the bound");
        assert_eq!(moved(&stage(&[500, 900, 600])), None, "all of them are slow");
        assert_eq!(moved(&stage(&[900])), None);
        assert_eq!(moved(&stage(&[])), None);
    }

    #[test]
    fn an_old_delay_is_none() {
        let mut idle = stage(&[900, 900]);
        assert_eq!(moved(&idle), None);
        idle.instances[1].held = 0;
        assert_eq!(moved(&idle), Some((10, 11)));
    }

    #[test]
    fn a_move_shows_in_delays_before_the_next_one() {
        let (mut relief, mut actions) = (Relief::new(()), Vec::new());
        let stages = [stage(&[100, 900])];
        for millis in 0..=400 {
            relief.poll(Instant(0) + Span::from_millis(millis), &stages, &mut actions);
        }
        assert_eq!(actions.len(), 3, "at 0, 200 and 400 ms");
    }

    #[test]
    fn what_moves_is_a_table() {
        let cases: [&[u64]; 9] = [
            &[],
            &[900],
            &[100, 500],
            &[100, 501],
            &[250, 501],
            &[249, 501],
            &[900, 449, 100],
            &[2000, 999, 1000],
            &[2000, 1000, 1000],
        ];
        let mut table = String::from("delays us of instances 10, 11, …, bound 1000 us -> from, to\n");
        for delays in cases {
            let moves =
                moved(&stage(delays)).map_or(String::from("none"), |(from, to)| format!("{from} to {to}"));
            table += &format!("{delays:?} -> {moves}\n");
        }
        snapshot::assert("relief", &table);
    }

    proptest! {
        /// Flows never move to an instance that is as slow, nor when all are fast enough.
        #[test]
        fn only_what_helps_is_done(delays in prop::collection::vec(0u64..5_000, 0..9)) {
            if let Some((from, to)) = moved(&stage(&delays)) {
                let (from, to) = (delays[usize::from(from) - 10], delays[usize::from(to) - 10]);
                prop_assert!(to * 2 < from && from * 2 > 1000);
                prop_assert!(delays.iter().all(|other| (to..=from).contains(other)));
            } else {
                let (most, least) = (delays.iter().max(), delays.iter().min());
                prop_assert!(most.is_none_or(|most| most * 2 <= 1000 || least.unwrap() * 2 + 1 >= *most));
            }
        }

        /// Whatever comes when, moves of a stage are a period apart.
        #[test]
        fn moves_are_a_period_apart(steps in prop::collection::vec(0u64..500, 1..50)) {
            let (mut relief, mut now, mut last) = (Relief::new(()), Instant(0), None::<Instant>);
            for pass in steps {
                now = now + Span::from_millis(pass);
                let mut actions = vec![];
                relief.poll(now, &[stage(&[0, 900])], &mut actions);
                if !actions.is_empty() {
                    prop_assert!(last.is_none_or(|last| now - last >= RELIEF_EVERY));
                    last = Some(now);
                }
            }
        }
    }
}
