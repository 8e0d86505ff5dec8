//! A worker: one pinned thread that owns queues of ports and instances of NFs, and makes passes.
//!
//! Each pass takes a burst from each queue and sends it into first stages, takes what instances returned and
//! sends it on, takes in what other workers sent, and calls sleeping NFs. No pass allocates, locks or makes a
//! system call while NFs are awake, unless commands come.

mod between;
mod command;
mod replicate;
mod succession;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use headgate_units::{Ticks, WorkerId};

use crate::admit::admit;
use crate::board::Station;
use crate::burst::Burst;
use crate::emit::emit;
use crate::exits::Exits;
use crate::intake::{FlowSetup, Intake};
use crate::ledger::{Ledger, Store};
use crate::mesh::MeshEnds;
use crate::plan::{Hop, Plan};
use crate::ports::{Device, Ports, SharedCounters};
use crate::replica::{Groups, in_order, into_group};
use crate::resident::Residents;
use crate::route::route;
use crate::signals::Signals;
use crate::stages::Stages;
use crate::tunnel::encapsulate;
use crate::view::View;
use crate::{BURST, DRAIN_BURSTS};

pub use crate::event::{Event, Promotion};
pub use command::{Command, Mailbox};

/// Everything that a worker starts with.
pub struct Setup {
    /// Its number.
    pub number: WorkerId,
    /// Stores by region number.
    pub stores: Vec<Store>,
    /// Its queues of ports.
    pub devices: Vec<Device>,
    /// Its rings to and from other workers.
    pub mesh: MeshEnds,
    /// The plan to work by at first.
    pub plan: Arc<Plan>,
    /// State that workers share.
    pub signals: Arc<Signals>,
    /// Setup of the flow table.
    pub flows: FlowSetup,
    /// TSC cycles in a microsecond.
    pub ticks_per_micro: u64,
    /// Most instances there can be.
    pub instances: usize,
    /// Mailbox that commands come by.
    pub mailbox: Arc<Mailbox>,
    /// Channel that events go to.
    pub events: Sender<Event>,
}

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Packets moved.
    Busy,
    /// Nothing to do.
    Idle,
    /// The worker was told to stop, and has stopped.
    Stopped,
}

/// Number of passes between two times that slow things are done: sweeping flows, sending the last of a
/// surplus home. Our choice: some 100 us under load.
const SLOW_EVERY: u64 = 64;
/// Microseconds after which they are done at the latest, by a worker that makes few passes because it rests.
/// Our choice: each pass of one that rests as long as it may.
const SLOW_AFTER_MICROS: u64 = 5_000;

/// Worker of the packet path.
pub struct Worker {
    number: WorkerId,
    plan: Arc<Plan>,
    signals: Arc<Signals>,
    ledger: Ledger,
    ports: Ports,
    intake: Intake,
    stages: Stages,
    exits: Exits,
    /// Its groups; most workers have none.
    groups: Groups,
    /// Burst at hand.
    burst: Box<Burst>,
    ticks_per_micro: u64,
    receives: bool,
    /// When slow things were done last.
    slow_at: Ticks,
    passes: u64,
    mailbox: Arc<Mailbox>,
    events: Sender<Event>,
}

/// Makes the view that the stations of a worker have in this pass.
macro_rules! view {
    ($worker:ident, $now:ident) => {
        View { now: $now, plan: &$worker.plan, signals: &$worker.signals }
    };
}

