use super::*;

/// The fields of RFC 5880, 4.1, by hand: up, no diagnostic, a poll, multiplier 3, 10 ms both ways.
const UP: [u8; LENGTH] =
    [0x20, 0xe0, 3, 24, 0, 0, 0, 1, 0x80, 0, 0, 2, 0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10, 0, 0, 0, 0];

#[test]
fn fields_stand_where_the_rfc_has_them() {
    let packet = Control::parse(&UP).unwrap();
    let expected = Control {
        state: 3,
        poll: true,
        multiplier: 3,
        mine: 1,
        yours: 0x8000_0002,
        desired_transmit_us: 10_000,
        required_receive_us: 10_000,
        ..Control::default()
    };
    assert_eq!(packet, expected);
    assert_eq!(packet.to_bytes(), UP);
    let expired = Control { diagnostic: 1, state: 1, is_final: true, poll: false, ..packet };
    assert_eq!(expired.to_bytes()[..2], [0x21, 0x50]);
    assert_eq!(Control::parse(&expired.to_bytes()), Ok(expired));
}

#[test]
fn what_follows_the_packet_is_none_of_it() {
    let mut longer = [0xff; LENGTH + 9];
    longer[..LENGTH].copy_from_slice(&UP);
    assert_eq!(Control::parse(&longer), Control::parse(&UP));
}

#[test]
fn every_wrong_form_is_refused_for_its_reason() {
    for length in 0..LENGTH {
        assert_eq!(Control::parse(&UP[..length]), Err(ControlError::Truncated));
    }
    let with = |at: usize, value: u8| {
        let mut bytes = UP;
        bytes[at] = value;
        Control::parse(&bytes)
    };
    for version in [0, 2, 7] {
        assert_eq!(with(0, version << 5), Err(ControlError::Version(version)));
    }
    for length in (0..=u8::MAX).filter(|length| *length != 24) {
        assert_eq!(with(3, length), Err(ControlError::Length(length)));
    }
    assert_eq!(with(1, 0xe0 | 0x04), Err(ControlError::Authenticated));
    assert_eq!(with(1, 0xe0 | 0x01), Err(ControlError::Multipoint));
}

#[test]
fn all_that_is_taken_is_written_again_as_it_came() {
    for first in 0..=u8::MAX {
        for flags in 0..=u8::MAX {
            let mut bytes = UP;
            (bytes[0], bytes[1]) = (first, flags);
            if let Ok(packet) = Control::parse(&bytes) {
                assert_eq!(packet.to_bytes(), bytes);
            }
        }
    }
}
