//! Headers that nobody sends who means well, and paths that lead in a circle.

use headgate_path::plan::Exit;
use headgate_units::PortId;
use headgate_wire::nsh::Base;
use proptest::prelude::*;

use super::{CONTEXT, LINK, OWN, PATH, behind, delivered, end_of, ends_here, goes_on, link, of_type_1, path};
use crate::harness::World;
use crate::harness::frames::{malformed, udp4};

#[test]
fn every_wrong_header_ends_with_its_reason() {
    let mut world = World::new(ends_here().default_chain(1));
    let frame = udp4(1, 0);
    let good = of_type_1(255, &frame);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let cases = [
        (None, good.clone()),
        (Some("nsh-version"), changed(&|bytes| bytes[14] |= 0x80)),
        (Some("nsh-malformed"), changed(&|bytes| bytes[15] += 1)),
        (Some("nsh-malformed"), changed(&|bytes| bytes[16] = 0)),
        (Some("nsh-malformed"), changed(&|bytes| bytes[16] = 2)),
        (Some("nsh-malformed"), good[..14].to_vec()),
        (Some("nsh-malformed"), good[..20].to_vec()),
        (Some("nsh-malformed"), good[..37].to_vec()),
        (Some("nsh-malformed"), good[..38].to_vec()),
        (Some("nsh-malformed"), good[..51].to_vec()),
        (Some("nsh-protocol"), changed(&|bytes| bytes[17] = 4)),
        (Some("nsh-protocol"), changed(&|bytes| bytes[17] = 0)),
        (Some("nsh-protocol"), changed(&|bytes| bytes[14] |= 0x20)),
        (Some("nsh-no-chain"), changed(&|bytes| bytes[18] ^= 1)),
        (Some("nsh-no-chain"), changed(&|bytes| bytes[18..21].fill(0))),
        (Some("nsh-index"), of_type_1(251, &frame)),
        (Some("nsh-index"), of_type_1(0, &frame)),
        (Some("nsh-ttl"), behind(Base::of_type_1().with_ttl(1), path(255), &CONTEXT.to_bytes(), &frame)),
        (Some("malformed"), of_type_1(255, &malformed(1, 0))),
        // An IPv4 packet of which nothing is there.
        (
            Some("malformed"),
            behind(Base::of_type_1().with_next_protocol(1), path(255), &CONTEXT.to_bytes(), &[]),
        ),
    ];
    for (expected, frame) in cases {
        assert_eq!(end_of(&mut world, &frame), expected, "{frame:02x?}");
    }
    assert_eq!((world.left(1), world.entered(0)), (1, 19));
    world.finish();
}

/// A next hop that sends everything back: the TTL ends it, after as many rounds as it allows.
#[test]
fn a_loop_ends() {
    let mut world = World::new(goes_on());
    world.offer(0, &[udp4(1, 0)]);
    world.settle();
    let mut rounds = 0;
    while let Some(mut frame) = world.sent(1).pop() {
        frame[..6].copy_from_slice(&OWN.0);
        world.offer(0, &[frame]);
        world.settle();
        rounds += 1;
        assert!(rounds < 100, "it goes round for ever");
    }
    assert_eq!((rounds, world.drops(0)), (63, [("nsh-ttl", 1)].into()));
    assert_eq!(delivered(&world), [1; 3], "no stage twice");
    world.finish();
}

proptest! {
    /// Any bytes behind the Ethernet header of a port: they enter or end, and the accounts hold.
    #[test]
    fn any_bytes_enter_or_end(
        mut frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..280), 1..30),
        sound in any::<u32>(),
    ) {
        let layout = goes_on().service_tunnel(0, &LINK, PATH, 0).chain(&[1], Exit::Port(PortId(0)));
        let mut world = World::new(layout.on_path(1, 255));
        let mut offered = Vec::new();
        for (at, bytes) in frames.iter_mut().enumerate() {
            if sound >> (at % 32) & 1 == 1 && bytes.len() > 8 {
                bytes[0] &= 0x1f;
                bytes[1] = bytes[1] & 0xc0 | 6;
                bytes[2] = bytes[2] & 0xf0 | 1;
                bytes[3] %= 4;
                bytes[4..8].copy_from_slice(&path(255 - (at as u8) % 6).bits().to_be_bytes());
            }
            offered.push([&link(OWN)[..], bytes].concat());
        }
        world.offer(0, &offered);
        world.settle();
        world.check();
        prop_assert_eq!(world.entered(0) + world.entered(1) + world.entered(2), offered.len() as u64);
        prop_assert_eq!(world.sent(1).len() as u64, world.left(1));
        world.finish();
    }
}
