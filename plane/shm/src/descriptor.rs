//! The word that names a packet.
//!
//! Eight bytes, so that a cache line carries eight of them between cores:
//!
//! ```text
//!  63        50 49           33 32       21 20                0
//! +------------+---------------+-----------+-------------------+
//! | tag (14)   | length (17)   | offset(12)| buffer index (21) |
//! +------------+---------------+-----------+-------------------+
//! ```
//!
//! The tag has two meanings, one for each direction. Towards an NF it is the port by which the packet
//! entered. From an NF it is the verdict; that of a packet which the NF made can be "next" with an argument,
//! one more than the number of the chain that it enters. Nothing in it is believed by the manager before
//! [`crate::Geometry::check`] and the holder table agreed.

/// Bits of a buffer index: 2 Mi buffers a region.
pub const INDEX_BITS: u32 = 21;
/// Bits of an offset: data starts within the first 4 KiB of a buffer.
pub const OFFSET_BITS: u32 = 12;
/// Bits of a length: frames up to 131,071 bytes, so those fit that the kernel has not cut yet (64 KiB of IP
/// behind Ethernet).
pub const LENGTH_BITS: u32 = 17;
/// Bits of the tag: 2 of verdict, 12 of its argument.
pub const TAG_BITS: u32 = 14;
/// Bits of a verdict's argument: 4,096 ports and 4,096 named stages.
pub const ARGUMENT_BITS: u32 = 12;

const _: () = assert!(INDEX_BITS + OFFSET_BITS + LENGTH_BITS + TAG_BITS == u64::BITS);

const OFFSET_SHIFT: u32 = INDEX_BITS;
const LENGTH_SHIFT: u32 = INDEX_BITS + OFFSET_BITS;
const TAG_SHIFT: u32 = INDEX_BITS + OFFSET_BITS + LENGTH_BITS;

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The longest frame a descriptor can describe, in bytes.
pub const LENGTH_MAX: u32 = (1 << LENGTH_BITS) - 1;
/// The largest offset of a frame in its buffer, in bytes.
pub const OFFSET_MAX: u32 = (1 << OFFSET_BITS) - 1;
/// The number of buffers a region can have.
pub const BUFFERS_MAX: u32 = 1 << INDEX_BITS;
/// The number of ports, and of named stages, that a verdict can name.
pub const ARGUMENT_COUNT: u32 = 1 << ARGUMENT_BITS;

/// A packet: which buffer, where in it, how long, and a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Descriptor(pub u64);

impl Descriptor {
    /// Packs the parts; what does not fit its field is cut to it.
    #[inline(always)]
    #[must_use]
    pub const fn new(index: u32, offset: u32, length: u32, tag: u32) -> Self {
        Self(
            (index as u64 & mask(INDEX_BITS))
                | (offset as u64 & mask(OFFSET_BITS)) << OFFSET_SHIFT
                | (length as u64 & mask(LENGTH_BITS)) << LENGTH_SHIFT
                | (tag as u64 & mask(TAG_BITS)) << TAG_SHIFT,
        )
    }

    /// The buffer's index in its region.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> u32 {
        (self.0 & mask(INDEX_BITS)) as u32
    }

    /// Returns the offset of the frame in its buffer, in bytes.
    #[inline(always)]
    #[must_use]
    pub const fn offset(self) -> u32 {
        (self.0 >> OFFSET_SHIFT & mask(OFFSET_BITS)) as u32
    }

    /// The frame's length in bytes, without its check sequence.
    #[inline(always)]
    #[must_use]
    pub const fn length(self) -> u32 {
        (self.0 >> LENGTH_SHIFT & mask(LENGTH_BITS)) as u32
    }

    /// The tag as it stands: ingress port towards an NF, verdict from it.
    #[inline(always)]
    #[must_use]
    pub const fn tag(self) -> u32 {
        (self.0 >> TAG_SHIFT) as u32
    }

    /// The same packet with another tag.
    #[inline(always)]
    #[must_use]
    pub const fn with_tag(self, tag: u32) -> Self {
        Self(self.0 & mask(TAG_SHIFT) | (tag as u64 & mask(TAG_BITS)) << TAG_SHIFT)
    }

    /// The same packet with another place and length in its buffer.
    #[inline(always)]
    #[must_use]
    pub const fn with_extent(self, offset: u32, length: u32) -> Self {
        Self::new(self.index(), offset, length, self.tag())
    }

    /// The same packet with a verdict in its tag.
    #[inline(always)]
    #[must_use]
    pub const fn with_verdict(self, verdict: Verdict) -> Self {
        self.with_tag(verdict.encode())
    }

    /// The tag read as a verdict.
    #[inline(always)]
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        Verdict::decode(self.tag())
    }
}

