//! While there is work, the burst loop makes no system call and allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headgate_nf::testing::{Loop, Manager, Welcome};
use headgate_nf::{Burst, Connection, Context, NetworkFunction, serve};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Forbids the calling thread every system call: the next one kills it, and no packet comes back. A filter
/// and not the kernel's strict mode, which forbids reading the TSC as well.
fn forbid_system_calls() {
    let mut kill = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_KILL_THREAD,
    };
    let program = libc::sock_fprog { len: 1, filter: &raw mut kill };
    // SAFETY: both limit this thread only, and the program lives until the call returns.
    let limited = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(limited, 0, "this kernel has no seccomp");
}

/// From its first burst on, forbids its thread every system call, and counts its allocations.
struct Strict {
    allocations_before: Option<u64>,
    allocations: Arc<AtomicU64>,
}

impl NetworkFunction for Strict {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        let before = *self.allocations_before.get_or_insert_with(|| {
            forbid_system_calls();
            ALLOCATIONS.get()
        });
        self.allocations.store(ALLOCATIONS.get() - before, Ordering::Relaxed);
        burst.packets().for_each(|mut packet| packet.data_mut().swap(0, 6));
    }
}

#[test]
fn a_working_loop_is_quiet() {
    let (mut manager, socket) = Manager::new(Welcome { waits: Loop::Polling, ..Welcome::default() });
    let allocations = Arc::new(AtomicU64::new(u64::MAX));
    let counted = allocations.clone();
    // Never joined: it could not end without a system call.
    std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| {
            context.every(std::time::Duration::from_millis(1));
            Ok(Strict { allocations_before: None, allocations: counted })
        })
    });
    manager.admit().unwrap();
    let started = std::time::Instant::now();
    let mut exchanged = 0;
    // Long enough for many samples of the clock, timers, and timed bursts.
    while started.elapsed() < std::time::Duration::from_millis(50) || exchanged < 20_000 {
        exchanged += manager.exchange(&[[7u8; 60]; 200]).len();
    }
    assert_eq!(allocations.load(Ordering::Relaxed), 0);
    let timed = |manager: &Manager| manager.progress().handler_packets.load(Ordering::Relaxed);
    while timed(&manager) == 0 && started.elapsed().as_secs() < 60 {
        manager.exchange(&[[7u8; 60]; 200]);
    }
    assert!(timed(&manager) > 0 && manager.progress().handler_cycles.load(Ordering::Relaxed) > 0);
}
