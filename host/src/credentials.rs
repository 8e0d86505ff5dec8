//! Who we are and what we may do; giving it up.
//!
//! An order that matters when a process steps down: [`become_user`] first, then
//! [`die_with_parent`] and [`forbid_dumps`], for the kernel resets both at a change of user
//! (prctl(2)); `exec` resets the dump setting again.

use std::io;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, getegid, geteuid, getppid, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, capabilities, set_no_new_privs};

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

/// Why a process could not step down.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// We may not change our user or group.
    #[error(
        "not permitted to become user {uid}, group {gid}: this takes CAP_SETUID and CAP_SETGID; \
         run as root"
    )]
    NotPermitted {
        /// The user id asked for.
        uid: u32,
        /// The group id asked for.
        gid: u32,
    },
    /// The change went through and a right was left behind.
    #[error("became user {uid} and kept rights of the old one: {kept}; refusing to go on")]
    RightsKept {
        /// The user id asked for.
        uid: u32,
        /// What was kept.
        kept: &'static str,
    },
    /// The parent ended before we asked to end with it.
    #[error("the parent process {} has ended already", parent.as_raw_pid())]
    ParentGone {
        /// The parent that was expected.
        parent: Pid,
    },
    /// The kernel refused for a reason that is not one of the above.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// Whether the effective user is root. Rights are better asked for by [`has_capability`].
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Whether the calling thread has a right in force.
pub fn has_capability(capability: Capability) -> bool {
    // `capget` on oneself does not fail on any kernel this runs on (3.x and later).
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.entry().1))
}

/// Becomes another user for good, in all threads: no supplementary groups, real, effective and
/// saved ids, and no capabilities unless `uid` is root.
pub fn become_user(uid: u32, gid: u32) -> Result<(), CredentialsError> {
    let check = |call, result| match result {
        0 => Ok(()),
        _ => Err(explain(call, uid, gid, io::Error::last_os_error())),
    };
    // The C library's calls change all threads, the kernel's only the calling one. Groups go
    // first, while there is still the right to.
    // SAFETY: a count of zero groups reads no memory.
    check("setgroups", unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: plain integers in, no memory touched.
    check("setresgid", unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: as above.
    check("setresuid", unsafe { libc::setresuid(uid, uid, uid) })?;
    match rights_kept(uid, gid) {
        Some(kept) => Err(CredentialsError::RightsKept { uid, kept }),
        None => Ok(()),
    }
}

/// What a change of user should have taken away and did not (secure bits can keep it).
fn rights_kept(uid: u32, gid: u32) -> Option<&'static str> {
    if geteuid().as_raw() != uid || getegid().as_raw() != gid {
        return Some("the ids themselves");
    }
    let permitted = capabilities(None).map(|sets| sets.permitted);
    if uid != 0 && permitted != Ok(CapabilitySet::empty()) {
        return Some("capabilities");
    }
    None
}

/// From now on no program this thread runs, set-user-id ones included, gains a right by `exec`.
pub fn forbid_new_rights() -> Result<(), CredentialsError> {
    set_no_new_privs(true).map_err(|errno| system("prctl(PR_SET_NO_NEW_PRIVS)", errno))
}

/// Ends this process by SIGKILL when the *thread* of `parent` that started it ends.
///
/// So processes are to be started by a thread that lives as long as they should.
pub fn die_with_parent(parent: Pid) -> Result<(), CredentialsError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| system("prctl(PR_SET_PDEATHSIG)", errno))?;
    // It may have died between our start and the call above.
    match getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(CredentialsError::ParentGone { parent }),
    }
}

/// No core dumps, and no reading of our memory by other processes of the same user, until `exec`.
pub fn forbid_dumps() -> Result<(), CredentialsError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| system("prctl(PR_SET_DUMPABLE)", errno))
}

fn explain(call: &'static str, uid: u32, gid: u32, source: io::Error) -> CredentialsError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM) => CredentialsError::NotPermitted { uid, gid },
        _ => CredentialsError::System { call, source },
    }
}

fn system(call: &'static str, errno: Errno) -> CredentialsError {
    CredentialsError::System { call, source: errno.into() }
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
    fn a_parent_that_is_not_ours_is_told() {
        thread::spawn(|| {
            let stranger = rustix::process::getpid();
            let error = die_with_parent(stranger).unwrap_err();
            set_parent_process_death_signal(None).unwrap();
            assert!(matches!(error, CredentialsError::ParentGone { .. }));
        })
        .join()
        .unwrap();
    }
}
