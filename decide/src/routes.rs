//! By which link packets go towards another node.
//!
//! The problem: a node sees the end of its own links within milliseconds (BFD), and nothing of those of
//! others. Nodes that know different things must not send packets in a circle.
//!
//! The intuition: all nodes have the same file, so each knows how many hops every node is away from every
//! other while all links are up. A neighbour that is *closer* to the goal brings a packet nearer whatever is
//! broken elsewhere: such steps end. One that is *as far* is taken when no closer one is left: it does not
//! send the packet back by a shortest way, since that way would lead over us (the inequality of RFC 5286,
//! 3.2, for hops: `d(n, t) < d(n, us) + d(us, t)`).
//!
//! The threshold: not farther than we are. Of two that are as good the link that stands first in the file.
//!
//! Rejected: *closer ones only*, which has no second way in a triangle; *flooding the state of links*, which
//! finds a way wherever there is one and is a protocol of its own.
//!
//! What it refuses to do: go round for ever. Where several nodes have all lost a goal that they were equally
//! far from, each may hand a packet to the next. A node never returns a packet to the
//! neighbour that it came from, and the service header's TTL ends the rest.
//!
//! Source: RFC 5286 (loop-free alternates).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Hops to a node that no way leads to.
const NONE: u32 = u32::MAX;

/// Nodes of a network, by number, and its links.
#[derive(Clone, Copy, Debug)]
pub struct Network<'n> {
    /// Number of nodes.
    pub nodes: u16,
    /// Both nodes of each link.
    pub links: &'n [[u16; 2]],
}

impl Network<'_> {
    fn neighbours(&self, node: u16) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.links.iter().enumerate().filter_map(move |(number, ends)| match *ends {
            [one, other] if one == node => Some((number, other)),
            [one, other] if other == node => Some((number, one)),
            _ => None,
        })
    }

    /// Returns the number of hops from every node to a goal while all links are up; [`u32::MAX`] where no way
    /// leads there.
    #[must_use]
    pub fn hops_to(&self, goal: u16) -> Vec<u32> {
        let mut hops = vec![NONE; usize::from(self.nodes)];
        let mut next = VecDeque::from([goal]);
        hops[usize::from(goal)] = 0;
        while let Some(node) = next.pop_front() {
            let farther = hops[usize::from(node)] + 1;
            for (_, neighbour) in self.neighbours(node) {
                let known = &mut hops[usize::from(neighbour)];
                if *known == NONE {
                    *known = farther;
                    next.push_back(neighbour);
                }
            }
        }
        hops
    }

    /// Returns whether a way leads from one node to another.
    #[must_use]
    pub fn joins(&self, one: u16, other: u16) -> bool {
        self.hops_to(other)[usize::from(one)] != NONE
    }

    /// Returns, for every node, the link by which packets leave a node towards it; `None` where there is none
    /// that is up, and for the node itself.
    #[must_use]
    pub fn routes(&self, own: u16, is_up: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
        let route = |goal: u16| {
            if goal == own {
                return None;
            }
            let hops = self.hops_to(goal);
            let far = hops[usize::from(own)];
            let up = self.neighbours(own).filter(|(number, _)| is_up(*number));
            let ways = up.map(|(number, neighbour)| (hops[usize::from(neighbour)], number));
            ways.filter(|(hops, _)| *hops != NONE && *hops <= far).min().map(|(_, number)| number)
        };
        (0..self.nodes).map(route).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: fn(usize) -> bool = |_| true;

    #[test]
    fn the_shortest_way_is_taken_and_of_equal_ones_the_first_link() {
        // 0 - 1 - 2 - 3, and a second link between 1 and 2.
        let links = [[0, 1], [1, 2], [3, 2], [1, 2]];
        let line = Network { nodes: 4, links: &links };
        assert_eq!(line.routes(0, ALL), [None, Some(0), Some(0), Some(0)]);
        assert_eq!(line.routes(1, ALL), [Some(0), None, Some(1), Some(1)]);
        assert_eq!(line.routes(1, |link| link != 1), [Some(0), None, Some(3), Some(3)]);
        assert_eq!(line.routes(1, |link| link == 0), [Some(0), None, None, None]);
        assert!(line.joins(0, 3) && !Network { nodes: 5, links: &links }.joins(0, 4));
    }

    #[test]
    fn a_triangle_has_a_second_way_and_a_square_none_between_neighbours() {
        let triangle = Network { nodes: 3, links: &[[0, 1], [1, 2], [2, 0]] };
        assert_eq!(triangle.routes(0, |link| link != 0), [None, Some(2), Some(2)]);
        // The neighbour 3 would send it back: its shortest ways to 1 are as long by 0 as by 2.
        let square = Network { nodes: 4, links: &[[0, 1], [1, 2], [2, 3], [3, 0]] };
        assert_eq!(square.routes(0, |link| link != 0), [None, None, Some(3), Some(3)]);
    }

    /// Follows a packet over nodes that each know of their own links only. Returns whether it came, and the
    /// hops.
    fn follow(network: Network<'_>, from: u16, goal: u16, down: &[usize]) -> (bool, u32) {
        let (mut at, mut came_by, mut hops) = (from, None, 0);
        while at != goal && hops < 63 {
            let routes = network.routes(at, |link| !down.contains(&link));
            let Some(link) = routes[usize::from(goal)].filter(|link| Some(*link) != came_by) else { break };
            let [one, other] = network.links[link];
            at = if one == at { other } else { one };
            (came_by, hops) = (Some(link), hops + 1);
        }
        (at == goal, hops)
    }

    proptest! {
        /// With all links up every packet comes by a shortest way; with one link down it comes, or ends where
        /// no loop-free way is known, after few hops and never in a circle.
        #[test]
        fn no_packet_goes_round_for_ever(
            pairs in proptest::collection::vec((0..7u16, 0..7u16), 1..16),
            down in 0..16usize,
        ) {
            let links: Vec<[u16; 2]> =
                pairs.into_iter().filter(|(one, other)| one != other).map(|(one, other)| [one, other]).collect();
            let network = Network { nodes: 7, links: &links };
            for goal in 0..7 {
                let shortest = network.hops_to(goal);
                for from in 0..7u16 {
                    let far = shortest[usize::from(from)];
                    if far == NONE {
                        continue;
                    }
                    prop_assert_eq!(follow(network, from, goal, &[]), (true, far));
                    let (_, hops) = follow(network, from, goal, &[down]);
                    prop_assert!(hops <= 2 * 7, "{from} to {goal} took {hops} hops");
                }
            }
        }
    }
}
