//! Hash of the keys of tables.

/// A hash for short keys: a folded multiplication for each 16 bytes (as wyhash, W. Yi), with two secret
/// numbers. The standard library's SipHash takes several rounds for each 8.
#[inline(always)]
pub fn hash([mut state, secret]: [u64; 2], key: &[u8]) -> u64 {
    for part in key.chunks(16) {
        let mut bytes = [0; 16];
        bytes[..part.len()].copy_from_slice(part);
        let word = u128::from_le_bytes(bytes);
        let (low, high) = (word as u64 ^ state, (word >> 64) as u64 ^ secret);
        state = folded(low, high).rotate_left(23) ^ low;
    }
    folded(state, secret | 1)
}

#[inline(always)]
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_hash_tells_neighbours_apart_and_depends_on_its_secrets() {
        let secrets = [0x0123_4567_89ab_cdef, 0xfeed_beef_dead_cafe];
        let of = |key: u128| hash(secrets, &key.to_le_bytes());
        let hashes: HashSet<u64> = (0..10_000u128).map(|key| of(key << 64)).collect();
        assert_eq!(hashes.len(), 10_000);
        let high_bits: HashSet<u64> = (0..10_000u128).map(|key| of(key << 32) >> 48).collect();
        assert!(high_bits.len() > 8_000, "{} of about 9300 that random numbers take", high_bits.len());
        assert_ne!(hash([1, 2], &[1; 16]), hash([3, 4], &[1; 16]));
    }
}
