//! Launch of a process: how it confines itself before it becomes an NF.
//!
//! Fewer rights come before more code: when [`take_place`] returns, the process is in its control groups, on
//! its core, is whom it should be and nobody more, cannot gain rights, holds nothing of its parent but its
//! socket and its output streams, may make the system calls and write the files that its orders allow, and
//! dies with the manager. That the rights are gone is not taken for granted: it is read from the kernel, and
//! tried. In a container, whose runtime has seen to the rest, it is the manager's undoer that ends it when
//! the manager was killed.
//!
//! Confinement of an NF, from the outside in:
//! - its user: processes of other domains, and files that are not for everybody;
//! - `files`: writing files, TCP, signals, and reading other processes, by Landlock;
//! - `calls`: system calls that an NF has no use for, by seccomp;
//! - `rights`: capabilities and ways to them.
//!
//! A program that is run (`exec`) becomes dumpable again, which nothing but a file that its user cannot read
//! prevents. It does not matter where Landlock is: each NF is in a domain of its own then, and a process in
//! another one can neither trace it nor read its memory, of the same user or not. Core dumps are off for
//! both.

mod calls;
mod files;
mod rights;

use std::fmt;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CpuSet, LinkNameSpaceType};

use crate::launch::{LAUNCH_VARIABLE, Launch};
use crate::message::{self, FromNf, MessageError, SOCKET_VARIABLE, ToNf};

/// OOM score of an NF, by which it is ended sooner when memory runs out (proc_pid_oom_score_adj(5)), above
/// the manager's own. Our choice: half of all memory counts as much.
const OOM_SCORE: i32 = 500;

/// Reason why a launched process could not take its place.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
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
        /// Step that failed.
        step: String,
        /// Error from the kernel.
        cause: Errno,
    },
    /// A filter could not be made.
    #[error("{name}: cannot {step}: {cause}")]
    Filter {
        /// The instance's name.
        name: String,
        /// Step that failed.
        step: &'static str,
        /// Cause.
        cause: String,
    },
    /// A right is still there that was given up.
    #[error("{name}: gave up its rights and still {kept}; refusing to run an NF with them")]
    RightsKept {
        /// The instance's name.
        name: String,
        /// Privilege that it still has.
        kept: String,
    },
    /// The manager ended while this process started or waited.
    #[error("{name}: the manager is gone")]
    ManagerGone {
        /// The instance's name.
        name: String,
    },
    /// The manager said something else than the word to go.
    #[error("{name}: waited to be told to go and was told something else: {what}")]
    NotGo {
        /// The instance's name.
        name: String,
        /// Message that came instead.
        what: String,
    },
    /// The foreign program did not start.
    #[error("{name}: cannot run {program}: {cause}")]
    NoProgram {
        /// The instance's name.
        name: String,
        /// The program.
        program: String,
        /// Error from the kernel.
        cause: std::io::Error,
    },
}

fn cure(cause: Errno) -> &'static str {
    match cause {
        Errno::PERM => " (only root may; run the manager as root, or leave `user` out)",
        Errno::INVAL => " (is there such a core?)",
        Errno::NOENT => " (make it first)",
        _ => "",
    }
}

/// Something that should hold an NF and does not on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Nothing of Landlock.
    Landlock,
    /// Cutting files short.
    Truncation,
    /// TCP.
    Network,
    /// Control of devices.
    DeviceControl,
    /// Signals to processes of its user.
    Signals,
    /// Abstract Unix sockets.
    AbstractSockets,
    /// The order in which processes end without memory.
    OomScore,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Landlock => {
                "it may write whatever its user may, use TCP, and signal and trace processes of its user: this kernel \
                 has no Landlock (Linux 5.13, `landlock` among `lsm=` of its command line)"
            }
            Self::Truncation => "it may cut files short that its user may write: that takes Linux 6.2",
            Self::Network => "it may listen and connect by TCP: that takes Linux 6.7",
            Self::DeviceControl => "it may control devices that its user may open: that takes Linux 6.10",
            Self::Signals => "it may signal other processes of its user: that takes Linux 6.12",
            Self::AbstractSockets => "it may connect to abstract Unix sockets: that takes Linux 6.12",
            Self::OomScore => "it is not the first to end without memory: /proc/self/oom_score_adj cannot be written",
        })
    }
}

/// The orders of this process.
///
/// # Errors
/// [`LaunchError::NotLaunched`], [`LaunchError::Unreadable`].
pub fn orders() -> Result<Launch, LaunchError> {
    let text = std::env::var(LAUNCH_VARIABLE).map_err(|_| LaunchError::NotLaunched)?;
    serde_json::from_str(&text).map_err(|error| LaunchError::Unreadable(error.to_string()))
}

