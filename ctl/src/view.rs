//! Tables of a manager's status: `status`, `show` and `demo` print the same ones.

mod explanation;
mod frame;
mod interval;
mod tables;
#[cfg(test)]
mod tests;

pub use explanation::explanation;
pub use frame::{ChainFrame, Frame, StageFrame};
pub use interval::Interval;
pub use tables::{
    HELD_BY_OTHERS_MIN, accounts, chains, delays, drops, events, flows, headline, held_by_others, latencies,
    memory, nf_details, nfs, nfs_brief, objectives, ports, refusals, standbys, totals, workers,
};
