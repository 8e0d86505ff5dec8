//! Digest of a configuration: whether two nodes were given the same file, and which keys differ if not.
//!
//! What counts is what the file says, not how: comments, the order of keys, TOML or JSON make no difference.
//! The table `[sim]`, which no manager obeys, is left out. Nodes compare one number; where it is not the same
//! they tell each other everything that the files say ([`Digest::text`]), so that an operator reads which key
//! it is, and not only that there is one.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::tree::{Node, Value};

/// Offset and prime of FNV-1a with 64 bits, of the algorithm's public description. It is to find files that
/// differ by mistake, not by malice: who may write the file of a node has the node.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Digest of what a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Each value of the file by its path, like `group[0].log`, in the order of paths, as it would be
    /// written; without tabs and ends of lines.
    values: Vec<(String, String)>,
}

/// Key of which two files say something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path.
    pub path: String,
    /// What it is here; `None` where this file does not have it.
    pub ours: Option<String>,
    /// What it is there.
    pub theirs: Option<String>,
}

impl Digest {
    /// Returns that of a file that was read.
    pub(crate) fn of(tree: &Node) -> Self {
        let mut values = Vec::new();
        if let Value::Table(entries) = &tree.value {
            for entry in entries.iter().filter(|entry| entry.key != "sim") {
                note(entry.key.escape_debug().to_string(), &entry.node, &mut values);
            }
        }
        values.sort_unstable();
        Self { values }
    }

    /// Returns one number for all of it.
    #[must_use]
    pub fn whole(&self) -> u64 {
        of_words(self.values.iter().flat_map(|(path, value)| [path.as_str(), value.as_str()]))
    }

    /// Returns all of it as text for another node: a line for each value, its path, a tab, and the value.
    #[must_use]
    pub fn text(&self) -> String {
        self.values.iter().map(|(path, value)| format!("{path}\t{value}\n")).collect()
    }

    /// Returns that of a text as another node sent it. Lines that are none of ours are left out.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let value =
            |line: &str| line.split_once('\t').map(|(path, value)| (path.to_owned(), value.to_owned()));
        let mut values: Vec<_> = text.lines().filter_map(value).collect();
        values.sort_unstable();
        Self { values }
    }

    /// Returns the keys that one has and the other has not, or of which the values differ, by their paths.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut all = BTreeMap::new();
        for (path, value) in &self.values {
            all.insert(path, [Some(value), None]);
        }
        for (path, value) in &other.values {
            all.entry(path).or_default()[1] = Some(value);
        }
        let differs = all.into_iter().filter(|(_, [ours, theirs])| ours != theirs);
        let named = |(path, [ours, theirs]): (&String, [Option<&String>; 2])| Difference {
            path: path.clone(),
            ours: ours.cloned(),
            theirs: theirs.cloned(),
        };
        differs.map(named).collect()
    }
}

/// Returns the digest of some words, in their order.
pub(crate) fn of_words<'w>(words: impl Iterator<Item = &'w str>) -> u64 {
    words.fold(FNV_OFFSET, |sum, word| hash(hash(sum, word.as_bytes()), &[0]))
}

impl fmt::Display for Digest {
    /// That number, as nodes and people compare it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.whole())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn note(path: String, node: &Node, values: &mut Vec<(String, String)>) {
    match &node.value {
        Value::Table(entries) => {
            for entry in entries {
                note(format!("{path}.{}", entry.key.escape_debug()), &entry.node, values);
            }
        }
        Value::List(nodes) => {
            for (place, node) in nodes.iter().enumerate() {
                note(format!("{path}[{place}]"), node, values);
            }
        }
        value => values.push((path, written(value))),
    }
}

/// Returns a value as it would be written. The kind counts: `"1"` and `1` may mean different things to an NF.
fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Date | Value::List(_) | Value::Table(_) => value.kind().to_owned(),
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
        assert_eq!((one.whole(), one.differences(&same)), (same.whole(), Vec::new()));
        let text = r#"{ "memory": { "buffers": 1024, "hugepages": "never" } }"#;
        assert_eq!(one, Digest::of(&json::from_json(text, &mut Report::default())));
        assert_eq!(one, Digest::from_text(&one.text()));
    }

    /// Text of another node may be anything.
    #[test]
    fn text_that_is_none_of_ours_is_left_out() {
        assert_eq!(Digest::from_text("\n\t\nno tab\n").values, [(String::new(), String::new())]);
        let odd = of("[nf]\n\"a\\nb\" = 'c\\nd'\nx = \"\\t\"\n");
        assert_eq!(odd.text().lines().count(), 2);
        assert_eq!(Digest::from_text(&odd.text()), odd);
    }

    #[test]
    fn keys_that_differ_are_named_with_both_values() {
        let group = |log: &str, more: &str| of(&format!("[[group]]\nname = 'g'\nlog = {log}\n{more}"));
        let one = group("1024", "");
        for (other, key, ours, theirs) in [
            (group("2048", ""), "group[0].log", Some("1024"), Some("2048")),
            (group("'1024'", ""), "group[0].log", Some("1024"), Some("\"1024\"")),
            (group("1024", "window = 2"), "group[0].window", None, Some("2")),
            (group("1024", "chains = ['a']"), "group[0].chains[0]", None, Some("\"a\"")),
            (of(""), "group[0].log", Some("1024"), None),
        ] {
            let first = |one: &Digest, other: &Digest| one.differences(other).remove(0);
            let [ours, theirs] = [ours, theirs].map(|value| value.map(str::to_owned));
            let path = key.to_owned();
            let there = Difference { path: path.clone(), ours: theirs.clone(), theirs: ours.clone() };
            assert_eq!(first(&one, &other), Difference { path, ours, theirs });
            assert_eq!(first(&other, &one), there);
            assert_ne!(one.whole(), other.whole(), "{key}");
        }
    }
}
