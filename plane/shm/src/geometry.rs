//! The shape of a region: how many buffers, how far apart, how much room in each.
//!
//! ```text
//! index   0     1          plain-1  plain                plain+span           indices
//!         +-----+-----+---+--------+--------------------+--------------------+
//!         |plain|plain|...| plain  | long               | long               |
//!         +-----+-----+---+--------+--------------------+--------------------+
//!         <stride>                 <--- span strides --->
//! ```
//!
//! A long buffer is named by the index of its first stride; the other indices in it name nothing, and nobody
//! ever holds them. The last bytes of a long buffer are no room for a frame: there stands what NFs are told
//! of it.

use crate::descriptor::{BUFFERS_MAX, Descriptor, LENGTH_MAX};
use crate::offence::Offence;

/// Bytes of a cache line.
pub const LINE_BYTES: u32 = 64;
/// Bytes before the frame where an NF may put another header: DPDK's own default, enough for
/// NSH over VXLAN-GPE over IPv6 (8 + 24 + 16 + 8 + 40 + 14 = 110 bytes).
pub const HEADROOM_BYTES: u32 = 128;
/// The shortest frame the path carries: an Ethernet header.
pub const FRAME_BYTES_MIN: u32 = 14;
/// The longest frame that plain buffers can be made for, so that 9,000-byte jumbo frames fit.
pub const FRAME_BYTES_MAX: u32 = 16_383;
/// The longest frame of a long buffer as it comes: 65,535 bytes of IP behind Ethernet and two VLAN tags.
pub const LONG_FRAME_BYTES_MAX: u32 = 65_535 + 14 + 2 * 4;
/// Bytes at the end of a long buffer that tell NFs what is left to do on its frame.
pub const NOTE_BYTES: usize = 16;
/// The largest stride. With `FRAME_BYTES_MAX` in a plain buffer the longest frame there that an NF can make.
pub const STRIDE_MAX: u32 = HEADROOM_BYTES + FRAME_BYTES_MAX + 2 * LINE_BYTES;

pub(crate) const LONG_BYTES: u32 = HEADROOM_BYTES + LONG_FRAME_BYTES_MAX + NOTE_BYTES as u32;
const _: () = assert!(LONG_BYTES + STRIDE_MAX <= LENGTH_MAX);

/// The shape of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Indices, those within long buffers too.
    indices: u32,
    stride: u32,
    plain: u32,
    /// Strides of a long buffer.
    span: u32,
}

