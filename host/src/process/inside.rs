//! Start of a process inside a control group of version 2 (`CLONE_INTO_CGROUP`, Linux 5.7).
//!
//! No moment passes in which it is outside, and the kernel waits for nothing: moving a process into a group
//! takes milliseconds. The C library has no call for it before glibc 2.38, so this is its `posix_spawn` once
//! more: the child borrows our memory on a stack of its own, with all signals blocked and no handler of ours,
//! until it has become the program; meanwhile the calling thread waits.

use std::arch::asm;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

/// Bytes of the child's stack. Our choice: many times what a handful of system calls needs.
const STACK_BYTES: usize = 64 << 10;
/// Handlers of ours are none of the child's (clone(2); the `libc` crate's constants have lost their upper
/// half).
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
/// The child begins in the group of [`libc::clone_args::cgroup`].
const CLONE_INTO_CGROUP: u64 = 1 << 33;
/// Exit code of a child that could not become the program.
const NOT_RUN: libc::c_int = 127;

/// Returns with the child's id in the parent, or an error; in the child calls `entry` on its own stack.
///
/// # Safety
/// `arguments` asks for CLONE_VM and CLONE_VFORK and names a stack; `entry` does not return, allocates
/// nothing, takes no lock, and touches nothing but `start`.
unsafe fn clone_into(
    arguments: &libc::clone_args,
    entry: unsafe extern "C" fn(*mut Start) -> !,
    start: *mut Start,
) -> io::Result<i32> {
    let result: libc::c_long;
    // SAFETY: the system call clobbers rcx and r11 only. The child goes on with the registers of the parent
    // and an empty stack, aligned as a call wants it, and never leaves `entry`; the parent skips its part.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") ptr::from_ref(arguments),
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") start,
            in("r13") entry,
            out("rcx") _,
            out("r11") _,
        );
    }
    match result {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error as i32)),
        pid => Ok(pid as i32),
    }
}

/// Data for the child; prepared by the parent, because the child may allocate nothing.
struct Start {
    program: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    descriptors: [RawFd; 3],
    /// Error where the child could not become the program.
    error: libc::c_int,
}

/// The child, until it is the program.
unsafe extern "C" fn become_program(start: *mut Start) -> ! {
    // SAFETY: the parent keeps `start` and all that it points to until this process has another program or
    // none; each call takes plain integers or pointers into it.
    unsafe {
        let start = &mut *start;
        for (number, from) in (0..).zip(start.descriptors) {
            if libc::dup2(from, number) < 0 {
                start.error = *libc::__errno_location();
                libc::_exit(NOT_RUN);
            }
        }
        // Rust programs ignore it, and what is ignored stays so; CLONE_CLEAR_SIGHAND took the handlers.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(start.program, start.arguments, start.environment);
        start.error = *libc::__errno_location();
        libc::_exit(NOT_RUN);
    }
}

/// Program to run, with its arguments and descriptors.
pub(super) struct Program {
    /// Its path.
    pub path: CString,
    /// Its arguments, its own name first.
    pub arguments: Vec<CString>,
    /// Its environment: `NAME=value`.
    pub environment: Vec<CString>,
    /// Its descriptors 0, 1 and 2, of which none has such a number here.
    pub descriptors: [OwnedFd; 3],
}

/// Starts a program inside a group. Returns its id and the process as a descriptor.
pub(super) fn spawn(program: &Program, group: BorrowedFd<'_>) -> io::Result<(Pid, OwnedFd)> {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(&program.arguments), pointers(&program.environment));
    let mut start = Start {
        program: program.path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        descriptors: program.descriptors.each_ref().map(AsRawFd::as_raw_fd),
        error: 0,
    };
    let mut stack = vec![MaybeUninit::<u128>::uninit(); STACK_BYTES / size_of::<u128>()];
    let mut pidfd: RawFd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    let arguments = libc::clone_args {
        flags: flags as u64 | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.as_raw_fd() as u64,
    };
    let signals = crate::signals::block_all();
    // SAFETY: the flags are as asked for, the stack is as long as is said, and `become_program` keeps the
    // rules.
    let cloned = unsafe { clone_into(&arguments, become_program, &raw mut start) };
    crate::signals::restore(&signals);
    let pid = cloned?;
    // SAFETY: the kernel made the descriptor (close-on-exec), and nobody else knows of it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: the child is over or another program by now; it may have written here behind the compiler's
    // back.
    let error = unsafe { (&raw const start.error).read_volatile() };
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
    if error != 0 {
        // It has ended, or is about to.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        return Err(io::Error::from_raw_os_error(error));
    }
    Ok((pid, pidfd))
}
