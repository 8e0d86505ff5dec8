//! A DPDK mempool of mbufs in memory of our own.
//!
//! Not on EAL's heap: that has a fixed size, and mbufs grow with the packet region.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::DpdkError;
use crate::ffi::{self, rte_mbuf, rte_mempool};
use crate::log;

/// Memory may lie on any NUMA node (`SOCKET_ID_ANY`, a macro over a cast).
const ANY_NODE: c_int = -1;
/// Bytes of a cache line; mempools place their objects by it.
pub(crate) const LINE_BYTES: usize = 64;

/// Settings of a pool.
pub(crate) struct Blueprint<'a> {
    /// For people.
    pub(crate) what: &'a str,
    pub(crate) mbufs: u32,
    /// Bytes an mbuf names, headroom included.
    pub(crate) room_bytes: u16,
    /// Whether these bytes follow the mbuf itself; if not, memory elsewhere is pinned to it.
    pub(crate) room_within: bool,
    /// The name of the handler that keeps the free ones.
    pub(crate) handler: &'static std::ffi::CStr,
}

/// A pool whose mbufs stand at equal distances.
pub(crate) struct Mempool {
    raw: NonNull<rte_mempool>,
    first: NonNull<rte_mbuf>,
    stride: usize,
    mbufs: u32,
    /// Memory of the mbufs. Unmapped after the pool is freed, which still reads it.
    memory: Anonymous,
}

