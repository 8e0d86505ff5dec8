//! Asks a manager without blocking the thread that serves all clients.
//!
//! At most [`REQUESTS_MAX`] requests are under way, so that the manager has room for others that ask it. A
//! snapshot is shared by all who ask for one within [`FRESH`], and so is the reason why there is none.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use headgate_api::place;
use headgate_api::request::{ANSWER_PATIENCE, Answer, CLIENT_PATIENCE, Request, RequestError};
use headgate_api::status::Snapshot;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use crate::metrics;
use crate::problem::{Kind, Problem};

/// Time for which a snapshot is told again. Our choice: scrapes are seconds apart.
const FRESH: Duration = Duration::from_millis(500);
/// The same of one with an audit, for which workers stand still. Our choice: 100 us of a second.
const AUDIT_FRESH: Duration = Duration::from_secs(1);
/// Requests to the manager at a time. Our choice: half of the clients that it serves.
const REQUESTS_MAX: usize = 8;
/// Longest time for an answer that the manager has at hand. Our choice: half of what Prometheus waits by
/// default, so that it hears that the manager does not answer.
const SOON: Duration = Duration::from_secs(5);
/// Longest answer, in bytes. Our choice: ten times the snapshot of ten thousand chains.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// A manager of this machine, whether it runs or not.
#[derive(Debug)]
pub struct Manager {
    name: String,
    socket: PathBuf,
    room: Semaphore,
    last: Shared,
    audited: Shared,
}

/// The last outcome, and when it was had. Held while the manager is asked.
type Shared = Mutex<Option<(Instant, Outcome)>>;
type Outcome = Result<Arc<Fresh>, Problem>;

/// A snapshot, with its texts once somebody wanted them.
#[derive(Debug)]
pub struct Fresh {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    json: OnceLock<Bytes>,
    metrics: OnceLock<Bytes>,
}

impl Fresh {
    /// Returns a snapshot without texts.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot: Arc::new(snapshot), json: OnceLock::new(), metrics: OnceLock::new() }
    }

    /// Returns it as JSON.
    pub fn json(&self) -> Bytes {
        // A tree of plain values with words for keys: it always can be written.
        self.json.get_or_init(|| serde_json::to_vec(&*self.snapshot).unwrap_or_default().into()).clone()
    }

    /// Returns it as metrics.
    pub fn metrics(&self) -> Bytes {
        // Writing to a string does not fail.
        self.metrics
            .get_or_init(|| metrics::text(Some(self.snapshot.clone())).unwrap_or_default().into())
            .clone()
    }
}

impl Manager {
    /// Returns the manager of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::at(name, place::api_socket(name))
    }

    /// Returns the manager of this name at another socket than its own.
    #[must_use]
    pub fn at(name: &str, socket: PathBuf) -> Self {
        let room = Semaphore::new(REQUESTS_MAX);
        Self { name: name.to_owned(), socket, room, last: Mutex::default(), audited: Mutex::default() }
    }

    /// Returns a snapshot that is not older than half a second.
    pub async fn snapshot(&self) -> Outcome {
        self.shared(&self.last, FRESH, false).await
    }

    /// Returns an audited snapshot that is not older than a second.
    pub async fn audited(&self) -> Outcome {
        self.shared(&self.audited, AUDIT_FRESH, true).await
    }

    async fn shared(&self, last: &Shared, fresh: Duration, audit: bool) -> Outcome {
        let mut last = last.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(had, _)| had.elapsed() < fresh) {
            return outcome.clone();
        }
        let outcome = self.ask::<Snapshot>(&Request::Snapshot { audit }).await;
        let outcome = outcome.map(|snapshot| Arc::new(Fresh::new(snapshot)));
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    /// Sends a request and returns its answer.
    pub async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Problem> {
        let patience = patience(request);
        match timeout(patience, self.exchange(request)).await {
            Err(_) => Err(self.silent(format!("no answer within {} s", patience.as_secs()))),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Ok(Ok(Err(refusal))) => Err(self.refused(refusal)),
            Ok(Ok(Ok(answer))) => serde_json::from_str(answer.get()).map_err(|error| {
                Problem::new(
                    Kind::OtherVersion,
                    self.place(),
                    format!("the answer has another form: {error}"),
                )
            }),
        }
    }

    async fn exchange(&self, request: &Request) -> io::Result<Answer> {
        let _room = self.room.acquire().await.map_err(io::Error::other)?;
        let mut stream = UnixStream::connect(&self.socket).await?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // A manager that refuses at once does not read; its answer is there.
        let sent = stream.write_all(&line).await;
        let mut answer = Vec::new();
        BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).await?;
        if answer.is_empty() {
            sent?;
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Asks for a stream ([`headgate_api::watch`]). Returns what follows the manager's answer.
    pub async fn watch(&self, request: &Request) -> Result<BufReader<UnixStream>, Problem> {
        match timeout(SOON, self.begin(request)).await {
            Err(_) => Err(self.silent(format!("no answer within {} s", SOON.as_secs()))),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            // Its words for a request that makes no sense, of which the client is told as of its own.
            Ok(Ok((Err(refusal), _)))
                if refusal.code == 2 && !refusal.message.contains("unknown variant") =>
            {
                Err(Problem::new(Kind::Malformed, "request", refusal.message))
            }
            Ok(Ok((Err(refusal), _))) => Err(self.refused(refusal)),
            Ok(Ok((Ok(_), stream))) => Ok(stream),
        }
    }

    async fn begin(&self, request: &Request) -> io::Result<(Answer, BufReader<UnixStream>)> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let sent = stream.write_all(&line).await;
        let (mut stream, mut answer) = (BufReader::new(stream), Vec::new());
        (&mut stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).await?;
        if answer.is_empty() {
            sent?;
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok((serde_json::from_slice(&answer)?, stream))
    }

    fn place(&self) -> String {
        format!("manager {}", self.name)
    }

    fn silent(&self, why: String) -> Problem {
        Problem::new(Kind::Silent, self.place(), why)
    }

    fn unreachable(&self, error: &io::Error) -> Problem {
        let socket = self.socket.display();
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Problem::new(Kind::NotRunning, self.place(), format!("nobody listens at {socket}"))
            }
            ErrorKind::PermissionDenied => {
                Problem::new(Kind::NotPermitted, self.place(), format!("{socket} belongs to another user"))
            }
            // A line that is no JSON, or no answer.
            ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                Problem::new(Kind::OtherVersion, self.place(), format!("no answer of this API: {error}"))
            }
            ErrorKind::UnexpectedEof => self.silent("it closed the connection without an answer".to_owned()),
            _ => self.silent(format!("asking at {socket}: {error}")),
        }
    }

    fn refused(&self, refusal: RequestError) -> Problem {
        let kind = match refusal.code {
            // Its words for a request that it does not know.
            2 => Kind::OtherVersion,
            4 => Kind::Configuration,
            _ => Kind::Refused,
        };
        Problem::new(kind, self.place(), refusal.message)
    }
}

/// Returns the longest time that a request may take: the manager's own, where NFs have to do something.
const fn patience(request: &Request) -> Duration {
    match request {
        Request::Apply { .. }
        | Request::AddRule { .. }
        | Request::DeleteRule { .. }
        | Request::Restart { .. }
        | Request::Drain { .. }
        | Request::FailOver { .. }
        | Request::Migrate { .. }
        | Request::Warn { .. }
        | Request::Tell { .. }
        | Request::Stop => ANSWER_PATIENCE.saturating_add(CLIENT_PATIENCE),
        _ => SOON,
    }
}
