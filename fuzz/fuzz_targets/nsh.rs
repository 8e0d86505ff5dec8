//! Any bytes as a service header and its payload: refused, or written again as they came.
//!
//! The input begins with the service header, without the Ethernet header in front of it.

#![no_main]

use headgate_wire::flow_key::{Parsed, parse};
use headgate_wire::nsh::{self, FIXED_LENGTH, Header, HeaderError, flow_hash, md_type};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let header = match Header::new(bytes) {
        Ok(header) => header,
        Err(why) => return check_refused(bytes, why),
    };
    let length = header.base().length();
    assert_eq!(header.payload(), &bytes[length..]);
    let options: usize =
        header.options().map(|option| 4 + option.unwrap().data.len().next_multiple_of(4)).sum();
    let context = header.context().map_or(0, |context| {
        assert_eq!(context.to_bytes().as_slice(), header.metadata());
        nsh::CONTEXT_LENGTH
    });
    assert_eq!(FIXED_LENGTH + options + context, length);

    let mut again = [0xee; nsh::LENGTH_MAX];
    let rest = nsh::write(header.base(), header.service_path(), header.metadata(), &mut again).unwrap().len();
    assert_eq!(&again[..again.len() - rest], &bytes[..length]);
    if let Some(behind) = header.base().forwarded() {
        assert_eq!(behind.with_ttl(header.base().ttl()), header.base());
        assert!(behind.ttl() > 0);
    }
    let payload = header.payload();
    let is_sound = matches!(parse(payload, payload.len()), Parsed::Ipv4 { .. } | Parsed::Wide { .. });
    assert_eq!(flow_hash(payload, payload.len()) != 0, is_sound);
});

fn check_refused(bytes: &[u8], why: HeaderError) {
    match why {
        HeaderError::Truncated => assert!(bytes.len() < nsh::LENGTH_MAX),
        HeaderError::Version(version) => assert!(version > 0 && version == bytes[0] >> 6),
        HeaderError::MdType(kind) => assert!(!matches!(kind, md_type::FIXED | md_type::VARIABLE)),
        HeaderError::Length(words) => assert_eq!(words, bytes[1] & 0x3f),
        HeaderError::Option => assert_eq!(bytes[2] & 0xf, md_type::VARIABLE),
    }
}
