//! An attended daemon: `headgate-manager`, started, asked and stopped by the process that attends it.
//!
//! This is the attendant's side of [`crate::attendance`]. A daemon is in the network namespace and on the
//! cores of the thread that starts it, and in a session of its own, so that no terminal's Ctrl-C reaches it.
//! It stops in order when its attendant is gone, however that ended; when the daemon itself is killed, its
//! janitor undoes what it changed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headgate_host::process::{self, ProcessError};
use headgate_host::{Pid, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;

use crate::attendance::{Failed, LEAVE, Ready, Said, Text};
use crate::exit::Exit;
use crate::request::{ANSWER_PATIENCE, Answer, CLIENT_PATIENCE, Request, RequestError, shaped, write_line};
use crate::status::Snapshot;

/// Time between two checks whether a daemon that is starting is to stop. Our choice: nobody
/// notices it.
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// Source of a daemon's configuration.
#[derive(Clone, Debug)]
pub enum Configuration {
    /// A file.
    File(PathBuf),
    /// A text. The files it names are opened when they are used.
    Text(Text),
}

/// Options for starting a daemon.
#[derive(Debug)]
pub struct Options {
    /// The program: [`headgate_host::programs::Program::Manager`].
    pub program: PathBuf,
    /// The configuration.
    pub configuration: Configuration,
    /// The node whose part it runs, where the configuration is for several.
    pub node: Option<String>,
    /// Whether it takes its place in [`crate::place`], so that other commands find it.
    pub listed: bool,
    /// Whether it ends once every port has given its last packet and all have left.
    pub once: bool,
    /// Whether it and its NFs keep quiet: errors alone are told then.
    pub quiet: bool,
    /// Whether time slices begin with the costs of NFs that were measured before.
    pub costs: bool,
    /// The new file in which it records what policies see and do, if it is to.
    pub record: Option<PathBuf>,
    /// Destination of its messages.
    pub messages: Stdio,
}

impl Options {
    /// Returns how a daemon runs by default: listed, until it is stopped, telling where our own messages go
    /// what happens.
    #[must_use]
    pub fn new(program: PathBuf, configuration: Configuration) -> Self {
        let messages = Stdio::inherit();
        Self {
            program,
            configuration,
            node: None,
            listed: true,
            once: false,
            quiet: false,
            costs: true,
            record: None,
            messages,
        }
    }

    /// The command, all but its standard input.
    fn command(self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("--attended");
        for (flag, is_set) in [
            ("--unlisted", !self.listed),
            ("--once", self.once),
            ("--quiet", self.quiet),
            ("--without-costs", !self.costs),
        ] {
            command.args(is_set.then_some(flag));
        }
        if let Some(record) = self.record {
            command.arg("--record").arg(record);
        }
        if let Some(node) = self.node {
            command.arg("--node").arg(node);
        }
        command.arg("--").arg(match self.configuration {
            Configuration::File(path) => path,
            Configuration::Text(_) => PathBuf::from("-"),
        });
        // Its readiness is told to its attendant, and not to the service manager that may watch that.
        command.env_remove("NOTIFY_SOCKET").stdout(Stdio::null()).stderr(self.messages);
        command
    }
}

/// Reason why there is no daemon, or no end of it in order.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The program cannot be run.
    #[error("cannot start {program}: {cause}")]
    Spawn {
        /// The program.
        program: String,
        /// Cause.
        cause: std::io::Error,
    },
    /// The process cannot be watched.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The daemon failed and said why.
    #[error("{0}")]
    Failed(Failed),
    /// The daemon ended without a reason.
    #[error(
        "the manager ended without a last word ({status}); what it had changed on this machine is being undone"
    )]
    Died {
        /// Exit status of its process.
        status: ExitStatus,
    },
}

impl DaemonError {
    /// Returns how a command ends that could not do without.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Spawn { .. } | Self::Process(_) => Exit::Environment,
            Self::Failed(failed) => Exit::from_code(failed.code),
            Self::Died { .. } => Exit::Failed,
        }
    }
}

/// A daemon that has ended in order.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its last, audited snapshot.
    pub last: Snapshot,
    /// Exit code of its process.
    pub exit: Exit,
}

