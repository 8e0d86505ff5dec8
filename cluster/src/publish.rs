//! Gives all nodes another file: first they look at it, and only when all that live can go by it, it is put
//! in force.

use std::collections::BTreeMap;
use std::time::Duration;

use headgate_config::model::Store as Place;

use crate::keys::{Applied, Keys, Spec, Step, View, written};
use crate::store::{If, Lease, Store, StoreError, Then};
use crate::text;

/// Lease of a proposal, in seconds: so long after its author died another may be made.
const PROPOSAL_LEASE_S: u64 = 90;
/// Longest wait for an answer of the store. Our choice: a person waits for it, and three servers fit in.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reason why nodes were not given a file.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// No server answered.
    #[error("the store does not answer: {0}; nodes go on by the file that they have")]
    Store(#[from] StoreError),
    /// Somebody else does the same.
    #[error(
        "another file is proposed at the moment (number {0}): try again when that is decided, at most 90 s from now"
    )]
    Proposed(u64),
    /// The text has no room.
    #[error("the file is longer than {} MiB", text::TEXT_BYTES_MAX >> 20)]
    TooLong,
    /// What was proposed is there no more.
    #[error(
        "the proposal is gone from the store, or another file was put in force meanwhile: nothing was changed"
    )]
    Overtaken,
}

/// A file that was proposed.
#[derive(Clone, Debug)]
pub struct Proposal {
    spec: Spec,
    text: String,
    lease: Lease,
    /// Revision of the store in which it, and the spec in force, were written.
    written: u64,
    in_force: u64,
}

impl Proposal {
    /// Returns its number.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.spec.revision
    }
}

/// What a living node says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer {
    /// What changes there, or did.
    pub changes: Vec<String>,
    /// Why it cannot go by it; `None`: it can.
    pub problem: Option<String>,
}

/// Way to the nodes of a cluster, by their store.
#[derive(Debug)]
pub struct Publisher {
    store: Store,
    keys: Keys,
}

impl Publisher {
    /// Returns that of a store.
    #[must_use]
    pub fn of(place: &Place) -> Self {
        Self { store: Store::new(place.servers.clone(), PATIENCE), keys: Keys::of(&place.cluster) }
    }

    fn view(&mut self) -> Result<View, PublishError> {
        // One that is not there is left for the next: each is asked once.
        let mut last = None;
        for _ in 0..self.store.servers().max(1) {
            match self.store.range(self.keys.prefix()) {
                Ok(entries) => return Ok(self.keys.view(entries)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or(PublishError::Overtaken, PublishError::Store))
    }

    /// Returns the nodes that live, by name.
    ///
    /// # Errors
    /// [`PublishError::Store`].
    pub fn nodes(&mut self) -> Result<Vec<String>, PublishError> {
        Ok(self.view()?.nodes.into_keys().collect())
    }

    /// Returns the number of the file in force, where it has this digest and all living nodes go by it.
    ///
    /// # Errors
    /// [`PublishError::Store`].
    pub fn in_force(&mut self, digest: &str) -> Result<Option<u64>, PublishError> {
        let view = self.view()?;
        let Some(spec) = view.spec.map(|known| known.value).filter(|spec| spec.digest == digest) else {
            return Ok(None);
        };
        let goes_by_it = |node: &String| {
            let said = view.applied.get(node).map(|known| &known.value);
            said.is_some_and(|said| {
                (said.revision, said.step) == (spec.revision, Step::Applied) && said.problem.is_none()
            })
        };
        Ok(view.nodes.keys().all(goes_by_it).then_some(spec.revision))
    }

    /// Proposes a file: all nodes look whether they can go by it, and change nothing.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn propose(&mut self, text: String, digest: String) -> Result<Proposal, PublishError> {
        if text.len() > text::TEXT_BYTES_MAX {
            return Err(PublishError::TooLong);
        }
        let view = self.view()?;
        if let Some(known) = view.proposal {
            return Err(PublishError::Proposed(known.value.revision));
        }
        let said = view.applied.values().map(|known| known.value.revision).max().unwrap_or(0);
        let in_force = view.spec.as_ref().map_or((0, 0), |known| (known.value.revision, known.written));
        let revision = said.max(in_force.0) + 1;
        let lease = self.store.grant(PROPOSAL_LEASE_S)?;
        let parts = text::write(&mut self.store, &self.keys, (revision, &text), Some(lease))?;
        let spec = Spec { revision, digest, bytes: text.len() as u64, parts };
        let key = self.keys.proposal();
        let put = Then::Put(&key, written(&spec), lease);
        if !self.store.transact(&[If::Created(&key, 0)], &[put])? {
            self.store.revoke(lease)?;
            return Err(PublishError::Proposed(revision));
        }
        let made = self.store.get(&key)?.map_or(0, |entry| entry.written);
        Ok(Proposal { spec, text, lease, written: made, in_force: in_force.1 })
    }

    /// Takes a proposal back. Nothing of it stays.
    ///
    /// # Errors
    /// [`PublishError::Store`].
    pub fn withdraw(&mut self, proposal: &Proposal) -> Result<(), PublishError> {
        Ok(self.store.revoke(proposal.lease)?)
    }

    /// Puts a proposed file in force, and removes the texts of earlier ones.
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn put_in_force(&mut self, proposal: &Proposal) -> Result<(), PublishError> {
        let Proposal { spec, text, lease, written: made, in_force } = proposal;
        text::write(&mut self.store, &self.keys, (spec.revision, text), None)?;
        let (proposed, key) = (self.keys.proposal(), self.keys.spec());
        let conditions = [If::Written(&proposed, *made), If::Written(&key, *in_force)];
        let (first, own) = (self.keys.texts_from(0), self.keys.texts_from(spec.revision));
        let changes =
            [Then::Keep(&key, written(spec)), Then::Delete(&proposed), Then::DeleteBetween(&first, &own)];
        let is_done = self.store.transact(&conditions, &changes)?;
        self.store.revoke(*lease)?;
        if is_done { Ok(()) } else { Err(PublishError::Overtaken) }
    }

    /// Returns what each living node says of a file that was proposed, or that is in force; `None`: nothing
    /// yet.
    ///
    /// # Errors
    /// [`PublishError::Store`].
    pub fn answers(
        &mut self,
        proposal: &Proposal,
        is_in_force: bool,
    ) -> Result<BTreeMap<String, Option<NodeAnswer>>, PublishError> {
        let step = if is_in_force { Step::Applied } else { Step::Checked };
        let view = self.view()?;
        let is_meant = |said: &&Applied| said.revision == proposal.spec.revision && said.step == step;
        let answer = |node: &String| {
            let said = view.applied.get(node).map(|known| &known.value).filter(is_meant);
            said.map(|said| NodeAnswer { changes: said.changes.clone(), problem: said.problem.clone() })
        };
        Ok(view.nodes.keys().map(|node| (node.clone(), answer(node))).collect())
    }
}
