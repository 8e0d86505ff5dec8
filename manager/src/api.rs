//! The manager's API: one JSON request a line over a Unix socket, one JSON answer a line.
//!
//! The same requests serve inside the process (`bench` starts managers of its own): [`Handle::ask`].

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest request, in bytes: a configuration of ten thousand chains fits.
const REQUEST_BYTES_MAX: u64 = 16 << 20;
/// Clients served at the same time. Our choice: people and scrapers, not traffic.
const CLIENTS_MAX: usize = 16;
/// How long a client may take to send or take a line.
const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// How long the control loop may take to answer. Applying a configuration drains what is removed.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// What can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub enum Request {
    /// A [`crate::status::Snapshot`].
    Snapshot {
        /// Also count every buffer: the workers stand still for some 100 us.
        audit: bool,
    },
    /// Known flows: a list of [`crate::status::FlowStatus`].
    Flows {
        /// At most so many.
        most: usize,
    },
    /// A message to all instances of an NF.
    Tell {
        /// The NF.
        nf: String,
        /// The message.
        body: String,
    },
    /// Work by another configuration from now on. Ports, memory and the manager's cores stay.
    Apply {
        /// The file's name, for messages.
        name: String,
        /// Its text.
        text: String,
    },
    /// Measure the cost of each station of the path, or stop.
    Measure {
        /// Whether.
        on: bool,
    },
    /// Stop: take in no more packets, let those on their way leave, stop the NFs, end.
    Stop,
}

/// Why a request could not be met.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The exit code of a command that is refused so: 1 failed, 3 environment, 4 configuration.
    pub code: u8,
    /// What, why, and what mends it.
    pub message: String,
}

impl Refusal {
    /// A refusal that is nobody's configuration or environment.
    #[must_use]
    pub const fn failed(message: String) -> Self {
        Self { code: 1, message }
    }
}

/// An answer.
pub type Answer = Result<serde_json::Value, Refusal>;

/// A request on its way to the control loop.
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) reply: Sender<Answer>,
}

/// The control loop's ear.
pub(crate) struct Inbox {
    pub(crate) asked: Receiver<Asked>,
    /// Readable when something was asked.
    pub(crate) poked: UnixStream,
}

/// A way to ask a manager in this process.
#[derive(Clone)]
pub struct Handle {
    asked: Sender<Asked>,
    poke: Arc<UnixStream>,
}

/// A handle and the ear it leads to.
pub(crate) fn inbox() -> std::io::Result<(Handle, Inbox)> {
    let (sender, asked) = mpsc::channel();
    let (poke, poked) = UnixStream::pair()?;
    poke.set_nonblocking(true)?;
    poked.set_nonblocking(true)?;
    Ok((Handle { asked: sender, poke: Arc::new(poke) }, Inbox { asked, poked }))
}

impl Handle {
    /// Asks and waits.
    ///
    /// # Errors
    /// The manager's refusal, or that it is gone.
    pub fn ask(&self, request: Request) -> Answer {
        let gone = || Refusal::failed("the manager has ended".to_owned());
        let (reply, answer) = mpsc::channel();
        self.asked.send(Asked { request, reply }).map_err(|_| gone())?;
        // A full pipe means the loop has been poked already.
        let _ = (&*self.poke).write(&[1]);
        match answer.recv_timeout(ANSWER_PATIENCE) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Refusal::failed(format!(
                "the manager gave no answer within {} s",
                ANSWER_PATIENCE.as_secs()
            ))),
        }
    }

    /// Asks for something of a known shape.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn get<T: DeserializeOwned>(&self, request: Request) -> Result<T, Refusal> {
        shaped(self.ask(request)?)
    }
}

fn shaped<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Refusal> {
    serde_json::from_value(value)
        .map_err(|error| Refusal::failed(format!("the manager's answer is of another version: {error}")))
}

/// Serves clients until the listener's socket is gone. Each has a thread: they are few and slow.
pub(crate) fn serve(listener: UnixListener, handle: Handle) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        let Ok(client) = client else { return };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::Relaxed);
            let refusal: Answer =
                Err(Refusal::failed(format!("{CLIENTS_MAX} clients are being served; ask again")));
            let _ = answer(&client, &refusal);
            continue;
        }
        let (handle, clients) = (handle.clone(), clients.clone());
        std::thread::spawn(move || {
            let _ = converse(&client, &handle);
            clients.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn converse(client: &UnixStream, handle: &Handle) -> std::io::Result<()> {
    client.set_read_timeout(Some(CLIENT_PATIENCE))?;
    client.set_write_timeout(Some(CLIENT_PATIENCE))?;
    let mut reader = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        (&mut reader).take(REQUEST_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        let reply = match serde_json::from_slice(&line) {
            Ok(request) => handle.ask(request),
            Err(error) => Err(Refusal { code: 2, message: format!("not a request of this API: {error}") }),
        };
        answer(client, &reply)?;
    }
}

fn answer(mut client: &UnixStream, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    client.write_all(&line)
}

/// Why a manager could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens.
    #[error(
        "no manager named {name:?} is running (nobody listens at {socket}); start one with `headgate up FILE`"
    )]
    NotRunning {
        /// The manager's name.
        name: String,
        /// Its socket.
        socket: String,
    },
    /// The socket belongs to somebody else.
    #[error("not permitted to ask the manager at {socket}; ask as the user that started it, or as root")]
    NotPermitted {
        /// Its socket.
        socket: String,
    },
    /// It refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The conversation broke.
    #[error("asking the manager at {socket}: {cause}")]
    Broken {
        /// Its socket.
        socket: String,
        /// What happened.
        cause: std::io::Error,
    },
}

/// Asks the manager of this name that runs on this machine.
///
/// # Errors
/// [`CallError`].
pub fn call<T: DeserializeOwned>(name: &str, request: &Request) -> Result<T, CallError> {
    let path = crate::place::api_socket(name);
    let socket = path.display().to_string();
    let stream = connect(name, &path)?;
    let exchange = || -> std::io::Result<Answer> {
        stream.set_read_timeout(Some(ANSWER_PATIENCE + CLIENT_PATIENCE))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        (&stream).write_all(&line)?;
        let mut line = String::new();
        if BufReader::new(&stream).read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    };
    let answer = exchange().map_err(|cause| CallError::Broken { socket, cause })?;
    Ok(shaped(answer?)?)
}

fn connect(name: &str, path: &Path) -> Result<UnixStream, CallError> {
    let socket = path.display().to_string();
    UnixStream::connect(path).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            CallError::NotRunning { name: name.to_owned(), socket }
        }
        ErrorKind::PermissionDenied => CallError::NotPermitted { socket },
        _ => CallError::Broken { socket, cause },
    })
}