/// A daemon and its attendance. Dropping it stops the daemon in order, and waits for that.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    held: Arc<OwnedFd>,
    conversation: Arc<Mutex<Conversation>>,
    /// Whether its process is none of ours any more: it was waited for, or left.
    is_over: bool,
}

impl Daemon {
    /// Starts a daemon and waits until it is ready.
    ///
    /// # Errors
    /// [`DaemonError`]; nothing is left behind then.
    pub fn start(options: Options) -> Result<Self, DaemonError> {
        let mut daemon = Self::spawn(options)?;
        daemon.ready(|| false)?;
        Ok(daemon)
    }

    /// Starts the process.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn spawn(mut options: Options) -> Result<Self, DaemonError> {
        let program = options.program.display().to_string();
        let text = match &mut options.configuration {
            Configuration::File(_) => None,
            Configuration::Text(text) => Some(text.clone()),
        };
        let mut command = options.command();
        // A daemon that is left to itself would hold for ever what our caller held for a moment.
        process::keep_descriptors_private()?;
        let mut start = || -> std::io::Result<_> {
            let (ours, theirs) = UnixStream::pair()?;
            let child = command.stdin(OwnedFd::from(theirs)).spawn()?;
            Ok((ours, child))
        };
        let (stream, child) = start().map_err(|cause| DaemonError::Spawn { program, cause })?;
        // It holds their end as well, whose end would not be seen.
        drop(command);
        let held = Arc::new(process::open(Pid::from_child(&child))?);
        if let Some(text) = text {
            // One that has ended meanwhile says so where its readiness is waited for.
            let _ = write_line(&mut &stream, &text);
        }
        let conversation = Conversation { stream: BufReader::new(stream), over: None };
        Ok(Self { child, held, conversation: Arc::new(Mutex::new(conversation)), is_over: false })
    }

    /// Waits until it is ready. Once `is_asked` says so it is told to stop, which it does as soon as it has
    /// started.
    ///
    /// # Errors
    /// [`DaemonError`]; nothing is left behind then.
    pub fn ready(&mut self, is_asked: impl Fn() -> bool) -> Result<Ready, DaemonError> {
        let mut said = None;
        while said.is_none() {
            let mut conversation = self.conversation();
            if is_asked() {
                conversation.end_requests();
            }
            if conversation.has_more(ASKED_EVERY) {
                match conversation.hear() {
                    None => break,
                    more => said = more,
                }
            }
        }
        match said {
            Some(Said::Ready(ready)) => Ok(ready),
            _ => match self.finish() {
                Err(error) => Err(error),
                Ok(_) => Err(DaemonError::Failed(not_understood())),
            },
        }
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns a way to ask it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.conversation.clone())
    }

    /// Returns a way to end it at once.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer(self.held.clone())
    }

    /// Has it read its file again, unless it has ended. What comes of that it tells itself. For one that is
    /// ready: before, it might not know the signal yet.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn reload(&self) -> Result<(), ProcessError> {
        process::send_signal(self.held.as_fd(), Signal::HUP)
    }

    /// Returns whether it has ended by itself, or is about to.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut conversation = self.conversation();
        if conversation.over.is_none() && conversation.has_more(Duration::ZERO) {
            // An answer that nobody waits for any more is of no use to anybody.
            let _ = conversation.hear();
        }
        conversation.over.is_some()
    }

    /// Stops it in order, and waits until its process has ended.
    ///
    /// # Errors
    /// [`DaemonError`]: it did not end in order.
    pub fn stop(mut self) -> Result<Ended, DaemonError> {
        self.finish()
    }

    /// Leaves it to itself: it goes on when we end. Returns its process id.
    ///
    /// # Errors
    /// Fails if it cannot be told, and so stops.
    pub fn leave(mut self) -> Result<u32, RequestError> {
        self.conversation().ask(LEAVE.as_bytes())?;
        self.is_over = true;
        Ok(self.pid())
    }

    fn finish(&mut self) -> Result<Ended, DaemonError> {
        let mut conversation = self.conversation();
        conversation.end_requests();
        while conversation.over.is_none() {
            let _ = conversation.hear();
        }
        let over = conversation.over.clone();
        drop(conversation);
        self.is_over = true;
        let wait = self.child.wait();
        let status = wait.map_err(|source| ProcessError::System { call: "waitpid", source })?;
        match (over, Exit::of_process(status)) {
            (Some(Over::Ended(last)), Some(exit)) => Ok(Ended { last: *last, exit }),
            (Some(Over::Failed(failed)), _) => Err(DaemonError::Failed(failed)),
            _ => Err(DaemonError::Died { status }),
        }
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        locked(&self.conversation)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_over {
            // There is no listener left for its end.
            let _ = self.finish();
        }
    }
}

