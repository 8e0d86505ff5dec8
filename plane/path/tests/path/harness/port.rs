//! A port in memory: hands out the frames it was given, and keeps those it was to send.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use headgate_port::{Queue, QueueCounters};
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_shm::{Descriptor, Stack};

/// The outside of a port.
#[derive(Default)]
pub struct Cable {
    /// Frames that will be received.
    pub incoming: VecDeque<Vec<u8>>,
    /// Frames that were sent.
    pub sent: Vec<Vec<u8>>,
    /// The most packets it takes at once; `None`: any number.
    pub room: Option<usize>,
    /// Whether it sends no long frames.
    pub refuses_long: bool,
    /// Sees the packets that it is to send, before it takes them.
    pub witness: Option<Witness>,
}

/// Sees packets on their way into a port.
pub type Witness = Box<dyn FnMut(&[Descriptor]) + Send>;

/// Its only queue. Like a driver, it keeps what it sends for a while: until the second `tend`.
pub struct TestQueue {
    cable: Arc<Mutex<Cable>>,
    region: Option<u8>,
    sending: [Vec<u32>; 2],
    counters: QueueCounters,
}

impl TestQueue {
    /// A queue that sends from one region only, or from any.
    pub fn new(cable: Arc<Mutex<Cable>>, region: Option<u8>) -> Self {
        Self { cable, region, sending: [Vec::new(), Vec::new()], counters: QueueCounters::default() }
    }
}

impl Queue for TestQueue {
    fn receive(&mut self, _now: u64, stack: &mut Stack, into: &mut [Descriptor]) -> usize {
        let mut cable = self.cable.lock().unwrap();
        let mut count = 0;
        while count < into.len() && !cable.incoming.is_empty() {
            let is_long = cable.incoming[0].len() > stack.region().geometry().frame_bytes_max() as usize;
            let index = if is_long { stack.take_long() } else { stack.take() };
            let Some(index) = index else { break };
            let frame = cable.incoming.pop_front().unwrap();
            stack.region().set_note(index, [7; 16], frame.len() as u64);
            stack.region().write(index, HEADROOM_BYTES, &frame);
            into[count] = Descriptor::new(index, HEADROOM_BYTES, frame.len() as u32, 0);
            count += 1;
        }
        self.counters.received += count as u64;
        count
    }

    fn transmit(&mut self, _now: u64, stack: &mut Stack, packets: &[Descriptor]) -> usize {
        let mut cable = self.cable.lock().unwrap();
        if let Some(witness) = &mut cable.witness {
            witness(packets);
        }
        let count = packets.len().min(cable.room.unwrap_or(usize::MAX));
        for packet in &packets[..count] {
            let mut frame = vec![0; packet.length() as usize];
            stack.region().read(*packet, &mut frame);
            let kept = stack.region().word(packet.index());
            assert!(kept.is_none_or(|word| word == frame.len() as u64), "what was kept belongs to another");
            cable.sent.push(frame);
            // Packets of other regions cannot wait for `tend`: it comes with the stack of one region.
            if self.region.is_some() {
                self.sending[0].push(packet.index());
            } else {
                stack.give(packet.index());
            }
        }
        self.counters.sent += count as u64;
        count
    }

    fn takes_long(&self) -> bool {
        !self.cable.lock().unwrap().refuses_long
    }

    fn tend(&mut self, _now: u64, stack: &mut Stack) {
        self.sending.swap(0, 1);
        for index in self.sending[0].drain(..) {
            stack.give(index);
        }
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn region(&self) -> Option<u8> {
        self.region
    }

    fn holds(&self) -> usize {
        self.sending.iter().map(Vec::len).sum()
    }
}
