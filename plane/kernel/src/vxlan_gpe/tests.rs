use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use headgate_port::testing::{packets, receive, stack};

use super::*;

/// Longest wait for what has to come; not a measurement.
const PATIENCE: Duration = Duration::from_secs(30);
const FRAME_BYTES: u32 = 1600;

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 47, 90, last).into()
}

/// Frames of a queue, once so many have come.
fn frames(queue: &mut dyn Queue, stack: &mut Stack, count: usize) -> Vec<Vec<u8>> {
    let (began, mut came) = (Instant::now(), Vec::new());
    while came.len() < count {
        assert!(began.elapsed() < PATIENCE, "{} of {count} came", came.len());
        came.extend(receive(queue, 0, stack, 64));
    }
    came
}

/// A frame as the path sends it by a link.
fn frame(inside: &[u8]) -> Vec<u8> {
    [&PEER[..], &OWN, &ethertype::NSH.to_be_bytes(), inside].concat()
}

/// The same as it arrives.
fn arrived(inside: &[u8]) -> Vec<u8> {
    [&OWN[..], &PEER, &ethertype::NSH.to_be_bytes(), inside].concat()
}

#[test]
fn what_leaves_at_one_end_arrives_at_the_other_and_untrusted_senders_are_not_heard() {
    let mut near = open(address(1), address(2), FRAME_BYTES).unwrap();
    let mut far = open(address(2), address(1), FRAME_BYTES).unwrap();
    let mut stack = stack(512);
    let free = stack.free().len();
    let inside: Vec<Vec<u8>> = (1..=100).map(|number: u8| vec![number; usize::from(number) * 3]).collect();
    let sent: Vec<Vec<u8>> = inside.iter().map(|inside| frame(inside)).collect();
    let packets = packets(&mut stack, &sent);
    assert_eq!(near.transmit(0, &mut stack, &packets), 100);
    // Right bytes from another port, and from another address.
    for from in [(address(1), 0), (address(3), PORT)] {
        let other = UdpSocket::bind(SocketAddr::from(from)).unwrap();
        other.send_to(&[&vxlan_gpe::header(4)[..], b"forged"].concat(), (address(2), PORT)).unwrap();
    }
    let expected: Vec<Vec<u8>> = inside.iter().map(|inside| arrived(inside)).collect();
    assert_eq!(frames(&mut *far, &mut stack, 100), expected);
    std::thread::sleep(Duration::from_millis(50));
    assert!(receive(&mut *far, 0, &mut stack, 64).is_empty());
    assert_eq!((near.counters().sent, far.counters().received, near.counters().failed), (100, 100, 0));
    assert_eq!(stack.free().len(), free, "all buffers are back");
}

#[test]
fn headers_that_are_none_of_ours_carry_nothing_and_what_is_too_long_is_lost() {
    let mut near = open(address(5), address(6), FRAME_BYTES).unwrap();
    let raw = UdpSocket::bind((address(6), PORT)).unwrap();
    let mut stack = stack(64);
    let free = stack.free().len();
    let longest = vec![7; FRAME_BYTES as usize - LINK];
    let datagrams: [Vec<u8>; 7] = [
        vec![],
        vec![0x0c],
        // Plain VXLAN, a frame, another version.
        [&[0x08, 0, 0, 0, 0, 0, 1, 0][..], b"x"].concat(),
        [&vxlan_gpe::header(3)[..], b"x"].concat(),
        [&[0x1c, 0, 0, 4, 0, 0, 0, 0][..], b"x"].concat(),
        [&vxlan_gpe::header(4)[..], &longest, b"x"].concat(),
        [&vxlan_gpe::header(4)[..], &longest].concat(),
    ];
    for datagram in &datagrams {
        raw.send_to(datagram, (address(5), PORT)).unwrap();
    }
    let came = frames(&mut *near, &mut stack, 6);
    assert!(came[..5].iter().all(|frame| *frame == arrived(&[])), "{came:?}");
    assert_eq!(came[5], arrived(&longest));
    assert_eq!(near.counters().too_long, 1);
    // Nobody there: what is sent is lost, and the queue goes on.
    drop(raw);
    for _ in 0..3 {
        let lost = packets(&mut stack, &[frame(b"lost")]);
        assert_eq!(near.transmit(0, &mut stack, &lost), 1);
        std::thread::sleep(Duration::from_millis(5));
        assert!(receive(&mut *near, 0, &mut stack, 8).is_empty());
    }
    // Shorter than its own header, as an NF may make it.
    let short = packets(&mut stack, &[frame(b"")]);
    assert_eq!(near.transmit(0, &mut stack, &short), 1);
    let counters = near.counters();
    assert!(counters.failed >= 1 && counters.failed + counters.sent == 4, "{counters:?}");
    assert_eq!(stack.free().len(), free);
}

#[test]
fn an_address_that_is_not_ours_is_refused_with_a_cure() {
    let refused = open(Ipv4Addr::new(192, 0, 2, 1).into(), address(1), FRAME_BYTES).err().unwrap();
    assert!(refused.to_string().contains("give the interface that address"), "{refused}");
}
