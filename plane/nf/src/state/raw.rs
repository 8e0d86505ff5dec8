//! Hash table in kept state, of keys and values of any fixed size.
//!
//! The problem: it has to be undone. An index of its own, buckets and free lists would each have to be saved
//! too, and a forged one could lead in circles. So a slot is everything: open addressing with linear probing,
//! a third of the slots always empty. What changes is whole slots, each saved at most once a burst by its
//! stamp, and a forged table is at worst a long walk over each slot once.
//!
//! A slot that was idle for too long is as good as empty for who looks for its key; its place is used again
//! by an insert that passes it. Removing moves the slots behind it forward, so no marks are left that would
//! make later walks longer (Knuth, 6.4, algorithm R).

use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;
use std::rc::Rc;

use super::core::{Bytes, Core, number_of};
use super::error::{Bound, ENTRIES_MAX, Full, StateError};
use super::hash::hash;
use super::stores::step;

/// Alignment that keys and values may have.
pub const ALIGN_MAX: usize = 16;
/// Slots that an insert of a new key examines besides its own for idle ones. Our choice: idle slots are then
/// found eight times as fast as new ones come.
const SWEPT_BESIDE: u32 = 8;
/// The same where the table is full. Our choice: some 10 us.
const SWEPT_WHEN_FULL: u32 = 1024;

/// First bytes of a table.
#[repr(C)]
struct Head {
    stamp: u64,
    /// Slots in use.
    length: u64,
    /// Next slot to be examined for being idle: which entries make room follows from it.
    next_swept: u64,
    _pad: u64,
    /// What the hash is keyed with, so that nobody outside can aim keys at one place.
    secrets: [u64; 2],
}

const HEAD_BYTES: usize = size_of::<Head>();
/// Bytes of the head that change.
const HEAD_SAVED: usize = 24;
/// Offsets in a slot.
const STAMP: usize = 0;
/// Time of the last change in microseconds; 0 in an empty slot.
const SEEN: usize = 8;
const KEY: usize = 16;

const _: () = assert!(HEAD_BYTES.is_multiple_of(ALIGN_MAX) && STAMP == 0 && KEY == ALIGN_MAX);

/// Sizes of a table's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub key_bytes: usize,
    pub value_bytes: usize,
    value_at: usize,
    slot_bytes: usize,
}

impl Shape {
    /// Slots for keys of so many bytes, and values of so many that are aligned so.
    pub const fn new(key_bytes: usize, value_bytes: usize, value_align: usize) -> Self {
        let value_at = (KEY + key_bytes).next_multiple_of(value_align);
        let slot_bytes = (value_at + value_bytes).next_multiple_of(ALIGN_MAX);
        Self { key_bytes, value_bytes, value_at, slot_bytes }
    }
}

/// Result of looking for a key.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// It is in this slot.
    Here(u32),
    /// It is not there; this slot is the first that it could take. `used`: its last key has been idle.
    Absent { slot: u32, used: bool },
}

pub struct RawTable {
    core: Rc<Core>,
    bytes: Bytes,
    slots: u32,
    entries: u32,
    /// Time without a change after which an entry is idle; `u64::MAX`: never.
    idle_us: u64,
}

/// Returns numbers that nobody outside knows.
pub fn secrets() -> [u64; 2] {
    [0u64, 1].map(|number| RandomState::new().hash_one(number))
}

impl RawTable {
    /// Finds or makes a table. `fields` tell what its bytes mean.
    pub fn new(
        core: Rc<Core>,
        name: &str,
        bound: Bound,
        shape: Shape,
        fields: &str,
    ) -> Result<Self, StateError> {
        let Bound { entries, idle } = bound;
        if entries == 0 || entries > ENTRIES_MAX {
            return Err(StateError::Bound { name: name.to_owned(), entries });
        }
        let slots = entries + entries / 2 + 1;
        let schema = format!("table 2 {} {} {slots} {fields}", shape.key_bytes, shape.value_bytes);
        let bytes = HEAD_BYTES + slots as usize * shape.slot_bytes;
        let bytes = core.piece(name, number_of(&[&schema]), bytes)?;
        let head = bytes.base.cast::<Head>();
        // SAFETY: the first bytes of the piece, aligned, and nobody else's.
        if unsafe { (*head.as_ptr()).secrets } == [0; 2] {
            // It is new, or who made it died before it had some.
            // SAFETY: as above.
            unsafe { (*head.as_ptr()).secrets = secrets() };
        }
        let idle_us = idle.map_or(u64::MAX, |idle| u64::try_from(idle.as_micros()).unwrap_or(u64::MAX));
        Ok(Self { core, bytes, slots, entries, idle_us })
    }

    fn head(&self) -> *mut Head {
        self.bytes.base.as_ptr().cast()
    }

