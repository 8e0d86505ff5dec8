//! Requests to end: SIGINT, SIGTERM and SIGHUP become a number that can be waited for. Who has a file to read
//! again takes SIGHUP apart ([`Hangups`]).
//!
//! They are caught and not blocked: a blocked signal would stay blocked in every program we start,
//! a caught one is theirs again after `exec`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Number of requests to end. Written by the handler.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The descriptor the handler pokes; set before the handler is.
static POKED: AtomicI32 = AtomicI32::new(-1);
/// Whether SIGHUP is counted apart, and how often it came since. The handler reads the one and writes the
/// other.
static IS_APART: AtomicBool = AtomicBool::new(false);
static HANGUPS: AtomicU32 = AtomicU32::new(0);
/// Number of warnings that power will be lost (SIGPWR). Written by the handler.
static WARNINGS: AtomicU32 = AtomicU32::new(0);
/// The terminal of a process, if it has one (tty(4)).
const TERMINAL: &str = "/dev/tty";

const CAUGHT: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Reason why the signals cannot be caught.
#[derive(Debug, thiserror::Error)]
#[error("cannot catch signals: {call}: {source}")]
pub struct SignalsError {
    /// The system call.
    call: &'static str,
    /// Its error.
    source: io::Error,
}

/// The wish that this process should end. There is one in a process.
#[derive(Debug)]
pub struct Wish {
    poked: OwnedFd,
}

/// Catches the signals from now on. A signal that the process was started to ignore, as SIGHUP
/// under nohup(1), stays ignored.
pub fn catch() -> Result<&'static Wish, SignalsError> {
    static WISH: OnceLock<Wish> = OnceLock::new();
    if let Some(wish) = WISH.get() {
        return Ok(wish);
    }
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let poked = eventfd(0, flags).map_err(|errno| failed("eventfd", errno.into()))?;
    let wish = WISH.get_or_init(|| Wish { poked });
    POKED.store(wish.poked.as_raw_fd(), Ordering::SeqCst);
    for signal in CAUGHT {
        catch_one(signal)?;
    }
    Ok(wish)
}

impl Wish {
    /// Returns how often the process was asked to end so far.
    pub fn count(&self) -> u32 {
        ASKED.load(Ordering::SeqCst)
    }

    /// Waits until it was asked more than `known` times or `patience` is over; gives the number.
    pub fn wait(&self, known: u32, patience: Option<Duration>) -> u32 {
        if self.count() <= known {
            let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
            // However it returns, the number is what counts.
            let _ = poll(&mut [PollFd::new(&self.poked, PollFlags::IN)], timeout.as_ref());
        }
        let count = self.count();
        if count > known {
            // Emptied so that the next wait sleeps; the number was read before.
            let _ = rustix::io::read(&self.poked, &mut [0_u8; 8]);
        }
        count
    }
}

impl AsFd for Wish {
    /// Readable when a signal came since the last [`Wish::wait`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poked.as_fd()
    }
}

/// SIGHUP, counted apart from requests to end. It means two things: the terminal of a process is gone, or
/// somebody wants a file to be read again. One that had a terminal and has lost it is to end, no matter
/// who sent the signal: shells and sudo pass on to others what the kernel tells them alone.
#[derive(Debug)]
pub struct Hangups {
    taken: u32,
    had_terminal: bool,
}

impl Hangups {
    /// Counts SIGHUP apart from here on. For a process that catches signals already.
    #[must_use]
    pub fn take_apart() -> Self {
        IS_APART.store(true, Ordering::SeqCst);
        Self { taken: 0, had_terminal: has_terminal() }
    }

    /// Returns whether a signal said that the terminal is gone.
    #[must_use]
    pub fn are_of_terminal(&self) -> bool {
        self.had_terminal && HANGUPS.load(Ordering::SeqCst) > 0 && !has_terminal()
    }

