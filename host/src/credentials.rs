//! User and capabilities of this process.

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

use crate::files::{self, FileError};

/// A right of the superuser, capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Interfaces, routes, namespaces' devices.
    NetAdmin,
    /// Packet sockets.
    NetRaw,
    /// Real-time policies, negative nice values, other users' affinity.
    SysNice,
    /// Namespaces, mounts, control groups.
    SysAdmin,
    /// Locked memory and hugepages beyond the limit.
    IpcLock,
    /// More of a resource than the limit.
    SysResource,
    /// Signals to other users' processes.
    Kill,
    /// Another user id.
    SetUid,
    /// Another group id.
    SetGid,
    /// BPF programs, which AF_XDP ports load.
    Bpf,
}

impl Capability {
    /// The name capabilities(7) gives it, such as `CAP_NET_ADMIN`.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    fn entry(self) -> (&'static str, CapabilitySet) {
        match self {
            Capability::NetAdmin => ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
            Capability::NetRaw => ("CAP_NET_RAW", CapabilitySet::NET_RAW),
            Capability::SysNice => ("CAP_SYS_NICE", CapabilitySet::SYS_NICE),
            Capability::SysAdmin => ("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN),
            Capability::IpcLock => ("CAP_IPC_LOCK", CapabilitySet::IPC_LOCK),
            Capability::SysResource => ("CAP_SYS_RESOURCE", CapabilitySet::SYS_RESOURCE),
            Capability::Kill => ("CAP_KILL", CapabilitySet::KILL),
            Capability::SetUid => ("CAP_SETUID", CapabilitySet::SETUID),
            Capability::SetGid => ("CAP_SETGID", CapabilitySet::SETGID),
            Capability::Bpf => ("CAP_BPF", CapabilitySet::BPF),
        }
    }
}

/// Returns whether the effective user is root. Rights are better asked for by [`has_capability`].
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Returns whether the calling thread has a right in force.
pub fn has_capability(capability: Capability) -> bool {
    // `capget` on oneself does not fail on any kernel this runs on (3.x and later).
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.entry().1))
}

/// The score of a process that is ended after all others when memory runs out (proc_pid_oom_score_adj(5)).
/// Our choice: not
/// -1000, which would have the kernel end everybody else for a leak of ours.
const OOM_LAST: i32 = -900;

/// Tells the kernel to end this process last when memory runs out. Processes that it starts begin with the
/// same score, so NFs raise theirs.
///
/// # Errors
/// [`FileError`]: to lower the score takes CAP_SYS_RESOURCE.
pub fn be_ended_last_without_memory() -> Result<(), FileError> {
    files::write("/proc/self/oom_score_adj", &OOM_LAST.to_string())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::drop_capabilities;

    #[test]
    fn capabilities_are_those_in_force() {
        thread::spawn(|| {
            drop_capabilities();
            for capability in [Capability::SetUid, Capability::NetAdmin] {
                assert!(!has_capability(capability), "{}", capability.name());
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_score_is_lowered_where_that_is_permitted() {
        let score = || files::read("/proc/self/oom_score_adj").unwrap().trim().parse::<i32>().unwrap();
        let before = score();
        if !has_capability(Capability::SysResource) {
            assert!(be_ended_last_without_memory().is_err());
            return;
        }
        be_ended_last_without_memory().unwrap();
        assert_eq!(score(), OOM_LAST);
        files::write("/proc/self/oom_score_adj", &before.to_string()).unwrap();
    }
}
