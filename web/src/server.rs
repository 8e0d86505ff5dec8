//! HTTP server: one thread, and bounds for whatever a client does.
//!
//! The head of a request must come within [`REQUEST_PATIENCE`], and a connection ends within a minute unless
//! its client takes something of a stream meanwhile. There are at most [`CONNECTIONS_MAX`] of them: a new one
//! takes the place of the oldest, first of those that have shown no role, so that clients that open and say
//! nothing keep nobody out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout_at};
use tower::ServiceExt as _;

use crate::auth::{Peer, Tokens};
use crate::connection::Connection;
use crate::feed::Feed;
use crate::manager::Manager;
use crate::site::Site;
use crate::socket::Socket;
use crate::{openapi, service};

/// Longest time for the head of a request. Our choice: a client on the same machine takes a millisecond.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
/// Most connections at a time. Our choice: far more than scrapers, and some megabytes.
pub const CONNECTIONS_MAX: usize = 256;
/// Longest request head, in bytes. Our choice: the least that the HTTP library takes.
const HEAD_BYTES_MAX: usize = 8192;
/// Time between two checks whether to stop, and between two attempts to accept where descriptors are short.
const POLL_EVERY: Duration = Duration::from_millis(100);

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
    /// The address is not of this machine alone.
    #[error(
        "cannot listen on {address}: the API has no encryption and is for this machine alone; take a loopback \
         address, and reach it from elsewhere through ssh or a proxy with TLS"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The Unix socket cannot be had.
    #[error("cannot listen at {path}: {cause}; choose another path with --socket")]
    Socket {
        /// The path.
        path: String,
        /// Cause.
        cause: io::Error,
    },
    /// The thread cannot wait for connections.
    #[error("cannot wait for connections: {0}")]
    Runtime(#[from] io::Error),
}

/// A server that has its addresses.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    tcp: Option<(TcpListener, SocketAddr)>,
    unix: Option<(UnixListener, Socket)>,
    router: Router,
    site: Arc<Site>,
}

impl Server {
    /// Takes an address for metrics, which all who reach it may read.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn metrics(manager: Manager, address: SocketAddr) -> Result<Self, ServerError> {
        let runtime = runtime()?;
        let tcp = Some(bind(&runtime, address)?);
        let site = site(manager, Tokens::default(), Bytes::new());
        let router = service::metrics(site.clone(), address.ip().is_loopback());
        Ok(Self { runtime, tcp, unix: None, router, site })
    }

    /// Takes the places for the API: a Unix socket for this user and root, and if wanted an address of this
    /// machine for those who have a token.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn api(
        manager: Manager,
        socket: &Path,
        address: Option<SocketAddr>,
        tokens: Tokens,
    ) -> Result<Self, ServerError> {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            return Err(ServerError::NotLoopback { address });
        }
        let runtime = runtime()?;
        let tcp = address.map(|address| bind(&runtime, address)).transpose()?;
        let refused = |cause| ServerError::Socket { path: socket.display().to_string(), cause };
        let (place, listener) = Socket::listen(socket).map_err(refused)?;
        let inside = runtime.enter();
        let unix = Some((UnixListener::from_std(listener)?, place));
        drop(inside);
        let site = site(manager, tokens, openapi::document().to_string().into());
        Ok(Self { runtime, tcp, unix, router: service::api(site.clone()), site })
    }

    /// Returns its address, with the port that it was given; `None` without one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|(_, address)| *address)
    }

    /// Serves until it is to stop.
    pub fn run(self, is_to_stop: impl Fn() -> bool) {
        let Self { runtime, tcp, unix, router, site } = self;
        let house = Arc::new(House { router, open: Mutex::default() });
        runtime.spawn(async move { site.feed.run(&site.manager).await });
        if let Some((listener, _)) = tcp {
            runtime.spawn(accept_tcp(listener, house.clone()));
        }
        let _place = unix.map(|(listener, place)| {
            runtime.spawn(accept_unix(listener, house));
            place
        });
        runtime.block_on(async {
            while !is_to_stop() {
                sleep(POLL_EVERY).await;
            }
        });
        // What is under way is not waited for.
        runtime.shutdown_background();
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

fn bind(runtime: &Runtime, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let listener = runtime.block_on(TcpListener::bind(address));
    let listener = listener.map_err(|cause| ServerError::Bind { address, cause })?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn site(manager: Manager, tokens: Tokens, description: Bytes) -> Arc<Site> {
    Arc::new(Site { manager, tokens, feed: Feed::default(), description })
}

/// What is served, and the connections that are open.
struct House {
    router: Router,
    open: Mutex<VecDeque<(AbortHandle, Arc<Connection>)>>,
}

async fn accept_tcp(listener: TcpListener, house: Arc<House>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => house.welcome(stream, Peer::Address),
            // Descriptors are short: some are free again once connections have ended.
            Err(_) => sleep(POLL_EVERY).await,
        }
    }
}

async fn accept_unix(listener: UnixListener, house: Arc<House>) {
    loop {
        match listener.accept().await {
            // A client whose user the kernel does not tell is not served.
            Ok((stream, _)) => {
                if let Ok(user) = stream.peer_cred() {
                    house.welcome(stream, Peer::User(user.uid()));
                }
            }
            Err(_) => sleep(POLL_EVERY).await,
        }
    }
}

impl House {
    /// Serves a connection, in place of the oldest where there are too many.
    fn welcome(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(connection, _)| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX {
            let unknown = open.iter().position(|(_, connection)| !connection.is_known());
            if let Some((oldest, _)) = open.remove(unknown.unwrap_or(0)) {
                oldest.abort();
            }
        }
        let connection = Arc::<Connection>::default();
        let served = serve(stream, self.router.clone(), peer, connection.clone());
        open.push_back((tokio::spawn(served).abort_handle(), connection));
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    peer: Peer,
    connection: Arc<Connection>,
) {
    let of_request = connection.clone();
    let answer = move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(of_request.clone());
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false);
    // A client that breaks off or is too slow is nobody's error.
    within(&connection, http.serve_connection(TokioIo::new(stream), service_fn(answer))).await;
}

/// Waits for an end, or for that of the time of its connection.
async fn within(connection: &Connection, end: impl Future) {
    let mut end = pin!(end);
    loop {
        let until = connection.until();
        if timeout_at(until, &mut end).await.is_ok() || connection.until() == until {
            return;
        }
    }
}
