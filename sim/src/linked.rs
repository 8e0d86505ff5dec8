//! Machines joined by cables: what one machine cannot show.
//!
//! Each machine is a [`World`] of its own, packet by packet, under the decisions of its workers and its
//! control loop. A packet between two of them carries its chain and its position, as a service header does:
//! the machine that gets it goes on from there. Which machine works on a flow at a position is decided by
//! prices and tables of slots (`decide::market`, `decide::steer`), as in the [model of
//! networks](crate::network): there flows are fluid, here they are packets.
//!
//! A bit takes some time on every cable, so what a machine does within the shortest of these times touches
//! no other one before it is over: all advance by as much, one after another, and then exchange what left.
//! That is as exact as one queue of all events, and a machine knows of no other.
//!
//! What is missing: packets pass a machine that is only on their way as they pass a switch, without a worker;
//! and overload is noticed at the machine that has it, not at the head of the chain, as on nodes
//! (docs/decisions/0095).
//!
//! - `scene`: what can be asked; `local`: a machine's own scene; `wire`: a direction of a cable;
//! - `steering`: who gets the flows; `report`: what was counted.

mod local;
mod report;
mod scene;
mod steering;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;

use headgate_decide::spread::SLOTS;
use headgate_decide::units::{Instant, Rate, Span};

use crate::digest::Digest;
use crate::histogram::Histogram;
use crate::plant::Plant;
use crate::random::Random;
use crate::report::Counts;
use crate::ring::Run;
use crate::world::{Resolution, World};

pub use report::{LinkedChainReport, LinkedReport, WireReport};
pub use scene::{Cable, Host, LinkedChain, LinkedScene, Machine};

use local::Local;
use steering::Steering;
use wire::{Wire, WireCounts};

/// Packets between machines.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    chain: u16,
    flow: u16,
    /// Position at which their chain goes on.
    position: u8,
    packets: u32,
    arrived: Instant,
    is_marked: bool,
    /// Machine that they go to.
    to: u16,
}

/// What left of a chain, ever, and its delays since they were cleared.
#[derive(Clone, Debug, Default)]
struct Left {
    packets: u64,
    delays: Histogram,
}

/// Machines that run.
pub struct Linked {
    scene: LinkedScene,
    worlds: Vec<World>,
    locals: Vec<Local>,
    /// The port of each machine by which packets of others come; `None`: none ever do.
    inboxes: Vec<Option<usize>>,
    wires: Vec<Wire>,
    steering: Steering,
    /// Packets on cables, by the time at which they arrive at a machine.
    flying: BTreeMap<(Instant, u64), (u16, Parcel)>,
    sent: u64,
    left: Vec<Left>,
    /// Packets that machines gave, and those that they were handed, ever.
    given: u64,
    handed: u64,
    step: Span,
    now: Instant,
    /// When the period began, and for how long each resource had worked by then.
    period_began: Instant,
    before: Vec<u64>,
    digest: Digest,
}

impl Linked {
    /// Returns machines on which nothing has happened yet.
    ///
    /// # Errors
    /// Everything that is wrong with the scene.
    pub fn new(scene: LinkedScene) -> Result<Self, Vec<String>> {
        let made = local::machines(&scene)?;
        let (mut worlds, mut locals, mut inboxes) = (Vec::new(), Vec::new(), Vec::new());
        for (of, local) in made {
            let takes = !of.flows.is_empty();
            let mut world = World::new(of, Resolution::default());
            inboxes.push(takes.then(|| world.link()));
            worlds.push(world);
            locals.push(local);
        }
        let directions = scene.cables.iter().flat_map(|cable| [cable; 2]).enumerate();
        let wire = |(number, cable): (usize, &Cable)| {
            Wire::new(cable, Random::stream(scene.seed, WIRES + number as u64))
        };
        let steering = Steering::new(&scene);
        let mut linked = Self {
            wires: directions.map(wire).collect(),
            before: vec![0; steering.resources()],
            steering,
            flying: BTreeMap::new(),
            sent: 0,
            left: vec![Left::default(); scene.chains.len()],
            given: 0,
            handed: 0,
            // Machines without cables do not wait for each other.
            step: scene.cables.iter().map(|cable| cable.delay).min().unwrap_or(Span::from_millis(1)),
            now: Instant(0),
            period_began: Instant(0),
            digest: Digest::default(),
            worlds,
            locals,
            inboxes,
            scene,
        };
        linked.set_entries();
        Ok(linked)
    }

    /// Runs the whole scene. Returns what was counted.
    #[must_use]
    pub fn run(mut self) -> LinkedReport {
        self.run_until(Instant(0) + self.scene.warm_up);
        let before: Vec<Counts> = self.worlds.iter_mut().map(World::begin_window).collect();
        self.left.iter_mut().for_each(|left| left.delays.clear());
        let wires: Vec<WireCounts> = self.wires.iter().map(|wire| wire.counts).collect();
        let (left, came): (Vec<u64>, Vec<u64>) =
            (self.left.iter().map(|left| left.packets).collect(), self.came());
        self.run_until(self.now + self.scene.horizon);
        self.report(&before, &wires, &left, &came)
    }

