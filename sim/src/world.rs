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
use crate::ring::Run;
use crate::scene::{Arrivals, RateChange, Scene};
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
            Worker::new(number, ports(&scene, number), &plant, (merges, scene.idle), random)
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
        let before = self.begin_window();
        self.run_until(self.now + length);
        self.end_window(length, &before)
    }

    /// Begins to count.
    pub(crate) fn begin_window(&mut self) -> Counts {
        self.plant.chains.iter_mut().for_each(|chain| chain.delays.clear());
        self.counts()
    }

    /// Returns what was counted since it was begun.
    pub(crate) fn end_window(&self, length: Span, before: &Counts) -> Report {
        let after = self.counts();
        let violations = self.checker.violations().to_vec();
        let mut report = Report::new(&self.scene, length, &self.plant, before, &after, violations);
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

    /// From now on packets that leave go on to other machines, and others come by a cable: a port of the
    /// first worker, whose number is returned.
    pub(crate) fn link(&mut self) -> usize {
        self.plant.exports = Some(Vec::new());
        let random = Random::stream(self.scene.seed, CABLES);
        let ports = self.workers[0].ports_mut();
        ports.push(Port::of_cable(random));
        ports.len() - 1
    }

    /// Packets arrive by the cable of a port at a moment, the last ones of all.
    pub(crate) fn send_in(&mut self, port: usize, at: Instant, run: Run) {
        self.workers[0].ports_mut()[port].send_in(at, run);
        if self.plant.rests[0]
            && let Some(next) = self.workers[0].next_arrival()
        {
            self.call(0, next.max(self.now), true);
        }
    }

    /// Returns the packets that left since the last call, and when each did.
    pub(crate) fn take_exports(&mut self) -> Vec<(Instant, Run)> {
        self.plant.exports.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Packets that a port of the first worker takes are of another flow from now on.
    pub(crate) fn set_flow(&mut self, port: usize, flow: u16) {
        self.workers[0].ports_mut()[port].set_flow(flow);
    }

    /// Returns the ports of the first worker.
    pub(crate) fn ports(&self) -> &[Port] {
        self.workers[0].ports()
    }

    /// Returns everything that workers and schedulers act on.
    pub(crate) const fn plant(&self) -> &Plant {
        &self.plant
    }

    /// Puts a bug in.
    #[cfg(test)]
    pub(crate) fn with(mut self, canary: crate::canary::Canary) -> Self {
        self.plant.cage = crate::canary::Cage::with(canary);
        self
    }

    /// Runs until a moment.
    pub(crate) fn run_until(&mut self, until: Instant) {
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
            self.call(worker, self.now, false);
        }
        self.tell_senders();
    }

    /// Something comes to a worker that rests.
    fn call(&mut self, worker: usize, at: Instant, rings: bool) {
        match self.workers[worker].call(at, rings, &self.plant) {
            Some(next) => self.agenda.set(worker, Some(next)),
            None => self.plant.rests[worker] = true,
        }
    }

    /// Tells senders what became of their packets. A worker that rests passes again when they send some.
    fn tell_senders(&mut self) {
        for (flow, packets, fate) in core::mem::take(&mut self.plant.news) {
            let worker = usize::from(self.scene.flows[self.plant.flows[usize::from(flow)].of].worker);
            let next = self.workers[worker].hear(self.now, flow, packets, fate);
            if let Some(next) = next.filter(|_| self.plant.rests[worker]) {
                self.call(worker, next, true);
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

/// The random stream of ports at cables.
const CABLES: u64 = 1 << 36;

/// Returns the ports of a worker, one for each of its flows.
fn ports(scene: &Scene, worker: usize) -> Vec<Port> {
    let of_worker = |(_, of, _): &(usize, usize, u16)| usize::from(scene.flows[*of].worker) == worker;
    // A flow without packets of its own has those of another machine, which come by a cable.
    let comes = |(_, of, _): &(usize, usize, u16)| scene.flows[*of].arrivals.rate() != Some(0);
    let port = |(number, of, part): (usize, usize, u16)| {
        // Bursts of one come together.
        let flow = &scene.flows[of];
        let together = matches!(flow.arrivals, Arrivals::OnOff { .. } | Arrivals::HeavyTailed { .. });
        let random = Random::stream(scene.seed, if together { of } else { number } as u64);
        let mut port = Port::new(number as u16, scene, flow, part, random);
        let own = scene.rates.iter().filter(|change| usize::from(change.flow) == of);
        let rate =
            |change: &RateChange| Arrivals::Constant { rate: change.rate }.part(part, flow.flows).rate();
        port.change(own.map(|change| (change.at.0, rate(change).unwrap_or(0))).collect());
        port
    };
    numbered_flows(scene).filter(of_worker).filter(comes).map(port).collect()
}
