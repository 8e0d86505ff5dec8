use std::net::IpAddr;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::frame::{Frame, Network, Transport};
use crate::vlan::Tag;
use crate::{MacAddress, tcp};
use proptest::prelude::*;

const FROM: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const TO: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn segment(source: &str, destination: &str, header: Header, payload: usize, tags: usize) -> Vec<u8> {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let network = Network::between(address(source), address(destination)).unwrap();
    let tag = |number| (number < tags).then(|| Tag::customer(number as u16 + 1));
    let frame = Frame {
        destination: TO,
        source: FROM,
        tags: [tag(0), tag(1)],
        network,
        transport: Transport::Tcp(header),
    };
    let mut bytes = vec![0; frame.headers_length() + payload];
    frame.write(&mut bytes, payload, |bytes| bytes.fill(7)).unwrap();
    bytes
}

fn reset(frame: &[u8]) -> Result<Vec<u8>, NoIcmpError> {
    let mut out = vec![0xee; 200];
    let length = reset_frame(frame, &mut out)?;
    out.truncate(length);
    Ok(out)
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.1", "192.0.2.9"), ("2001:db8::1", "2001:db8:f::9")];

proptest! {
    /// The reset goes back between the same ports, with right sums, and with the numbers of RFC 9293.
    #[test]
    fn a_segment_is_reset_in_the_name_of_its_receiver(
        sequence: u32, acknowledgment: u32, flags in (0u8..).prop_map(|flags| flags & !flag::RST),
        ports: (u16, u16), payload in 0usize..100, pair in 0usize..2, tags in 0usize..3,
    ) {
        let (source, destination) = PAIRS[pair];
        let header = Header {
            source_port: ports.0, destination_port: ports.1, sequence, acknowledgment, flags, window: 9,
        };
        let asked = segment(source, destination, header, payload, tags);
        let answer = reset(&asked).unwrap();
        let link = Tags::parse(&answer).unwrap().payload_offset;
        prop_assert_eq!(&answer[..6], &FROM.0);
        prop_assert_eq!(&answer[6..12], &TO.0);
        prop_assert_eq!(&answer[12..link], &asked[12..link]);
        let (packet, pseudo) = (&answer[link..], link);
        let (payload_at, sum) = if pair == 0 {
            let packet = ipv4::Packet::new(packet).unwrap();
            prop_assert!(packet.verify_checksum());
            prop_assert_eq!(packet.source().to_string(), destination);
            prop_assert_eq!(packet.destination().to_string(), source);
            (pseudo + ipv4::HEADER_LENGTH, packet.pseudo_header())
        } else {
            let packet = ipv6::Packet::new(packet).unwrap();
            prop_assert_eq!(packet.source().to_string(), destination);
            prop_assert_eq!(packet.destination().to_string(), source);
            (pseudo + ipv6::HEADER_LENGTH, packet.pseudo_header(protocol::TCP, HEADER_LENGTH as u32))
        };
        let answer = tcp::Segment::new(&answer[payload_at..]).unwrap();
        prop_assert!(answer.verify_checksum(sum));
        prop_assert_eq!((answer.source_port(), answer.destination_port()), (ports.1, ports.0));
        prop_assert!(answer.payload().is_empty());
        if flags & flag::ACK != 0 {
            prop_assert_eq!((answer.flags(), answer.sequence()), (flag::RST, acknowledgment));
        } else {
            let length = payload as u32 + u32::from(flags & flag::SYN != 0) + u32::from(flags & flag::FIN != 0);
            prop_assert_eq!((answer.flags(), answer.sequence()), (flag::RST | flag::ACK, 0));
            prop_assert_eq!(answer.acknowledgment(), sequence.wrapping_add(length));
        }
    }

    /// Whatever bytes come, an answer or a reason comes of it.
    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..120), room in 0usize..120) {
        let mut out = vec![0; room];
        if let Ok(length) = reset_frame(&bytes, &mut out) {
            prop_assert!(length <= room);
        }
    }
}

#[test]
fn who_must_not_be_answered_is_not() {
    let syn = Header { flags: flag::SYN, ..Header::default() };
    let plain = || segment(PAIRS[0].0, PAIRS[0].1, syn, 0, 0);
    let again = Header { flags: flag::RST | flag::ACK, ..Header::default() };
    assert_eq!(reset(&segment(PAIRS[0].0, PAIRS[0].1, again, 0, 0)), Err(NoIcmpError::Reset));
    for (source, destination, why) in [
        ("10.0.0.1", "224.0.0.5", NoIcmpError::ManyReceivers),
        ("10.0.0.1", "255.255.255.255", NoIcmpError::ManyReceivers),
        ("0.0.0.0", "10.0.0.1", NoIcmpError::BadSource),
        ("127.0.0.1", "10.0.0.1", NoIcmpError::BadSource),
        ("240.0.0.1", "10.0.0.1", NoIcmpError::BadSource),
        ("2001:db8::1", "ff02::1", NoIcmpError::ManyReceivers),
        ("::", "2001:db8::1", NoIcmpError::BadSource),
    ] {
        assert_eq!(reset(&segment(source, destination, syn, 0, 0)), Err(why), "{source} > {destination}");
    }
    let mut to_all = plain();
    to_all[0] = 0xff;
    assert_eq!(reset(&to_all), Err(NoIcmpError::ManyReceivers));
    let mut fragment = plain();
    fragment[21] = 3;
    let mut packet = ipv4::Packet::new(&mut fragment[14..]).unwrap();
    packet.fill_checksum();
    assert_eq!(reset(&fragment), Err(NoIcmpError::LaterFragment));
    let mut udp = plain();
    udp[23] = protocol::UDP;
    assert_eq!(reset(&udp), Err(NoIcmpError::NotTcp));
    let mut arp = plain();
    arp[13] = 6;
    assert_eq!(reset(&arp), Err(NoIcmpError::NotIp));
    let short = &mut [0; 53];
    assert_eq!(reset_frame(&plain(), short), Err(NoRoomError::Buffer { needed: 40, given: 39 }.into()));
}