    fn run_until(&mut self, until: Instant) {
        while self.now < until {
            self.advance(until.min(self.now + self.step));
            if self.now - self.period_began >= self.scene.period {
                self.end_period();
            }
        }
    }

    /// Advances all machines by less than a bit takes on any cable.
    fn advance(&mut self, until: Instant) {
        // What arrives by then was on its way before.
        let later = self.flying.split_off(&(until + Span(1), 0));
        let mut due: Vec<(Instant, u16, Parcel)> = Vec::new();
        for ((at, _), (node, parcel)) in std::mem::replace(&mut self.flying, later) {
            match parcel.to == node {
                true => self.arrive(at, parcel),
                false => due.push((at, node, parcel)),
            }
        }
        for world in &mut self.worlds {
            world.run_until(until);
        }
        self.now = until;
        for machine in 0..self.worlds.len() as u16 {
            for (at, run) in self.worlds[usize::from(machine)].take_exports() {
                self.given += u64::from(run.packets);
                due.push((at, machine, self.parcel(machine, &run)));
            }
        }
        // Of one moment in the order of machines, and of one of these in its own.
        due.sort_by_key(|(at, machine, _)| (*at, *machine));
        for (at, machine, parcel) in due {
            self.carry(at, machine, parcel);
        }
    }

    /// Returns what leaves a machine, with where it goes: to the machine that has its flow at the next
    /// position, or to the one that its chain leaves by.
    fn parcel(&mut self, machine: u16, run: &Run) -> Parcel {
        let (chain, flow, _, to) = self.locals[usize::from(machine)].part(run.flow);
        let of = &self.scene.chains[usize::from(chain)];
        let (count, exit, slot) = (of.stages.len() as u8, of.exit, slot_of(flow, of.flows));
        let next = match to < count {
            true => self.steering.owner((machine, chain, to), slot).unwrap_or(machine),
            false => exit,
        };
        let (packets, arrived, is_marked) = (run.packets, run.arrived, run.is_marked);
        Parcel { chain, flow, position: to, packets, arrived, is_marked, to: next }
    }

    /// Packets are at a machine, and leave it by a cable unless they are where they go.
    fn carry(&mut self, at: Instant, machine: u16, parcel: Parcel) {
        if parcel.to == machine {
            return self.arrive(at, parcel);
        }
        // Who is out of reach was refused.
        let Some((wire, next)) = self.steering.hop(machine, parcel.to) else { return };
        let bytes = self.scene.chains[usize::from(parcel.chain)].bytes;
        let (packets, arrives) = self.wires[wire].send(at, parcel.packets, bytes);
        if packets > 0 {
            self.sent += 1;
            self.flying.insert((arrives, self.sent), (next, Parcel { packets, ..parcel }));
        }
    }

    /// Packets are where they go: they have left, or go on at this machine.
    fn arrive(&mut self, at: Instant, parcel: Parcel) {
        let of = &self.scene.chains[usize::from(parcel.chain)];
        if usize::from(parcel.position) == of.stages.len() {
            let left = &mut self.left[usize::from(parcel.chain)];
            left.packets += u64::from(parcel.packets);
            left.delays.add((at - parcel.arrived).0, parcel.packets.into());
            self.digest.event(
                at,
                parcel.flow.into(),
                u64::from(parcel.chain) << 32 | u64::from(parcel.packets),
            );
            return;
        }
        let machine = usize::from(parcel.to);
        let part = self.part_at(parcel.to, parcel.chain, parcel.flow, parcel.position);
        let Some(port) = self.inboxes[machine] else { return };
        let local = &mut self.locals[machine];
        let flow = local.flow(part);
        let number = local.number(flow, parcel.packets);
        let Parcel { packets, arrived, is_marked, position, .. } = parcel;
        self.handed += u64::from(packets);
        // What was at this machine already comes again as soon as it has left.
        let at = at.max(self.now);
        self.worlds[machine].send_in(port, at, Run { flow, position, packets, arrived, number, is_marked });
    }

    /// Returns the part of a chain that a machine works on from a position on: to the first one at which
    /// another machine has the flow.
    fn part_at(&self, machine: u16, chain: u16, flow: u16, from: u8) -> local::Part {
        let of = &self.scene.chains[usize::from(chain)];
        let slot = slot_of(flow, of.flows);
        let stays = |position: &u8| {
            let owner = self.steering.owner((machine, chain, *position), slot);
            owner == Some(machine) && of.nf_at(machine, (*position).into()).is_some()
        };
        let further = (from + 1..of.stages.len() as u8).take_while(stays).count() as u8;
        (chain, flow, from, from + 1 + further)
    }

