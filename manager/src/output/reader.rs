//! Thread that reads what NFs write.
//!
//! It makes a pass every [`PASS_EVERY`] and takes at most so many bytes from each pipe, so that the NFs
//! together cost it a bounded part of a core. A pipe that an NF fills faster than that is full meanwhile, and
//! the NF's own write waits: until the next pass, and never for the log or for a client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headgate_session::inbox::Budget;
use headgate_units::{Instant, Span};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::kept::Kept;
use super::lines::Lines;
use crate::log::Log;

/// Time between two passes. Our choice: an NF that floods waits for as long, as for a page of its disk.
const PASS_EVERY: Duration = Duration::from_millis(10);
/// Bytes read from a pipe in one pass: what one holds (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;
/// Bytes read from all pipes in one pass. Our choice: 100 MB/s, some hundredths of a core.
const PASS_BYTES: usize = 1 << 20;
/// Bytes read from a pipe that is left: what is in it, if it was made as long as a user may
/// (/proc/sys/fs/pipe-max-size).
const LEFT_BYTES: usize = 1 << 20;
/// Lines of an instance in a second, on average. Our choice: ten times what a person can follow.
const LINES_PER_S: u64 = 100;
/// Bytes of those lines in a second, on average. Our choice: an NF fills no disk of 100 GiB in two weeks.
const BYTES_PER_S: u64 = 64 << 10;
/// Time whose lines may come at once. Our choice: a long help text, or a trace of a crash.
const BURST: Span = Span::from_secs(5);

/// Order to the thread.
#[derive(Debug)]
pub enum Order {
    /// A process writes to this pipe from now on.
    Open {
        /// Number of the pipe.
        number: u64,
        /// Our end; it does not wait.
        pipe: OwnedFd,
        /// Its NF.
        nf: String,
        /// Its instance.
        instance: String,
    },
    /// The process is gone: what is in its pipe is the last.
    Leave {
        /// Number of the pipe.
        number: u64,
    },
    /// All are gone, and so is this thread.
    End,
}

