//! Hash of a flow that both directions share.

use crate::flow_key::{FlowKey4, FlowKeyWide, Fragment, HeaderOffsets, Parsed, parse, plain_ipv4};

/// Returns the hash of a frame's flow for [`Context::flow_hash`](super::Context::flow_hash): equal for both
/// directions, on every machine, and for all fragments of a packet. 0 where the frame is malformed, and else
/// not 0. `header` has the first bytes of a frame of `length` bytes, as for [`parse`].
#[inline]
pub fn flow_hash(header: &[u8], length: usize) -> u32 {
    let hash = match parse(header, length) {
        Parsed::Ipv4 { key, place } => hash_narrow(key, &place),
        Parsed::Wide { key, place } => hash_wide(key, &place),
        Parsed::Malformed(_) | Parsed::NeedMore { .. } => return 0,
    };
    (hash as u32).max(1)
}

/// Returns the same hash of a frame that [`plain_ipv4`] takes, by the same words of it; `None` for every
/// other frame.
#[inline(always)]
pub fn plain_flow_hash(word: impl Fn(usize) -> u64, length: usize) -> Option<u32> {
    let key = plain_ipv4(word, length)?;
    let ports = (u64::from(key.source_port()), u64::from(key.destination_port()));
    Some((hash_of(key, ports) as u32).max(1))
}

/// The finalizer of MurmurHash3: every bit of the word changes half of the result's.
#[inline]
const fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Mixes two ends so that their order does not matter, and what both directions have in common.
#[inline]
fn mix_ends(one: u64, other: u64, common: u64) -> u64 {
    mix(mix(one.min(other)) ^ one.max(other).rotate_left(1) ^ common << 48)
}

#[inline]
fn hash_narrow(key: FlowKey4, place: &HeaderOffsets) -> u64 {
    hash_of(key, ports(key.source_port(), key.destination_port(), place))
}

#[inline]
fn hash_of(key: FlowKey4, (from, to): (u64, u64)) -> u64 {
    let end = |address: core::net::Ipv4Addr, port| u64::from(address.to_bits()) << 16 | port;
    mix_ends(end(key.source(), from), end(key.destination(), to), key.protocol().into())
}

fn hash_wide(key: FlowKeyWide, place: &HeaderOffsets) -> u64 {
    let (from, to) = ports(key.source_port(), key.destination_port(), place);
    let [source, destination, _] = key.words();
    let end = |address: u128, port| mix(address as u64) ^ (address >> 64) as u64 ^ port;
    let common = u64::from(key.ethertype()) ^ u64::from(key.protocol());
    mix_ends(end(source, from), end(destination, to), common)
}

/// Ports count only where all parts of a packet have them.
#[inline]
const fn ports(from: u16, to: u16, place: &HeaderOffsets) -> (u64, u64) {
    match place.fragment {
        Fragment::None => (from as u64, to as u64),
        Fragment::First { .. } | Fragment::Later { .. } => (0, 0),
    }
}
