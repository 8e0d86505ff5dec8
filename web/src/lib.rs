//! What a manager tells over HTTP.
//!
//! - [`metrics`]: a snapshot as OpenMetrics text;
//! - [`server`]: an HTTP server that is bounded whatever its clients do.
//!
//! It knows `api` and nothing else of ours: it is a client of the manager, in a process of its own.

pub mod metrics;
pub mod server;
