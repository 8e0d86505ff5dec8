//! What lies in the store of a cluster, and under which key.
//!
//! ```text
//! /headgate/CLUSTER/node/NODE        Alive   under the node's lease
//! /headgate/CLUSTER/orchestrator     Leader  under a lease of its own; its revision is the term
//! /headgate/CLUSTER/allow/NF         Allow   under the orchestrator's lease
//! /headgate/CLUSTER/claim/NF/NODE    Claim   under the node's lease
//! /headgate/CLUSTER/proposal         Spec    under the lease of who proposes it
//! /headgate/CLUSTER/spec             Spec    the file in force
//! /headgate/CLUSTER/applied/NODE     Applied under the node's lease
//! /headgate-text/CLUSTER/REVISION/PART       text of a spec, in parts
//! ```
//!
//! Texts lie apart, so that they are not read at each look.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::Entry;

/// A living node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// When its process began: tells two of one name apart.
    pub incarnation: u64,
}

/// The node that says how many may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The node.
    pub node: String,
}

/// What nodes may do, and must, for an NF.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allow {
    /// Term of the one who said it.
    pub term: u64,
    /// Epoch in it.
    pub epoch: u64,
    /// Instances that may start. A claim takes one.
    pub new: u32,
    /// Nodes that start one whatever it earns. A claim takes the name out.
    pub named: Vec<String>,
    /// Nodes whose instance ends.
    pub end: Vec<String>,
}

/// How far a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Claimed,
    Serving,
    Leaving,
}

impl State {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Serving => "serving",
            Self::Leaving => "leaving",
        }
    }
}

/// Claim of a node to serve an NF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// When the node's process began.
    pub incarnation: u64,
    /// How far it is.
    pub state: State,
    /// Why it was claimed, with the numbers.
    pub why: String,
}

/// A file that all nodes are to go by. Its text lies beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Number of the file: each later one has a higher one.
    pub revision: u64,
    /// Digest of what it says, as nodes form it of theirs.
    pub digest: String,
    /// Length of its text, in bytes.
    pub bytes: u64,
    /// Parts of its text.
    pub parts: u32,
}

/// How far a node is with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It has looked at what was proposed.
    Checked,
    /// It goes by it, or says why not.
    Applied,
}

/// What a node says of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The file.
    pub revision: u64,
    /// How far it is.
    pub step: Step,
    /// What changes there, or did, in sentences.
    pub changes: Vec<String>,
    /// Why it cannot; `None`: it can.
    pub problem: Option<String>,
}

/// A value, and the revisions in which it was made and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    pub value: T,
    pub created: u64,
    pub written: u64,
}

/// Names of the keys of a cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
    texts: String,
}

