//! State that is kept of an NF.

use serde::Serialize;

use super::super::values::OnChange;

/// State that outlives the processes of an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct State {
    /// Bytes for tables and values, whole pages.
    pub bytes: u64,
    /// Treatment of tables of another schema.
    pub on_change: OnChange,
    /// Whether a second process stands by, and takes over when the first dies.
    pub has_standby: bool,
}