// SAFETY: the pool's own state is only touched under DPDK's locks and by handlers that are made for
// several threads; the mbufs belong to whoever took them.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// Makes a pool; its mbufs are still blank, see [`Mempool::each`].
    pub(crate) fn create(blueprint: &Blueprint<'_>) -> Result<Self, DpdkError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let (result, said) = log::during(|| Self::attempt(blueprint, number));
        let (bytes, cause) = match result {
            Ok(pool) => return Ok(pool),
            Err(refusal) => refusal,
        };
        Err(DpdkError::NoMemory { what: blueprint.what.to_owned(), bytes, cause, said })
    }

    fn attempt(blueprint: &Blueprint<'_>, number: u32) -> Result<Self, (usize, io::Error)> {
        let mbuf = size_of::<rte_mbuf>();
        let beside = if blueprint.room_within {
            blueprint.room_bytes as usize
        } else {
            size_of::<ffi::rte_mbuf_ext_shared_info>()
        };
        let name = CString::new(format!("headgate{number}")).unwrap_or_default();
        // SAFETY: a terminated name; EAL runs, as every caller made sure.
        let raw = unsafe {
            ffi::rte_mempool_create_empty(
                name.as_ptr(),
                blueprint.mbufs,
                (mbuf + beside) as c_uint,
                0,
                size_of::<ffi::rte_pktmbuf_pool_private>() as c_uint,
                ANY_NODE,
                // Devices never read mbufs, so these may cross pages and stand at equal distances.
                ffi::RTE_MEMPOOL_F_NO_IOVA_CONTIG,
            )
        };
        let raw = Unfinished(NonNull::new(raw).ok_or_else(|| (0, last_error()))?);
        // SAFETY: the pool just made, ours alone.
        let sizes = unsafe { raw.0.as_ref() };
        let header = sizes.header_size as usize;
        let stride = header + (sizes.elt_size + sizes.trailer_size) as usize;
        let mbufs = blueprint.mbufs;
        let bytes = stride * mbufs as usize;
        let memory = Anonymous::map(bytes).map_err(|cause| (bytes, cause))?;
        // SAFETY: the first mbuf follows its header at the start of the memory.
        let first = unsafe { memory.base.byte_add(header) }.cast();
        let pool = Self { raw: raw.finish(), first, stride, mbufs, memory };
        let populated = pool.populate(blueprint);
        if populated == mbufs as c_int {
            return Ok(pool);
        }
        let code = if populated < 0 { -populated } else { libc::ENOMEM };
        Err((bytes, io::Error::from_raw_os_error(code)))
    }

    /// Fills the memory with mbufs, in the order of DPDK's own constructor
    /// (`rte_pktmbuf_pool_create_extbuf`). Returns how many, or a negative error.
    fn populate(&self, blueprint: &Blueprint<'_>) -> c_int {
        let mut kind = ffi::rte_pktmbuf_pool_private {
            mbuf_data_room_size: blueprint.room_bytes,
            mbuf_priv_size: 0,
            flags: if blueprint.room_within { 0 } else { ffi::HG_POOL_PINNED },
        };
        let (base, bytes, nothing) = (self.memory.base.as_ptr(), self.memory.bytes, std::ptr::null_mut());
        // SAFETY: a pool without mbufs, and memory that outlives it.
        unsafe {
            let set = ffi::rte_mempool_set_ops_byname(self.raw(), blueprint.handler.as_ptr(), nothing);
            if set < 0 {
                return set;
            }
            ffi::rte_pktmbuf_pool_init(self.raw(), (&raw mut kind).cast());
            ffi::rte_mempool_populate_iova(self.raw(), base.cast(), base as u64, bytes, None, nothing)
        }
    }

    pub(crate) const fn raw(&self) -> *mut rte_mempool {
        self.raw.as_ptr()
    }

    pub(crate) const fn first(&self) -> NonNull<rte_mbuf> {
        self.first
    }

    /// Bytes from one mbuf to the next, a multiple of a cache line.
    pub(crate) const fn stride(&self) -> usize {
        self.stride
    }

    /// Writes each mbuf for the first time, by DPDK's iteration, which also shows that they stand
    /// where we think they do.
    pub(crate) fn each(&self, mut write: impl FnMut(*mut rte_mbuf, u32)) {
        struct Visit<'a> {
            write: &'a mut dyn FnMut(*mut rte_mbuf, u32),
            pool: &'a Mempool,
        }
        unsafe extern "C" fn visit(
            _: *mut rte_mempool,
            visit: *mut c_void,
            mbuf: *mut c_void,
            number: c_uint,
        ) {
            // SAFETY: the pointer handed to the iteration just below.
            let visit = unsafe { &mut *visit.cast::<Visit<'_>>() };
            let expected = visit.pool.first.as_ptr() as usize + number as usize * visit.pool.stride;
            assert_eq!(mbuf as usize, expected, "DPDK placed mbuf {number} elsewhere");
            (visit.write)(mbuf.cast(), number);
        }
        let mut visitor = Visit { write: &mut write, pool: self };
        // SAFETY: the visitor outlives the iteration.
        let visited =
            unsafe { ffi::rte_mempool_obj_iter(self.raw(), Some(visit), (&raw mut visitor).cast()) };
        assert_eq!(visited, self.mbufs);
    }

    /// Tells the pool's handler what it works on.
    pub(crate) fn set_data(&self, data: *mut c_void) {
        // SAFETY: only called while no driver uses the pool.
        unsafe { (*self.raw()).__bindgen_anon_1.pool_data = data };
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        // SAFETY: queues and ports hold the pool, so when it drops no driver knows it any more.
        unsafe { ffi::rte_mempool_free(self.raw()) }
    }
}

/// A pool that is freed unless it gets finished.
struct Unfinished(NonNull<rte_mempool>);

impl Unfinished {
    fn finish(self) -> NonNull<rte_mempool> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // SAFETY: nobody else has seen it.
        unsafe { ffi::rte_mempool_free(self.0.as_ptr()) }
    }
}

/// Private memory, unmapped when dropped.
struct Anonymous {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: plain memory; who may touch which part is the pool's business.
unsafe impl Send for Anonymous {}
// SAFETY: as above.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    fn map(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private mapping at an address the kernel chooses aliases nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)?
        };
        // Fewer misses of the TLB; a kernel without transparent huge pages refuses, which is as good.
        // SAFETY: advice on the range just mapped.
        let _ = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxHugepage) };
        NonNull::new(base).map(|base| Self { base, bytes }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: exactly the range mapped; the pool above it is gone.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.bytes) };
    }
}

/// The error DPDK left on this thread.
pub(crate) fn last_error() -> io::Error {
    // SAFETY: reads a variable of this thread.
    io::Error::from_raw_os_error(unsafe { ffi::hg_errno() })
}
