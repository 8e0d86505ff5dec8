//! Robust: lets the worker of this NF see at once when the thread that works on packets ends, of whatever
//! cause. See [`headgate_shm::owner`].
//!
//! The lock is a robust mutex of the C library, which alone knows what else is in the thread's list. That the
//! lock's first word is the kernel's is so in glibc, and not in musl: where it is not found there, the lock
//! is given back, and the end of the process is seen by its pidfd.
//!
//! An end in good order gives the lock back. Else the thread holds it until its end, and the lock's memory
//! stays mapped, for the list leads there.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use headgate_shm::owner::{LOCK_BYTES, Owner};
use headgate_shm::{Memory, NfSide};

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= LOCK_BYTES);
const _: () = assert!(align_of::<libc::pthread_mutex_t>() <= align_of::<u64>());

/// Lock of the thread that made it, in its control region. One that is dropped stays taken.
pub(crate) struct Robust<'a> {
    owner: &'a Owner,
    memory: ManuallyDrop<Arc<Memory>>,
    lock: *mut libc::pthread_mutex_t,
}

impl<'a> Robust<'a> {
    /// Takes the lock for this thread. `None` where the kernel would not tell of its end by it.
    pub(crate) fn of_this_thread(side: &'a NfSide) -> Option<Self> {
        let (owner, memory) = side.owner();
        let lock = owner.lock().cast::<libc::pthread_mutex_t>();
        // SAFETY: `Owner` has room for the mutex and its alignment, as the assertions above and that of its
        // header say; it is zeroed or was cleared, and only this thread uses it as a mutex.
        let is_locked = unsafe { take(lock) };
        if !is_locked {
            owner.clear();
            return None;
        }
        let robust = Self { owner, memory: ManuallyDrop::new(memory), lock };
        if owner.thread() == rustix::thread::gettid().as_raw_pid() as u32 {
            return Some(robust);
        }
        robust.release();
        None
    }

    /// Gives the lock back: the thread's end is nobody's concern any more.
    pub(crate) fn release(self) {
        // SAFETY: this thread holds the mutex: it is not `Send`.
        unsafe {
            libc::pthread_mutex_unlock(self.lock);
            libc::pthread_mutex_destroy(self.lock);
        }
        self.owner.clear();
        drop(ManuallyDrop::into_inner(self.memory));
    }
}

/// Makes a robust mutex there, and takes it. Returns whether that could be.
///
/// # Safety
/// Nobody else uses the place, which has room for a mutex.
unsafe fn take(lock: *mut libc::pthread_mutex_t) -> bool {
    let mut attributes = MaybeUninit::uninit();
    let at = attributes.as_mut_ptr();
    // SAFETY: the attributes are initialized by the first call before the others use them; the caller vouches
    // for the lock.
    unsafe {
        libc::pthread_mutexattr_init(at) == 0
            && libc::pthread_mutexattr_setpshared(at, libc::PTHREAD_PROCESS_SHARED) == 0
            && libc::pthread_mutexattr_setrobust(at, libc::PTHREAD_MUTEX_ROBUST) == 0
            && libc::pthread_mutex_init(lock, at) == 0
            && libc::pthread_mutex_lock(lock) == 0
    }
}

#[cfg(test)]
mod tests {
    use headgate_shm::memory::PAGE_BYTES;
    use headgate_shm::{ControlLayout, ManagerSide};

    use super::*;

    fn sides() -> (ManagerSide, NfSide) {
        let layout = ControlLayout::new(64).unwrap();
        let manager = ManagerSide::create("test", layout).unwrap();
        let attach = |memory: &Memory, writable| {
            Memory::attach("test", memory.duplicate_file().unwrap(), PAGE_BYTES, writable).unwrap()
        };
        let (control, directives) = (attach(manager.control(), true), attach(manager.directives(), false));
        let nf = NfSide::attach(control, directives, layout).unwrap();
        (manager, nf)
    }

    /// Where the C library is another one nothing is known, as the file says.
    fn is_glibc() -> bool {
        cfg!(target_env = "gnu")
    }

    /// Runs something on a thread of its own, to the thread's very end.
    fn on_a_thread(what: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(what).join().unwrap());
    }

    #[test]
    fn a_thread_that_ends_with_its_lock_is_seen() {
        let (manager, nf) = sides();
        assert!(!manager.owner().has_died());
        on_a_thread(|| {
            assert_eq!(Robust::of_this_thread(&nf).is_some(), is_glibc());
            assert!(!manager.owner().has_died(), "it lives");
        });
        assert_eq!(manager.owner().has_died(), is_glibc());
    }

    #[test]
    fn one_that_gives_it_back_is_not() {
        let (manager, nf) = sides();
        on_a_thread(|| {
            let robust = Robust::of_this_thread(&nf);
            assert_eq!((robust.is_some(), manager.owner().thread() != 0), (is_glibc(), is_glibc()));
            robust.into_iter().for_each(Robust::release);
        });
        assert!(!manager.owner().has_died());
        assert_eq!(manager.owner().thread(), 0);
    }

    /// The lock is one of several in the thread's list, before and behind it.
    #[test]
    fn it_lives_beside_other_robust_locks_of_the_thread() {
        let [first, second, third] = [sides(), sides(), sides()];
        on_a_thread(|| {
            let [first, _second, _third] =
                [&first, &second, &third].map(|(_, nf)| Robust::of_this_thread(nf));
            first.into_iter().for_each(Robust::release);
        });
        let died = [first, second, third].map(|(manager, _)| manager.owner().has_died());
        assert_eq!(died, [false, is_glibc(), is_glibc()]);
    }
}
