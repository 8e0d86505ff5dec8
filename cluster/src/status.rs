//! What an operator is told of the store.

use headgate_api::status::{AppliedStatus, ClaimStatus, StoreStatus};

use crate::keys::{Applied, Claim, Known, Step, View};

/// Takes what a look at the store has shown into its status.
pub fn take(said: &mut StoreStatus, view: &View) {
    let claim = |((nf, node), known): (&(String, String), &Known<Claim>)| ClaimStatus {
        nf: nf.clone(),
        node: node.clone(),
        state: known.value.state.word().to_owned(),
        why: known.value.why.clone(),
    };
    said.file = view.spec.as_ref().map(|spec| spec.value.revision);
    let applied = |(node, known): (&String, &Known<Applied>)| AppliedStatus {
        node: node.clone(),
        file: known.value.revision,
        is_applied: known.value.step == Step::Applied,
        problem: known.value.problem.clone(),
    };
    said.applied = view.applied.iter().map(applied).collect();
    said.claims = view.claims.iter().map(claim).collect();
    said.orchestrator = view.leader.as_ref().map(|leader| leader.value.node.clone());
    said.term = view.leader.as_ref().map_or(said.term, |leader| leader.created);
    said.problem = view.unread.first().map(|key| {
        format!("{} keys of the store mean nothing to this version, {key} for one", view.unread.len())
    });
}
