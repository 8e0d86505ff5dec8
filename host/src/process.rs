//! Processes: starting one, watching it, ending it, and knowing how it ended.
//!
//! A process is started without copying ours: `std::process::Command` without hooks uses
//! `posix_spawn`, which borrows our memory until `exec`. So a manager with gigabytes mapped starts
//! an NF as fast as an empty one. What a child must do to itself (user, affinity, scheduling) it
//! does after `exec`.

mod inside;

use std::ffi::{CString, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

use crate::files::{self, FileError};

/// First descriptor that no child is given.
const FIRST_PRIVATE_DESCRIPTOR: libc::c_uint = 3;

/// Reason why a process could not be started, watched or ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be run.
    #[error("cannot run {}: {source}{}", program.display(), mend_program(source))]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The process has ended and was waited for, or never was.
    #[error("there is no process {}: it has ended", pid.as_raw_pid())]
    NoSuchProcess {
        /// Its id.
        pid: Pid,
    },
    /// The process belongs to another user.
    #[error("not permitted to signal the process: it runs as another user; run as root")]
    NotPermitted,
    /// `/proc` could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kernel refused for a reason that is not one of the above.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
}

fn mend_program(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; name a program that exists (or install what it is run by)",
        io::ErrorKind::PermissionDenied => "; make it executable, on a mount that allows it",
        _ => "",
    }
}

/// Destination of a child's output.
#[derive(Debug)]
pub enum Output {
    /// Nowhere.
    Null,
    /// The destination of our own.
    Inherit,
    /// Into a file or anything else with a descriptor.
    File(File),
}

/// A process to be started.
#[derive(Debug)]
pub struct Launch {
    /// Path of the program; one without a slash is in the current directory, `PATH` is not
    /// searched.
    pub program: PathBuf,
    /// Its arguments, its own name not among them.
    pub arguments: Vec<OsString>,
    /// Its whole environment: nothing of ours is passed on unasked.
    pub environment: Vec<(OsString, OsString)>,
    /// Its descriptor 0.
    pub stdin: OwnedFd,
    /// Its descriptor 1.
    pub stdout: Output,
    /// Its descriptor 2.
    pub stderr: Output,
}

impl Launch {
    /// Starts it.
    ///
    /// Every descriptor of ours from 3 on is marked close-on-exec first: libraries (DPDK among
    /// them) open memory without that mark, and a child must not be given what it was not meant to.
    pub fn spawn(self) -> Result<Child, ProcessError> {
        let program = std::path::absolute(&self.program).unwrap_or(self.program);
        keep_descriptors_private()?;
        let spawned = Command::new(&program)
            .args(self.arguments)
            .env_clear()
            .envs(self.environment)
            .stdin(Stdio::from(self.stdin))
            .stdout(self.stdout)
            .stderr(self.stderr)
            .spawn()
            .map_err(|source| ProcessError::Spawn { program, source })?;
        Child::of(spawned)
    }

    /// Starts it inside a control group of version 2, such as [`crate::cgroup::NfGroup::birthplace`]: it is
    /// never outside.
    ///
    /// # Errors
    /// [`ProcessError`]; also when the group is no such group, or may have no processes.
    pub fn spawn_inside(self, group: BorrowedFd<'_>) -> Result<Child, ProcessError> {
        let program = std::path::absolute(&self.program).unwrap_or_else(|_| self.program.clone());
        keep_descriptors_private()?;
        let spawned = self.prepare(&program).and_then(|prepared| inside::spawn(&prepared, group));
        let (pid, pidfd) = spawned.map_err(|source| ProcessError::Spawn { program, source })?;
        Ok(Child { pid, pidfd, exit: None })
    }

    fn prepare(self, program: &Path) -> io::Result<inside::Program> {
        let text = |text: OsString| CString::new(text.into_vec()).map_err(io::Error::from);
        let variable = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            text(name)
        };
        let own_name = program.as_os_str().to_owned();
        Ok(inside::Program {
            path: text(own_name.clone())?,
            arguments: [own_name].into_iter().chain(self.arguments).map(text).collect::<Result<_, _>>()?,
            environment: self.environment.into_iter().map(variable).collect::<Result<_, _>>()?,
            descriptors: [private(self.stdin)?, self.stdout.descriptor(1)?, self.stderr.descriptor(2)?],
        })
    }
}

