//! Service headers of packets that came with one, kept where no NF can reach them: the header that leaves
//! with the packet is the one that came, but for TTL and service index.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_wire::nsh::{Base, CONTEXT_LENGTH, Context, ContextWords, FIXED_LENGTH, LENGTH_MAX, md_type};

/// Most bytes behind the service path header.
pub const METADATA_MAX: usize = LENGTH_MAX - FIXED_LENGTH;

const WORD: usize = size_of::<u64>();
/// Words behind the service path header in a header of MD type 1.
const CONTEXT_WORDS: usize = CONTEXT_LENGTH / WORD;
/// Words of what may stand behind those, in a header of MD type 2.
const MORE_WORDS: usize = METADATA_MAX.div_ceil(WORD) - CONTEXT_WORDS;
/// In the first word, above the base header: there is a header.
const PRESENT: u64 = 1 << u32::BITS;

/// Header of one packet, as far as one of MD type 1 goes: what nearly all have lies close together.
#[repr(align(32))]
struct Kept {
    base: AtomicU64,
    context: [AtomicU64; CONTEXT_WORDS],
}

/// The rest of a longer one.
struct More([AtomicU64; MORE_WORDS]);

/// Bytes that the headers of so many buffers take.
pub(super) const fn bytes_for(buffers: u32) -> usize {
    buffers as usize * (size_of::<Kept>() + size_of::<More>())
}

impl Kept {
    fn none() -> Self {
        Self { base: AtomicU64::new(0), context: [const { AtomicU64::new(0) }; CONTEXT_WORDS] }
    }

    /// Returns the base header; `None`: there is no header.
    #[inline(always)]
    fn base(&self) -> Option<Base> {
        let first = self.base.load(Ordering::Relaxed);
        (first & PRESENT != 0).then(|| Base::from_bits(first as u32))
    }

    #[inline(always)]
    fn context(&self) -> ContextWords {
        self.context.each_ref().map(|word| word.load(Ordering::Relaxed))
    }
}

/// Service header without its service path header.
#[derive(Clone, Copy, Debug)]
pub struct ServiceHeader {
    /// The base header.
    pub base: Base,
    /// What stands behind the service path header, in the first bytes.
    metadata: [u8; METADATA_MAX],
}

impl ServiceHeader {
    /// Returns what stands behind the service path header.
    #[inline]
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata[..metadata_length(self.base)]
    }
}

/// Length of what stands behind the service path header.
const fn metadata_length(base: Base) -> usize {
    base.length().saturating_sub(FIXED_LENGTH)
}

/// A header for each buffer, or none at all.
#[derive(Default)]
pub struct ServiceHeaders {
    kept: Box<[Kept]>,
    more: Box<[More]>,
}

impl ServiceHeaders {
    pub(super) fn new(buffers: u32, wanted: bool) -> Self {
        let count = if wanted { buffers } else { 0 };
        Self {
            kept: (0..count).map(|_| Kept::none()).collect(),
            more: (0..count).map(|_| More([const { AtomicU64::new(0) }; MORE_WORDS])).collect(),
        }
    }

