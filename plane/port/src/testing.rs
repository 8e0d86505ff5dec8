//! What the tests of all ports need.

use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};

use crate::{Queue, Setting, Timebase};

/// Cycles per second of the tests' clock, which only moves when told.
pub const HERTZ: u64 = 2_500_000_000;

/// Returns the setting of a port named `test`.
#[must_use]
pub fn setting(queues: u16) -> Setting<'static> {
    let timebase = Timebase { cycles_per_second: HERTZ, cycles: 1_000, unix_ns: 1_700_000_000_000_000_000 };
    Setting { name: "test", queues, source: 7, frame_bytes_max: 2048, timebase }
}

/// Returns a stack with all buffers of a new region, which hold what was never zero.
///
/// # Panics
/// When there is no memory.
#[must_use]
pub fn stack(buffers: u32) -> Stack {
    let geometry = Geometry::new(buffers, 2048).unwrap();
    let region = Region::create("test", geometry, PagesWanted::Ordinary).unwrap();
    // What was in a buffer before must not matter.
    for index in 0..buffers {
        region.write(index, 0, &[0xa5; 2048]);
    }
    Stack::new(region, 0, 0..buffers)
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