impl Geometry {
    /// A region of `buffers` plain buffers, each with room for frames of `frame_bytes` beside the headroom.
    ///
    /// # Errors
    /// A sentence when a number is outside what a descriptor can name.
    pub fn new(buffers: u32, frame_bytes: u32) -> Result<Self, String> {
        if buffers == 0 || buffers > BUFFERS_MAX {
            return Err(format!("a region has 1 to {BUFFERS_MAX} buffers, not {buffers}"));
        }
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes) {
            return Err(format!(
                "a buffer has room for frames of {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes, not {frame_bytes}"
            ));
        }
        let lines = (HEADROOM_BYTES + frame_bytes).div_ceil(LINE_BYTES);
        Ok(Self::plain_only(buffers, (lines | 1) * LINE_BYTES))
    }

    const fn plain_only(plain: u32, stride: u32) -> Self {
        Self { indices: plain, stride, plain, span: LONG_BYTES.div_ceil(stride) }
    }

    /// The same with `count` long buffers behind the plain ones.
    ///
    /// # Errors
    /// A sentence when a descriptor cannot name so many.
    pub fn with_long(self, count: u32) -> Result<Self, String> {
        let most = (BUFFERS_MAX - self.plain) / self.span;
        if count > most {
            return Err(format!(
                "beside {} buffers a region has room for {most} long ones, not {count}",
                self.plain
            ));
        }
        Ok(Self { indices: self.plain + count * self.span, ..self })
    }

    /// The shape a manager announced, checked before use.
    #[must_use]
    pub fn announced(plain: u32, stride: u32, long: u32) -> Option<Self> {
        let sound = plain > 0
            && plain <= BUFFERS_MAX
            && (HEADROOM_BYTES + FRAME_BYTES_MIN..=STRIDE_MAX).contains(&stride)
            && stride.is_multiple_of(LINE_BYTES);
        if sound { Self::plain_only(plain, stride).with_long(long).ok() } else { None }
    }

    /// Returns the number of indices: of buffers, and of strides in long ones behind the first. As many
    /// records are needed to have one for each buffer.
    #[inline(always)]
    #[must_use]
    pub const fn indices(self) -> u32 {
        self.indices
    }

    /// Returns the number of plain buffers.
    #[inline(always)]
    #[must_use]
    pub const fn plain_buffers(self) -> u32 {
        self.plain
    }

    /// Returns the number of long buffers.
    #[inline(always)]
    #[must_use]
    pub const fn long_buffers(self) -> u32 {
        (self.indices - self.plain) / self.span
    }

    /// Returns whether there are long buffers.
    #[inline(always)]
    #[must_use]
    pub const fn has_long(self) -> bool {
        self.indices > self.plain
    }

    /// Returns the number of all buffers.
    #[must_use]
    pub const fn buffers(self) -> u32 {
        self.plain + self.long_buffers()
    }

    /// Returns the indices of all buffers.
    pub fn all(self) -> impl Iterator<Item = u32> {
        (0..self.plain).chain((self.plain..self.indices).step_by(self.span as usize))
    }

    /// Bytes from one plain buffer to the next: headroom and data.
    #[inline(always)]
    #[must_use]
    pub const fn stride(self) -> u32 {
        self.stride
    }

    /// Returns whether an index is that of a long buffer, or lies within one.
    #[inline(always)]
    #[must_use]
    pub const fn is_long(self, index: u32) -> bool {
        index >= self.plain
    }

    /// Returns the number of a long buffer among them; `None` when the index is not that of one.
    #[inline]
    #[must_use]
    pub const fn long_number(self, index: u32) -> Option<usize> {
        if index < self.plain || index >= self.indices || !(index - self.plain).is_multiple_of(self.span) {
            return None;
        }
        Some(((index - self.plain) / self.span) as usize)
    }

    /// Returns the bytes of a buffer that a frame and what is in front of it may take.
    #[inline]
    #[must_use]
    pub const fn room(self, index: u32) -> usize {
        match self.long_number(index) {
            Some(_) => (self.span * self.stride) as usize - NOTE_BYTES,
            None => self.stride as usize,
        }
    }

    /// The longest frame that fits a plain buffer behind the headroom, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn frame_bytes_max(self) -> u32 {
        let room = self.stride - HEADROOM_BYTES;
        if room < FRAME_BYTES_MAX { room } else { FRAME_BYTES_MAX }
    }

    /// Bytes of the whole region.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.indices as usize * self.stride as usize
    }

    /// Whether a descriptor from an untrusted process lies inside the region.
    ///
    /// # Errors
    /// The offence it would be to believe it.
    #[inline(always)]
    pub fn check(self, descriptor: Descriptor) -> Result<(), Offence> {
        if descriptor.index() >= self.indices {
            return Err(Offence::NoSuchBuffer);
        }
        if !self.fits_plain(descriptor) {
            return self.check_long(descriptor);
        }
        Ok(())
    }

    /// Returns whether the frame of a descriptor, whose index was checked, fits a plain buffer.
    #[inline(always)]
    #[must_use]
    pub const fn fits_plain(self, descriptor: Descriptor) -> bool {
        let length = descriptor.length();
        length >= FRAME_BYTES_MIN && descriptor.offset() + length <= self.stride
    }

    /// The same where the frame fits no plain buffer. One that fits, at an index within a long buffer, nobody
    /// holds.
    #[cold]
    fn check_long(self, descriptor: Descriptor) -> Result<(), Offence> {
        let end = (descriptor.offset() + descriptor.length()) as usize;
        if descriptor.length() < FRAME_BYTES_MIN || end > self.room(descriptor.index()) {
            return Err(Offence::BadLength);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry(buffers: u32, frame: u32, long: u32) -> Geometry {
        Geometry::new(buffers, frame).unwrap().with_long(long).unwrap()
    }

    proptest! {
        /// Whatever word an untrusted process writes, a descriptor that passes the check stays in the region,
        /// and in one buffer.
        #[test]
        fn a_checked_descriptor_lies_inside(word: u64, buffers in 1u32..5000, frame in 64u32..9100, long in 0u32..9) {
            let geometry = geometry(buffers, frame, long);
            let descriptor = Descriptor(word);
            // Few words name a buffer that is there.
            let near = Descriptor::new(
                descriptor.index() % (geometry.indices() + 2), descriptor.offset(), descriptor.length(), 0
            );
            for descriptor in [descriptor, near] {
                if geometry.check(descriptor).is_ok() {
                    let end = (descriptor.offset() + descriptor.length()) as usize;
                    prop_assert!(end <= geometry.room(descriptor.index()));
                    prop_assert!(descriptor.index() as usize * geometry.stride() as usize + end <= geometry.bytes());
                }
            }
        }

        #[test]
        fn buffers_have_the_room_they_promise(frame in FRAME_BYTES_MIN..=FRAME_BYTES_MAX, long in 0u32..4) {
            let geometry = geometry(1, frame, long);
            prop_assert!(geometry.frame_bytes_max() >= frame);
            prop_assert_eq!(geometry.stride() / LINE_BYTES % 2, 1);
            prop_assert_eq!(Geometry::announced(1, geometry.stride(), long), Some(geometry));
            prop_assert_eq!((geometry.long_buffers(), geometry.buffers()), (long, 1 + long));
            for index in geometry.all().skip(1) {
                let room = HEADROOM_BYTES + LONG_FRAME_BYTES_MAX;
                prop_assert!(geometry.room(index) >= room as usize);
                prop_assert_eq!(geometry.check(Descriptor::new(index, HEADROOM_BYTES, LONG_FRAME_BYTES_MAX, 0)), Ok(()));
            }
        }
    }

    #[test]
    fn a_long_frame_lies_in_a_long_buffer_and_nowhere_else() {
        let geometry = geometry(4, 2048, 2);
        assert_eq!(geometry.all().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 4 + geometry.span]);
        let long = |index| geometry.check(Descriptor::new(index, 128, 60_000, 0));
        for index in 0..geometry.indices() {
            let wanted =
                if geometry.all().skip(4).any(|one| one == index) { Ok(()) } else { Err(Offence::BadLength) };
            assert_eq!(long(index), wanted, "{index}");
        }
        assert_eq!(long(geometry.indices()), Err(Offence::NoSuchBuffer));
        let room = geometry.room(4) as u32;
        assert_eq!(geometry.check(Descriptor::new(4, 128, room - 128, 0)), Ok(()));
        assert_eq!(
            geometry.check(Descriptor::new(4, 128, room - 127, 0)),
            Err(Offence::BadLength),
            "the note"
        );
    }

    #[test]
    fn more_than_a_descriptor_can_name_is_refused() {
        let refused = Geometry::new(BUFFERS_MAX - 10, 2048).unwrap().with_long(1).unwrap_err();
        assert!(refused.contains("room for 0 long ones, not 1"), "{refused}");
        assert_eq!(Geometry::announced(1, 2240, u32::MAX), None);
        assert!(
            Geometry::new(BUFFERS_MAX + 1, 2048).is_err() && Geometry::new(1, FRAME_BYTES_MAX + 1).is_err()
        );
    }
}
