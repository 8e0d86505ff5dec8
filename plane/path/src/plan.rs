//! What the workers work by: chains, stages, ports and rules, as the control loop last arranged them.
//!
//! A plan never changes. A new one replaces it between two turns of a worker, so a packet sees one plan
//! at each station. Three questions are answered in three places: which chain (`classify`), which
//! position (the packet's [`crate::holders::Place`]), which instance ([`Stage::table`]).

use std::collections::{HashMap, HashSet};

use headgate_decide::spread::{self, SLOTS, Table};
use headgate_shm::cpu;
use headgate_units::InstanceId;

use crate::drop::Reason;
use crate::rules::Rules;

/// The chain of packets that no rule claims, so that they too are counted.
pub const UNCLAIMED: u16 = 0;

/// What happens to packets for an NF that is not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// They end.
    #[default]
    Drop,
    /// They go on to the stage after it.
    Bypass,
}

/// An NF as chains see it: a name, and the instances that share its load.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The NF's name.
    pub name: String,
    /// What to do without it.
    pub on_failure: OnFailure,
    /// The instances that run. Empty: the NF is down.
    pub running: Vec<u16>,
    /// Slot of a flow's hash -> instance.
    pub table: Table,
}

impl Stage {
    /// A stage with no instance running yet.
    #[must_use]
    pub const fn new(name: String, on_failure: OnFailure) -> Self {
        Self { name, on_failure, running: Vec::new(), table: [spread::FREE; SLOTS] }
    }

    /// Says which instances run now. Flows of the others move as little as possible.
    pub fn set_running(&mut self, running: Vec<u16>) {
        let ids: Vec<InstanceId> = running.iter().map(|&number| InstanceId(number)).collect();
        spread::rebalance(&mut self.table, &ids);
        self.running = running;
    }
}

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Out of this port.
    Port(u16),
    /// The last NF names the port.
    Nf,
}

/// A linear path through stages.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Stage numbers in order.
    pub stages: Vec<u16>,
    /// Where it ends.
    pub exit: Exit,
    /// No packet shall take longer, in microseconds.
    pub delay_bound_us: Option<u32>,
}

/// Which worker serves a port or an instance.
#[derive(Clone, Debug)]
pub struct PortPlace {
    /// The worker to hand packets to, for each worker: itself if it has a queue of the port.
    pub worker_for: Vec<u8>,
}

/// Where an instance lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstancePlace {
    /// The worker that owns its rings.
    pub worker: u8,
}

/// One step of a chain, worked out in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// To this instance, at this position of the chain.
    Instance {
        /// Position of the stage, after bypassed ones.
        position: u8,
        /// The instance.
        number: u16,
    },
    /// To the instance that the flow's slot names.
    Spread {
        /// Position of the stage, after bypassed ones.
        position: u8,
        /// The stage whose table says which.
        stage: u16,
    },
    /// Out of this port.
    Port(u16),
    /// Nowhere.
    End(Reason),
}

/// What a plan is made of; [`Plan::new`] works out the rest.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Grows with each plan whose rules differ: flow entries of an older one are asked for anew. Not 0.
    pub generation: u32,
    /// By chain number; `None` where a chain was removed. Number 0 is [`UNCLAIMED`] and stays `None`.
    pub chains: Vec<Option<Chain>>,
    /// By stage number; `None` where an NF was removed.
    pub stages: Vec<Option<Stage>>,
    /// By port number.
    pub ports: Vec<PortPlace>,
    /// By instance number.
    pub instances: Vec<InstancePlace>,
    /// Which chain.
    pub rules: Rules,
}

/// A chain among the hops, which chains of equal hops share: ten thousand over the same NFs need no more of
/// the cache for them than one.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u32,
    /// Hops after the first.
    more: u16,
    /// Why nothing may enter it.
    closed: Option<Reason>,
    /// Whether it has a delay bound.
    bounded: bool,
}

const _: () = assert!(size_of::<Span>() == 8);

/// Everything a worker works by.
#[derive(Debug)]
pub struct Plan {
    parts: Parts,
    /// By chain number.
    spans: Vec<Span>,
    hops: Vec<Hop>,
    /// Instance number -> the different ways on from it, as the instances and spread stages there.
    ways: Vec<Vec<Vec<Hop>>>,
    has_bounds: bool,
}

