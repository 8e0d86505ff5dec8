//! Divides flows among nodes that share an NF.

use std::collections::BTreeMap;
use std::sync::Arc;

use headgate_decide::spread::SLOTS;
use headgate_decide::steer::Owner;
use headgate_decide::steer::redirect::State;
use headgate_decide::steer::sharing::{Rules, Server as Choice};
use headgate_decide::steer::slots::{Pricing, Toll, Way};
use headgate_decide::units::{Instant as Moment, Span};
use headgate_host::process;
use headgate_path::plan::Share;
use headgate_session::message::Loop;
use serde_json::{Value as Json, json};

use super::super::Control;
use super::super::instance::Instance;
use super::super::steering::{CoreLoad, Map, SERVICE_ASSUMED_NS, Table, owner, stage_of};
use crate::beats::{Beats, Change, Offered};
use crate::config::model::{Node, Steering};
use crate::layout::SHARE_TICK;
use crate::status::EventCode;

/// Part of a table's slots, one in so many, whose moves are told. Our choice: new flows of equal nodes change
/// sides all the time.
const TOLD_PART: usize = 8;

/// A table that is to be decided on.
struct Asked {
    /// Place of its share in the plan.
    place: usize,
    chain: String,
    nf: String,
    /// What becomes of a flow when its slot moves.
    state: State,
    /// Nodes that serve it.
    choices: Vec<Choice>,
    /// Those of them that get new flows: all, where all leave.
    open: Vec<Choice>,
}

/// Prices and places of what all nodes offer.
#[derive(Default)]
struct Offers {
    kappas: Vec<f64>,
    /// What each node offers of each NF, with the place of its price.
    all: Vec<(u16, Offered)>,
}

impl Offers {
    /// Adds what a node says of an NF.
    fn add(&mut self, node: u16, offer: &Offered) {
        self.kappas.push(offer.kappa);
        self.all.push((node, offer.clone()));
    }

    /// Returns whether a node gets no more flows of an NF.
    fn leaves(&self, node: u16, nf: &str) -> bool {
        self.all.iter().any(|(of, offer)| *of == node && offer.nf == nf && offer.leaving)
    }

    /// Returns the core of a node's NF.
    fn core(&self, node: u16, nf: &str) -> Option<Toll> {
        let resource = self.all.iter().position(|(of, offer)| *of == node && offer.nf == nf)?;
        let own = &self.all[resource].1;
        let known = |offer: &Offered| (offer.service_ns > 0).then_some(f64::from(offer.service_ns));
        let others =
            self.all.iter().filter(|(_, offer)| offer.nf == nf).filter_map(|(_, offer)| known(offer));
        let longest = others.fold(0.0, f64::max);
        let assumed = if longest > 0.0 { longest } else { SERVICE_ASSUMED_NS };
        // Its instances share a core or have several: a packet takes the less of all the more there are.
        let service_ns = known(own).unwrap_or(assumed) / f64::from(own.instances.max(1));
        // Times of one NF differ more by how busy it is than by its core, so they are no factor of its price.
        Some(Toll { resource: resource as u32, factor: 1.0, share: service_ns * 1e-9 })
    }
}

impl Control {
    /// Sees which nodes are alive, and at the end of a period which are cheap, and divides flows.
    pub(in crate::control) fn tend_steering(&mut self) {
        self.tell_peers();
        if self.fabric.parts.shares.is_empty() {
            return;
        }
        let Some(map) = self.map() else { return };
        let now = self.now();
        self.tick_known(now);
        self.see_tables(&map);
        let ends = self.steering.due.is_due(now);
        if ends {
            self.end_period(now, &map.settings);
        }
        let offers = self.offers(&map);
        let asked = self.asked(&map, &offers);
        if self.divide(now, &map, &offers, (asked, ends)) {
            self.put_tables(&map);
        }
    }

    /// Returns what tables go by; `None` where there are no nodes.
    fn map(&mut self) -> Option<Arc<Map>> {
        if self.steering.map.is_none() {
            self.steering.map = self.config.node.as_ref().map(|node| Arc::new(Map::of(node)));
        }
        self.steering.map.clone()
    }

