//! How a launched process takes its place before it becomes an NF.
//!
//! Fewer rights come before more code: when [`take_place`] returns, the process is on its core, is whom it
//! should be and nobody more, cannot gain rights, holds nothing of its parent but its socket and its output
//! streams, and dies with the manager. In a container, whose runtime has seen to the rest, it is the
//! manager's undoer that ends it when the manager was killed.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet, Gid, LinkNameSpaceType, Uid};

use crate::launch::{LAUNCH_VARIABLE, Launch, User};
use crate::message::SOCKET_VARIABLE;

/// Why a launched process could not take its place.
#[derive(Debug, thiserror::Error)]
pub enum LaunchFailure {
    /// There are no orders.
    #[error(
        "{LAUNCH_VARIABLE} is not set: `launched` is how a manager starts network functions; \
         to start one yourself use `headgate-nfs run`"
    )]
    NotLaunched,
    /// The orders cannot be read.
    #[error("{LAUNCH_VARIABLE} cannot be read: {0}; are manager and headgate-nfs of one version?")]
    Unreadable(String),
    /// The kernel refused a step.
    #[error("{name}: cannot {step}: {cause}{}", cure(*.cause))]
    Refused {
        /// The instance's name.
        name: String,
        /// What was tried.
        step: String,
        /// What the kernel said.
        cause: Errno,
    },
    /// The manager ended while this process started.
    #[error("{name}: the manager is gone")]
    ManagerGone {
        /// The instance's name.
        name: String,
    },
    /// The foreign program did not start.
    #[error("{name}: cannot run {program}: {cause}")]
    NoProgram {
        /// The instance's name.
        name: String,
        /// The program.
        program: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
}

fn cure(cause: Errno) -> &'static str {
    match cause {
        Errno::PERM => " (only root may; run the manager as root, or leave `user` out)",
        Errno::INVAL => " (is there such a core?)",
        _ => "",
    }
}

/// The orders of this process.
///
/// # Errors
/// [`LaunchFailure::NotLaunched`], [`LaunchFailure::Unreadable`].
pub fn orders() -> Result<Launch, LaunchFailure> {
    let text = std::env::var(LAUNCH_VARIABLE).map_err(|_| LaunchFailure::NotLaunched)?;
    serde_json::from_str(&text).map_err(|error| LaunchFailure::Unreadable(error.to_string()))
}

/// Takes this process's place. Call it before there is a second thread.
///
/// # Errors
/// [`LaunchFailure`] at the first step that fails.
pub fn take_place(launch: &Launch) -> Result<(), LaunchFailure> {
    let refused = |step: &str| {
        let (name, step) = (launch.name.clone(), step.to_owned());
        move |cause| LaunchFailure::Refused { name, step, cause }
    };
    // A session of its own, so that Ctrl-C on the manager's terminal is the manager's affair. It fails
    // only for a process that has one.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    close_files().map_err(refused("close inherited files"))?;
    if let Some(core) = launch.core {
        stay_on(core).map_err(refused(&format!("stay on core {core}")))?;
    }
    if let Some(namespace) = &launch.namespace {
        move_into(namespace).map_err(refused(&format!("move into the network namespace {namespace}")))?;
        rustix::thread::set_keep_capabilities(true).map_err(refused("keep its rights"))?;
    }
    if let Some(user) = launch.user {
        become_user(user).map_err(refused(&format!("become user {} group {}", user.uid, user.gid)))?;
    }
    if launch.namespace.is_some() {
        keep_network_rights().map_err(refused("keep the rights to its interfaces"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(refused("give up new privileges"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(refused("forbid others to trace it"))?;
    if launch.manager != 0 {
        // After the change of user, which clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(refused("tie its life to the manager's"))?;
    }
    // The manager may have died before the lines above took effect.
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get() as u32);
    if parent != launch.manager {
        return Err(LaunchFailure::ManagerGone { name: launch.name.clone() });
    }
    Ok(())
}

/// Becomes a foreign program, which finds its socket as file descriptor 0. Returns only what went wrong.
#[must_use]
pub fn become_program(launch: &Launch, command: &[String]) -> LaunchFailure {
    let (program, arguments) = command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let cause =
        Command::new(program).args(arguments).env_remove(LAUNCH_VARIABLE).env(SOCKET_VARIABLE, "0").exec();
    LaunchFailure::NoProgram { name: launch.name.clone(), program: program.to_owned(), cause }
}

fn close_files() -> Result<(), Errno> {
    // SAFETY: this process opened nothing yet that it uses above standard error.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn stay_on(core: usize) -> Result<(), Errno> {
    if core >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
}

fn move_into(namespace: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(namespace, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Gives up all rights but those to the interfaces of the namespace that it is in, and has the program it
/// becomes keep these.
fn keep_network_rights() -> Result<(), Errno> {
    let rights = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    let sets = CapabilitySets { effective: rights, permitted: rights, inheritable: rights };
    rustix::thread::set_capabilities(None, sets)?;
    for right in [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW] {
        rustix::thread::configure_capability_in_ambient_set(right, true)?;
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
