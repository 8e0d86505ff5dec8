//! Reads maps of networks in the format of Rocketfuel's `weights.intra` and `latencies.intra`: on each
//! line a node, a node, and the weight of the link that leads from one to the other.
//!
//! The maps of the project come without a licence, so none is kept here; simulators that carry them are
//! public.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::graph::Graph;

/// Most nodes of a map. Routes between all pairs are kept.
const NODES_MAX: usize = 20_000;

/// A map that cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// A line with more or fewer than three words: its number, and how many.
    Words(usize, usize),
    /// A weight that is none: the line, and the word.
    Weight(usize, String),
    /// A link from a node to itself: the line, and the node.
    Loop(usize, String),
    /// No link at all.
    Empty,
    /// Too many nodes.
    Large,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(line, words) => {
                write!(f, "line {line}: {words} words in place of three (a node, a node, a weight)")
            }
            Self::Weight(line, word) => {
                write!(f, "line {line}: `{word}` is no weight: a number of 0 or more is expected")
            }
            Self::Loop(line, node) => write!(f, "line {line}: a link from `{node}` to itself"),
            Self::Empty => write!(f, "the map has no link: each line is `node node weight`"),
            Self::Large => write!(f, "the map has more than {NODES_MAX} nodes"),
        }
    }
}

impl std::error::Error for MapError {}

/// Returns the network of a map, its nodes numbered in the order in which they are first named. A link
/// that is listed in both directions is one cable.
///
/// # Errors The first line that cannot be read.
pub fn read(text: &str, capacity: f64) -> Result<Graph, MapError> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut cables: BTreeSet<(u32, u32)> = BTreeSet::new();
    for (line, row) in (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty()) {
        let words: Vec<&str> = row.split_whitespace().collect();
        let &[one, other, weight] = words.as_slice() else {
            return Err(MapError::Words(line, words.len()));
        };
        if !weight.parse::<f64>().is_ok_and(|weight| weight >= 0.0 && weight.is_finite()) {
            return Err(MapError::Weight(line, weight.to_owned()));
        }
        if one == other {
            return Err(MapError::Loop(line, one.to_owned()));
        }
        let mut number = |name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        let (one, other) = (number(one), number(other));
        cables.insert((one.min(other), one.max(other)));
        if numbers.len() > NODES_MAX {
            return Err(MapError::Large);
        }
    }
    if cables.is_empty() {
        return Err(MapError::Empty);
    }
    Ok(Graph::new(numbers.len() as u32, cables, capacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_one_cable() {
        let text = "London,+UnitedKingdom209 New+York,+NY239 29\n\nNew+York,+NY239 London,+UnitedKingdom209 29\nNew+York,+NY239 x1 2.5\n";
        let graph = read(text, 1e9).unwrap();
        assert_eq!((graph.nodes(), graph.links().len()), (3, 4));
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        let error = |text| read(text, 1.0).unwrap_err().to_string();
        assert_eq!(error("a b 1\na c"), "line 2: 2 words in place of three (a node, a node, a weight)");
        assert!(error("a b -1").starts_with("line 1: `-1` is no weight"));
        assert!(error("a b NaN").contains("no weight"));
        assert_eq!(error("a a 1"), "line 1: a link from `a` to itself");
        assert_eq!(read(" \n\n", 1.0), Err(MapError::Empty));
        let many: String = (0..NODES_MAX + 1).map(|node| format!("a n{node} 1\n")).collect();
        assert_eq!(read(&many, 1.0), Err(MapError::Large));
    }
}
