//! System calls that an NF may not make.
//!
//! A list of what is denied, not of what is allowed: an NF may be any program, in any language, of any
//! version of its runtime, and what it computes with is none of our business. Denied is what reaches beyond
//! the process: other processes, other namespaces, the scheduler, and the large rarely used parts of the
//! kernel in which rights are gained. A denied call fails with EPERM, which programs know from containers;
//! `clone3`, whose flags a filter cannot read, is not there at all (ENOSYS), and the C library falls back to
//! `clone`, whose flags it can.
//!
//! What a filter cannot see is left to others: files in messages have an offence
//! ([`headgate_shm::Offence::SentFiles`]), files by name and TCP have Landlock.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::LaunchError;
use crate::launch::{Launch, Permission};

/// Denied to every NF. Each takes a right that no NF has; a filter keeps it so if the kernel errs.
const NEVER: [libc::c_long; 20] = [
    libc::SYS_acct,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

/// The flags that make namespaces, each a bit of its own; that of time is none of `clone` (clone(2)).
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// CLONE_NEWTIME, for `unshare` alone.
const TIME_NAMESPACE: libc::c_int = 0x80;
/// Numbers from here on are the x32 ABI's names of the same calls (linux/unistd.h).
const X32: u32 = 0x4000_0000;

/// Returns the calls that a permission is for, whatever their arguments.
const fn calls_of(permission: Permission) -> &'static [libc::c_long] {
    match permission {
        Permission::Namespaces => &[libc::SYS_setns],
        Permission::Ptrace => &[
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_process_madvise,
            libc::SYS_pidfd_getfd,
            libc::SYS_kcmp,
        ],
        Permission::Bpf => &[libc::SYS_bpf],
        Permission::Perf => &[libc::SYS_perf_event_open],
        Permission::Keys => &[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl],
        Permission::Userfaultfd => &[libc::SYS_userfaultfd],
        Permission::Scheduling => &[
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
            libc::SYS_sched_setattr,
            libc::SYS_setpriority,
            libc::SYS_ioprio_set,
        ],
        Permission::IoUring => {
            &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]
        }
        Permission::Mount => &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_mount_setattr,
        ],
        // Landlock sees to these.
        Permission::Network | Permission::AbstractSockets => &[],
    }
}

/// Denies what the orders do not allow, to this process and whatever it becomes.
pub(super) fn restrict(launch: &Launch) -> Result<(), LaunchError> {
    let failed = |cause: String| LaunchError::Filter {
        name: launch.name.clone(),
        step: "restrict the system calls it may make",
        cause,
    };
    for program in programs(launch).map_err(failed)? {
        seccompiler::apply_filter(&program).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// The filters. The kernel asks all of them; the first also ends programs of other architectures (of 32
/// bits).
fn programs(launch: &Launch) -> Result<Vec<BpfProgram>, String> {
    let mut programs = vec![program(denied(launch)?, libc::EPERM)?, without_x32()];
    if !launch.allows(Permission::Namespaces) {
        programs.push(program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?);
    }
    Ok(programs)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn denied(launch: &Launch) -> Result<Rules, String> {
    let refused = Permission::ALL.into_iter().filter(|permission| !launch.allows(*permission));
    let calls = refused.flat_map(calls_of).chain(&NEVER).copied();
    // No rule for a call denies it whatever its arguments.
    let mut rules: Rules = calls.map(|call| (call, Vec::new())).collect();
    if !launch.allows(Permission::Namespaces) {
        let any_of =
            |flags: &mut dyn Iterator<Item = libc::c_int>| flags.map(has_flag).collect::<Result<_, _>>();
        rules.insert(libc::SYS_clone, any_of(&mut NAMESPACES.into_iter())?);
        rules.insert(libc::SYS_unshare, any_of(&mut NAMESPACES.into_iter().chain([TIME_NAMESPACE]))?);
    }
    // Where a cpuset holds it on its core, it chooses among one: a runtime that pins its threads goes on.
    if !launch.allows(Permission::Scheduling) && !launch.cpuset {
        rules.insert(libc::SYS_sched_setaffinity, Vec::new());
    }
    Ok(rules)
}

/// Matches calls with this flag in their first argument.
fn has_flag(flag: libc::c_int) -> Result<SeccompRule, String> {
    let flag = u64::from(flag.cast_unsigned());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag);
    condition.and_then(|condition| SeccompRule::new(vec![condition])).map_err(|error| error.to_string())
}

fn program(rules: Rules, error: libc::c_int) -> Result<BpfProgram, String> {
    let action = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, TargetArch::x86_64);
    filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
}

/// The same calls have a second name each on kernels with the x32 ABI; none of these is there.
fn without_x32() -> BpfProgram {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_NOT_LESS: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        // The number is the first field of `seccomp_data`.
        step(LOAD_NUMBER, 0, 0),
        step(IF_NOT_LESS, 1, X32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Program;

    fn launch(allow: Vec<Permission>) -> Launch {
        Launch { allow, ..Launch::new("nf".into(), Program::Run("forward".into()), 1) }
    }

    #[test]
    fn each_permission_allows_its_own_calls_and_no_others() {
        let all: Vec<i64> = denied(&launch(Vec::new())).unwrap().into_keys().collect();
        for permission in Permission::ALL {
            let left = denied(&launch(vec![permission])).unwrap();
            let freed: Vec<_> = all.iter().copied().filter(|call| !left.contains_key(call)).collect();
            let mut own = calls_of(permission).to_vec();
            match permission {
                Permission::Namespaces => own.extend([libc::SYS_clone, libc::SYS_unshare]),
                Permission::Scheduling => own.push(libc::SYS_sched_setaffinity),
                _ => {}
            }
            own.sort_unstable();
            assert_eq!(freed, own, "{permission:?}");
        }
        let everything = denied(&launch(Permission::ALL.to_vec())).unwrap();
        assert_eq!(everything.len(), NEVER.len());
    }

    #[test]
    fn a_cpuset_allows_affinity_and_nothing_else() {
        let held = Launch { cpuset: true, ..launch(Vec::new()) };
        let (held, free) = (denied(&held).unwrap(), denied(&launch(Vec::new())).unwrap());
        assert!(!held.contains_key(&libc::SYS_sched_setaffinity));
        assert_eq!(free.len(), held.len() + 1);
    }
}
