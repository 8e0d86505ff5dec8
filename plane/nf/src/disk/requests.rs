//! Everything a process of NFs has asked of its disk: logs, reads, packets on hold.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use headgate_shm::descriptor::Descriptor;

use super::buffers::Buffers;
#[cfg(feature = "disk")]
use super::engine;
use super::engine::{Action, Bell, Engine, EngineChoice, Finished, Outcome, REQUESTS_MAX, Request};
use super::hold::{Hold, Line};
use super::{
    DiskError, LogFullError, LogSettings, READ_BYTES_MAX, ReadRequestError, Rotation, RotationPendingError,
    WriteDone,
};
use crate::burst::{BURST_MAX, Burst};

/// Logs of a process. Our choice: far more than one writes, and a bound on memory.
const LOGS_MAX: usize = 16;
/// Reads under way at a time: what an engine takes, less one request of each log.
const READS_MAX: usize = REQUESTS_MAX - LOGS_MAX;

/// Event that the NFs are told of.
pub enum Event {
    Read { owner: u32, word: u64, result: io::Result<usize>, buffer: Vec<u8> },
    Written { owner: u32, log: usize, done: WriteDone },
}

/// The reads of a ticket are below this, its logs from here on.
const FIRST_LOG: u64 = 1 << 32;

struct Log {
    owner: u32,
    buffers: Buffers,
}

/// A read under way.
#[derive(Clone, Copy)]
struct Read {
    owner: u32,
    word: u64,
}

pub struct Requests {
    /// None where arguments are only checked: then no file is touched.
    engine: Option<Box<dyn Engine>>,
    logs: Vec<Log>,
    reads: Vec<Option<Read>>,
    reads_free: Vec<usize>,
    /// Memory of earlier reads.
    buffers: Vec<Vec<u8>>,
    hold: Hold,
    /// Packets of the burst at hand that are to be held: their buffers, owners and words.
    asked: Vec<(u32, u32, u64)>,
    events: VecDeque<Event>,
    done: Vec<WriteDone>,
    /// NFs that use the disk.
    owners: usize,
    now: Duration,
}

impl Requests {
    /// For an NF that may have `window` packets in its hands.
    pub fn new(engine: Option<Box<dyn Engine>>, window: usize) -> Self {
        Self {
            engine,
            logs: Vec::new(),
            reads: vec![None; READS_MAX],
            reads_free: (0..READS_MAX).rev().collect(),
            buffers: Vec::new(),
            hold: Hold::new(window + BURST_MAX),
            asked: Vec::with_capacity(BURST_MAX),
            events: VecDeque::new(),
            done: Vec::new(),
            owners: 0,
            now: Duration::ZERO,
        }
    }

    pub const fn is_rehearsal(&self) -> bool {
        self.engine.is_none()
    }