    /// Returns the number of slots in use, idle ones among them, as far as that can be.
    #[inline]
    pub fn len(&self) -> u32 {
        // SAFETY: the head lies in the piece.
        unsafe { (*self.head()).length.min(u64::from(self.slots)) as u32 }
    }

    #[inline(always)]
    fn slot(&self, shape: Shape, index: u32) -> *mut u8 {
        debug_assert!(index < self.slots);
        // SAFETY: the piece has `slots` slots behind its head, and indices stay below that number.
        unsafe { self.bytes.base.as_ptr().add(HEAD_BYTES + index as usize * shape.slot_bytes) }
    }

    #[inline(always)]
    fn seen(&self, shape: Shape, index: u32) -> u64 {
        // SAFETY: in the slot, aligned to 8.
        unsafe { self.slot(shape, index).add(SEEN).cast::<u64>().read() }
    }

    #[inline(always)]
    fn key(&self, shape: Shape, index: u32) -> &[u8] {
        // SAFETY: in the slot; no key is written while a reference to it is used.
        unsafe { std::slice::from_raw_parts(self.slot(shape, index).add(KEY), shape.key_bytes) }
    }

    #[inline(always)]
    fn is_idle(&self, seen: u64) -> bool {
        // Of another time altogether is as old: a gate's clock that was set wrong keeps nothing for ever.
        self.core.now_us().abs_diff(seen) >= self.idle_us
    }

    #[inline(always)]
    fn home(&self, key: &[u8]) -> u32 {
        // Never kept here: the state may be replaced by another node's, with other secrets.
        // SAFETY: the head lies in the piece.
        let hash = hash(unsafe { (*self.head()).secrets }, key);
        (((hash >> 32) * u64::from(self.slots)) >> 32) as u32
    }

