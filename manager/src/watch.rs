//! Watching packets: from the rings of workers to a client that asked for a stream.
//!
//! Each client has a thread, which drains the rings that were made for it and writes. It is the least
//! important thread of the manager: where it gets no time, or its client reads too slowly, records are lost
//! and counted, and packets go on.
//!
//! - [`Session`]: what the control loop hands to that thread; `control/watchers.rs` makes it;
//! - [`capture`], [`trace`], [`observe`]: what becomes of records, a `Sink` each;
//! - [`fields`]: how a frame was rewritten; [`queue()`]: what comes beside packets;
//! - [`stream`]: what these have in common.

mod capture;
mod fields;
mod observe;
mod queue;
mod stream;
mod trace;

pub use capture::station;
pub use queue::{Listener, Teller, queue};
pub use stream::{Heard, Names, Session, Shared};
pub use trace::bytes as trace_bytes;

use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use headgate_api::request::{Answer, Request, RequestError, answer, write_line};
use headgate_api::watch::{End, EndReason, NICE, Said};
use headgate_path::trace::Record;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use stream::{Sink, Times, Told, say};

/// Time between two times that rings are drained. Our choice: what a person takes for at once, and some
/// hundred times a second cost a thread nothing.
const DRAIN_EVERY: Duration = Duration::from_millis(10);
/// Time after which a client that takes nothing has its stream ended. Our choice: longer than a pager that is
/// read, shorter than anybody waits for a program that hangs.
const SLOW_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that wait to be written at most; what comes beyond is drained later, or lost.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Serves a client that asked for a stream, to its end.
///
/// # Errors
/// The client's socket.
pub fn serve(client: &UnixStream, request: &Request, begun: Result<Session, RequestError>) -> io::Result<()> {
    let session = match begun {
        Ok(session) => session,
        Err(refusal) => return write_line(&mut &*client, &Answer::Err(refusal)),
    };
    write_line(&mut &*client, &answer(&()))?;
    client.set_write_timeout(Some(SLOW_PATIENCE))?;
    // Where it is refused it is as important as the others, and the budget holds all the same.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    let (sink, limit): (Box<dyn Sink>, Option<u64>) = match request {
        Request::Capture(wanted) => {
            (Box::new(capture::Capture::new(wanted, &session.stations)), wanted.milliseconds)
        }
        Request::Trace(wanted) => (Box::new(trace::Traces::new(wanted)), wanted.milliseconds),
        Request::Observe(wanted) => (Box::new(observe::Log::new(wanted)), wanted.milliseconds),
        _ => return Ok(()),
    };
    let until = limit.map(|milliseconds| Instant::now() + Duration::from_millis(milliseconds));
    let times = Times::new(session.clock);
    Drain { client, session, sink, until, times, waiting: Vec::new(), bytes: Vec::new(), records: Vec::new() }
        .run()
}

struct Drain<'a> {
    client: &'a UnixStream,
    session: Session,
    sink: Box<dyn Sink>,
    until: Option<Instant>,
    times: Times,
    /// Bytes that the client has not got yet.
    waiting: Vec<u8>,
    /// Frames of the records of one drain, and the records with their workers and where their frames are.
    bytes: Vec<u8>,
    records: Vec<(Record, u8, Range<usize>)>,
}

impl Drain<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut client = self.client;
        loop {
            let over = self.over();
            let (times, names) = (self.times.renewed(), self.session.shared.names());
            self.times = times;
            // What was recorded before the end belongs to the stream.
            let mut goes_on = self.drain(&times, &names);
            goes_on &= self.sink.tend(&times, &names, &self.session, &mut self.waiting);
            let reason = if goes_on { over } else { Some(EndReason::Count) };
            if let Some(reason) = reason {
                let missed = self.session.missed();
                let packets = self.sink.finish(&times, &names, missed, &mut self.waiting);
                say(&mut self.waiting, &Said::End(End { reason, packets, missed }));
                return client.write_all(&self.waiting);
            }
            client.write_all(&self.waiting)?;
            self.waiting.clear();
        }
    }

    /// Waits for the next time. Returns the reason for an end, if there is one.
    fn over(&self) -> Option<EndReason> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = left.map_or(DRAIN_EVERY, |left| left.min(DRAIN_EVERY));
        let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut polled = [PollFd::new(self.client, PollFlags::RDHUP)];
        let gone = poll(&mut polled, Some(&patience)).is_ok_and(|count| count > 0);
        match self.session.shared.over() {
            Some(reason) => Some(reason),
            None if gone => Some(EndReason::Closed),
            None => left.is_some_and(|left| left.is_zero()).then_some(EndReason::Time),
        }
    }

    /// Takes what is in the rings, in the order of its times. Returns false when no more is wanted.
    fn drain(&mut self, times: &Times, names: &Names) -> bool {
        self.bytes.clear();
        self.records.clear();
        for (worker, reader) in (0u8..).zip(&mut self.session.readers) {
            while self.bytes.len() < WAITING_BYTES_MAX {
                let start = self.bytes.len();
                let Some(record) = reader.take(&mut self.bytes) else { break };
                self.records.push((record, worker, start..self.bytes.len()));
            }
        }
        // Stable: records of one worker stay in their order.
        self.records.sort_by_key(|(record, _, _)| record.time);
        self.records.iter().all(|(record, worker, range)| {
            let told = Told { record, frame: &self.bytes[range.clone()], worker: *worker, times, names };
            self.sink.take(&told, &mut self.waiting)
        })
    }
}
