//! Tables and values of types.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;

use super::core::{Bytes, Core, number_of};
use super::error::{Bound, Full, StateError};
use super::plain::Plain;
use super::raw::{ALIGN_MAX, RawTable, Shape};

/// Bounded table of kept state. See [the module](super).
pub struct Table<K, V> {
    raw: RawTable,
    _types: PhantomData<(K, V)>,
}

impl<K: Plain, V: Plain> Table<K, V> {
    const SHAPE: Shape = {
        assert!(align_of::<K>() <= ALIGN_MAX && align_of::<V>() <= ALIGN_MAX);
        Shape::new(size_of::<K>(), size_of::<V>(), align_of::<V>())
    };

    pub(super) fn new(core: Rc<Core>, name: &str, bound: Bound) -> Result<Self, StateError> {
        let fields = format!("{} {}", K::FIELDS, V::FIELDS);
        let raw = RawTable::new(core, name, bound, Self::SHAPE, &fields)?;
        Ok(Self { raw, _types: PhantomData })
    }

    /// Returns the value of a key. Does not count as a use of it.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let place = self.raw.get(Self::SHAPE, key.as_bytes())?;
        // SAFETY: an initialised, aligned place for a `V`, of which any bytes are a value; `self` is
        // borrowed, so it does not change meanwhile.
        Some(unsafe { place.cast().as_ref() })
    }

    /// Returns the value of a key, to be changed in this burst.
    ///
    /// # Panics
    /// When no burst is at hand.
    #[inline(always)]
    pub fn edit(&mut self, key: &K) -> Option<&mut V> {
        let place = self.raw.edit(Self::SHAPE, key.as_bytes())?;
        // SAFETY: as in `get`; `self` is borrowed mutably.
        Some(unsafe { place.cast().as_mut() })
    }

    /// Puts in a key with a value, in place of what it had; returns the value, to be changed in this burst.
    ///
    /// # Errors
    /// [`Full`]; nothing is changed.
    ///
    /// # Panics
    /// When no burst is at hand.
    #[inline(always)]
    pub fn insert(&mut self, key: K, value: V) -> Result<&mut V, Full> {
        let place = self.raw.insert(Self::SHAPE, key.as_bytes(), value.as_bytes())?;
        // SAFETY: as in `edit`.
        Ok(unsafe { place.cast().as_mut() })
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Panics
    /// When no burst is at hand.
    pub fn remove(&mut self, key: &K) -> bool {
        self.raw.remove(Self::SHAPE, key.as_bytes())
    }

    /// Removes idle entries among the next `most` slots; a call goes on where the last one ended. Inserts do
    /// so by themselves. Returns how many were removed.
    ///
    /// # Panics
    /// When no burst is at hand.
    pub fn sweep(&mut self, most: u32) -> u32 {
        self.raw.sweep(Self::SHAPE, most)
    }

    /// Returns the number of entries; idle ones count until their place is used again.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.raw.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries that are not idle, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.raw.entries(Self::SHAPE).map(|(key, value)| {
            // SAFETY: as in `get`.
            unsafe { (key.cast().as_ref(), value.cast().as_ref()) }
        })
    }
}

/// A value of kept state. See [the module](super).
pub struct Value<T> {
    core: Rc<Core>,
    bytes: Bytes,
    _type: PhantomData<T>,
}

/// A value as it lies there.
#[repr(C, align(8))]
struct Stamped<T> {
    _stamp: u64,
    value: T,
}

impl<T: Plain> Value<T> {
    const BYTES: usize = {
        assert!(align_of::<T>() <= ALIGN_MAX && size_of::<T>() > 0);
        size_of::<Stamped<T>>()
    };

    pub(super) fn new(core: Rc<Core>, name: &str) -> Result<Self, StateError> {
        let schema = format!("value {} {}", size_of::<T>(), T::FIELDS);
        let bytes = core.piece(name, number_of(&[&schema]), Self::BYTES)?;
        Ok(Self { core, bytes, _type: PhantomData })
    }

    #[inline(always)]
    fn place(&self) -> NonNull<T> {
        let stamped: NonNull<Stamped<T>> = self.bytes.base.cast();
        // SAFETY: the piece is a `Stamped<T>`, aligned to a cache line.
        unsafe { NonNull::new_unchecked(&raw mut (*stamped.as_ptr()).value) }
    }

    /// Returns the value.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &T {
        // SAFETY: initialised and aligned, of which any bytes are a value; `self` is borrowed.
        unsafe { self.place().as_ref() }
    }

    /// Returns the value, to be changed in this burst.
    ///
    /// # Panics
    /// When no burst is at hand.
    #[inline(always)]
    pub fn edit(&mut self) -> &mut T {
        // SAFETY: the whole piece, of which nobody has a reference: `self` is borrowed mutably.
        unsafe {
            self.core.save(self.bytes.base, Self::BYTES);
            self.place().as_mut()
        }
    }
}
