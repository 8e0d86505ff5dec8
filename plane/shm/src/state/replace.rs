//! Other memory in the place of a region's own, under a process that runs.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::directory::Wanted;
use super::{ForgedError, StateRegion};
use crate::memory::{Memory, MemoryError};

/// Error: a region cannot take the place of another one.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// It is of another size, or not sealed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// It holds what no library of ours writes.
    #[error(transparent)]
    Forged(#[from] ForgedError),
    /// Tables or values of this process are not there, are of another schema, or lie elsewhere.
    #[error("it has not the tables and values of this process in the places that they have here")]
    OtherPieces,
    /// The kernel refuses.
    #[error("the kernel does not put it in the place of the one before: {0}")]
    Kernel(rustix::io::Errno),
}

impl StateRegion {
    /// Goes on with other memory in the place of its own, between two bursts: what `pieces` lead to, each as
    /// it was wanted, is what that memory holds from then on. Nothing of it is undone: it is a copy that was
    /// taken between two bursts.
    ///
    /// # Errors
    /// [`ReplaceError`]; the region is as it was.
    ///
    /// # Safety
    /// Nobody may have a reference into the region.
    pub unsafe fn replace(
        &self,
        memory: Memory,
        pieces: &[(Wanted, NonNull<u8>)],
    ) -> Result<(), ReplaceError> {
        let other = Self::map(memory, self.bytes as u64)?;
        other.check_directory()?;
        let offset =
            |region: &Self, at: NonNull<u8>| (at.as_ptr() as usize).wrapping_sub(region.pieces() as usize);
        let lies_there = |(wanted, at): &(Wanted, NonNull<u8>)| {
            let there = other.known_piece(*wanted).map(|piece| offset(&other, piece.base));
            there == Some(offset(self, *at))
        };
        if other.log_bytes != self.log_bytes || !pieces.iter().all(lies_there) {
            return Err(ReplaceError::OtherPieces);
        }
        let (memory, mut own) = (other.memory.take(), self.memory.borrow_mut());
        let (Some(memory), Some(own)) = (memory, &mut *own) else { return Err(ReplaceError::OtherPieces) };
        // SAFETY: the other region is only known here, and the caller vouches for this one.
        unsafe { memory.take_place_of(own).map_err(ReplaceError::Kernel)? };
        self.edition.set(self.header().edition.load(Ordering::Relaxed));
        self.begun.set(None);
        self.used.set(0);
        Ok(())
    }
}
