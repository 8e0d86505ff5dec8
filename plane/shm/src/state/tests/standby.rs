//! A standby takes over, wherever the process before it died: state and packets are what the last returned
//! burst left.

use super::*;
use crate::descriptor::Descriptor;
use crate::memory::PagesWanted;
use crate::{Geometry, Region};

const FRAME: u32 = 61;

fn packet(number: u32) -> Descriptor {
    Descriptor::new(number, 64, FRAME, 0)
}

/// Returns memory that an NF works on, and its packets.
fn memory() -> (Memory, Region) {
    let region = Region::create("test", Geometry::new(PACKETS, 256).unwrap(), PagesWanted::Ordinary).unwrap();
    for number in 0..PACKETS {
        region.write(number, 64, &[number as u8 + 1; FRAME as usize]);
    }
    (create_for_standby("test", BYTES as u64).unwrap(), region)
}

fn attached(memory: &Memory) -> Memory {
    Memory::attach("test", memory.duplicate_file().unwrap(), PAGE_BYTES, true).unwrap()
}

fn frame(region: &Region, number: u32) -> Vec<u8> {
    let mut bytes = vec![0; FRAME as usize];
    region.read(packet(number), &mut bytes);
    bytes
}

/// Rewrites a packet by the total, so that doing it twice would show.
fn rewrite(nf: &Nf, region: &Region, number: u32) {
    nf.region.save_packet(packet(number), region);
    for at in 0..FRAME as usize {
        step();
        let byte = region.frame(number, 64 + at as u32, 1);
        // SAFETY: in a packet that only this thread has.
        unsafe { *byte = (*byte).wrapping_mul(3).wrapping_add(nf.read().total as u8) };
    }
}

fn work(nf: &Nf, region: &Region, base: u32, produced: &Cell<u32>) {
    while base + produced.get() < PACKETS {
        let first = base + produced.get();
        nf.region.begin(first);
        for number in first..(first + BURST).min(PACKETS) {
            nf.work(number);
            rewrite(nf, region, number);
        }
        step();
        produced.set(produced.get() + BURST); // The commit: one store.
    }
}

/// A standby goes; it dies after so many stores, if at all. Returns what it returned.
fn go_on(memory: &Memory, region: &Region, base: u32, dies_after: Option<u32>) -> u32 {
    let produced = Cell::new(0);
    let beside = StateRegion::attach_beside(attached(memory), BYTES as u64).unwrap();
    let [total, slots] = [TOTAL, SLOT].map(|wanted| beside.known_piece(wanted).unwrap().base.cast());
    let nf = Nf { region: beside, total, slots, planted: Planted::Nothing };
    death::after(dies_after, || {
        nf.region.take_over(base, region).unwrap();
        assert_eq!(nf.read(), Kept::after_all(base));
        for number in base..PACKETS {
            assert_eq!(frame(region, number), [number as u8 + 1; FRAME as usize], "packet {number}");
        }
        work(&nf, region, base, &produced);
    });
    produced.get()
}

fn run(deaths: [u32; 2]) -> (Kept, Vec<Vec<u8>>, bool) {
    let (memory, region) = memory();
    let produced = Cell::new(0);
    let (first, _) = StateRegion::attach(attached(&memory), BYTES as u64, 0).unwrap();
    let [total, slots] = [TOTAL, SLOT].map(|wanted| first.piece(wanted).unwrap().base.cast());
    let nf = Nf { region: first, total, slots, planted: Planted::Nothing };
    death::after(Some(deaths[0]), || work(&nf, &region, 0, &produced));
    let mut base = produced.get();
    let died = base < PACKETS;
    base += go_on(&memory, &region, base, Some(deaths[1]));
    base += go_on(&memory, &region, base, None);
    assert_eq!(base, PACKETS);
    (nf.read(), (0..PACKETS).map(|number| frame(&region, number)).collect(), died)
}

#[test]
fn packets_and_state_are_as_if_nobody_had_died() {
    let (state, packets, died) = run([u32::MAX, u32::MAX]);
    assert!(!died && state == Kept::after_all(PACKETS));
    let mut runs = 0;
    for first in (0..).step_by(7) {
        let mut any = false;
        for second in [0, 1, 2, 5, 30, 70, 140, 170, u32::MAX] {
            let (end, frames, died) = run([first, second]);
            assert_eq!((end, &frames), (state, &packets), "deaths after {first} and {second} stores");
            any |= died;
            runs += 1;
        }
        if !any {
            break;
        }
    }
    assert!(runs > 300, "{runs} runs");
}

/// Where the packets of the burst have ended, their buffers are others' by now.
#[test]
fn who_is_not_given_the_packets_again_leaves_them() {
    let (memory, region) = memory();
    let (first, _) = StateRegion::attach(attached(&memory), BYTES as u64, 0).unwrap();
    first.begin(0);
    first.save_packet(packet(0), &region);
    region.write(0, 64, &[9; FRAME as usize]);
    let (_, recovered) = StateRegion::attach(attached(&memory), BYTES as u64, 0).unwrap();
    assert_eq!((recovered.undone, recovered.forged), (1, None));
    assert_eq!(frame(&region, 0), [9; FRAME as usize]);
}

#[test]
fn a_forged_record_of_a_packet_is_refused() {
    for word in [packet(PACKETS).0, packet(0).with_extent(64, 1000).0, packet(0).with_extent(4000, 61).0] {
        let (memory, region) = memory();
        let (first, _) = StateRegion::attach(attached(&memory), BYTES as u64, 0).unwrap();
        first.begin(0);
        first.save_packet(packet(0), &region);
        // SAFETY: the first record of the log.
        unsafe { first.log().cast::<u64>().write_volatile(word) };
        let beside = StateRegion::attach_beside(attached(&memory), BYTES as u64).unwrap();
        assert_eq!(beside.take_over(0, &region), Err(ForgedError::Log));
    }
}

#[test]
fn a_standby_finds_no_piece_where_none_was_made() {
    let (memory, _) = memory();
    let beside = StateRegion::attach_beside(attached(&memory), BYTES as u64).unwrap();
    assert!(beside.known_piece(TOTAL).is_none());
    assert_eq!(beside.header().magic.load(Ordering::Relaxed), 0, "it wrote nothing");
}
