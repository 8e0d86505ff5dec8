//! Any bytes as a BFD control packet: refused, or written again as they came.

#![no_main]

use headgate_wire::bfd::{Control, LENGTH};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Control::parse(bytes) {
        assert_eq!(packet.to_bytes().as_slice(), &bytes[..LENGTH]);
    }
});
