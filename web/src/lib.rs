//! What a manager tells and takes over HTTP.
//!
//! - [`metrics`]: a snapshot as OpenMetrics text;
//! - `operations`: every operation of the API, of which routes, roles and the [`openapi`] document are made;
//!   `operation`: one of them;
//! - `handlers`, `streams`: what each does; `problem`: what is told when it cannot;
//! - `page`: the page that shows it;
//! - [`auth`], `guard`: who may ask, and from where;
//! - [`Manager`], `feed`: asking the manager, once for all who want the same;
//! - [`server`]: an HTTP server that is bounded whatever its clients do.
//!
//! It knows `api` and nothing else of ours: it is a client of the manager, in a process of its own.

pub mod auth;
mod connection;
mod extract;
mod feed;
mod guard;
mod handlers;
mod manager;
pub mod metrics;
pub mod openapi;
mod operation;
mod operations;
mod page;
mod problem;
pub mod server;
mod service;
mod site;
mod socket;
mod streams;
mod watching;

pub use manager::Manager;
pub use server::{Server, ServerError};
