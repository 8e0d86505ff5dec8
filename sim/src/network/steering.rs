//! Who gets the flows: the decisions of `decide`, and baselines.

use std::collections::BTreeMap;

use headgate_decide::elastic::Band;
use headgate_decide::spread::{SLOTS, slot};
use headgate_decide::steer::cost::{Candidate, Terrain, cheapest, detour, path, rest};
use headgate_decide::steer::redirect::{FlowLoad, Move, Redirection, State};
use headgate_decide::steer::slots::{MOVES_MAX, Pricing, SlotTable, TURNOVER, Way, approach, turnover};
use headgate_decide::steer::{NodeId, Owner};
use headgate_decide::units::{Instant, Span};

use super::ground::{Field, Trip, way};
use super::scene::Mode;
use super::simple::Sequences;
use crate::random::Random;

/// A table of slots: the node that has it, chain, position, egress.
pub(crate) type TableKey = (NodeId, u32, u32, NodeId);

/// What steering keeps.
#[derive(Debug)]
pub(crate) struct Steering {
    /// Prices as each node sees them, with what its own moves added.
    pricings: BTreeMap<NodeId, Pricing>,
    /// Tables of this epoch.
    tables: BTreeMap<TableKey, SlotTable>,
    /// Tables as they were when they were asked for last, and the epoch of that.
    known: BTreeMap<TableKey, (usize, SlotTable)>,
    epoch: usize,
    /// Part of what instances serve that begins anew in an epoch.
    turnover: f64,
    /// What the rest of a chain costs, by chain and egress.
    rests: BTreeMap<(u32, NodeId), Vec<Vec<f64>>>,
    redirections: BTreeMap<TableKey, Redirection>,
    sequences: Sequences,
    /// Instances that baselines choose among, by node and service.
    choices: BTreeMap<(NodeId, u32), Vec<Owner>>,
    random: Random,
}

