//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use core::net::{Ipv4Addr, Ipv6Addr};

/// A one's complement sum under construction.
///
/// Values are added in any order; the result is the same (RFC 1071 §2, properties A and B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// The pseudo header of UDP and TCP over IPv4 (RFC 768, RFC 9293 §3.1).
    /// `length` counts the transport header and its payload, in bytes.
    #[inline]
    pub const fn pseudo_ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Self {
        Self::new()
            .double_word(source.to_bits())
            .double_word(destination.to_bits())
            .word(protocol as u16)
            .word(length)
    }

    /// The pseudo header of every upper layer over IPv6 (RFC 8200 §8.1).
    /// `length` counts the upper-layer header and its payload, in bytes.
    #[inline]
    pub fn pseudo_ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Self {
        Self::new()
            .bytes(&source.octets())
            .bytes(&destination.octets())
            .double_word(length)
            .word(u16::from(protocol))
    }

    /// Adds one 16-bit word.
    #[inline]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds a 32-bit word, which is the same as its two halves.
    #[inline]
    pub const fn double_word(self, word: u32) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds bytes as big-endian words. Only the last call for a sum may have an odd length: it is
    /// padded with a zero byte (RFC 1071 §4.1).
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Summed in the machine's byte order, four bytes at a time, and swapped once at the end:
        // RFC 1071 §2 (B) and (C). A u64 cannot overflow below 2^32 additions.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_ne_bytes(last));
        self.word(u16::from_be(fold(sum)))
    }

    /// The checksum: the complement of the sum. Over data that contains its right checksum it is 0.
    #[inline]
    pub const fn finish(self) -> u16 {
        !fold(self.0)
    }

    /// The checksum as UDP transmits it: 0 would mean "none", so it is sent as 0xffff (RFC 768).
    #[inline]
    pub const fn finish_udp(self) -> u16 {
        zero_as_ones(self.finish())
    }
}

/// Change of data that a checksum covers; apply it to the checksum instead of summing again.
///
/// RFC 1624 §3, equation 3: `HC' = ~(~HC + ~m + m')`. Exact: equal to a full recomputation for
/// every checksum that was right, except over data that are all zero, which no IP header is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a checksum that covers the changed field is wrong until this is applied to it"]
pub struct Change(u64);

impl Change {
    /// No change.
    #[inline]
    pub const fn new() -> Self {
        Self(0)
    }

    /// A 16-bit word, at an even offset of the covered data, became another.
    #[inline]
    pub const fn word(self, old: u16, new: u16) -> Self {
        Self(self.0 + !old as u64 + new as u64)
    }

    /// A 32-bit word, at an even offset of the covered data, became another.
    #[inline]
    pub const fn double_word(self, old: u32, new: u32) -> Self {
        Self(self.0 + !old as u64 + new as u64)
    }

    /// An IPv6 address became another.
    #[inline]
    pub const fn ipv6(self, old: Ipv6Addr, new: Ipv6Addr) -> Self {
        let (old, new) = (old.to_bits(), new.to_bits());
        self.double_word((old >> 96) as u32, (new >> 96) as u32)
            .double_word((old >> 64) as u32, (new >> 64) as u32)
            .double_word((old >> 32) as u32, (new >> 32) as u32)
            .double_word(old as u32, new as u32)
    }

    /// Both changes.
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The checksum after the change.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        !fold(self.0 + !checksum as u64)
    }

    /// A checksum that is only begun ([`crate::offload`]) after a change of the pseudo header: it is the sum
    /// of that, and not its complement. What else changes it does not cover yet.
    #[inline]
    pub const fn apply_begun(self, sum: u16) -> u16 {
        fold(self.0 + sum as u64)
    }

    /// A UDP checksum after the change: "none" (0) stays "none", a computed 0 is written 0xffff.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 { 0 } else { zero_as_ones(self.apply(checksum)) }
    }
}

/// End-around carry down to 16 bits.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[inline]
const fn zero_as_ones(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests;
