//! Service headers of packets that came with one, kept where no NF can reach them: the header that leaves
//! with the packet is the one that came, but for TTL and service index.

use std::sync::atomic::{AtomicU64, Ordering};

use headgate_wire::nsh::{Base, FIXED_LENGTH, LENGTH_MAX, ServicePath, TARGET_AT, md_type, next_protocol};

/// Most bytes behind the service path header.
pub const METADATA_MAX: usize = LENGTH_MAX - FIXED_LENGTH;

const WORD: usize = size_of::<u64>();
/// The base header, and all that may stand behind the service path header.
const WORDS: usize = 1 + METADATA_MAX.div_ceil(WORD);
/// In the first word, above the base header: there is a header.
const PRESENT: u64 = 1 << u32::BITS;

/// Header of one packet.
struct Kept([AtomicU64; WORDS]);

/// Bytes that the headers of so many buffers take.
pub(super) const fn bytes_for(buffers: u32) -> usize {
    buffers as usize * size_of::<Kept>()
}

/// Service header without its service path header.
#[derive(Clone, Copy, Debug)]
pub struct ServiceHeader {
    /// The base header.
    pub base: Base,
    /// What stands behind the service path header, in the first bytes.
    metadata: [[u8; WORD]; WORDS - 1],
}

impl ServiceHeader {
    /// Returns what stands behind the service path header.
    #[inline]
    #[must_use]
    pub fn metadata(&self) -> &[u8] {
        &self.metadata.as_flattened()[..metadata_length(self.base)]
    }
}

/// Length of what stands behind the service path header.
const fn metadata_length(base: Base) -> usize {
    base.length().saturating_sub(FIXED_LENGTH)
}

/// A header for each buffer, or none at all.
#[derive(Default)]
pub struct ServiceHeaders(Box<[Kept]>);

impl ServiceHeaders {
    pub(super) fn new(buffers: u32, wanted: bool) -> Self {
        let count = if wanted { buffers } else { 0 };
        Self((0..count).map(|_| Kept([const { AtomicU64::new(0) }; WORDS])).collect())
    }

    /// Returns the header that the packet in a buffer came with.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<ServiceHeader> {
        let Kept(words) = self.0.get(index as usize)?;
        let first = words[0].load(Ordering::Relaxed);
        if first & PRESENT == 0 {
            return None;
        }
        let base = Base::from_bits(first as u32);
        let mut metadata = [[0; WORD]; WORDS - 1];
        let count = metadata_length(base).div_ceil(WORD);
        for (to, word) in metadata[..count].iter_mut().zip(&words[1..]) {
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(ServiceHeader { base, metadata })
    }

    /// Writes the header that the packet in a buffer came with, around an Ethernet frame and with this path.
    /// `target` is the node that it says is to serve the packet's stage; 0: what it says stays. Returns its
    /// length; `None` where the packet came without one.
    #[inline]
    pub fn write(
        &self,
        index: u32,
        path: ServicePath,
        target: u16,
        bytes: &mut [u8; LENGTH_MAX],
    ) -> Option<usize> {
        let Kept(words) = self.0.get(index as usize)?;
        let first = words[0].load(Ordering::Relaxed);
        if first & PRESENT == 0 {
            return None;
        }
        let base = Base::from_bits(first as u32).with_next_protocol(next_protocol::ETHERNET);
        let metadata = metadata_length(base);
        bytes[..4].copy_from_slice(&base.bits().to_be_bytes());
        bytes[4..FIXED_LENGTH].copy_from_slice(&path.bits().to_be_bytes());
        // No byte is read of more than there are: those behind are of a packet before.
        for (to, word) in bytes[FIXED_LENGTH..][..metadata].chunks_mut(WORD).zip(&words[1..]) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..to.len()]);
        }
        if target != 0 && base.md_type() == md_type::FIXED {
            bytes[FIXED_LENGTH + TARGET_AT..][..2].copy_from_slice(&target.to_be_bytes());
        }
        Some(FIXED_LENGTH + metadata)
    }

    /// Returns the node that the header says is to serve the packet's stage; 0: it says none.
    #[inline]
    #[must_use]
    pub fn target(&self, index: u32) -> u16 {
        let Some(Kept(words)) = self.0.get(index as usize) else { return 0 };
        let first = words[0].load(Ordering::Relaxed);
        if first & PRESENT == 0 || Base::from_bits(first as u32).md_type() != md_type::FIXED {
            return 0;
        }
        let bytes = words[1 + TARGET_AT / WORD].load(Ordering::Relaxed).to_ne_bytes();
        u16::from_be_bytes([bytes[TARGET_AT % WORD], bytes[TARGET_AT % WORD + 1]])
    }

    /// Sets it. `metadata` is as long as the base header says. Does nothing where there is no room for any.
    #[inline]
    pub fn set(&self, index: u32, base: Base, metadata: &[u8]) {
        debug_assert_eq!(metadata.len(), metadata_length(base));
        let Some(Kept(words)) = self.0.get(index as usize) else { return };
        words[0].store(u64::from(base.bits()) | PRESENT, Ordering::Relaxed);
        for (word, bytes) in words[1..].iter().zip(metadata.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
    }

    /// Forgets it.
    #[inline]
    pub fn clear(&self, index: u32) {
        if let Some(Kept(words)) = self.0.get(index as usize) {
            words[0].store(0, Ordering::Relaxed);
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
    use headgate_wire::nsh::{self, Context, Header, LENGTH_OF_TYPE_1};

    use super::*;

    const PATH: ServicePath = ServicePath { path: 0x0a0b0c, index: 254 };

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
            let (mut expected, mut written) = ([0; LENGTH_MAX], [0; LENGTH_MAX]);
            let rest = nsh::write(base.with_next_protocol(3), PATH, &metadata, &mut expected).unwrap().len();
            assert_eq!(headers.write(3, PATH, 9, &mut written), Some(LENGTH_MAX - rest));
            assert_eq!(written, expected, "{words} words");
            headers.copy_from(0, &headers, 3);
            assert_eq!(headers.get(0).unwrap().metadata(), metadata);
        }
        headers.clear(3);
        headers.copy_from(0, &headers, 3);
        assert!(headers.get(3).is_none() && headers.get(0).is_none() && headers.get(1).is_none());
        assert_eq!(headers.write(3, PATH, 9, &mut [0; LENGTH_MAX]), None);
    }

    #[test]
    fn a_target_is_read_from_a_context_alone() {
        let headers = ServiceHeaders::new(2, true);
        let context = Context { target: 0x0102, ..Context::default() }.to_bytes();
        assert_eq!(headers.target(1), 0);
        headers.set(1, Base::of_type_1(), &context);
        assert_eq!((headers.target(1), headers.target(0), headers.target(7)), (0x0102, 0, 0));
        let target_of = |wanted| {
            let mut written = [0; LENGTH_MAX];
            assert_eq!(headers.write(1, PATH, wanted, &mut written), Some(LENGTH_OF_TYPE_1));
            Header::new(&written[..LENGTH_OF_TYPE_1]).unwrap().context().unwrap().target
        };
        assert_eq!((target_of(0), target_of(0x0304)), (0x0102, 0x0304));
        let of_type_2 = Base::from_bits(6 << 16 | 2 << 8 | 3);
        headers.set(1, of_type_2, &context);
        assert_eq!(headers.target(1), 0);
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