    pub fn engine_name(&self) -> &'static str {
        self.engine.as_ref().map_or("none", |engine| engine.name())
    }

    pub const fn add_owner(&mut self) {
        self.owners += 1;
    }

    /// A log into a file that is made anew and begins with `head`.
    pub fn add_log(
        &mut self,
        owner: u32,
        path: &Path,
        head: &[u8],
        settings: LogSettings,
    ) -> Result<usize, DiskError> {
        if self.logs.len() == LOGS_MAX {
            return Err(DiskError::TooManyLogs);
        }
        // Where nothing is written, nothing is to be made either.
        let path = if self.is_rehearsal() { Path::new("/dev/null") } else { path };
        let file = super::make_file(path, head)?;
        self.logs.push(Log { owner, buffers: Buffers::new(file, head.len() as u64, settings) });
        Ok(self.logs.len() - 1)
    }

    pub fn append(
        &mut self,
        log: usize,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, LogFullError> {
        if self.logs[log].buffers.is_full_for(bytes) {
            self.hand_over(log);
        }
        self.logs[log].buffers.append(self.now, bytes, fill)
    }

    pub fn rotate(&mut self, log: usize, rotation: Rotation) -> Result<(), RotationPendingError> {
        self.logs[log].buffers.rotate(rotation)
    }

    pub fn flush(&mut self, log: usize) {
        self.logs[log].buffers.flush();
    }

    fn hand_over(&mut self, log: usize) {
        let next = self.logs[log].buffers.hand_over(&mut self.done);
        self.follow(log, next);
    }

    /// Tells what became of records, and asks for what comes next.
    fn follow(&mut self, log: usize, next: Option<(Action, Vec<u8>)>) {
        let owner = self.logs[log].owner;
        self.events.extend(self.done.drain(..).map(|done| Event::Written { owner, log, done }));
        if let (Some((action, buffer)), Some(engine)) = (next, &mut self.engine) {
            engine.submit(Request { ticket: FIRST_LOG + log as u64, action, buffer });
        }
    }

    pub fn read(
        &mut self,
        owner: u32,
        file: &Arc<File>,
        offset: u64,
        bytes: usize,
        word: u64,
    ) -> Result<(), ReadRequestError> {
        if bytes > READ_BYTES_MAX {
            return Err(ReadRequestError::TooLong { bytes });
        }
        let Some(engine) = &mut self.engine else { return Err(ReadRequestError::TooMany) };
        let Some(slot) = self.reads_free.pop() else { return Err(ReadRequestError::TooMany) };
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(bytes, 0);
        self.reads[slot] = Some(Read { owner, word });
        self.hold.begin((owner, word));
        let action = Action::Read { file: file.clone(), offset };
        engine.submit(Request { ticket: slot as u64, action, buffer });
        Ok(())
    }

    pub fn is_waiting(&self, owner: u32, word: u64) -> bool {
        self.hold.is_waiting((owner, word))
    }

    /// Notes that a packet of the burst at hand is to be held. False when nothing is read under the word.
    pub fn ask_to_hold(&mut self, packet: Descriptor, owner: u32, word: u64) -> bool {
        let may = self.is_waiting(owner, word);
        if may {
            self.asked.push((packet.index(), owner, word));
        }
        may
    }

    /// Takes the packets out of a burst that are to be held.
    pub fn absorb(&mut self, burst: &mut Burst) {
        self.absorb_some(burst);
        self.asked.clear();
    }

    /// The same where there are packets to be held in another burst as well.
    pub fn absorb_some(&mut self, burst: &mut Burst) {
        if self.asked.is_empty() {
            return;
        }
        let (asked, hold) = (&self.asked, &mut self.hold);
        burst.take_held(|packet, received| {
            // The last wish counts, as with verdicts.
            let wish = asked.iter().rev().find(|(index, ..)| *index == packet.index());
            wish.is_some_and(|(_, owner, word)| hold.put((*owner, *word), packet, received))
        });
    }

    /// Packets on hold.
    pub fn held(&self) -> usize {
        self.hold.len()
    }

    /// Whether the NFs can work on a whole burst without finding a buffer full.
    pub fn has_room(&self) -> bool {
        self.hold.room() >= BURST_MAX
            && self.reads_free.len() >= (BURST_MAX * self.owners).min(READS_MAX)
            && self.logs.iter().all(|log| log.buffers.has_room())
    }

    /// Takes in what is complete, writes what is due, begins what was asked for.
    pub fn poll(&mut self, now: Duration) {
        self.now = now;
        while let Some(finished) = self.engine.as_mut().and_then(|engine| engine.take_finished()) {
            self.on_finished(finished);
        }
        for log in 0..self.logs.len() {
            if self.logs[log].buffers.is_due(now) {
                self.hand_over(log);
            }
        }
        self.start();
    }

    /// Begins what was asked for.
    pub fn start(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.start();
        }
    }

    fn on_finished(&mut self, Finished { request, result }: Finished) {
        let Request { ticket, action, buffer } = request;
        if let Some(log) = ticket.checked_sub(FIRST_LOG) {
            let log = log as usize;
            let next = self.logs[log].buffers.on_finished(buffer, result, &mut self.done);
            return self.follow(log, next);
        }
        let slot = ticket as usize;
        if let (Err(error), Some(engine), Some(_)) = (&result, &mut self.engine, self.reads[slot])
            && error.kind() == io::ErrorKind::Interrupted
        {
            return engine.submit(Request { ticket, action, buffer });
        }
        self.reads_free.push(slot);
        // One that was given up has been told of already.
        let Some(Read { owner, word }) = self.reads[slot].take() else { return };
        let result = result.map(|outcome| match outcome {
            Outcome::Bytes(bytes) => bytes,
            Outcome::File(_) => 0,
        });
        self.events.push_back(Event::Read { owner, word, result, buffer });
    }

    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there is something to tell, or will be at the next [`Requests::poll`]. After a "no" the bell
    /// rings when there is.
    pub fn has_news(&mut self) -> bool {
        !self.events.is_empty() || self.engine.as_mut().is_some_and(|engine| engine.has_finished())
    }

    /// Returns the time at which a log is to be flushed next.
    pub fn next_due(&self) -> Option<Duration> {
        self.logs.iter().filter_map(|log| log.buffers.flush_due()).min()
    }

    /// The NF was told of a read; the packets that waited for it may go, if it was the last.
    pub fn end_read(&mut self, owner: u32, word: u64) -> Option<Line> {
        self.hold.end((owner, word))
    }

    /// Fills a burst with the next packets of a line. False when there are none left.
    pub fn release(&mut self, line: &mut Line, burst: &mut Burst) -> bool {
        burst.refill(std::iter::from_fn(|| self.hold.take(line))) > 0
    }

    /// Takes a read's memory back, for the next.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BURST_MAX {
            self.buffers.push(buffer);
        }
    }

    /// Writes everything now, as fast as the disk can.
    pub fn flush_all(&mut self) {
        self.logs.iter_mut().for_each(|log| log.buffers.flush());
    }

    /// Whether records are not yet in their files.
    pub fn is_writing(&self) -> bool {
        self.logs.iter().any(|log| log.buffers.is_busy())
    }

    /// Whether the disk is at work on a log.
    pub fn is_under_way(&self) -> bool {
        self.logs.iter().any(|log| log.buffers.is_under_way())
    }

    /// Reads that are under way fail, so that nothing waits for them.
    pub fn give_up_reads(&mut self) {
        for read in self.reads.iter_mut().filter_map(Option::take) {
            let result = Err(io::ErrorKind::TimedOut.into());
            self.events.push_back(Event::Read {
                owner: read.owner,
                word: read.word,
                result,
                buffer: Vec::new(),
            });
        }
    }

    /// Gives logs up; records that are not written are lost.
    pub fn give_up_logs(&mut self) {
        for log in 0..self.logs.len() {
            self.logs[log].buffers.give_up(&mut self.done);
            self.follow(log, None);
        }
    }

    /// The end: files are left with whole records.
    pub fn close(&mut self) {
        self.logs.iter_mut().for_each(|log| log.buffers.close());
    }
}

