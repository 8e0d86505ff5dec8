//! Irrevocable dropping of privileges, and a check that they are gone.

use std::collections::HashMap;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getpid, getsid};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};

use super::{LaunchError, Steps, last_error};
use crate::launch::{Launch, Permission, User};

/// Returns the rights that a process keeps: those to the interfaces of a namespace of its own, which are none
/// outside.
pub(super) fn kept(launch: &Launch) -> CapabilitySet {
    if launch.has_own_network() {
        CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW
    } else {
        CapabilitySet::empty()
    }
}

/// Gives up all rights but `kept`, and every way to others; what the process becomes keeps these, too.
pub(super) fn give_up(launch: &Launch, kept: CapabilitySet) -> Result<(), LaunchError> {
    let steps = Steps { name: &launch.name };
    rustix::thread::set_keep_capabilities(true)
        .map_err(steps.refused("keep its rights over a change of user"))?;
    drop_bounding_set(kept).map_err(steps.refused("drop the bound of its rights"))?;
    rustix::thread::clear_ambient_capability_set().map_err(steps.refused("clear its ambient rights"))?;
    if let Some(user) = launch.user {
        become_user(user).map_err(steps.refused(format!("become user {} group {}", user.uid, user.gid)))?;
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets).map_err(steps.refused("give up its rights"))?;
    for right in kept.iter() {
        rustix::thread::configure_capability_in_ambient_set(right, true)
            .map_err(steps.refused("keep the rights to its interfaces"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(steps.refused("give up new privileges"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(steps.refused("forbid others to trace it"))
}

/// Drops what the process could ever gain. One that may not do so has no rights, and gains none:
/// `no_new_privs` comes.
fn drop_bounding_set(kept: CapabilitySet) -> Result<(), Errno> {
    for number in 0..u64::BITS {
        // SAFETY: plain integers in, no memory touched.
        let held = unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) };
        if held < 0 {
            // The kernel knows no more of them.
            return Ok(());
        }
        if held == 0 || kept.bits() >> number & 1 == 1 {
            continue;
        }
        // SAFETY: as above.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        match (dropped, last_error()) {
            (0, _) => {}
            (_, Errno::PERM) => return Ok(()),
            (_, error) => return Err(error),
        }
    }
    Ok(())
}

/// Groups first: a process that is no longer root may not change them.
fn become_user(user: User) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// Reads from the kernel what this process is and may do, tries to get back what it gave up, and fails if
/// anything of that is there.
pub(super) fn check(launch: &Launch, kept: CapabilitySet) -> Result<(), LaunchError> {
    let found = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => held(&status, launch, kept).or_else(|| regained(launch, kept)),
        Err(error) => Some(format!("cannot say what it has: /proc/self/status: {error}")),
    };
    found.map_or(Ok(()), |kept| Err(LaunchError::RightsKept { name: launch.name.clone(), kept }))
}

/// Returns what is there, by the kernel's own account, that should not be.
fn held(status: &str, launch: &Launch, kept: CapabilitySet) -> Option<String> {
    let fields: HashMap<&str, &str> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(key, text)| (key, text.trim()))
        .collect();
    let is = |key: &str, wanted: &str| fields.get(key) == Some(&wanted);
    let differs = |key: &str| format!("has {key} {:?}", fields.get(key).copied().unwrap_or_default());
    let ids = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
    if let Some(user) = launch.user {
        for (key, wanted) in [("Uid", ids(user.uid)), ("Gid", ids(user.gid)), ("Groups", String::new())] {
            if !is(key, &wanted) {
                return Some(differs(key));
            }
        }
    }
    let rights = format!("{:016x}", kept.bits());
    for key in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        if !is(key, &rights) {
            return Some(differs(key));
        }
    }
    // Seccomp: 2 is a filter. One thread: what was given up is each thread's own affair.
    for (key, wanted) in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("Threads", "1")] {
        if !is(key, wanted) {
            return Some(differs(key));
        }
    }
    let bound = fields.get("CapBnd").and_then(|text| u64::from_str_radix(text, 16).ok());
    // A process that could not drop it was no root, and `no_new_privs` makes it worthless.
    let was_root = launch.user.is_some() || launch.namespace.is_some();
    (was_root && bound != Some(kept.bits())).then(|| differs("CapBnd"))
}

/// Tries to regain rights; returns what succeeded.
fn regained(launch: &Launch, kept: CapabilitySet) -> Option<String> {
    let root = (Uid::ROOT, Gid::ROOT);
    let other_user = launch.user.filter(|user| user.uid != root.0.as_raw());
    let other_group = launch.user.filter(|user| user.gid != root.1.as_raw());
    let all = kept | CapabilitySet::SYS_ADMIN;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: kept };
    let may_unshare = launch.allows(Permission::Namespaces);
    // SAFETY: a plain integer in; a namespace that is made all the same is this process's own, which then
    // ends.
    let unshares = || unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0;
    let session = getsid(None).ok() == Some(getpid());
    let dumpable = rustix::process::dumpable_behavior();
    let attempts: [(&str, bool); 7] = [
        ("becomes root again", other_user.is_some() && rustix::thread::set_thread_uid(root.0).is_ok()),
        ("gets root's group again", other_group.is_some() && rustix::thread::set_thread_gid(root.1).is_ok()),
        ("joins groups", other_user.is_some() && rustix::thread::set_thread_groups(&[root.1]).is_ok()),
        ("takes CAP_SYS_ADMIN", rustix::thread::set_capabilities(None, sets).is_ok()),
        ("makes a namespace of users", !may_unshare && unshares()),
        ("is in the session of others", !session),
        ("can be dumped", dumpable != Ok(DumpableBehavior::NotDumpable)),
    ];
    attempts.into_iter().find(|(_, succeeded)| *succeeded).map(|(what, _)| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Program;

    const STATUS: &str = "Name:\tnf\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t\nThreads:\t1\n\
        CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";

    fn launch() -> Launch {
        let user = Some(User { uid: 7, gid: 8 });
        Launch { user, ..Launch::new("nf".into(), Program::Run("forward".into()), 1) }
    }

    #[test]
    fn whatever_is_left_of_rights_is_seen() {
        let none = CapabilitySet::empty();
        assert_eq!(held(STATUS, &launch(), none), None);
        for (line, left) in [
            ("Uid:\t7\t7\t7\t7", "Uid:\t7\t7\t0\t7"),
            ("Gid:\t8\t8\t8\t8", "Gid:\t8\t8\t8\t0"),
            ("Groups:\t", "Groups:\t27 "),
            ("Threads:\t1", "Threads:\t2"),
            ("CapInh:\t0000000000000000", "CapInh:\t0000000000000001"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000200000"),
            ("CapEff:\t0000000000000000", "CapEff:\t8000000000000000"),
            ("CapAmb:\t0000000000000000", "CapAmb:\t0000000000002000"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("Seccomp:\t2\n", ""),
        ] {
            let status = STATUS.replacen(line, left, 1);
            assert_ne!(status, STATUS);
            let told = held(&status, &launch(), none).unwrap_or_else(|| panic!("{left:?} is overlooked"));
            let key = line.split_once(':').unwrap().0;
            assert!(told.starts_with(&format!("has {key} ")), "{told}");
        }
    }

    /// A manager without root cannot drop the bound of its NFs' rights, and they have none.
    #[test]
    fn a_bound_that_only_root_could_drop_is_no_right() {
        let status = STATUS.replacen("CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff", 1);
        let same_user = Launch { user: None, ..launch() };
        assert_eq!(held(&status, &same_user, CapabilitySet::empty()), None);
    }
}
