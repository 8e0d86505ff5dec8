//! State that a network function in C keeps.

use std::ffi::{c_char, c_int};
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;

use headgate_nf::state::{Bound, BytesTable, BytesValue, Clock, Random, StateError};

use crate::functions::{Surroundings, behind, from_c};

/// `struct hg_table_of`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgTableOf {
    name: *const c_char,
    fields: *const c_char,
    entries: u32,
    key_bytes: u32,
    value_bytes: u32,
    reserved: u32,
    idle_ns: u64,
}

const _: () = assert!(size_of::<HgTableOf>() == 40 && std::mem::offset_of!(HgTableOf, idle_ns) == 32);

/// Keeps what was made for as long as the process lives, or the reason why it was not.
fn kept<T>(this: &mut Surroundings, made: Result<T, StateError>) -> *mut T {
    match made {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(error) => {
            this.fail(error);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_state_table(context: *mut Surroundings, wanted: *const HgTableOf) -> *mut BytesTable {
    // SAFETY: the header's contract.
    let (this, wanted) = unsafe { (behind(context), wanted.as_ref()) };
    let Some(wanted) = wanted else {
        this.fail("hg_state_table was given no struct hg_table_of");
        return null_mut();
    };
    // SAFETY: as above.
    let (name, fields) = unsafe { (from_c(wanted.name), from_c(wanted.fields)) };
    let idle = (wanted.idle_ns > 0).then(|| Duration::from_nanos(wanted.idle_ns));
    let (bound, sizes) =
        (Bound { entries: wanted.entries, idle }, (wanted.key_bytes as usize, wanted.value_bytes as usize));
    let made = this.context().state().and_then(|mut state| state.bytes_table(&name, bound, sizes, &fields));
    kept(this, made)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_state_value(
    context: *mut Surroundings,
    name: *const c_char,
    bytes: u32,
    fields: *const c_char,
) -> *mut BytesValue {
    // SAFETY: the header's contract.
    let (this, name, fields) = unsafe { (behind(context), from_c(name), from_c(fields)) };
    let made = this.context().state().and_then(|mut state| state.bytes_value(&name, bytes as usize, &fields));
    kept(this, made)
}

/// The table behind a pointer of C's, and the key.
unsafe fn with_key<'a>(table: *mut BytesTable, key: *const u8) -> (&'a mut BytesTable, &'a [u8]) {
    // SAFETY: the header's contract: the table is one of `hg_state_table`, which lives as long as the
    // process and is used by one thread; the key has its size.
    unsafe {
        let table = table.as_mut().expect("a table that hg_state_table returned");
        assert!(!key.is_null(), "a key is not NULL");
        let bytes = table.sizes().0;
        (table, std::slice::from_raw_parts(key, bytes))
    }
}

fn pointer(place: Option<NonNull<u8>>) -> *mut u8 {
    place.map_or(null_mut(), NonNull::as_ptr)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_table_get(table: *mut BytesTable, key: *const u8) -> *const u8 {
    // SAFETY: the header's contract.
    let (table, key) = unsafe { with_key(table, key) };
    pointer(table.get(key)).cast_const()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_table_edit(table: *mut BytesTable, key: *const u8) -> *mut u8 {
    // SAFETY: the header's contract.
    let (table, key) = unsafe { with_key(table, key) };
    pointer(table.edit(key))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_table_insert(table: *mut BytesTable, key: *const u8, value: *const u8) -> *mut u8 {
    // SAFETY: the header's contract.
    let (table, key) = unsafe { with_key(table, key) };
    assert!(!value.is_null(), "a value is not NULL");
    // SAFETY: as above: the value has the table's size.
    let value = unsafe { std::slice::from_raw_parts(value, table.sizes().1) };
    pointer(table.insert(key, value).ok())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_table_remove(table: *mut BytesTable, key: *const u8) -> c_int {
    // SAFETY: the header's contract.
    let (table, key) = unsafe { with_key(table, key) };
    table.remove(key).into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_table_length(table: *const BytesTable) -> u32 {
    // SAFETY: the header's contract.
    unsafe { table.as_ref() }.expect("a table that hg_state_table returned").len()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_value_get(value: *const BytesValue) -> *const u8 {
    // SAFETY: the header's contract.
    unsafe { value.as_ref() }.map_or(null(), |value| value.get().as_ptr().cast_const())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_value_edit(value: *mut BytesValue) -> *mut u8 {
    // SAFETY: the header's contract.
    unsafe { value.as_mut() }.map_or(null_mut(), |value| value.edit().as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_state_clock(context: *mut Surroundings) -> *mut Clock {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    let made = this.context().state().map(|state| state.clock());
    kept(this, made)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_clock_now(clock: *const Clock) -> u64 {
    // SAFETY: the header's contract.
    let now = unsafe { clock.as_ref() }.expect("a clock that hg_state_clock returned").now();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_state_random(context: *mut Surroundings, name: *const c_char) -> *mut Random {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    let made = this.context().state().and_then(|mut state| state.random(&name));
    kept(this, made)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_random_draw(random: *mut Random) -> u64 {
    // SAFETY: the header's contract.
    unsafe { random.as_mut() }.expect("random numbers that hg_state_random returned").draw()
}
