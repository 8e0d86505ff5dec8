//! What there is in a network, and what happens to it, as plain values.

use headgate_decide::elastic::Band;
use headgate_decide::market::view::Source;
use headgate_decide::steer::NodeId;
use headgate_decide::steer::cost::{Lookahead, OFF_PATH};
use headgate_decide::units::Span;

use super::graph::{FatTree, Graph, ISP_HOSTS, ISP_NF_NODES};
use super::rates::Sharing;
use super::sizes::Sizes;
use crate::random::Random;

/// Who chooses instances, and where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Prices, with redirection.
    #[default]
    Drench,
    /// Prices, without redirection.
    Dwor,
    /// The nearest instance of each stage.
    Nearest,
    /// The least used instance of each stage, wherever it is.
    LeastLoaded,
    /// Any instance, drawn anew for each flow.
    Random,
    /// Any instance of those that are nearest, by the flow's hash.
    Ecmp,
    /// Slick: for each new flow the shortest path in the layered graph, hops weighted by load.
    Slick,
    /// E2 places and scales, SIMPLE chooses: few sequences for each class, shares of least maximum load.
    E2Simple,
}

/// Something that fails, or comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// When, from the start.
    pub at: Span,
    /// What.
    pub what: Failing,
    /// Whether it fails; else it is back.
    pub fails: bool,
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failing {
    /// A node with its links and instances.
    Node(NodeId),
    /// A cable: both directions of the link with this number.
    Cable(u32),
}

/// A network, its traffic, and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkScene {
    /// Nodes and links.
    pub graph: Graph,
    /// Nodes between which flows pass.
    pub hosts: Vec<NodeId>,
    /// Other hosts that each of them sends to; `None`: all.
    pub peers: Option<u32>,
    /// Nodes with cores for NFs.
    pub nf_nodes: Vec<NodeId>,
    /// Cores of each of them.
    pub cores: u32,
    /// Bits per second that a core serves.
    pub core_rate: f64,
    /// Services by chain, in the order in which flows pass them, and how much of the flows it has.
    pub chains: Vec<(Vec<u32>, f64)>,
    /// Sizes of flows.
    pub sizes: Sizes,
    /// Offered load over the capacity of all cores.
    pub load: f64,
    /// Instances of each service at the start; `None`: as many as the load needs at the top of the band.
    pub instances: Option<u32>,
    /// What fails.
    pub faults: Vec<Fault>,
    /// Who chooses.
    pub mode: Mode,
    /// Who computes prices.
    pub source: Source,
    /// How far steering looks.
    pub lookahead: Lookahead,
    /// How rates are shared.
    pub sharing: Sharing,
    /// Price of a hop off the shortest path, rho.
    pub off_path: f64,
    /// Prices between which an instance is used well.
    pub band: Band,
    /// Time between two looks at demand.
    pub period: Span,
    /// Flows that begin before are not judged.
    pub warm_up: Span,
    /// When it ends.
    pub horizon: Span,
    /// Least time between two computations of rates; 0: at each arrival and end.
    pub resolution: Span,
    /// Seed of all that is drawn.
    pub seed: u64,
}

/// Bits per second of a link, where nothing else is said. The papers do not say; our choice: ten cores.
pub const LINK_RATE: f64 = 1e9;
/// Bits per second that a core serves. Our choice, with a mean flow of 1.7 MB some hundred flows a second
/// for a network.
pub const CORE_RATE: f64 = 100e6;

impl NetworkScene {
    /// Makes that of the dissertation's studies of an internet provider (9.4.1, 9.4.4): 27 hosts, 57
    /// nodes for NFs with two cores each, chains of two of six services.
    #[must_use]
    pub fn isp(graph: Graph, load: f64, seed: u64) -> Self {
        let mut by_degree = graph.by_degree();
        let hosts = by_degree.drain(..ISP_HOSTS.min(by_degree.len())).collect();
        let nf_nodes = by_degree.into_iter().rev().take(ISP_NF_NODES).collect();
        let chains = (0..6).map(|first| (vec![first, (first + 1) % 6], 1.0)).collect();
        Self { hosts, nf_nodes, chains, load, seed, ..Self::of(graph) }
    }

    /// Makes that of the study of a data centre (9.4.3): a fat-tree of k = 4, NFs at the aggregation, two
    /// cores each; each flow needs three of six services, which are drawn by a zipf distribution of
    /// exponent 0.3.
    #[must_use]
    pub fn fat_tree(load: f64, seed: u64) -> Self {
        let tree = FatTree { k: 4 };
        let weight = |service: u32| f64::from(service + 1).powf(-0.3);
        let mut chains = Vec::new();
        for (one, other, third) in triples(6) {
            let drawn = [one, other, third].map(weight).iter().product();
            chains.push((vec![one, other, third], drawn));
        }
        Self {
            hosts: (0..tree.hosts()).map(NodeId).collect(),
            nf_nodes: (0..8).map(|number| NodeId(tree.aggregation(number))).collect(),
            chains,
            load,
            seed,
            off_path: 0.5,
            sizes: Sizes::ElephantsAndMice,
            ..Self::of(Graph::fat_tree(4, LINK_RATE))
        }
    }

