use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// RFC 1071 §4.1 as written there: word by word, carries at the end.
fn sum_by_definition(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum as u16
}

#[test]
fn rfc_1071_section_3_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::new().bytes(&bytes).finish(), !0xddf2);
}

#[test]
fn rfc_1624_section_4_example() {
    // The case in which RFC 1141's equation gives 0xffff instead of 0.
    assert_eq!(Change::new().word(0x5555, 0x3285).apply(0xdd2f), 0x0000);
}

#[test]
fn udp_zero_is_written_as_ones_and_none_stays_none() {
    assert_eq!(Sum::new().word(0xffff).finish(), 0);
    assert_eq!(Sum::new().word(0xffff).finish_udp(), 0xffff);
    assert_eq!(Change::new().word(1, 2).apply_udp(0), 0);
    // A sum of 0xfffe becomes one of 0xffff: the checksum 1 becomes 0.
    assert_eq!(Change::new().word(1, 2).apply_udp(1), 0xffff);
}

#[test]
fn sums_do_not_overflow() {
    let long = Sum::new().bytes(&[0xff; 65_535]);
    let many = (0..100_000).fold(long, |sum, _| sum.double_word(u32::MAX));
    assert_eq!(many.finish(), !sum_by_definition(&[0xff; 65_535]));
}

proptest! {
    #[test]
    fn fast_sum_is_the_sum_by_definition(bytes: Vec<u8>, split in 0usize..64) {
        let split = (split * 2).min(bytes.len() & !1);
        let (front, back) = bytes.split_at(split);
        prop_assert_eq!(Sum::new().bytes(front).bytes(back).finish(), !sum_by_definition(&bytes));
    }

    #[test]
    fn incremental_is_full(
        mut words in prop::collection::vec(prop_oneof![any::<u16>(), Just(0), Just(0xffff)], 2..40),
        at: prop::sample::Index,
        new in prop_oneof![any::<u16>(), Just(0), Just(0xffff)],
    ) {
        let sum = |words: &[u16]| words.iter().fold(Sum::new(), |sum, word| sum.word(*word));
        // No IP header and no pseudo header is all zero: the first word stands for what never is.
        words[0] = 0x4500;
        let at = 1 + at.index(words.len() - 1);
        let old_sum = sum(&words);
        let change = Change::new().word(words[at], new);
        words[at] = new;
        prop_assert_eq!(change.apply(old_sum.finish()), sum(&words).finish());
        prop_assert_eq!(change.apply_udp(old_sum.finish_udp()), sum(&words).finish_udp());
    }

    #[test]
    fn ipv6_address_change_is_full(old: u128, new: u128, rest in 1u16..) {
        let sum = |address: u128| Sum::new().bytes(&address.to_be_bytes()).word(rest);
        let change = Change::new().ipv6(Ipv6Addr::from_bits(old), Ipv6Addr::from_bits(new));
        prop_assert_eq!(change.apply(sum(old).finish()), sum(new).finish());
    }

    /// A begun checksum holds the sum of what has changed, not its complement.
    #[test]
    fn a_begun_checksum_follows_too(old: u32, new: u32, rest in 1u16..) {
        let begun = |address: u32| !Sum::new().double_word(address).word(rest).finish();
        let changed = Change::new().double_word(old, new).apply_begun(begun(old));
        // Both are the sum; of its two zeroes either.
        prop_assert_eq!(changed % 0xffff, begun(new) % 0xffff);
    }
}