    /// Returns whether a file is to be read again: once for all signals since the last call.
    pub fn take(&mut self) -> bool {
        let before = std::mem::replace(&mut self.taken, HANGUPS.load(Ordering::SeqCst));
        before != self.taken && !self.are_of_terminal()
    }
}

/// SIGPWR, which says that this machine will lose its power. It would end a process that does not catch it.
#[derive(Debug)]
pub struct PowerWarnings {
    taken: u32,
}

impl PowerWarnings {
    /// Catches it from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn catch() -> Result<Self, SignalsError> {
        catch_one(libc::SIGPWR)?;
        Ok(Self { taken: WARNINGS.load(Ordering::SeqCst) })
    }

    /// Returns whether it came: once for all signals since the last call.
    pub fn take(&mut self) -> bool {
        let before = std::mem::replace(&mut self.taken, WARNINGS.load(Ordering::SeqCst));
        before != self.taken
    }
}

/// Returns whether this process has a controlling terminal. Of one that is gone the kernel tells its whole
/// session.
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(TERMINAL, flags, Mode::empty());
    // After any other error it is there, and cannot be opened now.
    !matches!(opened, Err(Errno::NXIO | Errno::IO | Errno::NOENT | Errno::NODEV))
}

/// Ends the process at once: nothing is flushed, nothing is dropped, no other thread is waited for.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: `_exit` does not return and runs nothing of this process.
    unsafe { libc::_exit(code) }
}

extern "C" fn handle(signal: libc::c_int) {
    if signal == libc::SIGHUP && IS_APART.load(Ordering::SeqCst) {
        HANGUPS.fetch_add(1, Ordering::SeqCst);
        return;
    }
    if signal == libc::SIGPWR {
        WARNINGS.fetch_add(1, Ordering::SeqCst);
        return;
    }
    ASKED.fetch_add(1, Ordering::SeqCst);
    let one = 1_u64;
    // SAFETY: `write` is async-signal-safe; the descriptor is never closed, and the eight bytes
    // live through the call. `errno` belongs to the interrupted code and is put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(POKED.load(Ordering::SeqCst), (&raw const one).cast(), size_of::<u64>());
        *libc::__errno_location() = errno;
    }
}

fn catch_one(signal: libc::c_int) -> Result<(), SignalsError> {
    let refused = || failed("sigaction", io::Error::last_os_error());
    // SAFETY: `sigaction` is integers and a pointer-sized handler, for which zero is a value.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes `before`.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) } != 0 {
        return Err(refused());
    }
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // System calls of other code go on as if nothing had happened.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is complete and its handler does only what a handler may.
    match unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(refused()),
    }
}

fn failed(call: &'static str, source: io::Error) -> SignalsError {
    SignalsError { call, source }
}

/// Blocks all signals of this thread, and returns those that were blocked before.
pub(crate) fn block_all() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises `all`, and `pthread_sigmask` with a valid first argument
    // and set cannot fail and initialises `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Gives this thread back the signals that were blocked before.
pub(crate) fn restore(before: &libc::sigset_t) {
    // SAFETY: `before` is a valid set, and the third argument may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    #[test]
    fn a_warning_is_taken_once() {
        catch().unwrap();
        let mut warnings = PowerWarnings::catch().unwrap();
        assert!(!warnings.take());
        kill_process(getpid(), Signal::POWER).unwrap();
        let since = std::time::Instant::now();
        while !warnings.take() {
            assert!(since.elapsed().as_secs() < 10);
        }
        assert!(!warnings.take());
    }

    #[test]
    fn being_asked_is_counted_and_ends_a_wait() {
        let wish = catch().unwrap();
        let before = wish.count();
        assert_eq!(wish.wait(before, Some(Duration::ZERO)), before);
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(wish.wait(before, None), before + 1);
        // Not HUP or INT: under nohup(1), or in the background of a script, they are ignored.
        kill_process(getpid(), Signal::TERM).unwrap();
        assert_eq!(wish.wait(before + 1, None), before + 2);
        assert_eq!(wish.wait(before + 2, Some(Duration::ZERO)), before + 2);
    }
}
