//! The manager in a process of its own.
//!
//! It is started anew rather than forked: threads, the janitor and what a library may have opened
//! are then not a question. The new process says on its standard output that it is ready; what it
//! says on standard error until then is passed on. Afterwards it holds nothing of ours, so that a
//! shell or an `ssh` that ran us is not kept waiting.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use super::Args;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// What the new process says before its name and the end of the line.
const READY: &str = "ready ";

/// Starts the process and waits until it is ready or has ended.
pub fn run(args: &Args, out: &Output) -> Result<Exit, Failure> {
    let mut log = args.log.as_deref().map(Log::open).transpose()?;
    let mut child = start(args, log.as_ref())?;
    let mut watched = Watched { said: Vec::new(), stdout: child.stdout.take(), stderr: child.stderr.take() };
    let ready = watched.until_ready(out);
    if let Some(log) = &mut log {
        log.pass_on(out);
    }
    match ready {
        Some(name) => tell_ready(&name, child.id(), out),
        None => how_it_ended(&mut child),
    }
}

fn tell_ready(name: &str, pid: u32, out: &Output) -> Result<Exit, Failure> {
    out.document(&json!({ "name": name, "pid": pid }))?;
    out.note(format!("manager {name} runs by itself, pid {pid}; `headgate down --name {name}` stops it"));
    Ok(Exit::Ok)
}

/// It has said why on its standard error, which was passed on.
fn how_it_ended(child: &mut Child) -> Result<Exit, Failure> {
    let status = child.wait().map_err(Failure::environment)?;
    let exits = [Exit::Failed, Exit::Usage, Exit::Environment, Exit::Configuration, Exit::CheckNotMet];
    match exits.into_iter().find(|exit| status.code() == Some(*exit as i32)) {
        Some(exit) => Err(Failure::new(exit, "the manager did not start, for the reason above")),
        None => Err(Failure::new(Exit::Failed, format!("the manager ended at its start: {status}"))),
    }
}

fn start(args: &Args, log: Option<&Log>) -> Result<Child, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::environment(format!("cannot find this program itself: {error}")))?;
    let stderr = log.map_or(Ok(Stdio::piped()), Log::as_output)?;
    let mut command = Command::new(program);
    command.args(["up", "--detached"]).arg(absolute(&args.file));
    if args.once {
        command.arg("--once");
    }
    // Its readiness is told to us, and not to the service manager that may watch us.
    command.env_remove("NOTIFY_SOCKET").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    command.spawn().map_err(|error| Failure::environment(format!("cannot start a process: {error}")))
}

fn absolute(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A process that starts.
struct Watched {
    said: Vec<u8>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Watched {
    /// Passes its messages on until it is ready; then, the manager's name. `None`: it ended.
    fn until_ready(&mut self, out: &Output) -> Option<String> {
        loop {
            let (stdout_has, stderr_has) = self.wait();
            // First, for what was said before "ready" is to be passed on before that is told.
            if stderr_has {
                self.stderr.take_if(|stderr| !pass_on(stderr, out));
            }
            if stdout_has {
                self.stdout.take_if(|stdout| !read_some(stdout, &mut self.said));
            }
            if let Some(name) = ready_name(&self.said) {
                if self.wait().1 {
                    self.stderr.take_if(|stderr| !pass_on(stderr, out));
                }
                return Some(name);
            }
            // The janitor holds standard error until it has tidied up.
            if self.stdout.is_none() && self.stderr.is_none() {
                return None;
            }
        }
    }

    /// Which of the two has something to read or has ended; at once when standard output ended and
    /// there is no other.
    fn wait(&self) -> (bool, bool) {
        let mut watched = Vec::new();
        watched.extend(
            self.stdout.as_ref().map(|stdout| PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)),
        );
        watched.extend(
            self.stderr.as_ref().map(|stderr| PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::IN)),
        );
        let patience = ready_name(&self.said).map(|_| rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 });
        if watched.is_empty() || poll(&mut watched, patience.as_ref()).is_err() {
            return (false, false);
        }
        let mut has = watched.iter().map(|one| !one.revents().is_empty());
        let stdout_has = self.stdout.is_some() && has.next().unwrap_or(false);
        let stderr_has = self.stderr.is_some() && has.next().unwrap_or(false);
        (stdout_has, stderr_has)
    }
}

/// False at the end.
fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    match from.read(&mut buffer) {
        Ok(0) => false,
        Ok(count) => {
            into.extend_from_slice(&buffer[..count]);
            true
        }
        Err(error) => error.kind() == io::ErrorKind::Interrupted,
    }
}

fn pass_on(from: &mut impl Read, out: &Output) -> bool {
    let mut said = Vec::new();
    let more = read_some(from, &mut said);
    out.narrate(String::from_utf8_lossy(&said));
    more
}

fn ready_name(said: &[u8]) -> Option<String> {
    let said = str::from_utf8(said).ok()?;
    said.lines().find_map(|line| line.strip_prefix(READY)).filter(|_| said.ends_with('\n')).map(String::from)
}

/// A file that takes the messages.
struct Log {
    file: File,
    /// Where this start's messages begin.
    from: u64,
}

impl Log {
    fn open(path: &Path) -> Result<Self, Failure> {
        let open = || -> io::Result<Self> {
            let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
            let from = file.seek(SeekFrom::End(0))?;
            Ok(Self { file, from })
        };
        open().map_err(|error| {
            Failure::environment(format!("cannot write the log {}: {error}", path.display()))
        })
    }

    fn as_output(&self) -> Result<Stdio, Failure> {
        self.file.try_clone().map(Stdio::from).map_err(Failure::environment)
    }

    /// Shows what this start has written so far.
    fn pass_on(&mut self, out: &Output) {
        let mut said = Vec::new();
        // What cannot be read again can still be read in the file.
        if self.file.seek(SeekFrom::Start(self.from)).is_ok() && self.file.read_to_end(&mut said).is_ok() {
            out.narrate(String::from_utf8_lossy(&said));
        }
    }
}

/// In the new process: no terminal's Ctrl-C and hang-up reaches it any more.
pub fn leave_session() {
    // It fails only for a process that leads one already.
    let _ = rustix::process::setsid();
}

/// In the new process: tells the starting one, and lets go of what is its.
pub fn say_ready(name: &str) {
    let mut stdout = io::stdout();
    // The starting process may have been killed; this one goes on.
    let _ = writeln!(stdout, "{READY}{name}").and_then(|()| stdout.flush());
    let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdout(&null);
    if !has_log() {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// In the new process: whether standard error is a log. Otherwise it is a pipe to the starting
/// process, which will have no reader soon, so that NFs must not be given it.
pub fn has_log() -> bool {
    rustix::fs::fstat(io::stderr())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_a_whole_line() {
        assert_eq!(ready_name(b"ready def"), None);
        assert_eq!(ready_name(b"ready default\n").as_deref(), Some("default"));
        assert_eq!(ready_name(b"something else\n"), None);
    }

    #[test]
    fn a_log_shows_only_this_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "yesterday\n").unwrap();
        let mut log = Log::open(&path).unwrap();
        writeln!(log.file, "today").unwrap();
        log.file.seek(SeekFrom::Start(log.from)).unwrap();
        let mut said = String::new();
        log.file.read_to_string(&mut said).unwrap();
        assert_eq!(said, "today\n");
    }
}
