//! Engines that read and write: one trait, two ways. `uring.rs` where the kernel allows it, else
//! `threads.rs`. One suite, `conformance.rs`, holds both to the same behaviour.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::Rotation;
#[cfg(feature = "disk")]
use super::threads::Threads;
#[cfg(feature = "disk")]
use super::uring::Uring;

/// Called from another thread when a request is complete.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Something to do on a disk.
pub struct Request {
    /// Comes back with the answer.
    pub ticket: u64,
    pub action: Action,
    /// Bytes to write, or room for those that are read: as many as it is long.
    pub buffer: Vec<u8>,
}

pub enum Action {
    Read {
        file: Arc<File>,
        offset: u64,
    },
    /// Writes the bytes of the buffer in a range.
    Write {
        file: Arc<File>,
        offset: u64,
        range: std::ops::Range<usize>,
    },
    /// Cuts a file to `cut` bytes, removes another, and makes a third, which begins with `head`.
    Rotation {
        rotation: Rotation,
        cut: Option<(Arc<File>, u64)>,
    },
}

/// A request that is complete, and its result.
pub struct Finished {
    pub request: Request,
    pub result: io::Result<Outcome>,
}

/// Success of a request.
pub enum Outcome {
    /// Bytes read or written; fewer than asked for at a file's end, or when the disk took no more.
    Bytes(usize),
    File(File),
}

/// Reads and writes while the caller does something else. Everything is called by one thread.
pub trait Engine {
    /// Returns its name for messages.
    fn name(&self) -> &'static str;
    /// Takes a request. It need not begin before [`Engine::start`].
    fn submit(&mut self, request: Request);
    /// Begins everything submitted.
    fn start(&mut self);
    /// A request that is complete; the order is the disk's.
    fn take_finished(&mut self) -> Option<Finished>;
    /// Whether one is there. After a "no" the bell rings for the next.
    fn has_finished(&mut self) -> bool;
}

/// Choice of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring, or threads where the kernel refuses it.
    #[default]
    Best,
    /// Threads, whatever the kernel could.
    Threads,
}

/// Requests that may be under way at a time. A ring of the kernel's has at least so many places.
pub const REQUESTS_MAX: usize = 512;

/// Makes an engine.
#[cfg(feature = "disk")]
pub fn make(choice: EngineChoice, bell: &Bell) -> io::Result<Box<dyn Engine>> {
    if choice == EngineChoice::Best {
        // Containers and hardened kernels refuse with EPERM, old ones with ENOSYS or for want of an
        // operation: whatever the reason, threads do.
        if let Ok(uring) = Uring::new(bell) {
            return Ok(Box::new(uring));
        }
    }
    Ok(Box::new(Threads::new(bell, super::threads::WORKERS)?))
}

/// A write beyond the process's limit for files (RLIMIT_FSIZE) fails with EFBIG, and would kill it as well.
fn ignore_size_signal() {
    // SAFETY: only says that the signal is ignored; no handler runs.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Does the work of [`Action::Rotation`]. Blocks. A file whose head finds no room is not left behind.
pub fn rotate(rotation: &Rotation, cut: Option<&(Arc<File>, u64)>) -> io::Result<File> {
    if let Some((file, bytes)) = cut {
        // What is behind is half a record; a device cannot be cut and needs not.
        let _ = file.set_len(*bytes);
    }
    if let Some(old) = &rotation.remove {
        match std::fs::remove_file(old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    make_file(&rotation.make, &rotation.head)
}

/// Makes a file anew, with these first bytes. Blocks.
pub fn make_file(path: &Path, head: &[u8]) -> io::Result<File> {
    ignore_size_signal();
    let file = File::create(path)?;
    file.write_all_at(head, 0).inspect_err(|_| {
        // What matters is the error at hand; a device is left as it is.
        if file.metadata().is_ok_and(|about| about.is_file()) {
            let _ = std::fs::remove_file(path);
        }
    })?;
    Ok(file)
}
