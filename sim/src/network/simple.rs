//! SIMPLE as a baseline: few sequences of instances for each class, chosen offline; shares of least
//! maximum load among them, chosen online.
//!
//! The authors' offline problem is an integer program. Here it is greedy: the classes, one after another,
//! take the shortest sequences in hops, and an instance that is in more sequences than its even part,
//! times [`OCCURRENCES`], is passed over. Their online problem is a linear program; here shares go step
//! by step from the sequence with the most used instance to that with the least used ([`STEPS`] times
//! over all classes), which comes to the same within some percent. Both are done anew when instances
//! change, which their authors leave out.

use std::collections::BTreeMap;

use headgate_decide::steer::cost::{Candidate, Terrain};
use headgate_decide::steer::{NodeId, Owner};

use super::ground::{Field, Ground, Trip};

/// Sequences of a class. SIMPLE's evaluation has few; our choice.
const SEQUENCES: usize = 3;
/// How often an instance may be in sequences, over its even part.
const OCCURRENCES: f64 = 1.5;
/// Times that shares are moved.
const STEPS: usize = 20;
/// Part of a class's share that moves in a step.
const PART: f64 = 0.25;

/// Sequences of all classes, and the part of its flows that each has.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    classes: BTreeMap<Trip, Vec<(Vec<Owner>, f64)>>,
    /// Instances that they were chosen from.
    among: Vec<Owner>,
}

impl Sequences {
    /// Chooses sequences anew where instances changed.
    fn renew(&mut self, field: Field<'_>) {
        let all = field.ground.candidates.iter().flatten();
        let among: Vec<Owner> = all.map(|one| one.owner).collect();
        if self.among != among {
            self.among = among;
            self.classes.clear();
            self.offline(field);
        }
    }

    /// Chooses the shares of an epoch for what each class offered in the last one, in bit/s.
    pub(crate) fn on_epoch(&mut self, field: Field<'_>, loads: &BTreeMap<Trip, f64>) {
        self.renew(field);
        let mut used: BTreeMap<Owner, f64> = BTreeMap::new();
        let add = |used: &mut BTreeMap<Owner, f64>, sequence: &[Owner], rate: f64| {
            sequence.iter().for_each(|owner| *used.entry(*owner).or_default() += rate);
        };
        for (trip, sequences) in &self.classes {
            let rate = loads.get(trip).copied().unwrap_or(0.0);
            sequences.iter().for_each(|(sequence, share)| add(&mut used, sequence, share * rate));
        }
        for _ in 0..STEPS {
            for (trip, rate) in loads.iter().filter(|(_, rate)| **rate > 0.0) {
                let Some(sequences) = self.classes.get_mut(trip) else { continue };
                let worst = |sequence: &[Owner]| {
                    sequence.iter().map(|owner| used.get(owner).copied().unwrap_or(0.0)).fold(0.0, f64::max)
                };
                let loads: Vec<f64> = sequences.iter().map(|(sequence, _)| worst(sequence)).collect();
                let has_share = |at: &usize| sequences[*at].1 > 0.0;
                let all = || 0..sequences.len();
                let Some(from) = all().filter(has_share).max_by(|a, b| loads[*a].total_cmp(&loads[*b]))
                else {
                    continue;
                };
                let Some(to) = all().min_by(|a, b| loads[*a].total_cmp(&loads[*b])) else { continue };
                // Half of the gap evens both out.
                let part = (PART * sequences[from].1).min((loads[from] - loads[to]) / 2.0 / rate);
                if part > 0.0 {
                    sequences[from].1 -= part;
                    sequences[to].1 += part;
                    add(&mut used, &sequences[from].0, -part * rate);
                    add(&mut used, &sequences[to].0, part * rate);
                }
            }
        }
    }

