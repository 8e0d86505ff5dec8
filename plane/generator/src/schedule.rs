//! Schedule: the number of packets of each class that are due.

use crate::spec::{GeneratorSpec, Load, Rate};
use headgate_port::pace::Pace;

/// One class as one queue sees it.
#[derive(Debug)]
struct ClassPace {
    /// Part of the rate of all classes that this queue gives this class.
    share: f64,
    /// `None` while there is no limit.
    pace: Option<Pace>,
}

/// The rates of the classes of one queue, over time.
#[derive(Debug)]
pub(super) struct RateSchedule {
    cycles_per_second: u64,
    classes: Vec<ClassPace>,
    rate: Rate,
    /// Later rates and their times in cycles since the start, the next one last.
    steps: Vec<(u64, Rate)>,
    started: Option<u64>,
    /// Time of the next step; the end of time when there is none.
    next_step: u64,
}

impl RateSchedule {
    /// `parts` are the parts, 0 to 1, that this queue has of each class's flows.
    pub(super) fn new(spec: &GeneratorSpec, parts: &[f64], cycles_per_second: u64) -> Self {
        let (rate, shares): (Rate, Vec<f64>) = match &spec.load {
            Load::Even { rate, .. } => (*rate, vec![1.0]),
            Load::Classes(classes) => {
                let sum = classes.iter().map(|class| class.rate).sum();
                (Rate::PerSecond(sum), classes.iter().map(|class| class.rate / sum).collect())
            }
        };
        let classes =
            shares.iter().zip(parts).map(|(share, part)| ClassPace { share: share * part, pace: None });
        let cycles = |step: &super::RateStep| (step.at.as_secs_f64() * cycles_per_second as f64) as u64;
        Self {
            cycles_per_second,
            classes: classes.collect(),
            rate,
            steps: spec.steps.iter().rev().map(|step| (cycles(step), step.rate)).collect(),
            started: None,
            next_step: 0,
        }
    }

    /// Moves time on; returns the packets that were due so long ago that they are lost.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) -> u64 {
        let mut lost = 0;
        if now >= self.next_step {
            lost += self.step(now);
        }
        for class in &mut self.classes {
            if let Some(pace) = &mut class.pace {
                lost += pace.advance(now);
            }
        }
        lost
    }

    /// Packets of a class that are due, at most `room`.
    #[inline]
    pub(super) fn due(&self, class: usize, room: usize) -> usize {
        match &self.classes[class].pace {
            Some(pace) => pace.due().min(room),
            None => room,
        }
    }

    /// Counts packets of a class as given.
    #[inline]
    pub(super) fn spend(&mut self, class: usize, packets: usize) {
        if let Some(pace) = &mut self.classes[class].pace {
            pace.spend(packets);
        }
    }

    /// Takes all steps that are due, each at its own time.
    #[cold]
    fn step(&mut self, now: u64) -> u64 {
        let started = match self.started {
            Some(started) => started,
            None => {
                self.started = Some(now);
                self.set_rate(self.rate, now);
                now
            }
        };
        let mut lost = 0;
        while let Some(&(after, rate)) = self.steps.last()
            && now.saturating_sub(started) >= after
        {
            self.steps.pop();
            let at = started + after;
            lost += self
                .classes
                .iter_mut()
                .filter_map(|class| class.pace.as_mut())
                .map(|pace| pace.advance(at))
                .sum::<u64>();
            self.set_rate(rate, at);
        }
        self.next_step = self.steps.last().map_or(u64::MAX, |&(after, _)| started.saturating_add(after));
        lost
    }

    fn set_rate(&mut self, rate: Rate, at: u64) {
        for class in &mut self.classes {
            match (rate, &mut class.pace) {
                (Rate::Unlimited, pace) => *pace = None,
                (Rate::PerSecond(rate), Some(pace)) => {
                    pace.set_rate(rate * class.share, self.cycles_per_second)
                }
                (Rate::PerSecond(rate), pace) => {
                    *pace = Some(Pace::new(rate * class.share, self.cycles_per_second, at));
                }
            }
        }
    }
}
