//! Log: lines for people on a stream that may be full, slow or gone.
//!
//! A terminal that is stopped, a pipe that nobody reads and a full disk must stop neither the manager nor its
//! NFs. So other threads hand over their lines and go on; one thread writes. Lines for which there is no
//! room are counted, and the first line that can be written again is preceded by how many are missing and
//! why. The manager makes events of both (`Log::news`).
//!
//! Where standard error goes to the journal of systemd, events are entries with fields of their own in place
//! of lines; one that the journal does not take is a line.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use headgate_host::journal::Journal;
use headgate_units::text::harmless;

use crate::status::{Event, Severity};

/// Lines that may wait for the stream. Our choice: more than a start says; each is at most a kilobyte or so.
const WAITING_MAX: usize = 4096;
/// Time between two attempts on a stream that took nothing. Our choice: nobody waits for it.
const TRY_AGAIN_EVERY: Duration = Duration::from_secs(1);
/// Reason for lines that found no room before the stream.
const TOO_SLOW: &str = "it takes lines more slowly than they come";

/// Change in whether a log can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogNews {
    /// It cannot, for this reason.
    Stopped(String),
    /// It can again, and so many lines are missing.
    Resumed(u64),
}

/// Way to a log. Clones lead to the same one.
#[derive(Clone, Debug)]
pub struct Log {
    orders: SyncSender<Order>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
enum Order {
    Line(String),
    /// An event, and its line.
    Event(Box<Event>, String),
    Flush(Sender<()>),
}

/// State that both sides share. Held for a few instructions only.
#[derive(Debug, Default)]
struct Shared {
    /// Lines that were not written since one was.
    missing: u64,
    /// Reason of the last of them.
    why: String,
    /// Whether the reason was told.
    is_told: bool,
    /// Number of lines missed before the stream took some again, until that is told.
    resumed: Option<u64>,
}

impl Shared {
    fn miss(&mut self, why: &str) {
        self.missing += 1;
        if self.why != why {
            why.clone_into(&mut self.why);
        }
    }
}

impl Log {
    /// Returns a log on standard error.
    ///
    /// # Errors
    /// The kernel's, when it gives no thread.
    pub fn to_stderr() -> io::Result<Self> {
        Self::start(io::stderr(), Journal::of_stderr())
    }

    /// Returns a log on a stream.
    ///
    /// # Errors
    /// The kernel's, when it gives no thread.
    pub fn to(stream: impl Write + Send + 'static) -> io::Result<Self> {
        Self::start(stream, None)
    }

    fn start(stream: impl Write + Send + 'static, journal: Option<Journal>) -> io::Result<Self> {
        let (orders, incoming) = sync_channel(WAITING_MAX);
        let shared = Arc::<Mutex<Shared>>::default();
        let writer = Writer { stream, journal, shared: shared.clone(), is_torn: false };
        thread::Builder::new().name("hg-log".to_owned()).spawn(move || writer.run(&incoming))?;
        Ok(Self { orders, shared })
    }

    /// Adds a line. Never waits.
    pub fn line(&self, line: String) {
        self.put(Order::Line(line));
    }

    /// Adds an event, which is this line where there are only lines. Never waits.
    pub fn event(&self, event: &Event, line: String) {
        self.put(Order::Event(Box::new(event.clone()), line));
    }

    fn put(&self, order: Order) {
        if let Err(TrySendError::Full(_)) = self.orders.try_send(order) {
            locked(&self.shared).miss(TOO_SLOW);
        }
    }

    /// Waits until what was said is written, or was tried to be, at most this long.
    pub fn flush(&self, patience: Duration) {
        let (done, wait) = channel();
        // One that is full is not written to, so nothing is gained by waiting.
        if self.orders.try_send(Order::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(patience);
        }
    }

    /// Returns what changed since the last call: first that it stopped, later that it goes on.
    pub(crate) fn news(&self) -> Option<LogNews> {
        let mut shared = locked(&self.shared);
        if shared.missing > 0 && !shared.is_told {
            shared.is_told = true;
            return Some(LogNews::Stopped(shared.why.clone()));
        }
        shared.resumed.take().map(LogNews::Resumed)
    }
}

struct Writer<W> {
    stream: W,
    journal: Option<Journal>,
    shared: Arc<Mutex<Shared>>,
    /// Whether the last line was written in part.
    is_torn: bool,
}

impl<W: Write> Writer<W> {
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.recv_timeout(TRY_AGAIN_EVERY) {
                Ok(Order::Line(line)) => {
                    self.make_up();
                    self.line(&line);
                }
                Ok(Order::Event(event, line)) => {
                    self.make_up();
                    if !self.journal.as_ref().is_some_and(|journal| enter(journal, &event)) {
                        self.line(&line);
                    }
                }
                Ok(Order::Flush(done)) => {
                    self.make_up();
                    // The thread that asked may have gone on.
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.make_up(),
                Err(RecvTimeoutError::Disconnected) => return self.make_up(),
            }
        }
    }

