//! Captures, traces and the log of flows: streams of the manager, handed on to a client.
//!
//! Nothing is kept here: a client that takes nothing lets the manager's ring fill up, which counts what it
//! loses. A client that goes away closes the manager's stream, which ends.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body as Bytes, Bytes as Chunk};
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use headgate_api::Request;
use headgate_api::watch::{
    CaptureRequest, Filter, ObserveRequest, SNAP_BYTES_DEFAULT, Said, TraceRequest, Verdict,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::extract::{Body, Parameters};
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::streams::document;

/// Content type of pcapng files (draft-ietf-opsawg-pcapng, IANA considerations).
pub const CAPTURE: &str = "application/vnd.tcpdump.pcap";
/// Longest time without a word. Our choice: less than proxies wait.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Longest line, and most bytes behind one. Our choice: the manager's rings, several times.
const LINE_BYTES_MAX: u64 = 64 << 20;

type Shared = State<Arc<Site>>;
type Outcome = Result<Response, Problem>;

/// Parameters of the operation `trace`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceQuery {
    /// Number of packets, 1 to 1000.
    #[serde(default = "ten")]
    packets: u32,
    /// Chain; packets of all, and of none, where there is no name.
    chain: Option<String>,
    /// Filter expression of pcap-filter(7), for frames as they arrive.
    filter: Option<String>,
    /// Time after which it ends, in seconds.
    #[serde(default = "minute")]
    seconds: u16,
}

/// Parameters of the operation `observe`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObserveQuery {
    /// Chain of the flows.
    chain: Option<String>,
    /// Flows that ended so, and neither events nor decisions.
    verdict: Option<Verdict>,
    /// Filter expression of pcap-filter(7), for frames as they leave or end.
    filter: Option<String>,
    /// Time after which it ends, in seconds.
    #[serde(default = "minute")]
    seconds: u16,
}

/// Body of the operation `capture`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Chain; all, and what arrives, where there is no name.
    chain: Option<String>,
    /// NF of the chain whose input and output alone are captured.
    stage: Option<String>,
    /// Filter expression of pcap-filter(7), for frames as they are at each station.
    filter: Option<String>,
    /// Maximum number of bytes of each packet.
    #[serde(default = "whole")]
    snap_bytes: u32,
    /// Number of packets after which it ends.
    packets: Option<u64>,
    /// Time after which it ends, in seconds.
    #[serde(default = "minute")]
    seconds: u16,
}

const fn ten() -> u32 {
    10
}

const fn minute() -> u16 {
    60
}

const fn whole() -> u32 {
    SNAP_BYTES_DEFAULT
}

const fn milliseconds(seconds: u16) -> Option<u64> {
    Some(seconds as u64 * 1000)
}

/// Compiles a filter beside the thread that serves all clients: names in it are looked up.
async fn compiled(filter: Option<String>, place: &'static str) -> Result<Option<Filter>, Problem> {
    let Some(text) = filter.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let compile = tokio::task::spawn_blocking(move || Filter::compile(&text));
    let compiled = compile.await.map_err(|error| Problem::new(Kind::Refused, place, error.to_string()))?;
    compiled.map(Some).map_err(|error| Problem::new(Kind::Malformed, place, error.to_string()))
}

pub async fn trace(
    State(site): Shared,
    Extension(connection): Extension<Arc<Connection>>,
    Parameters(query): Parameters<TraceQuery>,
) -> Outcome {
    let request = Request::Trace(TraceRequest {
        chain: query.chain,
        filter: compiled(query.filter, "query").await?,
        packets: query.packets,
        milliseconds: milliseconds(query.seconds),
    });
    Ok(lines(site.manager.watch(&request).await?, connection))
}

pub async fn observe(
    State(site): Shared,
    Extension(connection): Extension<Arc<Connection>>,
    Parameters(query): Parameters<ObserveQuery>,
) -> Outcome {
    let request = Request::Observe(ObserveRequest {
        chain: query.chain,
        verdict: query.verdict,
        filter: compiled(query.filter, "query").await?,
        milliseconds: milliseconds(query.seconds),
    });
    Ok(lines(site.manager.watch(&request).await?, connection))
}

pub async fn capture(
    State(site): Shared,
    Extension(connection): Extension<Arc<Connection>>,
    Body(body): Body<Capture>,
) -> Outcome {
    let request = Request::Capture(CaptureRequest {
        chain: body.chain,
        stage: body.stage,
        filter: compiled(body.filter, "body").await?,
        snap_bytes: body.snap_bytes,
        packets: body.packets,
        milliseconds: milliseconds(body.seconds),
    });
    let stream = Some(site.manager.watch(&request).await?);
    let blocks = unfold((stream, connection), |(stream, connection)| async move {
        let mut stream = stream?;
        loop {
            connection.extend();
            // Where nothing came the connection goes on all the same.
            let Some(next) = next(&mut stream).await else { continue };
            match next {
                Ok((Said::Bytes { .. }, bytes)) => {
                    return Some((Ok::<_, io::Error>(Chunk::from(bytes)), (Some(stream), connection)));
                }
                Ok((Said::End(_), _)) => return None,
                Ok(_) => {}
                Err(error) => return Some((Err(error), (None, connection))),
            }
        }
    });
    Ok(([(CONTENT_TYPE, CAPTURE)], Bytes::from_stream(blocks)).into_response())
}

/// Returns lines of a stream as events, each named by what it is; the last is `end`.
fn lines(stream: BufReader<UnixStream>, connection: Arc<Connection>) -> Response {
    let events = unfold((Some(stream), connection), |(stream, connection)| async move {
        let mut stream = stream?;
        connection.extend();
        let (event, stream) = match next(&mut stream).await {
            None => (Event::default().comment("still here"), Some(stream)),
            Some(Ok((said, _))) => {
                let is_last = matches!(said, Said::End(_));
                (event(&said), (!is_last).then_some(stream))
            }
            Some(Err(error)) => {
                let why = format!("the stream broke off: {error}");
                (document("problem", &Problem::new(Kind::NotRunning, "manager", why)), None)
            }
        };
        Some((Ok::<_, Infallible>(event), (stream, connection)))
    });
    Sse::new(events).into_response()
}

/// Returns a line as an event that is named by what it is.
fn event(said: &Said) -> Event {
    // Plain values with words for keys: they always can be written.
    let value = serde_json::to_value(said).unwrap_or_default();
    document(value["is"].as_str().unwrap_or_default(), &value)
}

/// Waits for the next line, and reads it and the bytes behind it; `None` when nothing was said for a while.
async fn next(stream: &mut BufReader<UnixStream>) -> Option<io::Result<(Said, Vec<u8>)>> {
    // The wait may be given up before its first byte, when nothing is lost, and not later.
    match timeout(SILENCE_MAX, stream.fill_buf()).await {
        Err(_) => None,
        Ok(Err(error)) => Some(Err(error)),
        Ok(Ok([])) => Some(Err(ErrorKind::UnexpectedEof.into())),
        Ok(Ok(_)) => Some(read(stream).await),
    }
}

async fn read(stream: &mut BufReader<UnixStream>) -> io::Result<(Said, Vec<u8>)> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    let said: Said = serde_json::from_slice(&line)?;
    let count = if let Said::Bytes { count } = said { count } else { 0 };
    if count as u64 > LINE_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await?;
    Ok((said, bytes))
}
