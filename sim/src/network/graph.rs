//! Graphs: nodes, directed links with a capacity, and routes of fewest hops.

use std::cell::OnceCell;
use std::collections::VecDeque;

use headgate_decide::steer::NodeId;

use crate::random::Random;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphLink {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Bits per second.
    pub capacity: f64,
}

/// Nodes, numbered from 0, and the links between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: u32,
    links: Vec<GraphLink>,
}

/// Nodes of AS 1755 (Ebone) in Rocketfuel's maps, and the parts of them that the dissertation has: 27
/// hosts, those of fewest links, and 57 nodes for NFs, those of most.
pub const ISP_NODES: u32 = 87;
/// Hosts of it.
pub const ISP_HOSTS: usize = 27;
/// Nodes with NFs of it.
pub const ISP_NF_NODES: usize = 57;
/// Its links, in both directions one.
const ISP_LINKS: usize = 161;

impl Graph {
    /// Makes one of so many nodes and of links that lead both ways.
    #[must_use]
    pub fn new(nodes: u32, cables: impl IntoIterator<Item = (u32, u32)>, capacity: f64) -> Self {
        let link = |from, to| GraphLink { from: NodeId(from), to: NodeId(to), capacity };
        let links = cables.into_iter().flat_map(|(one, other)| [link(one, other), link(other, one)]);
        Self { nodes, links: links.collect() }
    }

    /// Makes a row of nodes.
    #[must_use]
    pub fn line(nodes: u32, capacity: f64) -> Self {
        Self::new(nodes, (1..nodes).map(|node| (node - 1, node)), capacity)
    }

    /// Makes a ring.
    #[must_use]
    pub fn ring(nodes: u32, capacity: f64) -> Self {
        Self::new(nodes, (0..nodes).map(|node| (node, (node + 1) % nodes)), capacity)
    }

    /// Makes a fat-tree of switches with `k` ports, an even number: first the hosts, pod by pod, then the
    /// switches at the edge, those of the aggregation, and the core (Al-Fares, 2008).
    #[must_use]
    pub fn fat_tree(k: u32, capacity: f64) -> Self {
        let half = k / 2;
        let tree = FatTree { k };
        let (edges, aggregations, cores) = (tree.edge(0), tree.aggregation(0), tree.core(0));
        let mut cables = Vec::new();
        for pod in 0..k {
            for one in 0..half {
                let edge = edges + pod * half + one;
                cables.extend((0..half).map(|host| ((pod * half + one) * half + host, edge)));
                cables.extend((0..half).map(|other| (edge, aggregations + pod * half + other)));
                let aggregation = aggregations + pod * half + one;
                cables.extend((0..half).map(|core| (aggregation, cores + one * half + core)));
            }
        }
        Self::new(tree.core(half * half), cables, capacity)
    }

    /// Makes a network like AS 1755: as many nodes and links, degrees as skewed, leaves with one or two
    /// links.
    #[must_use]
    pub fn isp(seed: u64, capacity: f64) -> Self {
        let mut random = Random::stream(seed, 0);
        let inner = ISP_NODES - ISP_HOSTS as u32;
        let mut cables: Vec<(u32, u32)> = vec![(0, 1), (1, 2), (2, 0)];
        // Preferential attachment: an end of a random cable is a node by its degree.
        let mut join = |cables: &mut Vec<(u32, u32)>, node: u32, below: u32| loop {
            let cable = cables[random.below(cables.len() as u64) as usize];
            let end = if random.below(2) == 0 { cable.0 } else { cable.1 };
            let is_known =
                |&(one, other): &(u32, u32)| (one, other) == (end, node) || (one, other) == (node, end);
            if end < below && end != node && !cables.iter().any(is_known) {
                break cables.push((end, node));
            }
        };
        for node in 3..inner {
            (0..2).for_each(|_| join(&mut cables, node, node));
        }
        for node in inner..ISP_NODES {
            (0..1 + u32::from(node % 3 == 0)).for_each(|_| join(&mut cables, node, inner));
        }
        let mut node = 0;
        while cables.len() < ISP_LINKS {
            join(&mut cables, node % inner, inner);
            node += 1;
        }
        Self::new(ISP_NODES, cables, capacity)
    }

    /// Number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// All links. A cable is two.
    #[must_use]
    pub fn links(&self) -> &[GraphLink] {
        &self.links
    }

    /// Returns the nodes in the order of their number of links, and of equals the lower first.
    pub(crate) fn by_degree(&self) -> Vec<NodeId> {
        let degree = |node: u32| self.links.iter().filter(|link| link.from.0 == node).count();
        let mut nodes: Vec<(usize, u32)> = (0..self.nodes).map(|node| (degree(node), node)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, node)| NodeId(node)).collect()
    }
}

/// Numbers of the nodes of a fat-tree.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Ports of a switch.
    pub k: u32,
}

impl FatTree {
    /// Number of hosts.
    #[must_use]
    pub const fn hosts(self) -> u32 {
        self.k * self.k * self.k / 4
    }

    const fn edge(self, number: u32) -> u32 {
        self.hosts() + number
    }

    /// Returns the node of a switch of the aggregation.
    #[must_use]
    pub const fn aggregation(self, number: u32) -> u32 {
        self.edge(self.k * self.k / 2) + number
    }

    const fn core(self, number: u32) -> u32 {
        self.aggregation(self.k * self.k / 2) + number
    }
}