impl From<Output> for Stdio {
    fn from(output: Output) -> Self {
        match output {
            Output::Null => Stdio::null(),
            Output::Inherit => Stdio::inherit(),
            Output::File(file) => file.into(),
        }
    }
}

impl Output {
    /// Returns the two outputs of a child that writes both to one place.
    ///
    /// # Errors
    /// The kernel's, when it gives no descriptor.
    pub fn both(place: OwnedFd) -> io::Result<(Self, Self)> {
        let place = File::from(place);
        Ok((Self::File(place.try_clone()?), Self::File(place)))
    }

    /// Returns what will be a child's descriptor of this number.
    fn descriptor(self, number: i32) -> io::Result<OwnedFd> {
        match self {
            Output::Null => private(File::options().read(true).write(true).open("/dev/null")?.into()),
            // SAFETY: borrowed for the length of the call only, in which a closed one is an error.
            Output::Inherit => duplicate(unsafe { BorrowedFd::borrow_raw(number) }),
            Output::File(file) => private(file.into()),
        }
    }
}

/// Returns a descriptor with a number that is none of the three that a child is given.
fn private(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    match descriptor.as_raw_fd() as libc::c_uint >= FIRST_PRIVATE_DESCRIPTOR {
        true => Ok(descriptor),
        false => duplicate(descriptor.as_fd()),
    }
}

fn duplicate(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, FIRST_PRIVATE_DESCRIPTOR as i32)?)
}

/// Programs of administrators, which lie beside those of `PATH` where a service has none of their folders.
const FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// Returns the path of the program of this name.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Keeps every descriptor of ours but the three standard ones from programs that we start: also those that a
/// careless parent left us, such as the file on which it holds a lock.
///
/// # Errors
/// [`ProcessError::System`], on a kernel before 5.11.
pub fn keep_descriptors_private() -> Result<(), ProcessError> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: the call sets a flag on descriptors and closes none; no memory is touched.
    let result = unsafe { libc::close_range(FIRST_PRIVATE_DESCRIPTOR, libc::c_uint::MAX, flags) };
    match result {
        0 => Ok(()),
        _ => Err(ProcessError::System { call: "close_range", source: io::Error::last_os_error() }),
    }
}

/// A process we started. Dropping it leaves the process running; it stays a zombie after its end
/// until we end ourselves.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    exit: Option<Exit>,
}

impl Child {
    /// A process that was started by other means, and nobody waited for.
    pub(crate) fn of(mut spawned: std::process::Child) -> Result<Self, ProcessError> {
        let pid = Pid::from_child(&spawned);
        // The pid cannot be another's yet: nobody but us waits for our child.
        let pidfd = open(pid).inspect_err(|_| {
            let _ = spawned.kill().and_then(|()| spawned.wait());
        })?;
        Ok(Self { pid, pidfd, exit: None })
    }

    /// Returns the process id, which is ours to use until [`Child::wait`] or [`Child::try_wait`] told of the
    /// end.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns whether the process runs (or is stopped).
    pub fn is_alive(&self) -> Result<bool, ProcessError> {
        Ok(!has_ended(self.pidfd.as_fd())?)
    }

