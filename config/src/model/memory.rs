//! Packet memory, and the flow table.

use serde::Serialize;

use super::super::values::Hugepages;

/// Packet memory of every domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Longest frame that a buffer holds, in bytes.
    pub buffer_bytes: u32,
    /// Kind of pages.
    pub hugepages: Hugepages,
}

/// The flow table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flows {
    /// Flows remembered by all workers together.
    pub capacity: u32,
    /// A flow without packets for that long is forgotten, in nanoseconds.
    pub idle_timeout_ns: u64,
}
