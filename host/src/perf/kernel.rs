//! Costs of the kernel: a context switch and a system call, by scheduling policy.
//!
//! A token goes back and forth between two processes of one core over two pipes, each waiting for it: two
//! switches a round, and what the pipes cost by themselves is taken off (lmbench's `lat_ctx`, McVoy and
//! Staelin, USENIX 1996, with nothing in the caches to be lost). Both have address spaces of their own, as
//! NFs do. The fastest of several batches counts: whatever else runs on the core makes one slower and never
//! faster.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::cores::{self, CoresError};
use crate::sched::{self, Policy, SchedError};

/// Rounds of a batch. Our choice: about a millisecond, shorter than the tick of the kernel.
const ROUNDS: u32 = 300;
/// Calls of a batch.
const CALLS: u32 = 10_000;
/// Batches, of which the fastest counts.
const BATCHES: usize = 25;

/// Reason why it could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum KernelCostError {
    /// The core is not ours.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// The policy is not allowed.
    #[error(transparent)]
    Sched(#[from] SchedError),
    /// The kernel refused something else.
    #[error("{call}: {source}")]
    System {
        /// System call that failed.
        call: &'static str,
        /// Error from the kernel.
        source: io::Error,
    },
}

/// Costs of the kernel under one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelCosts {
    /// A switch from one process to another, in nanoseconds.
    pub switch_ns: f64,
    /// A system call that does next to nothing (`getppid`), in nanoseconds.
    pub call_ns: f64,
}

/// Measures on a core, under a policy. The calling thread keeps its own core and policy.
///
/// # Errors
/// [`KernelCostError`].
pub fn measure(core: u32, policy: Policy) -> Result<KernelCosts, KernelCostError> {
    let alone = move || {
        cores::pin_current_thread(core)?;
        sched::set(None, policy)?;
        Ok(KernelCosts { switch_ns: switch_ns()?, call_ns: call_ns() })
    };
    std::thread::scope(|scope| scope.spawn(alone).join().expect("measuring does not panic"))
}

fn call_ns() -> f64 {
    best(CALLS, || {
        // SAFETY: the call has no arguments and cannot fail. Through `syscall`, for libc may keep the answer.
        unsafe { libc::syscall(libc::SYS_getppid) };
    })
}

fn switch_ns() -> Result<f64, KernelCostError> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("pipe2", errno.into()));
    let (there, back) = (pipe()?, pipe()?);
    let alone = best(ROUNDS, || {
        pass(back.1.as_fd());
        take(back.0.as_fd());
    });
    let partner = Partner::start(&there, &back)?;
    let round = best(ROUNDS, || {
        pass(there.1.as_fd());
        take(back.0.as_fd());
    });
    drop(partner);
    // Two processes each write and read once a round.
    Ok(((round - 2.0 * alone) / 2.0).max(0.0))
}

/// Nanoseconds of one of so many, in the fastest batch.
fn best(each: u32, mut act: impl FnMut()) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        (0..each).for_each(|_| act());
        start.elapsed().as_nanos() as f64 / f64::from(each)
    };
    (0..BATCHES).map(batch).fold(f64::MAX, f64::min)
}

/// Writes one byte; returns whether it went. Makes no allocation and takes no lock, so that a forked child
/// may use it.
fn pass(to: BorrowedFd<'_>) -> bool {
    // SAFETY: one byte of a local is read.
    unsafe { libc::write(to.as_raw_fd(), (&raw const TOKEN).cast(), 1) == 1 }
}

fn take(from: BorrowedFd<'_>) -> bool {
    let mut token = 0u8;
    // SAFETY: one byte is written into a local.
    unsafe { libc::read(from.as_raw_fd(), (&raw mut token).cast(), 1) == 1 }
}

static TOKEN: u8 = 1;

/// The other process. It ends with us, or when it is dropped.
struct Partner(Pid);

impl Partner {
    fn start(there: &(OwnedFd, OwnedFd), back: &(OwnedFd, OwnedFd)) -> Result<Self, KernelCostError> {
        // SAFETY: the child only calls read, write, prctl and _exit until it ends, none of which needs a
        // lock that another thread may have held at this moment (fork(2), signal-safety(7)).
        match unsafe { libc::fork() } {
            -1 => Err(failed("fork", io::Error::last_os_error())),
            0 => {
                // SAFETY: both take plain numbers; the first makes the child end with the thread that
                // forked it, which waits for it anyway.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                while take(there.0.as_fd()) && pass(back.1.as_fd()) {}
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Self(Pid::from_raw(pid).expect("a child's id is above 0"))),
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.0), rustix::process::WaitOptions::empty());
    }
}

fn failed(call: &'static str, source: io::Error) -> KernelCostError {
    KernelCostError::System { call, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Policy = Policy::Normal { nice: 0, slice_ns: None };

    #[test]
    fn a_switch_costs_more_than_a_call_and_nothing_stays() {
        let core = *cores::allowed().unwrap().as_slice().last().unwrap();
        let before = cores::affinity(None).unwrap();
        let costs = measure(core, NORMAL).unwrap();
        assert!(costs.call_ns > 0.0 && costs.switch_ns > costs.call_ns, "{costs:?}");
        assert_eq!(cores::affinity(None).unwrap(), before);
    }

    #[test]
    fn a_core_that_is_not_there_is_refused() {
        let refused = measure(1023, NORMAL);
        assert!(matches!(refused, Err(KernelCostError::Cores(_))), "{refused:?}");
    }
}