/// Takes this process's place, and tells what this kernel could not hold of it. Call it before there is a
/// second thread.
///
/// # Errors
/// [`LaunchError`] at the first step that fails, or at the first right that is not gone afterwards.
pub fn take_place(launch: &Launch) -> Result<Vec<Lack>, LaunchError> {
    let steps = Steps { name: &launch.name };
    // A session of its own, so that Ctrl-C on the manager's terminal is the manager's affair. It fails
    // only for a process that has one.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    close_files().map_err(steps.refused("close inherited files"))?;
    for entrance in &launch.groups {
        enter(entrance).map_err(steps.refused(format!("enter its group by {}", entrance.display())))?;
    }
    let mut lacks = Vec::new();
    // As long as it may: what is lowered later takes a right, what the manager had set by root is the least.
    if raise_oom_score().is_err() {
        lacks.push(Lack::OomScore);
    }
    limit_resources().map_err(steps.refused("limit its resources"))?;
    if let Some(core) = launch.core {
        stay_on(core).map_err(steps.refused(format!("stay on core {core}")))?;
    }
    if let Some(namespace) = &launch.namespace {
        move_into(namespace)
            .map_err(steps.refused(format!("move into the network namespace {namespace}")))?;
    }
    let kept = rights::kept(launch);
    rights::give_up(launch, kept)?;
    tie_to_manager(launch)?;
    lacks.extend(files::restrict(launch)?);
    calls::restrict(launch)?;
    rights::check(launch, kept)?;
    Ok(lacks)
}

/// Waits until the manager says that this process is needed.
///
/// # Errors
/// [`LaunchError::ManagerGone`], [`LaunchError::NotGo`].
pub fn wait_for_go(launch: &Launch, lacks: &[Lack]) -> Result<(), LaunchError> {
    let name = || launch.name.clone();
    let socket = rustix::stdio::stdin();
    let lacks = lacks.iter().map(ToString::to_string).collect();
    let said = message::send(socket, &FromNf::Seated { lacks }, &[]);
    let answer = said.and_then(|()| message::receive::<ToNf>(socket));
    match answer {
        Ok(Some((ToNf::Go, _))) => Ok(()),
        Err(MessageError::Closed | MessageError::Socket(Errno::PIPE | Errno::CONNRESET)) => {
            Err(LaunchError::ManagerGone { name: name() })
        }
        other => Err(LaunchError::NotGo { name: name(), what: format!("{other:?}") }),
    }
}

/// Becomes a foreign program, which finds its socket as file descriptor 0. Returns only what went wrong.
#[must_use]
pub fn become_program(launch: &Launch, command: &[String]) -> LaunchError {
    let (program, arguments) = command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let cause =
        Command::new(program).args(arguments).env_remove(LAUNCH_VARIABLE).env(SOCKET_VARIABLE, "0").exec();
    LaunchError::NoProgram { name: launch.name.clone(), program: program.to_owned(), cause }
}

/// Steps of one process, for their errors.
struct Steps<'a> {
    name: &'a str,
}

impl Steps<'_> {
    fn refused(&self, step: impl Into<String>) -> impl FnOnce(Errno) -> LaunchError {
        let (name, step) = (self.name.to_owned(), step.into());
        move |cause| LaunchError::Refused { name, step, cause }
    }
}

fn close_files() -> Result<(), Errno> {
    // SAFETY: this process opened nothing yet that it uses above standard error.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn enter(entrance: &Path) -> Result<(), Errno> {
    write_existing(entrance, "0")
}

fn raise_oom_score() -> Result<(), Errno> {
    const FILE: &str = "/proc/self/oom_score_adj";
    let inherited = std::fs::read_to_string(FILE).ok().and_then(|score| score.trim().parse::<i32>().ok());
    let score = inherited.unwrap_or(0).max(OOM_SCORE);
    write_existing(Path::new(FILE), &score.to_string())
}

/// Writes a file of the kernel's, and makes none.
fn write_existing(path: &Path, text: &str) -> Result<(), Errno> {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn limit_resources() -> Result<(), Errno> {
    let to = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    // Of 1 and not 0: a program that dumps are piped to is asked all the same, unless the limit is 1
    // (core(5)).
    rustix::process::setrlimit(Resource::Core, to(1))?;
    // A hard limit of 0 keeps what the manager sets: only the process itself cannot raise it.
    rustix::process::setrlimit(Resource::Rtprio, to(0))?;
    rustix::process::setrlimit(Resource::Nice, to(0))
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

/// Makes the process die with the manager; after the change of user, which clears that.
fn tie_to_manager(launch: &Launch) -> Result<(), LaunchError> {
    if launch.manager != 0 {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(Steps { name: &launch.name }.refused("tie its life to the manager's"))?;
    }
    // The manager may have died before that took effect.
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get() as u32);
    if parent == launch.manager {
        Ok(())
    } else {
        Err(LaunchError::ManagerGone { name: launch.name.clone() })
    }
}