/// A way to ask an attended daemon.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Mutex<Conversation>>);

impl Handle {
    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The daemon's refusal, or that it is gone.
    pub fn ask(&self, request: &Request) -> Result<serde_json::Value, RequestError> {
        self.get(request)
    }

    fn exchange(&self, request: &Request) -> Answer {
        let line = serde_json::to_vec(request).map_err(|error| RequestError::failed(error.to_string()))?;
        locked(&self.0).ask(&line)
    }

    /// Sends a request whose answer has a known shape.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn get<T: DeserializeOwned>(&self, request: &Request) -> Result<T, RequestError> {
        shaped(&self.exchange(request)?)
    }

    /// Requests a snapshot without an audit of the accounts.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn sample(&self) -> Result<Snapshot, RequestError> {
        self.get(&Request::Snapshot { audit: false })
    }
}

/// A way to end a daemon at once. Packets on their way are lost; its janitor undoes what it changed.
#[derive(Clone, Debug)]
pub struct Killer(Arc<OwnedFd>);

impl Killer {
    /// Ends it, unless it has ended.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn kill(&self) -> Result<(), ProcessError> {
        process::send_signal(self.0.as_fd(), Signal::KILL)
    }
}

/// End of a conversation.
#[derive(Clone, Debug)]
enum Over {
    Ended(Box<Snapshot>),
    Failed(Failed),
    /// The connection broke.
    Broken,
}

/// Our end of the socket. One answer follows each question.
#[derive(Debug)]
struct Conversation {
    stream: BufReader<UnixStream>,
    over: Option<Over>,
}

impl Conversation {
    fn ask(&mut self, line: &[u8]) -> Answer {
        let gone = || RequestError::failed("the manager has ended".to_owned());
        if self.over.is_some() {
            return Err(gone());
        }
        let mut stream = self.stream.get_ref();
        let asked = stream
            .set_read_timeout(Some(ANSWER_PATIENCE + CLIENT_PATIENCE))
            .and_then(|()| stream.write_all(&[line, b"\n"].concat()));
        asked.map_err(|_| gone())?;
        match self.hear() {
            Some(Said::Ok(value)) => Ok(value),
            Some(Said::Err(refusal)) => Err(refusal),
            Some(_) => Err(RequestError::failed(not_understood().message)),
            None => Err(gone()),
        }
    }

    /// Tells it to stop in order. There is nothing to be asked any more then.
    fn end_requests(&self) {
        // One that is gone needs not be told. Its end may take longer than an answer.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
        let _ = self.stream.get_ref().set_read_timeout(None);
    }

    /// Returns whether a message, or the end of the connection, comes within that time.
    fn has_more(&self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).ok();
        let mut watched = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        !self.stream.buffer().is_empty()
            || matches!(poll(&mut watched, patience.as_ref()), Ok(count) if count > 0)
    }

    /// Waits for the next line. `None` is the last.
    fn hear(&mut self) -> Option<Said> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        let said = read.ok().filter(|bytes| *bytes > 0).and_then(|_| serde_json::from_str(&line).ok());
        let over = match said {
            Some(Said::Ended(last)) => Over::Ended(last),
            Some(Said::Failed(failed)) => Over::Failed(failed),
            None => Over::Broken,
            said => return said,
        };
        self.over.get_or_insert(over);
        None
    }
}

fn not_understood() -> Failed {
    let why =
        "the manager's words are of another version: build all of Headgate with `cargo build --release`";
    Failed::new(Exit::Failed, why.to_owned())
}

fn locked(conversation: &Mutex<Conversation>) -> MutexGuard<'_, Conversation> {
    // The thread that panicked did so between two lines.
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