    /// Writes how many lines are missing, if some are and it can be written.
    fn make_up(&mut self) {
        let (missing, why) = {
            let shared = locked(&self.shared);
            (shared.missing, shared.why.clone())
        };
        if missing == 0 {
            return;
        }
        let apology = format!("headgate: {missing} lines of the log are missing here: {why}");
        if self.write(&apology).is_ok() {
            let mut shared = locked(&self.shared);
            // Others may have been missed meanwhile.
            shared.missing -= missing;
            if std::mem::take(&mut shared.is_told) {
                shared.resumed = Some(missing);
            }
        }
    }

    fn line(&mut self, line: &str) {
        if let Err(error) = self.write(line) {
            locked(&self.shared).miss(&error.to_string());
        }
    }

    /// Writes a line, on a line of its own.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let begin = if self.is_torn { "\n" } else { "" };
        let whole = format!("{begin}{line}\n");
        let mut rest = whole.as_bytes();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Makes an entry of an event. Returns false when the journal does not take it.
fn enter(journal: &Journal, event: &Event) -> bool {
    // Levels of syslog(3).
    let priority = match event.severity {
        Severity::Info => "6",
        Severity::Warning => "4",
        Severity::Error => "3",
    };
    let code = serde_json::to_value(event.code).unwrap_or_default();
    let fields = [
        ("MESSAGE", &*harmless(&format!("{}: {}", event.who, event.what))),
        ("PRIORITY", priority),
        ("SYSLOG_IDENTIFIER", "headgate-manager"),
        ("HEADGATE_CODE", code.as_str().unwrap_or_default()),
        ("HEADGATE_WHO", &*event.who),
        ("HEADGATE_AT_NS", &*event.at_ns.to_string()),
    ];
    journal.send(&fields).is_ok()
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing in there is half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Stream with room for so many bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn with_room(bytes: usize) -> Self {
            Self(Arc::new(Mutex::new((Vec::new(), bytes))))
        }

        fn free(&self) {
            self.0.lock().unwrap().1 = usize::MAX;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().0.clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (text, room) = &mut *self.0.lock().unwrap();
            let taken = bytes.len().min(room.saturating_sub(text.len()));
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            text.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
        let began = std::time::Instant::now();
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "nothing came");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_full_disk_is_told_once_and_what_is_missing_is_counted() {
        let disk = Disk::with_room(8);
        let log = Log::to(disk.clone()).unwrap();
        for line in ["one", "two three", "four"] {
            log.line(line.to_owned());
        }
        log.flush(PATIENCE);
        assert!(matches!(log.news(), Some(LogNews::Stopped(why)) if why.contains("storage")));
        log.line("five".to_owned());
        log.flush(PATIENCE);
        assert_eq!(log.news(), None, "it was told");
        disk.free();
        log.line("six".to_owned());
        assert_eq!(until(|| log.news()), LogNews::Resumed(3));
        log.flush(PATIENCE);
        let text = disk.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[1], lines.last()), ("one", "two ", Some(&"six")), "{text}");
        assert!(lines[2].contains("3 lines of the log are missing here: "), "{text}");
    }

    #[test]
    fn an_event_is_an_entry_of_the_journal_and_a_line_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let disk = Disk::with_room(usize::MAX);
        let log = Log::start(disk.clone(), Some(Journal::at(&path).unwrap())).unwrap();
        let event = Event::new(7, crate::status::EventCode::NfFailed, "fw", "it ended\x1b[31m".to_owned());
        log.line("a line".to_owned());
        log.event(&event, "headgate: as a line".to_owned());
        log.flush(PATIENCE);
        let mut bytes = [0; 512];
        let count = listener.recv(&mut bytes).unwrap();
        let entry = String::from_utf8_lossy(&bytes[..count]);
        let fields: Vec<&str> = entry.lines().collect();
        assert_eq!(fields[0], "MESSAGE=fw: it ended\u{fffd}[31m");
        for field in ["PRIORITY=3", "HEADGATE_CODE=nf-failed", "HEADGATE_WHO=fw", "HEADGATE_AT_NS=7"] {
            assert!(fields.contains(&field), "{field}: {entry}");
        }
        assert_eq!(disk.text(), "a line\n");
        // The journal ends: nothing is missing.
        drop(listener);
        log.event(&event, "headgate: as a line".to_owned());
        log.flush(PATIENCE);
        assert_eq!((disk.text().as_str(), log.news()), ("a line\nheadgate: as a line\n", None));
    }

    /// Stream that takes nothing until it may.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_that_nobody_reads_stops_nobody() {
        let (go, stuck) = channel();
        let log = Log::to(Stuck(stuck)).unwrap();
        for number in 0..2 * WAITING_MAX {
            log.line(number.to_string());
        }
        assert_eq!(log.news(), Some(LogNews::Stopped(TOO_SLOW.to_owned())));
        drop(go);
        let LogNews::Resumed(missing) = until(|| log.news()) else { panic!("told twice") };
        assert!((1..=WAITING_MAX as u64).contains(&missing), "{missing}");
    }
}
