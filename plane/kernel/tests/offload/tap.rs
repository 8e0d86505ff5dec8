//! TAPs: interfaces whose cable ends in this process. What Linux sends there it has not cut yet, and it takes
//! what is not cut.

use std::time::{Duration, Instant};

use headgate_host::network::{Links, Offload};
use headgate_kernel::interface::{self, Kind, State, Terms, Watch};
use headgate_kernel::open::OpenError;
use headgate_port::Queue;
use headgate_port::testing::{packets, stack, stack_with_long};

use crate::long::take_one;
use crate::{PATIENCE, SHAPES, by_linux, cable, find_no_fault, inside, long, port, send, sender, take};

fn try_tap(name: &str) -> Result<(Box<dyn Queue>, Watch), OpenError> {
    let name = name.to_owned();
    interface::open(Terms { name, kind: Kind::Tap, waiting: 0, frame_bytes: 2048, joins: true })
}

/// A TAP of whose own the kernel says nothing by IPv6.
fn tap(name: &str) -> (Box<dyn Queue>, Watch) {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    try_tap(name).unwrap()
}

#[test]
fn what_linux_sends_on_a_tap_comes_whole_or_cut_and_leaves_by_one() {
    inside("what_linux_sends_on_a_tap_comes_whole_or_cut_and_leaves_by_one", |namespace| {
        const VIRTIO: usize = 10;
        cable(namespace, "plain-in", "plain-out", 1500);
        Links::here().unwrap().set_offload("plain-out", Offload::TransmitChecksum, false).unwrap();
        let ((mut queue, watch), (mut exit, _)) = (tap("near"), tap("beyond"));
        assert_eq!(watch.state(), State::Up);
        let (mut far, _) = port("beyond");
        let (mut whole, mut small, socket) = (stack_with_long(64, 2), stack(128), sender("near"));
        let mut all = Vec::new();
        for shape in SHAPES {
            let segments = by_linux(shape);
            watch.keep_long(true);
            send(&socket, &long(shape));
            let packet = take_one(&mut *queue, &mut whole);
            assert!(whole.region().geometry().is_long(packet.index()), "{shape:?}");
            assert_eq!(headgate_port::testing::frame(&whole, packet), long(shape)[VIRTIO..], "{shape:?}");
            // Out of the other TAP, as it is: its reader there cuts it.
            assert_eq!(exit.transmit(0, &mut whole, &[packet]), 1);
            assert_eq!(take(&mut *far, &mut small, segments.len()), segments, "{shape:?}");
            // The same cut at the entrance; joined and taken apart again where it is TCP.
            watch.keep_long(false);
            send(&socket, &long(shape));
            let cut = take(&mut *queue, &mut small, segments.len());
            assert_eq!(cut, segments, "{shape:?}");
            let sent = packets(&mut small, &cut);
            assert_eq!(exit.transmit(0, &mut small, &sent), cut.len());
            assert_eq!(take(&mut *far, &mut small, cut.len()), segments, "{shape:?}");
            all.extend(cut);
        }
        let (came, left) = (queue.counters(), exit.counters());
        assert_eq!((came.bad_offload, came.too_long, came.missed), (0, 0, 0));
        assert_eq!((left.bad_offload, left.failed), (0, 0));
        find_no_fault(&all);
    });
}

/// Somebody else's TAP stays as it is set: without offloads the kernel cuts.
#[test]
fn a_tap_without_offloads_gives_segments() {
    inside("a_tap_without_offloads_gives_segments", |namespace| {
        cable(namespace, "plain-in", "plain-out", 1500);
        Links::here().unwrap().set_offload("plain-out", Offload::TransmitChecksum, false).unwrap();
        // Where long frames may stay whole, segments would be merged to such.
        let (mut queue, _) = tap("near");
        Links::here().unwrap().set_offload("near", Offload::TransmitChecksum, false).unwrap();
        let mut stack = stack_with_long(128, 2);
        for shape in SHAPES {
            send(&sender("near"), &long(shape));
            let segments = by_linux(shape);
            assert_eq!(take(&mut *queue, &mut stack, segments.len()), segments, "{shape:?}");
        }
        assert_eq!((stack.long_len(), queue.counters().bad_offload), (2, 0));
    });
}

#[test]
fn a_tap_that_cannot_be_had_is_named_with_its_cure() {
    inside("a_tap_that_cannot_be_had_is_named_with_its_cure", |namespace| {
        cable(namespace, "cable", "far", 1500);
        let first = tap("near");
        for (name, cure) in [("near", "taken by another program"), ("cable", "`interface = \"cable\"`")] {
            let why = try_tap(name).err().expect("it cannot be had").to_string();
            assert!(why.contains(name) && why.contains(cure), "{why}");
        }
        // What was made for a port goes with it, and can be had again.
        drop(first);
        assert!(Links::here().unwrap().find("near").is_err());
        drop(tap("near"));
    });
}

#[test]
fn a_tap_that_was_deleted_is_made_again() {
    inside("a_tap_that_was_deleted_is_made_again", |_| {
        let (mut queue, mut watch) = tap("near");
        let mut stack = stack(64);
        let mut told = |watch: &mut Watch, state| {
            let end = Instant::now() + PATIENCE;
            while watch.poll() != Some(state) {
                assert!(Instant::now() < end, "it is {:?}, not {state:?}", watch.state());
                std::thread::sleep(Duration::from_millis(1));
            }
            queue.tend(0, &mut stack);
            let lost = packets(&mut stack, &[vec![2; 60]]);
            let before = queue.counters();
            assert_eq!(queue.transmit(0, &mut stack, &lost), 1);
            let now = queue.counters();
            (now.sent - before.sent, now.failed - before.failed)
        };
        Links::here().unwrap().set_down("near").unwrap();
        assert_eq!(told(&mut watch, State::Down), (0, 1));
        Links::here().unwrap().set_up("near").unwrap();
        assert_eq!(told(&mut watch, State::Up), (1, 0));
        Links::here().unwrap().delete("near").unwrap();
        assert_eq!(told(&mut watch, State::Gone), (0, 1));
        assert_eq!(told(&mut watch, State::Up), (1, 0));
        assert!(Links::here().unwrap().find("near").is_ok());
    });
}
