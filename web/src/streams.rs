//! Streams of server-sent events: snapshots, and what happens.
//!
//! A reader that is too slow loses the oldest, and an event `lost` tells it how many. One that takes nothing
//! for a minute is disconnected.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{Stream, unfold};
use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::feed::{Feed, News, Numbered};
use crate::manager::Fresh;

/// Longest time without a word. Our choice: less than proxies wait, and than a connection may take.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Returns the stream of snapshots, which begins with this one.
pub fn snapshots(feed: &Feed, first: Arc<Fresh>, connection: Arc<Connection>) -> Response {
    let begin = VecDeque::from([snapshot(&first)]);
    respond(begin, feed.snapshots(), connection, snapshot)
}

/// Returns the stream of events, which begins behind the one of this number.
pub fn events(feed: &Feed, after: Option<u64>, connection: Arc<Connection>) -> Response {
    let (recent, more) = feed.events();
    let is_new = |number: u64| after.is_none_or(|after| number > after);
    let begin = recent.iter().filter(|(number, _)| is_new(*number)).map(event).collect();
    respond(begin, more, connection, event)
}

fn snapshot(fresh: &Arc<Fresh>) -> sse::Event {
    let json = fresh.json();
    let event = sse::Event::default().event("snapshot").id(fresh.snapshot.at_ns.to_string());
    event.data(String::from_utf8_lossy(&json))
}

fn event((number, event): &Numbered) -> sse::Event {
    document("event", event).id(number.to_string())
}

/// Returns an event of a name with a document.
pub fn document(name: &str, value: &impl Serialize) -> sse::Event {
    // Plain values with words for keys: they always can be written.
    sse::Event::default().event(name).data(serde_json::to_string(value).unwrap_or_default())
}

/// How many things a slow reader lost.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Lost {
    /// Number of snapshots or events.
    count: u64,
}

/// Where a stream is.
struct State<T> {
    begin: VecDeque<sse::Event>,
    more: Receiver<News<T>>,
    connection: Arc<Connection>,
    write: fn(&T) -> sse::Event,
}

impl<T: Clone> State<T> {
    /// Returns the next thing to send; `None` at the end.
    async fn next(&mut self) -> Option<sse::Event> {
        // Asked for more, so it took what came before.
        self.connection.extend();
        if let Some(first) = self.begin.pop_front() {
            return Some(first);
        }
        match timeout(SILENCE_MAX, self.more.recv()).await {
            Err(_) => Some(sse::Event::default().comment("still here")),
            Ok(Ok(Ok(news))) => Some((self.write)(&news)),
            Ok(Ok(Err(problem))) => Some(document("problem", &problem)),
            Ok(Err(RecvError::Lagged(count))) => Some(document("lost", &Lost { count })),
            Ok(Err(RecvError::Closed)) => None,
        }
    }
}

fn respond<T: Clone + Send + 'static>(
    begin: VecDeque<sse::Event>,
    more: Receiver<News<T>>,
    connection: Arc<Connection>,
    write: fn(&T) -> sse::Event,
) -> Response {
    Sse::new(stream(State { begin, more, connection, write })).into_response()
}

fn stream<T: Clone + Send + 'static>(
    state: State<T>,
) -> impl Stream<Item = Result<sse::Event, Infallible>> + Send {
    unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((Ok(next), state))
    })
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use headgate_api::event::{Event, EventCode};
    use headgate_api::status::{ManagerStatus, Snapshot};

    use super::*;
    use crate::problem::{Kind, Problem};

    fn of(pid: u32, times: impl IntoIterator<Item = u64>) -> News<Arc<Fresh>> {
        let event = |at_ns| Event::new(at_ns, EventCode::NfReady, "fw", format!("at {at_ns}"));
        let manager = ManagerStatus { pid, ..ManagerStatus::default() };
        let events = times.into_iter().map(event).collect();
        Ok(Arc::new(Fresh::new(Snapshot { events, manager, ..Snapshot::default() })))
    }

    /// Returns what a stream has for its reader once its feed has ended.
    fn text(feed: Feed, response: Response) -> String {
        drop(feed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let bytes = runtime.block_on(to_bytes(response.into_body(), usize::MAX)).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn numbers(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
    }

    #[test]
    fn each_event_is_told_once_and_from_a_number_on() {
        for (after, expected) in [(None, &["0", "1", "2", "3"][..]), (Some(0), &["1", "2", "3"])] {
            let feed = Feed::default();
            feed.pass_on(of(7, [1, 2]));
            let response = events(&feed, after, Arc::default());
            feed.pass_on(of(7, [1, 2, 3]));
            // Another manager, whose clock began anew.
            feed.pass_on(of(8, [1]));
            assert_eq!(numbers(&text(feed, response)), expected);
        }
    }

    #[test]
    fn a_slow_reader_is_told_how_many_it_lost() {
        let feed = Feed::default();
        let response = events(&feed, None, Arc::default());
        feed.pass_on(of(7, 1..=1000));
        let text = text(feed, response);
        assert!(text.starts_with("event: lost\ndata: {\"count\":744}\n\n"), "{}", &text[..200]);
        assert_eq!(text.matches("event: event").count(), 256);
        assert!(text.contains("\"what\":\"at 1000\""));
    }

    #[test]
    fn a_manager_that_is_silent_is_told_once() {
        let feed = Feed::default();
        let response = snapshots(&feed, of(7, []).unwrap(), Arc::default());
        for _ in 0..3 {
            feed.pass_on(Err(Problem::new(Kind::Silent, "manager edge", "no answer within 5 s")));
        }
        let text = text(feed, response);
        assert_eq!(text.matches("event: problem").count(), 1, "{text}");
        assert!(text.contains("manager-silent") && text.starts_with("event: snapshot\n"), "{text}");
    }
}
