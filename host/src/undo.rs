//! Undo of changes to the machine, also after `kill -9`.
//!
//! A program that is killed cannot tidy up, so another process has to: a small child process, the
//! janitor, started before anything is changed. It holds the reading end of a pipe. What is to be
//! undone is told through that pipe, where it is safe in the kernel the moment it was written.
//! When the program ends, in whatever way, the janitor does what was not withdrawn, the latest
//! first, and ends. An orderly end takes the same way, so there is one way only.
//!
//! Registering comes before the change that it undoes: undoing what was not done does no harm.
//! [`Action::GiveBackHugepages`] is the exception and comes right after.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, setsid, waitid};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::files::{self, FileError};
use crate::hugepages::{self, HugepagesError};
use crate::identity;
use crate::namespace::named;
use crate::network::{Links, NetworkError, Offload};
use crate::process::{self, ProcessError};
use crate::sched::{self, Policy, SchedError};
use crate::signals;

/// Longest time for which a directory is tried again while it is busy.
///
/// Our choice: a control group is busy until the last of its processes has died; a killed process
/// dies when it is next scheduled, milliseconds on a loaded core, and seconds mean that it is
/// stuck.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Time after which the holder of a lock is taken for the next one. Our choice: many times what the end of a
/// process takes on a busy core.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Name of the janitor in `ps` (at most 15 bytes).
const NAME: &std::ffi::CStr = c"headgate-undo";

/// Something to be undone. Every path is absolute once registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Take so many 2 MiB pages from the machine's pool.
    GiveBackHugepages {
        /// Number of pages that were added.
        pages: u64,
    },
    /// Write a value to a file that exists, such as a sysctl.
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Value that it held before.
        value: String,
    },
    /// Remove an empty directory, such as a control group, waiting a while for its processes' end. One
    /// in which somebody has put something is somebody's, and stays.
    RemoveDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// End what still runs in a control group of ours, and remove it. Children of an NF that left its session
    /// are found by nothing else.
    RemoveGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// End what runs in a control group of ours and in all groups in it, and remove them.
    RemoveGroupTree {
        /// The directory of the topmost.
        path: PathBuf,
    },
    /// Put the processes of a control group of ours back into the one above it, and remove it.
    DissolveGroup {
        /// Its directory.
        path: PathBuf,
    },
    /// Put the processes of a control group of ours into others, and remove it.
    EmptyGroup {
        /// Its directory.
        path: PathBuf,
        /// Directories of the others: each process goes into the first that takes it.
        into: Vec<PathBuf>,
    },
    /// End what still runs in the control groups of a container of ours, and remove them: one at the top of
    /// each hierarchy.
    RemoveGroups {
        /// Their name.
        name: String,
    },
    /// End a process, unless it has ended.
    EndProcess {
        /// Its process id.
        pid: i32,
        /// Start time of the process ([`process::started_ticks`]): the number may be another's by then.
        started: u64,
    },
    /// Remove a directory of ours and all that is in it.
    RemoveTree {
        /// The directory.
        path: PathBuf,
    },
    /// Take the name of a network namespace of ours away.
    RemoveNamespace {
        /// Its file.
        path: PathBuf,
    },
    /// Remove a file, such as a socket.
    RemoveFile {
        /// The file.
        path: PathBuf,
    },
    /// Remove files that a lock file was for, and it last, unless the lock is held by now.
    RemoveUnlocked {
        /// The lock file.
        lock: PathBuf,
        /// The others.
        files: Vec<PathBuf>,
    },
    /// Delete an interface of the network namespace that the janitor was started in.
    DeleteLink {
        /// Its name.
        name: String,
    },
    /// Switch an offload of an interface of that namespace back.
    SetOffload {
        /// The interface's name.
        interface: String,
        /// Kind of offload.
        offload: Offload,
        /// Whether it was on before.
        on: bool,
    },
    /// Put a process's main thread under the policy it had, unless it has ended.
    Reschedule {
        /// Its process id.
        pid: i32,
        /// Start time of the process ([`process::started_ticks`]): the number may be another's by then.
        started: u64,
        /// The policy.
        policy: Policy,
    },
}

