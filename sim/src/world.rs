//! The world: a scene that runs. Workers, weights and schedulers of slices act on the plant, each at its next
//! moment, in the order of the agenda.

use headgate_decide::units::{Instant, Span};
use headgate_decide::wake::{CallMarks, SLICE, poll_before_sleep};

use crate::agenda::Agenda;
use crate::checker::{Checker, Violation};
use crate::link::TICKS_PER_MICRO;
use crate::lives::Lives;
use crate::plant::{Plant, WORKERS, numbered_flows};
use crate::port::Port;
use crate::random::Random;
use crate::report::{Counts, Report};
use crate::scene::{Arrivals, Scene};
use crate::slices::Slices;
use crate::timeline::Timeline;
use crate::weights::Weighing;
use crate::worker::Worker;

/// Whether passes of workers advance as one under load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// They do.
    #[default]
    Merged,
    /// Each pass by itself: ten times slower, to compare with.
    EachPass,
}

/// A scene that runs.
pub struct World {
    scene: Scene,
    now: Instant,
    plant: Plant,
    workers: Vec<Worker>,
    weighing: Weighing,
    slices: Vec<Slices>,
    lives: Lives,
    checker: Checker,
    agenda: Agenda,
}

impl World {
    /// Returns a world in which nothing has happened yet.
    ///
    /// # Panics
    /// If the scene is not one that [`Scene::mistakes`] finds nothing in.
    #[must_use]
    pub fn new(scene: Scene, resolution: Resolution) -> Self {
        assert_eq!(scene.mistakes(), [] as [String; 0]);
        let mut plant = Plant::new(&scene);
        for (nf, of) in plant.nfs.iter_mut().zip(&plant.of) {
            nf.orders.batch = CallMarks::new(scene.nfs[*of].ring, TICKS_PER_MICRO).backlog;
            nf.orders.slice = SLICE;
            nf.orders.poll = poll_before_sleep(!scene.scheduler.presses_back);
        }
        let merges = resolution == Resolution::Merged;
        let workers = (0..scene.workers.into()).map(|number| {
            let random = Random::stream(scene.seed, WORKERS + number as u64);
            Worker::new(number, ports(&scene, number), &plant, merges, random)
        });
        let workers: Vec<Worker> = workers.collect();
        let weighing = Weighing::new(&scene, &mut plant);
        let slices = Slices::of(&scene, &plant);
        let lives = Lives::of(&scene, &plant);
        let mut agenda = Agenda::new(workers.len() + slices.len() + 3);
        (0..workers.len() + slices.len() + 3).for_each(|entity| agenda.set(entity, Some(Instant(0))));
        Self {
            checker: Checker::new(&plant),
            scene,
            now: Instant(0),
            plant,
            workers,
            weighing,
            slices,
            lives,
            agenda,
        }
    }

    /// Runs the whole scene. Returns what was counted.
    #[must_use]
    pub fn run(mut self) -> Report {
        self.run_whole()
    }

    /// Runs the whole scene. Returns what was counted, and what happened when, the warm-up's part too.
    #[must_use]
    pub fn run_with_timeline(mut self) -> (Report, Timeline) {
        self.plant.keep_timeline();
        let report = self.run_whole();
        (report, self.plant.timeline(self.now))
    }

    /// Runs the whole scene. Returns what was counted in each of its windows of this length, one after
    /// another.
    #[must_use]
    pub fn run_in_windows(mut self, length: Span) -> Vec<Report> {
        self.run_until(Instant(0) + self.scene.warm_up);
        (0..self.scene.horizon.0 / length.0.max(1)).map(|_| self.run_window(length)).collect()
    }

    fn run_whole(&mut self) -> Report {
        self.run_until(Instant(0) + self.scene.warm_up);
        self.run_window(self.scene.horizon)
    }

