//! What NFs take for the time and for chance, so that who works on the same packets again comes to the same.

use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use super::core::{Bytes, Core, number_of};
use super::error::StateError;
use super::hash::hash;
use super::raw::secrets;

/// Time that belongs to packets. See [`State::clock`](super::State::clock).
pub struct Clock(pub(super) Rc<Core>);

impl Clock {
    /// Returns the time of the packets at hand; between two bursts that of now, by the last one's.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_us())
    }
}

/// Random numbers that are part of the state. See [`State::random`](super::State::random).
pub struct Random {
    core: Rc<Core>,
    bytes: Bytes,
}

/// Numbers as they lie in the state.
#[repr(C)]
struct Drawn {
    stamp: u64,
    /// Number of those that were drawn.
    count: u64,
    /// What the numbers follow from.
    secrets: [u64; 2],
}

/// Bytes of them that change.
const DRAWN_SAVED: usize = 16;

impl Random {
    pub(super) fn new(core: Rc<Core>, name: &str) -> Result<Self, StateError> {
        let bytes = core.piece(name, number_of(&["random 1"]), size_of::<Drawn>())?;
        let drawn = bytes.base.cast::<Drawn>();
        // SAFETY: the piece is as long, aligned, and nobody else's.
        unsafe {
            if (*drawn.as_ptr()).secrets == [0; 2] {
                // It is new, or who made it died before it had some.
                (*drawn.as_ptr()).secrets = secrets();
            }
        }
        Ok(Self { core, bytes })
    }

    /// Draws the next number.
    ///
    /// # Panics
    /// When no burst is at hand: a number that was drawn is a change of the state.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let drawn: NonNull<Drawn> = self.bytes.base.cast();
        // SAFETY: the beginning of the piece, which `self` has alone; any bytes are a value.
        unsafe {
            self.core.save(self.bytes.base, DRAWN_SAVED);
            let drawn = &mut *drawn.as_ptr();
            drawn.count = drawn.count.wrapping_add(1);
            hash(drawn.secrets, &drawn.count.to_le_bytes())
        }
    }
}