impl Keys {
    pub fn of(cluster: &str) -> Self {
        Self { prefix: format!("/headgate/{cluster}/"), texts: format!("/headgate-text/{cluster}/") }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn node(&self, node: &str) -> String {
        format!("{}node/{node}", self.prefix)
    }

    pub fn orchestrator(&self) -> String {
        format!("{}orchestrator", self.prefix)
    }

    pub fn allow(&self, nf: &str) -> String {
        format!("{}allow/{nf}", self.prefix)
    }

    pub fn claim(&self, nf: &str, node: &str) -> String {
        format!("{}claim/{nf}/{node}", self.prefix)
    }

    pub fn proposal(&self) -> String {
        format!("{}proposal", self.prefix)
    }

    pub fn spec(&self) -> String {
        format!("{}spec", self.prefix)
    }

    pub fn applied(&self, node: &str) -> String {
        format!("{}applied/{node}", self.prefix)
    }

    /// Returns the key of a part of a text. Those of a later revision come behind.
    pub fn text(&self, revision: u64, part: u32) -> String {
        format!("{}{part:04}", self.texts_from(revision))
    }

    /// Returns what the keys of a revision's text begin with.
    pub fn texts_from(&self, revision: u64) -> String {
        format!("{}{revision:020}/", self.texts)
    }

    /// Returns what the entries of a cluster say.
    pub fn view(&self, entries: Vec<Entry>) -> View {
        let mut view = View::default();
        for entry in entries {
            let Some(path) = entry.key.strip_prefix(&self.prefix) else { continue };
            let parts: Vec<&str> = path.split('/').collect();
            let is_read = match parts.as_slice() {
                ["node", node] => read(&entry).map(|one| {
                    view.nodes.insert((*node).to_owned(), one);
                }),
                ["orchestrator"] => read(&entry).map(|one| view.leader = Some(one)),
                ["allow", nf] => read(&entry).map(|one| {
                    view.allows.insert((*nf).to_owned(), one);
                }),
                ["claim", nf, node] => read(&entry).map(|one| {
                    view.claims.insert(((*nf).to_owned(), (*node).to_owned()), one);
                }),
                ["proposal"] => read(&entry).map(|one| view.proposal = Some(one)),
                ["spec"] => read(&entry).map(|one| view.spec = Some(one)),
                ["applied", node] => read(&entry).map(|one| {
                    view.applied.insert((*node).to_owned(), one);
                }),
                _ => None,
            };
            if is_read.is_none() {
                view.unread.push(entry.key);
            }
        }
        view
    }
}

fn read<T: DeserializeOwned>(entry: &Entry) -> Option<Known<T>> {
    let value = serde_json::from_slice(&entry.value).ok()?;
    Some(Known { value, created: entry.created, written: entry.written })
}

/// What the store of a cluster says.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub nodes: BTreeMap<String, Known<Alive>>,
    pub leader: Option<Known<Leader>>,
    pub allows: BTreeMap<String, Known<Allow>>,
    /// By NF and node.
    pub claims: BTreeMap<(String, String), Known<Claim>>,
    /// The file that is proposed, and the one in force.
    pub proposal: Option<Known<Spec>>,
    pub spec: Option<Known<Spec>>,
    /// What each node says of them.
    pub applied: BTreeMap<String, Known<Applied>>,
    /// Keys that mean nothing to us, or whose value does not.
    pub unread: Vec<String>,
}

impl View {
    pub fn claim(&self, nf: &str, node: &str) -> Option<&Known<Claim>> {
        self.claims.get(&(nf.to_owned(), node.to_owned()))
    }

    /// Returns the claims to serve an NF, by node.
    pub fn claims_of<'v>(&'v self, nf: &'v str) -> impl Iterator<Item = (&'v str, &'v Known<Claim>)> {
        let of_nf = self.claims.iter().filter(move |((of, _), _)| of == nf);
        of_nf.map(|((_, node), claim)| (node.as_str(), claim))
    }
}

/// Returns a value as it lies in the store.
pub fn written<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: value.as_bytes().to_vec(), created: 3, written: 7 }
    }

    #[test]
    fn what_is_written_is_read_and_everything_else_is_told() {
        let keys = Keys::of("metro");
        let claim = Claim { incarnation: 9, state: State::Leaving, why: "x".to_owned() };
        let allow = Allow { term: 1, epoch: 2, new: 3, named: vec!["b".to_owned()], end: Vec::new() };
        let view = keys.view(vec![
            entry(&keys.allow("fw"), &written(&allow)),
            entry(&keys.claim("fw", "b"), &written(&claim)),
            entry(&keys.claim("fw", "c"), "{"),
            entry(&keys.claim("fw", "d"), r#"{"incarnation":-1,"state":"serving","why":""}"#),
            entry("/headgate/metro/what", "{}"),
            entry("/headgate/metrology/orchestrator", r#"{"node":"z"}"#),
        ]);
        assert_eq!(view.claim("fw", "b"), Some(&Known { value: claim, created: 3, written: 7 }));
        assert_eq!(view.allows["fw"].value, allow);
        assert_eq!((view.leader, view.unread.len(), view.claims.len()), (None, 3, 1));
    }
}