/// Routes between all nodes, of fewest hops; of several the one that a hash of both ends chooses, at each
/// node.
///
/// Those to a node are found when somebody asks for one of them: a large network has more pairs of nodes than
/// flows will ever have.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    /// Links that are up, each with the node at its other end: by the node that they lead into, and by the
    /// one that they lead out of.
    into: Vec<Vec<(u32, u32)>>,
    out: Vec<Vec<(u32, u32)>>,
    /// By target: for each node the place of its first link among those that lead out of it.
    rows: Vec<OnceCell<Box<[u16]>>>,
}

/// Place of a first link where there is none: at the target, and without a way.
const NONE: u16 = u16::MAX;

impl Routes {
    /// Makes those over the links that are up.
    ///
    /// # Panics
    /// If a node has more than 65,534 links.
    pub(crate) fn new(graph: &Graph, is_up: impl Fn(usize) -> bool) -> Self {
        let nodes = graph.nodes as usize;
        let mut into: Vec<Vec<(u32, u32)>> = vec![Vec::new(); nodes];
        let mut out = into.clone();
        for (number, link) in graph.links.iter().enumerate().filter(|(number, _)| is_up(*number)) {
            into[link.to.0 as usize].push((link.from.0, number as u32));
            out[link.from.0 as usize].push((link.to.0, number as u32));
        }
        assert!(out.iter().all(|links| links.len() < NONE.into()), "a node has more than 65,534 links");
        Self { into, out, rows: vec![OnceCell::new(); nodes] }
    }

    /// Returns the row of a target.
    fn toward(&self, target: NodeId) -> &[u16] {
        self.rows[target.0 as usize].get_or_init(|| self.row(target.0 as usize))
    }

    fn row(&self, target: usize) -> Box<[u16]> {
        let mut hops = vec![u16::MAX; self.out.len()];
        hops[target] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(node) = queue.pop_front() {
            for &(before, _) in &self.into[node] {
                if hops[before as usize] == u16::MAX {
                    hops[before as usize] = hops[node] + 1;
                    queue.push_back(before as usize);
                }
            }
        }
        let first = |node: usize| {
            if node == target || hops[node] == u16::MAX {
                return NONE;
            }
            let is_nearer = |(next, _): &(u32, u32)| hops[*next as usize].saturating_add(1) == hops[node];
            let count = self.out[node].iter().filter(|link| is_nearer(link)).count();
            let drawn = Random::stream(node as u64, target as u64).below(count as u64) as usize;
            let mut nearer = self.out[node].iter().enumerate().filter(|(_, link)| is_nearer(link));
            nearer.nth(drawn).map_or(NONE, |(place, _)| place as u16)
        };
        (0..hops.len()).map(first).collect()
    }

    /// Returns the number of hops; `None` without a way.
    pub(crate) fn hops(&self, from: NodeId, to: NodeId) -> Option<u16> {
        let count = self.links(from, to).count() as u16;
        (from == to || count > 0).then_some(count)
    }

    /// Returns the links of a route, none where there is no way.
    pub(crate) fn links(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = u32> + '_ {
        let row = self.toward(to);
        let mut at = from.0 as usize;
        std::iter::from_fn(move || {
            let (next, link) = *self.out[at].get(usize::from(row[at]))?;
            at = next as usize;
            Some(link)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(graph: &Graph, from: u32, to: u32) -> Option<u16> {
        Routes::new(graph, |_| true).hops(NodeId(from), NodeId(to))
    }

    #[test]
    fn known_graphs_have_their_distances() {
        assert_eq!(hops(&Graph::line(5, 1.0), 0, 4), Some(4));
        assert_eq!(hops(&Graph::ring(5, 1.0), 0, 4), Some(1));
        let tree = Graph::fat_tree(4, 1.0);
        assert_eq!((tree.nodes(), tree.links().len()), (36, 96));
        assert_eq!([1, 2, 4].map(|host| hops(&tree, 0, host)), [Some(2), Some(4), Some(6)]);
        let aggregation = FatTree { k: 4 }.aggregation(0);
        assert_eq!([hops(&tree, 0, aggregation), hops(&tree, 15, aggregation)], [Some(2), Some(4)]);
        assert_eq!(hops(&Graph::new(3, [(0, 1)], 1.0), 0, 2), None);
    }

    #[test]
    fn a_generated_isp_has_the_size_of_the_mapped_one() {
        for seed in 0..20 {
            let graph = Graph::isp(seed, 1e9);
            assert_eq!((graph.nodes(), graph.links().len()), (ISP_NODES, 2 * ISP_LINKS));
            let routes = Routes::new(&graph, |_| true);
            let all = || (0..ISP_NODES).map(NodeId);
            assert!(
                all()
                    .all(|node| routes.hops(NodeId(0), node).is_some()
                        && routes.hops(node, NodeId(0)).is_some())
            );
            let leaves: Vec<NodeId> = graph.by_degree()[..ISP_HOSTS].to_vec();
            let degree = |of: NodeId| graph.links().iter().filter(|link| link.from == of).count();
            assert!(leaves.iter().all(|node| degree(*node) <= 3), "{seed}");
        }
        assert_ne!(Graph::isp(1, 1.0), Graph::isp(2, 1.0));
    }

    #[test]
    fn routes_have_as_many_links_as_hops_and_avoid_what_is_down() {
        let ring = Graph::ring(6, 1.0);
        let whole = Routes::new(&ring, |_| true);
        let cut = Routes::new(&ring, |link| link > 1);
        for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (NodeId(from), NodeId(to)))) {
            assert_eq!(whole.links(from, to).count() as u16, whole.hops(from, to).unwrap());
        }
        assert_eq!((whole.hops(NodeId(0), NodeId(1)), cut.hops(NodeId(0), NodeId(1))), (Some(1), Some(5)));
        assert!(cut.links(NodeId(0), NodeId(1)).all(|link| link > 1));
    }
}