    /// Sends a signal. A process that has ended, waited for or not, is no error.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        match self.exit {
            Some(_) => Ok(()),
            None => send_signal(self.pidfd.as_fd(), signal),
        }
    }

    /// Ends every process of the group that it leads: children that it left behind, unless they made
    /// groups of their own. Nothing happens when it leads none, or once it was waited for.
    pub fn end_group(&self) -> Result<(), ProcessError> {
        // Until it is waited for, its number is neither another process's nor another group's.
        if self.exit.is_some() {
            return Ok(());
        }
        match kill_process_group(self.pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(Errno::PERM) => Err(ProcessError::NotPermitted),
            Err(errno) => Err(system("kill", errno)),
        }
    }

    /// Waits for its end and tells how it ended.
    pub fn wait(&mut self) -> Result<Exit, ProcessError> {
        match self.wait_with(WaitIdOptions::EXITED)? {
            Some(exit) => Ok(exit),
            None => unreachable!("waitid without NOHANG returns with a status"),
        }
    }

    /// Returns how the process ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, ProcessError> {
        self.wait_with(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    }

    /// Waits for its end, at most this long.
    pub fn wait_for(&mut self, patience: Duration) -> Result<Option<Exit>, ProcessError> {
        poll_end(self.pidfd.as_fd(), patience)?;
        self.try_wait()
    }

    fn wait_with(&mut self, options: WaitIdOptions) -> Result<Option<Exit>, ProcessError> {
        if self.exit.is_none() {
            let wait = || waitid(WaitId::PidFd(self.pidfd.as_fd()), options);
            let status = rustix::io::retry_on_intr(wait);
            let status = status.map_err(|errno| system("waitid", errno))?;
            self.exit = status.as_ref().map(Exit::of);
        }
        Ok(self.exit)
    }
}

impl AsFd for Child {
    /// The process as a descriptor: readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An exit by itself, with this code.
    Code(i32),
    /// A death by this signal.
    Signal(i32),
}

impl Exit {
    fn of(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => unreachable!("waitid(WEXITED) tells of ends only"),
        }
    }

    /// Returns whether it ended by itself with code 0.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

/// The name of a signal that can end a process, such as `SIGSEGV`.
pub fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

/// A process as a descriptor, which cannot come to mean another as a number can.
pub fn open(pid: Pid) -> Result<OwnedFd, ProcessError> {
    pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| match errno {
        Errno::SRCH => ProcessError::NoSuchProcess { pid },
        _ => system("pidfd_open", errno),
    })
}

/// Sends a signal to the process behind a descriptor. One that has ended is no error.
pub fn send_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), ProcessError> {
    match pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(Errno::PERM) => Err(ProcessError::NotPermitted),
        Err(errno) => Err(system("pidfd_send_signal", errno)),
    }
}

/// Returns whether the process behind a descriptor has ended, waited for or not.
pub fn has_ended(pidfd: BorrowedFd<'_>) -> Result<bool, ProcessError> {
    poll_end(pidfd, Duration::ZERO)
}

fn poll_end(pidfd: BorrowedFd<'_>, patience: Duration) -> Result<bool, ProcessError> {
    let timeout = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(system("poll", errno)),
    }
}

/// CPU time a process and all its threads have used so far, in ns.
pub fn cpu_time_ns(pid: Pid) -> Result<u64, ProcessError> {
    CpuClock::of(pid)?.now_ns()
}

/// Clock of the CPU time of a process and all its threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    pid: Pid,
    id: libc::clockid_t,
}

impl CpuClock {
    /// Returns that of a process.
    ///
    /// # Errors
    /// [`ProcessError::NoSuchProcess`].
    pub fn of(pid: Pid) -> Result<Self, ProcessError> {
        let mut id = 0;
        // SAFETY: the call writes one clock id into `id`.
        match unsafe { libc::clock_getcpuclockid(pid.as_raw_pid(), &raw mut id) } {
            0 => Ok(Self { pid, id }),
            _ => Err(ProcessError::NoSuchProcess { pid }),
        }
    }

    /// Returns what it shows, in ns. One system call.
    ///
    /// # Errors
    /// [`ProcessError::NoSuchProcess`].
    pub fn now_ns(self) -> Result<u64, ProcessError> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes one timespec into `time`.
        let result = unsafe { libc::clock_gettime(self.id, &raw mut time) };
        // It can only fail because the process has gone since.
        match result {
            0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
            _ => Err(ProcessError::NoSuchProcess { pid: self.pid }),
        }
    }
}

/// The threads of a process, its first among them; that one alone when it has ended.
pub fn threads(pid: Pid) -> Vec<Pid> {
    let number = |entry: io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)
    };
    match std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())) {
        Ok(entries) => entries.filter_map(number).collect(),
        Err(_) => vec![pid],
    }
}