    /// Tells which nodes came and were lost.
    fn tell_peers(&mut self) {
        let changes = self.beats.as_ref().map(Beats::changes).unwrap_or_default();
        for change in changes {
            let (Change::Heard(place) | Change::Lost(place)) = change;
            let name = |node: &Node| node.network.nodes.get(place).cloned();
            let Some(name) = self.config.node.as_ref().and_then(name) else { continue };
            match change {
                Change::Heard(_) => {
                    self.log(EventCode::PeerHeard, &name, "the node says what it has".to_owned());
                }
                Change::Lost(_) => {
                    let what = "the node has said nothing for three beats: its flows go to others".to_owned();
                    self.log(EventCode::PeerLost, &name, what);
                }
            }
        }
    }

    /// Lets the clock of known flows tick.
    fn tick_known(&mut self, now: Moment) {
        if self.steering.tick_due == Moment::default() {
            self.steering.tick_due = now + SHARE_TICK;
        }
        while self.steering.tick_due.is_due(now) {
            self.steering.tick_due = self.steering.tick_due + SHARE_TICK;
            self.fabric.parts.shares.iter().for_each(|share| share.known.advance());
        }
    }

    /// Has a table for each share.
    fn see_tables(&mut self, map: &Map) {
        let (shares, steering) = (&self.fabric.parts.shares, &mut self.steering);
        let key = |share: &Share| (share.chain.0, share.position);
        let keys: Vec<(u16, u8)> = shares.iter().map(key).collect();
        steering.tables.retain(|key, _| keys.contains(key));
        for share in shares {
            steering.tables.entry(key(share)).or_insert_with(|| Table::of(share, map.own));
        }
    }

    /// Steps the prices of own cores by their load in the period that ends, and forms rates.
    fn end_period(&mut self, now: Moment, settings: &Steering) {
        let period = now - self.steering.began;
        let is_first = self.steering.due == Moment::default();
        (self.steering.began, self.steering.due) = (now, now + Span(settings.period_ns));
        let loads = self.core_loads(period);
        if is_first {
            return;
        }
        self.steering.step_prices(&loads);
        for share in &self.fabric.parts.shares {
            if let Some(table) = self.steering.tables.get_mut(&(share.chain.0, share.position)) {
                table.count(share, period);
            }
        }
    }

    /// Returns the load of each core of own NFs since the last time.
    fn core_loads(&mut self, period: Span) -> BTreeMap<u32, CoreLoad> {
        let mut loads: BTreeMap<u32, CoreLoad> = BTreeMap::new();
        let (mut counted, mut service) = (BTreeMap::new(), BTreeMap::new());
        for instance in self.instances.iter().filter(|one| one.is_at_work()) {
            let (seat, number) = (&instance.seat, instance.seat.number);
            let cpu = instance.pid().and_then(|pid| process::cpu_time_ns(pid).ok());
            let came = self.came(number);
            let service_ns = self.packet_ns(instance);
            let load = loads.entry(seat.core).or_default();
            if let Some((cpu_before, came_before)) = self.steering.counted.get(&number) {
                let used = cpu.zip(*cpu_before).map_or(0, |(now, before)| now.saturating_sub(before));
                // One that never sleeps uses all that there is, whatever it has to do.
                if seat.nf.waits == Loop::Notified {
                    load.used += used as f64 / period.0.max(1) as f64;
                }
                let packets = came.saturating_sub(*came_before) as f64;
                load.asked += packets * f64::from(service_ns) / period.0.max(1) as f64;
            }
            counted.insert(number, (cpu, came));
            service.insert(number, service_ns);
        }
        (self.steering.counted, self.steering.service_ns) = (counted, service);
        loads
    }

    /// Returns the time that a packet takes at an instance, in nanoseconds; 0 where it is not known.
    fn packet_ns(&self, instance: &Instance) -> u32 {
        let figures = self.scheduling.figures(instance.seat.number);
        let claim = figures.claim.filter(|_| !figures.is_overridden).map(|claim| claim.mean);
        claim.or(figures.accounted).map_or(0, |time| u32::try_from(time.0).unwrap_or(u32::MAX))
    }

