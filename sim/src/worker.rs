//! A worker: passes over its ports and NFs (`plane/path/src/worker.rs`), station by station.
//!
//! A pass takes what its stations cost, and the next one begins when it is over. Under load the passes of
//! [`MERGED_FOR`], or of the time that an NF polls before it sleeps, advance as one: what they would move is
//! moved at once, and costs as much.
//!
//! A worker that finds nothing goes on at once, or rests as the manager's does (`decide::rest`).

use headgate_decide::pressure::{Feeder, Shed, came_for, is_blocked, is_closed, shed};
use headgate_decide::units::{Instant, Span, Ticks};
use headgate_decide::wake::{BellSample, Cores};

use crate::canary::Canary;
use crate::costs::Costs;
use crate::plant::{Plant, Way};
use crate::port::Port;
use crate::random::Random;
use crate::ring::Run;
use crate::scene::Idle;
use crate::sender::Fate;
use crate::windows;

mod rest;

use rest::Resting;

/// Packets that a pass takes from a queue at most, and from an NF (`BURST` and `DRAIN_BURSTS` of the path).
const BURST: u64 = 128;
const DRAIN: u32 = 4 * 128;
/// Passes of so long advance as one under load. Our choice: the least time for which backpressure keeps a
/// state (`decide::pressure::TICK`) is twice that, and the age at which a sleeper is called twenty times.
const MERGED_FOR: Span = Span::from_micros(5);
/// Passes that one of them stands for at most: with a full burst each they take longer than that.
const MERGED: u32 = 4;
/// One call of so many is lost, where a test wants that.
const LOST: u64 = 16;

