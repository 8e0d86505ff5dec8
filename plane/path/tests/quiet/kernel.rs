//! Counts system calls of a piece of work: the kernel turns each into a signal while a byte says so
//! (Documentation/admin-guide/syscall-user-dispatch.rst).

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

/// Constants of `<linux/prctl.h>`; the `libc` crate has them for other targets only.
const PR_SET_SYSCALL_USER_DISPATCH: libc::c_int = 59;
const OFF: libc::c_ulong = 0;
const ON: libc::c_ulong = 1;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;
/// Bytes of the instruction `syscall`.
const SYSCALL_BYTES: i64 = 2;

thread_local! {
    static SELECTOR: AtomicU8 = const { AtomicU8::new(ALLOW) };
    static FIRST: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Watch over this thread's system calls, while it lives.
pub struct SystemCalls(());

impl SystemCalls {
    /// Starts the watch.
    ///
    /// # Errors
    /// The kernel's, when it is too old or forbids it.
    pub fn watch() -> io::Result<Self> {
        // SAFETY: zeroes are a valid `sigaction`: no flags, nothing masked.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_flags = libc::SA_SIGINFO;
        action.sa_sigaction = on_system_call as *const () as usize;
        // SAFETY: the handler touches nothing but this thread's cells and its own arguments.
        if unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        SELECTOR.with(|selector| dispatch(ON, selector.as_ptr()))?;
        Ok(Self(()))
    }

    /// Returns the number of the first system call of `work`, which it then makes; `None` when there is none.
    pub fn first_of(&self, work: impl FnOnce()) -> Option<i64> {
        FIRST.set(None);
        SELECTOR.with(|selector| selector.store(BLOCK, Ordering::Relaxed));
        work();
        SELECTOR.with(|selector| selector.store(ALLOW, Ordering::Relaxed));
        FIRST.get()
    }
}

impl Drop for SystemCalls {
    /// The kernel must not read the byte when the thread's memory is gone.
    fn drop(&mut self) {
        dispatch(OFF, std::ptr::null_mut()).expect("what was switched on can be switched off");
    }
}

fn dispatch(mode: libc::c_ulong, selector: *mut u8) -> io::Result<()> {
    const NO_RANGE: libc::c_ulong = 0;
    // SAFETY: the byte outlives the dispatch, because `drop` ends it on the same thread.
    let result = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, NO_RANGE, NO_RANGE, selector) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Notes the call and has it made after all. Returning from a handler is a system call too, so from here
/// on all are allowed until the next piece of work.
extern "C" fn on_system_call(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SELECTOR.with(|selector| selector.store(ALLOW, Ordering::Relaxed));
    // SAFETY: the kernel gives both to a handler with SA_SIGINFO, for as long as it runs.
    let registers = unsafe {
        assert!(!info.is_null());
        &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs
    };
    FIRST.set(Some(registers[libc::REG_RAX as usize]));
    registers[libc::REG_RIP as usize] -= SYSCALL_BYTES;
}
