//! Cost of a load, by how much memory is walked over and how.
//!
//! A chain of pointers is followed: each load needs the one before, so nothing is fetched in parallel, as
//! with the headers of a packet that was not seen before. In random order no prefetcher helps either: the
//! worst case, which SCC reckons with (section 3.2.3). In steps of one stride the prefetchers help, as along
//! a frame (ibid., figure 3).
//!
//! Time is CPU time of the thread, and the fastest of several passes counts: others on the machine make a
//! load slower and never faster.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a line of every cache of x86-64.
pub const LINE_BYTES: usize = 64;
/// Bytes of a small page.
pub const PAGE_BYTES: usize = 4096;
/// Loads of a pass. Our choice: 0.3 ms in the first cache, some 20 ms in memory; the clock is read twice.
const LOADS: usize = 200_000;
/// Passes, of which the fastest counts.
const PASSES: usize = 5;

/// Order in which a working set is walked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every line once, in random order.
    Random,
    /// Forward, so many bytes at a time; a multiple of 8.
    Stride(usize),
    /// A line in every page, in random order, each at another place of its page.
    Pages,
}

/// Kind of pages that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Large ones, where the kernel gives some: translations cost little.
    Large,
    /// Pages of 4 KiB.
    Small,
}

/// Memory to walk over.
pub struct Arena {
    start: NonNull<u8>,
    bytes: usize,
}

impl Arena {
    /// Makes a working set of this size; at least a page. Nothing is taken from the machine before it is
    /// walked over.
    ///
    /// # Errors
    /// Fails if the kernel gives none.
    pub fn new(bytes: usize, pages: Pages) -> std::io::Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at a place of the kernel's choice disturbs nobody.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        let arena =
            Self { start: NonNull::new(start.cast()).expect("a mapping is nowhere near zero"), bytes };
        let advice = match pages {
            Pages::Large => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // SAFETY: the range is the mapping made above. A kernel without large pages refuses, which costs
        // precision and no more.
        let _ = unsafe { madvise(start, bytes, advice) };
        Ok(arena)
    }

    /// Time of one load in the first `bytes`, in nanoseconds.
    ///
    /// # Panics
    /// Panics if there are fewer bytes, or none.
    #[must_use]
    pub fn walk_ns(&mut self, bytes: usize, order: Order) -> f64 {
        assert!(bytes <= self.bytes && bytes >= LINE_BYTES, "{bytes} of {}", self.bytes);
        let nodes = self.lay(bytes, order);
        // Once around, or far enough to have met every level.
        let mut at = self.follow(0, nodes.min(LOADS * PASSES));
        let mut best = f64::MAX;
        for _ in 0..PASSES {
            let before = thread_ns();
            at = self.follow(at, LOADS);
            best = best.min((thread_ns() - before) as f64 / LOADS as f64);
        }
        std::hint::black_box(at);
        best
    }

    /// Writes the chain; how many nodes it has.
    fn lay(&mut self, bytes: usize, order: Order) -> usize {
        let place = |node: usize| match order {
            Order::Random => node * LINE_BYTES,
            Order::Stride(stride) => node * stride,
            Order::Pages => node * PAGE_BYTES + node * LINE_BYTES % PAGE_BYTES,
        };
        let nodes = match order {
            Order::Random => bytes / LINE_BYTES,
            Order::Stride(stride) => (bytes / stride).max(1),
            Order::Pages => (bytes / PAGE_BYTES).max(1),
        };
        for node in 0..nodes {
            let next = if matches!(order, Order::Stride(_)) { (node + 1) % nodes } else { node };
            self.write(place(node), place(next));
        }
        if !matches!(order, Order::Stride(_)) {
            self.shuffle(nodes, place);
        }
        nodes
    }

    /// Sattolo's algorithm (Information Processing Letters 22, 1986): one cycle through all nodes, each as
    /// likely. The numbers are those of a xorshift generator (Marsaglia 2003) with one seed for ever.
    fn shuffle(&mut self, nodes: usize, place: impl Fn(usize) -> usize) {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for node in (1..nodes).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = ((u128::from(random) * node as u128) >> 64) as usize;
            let (one, two) = (self.read(place(node)), self.read(place(other)));
            self.write(place(node), two);
            self.write(place(other), one);
        }
    }

    fn write(&mut self, at: usize, value: usize) {
        assert!(at + size_of::<usize>() <= self.bytes);
        // SAFETY: within the mapping (asserted), aligned because every place is a multiple of 8, and nobody
        // else has a pointer into it.
        unsafe { self.start.add(at).cast::<usize>().write(value) }
    }

    fn read(&self, at: usize) -> usize {
        assert!(at + size_of::<usize>() <= self.bytes);
        // SAFETY: as in `write`; anonymous memory is initialised.
        unsafe { self.start.add(at).cast::<usize>().read() }
    }

    #[inline(never)]
    fn follow(&self, from: usize, loads: usize) -> usize {
        let mut at = from;
        for _ in 0..loads {
            // The check of the bound runs beside the load and not before it: its branch is foreseen.
            at = self.read(at);
        }
        at
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; no pointer into it outlives the arena.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places visited from the first until it comes again.
    fn tour(arena: &Arena) -> Vec<usize> {
        let mut places = vec![0];
        loop {
            match arena.read(places[places.len() - 1]) {
                0 => return places,
                next => places.push(next),
            }
        }
    }

    #[test]
    fn every_order_visits_each_of_its_places_once() {
        let mut arena = Arena::new(64 * PAGE_BYTES, Pages::Small).unwrap();
        for (order, step, nodes) in [
            (Order::Random, LINE_BYTES, 4096),
            (Order::Stride(256), 256, 1024),
            (Order::Pages, PAGE_BYTES, 64),
        ] {
            assert_eq!(arena.lay(64 * PAGE_BYTES, order), nodes);
            let mut tour = tour(&arena);
            let in_order = tour.is_sorted();
            assert_eq!(in_order, matches!(order, Order::Stride(_)), "{order:?}");
            tour.sort_unstable();
            let places: Vec<usize> = tour.iter().map(|place| place / step).collect();
            assert_eq!(places, (0..nodes).collect::<Vec<_>>(), "{order:?}");
        }
    }

    #[test]
    fn a_walk_takes_time() {
        let mut arena = Arena::new(1, Pages::Large).unwrap();
        assert!(arena.walk_ns(PAGE_BYTES, Order::Random) > 0.0);
    }
}