/// A worker.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    number: usize,
    ports: Vec<Port>,
    /// Its NFs, and the cores that they are on.
    nfs: Vec<usize>,
    cores: Vec<usize>,
    /// Whether passes may advance as one, and for how long they do.
    merges: bool,
    merged_for: Span,
    /// Passes that the next one stands for at most.
    passes: u32,
    /// Time that this pass has cost so far, in picoseconds.
    cost_ps: u64,
    moved: u64,
    has_blocked: bool,
    resting: Resting,
    /// The next tick of its core; what ticks take is drawn.
    next_tick: Instant,
    free_at: Instant,
    random: Random,
    /// Time that it worked, ever.
    pub(crate) busy_ns: u64,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        ports: Vec<Port>,
        plant: &Plant,
        (merges, idle): (bool, Idle),
        random: Random,
    ) -> Self {
        let nfs: Vec<usize> =
            (0..plant.links.len()).filter(|&nf| plant.links[nf].seat.worker == number).collect();
        let mut cores: Vec<usize> = nfs.iter().map(|&nf| plant.links[nf].seat.core).collect();
        cores.sort_unstable();
        cores.dedup();
        // An NF to which packets come all the time must not sleep between two passes.
        let polls = nfs.iter().map(|&nf| &plant.nfs[nf]).filter(|nf| nf.sleeps()).map(|nf| nf.orders.poll);
        Self {
            merged_for: polls.fold(MERGED_FOR, Span::min),
            number,
            ports,
            nfs,
            cores,
            merges,
            passes: 1,
            cost_ps: 0,
            moved: 0,
            has_blocked: false,
            resting: Resting::new(idle),
            next_tick: Instant(plant.costs.tick.0),
            free_at: Instant(0),
            random,
            busy_ns: 0,
        }
    }

    /// Something comes at a moment, by a port or (`rings` is false) from another worker, while it rests.
    /// Returns when it passes next; `None`: as it would have.
    pub(crate) fn call(&mut self, at: Instant, rings: bool, plant: &Plant) -> Option<Instant> {
        self.resting.call(at.max(self.free_at), rings, Span(plant.costs.wake_idle_ns))
    }

    /// Returns its ports.
    pub(crate) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Takes in what became of packets of a flow of its ports, at a moment. Returns when something
    /// comes by any of them next.
    pub(crate) fn hear(&mut self, now: Instant, flow: u16, packets: u32, fate: Fate) -> Option<Instant> {
        let port = self.ports.iter_mut().find(|port| port.flow() == usize::from(flow))?;
        port.hear(now, packets, fate);
        self.next_arrival()
    }

    /// Returns when something comes next by one of its ports that it hears of while it rests; `None`: never.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.ports.iter().filter(|port| self.resting.hears(port)).filter_map(Port::next).min()
    }

    /// Returns its ports, to be changed.
    pub(crate) fn ports_mut(&mut self) -> &mut Vec<Port> {
        &mut self.ports
    }

    /// Makes a pass. Returns when the next one begins; `None`: nothing will ever come.
    pub(crate) fn pass(&mut self, now: Instant, plant: &mut Plant) -> Option<Instant> {
        (self.cost_ps, self.moved) = (plant.costs.worker_pass_ns * 1_000, 0);
        plant.rests[self.number] = false;
        for &core in &self.cores {
            plant.advance(core, now);
        }
        if self.number == 0 {
            windows::judge(now, plant);
        }
        self.arrive(now, plant);
        for at in 0..self.nfs.len() {
            self.hop(now, self.nfs[at], plant);
        }
        for other in 0..plant.rests.len() {
            self.take_in(now, other, plant);
        }
        self.tend(now, plant);
        let cost = Span(self.cost_ps.div_ceil(1_000));
        self.busy_ns += if self.moved > 0 { cost.0 } else { 0 };
        self.resting.note_pass(self.moved > 0);
        let outstanding: u32 = self.nfs.iter().map(|&nf| plant.links[nf].depth()).sum();
        // With less than a burst on its way what counts is when each packet is moved.
        let merges = self.merges && u64::from(outstanding) + self.moved >= BURST;
        self.passes = if merges { MERGED } else { 1 };
        let after = if merges { cost.max(self.merged_for) } else { cost };
        self.next_pass(now + after, outstanding, plant)
    }

    /// Returns when the pass behind one begins that ends at a moment and left so many packets to NFs.
    fn next_pass(&mut self, ends: Instant, outstanding: u32, plant: &mut Plant) -> Option<Instant> {
        // A throttled NF is opened by a pass too, with packets or without.
        let works = outstanding > 0 || self.has_blocked || plant.throttled > 0;
        if self.moved > 0 || works && !self.resting.is_on() {
            return Some(self.ticked(ends, &plant.costs));
        }
        plant.rests[self.number] = true;
        self.free_at = ends;
        let hears_all = self.ports.iter().all(|port| self.resting.hears(port));
        let all_rings = outstanding == 0 && plant.rests.len() < 2 && hears_all;
        let (next, wake) = (self.next_arrival(), Span(plant.costs.wake_idle_ns));
        let next = self.resting.begin(ends, all_rings, next, wake)?;
        Some(self.ticked(next, &plant.costs))
    }

    /// Returns when a pass begins that would have begun then, had the kernel's tick taken no time.
    fn ticked(&mut self, at: Instant, costs: &Costs) -> Instant {
        if at < self.next_tick {
            return at;
        }
        // Of several that passed while nothing was to be done only the last one can be in the way.
        let last = Instant(at.0 / costs.tick.0 * costs.tick.0);
        self.next_tick = last + costs.tick;
        at.max(last + Span(costs.tick_takes(&mut self.random)))
    }

    /// Stations arrive to admit: takes packets from the ports into their chains.
    fn arrive(&mut self, now: Instant, plant: &mut Plant) {
        let waiting: u64 = self.ports.iter_mut().map(|port| port.look(now)).sum();
        let most = BURST * u64::from(self.passes);
        for at in 0..self.ports.len() {
            let port = &mut self.ports[at];
            let own = port.look(now);
            // A worker that is late takes from all of them as they are filled.
            let mut left = if waiting <= most { own } else { (own * most).div_ceil(waiting).min(own) };
            while let Some(run) = self.ports[at].take(now, left) {
                left -= u64::from(run.packets);
                self.moved += u64::from(run.packets);
                self.admit(plant, run);
            }
        }
    }

    fn admit(&mut self, plant: &mut Plant, run: Run) {
        let chain = plant.flows[usize::from(run.flow)].chain;
        let packets = u64::from(run.packets);
        if plant.enter(&run) {
            self.cost_ps += packets * plant.costs.worker_shed_ps;
            return plant.end_at_down(&run);
        }
        if plant.throttled > 0 {
            let sheds = shed(plant.hops(chain, 0), false);
            if sheds != Shed::Nothing && (sheds != Shed::Flows || plant.flow_is_shed(run.flow)) {
                self.cost_ps += packets * plant.costs.worker_shed_ps;
                plant.tell_sender(&run, Fate::Lost);
                return count_shed(plant, chain, sheds, packets);
            }
        }
        let (stays, late) = windows::limit(plant, run);
        if let Some(late) = late {
            self.cost_ps += u64::from(late.packets) * plant.costs.worker_shed_ps;
            windows::keep_out(plant, &late);
        }
        if let Some(run) = stays {
            self.cost_ps += u64::from(run.packets) * plant.costs.worker_enter_ps;
            self.pass_on(run, plant);
        }
    }

    /// Hands packets to the instance that they go to, or to its worker. Returns false behind the last one.
    fn pass_on(&self, run: Run, plant: &mut Plant) -> bool {
        let instance = match plant.way(run.flow, run.position) {
            Way::Instance(instance) => instance,
            Way::Down => {
                plant.end_at_down(&run);
                return true;
            }
            Way::Out => return false,
        };
        match plant.links[instance].seat.worker {
            worker if worker == self.number => plant.deliver(instance, run),
            worker => plant.ship(self.number, worker, run),
        }
        true
    }

    /// Takes in what another worker sent. To take it out of a ring costs what it costs out of an NF's.
    fn take_in(&mut self, now: Instant, other: usize, plant: &mut Plant) {
        let (ring, mut room) = (other * plant.rests.len() + self.number, DRAIN * self.passes);
        while let Some(run) = plant.mesh[ring].pop(room) {
            room -= run.packets;
            self.moved += u64::from(run.packets);
            self.cost_ps += u64::from(run.packets) * plant.costs.worker_hop_ps;
            if !self.pass_on(run, plant) {
                plant.leave(now, &run);
            }
        }
    }

    /// Stations hop to emit: sends on what an NF returned, and what waited for room in its ring.
    fn hop(&mut self, now: Instant, nf: usize, plant: &mut Plant) {
        let mut room = DRAIN * self.passes;
        while let Some(run) = plant.nfs[nf].transmit.pop(room) {
            room -= run.packets;
            let link = &mut plant.links[nf];
            if !(plant.cage.has(Canary::SlotWithoutOwner) && link.held == link.capacity()) {
                link.held -= run.packets;
            }
            self.moved += u64::from(run.packets);
            if plant.cage.has(Canary::OrderBroken)
                && let Some(next) = plant.nfs[nf].transmit.pop(room)
            {
                room -= next.packets;
                plant.links[nf].held -= next.packets;
                self.send_on(now, next, plant);
            }
            self.send_on(now, run, plant);
        }
        while let Some(run) = plant.links[nf].deliver_pending() {
            plant.nfs[nf].receive.push(run);
        }
    }

    fn send_on(&mut self, now: Instant, run: Run, plant: &mut Plant) {
        let run = Run { position: run.position + 1, ..run };
        let packets = u64::from(run.packets);
        if self.pass_on(run, plant) {
            self.cost_ps += packets * plant.costs.worker_hop_ps;
            return;
        }
        self.cost_ps += packets * plant.costs.worker_leave_ps;
        let exit = plant.chains[plant.flows[usize::from(run.flow)].chain].exit;
        match exit.filter(|exit| *exit != self.number) {
            Some(exit) => plant.ship(self.number, exit, run),
            None => plant.leave(now, &run),
        }
    }

    /// Judges queues, blocks and calls NFs, and sets which yield.
    fn tend(&mut self, now: Instant, plant: &mut Plant) {
        let ticks = Ticks(now.0);
        for &nf in &self.nfs {
            if plant.links[nf].is_out {
                continue;
            }
            windows::sample(now, nf, plant);
            if let Some(is_throttled) = plant.links[nf].weigh(ticks, plant.cage) {
                plant.note_throttled(now, nf, is_throttled);
            }
        }
        let has_blocked = self.has_blocked && !plant.cage.has(Canary::BlockedForEver);
        if plant.throttled > 0 || has_blocked {
            self.block(plant);
        }
        self.wake(now, plant);
    }

    fn block(&mut self, plant: &mut Plant) {
        self.has_blocked = false;
        for &nf in &self.nfs {
            if plant.links[nf].is_out {
                continue;
            }
            let link = &plant.links[nf];
            let feeder = Feeder {
                is_judged: link.marks.is_some(),
                sleeps: link.sleep.is_possible(),
                diverts: false,
                is_on_its_way: link.sleep.is_on_its_way(plant.nfs[nf].counts.taken as u32),
            };
            let is_closed = |&(chain, from): &(usize, usize)| is_closed(plant.hops(chain, from));
            let blocked = is_blocked(feeder, plant.ways_on(nf).iter().map(is_closed));
            let link = &mut plant.links[nf];
            link.counts.blocks += u64::from(blocked && !link.is_blocked);
            link.is_blocked = blocked;
            plant.nfs[nf].orders.blocked = blocked;
            self.has_blocked |= blocked;
        }
    }

    /// Samples every NF that may sleep, calls those that are worth it, and sets which yield.
    fn wake(&mut self, now: Instant, plant: &mut Plant) {
        let (ticks, mut cores) = (Ticks(now.0), Cores::default());
        let mut sleepers = false;
        for &nf in &self.nfs {
            if plant.links[nf].is_out {
                continue;
            }
            let waits = plant.nfs[nf].waits_for_a_call();
            let link = &mut plant.links[nf];
            let bell = BellSample { waits, sleeps: waits };
            let hold = link.hold();
            sleepers |= link.sleep.on_sample(bell, hold, link.is_blocked, &mut cores);
        }
        if sleepers {
            for &nf in &self.nfs {
                self.cost_ps += consider_call(now, nf, plant, &mut cores) * 1_000;
            }
        }
        for &nf in &self.nfs {
            if !plant.links[nf].is_out
                && let Some(must_yield) = plant.links[nf].must_yield(ticks, &cores)
            {
                plant.nfs[nf].orders.must_yield = must_yield;
            }
        }
    }
}

