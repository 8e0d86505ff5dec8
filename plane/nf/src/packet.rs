//! A packet in an NF's hands.

use headgate_shm::descriptor::{Descriptor, LENGTH_MAX, OFFSET_MAX};
use headgate_shm::geometry::FRAME_BYTES_MIN;
use headgate_shm::{Region, Verdict};
use headgate_wire::checksum::Change;
use headgate_wire::offload::LongFrame;

use crate::context::{Port, Stage};
use crate::saver::Saver;

/// One packet of a burst: its bytes in shared memory, and the verdict on it.
pub struct Packet<'a> {
    pub(crate) descriptor: &'a mut Descriptor,
    /// As it came: the tag is the port of entry.
    pub(crate) received: Descriptor,
    pub(crate) region: &'a Region,
    /// Saves it before it changes, where a standby may be given it again.
    pub(crate) saver: Option<&'a Saver>,
}

/// A packet cannot grow or shrink by as much as was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes were asked for and {room} are there")]
pub struct NoRoomError {
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes the packet could have grown or shrunk by.
    pub room: usize,
}

impl Packet<'_> {
    /// The frame's length in bytes, from the destination address on, without its check sequence.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a frame has at least an Ethernet header")]
    pub const fn len(&self) -> usize {
        self.descriptor.length() as usize
    }

    /// The frame.
    #[inline(always)]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let (start, length) = self.extent();
        // SAFETY: `extent` checked that these bytes lie in one buffer of the mapping. The manager lends
        // a buffer to one holder at a time, so nothing of this process aliases it; what another process
        // of the same trust domain may write at the same time can spoil the bytes, not the reference.
        unsafe { std::slice::from_raw_parts(start, length) }
    }

    /// The frame, to change.
    #[inline(always)]
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.save();
        let (start, length) = self.extent();
        // SAFETY: as in `data`, and `self` is borrowed for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(start, length) }
    }

    /// Saves it as it came, where a death is to leave it so.
    #[inline(always)]
    fn save(&self) {
        if let Some(saver) = self.saver {
            saver.save(self.received, self.region);
        }
    }

    #[inline(always)]
    fn extent(&self) -> (*mut u8, usize) {
        let (offset, length) = (self.descriptor.offset(), self.descriptor.length());
        (self.region.frame(self.descriptor.index(), offset, length as usize), length as usize)
    }

    /// What is left to do on the frame; `None` for one that is as it would be on a wire. Only an NF that says
    /// so ([`takes_long_frames`](crate::NetworkFunction::takes_long_frames)) is given others.
    #[inline]
    #[must_use]
    pub fn long_frame(&self) -> Option<LongFrame> {
        LongFrame::from_note(self.region.note(self.descriptor.index())?)
    }

    /// Number of packets that it will be on a wire: 1 but for a long frame.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> usize {
        self.long_frame().map_or(1, |long| long.segments(self.len()))
    }

    /// Keeps the checksum at `at` of the frame right, of TCP or UDP, when fields changed that it covers:
    /// `addresses` of the IP header, `rest` of what follows that. Where the checksum is only begun it covers
    /// nothing but addresses so far, and is no complement yet. UDP without checksum stays without.
    ///
    /// # Panics
    /// When the frame has no such bytes.
    #[inline]
    pub fn update_checksum(&mut self, at: usize, addresses: Change, rest: Change, is_udp: bool) {
        let is_begun = self.long_frame().is_some();
        let field: &mut [u8; 2] = self.data_mut()[at..].first_chunk_mut().expect("the checksum lies in it");
        let checksum = u16::from_be_bytes(*field);
        let changed = match is_begun {
            true => addresses.apply_begun(checksum),
            false if is_udp => addresses.and(rest).apply_udp(checksum),
            false => addresses.and(rest).apply(checksum),
        };
        *field = changed.to_be_bytes();
    }

    /// The port the packet entered by.
    #[inline(always)]
    #[must_use]
    pub const fn ingress(&self) -> Port {
        Port(self.received.tag() as u16)
    }

    /// Bytes by which the frame can grow at its front.
    #[inline]
    #[must_use]
    pub const fn headroom(&self) -> usize {
        self.descriptor.offset() as usize
    }

    /// Bytes by which the frame can grow at its end.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> usize {
        self.room() - (self.descriptor.offset() + self.descriptor.length()) as usize
    }

    /// Grows the frame by `bytes` at its front and gives the new bytes, which hold anything.
    ///
    /// # Errors
    /// [`NoRoomError`] when the headroom is smaller; nothing is changed.
    #[inline]
    pub fn prepend(&mut self, bytes: usize) -> Result<&mut [u8], NoRoomError> {
        let room = self.headroom();
        if bytes > room {
            return Err(NoRoomError { asked: bytes, room });
        }
        self.set_extent(self.descriptor.offset() - bytes as u32, self.descriptor.length() + bytes as u32);
        Ok(&mut self.data_mut()[..bytes])
    }

    /// Takes `bytes` off the frame's front.
    ///
    /// # Errors
    /// [`NoRoomError`] when less than an Ethernet header would be left, or the frame would start more than
    /// 4095 bytes into its buffer; nothing is changed.
    #[inline]
    pub fn trim_front(&mut self, bytes: usize) -> Result<(), NoRoomError> {
        let room = self.trimmable().min((OFFSET_MAX.saturating_sub(self.descriptor.offset())) as usize);
        if bytes > room {
            return Err(NoRoomError { asked: bytes, room });
        }
        self.set_extent(self.descriptor.offset() + bytes as u32, self.descriptor.length() - bytes as u32);
        Ok(())
    }

    /// Grows the frame by `bytes` at its end and gives the new bytes, which hold anything.
    ///
    /// # Errors
    /// [`NoRoomError`] when the tailroom is smaller; nothing is changed.
    #[inline]
    pub fn extend_back(&mut self, bytes: usize) -> Result<&mut [u8], NoRoomError> {
        let room = self.tailroom();
        if bytes > room {
            return Err(NoRoomError { asked: bytes, room });
        }
        let old = self.len();
        self.set_extent(self.descriptor.offset(), self.descriptor.length() + bytes as u32);
        Ok(&mut self.data_mut()[old..])
    }

    /// Takes `bytes` off the frame's end.
    ///
    /// # Errors
    /// [`NoRoomError`] when less than an Ethernet header would be left; nothing is changed.
    #[inline]
    pub fn trim_back(&mut self, bytes: usize) -> Result<(), NoRoomError> {
        let room = self.trimmable();
        if bytes > room {
            return Err(NoRoomError { asked: bytes, room });
        }
        self.set_extent(self.descriptor.offset(), self.descriptor.length() - bytes as u32);
        Ok(())
    }

    /// The packet's whole buffer: its first byte and its length. For bindings to other languages; the
    /// methods above are the usual way. Reading and writing through the pointer is sound while the burst
    /// is at hand.
    #[must_use]
    pub fn buffer(&self) -> (*mut u8, usize) {
        self.save();
        (self.region.buffer(self.descriptor.index()), self.room())
    }

    /// Puts the frame at `offset` of its buffer, `length` bytes long. For bindings to other languages.
    /// False, and nothing changed, when no packet can lie there.
    #[must_use]
    pub fn lay(&mut self, offset: usize, length: usize) -> bool {
        let fits = offset <= OFFSET_MAX as usize
            && (FRAME_BYTES_MIN as usize..=LENGTH_MAX as usize).contains(&length)
            && offset + length <= self.room();
        if fits {
            self.set_extent(offset as u32, length as u32);
        }
        fits
    }

    /// Bytes of its buffer.
    #[inline(always)]
    fn room(&self) -> usize {
        self.region.geometry().room(self.descriptor.index())
    }

    fn trimmable(&self) -> usize {
        self.descriptor.length().saturating_sub(FRAME_BYTES_MIN) as usize
    }

    fn set_extent(&mut self, offset: u32, length: u32) {
        *self.descriptor = self.descriptor.with_extent(offset, length);
    }

    /// The verdict so far.
    #[inline(always)]
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.descriptor.verdict()
    }

    /// Sets the verdict. The last one counts.
    #[inline(always)]
    pub const fn set_verdict(&mut self, verdict: Verdict) {
        *self.descriptor = self.descriptor.with_verdict(verdict);
    }

    /// The packet ends here.
    #[inline(always)]
    pub const fn discard(&mut self) {
        self.set_verdict(Verdict::Drop);
    }

    /// The packet leaves by this port.
    #[inline(always)]
    pub const fn send_to(&mut self, port: Port) {
        self.set_verdict(Verdict::Port(port.0));
    }

    /// The packet goes to this stage.
    #[inline(always)]
    pub const fn divert_to(&mut self, stage: Stage) {
        self.set_verdict(Verdict::Stage(stage.0));
    }
}
