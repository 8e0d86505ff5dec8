//! The engine that works everywhere: a few threads that read and write for the caller.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::engine::{self, Action, Bell, Engine, Finished, Outcome, Request};

/// Threads of the engine. Our choice: one flow's slow read does not delay the next three, and four stacks
/// cost nothing; a disk that profits from more is one for io_uring.
pub const WORKERS: usize = 4;

#[derive(Default)]
struct Shared {
    waiting: Mutex<VecDeque<Request>>,
    is_work: Condvar,
    finished: Mutex<VecDeque<Finished>>,
    /// Whether `finished` may hold something; saves the caller the lock.
    is_finished: AtomicBool,
    ended: AtomicBool,
}

/// The queues hold whole values at every moment, so a thread that panicked has spoilt none.
fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Threads {
    shared: Arc<Shared>,
    submitted: Vec<Request>,
    taken: VecDeque<Finished>,
}

impl Threads {
    pub fn new(bell: &Bell, workers: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        for _ in 0..workers {
            let (shared, bell) = (shared.clone(), bell.clone());
            thread::Builder::new().name("disk".to_owned()).spawn(move || work(&shared, &bell))?;
        }
        Ok(Self { shared, submitted: Vec::new(), taken: VecDeque::new() })
    }
}

impl Engine for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn submit(&mut self, request: Request) {
        self.submitted.push(request);
    }

    fn start(&mut self) {
        if !self.submitted.is_empty() {
            lock(&self.shared.waiting).extend(self.submitted.drain(..));
            self.shared.is_work.notify_all();
        }
    }

    fn take_finished(&mut self) -> Option<Finished> {
        if self.taken.is_empty() && self.shared.is_finished.load(Ordering::Acquire) {
            let mut finished = lock(&self.shared.finished);
            self.shared.is_finished.store(false, Ordering::Release);
            std::mem::swap(&mut self.taken, &mut finished);
        }
        self.taken.pop_front()
    }

    fn has_finished(&mut self) -> bool {
        !self.taken.is_empty() || self.shared.is_finished.load(Ordering::Acquire)
    }
}

impl Drop for Threads {
    /// Not joined: a thread whose disk never answers would keep the process alive.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        drop(lock(&self.shared.waiting));
        self.shared.is_work.notify_all();
    }
}

fn work(shared: &Shared, bell: &Bell) {
    loop {
        let mut waiting = lock(&shared.waiting);
        let mut request = loop {
            if shared.ended.load(Ordering::Acquire) {
                return;
            }
            match waiting.pop_front() {
                Some(request) => break request,
                None => waiting = shared.is_work.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(waiting);
        let result = perform(&mut request);
        let mut finished = lock(&shared.finished);
        finished.push_back(Finished { request, result });
        shared.is_finished.store(true, Ordering::Release);
        drop(finished);
        bell();
    }
}

fn perform(request: &mut Request) -> io::Result<Outcome> {
    match &request.action {
        Action::Read { file, offset } => file.read_at(&mut request.buffer, *offset).map(Outcome::Bytes),
        Action::Write { file, offset, range } => {
            file.write_at(&request.buffer[range.clone()], *offset).map(Outcome::Bytes)
        }
        Action::Rotation { rotation, cut } => engine::rotate(rotation, cut.as_ref()).map(Outcome::File),
    }
}
