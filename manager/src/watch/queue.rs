//! Bounded queue to somebody who may be slow: what finds no room is counted, and nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// End of those that tell.
pub struct Teller<T> {
    values: SyncSender<T>,
    lost: Arc<AtomicU64>,
}

/// End of the one that hears.
pub struct Listener<T> {
    values: Receiver<T>,
    lost: Arc<AtomicU64>,
}

/// Returns both ends of a queue of so many values.
pub fn queue<T>(capacity: usize) -> (Teller<T>, Listener<T>) {
    let (sender, receiver) = sync_channel(capacity);
    let lost = Arc::<AtomicU64>::default();
    (Teller { values: sender, lost: lost.clone() }, Listener { values: receiver, lost })
}

impl<T> Teller<T> {
    /// Tells a value, or counts it. Returns false when nobody hears any more.
    pub fn tell(&self, value: T) -> bool {
        match self.values.try_send(value) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

impl<T> Listener<T> {
    /// Takes the oldest value.
    pub fn take(&self) -> Option<T> {
        self.values.try_recv().ok()
    }

    /// Returns how many found no room since the last call.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_once_and_nobody_waits() {
        let (teller, listener) = queue(2);
        assert!((0..5).all(|value| teller.tell(value)));
        assert_eq!((listener.take_lost(), listener.take_lost()), (3, 0));
        assert_eq!([listener.take(), listener.take(), listener.take()], [Some(0), Some(1), None]);
        drop(listener);
        assert!(!teller.tell(9));
    }
}
