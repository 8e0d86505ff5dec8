//! Small things only the processor can do: hints to its caches, and its cycle counter.

use crate::memory::Pages;

/// Asks for the lines of a value before it is needed. Never faults, changes nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of::<T>()).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, and the address lies inside `value` anyway.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().add(line)) };
    }
}

/// Asks for the first line of one of several values. Where there is none with this number, nothing comes of
/// it.
#[inline(always)]
pub fn prefetch_one<T>(values: &[T], number: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address, and changes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(number).cast());
    }
}

/// Asks for the line of a value that will be written, so that the other core gives it up meanwhile.
#[inline(always)]
pub fn prefetch_for_writing<T>(value: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address, and changes nothing. PREFETCHW is a no-op on
    // the few processors of this level (Haswell) that do not know it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
}

/// Asks the kernel to back a large private allocation with pages of a kind: with huge ones where its setting
/// allows that on request, with ordinary ones also where its setting gives huge ones to everybody. Only a
/// hint: small or refused, nothing changes but the speed of far reads.
pub fn prefer_pages<T>(slice: &[T], pages: Pages) {
    const HUGE: usize = crate::memory::HUGE_PAGE_BYTES;
    let advice = match pages {
        Pages::Huge => rustix::mm::Advice::LinuxHugepage,
        Pages::Ordinary => rustix::mm::Advice::LinuxNoHugepage,
    };
    let start = (slice.as_ptr() as usize).next_multiple_of(HUGE);
    let end = (slice.as_ptr() as usize + size_of_val(slice)) / HUGE * HUGE;
    if end > start {
        let offset = start - slice.as_ptr() as usize;
        // SAFETY: whole pages inside the slice; the advice changes neither contents nor access.
        let advised = unsafe {
            rustix::mm::madvise(
                slice.as_ptr().cast::<u8>().add(offset).cast_mut().cast(),
                end - start,
                advice,
            )
        };
        let _ = advised; // A hint refused is no error.
    }
}

/// The time-stamp counter. Invariant on every processor of the last decade; about 10 ns to read in a
/// virtual machine, so read once per burst and not per packet.
#[inline(always)]
#[must_use]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the counter has no precondition on x86-64.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}
