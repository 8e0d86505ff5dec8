//! Output of NFs: what the processes that we start write to their standard output and standard error.
//!
//! Each process gets one pipe for both, so that its lines stay in order. A thread of its own reads the pipes
//! ([`reader`]), makes lines of the bytes ([`lines`]), keeps the last ones of each instance ([`kept`]), and
//! hands them to the log. The control loop only opens and leaves pipes, and never waits for any of this.
//!
//! An NF is untrusted: its lines are cut, its control characters replaced, and it may say so much in a
//! second; what is beyond that is read and left out, and one line says how much. See
//! docs/decisions/0036-output-of-nfs.md.

mod kept;
mod lines;
mod reader;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use rustix::pipe::{PipeFlags, pipe_with};

pub use kept::Kept;

use self::reader::{Bell, Order};
use crate::log::Log;

/// Way to the thread that reads pipes. Dropping it ends the thread, once it has read what is there.
pub struct Outputs {
    orders: Option<Sender<Order>>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
    next: u64,
}

/// Output of one process. Dropping it closes the pipe, once what is in it was read: processes that were left
/// behind write to nobody then.
#[derive(Debug)]
pub struct Tap {
    number: u64,
    orders: Sender<Order>,
    bell: Arc<Bell>,
}

impl Outputs {
    /// Starts the thread, on the cores of the calling one. Lines go to `kept` and, if there is one, to a log.
    ///
    /// # Errors
    /// The kernel's, when it gives no thread or descriptor.
    pub fn start(kept: Arc<Kept>, log: Option<Log>) -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let (orders, thread) = reader::start(bell.clone(), kept, log)?;
        Ok(Self { orders: Some(orders), bell, thread: Some(thread), next: 0 })
    }

    /// Opens a pipe for a process of an instance. Returns the end that the process writes to.
    ///
    /// # Errors
    /// The kernel's, when it gives no descriptors.
    pub fn open(&mut self, nf: &str, instance: &str) -> io::Result<(Tap, OwnedFd)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let Some(orders) = self.orders.clone() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let number = self.next;
        self.next += 1;
        let open = Order::Open { number, pipe: ours, nf: nf.to_owned(), instance: instance.to_owned() };
        // A thread that has ended read nothing to its end: the process is told by its pipe.
        let _ = orders.send(open);
        self.bell.ring();
        Ok((Tap { number, orders, bell: self.bell.clone() }, theirs))
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if let Some(orders) = self.orders.take() {
            let _ = orders.send(Order::End);
        }
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // It ends by itself: it waits for nothing any more.
            let _ = thread.join();
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // A thread that has ended has closed it.
        let _ = self.orders.send(Order::Leave { number: self.number });
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests;
