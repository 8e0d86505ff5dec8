//! What Linux leaves to a network card that may not exist: checksums, and cutting long frames.
//!
//! Two hosts on one machine exchange frames of up to 64 KiB whose transport checksum is only begun: the field
//! holds the sum of the pseudo header. A *virtio header* beside the frame says what is left to do (`struct
//! virtio_net_hdr`, Virtual I/O Device 1.2, section 5.1.6; sockets get it with `PACKET_VNET_HDR`). A program
//! that passes such a frame on as it is sends a wrong checksum, and with small buffers only a part of it.
//!
//! - [`Header`]: the virtio header; [`Header::work`] says what it asks for;
//! - [`Partial`]: a checksum that is begun, and its completion;
//! - [`Cut`]: a long frame as the segments that a card would have made of it;
//! - [`Train`]: the way back, segments that follow each other in one long frame;
//! - [`LongFrame`]: a long frame that travels whole, by NFs that may change its headers.
//!
//! The header is as little believed as the frame: every length and offset is checked against the bytes that
//! are there, and what does not fit is an [`OffloadError`].

mod cut;
mod header;
mod long;
mod partial;
mod train;

pub use cut::{Cut, HEADERS_MAX};
pub use header::{HEADER_LENGTH, Header, OffloadError};
pub use long::{Leaving, LongFrame, NOTE_LENGTH};
pub use partial::{Checksum, Partial};
pub use train::{HEAD_BYTES, Segment, Train};

use header::{KIND_ECN, NEEDS_CHECKSUM};

/// Work that is left to do on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// None: it is as it would be on a wire.
    Nothing,
    /// Its checksum.
    Checksum(Partial),
    /// Cutting.
    Cut(Cut),
}

impl Header {
    /// Returns what it asks for.
    ///
    /// # Errors
    /// [`OffloadError`] when it cannot belong to this frame.
    pub fn work(self, frame: &[u8]) -> Result<Work, OffloadError> {
        if self.kind & !KIND_ECN != 0 {
            return Cut::new(self, frame).map(Work::Cut);
        }
        if self.flags & NEEDS_CHECKSUM == 0 {
            return Ok(Work::Nothing);
        }
        let (start, offset) = (usize::from(self.checksum_start), usize::from(self.checksum_offset));
        Partial::asked(frame, start, start + offset).map(Work::Checksum)
    }
}

#[cfg(test)]
mod tests;
