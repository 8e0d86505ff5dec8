//! The bare wake-up: how long it takes until a thread that sleeps on a futex runs on an idle core.
//!
//! It is what no NF that sleeps can be faster than, and depends on the machine (14-100 us where waking a
//! virtual core means leaving the virtual machine), so latency is told as a multiple of it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use headgate_host::clock::Clock;
use headgate_host::cores::{self, CoresError};
use rustix::thread::futex;

use headgate_host::cores::Placement;

/// Time for which the sleeper's core has been idle when it is called, in nanoseconds. Our choice: longer than
/// an idle Linux guest polls for work before it halts (`guest_halt_poll_ns`, 200 us by default), so that what
/// is measured is a core that really stopped.
const IDLE_NS: u64 = 300_000;

const AWAKE: u32 = 0;
const SLEEPING: u32 = 1;
const ENDED: u32 = 2;

struct TestBed {
    state: AtomicU32,
    /// Time at which the sleeper ran, in the clock's nanoseconds; published by `state`.
    ran_ns: AtomicU64,
}

/// Wakes a sleeper on the NFs' core from the manager's core so often; returns each time from just before
/// the call until the sleeper runs, in nanoseconds.
///
/// # Errors
/// [`CoresError`] when a thread cannot be pinned.
pub fn measure(placement: Placement, samples: usize) -> Result<Vec<u64>, CoresError> {
    let clock = Clock::calibrate();
    let bed = TestBed { state: AtomicU32::new(AWAKE), ran_ns: AtomicU64::new(0) };
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let pinned = cores::pin_current_thread(placement.nfs);
            if pinned.is_err() {
                bed.state.store(ENDED, Ordering::Release);
                return pinned;
            }
            sleep_again_and_again(&bed, &clock);
            Ok(())
        });
        let waker = scope.spawn(|| {
            let pinned = cores::pin_current_thread(placement.manager);
            let woken = pinned.map(|()| wake_again_and_again(&bed, &clock, samples));
            bed.state.store(ENDED, Ordering::Release);
            wake(&bed.state);
            woken
        });
        let woken = waker.join().expect("waking does not panic")?;
        sleeper.join().expect("sleeping does not panic")?;
        Ok(woken)
    })
}

fn sleep_again_and_again(bed: &TestBed, clock: &Clock) {
    loop {
        // A failed exchange means that the waker has ended.
        if bed.state.compare_exchange(AWAKE, SLEEPING, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }
        while bed.state.load(Ordering::Acquire) == SLEEPING {
            // Woken, interrupted, or too late to sleep: the state says which.
            let _ = futex::wait(&bed.state, futex::Flags::PRIVATE, SLEEPING, None);
        }
        bed.ran_ns.store(clock.now_ns(), Ordering::Relaxed);
    }
}

fn wake_again_and_again(bed: &TestBed, clock: &Clock, samples: usize) -> Vec<u64> {
    let mut all = Vec::with_capacity(samples);
    let mut called_ns = None;
    loop {
        // It sleeps again only after it has said when it ran.
        loop {
            match bed.state.load(Ordering::Acquire) {
                SLEEPING => break,
                ENDED => return all,
                _ => std::hint::spin_loop(),
            }
        }
        if let Some(called_ns) = called_ns {
            all.push(bed.ran_ns.load(Ordering::Relaxed).saturating_sub(called_ns));
        }
        if all.len() == samples {
            return all;
        }
        let idle_since = clock.now_ns();
        while clock.now_ns() - idle_since < IDLE_NS {
            std::hint::spin_loop();
        }
        called_ns = Some(clock.now_ns());
        bed.state.store(AWAKE, Ordering::Release);
        wake(&bed.state);
    }
}

fn wake(state: &AtomicU32) {
    // The word is ours and mapped: the call cannot fail.
    let _ = futex::wake(state, futex::Flags::PRIVATE, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered() {
        let placement = Placement::choose().unwrap();
        if placement.is_shared() {
            // The waker spins until the sleeper sleeps, which takes a core for each.
            return;
        }
        assert_eq!(measure(placement, 20).unwrap().len(), 20);
    }
}
