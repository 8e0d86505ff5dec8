//! HTTP server for metrics: one thread, and bounds for whatever a client does.
//!
//! A request must come within [`REQUEST_PATIENCE`] and a connection ends within `CONNECTION_PATIENCE`.
//! There are at most [`CONNECTIONS_MAX`] of them: a new one takes the place of the oldest, so that clients
//! that open and say nothing keep nobody out. The manager is asked at most once in `FRESH`, for one request
//! at a time, and all that come meanwhile share the answer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_api::status::Snapshot;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::metrics;

/// Longest time for the head of a request. Our choice: a client on the same machine takes a millisecond.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// Longest time for a connection. Our choice: three times what Prometheus waits for a scrape by default.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for the manager to answer. Our choice: half of what Prometheus waits by default, so that it
/// hears that the manager does not answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Most connections at a time. Our choice: far more than scrapers, and some megabytes.
pub const CONNECTIONS_MAX: usize = 256;
/// Longest request head, in bytes. Our choice: the least that the HTTP library takes.
const HEAD_BYTES_MAX: usize = 8192;
/// Time for which an answer of the manager is told again. Our choice: scrapes are seconds apart.
const FRESH: Duration = Duration::from_millis(500);
/// Time between two checks whether to stop, and between two attempts to accept where descriptors are short.
const POLL_EVERY: Duration = Duration::from_millis(100);

const INDEX: &str = "headgate: metrics are at /metrics\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Asks a manager; `None` when it does not answer.
pub type Ask = dyn Fn() -> Option<Snapshot> + Send + Sync;

/// Reason why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {cause}; choose another address with --listen")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Cause.
        cause: io::Error,
    },
    /// The thread cannot wait for connections.
    #[error("cannot wait for connections: {0}")]
    Runtime(#[from] io::Error),
}

/// A server that has its address.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes an address.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(1).build()?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.map_err(|cause| ServerError::Bind { address, cause })?;
        let address = listener.local_addr()?;
        Ok(Self { runtime, listener, address })
    }

    /// Returns its address, with the port that it was given.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is to stop.
    pub fn run(self, ask: Arc<Ask>, is_to_stop: impl Fn() -> bool) {
        let site = Arc::new(Site { ask, is_local: self.address.ip().is_loopback(), last: Mutex::default() });
        self.runtime.block_on(accept(&self.listener, &site, is_to_stop));
        // A request to a manager that hangs is not waited for.
        self.runtime.shutdown_background();
    }
}

async fn accept(listener: &TcpListener, site: &Arc<Site>, is_to_stop: impl Fn() -> bool) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    while !is_to_stop() {
        let stream = match timeout(POLL_EVERY, listener.accept()).await {
            Err(_) => continue,
            Ok(Ok((stream, _))) => stream,
            Ok(Err(_)) => {
                // Descriptors are short: some are free again once connections have ended.
                sleep(POLL_EVERY).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(serve(stream, site.clone())).abort_handle());
    }
}

async fn serve(stream: TcpStream, site: Arc<Site>) {
    let answer = |request: Request<Incoming>| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(&request).await) }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false);
    // A client that breaks off or is too slow is nobody's error.
    let _ =
        timeout(CONNECTION_PATIENCE, http.serve_connection(TokioIo::new(stream), service_fn(answer))).await;
}

/// What is served.
struct Site {
    ask: Arc<Ask>,
    /// Whether only this machine reaches it.
    is_local: bool,
    /// The last text, and when it was made.
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Site {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        if self.is_local && !request.headers().get(HOST).is_none_or(is_this_machine) {
            // A page of another site that has its name lead here reads nothing (DNS rebinding).
            return plain(
                StatusCode::FORBIDDEN,
                "this is served to this machine, by an address or as localhost\n",
            );
        }
        match request.uri().path() {
            "/metrics" => self.metrics().await,
            "/" => plain(StatusCode::OK, INDEX),
            _ => plain(StatusCode::NOT_FOUND, INDEX),
        }
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        // Held while the manager is asked, so that it is asked for one request at a time.
        let mut last = self.last.lock().await;
        if let Some((_, text)) = last.as_ref().filter(|(made, _)| made.elapsed() < FRESH) {
            return response(StatusCode::OK, metrics::CONTENT_TYPE, text.clone());
        }
        match metrics::text(self.snapshot().await) {
            Ok(text) => {
                let text = Bytes::from(text);
                *last = Some((Instant::now(), text.clone()));
                response(StatusCode::OK, metrics::CONTENT_TYPE, text)
            }
            Err(error) => {
                plain(StatusCode::INTERNAL_SERVER_ERROR, format!("the text cannot be written: {error}\n"))
            }
        }
    }

    /// Asks the manager, on a thread that may wait.
    async fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let ask = self.ask.clone();
        let mut asked = tokio::task::spawn_blocking(move || ask());
        match timeout(ANSWER_PATIENCE, &mut asked).await {
            Ok(snapshot) => snapshot.ok().flatten().map(Arc::new),
            Err(_) => {
                asked.abort();
                None
            }
        }
    }
}

/// Returns whether a `Host` names this machine: `localhost` or a loopback address, with a port or without.
fn is_this_machine(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    response(status, PLAIN, text.into())
}

fn response(status: StatusCode, kind: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