    /// Returns a flow's sequence, by its hash.
    pub(crate) fn choose(&mut self, field: Field<'_>, trip: Trip, hash: u32) -> Option<Vec<Owner>> {
        self.renew(field);
        let sequences = self.classes.get(&trip)?;
        let mut place = f64::from(hash % (1 << 20)) / f64::from(1 << 20);
        let chosen = sequences.iter().find(|(_, share)| {
            place -= share;
            place < 0.0
        });
        chosen.or(sequences.first()).map(|(sequence, _)| sequence.clone())
    }

    fn offline(&mut self, field: Field<'_>) {
        let (scene, ground) = (field.scene, field.ground);
        let hosts = || scene.hosts.iter().copied();
        let pairs: Vec<(NodeId, NodeId)> =
            hosts().flat_map(|from| hosts().map(move |to| (from, to))).collect();
        let mut occurrences: BTreeMap<Owner, u32> = BTreeMap::new();
        let instances: Vec<f64> = ground.candidates.iter().map(|of| of.len() as f64).collect();
        for (chain, (stages, _)) in (0..).zip(&scene.chains) {
            for (ingress, egress) in pairs.iter().copied().filter(|(from, to)| from != to) {
                let classes = (pairs.len() - scene.hosts.len()) * scene.chains.len() * SEQUENCES;
                let limit = |stage: u32| OCCURRENCES * classes as f64 / instances[stage as usize];
                let mut sequences: Vec<(Vec<Owner>, f64)> = Vec::new();
                for _ in 0..SEQUENCES {
                    let is_known = |owners: &Vec<Owner>| sequences.iter().any(|(known, _)| known == owners);
                    let free = |stage: u32, one: &Candidate| {
                        f64::from(occurrences.get(&one.owner).copied().unwrap_or(0)) < limit(stage)
                            && !sequences.iter().any(|(known, _)| known.contains(&one.owner))
                    };
                    let Some(owners) = shortest(ground, stages, (ingress, egress), free)
                        .or_else(|| shortest(ground, stages, (ingress, egress), |_, _| true))
                        .filter(|owners| !is_known(owners))
                    else {
                        break;
                    };
                    owners.iter().for_each(|owner| *occurrences.entry(*owner).or_default() += 1);
                    sequences.push((owners, 0.0));
                }
                let share = 1.0 / sequences.len().max(1) as f64;
                sequences.iter_mut().for_each(|(_, of)| *of = share);
                if !sequences.is_empty() {
                    self.classes.insert(Trip { chain, ingress, egress }, sequences);
                }
            }
        }
    }
}

/// Returns the sequence of fewest hops over the instances that may be taken.
fn shortest(
    ground: &Ground,
    stages: &[u32],
    ends: (NodeId, NodeId),
    is_free: impl Fn(u32, &Candidate) -> bool,
) -> Option<Vec<Owner>> {
    // By stage the best way to each instance: its hops, and where it came from.
    let mut layers: Vec<Vec<(Owner, f64, usize)>> = vec![vec![(Owner { node: ends.0, instance: 0 }, 0.0, 0)]];
    for stage in stages {
        let of = |one: &Candidate| {
            let before = layers.last()?.iter().enumerate();
            let ways =
                before.map(|(at, (from, hops, _))| (at, hops + ground.hops(from.node, one.owner.node)));
            let (at, hops) = ways.min_by(|a, b| a.1.total_cmp(&b.1))?;
            hops.is_finite().then_some((one.owner, hops, at))
        };
        let layer: Vec<_> = ground.candidates[*stage as usize]
            .iter()
            .filter(|one| is_free(*stage, one))
            .filter_map(of)
            .collect();
        layers.push(layer);
    }
    let last = layers.last()?.iter().enumerate();
    let ends = last.map(|(at, (owner, hops, _))| (at, hops + ground.hops(owner.node, ends.1)));
    let (mut at, hops) = ends.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut owners = Vec::with_capacity(stages.len());
    for layer in layers.iter().skip(1).rev() {
        owners.push(layer[at].0);
        at = layer[at].2;
    }
    owners.reverse();
    hops.is_finite().then_some(owners)
}