/// Descriptor that wakes the thread.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the thread read its orders.
    pub(super) fn ring(&self) {
        // A counter that is full has rung.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Starts the thread.
pub(super) fn start(
    bell: Arc<Bell>,
    kept: Arc<Kept>,
    log: Option<Log>,
) -> io::Result<(Sender<Order>, JoinHandle<()>)> {
    let (orders, incoming) = channel();
    let began = std::time::Instant::now();
    let reader =
        Reader { bell, orders: incoming, told: Told { kept, log }, sources: Vec::new(), began, first: 0 };
    let thread = thread::Builder::new().name("hg-output".to_owned()).spawn(move || reader.run())?;
    Ok((orders, thread))
}

/// Those who get the lines.
struct Told {
    kept: Arc<Kept>,
    log: Option<Log>,
}

impl Told {
    fn line(&self, instance: &str, text: String) {
        if let Some(log) = &self.log {
            log.line(format!("{instance} | {text}"));
        }
        self.kept.add(instance, text);
    }
}

/// Pipe of a process.
struct Source {
    number: u64,
    pipe: OwnedFd,
    instance: String,
    lines: Lines,
    budget: Budget,
    /// Lines left out since one was told.
    left_out: u64,
    /// Whether there may be more to come.
    is_open: bool,
}

impl Source {
    /// Reads at most so many bytes. Returns how many it were.
    fn read(&mut self, most: usize, buffer: &mut [u8], now: Instant, told: &Told) -> usize {
        let mut total = 0;
        while total < most {
            let room = buffer.len().min(most - total);
            match rustix::io::read(&self.pipe, &mut buffer[..room]) {
                Ok(0) => {
                    self.is_open = false;
                    break;
                }
                Ok(bytes) => {
                    total += bytes;
                    self.take(&buffer[..bytes], now, told);
                }
                Err(Errno::INTR) => {}
                // AGAIN: there is no more now.
                Err(_) => break,
            }
        }
        total
    }

    fn take(&mut self, bytes: &[u8], now: Instant, told: &Told) {
        let Self { lines, budget, left_out, instance, .. } = self;
        lines.push(bytes, |line| {
            if !budget.poll_at().is_due(now) {
                *left_out += 1;
                return;
            }
            tell_of_left_out(left_out, instance, told);
            budget.on_message(now, line.len());
            told.line(instance, line);
        });
    }

    /// Tells the last of it.
    fn end(mut self, buffer: &mut [u8], now: Instant, told: &Told) {
        if self.is_open {
            self.read(LEFT_BYTES, buffer, now, told);
        }
        let last = self.lines.end();
        tell_of_left_out(&mut self.left_out, &self.instance, told);
        if let Some(line) = last {
            told.line(&self.instance, line);
        }
    }
}

fn tell_of_left_out(left_out: &mut u64, instance: &str, told: &Told) {
    let count = std::mem::take(left_out);
    if count > 0 {
        let what = format!(
            "[{count} lines left out: more than {LINES_PER_S} lines or {} KiB in a second]",
            BYTES_PER_S >> 10
        );
        told.line(instance, what);
    }
}

struct Reader {
    bell: Arc<Bell>,
    orders: Receiver<Order>,
    told: Told,
    sources: Vec<Source>,
    began: std::time::Instant,
    /// Source that is read first, so that none is always last.
    first: usize,
}

impl Reader {
    fn run(mut self) {
        let mut buffer = vec![0; PIPE_BYTES];
        loop {
            self.wait();
            // Before the orders are read, so that one that comes later rings again.
            let _ = rustix::io::read(&self.bell.0, &mut [0; 8]);
            if !self.obey(&mut buffer) {
                break;
            }
            self.read_all(&mut buffer);
            thread::sleep(PASS_EVERY);
        }
        let now = self.now();
        for source in std::mem::take(&mut self.sources) {
            source.end(&mut buffer, now, &self.told);
        }
    }

    /// Waits for an order or for output, and so long that lines left out are told of soon.
    fn wait(&self) {
        let due =
            self.sources.iter().filter(|source| source.left_out > 0).map(|source| source.budget.poll_at());
        let patience = due.min().map(|due| Duration::from(due - self.now()));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let ears = self.sources.iter().map(|source| source.pipe.as_fd());
        let mut polled: Vec<PollFd<'_>> =
            [self.bell.0.as_fd()].into_iter().chain(ears).map(readable).collect();
        // An interrupted wait is a short one.
        let _ = poll(&mut polled, patience.as_ref());
    }

    /// Carries out orders. Returns false after the last one.
    fn obey(&mut self, buffer: &mut [u8]) -> bool {
        let now = self.now();
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Open { number, pipe, nf, instance } => {
                    self.told.kept.open(&nf, &instance);
                    self.sources.push(Source {
                        number,
                        pipe,
                        instance,
                        lines: Lines::default(),
                        budget: Budget::new(LINES_PER_S, BYTES_PER_S, BURST),
                        left_out: 0,
                        is_open: true,
                    });
                }
                Order::Leave { number } => {
                    if let Some(at) = self.sources.iter().position(|source| source.number == number) {
                        self.sources.swap_remove(at).end(buffer, now, &self.told);
                    }
                }
                Order::End => return false,
            }
        }
        true
    }

    fn read_all(&mut self, buffer: &mut [u8]) {
        let now = self.now();
        let count = self.sources.len();
        let mut rest = PASS_BYTES;
        for turn in 0..count {
            let source = &mut self.sources[(self.first + turn) % count];
            rest -= source.read(PIPE_BYTES.min(rest), buffer, now, &self.told);
            if source.left_out > 0 && source.budget.poll_at().is_due(now) {
                tell_of_left_out(&mut source.left_out, &source.instance, &self.told);
            }
        }
        self.first = self.first.wrapping_add(1) % count.max(1);
        // A process that closed its output is at its end; a pipe without writers is always readable.
        for at in (0..self.sources.len()).rev().filter(|&at| !self.sources[at].is_open).collect::<Vec<_>>() {
            self.sources.swap_remove(at).end(buffer, now, &self.told);
        }
    }

    fn now(&self) -> Instant {
        Instant(0) + Span::from(self.began.elapsed())
    }
}

fn readable(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
}
