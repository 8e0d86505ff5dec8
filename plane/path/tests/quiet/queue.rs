//! A port that never runs dry and remembers nothing.

use headgate_port::{Queue, QueueCounters};
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack};

/// Packets given in one pass: few, so that a debug build makes many passes.
const PER_PASS: usize = 8;
/// Offset of the end of the IPv4 source address in a plain frame.
const SOURCE_END: usize = 30;

/// Hands out copies of its templates, one after the other. One in eight comes from a new address.
pub struct Endless {
    templates: Vec<Vec<u8>>,
    region: Option<u8>,
    next: usize,
    counters: QueueCounters,
}

impl Endless {
    pub fn new(templates: Vec<Vec<u8>>, region: Option<u8>) -> Self {
        Self { templates, region, next: 0, counters: QueueCounters::default() }
    }
}

impl Queue for Endless {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        if self.templates.is_empty() {
            return 0;
        }
        let mut count = 0;
        for slot in &mut into[..PER_PASS] {
            let Some(index) = stack.take() else { break };
            let place = self.next % self.templates.len();
            let frame = &mut self.templates[place];
            if place == 0 && self.next.is_multiple_of(8) {
                let address = (self.next as u16).to_be_bytes();
                frame[SOURCE_END - 2..SOURCE_END].copy_from_slice(&address);
            }
            stack.region().write(index, HEADROOM_BYTES, frame);
            *slot = Descriptor::new(index, HEADROOM_BYTES, frame.len() as u32, 0);
            self.next += 1;
            count += 1;
        }
        self.counters.received += count as u64;
        count
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        packets.iter().for_each(|packet| stack.give(packet.index()));
        self.counters.sent += packets.len() as u64;
        packets.len()
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn region(&self) -> Option<u8> {
        self.region
    }
}