/// State of a process's main thread at one moment, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// `R` running or waiting for a core, `S` asleep, `D` asleep and not to be disturbed,
    /// `T` stopped, `t` stopped by a tracer, `Z` ended and not waited for, `X` ending, `I` idle
    /// (proc_pid_stat(5)).
    pub state: char,
    /// Time on a core so far, in ns.
    pub on_core_ns: u64,
    /// Time spent ready to run and waiting for a core so far, in ns.
    pub waiting_ns: u64,
    /// Times it gave up its core by sleeping.
    pub voluntary_switches: u64,
    /// Times its core was taken from it.
    pub involuntary_switches: u64,
}

/// Observes the main thread of a process, or any thread by its id.
pub fn observe(pid: Pid) -> Result<Observation, ProcessError> {
    let path_of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", pid.as_raw_pid()));
    let read_as = |name: &str| {
        let path = path_of(name);
        read_of(pid, &path).map(|text| (path, text))
    };
    let (path, text) = read_as("status")?;
    let (state, voluntary_switches, involuntary_switches) =
        parse_status(&text).ok_or_else(|| unknown(path, &text))?;
    let (path, text) = read_as("schedstat")?;
    let (on_core_ns, waiting_ns) = parse_schedstat(&text).ok_or_else(|| unknown(path, &text))?;
    Ok(Observation { state, on_core_ns, waiting_ns, voluntary_switches, involuntary_switches })
}

/// Time that the main thread of a process was ready to run and waited for a core, in ns since it began.
pub fn waiting_ns(pid: Pid) -> Result<u64, ProcessError> {
    times_ns(pid).map(|(_, waiting_ns)| waiting_ns)
}

/// Time that a thread was on a core, and that it was ready to run and waited for one, in ns since it began.
pub fn times_ns(thread: Pid) -> Result<(u64, u64), ProcessError> {
    let path = PathBuf::from(format!("/proc/{}/schedstat", thread.as_raw_pid()));
    let text = read_of(thread, &path)?;
    parse_schedstat(&text).ok_or_else(|| unknown(path, &text))
}

/// Returns when a process began, in clock ticks since the start of the machine; `None` when there is none.
/// With its id it names a process for good.
pub fn started_ticks(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // Field 22 of proc_pid_stat(5); the second is a name in parentheses that may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The process that started it, or has taken its place since; `None` when there is none that we see.
pub fn parent(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // Field 4 of proc_pid_stat(5), the second behind the name.
    Pid::from_raw(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?)
}

/// Returns whether a process with this id runs (a zombie does not). Ids are used again: where the process is
/// at hand, prefer [`open`] and [`has_ended`].
pub fn is_alive(pid: Pid) -> Result<bool, ProcessError> {
    match observe(pid) {
        Ok(observation) => Ok(!matches!(observation.state, 'Z' | 'X')),
        Err(ProcessError::NoSuchProcess { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// State, voluntary and involuntary switches.
fn parse_status(text: &str) -> Option<(char, u64, u64)> {
    let number = |key| files::field(text, key)?.parse().ok();
    Some((
        files::field(text, "State")?.chars().next()?,
        number("voluntary_ctxt_switches")?,
        number("nonvoluntary_ctxt_switches")?,
    ))
}

/// Time on a core and time waiting for one, in ns.
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn read_of(pid: Pid, path: &Path) -> Result<String, ProcessError> {
    files::read(path).map_err(|error| match &error {
        FileError::Read { source, .. }
            if source.kind() == io::ErrorKind::NotFound
                || Errno::from_io_error(source) == Some(Errno::SRCH) =>
        {
            ProcessError::NoSuchProcess { pid }
        }
        _ => error.into(),
    })
}

fn unknown(path: PathBuf, content: &str) -> ProcessError {
    let error =
        FileError::Content { path, content: content.trim().into(), expected: "what proc(5) describes" };
    error.into()
}

fn system(call: &'static str, errno: Errno) -> ProcessError {
    ProcessError::System { call, source: errno.into() }
}

#[cfg(test)]
mod tests;