/// Calls an NF if it sleeps while packets wait for it and that is worth a call. Returns what that takes, in
/// nanoseconds.
fn consider_call(now: Instant, nf: usize, plant: &mut Plant, cores: &mut Cores) -> u64 {
    let Plant { links, nfs, costs, cage, .. } = plant;
    let (link, nf) = (&mut links[nf], &mut nfs[nf]);
    if link.is_out || !link.sleep.is_asleep() || link.held == 0 || link.is_blocked {
        return 0;
    }
    let (backlog, taken) = (nf.receive.packets(), nf.counts.taken as u32);
    if !link.sleep.calls(Ticks(now.0), backlog, taken, cores) {
        return 0;
    }
    link.counts.calls += 1;
    if !nf.waits_for_a_call() {
        return 0;
    }
    nf.note_call();
    if cage.has(Canary::LostWakeUp) && link.counts.calls % LOST == 0 {
        return 0;
    }
    plant.cores[link.seat.core].call(link.seat.task, now, costs)
}

/// Counts packets that were shed at the head of a chain: as arrivals at the NFs that could not keep up.
fn count_shed(plant: &mut Plant, chain: usize, sheds: Shed, packets: u64) {
    plant.chains[chain].throttled += packets;
    for number in 0..plant.chains[chain].stages.len() {
        let nf = plant.chains[chain].stages[number];
        let hop = plant.hops(chain, number).next().unwrap_or_default();
        // The path counts them where there is one instance.
        if let ([instance], true) = (plant.stages[nf].instances.as_slice(), came_for(sheds, number, hop)) {
            plant.links[*instance].counts.throttled += packets;
        }
    }
}