    /// Returns what this node offers of the NFs that it shares.
    pub(in crate::control) fn own_offers(&self, own: &str) -> Vec<Offered> {
        let stages = self.config.chains.iter().filter_map(|chain| chain.across.as_ref());
        let stages = stages.flat_map(|across| &across.stages);
        let mut offers: Vec<Offered> = Vec::new();
        for stage in stages.filter(|stage| stage.is_shared() && stage.is_at(own)) {
            if offers.iter().any(|one| one.nf == stage.nf) {
                continue;
            }
            let number = self.numbers.stages.get(&stage.nf).copied();
            let there = number.and_then(|number| self.fabric.parts.stages.get(usize::from(number))?.as_ref());
            let running = there.map(|stage| stage.running.clone()).unwrap_or_default();
            let of = |instance: &&Instance| running.contains(&instance.seat.number);
            let instances: Vec<&Instance> = self.instances.iter().filter(of).collect();
            let count = instances.len().max(1);
            let kappa: f64 = instances.iter().map(|one| self.steering.kappa(one.seat.core)).sum();
            let service =
                |one: &&Instance| self.steering.service_ns.get(&one.seat.number).copied().unwrap_or(0);
            let service: u64 = instances.iter().map(|one| u64::from(service(one))).sum();
            offers.push(Offered {
                nf: stage.nf.clone(),
                instances: running.len() as u16,
                kappa: kappa / count as f64,
                service_ns: (service / count as u64) as u32,
                leaving: self.steering.departures.contains_key(&stage.nf),
            });
        }
        offers
    }

    /// Returns what all nodes offer.
    fn offers(&self, map: &Map) -> Offers {
        let mut offers = Offers::default();
        let here = self.own_offers(&map.name);
        here.iter().filter(|offer| offer.instances > 0).for_each(|offer| offers.add(map.own, offer));
        let Some(beats) = &self.beats else { return offers };
        for place in map.places().filter(|place| *place != map.own) {
            // One that no way leads to serves nothing.
            if self.fabric.parts.nodes.get(usize::from(place)).copied().flatten().is_none() {
                continue;
            }
            let heard = beats.heard(place.into()).map(|(_, said)| said).unwrap_or_default();
            heard.iter().filter(|offer| offer.instances > 0).for_each(|offer| offers.add(place, offer));
        }
        beats.say(here);
        offers
    }

    /// Returns each table with the nodes that may serve it.
    fn asked(&self, map: &Map, offers: &Offers) -> Vec<Asked> {
        let parts = &self.fabric.parts;
        let ask = |(place, share): (usize, &Share)| {
            let chain = parts.chains.get(share.chain.index())?.as_ref()?;
            let stage = stage_of(&self.config, &chain.name, share.position)?;
            let egress = chain.across?.egress.saturating_sub(1);
            let direct = map.hops(map.own, egress);
            let choice = |name: &String| {
                let there = map.network.place(name)?;
                let hops = map.hops(map.own, there);
                let detour = (hops + map.hops(there, egress) - direct).max(0.0);
                let detour = if detour.is_finite() { detour } else { 0.0 };
                Some(Choice { owner: owner(there), core: offers.core(there, &stage.nf)?, hops, detour })
            };
            let choices: Vec<Choice> = stage.nodes.iter().filter_map(choice).collect();
            let stays = |choice: &&Choice| !offers.leaves(choice.owner.node.0 as u16, &stage.nf);
            let open: Vec<Choice> = choices.iter().filter(stays).copied().collect();
            let open = if open.is_empty() { choices.clone() } else { open };
            let state = if share.known.stay() { State::Kept } else { State::None };
            Some(Asked { place, chain: chain.name.clone(), nf: stage.nf.clone(), state, choices, open })
        };
        parts.shares.iter().enumerate().filter_map(ask).collect()
    }

