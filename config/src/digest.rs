//! Digest of a configuration: whether two nodes were given the same file, and which key differs if not.
//!
//! What counts is what the file says, not how: comments, the order of keys, TOML or JSON make no difference.
//! The table `[sim]`, which no manager obeys, is left out.

use serde::Serialize;

use super::tree::{Node, Value};

/// Offset and prime of FNV-1a with 64 bits, of the algorithm's public description. It is to find files that
/// differ by mistake, not by malice: who may write the file of a node has the node.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Digest of what a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Each value of the file by its path, like `group[0].log`, in the order of paths, with its own digest.
    values: Vec<(String, u64)>,
}

impl Digest {
    /// Returns that of a file that was read.
    pub(crate) fn of(tree: &Node) -> Self {
        let mut values = Vec::new();
        if let Value::Table(entries) = &tree.value {
            for entry in entries.iter().filter(|entry| entry.key != "sim") {
                note(entry.key.clone(), &entry.node, &mut values);
            }
        }
        values.sort_unstable();
        Self { values }
    }

    /// Returns the digest of each value with its path, in the order of paths.
    #[must_use]
    pub fn values(&self) -> &[(String, u64)] {
        &self.values
    }

    /// Returns one number for all of it.
    #[must_use]
    pub fn whole(&self) -> u64 {
        let each =
            |sum, (path, value): &(String, u64)| hash(hash(sum, path.as_bytes()), &value.to_be_bytes());
        self.values.iter().fold(FNV_OFFSET, each)
    }

    /// Returns the first key, by its path, that one has and the other has not, or of which the values differ.
    #[must_use]
    pub fn difference<'d>(&'d self, other: &'d Self) -> Option<&'d str> {
        let lacks = |one: &'_ Self, value: &(String, u64)| one.values.binary_search(value).is_err();
        let ours = self.values.iter().find(|value| lacks(other, value));
        let theirs = other.values.iter().find(|value| lacks(self, value));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => Some(if ours.0 <= theirs.0 { &ours.0 } else { &theirs.0 }),
            (Some(one), None) | (None, Some(one)) => Some(&one.0),
            (None, None) => None,
        }
    }
}

/// Returns the digest of some words, in their order.
pub(crate) fn of_words<'w>(words: impl Iterator<Item = &'w str>) -> u64 {
    words.fold(FNV_OFFSET, |sum, word| hash(hash(sum, word.as_bytes()), &[0]))
}

/// Digests of values with their paths, as another node has told them.
impl From<Vec<(String, u64)>> for Digest {
    fn from(mut values: Vec<(String, u64)>) -> Self {
        values.sort_unstable();
        Self { values }
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.whole()))
    }
}

fn note(path: String, node: &Node, values: &mut Vec<(String, u64)>) {
    match &node.value {
        Value::Table(entries) => {
            for entry in entries {
                note(format!("{path}.{}", entry.key), &entry.node, values);
            }
        }
        Value::List(nodes) => {
            for (place, node) in nodes.iter().enumerate() {
                note(format!("{path}[{place}]"), node, values);
            }
        }
        value => values.push((path, value_hash(value))),
    }
}

/// The kind of a value counts: `"1"` and `1` may mean different things to an NF.
fn value_hash(value: &Value) -> u64 {
    let kind = hash(FNV_OFFSET, value.kind().as_bytes());
    match value {
        Value::Text(text) => hash(kind, text.as_bytes()),
        Value::Integer(number) => hash(kind, &number.to_be_bytes()),
        Value::Float(number) => hash(kind, &number.to_bits().to_be_bytes()),
        Value::Flag(flag) => hash(kind, &[u8::from(*flag)]),
        Value::Date | Value::List(_) | Value::Table(_) => kind,
    }
}

fn hash(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::super::{json, tree};
    use super::*;

    fn of(text: &str) -> Digest {
        Digest::of(&tree::from_toml(text, &mut Report::default()))
    }

    #[test]
    fn only_what_is_said_counts() {
        let one = of("[memory]\nbuffers = 1024 # few\nhugepages = 'never'\n[sim]\nseed = 4\n");
        let same = of("memory = { hugepages = \"never\", buffers = 1_024 }");
        assert_eq!((one.whole(), one.difference(&same)), (same.whole(), None));
        let text = r#"{ "memory": { "buffers": 1024, "hugepages": "never" } }"#;
        assert_eq!(one, Digest::of(&json::from_json(text, &mut Report::default())));
        assert_eq!(one, Digest::from(one.values().to_vec()));
    }

    #[test]
    fn the_first_key_that_differs_is_named() {
        let group = |log: &str, more: &str| of(&format!("[[group]]\nname = 'g'\nlog = {log}\n{more}"));
        let one = group("1024", "");
        for (other, key) in [
            (group("2048", ""), "group[0].log"),
            (group("'1024'", ""), "group[0].log"),
            (group("1024", "window = 2"), "group[0].window"),
            (group("1024", "chains = ['a']"), "group[0].chains[0]"),
            (of(""), "group[0].log"),
        ] {
            assert_eq!(one.difference(&other), Some(key));
            assert_eq!(other.difference(&one), Some(key));
            assert_ne!(one.whole(), other.whole(), "{key}");
        }
    }
}
