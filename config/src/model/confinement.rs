//! Limits and permissions of an NF.

use std::path::PathBuf;

use serde::Serialize;

use crate::values::Allowed;

/// Limits of an NF's processes, and what they may do beyond what any NF may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// Number of processes and threads of an instance.
    pub processes: u32,
    /// Memory of an instance, in bytes; `None`: a part of the machine's. Packet memory is not counted.
    pub memory_bytes: Option<u64>,
    /// Permissions that NFs do not have otherwise.
    pub allow: Vec<Allowed>,
    /// The files and folders that it may write, as far as its user may.
    pub write: Vec<PathBuf>,
}

impl Confinement {
    /// Returns what its processes may do beyond what any NF may, in words.
    pub fn rights(&self) -> Vec<String> {
        let allowed = self.allow.iter().map(|allowed| allowed.word().to_owned());
        let written = self.write.iter().map(|path| format!("write {}", path.display()));
        allowed.chain(written).collect()
    }
}