    /// Packets that come from outside begin the parts that tables say now.
    fn set_entries(&mut self) {
        for machine in 0..self.worlds.len() {
            for port in 0..self.locals[machine].entries.len() {
                let (chain, flow) = self.locals[machine].entries[port];
                let part = self.part_at(machine as u16, chain, flow, 0);
                let flow = self.locals[machine].flow(part);
                self.worlds[machine].set_flow(port, flow);
            }
        }
    }

    /// Returns the time for which each resource worked, ever: directions of cables, then cores. What an NF
    /// spends on polls and wake-ups is no load: it has less of that the more packets come.
    fn busy(&self) -> Vec<u64> {
        let mut busy = vec![0; self.steering.resources()];
        for (place, wire) in busy.iter_mut().zip(&self.wires) {
            *place = wire.counts.busy_ns;
        }
        for (machine, world) in self.worlds.iter().enumerate() {
            let plant = world.plant();
            for (nf, link) in plant.nfs.iter().zip(&plant.links) {
                busy[self.steering.core(machine, link.seat.core)] += nf.counts.worked_ns;
            }
        }
        busy
    }

    fn end_period(&mut self) {
        let busy = self.busy();
        let period = self.now - self.period_began;
        let before = std::mem::replace(&mut self.before, busy);
        let part = |(now, before): (&u64, &u64)| (now - before) as f64 / period.0 as f64;
        let used: Vec<f64> = self.before.iter().zip(&before).map(part).collect();
        self.steering.on_period(self.now, &used, &self.scene);
        self.period_began = self.now;
        self.set_entries();
    }

    /// Returns the packets that came of each chain, ever.
    fn came(&self) -> Vec<u64> {
        let mut came = vec![0; self.scene.chains.len()];
        for (world, local) in self.worlds.iter().zip(&self.locals) {
            for (port, (chain, _)) in world.ports().iter().zip(&local.entries) {
                came[usize::from(*chain)] += port.came;
            }
        }
        came
    }

    /// Returns how many packets nobody knows of: each that came has left, was lost on a cable, ended at a
    /// machine, is in one, or is on a cable.
    fn unaccounted(&self) -> u64 {
        let flying: u64 = self.flying.values().map(|(_, parcel)| u64::from(parcel.packets)).sum();
        let lost: u64 = self.wires.iter().map(|wire| wire.counts.lost).sum();
        let left: u64 = self.left.iter().map(|left| left.packets).sum();
        let mut wrong = self.given.abs_diff(left + lost + flying + self.handed);
        let (mut taken, mut entered) = (0, 0);
        for (world, inbox) in self.worlds.iter().zip(&self.inboxes) {
            for (number, port) in world.ports().iter().enumerate() {
                let [coming, here] = port.under_way();
                taken += port.came - port.missed - here;
                if Some(number) == *inbox {
                    entered += coming + port.came;
                }
            }
        }
        wrong += entered.abs_diff(self.handed);
        let of_plant = |plant: &Plant| plant.chains.iter().map(|chain| chain.entered).sum::<u64>();
        wrong + self.worlds.iter().map(|world| of_plant(world.plant())).sum::<u64>().abs_diff(taken)
    }

    fn report(&self, before: &[Counts], wires: &[WireCounts], left: &[u64], came: &[u64]) -> LinkedReport {
        let length = self.scene.horizon;
        let came: Vec<u64> = self.came().iter().zip(came).map(|(now, before)| now - before).collect();
        let mut digest = self.digest;
        let mut machines = Vec::new();
        for ((world, before), machine) in self.worlds.iter().zip(before).zip(&self.scene.machines) {
            digest.fold(world.plant().digest());
            machines.push((machine.name.clone(), world.end_window(length, before)));
        }
        let chain = |number: usize| {
            let of = &self.left[number];
            let delay = |percent| of.delays.percentile(percent).map(|ns| ns as f64 / 1e3);
            LinkedChainReport {
                name: self.scene.chains[number].name.clone(),
                offered: Rate::over(came[number], length),
                left: Rate::over(of.packets - left[number], length),
                delay_us_p50: delay(50),
                delay_us_p99: delay(99),
            }
        };
        let wire = |number: usize| {
            let (now, before) = (self.wires[number].counts, wires[number]);
            WireReport {
                carried: Rate::over(now.carried - before.carried, length),
                lost: Rate::over(now.lost - before.lost, length),
                busy_percent: 100.0 * (now.busy_ns - before.busy_ns) as f64 / length.0 as f64,
            }
        };
        LinkedReport {
            horizon_ms: length.as_millis(),
            chains: (0..self.scene.chains.len()).map(chain).collect(),
            cables: (0..self.scene.cables.len())
                .map(|cable| [wire(2 * cable), wire(2 * cable + 1)])
                .collect(),
            machines,
            moved: self.steering.moved,
            digest: format!("{:016x}", digest.value()),
            unaccounted: self.unaccounted(),
        }
    }
}

/// The first random stream of wires.
const WIRES: u64 = 1 << 43;

/// Returns the slot of a flow: all have as many, as far as that goes.
fn slot_of(flow: u16, flows: u16) -> usize {
    usize::from(flow) * SLOTS / usize::from(flows)
}
