//! Tables of a manager's status: `status`, `show` and `demo` print the same ones.

mod bfd;
mod cluster;
mod explanation;
mod forecast;
mod frame;
mod groups;
mod interval;
mod rules;
mod tables;
#[cfg(test)]
mod tests;

pub use bfd::bfd;
pub use cluster::{cluster, new_flows, node_state, offers, path, prices};
pub use explanation::explanation;
pub use forecast::{answer_state, applied, forecast};
pub use frame::{ChainFrame, Frame, StageFrame};
pub use groups::groups;
pub use interval::Interval;
pub use rules::rules;
pub use tables::{
    HELD_BY_OTHERS_MIN, accounts, chains, delays, drops, events, flows, headline, held_by_others, latencies,
    memory, nf_details, nfs, nfs_brief, objectives, ports, refusals, standbys, totals, workers,
};
