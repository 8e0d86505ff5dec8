//! Demand of any size for the price solver: classes over a network of nodes, for measurements of the
//! solver alone.

use headgate_decide::market::demand::{Demand, Use};
use headgate_decide::steer::NodeId;

use super::graph::{Graph, Routes};
use super::scene::{CORE_RATE, LINK_RATE};
use crate::random::Random;

/// Classes of flows over a network.
#[derive(Clone, Debug)]
pub struct PriceTask {
    capacities: Vec<f64>,
    /// Weight, highest rate, way.
    classes: Vec<(f64, f64, Vec<Use>)>,
    random: Random,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Routes of a graph; hosts and cores of it.
    Graph(Routes, u32, u32),
    /// So many nodes of which ways take some: links in a tree of pods, cores anywhere.
    Nodes(u32),
}

/// Flows of a class of a large network. A way is shared by those of one chain between two nodes.
const LARGE_WEIGHT: u64 = 8;

impl PriceTask {
    /// Makes so many flows, each a class, over a graph with two cores on each node.
    #[must_use]
    pub fn over(graph: &Graph, flows: u32, seed: u64) -> Self {
        let (nodes, links) = (graph.nodes(), graph.links().len() as u32);
        let mut capacities: Vec<f64> = graph.links().iter().map(|link| link.capacity).collect();
        capacities.resize(capacities.len() + 2 * nodes as usize, CORE_RATE);
        let shape = Shape::Graph(Routes::new(graph, |_| true), nodes, links);
        Self::filled(capacities, shape, flows, seed)
    }

    /// Makes so many classes over a network of nodes with four cores and one uplink in each direction, in
    /// pods of 50 that share uplinks of 50 times the rate.
    #[must_use]
    pub fn large(nodes: u32, classes: u32, seed: u64) -> Self {
        let pods = nodes.div_ceil(POD);
        let mut capacities = vec![CORE_RATE; CORES as usize * nodes as usize];
        capacities.resize(capacities.len() + 2 * nodes as usize, LINK_RATE);
        capacities.resize(capacities.len() + 2 * pods as usize, LINK_RATE * f64::from(POD));
        Self::filled(capacities, Shape::Nodes(nodes), classes, seed)
    }

    fn filled(capacities: Vec<f64>, shape: Shape, classes: u32, seed: u64) -> Self {
        let mut task = Self { capacities, classes: Vec::new(), random: Random::stream(seed, 7), shape };
        for _ in 0..classes {
            let class = task.draw();
            task.classes.push(class);
        }
        task
    }

    /// Draws a class: two stages between two ends. Half are capped.
    fn draw(&mut self) -> (f64, f64, Vec<Use>) {
        let one = |resource| Use { resource, coefficient: 1.0 };
        let random = &mut self.random;
        let (way, weight) = match &self.shape {
            Shape::Graph(routes, nodes, links) => {
                let stops: Vec<u32> = (0..4).map(|_| random.below(u64::from(*nodes)) as u32).collect();
                let hops = stops.windows(2).flat_map(|pair| routes.links(NodeId(pair[0]), NodeId(pair[1])));
                let mut way: Vec<Use> = hops.map(one).collect();
                for stop in &stops[1..3] {
                    way.push(one(links + 2 * stop + random.below(2) as u32));
                }
                (way, 1.0)
            }
            Shape::Nodes(nodes) => {
                let stops: Vec<u32> = (0..4).map(|_| random.below(u64::from(*nodes)) as u32).collect();
                let (up, pods) = (CORES * nodes, CORES * nodes + 2 * nodes);
                let mut way = Vec::new();
                for pair in stops.windows(2) {
                    way.extend([one(up + 2 * pair[0]), one(up + 2 * pair[1] + 1)]);
                    if pair[0] / POD != pair[1] / POD {
                        way.extend([one(pods + 2 * (pair[0] / POD)), one(pods + 2 * (pair[1] / POD) + 1)]);
                    }
                }
                for stop in &stops[1..3] {
                    way.push(one(CORES * stop + random.below(u64::from(CORES)) as u32));
                }
                (way, random.between(1, LARGE_WEIGHT) as f64)
            }
        };
        let cap =
            if random.below(2) == 0 { f64::INFINITY } else { random.exponential(CORE_RATE / 20.0).max(1.0) };
        (weight, cap, way)
    }

    /// Replaces this part of the classes by new ones.
    pub fn churn(&mut self, part: f64) {
        let count = (part * self.classes.len() as f64) as usize;
        for _ in 0..count {
            let at = self.random.below(self.classes.len() as u64) as usize;
            self.classes[at] = self.draw();
        }
    }

    /// Returns the demand, as the solver takes it.
    ///
    /// # Panics
    /// Never: what is drawn is sound.
    #[must_use]
    pub fn demand(&self) -> Demand {
        let mut demand = Demand::new(self.capacities.iter().copied());
        for (weight, cap, way) in &self.classes {
            demand.add(*weight, *cap, way).expect("drawn classes are sound");
        }
        demand
    }

    /// Number of flows.
    #[must_use]
    pub fn flows(&self) -> f64 {
        self.classes.iter().map(|class| class.0).sum()
    }
}

const CORES: u32 = 4;
const POD: u32 = 50;
