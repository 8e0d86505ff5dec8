use super::*;
use headgate_shm::descriptor::OFFSET_MAX;
use headgate_shm::geometry::FRAME_BYTES_MAX;
use headgate_shm::{Geometry, PagesWanted};
use proptest::prelude::*;

use crate::packet::NoRoomError;

fn region() -> Region {
    let geometry = Geometry::new(BURST_MAX as u32, 2048).unwrap();
    Region::create("test", geometry, PagesWanted::Ordinary).unwrap()
}

fn burst_of(region: &Region, count: usize) -> Burst {
    let mut burst = Burst::new(region.clone());
    let packets: Vec<_> =
        (0..count).map(|index| Descriptor::new(index as u32, 128, 60, index as u32 % 7)).collect();
    burst.load(&packets);
    burst
}

#[test]
fn every_packet_is_seen_once_with_its_port() {
    let region = region();
    for count in [0, 1, 2, 63, 64] {
        let mut burst = burst_of(&region, count);
        assert_eq!((burst.len(), burst.is_empty()), (count, count == 0));
        let ports: Vec<_> = burst.packets().map(|packet| packet.ingress().number()).collect();
        assert_eq!(ports, (0..count).map(|index| index as u16 % 7).collect::<Vec<_>>());
        assert!(burst.decided().iter().all(|packet| packet.verdict() == Verdict::Next));
    }
}

proptest! {
    /// The next NF of a fused process sees exactly the packets without another verdict, in order.
    #[test]
    fn decided_packets_are_hidden(drops in prop::collection::vec(any::<bool>(), 0..=BURST_MAX)) {
        let region = region();
        let mut burst = burst_of(&region, drops.len());
        for (mut packet, drop) in burst.packets().zip(&drops) {
            if *drop {
                packet.discard();
            }
        }
        let left = drops.iter().filter(|drop| !**drop).count();
        prop_assert_eq!(burst.hide_decided(), left > 0);
        prop_assert_eq!(burst.len(), left);
        burst.send_all_to(Port(3));
        for (packet, drop) in burst.decided().iter().zip(&drops) {
            prop_assert_eq!(packet.verdict(), if *drop { Verdict::Drop } else { Verdict::Port(3) });
        }
    }

    /// Whatever is grown and trimmed, the frame stays in its buffer, keeps its bytes, and is one the manager
    /// accepts.
    #[test]
    fn a_packet_never_leaves_its_buffer(steps in prop::collection::vec((0..4, 0usize..3000), 0..40)) {
        let region = region();
        let mut burst = burst_of(&region, 1);
        let mut packet = burst.packets().next().unwrap();
        packet.data_mut().fill(7);
        let mut model = packet.data().to_vec();
        for (kind, bytes) in steps {
            let before = (packet.headroom(), packet.tailroom());
            let done = match kind {
                0 => packet.prepend(bytes).map(|new| new.fill(1)).map(|()| drop(model.splice(..0, vec![1; bytes]))),
                1 => packet.extend_back(bytes).map(|new| new.fill(2)).map(|()| model.extend(vec![2; bytes])),
                2 => packet.trim_front(bytes).map(|()| drop(model.drain(..bytes))),
                _ => packet.trim_back(bytes).map(|()| model.truncate(model.len() - bytes)),
            };
            if let Err(NoRoomError { asked, room }) = done {
                prop_assert!(asked > room);
                prop_assert_eq!(before, (packet.headroom(), packet.tailroom()));
            }
            prop_assert_eq!(packet.data(), model.as_slice());
        }
        prop_assert_eq!(region.geometry().check(burst.decided()[0]), Ok(()));
    }
}

#[test]
fn a_frame_starts_and_ends_where_a_descriptor_can_say_so() {
    let geometry = Geometry::new(1, FRAME_BYTES_MAX).unwrap();
    let region = Region::create("test", geometry, PagesWanted::Ordinary).unwrap();
    let mut burst = Burst::new(region);
    burst.load(&[Descriptor::new(0, 128, FRAME_BYTES_MAX, 0)]);
    let mut packet = burst.packets().next().unwrap();
    let behind = geometry.stride() - 128 - FRAME_BYTES_MAX;
    assert_eq!((packet.headroom(), packet.tailroom()), (128, behind as usize));
    let room = (OFFSET_MAX - 128) as usize;
    assert_eq!(packet.trim_front(5000), Err(NoRoomError { asked: 5000, room }));
    packet.trim_front(room).unwrap();
    assert_eq!(packet.trim_front(1), Err(NoRoomError { asked: 1, room: 0 }));
}
