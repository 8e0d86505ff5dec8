//! Several queues on one interface, each for frames of its own.

use headgate_kernel::interface::{Frames, Kind};

use super::*;

#[test]
fn queues_that_share_an_interface_get_each_its_own_frames() {
    const TYPE: u16 = 0x88b5;
    inside("queues_that_share_an_interface_get_each_its_own_frames", |namespace| {
        cable(namespace, "near", "far", 1500);
        let kind = |word| Kind::SocketsFor(Frames { ethertype: TYPE, word });
        let mut stack = stack(256);
        let mut queues = [Some((4, 7)), Some((4, 8)), None].map(|word| port_for("near", kind(word)).0);
        let sender = sender("far");
        // With a word of one, of the other, of neither, too short for any, and of another type.
        let frame =
            |ethertype: u16, bytes: &[u8]| [&[0; 10][..], &[2; 12], &ethertype.to_be_bytes(), bytes].concat();
        let with = |word: u16, number: u8| [&[9; 4][..], &word.to_be_bytes(), &[number; 50]].concat();
        for number in 0..20 {
            send(&sender, &frame(TYPE, &with(7, number)));
            send(&sender, &frame(TYPE, &with(8, number)));
            send(&sender, &frame(TYPE, &with(9, number)));
            send(&sender, &frame(TYPE, &[]));
            send(&sender, &frame(0x88b6, &with(7, number)));
        }
        let [one, other, all] = &mut queues;
        assert_eq!(take(&mut **all, &mut stack, 80).len(), 80);
        for (queue, word) in [(one, 7), (other, 8)] {
            let came = take(&mut **queue, &mut stack, 20);
            let expected: Vec<_> =
                (0..20).map(|number| frame(TYPE, &with(word, number))[10..].to_vec()).collect();
            assert_eq!(came, expected);
            assert_eq!(receive(&mut **queue, 0, &mut stack, 128), Vec::<Vec<u8>>::new(), "no more");
        }
    });
}