/// Access of a process to its disk.
pub(crate) struct DiskAccess {
    /// Bell that tells the burst loop that a request is complete; none where no request is ever made.
    pub(crate) bell: Option<Bell>,
    pub(crate) choice: EngineChoice,
    /// Whether the NFs live in a thread that must not wait for files.
    refused: Cell<bool>,
    /// Made when an NF asks for it.
    pub(crate) requests: OnceCell<Rc<RefCell<Requests>>>,
}

impl DiskAccess {
    pub(crate) const fn new(bell: Option<Bell>, choice: EngineChoice) -> Self {
        Self { bell, choice, refused: Cell::new(false), requests: OnceCell::new() }
    }

    /// Lets no NF have files.
    pub(crate) fn refuse(&self) {
        self.refused.set(true);
    }

    #[cfg(feature = "disk")]
    pub(crate) fn requests(&self, window: usize) -> Result<Rc<RefCell<Requests>>, DiskError> {
        if self.refused.get() {
            return Err(DiskError::Resident);
        }
        if let Some(requests) = self.requests.get() {
            return Ok(requests.clone());
        }
        let made = self.bell.as_ref().map(|bell| engine::make(self.choice, bell));
        let made = made.transpose().map_err(DiskError::NoEngine)?;
        Ok(self.requests.get_or_init(|| Rc::new(RefCell::new(Requests::new(made, window)))).clone())
    }
}
