//! Helpers for the tests of all ports.

pub mod conformance;
pub mod link;

use std::ops::Range;

use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};

use crate::{Queue, Setting, Timebase};

/// Cycles per second of the tests' clock, which only moves when told.
pub const HERTZ: u64 = 2_500_000_000;

/// Returns the setting of a port named `test`.
#[must_use]
pub fn setting(queues: u16) -> Setting<'static> {
    let timebase = Timebase { cycles_per_second: HERTZ, cycles: 1_000, unix_ns: 1_700_000_000_000_000_000 };
    let frame_bytes_max = conformance::FRAME_BYTES_MAX;
    Setting { name: "test", queues, source: 7, frame_bytes_max, timebase }
}

/// Returns a stack with all buffers of a new region, which hold what was never zero.
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn stack(buffers: u32) -> Stack {
    stack_of(buffers, 0, 0..buffers)
}

/// Returns a stack with some of the buffers of a new region of that number.
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn stack_of(buffers: u32, region: u8, free: Range<u32>) -> Stack {
    let geometry = Geometry::new(buffers, conformance::FRAME_BYTES_MAX).unwrap();
    let memory = Region::create("test", geometry, PagesWanted::Ordinary).unwrap();
    // What was in a buffer before must not matter.
    for index in free.clone() {
        memory.write(index, 0, &[0xa5; 2048]);
    }
    Stack::new(memory, region, free)
}

/// Returns a stack with all buffers of a new region that has long ones too.
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn stack_with_long(buffers: u32, long: u32) -> Stack {
    let geometry = Geometry::new(buffers, conformance::FRAME_BYTES_MAX).unwrap().with_long(long).unwrap();
    let memory = Region::create("test", geometry, PagesWanted::Ordinary).unwrap();
    Stack::new(memory, 0, geometry.all())
}

/// Returns a frame of `length` bytes, at least 19, of a protocol that nobody speaks, its number in its
/// payload and an end that is unlike the rest.
#[must_use]
pub fn numbered(number: usize, length: usize) -> Vec<u8> {
    // Local experimental EtherType 1 (IEEE 802).
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((number as u32).to_be_bytes());
    frame.resize(length - 1, number as u8);
    frame.push(!(number as u8));
    frame
}

/// Returns the bytes of a packet.
#[must_use]
pub fn frame(stack: &Stack, packet: Descriptor) -> Vec<u8> {
    let mut bytes = vec![0; packet.length() as usize];
    stack.region().read(packet, &mut bytes);
    bytes
}

/// One burst's frames; their buffers are free again.
pub fn receive(queue: &mut dyn Queue, now: u64, stack: &mut Stack, most: usize) -> Vec<Vec<u8>> {
    let free = stack.len();
    let mut burst = vec![Descriptor::default(); most];
    let count = queue.receive(now, stack, &mut burst);
    assert_eq!(stack.len(), free - count);
    let frames = burst[..count].iter().map(|packet| frame(stack, *packet)).collect();
    stack.give_many(burst[..count].iter().map(|packet| packet.index()));
    frames
}

/// Frames put into buffers.
pub fn packets(stack: &mut Stack, frames: &[Vec<u8>]) -> Vec<Descriptor> {
    let put = |frame: &Vec<u8>| {
        let index = stack.take().expect("a free buffer");
        stack.region().write(index, 128, frame);
        Descriptor::new(index, 128, frame.len() as u32, 0)
    };
    frames.iter().map(put).collect()
}