/// Reason why something could not be undone, or not be registered.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The program has threads already.
    #[error(
        "the process has {threads} threads, and a copy of it could hang on a lock that one of \
         them held: start the janitor first thing in main"
    )]
    TooLate {
        /// Number of threads.
        threads: usize,
    },
    /// The janitor was killed.
    #[error("the janitor process has ended: nothing more can be undone after a crash; start anew")]
    JanitorGone,
    /// The path is not text.
    #[error("cannot tell the janitor of {action:?}: {source}")]
    NotTellable {
        /// Action that was to be registered.
        action: Action,
        /// Cause.
        source: serde_json::Error,
    },
    /// The janitor could not undo everything.
    #[error("not everything could be undone; the janitor said what on standard error")]
    Incomplete,
    /// A file or directory could not be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Hugepages could not be given back.
    #[error(transparent)]
    Hugepages(#[from] HugepagesError),
    /// An interface could not be changed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A policy could not be given back.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// The janitor could not be watched.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel refused for a reason that is not one of the above.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

impl Action {
    /// Undoes it at once. A thing that is gone already counts as removed.
    pub fn perform(&self) -> Result<(), UndoError> {
        match self {
            Action::GiveBackHugepages { pages } => Ok(hugepages::give_back(*pages)?),
            // A control group that is gone has nothing to be given back.
            Action::WriteFile { path, .. } if path.parent().is_some_and(|group| !group.exists()) => Ok(()),
            Action::WriteFile { path, value } => Ok(files::write(path, value)?),
            Action::RemoveGroup { path } => {
                // Who could not be ended keeps the group busy, and that is told.
                let _ = cgroup::end_members(path);
                removed(path, fs::remove_dir(path))
            }
            Action::RemoveGroupTree { path } => removed(path, cgroup::remove_tree(path)),
            Action::DissolveGroup { path } => removed(path, cgroup::reserve::dissolve(path)),
            Action::EmptyGroup { path, into } => {
                // Who could not be moved keeps the group busy, and that is told.
                cgroup::move_members(path, into);
                removed(path, fs::remove_dir(path))
            }
            Action::RemoveGroups { name } => {
                let groups = cgroup::everywhere(name);
                groups.into_iter().try_for_each(|path| Action::RemoveGroup { path }.perform())
            }
            Action::EndProcess { pid, started } => end(*pid, *started),
            Action::RemoveDirectory { path } => match fs::remove_dir(path) {
                // Others have something in it, or have mounted it, as ip-netns(8) does with its folder.
                Err(error) if is_of_others(path, &error) => Ok(()),
                result => removed(path, result),
            },
            Action::RemoveTree { path } => removed(path, fs::remove_dir_all(path)),
            Action::RemoveNamespace { path } => removed(path, named::remove(path)),
            Action::RemoveFile { path } => removed(path, fs::remove_file(path)),
            Action::RemoveUnlocked { lock, files } => remove_unlocked(lock, files),
            Action::DeleteLink { name } => gone_or(Links::here()?.delete(name)),
            Action::SetOffload { interface, offload, on } => {
                gone_or(Links::here()?.set_offload(interface, *offload, *on))
            }
            Action::Reschedule { pid, started, policy } => reschedule(*pid, *started, *policy),
        }
    }

    /// Undoes it, and tries again for some seconds while a directory is busy or filled.
    pub fn perform_patiently(&self) -> Result<(), UndoError> {
        let start = Instant::now();
        loop {
            match self.perform() {
                Err(UndoError::Remove { source, .. })
                    if is_in_use(&source) && start.elapsed() < BUSY_PATIENCE =>
                {
                    thread::sleep(BUSY_PAUSE);
                }
                result => return result,
            }
        }
    }

    /// Makes paths absolute, because the janitor has moved to the root directory.
    fn absolute(mut self) -> Self {
        if let Action::WriteFile { path, .. }
        | Action::EmptyGroup { path, .. }
        | Action::RemoveDirectory { path }
        | Action::RemoveGroup { path }
        | Action::RemoveGroupTree { path }
        | Action::DissolveGroup { path }
        | Action::RemoveTree { path }
        | Action::RemoveNamespace { path }
        | Action::RemoveFile { path } = &mut self
            && let Ok(absolute) = std::path::absolute(&*path)
        {
            *path = absolute;
        }
        let others: Vec<&mut PathBuf> = match &mut self {
            Action::RemoveUnlocked { lock, files } => files.iter_mut().chain([lock]).collect(),
            Action::EmptyGroup { into, .. } => into.iter_mut().collect(),
            _ => Vec::new(),
        };
        for path in others {
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute;
            }
        }
        self
    }
}