impl Worker {
    /// Returns a worker that has made no pass yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let Setup { number, plan, signals, mesh, events, ticks_per_micro, .. } = setup;
        let board = signals.boards[number.index()].clone();
        let mut worker = Self {
            number,
            ledger: Ledger::new(setup.stores, board),
            ports: Ports::new(plan.ports.len(), setup.devices),
            intake: Intake::new(number, &setup.flows, mesh.from),
            stages: Stages::new(setup.instances, setup.flows.seeds, ticks_per_micro, events.clone()),
            exits: Exits::new(number, mesh.to),
            groups: Groups::default(),
            plan: plan.clone(),
            signals,
            burst: Box::default(),
            ticks_per_micro,
            receives: true,
            slow_at: Ticks(0),
            passes: 0,
            mailbox: setup.mailbox,
            events,
        };
        worker.take_plan(plan);
        worker
    }

    /// Returns where the counters of this worker's queues can be read, renewed every so many passes.
    #[must_use]
    pub fn queue_counters(&self) -> SharedCounters {
        self.ports.counters()
    }

    /// Makes a pass of a worker whose thread has no residents. Returns its result.
    pub fn pass(&mut self, now: Ticks) -> Pass {
        self.pass_with(now, &mut Residents::default())
    }

    /// Makes a pass, with the NFs that live in its thread. Returns its result.
    pub fn pass_with(&mut self, now: Ticks, residents: &mut Residents) -> Pass {
        if !self.mailbox.is_empty() && self.obey(now, residents) {
            return Pass::Stopped;
        }
        self.ledger.watch.begin();
        let moved = self.walk(now, residents);
        if self.tend(now) {
            residents.visit_others(|number| self.stages.find(number).is_some());
        }
        self.ledger.watch.tended(&self.ledger.board, moved);
        self.ledger.board.passes.set(self.passes);
        if moved == 0 {
            return Pass::Idle;
        }
        self.ledger.board.busy_passes.add(1);
        Pass::Busy
    }

    /// Moves packets along their way, station by station: docs/packet.md walks the same way. Returns how many
    /// moved.
    fn walk(&mut self, now: Ticks, residents: &mut Residents) -> usize {
        let mut moved = 0;
        self.let_out(now);
        if !self.groups.is_empty() {
            moved += self.take_from_nodes(now);
        }
        for queue in 0..if self.receives { self.ports.count() } else { 0 } {
            let view = view!(self, now);
            moved += self.ports.arrive(now, queue, &mut self.ledger, &mut self.burst);
            if self.burst.count > 0 {
                self.intake.classify(&view, &mut self.ledger, &mut self.burst);
                admit(&view, &mut self.ledger, &mut self.burst);
                route(&self.plan, &self.ledger, &mut self.burst);
                self.send_on(now);
            }
        }
        for at in 0..self.stages.count() {
            let number = self.stages.instance(at).number;
            moved += match residents.has(number) {
                false => self.drain(|worker| worker.hop(now, at)),
                true => self.host(now, at, residents),
            };
            self.stages.deliver_pending(at, &mut self.ledger, &mut self.burst);
        }
        for other in 0..self.intake.workers() {
            moved += self.drain(|worker| worker.take_in(now, other));
        }
        moved
    }

    /// Takes packets out of an instance, and sends them on. Returns how many it had returned.
    #[inline(always)]
    fn hop(&mut self, now: Ticks, at: usize) -> usize {
        let count = self.stages.hop(&view!(self, now), &mut self.ledger, at, &mut self.burst);
        self.send_on(now);
        count
    }

    /// Lets an instance that lives in this thread work, and sends on what it returns, as long as there is
    /// something to work on. Returns how much that was.
    fn host(&mut self, now: Ticks, at: usize, residents: &mut Residents) -> usize {
        let (number, mut total) = (self.stages.instance(at).number, 0);
        for _ in 0..DRAIN_BURSTS {
            let goes_on = residents.visit(number);
            let Ledger { watch, board, .. } = &mut self.ledger;
            if watch.is_on() {
                watch.measure_station(board, Station::Work, 0);
            }
            total += self.hop(now, at);
            if !goes_on {
                break;
            }
        }
        total
    }

    /// Takes parcels out of the ring from another worker, and sends them on. Returns how many there were.
    #[inline(always)]
    fn take_in(&mut self, now: Ticks, other: usize) -> usize {
        let count = self.intake.parcels.take_in(other);
        while self.intake.parcels.unpack(&mut self.ledger, &mut self.burst) {
            if self.burst.next.is_unknown() {
                route(&self.plan, &self.ledger, &mut self.burst);
            }
            self.send_on(now);
        }
        count
    }

    /// Hands the packets of the burst to where they go next: deliver, or commit and emit, or their end.
    #[inline]
    fn send_on(&mut self, now: Ticks) {
        let view = view!(self, now);
        let (ledger, exits) = (&mut self.ledger, &mut self.exits);
        let mut start = 0;
        while start < self.burst.count {
            let (hop, run) = self.burst.run_from(start);
            start += run.len();
            let (port, run) = match hop.unpack() {
                Hop::Instance { position, number } => {
                    match self.stages.find(number) {
                        Some(at) => {
                            let to = (number, position);
                            let run = in_order(&mut self.groups, &view, ledger, &mut self.stages, to, run);
                            self.stages.deliver(&view, ledger, at, position, run);
                        }
                        None => exits.ship_to_instance(&view, ledger, number, run),
                    }
                    continue;
                }
                Hop::End(reason) => {
                    ledger.end_run(reason, &run);
                    continue;
                }
                Hop::Port(port) => (port, run),
                hop => match encapsulate(&view, ledger, self.ticks_per_micro, hop, run) {
                    Some(outside) => outside,
                    None => continue,
                },
            };
            let run = into_group(&mut self.groups, now, self.ticks_per_micro, ledger, run);
            match self.ports.of(port) {
                Some(queue) => {
                    let run = exits.latch.commit(&view, ledger, port, run);
                    emit(&view, ledger, &mut self.ports, &mut exits.whole, queue, run);
                }
                None => exits.ship_to_port(&view, ledger, port, run),
            }
        }
    }

    /// Lets packets that waited at the station `commit` leave, as far as they may.
    fn let_out(&mut self, now: Ticks) {
        let view = view!(self, now);
        while let Some(port) = self.exits.latch.release(&view, &mut self.burst) {
            let queue = self.ports.of(port).expect("what waits here leaves by a queue of this worker");
            emit(&view, &mut self.ledger, &mut self.ports, &mut self.exits.whole, queue, self.burst.all());
        }
    }

    #[inline(always)]
    fn drain(&mut self, mut burst: impl FnMut(&mut Self) -> usize) -> usize {
        let mut total = 0;
        for _ in 0..DRAIN_BURSTS {
            let count = burst(self);
            total += count;
            if count < BURST {
                break;
            }
        }
        total
    }

    /// Judges, blocks and calls instances, flushes ports, moves clocks on, and does the slow things every so
    /// often. Returns whether it did them now.
    fn tend(&mut self, now: Ticks) -> bool {
        let view = view!(self, now);
        let saw_death = self.stages.tend(&view, &mut self.ledger);
        if !self.groups.is_empty() {
            self.tend_groups(now);
        }
        let view = view!(self, now);
        self.intake.tend(&view);
        self.ports.tend(now, &mut self.ledger);
        let since = now.0.wrapping_sub(self.slow_at.0);
        let slow =
            self.passes.is_multiple_of(SLOW_EVERY) || since >= SLOW_AFTER_MICROS * self.ticks_per_micro;
        self.exits.outbound.send_surplus(&mut self.ledger, if slow { 1 } else { BURST });
        if slow {
            self.slow_at = now;
            self.intake.sweep(&self.ledger.board);
            self.ports.publish_counters();
            self.ledger.board.finished.set(u64::from(self.ports.are_finished()));
        }
        if saw_death {
            self.succeed_the_dead(now);
        }
        self.passes += 1;
        slow
    }

    /// Carries out a command of the control loop. Returns whether it was to stop.
    #[cold]
    fn obey(&mut self, now: Ticks, residents: &mut Residents) -> bool {
        for command in self.mailbox.take() {
            match command {
                Command::Plan(plan) => {
                    self.take_plan(plan);
                    self.ledger.board.plan_taken();
                }
                Command::Attach(ends) => self.stages.attach(*ends, &self.ledger),
                Command::Settle { number, settle } => {
                    if let Some(resident) = settle() {
                        residents.settle(number, resident);
                    }
                }
                Command::Reclaim { number, dead } => self.reclaim(now, number, dead.as_ref()),
                Command::StandBy(ends) => self.stand_by(*ends),
                Command::Dismiss { number } => self.dismiss(number),
                Command::TakeOver { number, dead } => self.take_over(now, number, &dead),
                Command::Pause(pause) => {
                    self.ports.publish_counters();
                    pause.wait(self.number, self.report());
                }
                Command::Flows { most, reply } => {
                    let _ = reply.send(self.intake.list(most));
                }
                Command::LookUp { port, frame, reply } => {
                    let _ = reply.send(self.intake.look_up(&view!(self, now), port, &frame));
                }
                Command::Measure(on) => self.ledger.watch.measure(on),
                Command::Tap { number, tap } => self.ledger.watch.tap(number, tap),
                Command::Untap { number } => self.ledger.watch.untap(number),
                Command::Receive(on) => self.receives = on,
                Command::Group(number, command) => self.obey_for_group(now, number, *command),
                Command::Stop => {
                    self.ports.publish_counters();
                    return true;
                }
            }
        }
        false
    }

    fn take_plan(&mut self, plan: Arc<Plan>) {
        // One worker judges the windows of all.
        if self.number == WorkerId(0) {
            self.intake.take_windows(&plan, &self.signals.bounds, self.ticks_per_micro);
        }
        self.exits.take_plan(&plan);
        self.plan = plan;
    }

    /// Tells the control loop what happened. Without one nobody gets it, and the process is about to end.
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}
