//! What happens once a period: demand is looked at, prices are computed, instances start and end, flows move.

use std::collections::BTreeMap;

use headgate_decide::market::demand::Demand;
use headgate_decide::steer::redirect::FlowLoad;
use headgate_decide::steer::slots::Traffic;
use headgate_decide::units::{Instant, Span};

use super::fluid::{FlowId, PathLoad};
use super::ground::Trip;
use super::instances::Seen;
use super::scene::Mode;
use super::steering::TableKey;
use super::world::{World, split};

/// Steps of the price solver in an epoch: its budget.
const STEPS_MAX: u32 = 200;
/// What a class may have over what it had. Our choice, as in the cluster: demand grows from one look to
/// the next.
const GROWTH: f64 = 1.25;
/// Utilisation from which on a class is limited by the network and not by itself.
const FULL: f64 = 0.95;
/// The one orchestrator that there is here.
const TERM: u64 = 1;

impl World<'_> {
    pub(super) fn on_epoch(&mut self, now: Instant) {
        let loads = self.look(now);
        let seen = self.seen(&loads);
        self.price(now, &loads, &seen);
        self.instances.begin_to_serve(now);
        self.decide_instances(now, &seen);
        self.ground_anew();
        let (offered, age) = (self.offered(&loads), self.age_of_traffic(now));
        let (field, steering) = split(self);
        steering.on_epoch(field, &offered, age);
        for flow in self.flows.take_waiting() {
            self.enter(now, flow);
        }
        if self.scene.mode == Mode::Drench {
            self.redirect(now);
        }
        if self.fluid.is_stale() {
            self.fluid.share(now);
        }
        self.check(&seen);
    }

    /// Returns the mean age of flows, each by its rate.
    fn age_of_traffic(&self, now: Instant) -> Span {
        let (mut ages, mut rates) = (0.0, 0.0);
        for flow in self.flows.in_order() {
            let of = self.flows.of(flow);
            let rate = of.place().map_or(0.0, |(path, _)| self.fluid.rate(path));
            if rate.is_finite() {
                ages += rate * (now - of.begun).0 as f64;
                rates += rate;
            }
        }
        Span(if rates > 0.0 { (ages / rates) as u64 } else { 0 })
    }

    /// Takes what paths did in the last period, and counts it.
    pub(super) fn look(&mut self, now: Instant) -> Vec<PathLoad> {
        let loads = self.fluid.report(now);
        if now > Instant(0) + self.scene.warm_up {
            self.sums.bits += loads.iter().map(|load| load.bits).sum::<f64>();
            self.sums.seconds += (now - self.looked).as_secs_f64();
        }
        self.looked = now;
        loads
    }

    fn seen(&self, loads: &[PathLoad]) -> Seen {
        let seconds = self.scene.period.as_secs_f64();
        let mut seen = Seen { used: vec![0.0; self.layout.rates.len()], ..Seen::default() };
        for load in loads {
            let rate = load.bits / seconds;
            for one in self.fluid.way(load.path) {
                seen.used[one.resource as usize] +=
                    rate * one.coefficient / self.layout.rates[one.resource as usize];
            }
            let (trip, owners) = &self.keys[load.path as usize];
            let mut node = trip.ingress;
            let links = self.scene.graph.links();
            for (at, owner) in owners.iter().enumerate() {
                *seen.flows.entry(*owner).or_default() += load.flows;
                *seen.passing.entry((*owner, node)).or_default() += rate;
                for link in self.routes.links(node, owner.node) {
                    *seen.passing.entry((*owner, links[link as usize].to)).or_default() += rate;
                }
                let after = owners.get(at + 1).map_or(trip.egress, |next| next.node);
                for beside in [node, after] {
                    *seen.beside.entry((*owner, beside)).or_default() += rate;
                }
                node = owner.node;
            }
        }
        seen
    }

    /// Prices of the period that is over.
    fn price(&mut self, now: Instant, loads: &[PathLoad], seen: &Seen) {
        let seconds = self.scene.period.as_secs_f64();
        let mut demand = Demand::new(self.layout.rates.iter().copied());
        for load in loads.iter().filter(|load| load.flow_seconds > 0.0) {
            let way = self.fluid.way(load.path);
            let is_limited = way.iter().any(|one| seen.used[one.resource as usize] > FULL);
            let cap =
                if is_limited || load.bits <= 0.0 { f64::INFINITY } else { GROWTH * load.bits / seconds };
            // A way that leads over something twice, or that is refused, has no price of its own.
            let added = demand.add(load.flow_seconds / seconds, cap, way);
            self.checker.on_demand(added.is_ok());
        }
        let progress = self.solver.solve(&demand, STEPS_MAX, || true);
        self.sums.steps += f64::from(progress.steps);
        let kappas: Vec<f64> = self.solver.kappas().collect();
        let before = self.prices.in_use(now).1;
        self.prices.on_published(now, TERM, self.epoch, &kappas);
        for (resource, used) in (0..).zip(&seen.used) {
            self.prices.on_load(resource, *used);
        }
        let (in_use, term) = self.prices.in_use(now);
        self.checker.on_term(before, term);
        self.ground.kappas = in_use.to_vec();
    }

    fn decide_instances(&mut self, now: Instant, seen: &Seen) {
        let mut instances = std::mem::take(&mut self.instances);
        let network = (self.scene, &self.layout, &self.ground);
        instances.on_epoch(now, network, seen, &|node| self.is_up(node));
        self.instances = instances;
    }

    /// Bits per second that each class of flows had.
    fn offered(&self, loads: &[PathLoad]) -> BTreeMap<Trip, f64> {
        let seconds = self.scene.period.as_secs_f64();
        let mut offered = BTreeMap::new();
        for load in loads {
            *offered.entry(self.keys[load.path as usize].0).or_default() += load.bits / seconds;
        }
        offered
    }

    /// Moves flows away from what has become expensive.
    fn redirect(&mut self, now: Instant) {
        let mut tables: BTreeMap<TableKey, Vec<FlowLoad>> = BTreeMap::new();
        for flow in self.flows.in_order() {
            let one = self.flows.of(flow);
            let Some((path, _)) = one.place() else { continue };
            let (trip, owners) = &self.keys[path as usize];
            let mut node = trip.ingress;
            for (position, &owner) in (0..).zip(owners) {
                let key = (node, trip.chain, position, trip.egress);
                let rate = self.fluid.rate(path);
                let (flow, moved) = (flow.into(), one.moved());
                let load = FlowLoad { flow, owner, rate, moved, traffic: Traffic::Elastic(1.0) };
                tables.entry(key).or_default().push(load);
                node = owner.node;
            }
        }
        let band = self.scene.band;
        let (field, steering) = split(self);
        let moves = steering.redirect(field, now, &band, &tables);
        for ((_, _, position, _), found) in moves {
            let (flow, of) = (found.flow as FlowId, self.flows.of(found.flow as FlowId));
            // One that moved at an earlier stage has another path by now.
            if of.moved() == Some(now) {
                continue;
            }
            let Some((path, _)) = of.place() else { continue };
            let (hash, (trip, owners)) = (of.hash, self.keys[path as usize].clone());
            let (field, steering) = split(self);
            let Some(new) = steering.follow(field, trip, hash, &owners, (position as usize, found.to)) else {
                continue;
            };
            self.take(now, flow);
            self.flows.of_mut(flow).note_moved(now);
            self.put(now, flow, (trip, new));
            self.report.redirected += 1;
        }
    }

    fn check(&mut self, seen: &Seen) {
        let serving = self.instances.serving();
        let by_service = serving.fold(vec![0u32; self.scene.services() as usize], |mut counts, (_, one)| {
            counts[one.service as usize] += 1;
            counts
        });
        let any_up = self.layout.nodes().any(|node| self.is_up(node));
        self.checker.on_epoch(&self.fluid.loads(), self.fluid.capacities(), self.instances.beyond);
        self.checker.on_flows(self.flows.live(), self.fluid.live() + self.flows.waiting());
        self.sums.epochs += 1.0;
        self.sums.instances += f64::from(by_service.iter().sum::<u32>());
        let cores: std::collections::BTreeSet<u32> =
            self.instances.serving().map(|(_, one)| one.core).collect();
        for core in cores {
            let used = seen.used[core as usize];
            let (count, sum, squares) = self.sums.used;
            self.sums.used = (count + 1.0, sum + used, squares + used * used);
        }
        let cores = self.layout.links() as usize..;
        self.sums.served += seen.used[cores].iter().sum::<f64>() * self.scene.core_rate;
        self.checker.on_services(any_up && self.scene.faults.is_empty(), &by_service);
    }
}
