//! The mempool handler "headgate": DPDK's table of functions over [`Shelf`].

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::Once;

use crate::ffi::{self, rte_mempool, rte_mempool_ops};
use crate::pool::Shelf;

const NAME: &CStr = c"headgate";

/// The handler's name, once it is registered.
pub(crate) fn name() -> &'static CStr {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut table = rte_mempool_ops {
            alloc: Some(begin),
            free: Some(end),
            enqueue: Some(enqueue),
            dequeue: Some(dequeue),
            get_count: Some(count),
            ..Default::default()
        };
        for (to, from) in table.name.iter_mut().zip(NAME.to_bytes()) {
            *to = *from as _;
        }
        // SAFETY: DPDK copies the table.
        let registered = unsafe { ffi::rte_mempool_register_ops(&raw const table) };
        assert!(registered >= 0, "DPDK has no room for another mempool handler");
    });
    NAME
}

/// The shelf of a pool; none while the pool is being made or taken apart.
unsafe fn shelf<'a>(pool: *const rte_mempool) -> Option<&'a Shelf> {
    // SAFETY: called by DPDK with a pool of this handler; its data is null or what `RegionPool` set,
    // which lives until it sets null again.
    unsafe { (*pool).__bindgen_anon_1.pool_data.cast_const().cast::<Shelf>().as_ref() }
}

unsafe extern "C" fn begin(_: *mut rte_mempool) -> c_int {
    0
}

unsafe extern "C" fn end(_: *mut rte_mempool) {}

unsafe extern "C" fn enqueue(pool: *mut rte_mempool, mbufs: *const *mut c_void, count: c_uint) -> c_int {
    // SAFETY: by DPDK's contract `count` pointers, and see `shelf`.
    let (shelf, mbufs) = unsafe { (shelf(pool), std::slice::from_raw_parts(mbufs.cast(), count as usize)) };
    if let Some(shelf) = shelf {
        shelf.give(mbufs);
    }
    0
}

unsafe extern "C" fn dequeue(pool: *mut rte_mempool, mbufs: *mut *mut c_void, count: c_uint) -> c_int {
    // SAFETY: by DPDK's contract room for `count` pointers, and see `shelf`.
    let (shelf, mbufs) =
        unsafe { (shelf(pool), std::slice::from_raw_parts_mut(mbufs.cast(), count as usize)) };
    if shelf.is_some_and(|shelf| shelf.take(mbufs)) { 0 } else { -libc::ENOBUFS }
}

unsafe extern "C" fn count(pool: *const rte_mempool) -> c_uint {
    // SAFETY: see `shelf`.
    unsafe { shelf(pool) }.map_or(0, |shelf| shelf.waiting() as c_uint)
}