fn remove_unlocked(lock: &Path, files: &[PathBuf]) -> Result<(), UndoError> {
    let Ok(held) = File::open(lock) else { return Ok(()) };
    let start = Instant::now();
    while flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
        // Whose end we were told of may not have let go of it yet.
        if start.elapsed() > LOCK_PATIENCE {
            return Ok(());
        }
        thread::sleep(BUSY_PAUSE);
    }
    // While this was waited for, another janitor may have removed it, and the next manager made its own.
    if !identity::is_at(&held, lock).unwrap_or(false) {
        return Ok(());
    }
    let all = files.iter().map(PathBuf::as_path).chain([lock]);
    all.map(|path| removed(path, fs::remove_file(path))).fold(Ok(()), Result::and)
}

fn end(pid: i32, started: u64) -> Result<(), UndoError> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    // Held before it is looked at, so that it is the same when it is ended.
    let held = match process::open(pid) {
        Err(ProcessError::NoSuchProcess { .. }) => return Ok(()),
        held => held?,
    };
    match process::started_ticks(pid) == Some(started) {
        true => Ok(process::send_signal(held.as_fd(), Signal::KILL)?),
        false => Ok(()),
    }
}

/// Returns whether an error says that a thing is in use; its user may be ending.
fn is_in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::DirectoryNotEmpty)
}

fn reschedule(pid: i32, started: u64, policy: Policy) -> Result<(), UndoError> {
    match Pid::from_raw(pid).filter(|pid| process::started_ticks(*pid) == Some(started)) {
        None => Ok(()),
        Some(pid) => match sched::set(Some(pid), policy) {
            Err(SchedError::NoSuchTask { .. }) => Ok(()),
            result => Ok(result?),
        },
    }
}

/// Whether a directory cannot be removed because others use it too.
fn is_of_others(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => true,
        io::ErrorKind::ResourceBusy => is_mounted(path),
        _ => false,
    }
}

/// Whether something is mounted at a path (proc_pid_mountinfo(5)).
fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|mounted| Path::new(mounted) == path)
}

fn removed(path: &Path, result: io::Result<()>) -> Result<(), UndoError> {
    match result {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(UndoError::Remove { path: path.into(), source })
        }
        _ => Ok(()),
    }
}