    /// Decides on all tables. Returns whether any, or who is alive, is another now.
    fn divide(&mut self, now: Moment, map: &Map, offers: &Offers, (asked, ends): (Vec<Asked>, bool)) -> bool {
        let rules = map.settings.rules();
        let mut pricing = Pricing::new(&offers.kappas);
        let (mut is_changed, mut told, mut taken) = (false, Vec::new(), Vec::new());
        let is_heard = self.watchers.hear_decisions();
        for one in asked {
            let share = &self.fabric.parts.shares[one.place];
            let Some(table) = self.steering.tables.get_mut(&(share.chain.0, share.position)) else {
                continue;
            };
            let before = (owners(&table.servers), *table.sharing.table());
            let servers = priced(&one.choices, rules, &pricing);
            let input = (one.state, &table.rates);
            let moved = table.sharing.settle((now, ends), rules, &mut pricing, &one.open, input);
            table.note_changes(now, &before.1, &servers);
            if ends || owners(&servers) != before.0 {
                table.servers = servers;
            }
            table.moved += moved as u64;
            if moved >= SLOTS / TOLD_PART {
                told.push((one.chain.clone(), told_of(&one, table, moved, (map, offers))));
            }
            let differs = before != (owners(&table.servers), *table.sharing.table());
            is_changed |= differs;
            if is_heard && differs {
                taken.push(decision_of(&one, table, moved, (map, offers)));
            }
        }
        taken.into_iter().for_each(|action| self.tell_decision("steering", action));
        for (chain, what) in told {
            self.log(EventCode::FlowsSteered, &chain, what);
        }
        is_changed
    }

    /// Puts all tables into the plan.
    fn put_tables(&mut self, map: &Map) {
        for share in &mut self.fabric.parts.shares {
            if let Some(table) = self.steering.tables.get(&(share.chain.0, share.position)) {
                share.servers = table.servers_of(share, map.own);
                share.alive = table.alive(map.own);
            }
        }
        self.fabric.publish();
    }
}

fn owners(servers: &[(Choice, f64)]) -> Vec<Owner> {
    servers.iter().map(|(one, _)| one.owner).collect()
}

/// Returns nodes with what a packet costs there.
fn priced(choices: &[Choice], rules: Rules, pricing: &Pricing) -> Vec<(Choice, f64)> {
    let cost = |choice: &Choice| {
        let fixed = rules.off_path * choice.detour;
        (*choice, pricing.cost(&Way { owner: choice.owner, fixed, tolls: vec![choice.core] }))
    };
    choices.iter().map(cost).collect()
}

/// A node that serves an NF, as it is told.
struct Part<'a> {
    node: &'a str,
    slots: usize,
    cost: f64,
    price: f64,
}

/// Returns how the slots of a table are divided now, what a packet costs at each node and what its core does.
fn parts<'a>(table: &'a Table, map: &'a Map, offers: &'a Offers) -> impl Iterator<Item = Part<'a>> {
    table.servers.iter().map(|(choice, cost)| {
        let slots = table.sharing.table().iter().flatten().filter(|one| **one == choice.owner).count();
        let node = map.name_of(choice).unwrap_or("?");
        let price = offers.kappas.get(choice.core.resource as usize).copied().unwrap_or_default();
        Part { node, slots, cost: *cost, price }
    })
}

/// Returns the decision on a table with its numbers: `moved` of all slots have another node now.
fn decision_of(asked: &Asked, table: &Table, moved: usize, (map, offers): (&Map, &Offers)) -> Json {
    let part = |Part { node, slots, cost, price }: Part<'_>| json!({ "node": node, "slots": slots, "cost": cost, "price": price });
    let servers: Vec<Json> = parts(table, map, offers).map(part).collect();
    json!({
        "chain": asked.chain,
        "nf": asked.nf,
        "moved": moved,
        "slots": SLOTS,
        "keeps_known_flows": asked.state == State::Kept,
        "packets_per_second": table.rate(),
        "servers": servers,
    })
}

/// Says how the slots of a table are divided now.
fn told_of(asked: &Asked, table: &Table, moved: usize, (map, offers): (&Map, &Offers)) -> String {
    let of = |Part { node, slots, cost, .. }: Part<'_>| format!("{node} has {slots} at a cost of {cost:.2}");
    let all: Vec<String> = parts(table, map, offers).map(of).collect();
    let moves = if asked.state == State::Kept { "new flows of" } else { "flows of" };
    format!("{moves} {moved} of {SLOTS} slots of {} go to another node: {}", asked.nf, all.join(", "))
}
