//! The engine over io_uring: no thread reads or writes for us, the kernel does.
//!
//! It tells of completions through an eventfd. A small thread waits there and rings the bell, because an
//! NF sleeps on the futex of its doorbell and can wait for one thing only; `docs/decisions` says why not
//! otherwise. The only code here that the compiler cannot check is handing the kernel a pointer into a
//! buffer: the buffer stays in `slots`, untouched, until the kernel has answered.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};

use super::engine::{Action, Bell, Engine, Finished, Outcome, REQUESTS_MAX, Request};
use super::threads::Threads;

pub struct Uring {
    ring: IoUring,
    /// Requests that the kernel works on; the index is the `user_data`.
    slots: Vec<Option<Request>>,
    free: Vec<usize>,
    finished: VecDeque<Finished>,
    is_submitted: bool,
    /// For what io_uring has no one operation. Made when it is needed first.
    clerk: Option<Threads>,
    bell: Bell,
    _ringer: Ringer,
}

impl Uring {
    /// # Errors
    /// When the kernel has no io_uring, allows none, or lacks an operation.
    pub fn new(bell: &Bell) -> io::Result<Self> {
        let ring = IoUring::new(REQUESTS_MAX as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE].iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ringer = Ringer::new(bell.clone())?;
        ring.submitter().register_eventfd(ringer.event.as_raw_fd())?;
        Ok(Self {
            ring,
            slots: (0..REQUESTS_MAX).map(|_| None).collect(),
            free: (0..REQUESTS_MAX).rev().collect(),
            finished: VecDeque::new(),
            is_submitted: false,
            clerk: None,
            bell: bell.clone(),
            _ringer: ringer,
        })
    }

    fn refuse(&mut self, request: Request, error: io::Error) {
        self.finished.push_back(Finished { request, result: Err(error) });
    }

    /// For requests that block; not many.
    fn hand_to_clerk(&mut self, request: Request) {
        let made = match self.clerk.take() {
            Some(clerk) => Ok(clerk),
            None => Threads::new(&self.bell, 1),
        };
        match made {
            Ok(clerk) => self.clerk.insert(clerk).submit(request),
            Err(error) => self.refuse(request, error),
        }
    }

    fn reap(&mut self) {
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            let Some(request) = self.slots.get_mut(slot).and_then(Option::take) else { continue };
            self.free.push(slot);
            let result = match entry.result() {
                error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
                bytes => Ok(Outcome::Bytes(bytes as usize)),
            };
            self.finished.push_back(Finished { request, result });
        }
        if let Some(clerk) = &mut self.clerk {
            self.finished.extend(std::iter::from_fn(|| clerk.take_finished()));
        }
    }
}

/// The request in the kernel's words.
fn entry(request: &mut Request, slot: usize) -> Option<squeue::Entry> {
    let entry = match &request.action {
        Action::Read { file, offset } => {
            let (start, length) = (request.buffer.as_mut_ptr(), request.buffer.len() as u32);
            opcode::Read::new(Fd(file.as_raw_fd()), start, length).offset(*offset).build()
        }
        Action::Write { file, offset, range } => {
            let bytes = &request.buffer[range.clone()];
            opcode::Write::new(Fd(file.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
                .offset(*offset)
                .build()
        }
        Action::Rotation { .. } => return None,
    };
    Some(entry.user_data(slot as u64))
}

impl Engine for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn submit(&mut self, mut request: Request) {
        let Some(slot) = self.free.pop() else {
            return self.refuse(request, io::ErrorKind::ResourceBusy.into());
        };
        let Some(entry) = entry(&mut request, slot) else {
            self.free.push(slot);
            return self.hand_to_clerk(request);
        };
        // SAFETY: the entry's pointer leads into the heap memory of `request.buffer`, which lies in its slot
        // and is neither touched nor freed before the kernel's completion; its file is open as long.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.free.push(slot);
            return self.refuse(request, io::ErrorKind::ResourceBusy.into());
        }
        self.slots[slot] = Some(request);
        self.is_submitted = true;
    }

    fn start(&mut self) {
        if self.is_submitted {
            // EINTR, or a kernel short of memory: what was submitted stays, and the next call tries again.
            self.is_submitted = self.ring.submit().is_err();
        }
        if let Some(clerk) = &mut self.clerk {
            clerk.start();
        }
    }

    fn take_finished(&mut self) -> Option<Finished> {
        if self.finished.is_empty() {
            self.reap();
        }
        self.finished.pop_front()
    }

    fn has_finished(&mut self) -> bool {
        if self.finished.is_empty() {
            self.reap();
        }
        !self.finished.is_empty()
    }
}

impl Drop for Uring {
    /// Never frees what the kernel still works on: it may write there until the process has ended.
    fn drop(&mut self) {
        self.slots.drain(..).flatten().for_each(std::mem::forget);
    }
}

/// The thread that waits for completions and rings.
struct Ringer {
    event: Arc<OwnedFd>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ringer {
    fn new(bell: Bell) -> io::Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let ended = Arc::new(AtomicBool::new(false));
        let (waits, is_ended) = (event.clone(), ended.clone());
        let thread = thread::Builder::new().name("disk bell".to_owned()).spawn(move || {
            let mut count = [0; 8];
            while !is_ended.load(Ordering::Acquire) {
                // An interrupted read is followed by an empty check, which harms nobody.
                let _ = rustix::io::read(&*waits, &mut count);
                bell();
            }
        })?;
        Ok(Self { event, ended, thread: Some(thread) })
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Can fail only on a counter that is full, and then the thread is awake.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It waits for nothing but the event; a panic of the bell has been printed.
            let _ = thread.join();
        }
    }
}