/// An NF's decision on a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// On to the next stage of its chain, or out if this was the last.
    #[default]
    Next,
    /// End here.
    Drop,
    /// Out of the port with this number.
    Port(u16),
    /// To the named stage with this number, in the same chain.
    Stage(u16),
}

impl Verdict {
    /// The tag of [`Verdict::Next`]: zero, so that an untouched verdict means "go on".
    pub const NEXT: u32 = Self::Next.encode();

    /// Verdict -> tag.
    #[inline(always)]
    #[must_use]
    pub const fn encode(self) -> u32 {
        let (kind, argument) = match self {
            Self::Next => (0, 0),
            Self::Drop => (1, 0),
            Self::Port(port) => (2, port as u32),
            Self::Stage(stage) => (3, stage as u32),
        };
        kind << ARGUMENT_BITS | argument & (ARGUMENT_COUNT - 1)
    }

    /// Tag -> verdict. Every tag has a meaning.
    #[inline(always)]
    #[must_use]
    pub const fn decode(tag: u32) -> Self {
        let argument = (tag & (ARGUMENT_COUNT - 1)) as u16;
        match tag >> ARGUMENT_BITS & 3 {
            0 => Self::Next,
            1 => Self::Drop,
            2 => Self::Port(argument),
            _ => Self::Stage(argument),
        }
    }

    /// Returns the tag of a made packet that enters the chain of this number; `None` when the number is too
    /// great for a tag.
    #[must_use]
    pub const fn onto_chain(chain: u16) -> Option<u32> {
        if (chain as u32) < ARGUMENT_COUNT - 1 { Some(Self::NEXT | (chain as u32 + 1)) } else { None }
    }

    /// Returns the number of the chain that a tag names, if it does.
    #[must_use]
    pub const fn chain_of(tag: u32) -> Option<u16> {
        match (Self::decode(tag), tag & (ARGUMENT_COUNT - 1)) {
            (Self::Next, more @ 1..) => Some(more as u16 - 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_come_back_as_they_went_in(
            index in 0..BUFFERS_MAX, offset in 0..=OFFSET_MAX, length in 0..=LENGTH_MAX, tag in 0u32..1 << TAG_BITS
        ) {
            let descriptor = Descriptor::new(index, offset, length, tag);
            prop_assert_eq!(
                (descriptor.index(), descriptor.offset(), descriptor.length(), descriptor.tag()),
                (index, offset, length, tag)
            );
        }

        #[test]
        fn every_word_reads_as_some_verdict_and_verdicts_round_trip(word: u64) {
            let verdict = Descriptor(word).verdict();
            let again = Descriptor(word).with_verdict(verdict);
            prop_assert_eq!(again.verdict(), verdict);
            prop_assert_eq!(again.index(), Descriptor(word).index());
            prop_assert_eq!(again.length(), Descriptor(word).length());
        }

        #[test]
        fn a_tag_names_a_chain_or_a_verdict(chain: u16) {
            let tag = Verdict::onto_chain(chain);
            prop_assert_eq!(tag.is_some(), chain < 4095);
            prop_assert_eq!(tag.and_then(Verdict::chain_of), Some(chain).filter(|chain| *chain < 4095));
            prop_assert!(tag.is_none_or(|tag| Verdict::decode(tag) == Verdict::Next));
            for verdict in [Verdict::Next, Verdict::Drop, Verdict::Port(chain), Verdict::Stage(chain)] {
                prop_assert_eq!(Verdict::chain_of(verdict.encode()), None);
            }
        }
    }
}