    /// Makes a data centre of 64 cores behind 128 hosts, in which so many flows begin: a fat-tree of k = 8
    /// with the chains and the flows of the study, its cores ten times as fast and its links too. Rates are
    /// computed each hundredth of a second, a tenth of the time of a flow.
    #[must_use]
    pub fn data_centre(load: f64, flows: u64, seed: u64) -> Self {
        let tree = FatTree { k: 8 };
        let scene = Self {
            graph: Graph::fat_tree(8, 10.0 * LINK_RATE),
            hosts: (0..tree.hosts()).map(NodeId).collect(),
            nf_nodes: (0..32).map(|number| NodeId(tree.aggregation(number))).collect(),
            core_rate: 10.0 * CORE_RATE,
            resolution: Span::from_millis(10),
            ..Self::fat_tree(load, seed)
        };
        Self { horizon: scene.warm_up + Span((flows as f64 / scene.arrivals() * 1e9) as u64), ..scene }
    }

    /// Makes one of ten thousand nodes, to measure the simulator with: a fat-tree of k = 34, whose
    /// aggregation has two cores a node, and hosts with four peers each. Instances are the nearest ones, so
    /// that no prices are solved, and rates are computed twice a second.
    #[must_use]
    pub fn large(seed: u64) -> Self {
        let tree = FatTree { k: 34 };
        Self {
            hosts: (0..tree.hosts()).map(NodeId).collect(),
            peers: Some(4),
            nf_nodes: (0..34 * 34 / 2).map(|number| NodeId(tree.aggregation(number))).collect(),
            core_rate: LINK_RATE,
            chains: vec![(vec![0, 1], 1.0), (vec![1, 2], 1.0), (vec![2, 0], 1.0)],
            load: 1.0,
            mode: Mode::Nearest,
            period: Span::from_secs(3_600),
            warm_up: Span(0),
            resolution: Span::from_millis(500),
            seed,
            ..Self::of(Graph::fat_tree(34, LINK_RATE))
        }
    }

    /// Draws a host to which that of a place sends.
    pub(crate) fn peer(&self, at: usize, random: &mut Random) -> usize {
        let hosts = self.hosts.len();
        let peers = self.peers.map_or(hosts - 1, |peers| (peers as usize).clamp(1, hosts - 1));
        // Peers are far from each other: a host's neighbours are those of its pod.
        let step = hosts / (peers + 1);
        let drawn = random.below(peers as u64) as usize;
        match self.peers {
            None => drawn + usize::from(drawn >= at),
            Some(_) => (at + (drawn + 1) * step.max(1)) % hosts,
        }
    }

    /// Makes one with the dissertation's parameters and nothing in it.
    #[must_use]
    pub fn of(graph: Graph) -> Self {
        Self {
            graph,
            hosts: Vec::new(),
            peers: None,
            nf_nodes: Vec::new(),
            cores: 2,
            core_rate: CORE_RATE,
            chains: Vec::new(),
            sizes: Sizes::Dctcp,
            load: 0.5,
            instances: None,
            faults: Vec::new(),
            mode: Mode::Drench,
            source: Source::Hybrid,
            lookahead: Lookahead::Chain,
            sharing: Sharing::MaxMin,
            off_path: OFF_PATH,
            band: Band::default(),
            period: Span::from_secs(1),
            warm_up: Span::from_secs(10),
            horizon: Span::from_secs(60),
            resolution: Span(0),
            seed: 1,
        }
    }

    /// Bits per second that all cores serve.
    pub(crate) fn capacity(&self) -> f64 {
        self.core_rate * f64::from(self.cores) * self.nf_nodes.len() as f64
    }

    /// Stages that a mean flow passes.
    pub(crate) fn mean_stages(&self) -> f64 {
        let sum = |of: fn(&(Vec<u32>, f64)) -> f64| self.chains.iter().map(of).sum::<f64>();
        sum(|(stages, weight)| stages.len() as f64 * weight) / sum(|(_, weight)| *weight)
    }

    /// Flows that begin in a second.
    pub(crate) fn arrivals(&self) -> f64 {
        self.load * self.capacity() / self.mean_stages() / self.sizes.mean()
    }

    /// Number of services.
    pub(crate) fn services(&self) -> u32 {
        self.chains.iter().flat_map(|(stages, _)| stages).max().map_or(0, |most| most + 1)
    }

    /// Bits per second of each service.
    pub(crate) fn demand(&self) -> Vec<f64> {
        let total: f64 = self.chains.iter().map(|(_, weight)| weight).sum();
        let rate = self.arrivals() * self.sizes.mean();
        let mut demand = vec![0.0; self.services() as usize];
        for (stages, weight) in &self.chains {
            stages.iter().for_each(|stage| demand[*stage as usize] += rate * weight / total);
        }
        demand
    }
}

/// All ways to take three of so many, in order.
fn triples(of: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let pairs = (0..of).flat_map(move |one| (one + 1..of).map(move |other| (one, other)));
    pairs.flat_map(move |(one, other)| (other + 1..of).map(move |third| (one, other, third)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_are_of_the_papers_size() {
        let isp = NetworkScene::isp(Graph::isp(1, LINK_RATE), 0.7, 1);
        assert_eq!((isp.hosts.len(), isp.nf_nodes.len(), isp.services()), (27, 57, 6));
        assert!(isp.hosts.iter().all(|host| !isp.nf_nodes.contains(host)));
        let flows = isp.arrivals() * isp.horizon.as_secs_f64();
        assert!((16_000.0..20_000.0).contains(&flows), "{flows}");
        let offered: f64 = isp.demand().iter().sum();
        assert!((offered / isp.capacity() - 0.7).abs() < 1e-9);
        let tree = NetworkScene::fat_tree(0.6, 1);
        assert_eq!((tree.hosts.len(), tree.nf_nodes.len(), tree.chains.len()), (16, 8, 20));
        let demand = tree.demand();
        assert!(demand.windows(2).all(|pair| pair[0] > pair[1]), "{demand:?}");
    }
}
