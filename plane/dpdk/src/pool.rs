//! Mbufs that are a second face of the packet region's buffers.
//!
//! DPDK's drivers work on mbufs: 128 bytes that name a piece of memory. Here each buffer of a region
//! has exactly one mbuf, for good, in memory that only the manager maps; buffer number and mbuf are
//! each other's by arithmetic. To the drivers it is a pool of mbufs with pinned external memory.
//!
//! A pool also keeps the free ones, and this one does not: who owns a buffer is the packet path's
//! business, and its free buffers lie on the workers' stacks. So the pool's handler takes from, and
//! gives to, the stack of the worker that is calling the driver; [`RegionPool::with`] leaves a pointer
//! to it where the handler finds it, in a variable of the thread. What is freed by a thread that came
//! through no worker (a driver's own) goes to the depot, which the next queue empties. Between a
//! worker and its buffers there is no lock.
//!
//! Rejected: DPDK's ring of free mbufs beside the stacks. Buffers would have to travel between the
//! two whenever traffic is not the same in both directions.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Region, Stack};

use crate::dma::Registration;
use crate::error::DpdkError;
use crate::ffi::{self, rte_mbuf, rte_mempool};
use crate::handler;
use crate::mempool::{Blueprint, LINE_BYTES, Mempool};

const _: () = assert!(HEADROOM_BYTES == ffi::HG_HEADROOM_BYTES as u32);

/// The pool of one region. One for all devices of that region, so that a packet that comes by one and
/// leaves by another keeps its mbuf in the cache.
pub(crate) struct RegionPool {
    mempool: Mempool,
    shelf: Box<Shelf>,
    region: Region,
    registration: Mutex<Option<Registration>>,
}

// SAFETY: the table of mbufs is only arithmetic; each mbuf belongs to whoever holds its buffer.
unsafe impl Send for RegionPool {}
// SAFETY: as above.
unsafe impl Sync for RegionPool {}

static POOLS: Mutex<Vec<Weak<RegionPool>>> = Mutex::new(Vec::new());

impl RegionPool {
    /// The pool of the region, made if there is none yet.
    pub(crate) fn of(region: &Region) -> Result<Arc<Self>, DpdkError> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        let same = |pool: &Arc<Self>| Arc::ptr_eq(pool.region.memory(), region.memory());
        if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(pool);
        }
        let pool = Arc::new(Self::create(region)?);
        pools.push(Arc::downgrade(&pool));
        Ok(pool)
    }

    fn create(region: &Region) -> Result<Self, DpdkError> {
        let geometry = region.geometry();
        let mempool = Mempool::create(&Blueprint {
            what: "the packet region",
            mbufs: geometry.plain_buffers(),
            room_bytes: geometry.stride() as u16,
            room_within: false,
            handler: handler::name(),
        })?;
        mempool.each(|mbuf, index| {
            // SAFETY: an mbuf of the pool that nobody has seen yet, with room behind it for the record
            // of its external memory, and a buffer that stays mapped as long as the pool lives.
            unsafe { lay_over(mbuf, region.buffer(index), geometry.stride() as u16, mempool.raw()) }
        });
        let shelf = Box::new(Shelf::new(mempool.first(), mempool.stride(), geometry.plain_buffers()));
        mempool.set_data((&raw const *shelf).cast_mut().cast());
        Ok(Self { mempool, shelf, region: region.clone(), registration: Mutex::new(None) })
    }

    pub(crate) const fn raw(&self) -> *mut rte_mempool {
        self.mempool.raw()
    }

    pub(crate) const fn region(&self) -> &Region {
        &self.region
    }

    /// Makes the region's memory known to DPDK, unless it is, for devices that reach it themselves.
    pub(crate) fn register(&self) -> io::Result<()> {
        let mut registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        if registration.is_none() {
            *registration = Some(Registration::new(&self.region)?);
        }
        Ok(())
    }

    /// Calls a driver: what it allocates comes from `stack`, what it frees goes there. Adds to `held`
    /// what it took and did not give back.
    #[inline]
    pub(crate) fn with<T>(&self, stack: &mut Stack, held: &mut i64, call: impl FnOnce() -> T) -> T {
        /// Puts back what was there before, also when `call` panics.
        struct Restore(*mut Call);
        impl Drop for Restore {
            fn drop(&mut self) {
                CALL.set(self.0);
            }
        }
        let mut here = Call { shelf: &raw const *self.shelf, stack, taken: 0 };
        let result = {
            let _restore = Restore(CALL.replace(&raw mut here));
            call()
        };
        *held += here.taken;
        result
    }

    /// The buffer an mbuf belongs to; `None` for one of another pool.
    #[inline(always)]
    pub(crate) fn index(&self, mbuf: *const rte_mbuf) -> Option<u32> {
        self.shelf.index(mbuf)
    }

    /// A buffer's mbuf, made to describe one frame in it.
    ///
    /// # Panics
    /// When the region has no such buffer.
    #[inline(always)]
    pub(crate) fn dress(&self, index: u32, offset: u32, length: u32) -> *mut rte_mbuf {
        assert!(!self.region.geometry().is_long(index));
        let mbuf = self.shelf.mbuf(index);
        // SAFETY: an mbuf of this pool. Its buffer is in the caller's hands, so no driver uses it.
        // `next` is null and the external record untouched since it was made: drivers leave them so in
        // what they hand over and free.
        unsafe {
            (*mbuf).data_off = offset as u16;
            (*mbuf).refcnt = 1;
            (*mbuf).nb_segs = 1;
            (*mbuf).ol_flags = ffi::HG_MBUF_EXTERNAL;
            (*mbuf).pkt_len = length;
            (*mbuf).data_len = length as u16;
        }
        mbuf
    }

    /// Brings to `stack` what a driver's own threads freed.
    #[inline]
    pub(crate) fn empty_depot(&self, stack: &mut Stack) -> usize {
        if self.shelf.waiting.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut depot = self.shelf.depot();
        let count = depot.len();
        depot.drain(..).for_each(|index| stack.give(index));
        self.shelf.waiting.store(0, Ordering::Relaxed);
        count
    }
}