    /// Returns the header that the packet in a buffer came with.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<ServiceHeader> {
        let base = self.kept.get(index as usize)?.base()?;
        let mut metadata = [0; METADATA_MAX];
        self.read(index, &mut metadata[..metadata_length(base)]);
        Some(ServiceHeader { base, metadata })
    }

    /// Copies so many bytes of what stands behind a service path header. No byte is read of more than there
    /// are: those behind are of a packet before.
    fn read(&self, index: u32, into: &mut [u8]) {
        let (Kept { context, .. }, More(more)) = (&self.kept[index as usize], &self.more[index as usize]);
        for (to, word) in into.chunks_mut(WORD).zip(context.iter().chain(more)) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_be_bytes()[..to.len()]);
        }
    }

    /// Returns base header and context of the packet in a buffer that came with a header of MD type 1; `None`
    /// where it came with none or another.
    #[inline(always)]
    #[must_use]
    pub(crate) fn plain(&self, index: u32) -> Option<(Base, ContextWords)> {
        let kept = self.kept.get(index as usize)?;
        let base = kept.base().filter(|base| base.md_type() == md_type::FIXED)?;
        Some((base, kept.context()))
    }

    /// Returns the node that the header says is to serve the packet's stage; 0: it says none.
    #[inline]
    #[must_use]
    pub fn target(&self, index: u32) -> u16 {
        self.plain(index).map_or(0, |(_, words)| Context::from_words(words).target)
    }

    /// Sets it to one of MD type 1. Does nothing where there is no room for any.
    #[inline(always)]
    pub(crate) fn set_plain(&self, index: u32, base: Base, context: ContextWords) {
        let Some(kept) = self.kept.get(index as usize) else { return };
        kept.base.store(u64::from(base.bits()) | PRESENT, Ordering::Relaxed);
        for (word, value) in kept.context.iter().zip(context) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Sets it. `metadata` is as long as the base header says. Does nothing where there is no room for any.
    pub fn set(&self, index: u32, base: Base, metadata: &[u8]) {
        debug_assert_eq!(metadata.len(), metadata_length(base));
        let Some(Kept { base: kept, context }) = self.kept.get(index as usize) else { return };
        kept.store(u64::from(base.bits()) | PRESENT, Ordering::Relaxed);
        let More(more) = &self.more[index as usize];
        for (word, bytes) in context.iter().chain(more).zip(metadata.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_be_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Forgets it.
    #[inline]
    pub fn clear(&self, index: u32) {
        if let Some(kept) = self.kept.get(index as usize) {
            kept.base.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn copy_from(&self, to: u32, other: &Self, from: u32) {
        match other.get(from) {
            Some(header) => self.set(to, header.base, header.metadata()),
            None => self.clear(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use headgate_wire::nsh::Context;

    use super::*;

    #[test]
    fn headers_of_every_length_come_out_as_they_went_in() {
        let headers = ServiceHeaders::new(4, true);
        assert!(headers.get(3).is_none());
        for words in 2..=63u32 {
            let base = Base::from_bits(words << 16 | 2 << 8 | 3);
            let metadata: Vec<u8> = (0..words as usize * 4 - FIXED_LENGTH).map(|byte| byte as u8).collect();
            headers.set(3, base, &metadata);
            let kept = headers.get(3).unwrap();
            assert_eq!((kept.base, kept.metadata()), (base, metadata.as_slice()));
            assert_eq!(headers.plain(3), None, "{words} words");
            headers.copy_from(0, &headers, 3);
            assert_eq!(headers.get(0).unwrap().metadata(), metadata);
        }
        headers.clear(3);
        headers.copy_from(0, &headers, 3);
        assert!(headers.get(3).is_none() && headers.get(0).is_none() && headers.get(1).is_none());
    }

    #[test]
    fn a_target_is_read_from_a_context_alone() {
        let headers = ServiceHeaders::new(2, true);
        let context = Context { target: 0x0102, ..Context::default() };
        assert_eq!(headers.target(1), 0);
        headers.set_plain(1, Base::of_type_1(), context.to_words());
        assert_eq!(headers.get(1).unwrap().metadata(), context.to_bytes());
        assert_eq!((headers.target(1), headers.target(0), headers.target(7)), (0x0102, 0, 0));
        assert_eq!(headers.plain(1), Some((Base::of_type_1(), context.to_words())));
        let of_type_2 = Base::from_bits(6 << 16 | 2 << 8 | 3);
        headers.set(1, of_type_2, &context.to_bytes());
        assert_eq!((headers.target(1), headers.plain(1)), (0, None));
        headers.clear(1);
        assert_eq!(headers.target(1), 0);
    }

    #[test]
    fn where_none_are_wanted_none_are_kept() {
        let headers = ServiceHeaders::new(4, false);
        headers.set(3, Base::of_type_1(), &[7; 16]);
        headers.clear(3);
        assert!(headers.get(3).is_none());
    }
}
