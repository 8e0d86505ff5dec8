//! Frames whose every byte, checksums included, was made by scapy 2.

use std::vec::Vec;

/// 10.0.0.1:1024 > 10.0.0.2:53, "headgate".
pub(crate) const UDP4: &str = "02000000000202000000000108004500002400004000401126c70a0000010a00000\
    204000035001042066865616467617465";

/// Service tag 20 priority 5, customer tag 10 drop eligible, TOS 0xb9, 192.0.2.1:40000 >
/// 198.51.100.7:443, PSH and ACK, window 512, "abc".
pub(crate) const TCP4_QINQ: &str = "02000000000202000000000188a8a0148100100a080045b9002b0000400040\
    064dd8c0000201c63364079c4001bb0102030405060708501802004f1b0000616263";

/// Traffic class 0xb9, flow label 0xabcde, 2001:db8::1 port 1024 > 2001:db8::2 port 53, "odd".
pub(crate) const UDP6: &str = "02000000000202000000000186dd6b9abcde000b114020010db80000000000000000\
    0000000120010db800000000000000000000000204000035000bccc96f6464";

/// Hop-by-hop options, routing, first fragment 0xdeadbeef, destination options, UDP 7 > 9.
pub(crate) const UDP6_EXTENSIONS: &str = "02000000000202000000000186dd600000000040004020010db80000\
    0000000000000000000120010db80000000000000000000000022b000104000000002c0200010000000020010db800\
    00000000000000000000093c000001deadbeef1100010400000000000700090010d36d3132333435363738";

/// An IPv4 packet (no Ethernet) with record route, a NOP and an end of options; UDP 1 > 2.
pub(crate) const IP4_OPTIONS: &str =
    "4700002400010000401159be0a0000010a0000020707040000000001000100020008ebd8";

/// An IPv4 packet (no Ethernet): UDP, identification 0x1234, offset 1480, more to come.
pub(crate) const IP4_LATER_FRAGMENT: &str =
    "45000024123420b9401133da0a0000010a00000278787878787878787878787878787878";

/// 10.0.0.1:33434 > 192.0.2.9:33435, TTL 1, "trace".
pub(crate) const TRACE4: &str = "020000000002020000000001080045000021000700000111edbb0a000001c00002\
    09829a829b000df3bd7472616365";

/// Time exceeded from 10.0.0.254 about the packet in [`TRACE4`] (no Ethernet).
pub(crate) const TRACE4_EXCEEDED: &str = "45c0003d00004000400125020a0000fe0a0000010b00c1280000000045\
    000021000700000111edbb0a000001c0000209829a829b000df3bd7472616365";

/// An IPv6 packet (no Ethernet) 2001:db8::1 > 2001:db8:f::9, hop limit 1, "trace".
pub(crate) const TRACE6: &str = "60000000000d110120010db800000000000000000000000120010db8000f000000\
    00000000000009829a829b000d643d7472616365";

/// Destination unreachable, no route, from 2001:db8::fe about [`TRACE6`] (no Ethernet).
pub(crate) const TRACE6_NO_ROUTE: &str = "6c000000003d3a4020010db80000000000000000000000fe20010db800\
    0000000000000000000001010031270000000060000000000d110120010db80000000000000000000000\
    0120010db8000f00000000000000000009829a829b000d643d7472616365";

/// The bytes that hexadecimal digits name.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    digits.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