impl Steering {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            pricings: BTreeMap::new(),
            tables: BTreeMap::new(),
            known: BTreeMap::new(),
            epoch: 0,
            turnover: TURNOVER,
            rests: BTreeMap::new(),
            redirections: BTreeMap::new(),
            sequences: Sequences::default(),
            choices: BTreeMap::new(),
            random: Random::stream(seed, RANDOM_STEERING),
        }
    }

    /// Begins an epoch: everything that prices and instances go into is made anew when it is asked for. `age`
    /// is that of what is served.
    pub(crate) fn on_epoch(&mut self, field: Field<'_>, loads: &BTreeMap<Trip, f64>, age: Span) {
        self.on_change();
        self.turnover = turnover(age, field.scene.period);
        self.epoch += 1;
        // One that nobody asked for has become a fresh one in so many epochs.
        let epoch = self.epoch;
        self.known.retain(|_, (asked, _)| epoch - *asked < SLOTS / MOVES_MAX);
        if field.scene.mode == Mode::E2Simple {
            self.sequences.on_epoch(field, loads);
        }
    }

    /// Forgets what was made for instances that may be gone.
    pub(crate) fn on_change(&mut self) {
        self.pricings.clear();
        self.tables.clear();
        self.rests.clear();
        self.choices.clear();
    }

    /// Chooses an instance for each stage of a flow; `None` where one has none within reach.
    pub(crate) fn choose(&mut self, field: Field<'_>, trip: Trip, hash: u32) -> Option<Vec<Owner>> {
        let ground = field.ground;
        let stages = &field.scene.chains[trip.chain as usize].0;
        if !ground.hops(trip.ingress, trip.egress).is_finite() {
            return None;
        }
        match field.scene.mode {
            Mode::Drench | Mode::Dwor
                if field.scene.source == headgate_decide::market::view::Source::Central =>
            {
                path(ground, &ground.stages(stages), trip.ingress, trip.egress)
            }
            Mode::Drench | Mode::Dwor => self.by_tables(field, trip, hash, 0, trip.ingress),
            Mode::Slick => path(ground, &ground.stages(stages), trip.ingress, trip.egress),
            Mode::E2Simple => self.sequences.choose(field, trip, hash),
            Mode::Nearest | Mode::Ecmp | Mode::LeastLoaded | Mode::Random => {
                self.one_by_one(field, trip, hash)
            }
        }
    }

    /// Chooses hop by hop from a position on, each node by a table of its own.
    fn by_tables(
        &mut self,
        field: Field<'_>,
        trip: Trip,
        hash: u32,
        position: usize,
        from: NodeId,
    ) -> Option<Vec<Owner>> {
        let count = field.scene.chains[trip.chain as usize].0.len();
        let mut node = from;
        let mut owners = Vec::with_capacity(count);
        for position in position..count {
            let key = (node, trip.chain, position as u32, trip.egress);
            let owner = self.table(field, key)[slot(hash)]?;
            node = owner.node;
            owners.push(owner);
        }
        Some(owners)
    }

    /// Chooses the stages that come after one that a flow was moved at.
    pub(crate) fn follow(
        &mut self,
        field: Field<'_>,
        trip: Trip,
        hash: u32,
        owners: &[Owner],
        (position, to): (usize, Owner),
    ) -> Option<Vec<Owner>> {
        let mut all = owners[..position].to_vec();
        all.push(to);
        all.extend(self.by_tables(field, trip, hash, position + 1, to.node)?);
        Some(all)
    }

    fn table(&mut self, field: Field<'_>, key: TableKey) -> SlotTable {
        if let Some(table) = self.tables.get(&key) {
            return *table;
        }
        let ways = self.ways(field, key, field.scene.off_path);
        let fresh = Pricing::new(&field.ground.kappas).fill(&ways, self.turnover);
        let table = self.known.get(&key).map_or(fresh, |(asked, known)| {
            let mut table = *known;
            let is_there = |owner| ways.iter().any(|way| way.owner == owner);
            approach(&mut table, &fresh, (self.epoch - asked) * MOVES_MAX, is_there);
            table
        });
        self.known.insert(key, (self.epoch, table));
        self.tables.insert(key, table);
        table
    }

    fn pricing(&mut self, field: Field<'_>, node: NodeId) -> &mut Pricing {
        self.pricings.entry(node).or_insert_with(|| Pricing::new(&field.ground.kappas))
    }

    /// Returns the ways from a table's node to its instances.
    fn ways(
        &mut self,
        field: Field<'_>,
        (node, chain, position, egress): TableKey,
        off_path: f64,
    ) -> Vec<Way> {
        let Field { scene, layout, routes, ground, instances } = field;
        let stages = ground.stages(&scene.chains[chain as usize].0);
        let rests = self
            .rests
            .entry((chain, egress))
            .or_insert_with(|| rest(ground, scene.lookahead, &stages, egress));
        let candidates = stages[position as usize].iter().zip(&rests[position as usize]);
        let reached = candidates.filter(|(one, _)| ground.hops(node, one.owner.node).is_finite());
        let fixed = |(one, rest): (&Candidate, &f64)| {
            let detour =
                if off_path > 0.0 { off_path * detour(ground, node, one.owner.node, egress) } else { 0.0 };
            way(layout, routes, node, (one.owner, instances[&one.owner].core), rest + detour)
        };
        reached.map(fixed).collect()
    }

    /// Returns the flows of each table that move in this epoch. Flows are given by the table that they pass.
    pub(crate) fn redirect(
        &mut self,
        field: Field<'_>,
        now: Instant,
        band: &Band,
        flows: &BTreeMap<TableKey, Vec<FlowLoad>>,
    ) -> Vec<(TableKey, Move)> {
        let mut moves = Vec::new();
        self.redirections.retain(|key, _| flows.contains_key(key));
        for (key, flows) in flows {
            let ways = self.ways(field, *key, 0.0);
            let mut redirection = self.redirections.remove(key).unwrap_or_default();
            let pricing = self.pricing(field, key.0);
            let found = redirection.on_epoch(now, band.theta(), pricing, &ways, (State::None, flows));
            self.redirections.insert(*key, redirection);
            moves.extend(found.into_iter().map(|one| (*key, one)));
        }
        moves
    }

    /// Baselines that choose each stage by itself.
    fn one_by_one(&mut self, field: Field<'_>, trip: Trip, hash: u32) -> Option<Vec<Owner>> {
        let mut node = trip.ingress;
        let mut owners = Vec::new();
        for service in &field.scene.chains[trip.chain as usize].0 {
            let choice =
                self.choices.entry((node, *service)).or_insert_with(|| choice(field, node, *service));
            let place = match field.scene.mode {
                _ if choice.is_empty() => return None,
                Mode::Ecmp => hash as usize % SLOTS % choice.len(),
                Mode::Random => self.random.below(choice.len() as u64) as usize,
                _ => 0,
            };
            node = choice[place].node;
            owners.push(choice[place]);
        }
        Some(owners)
    }
}

/// Returns the instances of a service that a baseline chooses among at a node, the one that it takes first.
fn choice(field: Field<'_>, node: NodeId, service: u32) -> Vec<Owner> {
    let ground = field.ground;
    let hops = |one: &Candidate| ground.hops(node, one.owner.node);
    let all = ground.candidates[service as usize].iter();
    let within: Vec<(&Candidate, f64)> =
        all.map(|one| (one, hops(one))).filter(|(_, hops)| hops.is_finite()).collect();
    let first = |cost: fn(&(&Candidate, f64)) -> f64| -> Vec<Owner> {
        let cheapest = cheapest(within.iter().map(|one| (one.0.owner, cost(one))));
        cheapest.map(|(owner, _)| owner).into_iter().collect()
    };
    match field.scene.mode {
        Mode::Nearest => first(|(_, hops)| *hops),
        Mode::LeastLoaded => first(|(one, _)| one.price),
        Mode::Ecmp => {
            let least = within.iter().map(|(_, hops)| *hops).fold(f64::INFINITY, f64::min);
            within.iter().filter(|(_, hops)| *hops <= least).map(|(one, _)| one.owner).collect()
        }
        _ => within.iter().map(|(one, _)| one.owner).collect(),
    }
}

/// Stream of what steering draws.
const RANDOM_STEERING: u64 = 1 << 40;
