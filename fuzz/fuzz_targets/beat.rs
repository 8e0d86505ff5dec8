//! Any bytes as beats: refused, or passed on as they came.

#![no_main]

use headgate_wire::beat::{Datagram, Writer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = Datagram::new(bytes) else { return };
    let mut again = Writer::default();
    for record in read.records() {
        assert!(record.offers().all(|offer| offer.kappa >= 0.0));
        again.pass_on(record.bytes).unwrap();
    }
    assert_eq!(again.bytes(), bytes);
});