impl std::ops::Deref for Plan {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Plan {
    /// Works out each step of each chain.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let (mut spans, mut hops, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for chain in &parts.chains {
            let steps: Vec<Hop> = match chain {
                Some(chain) => {
                    (0..=chain.stages.len()).map(|position| step(&parts.stages, chain, position)).collect()
                }
                None => vec![Hop::End(Reason::ChainRemoved)],
            };
            let closed = steps.iter().find_map(|step| match step {
                Hop::End(reason @ (Reason::StageDown | Reason::ChainRemoved)) => Some(*reason),
                _ => None,
            });
            let more = (steps.len() - 1) as u16;
            let first = *known.entry(steps).or_insert_with_key(|steps| {
                hops.extend_from_slice(steps);
                (hops.len() - steps.len()) as u32
            });
            let bounded = chain.as_ref().is_some_and(|chain| chain.delay_bound_us.is_some());
            spans.push(Span { first, more, closed, bounded });
        }
        let has_bounds = spans.iter().any(|span| span.bounded);
        let ways = ways_on(&parts, &spans, &hops);
        Self { parts, spans, hops, ways, has_bounds }
    }

    /// The hops of a chain in order, its exit last.
    #[inline(always)]
    #[must_use]
    pub fn hops(&self, chain: u16) -> &[Hop] {
        let Span { first, more, .. } = self.spans[chain as usize];
        &self.hops[first as usize..=first as usize + more as usize]
    }

    /// The different ways on from an instance through the chains it serves.
    #[must_use]
    pub fn ways_on(&self, number: u16) -> &[Vec<Hop>] {
        self.ways.get(number as usize).map_or(&[], Vec::as_slice)
    }

    /// The instances of a stage that run.
    #[must_use]
    pub fn running(&self, stage: u16) -> &[u16] {
        self.stages[stage as usize].as_ref().map_or(&[], |stage| &stage.running)
    }

    /// Where packets at this position of a chain go. A position beyond the last hop is that of a packet
    /// that was on its way when the chain was removed or became shorter: it takes the last hop.
    #[inline(always)]
    #[must_use]
    pub fn hop(&self, chain: u16, position: u8) -> Hop {
        let Span { first, more, .. } = self.spans[chain as usize];
        self.hops[(first + u32::from(more.min(u16::from(position)))) as usize]
    }

    /// Asks the cache for what is known of a chain.
    #[inline(always)]
    pub fn prefetch(&self, chain: u16) {
        cpu::prefetch(&self.spans[chain as usize]);
    }

    /// Why nothing may enter a chain now.
    #[inline(always)]
    #[must_use]
    pub fn closed(&self, chain: u16) -> Option<Reason> {
        self.spans[chain as usize].closed
    }

    /// Whether a chain has a delay bound.
    #[inline(always)]
    #[must_use]
    pub fn is_bounded(&self, chain: u16) -> bool {
        self.spans[chain as usize].bounded
    }

    /// Whether any chain has.
    #[inline(always)]
    #[must_use]
    pub const fn has_bounds(&self) -> bool {
        self.has_bounds
    }

    /// The slots of a stage.
    #[inline(always)]
    #[must_use]
    pub fn table(&self, stage: u16) -> &Table {
        const NOBODY: Table = [spread::FREE; SLOTS];
        self.stages[stage as usize].as_ref().map_or(&NOBODY, |stage| &stage.table)
    }

    /// The position of a stage in a chain.
    #[must_use]
    pub fn position_of(&self, chain: u16, stage: u16) -> Option<u8> {
        let chain = self.chains[chain as usize].as_ref()?;
        chain.stages.iter().position(|&there| there == stage).map(|position| position as u8)
    }
}

/// Many chains go the same way: ten thousand over the same NFs have one way on from each.
fn ways_on(parts: &Parts, spans: &[Span], hops: &[Hop]) -> Vec<Vec<Vec<Hop>>> {
    let mut ways = vec![HashSet::new(); parts.instances.len()];
    for &Span { first, more, .. } in spans {
        let hops = &hops[first as usize..=first as usize + more as usize];
        for (position, hop) in hops.iter().enumerate() {
            let from = match *hop {
                Hop::Instance { number, .. } => vec![number],
                Hop::Spread { stage, .. } => {
                    parts.stages[stage as usize].as_ref().map_or(Vec::new(), |stage| stage.running.clone())
                }
                Hop::Port(_) | Hop::End(_) => continue,
            };
            let stations = |hop: &&Hop| matches!(hop, Hop::Instance { .. } | Hop::Spread { .. });
            let way: Vec<Hop> = hops[position + 1..].iter().filter(stations).copied().collect();
            for number in from {
                if !ways[number as usize].contains(&way) {
                    ways[number as usize].insert(way.clone());
                }
            }
        }
    }
    ways.into_iter().map(|ways| ways.into_iter().collect()).collect()
}

fn step(stages: &[Option<Stage>], chain: &Chain, position: usize) -> Hop {
    let Some(&number) = chain.stages.get(position) else {
        return match chain.exit {
            Exit::Port(port) => Hop::Port(port),
            Exit::Nf => Hop::End(Reason::NoExit),
        };
    };
    let Some(stage) = &stages[number as usize] else { return Hop::End(Reason::StageDown) };
    match (stage.running.as_slice(), stage.on_failure) {
        ([], OnFailure::Bypass) => step(stages, chain, position + 1),
        ([], OnFailure::Drop) => Hop::End(Reason::StageDown),
        (&[number], _) => Hop::Instance { position: position as u8, number },
        _ => Hop::Spread { position: position as u8, stage: number },
    }
}
