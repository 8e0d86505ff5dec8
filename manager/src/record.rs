//! Records: inputs and actions of decisions, written to a file while the manager runs.
//!
//! A record is lines of JSON: a [`Header`], then [`Line`]s, then an [`End`]. Decisions put their steps into a
//! bounded queue (`Recorded`); a thread of its own writes them ([`Recording`]). Nobody waits for it: an
//! entry that finds no room is counted, and the count stands in the record at its place. A record has a
//! largest size, at which it ends.
//!
//! Who observes a manager gets the actions alone, as they come ([`Recorder::observe`]), recorded or not.
//!
//! Nothing of the packet path is recorded, and off, which is the default, recording is one branch for each
//! step of a decision.

mod observers;

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_decide::decision::Decision;
use headgate_decide::record::{End, Entry, FORMAT, Header, LastLine, Line, Step, StepOf};
use headgate_decide::units::Instant as Moment;
use serde::Serialize;

use crate::watch::Listener;
use observers::Observers;

/// Most entries between decisions and their writer. Our choice: what a hundred time slices a millisecond
/// bring in a tenth of a second, each with its sample and two actions.
const QUEUE: usize = 1 << 15;
/// Time between two passes of the writer. Our choice: a tenth of what fills it, and nothing to a core.
const WRITE_EVERY: Duration = Duration::from_millis(10);
/// Largest record, in bytes. Our choice: an hour of a busy machine without time slices, a minute of one with
/// them.
pub const BYTES_MAX: u64 = 1 << 30;

/// Returns the header of a record that this version writes of a configuration.
pub fn header(configuration: &impl Serialize) -> Header {
    Header {
        headgate_record: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        configuration: digest(configuration),
    }
}

/// Reason why a record cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is a file of this name, which a record does not overwrite.
    #[error("record {path}: there is such a file already; remove it, or name another one")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made or written.
    #[error("record {path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
}

/// Reason why nothing more is written to a record while the manager runs.
#[derive(Debug, thiserror::Error)]
pub enum RecordStop {
    /// It has its largest size.
    #[error("it has {} GiB, the most a record may have", BYTES_MAX >> 30)]
    Full,
    /// It cannot be written.
    #[error("it cannot be written: {0}")]
    Failed(#[from] io::Error),
}

/// Returns a name for a value: FNV-1a of 64 bits over its JSON. It tells configurations apart, and is no
/// proof against anybody who means to deceive.
fn digest(value: &impl Serialize) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let hash = bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("fnv1a64:{hash:016x}")
}

/// Sink of decisions' steps. A copy writes to the same record, and tells the same observers.
#[derive(Clone, Default)]
pub struct Recorder {
    queue: Option<Arc<Queue>>,
    observers: Arc<Observers>,
}

struct Queue {
    lines: SyncSender<Line>,
    /// Whether the record is still written.
    open: AtomicBool,
}

impl Recorder {
    /// Returns whether steps are written.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.observers.any() || self.queue.as_ref().is_some_and(|queue| queue.open.load(Ordering::Relaxed))
    }

    /// Begins to tell somebody what is done from now on.
    pub fn observe(&self) -> Listener<Line> {
        self.observers.begin()
    }

    /// Puts a line into the queue. Returns false when it found no room.
    fn put(&self, at: Moment, entry: Entry) -> bool {
        if self.observers.any() {
            self.observers.tell(at, &entry);
        }
        let Some(queue) = &self.queue else { return true };
        // Nobody misses a line that nobody reads any more.
        !matches!(queue.lines.try_send(Line { at, entry }), Err(TrySendError::Full(_)))
    }
}

/// Record that is being written. Dropping it writes what is in the queue, and its end.
pub struct Recording {
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
    stopped: Arc<Mutex<Option<RecordStop>>>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Begins a record in a new file.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn create(path: &Path, header: &Header) -> Result<Self, RecordError> {
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists { path: path.to_owned() },
            _ => RecordError::File { path: path.to_owned(), cause },
        };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        Self::start(Box::new(BufWriter::new(file)), header, BYTES_MAX).map_err(failed)
    }

    /// Begins a record of at most so many bytes.
    ///
    /// # Errors
    /// When its header cannot be written, or no thread can be started.
    pub fn start(mut to: Box<dyn Write + Send>, header: &Header, bytes_max: u64) -> io::Result<Self> {
        let first = json_line(header)?;
        to.write_all(&first)?;
        let (lines, queued) = sync_channel(QUEUE);
        let queue = Arc::new(Queue { lines, open: AtomicBool::new(true) });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::new(Mutex::new(None));
        let mut writer = Writer { to, left: bytes_max.saturating_sub(first.len() as u64) };
        let body = {
            let (queue, stop, stopped) = (queue.clone(), stop.clone(), stopped.clone());
            move || {
                let ended = writer.run(&queued, &stop);
                queue.open.store(false, Ordering::Relaxed);
                let why = match ended {
                    Ok(End::Closed) => return,
                    Ok(End::Full) => RecordStop::Full,
                    Err(error) => RecordStop::Failed(error),
                };
                *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        };
        let thread = std::thread::Builder::new().name("hg-record".to_owned()).spawn(body)?;
        Ok(Self { queue, stop, stopped, thread: Some(thread) })
    }

    /// Returns a recorder that writes to this record.
    pub fn recorder(&self) -> Recorder {
        Recorder { queue: Some(self.queue.clone()), observers: Arc::default() }
    }

    /// Returns the reason why nothing more is written, once.
    pub fn stopped(&self) -> Option<RecordStop> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes what is in the queue, and the end. Returns the reason why not all of it was written, unless it
    /// was returned before.
    pub fn finish(mut self) -> Option<RecordStop> {
        self.close();
        self.stopped()
    }

    fn close(&mut self) {
        self.queue.open.store(false, Ordering::Relaxed);
        self.stop.store(true, Ordering::Release); // S-release, with S-acquire
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed so.
            let _ = thread.join();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.close();
    }
}