impl Drop for RegionPool {
    fn drop(&mut self) {
        // From here on the handler has nothing to give or take; freeing the pool makes it try.
        self.mempool.set_data(ptr::null_mut());
    }
}

/// The call of a worker into a driver that is under way on this thread.
struct Call {
    shelf: *const Shelf,
    stack: *mut Stack,
    /// Buffers the driver took, less those it gave back.
    taken: i64,
}

thread_local! {
    static CALL: Cell<*mut Call> = const { Cell::new(ptr::null_mut()) };
}

/// The handler's view of a pool.
pub(crate) struct Shelf {
    first: NonNull<rte_mbuf>,
    stride: usize,
    buffers: u32,
    /// 2^32 over the stride in cache lines, rounded up.
    reciprocal: u64,
    depot: Mutex<Vec<u32>>,
    /// Buffers in the depot, readable without its lock. Only a hint: the lock orders the rest.
    waiting: AtomicUsize,
}

impl Shelf {
    fn new(first: NonNull<rte_mbuf>, stride: usize, buffers: u32) -> Self {
        let lines = (stride / LINE_BYTES) as u64;
        // The quotient of n cache lines by `lines` is exact while n times the rounding error, which is
        // below `lines`, stays below 2^32.
        assert!(u64::from(buffers) * lines * lines < 1 << 32, "mbufs are too far apart to number");
        Self {
            first,
            stride,
            buffers,
            reciprocal: (1u64 << 32).div_ceil(lines),
            depot: Mutex::new(Vec::new()),
            waiting: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    fn mbuf(&self, index: u32) -> *mut rte_mbuf {
        self.first.as_ptr().wrapping_byte_add(index as usize * self.stride)
    }

    #[inline(always)]
    fn index(&self, mbuf: *const rte_mbuf) -> Option<u32> {
        let distance = mbuf.addr().wrapping_sub(self.first.as_ptr().addr());
        if distance >= self.buffers as usize * self.stride {
            return None;
        }
        let index = ((distance / LINE_BYTES) as u64 * self.reciprocal) >> 32;
        (index as usize * self.stride == distance).then_some(index as u32)
    }

    fn depot(&self) -> MutexGuard<'_, Vec<u32>> {
        self.depot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handler's "dequeue": fills `mbufs`, or takes nothing and returns false.
    pub(crate) fn take(&self, mbufs: &mut [MaybeUninit<*mut rte_mbuf>]) -> bool {
        let call = CALL.get();
        // SAFETY: a pointer in `CALL` is to the frame of `with` below us on this thread's stack.
        if let Some(call) = unsafe { call.as_mut() }.filter(|call| ptr::eq(call.shelf, self)) {
            // SAFETY: `with` holds the only reference and does not use it during the call.
            let stack = unsafe { &mut *call.stack };
            if stack.len() < mbufs.len() {
                return false;
            }
            let taken = stack.take_many(mbufs.len());
            mbufs.iter_mut().zip(taken).for_each(|(mbuf, index)| _ = mbuf.write(self.mbuf(index)));
            call.taken += mbufs.len() as i64;
            return true;
        }
        let mut depot = self.depot();
        let Some(keep) = depot.len().checked_sub(mbufs.len()) else { return false };
        let taken = depot.drain(keep..);
        mbufs.iter_mut().zip(taken).for_each(|(mbuf, index)| _ = mbuf.write(self.mbuf(index)));
        self.waiting.store(keep, Ordering::Relaxed);
        true
    }

    /// The handler's "enqueue".
    pub(crate) fn give(&self, mbufs: &[*mut rte_mbuf]) {
        let indices = mbufs.iter().filter_map(|&mbuf| {
            let index = self.index(mbuf);
            debug_assert!(index.is_some(), "a driver freed to a pool what is not of it");
            index
        });
        let call = CALL.get();
        // SAFETY: as in `take`.
        if let Some(call) = unsafe { call.as_mut() }.filter(|call| ptr::eq(call.shelf, self)) {
            // SAFETY: as in `take`.
            let stack = unsafe { &mut *call.stack };
            indices.for_each(|index| stack.give(index));
            call.taken -= mbufs.len() as i64;
            return;
        }
        let mut depot = self.depot();
        depot.extend(indices);
        self.waiting.store(depot.len(), Ordering::Relaxed);
    }

    /// Buffers a thread without a stack could take.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Writes an mbuf for the first time, as DPDK does for pinned external memory
/// (`__rte_pktmbuf_init_extmem`).
///
/// # Safety
/// `mbuf` is one of `pool`'s, unused, with room behind it for the shared record; `buffer` has `bytes`.
unsafe fn lay_over(mbuf: *mut rte_mbuf, buffer: *mut u8, bytes: u16, pool: *mut rte_mempool) {
    // SAFETY: by the contract above.
    unsafe {
        mbuf.write_bytes(0, 1);
        let shared = mbuf.add(1).cast::<ffi::rte_mbuf_ext_shared_info>();
        shared.write(ffi::rte_mbuf_ext_shared_info {
            free_cb: Some(release_pinned),
            fcb_opaque: mbuf.cast(),
            refcnt: 1,
        });
        (*mbuf).buf_addr = buffer.cast();
        (*mbuf).buf_iova = buffer as u64;
        (*mbuf).buf_len = bytes;
        (*mbuf).data_off = HEADROOM_BYTES as u16;
        (*mbuf).pool = pool;
        (*mbuf).nb_segs = 1;
        (*mbuf).refcnt = 1;
        (*mbuf).port = u16::MAX;
        (*mbuf).ol_flags = ffi::HG_MBUF_EXTERNAL;
        (*mbuf).shinfo = shared;
    }
}

/// Called by DPDK when the last of several mbufs over the same pinned memory is freed
/// (`rte_pktmbuf_free_pinned_extmem`).
unsafe extern "C" fn release_pinned(_: *mut std::ffi::c_void, mbuf: *mut std::ffi::c_void) {
    let mbuf = mbuf.cast::<rte_mbuf>();
    // SAFETY: `mbuf` is what `lay_over` registered, and its last user just let go of it.
    unsafe {
        (*(*mbuf).shinfo).refcnt = 1;
        (*mbuf).ol_flags = ffi::HG_MBUF_EXTERNAL;
        (*mbuf).next = ptr::null_mut();
        (*mbuf).nb_segs = 1;
        ffi::hg_mbuf_raw_free(mbuf);
    }
}