    /// Runs for so long. Returns what was counted meanwhile.
    fn run_window(&mut self, length: Span) -> Report {
        let before = self.counts();
        self.plant.chains.iter_mut().for_each(|chain| chain.delays.clear());
        self.run_until(self.now + length);
        let after = self.counts();
        let violations = self.checker.violations().to_vec();
        let mut report = Report::new(&self.scene, length, &self.plant, &before, &after, violations);
        report.lives.clone_from(&self.lives.events);
        report
    }

    /// Runs until something does not hold. Returns what, as far as it was seen at that moment.
    #[must_use]
    pub fn judge(mut self) -> Vec<Violation> {
        let end = Instant(0) + self.scene.warm_up + self.scene.horizon;
        while !self.checker.has_found()
            && let Some((at, entity)) = self.agenda.next().filter(|(at, _)| *at <= end)
        {
            self.now = at;
            let next = self.act(at, entity);
            self.note_next(entity, next);
        }
        self.checker.into_violations()
    }

    /// Puts a bug in.
    #[cfg(test)]
    pub(crate) fn with(mut self, canary: crate::canary::Canary) -> Self {
        self.plant.cage = crate::canary::Cage::with(canary);
        self
    }

    /// Runs until a moment.
    fn run_until(&mut self, until: Instant) {
        while let Some((at, entity)) = self.agenda.next().filter(|(at, _)| *at <= until) {
            self.now = at;
            let next = self.act(at, entity);
            self.note_next(entity, next);
        }
        self.now = until;
        self.advance_all();
    }

    /// Lets an entity act. Returns its next moment.
    fn act(&mut self, now: Instant, entity: usize) -> Option<Instant> {
        let Some(other) = entity.checked_sub(self.workers.len()) else {
            return self.workers[entity].pass(now, &mut self.plant);
        };
        if let Some(slices) = self.slices.get_mut(other) {
            self.plant.advance(slices.core(), now);
            slices.poll(now, &mut self.plant);
            return Some(slices.next());
        }
        self.advance_all();
        if other == self.slices.len() {
            self.weighing.poll(now, &mut self.plant);
            return self.weighing.next();
        }
        if other == self.slices.len() + 1 {
            self.lives.poll(now, &mut self.plant, &mut self.weighing);
            return self.lives.next();
        }
        Some(now + self.checker.check(now, &self.plant))
    }

    /// Notes when an entity acts next. A worker that rests passes again when another one sent it something.
    fn note_next(&mut self, entity: usize, next: Option<Instant>) {
        self.agenda.set(entity, next);
        while let Some(worker) = self.plant.woken.pop_front() {
            self.agenda.set(worker, Some(self.workers[worker].free_at().max(self.now)));
        }
        self.tell_senders();
    }

    /// Tells senders what became of their packets. A worker that rests passes again when they send some.
    fn tell_senders(&mut self) {
        for (flow, packets, fate) in core::mem::take(&mut self.plant.news) {
            let worker = usize::from(self.scene.flows[self.plant.flows[usize::from(flow)].of].worker);
            let next = self.workers[worker].hear(self.now, flow, packets, fate);
            if let Some(next) = next.filter(|_| self.plant.rests[worker]) {
                self.agenda.set(worker, Some(next.max(self.workers[worker].free_at())));
            }
        }
    }

    fn advance_all(&mut self) {
        (0..self.plant.cores.len()).for_each(|core| self.plant.advance(core, self.now));
    }

    fn counts(&self) -> Counts {
        Counts::of(&self.plant, &self.workers)
    }
}

/// Returns the ports of a worker, one for each of its flows.
fn ports(scene: &Scene, worker: usize) -> Vec<Port> {
    let of_worker = |(_, of, _): &(usize, usize, u16)| usize::from(scene.flows[*of].worker) == worker;
    let port = |(number, of, part): (usize, usize, u16)| {
        // Bursts of one come together.
        let flow = &scene.flows[of];
        let together = matches!(flow.arrivals, Arrivals::OnOff { .. } | Arrivals::HeavyTailed { .. });
        let random = Random::stream(scene.seed, if together { of } else { number } as u64);
        Port::new(number as u16, scene, flow, part, random)
    };
    numbered_flows(scene).filter(of_worker).map(port).collect()
}