/// State of the writing thread.
struct Writer {
    to: Box<dyn Write + Send>,
    /// Bytes until the record is full.
    left: u64,
}

impl Writer {
    fn run(&mut self, queued: &Receiver<Line>, stop: &AtomicBool) -> io::Result<End> {
        loop {
            // Steps that were put before the end was requested are written.
            let stops = stop.load(Ordering::Acquire); // S-acquire, with S-release
            if !self.write_queued(queued)? {
                return self.end(End::Full);
            }
            if stops {
                return self.end(End::Closed);
            }
            self.to.flush()?;
            std::thread::sleep(WRITE_EVERY);
        }
    }

    /// Writes what is in the queue. Returns false when the record is full.
    fn write_queued(&mut self, queued: &Receiver<Line>) -> io::Result<bool> {
        loop {
            match queued.try_recv() {
                Ok(line) => {
                    let line = json_line(&line)?;
                    let Some(left) = self.left.checked_sub(line.len() as u64) else { return Ok(false) };
                    self.to.write_all(&line)?;
                    self.left = left;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn end(&mut self, end: End) -> io::Result<End> {
        self.to.write_all(&json_line(&LastLine { end })?)?;
        self.to.flush()?;
        Ok(end)
    }
}

fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Decision whose steps are recorded, where a record is written.
pub(crate) struct Recorded<D: Decision> {
    decision: D,
    recorder: Recorder,
    /// Function that makes an entry of a step.
    entry: Box<dyn Fn(StepOf<D>) -> Entry + Send>,
    /// Number of entries that found no room since the last one that did.
    lost: u64,
}

impl<D: Decision> Recorded<D>
where
    D::Setup: Clone,
    D::Event: Clone,
    D::Action: Clone,
{
    /// Returns a decision to which nothing has happened.
    pub(crate) fn new(
        recorder: &Recorder,
        now: Moment,
        setup: D::Setup,
        entry: impl Fn(StepOf<D>) -> Entry + Send + 'static,
    ) -> Self {
        let begins = recorder.is_on().then(|| setup.clone());
        let mut new =
            Self { decision: D::new(setup), recorder: recorder.clone(), entry: Box::new(entry), lost: 0 };
        if let Some(setup) = begins {
            new.put(now, Step::Begins(setup));
        }
        new
    }

    /// Passes it an event.
    #[inline]
    pub(crate) fn on(&mut self, now: Moment, event: D::Event, actions: &mut Vec<D::Action>) {
        if !self.recorder.is_on() {
            return self.decision.on(now, event, actions);
        }
        let before = actions.len();
        self.put(now, Step::Saw(event.clone()));
        self.decision.on(now, event, actions);
        self.put_actions(now, &actions[before..]);
    }

    /// Polls it.
    #[inline]
    pub(crate) fn poll(&mut self, now: Moment, sample: &D::Sample, actions: &mut Vec<D::Action>) {
        if !self.recorder.is_on() {
            return self.decision.poll(now, sample, actions);
        }
        let before = actions.len();
        self.put(now, Step::Polled(sample.to_owned()));
        self.decision.poll(now, sample, actions);
        self.put_actions(now, &actions[before..]);
    }

    fn put_actions(&mut self, now: Moment, actions: &[D::Action]) {
        for action in actions {
            self.put(now, Step::Did(action.clone()));
        }
    }

    fn put(&mut self, now: Moment, step: StepOf<D>) {
        if self.lost > 0 && self.recorder.put(now, Entry::Lost(self.lost)) {
            self.lost = 0;
        }
        // A gap in the middle of a decision's steps stands before the next of them.
        if self.lost > 0 || !self.recorder.put(now, (self.entry)(step)) {
            self.lost += 1;
        }
    }
}

impl<D: Decision> Deref for Recorded<D> {
    type Target = D;
    fn deref(&self) -> &D {
        &self.decision
    }
}

/// Records in memory, for the tests of the parts that record.
#[cfg(test)]
pub mod memory {
    use super::*;
    use headgate_decide::record::Replay;

    /// A file in memory.
    #[derive(Clone, Default)]
    pub struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Memory {
        /// Begins a record in it.
        pub fn record(&self, header: &Header, bytes_max: u64) -> Recording {
            Recording::start(Box::new(self.clone()), header, bytes_max).unwrap()
        }

        /// Returns the lines of a record.
        pub fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
        }

        /// Returns the steps of a record that was closed, after they were replayed.
        pub fn replayed(&self) -> Vec<Line> {
            let lines = self.lines();
            assert_eq!(lines.last().unwrap(), r#"{"end":"closed"}"#);
            let steps = &lines[1..lines.len() - 1];
            let steps: Vec<Line> = steps.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            let mut replay = Replay::default();
            for line in steps.iter().cloned() {
                replay.on(line).unwrap();
            }
            steps
        }
    }
}

#[cfg(test)]
mod tests;