    #[inline(always)]
    const fn after(&self, index: u32) -> u32 {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    #[inline(always)]
    fn find(&self, shape: Shape, key: &[u8]) -> Option<Found> {
        let mut index = self.home(key);
        let mut free = None;
        for _ in 0..self.slots {
            let seen = self.seen(shape, index);
            if seen == 0 {
                return Some(free.unwrap_or(Found::Absent { slot: index, used: false }));
            }
            let is_idle = self.is_idle(seen);
            if self.key(shape, index) == key {
                // Its own place, so that no key is ever in two.
                return Some(if is_idle {
                    Found::Absent { slot: index, used: true }
                } else {
                    Found::Here(index)
                });
            }
            if is_idle && free.is_none() {
                free = Some(Found::Absent { slot: index, used: true });
            }
            index = self.after(index);
        }
        // No empty slot: nothing of ours leaves it so.
        free
    }

    /// Returns the place of a key's value.
    #[inline(always)]
    pub fn get(&self, shape: Shape, key: &[u8]) -> Option<NonNull<u8>> {
        match self.find(shape, key) {
            Some(Found::Here(slot)) => Some(self.value(shape, slot)),
            _ => None,
        }
    }

    #[inline(always)]
    fn value(&self, shape: Shape, index: u32) -> NonNull<u8> {
        // SAFETY: in the slot, and so not null.
        unsafe { NonNull::new_unchecked(self.slot(shape, index).add(shape.value_at)) }
    }

    #[inline(always)]
    fn save(&self, shape: Shape, index: u32) {
        let slot = NonNull::new(self.slot(shape, index)).expect("in a piece");
        // SAFETY: a slot of the piece; the caller has the table to itself.
        unsafe { self.core.save(slot, shape.slot_bytes) };
    }

    #[inline(always)]
    fn set_seen(&self, shape: Shape, index: u32, seen: u64) {
        step();
        // SAFETY: in the slot, aligned to 8.
        unsafe { self.slot(shape, index).add(SEEN).cast::<u64>().write(seen) };
    }

    fn set_length(&self, length: u32) {
        self.save_head();
        step();
        // SAFETY: the head, which nobody else has.
        unsafe { (*self.head()).length = u64::from(length) };
    }

    fn save_head(&self) {
        // SAFETY: the head, which nobody else has.
        unsafe { self.core.save(self.bytes.base, HEAD_SAVED) };
    }

    /// Returns the slot at which the last sweep ended. A forged one is as good as any.
    fn next_swept(&self) -> u32 {
        // SAFETY: the head lies in the piece.
        let next = unsafe { (*self.head()).next_swept };
        if next < u64::from(self.slots) { next as u32 } else { 0 }
    }

    fn set_next_swept(&self, slot: u32) {
        self.save_head();
        step();
        // SAFETY: the head, which nobody else has.
        unsafe { (*self.head()).next_swept = u64::from(slot) };
    }

    /// Returns the place of a key's value, to be changed; it is not idle from now on.
    #[inline(always)]
    pub fn edit(&mut self, shape: Shape, key: &[u8]) -> Option<NonNull<u8>> {
        let Some(Found::Here(slot)) = self.find(shape, key) else { return None };
        self.save(shape, slot);
        self.set_seen(shape, slot, self.core.now_us());
        Some(self.value(shape, slot))
    }

    /// Puts in a key with a value, in place of what it had. Returns the value's place.
    #[inline(always)]
    pub fn insert(&mut self, shape: Shape, key: &[u8], value: &[u8]) -> Result<NonNull<u8>, Full> {
        let slot = match self.find(shape, key) {
            Some(Found::Here(slot)) => slot,
            Some(Found::Absent { slot, used: true }) => slot,
            Some(Found::Absent { slot, used: false }) if self.len() < self.entries => {
                self.add(shape, key, slot)
            }
            _ => self.add_to_full(shape, key)?,
        };
        self.save(shape, slot);
        self.set_seen(shape, slot, self.core.now_us());
        let place = self.value(shape, slot);
        step();
        // SAFETY: key and value lie in the slot, of which nobody has a reference: the table is borrowed.
        unsafe {
            self.slot(shape, slot).add(KEY).copy_from_nonoverlapping(key.as_ptr(), shape.key_bytes);
            step();
            place.as_ptr().copy_from_nonoverlapping(value.as_ptr(), shape.value_bytes);
        }
        Ok(place)
    }

    /// Counts a new key in, and makes room for later ones. Returns its slot, by now maybe another.
    fn add(&mut self, shape: Shape, key: &[u8], slot: u32) -> u32 {
        let swept = self.idle_us != u64::MAX && self.sweep(shape, SWEPT_BESIDE) > 0;
        let (slot, used) = match swept.then(|| self.find(shape, key)).flatten() {
            Some(Found::Absent { slot, used }) => (slot, used),
            _ => (slot, false),
        };
        if !used {
            self.set_length(self.len() + 1);
        }
        slot
    }

    #[cold]
    fn add_to_full(&mut self, shape: Shape, key: &[u8]) -> Result<u32, Full> {
        self.sweep(shape, SWEPT_WHEN_FULL);
        match self.find(shape, key) {
            Some(Found::Absent { slot, used: true }) => Ok(slot),
            Some(Found::Absent { slot, used: false }) if self.len() < self.entries => {
                self.set_length(self.len() + 1);
                Ok(slot)
            }
            _ => Err(Full { entries: self.entries }),
        }
    }

    /// Removes a key.
    pub fn remove(&mut self, shape: Shape, key: &[u8]) -> bool {
        let Some(Found::Here(slot)) = self.find(shape, key) else { return false };
        self.remove_at(shape, slot);
        true
    }

    /// Removes idle entries among the next `most` slots. Returns how many there were.
    pub fn sweep(&mut self, shape: Shape, most: u32) -> u32 {
        let (mut removed, mut next) = (0, self.next_swept());
        for _ in 0..most.min(self.slots) {
            let seen = self.seen(shape, next);
            if seen != 0 && self.is_idle(seen) {
                // Another may have moved into its place: it is examined next.
                self.remove_at(shape, next);
                removed += 1;
            } else {
                next = self.after(next);
            }
        }
        self.set_next_swept(next);
        removed
    }

    /// Empties a slot, and moves those behind it forward that would no longer be found.
    fn remove_at(&mut self, shape: Shape, slot: u32) {
        let (mut hole, mut index) = (slot, slot);
        for _ in 1..self.slots {
            index = self.after(index);
            if self.seen(shape, index) == 0 {
                break;
            }
            let home = self.home(self.key(shape, index));
            if self.distance(home, index) >= self.distance(hole, index) {
                self.move_to(shape, index, hole);
                hole = index;
            }
        }
        self.save(shape, hole);
        self.set_seen(shape, hole, 0);
        self.set_length(self.len().saturating_sub(1));
    }

    /// Returns how many steps a walk takes from one slot to another.
    const fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from { to - from } else { to + self.slots - from }
    }

    /// Copies a slot without its stamp.
    fn move_to(&mut self, shape: Shape, from: u32, to: u32) {
        self.save(shape, to);
        step();
        // SAFETY: two different slots of the piece, of which nobody has a reference.
        unsafe {
            let bytes = shape.slot_bytes - SEEN;
            self.slot(shape, to).add(SEEN).copy_from_nonoverlapping(self.slot(shape, from).add(SEEN), bytes);
        }
    }

    /// Returns the entries that are not idle: places of key and value.
    pub fn entries(&self, shape: Shape) -> impl Iterator<Item = (NonNull<u8>, NonNull<u8>)> + '_ {
        let in_use = move |index: &u32| {
            let seen = self.seen(shape, *index);
            seen != 0 && !self.is_idle(seen)
        };
        (0..self.slots).filter(in_use).map(move |index| {
            // SAFETY: in the slot, and so not null.
            let key = unsafe { NonNull::new_unchecked(self.slot(shape, index).add(KEY)) };
            (key, self.value(shape, index))
        })
    }
}