fn gone_or(result: Result<(), NetworkError>) -> Result<(), UndoError> {
    match result {
        Ok(()) | Err(NetworkError::NoSuchInterface { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Messages through the pipe, one line of JSON each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Register { ticket: u64, action: Action },
    Withdraw { ticket: u64 },
}

/// Names a registered action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The janitor, as the program sees it. Dropping it has everything undone and waits for that.
#[derive(Debug)]
pub struct Janitor {
    /// `None` once the pipe is closed.
    pipe: Option<Mutex<Pipe>>,
    child: OwnedFd,
}

#[derive(Debug)]
struct Pipe {
    end: File,
    next_ticket: u64,
}

impl Janitor {
    /// Starts the janitor.
    ///
    /// To be called first thing in `main`: it copies the process, which is safe with one thread
    /// only (and cheap with little memory), and it undoes in the network namespace and with the
    /// rights of that moment. The copy keeps standard error, to say what it could not undo, and
    /// no other descriptor; no signal but SIGKILL and SIGSTOP reaches it, Ctrl-C neither.
    pub fn start() -> Result<Self, UndoError> {
        let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            return Err(UndoError::TooLate { threads });
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(system("pipe2"))?;
        let parent = process::open(getpid())?;
        // Blocked before the copy is made, so that there is no moment in which Ctrl-C ends it.
        let before = signals::block_all();
        // SAFETY: this is the only thread, so the child's copy of every lock is free and it may do
        // whatever a program may.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let served = catch_unwind(AssertUnwindSafe(|| serve(reader.into(), &parent)));
            // SAFETY: ends the process without running what the parent set up for its own end.
            unsafe { libc::_exit(if let Ok(true) = served { 0 } else { 1 }) }
        }
        signals::restore(&before);
        let child = Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .ok_or_else(|| UndoError::System { call: "fork", source: io::Error::last_os_error() })?;
        let pipe = Mutex::new(Pipe { end: writer.into(), next_ticket: 0 });
        Ok(Self { pipe: Some(pipe), child: process::open(child)? })
    }

    /// Registers an action to be done when the program ends.
    pub fn register(&self, action: Action) -> Result<Ticket, UndoError> {
        self.tell(|ticket| Message::Register { ticket, action: action.absolute() })
    }

    /// Takes an action back, because it was done or is not to be done any more.
    pub fn withdraw(&self, ticket: Ticket) -> Result<(), UndoError> {
        self.tell(|_| Message::Withdraw { ticket: ticket.0 }).map(|_| ())
    }

    /// Tells the janitor to undo everything now, and waits for that.
    pub fn finish(mut self) -> Result<(), UndoError> {
        self.close()
    }

    fn tell(&self, message: impl FnOnce(u64) -> Message) -> Result<Ticket, UndoError> {
        let pipe = self.pipe.as_ref().ok_or(UndoError::JanitorGone)?;
        // A panic elsewhere leaves the pipe as usable as before.
        let mut pipe = pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let ticket = pipe.next_ticket;
        let message = message(ticket);
        let mut line = match (serde_json::to_string(&message), message) {
            (Ok(line), _) => line,
            (Err(source), Message::Register { action, .. }) => {
                return Err(UndoError::NotTellable { action, source });
            }
            (Err(_), Message::Withdraw { .. }) => unreachable!("a number is always text"),
        };
        line.push('\n');
        pipe.end.write_all(line.as_bytes()).map_err(|source| match source.kind() {
            io::ErrorKind::BrokenPipe => UndoError::JanitorGone,
            _ => UndoError::System { call: "write", source },
        })?;
        pipe.next_ticket += 1;
        Ok(Ticket(ticket))
    }

    fn close(&mut self) -> Result<(), UndoError> {
        if self.pipe.take().is_none() {
            return Ok(());
        }
        let wait = || waitid(WaitId::PidFd(self.child.as_fd()), WaitIdOptions::EXITED);
        let status = rustix::io::retry_on_intr(wait).map_err(system("waitid"))?;
        match status.and_then(|status| status.exit_status()) {
            Some(0) => Ok(()),
            Some(_) => Err(UndoError::Incomplete),
            None => Err(UndoError::JanitorGone),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // The janitor has said on standard error what there is to say.
        let _ = self.close();
    }
}

/// The janitor's whole life. True if everything was undone.
fn serve(pipe: File, parent: &OwnedFd) -> bool {
    stand_alone(&[pipe.as_raw_fd(), parent.as_raw_fd()]);
    let mut complete = true;
    for action in told(pipe, parent).actions.values().rev() {
        if let Err(error) = action.perform_patiently() {
            complete = false;
            // Without standard error there is nobody to tell.
            let _ = writeln!(io::stderr(), "headgate: could not undo a change: {error}");
        }
    }
    complete
}

/// Listens until the program ends. The pipe's end says so, and the process's end does where
/// another process was given a copy of the pipe.
fn told(mut pipe: File, parent: &OwnedFd) -> Ledger {
    let mut ledger = Ledger::default();
    // Without it the end of the pipe alone counts.
    let _ = rustix::io::ioctl_fionbio(&pipe, true);
    loop {
        let mut watched = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(parent, PollFlags::IN)];
        if poll(&mut watched, None).is_err() {
            continue;
        }
        let parent_ended = !watched[1].revents().is_empty();
        // Read after the check of the parent, so that nothing it wrote is missed.
        let mut bytes = Vec::new();
        let end = pipe.read_to_end(&mut bytes);
        ledger.enter(&bytes);
        match end {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !parent_ended => {}
            _ => return ledger,
        }
    }
}

/// Actions that are registered and not withdrawn, in the order of registration.
#[derive(Default)]
struct Ledger {
    actions: BTreeMap<u64, Action>,
    /// A line whose end has not come. If it never does, the program died while writing it, before
    /// the change that it was about.
    begun: Vec<u8>,
}

impl Ledger {
    fn enter(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.begun.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Message::Register { ticket, action }) => {
                    self.actions.insert(ticket, action);
                }
                Ok(Message::Withdraw { ticket }) => {
                    self.actions.remove(&ticket);
                }
                // Only `Janitor::tell` writes here; should it err, the other lines still count.
                Err(error) => drop(writeln!(io::stderr(), "headgate: cannot undo: {error}")),
            }
        }
    }
}

/// Leaves everything of the program behind: its session, directory and descriptors.
fn stand_alone(kept: &[RawFd; 2]) {
    // None of these can fail in a way that would keep the janitor from its work.
    let _ = setsid();
    let _ = rustix::thread::set_name(NAME);
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    let (low, high) = (kept[0].min(kept[1]) as u32, kept[0].max(kept[1]) as u32);
    for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: nothing in this process uses the closed descriptors: their owners are the
            // parent's objects, which `serve` does not touch and `_exit` does not drop.
            unsafe { libc::close_range(first, last, 0) };
        }
    }
}

fn system(call: &'static str) -> impl FnOnce(Errno) -> UndoError {
    move |errno| UndoError::System { call, source: errno.into() }
}

#[cfg(test)]
mod tests;
